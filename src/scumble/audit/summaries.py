"""The promise of a released summary against its own mechanism, run on neighbouring tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scumble.audit.finding import Finding, Verdict
from scumble.audit.fixed_plans import lost
from scumble.audit.neighbours import Counts, changes
from scumble.audit.recorder import Spent, measured
from scumble.errors import ScumbleError
from scumble.guarantee import NEIGHBOURS, Guarantee
from scumble.mechanism import Summary, create
from scumble.noise.hidden import Hidden
from scumble.release import Release

MOST_CELLS = 1 << 20
_CELLS = 12  # in so many a person is tried


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
            "terms; its steps are compared by `scumble audit --all`."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    allowed = mechanism.promise
    found, most = (loss.epsilon, allowed.epsilon) if allowed.pure else (loss.rho, allowed.rho)
    tried_all = len(_places(cells)) == cells
    verdict: Verdict = "refuted" if found > most else "exact" if tried_all else "stands"
    letter = "ε" if allowed.pure else "ρ"
    sentence = (
        f"Between neighbouring tables the noise of this release loses {letter} = "
        f"{float(found):.6g} at most, where it was tried; promised is {float(most):.6g}."
    )
    numbers = {"found": float(found), "claimed": float(most)}
    return Finding("neighbouring tables", claim, verdict, sentence, numbers)


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
