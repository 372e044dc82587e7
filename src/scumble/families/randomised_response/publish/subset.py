"""The subset mechanism: every row shows a set of values that holds the true one with high
probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model import parameters
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.evidence.channels import MultisetChannel, SubsetLaw
from scumble.model.evidence.evidence import Evidence, Records
from scumble.model.privacy.guarantee import (
    Guarantee,
    float_at_least,
    gamma_for_epsilon,
    gamma_for_rho,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import Made, Output, RowKernel
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import Layout, Publisher
from scumble.private.perturbation.guarantees import outlook_shown, sensitive_values
from scumble.private.perturbation.multisets import multiset_attributes, multiset_channels
from scumble.private.sampling.without_replacement import subsets
from scumble.private.tables.writer import RECORDS

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows

MOST_VALUES = 4096
RATIO = (
    "g(m−ω)/((1−g)ω) = γ for every set, a value in it and a value not in it; computed exactly from "
    "the published g and ω"
)


class Subset(Publisher):
    """Publishes every row with a set of ω values in place of its sensitive one: the set holds the
    true value with probability g, and is otherwise a uniform choice. All other columns are
    published as they are.

    Give exactly one of `epsilon`, `gamma` or `rho1` with `rho2`. `size` is ω; by default it is the
    one with the least error, near m/(γ+1) of m values. Several sensitive attributes are one value
    of their product domain, of at most 4,096 values.

    Parameters:
        epsilon: Privacy loss of one person.
        gamma: amplification, e to the epsilon.
        rho1: a prior of at most this ...
        rho2: ... ends at most here; goes with `rho1`.
        size: values shown in every row.

    Promises: ε-LDP of the sensitive values of a row, ε = ln γ, where g = ωγ/(ωγ + m − ω): no two
        values explain what is published with probabilities more than a factor γ apart. Proof: a set
        S has probability g/C(m−1, ω−1) if it holds the true value and (1−g)/C(m−1, ω) if not, and
        the ratio of the two is g(m−ω)/((1−g)ω) = γ. g is a fraction that the sampler meets exactly,
        rounded so that γ ≤ e^ε. Guessing one of m equally likely values succeeds with probability
        g/ω = γ/(ωγ + m − ω).
    Estimate: f* = (o − nq)/(g−q) for n rows of which o show a value, q = (ω−g)/(m−1) being the
        probability of any false one; sums, averages, groups and conditions that mix columns by
        weights with the right mean. Counts and sums are unbiased; the interval is exact binomial
        for counts of one value or of all but one (normal where thousands of rows decide), Fieller's
        for averages, and elsewhere a score interval that is corrected for skewness and allows for
        what one member of a set can change, which holds in all cases tried but by no theorem.
    Reference: Ye and Barg, "Optimal schemes for discrete distribution estimation under locally
        differential privacy" (IEEE Transactions on Information Theory 64, 2018); Wang et al.,
        "Mutual information optimally local private discrete distribution estimation" (2016).
    Differs: ω is chosen by comparing exact variances; the papers estimate a distribution, this
        answers questions about it together with the other columns. Rows are published in sorted
        order, since the order of the private table may tell who is who.
    """

    name = "subset"

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        gamma: float | None = None,
        rho1: float | None = None,
        rho2: float | None = None,
        size: int | None = None,
    ) -> None:
        given = {"epsilon": epsilon, "gamma": gamma, "rho1": rho1, "rho2": rho2}
        choices = ("epsilon", "gamma", "rho1 with rho2")
        self._given = parameters.one_of("Subset", given, *choices)
        self._numbers = parameters.numbers("Subset", self._given)
        self._size = None if size is None else parameters.whole("Subset", "size", size, least=1)

    @property
    def parameters(self) -> dict[str, Any]:
        written = parameters.plain(self._given)
        return written if self._size is None else {**written, "size": self._size}

    @property
    def gamma(self) -> Fraction:
        """The amplification, at most e^ε."""
        if "epsilon" in self._numbers:
            return gamma_for_epsilon(self._numbers["epsilon"])
        if "gamma" in self._numbers:
            return self._numbers["gamma"]
        return gamma_for_rho(self._numbers["rho1"], self._numbers["rho2"])

    def check(self, schema: Schema) -> None:
        parameters.require_sensitive("Subset", schema)
        parameters.require_privacy("Subset", self.gamma, "a smaller rho2, or a larger rho1")
        parameters.require_utility("Subset", self.gamma)
        values = _count_values(schema)
        if values > MOST_VALUES:
            raise SchemaError(
                f"Subset publishes sets out of all {values} values of the sensitive attributes "
                f"together; at most {MOST_VALUES} are possible. Use coarser domains, or Uniform."
            )
        if self._size is not None and self._size >= values:
            allowed = f"below the number of sensitive values ({values})"
            raise ParameterError.of("Subset", "size", allowed, self._size)

    def law(self, schema: Schema) -> SubsetLaw:
        """Return the law of the sets: their size, and the probability of the true value in them."""
        values, gamma = _count_values(schema), self.gamma
        if self._size is not None:
            return _make_law(values, self._size, gamma)
        near = int(values / (gamma + 1))
        sizes = (size for size in (near, near + 1) if 1 <= size < values)
        return min((_make_law(values, size, gamma) for size in sizes), key=spread)

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        law, names = self.law(schema), [attribute.name for attribute in schema.sensitive]
        return (outlook_shown(names, float(law.inclusion), float(law.chance)),)

    def expected_error(self, schema: Schema, rows: int) -> float:
        law = self.law(schema)
        asked = (np.arange(law.values) < -(-law.values // 10)).astype(np.float64)
        spread = law.covariances(asked, asked)
        inside, outside = float(spread[0]), float(spread[-1])
        return math.sqrt(rows * (inside + 9 * outside) / 10) / float(law.inclusion - law.chance)

    def channel(self, schema: Schema) -> MultisetChannel:
        law = self.law(schema)
        [channel] = multiset_channels(schema, law)
        return channel

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        law, gamma = self.law(schema), self.gamma
        names = ", ".join(attribute.name for attribute in schema.sensitive)
        prior = self._numbers.get("rho1", Fraction(1, 10))
        secret = sensitive_values(names, shown="set")
        if len(schema.sensitive) == 1:
            exact = "g/ω: the best guess is any member of the set; computed exactly"
            guess = secret.exposure(law.inclusion / law.size, law.values, exact)
        else:
            values = min(attribute.size for attribute in schema.sensitive)
            bound = "p ≤ e^ε/(e^ε + d − 1) for any ε-LDP; the smallest attribute is the easiest"
            guess = secret.exposure(gamma / (gamma + values - 1), values, bound)
        return secret.amplification(gamma, RATIO), secret.posterior(prior, gamma), guess

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        law = self.law(schema)
        alone = _make_law(law.values, 1, self.gamma)
        return {
            "values in a set": law.size,
            "chance that the true value is in it": float(law.inclusion),
            "chance of each false value": float(law.chance),
            "variance against sets of one value": float_at_least(spread(law) / spread(alone)),
        }

    def layout(self, schema: Schema) -> Layout:
        return {"records.parquet": self._list_columns(schema)}

    def _list_columns(self, schema: Schema) -> tuple[Attribute, ...]:
        """Return the columns of the published file."""
        channel = self.channel(schema)
        plain = [a for a in schema.published if a.name not in channel.attributes]
        return (*plain, *multiset_attributes(channel, most=1))

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Records:
        # The writer and the samplers are slow to import, and parameters are checked without them.
        schema, channel, law = rows.schema, self.channel(rows.schema), self.law(rows.schema)
        names = [a.name for a in schema.published if a.name not in channel.attributes]
        engine = open_engine(rows, noise)
        output = Output(folder / RECORDS, self._list_columns(schema))
        kernel = SubsetKernel(schema, channel, law)
        engine.map([*names, *channel.attributes], kernel, [output])
        asked = tuple(attribute.name for attribute in schema.published)
        return Records(RECORDS, asked, (channel,), engine.sort(output))


@dataclass(frozen=True)
class SubsetKernel(RowKernel):
    """Replaces the sensitive columns, which come last, by a set of their combinations."""

    schema: Schema
    channel: MultisetChannel
    law: SubsetLaw

    def perturb(self, stream: Keystream, columns: list[npt.NDArray[Any]]) -> Made:
        law, hidden = self.law, self.channel.attributes
        others = len(columns) - len(hidden)
        true = self.schema.cell_keys(hidden).pack(columns[others:])
        drawn = subsets(stream, true, law.values, law.size, law.inclusion)
        coded = self.channel.layout == "codes"
        shown = _list_members(drawn) if coded else _mark_members(drawn, law.values)
        return ([*columns[:others], *shown],)


def spread(law: SubsetLaw) -> Fraction:
    """Return the contribution of one row to the variance of an estimated count, summed over all
    values.
    """
    home, away = law.inclusion, law.chance
    return (home * (1 - home) + (law.values - 1) * away * (1 - away)) / (home - away) ** 2


def _make_law(values: int, size: int, gamma: Fraction) -> SubsetLaw:
    return SubsetLaw(values, size, size * gamma / (size * gamma + values - size))


def _count_values(schema: Schema) -> int:
    return schema.size([attribute.name for attribute in schema.sensitive])


def _list_members(drawn: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return one column for each position in the sets. Members are in ascending order, which says
    nothing about how they were drawn.
    """
    return list(np.ascontiguousarray(np.sort(drawn, axis=1).T))


def _mark_members(drawn: npt.NDArray[Any], values: int) -> list[npt.NDArray[Any]]:
    """Return for each value a column of 0 or 1: whether the set of a row has it."""
    marks = np.zeros((values, len(drawn)), np.uint8)
    marks[drawn.T, np.arange(len(drawn))] = 1
    return list(marks)


# The columns of the published file that hold multisets of sensitive values.
