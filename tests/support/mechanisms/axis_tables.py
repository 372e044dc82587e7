"""Tiny tables for releases along axes: all neighbours, what is measured of each, many runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq

import scumble as sc
from scumble.families.axes.publish import AxisSummary
from scumble.model.designs.kronecker import NUMBER, ByLaw, Product
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimation.measurements.kronecker import ProductReader


def domain(**sizes: int) -> sc.Schema:
    """Ordered attributes of these sizes."""
    return sc.Schema(
        [sc.Attribute(n, "quasi", sc.IntegerRange(0, size - 1)) for n, size in sizes.items()]
    )


def changes(cells: int, neighbours: str, rows: int) -> Iterator[np.ndarray]:
    """All differences between the counts of two neighbouring tables, up to their sign."""
    one = [
        np.bincount(each, minlength=cells)
        for count in range(rows + 1)
        for each in itertools.combinations_with_replacement(range(cells), count)
    ]
    if neighbours == "add_remove":
        yield from one
    else:
        whole = [each for each in one if each.sum() == rows]
        yield from (a - b for a, b in itertools.combinations(whole, 2))


def exact_loss(design: Product, change: np.ndarray) -> Fraction:
    """The ε, or ρ, between two tables that differ by `change`: the noises are independent, and the
    largest ratio of P(z) and P(z - d) is e^(|d| / b), their divergences are d² / 2σ².
    """
    total = Fraction(0)
    for numbers, law in zip(design.apply(change.astype(np.int64)), design.laws, strict=True):
        if isinstance(law, DiscreteLaplace):
            total += int(np.abs(numbers).sum()) / law.scale
        else:
            total += int((numbers**2).sum()) / (2 * law.parameter)
    return total


def measured(
    mechanism: AxisSummary, schema: sc.Schema, counts: np.ndarray, seed: int
) -> tuple[ProductReader, BudgetAccount]:
    """A run of the mechanism on a table with these counts."""
    account = BudgetAccount(mechanism.promise)
    counter = TensorCounter(schema, mechanism.attributes, counts)
    table = PrivateTable(counter, account, Keystream(seed))
    with TemporaryDirectory() as folder:
        evidence = mechanism.measure(table, Path(folder))
        numbers = pq.read_table(Path(folder) / evidence.file)[NUMBER].to_numpy()
    assert isinstance(evidence.design, Product)
    return ProductReader.of_numbers(evidence.design, schema, numbers), account


def readers(
    mechanism: AxisSummary, schema: sc.Schema, counts: np.ndarray, runs: int
) -> Iterator[ProductReader]:
    """Many runs on one table, without files."""
    design = mechanism.design(schema)
    sums = ByLaw(design)
    counter = TensorCounter(schema, mechanism.attributes, counts)
    for seed in range(runs):
        table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(seed))
        private = table.counts(mechanism.attributes, mechanism.unit)
        numbers = sums.ordered(private.noisy(sums.laws, sums))
        yield ProductReader.of_numbers(design, schema, numbers)


def z_scores(
    questions: Mapping[str, float], table, schema: sc.Schema, mechanism: AxisSummary, runs: int
) -> dict[str, np.ndarray]:
    """Errors of answers in units of their standard error, by question, over seeds."""
    found: dict[str, list[float]] = {question: [] for question in questions}
    for seed in range(runs):
        release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed))
        for (question, truth), answer in zip(
            questions.items(), release.answer_many(list(questions)), strict=True
        ):
            found[question].append((answer.value - truth) / answer.stderr)
    return {question: np.array(each) for question, each in found.items()}
