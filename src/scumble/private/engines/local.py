"""The engine of one process, which is the default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.lists import EncodedLists
from scumble.private.engines.engine import (
    ROWS,
    TUPLES,
    Codes,
    Given,
    Kernel,
    Output,
    RangeKernel,
    range_name,
)
from scumble.private.engines.fingerprints import Fingerprinter, Fingerprints
from scumble.private.sampling.source import FINGERPRINT
from scumble.private.tables.counter import CellSet, Counts, Occupied, RowCounter, occupied_cells
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import Keys, packed_rows, sort_keys
from scumble.private.tables.writer import ViewWriter

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.key_pairs import KeyCounter

Pieces = Iterator[list[Codes]]


class LocalEngine:
    """Works on one unit after the other, in the order of the rows."""

    def __init__(self, rows: Rows, noise: Keystream) -> None:
        self.rows = rows
        self._noise = noise
        self._fingerprints = Fingerprints()
        self._writers: dict[Output, ViewWriter] = {}

    def count(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        return RowCounter(self.rows).counts(sets, unit)

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        return RowCounter(self.rows).occupied(names, unit)

    def units(self, names: Sequence[str], others: Sequence[str] = ()) -> dict[int, Occupied]:
        found = {}
        radix = self.rows.schema.cell_keys(names)
        for unit, pieces in self._by_unit([*names, *others]):
            print_ = Fingerprinter(self._key(unit), [*names, *others])
            read = print_.watch(pieces)
            found[unit] = occupied_cells(radix, (each[: len(names)] for each in read))
            self._fingerprints.check(unit, print_.result())
        return found

    def batches(self, names: Sequence[str]) -> Iterator[list[Codes]]:
        return self.rows.batches(names)

    def sorted_rows(self, names: Sequence[str]) -> Keys:
        return sort_keys(packed_rows(self.rows, names), reuse=True)

    def lists(self, names: Sequence[str], unit: PrivacyUnit) -> Iterator[Sequence[EncodedLists]]:
        return RowCounter(self.rows).all_lists(names, unit)

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        return RowCounter(self.rows).keys(names, unit)

    def map(
        self,
        names: Sequence[str],
        kernel: Kernel,
        outputs: Sequence[Output],
        given: Given | None = None,
    ) -> None:
        writers = [
            ViewWriter(each.path, each.attributes, compression=each.compression) for each in outputs
        ]
        self._writers.update(zip(outputs, writers, strict=True))
        try:
            seen = set()
            for unit, pieces in self._by_unit(names):
                stream = self._noise.of_unit(str(unit), ROWS)
                share = None if given is None else given(unit)
                for made in kernel(stream, self._checked(unit, names, pieces), share):
                    for writer, columns in zip(writers, made, strict=True):
                        writer.add(columns)
                seen.add(unit)
            self._fingerprints.check_units(seen)
        except BaseException:
            for writer in writers:
                writer.discard()
            raise

    def draw(self, ranges: int, content: Given, kernel: RangeKernel, output: Output) -> None:
        writer = ViewWriter(output.path, output.attributes, compression=output.compression)
        self._writers[output] = writer
        try:
            for number in range(ranges):
                stream = self._noise.of_unit(range_name(number), TUPLES)
                writer.add(kernel(stream, content(number)))
        except BaseException:
            writer.discard()
            raise

    def sort(self, output: Output) -> int:
        writer = self._writers.pop(output)
        writer.finish()
        return writer.rows

    def _by_unit(self, names: Sequence[str]) -> Iterator[tuple[int, Pieces]]:
        for unit, pieces in groupby(self.rows.units(names), key=itemgetter(0)):
            yield unit, (codes for _, codes in pieces)

    def _checked(self, unit: int, names: Sequence[str], pieces: Pieces) -> Pieces:
        """Yield the pieces; raise SourceError at the end if the unit was read with other codes."""
        if not self._fingerprints.knows(unit):
            yield from pieces
            return
        print_ = Fingerprinter(self._key(unit), names)
        yield from print_.watch(pieces)
        self._fingerprints.check(unit, print_.result())

    def _key(self, unit: int) -> bytes:
        return self._noise.unit_key(str(unit), FINGERPRINT)
