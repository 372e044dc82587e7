"""Where a release stands on the axis that all methods share: what an attacker can learn.

The attacker knows all other columns of a person, finds the d sensitive values equally likely, sees
the release and names one. Releases of rows have this success in closed form (`audit.exposure`), or
from their groups; of differentially private summaries it is found by drawing their noise, where
what they measure does not depend on the data, and else the limit is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.audit.exposure import exposure
from scumble.compare.comparison_summaries import success
from scumble.compare.truth import TrueTable
from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Groups
from scumble.model.privacy.guarantee import (
    Guarantee,
    exposure_at_most,
    float_at_least,
    gamma_above_epsilon,
    posterior_at_most,
)
from scumble.public.release import Release

Basis = Literal["exact", "drawn", "limit"]

_PRIVATE = ("ε-LDP", "ε-DP")
_LARGEST = 10  # an ε above it promises nothing: odds may grow by more than 22,000
_EITHER = "add or remove one person"
_VALUES = "one person's sensitive values"


@dataclass(frozen=True)
class Exposed:
    """The best chance to guess; whether that is exact, a mean of draws or a limit; where a prior
    can end at most (None if no such limit is promised: the release is not DP); and whether that is
    promised for whole rows, not only for sensitive values.
    """

    success: float
    basis: Basis
    posterior: float | None
    whole: bool

    @property
    def private(self) -> bool:
        """Whether it is differentially private, with or without δ."""
        return self.posterior is not None


def exposed(release: Release, table: TrueTable, prior: Fraction) -> Exposed:
    """What a release tells about the sensitive values of a person."""
    strict = next((each for each in release.guarantees if each.statement in _PRIVATE), None)
    loose = next((each for each in release.guarantees if each.statement == "(ε, δ)-DP"), None)
    promise = strict or loose
    if promise is not None and _loss(promise)[0] > _LARGEST:
        promise = None
    posterior = None if promise is None else _posterior(promise, prior)
    whole = promise is not None and promise.neighbourhood != _VALUES
    if isinstance(release.evidence, Groups):
        return Exposed(of_groups(release, release.evidence, table), "exact", posterior, whole)
    found = exposure(release.manifest)
    if found is not None:
        return Exposed(found.success, "exact", posterior, whole)
    if promise is None:
        raise ParameterError("What this release exposes is not known.")
    sensitive = [attribute.name for attribute in table.schema.sensitive]
    values = table.schema.size(sensitive)
    if not set(sensitive) & set(release.evidence.columns):
        return Exposed(1 / values, "exact", float_at_least(prior), whole)
    manifest, limit = release.manifest, _limit(promise, values)
    drawn = success(manifest.mechanism, manifest.parameters, table.schema)
    if drawn is None:
        return Exposed(limit, "limit", posterior, whole)
    return Exposed(min(drawn, limit), "drawn", posterior, whole)


def of_groups(release: Release, evidence: Groups, table: TrueTable) -> float:
    """Somebody with value v is in a given group with the share of v's rows that the group has: the
    attacker names the value for which that is largest, mostly the rarest; and likewise for who was
    left out. Values that nobody has are not among those to guess.
    """
    names = evidence.sensitive
    whole = table.cube(names).reshape(-1)
    shown = pq.read_table(release.folder / evidence.values)
    codes = np.zeros(shown.num_rows, np.int64)
    for name in names:
        codes = codes * table.schema[name].size + table.schema[name].encode(shown[name])[0]
    group, counts = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    there = whole > 0
    if not there.any():
        return 1 / max(len(whole), 1)
    missing = 1 - np.bincount(codes, counts, len(whole))[there] / whole[there]
    largest: npt.NDArray[np.float64] = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(largest, group, counts / whole[codes])
    return (float(largest.sum()) + float(missing.max())) / int(there.sum())


def _loss(promise: Guarantee) -> tuple[float, float]:
    """ε and δ for another value of one person: that is one person less and another one more where
    the promise is for one more or less.
    """
    epsilon, delta = promise.parameters["epsilon"], promise.parameters.get("delta", 0.0)
    if promise.neighbourhood == _EITHER:
        return 2 * epsilon, (1 + exp(epsilon)) * delta
    return epsilon, delta


def _limit(promise: Guarantee, values: int) -> float:
    """Adding up P(right | x) ≤ e^ε P(x named | y) + δ over all pairs x ≠ y."""
    epsilon, delta = _loss(promise)
    extra = delta * (values - 1) / (exp(epsilon) + values - 1)
    return min(1.0, exposure_at_most(epsilon, values) + extra)


def _posterior(promise: Guarantee, prior: Fraction) -> float:
    """But for a probability of δ, where there is a δ."""
    gamma = gamma_above_epsilon(Fraction(str(_loss(promise)[0])))
    return float_at_least(posterior_at_most(prior, gamma))
