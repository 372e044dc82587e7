"""Uniform perturbation: keep a sensitive value, or draw it anew from the whole domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model import parameters
from scumble.model.errors import SchemaError, setting
from scumble.model.evidence.channels import UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.model.privacy.guarantee import Guarantee, gamma_for_epsilon, gamma_for_rho, gamma_root
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import Made, Output, RowKernel
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import Publisher
from scumble.private.perturbation.guarantees import outlook_shown, sensitive_values, tenth_error
from scumble.private.sampling.randomized_response import keep_or_replace
from scumble.private.tables.writer import RECORDS

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows

RATIO = "(p+q)/q = γ for every pair of values; computed exactly from the published p"
REACHED = "p ≤ e^ε/(e^ε + d − 1), reached by uniform perturbation of one attribute"


class Uniform(Publisher):
    """Publishes every row; each sensitive value is kept with probability p, else replaced by a
    uniform draw from its whole domain of m values (the true one included). All other columns are
    published as they are.

    Give exactly one of `epsilon`, `gamma`, `keep` (the p itself) or `rho1` with `rho2`. With
    several sensitive attributes `joint=False` perturbs each by itself and `joint=True`
    all as one value of their product domain. Either way `epsilon`, `gamma` and (`rho1`, `rho2`)
    speak of *all* sensitive values of a row together: perturbed each by itself, k attributes get
    the k-th root of γ each.

    Parameters:
        epsilon: Privacy loss of one person.
        gamma: amplification, e to the epsilon.
        keep: probability to keep what is true.
        rho1: a prior of at most this ...
        rho2: ... ends at most here; goes with `rho1`.
        joint: perturb several sensitive columns as one value, or each (the default).

    Promises: ε-LDP of the sensitive values of a row, ε = ln γ, γ = 1 + p·m/(1−p): no two sensitive
        values explain what is published with probabilities more than a factor γ apart. Proof: a
        value x is published as itself with probability p + (1−p)/m and as any other with
        q = (1−p)/m; the ratio of the largest to the smallest probability of the same output is
        (p+q)/q = γ; channels on several attributes are independent, so that their ratios multiply.
        p is a fraction that the sampler meets exactly, rounded so that γ ≤ e^ε.
    Estimate: f* = (o − n(1−p)|A|/m)/p for n rows of which o show a value in A; sums, averages,
        groups and conditions that mix columns by inverting the channel on the domain. Counts and
        sums are unbiased; the interval is exact binomial for plain counts (normal where thousands
        of rows decide), Fieller's for averages, and elsewhere a score interval that is
        corrected for skewness and allows for what one row can change, which holds in all cases
        tried but by no theorem.
    Reference: uniform perturbation in "Small Domain Randomization" (section 2; amplification:
        Evfimievski, Gehrke, Srikant, PODS 2003); k-ary randomized response (Kairouz, Bonawitz,
        Ramage, ICML 2016).
    Differs: the papers state (ρ1, ρ2)-privacy for one prior; this is the ε-LDP that implies it for
        every prior about one value. Rows are published in sorted order, since the order of the
        private table may tell who is who.
    """

    name = "uniform"

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        gamma: float | None = None,
        keep: float | None = None,
        rho1: float | None = None,
        rho2: float | None = None,
        joint: bool = False,
    ) -> None:
        given = {"epsilon": epsilon, "gamma": gamma, "keep": keep, "rho1": rho1, "rho2": rho2}
        choices = ("epsilon", "gamma", "keep", "rho1 with rho2")
        self._given = parameters.one_of("Uniform", given, *choices)
        self._joint = parameters.flag("Uniform", "joint", joint)
        self._numbers = parameters.numbers("Uniform", self._given)

    @property
    def parameters(self) -> dict[str, Any]:
        return {**parameters.plain(self._given), "joint": self._joint}

    def check(self, schema: Schema) -> None:
        parameters.require_sensitive("Uniform", schema)
        less = "a smaller keep or rho2, or a larger rho1"
        parameters.require_privacy("Uniform", self.gamma(schema), less)
        for channel in self.channels(schema):
            if schema.size(channel.attributes) >= 1 << 64:
                raise SchemaError(
                    "The joint value of the sensitive attributes has 2^64 values or more; "
                    f"use {setting('joint', False)}, or fewer sensitive attributes."
                )

    def channels(self, schema: Schema) -> tuple[UniformChannel, ...]:
        """The channels of all sensitive attributes: one, or one each."""
        names = tuple(attribute.name for attribute in schema.sensitive)
        parts = [names] if self._joint else [(name,) for name in names]
        return tuple(
            UniformChannel(part, self._keep(schema.size(part), len(parts))) for part in parts
        )

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self._describe_error(schema, channel) for channel in self.channels(schema))

    def expected_error(self, schema: Schema, rows: int) -> float:
        return max(
            tenth_error(schema.size(channel.attributes), float(channel.keep), rows)
            for channel in self.channels(schema)
        )

    def _describe_error(self, schema: Schema, channel: UniformChannel) -> str:
        keep, values = float(channel.keep), schema.size(channel.attributes)
        other = (1 - keep) / values
        return outlook_shown(channel.attributes, keep + other, other)

    def _keep(self, values: int, parts: int) -> Fraction:
        """p = (γ − 1)/(m − 1 + γ) for this channel's part of γ."""
        if "keep" in self._numbers:
            return self._numbers["keep"]
        if "epsilon" in self._numbers:
            gamma = gamma_for_epsilon(self._numbers["epsilon"], parts)
        elif "gamma" in self._numbers:
            gamma = gamma_root(self._numbers["gamma"], parts)
        else:
            gamma = gamma_root(gamma_for_rho(self._numbers["rho1"], self._numbers["rho2"]), parts)
        parameters.require_utility("Uniform", gamma)
        return (gamma - 1) / (values - 1 + gamma)

    def gamma(self, schema: Schema) -> Fraction:
        """The amplification over all sensitive attributes of a row."""
        product = Fraction(1)
        for channel in self.channels(schema):
            product *= 1 + channel.keep * schema.size(channel.attributes) / (1 - channel.keep)
        return product

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        gamma = self.gamma(schema)
        names = ", ".join(attribute.name for attribute in schema.sensitive)
        prior = self._numbers.get("rho1", Fraction(1, 10))
        values = min(attribute.size for attribute in schema.sensitive)
        secret = sensitive_values(names)
        return (
            secret.amplification(gamma, RATIO),
            secret.posterior(prior, gamma),
            secret.exposure(gamma / (gamma + values - 1), values, REACHED),
        )

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Records:
        # The writer and the samplers are slow to import, and parameters are checked without them.
        names = tuple(attribute.name for attribute in rows.schema.published)
        channels = self.channels(rows.schema)
        engine = open_engine(rows, noise)
        output = Output(folder / RECORDS, rows.schema.published)
        engine.map(names, UniformKernel(rows.schema, channels), [output])
        return Records(RECORDS, names, channels, engine.sort(output))


@dataclass(frozen=True)
class UniformKernel(RowKernel):
    """Sends the published columns of rows through all channels."""

    schema: Schema
    channels: tuple[UniformChannel, ...]

    def perturb(self, stream: Keystream, columns: list[npt.NDArray[Any]]) -> Made:
        names = [attribute.name for attribute in self.schema.published]
        for channel in self.channels:
            places = [names.index(name) for name in channel.attributes]
            _send_through(channel, columns, places, self.schema, stream)
        return (columns,)


def _send_through(
    channel: UniformChannel,
    columns: list[npt.NDArray[Any]],
    places: Sequence[int],
    schema: Schema,
    stream: Keystream,
) -> None:
    """Send some columns through a channel, and replace them by its output."""
    size = schema.size(channel.attributes)
    if len(places) == 1:
        columns[places[0]] = keep_or_replace(stream, columns[places[0]], size, channel.keep)
        return
    radix = schema.cell_keys(channel.attributes)
    drawn = keep_or_replace(stream, radix.pack([columns[p] for p in places]), size, channel.keep)
    types = [np.dtype(columns[index].dtype) for index in places]
    for index, column in zip(places, radix.unpack(drawn, types), strict=True):
        columns[index] = column
