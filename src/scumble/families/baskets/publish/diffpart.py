"""DiffPart: whole baskets, found down a taxonomy of items, with noisy counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.families.baskets.design import COUNT, ITEMS, LAW, WholeBaskets
from scumble.families.baskets.publish.meter import PrivateBaskets
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import read_positive
from scumble.model.schema.lists import DerivedName, ListDomain
from scumble.model.schema.schema import Schema
from scumble.private.mechanism_metadata import ITEMS as FEW_ITEMS
from scumble.private.mechanism_metadata import Claim, ComparisonPreset, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, ProtectedSummary

FILE = "baskets.parquet"
_WIDEST = 16  # groups of a group: a step has 2^16 subsets of them
_NUMBER = Fraction(1, 20)  # of ε, for the number of baskets where neighbours may change it


@dataclass(kw_only=True, eq=False, repr=False)
class DiffPart(ProtectedSummary):
    """Publishes whole baskets that many people have, with noisy counts: which baskets are equal,
    and not only which items are together.

    Items are grouped by `fanout`, in the order of the schema, and so are the groups. Baskets are
    parted by which groups they have items of, from large groups to single items; parts with small
    noisy counts are left out. It is for few items: of thousands of items, or where no two baskets
    are equal, it publishes nothing at a small ε. `neighbours`, `contribution` and `person` are as
    for Histogram; a row is a basket.

    Parameters:
        attribute: the attribute of the type set.
        fanout: groups that a group of items is parted into, at most.
        false_parts: most parts without baskets that a step lets pass, in the mean.

    Promises: ε-DP of the whole release. Proof: a basket is in one part at each level, and in one
        whole basket. A step spends what is left of its ε, divided by the most steps that may
        follow, so that the ε of the steps of any basket add up to half of ε at most; its count is
        drawn anew, with the rest. Empty baskets take no step: their count has all of it. Parts
        without baskets are drawn from the law that they would have. A twentieth of ε is for the
        number of baskets, unless neighbouring tables have equally many.
    Estimate: the sum of the published baskets of the condition: with the exact law of its noise,
        and too low by the baskets that were left out. The interval reaches up by their noisy
        number: that of all baskets, less the published ones. The empty basket is always published,
        so that baskets without items are not among those that were left out.
    Reference: Chen, Mohammed, Fung, Desai, Xiong, Publishing set-valued data via differential
        privacy, VLDB 2011.
    Differs: thresholds follow the number of subsets of a step, so that at most `false_parts` parts
        without baskets pass; those of the paper let more pass from step to step. Counts are drawn
        apart from the noise that decided about the parts. The number of baskets is published.
    """

    name = "diffpart"
    data_dependent = True
    of_lists = True
    proof: ClassVar[str] = (
        "steps on disjoint parts: Chen, Mohammed, Fung, Desai, Xiong, VLDB 2011; "
        "noise on counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )

    attribute: str = field(kw_only=False)
    fanout: int = 4
    false_parts: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or not self.attribute:
            allowed = "the name of an attribute of the type set"
            raise ParameterError.of("DiffPart", "attribute", allowed, self.attribute)
        self.names = (self.attribute,)
        self.fanout = whole("DiffPart", "fanout", self.fanout, least=2, most=_WIDEST)
        self._false_parts = float(read_positive("DiffPart", "false_parts", self.false_parts))
        super().__post_init__()
        for law in self._laws(known=False):
            check_scale(law)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        domain = schema[self.attribute].domain
        if not isinstance(domain, ListDomain) or domain.kind != "set" or domain.members.size < 2:
            raise SchemaError(
                f"DiffPart needs an attribute of the type set with two or more items; "
                f"'{self.attribute}' is {schema[self.attribute].describe()}."
            )

    def _more_limits(self) -> tuple[str, ...]:
        return (
            "The promise is for a whole basket, whatever is in it.",
            "Baskets that few people have are left out of every answer.",
        )

    def _shares(self, known: bool) -> tuple[Fraction, Fraction]:
        """Return the ε of the number of baskets, and that of the steps, which counts get too."""
        number = Fraction(0) if known else _NUMBER * self.promise.epsilon
        return number, (self.promise.epsilon - number) / 2

    def _laws(self, known: bool) -> list[DiscreteLaplace]:
        """Return the most noise of a count, and that of the number of baskets."""
        number, half = self._shares(known)
        counts = DiscreteLaplace(self.unit.sensitivity / half)
        return [counts] if known else [counts, DiscreteLaplace(self.unit.rows / number)]

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        baskets = PrivateBaskets(table, self.attribute, self.unit)
        known = table.keeps_rows(self.unit)
        _, half = self._shares(known)
        published, laws, counts = baskets.whole(
            self.fanout, self._false_parts, steps=half, counts=half
        )
        number = None if known else self._laws(known)[1]
        total = baskets.number(number)
        items = np.unique(np.concatenate([np.zeros(1, np.int64), *published]))
        design = WholeBaskets(
            self._name_columns(table.schema, items), tuple(dict.fromkeys(laws)), total, number
        )
        _write(
            folder, [np.searchsorted(items, basket) for basket in published], design, laws, counts
        )
        return Measurements(FILE, design.attributes, design, total if known else None)

    def _name_columns(self, schema: Schema, items: Any) -> tuple[str, ...]:
        """Return the names of the columns that tell whether a basket has each of these items."""
        values = schema[self.attribute].lists.members.decode(items, None).to_pylist()
        return tuple(str(DerivedName("contains", self.attribute, value)) for value in values)

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Return how far counts may be off."""
        far = self._laws(self.unit.keeps_rows)[0].half_width(0.95)
        return (f"To expect: the count of a published basket within ±{far:,.3g} {OFTEN}.",)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        design = cast(WholeBaskets, cast(Measurements, evidence).design)
        rows = "baskets" if design.total_noise is None else "baskets, noisy"
        return {rows: design.total, "items of published baskets": len(design.attributes)}

    def noticed(self, schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
        """Say that no basket with items was published, or how much was."""
        with pq.ParquetFile(folder / FILE) as file:
            counts = file.read([COUNT])[COUNT].to_numpy()
        total = cast(WholeBaskets, cast(Measurements, evidence).design).total
        if len(counts) == 1:  # that of the empty basket
            sentence = (
                "No basket with items stands out of the noise: nothing was published but how many "
                "are empty."
            )
        elif total > 0 and counts.sum() < total / 2:
            share = max(100 * counts.sum() / total, 0)
            sentence = f"The published baskets are about {share:.0f} % of all: others are too rare."
        else:
            return ()
        return (f"{sentence} The method baskets counts items and sets of items instead.",)

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        sets = [attribute.name for attribute in study.schema.lists if attribute.lists.kind == "set"]
        if not sets:
            raise SchemaError("DiffPart needs an attribute of the type set.")
        return {"attribute": sets[0], "neighbours": study.neighbours}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls("x", **protection(neighbours, fanout=2)), 1, schema=FEW_ITEMS)


def _write(
    folder: Path, baskets: list[Any], design: WholeBaskets, laws: list[Any], counts: Any
) -> None:
    places = {law: index for index, law in enumerate(design.laws)}
    offsets = np.cumsum([0, *map(len, baskets)])
    codes = np.concatenate([np.empty(0, np.int64), *baskets])
    columns = {
        ITEMS: pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(codes, pa.int32())),
        LAW: pa.array([places[law] for law in laws], pa.int32()),
        COUNT: pa.array(counts, pa.int64()),
    }
    pq.write_table(pa.table(columns), folder / FILE, store_schema=False)
