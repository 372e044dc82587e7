"""Views of a set of tuples: drawn, written, read again, and drawn once more beside earlier ones."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.model.evidence.presence import Included
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import Radix
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.perturbation.tuple_views import TupleNoise
from scumble.private.sampling.bernoulli import bernoulli
from scumble.private.tables.sorted_keys import Keys
from scumble.private.tables.tuple_keys import Mask, among
from scumble.private.tables.writer import ViewWriter

if TYPE_CHECKING:
    from scumble.private.sampling.source import Source

FILE = "tuples.parquet"
Masks = npt.NDArray[np.uint64]


class TupleViews:
    """The views of one table under one law. Keys are in order and each there once."""

    def __init__(self, schema: Schema, law: Included) -> None:
        self._law = law
        self._attributes = list(schema.published)
        names = [attribute.name for attribute in self._attributes]
        if law.multiplicity > 1:
            self._attributes.append(_numbers(Included.occurrence, law.multiplicity))
        self.radix = Radix([attribute.size for attribute in self._attributes])
        self._sources = {names.index(name): p for name, p in (law.sources or {}).items()}

    def first(self, true: Keys, source: Source) -> Keys:
        """A view that no other came before."""
        noise = self._noise(self._law.noise)
        false = noise.draw(source)
        return np.concatenate([true[self._kept(true, noise, source)], _without(false, true)])

    def _noise(self, mean: Fraction) -> TupleNoise:
        return TupleNoise(self.radix, mean, self._sources)

    def _kept(self, true: Keys, noise: TupleNoise, source: Source) -> Mask:
        """Which true tuples the view has: with probability α + β(t), either as true or as noise."""
        if not self._sources:
            return bernoulli(source, self._law.kept, len(true))
        alpha = self._law.kept - self._law.noise
        like_noise = bernoulli(source, noise.largest / (1 - alpha), len(true))
        like_noise &= noise.relative(source, self.radix.unpack(true), len(true))
        return bernoulli(source, alpha, len(true)) | like_noise

    def later(
        self, true: Keys, seen: Keys, masks: Masks, view: int, source: Source
    ) -> tuple[Keys, Masks]:
        """All tuples with one view more: those seen before, and what this view adds to them."""
        law = self._law
        picked = true[bernoulli(source, law.kept, len(true))]
        again = among(seen, picked)
        false = np.flatnonzero(~among(seen, true))
        again[false] = bernoulli(source, law.kept * law.fade, len(false))
        noise = self._noise(law.noise_of(view)).draw(source)
        added = np.concatenate([_without(picked, seen), _without(_without(noise, true), seen)])
        bit = np.uint64(1 << (view - 1))
        masks = np.concatenate([np.where(again, masks | bit, masks), np.full(len(added), bit)])
        return np.concatenate([seen, added]), masks

    def write(self, folder: Path, keys: Keys, masks: Masks | None = None) -> None:
        """The file of a release. Of one view among several, every tuple is in the first."""
        columns: list[npt.NDArray[Any]] = self.radix.unpack(keys)
        attributes = self._attributes
        if self._law.most > 1:
            attributes = [*attributes, _numbers(Included.seen, 1 << self._law.most)]
            columns.append(np.ones(len(keys), np.uint64) if masks is None else masks)
        with ViewWriter(folder / FILE, attributes) as view:
            view.add(columns)

    def read(self, path: Path) -> tuple[Keys, Masks]:
        """The tuples of a file that `write` made, and which views have them."""
        table = pq.read_table(path)
        keys = self.radix.pack([each.encode(table[each.name])[0] for each in self._attributes])
        return keys, table[Included.seen].to_numpy().astype(np.uint64)


def _without(keys: Keys, others: Keys) -> Keys:
    return keys[~among(keys, others)]


def _numbers(name: str, size: int) -> Attribute:
    return Attribute(name, "insensitive", IntegerRange(0, size - 1))
