"""Finding: one attempt to break one claim, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# What can be said of a claim. "stands": it was tried and not refuted, which proves nothing.
# "exact": computed, not tried. "noted": what is found belongs to no claim.
Verdict = Literal["refuted", "stands", "exact", "noted"]


@dataclass(frozen=True)
class Finding:
    """What was tried against a claim, in a sentence, with the numbers behind it.

    `confidence` is the probability that a true claim is not refuted by chance; None where nothing
    was left to chance.
    """

    check: str
    claim: str
    verdict: Verdict
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    confidence: float | None = None

    @property
    def refuted(self) -> bool:
        return self.verdict == "refuted"

    @property
    def sure(self) -> str:
        """The confidence in words, if something was left to chance."""
        return "" if self.confidence is None else f"{100 * self.confidence:.6g} % confidence"

    def to_dict(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "claim": self.claim,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "numbers": dict(self.numbers),
            "confidence": self.confidence,
        }
