"""TableSummary: what releases of several marginals share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, prod
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.designs.residual_planner import closure
from scumble.model.designs.residuals import Residuals, Table
from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.privacy import concentrated
from scumble.model.privacy.accounting import Loss
from scumble.model.schema.schema import Schema
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import AttributeSummary

MOST_CELLS = 5 * 10**7
MOST_TABLES = 2 * 10**5
MOST_ATTRIBUTES = 16  # of one table: a table of so many has 2^16 parts
_MOST_LISTED = 1 << 22  # subsets, counted as often as they occur
FILE = "tables.parquet"
SMALLEST_EPSILON = Fraction(1, 10**9)
_KEPT = 1 - Fraction(1, 1 << 40)

Places = tuple[int, ...]


class TableSummary(AttributeSummary):
    """Measures marginals of sets of attributes, or parts of them, with noise by table."""

    def _paid(self) -> Loss:
        """What all looks may cost. The prices of residuals (`designs.residual_price`) hold for a
        law that theirs is within a factor of e^τ of, τ < 2^-80 for all of them together: 2τ of ε
        and as much of δ are put aside.
        """
        if self._delta is None:
            return Loss(self._epsilon)
        if self._epsilon < SMALLEST_EPSILON:
            allowed = f"at least {float(SMALLEST_EPSILON):g} with delta"
            owner = type(self).__name__
            raise ParameterError.of(owner, "epsilon", allowed, self._given["epsilon"])
        return Loss(rho=concentrated.rho_for(self._epsilon * _KEPT, self._delta * _KEPT))

    @abstractmethod
    def tables(self, schema: Schema) -> list[Table]:
        """What to measure: from parameters and schema alone."""

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        from scumble.private.meter.private_residuals import noisy_tables

        sizes = self._sizes(table.schema)
        design = Residuals(self.attributes, sizes, tuple(self.tables(table.schema)))
        numbers = noisy_tables(table, design, self.person)
        written = pa.table({design.count: numbers})
        pq.write_table(written, folder / FILE, store_schema=False)
        return Measurements(FILE, self.attributes, design)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """How much was measured."""
        design = cast(Residuals, cast(Measurements, evidence).design)
        return {"tables measured": len(design.tables), "numbers": design.numbers}

    def _sizes(self, schema: Schema) -> tuple[int, ...]:
        return tuple(schema[name].size for name in self.attributes)

    def _refuse_many(self, schema: Schema, sets: Sequence[Places]) -> None:
        """Refuse more tables or cells than can be counted, before anything is counted."""
        owner, sizes = type(self).__name__, self._sizes(schema)
        for places in sets:
            if len(places) > MOST_ATTRIBUTES:
                raise ParameterError(
                    f"{owner} measures tables of at most {MOST_ATTRIBUTES} attributes each. Got "
                    f"one of {len(places)}; ask for smaller ones."
                )
        largest = max(sets, key=lambda places: prod(sizes[place] for place in places))
        cells = sum(prod(sizes[place] for place in places) for places in sets)
        if cells > MOST_CELLS or len(sets) > MOST_TABLES:
            raise ParameterError(
                f"The {len(sets)} tables of {owner} would have {cells:.3g} cells, the largest "
                f"({', '.join(self._named(largest))}) {prod(sizes[p] for p in largest):.3g} of "
                f"them; at most {MOST_TABLES} tables and {MOST_CELLS:.0e} cells are possible. "
                "Choose fewer or smaller sets of attributes, or coarser domains."
            )

    def _refuse_parts(self, sets: Sequence[Places]) -> None:
        """Refuse sets that have more subsets than can be measured one by one."""
        most = sum(1 << len(places) for places in sets)
        if most > _MOST_LISTED or len(closure(sets)) > MOST_TABLES:
            raise ParameterError(
                f"{type(self).__name__} measures every subset of the sets by itself, at most "
                f"{MOST_TABLES} of them; these sets have more. Ask for fewer or smaller sets."
            )

    def _named(self, places: Iterable[int]) -> list[str]:
        return [self.attributes[place] for place in places]


def sets_of(attributes: int, ways: int) -> list[Places]:
    """All sets of so many attributes."""
    return list(combinations(range(attributes), ways))


def refuse_sets(owner: str, attributes: int, ways: int) -> None:
    """Refuse more sets than can be listed, before they are."""
    if comb(attributes, ways) > MOST_TABLES:
        raise ParameterError(
            f"{owner} measures at most {MOST_TABLES} tables, but there are "
            f"{comb(attributes, ways):.3g} sets of {ways} of {attributes} attributes. Ask for "
            "smaller sets."
        )
