"""Noisy marginals, and parts of them, behind the meter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import numpy.typing as npt

from scumble.model.designs.residual_axis import differences
from scumble.model.designs.residual_price import cost
from scumble.model.designs.residuals import Residuals, Table
from scumble.model.privacy.person import Person
from scumble.private.meter.private_counts import blur, check_scale
from scumble.private.meter.table import PrivateTable

Integers = npt.NDArray[np.int64]

_TOGETHER = 1 << 12  # tables whose noise is drawn at once: the call costs more than small tables


def noisy_tables(table: PrivateTable, design: Residuals, person: Person) -> Integers:
    """The numbers of all tables of a design, one after the other.

    What they cost together is in `designs.residual_price`, with its proof.
    """
    for each in design.tables:
        check_scale(each.law)
    loss = cost(design.tables, design.sizes, person)
    table._account.charge(f"noisy tables of {', '.join(design.attributes)}", loss)
    sets = [[design.attributes[place] for place in each.places] for each in design.tables]
    counted = table.marginals(sets, person)
    numbers = np.empty(design.numbers, np.int64)
    slices = list(design.slices())
    for run in _runs(design.tables):
        before = [_before(design, run_table, counted[number]._counts) for number, run_table in run]
        noisy = np.concatenate(before)
        blur(table._noise, noisy, run[0][1].law)
        ends = np.cumsum([len(part) for part in before])[:-1]
        for (number, run_table), part in zip(run, np.split(noisy, ends), strict=True):
            numbers[slices[number]] = _after(design, run_table, part)
    return numbers


def _runs(tables: tuple[Table, ...]) -> Iterator[list[tuple[int, Table]]]:
    """Neighbouring tables that have the same noise."""
    for _, same in groupby(enumerate(tables), key=lambda numbered: numbered[1].law):
        run = list(same)
        for begin in range(0, len(run), _TOGETHER):
            yield run[begin : begin + _TOGETHER]


def _before(design: Residuals, table: Table, counts: Integers) -> Integers:
    """What noise is added to: counts of cells, or their one contrast."""
    if table.form != "contrast":
        return counts
    return differences(counts.reshape(_shape(design, table))).reshape(-1)


def _after(design: Residuals, table: Table, noisy: Integers) -> Integers:
    """What is published of it."""
    if table.form != "residual":
        return noisy
    return differences(noisy.reshape(_shape(design, table))).reshape(-1)


def _shape(design: Residuals, table: Table) -> list[int]:
    return [design.sizes[place] for place in table.places]
