"""AxisSummary: the base class of releases that measure every attribute along an axis of its own
(Hierarchy, Wavelet, Dyadic); and taxonomies as parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, prod, sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from scumble.model.designs.axis import Axis, Floats, IdentityAxis
from scumble.model.designs.kronecker import NUMBER, ByLaw, Product, least_product, product_norms
from scumble.model.designs.taxonomy import Taxonomy, TaxonomyTree
from scumble.model.designs.tree import Budget, Tree, tree_plan
from scumble.model.designs.wavelets import Haar, Nominal
from scumble.model.errors import ParameterError, large, named
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    RoundedNormal,
)
from scumble.model.parameters import flag, whole
from scumble.model.privacy import accounting
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import SMALL_DELTA, Claim, ComparisonPreset, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, WithDelta, of_product, product_moments
from scumble.private.summaries.sums import SumSummary

MOST_NUMBERS = 10**8
_MOST_FORESEEN = 10**7
FILE = "sums.parquet"


class AxisPlan(NamedTuple):
    """An axis, and the share of the budget that each of its groups gets; shares add up to 1."""

    axis: Axis
    shares: tuple[Fraction, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class AxisSummary(WithDelta, SumSummary):
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
        check_scale(self._choose_law(1, 1, Fraction(1), nonnegative_gram=True))

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
    def plan_axis(self, schema: Schema, name: str) -> AxisPlan:
        """Return what to measure along an attribute, from parameters and schema alone."""

    def design(self, schema: Schema) -> Product:
        """Return what is measured, and with which noise."""
        plans = [self.plan_axis(schema, name) for name in self.names]
        axes = tuple(plan.axis for plan in plans)
        shares = [
            prod(combination, start=Fraction(1))
            for combination in product(*(p.shares for p in plans))
        ]
        nonnegative_gram = self._has_nonnegative_gram(axes, shares)
        laws = tuple(
            self._choose_law(total, squares, share, nonnegative_gram=nonnegative_gram)
            for (total, squares), share in zip(product_norms(axes), shares, strict=True)
        )
        return Product(tuple((name,) for name in self.names), axes, laws)

    def _has_nonnegative_gram(self, axes: Sequence[Axis], shares: Sequence[Fraction]) -> bool:
        """Return whether no two rows have a negative inner product. Each group is weighted by its
        share over the squared norm of a row in it, as its noise is.
        """
        if not any(axis.signed for axis in axes):
            return True
        both = zip(shares, product_norms(axes), strict=True)
        return least_product(axes, [share / squares for share, (_, squares) in both]) >= 0

    def _choose_law(
        self, total: int, squares: int, share: Fraction, *, nonnegative_gram: bool
    ) -> NoiseLaw:
        """Return the noise of a group whose rows have the L1 norm `total` and the squared L2 norm
        `squares`, and which may use this `share` of the promise.
        """
        if not self.gaussian:
            return DiscreteLaplace(
                self.unit.sensitivity * total / (self.cell_promise.epsilon * share)
            )
        moved = self.unit.squared_sensitivity(nonnegative_gram=nonnegative_gram) * squares
        return DiscreteGaussian(moved / (2 * self.cell_promise.rho * share))

    def check(self, schema: Schema) -> None:
        super().check(schema)
        owner = type(self).__name__
        cells = schema.size(self.names)
        if cells <= MOST_NUMBERS:
            cells = prod(sum(self.plan_axis(schema, n).axis.lengths) for n in self.names)
        if cells > MOST_NUMBERS:
            raise ParameterError(
                f"{owner} would measure {large(cells)} sums of cells of {', '.join(self.names)}; "
                f"at most {large(MOST_NUMBERS)} are possible. Choose fewer attributes, coarser "
                "bins, or the method sparse or marginals."
            )
        for law in self.design(schema).laws:
            check_scale(law)

    def outlook_of_cells(self, schema: Schema) -> tuple[str, ...]:
        if schema.size(self.names) > _MOST_FORESEEN:
            return ()
        design = self.design(schema)
        sizes = [schema[name].size for name in self.names]
        ordered = [schema[name].ordered for name in self.names]
        one = of_product(design, [_weigh_middle(size, 1) for size in sizes])
        half = [
            _weigh_middle(size, -(-size // 2) if line else 1)
            for size, line in zip(sizes, ordered, strict=True)
        ]
        listed = " and ".join(n for n, line in zip(self.names, ordered, strict=True) if line)
        sentence = f"To expect: the count of one cell will be within {one} {OFTEN}"
        if listed:
            sentence += f", one over the middle half of {listed} within {of_product(design, half)}"
        return (f"{sentence}.",)

    def error_of_cells(self, schema: Schema, rows: int) -> float | None:
        """That of the middle tenth of the values of the largest attribute."""
        if schema.size(self.names) > _MOST_FORESEEN:
            return None
        sizes = [schema[name].size for name in self.names]
        asked = sizes.index(max(sizes))
        weights = [
            _weigh_middle(size, -(-size // 10) if index == asked else size)
            for index, size in enumerate(sizes)
        ]
        return sqrt(product_moments(self.design(schema), weights)[0])

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return the number of sums, and how many there are along each attribute at each level."""
        design = self.design(schema)
        levels = {
            name: list(axis.lengths) for name, axis in zip(design.columns, design.axes, strict=True)
        }
        return {"sums": design.size, "sums by level": levels}

    def cell_layout(self, schema: Schema) -> Layout:
        return {FILE: ("number",)}

    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        import pyarrow as pa
        import pyarrow.parquet as pq

        design = self.design(table.schema)
        sums = ByLaw(design)
        counts = table.counts(self.names, self.unit)
        numbers = sums.ordered(counts.noisy(sums.laws, sums))
        pq.write_table(pa.table({NUMBER: numbers}), folder / FILE, store_schema=False)
        return Measurements(FILE, self.names, design, table.public_rows(self.unit))


def _weigh_middle(size: int, codes: int) -> Floats:
    """Return weights over a domain: 1 for `codes` codes in its middle, 0 for all others."""
    weights = np.zeros(size)
    weights[(size - codes) // 2 :][:codes] = 1
    return weights


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
        if not isinstance(nested, (list, tuple)) or not _is_sound(nested, _DEEPEST):
            raise ParameterError.of(owner, "taxonomy", _ALLOWED, nested)
    return {name: _copy_lists(nested) for name, nested in given.items()}


def taxonomy(owner: str, schema: Schema, name: str, nested: Sequence[Any]) -> Taxonomy:
    """Return the taxonomy over the codes of an attribute; None is the missing value."""
    codes = {label: code for code, label in enumerate(schema[name].labels().to_pylist())}
    given = list(_list_leaves(nested))
    strange = [value for value in given if value not in codes]
    absent = [label for label in codes if label not in set(given)]
    if strange or absent or len(given) > len(codes):
        wrong = "has others too" if strange else "lacks some" if absent else "has some twice"
        shown = f": {', '.join(map(repr, [*strange, *absent][:3]))}" if strange or absent else ""
        raise ParameterError(
            f"The taxonomy of '{name}' for {owner} must hold each value of its domain once. It "
            f"{wrong}{shown}."
        )
    return Taxonomy.of(_encode(nested, codes))


def _is_sound(nested: Sequence[Any], deepest: int) -> bool:
    """Return whether no list is empty and none is nested deeper than `deepest`."""
    inner = [child for child in nested if isinstance(child, (list, tuple))]
    return bool(nested) and deepest > 0 and all(_is_sound(child, deepest - 1) for child in inner)


def _copy_lists(nested: Any) -> Any:
    if not isinstance(nested, (list, tuple)):
        return nested
    return [_copy_lists(child) for child in nested]


def _list_leaves(nested: Any) -> Iterator[Any]:
    if not isinstance(nested, (list, tuple)):
        yield nested
        return
    for child in nested:
        yield from _list_leaves(child)


def _encode(nested: Any, codes: Mapping[Any, int]) -> Any:
    if not isinstance(nested, (list, tuple)):
        return codes[nested]
    return [_encode(child, codes) for child in nested]


# --- hierarchy ------------------------------------------------------------------------------------
#
# Hierarchy: noisy counts of ranges of all sizes, made consistent.

LARGEST_FANOUT = 10**6


@dataclass(kw_only=True, eq=False, repr=False)
class Hierarchy(AxisSummary):
    """Publishes noisy counts of blocks of cells of several sizes, so that a range is the sum of a
    few of them. Best for conditions on ranges of ordered attributes with many values.

    Every ordered attribute has a tree over its values: `fanout` is the number of children of its
    nodes, by default the one whose ranges have the least mean error. `root` also measures the count
    of all values. `budget` is "uniform" over the levels of a tree, or "optimal" for ranges.
    `taxonomy` gives the tree of an attribute without order, as nested lists of its values; else the
    hierarchy of the schema is its tree, and without both it is counted value by value. Several
    attributes are measured by the product of their trees: every block of one with every block of
    the other. `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        fanout: children of a node of its trees.
        root: also measure the count of everything.
        budget: by level, uniform or optimal.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: a row is in one node of
        every level, and so in one number of every combination of levels; noise with P(z) ∝
        exp(−|z|/b) on that group costs ε = Δ/b, and Gaussian noise ρ = Δ₂²/2σ², with Δ and Δ₂² as
        for counts of disjoint cells; the groups' losses add up to what is promised.
    Estimate: weighted least squares over all numbers, in two passes along every tree; unbiased, and
        the variance of any answer is exact, whatever the data are.
    Reference: Hay, Rastogi, Miklau, Suciu, VLDB 2010; fan-outs: Qardaji, Yang, Li, VLDB 2013;
        budgets: Cormode, Procopiuc, Srivastava, Yaroslavtsev, ICDE 2013.
    Differs: the root is left out unless asked for: of 4096 values that takes a third off the
        variance of ranges, a tenth off that of ranges from the first value on, and makes the count
        of everything worse. The fan-out is the best one with least squares, while HB's rule is
        about the error without: both are 16 for 4096 values, but 12 and 128 for 128. Several
        attributes have products of trees in place of HB's grids, whose boxes have a larger error.
        Integer noise. Nothing is cut off at zero: that would bias sums of many cells.
    """

    name = "hierarchy"

    fanout: int | None = None
    root: bool = False
    budget: Budget = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget not in ("uniform", "optimal"):
            raise ParameterError.of("Hierarchy", "budget", "'uniform' or 'optimal'", self.budget)
        if self.fanout is not None:
            self.fanout = whole("Hierarchy", "fanout", self.fanout, least=2, most=LARGEST_FANOUT)
        flag("Hierarchy", "root", self.root)

    def plan_axis(self, schema: Schema, name: str) -> AxisPlan:
        if (tree := self.tree(schema, name)) is not None:
            return self._plan_taxonomy(tree)
        size = schema[name].size
        if not schema[name].ordered:
            return AxisPlan(IdentityAxis(size), (Fraction(1),))
        plan = tree_plan(
            size, fanout=self.fanout, root=self.root, gaussian=self.gaussian, budget=self.budget
        )
        return AxisPlan(Tree(size, plan.fanouts, plan.weights), plan.measured)

    def _plan_taxonomy(self, tree: Taxonomy) -> AxisPlan:
        """Return the levels of a taxonomy, with equal shares."""
        levels = len(tree.families) + self.root
        weights = [1.0] * levels + [0.0] * (len(tree.families) + 1 - levels)
        return AxisPlan(TaxonomyTree(tree, tuple(weights)), (Fraction(1, levels),) * levels)

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], fanout=2, root=True, **protection(neighbours)), 1)
        gaussian = protection(neighbours, delta=SMALL_DELTA)
        yield Claim(cls(["a", "b"], **gaussian), 1, SMALL_DELTA)


# --- wavelet --------------------------------------------------------------------------------------
#
# Wavelet: noisy differences between halves of the domain, at all scales.

Transformed = Literal["large", "all"]


@dataclass(kw_only=True, eq=False, repr=False)
class Wavelet(AxisSummary):
    """Publishes noisy differences between the two halves of every block of cells, from pairs of
    cells to the whole domain. Good for conditions on ranges of attributes with many values.

    `transform` says which attributes are: "large" ones, for which it pays (Privelet+), or "all"
    (Privelet). The others are counted value by value, as are attributes without order that have no
    `taxonomy` (nested lists of the values) and no hierarchy in the schema; the nodes of one are
    compared with their siblings' mean.
    `neighbours`, `contribution` and `person` are as for Histogram.

    Parameters:
        transform: which attributes, large ones or all.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: along an attribute of
        size m a row changes one of ⌈log2 m⌉ + 1 groups of numbers each by 1 in all (of a taxonomy,
        one group a level, by a known whole number); along several, products of these. Noise with
        P(z) ∝ exp(−|z|/b) on a group that changes by c costs ε = Δc/b, Gaussian noise on one
        that changes by q in squares ρ = Δ₂²q/2σ²; the groups' losses add up to what is promised.
        For a row that is replaced Δ₂² is 2: both change the sum of all alike, which weighs no less
        than the numbers that part them, the only ones that they change in opposite directions.
    Estimate: the inverse transform, siblings being centred first, which is least squares; unbiased,
        and the variance of any answer is exact.
    Reference: Xiao, Wang, Gehrke, ICDE 2010 and TKDE 2011 (Privelet, Privelet+; lemmas 2 to 5).
    Differs: sums and differences of whole numbers with integer noise, in place of weighted means; a
        domain that is no power of two is not padded: what would be about empty cells is not
        measured. Without δ a hierarchy has a smaller mean error over ranges at the same ε.
    """

    name = "wavelet"

    transform: Transformed = "large"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transform not in ("large", "all"):
            raise ParameterError.of("Wavelet", "transform", "'large' or 'all'", self.transform)

    def plan_axis(self, schema: Schema, name: str) -> AxisPlan:
        axis = self._choose_axis(schema, name)
        groups = len(axis.lengths)
        return AxisPlan(axis, (Fraction(1, groups),) * groups)

    def _choose_axis(self, schema: Schema, name: str) -> Axis:
        size = schema[name].size
        if (tree := self.tree(schema, name)) is not None:
            nominal = Nominal.balanced(tree, squares=self.gaussian)
            spread = Fraction(1 if self.gaussian else 4)
            return nominal if self._pays(nominal, spread) else IdentityAxis(size)
        if schema[name].ordered:
            haar = Haar(size)
            halvings = len(haar.lengths) - 1
            spread = 1 + Fraction(halvings, 2)
            pays = self._pays(haar, spread) or (self.gaussian and _find_worst_range(haar) < size)
            return haar if pays else IdentityAxis(size)
        return IdentityAxis(size)

    def _pays(self, axis: Axis, spread: Fraction) -> bool:
        """Whether the worst range (of a taxonomy: node) is worse without the transform.

        In units of the variance of one cell without it, that range has the variance `axis.size`
        without the transform, and with it at most `spread` times the variance of one number, of
        which a row changes P. Each number gets 1/P of the budget: of ε, then its variance is P²
        (Privelet+'s rule), of ρ it is P.

        Along a taxonomy with Gaussian noise `spread` is 1: with V the variance of the parent, a
        node among f siblings has V/f² + P(1 - 1/f)², at most P if V is.
        """
        groups = len(axis.lengths)
        number = groups if self.gaussian else groups**2
        return self.transform == "all" or axis.size > number * spread

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], transform="all", **protection(neighbours)), 1)


def _find_worst_range(axis: Haar) -> float:
    """Return the largest variance of the count of a range, with Gaussian noise on every number; 1
    is that of a cell that is measured directly at the same cost.
    """
    first, last = np.triu_indices(axis.size)
    codes = np.arange(axis.size)
    ranges = (first[:, None] <= codes) & (codes <= last[:, None])
    coefficients = axis.adjoint(ranges[:, :, None].astype(np.float64))
    squares = np.sum([(group**2).sum(axis=(1, 2)) for group in coefficients], axis=0)
    return float(squares.max()) * len(axis.lengths)


# --- dyadic ---------------------------------------------------------------------------------------
#
# Dyadic: differences of blocks at all scales, with the noise that typical questions need.

# How often a typical question is about 1, 2, 3, and 4 or more attributes.
_SUBSETS = (0.30, 0.45, 0.25, 0.02)
_WIDTHS, _STARTS = 8, 24  # of the ranges of an ordered attribute
_FEW_STARTS = 3  # of one with many values
_MANY_VALUES = 1 << 14
_WIDEST = 0.6  # of the values of an attribute, the widest range
_UNITS = 1 << 30  # of the budget
_STEPS = 8  # precisions are rounded to eighths of a power of 2, so that few laws are drawn
_LEAST = 1e-8  # of the largest weight: every number has noise that 64 bits hold


@dataclass(kw_only=True, eq=False, repr=False)
class Dyadic(AxisSummary):
    """Publishes noisy differences of blocks of cells at all scales, each with the noise that makes
    the answers to typical questions as precise as can be. Best for questions about one to three
    of up to about six attributes, by ranges and single values.

    An ordered attribute is halved again and again, one without order is compared value by value
    with the mean (`taxonomy` and hierarchies of the schema are as for Wavelet). The noise of every
    combination of scales is planned from the domains alone, for questions about one attribute (30
    of 102), two (45), three (25) and more (2), by ranges of all widths and single values.
    `neighbours`, `contribution` and `person` are as for Histogram.

    Promises: (ε, δ)-DP of the whole release. Proof: all numbers are integers with rounded normal
        noise, and rounding is done to what is published: it is the Gaussian mechanism. A row
        changes the numbers by a vector whose length, in units of their noise, is at most μ: its
        square is the sum of 1/σ² over the scales, and twice that where a row is replaced, as no two
        cells have a negative inner product. μ is the largest with Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)
        ≤ δ.
    Estimate: the inverse transform, siblings being centred first, which is least squares; unbiased,
        and the law of any answer is known, whatever the data are.
    Reference: wavelets: Xiao, Wang, Gehrke, ICDE 2010; noise for a workload: Li, Hay, Rastogi,
        Miklau, McGregor, PODS 2010; the exact (ε, δ): Balle, Wang, ICML 2018; Dong, Roth, Su,
        JRSS B 2022.
    Differs: the noise is planned by a closed form for a default workload in place of a semidefinite
        program for a given one. Rounded normal noise, whose (ε, δ) is exact, in place of discrete
        Gaussian noise, of which only the zCDP is known to add up: at ε = 1 and δ = 10⁻⁹ that is a
        tenth less variance.
    """

    name = "dyadic"
    gaussian_proof: ClassVar[str] = (
        "rounded normal noise: Balle, Wang, ICML 2018, theorem 8; Dong, Roth, Su, JRSS B 2022, "
        "corollary 3.3"
    )

    def __post_init__(self) -> None:
        if self.delta is None:
            raise ParameterError(
                f"Dyadic has normal noise and needs a {named('delta')}, such as 1e-9. Without one, "
                "use the method hierarchy or marginals."
            )
        if self.sum_ways is not None:
            raise ParameterError(
                f"Dyadic takes no {named('sum_ways')}: its sums serve questions about few columns "
                "as they are."
            )
        super().__post_init__()

    def _paid(self) -> PrivacyLoss:
        rho = accounting.normal_rho_for(self._epsilon, self._delta or Fraction(0))
        return PrivacyLoss(rho=rho, normal=True)

    def _least_noise(self) -> NoiseLaw:
        return self._choose_law(1, 1, Fraction(1), nonnegative_gram=True)

    def _choose_law(
        self, total: int, squares: int, share: Fraction, *, nonnegative_gram: bool
    ) -> NoiseLaw:
        moved = self.unit.squared_sensitivity(nonnegative_gram=nonnegative_gram) * squares
        return RoundedNormal(moved / (2 * self.cell_promise.rho * share))

    def plan_axis(self, schema: Schema, name: str) -> AxisPlan:
        """Return the axis of an attribute; shares of the budget are those of combinations."""
        if schema[name].ordered and name not in self.taxonomies:
            return AxisPlan(Haar(schema[name].size), ())
        tree = self.tree(schema, name) or Taxonomy.of(list(range(schema[name].size)))
        return AxisPlan(Nominal.balanced(tree, squares=True), ())

    def design(self, schema: Schema) -> Product:
        axes = tuple(self.plan_axis(schema, name).axis for name in self.names)
        norms = product_norms(axes)
        units = _plan_units(axes, known_rows=self.unit.keeps_rows)
        if self.unit.neighbours == "replace" and (self.unit.sided or not self.unit.amount):
            # The sum of all cells has the inner product 1 for every pair of cells.
            units[-1] += max(-int(least_product(axes, [Fraction(each) for each in units])), 0)
        whole = sum(each * squares for each, (_, squares) in zip(units, norms, strict=True))
        laws = {
            each: self._choose_law(1, 1, Fraction(each, whole), nonnegative_gram=True)
            for each in set(units)
        }
        names = tuple((name,) for name in self.names)
        return Product(names, axes, tuple(laws[each] for each in units))

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "delta": 1e-9}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, delta=SMALL_DELTA)
        yield Claim(cls(["a", "b"], **given), 1, SMALL_DELTA)


def _plan_units(axes: Sequence[Axis], *, known_rows: bool) -> list[int]:
    """Return the precision (1 / variance) of every combination of groups, as whole numbers.

    The variance of a question is the sum, over the combinations, of the squares of its coefficients
    times the variance of the noise; that is least for its mean over questions, at a given sum of
    precision times squared norm, where the precision is proportional to the root of mean squares
    over squared norm. Where the number of rows is published, that of all cells needs none.
    """
    squares = _mean_squares(axes)
    if known_rows:
        squares[(-1,) * len(axes)] = 0.0
    norms = np.array([float(norm) for _, norm in product_norms(axes)]).reshape(squares.shape)
    precisions = np.sqrt(np.maximum(squares, squares.max() * _LEAST) / norms)
    precisions = 2 ** (np.round(np.log2(precisions) * _STEPS) / _STEPS)
    units = precisions * (_UNITS / float((precisions * norms).sum()))
    return [max(round(each), 1) for each in units.ravel().tolist()]


def _mean_squares(axes: Sequence[Axis]) -> Floats:
    """Return the mean squares of the coefficients of typical questions, by combination of groups.

    A question about some attributes has all values of the others.
    """
    number = len(axes)
    sets = [comb(number, size) for size in range(number + 1)]
    most = len(_SUBSETS)
    sums: list[Floats] = [np.ones(()), *(np.zeros(()) for _ in _SUBSETS)]  # by attributes asked
    for axis in axes:
        every = _squares(axis, np.ones((1, axis.size)))
        asked = np.mean([_squares(axis, part) for part in _typical(axis)], axis=0)
        sums = [
            np.multiply.outer(sums[size], every if size < most else every + asked)
            + (np.multiply.outer(sums[size - 1], asked) if size else 0.0)
            for size in range(most + 1)
        ]
    found: Floats = np.zeros([len(axis.lengths) for axis in axes])
    for size, weight in enumerate(_SUBSETS, 1):
        several = sum(sets[size:] if size == most else sets[size : size + 1])
        if several:
            found = found + weight / several * sums[size]
    return found


def _squares(axis: Axis, weights: Floats) -> Floats:
    """Return the mean squares of the coefficients of some weights of cells, by group."""
    parts = axis.adjoint(weights.T[np.newaxis])
    return np.array([float((each**2).sum()) / len(weights) for each in parts])


def _typical(axis: Axis) -> Iterator[Floats]:
    """Yield typical questions about an attribute, some at a time, as weights of its cells."""
    size = axis.size
    if not isinstance(axis, Haar):
        codes = np.linspace(0, size - 1, min(size, _MANY_VALUES)).round().astype(int)
        for some in np.array_split(codes, -(-len(codes) * size // _TOGETHER)):
            yield (some[:, np.newaxis] == np.arange(size)).astype(np.float64)
        return
    starts = _STARTS if size <= _MANY_VALUES else _FEW_STARTS
    for width in np.geomspace(1, max(_WIDEST * size, 1), _WIDTHS).round().astype(int).tolist():
        first = np.linspace(0, size - width, starts).round().astype(int)[:, np.newaxis]
        yield ((first <= np.arange(size)) & (np.arange(size) < first + width)).astype(np.float64)


_TOGETHER = 1 << 22  # weights of cells at a time
