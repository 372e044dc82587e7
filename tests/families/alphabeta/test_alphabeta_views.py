"""Several views of one table: the exact promise over all histories, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.alphabeta.design import InclusionProbabilities, Tuples
from scumble.families.alphabeta.publish.guarantee import fade_of, odds_of
from tests.support.people import people, schema

LARGE = schema(ages=2000)


def _histories(law: InclusionProbabilities, views: int) -> list[tuple[Fraction, Fraction]]:
    """The probability of every history of a tuple, true and false, by the rule of algorithm 4."""
    found = []
    for history in product((False, True), repeat=views):
        true = false = Fraction(1)
        before = False
        for view, seen in enumerate(history, 1):
            chance = law.keep * law.fade if before else (1 - law.keep) ** (view - 1) * law.noise
            true *= law.keep if seen else 1 - law.keep
            false *= chance if seen else 1 - chance
            before = before or seen
        found.append((true, false))
    return found


def test_odds_are_the_extremes_over_all_histories(subtests: pytest.Subtests) -> None:
    for views, keep, noise in product(
        [1, 2, 3, 5], ["1/2", "1/3", "4/5"], ["1/1000", "1/10", "1/4"]
    ):
        with subtests.test(views=views, keep=keep, noise=noise):
            fade = fade_of(views) if views > 1 else Fraction(1)
            law = InclusionProbabilities(5, Fraction(keep), Fraction(noise), most=views, fade=fade)
            histories = _histories(law, views)
            assert sum(true for true, _ in histories) == sum(false for _, false in histories) == 1
            ratios = [true / false for true, false in histories]
            odds = odds_of(law)
            assert (odds.most, odds.least) == (max(ratios), min(ratios))
            # What fewer views than planned have shown so far lies between.
            for fewer in range(1, views):
                partial = [true / false for true, false in _histories(law, fewer)]
                assert odds.least <= min(partial)
                assert max(partial) <= odds.most


def test_the_promise_holds_for_all_views_together(subtests: pytest.Subtests) -> None:
    """The posterior of every history: at most γ, and at least d/γ of the prior."""
    for adversary, views in product(["independent", "exclusive"], [1, 2, 3, 4]):
        with subtests.test(adversary=adversary, views=views):
            d, gamma = Fraction(1, 1000), Fraction(1, 5)
            mechanism = sc.AlphaBeta(
                d=Fraction(1, 1000), gamma=Fraction(1, 5), views=views, adversary=adversary
            )
            law = mechanism.presence(LARGE, 1000)
            histories = _histories(law, views)
            ends = [d * true / (d * true + (1 - d) * false) for true, false in histories]
            assert max(ends) <= gamma
            assert min(end / d for end in ends) >= d / gamma
            if adversary == "independent":
                assert float(max(ends)) == pytest.approx(
                    0.2, rel=1e-6
                )  # not more noise than it takes
            else:
                worst = min(true / false for true, false in histories)
                best = max(true / false for true, false in histories)
                assert d * best / (d * best + (1 - d) * worst) <= gamma
            stated = mechanism.guarantee(LARGE, 1000)[0]
            assert stated.parameters["gamma"] == pytest.approx(float(max(ends)))
            assert ("all" in str(stated)) == (views > 1)


def test_the_largest_number_of_views() -> None:
    """The noise can follow the views, but a tuple that is never seen loses half of its odds with
    each: 7 halves are above d/γ = 1/200, and 8 are not.
    """
    assert sc.AlphaBeta(d=0.001, gamma=0.2, views=7).presence(LARGE, 1000).most == 7
    with pytest.raises(sc.ParameterError, match=r"9 views break .* at most 7 views hold"):
        sc.AlphaBeta(d=0.001, gamma=0.2, views=9)
    # Asked for by its probabilities it makes no such promise, and says what is left of it.
    mechanism = sc.AlphaBeta(alpha=0.4, beta=0.001, views=63)
    assert mechanism.guarantee(LARGE, 100)[0].parameters["gamma"] < 1


def test_one_view_more_than_planned_is_refused() -> None:
    private = people(50, LARGE)
    planned = sc.AlphaBeta(k=2, gamma=0.5, views=2, multiplicity=3)
    release = sc.publish(private, LARGE, planned, options=sc.PublishOptions(seed=1))
    first = pq.read_table(release.folder / "tuples.parquet")
    assert set(first["views"].to_pylist()) == {1}
    second = release.republish(private, seed=2)
    table = pq.read_table(second.folder / "tuples.parquet")
    assert set(table["views"].to_pylist()) == {1, 2, 3}
    # The first view is still there, tuple by tuple.
    kept = [row for row in table.to_pylist() if row.pop("views") & 1]
    assert kept == [{n: v for n, v in row.items() if n != "views"} for row in first.to_pylist()]
    assert second.evidence.presence.views == 2
    assert [str(g) for g in second.guarantees] == [str(g) for g in release.guarantees]
    with pytest.raises(sc.PromiseError, match=r"promise covers \(2\)"):
        second.republish(private)
    alone = sc.publish(
        private,
        LARGE,
        sc.AlphaBeta(k=2, gamma=0.5, multiplicity=3),
        options=sc.PublishOptions(seed=1),
    )
    with pytest.raises(sc.PromiseError, match=r"promise covers \(1\)"):
        alone.republish(private)


def test_the_report_of_several_views_has_no_bound_of_one() -> None:
    """The bounds are proved of one view; how many tuples there are is said of all."""
    mechanism = sc.AlphaBeta(alpha=Fraction(2, 5), beta=Fraction(1, 10), views=2)
    law = InclusionProbabilities(1000, Fraction(1, 2), Fraction(1, 10), most=2, fade=fade_of(2))
    first, second = (
        mechanism.report(LARGE, Tuples("tuples.parquet", LARGE.names, replace(law, views=views)))
        for views in (1, 2)
    )
    assert first["error bound"]["count"] > 0
    assert first["usefulness"]["rho"] > 0
    assert (first["true tuples expected"], first["false tuples expected"]) == (500, 1900)
    # A true tuple is missing with 1/4, a false one with 0.9 · 0.95.
    assert (second["true tuples expected"], second["false tuples expected"]) == (750, 2755)
    assert set(first) - set(second) == {"error bound", "usefulness"}


def test_another_table_is_refused() -> None:
    planned = sc.AlphaBeta(k=2, gamma=0.5, views=2, multiplicity=3)
    release = sc.publish(people(50, LARGE), LARGE, planned, options=sc.PublishOptions(seed=1))
    with pytest.raises(sc.PromiseError, match="not the table that was published before") as error:
        release.republish(people(49, LARGE))
    assert "49" not in str(error.value)


def test_views_of_a_domain_beyond_a_word() -> None:
    extra = [sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 99)) for i in range(15)]
    wide = sc.Schema([*schema(), *extra])
    private = people(200, wide)
    release = sc.publish(
        private, wide, sc.AlphaBeta(k=5, gamma=0.2, views=3), options=sc.PublishOptions(seed=1)
    )
    for seed in (2, 3):
        release = release.republish(private, seed=seed)
    table = pq.read_table(release.folder / "tuples.parquet")
    masks = table["views"].to_pylist()
    assert min(masks) >= 1
    assert max(masks) == 7
    rows = table.drop_columns(["views"]).to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows)
    # A true tuple is missing from three views with probability 1/8: 60 or more missing out of 200
    # has probability 1e-10.
    true = {tuple(row.values()) for row in private.to_pylist()}
    assert sum(tuple(row.values()) in true for row in rows) > 140
