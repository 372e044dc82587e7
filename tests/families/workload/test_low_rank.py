"""Workload is never worse than the low-rank mechanism, at the same promise.

Both add noise to sums of cells. The rival is optimised in floating point, with continuous noise and
free real coefficients, from starts of its own; Workload publishes whole numbers. It keeps a
millionth of the sensitivity for single cells, so that every question has an answer; that is the
tolerance.
Both are local searches: neither is known to be the best.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.workload.publish.strategies import choose_strategy, low_rank
from scumble.model.designs.matrix import CELLS, ENTRIES, NOISY, from_table
from tests.support.low_rank import low_rank_error

ONE_CELL = 1e-6  # the share of the norm of a column that its cell's own row has


def _tables(sizes, ways):
    """The tables of all sets of `ways` attributes."""
    codes = np.indices(sizes).reshape(len(sizes), -1)
    rows = [
        (codes[list(names)] == np.array(values)[:, None]).all(axis=0)
        for names in itertools.combinations(range(len(sizes)), ways)
        for values in np.ndindex(*[sizes[name] for name in names])
    ]
    return np.array(rows, np.float64)


def _ranges(cells):
    ends = itertools.combinations(range(cells + 1), 2)
    return np.array([np.isin(np.arange(cells), range(*end)) for end in ends], np.float64)


def _random(questions, cells, share, seed):
    drawn = np.random.default_rng(seed).random((questions, cells)) < share
    return np.unique(drawn, axis=1).astype(np.float64)  # cells that no question tells apart, once


WORKLOADS = {
    **{f"one-way {sizes}": _tables(sizes, 1) for sizes in [(16, 2), (12, 2), (8, 2), (5, 3)]},
    **{f"one-way {sizes}": _tables(sizes, 1) for sizes in [(10, 4), (4, 4), (3, 4, 5), (2,) * 5]},
    "two-way (3, 4, 2)": _tables((3, 4, 2), 2),
    "two-way (2, 2, 2, 2)": _tables((2,) * 4, 2),
    "all cells": np.eye(16),
    "prefixes": np.tri(16),
    "ranges": _ranges(12),
    "few ranges": _ranges(24)[::37],
    "8 questions, 60 cells": _random(8, 60, 0.5, 3),
    "10 questions, 30 cells": _random(10, 30, 0.3, 4),
    "6 questions, five times": np.repeat(_random(6, 40, 0.5, 5), 5, axis=0),
    "24 questions, 16 cells": _random(24, 16, 0.5, 6),
}


def _choice(workload, *, gaussian=False):
    rows = np.unique(workload, axis=0)
    return choose_strategy(workload.T @ workload, rows, gaussian=gaussian)


@pytest.mark.parametrize(
    "names", [list(WORKLOADS)[::3], pytest.param(list(WORKLOADS), marks=pytest.mark.slow)]
)
def test_workload_is_never_worse_than_the_low_rank_mechanism(names, subtests):
    for name in names:
        with subtests.test(name=name):
            workload = WORKLOADS[name]
            rival = low_rank_error(workload, starts=1, steps=100)
            assert math.sqrt(_choice(workload).error) <= (1 + ONE_CELL) * math.sqrt(rival)


def test_the_order_of_cells_and_questions_does_not_matter():
    """Hierarchies and wavelets depend on it. What is found for permuted tables is not worse."""
    random, workload = np.random.default_rng(1), WORKLOADS["one-way (5, 3)"]
    rival = low_rank_error(workload, starts=3)
    for _ in range(3):
        permuted = random.permutation(random.permutation(workload), axis=1)
        assert _choice(permuted).error <= (1 + ONE_CELL) ** 2 * rival


@pytest.mark.parametrize(
    "name", ["one-way (3, 4, 5)", "two-way (3, 4, 2)", "8 questions, 60 cells"]
)
def test_gaussian_noise_is_near_the_bound_for_every_strategy(name):
    """So no low-rank strategy is better by more than this."""
    choice = _choice(WORKLOADS[name], gaussian=True)
    assert choice.bound <= choice.error <= 1.005 * choice.bound


def test_the_strategy_stays_in_the_span_of_the_questions():
    """But for the rows of single cells, which cost no more than a unit each."""
    workload = WORKLOADS["one-way (4, 4)"]
    found = low_rank(workload.T @ workload, workload, gaussian=False, beat=math.inf)
    rows = found.matrix.toarray()
    cells = len(rows) - workload.shape[1]
    assert (np.diag(rows[cells:]) >= 1).all()
    assert np.linalg.matrix_rank(np.vstack([workload, rows[:cells]])) == 7
    spare = np.abs(rows).sum(axis=0)
    assert spare.max() <= np.abs(rows[:cells]).sum(axis=0).max() + 1
    assert spare.min() == pytest.approx(spare.max(), abs=1)


def test_no_low_rank_strategy_where_questions_tell_every_cell():
    assert low_rank(np.eye(4), np.eye(4), gaussian=False, beat=math.inf) is None


def test_a_release_with_low_rank_sums():
    """The forecast is that of the strategy, answers have its error, and a question that the sums do
    not tell is refused.
    """
    schema = sc.Schema(
        [
            sc.Attribute("a", "quasi", sc.IntegerRange(0, 15)),
            sc.Attribute("b", "quasi", sc.Category(("x", "y"))),
        ]
    )
    queries = ["SELECT a, COUNT(*) FROM t GROUP BY a", "SELECT b, COUNT(*) FROM t GROUP BY b"]
    mechanism = sc.Workload(["a", "b"], queries=queries, epsilon=1, neighbours="add_remove")
    forecast = mechanism.forecast(schema)
    assert forecast.strategy == "low-rank sums"
    rival = low_rank_error(WORKLOADS["one-way (16, 2)"], starts=3)
    assert forecast.rmse <= (1 + ONE_CELL) * math.sqrt(2 * rival / 18)
    table = pa.table({"a": np.arange(320) % 16, "b": ["x"] * 100 + ["y"] * 220})
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    found = release.answer("SELECT COUNT(*) FROM t WHERE b = 'x'")
    assert abs(found.value - 100) < 6 * found.stderr
    assert found.stderr == pytest.approx(forecast.stderrs[16], rel=1e-6)
    assert release.answer("SELECT COUNT(*) FROM t WHERE a > 3").stderr < 8 * found.stderr
    with pytest.raises(sc.QueryError, match="planned for"):
        release.answer("SELECT COUNT(*) FROM t WHERE b = 'x' AND a = 3")


def test_the_rival_reaches_what_is_known():
    """All cells: the identity, error 1 each. One question: the question itself."""
    assert low_rank_error(np.eye(4), starts=0) == pytest.approx(4, rel=0.02)
    assert low_rank_error(np.ones((1, 6)), starts=0) == pytest.approx(1, rel=0.02)


# --- what is published: exact arithmetic, and forged files ---------------------------------------


def _solved(rows: list[list[Fraction]]) -> list[Fraction]:
    """Solve linear equations, whose rows end with their right sides, in fractions."""
    size = len(rows)
    for place in range(size):
        pivot = next(row for row in range(place, size) if rows[row][place])
        rows[place], rows[pivot] = rows[pivot], rows[place]
        rows[place] = [each / rows[place][place] for each in rows[place]]
        for other in range(size):
            if other != place and rows[other][place]:
                factor = rows[other][place]
                pairs = zip(rows[other], rows[place], strict=True)
                rows[other] = [one - factor * two for one, two in pairs]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_answers_and_noise_are_those_of_exact_arithmetic(delta, neighbours):
    """Cells have next to no weight of their own, so that the normal equations are ill-conditioned.
    Privacy, from all pairs of rows; value and variance, by least squares in fractions.
    """
    release, mechanism = _released(["a", "b"], delta=delta, neighbours=neighbours, contribution=2)
    table = pq.read_table(release.folder / "sums.parquet")
    strategy, noisy = from_table(table, 16)
    matrix, law = strategy.matrix.toarray().tolist(), release.evidence.design.noise
    columns = list(zip(*matrix, strict=True))
    changes = [tuple(2 * each for each in column) for column in columns]
    if neighbours == "replace":
        changes += [
            tuple(2 * (a - b) for a, b in zip(one, two, strict=True))
            for one, two in itertools.permutations(columns, 2)
        ]
    if delta is None:
        spent = max(sum(map(abs, each)) for each in changes) / law.scale
        assert spent <= mechanism.promise.epsilon
    else:
        spent = max(sum(e * e for e in each) for each in changes) / (2 * law.parameter)
        assert spent <= mechanism.promise.rho
    gram = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in columns] for x in columns]
    for condition, test in (("b = 'x'", lambda a, b: b == 0), ("a > 1", lambda a, b: a > 1)):
        wanted = [int(test(*cell)) for cell in itertools.product(range(8), range(2))]
        rows = [[Fraction(n) for n in (*row, w)] for row, w in zip(gram, wanted, strict=True)]
        solved = _solved(rows)
        own = [sum(n * s for n, s in zip(row, solved, strict=True)) for row in matrix]
        value = sum(c * int(n) for c, n in zip(own, noisy.tolist(), strict=True))
        found = release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
        assert found.value == pytest.approx(float(value), rel=1e-9, abs=1e-6)
        exact = float(sum(c * c for c in own)) * law.variance
        assert found.stderr**2 == pytest.approx(exact, rel=1e-6)


FORGED = {
    "a cell that is not there": lambda rows: rows[0][CELLS].__setitem__(0, 10**8),
    "a negative cell": lambda rows: rows[0][CELLS].__setitem__(0, -(10**6)),
    "a huge coefficient": lambda rows: rows[0][ENTRIES].__setitem__(0, 2**31 - 1),
    "a missing coefficient": lambda rows: rows[0][ENTRIES].pop(),
    "no cells": lambda rows: rows[0].update({CELLS: None}),
    "too few sums": lambda rows: rows.__delitem__(slice(1, None)),
    "no sums": lambda rows: rows.clear(),
}


def test_a_forged_strategy_is_refused(subtests):
    """Sparse matrices with cells out of range would read memory of others, or end the process."""
    for name in FORGED:
        with subtests.test(name=name):
            release, _ = _released(["b"], neighbours="add_remove")
            path = release.folder / "sums.parquet"
            table = pq.read_table(path)
            rows = table.to_pylist()
            FORGED[name](rows)
            forged = pa.Table.from_pylist(rows, schema=table.schema)
            with pytest.raises((sc.ReleaseError, ValueError, np.linalg.LinAlgError)):
                from_table(forged, 2)[0].estimate(forged[NOISY].to_numpy())
            pq.write_table(forged, path)
            with pytest.raises(sc.ReleaseError, match="do not fit its manifest"):
                release.answer("SELECT COUNT(*) FROM t WHERE b = 'x'")


def _released(names, *, delta=None, neighbours, contribution=1):
    """The tables of some attributes: of two as low-rank sums (with delta an eigen-design, if people
    are added), of one as cells.
    """
    domains = {"a": sc.IntegerRange(0, 7), "b": sc.Category(("x", "y"))}
    schema = sc.Schema([sc.Attribute(name, "quasi", each) for name, each in domains.items()])
    mechanism = sc.Workload(
        names,
        queries=[f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}" for name in names],
        epsilon=1,
        delta=delta,
        neighbours=neighbours,
        contribution=contribution,
    )
    table = pa.table({"a": np.arange(50) % 8, "b": ["x"] * 20 + ["y"] * 30})
    return sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1)), mechanism
