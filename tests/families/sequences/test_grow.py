"""Growing trees of strings: exact losses by enumeration, numbers by brute force, lazy = dense."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.sequences.design import StringTree, leaves_of, suffix_rows
from scumble.families.sequences.publish.meter import (
    UNIT,
    PrivateStrings,
    _select_children,
    weigh_unit,
)
from scumble.model.errors import PromiseError
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.private.meter.grow import ChildNumbers, Threshold, threshold_tree
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.splits import SplitRule, split_rule
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Rows
from tests.support.goodness import rejects

QUIET = DiscreteLaplace(Fraction(1, 1000))  # not 0 once in 10^434 draws
ADD = PrivacyUnit("add_remove")


def strings_of(
    sequences: list[str], alphabet: str, *, length: int, unit: int = 1, epsilon: int = 10**9
) -> PrivateStrings:
    text = f'[attributes.x]\nrole="sensitive"\ntype="sequence"\nvalues={list(alphabet)}\n'
    schema = sc.Schema.loads(text.replace("'", '"'))
    table = pa.table({"x": pa.array([list(each) for each in sequences], pa.list_(pa.string()))})
    counter = RowCounter(Rows(open_source(table), schema))
    private = PrivateTable(counter, BudgetAccount(PrivacyLoss(Fraction(epsilon))), Keystream(7))
    return PrivateStrings(private, "x", ADD, length=length, unit=unit)


# --- the threshold rule --------------------------------------------------------------------------


def _passes(level: Threshold, count: int) -> float:
    """P(count + noise ≥ theta), in closed form."""
    alpha = math.exp(-1 / level.law.scale)
    gap = level.theta - count
    return alpha**gap / (1 + alpha) if gap > 0 else 1 - alpha ** (1 - gap) / (1 + alpha)


def _tree_law(levels: list[Threshold], counts: dict[str, int]) -> dict[frozenset[str], float]:
    """The probability of every tree over prefixes of two symbols, of which "$" ends a string."""
    kept: dict[frozenset[str], float] = {frozenset(): 1.0}
    for depth, level in enumerate(levels):
        grown: Counter[frozenset[str]] = Counter()
        for tree, chance in kept.items():
            nodes = [s for s in ({""} | tree) if len(s) == depth and not s.endswith("$")]
            children = [node + symbol for node in nodes for symbol in "a$"]
            for picked in itertools.product([False, True], repeat=len(children)):
                part = chance
                for child, yes in zip(children, picked, strict=True):
                    p = _passes(level, counts.get(child, 0))
                    part *= p if yes else 1 - p
                grown[tree | {c for c, yes in zip(children, picked, strict=True) if yes}] += part
        kept = dict(grown)
    return kept


class _Prefixes:
    """Records given as the counts of prefixes over "a" (0) and "$" (1)."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def children(self, tree: StringTree) -> ChildNumbers:
        begin, end = tree.levels[-1]
        found = {}
        for node in range(begin, end):
            string = "".join("a$"[code] for code in tree.string(node)) if self.counts else ""
            for code, symbol in enumerate("a$"):
                if count := self.counts.get(string + symbol, 0):
                    found[(node - begin) * 2 + code] = count
        keys = np.array(sorted(found), np.int64)
        return ChildNumbers(keys, np.array([found[key] for key in keys.tolist()], np.int64))


def _prefix_counts(sequences: tuple[str, ...]) -> dict[str, int]:
    return dict(Counter(s[:k] for s in sequences for k in (1, 2) if len(s) >= k))


def test_a_tree_of_prefixes_loses_exactly_epsilon() -> None:
    levels = [
        Threshold(DiscreteLaplace(Fraction(5, 2)), 3),
        Threshold(DiscreteLaplace(Fraction(7, 2)), 4),
    ]
    epsilon = float(sum(1 / level.law.scale for level in levels))
    worst = 0.0
    for table in itertools.combinations_with_replacement(["$", "aa", "a$"], 3):
        law = _tree_law(levels, _prefix_counts(table))
        assert sum(law.values()) == pytest.approx(1)
        for more in ("$", "aa", "a$"):
            other = _tree_law(levels, _prefix_counts((*table, more)))
            worst = max(worst, *(abs(math.log(law[tree] / other[tree])) for tree in law))
    assert worst == pytest.approx(epsilon, rel=1e-12)


def test_trees_of_prefixes_have_their_law() -> None:
    levels = [
        Threshold(DiscreteLaplace(Fraction(2)), 2),
        Threshold(DiscreteLaplace(Fraction(3)), 1),
    ]
    counts = _prefix_counts(("aa", "aa", "a$"))
    law = _tree_law(levels, counts)
    noise = NoisySteps(Keystream(3))
    drawn: Counter[frozenset[str]] = Counter()
    for _ in range(2500):
        tree = threshold_tree(_Prefixes(counts), noise, 2, levels)
        strings = ("".join("a$"[c] for c in tree.string(k)) for k in range(1, len(tree)))
        drawn[frozenset(strings)] += 1
    assert drawn.keys() <= law.keys()
    assert not rejects([drawn[tree] for tree in law], list(law.values()))


def test_thresholds_follow_the_fanout(subtests: pytest.Subtests) -> None:
    for fanout in [2, 18, 88, 498]:
        with subtests.test(fanout=fanout):
            for scale in (Fraction(1, 2), Fraction(4), Fraction(90)):
                level = Threshold.for_fanout(DiscreteLaplace(scale), fanout)
                false = [
                    fanout * _passes(Threshold(level.law, t), 0)
                    for t in (level.theta, level.theta - 1)
                ]
                assert false[0] <= 0.25 * (1 + 1e-9)
                assert level.theta == 1 or false[1] > 0.25


def test_thresholds_that_ignore_the_alphabet_let_false_strings_multiply() -> None:
    """Nobody is in the table, 87 symbols: with θ = 2√2 noise scales a level has more false strings
    than the one before; with θ from the fanout there are few.
    """
    law = DiscreteLaplace(Fraction(10))
    naive = Threshold(law, math.ceil(2 * math.sqrt(2) * 10))
    nobody = _Prefixes({})
    sizes = [
        len(threshold_tree(nobody, NoisySteps(Keystream(2)), 88, [level] * 6))
        for level in (naive, Threshold.for_fanout(law, 88))
    ]
    assert sizes[0] > 500
    assert sizes[1] < 20


def test_which_empty_children_pass_is_drawn_as_if_all_had_noise() -> None:
    """2^6 children, three of them with numbers: how many of the others pass is binomial, and each
    of them as often.
    """
    noise, law, floor = NoisySteps(Keystream(11)), DiscreteLaplace(Fraction(3)), -4
    keys, numbers = np.array([0, 9, 63]), np.array([2, -1, -4])
    times = np.zeros(64, int)
    sizes = np.zeros(65, int)
    runs = 4000
    for _ in range(runs):
        passed = noise.split_children(keys, numbers, law, floor, 64)
        assert (np.diff(passed) > 0).all()
        times[passed] += 1
        sizes[np.setdiff1d(passed, keys).size] += 1
    level = Threshold(law, 1)
    for key, number in zip(keys.tolist(), numbers.tolist(), strict=True):
        chance = _passes(level, number)
        assert not rejects([times[key], runs - times[key]], [chance, 1 - chance])
    chance = _passes(level, floor)
    others = np.delete(times, keys)
    assert not rejects(others, [1 / len(others)] * len(others))
    binomial = [math.comb(61, k) * chance**k * (1 - chance) ** (61 - k) for k in range(11)]
    few, shares = sizes[:2].sum(), [sum(binomial[:2]), *binomial[2:]]
    assert not rejects([few, *sizes[2:11], sizes[11:].sum()], [*shares, 1 - sum(shares)])


# --- the split rule on contexts ------------------------------------------------------------------

Record = tuple[str, str, int]  # what precedes a symbol, the symbol, and its weight


def _records(sequences: tuple[str, ...], length: int, unit: int) -> list[Record]:
    """What is before each symbol, the symbol, and its weight, by the definition."""
    found = []
    for sequence in sequences:
        symbols = (sequence + "$")[:length]
        weight = unit // len(symbols) if unit > 1 else 1
        found += [("^" + symbols[:k], symbol, weight) for k, symbol in enumerate(symbols)]
    return found


def _score(records: list[Record], context: str) -> int:
    following: Counter[str] = Counter()
    for before, symbol, weight in records:
        if before.endswith(context):
            following[symbol] += weight
    return sum(following.values()) - max(following.values(), default=0)


def _log_p(rule: SplitRule, score: int, depth: int, theta: int) -> tuple[float, float]:
    """The logarithms of the probabilities to split, and not to."""
    x = max(score - theta - depth * rule.decay, -rule.decay)
    rate = float(1 / rule.scale)
    far = -rate * (1 - x if x <= 0 else x) - math.log1p(math.exp(-rate))
    near = math.log1p(-math.exp(far))
    return (far, near) if x <= 0 else (near, far)


def _worst(rule: SplitRule, one: list[Record], other: list[Record], theta: int, sign: int) -> float:
    """The largest log-ratio of the probabilities of a tree: the most of "stop" and "split, and then
    the sum of all children".
    """

    @cache
    def below(context: str) -> float:
        if context.startswith("^") or not any(b.endswith(context) for b, _, _ in one + other):
            return 0.0
        mine, yours = (
            _log_p(rule, _score(records, context), len(context), theta) for records in (one, other)
        )
        split, stop = (sign * (a - b) for a, b in zip(mine, yours, strict=True))
        return max(stop, split + sum(below(symbol + context) for symbol in "ab^"))

    return below("")


def test_trees_of_contexts_lose_at_most_what_is_charged(subtests: pytest.Subtests) -> None:
    for unit, theta in product([1, 12], [0, 3]):
        with subtests.test(unit=unit, theta=theta):
            length = 2
            mass = unit if unit > 1 else length
            epsilon = Fraction(1, 2)
            rule = split_rule(epsilon, 3, weigh_unit(ADD, mass))
            assert rule.loss(weigh_unit(ADD, mass)) <= epsilon
            kinds = ["", "a", "b", "aa", "ab", "ba", "bb"]
            worst = 0.0
            tables = [(), ("aa",) * 9, ("ab", "ba") * 7, ("bb",) * 20 + ("ab",) * 6, tuple(kinds)]
            for table, more in itertools.product(tables, kinds):
                one, other = _records(table, length, unit), _records((*table, more), length, unit)
                worst = max(worst, *(_worst(rule, one, other, theta, sign) for sign in (1, -1)))
            assert 0.1 * epsilon < worst <= epsilon


def test_numbers_of_contexts_fall_and_move_by_at_most_one() -> None:
    kinds = ["", "a", "ab", "ba", "bba", "abab"]
    for table, more in itertools.product(itertools.combinations(kinds, 3), kinds):
        one = _records(table, 4, 1)
        for added in _records((more,), 4, 1):
            other = [*one, added]
            for context in ("", "a", "b", "^", "ab", "ba", "^a", "bba"):
                assert 0 <= _score(other, context) - _score(one, context) <= 1
                assert _score(one, context) <= _score(one, context[1:])


def test_numbers_of_contexts_are_those_of_the_definition(subtests: pytest.Subtests) -> None:
    for unit, length in product([1, UNIT], [1, 3, 50]):
        with subtests.test(unit=unit, length=length):
            draw = np.random.default_rng(5)
            sequences = ["".join(draw.choice(list("abc"), size=k)) for k in draw.integers(0, 9, 60)]
            strings = strings_of(sequences, "abc", length=length, unit=unit)
            inner = strings.contexts(SplitRule(Fraction(1, 1000), 1), 4 * unit, 3)
            records = _records(tuple(sequences), length, unit)
            names = [
                "".join("abc^"[c] for c in reversed(inner.string(k))) for k in range(len(inner))
            ]
            depth = [d for d in (1, 2) if d < length + 1]
            expected = [c for c in [""] if _score(records, c) - 4 * unit > 0]
            for size in depth:
                expected += [
                    context
                    for context in (
                        "".join(reversed(each)) for each in itertools.product("abc", repeat=size)
                    )
                    if context[1:] in expected and _score(records, context) - 4 * unit - size > 0
                ]
            assert sorted(names) == sorted(expected)
            cells = strings.cells(inner, QUIET).reshape(-1, 4)
            for leaf, numbers in zip(leaves_of(inner).tolist(), cells.tolist(), strict=True):
                own = "" if leaf < 0 else "abc^"[leaf % 4] + names[leaf // 4]
                following = dict.fromkeys("abc$", 0)
                for before, symbol, weight in records:
                    if before.endswith(own):
                        following[symbol] += weight
                assert numbers == list(following.values())
            assert cells.sum() == sum(weight for _, _, weight in records)


def test_counts_of_runs_are_those_of_the_definition(subtests: pytest.Subtests) -> None:
    for first, unit in product([True, False], [1, UNIT]):
        with subtests.test(first=first, unit=unit):
            draw = np.random.default_rng(6)
            sequences = ["".join(draw.choice(list("ab"), size=k)) for k in draw.integers(0, 7, 40)]
            strings = strings_of(sequences, "ab", length=5, unit=unit)
            least = 3 if unit == 1 else 3 * unit - unit // 7  # no sum is close to it
            quiet = Threshold(DiscreteLaplace(Fraction(unit, 1000)), least)
            tree = strings.runs([quiet] * 3, [5 * unit] * 3, first=first)
            counts = strings.counts(tree, [QUIET] * 3, [5 * unit] * 3, first=first)
            expected: Counter[str] = Counter()
            for sequence in sequences:
                symbols = (sequence + "$")[:5]
                weight = unit // len(symbols) if unit > 1 else 1
                for start in range(1 if first else len(symbols)):
                    for end in range(start + 1, min(start + 3, len(symbols)) + 1):
                        expected[symbols[start:end]] += weight
            names = ["".join("ab$"[c] for c in tree.string(k)) for k in range(1, len(tree))]
            kept = {string: count for string, count in expected.items() if count >= least}
            assert dict(zip(names, counts[1:].tolist(), strict=True)) == kept
            assert len(kept) >= 3


def test_growing_is_charged_before_the_records_are_read() -> None:
    strings = strings_of(["ab"] * 3, "ab", length=4, epsilon=1)
    rule = split_rule(Fraction(1), 3, weigh_unit(ADD, 4))
    with pytest.raises(PromiseError, match="splits of x would cost"):
        strings.contexts(SplitRule(rule.scale / 2, rule.decay), 0, None)
    strings.contexts(rule, 0, None)
    with pytest.raises(PromiseError, match="cells of x would cost"):
        strings.cells(StringTree.root(3), DiscreteLaplace(Fraction(10)))


def test_sequences_that_are_kept_in_a_file_have_the_same_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sequences = ["abba", "ab", "", "bbbb"] * 5
    found = []
    for memory in (1 << 26, 0):
        monkeypatch.setattr("scumble.private.tables.list_spool.MEMORY", memory)
        strings = strings_of(sequences, "ab", length=3, unit=UNIT)
        inner = strings.contexts(SplitRule(Fraction(1, 1000), 1), 0, None)
        found.append(strings.cells(inner, QUIET).tolist())
    assert found[0] == found[1]


def test_only_walks_that_lead_to_a_slot_are_followed() -> None:
    """Children that lead to none are left out; the sums of those with slots are the same."""
    draw = np.random.default_rng(3)
    sequences = ["".join(draw.choice(list("abc"), size=k)) for k in draw.integers(0, 12, 80)]
    strings = strings_of(sequences, "abc", length=9)
    tree = StringTree.root(4)
    for keys in ([0, 1, 2], [4, 5, 8, 14], [16, 21, 25]):
        tree = tree.grown(np.array(keys))
    begin, end = tree.levels[-1]
    leaves = np.flatnonzero(tree.children < 0)
    everything = np.full(len(tree) * 4, -1)
    everything[leaves] = np.arange(len(leaves))
    sums = strings._following(tree, everything, len(leaves))
    some = np.where(np.arange(len(tree) * 4) >= begin * 4, everything, -1)
    chosen = some[begin * 4 : end * 4]
    assert (_select_children(tree, some) >= 0).sum() < (tree.children >= 0).sum()
    assert (_select_children(tree, everything) == tree.children).all()
    assert strings._following(tree, some, len(leaves))[chosen].tolist() == sums[chosen].tolist()
    assert sums[chosen].sum() > 0


def test_sums_of_contexts_in_several_passes_are_those_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(7)
    sequences = ["".join(draw.choice(list("abc"), size=k)) for k in draw.integers(0, 9, 60)]
    found = []
    for cells, together in ((1 << 23, 1 << 16), (1, 5)):
        monkeypatch.setattr("scumble.families.sequences.publish.meter._CELLS", cells)
        monkeypatch.setattr("scumble.families.sequences.publish.meter._TOGETHER", together)
        strings = strings_of(sequences, "abc", length=6, unit=UNIT)
        inner = strings.contexts(SplitRule(Fraction(1, 1000), 1), UNIT, 3)
        found.append((inner.keys.tolist(), strings.cells(inner, QUIET).tolist()))
    assert found[0] == found[1]
    assert len(found[0][0]) >= 5


@pytest.mark.parametrize("contexts", [0, 1, 4])
def test_rows_of_contexts_in_pieces_are_those_of_the_tree(
    contexts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = StringTree.root(3).grown(np.array([0, 1])).grown(np.array([3]))
    inner = StringTree(inner.parents[:contexts], inner.symbols[:contexts], 3)
    leaves = leaves_of(inner)
    cells = np.arange(100, 100 + 3 * len(leaves))
    expected = [(*node, 0) for node in zip(inner.parents, inner.symbols, strict=True)]
    for leaf, place in itertools.product(range(len(leaves)), range(3)):
        node = (-1, -1) if leaves[leaf] < 0 else divmod(int(leaves[leaf]), 3)
        expected.append((*node, int(cells[3 * leaf + place])))
    for rows in (1 << 20, 3, 1):
        monkeypatch.setattr("scumble.families.sequences.design.ROW_GROUP", rows)
        pieces = list(suffix_rows(inner, leaves, cells))
        columns = [np.concatenate(each).tolist() for each in zip(*pieces, strict=True)]
        assert list(zip(*columns, strict=True)) == expected
        assert all(len(piece[0]) <= rows for piece in pieces)
