"""Aroma: what it takes and refuses, what it says, and what its files show."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import scumble as sc
from scumble.families.aroma.design import k_bounds
from scumble.families.aroma.publish.aroma import Aroma
from scumble.families.aroma.publish.guarantee import k_for
from scumble.families.aroma.publish.views import bytes_per_row
from tests.support.mechanisms.pool_multisets import bags
from tests.support.people import JOBS, people, schema

FIFTEEN = schema(jobs=[f"job {number:02}" for number in range(15)])


def shown(release: sc.Release) -> np.ndarray:
    """The bags of a release as counts of all values, a row each."""
    [channel] = release.evidence.channels
    published = pq.read_table(release.folder / release.evidence.file)
    matrix = np.stack([published[name].to_numpy() for name in channel.columns], axis=1)
    if channel.layout == "counts":
        return matrix
    assert (np.diff(matrix, axis=1) >= 0).all()
    return np.stack([(matrix == value).sum(axis=1) for value in range(channel.law.values)], axis=1)


def test_k_for_one_count() -> None:
    """The paper's condition: 18 and 19.75 for f = 0.2, ε = 0.5; 49.2 for one of 15 values, of which
    the paper takes 49, although the least whole number that meets it is 50.
    """
    first, second = k_bounds(Fraction(1, 2), Fraction(1, 5))
    assert 17 < first <= 18
    assert second == Fraction("19.75")
    assert k_for(0.5, 0.2) == Aroma.k_for(0.5, 0.2) == sc.Aroma(epsilon=0.5, f=0.2).k == 20
    bounds = k_bounds(Fraction(1, 2), Fraction(1, 15))
    assert round(float(max(bounds)), 1) == 49.2
    assert k_for(0.5, Fraction(1, 15)) == 50


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1, 2])
@pytest.mark.parametrize("f", [0.05, 0.2, 0.5, 0.9])
def test_k_for_is_the_least(epsilon: float, f: float) -> None:
    def meets(k: int) -> bool:
        draws = k - 1
        if draws * f <= 1:
            return False
        ratio = (draws * (1 - f) + 2) * f / ((draws * f - 1) * (1 - f))
        return ratio <= np.exp(epsilon) and k >= 1 + 3 / (2 * epsilon * f * (1 - f))

    k = k_for(epsilon, f)
    assert meets(k)
    assert not meets(k - 1)


def test_promises_of_the_spec() -> None:
    local, exposed = sc.Aroma(k=49).guarantee(FIFTEEN)
    assert local.parameters["delta at epsilon 0.5"] == pytest.approx(0.1668, abs=5e-5)
    assert local.parameters["delta at epsilon 1"] == pytest.approx(0.0858, abs=5e-5)
    assert "0.1668 at ε = 0.5" in str(local)
    assert "not ε-DP for any ε" in str(local)
    assert exposed.parameters["p"] == pytest.approx(0.137, abs=5e-4)
    assert "at most 13.8 %" in str(exposed)
    assert sc.Aroma(k=49).profile(FIFTEEN, 1) == local.parameters["delta at epsilon 1"]
    assert {local.statement, exposed.statement} == {"(ε, δ)-LDP profile", "p-exposure"}


def test_the_paper_s_condition_is_named_as_what_it_is() -> None:
    *_, condition = sc.Aroma(epsilon=0.5, f=0.2).guarantee(schema())
    assert condition.scope == "one count answer"
    assert "normal approximation" in str(condition)
    assert "is not differential privacy" in str(condition)
    assert len(sc.Aroma(k=20).guarantee(schema())) == 2


def test_closeness_is_promised_and_kept() -> None:
    mechanism = sc.Aroma(k=9, closeness=2500, pool=dict.fromkeys(JOBS, 1000))
    release = sc.publish(
        people(3000, schema()), schema(), mechanism, options=sc.PublishOptions(seed=1)
    )
    promise = next(g for g in release.guarantees if g.statement == "(n, 0)-closeness")
    assert promise.parameters["n"] == 2500
    assert shown(release).max() == 9 * 1000 // 2500
    report = release.manifest.report
    assert 0 < report["share drawn again, at most"] <= report["the paper's bound on it"] <= 1


def test_refused_before_anything_is_read(subtests: pytest.Subtests) -> None:
    for parameters, sentence in [
        ({"k": 9, "pool": {"cook": 1}}, "every value of 'job'; it has none for 'driver'"),
        ({"k": 9, "pool": [1, 1]}, "5 weights, one for each value of 'job'"),
        ({"k": 9, "pool": dict.fromkeys((*JOBS, "king"), 1)}, "'king', which is no value of 'job'"),
        ({"k": 9, "pool": [1, 1, 1, 1, 10**9]}, "at least a millionth of the mean weight"),
        ({"k": 9, "closeness": 5.5}, "at most the sum of all weights (5). Got 5.5"),
        ({"k": 9, "closeness": 2, "pool": [1, 9, 9, 9, 0.1]}, "could never be shown"),
        ({"k": 5, "closeness": 5}, "those tell nothing"),
        ({"k": 100, "closeness": 5}, "hardly any multiset is that close"),
    ]:
        with subtests.test(parameters=parameters, sentence=sentence):
            with pytest.raises(sc.ParameterError) as error:
                sc.publish("no such file.csv", schema(), sc.Aroma(**parameters))
            assert sentence in str(error.value)


def test_schemas_that_do_not_fit() -> None:
    with pytest.raises(sc.SchemaError, match="at least two values"):
        schema(jobs=["cook"])
    with pytest.raises(sc.SchemaError, match="at most 1024 values"):
        sc.publish("none", schema(health=300), sc.Aroma(k=9))
    with pytest.raises(sc.SchemaError, match="must be an identifier"):
        sc.publish("none", schema(), sc.Aroma(k=9, identifier="age"))


def test_pools_of_too_many_weights() -> None:
    domain = schema(jobs=[f"job {number}" for number in range(200)])
    with pytest.raises(sc.ParameterError, match="at most 128 different weights for k = 9; round"):
        sc.publish("none", domain, sc.Aroma(k=9, pool=list(range(1000, 1200))))
    assert (
        sc.publish(people(10, domain), domain, sc.Aroma(k=9, pool=[2, 3] * 100)).evidence.rows == 10
    )


def test_closeness_that_no_bag_can_break_changes_nothing() -> None:
    assert sc.Aroma(k=9, closeness=1).laws(schema()) == sc.Aroma(k=9).laws(schema())
    assert len(sc.Aroma(k=9, closeness=1).guarantee(schema())) == 3


def test_names_that_are_the_same_to_sql() -> None:
    domain = schema(jobs=["Cook", "cook"])
    release = sc.publish(people(50, domain), domain, sc.Aroma(k=5))
    assert release.evidence.channels[0].columns == ("job #0", "job #1")
    assert release.answer("SELECT COUNT(*) FROM t WHERE job = 'Cook'").stderr > 0


def test_every_bag_has_k_values_and_the_true_one(subtests: pytest.Subtests) -> None:
    """A row of each value is told apart by its age."""
    for k, health in product([2, 5, 6, 49, 300], [0, 3]):
        with subtests.test(k=k, health=health):
            domain = schema(ages=15, health=health)
            size = domain.size(attribute.name for attribute in domain.sensitive)
            cells = np.arange(size)
            columns = {"age": cells % 15, "sex": ["f"] * size}
            columns["job"] = [JOBS[cell // health if health else cell] for cell in cells]
            if health:
                columns["health"] = cells % health
                columns["age"] = cells
            release = sc.publish(
                pa.table(columns), domain, sc.Aroma(k=k), options=sc.PublishOptions(seed=1)
            )
            [channel] = release.evidence.channels
            codes = k * (size - 1).bit_length()
            assert channel.layout == ("codes" if codes < size else "counts")
            found = shown(release)
            assert (found.sum(axis=1) == k).all()
            ages = pq.read_table(release.folder / "records.parquet")["age"].to_numpy()
            assert (found[np.arange(size), ages] >= 1).all()
            bits = release.manifest.report["bits per row, packed"]
            assert bits == min(size * k.bit_length(), codes)


@pytest.mark.parametrize(
    "parameters",
    [
        {"k": 4},
        {"k": 3},
        {"k": 4, "pool": [3, 1, 2]},
        {"k": 3, "pool": [3, 1, 2]},
        {"k": 4, "closeness": 2},
        {"k": 3, "closeness": 1.5},
        {"k": 6, "closeness": 3, "pool": [3, 1, 2]},
    ],
)
def test_what_is_published_follows_the_law(parameters: dict) -> None:
    """Chi-square over all bags of 100,000 rows of one value, false alarm 1e-6; it rejects the law
    of another true value.
    """
    domain = schema(jobs=JOBS[:3])
    rows = 100_000
    private = pa.table({"age": [1] * rows, "sex": ["f"] * rows, "job": ["cook"] * rows})
    release = sc.publish(private, domain, sc.Aroma(**parameters), options=sc.PublishOptions(seed=3))
    law = release.evidence.channels[0].law
    kinds, counts = np.unique(shown(release), axis=0, return_counts=True)
    observed = {
        tuple(int(n) for n in kind): int(count) for kind, count in zip(kinds, counts, strict=True)
    }

    def distance(true: int) -> float:
        known, _ = bags(law, true)
        if not set(observed) <= set(known):
            return np.inf
        expected = {bag: rows * float(chance) for bag, chance in known.items()}
        assert min(expected.values()) > 5
        return sum((observed.get(bag, 0) - mean) ** 2 / mean for bag, mean in expected.items())

    assert distance(0) < chi2.isf(1e-6, len(bags(law, 0)[0]) - 1)
    assert distance(1) > chi2.isf(1e-6, len(bags(law, 1)[0]) - 1)


def test_49_of_15_values_take_less_than_8_bytes() -> None:
    """The worst order for a compressor: rows of which hardly two share their other columns."""
    domain = sc.Schema([sc.Attribute("zip", "quasi", sc.IntegerRange(0, 10**6)), FIFTEEN["job"]])
    release = sc.publish(
        people(100_000, domain), domain, sc.Aroma(k=49), options=sc.PublishOptions(seed=1)
    )
    [channel] = release.evidence.channels
    size = bytes_per_row(release.folder / "records.parquet", channel)
    assert 4 < size < 8
    assert any(f"take {size:.1f} bytes" in remark for remark in release.remarks)


def test_a_public_prior_is_said_to_be_published() -> None:
    limits = sc.Aroma(k=9, pool=[1, 2, 3, 4, 5]).guarantee(schema())[0].limits
    assert any("must be known without the private table" in limit for limit in limits)
    assert all(
        "must be known" not in limit for limit in sc.Aroma(k=9).guarantee(schema())[0].limits
    )


@pytest.mark.parametrize(
    "pool",
    [
        [Fraction(1, 3), 0.5, 1, 2, Fraction(3, 7)],
        {"cook": 1, "driver": 2.5, "nurse": 3} | {"smith": 1, "teacher": 1},
    ],
)
def test_parameters_make_it_again(pool) -> None:
    mechanism = sc.Aroma(k=9, pool=pool, closeness=2)
    again = sc.Aroma(**mechanism.parameters)
    assert again.laws(schema()) == mechanism.laws(schema())
    assert again.parameters == mechanism.parameters


def test_missing_values_have_a_weight_and_a_column() -> None:
    job = sc.Attribute("job", "sensitive", sc.Category(("cook", "nurse")), missing=True)
    domain = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 3)), job])
    private = pa.table({"age": [0, 1] * 50, "job": ["cook", None] * 50})
    pool = {"cook": 2, "nurse": 2, None: 1}
    release = sc.publish(
        private, domain, sc.Aroma(k=9, pool=pool), options=sc.PublishOptions(seed=1)
    )
    assert release.evidence.channels[0].columns == ("job=cook", "job=nurse", "job=missing")
    low, high = release.answer("SELECT COUNT(*) FROM t WHERE job IS NULL").interval(0.999999)
    assert low <= 50 <= high


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_with_hardly_any_row(rows: int) -> None:
    release = sc.publish(
        people(rows, schema()),
        schema(),
        sc.Aroma(k=9, closeness=2),
        options=sc.PublishOptions(seed=1),
    )
    assert release.evidence.rows == rows
    assert release.answer("SELECT COUNT(*) FROM t").value == rows
