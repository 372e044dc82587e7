"""Answers from sparse releases: unbiased where that is stated, with the stated variance, and with
intervals that hold the truth at their level.
"""

from __future__ import annotations

import gzip
import math
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from scipy.stats import binom

import scumble as sc
from scumble.families.histogram.design import NoiseTails, Rule, Sparse
from scumble.families.histogram.publish import SelectedCells
from scumble.families.histogram.read.sparse import (
    Amounts,
    SparseError,
    SparseMean,
    SparseSum,
    average_law,
    total_law,
)
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream
from scumble.public.estimate import TYPICAL
from tests.support.covered import FALSE_ALARM, least
from tests.support.mechanisms.sparse_trials import (
    amounts,
    behind_the_meter,
    design,
    error,
    pmf,
)
from tests.support.people import people, schema

LAW = DiscreteLaplace(Fraction(2))
THETA = 12
BLOCK = 60  # cells of a condition
# Blocks of cells: empty, few rows, at the threshold, just above and below it, many rows, and mixed.
BLOCKS = [
    np.zeros(BLOCK, int),
    np.append([1, 1, 2, 3], np.zeros(BLOCK - 4, int)),
    np.append(np.full(6, THETA), np.zeros(BLOCK - 6, int)),
    np.append(np.full(9, THETA + 3), np.zeros(BLOCK - 9, int)),
    np.append(np.full(4, THETA - 1), np.zeros(BLOCK - 4, int)),
    np.append([500, 90, 40], np.zeros(BLOCK - 3, int)),
    np.tile([0, 1, 5, 20, 60, 3], 10),
    np.full(BLOCK, 1),
]
COUNTS = np.concatenate(BLOCKS)
AMOUNTS = np.tile(np.arange(BLOCK) % 7 - 2.0, len(BLOCKS))
RELEASES = 160  # of each rule
RULES: list[Rule] = ["filter", "threshold", "priority", "filter priority"]


def published(rule: Rule, source: Keystream) -> tuple[Sparse, SelectedCells]:
    cells = behind_the_meter(COUNTS, source)
    if rule == "filter":
        return design(rule, LAW, theta=THETA), cells.filter(LAW, THETA)
    if rule == "threshold":
        found = cells.sample(LAW, 15)
        return design(rule, LAW, tau=15), found
    if rule == "priority":
        found = cells.draw_priority(LAW, 120)
        return design(rule, LAW, tau=found.tau), found
    found = cells.filter_and_draw(LAW, THETA, 30)
    return design(rule, LAW, theta=THETA, tau=found.tau), found


@cache
def trials(rule: Rule) -> list[tuple[SparseError, list[Amounts], list[Amounts]]]:
    """Releases, and for each block what a count and a sum are made of."""
    source, found_of_all = Keystream(43), []
    blocks = [np.arange(len(COUNTS)) // BLOCK == place for place in range(len(BLOCKS))]
    for _ in range(RELEASES):
        made, found = published(rule, source)
        total = int(COUNTS.sum()) + int(discrete_laplace(source, made.total_noise.scale, 1)[0])
        found_of_all.append(
            (
                error(made, found, len(COUNTS), total),
                [amounts(made, found, inside) for inside in blocks],
                [amounts(made, found, inside, AMOUNTS) for inside in blocks],
            )
        )
    return found_of_all


@pytest.mark.parametrize("rule", ["threshold", "priority"])
def test_samples_are_unbiased_with_the_variance_that_is_said(rule: Rule) -> None:
    """Counts and sums of all blocks in 160 releases: means within 5.5 standard errors (false alarm
    4e-8 each); and the mean of the estimated variances within 5.5 standard errors of that of the
    squared errors. Without the sampling's part it would be far off.
    """
    truths = [[block.sum(), block @ AMOUNTS[:BLOCK]] for block in BLOCKS]
    errors, variances, noise = [], [], []
    for law, counts, sums in trials(rule):
        pairs = list(zip(counts, sums, strict=True))
        errors.append(
            [
                [each.total - truth for each, truth in zip(pair, both, strict=True)]
                for pair, both in zip(pairs, truths, strict=True)
            ]
        )
        spreads = [[each.spread() for each in pair] for pair in pairs]
        noise = [[LAW.variance * spread.cells for spread in pair] for pair in spreads]
        variances.append([[LAW.variance * s.cells + s.sampling for s in pair] for pair in spreads])
        for pair in spreads:
            for spread in pair:
                assert law.variance(spread) >= LAW.variance * spread.cells + spread.sampling - 1e-6
    off, said = np.array(errors), np.array(variances)
    scale = off.std(axis=0) / RELEASES**0.5
    assert (np.abs(off.mean(axis=0)) < 5.5 * scale).all()
    gap = off**2 - said
    assert (np.abs(gap.mean(axis=0)) < 5.5 * gap.std(axis=0) / RELEASES**0.5).all()
    short = off**2 - np.array(noise)
    assert (short.mean(axis=0) > 5.5 * short.std(axis=0) / RELEASES**0.5).any()


@pytest.mark.parametrize("rule", ["filter", "filter priority"])
def test_filters_lose_and_never_add_in_the_mean(rule: Rule) -> None:
    """Empty cells stand for 0 and no block for more than its rows, in the mean (5.5 standard
    errors, 4e-8 each); large counts lose nothing.
    """
    values = np.array([[each.total for each in counts] for _, counts, _ in trials(rule)])
    truth = np.array([block.sum() for block in BLOCKS])
    scale = values.std(axis=0) / RELEASES**0.5 + 1e-9
    off = (values.mean(axis=0) - truth) / scale
    assert (off < 5.5).all()
    assert abs(off[0]) < 5.5
    assert abs(off[5]) < 5.5
    assert off[7] < -30  # single rows are lost


@pytest.mark.parametrize("rule", RULES)
def test_intervals_hold_the_truth(rule: Rule) -> None:
    """Of 160 releases, for each block, the intervals of a count and of a sum hold the truth as
    often as they say, and so do those of the average of one block; but for a false alarm of 1e-6
    each. 160 intervals find, with 99 %, a coverage of 68 % where 90 % is said, and of 87 % where
    99 % is.
    """
    levels = (0.9, 0.99)
    held = np.zeros((len(levels), len(BLOCKS), 2), int)
    averages = 0
    for law, counts, sums in trials(rule):
        for place, block in enumerate(BLOCKS):
            truths = block.sum(), float(block @ AMOUNTS[:BLOCK])
            for kind, each in enumerate((counts[place], sums[place])):
                spread = each.spread()
                for row, level in enumerate(levels):
                    low, high = law.interval(spread, level)
                    held[row, place, kind] += low <= truths[kind] <= high
        average = BLOCKS[6] @ AMOUNTS[:BLOCK] / BLOCKS[6].sum()
        average_of = SparseMean(law, sums[6])
        low, high = average_law(average_of).interval(average_of.value, 0.9)
        averages += low <= average <= high
    for row, level in enumerate(levels):
        assert (held[row] >= least(level, RELEASES)).all(), (level, held[row])
    assert averages >= least(0.9, RELEASES)


def test_that_check_would_find_too_narrow_intervals() -> None:
    """Intervals by the variance of the noise alone, as if nothing were sampled."""
    held = 0
    for _, counts, _ in trials("threshold"):
        spread = counts[1].spread()
        held += abs(spread.value - BLOCKS[1].sum()) <= 1.645 * (LAW.variance * spread.cells) ** 0.5
    assert held < binom.ppf(FALSE_ALARM, RELEASES, 0.9)


@pytest.mark.parametrize(
    "given",
    [
        {"rule": "filter"},
        {"rule": "threshold", "false_cells": 15},
        {"rule": "priority", "size": 40},
        {"rule": "filter priority", "size": 25},
    ],
)
def test_sql_finds_the_same_sums(given: dict) -> None:
    """Counts, sums, averages and groups by SQL are those of the same published cells by hand."""
    domain = schema(ages=12)
    mechanism = sc.Sparse(["age", "sex", "job"], epsilon=0.5, neighbours="replace", **given)
    release = sc.publish(people(900, domain), domain, mechanism, options=sc.PublishOptions(seed=6))
    made = release.evidence.design
    found = _found(release)
    grid = np.indices((12, 2, 5)).reshape(3, -1)
    inside = (grid[0] < 7) & (grid[2] != 1)
    where = "WHERE age < 7 AND job <> 'driver'"
    whole = error(made, found, 120, made.total)
    by_hand = amounts(made, found, inside, grid[0] * 2.0 - 3)
    total = release.answer(f"SELECT SUM(2 * age - 3) FROM t {where}")
    assert total.value == pytest.approx(_grown(whole, by_hand.spread()))
    assert total.interval() == pytest.approx(whole.interval(by_hand.spread(), 0.95))
    mean = release.answer(f"SELECT AVG(2 * age - 3) FROM t {where}")
    noise = SparseMean(whole, by_hand)
    assert mean.value == pytest.approx(noise.value)
    assert mean.interval() == pytest.approx(average_law(noise).interval(noise.value, 0.95))
    groups = release.answer(f"SELECT sex, COUNT(*) FROM t {where} GROUP BY sex")
    for code, sex in enumerate("fm"):
        each = amounts(made, found, inside & (grid[1] == code))
        assert groups[sex].value == pytest.approx(_grown(whole, each.spread()))
        assert groups[sex].stderr == pytest.approx(total_law(whole, each.spread()).stderr)
    everything = release.answer("SELECT COUNT(*) FROM t")
    assert everything.value == made.total
    nothing = release.answer("SELECT COUNT(*) FROM t WHERE age > 50")
    assert (nothing.value, nothing.stderr) == (0.0, 0.0)


def _grown(law: SparseError, spread: SparseSum) -> float:
    """A filter's sum with its part of the rows that were lost, less where it is hardly more than
    noise; what left-out cells can hold does not bind here.
    """
    if not law.design.filtered:
        return spread.value
    share = law.design.total / law.whole.value - 1
    clear = 1 - 9 * law.variance(law.whole) / law.whole.value**2
    return spread.value + share * clear * (spread.value - law.variance(spread) / spread.value)


def _found(release: sc.Release) -> SelectedCells:
    import pyarrow.parquet as pq

    table = pq.read_table(release.folder / release.evidence.file)
    names = ["age", "sex", "job"]
    codes = [release.schema[name].encode(table[name])[0] for name in names]
    keys = release.schema.cell_keys(names).pack(codes)
    made = release.evidence.design
    counts, weights = table["count"].to_numpy(), table["weight"].to_numpy()
    return SelectedCells(keys, counts, weights, made.tau)


def test_a_filter_tells_how_much_may_be_missing() -> None:
    """The note names a number of rows that what was lost does not exceed."""
    domain = schema(ages=50)
    mechanism = sc.Sparse(["age", "sex", "job"], epsilon=1, neighbours="replace", false_cells=1)
    release = sc.publish(people(1000, domain), domain, mechanism, options=sc.PublishOptions(seed=6))
    answer = release.answer("SELECT COUNT(*) FROM t WHERE sex = 'f'")
    note, typical = answer.notes
    assert typical == TYPICAL
    told = int(note.split("up to ")[1].split(" rows")[0].replace(",", ""))
    kept, _ = release.answer("SELECT SUM(1) FROM t WHERE age >= 0 OR sex = 'f'").bounds
    assert 1000 - kept <= told <= 1100
    low, high = answer.interval()
    assert high - low > told * 0.5


@pytest.mark.parametrize("rule", ["filter", "filter priority"])
def test_a_filters_values_are_within_their_limits(rule: Rule) -> None:
    """Of every block in 160 releases: the value is between the sum of published cells and the most
    that left-out ones can add, and in its interval at every level.
    """
    grew = 0
    for law, counts, sums in trials(rule):
        for spread in (each.spread() for each in (*counts, *sums)):
            value, estimate = law.estimate(spread), total_law(law, spread)
            if not law.left(spread):
                assert value == spread.value
                continue
            low, high = estimate.bounds
            assert low <= value <= high
            assert abs(value) >= abs(spread.value)
            grew += value > spread.value
            for level in (0.5, 0.95, 0.999):
                assert estimate.interval(value, level)[0] <= value
                assert value <= estimate.interval(value, level)[1]
    assert grew > RELEASES


@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
def test_lost_rows_are_taken_as_spread_like_the_others(shared_data: Path, epsilon: float) -> None:
    """Counts by two of 16 columns of a survey that had no part in the choice of the rule: the sum
    of their errors is less than that of published cells alone, and values are in their intervals.
    """
    with gzip.open(shared_data / "nltcs_21574x16.csv.gz") as text:
        table = csv.read_csv(text)
    domain = sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, 1)) for name in table.column_names]
    )
    mechanism = sc.Sparse(list(domain.names), epsilon=epsilon, neighbours="replace")
    release = sc.publish(table, domain, mechanism, options=sc.PublishOptions(seed=1))
    now = before = 0.0
    for pair in list(combinations(domain.names, 2))[::6]:
        names = ", ".join(f'"{name}"' for name in pair)
        groups = release.answer(f"SELECT {names}, COUNT(*) FROM t GROUP BY {names}")
        counted = table.group_by(list(pair)).aggregate([([], "count_all")]).to_pylist()
        truth = {tuple(row[name] for name in pair): row["count_all"] for row in counted}
        for key, each in groups:
            low, high = each.interval(0.5)
            assert low <= each.value <= high
            now += abs(each.value - truth.get(key, 0))
            before += abs(each.bounds[0] - truth.get(key, 0))
    assert now < before


def test_excess_covers_every_count_below_theta() -> None:
    """E[z²; published] is at most σ² P(published) and `excess` for each row of the cell."""
    for scale in (Fraction(1, 2), Fraction(3), Fraction(40)):
        tails = NoiseTails(DiscreteLaplace(scale))
        for theta in (tails.least_theta, 3 * tails.least_theta, 15 * tails.least_theta):
            for count in range(1, theta):
                start = theta - count
                own = tails.noise.variance * tails.chance(start)
                assert tails.second(start) <= own + tails.excess(theta) * count + 1e-9


# --- cells that were left out, and cells that were not -------------------------------------------


def _exact_coverage(counts: tuple[int, ...], level: float, weights: tuple[float, ...]) -> float:
    """The probability that the interval of Σ weight · count holds it, by enumeration of noises."""
    truth, held = sum(w * n for w, n in zip(weights, counts, strict=True)), 0.0
    for noisy in product(*(_outcomes(count) for count in counts)):
        low, high = _few_interval(tuple(v for v, _ in noisy), level, weights)
        held += math.prod(chance for _, chance in noisy) * (low <= truth <= high)
    return held


@cache
def _few_interval(
    noisy: tuple[int | None, ...], level: float, weights: tuple[float, ...]
) -> tuple[float, float]:
    """The interval of a condition of a few cells with these published counts."""
    made, inside = (
        design("filter", DiscreteLaplace(Fraction(1)), theta=6),
        np.ones(len(noisy), bool),
    )
    found = _shown({cell: v for cell, v in enumerate(noisy) if v is not None})
    spread = amounts(made, found, inside, np.array(weights)).spread()
    law = SparseError(made, spread)
    assert law.few(spread)
    return law.interval(spread, level)


def _outcomes(count: int) -> list[tuple[int | None, float]]:
    """What is published of a cell, with its probability; None if it is left out."""
    chances = [(v, float(pmf(1, v - count))) for v in range(6, count + 19)]
    return [*chances, (None, 1 - sum(chance for _, chance in chances))]


def _shown(counts: dict[int, int]) -> SelectedCells:
    values = np.array(list(counts.values()), np.int64)
    keys = np.array(list(counts), np.uint64)
    return SelectedCells(keys, values, values.astype(float), Fraction(0))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_one_cell_covers_for_every_count(level: float) -> None:
    """Every number of rows from 0 to far above theta, added and subtracted: by enumeration."""
    for count in range(20):
        for weight in (1.0, -2.0):
            assert _exact_coverage((count,), level, (weight,)) >= level - 1e-6


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0), (2.0, -1.0)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_two_cells_cover_for_every_pair_of_counts(
    level: float, weights: tuple[float, float]
) -> None:
    """Pairs of counts below, at and above theta: by enumeration."""
    for counts in product((0, 1, 4, 5, 6, 7, 9, 14), repeat=2):
        assert _exact_coverage(counts, level, weights) >= level - 1e-6, counts


def test_the_levels_of_left_out_cells_need_not_be_divided() -> None:
    """Ten left-out cells hold at most ten times theta - 1, and the noise of a sum of ten: less than
    ten limits of single cells, each at a tenth of the level.
    """
    made = design("filter", LAW, theta=THETA, total=10**6)
    inside = np.arange(500) < 10
    whole = error(made, _shown({}), 500, 10**6)
    spread = amounts(made, _shown({}), inside).spread()
    assert whole.few(spread)
    _, high = whole.interval(spread, 0.95)
    assert high < 10 * (THETA - 1 + LAW.half_width(1 - 0.05 / 10))
    assert high > 10 * (THETA - 1)


def test_a_published_cell_lacks_nothing_and_a_left_out_one_little() -> None:
    """One cell of a large release, of which most rows are in cells that were left out: its interval
    is that of its noise, or ends at theta and the tail of the noise, and the error says so.
    """
    domain = schema(ages=4000)
    rows = people(3000, domain).slice(0, 2000)
    table = rows.set_column(0, "age", pa.array([7] * 300 + list(range(1700)), pa.int64()))
    mechanism = sc.Sparse(["age"], epsilon=1, neighbours="add_remove", false_cells=1)
    release = sc.publish(table, domain, mechanism, options=sc.PublishOptions(seed=6))
    made = release.evidence.design
    noise = made.noise.half_width(0.95)
    shown = release.answer("SELECT COUNT(*) FROM t WHERE age = 7")
    assert shown.bounds is None
    assert shown.interval() == (shown.value - noise, shown.value + noise)
    left = release.answer("SELECT COUNT(*) FROM t WHERE age = 20")
    assert left.interval() == (min(0, left.value), made.theta - 1 + noise)
    assert left.stderr >= (made.theta - 1) / 12**0.5
    note, typical, impossible = left.notes
    assert typical == TYPICAL
    assert left.value < 0
    assert "outside of what is possible" in impossible
    assert f"up to {made.theta - 1 + noise:,.0f} rows" in note


@pytest.mark.parametrize("rule", ["filter", "filter priority"])
@pytest.mark.parametrize("height", [THETA - 1, THETA - 4, THETA + 2])
def test_tables_with_all_mass_at_the_threshold_are_covered(rule: Rule, height: int) -> None:
    """Every second of 400 cells has as many rows as make the filter as wrong as it can be. Counts
    of 1, 4, 20 and all cells, and an average, in 60 releases (false alarm of 1e-6 each).
    """
    counts = np.tile([height, 0], 200)
    source, releases, held = Keystream(45), 60, np.zeros(5, int)
    grid = np.arange(len(counts))
    for _ in range(releases):
        cells = behind_the_meter(counts, source)
        if rule == "filter":
            made, found = design(rule, LAW, theta=THETA), cells.filter(LAW, THETA)
        else:
            found = cells.filter_and_draw(LAW, THETA, 40)
            made = design(rule, LAW, theta=THETA, tau=found.tau)
        total = int(counts.sum()) + int(discrete_laplace(source, made.total_noise.scale, 1)[0])
        law = error(made, found, len(counts), total)
        for place, size in enumerate((1, 4, 20, 400)):
            spread = amounts(made, found, grid < size).spread()
            low, high = law.interval(spread, 0.95)
            held[place] += low <= counts[:size].sum() <= high
        mean = SparseMean(law, amounts(made, found, grid < 40, grid * 1.0))
        low, high = average_law(mean).interval(mean.value, 0.95)
        held[4] += low <= counts[:40] @ grid[:40] / counts[:40].sum() <= high
    assert (held >= least(0.95, releases)).all(), held


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_many_counts_are_as_one_by_one(neighbours: str) -> None:
    """With joint clauses, several clauses on an attribute, constants, no cell and all cells."""
    release = sc.publish(
        people(400, schema()),
        schema(),
        sc.Sparse(["age", "sex", "job"], epsilon=1, neighbours=neighbours, false_cells=30),
        options=sc.PublishOptions(seed=3),
    )
    conditions = [
        "age BETWEEN 2 AND 6 AND sex = 'f'",
        "age > 1 AND age < 7 AND job IN ('cook', 'smith')",
        "age > 2 OR sex = 'm'",
        "age > 200",
        "age >= 0",
        "1 = 1 AND age < 4",
        "age + length(job) < 9 AND sex <> 'f'",
    ]
    texts = [f"SELECT COUNT(*) FROM t WHERE {each}" for each in conditions]
    texts += ["SELECT SUM(age) FROM t WHERE sex = 'f'", "SELECT COUNT(*) FROM t GROUP BY sex"]
    for found, text in zip(release.answer_many(texts), texts, strict=True):
        expected = release.answer(text)
        if text.endswith("GROUP BY sex"):
            assert str(found) == str(expected)
            continue
        assert (found.method, found.notes) == (expected.method, expected.notes)
        ends = [*found.interval(0.9), *expected.interval(0.9)]
        assert found.value == pytest.approx(expected.value, rel=1e-12, nan_ok=True)
        assert ends[:2] == pytest.approx(ends[2:], rel=1e-10, abs=1e-10)
