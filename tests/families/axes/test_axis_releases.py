"""What hierarchy and wavelet promise and say of their errors, both by exact enumeration and by
running them.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.public.estimation.measurements.readings import NoisyTotal, Weights, WeightTensor
from tests.support.mechanisms.axis_tables import (
    changes,
    domain,
    exact_loss,
    measured,
    readers,
    z_scores,
)
from tests.support.people import people, schema

JOBS = [["cook", "driver"], ["nurse", ["smith", "teacher"]]]


def _make(kind: str, attributes, **given) -> sc.Hierarchy | sc.Wavelet | sc.Dyadic:
    given = {"epsilon": 1, "neighbours": "replace"} | given
    if kind == "dyadic":  # it has no pure ε
        return sc.Dyadic(attributes, **{**given, "delta": given.get("delta") or 1e-5})
    if kind == "wavelet":
        return sc.Wavelet(attributes, transform="all", **given)
    return sc.Hierarchy(attributes, fanout=2, **given)


KINDS = {
    "hierarchy": {"kind": "hierarchy"},
    "hierarchy with root": {"kind": "hierarchy", "root": True},
    "hierarchy with optimal budget": {"kind": "hierarchy", "budget": "optimal"},
    "wavelet": {"kind": "wavelet"},
    "dyadic": {"kind": "dyadic"},
}
every = pytest.mark.parametrize("how", KINDS)
noises = pytest.mark.parametrize("delta", [None, 1e-5])


@every
@noises
def test_no_neighbours_are_further_apart_than_promised(
    how, delta, subtests: pytest.Subtests
) -> None:
    """All pairs of neighbouring tables on tiny domains, of one and two attributes."""
    for neighbours, rows in product(["replace", "add_remove"], [1, 2]):
        with subtests.test(neighbours=neighbours, rows=rows):
            for sizes in ({"a": 5}, {"a": 3, "b": 2}):
                chosen = domain(**sizes)
                mechanism = _make(
                    **KINDS[how], attributes=list(sizes), delta=delta, neighbours=neighbours,
                    contribution=rows,
                )  # fmt: skip
                design = mechanism.design(chosen)
                losses = [
                    exact_loss(design, each)
                    for each in changes(chosen.size(list(sizes)), neighbours, rows)
                ]
                promise = mechanism.promise
                assert max(losses) <= (promise.epsilon or promise.rho)
                if neighbours == "add_remove":  # there the bound is reached: no noise is wasted
                    assert max(losses) == (promise.epsilon or promise.rho)


@noises
def test_no_neighbours_with_a_taxonomy_are_further_apart(delta, subtests: pytest.Subtests) -> None:
    for neighbours, kind in product(["replace", "add_remove"], ["hierarchy", "wavelet"]):
        with subtests.test(neighbours=neighbours, kind=kind):
            chosen = schema().select(["job", "sex"])
            mechanism = _make(
                kind, ["job", "sex"], delta=delta, neighbours=neighbours, taxonomy={"job": JOBS}
            )
            design = mechanism.design(chosen)
            losses = [exact_loss(design, each) for each in changes(10, neighbours, 1)]
            promise = mechanism.promise
            assert max(losses) <= (promise.epsilon or promise.rho)
            if delta is None and neighbours == "add_remove":
                assert max(losses) == promise.epsilon


@pytest.mark.parametrize("kind", ["hierarchy", "wavelet"])
def test_exact_epsilon_by_enumeration(kind: str) -> None:
    """Three cells: over all outputs within reach, the largest ratio of probabilities between
    neighbouring tables is e^ε, and no output has a larger one.
    """
    mechanism = _make(kind, ["a"], epsilon=2, neighbours="add_remove")
    design = mechanism.design(domain(a=3))
    tables = [np.zeros(3, np.int64), *np.eye(3, dtype=np.int64)]
    means = [np.concatenate(design.apply(counts)) for counts in tables]
    lengths = [len(group) for group in design.apply(tables[0])]
    laws = [law for law, n in zip(design.laws, lengths, strict=True) for _ in range(n)]
    reach = range(-3, 4)
    logs = [{k: log(law.pmf(k)) for k in range(-5, 6)} for law in laws]

    def ratio(output, one, other) -> float:
        return sum(
            own[y - int(a)] - own[y - int(b)]
            for own, y, a, b in zip(logs, output, one, other, strict=True)
        )

    worst = max(
        abs(ratio(output, means[0], means[other]))
        for output in itertools.product(reach, repeat=len(laws))
        for other in (1, 2, 3)
    )
    assert worst == pytest.approx(2, rel=1e-9)


@every
@noises
def test_all_of_the_promise_is_charged_and_no_more(how, delta) -> None:
    chosen = domain(a=5, b=4)
    mechanism = _make(**KINDS[how], attributes=["a", "b"], delta=delta)
    _, account = measured(mechanism, chosen, np.zeros(20, np.int64), seed=1)
    assert account.left == 0


@every
@noises
def test_the_noise_has_the_variance_that_is_said(how, delta) -> None:
    """Six runs on tables of many cells: the numbers minus what they count have the variance of
    their law in every group of 2000 or more. False alarms: below 1e-6, by six standard errors;
    noise of half the scale has a quarter of the variance, which is some twenty of them away.
    """
    chosen = domain(a=64, b=16)
    counts = np.random.default_rng(1).integers(0, 1000, 64 * 16)
    mechanism = _make(**KINDS[how], attributes=["a", "b"], delta=delta)
    design = mechanism.design(chosen)
    truth = np.concatenate(design.apply(counts))
    noises = []
    for seed in range(6):
        reader, _ = measured(mechanism, chosen, counts, seed)
        noises.append(design.split(reader._numbers - truth))
    for law, *groups in zip(design.laws, *noises, strict=True):
        noise = np.concatenate(groups).astype(float)
        if len(noise) < 2000:
            continue
        spread = np.sqrt((law.fourth + 2 * law.variance**2) / len(noise))
        assert abs((noise**2).mean() - law.variance) < 6 * spread
        assert abs(noise.mean()) < 6 * np.sqrt(law.variance / len(noise))


@every
@noises
def test_points_ranges_and_boxes_are_unbiased_and_covered(how, delta) -> None:
    """400 runs: the mean error within 5.5 standard errors of 0, that of its square within 7, and
    95 % intervals that cover at least 88 %. False alarms: below 1e-6 each. Noise of half the scale
    has a quarter of the variance, which is further away than that.
    """
    chosen, runs = domain(a=11, b=6), 400
    counts = np.random.default_rng(2).integers(0, 40, 66)
    mechanism = _make(**KINDS[how], attributes=["a", "b"], delta=delta)
    one, band = np.eye(11)[3], np.repeat([0.0, 1, 0], [2, 7, 2])
    other, few = np.eye(6)[2], np.repeat([0.0, 1, 0], [1, 3, 2])
    asked = {
        "point": Weights((WeightTensor(("a",), one), WeightTensor(("b",), other))),
        "range": Weights((WeightTensor(("a",), band),)),
        "box": Weights((WeightTensor(("a",), band), WeightTensor(("b",), few))),
        "tied": Weights((WeightTensor(("a", "b"), np.tri(11, 6)),)),
    }
    whole = [np.outer(one, other), np.outer(band, np.ones(6)), np.outer(band, few), np.tri(11, 6)]
    found = list(readers(mechanism, chosen, counts, runs))
    estimates = np.array([reader.cells.reshape(-1) for reader in found])
    for (name, weights), tensor in zip(asked.items(), whole, strict=True):
        error = (estimates - counts) @ tensor.reshape(-1)
        reading = found[0].read(weights)
        assert reading.value == pytest.approx(estimates[0] @ tensor.reshape(-1))
        assert abs(error.mean()) < 5.5 * np.sqrt(reading.variance / runs), name
        spread = np.sqrt((reading.fourth + 2 * reading.variance**2) / runs)
        assert abs((error**2).mean() - reading.variance) < 7 * spread, name
        _, half = NoisyTotal(reading).interval(0, 0.95)
        assert (np.abs(error) <= half).mean() > 0.88, name


QUESTIONS = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 7",
    "SELECT COUNT(*) FROM t WHERE age > 2 AND job IN ('nurse', 'smith')",
    "SELECT SUM(age) FROM t WHERE job = 'cook'",
    "SELECT AVG(age) FROM t WHERE age < 8",
)


@pytest.mark.parametrize("kind", ["hierarchy", "wavelet"])
def test_sql_answers(kind: str) -> None:
    """25 releases: the mean of the standardised errors within 5.5 / √25 of 0, the mean of their
    squares between a quarter and four. False alarms: below 1e-6 for errors that are nearly normal.
    """
    table = people(3000, schema())
    rows = table.to_pylist()
    ages = [row["age"] for row in rows]
    middle = [age for age in ages if age < 8]
    truths = (
        len(rows),
        sum(3 <= age <= 7 for age in ages),
        sum(row["age"] > 2 and row["job"] in ("nurse", "smith") for row in rows),
        sum(row["age"] for row in rows if row["job"] == "cook"),
        sum(middle) / len(middle),
    )
    mechanism = _make(kind, ["job", "age"], taxonomy={"job": JOBS})
    asked = dict(zip(QUESTIONS, truths, strict=True))
    everything = sc.publish(table, schema(), mechanism, options=sc.PublishOptions(seed=1)).answer(
        QUESTIONS[0]
    )
    assert (everything.value, everything.stderr) == (asked.pop(QUESTIONS[0]), 0.0)
    for question, z in z_scores(asked, table, schema(), mechanism, runs=25).items():
        assert abs(z.mean()) < 5.5 / np.sqrt(25), question
        assert 0.25 < (z**2).mean() < 4, question


@pytest.mark.parametrize("kind", ["hierarchy", "wavelet"])
def test_groups_add_up_to_their_whole(kind: str) -> None:
    """The estimates are consistent: groups and parts of ranges add up but for rounding."""
    release = sc.publish(
        people(500, schema()),
        schema(),
        _make(kind, ["age", "job"]),
        options=sc.PublishOptions(seed=3),
    )
    groups = release.answer("SELECT job, COUNT(*) FROM t WHERE age < 7 GROUP BY job")
    whole = release.answer("SELECT COUNT(*) FROM t WHERE age < 7").value
    assert len(groups) == 5
    assert sum(each.value for _, each in groups) == pytest.approx(whole)
    first, second = (
        release.answer(f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {high}").value
        for low, high in ((0, 4), (5, 6))
    )
    assert first + second == pytest.approx(whole)


@pytest.mark.parametrize("kind", ["hierarchy", "wavelet"])
def test_taxonomies_that_do_not_fit_are_refused_before_reading(kind: str) -> None:
    wrong = {
        "others too: 'pilot'": [*JOBS, "pilot"],
        "lacks some: 'driver'": [["cook"], ["nurse", ["smith", "teacher"]]],
        "has some twice": [*JOBS, "cook"],
    }
    for sentence, nested in wrong.items():
        with pytest.raises(sc.ParameterError, match=sentence):
            sc.publish("no file", schema(), _make(kind, ["job"], taxonomy={"job": nested}))


@pytest.mark.parametrize("kind", ["hierarchy", "wavelet"])
def test_too_many_cells_are_refused_before_reading(kind: str) -> None:
    wide = domain(a=1000, b=1000, c=1000)
    with pytest.raises(
        sc.ParameterError, match=r"1,000,000,000 sums of cells.*sparse or marginals"
    ):
        sc.publish("no such file", wide, _make(kind, ["a", "b", "c"]))


def test_missing_values_have_a_place_in_a_taxonomy() -> None:
    job = sc.Attribute("job", "quasi", sc.Category(("x", "y")), missing=True)
    mechanism = sc.Hierarchy(
        ["job"], epsilon=1, neighbours="replace", taxonomy={"job": [["x", "y"], [None]]}
    )
    assert mechanism.design(sc.Schema([job])).size == 5


def test_laws_of_the_numbers() -> None:
    """By hand: two levels at half of ε each, and add or remove."""
    mechanism = sc.Hierarchy(["a"], fanout=4, epsilon=1, neighbours="add_remove")
    assert set(mechanism.design(domain(a=16)).laws) == {DiscreteLaplace(Fraction(2))}
    mechanism = sc.Hierarchy(["a"], fanout=4, epsilon=1, neighbours="replace", contribution=3)
    assert set(mechanism.design(domain(a=16)).laws) == {DiscreteLaplace(Fraction(12))}
