"""Baskets: sensitivities by brute force, what is paid, and what is published.

Statistical tests here reject a correct program less than once in 10^5.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import scumble as sc
from scumble.families.baskets.design import HubTables, Itemsets, set_number, sets_at
from scumble.families.baskets.publish.baskets import LARGEST, bases_of
from scumble.families.baskets.publish.meter import (
    PrivateBaskets,
    SelectedItems,
    choice_epsilon,
    count_clipped,
    count_frequent,
    count_items,
    count_pairs,
)
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.model.schema.lists import ListDomain
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.top import picks_rho
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows
from tests.support.baskets import Basket, passes, random_baskets, support

ADDED = PrivacyUnit("add_remove")


def schema(items: int) -> sc.Schema:
    domain = ListDomain("set", sc.IntegerRange(0, items - 1))
    return sc.Schema([sc.Attribute("items", "sensitive", domain)])


def table(baskets: list[Basket]) -> pa.Table:
    return pa.table({"items": pa.array([sorted(each) for each in baskets], pa.list_(pa.int64()))})


def private(baskets: list[Basket], items: int, promise: PrivacyLoss, seed: int = 1) -> PrivateTable:
    rows = Rows(table(baskets), schema(items))
    return PrivateTable(RowCounter(rows), BudgetAccount(promise), Keystream(seed))


# --- sensitivities, over all neighbours of small tables ------------------------------------------

SUBSETS = [frozenset(each) for size in range(4) for each in combinations(range(3), size)]


def number_scores(baskets: list[Basket], k: int) -> np.ndarray:
    counts, _ = count_items(passes(baskets), 3)
    last = count_frequent(passes(baskets), counts, k)
    return -np.abs(np.sort(counts)[::-1] - last)


def test_a_basket_moves_scores_and_counts_by_at_most_one() -> None:
    """All tables of up to three baskets over three items, and every added basket."""
    law = DiscreteLaplace(Fraction(1))
    for rows in range(3):
        for before in product(SUBSETS, repeat=rows):
            for more in SUBSETS:
                one, other = list(before), [*before, more]
                for k in (1, 2, 4, 7):
                    moved = number_scores(other, k) - number_scores(one, k)
                    assert np.abs(moved).max() <= 1
                items, pairs = (
                    f(passes(other)) - f(passes(one))
                    for f in (
                        lambda p: count_items(p, 3)[0],
                        lambda p: count_pairs(p, SelectedItems(np.arange(3), 3)),
                    )
                )
                assert set(items.tolist()) | set(pairs.reshape(-1).tolist()) <= {0, 1}
                for most, longest in ((1, 1), (2, 2), (3, 2), (3, 3)):
                    design = Itemsets(tuple("abc"), longest, most, law, law)
                    # The words of the first baskets are the same in both tables.
                    a, b = (
                        count_clipped(
                            passes(each), SelectedItems(np.arange(3), 3), design, Keystream(1).words
                        )
                        for each in (one, other)
                    )
                    assert np.abs(b[0] - a[0]).sum() <= set_number(most, longest)
                    assert set((b[0] - a[0]).tolist()) <= {0, 1}
                    assert 0 <= b[1] - a[1] <= 1


# --- bases ---------------------------------------------------------------------------------------


def test_bases_hold_all_items_and_pairs(subtests: pytest.Subtests) -> None:
    for seed in range(5):
        with subtests.test(seed=seed):
            drawn = np.random.default_rng(seed)
            items = int(drawn.integers(13, 31))
            places = drawn.choice(items * (items - 1) // 2, 40, replace=False)
            pairs = [(int(a), int(b)) for a, b in sets_at(items, 2, places)]
            bases = bases_of(items, pairs)
            assert all(len(each) <= LARGEST for each in bases)
            assert {item for each in bases for item in each} == set(range(items))
            assert all(any({a, b} <= set(each) for each in bases) for a, b in pairs)
            assert len(bases) < 40


def test_large_cliques_are_split_and_few_items_are_one_basis() -> None:
    assert bases_of(12, []) == [tuple(range(12))]
    bases = bases_of(20, list(combinations(range(20), 2)))
    assert all(any(set(pair) <= set(b) for b in bases) for pair in combinations(range(20), 2))
    assert max(map(len, bases)) <= LARGEST


# --- what is paid --------------------------------------------------------------------------------


class OnlySets(sc.Baskets):
    """Baskets in which many items are never counted by tables over hubs."""

    most_hubs = -1


def made(kind=sc.Baskets, **changed) -> sc.Baskets:
    given = {"top": 40, "epsilon": 8, "neighbours": "add_remove"} | changed
    return kind("items", **given)


CASES = {
    "one basis": ({"top": 8}, 8),
    "bases": ({"top": 20}, 40),
    "clipped": ({"top": 200, "epsilon": 20, "kind": OnlySets}, 60),
    "hubs": ({"top": 80, "epsilon": 90}, 60),
    "one basis, delta": ({"top": 8, "delta": 1e-5}, 8),
    "bases, delta": ({"top": 20, "delta": 1e-5}, 40),
    "clipped, delta": ({"top": 200, "epsilon": 20, "delta": 1e-5, "kind": OnlySets}, 60),
    "hubs, delta": ({"top": 80, "epsilon": 90, "delta": 1e-5}, 60),
}
KINDS = {
    "one basis": "residuals",
    "bases": "residuals",
    "clipped": "itemsets",
    "hubs": "hub tables",
}
CLIPPED = ["number", "items", "number"]


def flat_baskets(items: int, number: int = 400) -> list[Basket]:
    """Baskets of about a quarter of equally frequent items."""
    drawn = np.random.default_rng(7).random((number, items)) < 0.25
    return [frozenset(np.flatnonzero(row).tolist()) for row in drawn]


def baskets_of(name: str, number: int = 400) -> list[Basket]:
    """Baskets for a case; for hubs the first two items are frequent, and others never together."""
    items = CASES[name][1]
    if not name.startswith("hubs"):
        return flat_baskets(items, number)
    drawn = np.random.default_rng(7)
    return [
        frozenset([*np.flatnonzero(drawn.random(2) < 0.6), 2 + int(drawn.integers(items - 2))])
        for _ in range(5 * number)
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_every_step_is_paid_and_nothing_is_left(name: str, neighbours: str, tmp_path) -> None:
    changed, items = CASES[name]
    mechanism = made(**changed, neighbours=neighbours, contribution=2)
    paid = private(baskets_of(name), items, mechanism.promise)
    evidence = mechanism.measure(paid, tmp_path)
    assert evidence.design.kind == KINDS[name.partition(",")[0]]
    account = paid._account
    what = [reason.partition(" of ")[0] for reason, _ in account.charges]
    if evidence.design.kind == "itemsets":
        assert what == [*CLIPPED, "sets", "baskets with more items"]
    elif evidence.design.kind == "hub tables":
        assert what == [*CLIPPED, "tables", "tables", "baskets with more items"]
    else:
        assert what == ["number", "items", *["pairs"] * (items > 12), "noisy tables"]
    promised = mechanism.promise.epsilon or mechanism.promise.rho
    assert 0 <= account.left <= promised / 1000  # what rounding noise up leaves


def test_a_step_that_is_not_paid_for_is_refused() -> None:
    poor = private(flat_baskets(8), 8, PrivacyLoss(Fraction(1, 2)))
    baskets = PrivateBaskets(poor, "items", ADDED)
    whole = PrivacyLoss(Fraction(1))
    law = DiscreteLaplace(Fraction(1))
    for measure in (
        lambda: baskets.number_of_items(3, whole),
        lambda: baskets.choose_items(3, whole),
        lambda: baskets.choose_clipped_items(3, 1, whole),
        lambda: baskets.number_of_hubs(np.arange(3), 3, 1, whole),
        lambda: baskets.hub_tables(np.arange(3), HubTables(tuple("abc"), 1, 1, law, law, law)),
        lambda: baskets.choose_pairs(np.arange(3), 1, whole),
        lambda: baskets.counts(np.arange(3), Itemsets(tuple("abc"), 2, 2, law, law)),
    ):
        with pytest.raises(sc.PromiseError, match="would cost"):
            measure()
    assert not poor._account.charges


def test_choices_cost_at_most_their_share() -> None:
    for k, rho in ((1, Fraction(1, 7)), (50, Fraction(1, 1000)), (3, Fraction(2))):
        epsilon = choice_epsilon(k, rho)
        assert rho * Fraction(999, 1000) < picks_rho(k, epsilon) <= rho
    with pytest.raises(sc.ParameterError, match="too small"):
        choice_epsilon(1, Fraction(1, 10**40))


# --- what is published ---------------------------------------------------------------------------


def test_tables_of_bases_are_those_of_marginals(tmp_path) -> None:
    """Number by number with the same seed, on a table of indicator columns."""
    baskets = random_baskets(300, 20, 0.9, 1)
    known = private(baskets, 20, PrivacyLoss(Fraction(1)))
    mechanism = made(top=20, epsilon=1)
    design = mechanism.measure(known, tmp_path).design
    names = design.attributes
    has = {name: [int(name[16:-1]) in each for each in baskets] for name in names}
    flags = sc.Schema([sc.Attribute(name, "quasi", sc.Boolean()) for name in names])
    sets = [[names[place] for place in each.places] for each in design.tables]
    marginals = sc.Marginals(list(names), sets=sets, epsilon=0.5, neighbours="add_remove")
    assert [each.law for each in marginals.tables(flags)] == [each.law for each in design.tables]
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    half = PrivacyLoss(Fraction(1, 2))
    plain = PrivateTable(RowCounter(Rows(pa.table(has), flags)), BudgetAccount(half), Keystream(9))
    marginals.measure(plain, one)
    from scumble.private.meter.table import noisy_tables

    again = private(baskets, 20, half, seed=9)
    numbers = noisy_tables(again, design, mechanism.unit)
    assert numbers.tolist() == pq.read_table(one / "tables.parquet")[design.count].to_pylist()


def answers(name: str, asked: str, seeds: int) -> list[sc.Estimate]:
    changed, items = CASES[name]
    rows = table(flat_baskets(items))
    found = []
    for seed in range(seeds):
        release = sc.publish(
            rows, schema(items), made(**changed), options=sc.PublishOptions(seed=seed)
        )
        try:
            found.append(release.answer(asked))
        except sc.QueryError:  # these items are not together in a basis
            continue
    return found


@pytest.mark.parametrize("name", ["one basis", "one basis, delta"])
def test_counts_are_unbiased_and_intervals_hold(name: str) -> None:
    """90 % intervals of 80 releases: fewer than 58 hold with probability below 10^-5."""
    baskets = flat_baskets(CASES[name][1])
    truth = support(baskets, [0, 1])
    asked = "SELECT COUNT(*) FROM t WHERE list_has_all(items, [0, 1])"
    found = answers(name, asked, 80)
    z = [(each.value - truth) / each.stderr for each in found]
    assert len(found) > 50
    assert abs(np.mean(z)) * np.sqrt(len(z)) < 4.5
    assert 0.6 < np.std(z) < 1.5
    held = sum(low <= truth <= high for low, high in (each.interval(0.9) for each in found))
    assert stats.binom.cdf(held, len(found), 0.9) > 1e-5


def test_clipped_counts_stay_below_and_intervals_reach_up() -> None:
    """The noise is around the kept counts; the interval holds the count of whole baskets."""
    baskets, rows = flat_baskets(60), table(flat_baskets(60))
    kept, whole, held = 0.0, 0, []
    for seed in range(20):
        release = sc.publish(
            rows, schema(60), made(**CASES["clipped"][0]), options=sc.PublishOptions(seed=seed)
        )
        one, other, *_ = (int(name[16:-1]) for name in release.evidence.columns)
        truth = support(baskets, [one, other])
        asked = f"SELECT COUNT(*) FROM t WHERE list_has_all(items, [{one}, {other}])"
        found = release.answer(asked)
        low, high = found.interval(0.9)
        kept, whole, held = kept + found.value, whole + truth, [*held, low <= truth <= high]
        assert any("at most 5 items of a basket" in note for note in found.notes)
    assert kept < whole - 4 * np.sqrt(20) * found.law.noise.stderr
    assert all(held)  # the upper limit allows for every clipped basket


def test_questions_to_clipped_counts_are_sums_of_counts_of_sets() -> None:
    """The noisy numbers are replaced by exact ones of baskets that need no clipping."""
    items = 40
    drawn = np.random.default_rng(3)
    baskets = [
        frozenset(drawn.choice(items, drawn.integers(0, 5), replace=False).tolist())
        for _ in range(500)
    ]
    mechanism = made(OnlySets, top=200, epsilon=50, longest=3, items=5, neighbours="replace")
    release = sc.publish(
        table(baskets), schema(items), mechanism, options=sc.PublishOptions(seed=1)
    )
    reader = release._reader_with("top")._reader
    chosen = [int(name[16:-1]) for name in release.evidence.columns]
    law = reader.design.noise
    assert len(chosen) > 30
    exact, clipped = count_clipped(
        passes(baskets), SelectedItems(np.array(chosen), items), reader.design, Keystream(1).words
    )
    assert clipped == 0
    reader.numbers[:] = exact
    a, b, c, d = chosen[:4]
    has = lambda *wanted: lambda basket: set(wanted) <= basket  # noqa: E731
    asked = {
        f"list_has_all(items, [{a}, {b}, {c}])": (has(a, b, c), 1),
        f"list_has_any(items, [{a}, {b}])": (lambda x: bool(x & {a, b}), 3),
        f"NOT contains(items, {a}) AND contains(items, {b})": (lambda x: b in x and a not in x, 2),
        f"contains(items, {a}) OR NOT contains(items, {b})": (
            lambda x: a in x or b not in x,
            2,
        ),
    }
    for condition, (test, numbers) in asked.items():
        found = release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
        assert found.value == pytest.approx(sum(map(test, baskets))), condition
        noise = found.law.noise.stderr
        assert noise == pytest.approx(np.sqrt(numbers * law.variance)), condition
    groups = release.answer(
        f'SELECT "contains(items, {a})", COUNT(*) FROM t GROUP BY "contains(items, {a})"'
    )
    assert groups[False].value + groups[True].value == pytest.approx(500)
    with pytest.raises(sc.QueryError, match="there are at most"):
        release.answer(f"SELECT COUNT(*) FROM t WHERE list_has_all(items, [{a}, {b}, {c}, {d}])")
    with pytest.raises(sc.QueryError, match="more items together"):
        release.answer(
            f"SELECT COUNT(*) FROM t WHERE NOT list_has_any(items, [{a}, {b}, {c}, {d}])"
        )


def test_frequent_sets_and_rules_of_a_generous_release() -> None:
    """With a large ε the most frequent sets are the true ones, and so are their shares."""
    baskets = random_baskets(2000, 10, 0.9, 5)
    release = sc.publish(
        table(baskets), schema(10), made(top=15, epsilon=90), options=sc.PublishOptions(seed=1)
    )
    chosen = [int(name[16:-1]) for name in release.evidence.columns]
    every = [each for size in range(1, 11) for each in combinations(range(10), size)]
    truth = sorted(every, key=lambda each: -support(baskets, each))
    top = release.baskets.top(10)
    assert [tuple(key[0]) for key, _ in top] == truth[:10]
    assert all(abs(each.value - support(baskets, key[0])) < 10 for key, each in top)
    pairs = [each for each in truth if len(each) == 2]
    assert [tuple(key[0]) for key, _ in release.baskets.top(2, length=2)] == pairs[:2]
    assert release.baskets.top(3).to_arrow().column("items").to_pylist() == [
        list(t) for t in truth[:3]
    ]
    rules = release.baskets.rules(support=0.05, confidence=0.6)
    shown = {(tuple(one), tuple(two)): row for (one, two), row in rules}
    expected = {
        (given, tuple(sorted(set(both) - set(given))))
        for both in every
        if len(both) > 1 and set(both) <= set(chosen) and support(baskets, both) >= 0.05 * 2000 + 20
        for size in range(1, len(both))
        for given in combinations(both, size)
        if support(baskets, both) / support(baskets, given) >= 0.65
    }
    assert expected <= set(shown)
    for (given, then), row in shown.items():
        share = support(baskets, given + then) / support(baskets, given)
        low, high = row["confidence"].interval(0.999999)
        assert low <= share <= high
        assert row["support"].value == pytest.approx(support(baskets, given + then), abs=15)


def test_bad_questions() -> None:
    release = sc.publish(
        table(flat_baskets(8)), schema(8), made(top=8), options=sc.PublishOptions(seed=1)
    )
    with pytest.raises(sc.ParameterError, match="'k' parameter"):
        release.baskets.top(0)
    with pytest.raises(sc.ParameterError, match="'confidence' parameter"):
        release.baskets.rules(support=0.1, confidence=2)
    with pytest.raises(sc.ParameterError, match="'support' parameter"):
        release.baskets.rules(support=-1, confidence=0.5)
    with pytest.raises(sc.QueryError, match="the longest have"):
        release.baskets.top(3, length=12)
    with pytest.raises(sc.QueryError, match=r"99\) was not published"):
        release.answer("SELECT COUNT(*) FROM t WHERE list_has_all(items, [0, 99])")
    other = sc.publish(
        pa.table({"a": [1, 2]}),
        sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 3))]),
        sc.Histogram(["a"], epsilon=1, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert not hasattr(other, "baskets")
    with pytest.raises(sc.ParameterError, match="a release by baskets or diffpart has"):
        other.baskets.top(3)


# --- schemas, tables and people ------------------------------------------------------------------


def test_unfit_schemas_are_refused_before_anything_is_read() -> None:
    column = sc.Schema([sc.Attribute("items", "quasi", sc.IntegerRange(0, 3))])
    ordered = sc.Schema(
        [sc.Attribute("items", "quasi", ListDomain("sequence", sc.IntegerRange(0, 3)))]
    )
    for unfit in (column, ordered):
        with pytest.raises(sc.SchemaError, match="needs an attribute of the type set"):
            sc.publish("no such file.csv", unfit, made())
    with pytest.raises(sc.ParameterError, match="counts at most"):
        sc.publish("no such file.csv", schema(5000), made(top=5000))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rows", [0, pytest.param(1, marks=pytest.mark.slow), 30])
def test_any_table_is_published_saved_and_read_again(name: str, rows: int, tmp_path) -> None:
    changed, items = CASES[name]
    release = sc.publish(
        table(baskets_of(name, rows)),
        schema(items),
        made(**changed),
        options=sc.PublishOptions(seed=1),
    )
    saved = sc.open(release.save(tmp_path / "release", insecure=True))
    [column, *_] = release.evidence.columns
    for question in ("SELECT COUNT(*) FROM t", f"SELECT COUNT(*) FROM t WHERE {column}"):
        found = repr(saved.answer(question))
        assert repr(release.answer(question)) == found
        assert repr(saved.answer_many([question])[0]) == found
    assert repr(release.baskets.top(5)) == repr(saved.baskets.top(5))
    assert saved.manifest.parameters == release.manifest.parameters
    assert [str(g) for g in saved.guarantees] == [str(g) for g in release.guarantees]
    assert "items" not in saved.schema.names  # only columns of the chosen items


def test_items_read_from_the_data_are_said() -> None:
    rows = pa.table({"items": ["a b", "b", "c a b"]})
    inferred = sc.Schema(
        [
            sc.Attribute(
                "items", "sensitive", ListDomain("set", sc.Category(("a", "b", "c"))),
                from_data=True,
            )
        ]
    )  # fmt: skip
    release = sc.publish(rows, inferred, made(top=3), options=sc.PublishOptions(seed=1))
    assert any("tells that somebody has it" in limit for limit in release.guarantees[0].limits)
    assert release.baskets.top(1).rows[0][0][0][0] in "abc"
    assert release.answer("SELECT COUNT(*) FROM t WHERE list_has_all(items, ['b'])").stderr > 0


def test_people_with_several_baskets() -> None:
    """Of each person the first baskets are counted, and the noise grows with their number."""
    known = sc.Schema([sc.Attribute("who", "identifier"), *schema(8)])
    baskets = flat_baskets(8, 100)
    rows = table(baskets).append_column("who", pa.array([str(i // 4) for i in range(100)]))
    one, two = (
        sc.publish(
            rows,
            known,
            made(top=8, epsilon=50, person="who", contribution=n),
            options=sc.PublishOptions(seed=1),
        )
        for n in (1, 2)
    )
    total = "SELECT COUNT(*) FROM t"
    assert one.answer(total).value == pytest.approx(25, abs=4)
    assert two.answer(total).value == pytest.approx(50, abs=8)
    first, second = (each.evidence.design.tables[0].law.scale for each in (one, two))
    assert float(second / first) == pytest.approx(2, rel=1e-3)
