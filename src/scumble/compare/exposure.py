"""The exposure of a release: the axis of a comparison that all methods share.

The attacker knows all other columns of a person, considers the d sensitive values equally likely,
sees the release and names a value. The success probability has a closed form for releases of rows
(`audit.exposure`) and for groups. For differentially private summaries it is estimated by drawing
their noise if what they measure does not depend on the data; otherwise an upper limit is known.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit import hooks
from scumble.audit.exposure import GroupExposure, exposure
from scumble.audit.runs import RecordedStep, RecordedSteps, RecordedTable
from scumble.compare.truth import TrueTable
from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.privacy.guarantee import (
    Guarantee,
    exposure_at_most,
    float_at_least,
    gamma_above_epsilon,
    posterior_at_most,
)
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary, create
from scumble.private.meter.noise import NoisySteps
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Rows
from scumble.public.release import Release

Basis = Literal["exact", "drawn", "limit"]

_PRIVATE = ("ε-LDP", "ε-DP")
_LARGEST = 10  # a larger ε counts as no promise: odds may grow by more than 22,000
_EITHER = "add or remove one person"
_VALUES = "one person's sensitive values"


@dataclass(frozen=True)
class ReleaseExposure:
    """What an attacker learns from a release.

    `success` is the probability of the best guess, and `basis` says whether it is exact, a mean of
    draws or an upper limit. `worst` is the probability of the best guess about the unluckiest
    person of the table: the limit that ε allows where there is a promise, else computed from the
    release, and None where that is not known. `posterior` is the highest posterior of a given
    prior; None if the release promises no limit (it is not DP). `whole` says whether the promise is
    for whole rows, not only for sensitive values.
    """

    success: float
    basis: Basis
    posterior: float | None
    whole: bool
    worst: float | None = None

    @property
    def private(self) -> bool:
        """Whether the release is differentially private, with or without δ."""
        return self.posterior is not None


def release_exposure(release: Release, table: TrueTable, prior: Fraction) -> ReleaseExposure:
    """Return what a release of `table` tells about the sensitive values of a person.

    `prior` is the prior whose highest posterior is computed.
    """
    promise = _find_promise(release.guarantees)
    measured = _measure_exposure(release, table, promise)
    if promise is None:
        worst = _find_worst(release) if measured.worst is None else measured.worst
        return replace(measured, worst=worst)
    return _promised(measured, promise, release.evidence.columns, table, prior)


def database_exposure(
    guarantee: Guarantee, columns: Collection[str], table: TrueTable, prior: Fraction
) -> ReleaseExposure:
    """Return what all answers of a database about some columns tell, at most: its promise is spent
    on one person in as far as the questions touch that person.
    """
    sensitive = {attribute.name for attribute in table.schema.sensitive}
    values = table.schema.size(sensitive)
    promise = _find_promise([guarantee])
    if not sensitive & set(columns):
        measured = ReleaseExposure(1 / values, "exact", None, False)
    else:
        limit = _limit(guarantee, values)
        measured = ReleaseExposure(limit, "limit", None, False)
    if promise is None:
        return measured
    return _promised(measured, promise, columns, table, prior)


def _find_promise(guarantees: Sequence[Guarantee]) -> Guarantee | None:
    """Return the promise of differential privacy, if there is one that is worth the name."""
    strict = next((each for each in guarantees if each.statement in _PRIVATE), None)
    loose = next((each for each in guarantees if each.statement == "(ε, δ)-DP"), None)
    promise = strict or loose
    return None if promise is not None and _loss(promise)[0] > _LARGEST else promise


def _promised(
    measured: ReleaseExposure,
    promise: Guarantee,
    columns: Collection[str],
    table: TrueTable,
    prior: Fraction,
) -> ReleaseExposure:
    """Return the exposure with what a promise about some columns limits."""
    whole = promise.neighbourhood != _VALUES
    sensitive = {attribute.name for attribute in table.schema.sensitive}
    if not sensitive & set(columns):
        worst = measured.success
        return replace(measured, posterior=float_at_least(prior), whole=whole, worst=worst)
    limit = _limit(promise, table.schema.size(sensitive))
    return replace(measured, posterior=_posterior(promise, prior), whole=whole, worst=limit)


def _measure_exposure(
    release: Release, table: TrueTable, promise: Guarantee | None
) -> ReleaseExposure:
    """Return the success of the best guess, without what a promise adds to it."""
    own = hooks.of_evidence(release.evidence, "table_exposure")
    if own is not None:
        groups: GroupExposure = own(release, table)
        return ReleaseExposure(groups.success, "exact", None, False, groups.worst)
    exact = exposure(release.manifest)
    if exact is not None:
        return ReleaseExposure(exact.success, "exact", None, False)
    if promise is None:
        raise ParameterError("What this release exposes is not known.")
    sensitive = [attribute.name for attribute in table.schema.sensitive]
    values = table.schema.size(sensitive)
    if not set(sensitive) & set(release.evidence.columns):
        return ReleaseExposure(1 / values, "exact", None, False)
    manifest, limit = release.manifest, _limit(promise, values)
    drawn = summary_exposure(manifest.mechanism, manifest.parameters, table.schema)
    if drawn is None:
        return ReleaseExposure(limit, "limit", None, False)
    return ReleaseExposure(min(drawn, limit), "drawn", None, False)


def _find_worst(release: Release) -> float | None:
    """Return the largest chance of a guess about any published row, from the likelihood of each
    value given what its row shows; None if a channel of the release has none.
    """
    channels = hooks.channels_of(release.evidence)
    largest: npt.NDArray[np.float64] | None = None
    for channel in channels:
        own = hooks.of_channel(channel, "find_likelihood")
        if own is None or len(channel.attributes) != 1:
            return None
        shown = pq.read_table(release.folder / release.evidence.files[0])
        likelihood = own(channel, shown, release.schema[channel.attributes[0]])
        chance = likelihood.max(axis=1) / likelihood.sum(axis=1)
        largest = chance if largest is None else largest * chance
    return None if largest is None or not len(largest) else float(largest.max())


def _loss(promise: Guarantee) -> tuple[float, float]:
    """Return ε and δ for a change of one person's value.

    Where the promise is for adding or removing a person, that is one removal and one addition.
    """
    epsilon, delta = promise.parameters["epsilon"], promise.parameters.get("delta", 0.0)
    if promise.neighbourhood == _EITHER:
        return 2 * epsilon, (1 + exp(epsilon)) * delta
    return epsilon, delta


def _limit(promise: Guarantee, values: int) -> float:
    """Return the largest success: from P(x named | x) ≤ e^ε P(x named | y) + δ for all x ≠ y."""
    epsilon, delta = _loss(promise)
    extra = delta * (values - 1) / (exp(epsilon) + values - 1)
    return min(1.0, exposure_at_most(epsilon, values) + extra)


def _posterior(promise: Guarantee, prior: Fraction) -> float:
    """Return the highest posterior; it holds except with probability δ, where there is a δ."""
    gamma = gamma_above_epsilon(Fraction(str(_loss(promise)[0])))
    return float_at_least(posterior_at_most(prior, gamma))


# Differentially private summaries. The attacker knows all rows but one sensitive value. For this
# attacker the summary is a list of numbers with independent noise, and each of the d values gives
# known numbers without noise; the attacker names the likeliest value. The success probability is a
# mean over the noise, which is drawn by the samplers of a release.

Numbers = npt.NDArray[np.int64]

DRAWS = 20_000
_MOST_VALUES = 64  # a summary is made once for each
_MOST_NUMBERS = 4_000_000  # of one summary
_BATCH = 1000


def summary_exposure(name: str, parameters: Mapping[str, Any], schema: Schema) -> float | None:
    """Return the success of the best guess among all combinations of sensitive values.

    The person has the middle value of every other attribute. The result is None if what is measured
    depends on the data, has other noise than Laplace noise, or is too large.
    """
    return _cached_exposure(name, json.dumps(dict(parameters), default=str, sort_keys=True), schema)


@lru_cache(maxsize=256)
def _cached_exposure(name: str, parameters: str, schema: Schema) -> float | None:
    given = json.loads(parameters)
    mechanism = create(name, **given)
    sensitive = [attribute.name for attribute in schema.sensitive]
    if not isinstance(mechanism, Summary) or schema.size(sensitive) > _MOST_VALUES:
        return None
    if mechanism.data_dependent:  # which sums they measure depends on noisy answers
        return None
    measured = _measured(mechanism, schema, {})
    if measured is None:
        return None
    sizes = tuple(len(numbers) for _, numbers in measured)
    # Most methods measure the same sums for every ε.
    once = json.dumps({**given, "epsilon": 1}, sort_keys=True)
    changes = _differences(name, once, schema, sizes)
    changes = changes or _differences(name, parameters, schema, sizes)
    if changes is None:
        return None
    numbers, places = changes
    parts = np.searchsorted(np.cumsum(sizes), places, "right")
    return _mean_largest_posterior(numbers, [measured[part][0].scale for part in parts.tolist()])


@lru_cache(maxsize=16)
def _differences(
    name: str, parameters: str, schema: Schema, sizes: tuple[int, ...]
) -> tuple[Numbers, Numbers] | None:
    """Return the measured numbers of each value as differences from those of the first value, and
    their places in the list; None if lists of other sizes are measured.

    Places at which no value differs are left out.
    """
    mechanism = cast(Summary, create(name, **json.loads(parameters)))
    sensitive = [attribute.name for attribute in schema.sensitive]
    first: Numbers | None = None
    changes: list[dict[int, int]] = []
    for codes in np.ndindex(*(schema[name].size for name in sensitive)):
        measured = _measured(mechanism, schema, dict(zip(sensitive, codes, strict=True)))
        if measured is None or tuple(len(numbers) for _, numbers in measured) != sizes:
            return None
        numbers = np.concatenate([part for _, part in measured])
        first = numbers if first is None else first
        places = np.flatnonzero(numbers != first)
        gaps = (numbers - first)[places]
        changes.append(dict(zip(places.tolist(), gaps.tolist(), strict=True)))
    every = sorted({number for change in changes for number in change})
    table = [[change.get(number, 0) for number in every] for change in changes]
    return np.array(table, np.int64).reshape(len(changes), len(every)), np.array(every, np.int64)


def _measured(
    mechanism: Summary, schema: Schema, values: Mapping[str, int]
) -> list[tuple[DiscreteLaplace, Numbers]] | None:
    """Return what is measured of a table of one person, without noise, and the law of the noise.

    It is None in the cases in which `summary_exposure` returns None.
    """
    middles = {attribute.name: attribute.size // 2 for attribute in schema.published}
    codes = {name: values.get(name, middle) for name, middle in middles.items()}
    row = pa.table({n: schema[n].decode(np.array([code])) for n, code in codes.items()})
    counter = RowCounter(Rows(open_source(row), schema))
    table = _InventedTable(counter, BudgetAccount(mechanism.promise), Keystream(0))
    with tempfile.TemporaryDirectory(prefix="scumble-") as folder:
        mechanism.measure(table, Path(folder))
    sums = [
        (step.law, step.numbers.ravel().astype(np.int64))
        for step in table.steps
        if step.kind == "sums" and isinstance(step.law, DiscreteLaplace)
    ]
    size = sum(step.numbers.size for step in table.steps)
    return sums if 0 < len(sums) == len(table.steps) and size <= _MOST_NUMBERS else None


class _TrueSteps(RecordedSteps):
    """Records sums and adds no noise to them: nothing is decided by those of an invented person."""

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        self.steps.append(RecordedStep("sums", numbers.copy(), law))


class _InventedTable(RecordedTable):
    """A table of an invented person, whose sums are recorded and get no noise."""

    def _steps(self, source: Keystream) -> NoisySteps:
        recorded = _TrueSteps(source)
        self.steps = recorded.steps
        return recorded


def _mean_largest_posterior(numbers: Numbers, scales: Sequence[Fraction]) -> float:
    """Return the mean of the largest posterior, over draws in which every value is the true one
    equally often. Its mean is that of the share of right guesses, and its variance is smaller.
    """
    values = len(numbers)
    if not numbers.size:
        return 1 / values
    source, widths = Keystream(0), np.array([float(scale) for scale in scales])
    total = 0.0
    for begin in range(0, DRAWS, _BATCH):
        truth = (begin + np.arange(_BATCH)) % values
        shown = numbers[truth] + _noise(source, scales)
        logs = np.empty((values, _BATCH))  # against the first value, up to a constant
        for value, own in enumerate(numbers):
            some = np.flatnonzero(own)
            near = np.abs(shown[:, some]) - np.abs(shown[:, some] - own[some])
            logs[value] = (near / widths[some]).sum(axis=1)
        total += float((1 / np.exp(logs - logs.max(axis=0)).sum(axis=0)).sum())
    return total / DRAWS


def _noise(source: Keystream, scales: Sequence[Fraction]) -> Numbers:
    """Draw a batch of noise, one column for each number."""
    drawn = np.empty((_BATCH, len(scales)), np.int64)
    for scale in set(scales):
        columns = [column for column, other in enumerate(scales) if other == scale]
        noise = discrete_laplace(source, scale, _BATCH * len(columns))
        drawn[:, columns] = noise.reshape(_BATCH, len(columns))
    return drawn
