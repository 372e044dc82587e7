"""Perturbation partitioning: uniform perturbation in sub-tables that have few sensitive
values each.

The sub-tables are made in partition_groups.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scumble.model import parameters
from scumble.model.errors import SchemaError, large
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
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Claim, Study, posterior_of
from scumble.private.mechanism import Layout, Publisher
from scumble.private.perturbation.guarantees import tenth_error
from scumble.private.perturbation.partition_groups import Part, gamma_of, keep_for, split

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.counter import Occupied
    from scumble.private.tables.rows import Rows

# Answers read every value of every sub-table.
MOST_CELLS = 10**5


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
        cells = schema.size(_sensitive(schema))
        if cells > MOST_CELLS:
            raise SchemaError(
                f"The sensitive attributes have {large(cells)} values together, and Partition "
                f"counts each of at most {large(MOST_CELLS)}. Use coarser domains or fewer such "
                "attributes."
            )

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        return (restricted(_sensitive(schema), self._rho1, self._rho2),)

    def achieved(self, schema: Schema, evidence: Evidence) -> tuple[Guarantee, ...]:
        names = ", ".join(_sensitive(schema))
        channel = _channel(evidence)
        if 1 in channel.keeps:
            return (nothing(names, self._rho1, self._rho2),)
        gammas = _gammas(channel)
        return (
            restricted(_sensitive(schema), self._rho1, self._rho2, gammas),
            amplification(names, max(gammas)),
        )

    def expected_error(self, schema: Schema, rows: int) -> float:
        """That of one sub-table, which is among the choices."""
        cells = schema.size(_sensitive(schema))
        return tenth_error(cells, float(keep_for(self._gamma, cells)), rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        from scumble.private.perturbation.partition_groups import error_bound

        channel = _channel(evidence)
        rows, keeps = channel.rows, [float(keep) for keep in channel.keeps]
        if not sum(rows):
            return {}
        alone = 1.0 if 1 in channel.keeps else self._alone(channel.domains)
        delta = float(1 - self._confidence)
        return {
            "sub-tables": len(rows),
            "fell back to uniform": len(rows) == 1,
            "rows": list(rows),
            "values": [len(domain) for domain in channel.domains],
            "gamma": [] if 1 in channel.keeps else [float(gamma) for gamma in _gammas(channel)],
            "retention": keeps,
            "average retention": float(np.average(keeps, weights=rows)),
            "retention as one table with rho1": alone,
            "error bound": error_bound(rows, keeps, delta),
            "error bound as one table with rho1": error_bound([sum(rows)], [alone], delta),
            "confidence of the bounds": float(self._confidence),
        }

    def layout(self, schema: Schema) -> Layout:
        return {"records.parquet": (*schema.published, _part_column(schema))}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Records:
        # The writer and the samplers are slow to import, and parameters are checked without them.
        from scumble.private.engines.engine import Output, open_engine
        from scumble.private.perturbation.partition_groups import Deal, DealKernel
        from scumble.private.tables.writer import RECORDS

        schema, attributes = rows.schema, rows.schema.published
        names = [attribute.name for attribute in attributes]
        sensitive = _sensitive(schema)
        radix = schema.cell_keys(sensitive)
        engine = open_engine(rows, noise)
        # A row may be dropped for any of its columns; then all have to be read.
        others = [name for name in names if name not in sensitive]
        units = engine.units(sensitive, others if rows.outside == "drop" else ())
        parts = self._parts(_counts(units), radix.size, rows)
        numbered = Attribute(_part_column(schema), "insensitive", IntegerRange(0, len(parts) - 1))
        deal = Deal(parts, radix.size)
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

    def _parts(self, counts: Mapping[int, int], cells: int, rows: Rows) -> list[Part]:
        """Return the split, or one part for all rows if the promise binds no value."""
        parts = split(counts, self._rho1, self._rho2) if counts else None
        if parts is not None:
            rows.remark(self._gain(parts))
            return parts
        if counts:
            done = "was published as it is" if self._plain else "went through one channel"
            rows.remark(
                "No sensitive value is as rare as rho1, so that the promise binds nothing; the "
                f"table {done}."
            )
        keep = Fraction(1) if self._plain and counts else keep_for(self._gamma, cells)
        return [Part(counts, tuple(range(cells)), keep)]

    def _alone(self, domains: Sequence[Sequence[int]]) -> float:
        """Return the retention of one table with all these values in which one has a share of ρ1.
        The true largest frequency would reveal more than is published.
        """
        return float(keep_for(self._gamma, len(set().union(*domains))))

    def _gain(self, parts: Sequence[Part]) -> str:
        """Return a remark for the owner about what the split gains."""
        if len(parts) == 1:
            return "Sub-tables would not lower the error bound: this is uniform perturbation."
        kept = sum(part.rows * part.keep for part in parts) / sum(part.rows for part in parts)
        alone = self._alone([part.domain for part in parts])
        return (
            f"The {len(parts)} sub-tables keep a sensitive value with probability "
            f"{float(kept):.2g} on average; one table with rho1 would keep it with {alone:.2g}."
        )

    @classmethod
    def needs(cls, study: Study) -> dict[str, Any]:
        return {"rho1": study.most_frequent()}

    @classmethod
    def settings(cls, epsilon: float, study: Study) -> dict[str, Any]:
        return {"rho2": posterior_of(study.most_frequent(), epsilon)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield from ()


def _sensitive(schema: Schema) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in schema.sensitive)


def _part_column(schema: Schema) -> str:
    """Return the name of the column with the number of the sub-table."""
    return parameters.free_name("part", schema.names)


def _channel(evidence: Evidence) -> PartitionChannel:
    """Return the channel of the evidence."""
    if isinstance(evidence, Records) and isinstance(evidence.channels[0], PartitionChannel):
        return evidence.channels[0]
    raise TypeError("the evidence is not that of a partition")


def _gammas(channel: PartitionChannel) -> list[Fraction]:
    pairs = zip(channel.keeps, channel.domains, strict=True)
    return [gamma_of(keep, len(domain)) for keep, domain in pairs]


def _counts(units: Mapping[int, Occupied]) -> dict[int, int]:
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


def restricted(
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
        + (_computed(rho2, gammas) if gammas else ""),
        sentence=(
            f"An attacker who knows of a person only how frequent each {what} is in the table, and "
            f"sees the person's row by itself, ends at most at {percent_at_most(rho2)} for one "
            f"that at most {percent_at_least(rho1)} of the rows have."
        ),
        limits=(*combined, DEPENDS, SETS, MORE, frequent, SEEN),
    )


def _computed(rho2: Fraction, gammas: Sequence[Fraction]) -> str:
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
            f"NOTHING IS PROTECTED: more than {percent_at_least(rho1)} of the rows have each value "
            f"of {names} that occurs, which the promise does not cover, and the owner chose to "
            "publish such a table as it is."
        ),
        limits=(SEEN,),
    )
