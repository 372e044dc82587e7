"""RegionSummary: what the releases share that count boxes of one to four ordered attributes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

from scumble.model.designs.regions import FILE, Regions, RegionTree
from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.person import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.meter.private_counts import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import AttributeSummary

MOST_CELLS = 10**8
_SMALLEST_SHARE = 1 << 12  # no look gets less than this part of ε


class RegionSummary(AttributeSummary):
    """Counts boxes: intervals of the codes of each attribute, in the order of its domain."""

    most_attributes: ClassVar[int] = 4

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        epsilon: float,
        delta: float | None = None,
        neighbours: Neighbours,
        contribution: int = 1,
        person: str | None = None,
    ) -> None:
        super().__init__(
            attributes,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            contribution=contribution,
            person=person,
        )
        check_scale(DiscreteLaplace(self.person.sensitivity * _SMALLEST_SHARE / self._epsilon))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        owner = type(self).__name__
        if len(self.attributes) > self.most_attributes:
            allowed = f"at most {self.most_attributes} attributes"
            raise ParameterError.of(owner, "attributes", allowed, list(self.attributes))
        cells = schema.size(self.attributes)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.attributes)} has {cells:.3g} cells; {owner} "
                f"counts at most {MOST_CELLS:.0e}. Choose fewer attributes, coarser bins, or the "
                "method sparse."
            )

    @abstractmethod
    def grow(self, table: PrivateTable) -> tuple[RegionTree, Regions]:
        """The boxes that are published, with their noisy counts and the laws of the noise."""

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        tree, design = self.grow(table)
        tree.write(folder, self.attributes)
        return Measurements(FILE, self.attributes, design)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Boxes are made of neighbouring values, which mean nothing where there is no order; two
        values have no order to speak of.
        """
        loose = [n for n in self.attributes if not schema[n].ordered and schema[n].size > 2]
        if not loose:
            return super().cautions(schema)
        have = f"{', '.join(loose)} {'has' if len(loose) == 1 else 'have'} no order"
        caution = (
            f"{have}: {self.name} counts boxes of neighbouring values, which are in the order of "
            "the schema here, and a box need not hold what belongs together. For attributes "
            "without order use the method histogram, marginals, or hierarchy with a taxonomy; if "
            "the order means something, write ordered = true in the schema."
        )
        return (*super().cautions(schema), caution)

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """How many codes each attribute has."""
        return tuple(schema[name].size for name in self.attributes)

    def laplace(self, epsilons: Iterable[Fraction]) -> tuple[DiscreteLaplace, ...]:
        """The noise that makes disjoint counts ε-DP, for each of these ε."""
        laws = tuple(DiscreteLaplace(self.person.sensitivity / epsilon) for epsilon in epsilons)
        for law in laws:
            check_scale(law)
        return laws

    def _optional(
        self, parameter: str, value: object, *, least: int, most: int | None = None
    ) -> int | None:
        owner = type(self).__name__
        return None if value is None else whole(owner, parameter, value, least=least, most=most)
