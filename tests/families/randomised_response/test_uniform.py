"""Uniform perturbation: the spec's table, the exact promise, and what the samplers really
publish.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import scumble as sc
from scumble.model.privacy.guarantee import gamma_for_epsilon
from tests.support.people import people, schema

# e to 40 digits, rounded down
E_BELOW = Fraction("2.718281828459045235360287471352662497757")


def _sized(values: int) -> sc.Schema:
    return schema(jobs=[f"job {number}" for number in range(values)])


def test_table_of_the_spec(subtests: pytest.Subtests) -> None:
    """specs/input-perturbation.md: γ = 5, retention and replacement in percent."""
    for values, keep, other in [
        (77, 5, 1),
        (70, 5, 1),
        (50, 7, 2),
        (14, 22, 6),
        (9, 31, 8),
        (7, 36, 9),
        (6, 40, 10),
        (2, 67, 17),
    ]:
        with subtests.test(values=values, keep=keep, other=other):
            [channel] = sc.Uniform(gamma=5).channels(_sized(values))
            assert round(100 * channel.keep) == keep
            assert round(100 * (1 - channel.keep) / values) == other


def test_the_channel_has_exactly_the_promised_ratio(subtests: pytest.Subtests) -> None:
    """All m^2 entries of the channel matrix as fractions: the largest ratio in a column is γ."""
    for values, (parameters, gamma) in product(
        [2, 5, 50],
        [
            ({"gamma": 3}, Fraction(3)),
            ({"rho1": 0.1, "rho2": 0.5}, Fraction(9)),
            ({"epsilon": 1}, gamma_for_epsilon(Fraction(1))),
        ],
    ):
        with subtests.test(values=values, parameters=parameters, gamma=gamma):
            [channel] = sc.Uniform(**parameters).channels(_sized(values))
            matrix = [
                [
                    (1 - channel.keep) / values + (channel.keep if x == y else 0)
                    for y in range(values)
                ]
                for x in range(values)
            ]
            assert all(sum(row) == 1 for row in matrix)
            ratios = [max(column) / min(column) for column in zip(*matrix, strict=True)]
            assert max(ratios) == gamma


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("parameters", [{"epsilon": 1}, {"gamma": 4}, {"rho1": 0.2, "rho2": 0.4}])
def test_several_attributes_keep_the_promise_together(joint: bool, parameters: dict) -> None:
    """Enumerate all pairs of sensitive tuples and outputs: the largest ratio is at most the
    promise.
    """
    domain = schema(jobs=("a", "b", "c"), health=2)
    mechanism = sc.Uniform(**parameters, joint=joint)
    promised = {"epsilon": E_BELOW, "gamma": Fraction(4)}.get(
        next(iter(parameters)), Fraction(8, 3)
    )
    tuples = [(job, health) for job in range(3) for health in range(2)]
    channels = mechanism.channels(domain)

    def probability(true: tuple[int, int], shown: tuple[int, int]) -> Fraction:
        if joint:
            keep = channels[0].keep
            return (1 - keep) / 6 + (keep if true == shown else 0)
        product = Fraction(1)
        for channel, size, x, y in zip(channels, (3, 2), true, shown, strict=True):
            product *= (1 - channel.keep) / size + (channel.keep if x == y else 0)
        return product

    largest = max(
        probability(x, y) / probability(other, y)
        for x in tuples
        for other in tuples
        for y in tuples
    )
    assert largest == mechanism.gamma(domain)
    assert largest <= promised
    assert float(largest) == pytest.approx(float(promised), rel=1e-12)


def test_keep_is_the_probability_itself() -> None:
    [channel] = sc.Uniform(keep=0.3).channels(_sized(4))
    assert channel.keep == Fraction(3, 10)
    assert sc.Uniform(keep=Fraction(1, 3)).channels(_sized(4))[0].keep == Fraction(1, 3)


@pytest.mark.parametrize(("joint", "health"), [(False, 0), (False, 3), (True, 3)])
def test_what_is_published_follows_the_channel(joint: bool, health: int) -> None:
    """Chi-square of the published values of 200,000 equal rows, false alarm 1e-6; the same test
    rejects a channel whose retention is 5 % off, and in the product of two attributes any
    dependence of that size.
    """
    domain = schema(health=health)
    rows = 200_000
    row = {"age": [1], "sex": ["f"], "job": ["nurse"]} | ({"health": [2]} if health else {})
    private = pa.table({name: pa.array(value * rows) for name, value in row.items()})
    mechanism = sc.Uniform(epsilon=2, joint=joint)
    release = sc.publish(private, domain, mechanism, options=sc.PublishOptions(seed=5))
    published = pq.read_table(release.folder / "records.parquet")
    names = [attribute.name for attribute in domain.sensitive]
    sizes = [domain[name].size for name in names]
    codes = [domain[name].encode(published[name])[0].astype(np.int64) for name in names]
    observed = np.bincount(np.ravel_multi_index(codes, sizes), minlength=np.prod(sizes))

    def expected(factor: float) -> np.ndarray:
        parts = []
        for channel in release.evidence.channels:
            size = domain.size(channel.attributes)
            keep = float(channel.keep) * factor
            part = np.full(size, (1 - keep) / size)
            true = [
                domain[name].encode(private[name].slice(0, 1))[0][:1] for name in channel.attributes
            ]
            part[int(domain.cell_keys(channel.attributes).pack(true)[0])] += keep
            parts.append(part)
        joint = parts[0] if len(parts) == 1 else np.outer(parts[0], parts[1]).reshape(-1)
        return rows * joint

    def statistic(law: np.ndarray) -> float:
        return float(((observed - law) ** 2 / law).sum())

    critical = chi2.ppf(1 - 1e-6, len(observed) - 1)
    assert statistic(expected(1.0)) < critical
    assert statistic(expected(0.95)) > critical


def test_the_file_is_an_ordinary_table_in_an_order_that_says_nothing() -> None:
    domain = schema()
    private = people(2000, domain)
    release = sc.publish(private, domain, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1))
    published = pq.read_table(release.folder / "records.parquet")
    kinds = {"age": pa.int64(), "sex": pa.string(), "job": pa.string()}
    fields = [pa.field(name, kind, nullable=False) for name, kind in kinds.items()]
    assert published.schema.equals(pa.schema(fields))
    keys = domain.cell_keys(["age", "sex", "job"]).pack(
        [domain[name].encode(published[name])[0] for name in ("age", "sex", "job")]
    )
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
    # What is not sensitive is as it was, row order aside.
    plain = private.select(["age", "sex"]).cast(published.select(["age", "sex"]).schema)
    kept = plain.sort_by([("age", "ascending"), ("sex", "ascending")])
    assert published.select(["age", "sex"]).equals(kept)


def test_identifiers_are_not_published() -> None:
    domain = sc.Schema([sc.Attribute("name", "identifier"), *schema()], sc.Unit())
    private = people(50, schema()).append_column(
        "name", pa.array([f"CANARY{i}" for i in range(50)])
    )
    release = sc.publish(private, domain, sc.Uniform(epsilon=1))
    assert "name" not in pq.read_schema(release.folder / "records.parquet").names
    assert b"CANARY" not in (release.folder / "records.parquet").read_bytes()
    with pytest.raises(sc.QueryError, match="identifier"):
        release.answer("SELECT COUNT(*) FROM t WHERE name = 'x'")


def test_missing_values_are_values_like_any_other() -> None:
    job = sc.Attribute("job", "sensitive", sc.Category(("cook", "nurse")), missing=True)
    domain = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 3)), job])
    private = pa.table({"age": [0, 1, 2, 3] * 500, "job": ["cook", None, "nurse", None] * 500})
    release = sc.publish(private, domain, sc.Uniform(epsilon=3), options=sc.PublishOptions(seed=2))
    missing = release.answer("SELECT COUNT(*) FROM t WHERE job IS NULL")
    low, high = missing.interval(0.999999)
    assert low <= 1000 <= high
    groups = release.answer("SELECT job, COUNT(*) FROM t GROUP BY job")
    assert [key for key, _ in groups] == [("cook",), ("nurse",), (None,)]


def test_a_promise_too_strict_to_keep_anything() -> None:
    with pytest.raises(sc.ParameterError, match="nothing of the values would be left"):
        sc.publish(people(5, schema()), schema(), sc.Uniform(epsilon=1e-30))


@pytest.mark.parametrize(
    "parameters", [{"keep": Fraction(10**50 - 1, 10**50)}, {"rho1": 1e-60, "rho2": 0.5}]
)
def test_what_is_no_privacy_is_refused(parameters: dict) -> None:
    with pytest.raises(sc.ParameterError, match="no privacy"):
        sc.publish("no such file", schema(), sc.Uniform(**parameters))


def test_every_promise_has_its_limits() -> None:
    for promise in sc.Uniform(epsilon=1).guarantee(schema()):
        assert any("who is in the table" in limit for limit in promise.limits)
        assert any("more releases, add up" in limit for limit in promise.limits)
        assert any("by statistics is not hidden" in limit for limit in promise.limits)


def test_a_small_prior_is_not_rounded_up() -> None:
    promise = sc.Uniform(rho1=0.0001, rho2=0.0099).guarantee(schema())[1]
    assert "with 0.01 %" in str(promise)
    assert "reach at most 0.99 %" in str(promise)


def test_rows_left_out_are_said_in_promises_and_answers() -> None:
    private = people(50, schema()).to_pylist()
    private[3]["job"] = "astronaut"
    release = sc.publish(
        pa.Table.from_pylist(private),
        schema(),
        sc.Uniform(epsilon=1),
        options=sc.PublishOptions(outside="drop"),
    )
    assert all("It is not protected" in promise.limits[0] for promise in release.guarantees)
    assert any("left out" in note for note in release.answer("SELECT COUNT(*) FROM t").notes)


def test_an_empty_release_is_remarked() -> None:
    release = sc.publish(people(0, schema()), schema(), sc.Uniform(epsilon=1))
    assert release.remarks == ("The release has no rows.",)


def test_score_intervals_end_at_what_the_number_of_rows_allows(subtests: pytest.Subtests) -> None:
    """Of 40 rows with y from 0 to 9; the estimate itself may lie beyond."""
    domain = sc.Schema(
        [
            sc.Attribute("x", "quasi", sc.IntegerRange(0, 9)),
            sc.Attribute("y", "sensitive", sc.IntegerRange(0, 9)),
        ]
    )
    private = pa.table({"x": [*range(10)] * 4, "y": [*range(10)] * 4})
    release = sc.publish(private, domain, sc.Uniform(keep=0.02), options=sc.PublishOptions(seed=3))
    for question, least, most in [
        ("SELECT COUNT(*) FROM t WHERE x < y", 0.0, 40.0),
        ("SELECT SUM(y) FROM t WHERE x < 5", 0.0, 180.0),
        ("SELECT SUM(y - 4) FROM t WHERE x < 5", -80.0, 100.0),
    ]:
        with subtests.test(question=question):
            answer = release.answer(question)
            low, high = answer.interval(0.99)
            assert (low, high) == (min(least, answer.value), max(most, answer.value))
