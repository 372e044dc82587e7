"""The design of tables over sets of attributes that were chosen privately, one after the other.

First comes a table of each attribute alone. Their noisy counts decide which values are rare: the
`merged` values of an attribute are one class in all further tables. These follow in the order in
which they were measured; every choice depends on tables before it, and on none after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.designs.design import Design, Extents
from scumble.model.designs.matrix import MergedCells
from scumble.model.laws import NoiseLaw, law_from_dict, noise_law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, add_losses, counts_loss, number_loss

Integers = npt.NDArray[np.int64]
Places = tuple[int, ...]

MOST_CELLS = 5 * 10**7  # of all tables together


@dataclass(frozen=True)
class ChosenTable:
    """One measured table: the counts by the attributes at `places`, in rising order, with noise."""

    places: Places
    law: NoiseLaw


@dataclass(frozen=True)
class ChosenTables(Design):
    """Tables over some of `attributes`, which have `sizes` values. Table k < len(attributes) is
    that of attribute k alone; the others count classes of values. The file holds the numbers in the
    column `count`, table by table, the last attribute fastest.
    """

    kind: ClassVar[str] = "chosen"

    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    merged: tuple[tuple[int, ...], ...]
    tables: tuple[ChosenTable, ...]
    count: str = "count"

    def __post_init__(self) -> None:
        number = len(self.attributes)
        if not number == len(self.sizes) == len(self.merged) or len(self.tables) < number:
            raise ValueError("every attribute has a size and a table of its own")
        if min(self.sizes, default=0) < 1:
            raise ValueError("an attribute has at least one value")
        for size, codes in zip(self.sizes, self.merged, strict=True):
            rising = all(one < other for one, other in itertools.pairwise(codes))
            if len(codes) == 1 or not rising or any(not 0 <= code < size for code in codes):
                raise ValueError("merged values are two or more codes in rising order")
        for index, table in enumerate(self.tables):
            places = table.places
            rising = all(one < other for one, other in itertools.pairwise(places))
            if not places or not rising or places[0] < 0 or places[-1] >= number:
                raise ValueError("a table is over some of the attributes, in rising order")
            if places != (index,) if index < number else len(places) < 2:
                raise ValueError("the first tables are those of single attributes")
        if self.numbers > MOST_CELLS:
            raise ValueError("more cells than can be read")

    @property
    def extents(self) -> Extents:
        """Every attribute, and how many values it has."""
        return tuple(
            ((name,), size) for name, size in zip(self.attributes, self.sizes, strict=True)
        )

    @cached_property
    def class_sizes(self) -> tuple[int, ...]:
        """The number of classes of each attribute."""
        pairs = zip(self.sizes, self.merged, strict=True)
        return tuple(size - max(len(codes) - 1, 0) for size, codes in pairs)

    def classes(self, index: int) -> Integers:
        """Return the class of each code of an attribute: the merged values are the last class, all
        others are in the order of their codes.
        """
        return class_of_code(self.sizes[index], self.merged[index])

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the numbers of values, or of classes, along the axes of a table."""
        sizes = self.sizes if index < len(self.attributes) else self.class_sizes
        return tuple(sizes[attribute] for attribute in self.tables[index].places)

    @property
    def numbers(self) -> int:
        """The number of rows of the file."""
        return sum(prod(self.shape(index)) for index in range(len(self.tables)))

    def split(self, numbers: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the numbers of the file as one array for each table."""
        tables, begin = [], 0
        for index in range(len(self.tables)):
            shape = self.shape(index)
            tables.append(numbers[begin : begin + prod(shape)].reshape(shape))
            begin += prod(shape)
        return tables

    def to_dict(self) -> dict[str, Any]:
        laws = list(dict.fromkeys(table.law for table in self.tables))
        numbered = {law: number for number, law in enumerate(laws)}
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "sizes": list(self.sizes),
            "merged": [list(codes) for codes in self.merged],
            "laws": [law.to_dict() for law in laws],
            "tables": [[list(table.places), numbered[table.law]] for table in self.tables],
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChosenTables:
        laws = [noise_law_from_dict(law) for law in data["laws"]]
        tables = tuple(
            ChosenTable(stored.items(stored.whole, places), laws[stored.whole(number)])
            for places, number in data["tables"]
        )
        return cls(
            stored.items(stored.text, data["attributes"]),
            stored.items(stored.whole, data["sizes"]),
            tuple(stored.items(stored.whole, codes) for codes in data["merged"]),
            tables,
            stored.text(data["count"]),
        )

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        return add_losses(counts_loss(table.law, unit) for table in self.tables)


def class_of_code(size: int, merged: tuple[int, ...]) -> Integers:
    """Return the class of each of `size` codes: see `ChosenTables.classes`."""
    if not merged:
        return np.arange(size)
    unmerged = np.ones(size, bool)
    unmerged[list(merged)] = False
    classes = np.cumsum(unmerged) - 1
    classes[~unmerged] = int(unmerged.sum())
    return classes


def by_class(counts: npt.NDArray[Any], classes: list[Integers]) -> npt.NDArray[Any]:
    """Return a table by the classes of the codes along each axis."""
    for axis, own in enumerate(classes):
        groups = int(own.max()) + 1
        if groups < len(own):
            moved = np.moveaxis(counts, axis, 0)
            summed = np.zeros((groups, *moved.shape[1:]), counts.dtype)
            np.add.at(summed, own, moved)
            counts = np.moveaxis(summed, 0, axis)
    return counts


# --- query rounds ---------------------------------------------------------------------------------
#
# QueryRounds: counts that were chosen and measured one after the other, and the model they make.
#
# Each measurement is the noisy count of a set of merged cells. The model starts even over the
# domain and moves towards all measurements by multiplicative weights, again and again.

Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]

NOISY, CELLS = "noisy", "cells"  # the columns of the file, one row for each measurement
_SWEEPS = 100


@dataclass(frozen=True)
class QueryRounds(Design):
    """The merged cells, and the noise of each measurement.

    With `row_noise`, the first row of the file is the number of all rows with this noise.
    """

    kind: ClassVar[str] = "rounds"

    merged: MergedCells
    noise: DiscreteLaplace
    row_noise: DiscreteLaplace | None

    def to_dict(self) -> dict[str, Any]:
        total = {} if self.row_noise is None else {"row_noise": self.row_noise.to_dict()}
        return {
            "kind": self.kind,
            **self.merged.to_dict(),
            "noise": self.noise.to_dict(),
            **total,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QueryRounds:
        row_noise = None if data.get("row_noise") is None else _read_laplace(data["row_noise"])
        return cls(MergedCells.from_dict(data), _read_laplace(data["noise"]), row_noise)

    @property
    def extents(self) -> Extents:
        return self.merged.extents

    @property
    def sizes(self) -> Floats:
        """The number of cells of the domain in each merged cell."""
        sizes = np.ones(())
        for block in self.merged.blocks:
            sizes = np.multiply.outer(sizes, block.sizes)
        return self.merged.total(sizes)

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as plain:
            numbers = plain.metadata.num_rows
        total = [] if self.row_noise is None else [number_loss(self.row_noise, unit)]
        per_count = number_loss(self.noise, unit)
        return add_losses(total) + StatedLoss(per_count.epsilon * max(numbers - len(total), 0))


def _read_laplace(data: Mapping[str, Any]) -> DiscreteLaplace:
    law = law_from_dict(data)
    if not isinstance(law, DiscreteLaplace):
        raise ValueError("measured counts have discrete Laplace noise")
    return law


def fit_model(sizes: Floats, rows: float, sets: Sequence[Cells], noisy: Sequence[float]) -> Floats:
    """Return the modelled number of rows of every merged cell, `rows` in all.

    A cell of a measured set is multiplied by exp((noisy - modelled) / 2 rows), set after set, and
    all cells are scaled back to `rows`; this is repeated for all measurements (Hardt, Ligett,
    McSherry, NIPS 2012).
    """
    whole = max(rows, 1.0)
    model: Floats = whole * sizes / sizes.sum()
    for _ in range(_SWEEPS if len(sets) else 0):
        for places, number in zip(sets, noisy, strict=True):
            gap = number - float(model[places].sum())
            model[places] *= np.exp(np.clip(gap / (2 * whole), -30, 30))
            model *= whole / model.sum()
    return model
