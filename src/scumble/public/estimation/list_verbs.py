"""The reader of a release of lists, for what it tells besides SQL: `top`, `rules`, `next`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimates
from scumble.public.estimate_table import EstimateTable
from scumble.public.estimation.measurements.baskets.frequent_sets import FrequentSets
from scumble.public.estimation.measurements.readings import reader_of
from scumble.public.sandbox import Sandbox


class ListReader(Protocol):
    """What the readers of lists tell, each some of it."""

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the k most frequent sets or strings."""
        ...

    def rules(self, support: float, confidence: float) -> EstimateTable:
        """Return association rules."""
        ...

    def next(self, context: Sequence[Any]) -> pa.Table:
        """Return the probability of each value after `context`."""
        ...


def reader_with(evidence: Evidence, schema: Schema, sandbox: Sandbox, verb: str) -> ListReader:
    """Return the reader of a release, which has the method `verb`; ParameterError if it has not."""
    if isinstance(evidence, Measurements):
        found: Any = FrequentSets.of(evidence, schema, sandbox)
        found = found or reader_of(evidence, schema, sandbox)
        if hasattr(found, verb):
            reader: ListReader = found
            return reader
    raise ParameterError(f"This release has no '{verb}': that is for releases of lists or keys.")
