"""The promise of a released summary against its own mechanism, run on neighbouring tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf

import numpy as np

from scumble.audit.claim import ADAPTIVE
from scumble.audit.finding import Finding, Verdict
from scumble.audit.neighbours import Counts, changes
from scumble.audit.recorder import Spent, measured
from scumble.audit.stated_noise import StatedNoise
from scumble.audit.summary_plans import lost
from scumble.model.errors import ScumbleError
from scumble.model.privacy.concentrated import epsilon_for
from scumble.model.privacy.guarantee import NEIGHBOURS, Guarantee
from scumble.private.mechanism import Summary, create
from scumble.private.sampling.hidden import Hidden
from scumble.public.release import Release

MOST_CELLS = 1 << 20
_CELLS = 12  # in so many a person is tried
_ROUNDING = 1e-6  # of an ε that follows from ρ


def summary_findings(release: Release) -> Iterator[Finding]:
    """What neighbouring tables lose to the mechanism of this release, exactly."""
    manifest = release.manifest
    try:
        mechanism = create(manifest.mechanism, **manifest.parameters)
    except ScumbleError as error:
        sentence = f"Its mechanism cannot be made again from its parameters: {error}"
        yield Finding("neighbouring tables", manifest.mechanism, "noted", sentence)
        return
    [promise, *_] = manifest.guarantees
    if not isinstance(mechanism, Summary) or "epsilon" not in promise.parameters:
        return
    yield _finding(release, mechanism, promise)


def _finding(release: Release, mechanism: Summary, promise: Guarantee) -> Finding:
    claim = f"{promise.statement} of {mechanism.name}"
    names = release.evidence.columns
    cells = release.schema.size(names)
    if cells > MOST_CELLS:
        sentence = f"Not tried: the domain has {cells:.3g} cells, more than {MOST_CELLS}."
        return Finding("neighbouring tables", claim, "noted", sentence)
    loss = None if mechanism.name in ADAPTIVE else _largest(release, mechanism, promise)
    if loss is None:
        sentence = (
            "What this method measures depends on the data, so that its loss is not a sum of known "
            "terms; its steps are compared by `scumble audit --all`."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    noise = StatedNoise.of(release, mechanism)
    if noise is None or noise.narrower is not None:
        return _other(claim, noise)
    letter, found, most = _compared(loss, promise)
    tried_all = len(_places(cells)) == cells
    verdict: Verdict = "refuted" if found > most else "exact" if tried_all else "stands"
    sentence = (
        f"Between neighbouring tables the noise of this release loses {letter} = "
        f"{float(found):.6g} at most, where it was tried; promised is {float(most):.6g}."
    )
    numbers = {"found": float(found), "claimed": float(most)}
    return Finding("neighbouring tables", claim, verdict, sentence, numbers)


def _other(claim: str, noise: StatedNoise | None) -> Finding:
    """About a release that says of itself something else than its method and parameters do."""
    if noise is None:
        sentence = (
            "Not tried: the release states other sums than its method measures here with the same "
            "parameters."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    sentence = f"The release states less noise than its method needs: {noise.narrower}."
    return Finding("neighbouring tables", claim, "refuted", sentence)


def _compared(loss: Spent, promise: Guarantee) -> tuple[str, float | Fraction, float | Fraction]:
    """What is lost and what the release promises, in ε or ρ: its own numbers, and not those that
    follow from its parameters.
    """
    given = promise.parameters
    epsilon = Fraction(given["epsilon"])
    if not loss.rho:
        return "ε", loss.epsilon, epsilon
    rho = loss.rho + loss.epsilon**2 / 2
    implied = epsilon_for(rho, given["delta"]) if "delta" in given else inf
    if "rho" not in given or implied > epsilon * Fraction(1 + _ROUNDING):
        return "ε", implied, epsilon
    return "ρ", rho, Fraction(given["rho"])


def _largest(release: Release, mechanism: Summary, promise: Guarantee) -> Spent | None:
    """The largest loss between an empty table and one person, or two people in its place."""
    names, schema = release.evidence.columns, release.schema
    rows = int(promise.parameters.get("contribution", 1))
    empty: Counts = np.zeros(schema.size(names), np.int64)
    records: dict[bytes, list[Hidden]] = {}
    largest: Spent | None = None
    for one, other in changes(empty, _places(len(empty)), _relation(promise), rows):
        for table in (one, other):
            if (key := table.tobytes()) not in records:
                records[key] = measured(mechanism, schema, names, table)
        pair = records[one.tobytes()], records[other.tobytes()]
        loss = lost(mechanism, schema, one - other, pair)
        if loss is None:
            return None
        if largest is None or loss.epsilon + loss.rho > largest.epsilon + largest.rho:
            largest = loss
    return largest


def _places(cells: int) -> list[int]:
    """Cells where a person may be: both ends of the domain, and places between them."""
    found: list[int] = np.unique(np.linspace(0, cells - 1, _CELLS).round().astype(int)).tolist()
    return found


def _relation(promise: Guarantee) -> str:
    return next(name for name, words in NEIGHBOURS.items() if words == promise.neighbourhood)
