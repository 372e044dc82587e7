"""Tables with amounts for live databases, and states without a folder that know sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.families.axes.publish import Dyadic
from scumble.model.designs.kronecker import ByLaw
from scumble.model.laws.distributions import RoundedNormal
from scumble.model.privacy.accounting import BudgetAccount, Neighbours
from scumble.model.schema.amounts import Amounts
from scumble.private.database.live.lines import Line
from scumble.private.database.live.state import LiveState, Purchase
from scumble.private.database.live.terms import LiveTerms, base_of
from scumble.private.database.space import Space
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimate import ALL
from scumble.public.estimation.measurements.appended import AppendedReader
from tests.support.database.live_table import domain

PAY, GIFT = "pay", "gift"


def numbers_table(seed: int, rows: int) -> pa.Table:
    """Return people with an age, a sex, a pay that depends on both, and some a gift."""
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(0, 10, rows), rng.integers(0, 2, rows)
    pay = np.clip(rng.normal(20 + 3 * age + 10 * sex, 15), 0, 100).round().astype(int)
    gift = [
        None if no < 0.3 else each / 2 for no, each in zip(rng.random(rows), pay // 3, strict=True)
    ]
    return pa.table(
        {
            "age": age,
            "sex": np.array(["f", "m"])[sex],
            "pay": pay,
            "gift": pa.array(gift, pa.float64()),
        }
    )


def exact(sql: str, rows: pa.Table) -> dict[tuple[Any, ...], float]:
    """Return the true answer by group."""
    found = duckdb.connect().register("t", rows).execute(sql).fetchall()
    return {tuple(each[:-1]): float(each[-1]) for each in found}


def in_order(found: Any) -> dict[tuple[Any, ...], Any]:
    """Return the numbers of an answer by group; None is a key of all values."""
    if isinstance(found, sc.Estimate):
        return {(): found}
    rows = found.rows if isinstance(found, sc.Estimates) else [(k, row[0]) for k, row in found.rows]
    return {tuple(None if each is ALL else each for each in key): one for key, one in rows}


def state_of_sums(
    sizes: Sequence[int],
    rows: np.ndarray | None = None,
    seed: int = 0,
    *,
    neighbours: Neighbours = "replace",
    contribution: int = 1,
    epsilon: float = 1,
    largest_purchase: float = 0.125,
    terms: type[LiveTerms] = LiveTerms,
) -> tuple[LiveState, Dyadic]:
    """Return the state of a new database, of a table with these codes, and what measured it."""
    cells = domain(sizes)
    amounts = (
        sc.Attribute(PAY, "quasi", sc.Number(0, 4)),
        sc.Attribute(GIFT, "quasi", sc.Number(0, 4), missing=True),
    )
    schema = sc.Schema((*cells.attributes, *amounts))
    whole = Dyadic(
        cells.names, epsilon=epsilon, delta=1e-6, neighbours=neighbours, contribution=contribution
    )
    base = base_of(whole, 0.5, (PAY, GIFT))
    given = terms.read(whole, base, largest_purchase=largest_purchase, quotas=None, seeded=True)
    public = None
    if base.unit.keeps_rows:
        public = 0 if rows is None else len(rows)

    def measured(part: Dyadic, added: np.ndarray | None, number: int) -> tuple[Any, np.ndarray]:
        design = part.design(cells)
        if rows is None:
            return design, np.zeros(design.size)
        counts = np.zeros(tuple(sizes), np.int64)
        np.add.at(counts, tuple(rows[:, : len(sizes)].T), 1 if added is None else added)
        table = PrivateTable(
            TensorCounter(cells, cells.names, counts.reshape(-1)),
            BudgetAccount(base.promise),
            Keystream(100 * seed + number),
        )
        sums = ByLaw(design)
        return design, sums.ordered(table.counts(cells.names, part.unit).noisy(sums.laws, sums))

    readers = {}
    for place, name in enumerate((PAY, GIFT)):
        of = Amounts.of(schema, name)
        total, *present = base.parts(of)
        codes = None if rows is None else rows[:, len(sizes) + place]
        own = None if codes is None else of.steps(codes)
        readers[name] = AppendedReader(*_with(measured(total, own, 1 + place), cells))
        for part in present:
            there = None if codes is None else of.present(codes)
            line = Line(name, present=True).reader
            readers[line] = AppendedReader(*_with(measured(part, there, 5), cells))
    design, numbers = measured(base, None, 0)
    state = LiveState(given, Space(cells, cells.names), design, schema, numbers, public, readers)
    return state, base


def _with(measured: tuple[Any, np.ndarray], cells: sc.Schema) -> tuple[Any, sc.Schema, np.ndarray]:
    return measured[0], cells, measured[1]


def measured_line(state: LiveState, purchase: Purchase, rows: np.ndarray, noise: Keystream) -> int:
    """Return the noisy sum of a line over a table with these codes."""
    line, inside = purchase.line, np.zeros(len(rows), bool)
    for box in purchase.charged(state.space):
        low, high = box[:, 0], box[:, 1]
        cells = rows[:, : len(box)]
        inside |= ((cells >= low) & (cells <= high)).all(axis=1)
    added = np.ones(len(rows), np.int64)
    if line.axis:
        added = np.array(line.values)[rows[:, state.space.names.index(line.axis)]]
    elif line.column:
        of = Amounts.of(state._schema, line.column)
        codes = rows[:, len(state.space) + (PAY, GIFT).index(line.column)]
        added = of.present(codes) if line.present else of.steps(codes)
    total = np.array([int(added[inside].sum())])
    NoisySteps(noise).add(total, RoundedNormal(purchase.variance(state.terms, state._schema)))
    found = int(total[0])
    return (state.rows or 0) - found if purchase.complement else found
