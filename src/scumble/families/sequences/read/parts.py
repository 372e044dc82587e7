"""PartsReader: answers from a release of several parts, by the part that has the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from scumble.families.sequences.design import Parts, Strings
from scumble.families.sequences.read.models import ContextModel
from scumble.families.sequences.read.reader import StringsReader
from scumble.families.sequences.read.rows import TripRows, cell_places
from scumble.model.errors import QueryError
from scumble.model.evidence.evidence import Measurements
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimation.measurements import answer as measured
from scumble.public.estimation.measurements.readers import reader_of
from scumble.public.sandbox import Sandbox
from scumble.public.synthesis.release_rows import row_model

Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ReadPart:
    """One part: its measurements, the attributes of its columns, and its file in a sandbox."""

    evidence: Measurements
    schema: Schema
    engine: Sandbox


class PartsReader:
    """Answers a question from the first part that has all columns of the question."""

    def __init__(self, evidence: Measurements, schema: Schema, engine: Sandbox) -> None:
        self.parts = []
        for part in cast(Parts, evidence.design).parts:
            chosen = schema.select(part.columns)
            self.parts.append(ReadPart(part, chosen, engine.of_file(chosen, part.file)))

    def answer(self, query: Query, engine: Sandbox) -> Iterator[tuple[Key, Estimate]]:
        """Return every group of the answer with its estimate."""
        part = self._find_part(query)
        return measured.answer(part.evidence, part.schema, query, part.engine)

    def answer_together(
        self, queries: Sequence[Query], engine: Sandbox
    ) -> dict[int, list[tuple[Key, Estimate]]]:
        """Return the answers by place; none is found more cheaply together."""
        return {index: list(self.answer(query, engine)) for index, query in enumerate(queries)}

    def _find_part(self, query: Query) -> ReadPart:
        for part in self.parts:
            if set(query.attributes) <= set(part.evidence.columns):
                return part
        known = "; ".join(" with ".join(part.evidence.columns) for part in self.parts)
        raise QueryError(
            f"No part of this release has {', '.join(query.attributes)} together. "
            f"It was counted by {known}."
        )

    def drawn_rows(self) -> TripRows:
        """Return what draws the trips of a release, of three parts: ends, way, and lengths."""
        ends, way, lengths = self.parts
        first, last = ends.evidence.columns
        design: Any = ends.evidence.design
        table = ends.engine.rows(f"SELECT * FROM view WHERE {quoted(design.weight)} > 0")
        reader = cast(StringsReader, reader_of(way.evidence, way.schema, way.engine))
        cells = tuple(reader.members.labels().to_pylist())
        codes = tuple(cell_places(table[name].to_pylist(), cells) for name in (first, last))
        there = (codes[0] >= 0) & (codes[1] >= 0)
        return TripRows(
            way.evidence.columns[0],
            cells,
            (codes[0][there], codes[1][there]),
            table[design.weight].to_numpy()[there],
            row_model(lengths.evidence, lengths.schema, lengths.engine).tables[0],
            cast(ContextModel, reader.model),
            design.total,
        )

    # What the part of strings tells besides SQL.

    def next(self, context: Sequence[Any]) -> pa.Table:
        """Return the probability of every value after `context`."""
        return self._find_strings().next(context)

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the k most frequent strings."""
        return self._find_strings().top(k, length=length)

    def _find_strings(self) -> StringsReader:
        for part in self.parts:
            if isinstance(part.evidence.design, Strings):
                reader = reader_of(part.evidence, part.schema, part.engine)
                return cast(StringsReader, reader)
        raise QueryError("This release has no part of strings.")
