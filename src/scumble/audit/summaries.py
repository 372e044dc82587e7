"""The promise of a released summary against its own mechanism, run on neighbouring tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scumble.audit.finding import Finding, Verdict
from scumble.audit.recorder import Counts, Spent, measured, spent
from scumble.errors import ScumbleError
from scumble.guarantee import Guarantee
from scumble.mechanism import Summary, create
from scumble.release import Release

MOST_CELLS = 1 << 20
_CELLS = 12  # where a person may be: the ends of the domain, and places between them


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
    loss = _largest(release, mechanism, promise)
    if loss is None:
        sentence = (
            "What this method measures depends on the data, so that its loss is not a sum of known "
            "terms; see the distinguishing test (scumble audit --all)."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    allowed = mechanism.promise
    found, most = (loss.epsilon, allowed.epsilon) if allowed.pure else (loss.rho, allowed.rho)
    verdict: Verdict = "refuted" if found > most else "exact"
    letter = "ε" if allowed.pure else "ρ"
    sentence = (
        f"Between neighbouring tables the noise of this release loses {letter} = "
        f"{float(found):.6g} at most, where it was tried; promised is {float(most):.6g}."
    )
    numbers = {"found": float(found), "claimed": float(most)}
    return Finding("neighbouring tables", claim, verdict, sentence, numbers)


def _largest(release: Release, mechanism: Summary, promise: Guarantee) -> Spent | None:
    """The largest loss between an empty table and one person, or two people in its place."""
    names = release.evidence.columns
    size, rows = release.schema.size(names), int(promise.parameters.get("contribution", 1))
    places = np.unique(np.linspace(0, size - 1, min(size, _CELLS)).round().astype(np.int64))
    empty: Counts = np.zeros(size, np.int64)
    tables = [_with(empty, place, rows) for place in places]
    if promise.neighbourhood == "add or remove one person":
        tables.append(empty)
        pairs = [(len(tables) - 1, place) for place in range(len(places))]
    else:
        pairs = [(one, other) for one in range(len(tables)) for other in range(one)]
    seen = [measured(mechanism, release.schema, names, table) for table in tables]
    losses = [spent(seen[one], seen[other]) for one, other in pairs]
    if any(loss is None for loss in losses) or not any(seen):
        return None
    return max((loss for loss in losses if loss), key=lambda loss: loss.epsilon + loss.rho)


def _with(counts: Counts, place: np.int64, rows: int) -> Counts:
    changed = counts.copy()
    changed[place] += rows
    return changed
