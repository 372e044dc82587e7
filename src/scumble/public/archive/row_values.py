"""Whether the values of a release are values of its schema.

A checksum tells that a file was damaged. Whoever forges a file can also write a checksum that fits,
and a value that the schema does not have must not be taken for one that it has. A small file is
read whole. Of a large one little more than its metadata is read: the least and largest value of
each row group, and the dictionaries of text. A file whose metadata lie is refused by the readers of
its rows (`stored.known_codes`).

The metadata are read by DuckDB: Arrow ends the process where those of a column contradict others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scumble.model.errors import QueryError, ReleaseError
from scumble.model.evidence.evidence import Evidence
from scumble.model.query import file_literal
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, MALFORMED
from scumble.public.sandbox import Sandbox

_BATCH = 1 << 16
SMALL = 1 << 18  # rows of a file that Arrow reads in less time than DuckDB takes to start
_WHOLE = "integer boolean date".split()  # domains with all values between the ends


class _ColumnStats(NamedTuple):
    """What the metadata tell of a column in a row group; None where they are silent."""

    missing: int | None
    least: str | None
    most: str | None
    dictionary: bool


def check_values(place: str, schema: Schema, evidence: Evidence, folder: Path) -> None:
    """Raise `ReleaseError` if a file of a release has a value that the schema does not have.

    `place` names the release in the message. Rows of groups of values are left to their reader.
    """
    if not evidence.has_values:
        return
    known = {each.name: each for each in (*schema, *evidence.added) if each.tabular}
    for name in evidence.files:
        try:
            strange = _strange_column(folder / name, schema, known)
        except (pa.ArrowException, OSError, *MALFORMED):
            raise ReleaseError(DAMAGED) from None
        if strange is not None:
            raise ReleaseError(
                f"{place} is damaged or was changed: {name} has values of '{strange}' that the "
                "schema does not have."
            )


def _strange_column(path: Path, schema: Schema, known: Mapping[str, Attribute]) -> str | None:
    """Return the first column of a file with a value outside its domain; None if there is none."""
    with pq.ParquetFile(path) as plain:
        kinds: dict[str, pa.DataType] = {
            each.name: each.type for each in plain.schema_arrow if each.name in known
        }
        small = plain.metadata.num_rows <= SMALL
    text = [name for name, kind in kinds.items() if pa.types.is_string(kind)]
    told = {} if small else _metadata(path, schema)
    with pq.ParquetFile(path, metadata=plain.metadata, read_dictionary=text) as file:
        for name, kind in kinds.items():
            column = _Column(file, known[name], told.get(name, []))
            if kind != known[name].arrow_type or column.is_strange():
                return name
    return None


def _metadata(path: Path, schema: Schema) -> dict[str, list[_ColumnStats]]:
    """Return what the metadata of a file tell of each column, for each row group.

    Raises `ReleaseError` if DuckDB cannot read them.
    """
    try:
        found = Sandbox(schema, view=path).rows(
            "SELECT path_in_schema, stats_null_count, stats_min_value, stats_max_value, "
            f"dictionary_page_offset IS NOT NULL FROM parquet_metadata({file_literal(path)}) "
            "ORDER BY row_group_id"
        )
    except QueryError:
        raise ReleaseError(DAMAGED) from None
    told: dict[str, list[_ColumnStats]] = {}
    for column, *each in zip(*(every.to_pylist() for every in found.columns), strict=True):
        told.setdefault(column, []).append(_ColumnStats(*each))
    return told


class _Column:
    """A column of a Parquet file with the values of an attribute."""

    def __init__(
        self, file: pq.ParquetFile, attribute: Attribute, told: Sequence[_ColumnStats]
    ) -> None:
        self._file, self._attribute, self._told = file, attribute, told
        self._whole = attribute.kind in _WHOLE and not attribute.coarse

    def is_strange(self) -> bool:
        """Return whether a value is not one of those that the domain publishes."""
        groups = self._file.metadata.num_row_groups
        if len(self._told) != groups:  # a small file, or one whose metadata are strange
            return any(map(self._is_outside, self._batches(range(groups), _BATCH)))
        few = []
        for group, told in enumerate(self._told):
            if told.missing and not self._attribute.missing:
                return True
            found = None if told.missing is None else self._few(group, told)
            if found is not None:
                few.append(found)
            elif any(map(self._is_outside, self._batches([group], _BATCH))):
                return True
        return bool(few) and self._is_outside(pa.concat_arrays(few))

    def _few(self, group: int, told: _ColumnStats) -> pa.Array | None:
        """Return the different values of a row group, or the least and the largest if the domain
        has all values between them; None if rows must be read.
        """
        kind = self._attribute.arrow_type
        if self._whole and told.least is not None and told.most is not None:
            return pc.cast(pa.array([told.least, told.most]), kind)
        if not pa.types.is_string(kind) or not told.dictionary:
            return None
        words = [batch.dictionary for batch in islice(self._batches([group], 1), 1)]
        return words[0] if words else None

    def _is_outside(self, values: pa.Array) -> bool:
        if isinstance(values, pa.DictionaryArray):
            if values.null_count and not self._attribute.missing:
                return True
            values = values.dictionary
        codes, outside = self._attribute.encode(values)
        if outside.any():
            return True
        published = self._attribute.decode(codes)
        if isinstance(published, pa.DictionaryArray):
            published = published.dictionary_decode()
        return not published.equals(values)

    def _batches(self, groups: Sequence[int], rows: int) -> Iterator[pa.Array]:
        names = [self._attribute.name]
        for batch in self._file.iter_batches(
            rows, row_groups=list(groups), columns=names, use_threads=False
        ):
            yield batch.column(0)
