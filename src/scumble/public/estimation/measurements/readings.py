"""What every cell of a product of domains adds to an answer, as small tensors whose product it
is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.schema.schema import Schema
from scumble.public import cells

Tensor = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """A tensor over the domains of some attributes, its axes in the order of the schema."""

    names: tuple[str, ...]
    values: Tensor


@dataclass(frozen=True, eq=False)
class Weights:
    """The weight of a cell is the product of one entry of each part; no attribute is in two parts,
    and those in none have weight 1 everywhere.
    """

    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of all parts."""
        return tuple(name for part in self.parts for name in part.names)

    @property
    def single(self) -> bool:
        """Whether every part is about one attribute."""
        return all(len(part.names) == 1 for part in self.parts)

    def along(self, name: str) -> Tensor | None:
        """The weights of an attribute that has a part of its own."""
        found = [part.values for part in self.parts if part.names == (name,)]
        return found[0] if found else None

    @property
    def factor(self) -> float:
        """The product of the parts that are about no attribute."""
        return prod(float(part.values) for part in self.parts if not part.names)

    def largest(self) -> float:
        """The largest absolute weight of a cell."""
        return prod(float(np.abs(part.values).max(initial=0.0)) for part in self.parts)

    def fixed(self, schema: Schema, codes: Mapping[str, int]) -> Weights:
        """The same weights, but 0 where an attribute has another code than the one given."""
        chosen = [
            Part((name,), _indicator(schema[name].size, code)) for name, code in codes.items()
        ]
        return joined(schema, [*self.parts, *chosen])


def joined(schema: Schema, parts: Iterable[Part]) -> Weights:
    """Weights out of parts that may share attributes; those that do become one."""
    found: list[Part] = []
    for part in parts:
        touching = [other for other in found if not set(other.names).isdisjoint(part.names)]
        found = [other for other in found if other not in touching]
        found.append(reduce(lambda one, other: _merged(schema, one, other), touching, part))
    return Weights(tuple(found))


def _merged(schema: Schema, one: Part, other: Part) -> Part:
    both = {*one.names, *other.names}
    names = tuple(name for name in schema.names if name in both)
    if (size := schema.size(names)) > cells.LIMIT:
        raise QueryError(
            f"The question ties {', '.join(names)} together, which have {size:.3g} combinations of "
            f"values; at most {cells.LIMIT} are possible. Ask about fewer attributes at once."
        )
    return Part(names, _spread(schema, one, names) * _spread(schema, other, names))


def _spread(schema: Schema, part: Part, names: Sequence[str]) -> Tensor:
    shape = [schema[name].size if name in part.names else 1 for name in names]
    return part.values.reshape(shape)


def _indicator(size: int, code: int) -> Tensor:
    values = np.zeros(size)
    values[code] = 1.0
    return values
