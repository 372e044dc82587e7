"""Twin: a mechanism that is broken on purpose beside the honest one, and the check for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scumble.audit.mechanism_claims import tried
from scumble.audit.report import Finding
from scumble.private.mechanism_metadata import Claim

Check = Callable[[int, int], Iterable[Finding]]  # runs and a seed to findings


@dataclass(frozen=True)
class Twin:
    """What is broken, in words, the same check of the broken and of the honest one, and how many
    runs it takes to tell them apart.
    """

    name: str
    broken: Check
    honest: Check
    runs: int


def claimed(claim: Claim) -> Check:
    """All that the catalogue tries against a claim."""
    return lambda runs, seed: tried(claim, runs, seed=seed)
