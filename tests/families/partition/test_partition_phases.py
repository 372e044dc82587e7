"""The three phases that find a partition: properties, brute force, and the worked example."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.families.partition.publish import (
    MOST_GROUPS,
    Merging,
    balance_groups,
    balance_level,
    best_order,
    bound_part,
    error_bound,
    gamma_of,
    keep_for,
    split,
)
from scumble.model.privacy.guarantee import gamma_for_rho

WORKED = dict(enumerate([12, 8, 6, 5, 4, 3, 1, 1, 1, 1]))
ONE_THIRD, TWO_THIRDS = Fraction(1, 3), Fraction(2, 3)

tables = st.lists(st.integers(1, 60), min_size=1, max_size=25).map(lambda c: dict(enumerate(c)))
shares = st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=60)


def _joined(groups) -> dict[int, int]:
    total: dict[int, int] = {}
    for group in groups:
        for value, count in group.items():
            total[value] = total.get(value, 0) + count
    return total


def _merging() -> tuple[list[dict[int, int]], Merging]:
    groups = balance_groups(WORKED, {})
    return groups, Merging(groups, WORKED, float(TWO_THIRDS))


def test_worked_example_balance() -> None:
    """specs/input-perturbation.md: θ = 3 and all five groups."""
    assert balance_level(WORKED) == 3
    assert balance_groups(WORKED, {}) == [
        {0: 6, 1: 6, 2: 6},
        {0: 4, 3: 4, 4: 4},
        {0: 2, 1: 2, 5: 2},
        {3: 1, 5: 1, 6: 1},
        {7: 1, 8: 1, 9: 1},
    ]


def test_worked_example_order_and_bounds() -> None:
    """The order g1 g3 g2 g4 g5 has the bound 2.019, and scipy's order 2.030."""
    groups, merging = _merging()
    order = best_order(groups, merging.cost, most=1000)
    assert order == (0, 2, 1, 3, 4)
    assert merging.parts(order) == [(0, 2, 1), (3, 4)]
    factor = 2 * math.sqrt(math.log(2 / 0.05)) / 42
    assert math.floor(1000 * factor * merging.cost(order)) == 2019
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix([[group.get(value, 0) for value in WORKED] for group in groups])
    plain = sparse.csgraph.reverse_cuthill_mckee(matrix @ matrix.T, symmetric_mode=True)
    assert math.floor(1000 * factor * merging.cost(tuple(plain.tolist()))) == 2030


def test_worked_example_parts() -> None:
    first, second = split(WORKED, ONE_THIRD, TWO_THIRDS)
    assert first.counts == {0: 12, 1: 8, 2: 6, 3: 4, 4: 4, 5: 2}
    assert second.counts == {3: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1}
    expected = [(4, Fraction(4, 9)), (10, TWO_THIRDS)]
    for part, (gamma, diagonal) in zip((first, second), expected, strict=True):
        assert len(part.domain) == 6
        assert gamma_of(part.keep, 6) == gamma
        assert part.keep + (1 - part.keep) / 6 == diagonal
    sizes, keeps = [36, 6], [float(first.keep), float(second.keep)]
    assert math.floor(1000 * error_bound(sizes, keeps, 0.05)) == 2019


def test_worked_example_as_one_table() -> None:
    """The example perturbs the whole table with the γ = 4 of ρ1 = 1/3; its most frequent value has
    only 12/42 of the rows, which would allow γ = 5.
    """
    gamma = gamma_for_rho(ONE_THIRD, TWO_THIRDS)
    keep = keep_for(gamma, 10)
    assert gamma == 4
    assert keep + (1 - keep) / 10 == Fraction(4, 13)
    assert gamma_of(bound_part(WORKED, WORKED, TWO_THIRDS).keep, 10) == 5


@given(tables)
def test_balance_uses_every_row_once_and_every_group_is_balanced(counts: dict[int, int]) -> None:
    theta = balance_level(counts)
    groups = balance_groups(counts, {})
    assert _joined(groups) == counts
    for group in groups:
        assert min(group.values()) > 0
        assert max(group.values()) * theta <= sum(group.values())
    for group in groups[:-1]:
        assert len(group) == theta
        assert len(set(group.values())) == 1


@given(tables)
def test_the_height_of_each_round_is_the_largest_that_leaves_the_rest_balanced(counts) -> None:
    theta = balance_level(counts)
    rest = dict(counts)
    for group in balance_groups(counts, {})[:-1]:
        height = next(iter(group.values()))
        assert _leaves_balance(rest, group, height, theta)
        assert not _leaves_balance(rest, group, height + 1, theta)
        rest = {value: count - group.get(value, 0) for value, count in rest.items()}


def _leaves_balance(rest: dict[int, int], values, height: int, theta: int) -> bool:
    left = {value: count - height * (value in values) for value, count in rest.items()}
    return min(left.values()) >= 0 and max(left.values()) * theta <= sum(left.values())


@given(tables, tables)
def test_frequent_values_are_spread_in_proportion(rare, frequent) -> None:
    frequent = {100 + value: count for value, count in frequent.items()}
    before, after = balance_groups(rare, {}), balance_groups(rare, frequent)
    assert _joined(after) == rare | frequent
    total, extra = sum(rare.values()), sum(frequent.values())
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        assert {value: new[value] for value in old} == old
        added = sum(new.values()) - sum(old.values())
        due = sum(old.values()) * extra // total
        assert added == due or (place == len(before) - 1 and due <= added < due + len(before))


def test_many_groups_are_bounded() -> None:
    counts = {value: 1 + 3000 // (1 + value) for value in range(3000)}
    theta = balance_level(counts)
    groups = balance_groups(counts, {})
    assert len(groups) == MOST_GROUPS
    assert _joined(groups) == counts
    assert all(max(group.values()) * theta <= sum(group.values()) for group in groups)


def _exact_cost(groups, rare, rho2: Fraction) -> float:
    """√n·(m/(γ−1) + 1), with γ by fractions."""
    joined = _joined(groups)
    rows = sum(joined.values())
    largest = max((count for value, count in joined.items() if value in rare), default=0)
    if largest == 0:
        return math.sqrt(rows)
    rho = Fraction(largest, rows)
    if rho >= rho2:
        return math.inf
    gamma = rho2 * (1 - rho) / (rho * (1 - rho2))
    return math.sqrt(rows) * (len(joined) / float(gamma - 1) + 1)


groups_of_values = st.lists(
    st.dictionaries(st.integers(0, 7), st.integers(1, 9), min_size=1), min_size=1, max_size=7
)


@given(groups_of_values, st.sets(st.integers(0, 7)), shares)
def test_merge_is_the_best_of_all(groups, rare, rho2: Fraction) -> None:
    """Against every way to cut the sequence into runs, each priced by fractions."""
    size = len(groups)
    best = math.inf
    for number in range(size):
        for cuts in combinations(range(1, size), number):
            runs = pairwise((0, *cuts, size))
            costs = [_exact_cost(groups[begin:end], rare, rho2) for begin, end in runs]
            best = min(best, sum(costs))
    merging = Merging(groups, rare, float(rho2))
    order = tuple(range(size))
    assert merging.cost(order) == pytest.approx(best, rel=1e-9)
    parts = merging.parts(order)
    assert [place for part in parts for place in part] == list(order)
    if best < math.inf:
        chosen = [_exact_cost([groups[p] for p in part], rare, rho2) for part in parts]
        assert sum(chosen) == pytest.approx(best, rel=1e-9)


@given(groups_of_values)
def test_orders_are_those_of_cuthill_and_mckee(groups) -> None:
    """Every group comes once; within a component, each but the last has a later neighbour, since
    reversed breadth-first search meets it from there.
    """
    seen = []
    order = best_order(groups, lambda order: float(seen.append(order) or 0), most=1000)
    assert seen[0] == order
    for tried in seen:
        assert sorted(tried) == list(range(len(groups)))
        for place, group in enumerate(tried):
            near = [other for other in tried if set(groups[other]) & set(groups[group])]
            later = [other for other in near if other in tried[place + 1 :]]
            starts_component = _component(groups, group) <= {*tried[: place + 1]}
            assert later or starts_component
    assert len(seen) == 1 + len(groups)


def _component(groups, start: int) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        place = waiting.pop()
        for other, group in enumerate(groups):
            if other not in found and set(group) & set(groups[place]):
                found.add(other)
                waiting.append(other)
    return found


@given(tables, shares, shares)
def test_split_keeps_the_promise_exactly(counts, one: Fraction, other: Fraction) -> None:
    """Every row once; in every part the belief in a rare value, its share there being the prior,
    ends at most at ρ2, and at ρ2 for the most frequent one: all in fractions.
    """
    if one == other:
        return
    rho1, rho2 = sorted((one, other))
    parts = split(counts, rho1, rho2)
    rows = sum(counts.values())
    rare = [value for value, count in counts.items() if Fraction(count, rows) <= rho1]
    assert (parts is None) == (not rare)
    if parts is None:
        return
    assert _joined([part.counts for part in parts]) == counts
    for part in parts:
        assert part.domain == tuple(sorted(part.counts))
        size, keep = len(part.domain), part.keep
        assert 0 < keep < 1
        ends = []
        for shown in part.domain:
            chances = {
                value: Fraction(count, part.rows)
                * ((1 - keep) / size + (keep if value == shown else 0))
                for value, count in part.counts.items()
            }
            total = sum(chances.values())
            ends += [chances[value] / total for value in rare if value in chances]
        assert max(ends) == rho2
    merged = bound_part(counts, rare, rho2)
    alone = error_bound([rows], [float(merged.keep)], 0.05)
    chosen = error_bound([p.rows for p in parts], [float(p.keep) for p in parts], 0.05)
    assert chosen <= alone * (1 + 1e-9)
