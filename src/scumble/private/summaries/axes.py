"""AxisSummary: the base class of releases that measure every attribute along an axis of its own
(Hierarchy, Wavelet); and taxonomies as parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod, sqrt
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from scumble.model.designs.axis import Axis, Floats
from scumble.model.designs.kronecker import NUMBER, ByLaw, Product, product_norms
from scumble.model.designs.taxonomy import Taxonomy
from scumble.model.errors import ParameterError, large
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.schema.schema import Schema
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, WithDelta, of_product, product_moments

MOST_NUMBERS = 10**8
_MOST_FORESEEN = 10**7
FILE = "sums.parquet"


class Planned(NamedTuple):
    """An axis, and the share of the budget that each of its groups gets; shares add up to 1."""

    axis: Axis
    shares: tuple[Fraction, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class AxisSummary(WithDelta):
    """Measures the Kronecker product of one axis for each attribute.

    A combination of groups gets the product of their shares of the budget, so that the shares of
    all combinations add up to 1, and the variances of their noises are products over the axes.

    Parameters:
        taxonomy: values in nested lists, by attribute; by default the schema's hierarchy of an
            attribute without order.
    """

    for_ranges: ClassVar[bool] = True

    taxonomy: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.taxonomies = written(type(self).__name__, self.taxonomy, self.names)
        self.taxonomy = self.taxonomies or None
        check_scale(self._law(1, 1, Fraction(1), nonnegative_gram=True))

    def tree(self, schema: Schema, name: str) -> Taxonomy | None:
        """Return the taxonomy of an attribute: that of the parameter; without one, the hierarchy
        that the schema declares for an attribute without order. None if there is neither.
        """
        if name in self.taxonomies:
            return taxonomy(type(self).__name__, schema, name, self.taxonomies[name])
        attribute = schema[name]
        if attribute.hierarchy is None or attribute.ordered or attribute.levels.height < 2:
            return None
        return Taxonomy.of(attribute.levels.nested())

    @abstractmethod
    def planned(self, schema: Schema, name: str) -> Planned:
        """Return what to measure along an attribute, from parameters and schema alone."""

    def design(self, schema: Schema) -> Product:
        """Return what is measured, and with which noise."""
        plans = [self.planned(schema, name) for name in self.names]
        axes = tuple(plan.axis for plan in plans)
        nonnegative_gram = all(self._nonnegative_gram(plan) for plan in plans)
        shares = [prod(each, start=Fraction(1)) for each in product(*(p.shares for p in plans))]
        laws = tuple(
            self._law(total, squares, share, nonnegative_gram=nonnegative_gram)
            for (total, squares), share in zip(product_norms(axes), shares, strict=True)
        )
        return Product(tuple((name,) for name in self.names), axes, laws)

    def _nonnegative_gram(self, plan: Planned) -> bool:
        """Return whether no two rows have a negative inner product along an axis. Each group is
        weighted by its share over the squared norm of a row in it, as its noise is.
        """
        both = zip(plan.shares, plan.axis.norms, strict=True)
        return plan.axis.nonnegative_gram([share / squares for share, (_, squares) in both])

    def _law(
        self, total: int, squares: int, share: Fraction, *, nonnegative_gram: bool
    ) -> NoiseLaw:
        """Return the noise of a group whose rows have the L1 norm `total` and the squared L2 norm
        `squares`, and which may use this `share` of the promise.
        """
        if not self.gaussian:
            return DiscreteLaplace(self.unit.sensitivity * total / (self.promise.epsilon * share))
        moved = self.unit.squared_sensitivity(nonnegative_gram=nonnegative_gram) * squares
        return DiscreteGaussian(moved / (2 * self.promise.rho * share))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        owner = type(self).__name__
        cells = schema.size(self.names)
        if cells <= MOST_NUMBERS:
            cells = prod(sum(self.planned(schema, n).axis.lengths) for n in self.names)
        if cells > MOST_NUMBERS:
            raise ParameterError(
                f"{owner} would measure {large(cells)} sums of cells of {', '.join(self.names)}; "
                f"at most {large(MOST_NUMBERS)} are possible. Choose fewer attributes, coarser "
                "bins, or the method sparse or marginals."
            )
        for law in self.design(schema).laws:
            check_scale(law)

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        if schema.size(self.names) > _MOST_FORESEEN:
            return ()
        design = self.design(schema)
        sizes = [schema[name].size for name in self.names]
        ordered = [schema[name].ordered for name in self.names]
        one = of_product(design, [_middle(size, 1) for size in sizes])
        half = [
            _middle(size, -(-size // 2) if line else 1)
            for size, line in zip(sizes, ordered, strict=True)
        ]
        listed = " and ".join(n for n, line in zip(self.names, ordered, strict=True) if line)
        sentence = f"To expect: the count of one cell will be within {one} {OFTEN}"
        if listed:
            sentence += f", one over the middle half of {listed} within {of_product(design, half)}"
        return (f"{sentence}.",)

    def expected_error(self, schema: Schema, rows: int) -> float | None:
        """That of the middle tenth of the values of the largest attribute."""
        if schema.size(self.names) > _MOST_FORESEEN:
            return None
        sizes = [schema[name].size for name in self.names]
        asked = sizes.index(max(sizes))
        weights = [
            _middle(size, -(-size // 10) if place == asked else size)
            for place, size in enumerate(sizes)
        ]
        return sqrt(product_moments(self.design(schema), weights)[0])

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return the number of sums, and how many there are along each attribute at each level."""
        design = self.design(schema)
        levels = {
            name: list(axis.lengths) for name, axis in zip(design.columns, design.axes, strict=True)
        }
        return {"sums": design.size, "sums by level": levels}

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        import pyarrow as pa
        import pyarrow.parquet as pq

        design = self.design(table.schema)
        sums = ByLaw(design)
        counts = table.counts(self.names, self.unit)
        numbers = sums.ordered(counts.noisy(sums.laws, sums))
        pq.write_table(pa.table({NUMBER: numbers}), folder / FILE, store_schema=False)
        return Measurements(FILE, self.names, design, table.public_rows(self.unit))


def _middle(size: int, codes: int) -> Floats:
    """Return weights over a domain: 1 for `codes` codes in its middle, 0 for all others."""
    found = np.zeros(size)
    found[(size - codes) // 2 :][:codes] = 1
    return found


# Taxonomies as parameters: the values of an attribute in nested lists.

_ALLOWED = "nested lists of the attribute's values for each of some attributes"
_DEEPEST = 64


def written(owner: str, given: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the taxonomies by attribute as lists, which JSON can hold; checked."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError.of(owner, "taxonomy", _ALLOWED, given)
    for name, nested in given.items():
        if name not in names:
            allowed = f"about the counted attributes ({', '.join(names)})"
            raise ParameterError.of(owner, "taxonomy", allowed, name)
        if not isinstance(nested, (list, tuple)) or not _sound(nested, _DEEPEST):
            raise ParameterError.of(owner, "taxonomy", _ALLOWED, nested)
    return {name: _lists(nested) for name, nested in given.items()}


def taxonomy(owner: str, schema: Schema, name: str, nested: Sequence[Any]) -> Taxonomy:
    """Return the taxonomy over the codes of an attribute; None is the missing value."""
    codes = {label: code for code, label in enumerate(schema[name].labels().to_pylist())}
    given = list(_leaves(nested))
    strange = [value for value in given if value not in codes]
    absent = [label for label in codes if label not in set(given)]
    if strange or absent or len(given) > len(codes):
        wrong = "has others too" if strange else "lacks some" if absent else "has some twice"
        shown = f": {', '.join(map(repr, [*strange, *absent][:3]))}" if strange or absent else ""
        raise ParameterError(
            f"The taxonomy of '{name}' for {owner} must hold each value of its domain once. It "
            f"{wrong}{shown}."
        )
    return Taxonomy.of(_coded(nested, codes))


def _sound(nested: Sequence[Any], deepest: int) -> bool:
    """Return whether no list is empty and none is nested deeper than `deepest`."""
    inner = [each for each in nested if isinstance(each, (list, tuple))]
    return bool(nested) and deepest > 0 and all(_sound(each, deepest - 1) for each in inner)


def _lists(nested: Any) -> Any:
    if not isinstance(nested, (list, tuple)):
        return nested
    return [_lists(each) for each in nested]


def _leaves(nested: Any) -> Iterator[Any]:
    if not isinstance(nested, (list, tuple)):
        yield nested
        return
    for each in nested:
        yield from _leaves(each)


def _coded(nested: Any, codes: Mapping[Any, int]) -> Any:
    if not isinstance(nested, (list, tuple)):
        return codes[nested]
    return [_coded(each, codes) for each in nested]
