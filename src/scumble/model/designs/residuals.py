"""Residuals: noisy marginals of some attributes, or parts of marginals, all in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Literal

from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian

NoiseLaw = DiscreteLaplace | DiscreteGaussian
Form = Literal["marginal", "residual", "contrast"]


@dataclass(frozen=True)
class Table:
    """What was measured of the marginal of some attributes, which are numbers into a list.

    A "marginal" is the count of every cell plus noise. A "residual" is the differences of such
    noisy counts along every axis (see `residual_axis`): the noise was added before. A "contrast",
    of attributes with two values each, is the one difference of the true counts plus one noise.
    """

    places: tuple[int, ...]
    form: Form
    law: NoiseLaw

    def numbers(self, sizes: tuple[int, ...]) -> int:
        """How many numbers were published."""
        return prod(self.shape(sizes))

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        less = 0 if self.form == "marginal" else 1
        return tuple(sizes[place] - less for place in self.places)

    def cells(self, sizes: tuple[int, ...]) -> int:
        """How many cells the marginal has."""
        return prod(sizes[place] for place in self.places)


@dataclass(frozen=True)
class Residuals:
    """Tables over some of `attributes`, whose numbers of values are `sizes`. The file holds their
    numbers in the column `count`, table by table, the last attribute fastest.
    """

    kind: ClassVar[str] = "residuals"

    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    tables: tuple[Table, ...]
    count: str = "count"

    @cached_property
    def sets(self) -> frozenset[frozenset[int]]:
        """The sets of attributes of which something was measured."""
        return frozenset(frozenset(table.places) for table in self.tables)

    @property
    def numbers(self) -> int:
        """How many numbers the file has."""
        return sum(table.numbers(self.sizes) for table in self.tables)

    def slices(self) -> Iterator[slice]:
        """Where the numbers of each table are."""
        begin = 0
        for table in self.tables:
            end = begin + table.numbers(self.sizes)
            yield slice(begin, end)
            begin = end

    def to_dict(self) -> dict[str, Any]:
        laws = list(dict.fromkeys(table.law for table in self.tables))
        numbered = {law: number for number, law in enumerate(laws)}
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "sizes": list(self.sizes),
            "laws": [law.to_dict() for law in laws],
            "tables": [
                [list(table.places), table.form, numbered[table.law]] for table in self.tables
            ],
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Residuals:
        laws = []
        for each in data["laws"]:
            law = from_dict(each)
            if not isinstance(law, DiscreteLaplace | DiscreteGaussian):
                raise ValueError("tables have discrete Laplace or Gaussian noise")
            laws.append(law)
        tables = tuple(
            Table(tuple(places), form, laws[number]) for places, form, number in data["tables"]
        )
        return cls(tuple(data["attributes"]), tuple(data["sizes"]), tables, data["count"])
