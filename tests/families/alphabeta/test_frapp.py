"""FRAPP: the exact channel, both readings of its promise, and domains beyond 2^64."""

from __future__ import annotations

import contextlib
import itertools
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import scumble as sc
from scumble.families.alphabeta.design import Counts
from scumble.model.privacy.guarantee import gamma_for_epsilon
from scumble.private.sampling.source import Keystream
from scumble.private.tables.rows import Rows
from tests.support.people import people, schema

TINY = sc.Schema(
    [
        sc.Attribute("x", "quasi", sc.IntegerRange(0, 2)),
        sc.Attribute("y", "sensitive", sc.Category(("a", "b"))),
    ]
)
PUBLISHED = sc.Frapp(reading="published", k=10, gamma=0.2)


def _wide(attributes: int) -> sc.Schema:
    return sc.Schema(
        [sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 99)) for i in range(attributes)]
    )


def test_retention_of_the_paper() -> None:
    """k = 10, γ = 0.2: 1/41, whatever the domain."""
    assert PUBLISHED.keep(TINY) == Fraction(1, 41)
    assert PUBLISHED.keep(_wide(15)) == Fraction(1, 41)


def test_the_channel_has_exactly_the_promised_ratio(subtests: pytest.Subtests) -> None:
    """g·x on the diagonal and x elsewhere, x = 1/(g + m - 1)."""
    for (parameters, gamma), domain in product(
        [
            ({"gamma": 3}, Fraction(3)),
            ({"rho1": 0.1, "rho2": 0.5}, Fraction(9)),
            ({"epsilon": 1}, gamma_for_epsilon(Fraction(1))),
        ],
        [TINY, schema(), _wide(12)],
    ):
        with subtests.test(parameters=parameters, gamma=gamma, domain=domain):
            size, keep = domain.size(), sc.Frapp(**parameters).keep(domain)
            other = (1 - keep) / size
            assert other == 1 / (gamma + size - 1)
            assert keep + other == gamma * other
            assert sc.Frapp(**parameters).gamma(domain) == gamma


def test_what_is_published_follows_the_channel() -> None:
    """Chi-square of 200,000 equal rows over the six rows of the domain, false alarm 1e-6; the same
    test rejects a retention that is 5 % off, and columns replaced each by itself.
    """
    rows = 200_000
    private = pa.table({"x": pa.array([1] * rows), "y": pa.array(["b"] * rows)})
    release = sc.publish(private, TINY, sc.Frapp(keep=0.4), options=sc.PublishOptions(seed=5))
    shown = pq.read_table(release.folder / "tuples.parquet")
    codes = [TINY[name].encode(shown[name])[0].astype(int) for name in ("x", "y")]
    observed = np.bincount(np.ravel_multi_index(codes, (3, 2)), minlength=6)

    def statistic(keep: float) -> float:
        law = np.full(6, (1 - keep) / 6)
        law[3] += keep
        return float(((observed - rows * law) ** 2 / (rows * law)).sum())

    critical = chi2.ppf(1 - 1e-6, 5)
    assert statistic(0.4) < critical
    assert statistic(0.38) > critical
    alone = np.outer([0.2, 0.6, 0.2], [0.3, 0.7]).reshape(-1) * rows
    assert ((observed - alone) ** 2 / alone).sum() > critical


def _law_of_counts(rows: int, size: int, keep: Fraction, in_table: bool) -> list[Fraction]:
    """How often tuple 0 is published, by going through all that n rows may become. The other rows
    are tuple 1, whichever they are.
    """
    true = [0] + [1] * (rows - 1) if in_table else [1] * rows
    law = [Fraction(0)] * (rows + 1)
    for drawn in itertools.product(range(size), repeat=rows):
        chance = Fraction(1)
        for x, y in zip(true, drawn, strict=True):
            chance *= (1 - keep) / size + (keep if x == y else 0)
        law[drawn.count(0)] += chance
    return law


@pytest.mark.parametrize(("rows", "size"), [(1, 5), (3, 4), (4, 3)])
def test_posterior_of_a_row_by_enumeration(rows: int, size: int) -> None:
    keep, prior = Fraction(1, 7), Fraction(1, 20)
    counts = Counts(rows, size, keep)
    there = _law_of_counts(rows, size, keep, True)
    gone = _law_of_counts(rows, size, keep, False)
    for times in range(rows + 1):
        exact = prior * there[times] / (prior * there[times] + (1 - prior) * gone[times])
        assert counts.posterior(prior, times) == exact


@pytest.mark.parametrize(("rows", "size"), [(3, 4), (4, 5)])
def test_expected_repetitions_are_bounded(rows: int, size: int) -> None:
    """The number of tuples published at least c times, for a table of different rows: exactly by
    the laws of the counts, and not more than stated.
    """
    keep = Fraction(1, 7)
    counts = Counts(rows, size, keep)
    q = counts.other

    def tail(trials: int, least: int) -> Fraction:
        terms = range(max(least, 0), trials + 1)
        return sum(
            (comb(trials, c) * q**c * (1 - q) ** (trials - c) for c in terms), start=Fraction(0)
        )

    for times in range(1, rows + 1):
        true = counts.own * tail(rows - 1, times - 1) + (1 - counts.own) * tail(rows - 1, times)
        exact = (size - rows) * tail(rows, times) + rows * true
        assert exact <= counts.bound_repeats(times)


def _sized_as_adult() -> sc.Schema:
    sizes = (72, 7, 16, 7, 14, 5, 2, 41, 2)
    return sc.Schema(
        [sc.Attribute(f"c{i}", "quasi", sc.IntegerRange(0, s - 1)) for i, s in enumerate(sizes)]
    )


def test_published_promise_on_the_size_of_adult() -> None:
    """The paper's experiment: n = 30,162 and m = 648,023,040. Once is γ = 0.2 but for the order of
    the prior, twice nearly doubles the odds.
    """
    counts = Counts(30_162, 648_023_040, Fraction(1, 41))
    prior = 10 * Fraction(30_162, 648_023_040)
    once, twice = counts.posterior(prior, 1), counts.posterior(prior, 2)
    assert Fraction(1, 5) < once < Fraction(1, 5) + prior
    assert float(twice / (1 - twice)) == pytest.approx(0.5, rel=0.01)
    first, _ = PUBLISHED.guarantee(_sized_as_adult(), 30_162)
    assert first.parameters["once"] == pytest.approx(float(once))
    assert "ends at most at 20.1 %" in str(first)
    assert 0.5 < counts.bound_repeats(2) < 1
    assert counts.bound_repeats(3) < Fraction(1, 10**4)


def test_both_readings_are_said() -> None:
    local = sc.Frapp(epsilon=1).guarantee(TINY)
    assert [each.statement for each in local] == ["ε-LDP", "(ρ1, ρ2)-privacy", "p-exposure"]
    assert local[0].parameters["epsilon"] <= 1
    first, second = PUBLISHED.guarantee(_wide(6), 1000)
    assert first.parameters["once"] == pytest.approx(0.2, abs=1e-3)
    assert "published twice, at 33.4 %" in str(first)
    assert "twice or more on average" in str(first)
    assert any("only the bound by ε" in limit for limit in first.limits)
    gamma = 1 + Fraction(100**6, 40)
    assert second.parameters["gamma"] == pytest.approx(float(gamma))
    assert "about 20 %" in str(PUBLISHED.guarantee(_wide(6))[0])


def test_keep_and_k_say_which_posterior_follows() -> None:
    promise = sc.Frapp(reading="published", k=10, keep=Fraction(1, 41)).guarantee(_wide(6), 1000)[0]
    assert promise == PUBLISHED.guarantee(_wide(6), 1000)[0]


class Silent(Keystream):
    """A source that must not be asked."""

    def fill(self, out: object) -> None:
        raise AssertionError("something was drawn")


def _perturb(private: pa.Table, domain: sc.Schema, outside: str, folder: Path) -> None:
    """Publish without any randomness at hand: only a refusal gets through."""
    PUBLISHED.perturb(Rows(private, domain, outside=outside), Silent(1), folder)


def test_a_table_too_large_for_its_domain_is_refused_before_anything_is_drawn(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    """m = 2000: with 50 rows d is 0.25, with 30 it is 0.15 and `once` is 0.31."""
    for outside, (rows, sentence) in product(
        ["error", "drop"], [(50, "no less than the posterior"), (30, "by more than a tenth")]
    ):
        with subtests.test(outside=outside, rows=rows, sentence=sentence):
            tmp_path = tmp_path_factory.mktemp("case")
            domain = schema(ages=200)
            with pytest.raises(sc.PromiseError, match=sentence) as error:
                _perturb(people(rows, domain), domain, outside, tmp_path)
            assert str(rows) not in str(error.value)
            assert not list(tmp_path.iterdir())


def test_rows_that_are_dropped_do_not_count(tmp_path: Path) -> None:
    """Three rows of sixty are left, which the promise bears."""
    domain = schema(ages=200)
    strangers = people(60, domain).to_pydict() | {"job": ["astronaut"] * 57 + ["cook"] * 3}
    with pytest.raises(AssertionError, match="something was drawn"):
        _perturb(pa.table(strangers), domain, "drop", tmp_path)


def test_no_guarantee_for_a_table_that_would_be_refused(subtests: pytest.Subtests) -> None:
    """k·n/m from a tenth to beyond 1."""
    for rows in [1, 40, 100, 1000]:
        with subtests.test(rows=rows):
            mechanism = sc.Frapp(reading="published", k=10, gamma=0.05)
            with pytest.raises(sc.PromiseError, match="reading='published'"):
                mechanism.guarantee(schema(), rows)


@given(st.integers(1, 3000), st.integers(1, 40), st.integers(1, 19))
def test_what_is_promised_of_a_row_seen_once(rows: int, k: int, twentieths: int) -> None:
    """γ and a tenth of it is never exceeded, in any table; and what is refused would exceed it, or
    begin there.
    """
    gamma = Fraction(twentieths, 20)
    mechanism = sc.Frapp(reading="published", k=k, gamma=gamma)
    domain = schema(ages=1000)
    once = None
    with contextlib.suppress(sc.PromiseError):
        first, _ = mechanism.guarantee(domain, rows)
        once = first.parameters.get("once", 0)
    prior = Fraction(k * rows, domain.size())
    if once is not None:
        assert once <= 1.1 * gamma
    elif prior < gamma:
        counts = Counts(rows, domain.size(), mechanism.keep(domain))
        assert counts.posterior(prior, 1) > Fraction(11, 10) * gamma


@pytest.mark.parametrize(
    "parameters", [{"keep": Fraction(10**50 - 1, 10**50)}, {"rho1": 1e-60, "rho2": 0.5}]
)
def test_what_is_no_privacy_is_refused(parameters: dict) -> None:
    with pytest.raises(sc.ParameterError, match="no privacy"):
        sc.publish("no such file", TINY, sc.Frapp(**parameters))


def test_a_promise_too_strict_to_keep_anything() -> None:
    with pytest.raises(sc.ParameterError, match="nothing of the values would be left"):
        sc.publish(people(5, TINY), TINY, sc.Frapp(epsilon=1e-30))


def test_domain_beyond_64_bits() -> None:
    """10^30 rows: kept ones come back, the others are spread, and counts are estimated; the limits
    at 0.999999 miss the truth once in a million.
    """
    domain = _wide(15)
    private = people(4000, domain)
    release = sc.publish(private, domain, PUBLISHED, options=sc.PublishOptions(seed=3))
    shown = set(map(tuple, pq.read_table(release.folder / "tuples.parquet").to_pandas().to_numpy()))
    true = set(map(tuple, private.to_pandas().to_numpy()))
    # Bin(4000, 1/41): 97.6 on average, within 6 standard errors (false alarm below 1e-8).
    assert 39 <= len(shown & true) <= 157
    answer = release.answer("SELECT COUNT(*) FROM t WHERE q0 + q1 < 60")
    truth = sum(
        x + y < 60 for x, y in zip(*private.select([0, 1]).to_pydict().values(), strict=True)
    )
    low, high = answer.interval(0.999999)
    assert low <= truth <= high
    assert release.manifest.report["posterior by times seen"]["1"] == pytest.approx(0.2, abs=1e-6)


def test_next_to_nothing_kept_is_remarked() -> None:
    release = sc.publish(
        people(20, _wide(12)), _wide(12), sc.Frapp(epsilon=1), options=sc.PublishOptions(seed=1)
    )
    assert any("Less than one row is kept" in remark for remark in release.remarks)


def test_an_attribute_of_one_value_and_a_domain_of_one_row() -> None:
    one = sc.Attribute("land", "quasi", sc.Category(("x",)))
    both = sc.Schema([one, *TINY])
    assert sc.Frapp(gamma=3).keep(both) == sc.Frapp(gamma=3).keep(TINY)
    alone = sc.Schema([one])
    release = sc.publish(
        pa.table({"land": ["x"] * 7}), alone, sc.Frapp(keep=0.5), options=sc.PublishOptions(seed=1)
    )
    assert release.answer("SELECT COUNT(*) FROM t WHERE land = 'x'").interval() == (7, 7)
    assert release.answer("SELECT COUNT(*) FROM t WHERE land = 'y'").interval() == (0, 0)


@pytest.mark.parametrize("mechanism", [sc.Frapp(epsilon=1), PUBLISHED], ids=["local", "published"])
def test_empty_table(mechanism) -> None:
    release = sc.publish(people(0, TINY), TINY, mechanism)
    answer = release.answer("SELECT COUNT(*) FROM t WHERE y = 'a'")
    assert (answer.value, answer.interval()) == (0, (0, 0))
    assert release.answer("SELECT SUM(x) FROM t").value == 0
    assert release.remarks == ("The release has no rows.",)


def test_rows_come_in_an_order_that_says_nothing() -> None:
    release = sc.publish(
        people(500, TINY), TINY, sc.Frapp(keep=0.5), options=sc.PublishOptions(seed=2)
    )
    shown = pq.read_table(release.folder / "tuples.parquet")
    codes = [TINY[name].encode(shown[name])[0].astype(int) for name in ("x", "y")]
    assert (np.diff(np.ravel_multi_index(codes, (3, 2))) >= 0).all()
    assert shown.num_rows == 500


def test_intervals_end_at_what_the_number_of_rows_allows(subtests: pytest.Subtests) -> None:
    """Of 40 rows with y from 0 to 9 no sum is beyond 0 to 360; the estimate itself may be."""
    domain = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 9)) for name in "xy"])
    private = pa.table({"x": [*range(10)] * 4, "y": [*range(10)] * 4})
    release = sc.publish(private, domain, sc.Frapp(epsilon=0.5), options=sc.PublishOptions(seed=3))
    for question, most in [
        ("SELECT SUM(y) FROM t WHERE x < 5", 360.0),
        ("SELECT SUM(y - 4) FROM t WHERE x < 5", 200.0),
        ("SELECT COUNT(*) FROM t WHERE x < y", 40.0),
    ]:
        with subtests.test(question=question):
            answer = release.answer(question)
            low, high = answer.interval(0.99)
            assert high == max(most, answer.value)
            assert low == min(-160.0 if "-" in question else 0.0, answer.value)
