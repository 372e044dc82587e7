"""Fourier: noisy Fourier coefficients of a table of attributes with two values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scumble.model.designs import residual_planner
from scumble.model.designs.residuals import MarginalTable
from scumble.model.errors import SchemaError
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.hooks import BINARY, Claim, Study, protection
from scumble.private.summaries.marginals import TableSummary, refuse_sets, sets_of


@dataclass(kw_only=True, eq=False, repr=False)
class Fourier(TableSummary):
    """Publishes noisy Fourier coefficients of a table whose attributes have two values each: one
    whole number for every set of at most `ways` attributes, from which all marginals follow.

    A coefficient is the number of rows with an even number of second values among the attributes of
    the set, less the number with an odd one. `neighbours`, `contribution` and `person` are as for
    Histogram.

    Parameters:
        ways: attributes of a table.

    Promises: ε-DP of the whole release. Proof: a row adds +1 or −1 to every coefficient, so that a
        person moves each by at most contribution; if a row is replaced, the coefficients of those
        sets change, by 2, in which the two rows differ an odd number of times, and the worst way
        to differ is found for all of them together. The changes over their scales add up to ε.
    Estimate: a marginal of k attributes is a sum of 2^k coefficients over 2^k; unbiased, and
        consistent with all others. The variance and the fourth cumulant of its error are exact.
    Reference: Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar, PODS 2007; budgets by Cormode,
        Procopiuc, Srivastava, Yaroslavtsev, ICDE 2013.
    Differs: integer noise on integer coefficients. Coefficients that more marginals need have less
        noise, in place of one scale for all; without the linear program over all 2^d cells that
        made tables non-negative: `Release.marginal` fits the ones that are asked for.
    """

    name = "fourier"

    ways: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ways = whole("Fourier", "ways", self.ways, least=1, most=len(self.names))
        refuse_sets("Fourier", len(self.names), self.ways)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        for name in self.names:
            if schema[name].size != 2:
                raise SchemaError(
                    f"Fourier takes attributes of two values, but '{name}' has "
                    f"{schema[name].size}. Use the method marginals, which takes any."
                )
        self._refuse_many(schema, sets_of(len(self.names), self.ways))
        self._refuse_parts(sets_of(len(self.names), self.ways))

    def tables(self, schema: Schema) -> list[MarginalTable]:
        asked = dict.fromkeys(sets_of(len(self.names), self.ways), 1.0)
        sizes = self._sizes(schema)
        return residual_planner.plan_contrasts(asked, sizes, self.unit, self.promise.epsilon)

    @classmethod
    def needs(cls, study: Study) -> dict[str, Any]:
        return {**super().needs(study), "ways": study.ways}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(["a", "b"], ways=2, **protection(neighbours)), 1, schema=BINARY)
