"""Parameters that mechanisms share are accepted, rejected and written in the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from inspect import signature

import numpy as np
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.errors import large, nearest_name
from scumble.model.parameters import free_name, one_of, whole
from scumble.private.mechanism import Mechanism, create, mechanisms
from tests.support.people import JOBS, people, schema

WHOLE = {
    "alphabeta": lambda number: sc.AlphaBeta(k=5, gamma=0.5, views=number),
    "anatomy": lambda number: sc.Anatomy(l=number),
    "aroma": lambda number: sc.Aroma(k=number),
    "generalise": lambda number: sc.Generalise(k=number),
    "subset": lambda number: sc.Subset(epsilon=1, size=number),
}


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_numpy_integers_are_whole_numbers(make: Callable[[object], Mechanism]) -> None:
    for number in (np.int64(3), np.uint8(3)):
        made = make(number)
        assert repr(made) == repr(make(3))
        assert json.loads(json.dumps(made.parameters)) == make(3).parameters
    for strange in (3.0, np.float64(3), True, np.True_, "3", None, Fraction(3)):
        if strange is not None or make is not WHOLE["subset"]:
            with pytest.raises(sc.ParameterError):
                make(strange)


def test_parameters_make_the_same_mechanism_again(subtests: pytest.Subtests) -> None:
    """Through JSON and back: exact numbers stay exact."""
    for made in [
        sc.Uniform(epsilon=Fraction(1, 3)),
        sc.Uniform(keep=np.float32(0.5)),
        sc.Subset(rho1=Fraction(1, 30), rho2=0.5),
        sc.Frapp(rho1=Fraction(1, 30), rho2=np.float32(0.5)),
        sc.Frapp(reading="published", k=np.float32(1.5), gamma=Fraction(1, 3)),
        sc.AlphaBeta(
            epsilon=np.float32(1.5), keep=Fraction(1, 3), sources={"sex": [Fraction(1, 3), 2]}
        ),
        sc.Partition(rho1=Fraction(1, 30), rho2=np.float64(0.5), confidence=Fraction(2, 3)),
        sc.Generalise(k=3, l=2, t=Fraction(1, 3), alpha=np.float64(0.5), weights={"age": 2}),
        sc.Generalise(k=3, l=2, diversity="recursive", c=Fraction(7, 3)),
        sc.Aroma(k=9, closeness=Fraction(7, 2)),
        sc.Aroma(epsilon=np.float64(1), f=Fraction(1, 3)),
    ]:
        with subtests.test(made=made):
            written = json.loads(json.dumps(made.parameters))
            again = create(made.name, **written)
            assert again.parameters == made.parameters
            assert again.guarantee(schema()) == made.guarantee(schema())


def test_sentences() -> None:
    with pytest.raises(sc.ParameterError, match="either a, or b with c"):
        one_of("M", {"a": 1, "b": 2, "c": None}, "a", "b with c")
    with pytest.raises(sc.ParameterError, match="exactly one of a, b, or c"):
        one_of("M", {"a": None}, "a", "b", "c")
    assert one_of("M", {"a": None, "b": 0, "c": 1}, "a", "b with c") == {"b": 0, "c": 1}
    with pytest.raises(sc.ParameterError, match="from 2 to 5"):
        whole("M", "a", 6, least=2, most=5)


def test_a_free_name_is_no_other_column_in_any_case() -> None:
    assert free_name("part", ["age"]) == "part"
    assert free_name("part", ["Part", "PART_2"]) == "part_3"


TAKEN = {
    "anatomy": (sc.Anatomy(l=2), ["Group", "count"], ["group_2", "count_2"]),
    "generalise": (sc.Generalise(k=3), ["Age Group"], ["age group_2"]),
    "partition": (sc.Partition(rho1=0.3, rho2=0.6), ["Part"], ["part_2"]),
    "subset": (sc.Subset(epsilon=1, size=2), ["Job=Cook"], ["job=cook_2"]),
    "aroma, counts": (sc.Aroma(k=9), ["JOB=cook", "job=cook_2"], ["job=cook_3"]),
    "aroma, codes": (sc.Aroma(k=3), ["job 1"], ["job 1_2", "job 2", "job 3"]),
    "histogram": (
        sc.Histogram(["Count", "job"], epsilon=1, neighbours="replace"),
        ["Count"],
        ["count_2"],
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_name_that_is_taken(case: str, tmp_path) -> None:
    """The release has another column in its place, and answers as ever. Bags are published as codes
    where there are many values.
    """
    mechanism, taken, instead = TAKEN[case]
    jobs = (*JOBS, *(f"other {place}" for place in range(15 if "codes" in case else 0)))
    extra = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 3)) for name in taken]
    domain = sc.Schema([*schema(jobs=jobs), *extra])
    private = people(400, domain)
    made = sc.publish(private, domain, mechanism, options=sc.PublishOptions(seed=1))
    release = sc.open(made.save(tmp_path / "view", insecure=True))
    files = [pq.read_schema(release.folder / name).names for name in release.evidence.files]
    assert set(instead) <= {name for names in files for name in names}
    question = f"SELECT COUNT(*) FROM t WHERE job = 'cook' AND \"{taken[0]}\" < 2"
    low, high = release.answer(question).interval(0.999999)
    jobs, others = private["job"].to_pylist(), private[taken[0]].to_pylist()
    truth = sum(j == "cook" and other < 2 for j, other in zip(jobs, others, strict=True))
    assert low <= truth <= high


def test_the_nearest_name_is_a_slip_or_a_part_away(subtests: pytest.Subtests) -> None:
    for word, known, meant in [
        ("Agee", ["Gender", "AgeInYearsAtScreening"], "AgeInYearsAtScreening"),
        ("coun", ["round", "count", "countdown"], "count"),
        ("rand", ["rpad", "random"], "random"),
        ("--epsilonn", ["--epsilon", "--json", "--person"], "--epsilon"),
        ("unifrom", ["uniform", "subset"], "uniform"),
        ("DIABETES", ["Gender", "ToldYouHaveDiabetes"], "ToldYouHaveDiabetes"),
        ("told", ["EverTold", "DoctorTold"], None),  # either of them
        ("x", ["y", "z"], None),
        ("height", ["weight", "region"], "weight"),
        ("income", ["region", "person"], None),
    ]:
        with subtests.test(word=word, known=known, meant=meant):
            assert nearest_name(word, known) == meant


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (999, "999"),
        (4_480, "4,480"),
        (75_123_456, "75,100,000"),
        (Fraction(7, 2) * 10**7, "35,000,000"),
        (4 * 10**18, "4e+18"),
    ],
)
def test_large_numbers_of_a_sentence_are_written_alike(number: int, shown: str) -> None:
    assert large(number) == shown


def _needs_a_parameter(kind: type[Mechanism]) -> bool:
    return any(each.default is each.empty for each in signature(kind).parameters.values())


def test_a_parameter_that_is_left_out_is_named_with_its_mechanism(
    subtests: pytest.Subtests,
) -> None:
    for kind in [*filter(_needs_a_parameter, mechanisms().values())]:
        with subtests.test(kind=kind):
            with pytest.raises(TypeError) as caught:
                kind()
            assert str(caught.value).startswith(f"{kind.__name__}.__init__() missing ")


@pytest.mark.parametrize(("contribution", "are"), [(1, "one row is"), (3, "3 rows are")])
def test_a_limit_of_one_row_is_singular(contribution: int, are: str) -> None:
    known = sc.Schema((*schema(), sc.Attribute("who", "identifier")))
    mechanism = sc.Histogram(
        ["job"], epsilon=1, neighbours="replace", contribution=contribution, person="who"
    )
    [guarantee] = mechanism.guarantee(known)
    assert f"Of each person at most {are} counted" in " ".join(guarantee.limits)
