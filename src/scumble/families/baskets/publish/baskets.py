"""Baskets: the most frequent sets of items of a set-valued attribute, with noisy counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import comb, isqrt
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.families.baskets.design import (
    MOST_HUBS,
    MOST_NUMBERS,
    HubTables,
    Itemsets,
    count_touched,
    set_number,
    spread,
)
from scumble.families.baskets.publish.meter import Integers, PrivateBaskets, noise_of_sets
from scumble.model.designs.residuals import Residuals, plan_equal_noise
from scumble.model.errors import ParameterError, SchemaError, large, named
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws import NoiseLaw
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.lists import DerivedName, ListDomain
from scumble.model.schema.schema import Schema
from scumble.private.mechanism_metadata import (
    ITEMS,
    SMALL_DELTA,
    Claim,
    ComparisonPreset,
    protection,
)
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable, noisy_tables
from scumble.private.summaries.base import OFTEN, ProtectedSummary

FILE = "tables.parquet"
MOST_SETS = 10_000
_LEVEL_Z = 1.96  # standard errors that noise stays within, nineteen times in twenty
_MORE = Fraction(11, 10)  # as many sets are planned for, in proportion to those asked for


@dataclass(frozen=True)
class Shares:
    """Which parts of the promise pay for the number of items, their choice, the number of hubs,
    the number of clipped baskets, and the counts.
    """

    number: Fraction
    choice: Fraction
    hubs: Fraction = Fraction(0)
    beyond: Fraction = Fraction(0)

    @property
    def counts(self) -> Fraction:
        return 1 - self.number - self.choice - self.hubs - self.beyond


_NUMBER, _BEYOND = Fraction(1, 10), Fraction(1, 50)
_BASES = Shares(_NUMBER, Fraction(2, 5))
_CLIPPED = Shares(_NUMBER, Fraction(1, 5), Fraction(1, 20), _BEYOND)
_KEPT = {True: 5, False: 8}  # items of a basket that are counted; by whether ε is pure
_CANDIDATES = Fraction(3, 2)  # as many items have tables, in proportion to those that matter
_HUB_NOISE = 1 << 10  # the largest variance of numbers of tables over hubs, in terms of its check
_WHOLE = Fraction(1, 4)  # the table of all baskets weighs as much as this part of another


@dataclass(kw_only=True, eq=False, repr=False)
class Baskets(ProtectedSummary):
    """Publishes which items and sets of items are most frequent in baskets, with noisy counts of
    all small sets of these items: what is bought, visited or diagnosed together.

    `top` is the number of sets that matter. Few items are counted by tables over groups of up to
    12 of them (bases), which tell sets of any length. If more than 30 items matter, up to 6 very
    frequent ones (hubs) are in most frequent sets: then sets of hubs and at most one rarer item are
    counted, and a basket counts for at most `items` of its rarer items (8 with `delta`, else 5),
    chosen at random. If 6 hubs are too few, each basket is clipped to `items` items in all, and all
    sets of up to `longest` of them are counted. `neighbours`, `contribution` and `person` are as
    for Histogram; a row is a basket.

    Parameters:
        attribute: the attribute of the type set.
        top: number of most frequent sets that matter.
        delta: probability beyond epsilon that is allowed; the noise is then Gaussian.
        longest: items of the largest sets that are counted without hubs, if many items matter.
        items: items of a basket that are counted, if many items matter.

    Promises: ε-DP of the whole release, or (ε, δ)-DP with `delta`. Proof: every step is paid for.
        (1) The number of items λ, a tenth: permute-and-flip (the exponential mechanism with δ) with
        the score −|c_λ − c|, c_λ the count of the λ-th item and c that of the last of 1.1·top sets;
        both move in one direction by at most the contribution. (2) For λ ≤ 30 the items, and pairs
        of them for bases: the largest counts after one draw of geometric noise, or choices by the
        exponential mechanism with δ, ρ = ε²/8 each. Else the largest noisy counts of baskets that
        keep `items` items, which one basket moves by that number; and the number of hubs, as λ,
        with the score −max(p_h − c, c − p_(h−1), 0), p_h the largest count of a pair after the
        first h items. (3) Counts: w tables of bases are moved by w in all by one basket; tables
        over hubs by one for all baskets and for each kept item; a clipped basket is in at most M
        sets. How a basket is clipped depends on no other. The branches follow from noisy numbers.
    Estimate: of bases as for Marginals: least squares over all tables, unbiased, with exact
        variance. Of clipped baskets the noise has exact variance, and the interval reaches up by
        the noisy number of clipped baskets, which is published too, so that it holds for the
        baskets as they were. Counts of sets are those of the kept items. Counts with hubs are
        raised by the average share of items that were left out, also published.
    Reference: Li, Qardaji, Su, Cao, PrivBasis, VLDB 2012; one-shot noise: Qiao, Su, Zhang, ICML
        2021; bounded range: Cesar, Rogers, ALT 2021.
    Differs: geometric noise instead of the exponential mechanism for pure ε; permute-and-flip for
        λ; bases are joined by their exact variances; clipped baskets and tables over hubs where
        there are many items. No step is free: reference code of the paper spends about twice its ε.
    """

    name = "baskets"
    data_dependent = True
    of_lists = True
    proof: ClassVar[str] = (
        "one-shot noise: proof in private/sampling/top.py; permute-and-flip: McKenna, Sheldon, "
        "NeurIPS 2020; noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )
    gaussian_proof: ClassVar[str] = (
        "exponential mechanism: Cesar, Rogers, ALT 2021 (bounded range); discrete Gaussian noise: "
        "Canonne, Kamath, Steinke, NeurIPS 2020, theorem 14; from zCDP by proposition 12"
    )
    # More items than this are counted by clipped sets; the audit reaches them with fewer.
    clipped_from: ClassVar[int] = 30
    most_hubs: ClassVar[int] = MOST_HUBS

    attribute: str = field(kw_only=False)
    top: int
    delta: float | None = None
    longest: int = 3
    items: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or not self.attribute:
            allowed = "the name of an attribute of the type set"
            raise ParameterError.of("Baskets", "attribute", allowed, self.attribute)
        self.names = (self.attribute,)
        self.top = whole("Baskets", "top", self.top, least=1, most=MOST_SETS)
        self.longest = whole("Baskets", "longest", self.longest, least=1, most=LARGEST)
        if self.items is not None:
            self.items = whole("Baskets", "items", self.items, least=self.longest, most=64)
        super().__post_init__()
        # No step has more noise than this.
        most = max(
            set_number(self.kept_items, self.longest),
            self.planned_sets,
            _HUB_NOISE * self.kept_items,
        )
        check_scale(noise_of_sets(self.unit, most, self._part(_BEYOND)))

    def _given_delta(self) -> float | None:
        return self.delta

    def check(self, schema: Schema) -> None:
        super().check(schema)
        domain = schema[self.attribute].domain
        if not isinstance(domain, ListDomain) or domain.kind != "set":
            raise SchemaError(
                f"Baskets needs an attribute of the type set; '{self.attribute}' is "
                f'{schema[self.attribute].describe()}. Write type = "set" in the schema.'
            )
        most = min(self.planned_sets, domain.members.size)
        if most > self.clipped_from and set_number(most, self.longest) > MOST_NUMBERS:
            raise ParameterError(
                f"Baskets counts at most {large(MOST_NUMBERS)} sets; {self.longest} of up to "
                f"{most} items make more. Choose a smaller {named('top')} or {named('longest')}."
            )

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        [guarantee] = super().guarantee(schema, rows)
        if not schema[self.attribute].from_data:
            return (guarantee,)
        leak = (
            f"The items of {self.attribute} were read from the private data: that an item is named "
            "tells that somebody has it, which this promise does not cover."
        )
        return (replace(guarantee, limits=(leak, *guarantee.limits)),)

    def _more_limits(self) -> tuple[str, ...]:
        return ("The promise is for a whole basket, whatever is in it.",)

    @property
    def kept_items(self) -> int:
        """The number of items of a basket that are counted, if many items matter."""
        return self.items or max(_KEPT[self.promise.pure], self.longest)

    @property
    def planned_sets(self) -> int:
        """The number of sets that are planned for: 1.1 · top, rounded up."""
        return -int(-self.top * _MORE // 1)

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        baskets = PrivateBaskets(table, self.attribute, self.unit)
        number = baskets.number_of_items(self.planned_sets, self._part(_NUMBER))
        if number <= self.clipped_from:
            return self._by_bases(table, baskets, number, folder)
        candidates = -int(-number * _CANDIDATES // 1)
        items = baskets.choose_clipped_items(
            candidates, self.kept_items, self._part(_CLIPPED.choice)
        )
        share = self._part(_CLIPPED.hubs)
        hubs = baskets.number_of_hubs(items[:number], self.planned_sets, self.most_hubs, share)
        if hubs > self.most_hubs:
            return self._by_sets(table, baskets, np.sort(items[:number]), folder)
        return self._by_hubs(table, baskets, items, hubs, folder)

    def _by_bases(
        self, table: PrivateTable, baskets: PrivateBaskets, number: int, folder: Path
    ) -> Measurements:
        """Measure tables over groups of the items."""
        pairs = 0 if number <= LARGEST else self._count_pairs(number)
        share = _BASES.choice * number / (number + pairs)
        items = baskets.choose_items(number, self._part(share))
        chosen: list[tuple[int, int]] = []
        if pairs:
            rest = self._part(_BASES.choice - share)
            chosen = [(int(a), int(b)) for a, b in baskets.choose_pairs(items, pairs, rest)]
        names, sizes = self._name_columns(table.schema, items), (2,) * len(items)
        bases, paid = bases_of(len(items), chosen), self._part(_BASES.counts)
        loss, gaussian = (paid.epsilon, False) if paid.pure else (paid.rho, True)
        tables = plan_equal_noise(bases, sizes, self.unit, loss, gaussian=gaussian)
        design = Residuals(names, sizes, tuple(tables))
        numbers = noisy_tables(table, design, self.unit)
        _write(folder, design.count, numbers)
        return Measurements(FILE, names, design, table.public_rows(self.unit))

    def _count_pairs(self, number: int) -> int:
        """Return the number of pairs to choose: what single items leave of the planned sets,
        divided by √(pairs per item) if that is above 1.
        """
        left = max(self.planned_sets - number, 1)
        if left > number:  # left / √(left / number) = √(left · number)
            left = isqrt(left * number)
        return min(left, comb(number, 2))

    def _by_hubs(
        self, table: PrivateTable, baskets: PrivateBaskets, items: Integers, hubs: int, folder: Path
    ) -> Measurements:
        """Measure tables over the first items, of the baskets with each of the others."""
        hubs = min(hubs, len(items))
        beyond = noise_of_sets(self.unit, 1, self._part(_CLIPPED.beyond))
        names = self._name_columns(table.schema, items)
        design = HubTables(names, hubs, self.kept_items, *self._hub_laws(hubs), beyond)
        return self._write_numbers(table, folder, design, baskets.hub_tables(items, design))

    def _hub_laws(self, hubs: int) -> tuple[NoiseLaw, NoiseLaw]:
        """Return the noise of tables over hubs: of one for another item, and of all baskets."""
        touched = (self.kept_items + _WHOLE) * spread(hubs, self.promise.pure)
        noise = noise_of_sets(self.unit, touched, self._part(_CLIPPED.counts))
        if isinstance(noise, DiscreteLaplace):
            return noise, DiscreteLaplace(noise.scale / _WHOLE)
        return noise, DiscreteGaussian(noise.parameter / _WHOLE)

    def _by_sets(
        self, table: PrivateTable, baskets: PrivateBaskets, items: Integers, folder: Path
    ) -> Measurements:
        """Measure all small sets of the items in clipped baskets."""
        touched = 1 + count_touched(min(self.kept_items, len(items)), self.longest)
        design = Itemsets(
            self._name_columns(table.schema, items),
            self.longest,
            self.kept_items,
            noise_of_sets(self.unit, touched, self._part(_CLIPPED.counts)),
            noise_of_sets(self.unit, 1, self._part(_CLIPPED.beyond)),
        )
        return self._write_numbers(table, folder, design, baskets.counts(items, design))

    def _write_numbers(
        self,
        table: PrivateTable,
        folder: Path,
        design: HubTables | Itemsets,
        measured: tuple[Integers, int],
    ) -> Measurements:
        numbers, rows = measured
        _write(folder, design.count, numbers)
        known = rows if table.keeps_rows(self.unit) else None
        return Measurements(FILE, design.attributes, design, known)

    def _part(self, share: Fraction) -> PrivacyLoss:
        """Return this share of the promise."""
        promise = self.promise
        if promise.pure:
            return PrivacyLoss(share * promise.epsilon)
        return PrivacyLoss(rho=share * promise.rho)

    def _name_columns(self, schema: Schema, items: Integers) -> tuple[str, ...]:
        """Return the names of the columns that tell whether a basket has each of these items."""
        lists = schema[self.attribute].lists
        values = lists.members.decode(items, None).to_pylist()
        return tuple(str(DerivedName("contains", self.attribute, value)) for value in values)

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Return how far counts may be off, in both branches."""
        touched = set_number(self.kept_items, self.longest)
        many = noise_of_sets(self.unit, touched, self._part(_CLIPPED.counts))
        few = noise_of_sets(self.unit, 1, self._part(_BASES.counts))
        one, all_ = (_LEVEL_Z * few.variance**0.5 * 2 ** (items / 2) for items in (1, LARGEST - 1))
        sentence = (
            f"To expect: if one basis is enough, the count of an item will be within ±{one:,.3g} "
            f"(2 items in it) to ±{all_:,.3g} ({LARGEST} items) {OFTEN}; if more than "
            f"{self.clipped_from} items matter, the count of a set in clipped baskets within "
            f"±{_LEVEL_Z * many.variance**0.5:,.3g}{self._describe_hubs()}."
        )
        return (sentence,)

    def _describe_hubs(self) -> str:
        """Return how far counts over hubs may be off at most; empty if there are no hubs."""
        if self.most_hubs < 1:
            return ""
        hubs = range(1, self.most_hubs + 1)
        laws = [self._hub_laws(number) for number in hubs]
        # A count is the sum of all cells with an item, or by Walsh coefficients one noisy number.
        cells = [2**number if self.promise.pure else 1 for number in hubs]
        rarer = max(n * law.variance for n, (law, _) in zip(cells, laws, strict=True))
        hub = max(max(n // 2, 1) * law.variance for n, (_, law) in zip(cells, laws, strict=True))
        most = (f"±{_LEVEL_Z * variance**0.5:,.3g}" for variance in (hub, rarer))
        return (
            "; if {} items or fewer are in most frequent sets, the count of one of these within {} "
            "or less, of a rarer item within {} or less".format(self.most_hubs, *most)
        )

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return how the items were counted."""
        design = cast(Measurements, evidence).design
        facts: dict[str, Any] = {"items": len(cast(Measurements, evidence).columns)}
        if isinstance(design, HubTables):
            return {**facts, "hubs": design.hubs, "rarer items of a basket": design.most}
        if isinstance(design, Itemsets):
            return {**facts, "items of a basket": design.most, "numbers": design.numbers + 1}
        bases = [len(table.places) for table in cast(Residuals, design).tables]
        return {**facts, "bases": len(bases), "items of the largest basis": max(bases)}

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        sets = [attribute.name for attribute in study.schema.lists if attribute.lists.kind == "set"]
        if not sets:
            raise SchemaError("Baskets needs an attribute of the type set.")
        return {"attribute": sets[0], "top": 50, "neighbours": study.neighbours}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, top=2)
        yield Claim(cls("x", **given), 1, schema=ITEMS)
        yield Claim(_Hubs("x", **given), 1, schema=ITEMS)
        yield Claim(_Sets("x", **given), 1, schema=ITEMS)
        yield Claim(cls("x", delta=SMALL_DELTA, **given), 1, SMALL_DELTA, ITEMS)
        yield Claim(_Hubs("x", delta=SMALL_DELTA, **given), 1, SMALL_DELTA, ITEMS)


class _Hubs(Baskets):
    """Baskets that are counted as many items are, for the audit of a few: by tables over hubs."""

    clipped_from = 0


class _Sets(_Hubs):
    """Baskets that are always counted by clipped sets, for the audit of a few items."""

    most_hubs = -1


def _write(folder: Path, column: str, numbers: Integers) -> None:
    written = pa.table({column: np.asarray(numbers, np.int64)})
    pq.write_table(written, folder / FILE, store_schema=False)


# --- bases ----------------------------------------------------------------------------------------
#
# Bases: small groups of items that hold all chosen pairs, so that a table of each group tells the
# counts of many sets of items. They follow from the chosen items and pairs alone.

LARGEST = 12  # items of a basis: its table has 2^12 cells
_MOST_CLIQUES = 2_000  # beyond this number, pairs are the cliques

Basis = frozenset[int]
Floats = npt.NDArray[np.float64]


def bases_of(items: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return groups of the items 0 to `items - 1`, each of at most 12, such that every item is in
    one and both items of every pair are together in one.

    They start as the maximal cliques of the graph of pairs. Then two of them are joined as long as
    that lowers the total variance of the counts of single items, pairs and triangles of pairs. With
    w tables, each has noise of variance proportional to w², and the count of a set X is a sum of
    2^(l-|X|) cells of a table of l items; several tables with X are averaged.
    """
    if items <= LARGEST:
        return [tuple(range(items))]
    linked: list[set[int]] = [set() for _ in range(items)]
    for one, other in pairs:
        linked[one].add(other)
        linked[other].add(one)
    asked = [frozenset(members) for members in _list_asked_sets(items, linked)]
    groups = [part for clique in _find_cliques(linked) for part in _split_clique(clique)]
    return sorted(tuple(sorted(basis)) for basis in _merge_groups(groups, asked, items))


def _list_asked_sets(items: int, linked: list[set[int]]) -> Iterator[tuple[int, ...]]:
    """Yield the sets whose variance matters: items, pairs and triangles."""
    for one in range(items):
        yield (one,)
        for other in linked[one]:
            if other > one:
                yield one, other
                for third in linked[one] & linked[other]:
                    if third > other:
                        yield one, other, third


def _find_cliques(linked: list[set[int]]) -> list[Basis]:
    """Return the maximal cliques (Bron and Kerbosch with a pivot), or all pairs if these are too
    many; items without a pair are cliques of one.
    """
    cliques: list[Basis] = []

    def extend(clique: Basis, left: set[int], done: set[int]) -> None:
        if len(cliques) > _MOST_CLIQUES:
            return
        if not left and not done:
            cliques.append(clique)
            return
        pivot = max(left | done, key=lambda item: len(linked[item] & left))
        for item in sorted(left - linked[pivot]):
            extend(clique | {item}, left & linked[item], done & linked[item])
            left.remove(item)
            done.add(item)

    extend(frozenset(), set(range(len(linked))), set())
    if len(cliques) <= _MOST_CLIQUES:
        return cliques
    alone = [frozenset([item]) for item, others in enumerate(linked) if not others]
    pairs = [frozenset((a, b)) for a, others in enumerate(linked) for b in others if a < b]
    return alone + pairs


def _split_clique(clique: Basis) -> list[Basis]:
    """Return groups of at most 12 items in which every pair of the clique is together."""
    if len(clique) <= LARGEST:
        return [clique]
    items = sorted(clique)
    halves = [items[at : at + LARGEST // 2] for at in range(0, len(items), LARGEST // 2)]
    return [frozenset(one + other) for one, other in combinations(halves, 2)]


def _merge_groups(groups: list[Basis], asked: list[Basis], items: int) -> list[Basis]:
    """Join the two groups that lower the total variance most, until none does."""
    groups = [
        basis for basis in dict.fromkeys(groups) if not any(basis < other for other in groups)
    ]
    wanted = _mark_members(asked, items)
    sizes = 2.0 ** wanted.sum(axis=1)
    while len(groups) > 1:
        held = _mark_members(groups, items)
        shares = _compute_shares(held, wanted)
        whole = shares.sum(axis=0)
        one, other = np.triu_indices(len(groups), 1)
        union = np.maximum(held[one], held[other])
        small = union.sum(axis=1) <= LARGEST
        if not small.any():
            break
        one, other, union = one[small], other[small], union[small]
        rest = whole - shares[one] - shares[other] + _compute_shares(union, wanted)
        totals = _add_variances(rest, sizes, len(groups) - 1)
        best = int(totals.argmin())
        if totals[best] >= _add_variances(whole, sizes, len(groups)):
            break
        group = groups[one[best]] | groups[other[best]]
        groups = [*(basis for basis in groups if not basis <= group), group]
    return groups


def _mark_members(groups: Sequence[Basis], items: int) -> Floats:
    """Return whether each group (row) holds each item, as 0 or 1."""
    holds = np.zeros((len(groups), items))
    for row, group in enumerate(groups):
        holds[row, sorted(group)] = 1
    return holds


def _compute_shares(held: Floats, wanted: Floats) -> Floats:
    """Return 2^-l for each group (row) of l items and each wanted set that it holds, else 0."""
    holds = (1 - held) @ wanted.T == 0
    shares: Floats = holds * 0.5 ** held.sum(axis=1, keepdims=True)
    return shares


def _add_variances(shares: Floats, sizes: Floats, tables: int) -> Floats:
    """Return the total variance: w² / Σ 2^(|X|-l) over the tables that hold X, for each X."""
    variance: Floats = tables**2 * (1 / (shares * sizes)).sum(axis=-1)
    return variance
