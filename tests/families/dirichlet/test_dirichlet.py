"""Dirichlet: the law of the rows by enumeration, its loss, its estimates, and their intervals."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.audit.subjects import of_release
from scumble.families.dirichlet import design as polya_urn
from scumble.families.dirichlet.check import (
    attribute_success,
    compositions,
    exact_disclosure,
    exact_loss,
    membership_success,
    neighbours,
    urn_law,
)
from scumble.families.dirichlet.design import GRID
from scumble.families.dirichlet.publish import below, polya_rows
from scumble.families.dirichlet.read import Strata, UrnCount, WeightedUrns
from scumble.model.privacy.guarantee import (
    exposure_at_most,
    gamma_for_epsilon,
    probabilistic,
)
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects

ONE = Fraction(1)
PLACES = sc.Schema(
    [
        sc.Attribute("work", "quasi", sc.Category(("north", "south"))),
        sc.Attribute("home", "sensitive", sc.Category(("a", "b", "c"))),
        sc.Attribute("age", "insensitive", sc.IntegerRange(0, 4)),
    ]
)
PEOPLE = pa.table(
    {
        "work": ["north"] * 30 + ["south"] * 10,
        "home": ["a"] * 20 + ["b"] * 15 + ["c"] * 5,
        "age": [number % 5 for number in range(40)],
    }
)


# --- the promise ---------------------------------------------------------------------------------


def test_the_loss_is_reached_and_never_exceeded(subtests):
    """ε = ln((m + prior)/prior) for one value of one person, by enumeration in fractions."""
    for (values, rows), prior in product(
        [(2, 1), (2, 3), (3, 2), (3, 4), (4, 2)], [Fraction(1, 2), Fraction(3), Fraction(7, 3)]
    ):
        with subtests.test(values=values, rows=rows, prior=prior):
            losses = [exact_loss(people, values, prior, rows) for people in (1, 2, 3)]
            assert max(losses) == polya_urn.amplification(rows, prior)
            for people in (0, 1, 2):  # one person more costs no more than that
                for counts in compositions(people, values):
                    law = urn_law(counts, prior, rows)
                    assert sum(law.values()) == 1
                    for value in range(values):
                        more = tuple(n + (place == value) for place, n in enumerate(counts))
                        there = urn_law(more, prior, rows)
                        ratios = [there[drawn] / law[drawn] for drawn in law]
                        assert max(*ratios, 1 / min(ratios)) <= polya_urn.amplification(rows, prior)


def test_the_prior_is_the_least_that_keeps_the_promise(subtests):
    for epsilon, rows in product([Fraction(1, 10), ONE, Fraction(3)], [1, 7, 1000]):
        with subtests.test(epsilon=epsilon, rows=rows):
            prior, gamma = polya_urn.least_prior(rows, epsilon), gamma_for_epsilon(epsilon)
            assert polya_urn.amplification(rows, prior) <= gamma
            assert polya_urn.amplification(rows, prior - Fraction(1, GRID)) > gamma
            assert polya_urn.most_rows(prior, epsilon) == rows


@pytest.mark.parametrize(
    ("values", "rows", "epsilon"), [(2, 6, ONE), (3, 4, ONE), (3, 5, Fraction(2))]
)
def test_the_probabilistic_promise_by_enumeration(values, rows, epsilon):
    """For every stratum of up to three people, rows that tell more than ε have at most the
    probability that the bound says; and (ε, δ)-DP follows for every pair of neighbours.
    """
    gamma = gamma_for_epsilon(epsilon)
    for prior in (Fraction(1), Fraction(3, 2), Fraction(2)):
        bound = polya_urn.disclosure_bound(rows, values, prior, epsilon)
        told = max(exact_disclosure(n, values, prior, rows, epsilon) for n in (1, 2, 3))
        assert told <= bound
        if bound < 1:
            assert bound <= 12 * told + 1e-12  # the price of a bound for every table
        for counts in compositions(3, values):
            law = urn_law(counts, prior, rows)
            for other in neighbours(counts):
                near = urn_law(other, prior, rows)
                delta = sum(max(law[drawn] - gamma * near[drawn], Fraction(0)) for drawn in law)
                assert delta <= told


def test_delta_needs_a_far_smaller_prior():
    pure = polya_urn.least_prior(100, ONE)
    found = polya_urn.least_prior_with(100, 200, 1, ONE, Fraction(1, 10**6))
    assert found < pure / 3
    assert polya_urn.disclosure_bound(100, 200, found, ONE) <= 1e-6
    strata = polya_urn.least_prior_with(100, 200, 1000, ONE, Fraction(1, 10**6))
    assert found < strata < pure


def test_promises_and_their_conversion():
    plain = sc.Dirichlet("home", "work", epsilon=1).guarantee(PLACES)
    assert [each.statement for each in plain] == ["ε-DP"]
    assert plain[0].neighbourhood == "one person's sensitive values"
    given = sc.Dirichlet("home", "work", epsilon=1, delta=1e-3, synthetic=20).guarantee(PLACES)
    assert [each.statement for each in given] == ["(ε, δ)-probabilistic DP", "(ε, δ)-DP"]
    assert given[0].parameters == given[1].parameters == {"epsilon": 1.0, "delta": 0.001}
    with pytest.raises(sc.ParameterError, match="probabilistic"):
        probabilistic(plain[0])
    # Rows and prior that keep more than was asked for say so.
    strict = sc.Dirichlet("home", "work", epsilon=1, synthetic=1, prior=10).guarantee(PLACES)
    assert strict[0].parameters["epsilon"] == pytest.approx(math.log(11 / 10))


@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
def test_games_are_within_the_promise(epsilon):
    prior = polya_urn.least_prior(3, Fraction(str(epsilon)))
    most = {n: exposure_at_most(epsilon, n) for n in (2, 3)}
    for others in [*compositions(0, 3), *compositions(2, 3)]:
        assert Fraction(1, 3) < attribute_success(others, prior, 3) <= most[3]
        for value in range(3):
            assert Fraction(1, 2) < membership_success(others, value, prior, 3) <= most[2]


# --- the sampler ---------------------------------------------------------------------------------


def test_rows_have_the_law_of_the_urn():
    """Three laws: a false alarm has probability 3e-6, and the seed is fixed."""
    runs = 20_000
    for counts, prior, rows in [((2, 0, 1), "1/2", 3), ((0, 1), "5/3", 4), ((1, 1, 0, 5), "2", 2)]:
        parts = polya_urn.on_grid(Fraction(prior))
        priors = np.full(runs, int(parts * GRID))
        table = np.tile(np.array(counts), (runs, 1))
        urns, values = polya_rows(Keystream(7), table, priors, np.full(runs, rows))
        shown = np.zeros((runs, len(counts)), np.int64)
        np.add.at(shown, (urns, values), 1)
        law = urn_law(counts, parts, rows)
        found = dict.fromkeys(law, 0)
        for drawn in map(tuple, shown.tolist()):
            found[drawn] += 1
        assert not rejects(list(found.values()), [float(law[drawn]) for drawn in law])


def test_urns_of_different_sizes():
    urns, values = polya_rows(
        Keystream(1), np.array([[3, 0], [0, 5], [1, 1]]), np.array([1, 1, 1]), np.array([4, 0, 2])
    )
    assert urns.tolist() == [0, 0, 0, 0, 2, 2]
    assert set(values.tolist()) <= {0, 1}
    assert below(Keystream(1), np.array([1, 1])).tolist() == [0, 0]
    large = below(Keystream(1), np.full(1000, (1 << 62) - 1))
    assert large.min() >= 0
    assert large.max() > 1 << 61


# --- estimates -----------------------------------------------------------------------------------


def _urns(counts, prior, shown, rows) -> Strata:
    people = np.array([sum(each) for each in counts])
    strata = len(counts)
    return Strata(people, np.full(strata, rows), np.full(strata, prior), np.array(shown), {})


@pytest.mark.parametrize("weights", [[[1, 0, 0], [1, 0, 0]], [[1, 5, -2], [0, 0, 3]]])
def test_estimates_are_unbiased_with_their_variance(weights):
    """By enumeration of two strata: the mean of the estimate, and of its estimated variance."""
    counts, prior, rows = [(2, 0, 1), (0, 3, 1)], Fraction(5, 4), 3
    laws = [urn_law(each, prior, rows) for each in counts]
    mean = second = estimated = 0.0
    for one, two in product(*laws):
        chance = float(laws[0][one] * laws[1][two])
        found = WeightedUrns(_urns(counts, 1.25, [one, two], rows), np.array(weights, float))
        mean += chance * found.value
        second += chance * found.value**2
        estimated += chance * float(found._estimate_covariances(found).sum())
    truth = float((np.array(weights) * np.array(counts)).sum())
    assert mean == pytest.approx(truth)
    assert estimated == pytest.approx(second - mean**2)


def test_the_least_variance_is_a_lower_limit():
    """For all tables of a stratum of three people, by enumeration."""
    prior, rows, weights = Fraction(1, 2), 2, np.array([[1.0, 0.0, 4.0]])
    found = []
    for counts in compositions(3, 3):
        law = urn_law(counts, prior, rows)
        values = [WeightedUrns(_urns([counts], 0.5, [drawn], rows), weights).value for drawn in law]
        chances = np.array(list(map(float, law.values())))
        found.append(chances @ np.square(values) - (chances @ values) ** 2)
    least = WeightedUrns(_urns([(1, 1, 1)], 0.5, [(2, 0, 0)], rows), weights)._least
    assert least[0] == pytest.approx(min(found))


def test_the_interval_of_one_stratum_covers_exactly(subtests):
    """For every true count the probability of covering is summed up: no simulation."""
    for level, (prior, rows, people) in product(
        [0.9, 0.95, 0.99], [(0.5, 4, 6), (3.0, 10, 25), (0.25, 40, 12)]
    ):
        with subtests.test(level=level, prior=prior, rows=rows, people=people):
            for having in range(people + 1):
                chances = np.exp(
                    polya_urn.log_probability(
                        np.arange(rows + 1.0),
                        rows,
                        np.array(2 * prior + having),
                        np.array(prior + people - having),
                    )
                )
                covered = 0.0
                for drawn, chance in enumerate(chances):
                    worth = (3 * prior + people) / rows
                    law = UrnCount(drawn, rows, 2 * prior, people, prior, 0.0, 1.0)
                    low, high = law.interval(drawn * worth - 2 * prior, level)
                    covered += chance * (low <= having <= high)
                assert covered >= level


COVERED = [
    # strata, values, rows, prior, the counts of a stratum
    (2, 2, 2, 1.2, (1, 3)),
    (5, 8, 10, 5.8, (1, 0, 0, 0, 0, 0, 0, 39)),
    (5, 3, 10, 0.5, (0, 2, 2)),
    (20, 2, 100, 0.3, (20, 20)),
    (3, 4, 100, 58.2, (0, 0, 0, 40)),
]


def test_intervals_of_several_strata_cover(subtests):
    """500 draws, two sums and three levels each: 30 comparisons at 4 standard errors have a false
    alarm of 1e-3 in all if the coverage is the level itself, and the seed is fixed.
    """
    for strata, values, rows, prior, people in COVERED:
        with subtests.test(strata=strata, values=values, rows=rows, prior=prior, people=people):
            runs, rng = 500, np.random.default_rng(11)
            counts = np.tile(people, (strata, 1))
            balls = rng.gamma(np.broadcast_to(prior + counts, (runs, strata, values)))
            shares = balls / balls.sum(axis=-1, keepdims=True)
            shown = rng.multinomial(rows, shares.reshape(-1, values)).reshape(runs, strata, values)
            first = np.zeros((strata, values))
            first[:, 0] = 1
            for weights in (first, np.tile(np.arange(values) ** 2.0, (strata, 1))):
                truth = float((weights * counts).sum())
                covered = dict.fromkeys((0.9, 0.95, 0.99), 0)
                for drawn in shown:
                    found = WeightedUrns(_urns(counts, prior, drawn, rows), weights)
                    for level in covered:
                        low, high = found.law.interval(found.value, level)
                        covered[level] += low <= truth <= high
                for level, times in covered.items():
                    assert times / runs >= level - 4 * math.sqrt(level * (1 - level) / runs), (
                        weights
                    )


# --- releases ------------------------------------------------------------------------------------


def test_a_release_answers_sql_and_is_audited(tmp_path):
    release = sc.publish(PEOPLE, PLACES, sc.Dirichlet("home", "work", epsilon=2))
    saved = sc.open(release.save(tmp_path / "rows"))
    known = saved.answer("SELECT work, COUNT(*) FROM t GROUP BY work")
    assert [(key, float(each), each.stderr) for key, each in known] == [
        (("north",), 30.0, 0.0),
        (("south",), 10.0, 0.0),
    ]
    homes = saved.answer("SELECT home, COUNT(*) FROM t GROUP BY home")
    assert sum(float(each) for _, each in homes) == pytest.approx(40)
    assert saved.answer("SELECT COUNT(*) FROM t WHERE home = 'a'").stderr > 0
    rows = pq.read_table(tmp_path / "rows" / "rows.parquet")
    assert (rows.num_rows, rows.column_names) == (40, ["work", "home"])
    report = of_release(tmp_path / "rows")
    assert [each.verdict for each in report.findings] == ["exact", "exact"]


def test_a_release_that_promises_too_much_is_refuted(tmp_path):
    class Generous(sc.Dirichlet):
        def sizes(self, schema, people):
            rows, priors = super().sizes(schema, people)
            return rows, priors // 2

    release = sc.publish(PEOPLE, PLACES, Generous("home", "work", epsilon=2))
    [stated, computed, _] = of_release(release.save(tmp_path / "rows")).findings
    assert stated.refuted
    assert computed.refuted
    given = {"epsilon": 1, "delta": 1e-3, "synthetic": 12}
    for kind, verdict in ((Generous, "refuted"), (sc.Dirichlet, "exact")):
        made = sc.publish(PEOPLE, PLACES, kind("home", "work", **given))
        assert of_release(made.save(tmp_path / verdict)).findings[0].verdict == verdict


def test_averages_of_the_target():
    release = sc.publish(
        PEOPLE, PLACES, sc.Dirichlet("age", "work", epsilon=3), options=sc.PublishOptions(seed=1)
    )
    found = release.answer("SELECT work, AVG(age) FROM t GROUP BY work")
    for _, each in found:
        low, high = each.interval(0.999)
        assert low <= 2 <= high
    assert math.isnan(float(release.answer("SELECT AVG(age) FROM t WHERE age > 7")))
    assert release.answer("SELECT COUNT(*) FROM t WHERE age > 7").value == 0


def test_the_ledger_is_charged(tmp_path):
    ledger = sc.Ledger.create(
        tmp_path / "ledger", epsilon=3, delta=1e-2, neighbours="values", sensitive=["home"]
    )
    given = {"epsilon": 1, "delta": 1e-3, "synthetic": 5}
    sc.publish(PEOPLE, PLACES, sc.Dirichlet("home", "work", **given), ledger=ledger)
    sc.publish(PEOPLE, PLACES, sc.Dirichlet("home", "work", epsilon=1), ledger=ledger)
    losses = [charge.bill.loss for charge in ledger.charges]
    assert [(each.epsilon, each.delta) for each in losses] == [(1, Fraction(1, 1000)), (1, 0)]


def test_what_is_refused():
    def refused(error, match, *names, outside="error", **given):
        def publish():
            mechanism = sc.Dirichlet(*names, **{"epsilon": 1, **given})
            sc.publish(PEOPLE, PLACES, mechanism, options=sc.PublishOptions(outside=outside))

        with pytest.raises(error, match=match):
            publish()

    refused(sc.SchemaError, "'home' is sensitive|home is sensitive", "age", "home")
    refused(sc.ParameterError, "none of them twice", "home", "home")
    refused(sc.ParameterError, "needs synthetic", "home", "work", delta=1e-3)
    refused(sc.ParameterError, "at least 0.582", "home", "work", prior=0.1)
    refused(sc.ParameterError, "a prior of at least 2.91", "home", "work", prior=2, synthetic=5)
    refused(sc.ParameterError, "whole number of at least 1", "home", "work", synthetic=0)
    refused(sc.PromiseError, "no row may be left out", "home", "work", outside="drop")


def test_a_given_prior_limits_the_rows():
    release = sc.publish(
        PEOPLE,
        PLACES,
        sc.Dirichlet("home", "work", epsilon=1, prior=4),
        options=sc.PublishOptions(seed=2),
    )
    assert release.answer("SELECT COUNT(*) FROM t").value == 40
    rows = pq.read_table(release.folder / "rows.parquet")
    assert rows.num_rows == 12  # 6 of each stratum: 4 (e - 1) = 6.87
