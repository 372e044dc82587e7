"""Perturbation partitioning: uniform perturbation in sub-tables that have few sensitive
values each.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.families.partition.design import NOTHING
from scumble.model import parameters
from scumble.model.errors import ChangedError, PromiseError, SchemaError, large
from scumble.model.evidence.channels import PartitionChannel
from scumble.model.evidence.evidence import Evidence, Records
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    float_at_least,
    float_at_most,
    gamma_for_rho,
    percent_at_least,
    percent_at_most,
    read_share,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys, smallest_unsigned
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import CHANGED, Made, Output
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import RISES, Layout, Publisher
from scumble.private.mechanism_metadata import Claim, ComparisonPreset, posterior_of
from scumble.private.perturbation.guarantees import tenth_error
from scumble.private.sampling.randomized_response import keep_or_replace
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import Urns
from scumble.private.tables.writer import RECORDS

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.counter import Occupied
    from scumble.private.tables.rows import Rows


# Answers read every value of every sub-table.
MOST_CELLS = 10**5

MOST_RISE = 50  # of a rare value's share in a sub-table: beyond, the owner is warned


class Partition(Publisher):
    """Publishes every row; rows are dealt to sub-tables that have few sensitive values each, and a
    sensitive value is kept with probability p_i or else replaced by a uniform draw from the values
    of its sub-table. Small domains allow a larger p_i than the whole one. All other columns are
    published as they are, with the number of the sub-table.

    `rho1` and `rho2`: a value that at most a share `rho1` of the rows have shall be believed of a
    person with at most `rho2` afterwards. Several sensitive attributes count as one value of their
    product, of at most 10^5 values. `confidence` is that of the error bound in the report. Where no
    value is as rare as `rho1` the promise binds nothing: the table is then one sub-table with the
    whole domain and the γ of (ρ1, ρ2), or with `plain=True` it is published as it is.

    The split is made from the frequencies f of the values alone. Balance: of the values with
    f ≤ ρ1, rounds take the same number of rows of each of the θ most frequent, θ = ⌊n/f_max⌋; the
    other rows are added in proportion. Rearrange: the groups so made are put in reverse
    Cuthill–McKee order, from every start. Merge: neighbours are joined such that the error bound
    ε = Σ (n_i/n)·a/(√n_i·p_i) is the lowest, a = 2·√ln(2/δ). One sub-table, which is uniform
    perturbation, is among the choices and is taken where it is best.

    Parameters:
        rho1: a prior of at most this ...
        rho2: ... ends at most here; goes with `rho1`.
        confidence: of the error bound it reports.
        plain: publish as it is what the promise does not bind.

    Promises: restricted (ρ1, ρ2)-privacy, for an attacker who knows of a person how frequent each
        value is in the table, and sees the person's row by itself: a value x with f(x) ≤ ρ1 is
        then believed with at most ρ2. Not DP. Proof: which rows of a value go to a sub-table is a
        uniformly random choice, so that the belief in x, given the sub-table, is its share s ≤ ρ1i
        there, ρ1i being the largest share of any such value; the channel keeps all odds within
        γ_i = ρ2(1−ρ1i)/(ρ1i(1−ρ2)), and s·γ_i/(1+(γ_i−1)s) ≤ ρ2. ρ1i < ρ2 holds for every
        sub-table that is made, and p_i = (γ_i−1)/(m_i−1+γ_i) is a fraction that the sampler meets.
    Estimate: the sum over sub-tables of the estimate of uniform perturbation there,
        (o − n_i(1−p_i)|A ∩ D_i|/m_i)/p_i with o rows that show a value in A, for the m_i values
        D_i of sub-table i. Counts and sums are unbiased, whatever the split. The share of a value
        in the whole table is off by less than the bound in the report with the given confidence
        (Hoeffding).
    Reference: Chaytor, Wang: "Small Domain Randomization: Same Privacy, More Utility", VLDB 2010
        (Corollary 1, equations 9 to 14, appendix 10.7).
    Differs: the paper promises (ρ1, ρ2)-privacy whenever a prior is at most ρ1; that holds for the
        prior which it uses, the frequencies in the table, and for any belief of at most ρ1i held
        once the sub-table is known, but not for every prior of at most ρ1. It calls the sub-tables
        robust against an attacker who knows other people's values; they are not, since the
        frequencies decide the split, which is public: an attacker who knows all other values can
        often work out the last one. Its bound is proved for each sub-table; here for their sum.
        Every start of the reverse Cuthill–McKee order is tried, at most 200 groups are made, and
        rows are published in sorted order.
    """

    name = "partition"
    not_audited = "promises (ρ1, ρ2) within sub-tables: recomputed by `scumble audit RELEASE`"

    def __init__(
        self,
        *,
        rho1: float,
        rho2: float,
        confidence: float = 0.95,
        plain: bool = False,
    ) -> None:
        self._given = {"rho1": rho1, "rho2": rho2, "confidence": confidence}
        numbers = parameters.numbers("Partition", {"rho1": rho1, "rho2": rho2})
        self._rho1, self._rho2 = numbers["rho1"], numbers["rho2"]
        self._confidence = read_share("Partition", "confidence", confidence)
        self._plain = parameters.flag("Partition", "plain", plain)
        parameters.require_privacy("Partition", self._gamma, "a smaller rho2, or a larger rho1")

    @property
    def parameters(self) -> dict[str, Any]:
        return {**parameters.plain(self._given), "plain": self._plain}

    @property
    def _gamma(self) -> Fraction:
        """The γ of one table in which a value has a share of ρ1."""
        return gamma_for_rho(self._rho1, self._rho2)

    def check(self, schema: Schema) -> None:
        parameters.require_sensitive("Partition", schema)
        cells = schema.size(_list_sensitive(schema))
        if cells > MOST_CELLS:
            raise SchemaError(
                f"The sensitive attributes have {large(cells)} values together, and Partition "
                f"counts each of at most {large(MOST_CELLS)}. Use coarser domains or fewer such "
                "attributes."
            )

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        return (promise_restricted(_list_sensitive(schema), self._rho1, self._rho2),)

    def achieved(self, schema: Schema, evidence: Evidence) -> tuple[Guarantee, ...]:
        names = ", ".join(_list_sensitive(schema))
        channel = _find_channel(evidence)
        if 1 in channel.keeps:
            return (nothing(names, self._rho1, self._rho2),)
        gammas = _compute_gammas(channel)
        return (
            promise_restricted(_list_sensitive(schema), self._rho1, self._rho2, gammas),
            amplification(names, max(gammas)),
        )

    def expected_error(self, schema: Schema, rows: int) -> float:
        """That of one sub-table, which is among the choices."""
        cells = schema.size(_list_sensitive(schema))
        return tenth_error(cells, float(keep_for(self._gamma, cells)), rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        channel = _find_channel(evidence)
        rows, keeps = channel.rows, [float(keep) for keep in channel.keeps]
        if not sum(rows):
            return {}
        alone = 1.0 if 1 in channel.keeps else self._keep_alone(channel.domains)
        delta = float(1 - self._confidence)
        return {
            "sub-tables": len(rows),
            "fell back to uniform": len(rows) == 1,
            "rows": list(rows),
            "values": [len(domain) for domain in channel.domains],
            "gamma": []
            if 1 in channel.keeps
            else [float(gamma) for gamma in _compute_gammas(channel)],
            "retention": keeps,
            "average retention": float(np.average(keeps, weights=rows)),
            "retention as one table with rho1": alone,
            "error bound": error_bound(rows, keeps, delta),
            "error bound as one table with rho1": error_bound([sum(rows)], [alone], delta),
            "confidence of the bounds": float(self._confidence),
        }

    def layout(self, schema: Schema) -> Layout:
        return {"records.parquet": (*schema.published, _name_part_column(schema))}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Records:
        # The writer and the samplers are slow to import, and parameters are checked without them.
        schema, attributes = rows.schema, rows.schema.published
        names = [attribute.name for attribute in attributes]
        sensitive = _list_sensitive(schema)
        radix = schema.cell_keys(sensitive)
        engine = open_engine(rows, noise)
        # A row may be dropped for any of its columns; then all have to be read.
        others = [name for name in names if name not in sensitive]
        units = engine.units(sensitive, others if rows.outside == "drop" else ())
        parts = self._split_table(_count_rows(units), radix.size, rows)
        numbered = Attribute(
            _name_part_column(schema), "insensitive", IntegerRange(0, len(parts) - 1)
        )
        deal = Assignment(parts, radix.size)
        shares = deal.shares(
            noise.of_unit("driver", "urns"),
            {unit: (cells.keys, cells.counts) for unit, cells in units.items()},
        )
        kernel = DealKernel(deal, radix, tuple(names.index(name) for name in sensitive))
        output = Output(folder / RECORDS, (*attributes, numbered))
        engine.map(names, kernel, [output], shares.get)
        channel = PartitionChannel(
            sensitive,
            numbered.name,
            tuple(part.domain for part in parts),
            tuple(part.keep for part in parts),
            tuple(part.rows for part in parts),
        )
        return Records(RECORDS, (*names, numbered.name), (channel,), engine.sort(output))

    def _split_table(self, counts: Mapping[int, int], cells: int, rows: Rows) -> list[SubTable]:
        """Return the split, or one part for all rows if the promise binds no value."""
        parts = split(counts, self._rho1, self._rho2) if counts else None
        if parts is not None:
            rows.remark(self._describe_gain(parts))
            if _rises(counts, parts, self._rho1):
                rows.remark(
                    f"{RISES} at least {MOST_RISE} times as frequent in one sub-table as in the "
                    "whole table. The sub-table of a row is published, and by itself makes such a "
                    "value that much more likely. If this is too much, use Uniform, which makes no "
                    "sub-tables."
                )
            return parts
        if counts:
            done = "was published as it is" if self._plain else "went through one channel"
            rows.remark(
                "No sensitive value is as rare as rho1, so that the promise binds nothing; the "
                f"table {done}."
            )
        keep = Fraction(1) if self._plain and counts else keep_for(self._gamma, cells)
        return [SubTable(counts, tuple(range(cells)), keep)]

    def _keep_alone(self, domains: Sequence[Sequence[int]]) -> float:
        """Return the retention of one table with all these values in which one has a share of ρ1.
        The true largest frequency would reveal more than is published.
        """
        return float(keep_for(self._gamma, len(set().union(*domains))))

    def _describe_gain(self, parts: Sequence[SubTable]) -> str:
        """Return a remark for the owner about what the split gains."""
        if len(parts) == 1:
            return "Sub-tables would not lower the error bound: this is uniform perturbation."
        mean = sum(part.rows * part.keep for part in parts) / sum(part.rows for part in parts)
        alone = self._keep_alone([part.domain for part in parts])
        return (
            f"The {len(parts)} sub-tables keep a sensitive value with probability "
            f"{float(mean):.2g} on average; one table with rho1 would keep it with {alone:.2g}."
        )

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {"rho1": study.most_frequent()}

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        return {"rho2": posterior_of(study.most_frequent(), epsilon)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield from ()


def _rises(counts: Mapping[int, int], parts: Sequence[SubTable], rho1: Fraction) -> bool:
    """Return whether some value as rare as ρ1 is `MOST_RISE` times as frequent in a sub-table as in
    the whole table.
    """
    whole = sum(counts.values())
    return any(
        count * whole >= MOST_RISE * counts[value] * part.rows
        for part in parts
        for value, count in part.counts.items()
        if counts[value] <= rho1 * whole
    )


def _list_sensitive(schema: Schema) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in schema.sensitive)


def _name_part_column(schema: Schema) -> str:
    """Return the name of the column with the number of the sub-table."""
    return parameters.free_name("part", schema.names)


def _find_channel(evidence: Evidence) -> PartitionChannel:
    """Return the channel of the evidence."""
    if isinstance(evidence, Records) and isinstance(evidence.channels[0], PartitionChannel):
        return evidence.channels[0]
    raise TypeError("the evidence is not that of a partition")


def _compute_gammas(channel: PartitionChannel) -> list[Fraction]:
    pairs = zip(channel.keeps, channel.domains, strict=True)
    return [gamma_of(keep, len(domain)) for keep, domain in pairs]


def _count_rows(units: Mapping[int, Occupied]) -> dict[int, int]:
    """Return the number of rows of each sensitive value among those that will be published."""
    counts: Counter[int] = Counter()
    for cells in units.values():
        counts.update(dict(zip(cells.keys.tolist(), cells.counts.tolist(), strict=True)))
    return dict(sorted(counts.items()))


# The guarantees of a partition, and their limits.

DEPENDS = (
    "The sub-tables, their sizes, values and retention are public and depend on the data: this is "
    "not differential privacy, and an attacker who knows all other people's values can often work "
    "out a person's own."
)
SETS = (
    "It is a promise about single values: the sub-table of a row is published, and with it that "
    "the row has none of the values that the sub-table lacks."
)
MORE = (
    "An attacker who knows more about a person than the frequencies in the table may end higher, "
    "be it from other columns, from several rows put together, from other rows of the person, or "
    "from another release."
)
COMBINED = (
    "The promise is for the combination of {}: a single one of them may be believed more, or even "
    "be the same in all rows of a sub-table, and is then told."
)
SEEN = "Everybody can see who is in the table: other columns are published as they are."


def promise_restricted(
    names: Sequence[str], rho1: Fraction, rho2: Fraction, gammas: Sequence[Fraction] = ()
) -> Guarantee:
    """Return restricted (ρ1, ρ2)-privacy: the posterior after a prior that is the frequency in the
    table. With `gammas`, those of the sub-tables, the proof has their numbers.
    """
    several = len(names) > 1
    what = f"combination of {', '.join(names)}" if several else f"value of {names[0]}"
    combined = (COMBINED.format(", ".join(names)),) if several else ()
    frequent = f"What more than {percent_at_least(rho1)} of the rows have is not covered."
    return Guarantee(
        statement="restricted (ρ1, ρ2)-privacy",
        parameters={"rho1": float_at_most(rho1), "rho2": float_at_least(rho2)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="Chaytor, Wang, VLDB 2010, Corollary 1, for the frequencies in the table as prior"
        + (_describe_numbers(rho2, gammas) if gammas else ""),
        sentence=(
            f"An attacker who knows of a person only how frequent each {what} is in the table, and "
            f"sees the person's row by itself, ends at most at {percent_at_most(rho2)} for one "
            f"that at most {percent_at_least(rho1)} of the rows have."
        ),
        limits=(*combined, DEPENDS, SETS, MORE, frequent, SEEN),
    )


def _describe_numbers(rho2: Fraction, gammas: Sequence[Fraction]) -> str:
    """Return the numbers of the proof for the sub-tables."""
    share = rho2 / (rho2 + min(gammas) * (1 - rho2))
    tables = "one sub-table" if len(gammas) == 1 else f"{len(gammas)} sub-tables"
    return (
        f"; computed exactly for {tables}: such a value has at most {percent_at_most(share)} of "
        f"the rows of its sub-table, γ is at most {at_most(max(gammas))}"
    )


def amplification(names: str, gamma: Fraction) -> Guarantee:
    """Return the guarantee on the published value if an attacker knows the sub-table."""
    return Guarantee(
        statement="γ-amplification within a sub-table",
        parameters={"gamma": float_at_least(gamma)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="ratio of the probabilities of one output under two values; computed exactly from "
        "the published retention of each sub-table",
        sentence=(
            "Whatever an attacker knows, and once the sub-table of a row is known, the published "
            f"value of {names} changes the odds between any two values of that sub-table by a "
            f"factor of at most {at_most(gamma)}."
        ),
        limits=(DEPENDS, "What the sub-table itself tells about a row is not bounded.", SEEN),
    )


def nothing(names: str, rho1: Fraction, rho2: Fraction) -> Guarantee:
    """Return the guarantee if no value is as rare as ρ1 and nothing was perturbed."""
    return Guarantee(
        statement="restricted (ρ1, ρ2)-privacy",
        parameters={"rho1": float_at_most(rho1), "rho2": float_at_least(rho2)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="no value is covered",
        sentence=(
            f"{NOTHING}: more than {percent_at_least(rho1)} of the rows have each value "
            f"of {names} that occurs, which the promise does not cover, and the owner chose to "
            "publish such a table as it is."
        ),
        limits=(SEEN,),
    )


# --- groups ---------------------------------------------------------------------------------------
#
# The split of a table into sub-tables with few sensitive values each: balance, rearrange, merge,
# and deal the rows to the sub-tables.

# Most array elements to read in the search for an order: one or two seconds.
_WORK = 5 * 10**6


@dataclass(frozen=True)
class SubTable:
    """A sub-table: the number of rows of each value, and the probability to keep a value.

    `domain` are the values that its rows may show. A value that does not occur has no entry in
    `counts`.
    """

    counts: Mapping[int, int]
    domain: tuple[int, ...]
    keep: Fraction

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def split(counts: Mapping[int, int], rho1: Fraction, rho2: Fraction) -> list[SubTable] | None:
    """Return the parts of a table with these counts, or None if no value has at most ρ1 of the
    rows.

    One part for the whole table is among the candidates. It keeps the promise, since ρ1 < ρ2.
    """
    rows = sum(counts.values())
    rare = {value: count for value, count in counts.items() if count <= rho1 * rows}
    if not rare:
        return None
    frequent = {value: count for value, count in counts.items() if value not in rare}
    groups = balance_groups(rare, frequent)
    merging = Merging(groups, rare, float(rho2))
    order = best_order(groups, merging.cost, max(1, _WORK // merging.work))
    return [
        bound_part(_join_groups([groups[index] for index in part]), rare, rho2)
        for part in merging.parts(order)
    ]


def bound_part(counts: Mapping[int, int], rare: Collection[int], rho2: Fraction) -> SubTable:
    """Return a part whose channel lets the posterior of its most frequent rare value rise from its
    share of the part to ρ2.
    """
    domain = tuple(sorted(counts))
    share = Fraction(
        max(count for value, count in counts.items() if value in rare), sum(counts.values())
    )
    if share >= rho2:
        raise PromiseError("No split of the table keeps the promise; allow a larger rho2.")
    return SubTable(counts, domain, keep_for(gamma_for_rho(share, rho2), len(domain)))


def keep_for(gamma: Fraction, values: int) -> Fraction:
    """Return p = (γ − 1)/(m − 1 + γ), the retention with amplification γ over m values."""
    return (gamma - 1) / (values - 1 + gamma)


def gamma_of(keep: Fraction, values: int) -> Fraction:
    """Return γ = 1 + p·m/(1−p), the inverse of `keep_for`."""
    return 1 + keep * values / (1 - keep)


def _join_groups(groups: Sequence[Mapping[int, int]]) -> Counts:
    joined: Counts = {}
    for group in groups:
        for value, count in group.items():
            joined[value] = joined.get(value, 0) + count
    return joined


# Balancing: rows are cut into groups of few values each, in which no rare value is much more
# frequent than in the whole table.

# The number of rows of each value.
Counts = dict[int, int]

# Real tables need about 20 groups. The cost of trying orders and merges is quadratic in the groups.
MOST_GROUPS = 200


def balance_groups(rare: Mapping[int, int], frequent: Mapping[int, int]) -> list[Counts]:
    """Return groups as numbers of rows by value: rare values balanced, frequent ones spread."""
    groups = _balance(rare)
    _spread(frequent, groups)
    return groups


def balance_level(counts: Mapping[int, int]) -> int:
    """Return θ, the largest whole number such that no value has more than 1/θ of the rows."""
    return sum(counts.values()) // max(counts.values())


def _balance(rare: Mapping[int, int]) -> list[Counts]:
    """Return groups, each with the same number of rows of each of the θ most frequent values.

    That number is the largest that leaves the remaining rows θ-balanced. So every group is
    θ-balanced, and θ values are left as long as any row is. Of equally frequent values the smaller
    one comes first.
    """
    theta = balance_level(rare)
    rest = sum(rare.values())
    values = np.array(sorted(rare))
    top, base = max(rare.values()), len(values)
    # One sort key for each value, in this order; it grows as rows are taken.
    counts = np.array([rare[value] for value in values.tolist()])
    keys = np.sort((top - counts) * base + np.arange(base))
    groups: list[Counts] = []
    while len(keys):
        most, others = keys[:theta], keys[theta:]
        left = top - keys // base
        following = int(left[theta]) if len(others) else 0
        height = _find_height(rest, theta, int(left[0]), int(left[theta - 1]), following)
        if height == 0 or len(groups) == MOST_GROUPS - 1:
            groups.append(dict(zip(values[keys % base].tolist(), left.tolist(), strict=True)))
            break
        groups.append(dict.fromkeys(values[most % base].tolist(), height))
        rest -= theta * height
        again = most[left[:theta] > height] + height * base
        keys = np.sort(np.concatenate([again, others]), kind="stable")  # two runs: quickly merged
    return groups


def _find_height(rest: int, theta: int, first: int, last: int, following: int) -> int:
    """Return how many rows of each of the θ most frequent values can be taken at most so that the
    remaining rows are θ-balanced.

    The condition is σ(μθ) ≥ μθ, both sides times θ. If it fails, the next value is the limit.
    """
    if rest - theta * max(first - last, following) >= theta * last:
        return last
    return rest // theta - following


def _spread(frequent: Mapping[int, int], groups: list[Counts]) -> None:
    """Add the rows of frequent values to the groups in proportion to their sizes; the last group
    gets the remainder.

    Groups are filled one after the other, the most frequent value first, so that a group gets few
    values.
    """
    sizes = [sum(group.values()) for group in groups]
    balanced_rows, spread_rows = sum(sizes), sum(frequent.values())
    free = [size * spread_rows // balanced_rows for size in sizes]
    index = 0
    for value, count in sorted(frequent.items(), key=lambda item: (-item[1], item[0])):
        while count:
            while free[index] == 0 and index < len(groups) - 1:
                index += 1
            taken = count if index == len(groups) - 1 else min(count, free[index])
            groups[index][value] = groups[index].get(value, 0) + taken
            free[index] -= taken
            count -= taken


# Rearranging: orders of the groups in which neighbours have values in common.

Order = tuple[int, ...]


def best_order(
    groups: Sequence[Mapping[int, int]], cost: Callable[[Order], float], most: int
) -> Order:
    """Return the order of lowest cost among the reverse Cuthill–McKee orders from every start, or
    from the `most` least connected starts.

    Groups that share no value, directly or through others, are in different components. The
    component with the least connected group comes first. The start in each component is chosen in
    turn, with the starts of the others fixed.
    """
    near = _find_neighbours(groups)
    walks = [_walk(near, start) for start in _choose_starts(near)]
    best = _reverse(walks)
    lowest = cost(best)
    for index, walk in enumerate(walks):
        for start in sorted(walk, key=lambda start: (len(near[start]), start))[:most]:
            tried = [*walks[:index], _walk(near, start), *walks[index + 1 :]]
            new_cost = cost(_reverse(tried))
            if new_cost < lowest:
                walks, best, lowest = tried, _reverse(tried), new_cost
    return best


def _find_neighbours(groups: Sequence[Mapping[int, int]]) -> list[set[int]]:
    """Return for each group those that share a value with it: where A·Aᵀ is not zero."""
    holders = defaultdict(list)
    for index, group in enumerate(groups):
        for value in group:
            holders[value].append(index)
    near: list[set[int]] = [set() for _ in groups]
    for indices in holders.values():
        if len(indices) > 1:
            for index in indices:
                near[index].update(indices)
    return [others - {index} for index, others in enumerate(near)]


def _choose_starts(near: Sequence[set[int]]) -> list[int]:
    """Return one start in each component: a group with the fewest neighbours."""
    starts, seen = [], set[int]()
    for group in sorted(range(len(near)), key=lambda group: len(near[group])):
        if group not in seen:
            starts.append(group)
            seen.update(_walk(near, group))
    return starts


def _walk(near: Sequence[set[int]], start: int) -> list[int]:
    """Return the Cuthill–McKee order: breadth first, groups with fewer neighbours first."""
    walk, seen = [start], {start}
    for group in walk:  # the list grows during the loop
        following = sorted(near[group] - seen, key=lambda other: (len(near[other]), other))
        walk += following
        seen.update(following)
    return walk


def _reverse(walks: Sequence[Sequence[int]]) -> Order:
    return tuple(group for walk in walks for group in walk)[::-1]


# Merging: neighbouring groups are joined to the parts with the lowest error bound together.

Table = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def error_bound(sizes: Sequence[int], keeps: Sequence[float], delta: float) -> float:
    """Return ε(Part) = Σ |Tᵢ|/|T| · a/(√|Tᵢ|·pᵢ), a = 2·√ln(2/δ).

    The error of the estimated share of a value is below it with probability at least 1−δ. Proof:
    the estimate is a sum of independent weights, those of a part in an interval of length 1/pᵢ; by
    Hoeffding the probability of an error of ε is at most 2·exp(−2·|T|²ε²/Σ|Tᵢ|/pᵢ²), and |T|²ε² =
    a²·(Σ√|Tᵢ|/pᵢ)² ≥ a²·Σ|Tᵢ|/pᵢ².
    """
    factor = 2 * math.sqrt(math.log(2 / delta)) / sum(sizes)
    return factor * sum(math.sqrt(n) / p for n, p in zip(sizes, keeps, strict=True))


class Merging:
    """Finds the best merge of neighbours, for any order of the groups.

    The cost is the sum of √|Tᵢ|/pᵢ over the parts: the error bound up to a factor that all merges
    share. Floating point only decides the choice; the promise of the chosen parts is computed
    exactly elsewhere. `work` is roughly the number of array elements read for one order.
    """

    def __init__(
        self, groups: Sequence[Mapping[int, int]], rare: Collection[int], rho2: float
    ) -> None:
        self._rho2 = rho2
        self._sizes = np.array([sum(group.values()) for group in groups])
        times = Counter(value for group in groups for value in group)
        # Values in one group only do not depend on the order: their number and their largest count.
        own = [{v: n for v, n in group.items() if times[v] == 1} for group in groups]
        self._own = np.array([len(counts) for counts in own])
        self._own_largest = np.array(
            [max((n for v, n in counts.items() if v in rare), default=0) for counts in own]
        )
        shared = [
            (value, index, count, value in rare)
            for index, group in enumerate(groups)
            for value, count in group.items()
            if times[value] > 1
        ]
        self._shared = np.array(shared, np.int64).reshape(-1, 4)
        self.work = len(groups) ** 2 + sum(number**2 for number in times.values() if number > 1)

    def cost(self, order: Sequence[int]) -> float:
        """Return the cost of the best merge in this order."""
        return self._find_best(order)[0]

    def parts(self, order: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the groups of each part of the best merge in this order."""
        _, begins = self._find_best(order)
        parts: list[tuple[int, ...]] = []
        end = len(order)
        while end:
            parts.append(tuple(order[begins[end - 1] : end]))
            end = begins[end - 1]
        return parts[::-1]

    def _find_best(self, order: Sequence[int]) -> tuple[float, list[int]]:
        """Return the lowest cost, and for every end where the last part begins (dynamic
        programming).
        """
        costs = self._compute_costs(order)
        best, begins = [0.0], []
        for end in range(len(order)):
            options = np.array(best) + costs[: end + 1, end]
            begins.append(int(np.argmin(options)))
            best.append(float(options[begins[-1]]))
        return best[-1], begins

    def _compute_costs(self, order: Sequence[int]) -> Table:
        """Return √n/p for every run of neighbours, from the group of the matrix row to that of the
        column, with 1/p = m/(γ−1) + 1; infinite where γ would not be above 1.
        """
        sizes = np.cumsum([0, *self._sizes[list(order)]])
        rows = np.maximum(sizes[None, 1:] - sizes[:-1, None], 1)
        values, largest = self._measure_runs(order)
        share = largest / rows
        margin = np.maximum(self._rho2 - share, 0)
        with np.errstate(divide="ignore"):
            costs: Table = np.sqrt(rows) * (values * share * (1 - self._rho2) / margin + 1)
        return costs

    def _measure_runs(self, order: Sequence[int]) -> tuple[Whole, Whole]:
        """Return the number of values in each run of neighbours, and the number of rows of the most
        frequent rare value in it.
        """
        size, groups = len(order), list(order)
        where = np.argsort(groups)
        values, places, counts, rare = self._shared.T
        places = where[places]
        sorting = np.lexsort((places, values))
        values, places = values[sorting], places[sorting]
        counts, rare = counts[sorting], rare[sorting].astype(bool)
        distinct = _count_distinct(size, self._own[groups], values, places)
        largest = np.diag(self._own_largest[groups])
        _raise_largest(largest, values[rare], places[rare], counts[rare])
        # A longer run contains what its shorter runs contain.
        longer = np.maximum.accumulate(largest[::-1], axis=0)[::-1]
        return distinct, np.maximum.accumulate(longer, axis=1)


def _count_distinct(size: int, own: Whole, values: Whole, places: Whole) -> Whole:
    """Return the number of values in each run, given the sorted positions of each shared value.

    An occurrence of a value at position p, with the previous one at q, is the first in all runs
    that begin in (q, p] and end at p or later. The corners of these ranges are marked and summed
    up.
    """
    corners = np.zeros((size + 1, size + 1), np.int64)
    everywhere = np.arange(size)
    corners[0, :size] += own
    corners[everywhere + 1, everywhere] -= own
    again = values[1:] == values[:-1]
    begins = np.zeros_like(places)
    begins[1:][again] = places[:-1][again] + 1
    np.add.at(corners, (begins, places), 1)
    np.add.at(corners, (places + 1, places), -1)
    return corners.cumsum(axis=0).cumsum(axis=1)[:size, :size]


def _raise_largest(largest: Whole, values: Whole, places: Whole, counts: Whole) -> None:
    """Raise `largest` to the number of rows of each value in the runs between any two of its
    positions, by their distance.
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    begins = np.arange(len(values))
    for distance in range(len(largest)):
        begins = begins[begins + distance < len(values)]
        begins = begins[values[begins] == values[begins + distance]]
        if not len(begins):
            break
        ends = begins + distance
        sums = before[ends + 1] - before[begins]
        np.maximum.at(largest, (places[begins], places[ends]), sums)


# Dealing: rows are assigned to the parts at random, and sent through the channel of their part.

Cells = npt.NDArray[np.uint64]


class Assignment:
    """Assigns the rows of a table to the parts.

    Each value has an urn with one ball for each row of that value in each part. Every row draws a
    ball from the urn of its value, so the rows of a value in a part are a uniformly random choice.
    Units of work deal alone: first, `shares` draws the balls that each unit gets for its rows.
    """

    def __init__(self, parts: Sequence[SubTable], cells: int) -> None:
        self._parts = list(parts)
        holders: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            for value in part.counts:
                holders.setdefault(value, []).append(number)
        self._urn = np.full(cells, -1, np.int64)
        self._urn[list(holders)] = np.arange(len(holders))
        self._balls = [
            [parts[number].counts[value] for number in held] for value, held in holders.items()
        ]
        # For each compartment of an urn: a part, and the position of the value in its domain.
        pairs = [(number, value) for value, held in holders.items() for number in held]
        positions = [
            {value: position for position, value in enumerate(part.domain)} for part in parts
        ]
        self._part = np.array([number for number, _ in pairs], smallest_unsigned(len(parts)))
        largest = max(len(part.domain) for part in parts)
        self._position = np.array(
            [positions[n][value] for n, value in pairs], smallest_unsigned(largest)
        )

    def shares(
        self, source: Keystream, units: Mapping[int, tuple[Cells, Whole]]
    ) -> dict[int, Whole]:
        """Return for every unit the balls of its urns by compartment. `units` has the cells of each
        unit and their numbers of rows, which must add up to the rows of the parts.

        The balls of the first unit are drawn from the urns without replacement, then those of the
        next one. The last unit gets what is left.
        """
        urns, shares = Urns(self._balls), {}
        for number, (unit, (cells, counts)) in enumerate(units.items(), start=1):
            wanted = np.zeros(len(self._balls), np.int64)
            wanted[self._urn[cells.astype(np.int64)]] = counts
            shares[unit] = urns.rest() if number == len(units) else urns.take(source, wanted)
        return shares

    def urns(self, share: Whole) -> Urns:
        """Return the urns of a unit, given its balls by compartment."""
        ends = np.cumsum([len(urn) for urn in self._balls])[:-1]
        return Urns([part.tolist() for part in np.split(share, ends)])

    def through(
        self, noise: Keystream, cells: Cells, balls: Urns
    ) -> tuple[npt.NDArray[Any], Cells]:
        """Return the part of each row, and the cell that it shows. `balls` are the urns of the unit
        of these rows.
        """
        urns = self._urn[cells.astype(np.int64)]
        if (urns < 0).any():
            raise ChangedError(CHANGED)
        try:
            drawn = balls.draw(noise, urns)
        except LookupError:
            raise ChangedError(CHANGED) from None
        numbers, places = self._part[drawn], self._position[drawn]
        shown = np.empty_like(cells)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(self._parts)))
        for part, rows in zip(self._parts, np.split(order, ends[:-1]), strict=True):
            domain = np.array(part.domain, np.uint64)
            values = keep_or_replace(noise, places[rows], len(domain), part.keep)
            shown[rows] = domain[values]
        return numbers, shown


@dataclass(frozen=True)
class DealKernel:
    """Deals the rows of a unit: `sensitive` are the positions of the sensitive columns.

    The part of a row becomes its last column.
    """

    deal: Assignment
    radix: CellKeys
    sensitive: tuple[int, ...]

    def __call__(
        self, stream: Keystream, pieces: Iterator[list[npt.NDArray[Any]]], given: Whole | None
    ) -> Iterator[Made]:
        if given is None:  # a unit that had no rows when they were counted
            if any(len(columns[0]) for columns in pieces):
                raise ChangedError(CHANGED)
            return
        urns = self.deal.urns(given)
        for columns in pieces:
            hidden = [columns[index] for index in self.sensitive]
            numbers, shown = self.deal.through(stream, self.radix.pack(hidden), urns)
            types = [np.dtype(column.dtype) for column in hidden]
            for index, codes in zip(self.sensitive, self.radix.unpack(shown, types), strict=True):
                columns[index] = codes
            yield ([*columns, numbers],)
        if urns.left:
            raise ChangedError(CHANGED)
