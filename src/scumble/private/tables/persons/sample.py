"""A secret sample of the people of a table: drawn once, and the same in every pass."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.errors import ParameterError, setting
from scumble.model.privacy.sampling import Sample
from scumble.model.schema import arrow_values
from scumble.private.sampling.bits import bernoulli
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import shuffle
from scumble.private.tables.persons.limit import identifiers
from scumble.private.tables.source import PartOfSource, Source

MOST_PEOPLE = 1 << 28  # of a sample of a fixed size, which is drawn in memory
_BITS = 128
_COINS = 1 << 16  # rows whose draws are made together


class SampledSource(Source):
    """The rows of people who were drawn, in the order of the table."""

    def __init__(
        self, source: Source, sample: Sample, person: str | None, seed: int | None, *, fixed: bool
    ) -> None:
        self.source = source.ordered()
        self.sample: Sample = sample
        self._person, self.grouped = person, source.grouped
        self.description, self.columns, self.hint = source.description, source.columns, source.hint
        repeated = None if seed is None else hashlib.sha256(b"scumble sample %d" % seed).digest()
        self._key = os.urandom(32) if repeated is None else repeated
        self._fixed = fixed
        self._chosen: npt.NDArray[np.bool_] | None = None

    @property
    def part(self) -> PartOfSource | None:
        return self.source.part

    def ordered(self) -> Source:
        return self

    @contextmanager
    def drawn(self, columns: Sequence[str]) -> Iterator[None]:
        try:
            self.draw(columns[0])
            yield
        finally:
            self.destroy()

    def draw(self, column: str) -> None:
        """Draw a sample of a fixed size, if there is no person to add or remove; `column` is any
        of the table. Other samples are drawn while the rows are read.
        """
        if not self._fixed:
            return
        people = sum(batch.num_rows for batch in self.source.batches([column]))
        if people > MOST_PEOPLE:
            raise ParameterError(
                f"A sample without replacement is drawn from at most {MOST_PEOPLE} rows; use "
                f"{setting('neighbours', 'add_remove')}."
            )
        drawn = int(self.sample.rate * people)
        order = np.arange(people)
        shuffle(Keystream.derived(self._key, "sample"), order, np.array([0, people]))
        self._chosen = np.zeros(people, bool)
        self._chosen[order[:drawn]] = True
        self.sample = replace(self.sample, people=people, drawn=drawn)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = list(dict.fromkeys([*columns, *([self._person] if self._person else [])]))
        stream, before = Keystream.derived(self._key, "sample"), 0
        coins = np.empty(0, bool)  # in pieces of one length: batches may differ between passes
        for batch in self.source.batches(wanted):
            if self._chosen is not None:
                kept = self._chosen[before : before + batch.num_rows]
            elif self._person is not None:
                kept = self._drawn_people(batch.column(self._person))
            else:
                while len(coins) < batch.num_rows:
                    coins = np.append(coins, bernoulli(stream, self.sample.rate, _COINS))
                kept, coins = coins[: batch.num_rows], coins[batch.num_rows :]
            before += batch.num_rows
            yield batch.select(list(columns)).filter(pa.array(kept))

    def _drawn_people(self, people: pa.Array) -> npt.NDArray[np.bool_]:
        """Return which rows belong to people who were drawn, by a keyed hash of the identifier.

        Two identifiers that are one person for `RowLimit` are one here. The probability is the
        rate, rounded down to a multiple of 2^-128. Rows without an identifier stay, for `RowLimit`
        to leave them out or to refuse them.
        """
        coded = arrow_values.unwrap(people).dictionary_encode()
        limit = int(self.sample.rate * (1 << _BITS))
        names = identifiers(coded.dictionary).to_pylist()
        drawn = [name is None or self._hash(name) < limit for name in names]
        codes = coded.indices.fill_null(len(drawn)).to_numpy(zero_copy_only=False)
        found: npt.NDArray[np.bool_] = np.array([*drawn, True], bool)[codes]
        return found

    def _hash(self, name: bytes) -> int:
        mac = hmac.new(self._key, b"person " + name, hashlib.sha256).digest()
        return int.from_bytes(mac[: _BITS // 8], "big")

    def destroy(self) -> None:
        """Forget who was drawn."""
        self._key, self._chosen = b"", None
