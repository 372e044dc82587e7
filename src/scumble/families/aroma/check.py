"""What the audit knows of Aroma's multisets: their exposure, the law of a row, and the promises
that only they make.

All but the exposure and δ of the law is computed from the evidence by other formulas than the
mechanism uses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.evidence_checks import multiset_counts
from scumble.audit.exposure import Codes, count_members, guess_likeliest
from scumble.audit.hooks import channels_of
from scumble.audit.release_claims import CONFIDENCE, within
from scumble.audit.report import Finding, Verdict
from scumble.audit.row_laws import ABSENT, RowLaw
from scumble.families.aroma.design import (
    CLOSENESS,
    DELTA_AT,
    PROFILE,
    pool_exposure,
    profile,
    profile_together,
)
from scumble.model.evidence.channels import MultisetChannel, PoolLaw
from scumble.model.evidence.evidence import Evidence, Records
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]

_DRAWS = 200_000


def channel_exposure(channel: MultisetChannel, _: Schema) -> float:
    """Return the success of the best guess of a value."""
    return pool_exposure(cast(PoolLaw, channel.law))


def count_shown(release: Release, target: str) -> Floats:
    """Return how often each sensitive value is shown with every code of `target`."""
    return count_members(release, target, _find_first_pool(release.evidence)[0])


def guess_values(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """Return the likeliest value for every code of `target`: a member of the multiset is the true
    one in proportion to its count over its share.
    """
    law = _find_first_pool(release.evidence)[1]
    return guess_likeliest(count_shown(release, target) / _read_shares(law), rng)


def find_likelihood(channel: MultisetChannel, table: pa.Table, sensitive: Attribute) -> Floats:
    """Return P(shown | value) of each row, up to a factor for each row."""
    law = cast(PoolLaw, channel.law)
    return multiset_counts(channel, table, sensitive.size) / _read_shares(law)


def _find_first_pool(evidence: Evidence) -> tuple[MultisetChannel, PoolLaw]:
    channel = cast(MultisetChannel, channels_of(evidence)[0])
    return channel, cast(PoolLaw, channel.law)


def _read_shares(law: PoolLaw) -> Floats:
    return np.array([float(share) for share in law.shares])


def find_row_law(evidence: Evidence, _: Schema, epsilon: float) -> RowLaw:
    """Return the law of a row: no ε holds, and the δ of all its multisets together."""
    multisets = cast(tuple[MultisetChannel, ...], channels_of(evidence))
    laws = tuple(cast(PoolLaw, channel.law) for channel in multisets)
    capped = len(laws) > 1 and any(law.caps is not None for law in laws)
    return RowLaw(math.inf, None if capped else profile_together(laws, (epsilon,))[0], ABSENT)


def check_promise(release: Release, promise: Guarantee) -> Finding | None:
    """Check a promise that only Aroma makes; None if it is not one of them."""
    if promise.statement == PROFILE:
        return _check_profile(release, promise)
    if promise.statement == CLOSENESS:
        return _check_closeness(release, promise)
    return None


def _check_profile(release: Release, promise: Guarantee) -> Finding | None:
    """Check δ at each ε of the profile by drawing multisets.

    Each δ is the mean of numbers from 0 to 1, whose distance from the expectation is bounded by
    Hoeffding's inequality.
    """
    channels = cast(Records, release.evidence).promised_channels(promise)
    laws = tuple(cast(PoolLaw, cast(MultisetChannel, channel).law) for channel in channels)
    if any(law.caps is not None for law in laws):
        return _check_capped(promise, laws[0]) if len(laws) == 1 else None
    margin = math.sqrt(-math.log((1 - CONFIDENCE) / len(promise.parameters)) / (2 * _DRAWS))
    claimed = {
        float(name.split()[-1]): delta
        for name, delta in promise.parameters.items()
        if name.startswith(DELTA_AT)
    }
    excess = {epsilon: estimate_delta(laws, epsilon, _DRAWS) for epsilon in claimed}
    worst = max(claimed, key=lambda epsilon: excess[epsilon] - claimed[epsilon])
    broken = excess[worst] - margin > claimed[worst]
    sentence = (
        f"In {_DRAWS} drawn multisets δ at ε = {worst:g} is {excess[worst]:.4g} (± {margin:.2g}); "
        f"promised is {claimed[worst]:.4g}."
    )
    numbers = {"found": excess[worst], "claimed": claimed[worst]}
    verdict: Verdict = "refuted" if broken else "stands"
    return Finding("drawn multisets", promise.claim, verdict, sentence, numbers, CONFIDENCE)


def _check_capped(promise: Guarantee, law: PoolLaw) -> Finding:
    """Check δ at each ε of multisets with caps by the exact sums."""
    names = [name for name in promise.parameters if name.startswith(DELTA_AT)]
    exact = profile(law, tuple(float(name.removeprefix(DELTA_AT)) for name in names))
    deltas = dict(zip(names, exact, strict=True))
    worst = max(names, key=lambda name: deltas[name] - promise.parameters[name])
    return within(promise, deltas[worst], promise.parameters[worst], worst)


def _check_closeness(release: Release, promise: Guarantee) -> Finding | None:
    """Check that no value is in a multiset more often than among n members of the pool."""
    channel, law = _find_first_pool(release.evidence)
    [file] = release.evidence.files
    table = pq.read_table(release.folder / file, columns=list(channel.columns))
    counts = multiset_counts(channel, table, law.values)
    members = counts.max(axis=0) * promise.parameters["n"] / law.size
    pool = [promise.parameters["pool"] * float(share) for share in law.shares]
    worst = float((members / np.array(pool)).max())
    what = "the count of a value in a multiset, over that in n members of the pool, at its largest,"
    return within(promise, worst, 1.0, what)


def estimate_delta(laws: Sequence[PoolLaw], epsilon: float, draws: int) -> float:
    """Estimate δ at ε of Aroma's multisets, one of each law, for the two values of each that differ
    most, from `draws` draws.

    δ = E[max(0, 1 - e^ε P(multisets | others) / P(multisets | true))], where P(multiset | v) is
    proportional to count / share of v.
    """
    deltas = []
    for turned in (False, True):
        rng, odds = np.random.default_rng(int(turned)), np.ones(draws)
        for law in laws:
            shares = np.array([float(share) for share in law.shares])
            rarest = int(np.argmin(shares))
            others = [value for value in range(law.values) if value != rarest]
            pair = rarest, max(others, key=lambda value: shares[value])
            true, instead = pair[::-1] if turned else pair
            counts = rng.multinomial(law.size - 1, shares, draws)
            counts[:, true] += 1
            odds *= counts[:, instead] * shares[true] / (counts[:, true] * shares[instead])
        deltas.append(float(np.maximum(0.0, 1 - math.exp(epsilon) * odds).mean()))
    return max(deltas)
