"""Whether the values of a release are values of its schema.

A checksum tells that a file was damaged. Whoever forges a file can also write a checksum that fits,
and a value that the schema does not have must not be taken for one that it has. Here little more
than the metadata of a Parquet file is read: the least and largest value of each row group, and the
dictionaries of text. A file whose metadata lie is refused by the readers of its rows
(`stored.known_codes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.model import arrow_compute as pc
from scumble.model.errors import ReleaseError
from scumble.model.evidence.evidence import Evidence
from scumble.model.evidence.generalised import Generalised
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, MALFORMED

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BATCH = 1 << 16
_WHOLE = "integer boolean date".split()  # domains with all values between the ends


def check_values(place: str, schema: Schema, evidence: Evidence, folder: Path) -> None:
    """Raise `ReleaseError` if a file of a release has a value that the schema does not have.

    `place` names the release in the message. Rows of groups of values are left to their reader.
    """
    import pyarrow as pa

    if isinstance(evidence, Generalised):
        return
    known = {each.name: each for each in (*schema, *evidence.added) if each.tabular}
    for name in evidence.files:
        try:
            strange = _strange_column(folder / name, known)
        except (pa.ArrowException, OSError, *MALFORMED):
            raise ReleaseError(DAMAGED) from None
        if strange is not None:
            raise ReleaseError(
                f"{place} is damaged or was changed: {name} has values of '{strange}' that the "
                "schema does not have."
            )


def _strange_column(path: Path, known: Mapping[str, Attribute]) -> str | None:
    """Return the first column of a file with a value outside its domain; None if there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as plain:
        kinds: dict[str, pa.DataType] = {
            each.name: each.type for each in plain.schema_arrow if each.name in known
        }
    text = [name for name, kind in kinds.items() if pa.types.is_string(kind)]
    with pq.ParquetFile(path, metadata=plain.metadata, read_dictionary=text) as file:
        for name, kind in kinds.items():
            if kind != known[name].arrow_type or _Column(file, known[name]).is_strange():
                return name
    return None


class _Column:
    """A column of a Parquet file with the values of an attribute."""

    def __init__(self, file: pq.ParquetFile, attribute: Attribute) -> None:
        self._file, self._attribute = file, attribute
        self._metadata = file.metadata
        self._place = file.schema_arrow.names.index(attribute.name)
        self._whole = attribute.kind in _WHOLE and not attribute.coarse

    def is_strange(self) -> bool:
        """Return whether a value is not one of those that the domain publishes."""
        import pyarrow as pa

        few = []
        for group in range(self._metadata.num_row_groups):
            chunk = self._metadata.row_group(group).column(self._place)
            known = chunk.statistics is not None and chunk.statistics.has_null_count
            if known and chunk.statistics.null_count and not self._attribute.missing:
                return True
            found = self._told(group, chunk) if known else None
            if found is not None:
                few.append(found)
            elif any(map(self._is_outside, self._batches(group, _BATCH))):
                return True
        return bool(few) and self._is_outside(pa.concat_arrays(few))

    def _told(self, group: int, chunk: Any) -> pa.Array | None:
        """Return the different values of a row group, or the least and the largest if the domain
        has all values between them; None if rows must be read.
        """
        import pyarrow as pa

        kind = self._attribute.arrow_type
        if self._whole and chunk.statistics.has_min_max:
            return pa.array([chunk.statistics.min, chunk.statistics.max], kind)
        if not pa.types.is_string(kind) or not chunk.has_dictionary_page:
            return None
        words = [batch.dictionary for batch in islice(self._batches(group, 1), 1)]
        return words[0] if words else None

    def _is_outside(self, values: pa.Array) -> bool:
        import pyarrow as pa

        codes, outside = self._attribute.encode(values)
        if outside.any():
            return True
        published = self._attribute.decode(codes)
        plain = (
            pc.dictionary_decode(each) if isinstance(each, pa.DictionaryArray) else each
            for each in (published, values)
        )
        return not next(plain).equals(next(plain))

    def _batches(self, group: int, rows: int) -> Iterator[pa.Array]:
        names = [self._attribute.name]
        for batch in self._file.iter_batches(
            rows, row_groups=[group], columns=names, use_threads=False
        ):
            yield batch.column(0)
