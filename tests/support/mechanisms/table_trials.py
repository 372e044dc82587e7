"""What tests of releases of marginals share: repeated measurements, and exact privacy losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import scumble as sc
from scumble.families.marginals.publish import TableSummary
from scumble.model.designs.residuals import Residuals, ResidualSolver, differences
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.meter.table import PrivateTable, noisy_tables
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimation.measurements.marginals import ResidualReader


def measured(
    mechanism: TableSummary, schema: sc.Schema, counts: np.ndarray, folder: Path, seed: int
) -> ResidualSolver:
    """What a mechanism publishes of the counts of all cells."""
    counter = TensorCounter(schema, schema.names, counts)
    table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(seed))
    evidence = mechanism.measure(table, folder)
    assert isinstance(evidence.design, Residuals)
    numbers = pq.read_table(folder / evidence.file)["count"].to_numpy()
    return ResidualSolver(evidence.design, numbers)


def readers(
    mechanism: TableSummary, schema: sc.Schema, counts: np.ndarray, trials: int
) -> Iterator[ResidualReader]:
    """Readers of many releases of the same counts, which are not written to files."""
    sizes = tuple(attribute.size for attribute in schema)
    design = Residuals(schema.names, sizes, tuple(mechanism.tables(schema)))
    for seed in range(trials):
        counter = TensorCounter(schema, schema.names, counts)
        table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(seed))
        yield ResidualReader.of_solver(
            ResidualSolver(design, noisy_tables(table, design, mechanism.unit))
        )


def squares(solver: ResidualSolver, counts: np.ndarray) -> np.ndarray:
    """The squared error of every number of every residual over its variance: of mean 1."""
    truth = ResidualSolver(solver.design, true_numbers(solver.design, counts))
    sets = {
        places
        for table in solver.design.tables
        for places in _subsets(table.places, whole=table.form == "marginal")
    }
    parts = []
    for places in sorted(sets):
        precision = solver.rate(places) * solver.cells(places)
        error = solver.residual(places) - truth.residual(places)
        parts.append((error**2).reshape(-1) * precision)
    return np.concatenate(parts)


def _subsets(places: tuple[int, ...], *, whole: bool) -> list[tuple[int, ...]]:
    if not whole:
        return [places]
    return [
        tuple(place for bit, place in enumerate(places) if number >> bit & 1)
        for number in range(1 << len(places))
    ]


def true_numbers(design: Residuals, counts: np.ndarray) -> np.ndarray:
    """What a design measures, without noise."""
    numbers = []
    for table in design.tables:
        others = tuple(axis for axis in range(counts.ndim) if axis not in table.places)
        marginal = counts.sum(axis=others)
        found = marginal if table.form == "marginal" else differences(marginal)
        numbers.append(found.reshape(-1))
    return np.concatenate(numbers)


def laplace_loss(design: Residuals, one: np.ndarray, other: np.ndarray) -> float:
    """The largest log-ratio of the probabilities of any output on two tables, by enumeration: the
    numbers have independent noise, so it is the sum over them of the largest of each.
    """
    first, second = true_numbers(design, one), true_numbers(design, other)
    total = 0.0
    for table, part in zip(design.tables, design.slices(), strict=True):
        for a, b in zip(first[part], second[part], strict=True):
            if a != b:
                reach = range(int(min(a, b)) - 3, int(max(a, b)) + 4)
                odds = [(table.law.pmf(y - int(a)), table.law.pmf(y - int(b))) for y in reach]
                total += max(math.log(p / q) for p, q in odds)
    return total
