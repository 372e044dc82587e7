"""The files of an Aroma release: the rows with their multisets, and the private record that its
owner keeps if the release is to be updated.

The private record is the file that the public parameter `update_record` and the option
--update-record name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, combinations_with_replacement
from math import comb, factorial, prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scumble.model.errors import ParameterError, ReleaseError, SourceError
from scumble.model.evidence.channels import MultisetChannel, PoolLaw
from scumble.model.evidence.evidence import Records
from scumble.model.laws.base import check_whole
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import ROWS, Made, Output, RowKernel
from scumble.private.engines.open import open_engine
from scumble.private.manifest import UPDATE_RECORD
from scumble.private.perturbation.multisets import (
    counted,
    multiset_attributes,
    multiset_channels,
)
from scumble.private.sampling import kernels
from scumble.private.sampling.bits import chunks
from scumble.private.sampling.source import Keystream
from scumble.private.tables.persons.limit import identifiers
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import sort_keys
from scumble.private.tables.writer import RECORDS, ViewWriter

_COMPRESSION = "zstd"  # multisets are small numbers: half the size that other codecs need

Codes = npt.NDArray[Any]
# Identifiers, the columns that stay as they are, and the true values.
Batch = tuple[pa.Array, list[Codes], Codes]


def write(
    laws: Sequence[PoolLaw], rows: Rows, identifier: str | None, noise: Keystream, folder: Path
) -> Records:
    """Write one view, and its private record if records have an identifier. There is one law for
    all sensitive attributes together, or one for each.
    """
    if identifier is None:
        [number] = _map_rows([laws], rows, noise, [folder])
    else:
        [law] = laws
        number = _write_recorded(law, rows, identifier, noise, folder)
    channels = multiset_channels(rows.schema, *laws)
    _remark(rows, folder, channels)
    return _make_records(rows.schema, channels, number)


def _write_recorded(
    law: PoolLaw, rows: Rows, identifier: str, noise: Keystream, folder: Path
) -> int:
    """Write one view with its private record, and return the number of rows."""
    columns = shown_attributes(rows.schema, *multiset_channels(rows.schema, law))
    names, pack = _plan_reading(rows.schema)
    stream, number = noise, -1
    with (
        view_writer(folder, columns) as view,
        PrivateRecordWriter(folder / UPDATE_RECORD, columns) as record,
    ):
        for unit, people, codes in rows.identified_units(identifier, names):
            if unit != number:
                stream, number = noise.of_unit(str(unit), ROWS), unit
            others, [true] = pack(codes)
            shown = [*others, *draw(stream, law, true).T]
            view.add(shown)
            record.add(people, true, np.ones(len(true), bool), shown)
    return view.rows


@dataclass(frozen=True)
class AromaKernel(RowKernel):
    """Replaces the sensitive columns, which come last, by nested multisets: for each of `views`,
    the smallest k first, one output. A view has one law, or one for each sensitive attribute.
    """

    schema: Schema
    views: tuple[tuple[PoolLaw, ...], ...]

    def perturb(self, stream: Keystream, columns: list[Codes]) -> Made:
        number = len(self.views[0])
        others, secrets = _plan_reading(self.schema, number)[1](columns)
        made = tuple(list(others) for _ in self.views)
        for laws, true in zip(zip(*self.views, strict=True), secrets, strict=True):
            multisets = (
                iter([draw(stream, laws[0], true)])
                if len(laws) == 1
                else draw_nested(stream, laws[-1], true, [law.size for law in laws])
            )
            for shown, multiset in zip(made, multisets, strict=True):
                shown.extend(multiset.T)
        return made


def _map_rows(
    views: Sequence[Sequence[PoolLaw]], rows: Rows, noise: Keystream, folders: Sequence[Path]
) -> list[int]:
    """Write each of `views`, given by its laws, and return the numbers of their rows."""
    engine, schema = open_engine(rows, noise), rows.schema
    outputs = [
        Output(
            folder / RECORDS,
            shown_attributes(schema, *multiset_channels(schema, *laws)),
            _COMPRESSION,
        )
        for folder, laws in zip(folders, views, strict=True)
    ]
    names, _ = _plan_reading(schema, len(views[0]))
    engine.map(names, AromaKernel(schema, tuple(map(tuple, views))), outputs)
    return [engine.sort(output) for output in outputs]


def write_levels(
    views: Mapping[int, Sequence[PoolLaw]],
    rows: Rows,
    noise: Keystream,
    folders: Mapping[int, Path],
) -> dict[int, Records]:
    """Write each of `views`, given by k and its laws, in one pass over the rows. The multisets of a
    view are contained in those of the next.
    """
    numbers = _map_rows(list(views.values()), rows, noise, [folders[size] for size in views])
    return {
        size: _make_records(rows.schema, multiset_channels(rows.schema, *laws), number)
        for (size, laws), number in zip(views.items(), numbers, strict=True)
    }


def _plan_reading(
    schema: Schema, number: int = 1
) -> tuple[list[str], Callable[[list[Codes]], tuple[list[Codes], list[Codes]]]]:
    """Return the attributes to read, and a function that divides their codes into columns published
    as they are, and the secrets of each row: one code of all sensitive values or, if `number` is
    larger, the code of each.
    """
    sensitive = [attribute.name for attribute in schema.sensitive]
    others = [a.name for a in schema.published if a.role != "sensitive"]
    radix = schema.cell_keys(sensitive)

    def pack(codes: list[Codes]) -> tuple[list[Codes], list[Codes]]:
        shown, hidden = codes[: len(others)], codes[len(others) :]
        secrets = [radix.pack(hidden)] if number == 1 else hidden
        return shown, [secret.astype(np.int64) for secret in secrets]

    return [*others, *sensitive], pack


def shown_attributes(schema: Schema, *channels: MultisetChannel) -> tuple[Attribute, ...]:
    """Return the columns of the published file."""
    others = [attribute for attribute in schema.published if attribute.role != "sensitive"]
    shown = (multiset_attributes(channel, most=channel.law.size) for channel in channels)
    return (*others, *chain.from_iterable(shown))


def view_writer(folder: Path, attributes: Sequence[Attribute]) -> ViewWriter:
    """Return the writer of the published file."""
    return ViewWriter(folder / RECORDS, attributes, compression=_COMPRESSION)


def _make_records(schema: Schema, channels: tuple[MultisetChannel, ...], rows: int) -> Records:
    """Return the evidence. Questions may name all published attributes."""
    return Records(RECORDS, tuple(a.name for a in schema.published), channels, rows)


def bytes_per_row(path: Path, channel: MultisetChannel) -> float:
    """Return the compressed size of the multisets per row, from the metadata of the file."""
    metadata = pq.read_metadata(path)
    taken: int = 0
    for group in range(metadata.num_row_groups):
        columns = metadata.row_group(group)
        for index in range(columns.num_columns):
            if columns.column(index).path_in_schema in channel.columns:
                taken += columns.column(index).total_compressed_size
    rows: int = metadata.num_rows
    return taken / max(1, rows)


def _remark(rows: Rows, folder: Path, channels: Sequence[MultisetChannel]) -> None:
    size = sum(bytes_per_row(folder / RECORDS, channel) for channel in channels)
    shown = f"the {sum(channel.law.size for channel in channels):,} values that a row shows"
    rows.remark(f"Compressed in the file, {shown} take {size:.1f} bytes on average.")


# Multisets: the true value of a row among draws from a pool.

# One multiset per row: a count for each value, or one code for each member.
Multisets = npt.NDArray[Any]


def draw(noise: Keystream, law: PoolLaw, true: Codes) -> Multisets:
    """Return a multiset for each true value. A multiset beyond its caps is drawn anew."""
    [multisets] = draw_nested(noise, law, true, [law.size])
    rows = np.flatnonzero(_find_beyond_caps(law, multisets))
    while len(rows):
        [again] = draw_nested(noise, law, true[rows], [law.size])
        multisets[rows] = again
        rows = rows[_find_beyond_caps(law, again)]
    return multisets


def draw_nested(
    noise: Keystream, law: PoolLaw, true: Codes, sizes: Sequence[int]
) -> Iterator[Multisets]:
    """Yield, for each size in ascending order, multisets of the true value and the first draws, so
    that each multiset is contained in the next.
    """
    pool, counting = Pool(law.weights), counted(sizes[-1], law.values)
    multisets: Multisets = true[:, None]
    if counting:
        multisets = np.zeros((len(true), law.values), np.min_scalar_type(sizes[-1]))
        multisets[np.arange(len(true)), true] = 1
    before = 1
    for size in sizes:
        if counting:
            multisets = multisets + pool.counts(noise, size - before, len(true)).astype(
                multisets.dtype, copy=False
            )
            yield multisets if counted(size, law.values) else _list_members(multisets, size)
        else:
            drawn = pool.members(noise, size - before, len(true))
            multisets = np.concatenate([multisets, drawn], axis=1)
            yield np.sort(multisets, axis=1)
        before = size


def _list_members(counts: Multisets, size: int) -> Multisets:
    """Return counted multisets as lists of their members in ascending order."""
    values = np.arange(counts.shape[1], dtype=np.min_scalar_type(counts.shape[1]))
    return np.repeat(np.tile(values, len(counts)), counts.reshape(-1)).reshape(-1, size)


def _find_beyond_caps(law: PoolLaw, multisets: Multisets) -> npt.NDArray[np.bool_]:
    """Return a mask of the multisets that hold some value more often than its cap."""
    if law.caps is None:
        return np.zeros(len(multisets), bool)
    caps = np.array(law.caps)
    if counted(law.size, law.values):
        return np.asarray(np.any(multisets > caps, axis=1))
    beyond = np.zeros(len(multisets), bool)
    for cap in {cap for cap in law.caps if cap < law.size}:
        # In ascending order, one member more than the cap ends where the same value began.
        begins = multisets[:, :-cap]
        same: npt.NDArray[np.bool_] = (multisets[:, cap:] == begins) & (caps[begins] == cap)
        beyond |= np.any(same, axis=1)
    return beyond


# The private record of a release that can be updated: which people were published, with which true
# value, and what was shown.

_KEY = b"scumble book"
_OWN = 3  # columns before those that are shown


class PrivateRecordWriter:
    """Writes a private record that only its owner can read."""

    def __init__(self, path: Path, attributes: Sequence[Attribute]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._schema = _make_schema(attributes)
        self._writer = pq.ParquetWriter(self._file, self._schema)

    def __enter__(self) -> PrivateRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._file.close()

    def add(
        self,
        people: pa.Array,
        true: Codes,
        present: npt.NDArray[np.bool_],
        shown: Sequence[Codes],
    ) -> None:
        """Add entries: identifier, code of the true value, whether the record is in the release,
        and the codes of all columns that it shows.
        """
        columns = [people, true, present, *shown]
        arrays = [
            pa.array(column).cast(field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class PrivateRecord:
    """A private record in memory. A person has one entry for each true value that was ever
    published for them, and at most one of these entries is present.
    """

    def __init__(self, path: Path) -> None:
        try:
            table = pq.read_table(path, partitioning=None)
            written = json.loads(table.schema.metadata[_KEY])
            self.attributes = Schema.from_dict(written).attributes
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            raise ReleaseError(
                "The private record cannot be read: it is damaged, or another file."
            ) from None
        self.people = pa.concat_arrays(table["id"].chunks or [pa.array([], pa.large_binary())])
        self.true: Codes = table["true"].to_numpy()
        self.present: npt.NDArray[np.bool_] = table["present"].to_numpy().copy()
        self.shown: list[Codes] = [
            table.column(index).to_numpy().astype(attribute.code_type)
            for index, attribute in enumerate(self.attributes, start=_OWN)
        ]

    def here(self) -> pa.Array:
        """Return the identifiers of the records that are in the release."""
        return self.people.filter(pa.array(self.present))

    def shown_now(self) -> list[Codes]:
        """Return the codes that the release shows, by column."""
        return [column[self.present] for column in self.shown]

    def show(self, entries: npt.NDArray[Any], columns: Sequence[Codes]) -> None:
        """Mark entries as present, and set the codes that they show to `columns`."""
        self.present[entries] = True
        for column, new in zip(self.shown, columns, strict=True):
            column[entries] = new


def _make_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """Return the Arrow schema of the private record. Published columns are named by position, since
    one of them may have the name of a column of the private record.
    """
    own = [("id", pa.large_binary()), ("true", pa.uint32()), ("present", pa.bool_())]
    shown = [(f"shown {index}", pa.uint64()) for index in range(len(attributes))]
    written = json.dumps(Schema(tuple(attributes)).to_dict()).encode()
    return pa.schema([*own, *shown], metadata={_KEY: written})


# Updates of an Aroma release: records are inserted, deleted, and inserted again.

_OTHER = (
    "The private record does not fit the release: it lists other records. Give the one that was "
    "saved with this release; if saving was interrupted, it is in the same folder as the old one, "
    "in a file whose name begins with a dot and ends with .new."
)


def insert(
    evidence: Records,
    published: Path,
    rows: Rows,
    identifier: str,
    noise: Keystream,
    path: Path,
    folder: Path,
) -> Records:
    """Write the view and the private record with further records. Records that have an entry show
    their old multisets, the others new ones.
    """
    [channel] = evidence.channels
    if not isinstance(channel, MultisetChannel) or not isinstance(channel.law, PoolLaw):
        raise ReleaseError("Only a release by Aroma can be updated.")
    record = _read_checked(path, published / evidence.file)
    if record.attributes != shown_attributes(rows.schema, channel):
        raise ReleaseError(_OTHER)
    people, others, true = _join_rows(rows, identifier)
    entries = _find_entries(record, people, true)
    known = entries >= 0
    multisets = draw(noise, channel.law, true)
    multisets[known] = np.stack(record.shown[len(others) :], axis=1)[entries[known]]
    shown = [*others, *multisets.T]
    record.show(entries[known], [column[known] for column in shown])
    fresh = [column[~known] for column in shown]
    with PrivateRecordWriter(folder / UPDATE_RECORD, record.attributes) as writer:
        writer.add(record.people, record.true, record.present, record.shown)
        present = np.ones(len(fresh[0]), bool)
        writer.add(people.filter(pa.array(~known)), true[~known], present, fresh)
    with view_writer(folder, record.attributes) as view:
        view.add(record.shown_now())
        view.add(fresh)
    return replace(evidence, rows=view.rows)


def delete(
    evidence: Records, published: Path, ids: Iterable[Any], path: Path, folder: Path
) -> Records:
    """Write the view and the private record without the records `ids`. Their entries are kept, so
    that they show the same multisets if they are inserted again.
    """
    listed = list(ids)
    if not listed:
        raise ParameterError("There are no identifiers to delete.")
    record = _read_checked(path, published / evidence.file)
    try:
        gone = identifiers(pa.array(listed))
    except pa.ArrowException:
        raise ParameterError("The identifiers to delete must be all text or all numbers.") from None
    if gone.null_count or not _find_inside(gone, record.here()).all():
        raise ParameterError(
            "Some of the identifiers to delete are not in the release. Nothing was deleted."
        )
    record.present &= ~_find_inside(record.people, gone)
    with PrivateRecordWriter(folder / UPDATE_RECORD, record.attributes) as writer:
        writer.add(record.people, record.true, record.present, record.shown)
    with view_writer(folder, record.attributes) as view:
        view.add(record.shown_now())
    return replace(evidence, rows=view.rows)


def _read_checked(path: Path, view: Path) -> PrivateRecord:
    """Return the private record. One that does not list exactly what `view` shows is refused."""
    record = PrivateRecord(path)
    published = pq.read_table(view, partitioning=None)
    names = [attribute.name for attribute in record.attributes]
    if published.column_names != names:
        raise ReleaseError(_OTHER)
    radix = CellKeys([attribute.size for attribute in record.attributes])
    shown = [attribute.encode(published[attribute.name])[0] for attribute in record.attributes]
    if not np.array_equal(sort_keys(radix.pack(shown)), sort_keys(radix.pack(record.shown_now()))):
        raise ReleaseError(_OTHER)
    return record


def _join_rows(rows: Rows, identifier: str) -> Batch:
    """Return all rows as one batch."""
    names, pack = _plan_reading(rows.schema)
    read = rows.identified(identifier, names)
    packed = ((people, *pack(codes)) for people, codes in read if len(people))
    batches = [(people, others, true) for people, others, [true] in packed]
    if not batches:
        raise SourceError("There are no records to insert.")
    people = pa.concat_arrays([people for people, _, _ in batches])
    others = [np.concatenate(parts) for parts in zip(*(o for _, o, _ in batches), strict=True)]
    return people, others, np.concatenate([true for _, _, true in batches])


def _find_entries(record: PrivateRecord, people: pa.Array, true: Codes) -> npt.NDArray[np.int64]:
    """Return for each record the entry with its identifier and true value, or -1. Records that are
    in the release already are refused.
    """
    if _find_inside(people, record.here()).any():
        raise SourceError(
            "Some of the records to insert are in the release already; delete them first. "
            "Nothing was inserted."
        )
    entries = pc.index_in(_join_keys(people, true), _join_keys(record.people, record.true))
    indices: npt.NDArray[np.int64] = entries.fill_null(-1).to_numpy().astype(np.int64)
    return indices


def _join_keys(people: pa.Array, true: Codes) -> pa.Array:
    """Return each true value and identifier as one byte string: four bytes of the value, then the
    identifier.
    """
    values = pa.array(true.astype(">u4").view("V4"), pa.binary(4)).cast(pa.large_binary())
    return pc.binary_join_element_wise(values, people, pa.scalar(b"", pa.large_binary()))


def _find_inside(people: pa.Array, others: pa.Array) -> npt.NDArray[np.bool_]:
    inside: npt.NDArray[np.bool_] = pc.is_in(people, others).to_numpy(zero_copy_only=False)
    return inside


# --- pools ----------------------------------------------------------------------------------------
#
# Exact multinomial sampling: multisets of values drawn with replacement from a weighted pool.

_MOST = 1 << 12  # most outcomes in one table: with more, too many prefixes stay undecided
_STEP = 1 << 15  # words at a time, so that they are still in the cache when they are read
_LANES = 16  # values whose counts fit one byte each in two words


class Pool:
    """A pool from which value v is drawn with probability weights[v] / sum(weights).

    Several draws are made at once: all multisets of that many draws are listed with their exact
    probabilities (multinomial coefficients times powers of the weights), and 16 bits choose one.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        good = all(isinstance(w, int) and not isinstance(w, bool) and w > 0 for w in weights)
        if not good or not 1 <= len(weights) <= _MOST:
            allowed = f"1 to {_MOST} whole numbers above 0"
            raise ParameterError.of("Pool", "weights", allowed, list(weights))
        self.weights = tuple(weights)
        self.values = len(self.weights)

    def counts(self, source: Keystream, draws: int, size: int) -> NDArray[Any]:
        """Return an array of `size` rows: how often each value (column) came in `draws` draws."""
        draws = check_whole("Pool.counts", "draws", draws, least=1)
        if self.values > _LANES or draws > 255:
            out = np.zeros((size, self.values), np.min_scalar_type(draws))
            for block, times in self._divide_draws(draws):
                block.tally(source, times, out)
            return out
        packed = np.zeros((size, _LANES // 8), np.uint64)
        for block, times in self._divide_draws(draws):
            block.tally_packed(source, times, packed)
        return packed.view(np.uint8)[:, : self.values]

    def members(self, source: Keystream, draws: int, size: int) -> NDArray[Any]:
        """Return an array of `size` rows: the `draws` values drawn, in no particular order."""
        draws = check_whole("Pool.members", "draws", draws, least=1)
        parts = [
            block.members[block.outcomes.draw(source, size * times)].reshape(size, -1)
            for block, times in self._divide_draws(draws)
        ]
        return np.concatenate(parts, axis=1)

    def _divide_draws(self, draws: int) -> list[tuple[_Block, int]]:
        """Return blocks of as many draws as one table can hold, each with its number of uses, and
        a last block for the remaining draws.
        """
        joint = 1
        while joint < draws and comb(self.values + joint, joint + 1) <= _MOST:
            joint += 1
        times, rest = divmod(draws, joint)
        first = (_make_block(self.weights, joint), times)
        return [first, (_make_block(self.weights, rest), 1)] if rest else [first]


class _Block:
    """All multisets of a few draws, with their probabilities."""

    def __init__(self, weights: Sequence[int], draws: int) -> None:
        multisets = list(combinations_with_replacement(range(len(weights)), draws))
        self.members = np.array(multisets, np.min_scalar_type(len(weights) - 1))
        self.outcomes = PrefixTable(
            [
                _count_orders(multiset) * prod(weights[value] for value in multiset)
                for multiset in multisets
            ]
        )
        # One row more than multisets: an undecided prefix adds nothing.
        lanes = np.zeros((len(multisets) + 1, _LANES), np.uint8)
        if len(weights) <= _LANES:
            np.add.at(lanes, (np.arange(len(multisets))[:, None], self.members), 1)
        self._packed = lanes.view(np.uint64)

    def tally_packed(self, source: Keystream, times: int, out: NDArray[np.uint64]) -> None:
        """Add the counts of `times` multisets to every row of `out`, one byte for each value."""
        rows = self._sweep(source, times, out, kernels.count_members_packed, self._packed)
        self._finish(source, rows, out.view(np.uint8))

    def tally(self, source: Keystream, times: int, out: NDArray[Any]) -> None:
        """Add the counts of `times` multisets to every row of `out`, one number for each value."""
        self._finish(
            source, self._sweep(source, times, out, kernels.count_members, self.members), out
        )

    def _sweep(
        self, source: Keystream, times: int, out: NDArray[Any], kernel: Any, added: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Run `kernel` over fresh words and return the rows of its undecided prefixes."""
        table, open_ = self.outcomes.table, self.outcomes.open
        per_row = -(-times // 4)
        step = max(1, _STEP // per_row)
        words, rows = np.empty(step * per_row, np.uint64), np.empty(step * times, np.int64)
        left = [np.empty(0, np.int64)]
        for part in chunks(len(out), step):
            target = out[part]
            drawn = words[: len(target) * per_row]
            source.fill(drawn)
            count = kernel(drawn, times, table, added, open_, target, rows)
            left.append(rows[:count] + part.start)
        return np.concatenate(left)

    def _finish(self, source: Keystream, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        if len(rows):
            drawn = self.outcomes.rest.draw(source, len(rows))
            kernels.count_members_in_rows(drawn, self.members, rows, out)


def _count_orders(multiset: Sequence[int]) -> int:
    """Return the number of orders in which the members can be drawn (multinomial coefficient)."""
    repeats = prod(factorial(multiset.count(value)) for value in set(multiset))
    return factorial(len(multiset)) // repeats


@lru_cache(maxsize=16)
def _make_block(weights: tuple[int, ...], draws: int) -> _Block:
    return _Block(weights, draws)


_BITS = 16


class PrefixTable:
    """A finite distribution: outcome k has probability weights[k] / sum(weights), exactly.

    Every outcome owns as many of the 65536 prefixes of 16 bits as fit into its share. The other
    prefixes stand for a further draw from a table of the remaining shares. An outcome lacks half a
    prefix on average, so that few draws need a second table, and hardly any a third.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        total = sum(weights)
        parts = [divmod(weight << _BITS, total) for weight in weights]
        self.open = len(parts)  # the entry of an undecided prefix
        owned = [whole for whole, _ in parts]
        prefixes = [*owned, (1 << _BITS) - sum(owned)]
        self.table: NDArray[np.uint16] = np.repeat(np.arange(self.open + 1, dtype="u2"), prefixes)
        self._lacking = [rest for _, rest in parts]

    @cached_property
    def rest(self) -> PrefixTable:
        """The distribution of a draw whose first prefix is undecided."""
        return PrefixTable(self._lacking)

    def draw(self, source: Keystream, size: int) -> NDArray[np.uint16]:
        """Return `size` independent outcomes."""
        outcomes: NDArray[np.uint16] = self.table[source.halves(size)]
        rows = np.flatnonzero(outcomes == self.open)
        if len(rows):
            outcomes[rows] = self.rest.draw(source, len(rows))
        return outcomes
