"""False tuples and the views of AlphaBeta.

Every tuple of a domain of any size is drawn independently with its own exact probability, without a
loop over the domain. Views are written with their true and false tuples, and read again. A private
record of the views refuses a further view of another table, and a second one of the same views.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.families.alphabeta.design import InclusionProbabilities
from scumble.model.errors import PromiseError, ReleaseError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import Output
from scumble.private.manifest import UPDATE_RECORD
from scumble.private.sampling.bits import Coins, bernoulli, integers
from scumble.private.sampling.counts import poisson
from scumble.private.sampling.randomized_response import Categorical
from scumble.private.tables.sorted_keys import Keys, Mask, isin_sorted, unique_keys
from scumble.private.tables.writer import ViewWriter
from scumble.public.archive.files import digest

if TYPE_CHECKING:
    from scumble.private.engines.engine import Engine
    from scumble.private.sampling.source import Keystream

Columns = list[npt.NDArray[Any]]
Shares = Mapping[int, tuple[Fraction, ...]]


# Tuples of a range that is drawn by itself; a change would change what a fixed seed publishes.
RANGE_TUPLES = 1 << 20


class KeyRange(NamedTuple):
    """The keys whose first words are at least `begin` and below `end`."""

    begin: int
    end: int

    def places(self, keys: Keys) -> slice:
        """Return where the keys of this range are among sorted ones."""
        words = keys if keys.ndim == 1 else keys[:, 0]
        begin = int(np.searchsorted(words, np.uint64(self.begin)))
        last = np.uint64(self.end - 1)  # the end itself may be 2^64
        return slice(begin, int(np.searchsorted(words, last, side="right")))


class TupleNoise:
    """Draws every tuple t of the domain independently with probability b(t) = mean · |D| · Π
    p_j(t_j). `sources` has the p_j of the columns that are not uniform.

    A Poisson number of draws is made from the domain. Then the numbers of draws at the tuples are
    independent Poisson variables, and one with mean −ln(1 − b) is above 0 with probability b. That
    mean is b + b²/2 + b³/3 + ...: a draw gets an order k, geometric with ratio B = max b(t), and is
    kept with probability (b(t)/B)^(k−1) / k. With Σ b(t) / (1 − B) draws in the mean, the expected
    number of order k that are kept at t is b(t)^k / k. So every probability is a fraction, and no
    logarithm is taken.
    """

    def __init__(self, radix: CellKeys, mean: Fraction, sources: Shares | None = None) -> None:
        self._radix = radix
        self._sources = sources or {}
        self.total = mean * radix.size
        self.smallest = mean * prod((len(p) * min(p) for p in self._sources.values()), start=1)
        self.largest = mean * prod((len(p) * max(p) for p in self._sources.values()), start=1)

    def draw(self, source: Keystream, part: KeyRange | None = None) -> Keys:
        """Return the keys of the tuples drawn, in ascending order.

        `part` limits them to a range of the domain. Ranges that cover the domain give, with
        independent streams, the same law as one draw of all. Noise with sources has one range.
        """
        first = self._radix.capacities[0]
        part = KeyRange(0, first) if part is None else part
        share = Fraction(part.end - part.begin, first)
        count = poisson(source, share * self.total / (1 - self.largest))
        columns = self._columns(source, count) if self._sources else []
        keys = self._radix.pack(columns) if self._sources else self._uniform(source, count, part)
        return unique_keys(keys[self._staying(source, count, columns)])

    def _uniform(self, source: Keystream, count: int, part: KeyRange) -> Keys:
        """Return uniform keys, drawn word by word; the columns of a word fill it completely."""
        _, *others = self._radix.capacities
        words = [integers(source, part.end - part.begin, count) + np.uint64(part.begin)]
        words += [integers(source, capacity, count) for capacity in others]
        return words[0] if len(words) == 1 else np.stack(words, axis=1)

    def _columns(self, source: Keystream, count: int) -> Columns:
        return [
            Categorical(self._sources[index]).draw(source, count)
            if index in self._sources
            else integers(source, size, count)
            for index, size in enumerate(self._radix.sizes)
        ]

    def _staying(self, source: Keystream, count: int, columns: Columns) -> Mask:
        """Return a mask of the draws that are kept. The factor 1/k is the product of 1/2, 2/3, ...,
        (k−1)/k, so that each order above 1 takes one Bernoulli variable, and another for b(t)/B.
        """
        staying = np.ones(count, bool)
        rows = np.flatnonzero(bernoulli(source, self.largest, count))
        order = 2
        while len(rows):
            passed = bernoulli(source, Fraction(order - 1, order), len(rows))
            passed &= self.relative(source, [column[rows] for column in columns], len(rows))
            staying[rows[~passed]] = False
            rows = rows[passed]
            rows = rows[bernoulli(source, self.largest, len(rows))]
            order += 1
        return staying

    def relative(self, source: Keystream, columns: Columns, count: int) -> Mask:
        """Return for each of these tuples a Bernoulli variable with probability b(t)/B."""
        yes = np.ones(count, bool)
        for index, coins in self._coins.items():
            yes &= coins.throw(source, columns[index])
        return yes

    @cached_property
    def _coins(self) -> dict[int, Any]:
        return {
            index: Coins([share / max(shares) for share in shares])
            for index, shares in self._sources.items()
        }


# Views of a set of tuples: the first one, later ones, and their file.

FILE = "tuples.parquet"
Masks = npt.NDArray[np.uint64]


class TupleViews:
    """The views of one table under one law. Keys are sorted and unique."""

    def __init__(self, schema: Schema, law: InclusionProbabilities) -> None:
        self._law = law
        self._attributes = list(schema.published)
        names = [attribute.name for attribute in self._attributes]
        if law.multiplicity > 1:
            self._attributes.append(_numbers(InclusionProbabilities.occurrence, law.multiplicity))
        self.radix = CellKeys([attribute.size for attribute in self._attributes])
        self._sources = {names.index(name): p for name, p in (law.sources or {}).items()}

    def write_first(self, folder: Path, true: Keys, engine: Engine) -> None:
        """Write the first view, given the keys of the table.

        The domain is cut into ranges of keys, from public numbers alone. What is drawn in a range
        is a function of its own keystream and of the true tuples in it, in their order.
        """
        parts = self.ranges(len(true))
        output = Output(folder / FILE, tuple(self.written))

        def content(number: int) -> tuple[KeyRange, Keys]:
            return parts[number], true[parts[number].places(true)]

        engine.draw(len(parts), content, self._draw, output)
        engine.sort(output)

    def _draw(self, stream: Keystream, content: tuple[KeyRange, Keys]) -> Columns:
        """Return the columns of the view in one range: true tuples that are kept, and noise."""
        part, own = content
        noise = self._noise(self._law.noise)
        false = noise.draw(stream, part)
        published = own[self._kept(own, noise, stream)]
        return self._columns(np.concatenate([published, _without(false, own)]))

    def ranges(self, rows: int) -> list[KeyRange]:
        """Return ranges of equal width that cover the domain, such that each has about
        `RANGE_TUPLES` tuples, true and false ones, if they are spread evenly.
        """
        first = self.radix.capacities[0]
        expected = rows + self._law.noise * self.radix.size
        number = 1 if self._sources else min(first, ceil(expected / RANGE_TUPLES))
        cuts = [first * index // max(number, 1) for index in range(max(number, 1) + 1)]
        return [KeyRange(begin, end) for begin, end in pairwise(cuts)]

    def _noise(self, mean: Fraction) -> TupleNoise:
        return TupleNoise(self.radix, mean, self._sources)

    def _kept(self, true: Keys, noise: TupleNoise, source: Keystream) -> Mask:
        """Return a mask of the true tuples in the view. Each is in it with probability α + β(t)."""
        if not self._sources:
            return bernoulli(source, self._law.keep, len(true))
        alpha = self._law.keep - self._law.noise
        like_noise = bernoulli(source, noise.largest / (1 - alpha), len(true))
        like_noise &= noise.relative(source, self.radix.unpack(true), len(true))
        return bernoulli(source, alpha, len(true)) | like_noise

    def later(
        self, true: Keys, seen: Keys, masks: Masks, view: int, source: Keystream
    ) -> tuple[Keys, Masks]:
        """Return the keys of all tuples seen in any view up to number `view`, and the masks of the
        views that have them. `seen` and `masks` are those of the views before.
        """
        law = self._law
        picked = true[bernoulli(source, law.keep, len(true))]
        again = isin_sorted(seen, picked)
        false = np.flatnonzero(~isin_sorted(seen, true))
        again[false] = bernoulli(source, law.keep * law.fade, len(false))
        noise = self._noise(law.noise_of(view)).draw(source)
        added = np.concatenate([_without(picked, seen), _without(_without(noise, true), seen)])
        bit = np.uint64(1 << (view - 1))
        masks = np.concatenate([np.where(again, masks | bit, masks), np.full(len(added), bit)])
        return np.concatenate([seen, added]), masks

    def write(self, folder: Path, keys: Keys, masks: Masks) -> None:
        """Write the file of a release with several views."""
        with ViewWriter(folder / FILE, self.written) as view:
            view.add(self._columns(keys, masks))

    @property
    def written(self) -> list[Attribute]:
        """The columns of the file: if several views are planned, also those that have a tuple."""
        views = _numbers(InclusionProbabilities.views_column, 1 << self._law.most)
        return [*self._attributes, *([views] if self._law.most > 1 else [])]

    def _columns(self, keys: Keys, masks: Masks | None = None) -> Columns:
        """Return the codes of tuples. Without `masks`, all are in the first view."""
        columns: Columns = self.radix.unpack(keys)
        if self._law.most > 1:
            columns.append(np.ones(len(keys), np.uint64) if masks is None else masks)
        return columns

    def read(self, path: Path) -> tuple[Keys, Masks]:
        """Return the keys in a file of `write`, and the masks of the views that have them."""
        text = [a.name for a in self._attributes if pa.types.is_string(a.arrow_type)]
        keys = [self.radix.pack([np.empty(0, np.uint64) for _ in self._attributes])]
        masks = [np.empty(0, np.uint64)]
        with pq.ParquetFile(path, read_dictionary=text) as file:
            for table in map(file.read_row_group, range(file.num_row_groups)):
                codes = [
                    attribute.encode(table[attribute.name])[0] for attribute in self._attributes
                ]
                keys.append(self.radix.pack(codes))
                views = table[InclusionProbabilities.views_column]
                masks.append(views.to_numpy().astype(np.uint64))
        return np.concatenate(keys), np.concatenate(masks)


# The private record of the views.

_KIND, _VERSION = "views of one table", 1


class ViewRecord:
    """The private record of a table that is published several times: a text file that only its
    owner can read.

    The first line has a random key and, under it, the fingerprint of the set of true tuples. One
    line follows for each view that was made: its number, and the checksum of the release that has
    it. The key makes the record private: with it, somebody who knows all rows but one could try out
    the last.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            first, *lines = path.read_text("utf-8").splitlines()
            written = json.loads(first)
            if (written["scumble"], written["version"]) != (_KIND, _VERSION):
                raise ValueError
            self._key = bytes.fromhex(written["key"])
            self._tuples: str = written["tuples"]
            views = [line.split(" ") for line in lines]
            # Of two processes that made the same view, the first to write its line counts.
            self._views = {int(number): made for number, made in reversed(views)}
        except (OSError, ValueError, KeyError, TypeError):
            raise ReleaseError(
                "The private record cannot be read: it is damaged, or another file."
            ) from None

    @classmethod
    def create(cls, folder: Path, true: Keys) -> None:
        """Write the record of a table beside its first view."""
        key = secrets.token_bytes(32)
        first = {
            "scumble": _KIND,
            "version": _VERSION,
            "key": key.hex(),
            "tuples": _fingerprint(key, true),
        }
        handle = os.open(folder / UPDATE_RECORD, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{json.dumps(first)}\n1 {digest(folder / FILE)}\n")

    def check(self, true: Keys, view: Path, views: int) -> None:
        """Refuse another table, another release, and one that has a further view already. `view`
        is the file of the release with this number of views.
        """
        if self._views.get(views) != digest(view):
            raise ReleaseError(
                "The private record does not fit the release: it is the record of another one, or "
                "of earlier views. Give the one that was saved with this release."
            )
        if views + 1 in self._views:
            raise PromiseError(_MADE)
        if not hmac.compare_digest(self._tuples, _fingerprint(self._key, true)):
            raise PromiseError(
                "This is not the table that was published before: a view can be added for the same "
                "table only. Publish a changed table as a new release, which is charged anew."
            )

    def count(self, view: Path, views: int) -> None:
        """Write down that the file `view` with this number of views was made, before it is shown.
        Refuse it if another one was written down meanwhile.
        """
        made = digest(view)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{views} {made}\n")
            file.flush()
            os.fsync(file.fileno())
        if ViewRecord(self._path)._views[views] != made:
            raise PromiseError(_MADE)


_MADE = (
    "The private record counts a further view of this release already, and a second one would be "
    "one view more than was promised. Continue the release that has it."
)


def _fingerprint(key: bytes, true: Keys) -> str:
    """Return the HMAC-SHA256 of sorted tuple keys."""
    return hmac.new(key, true.astype("<u8").tobytes(), hashlib.sha256).hexdigest()


def _without(keys: Keys, others: Keys) -> Keys:
    return keys[~isin_sorted(keys, others)]


def _numbers(name: str, size: int) -> Attribute:
    return Attribute(name, "insensitive", IntegerRange(0, size - 1))
