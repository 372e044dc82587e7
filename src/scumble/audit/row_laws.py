"""The exact law of a published row against a claimed ε: the largest ratio of the probabilities of
what is shown for two sensitive values, and the δ that an ε needs.

No run and no chance is in it: a claim below the law is refuted, however rarely the difference shows
in a game.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from scumble.audit import hooks
from scumble.audit.report import Finding
from scumble.model.evidence.channels import Channel
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.guarantee import at_least
from scumble.model.schema.schema import Schema

_LARGEST = 700.0  # the exponential of a larger ε is not a float, and its δ is the same
_SLACK = 1e-9  # of a logarithm of a ratio that was chosen for an ε

EXCLUDED = "What is shown for one sensitive value is impossible for another, by the exact law of"
SHOWN = f"{EXCLUDED} a row: it shows the true value"
ABSENT = f"{EXCLUDED} a row: a value outside of its multiset is excluded"


@dataclass(frozen=True)
class RowLaw:
    """The loss of the sensitive values of one row: infinite if no ε holds, for the reason `why`.

    `delta` is the least δ at the ε that was asked for; None where it is not computed.
    """

    epsilon: float
    delta: float | None
    why: str = ""


def row_law(evidence: Evidence, schema: Schema, epsilon: float) -> RowLaw | None:
    """Return the law of the rows of a release with its δ at `epsilon`; None if it has no rows."""
    epsilon = min(epsilon, _LARGEST)
    own = hooks.of_evidence(evidence, "find_row_law")
    if own is None:
        return None
    law: RowLaw = own(evidence, schema, epsilon)
    return law


def law_of_channels(
    channels: tuple[Channel, ...], schema: Schema, delta: float | None, why: str = SHOWN
) -> RowLaw:
    """Return the law of independent channels, whose losses add up; `why` is the reason if one of
    them is unbounded.
    """
    ratios = [channel.amplification(schema) for channel in channels]
    if None in ratios:
        return RowLaw(math.inf, delta, why)
    return RowLaw(math.fsum(math.log(ratio or 1) for ratio in ratios), delta)


def uniform_delta(keep: Fraction, values: int, epsilon: float) -> float:
    """Return δ at ε of a uniform channel: Σ max(0, P(shown | one) - e^ε P(shown | other)) over all
    that can be shown.
    """
    return max(0.0, float(keep) + (1 - float(keep)) / values * -math.expm1(epsilon))


def law_finding(name: str, law: RowLaw, claimed: float) -> Finding:
    """Return whether the exact law of a row allows a claimed ε."""
    broken = law.epsilon > claimed * (1 + _SLACK)
    if law.epsilon == math.inf:
        sentence = f"{law.why}, so that no ε holds"
    else:
        sentence = (
            "By the exact law of a row, what is shown is more likely for one sensitive value than "
            f"for another by a factor of up to {at_least(math.exp(law.epsilon))}: "
            f"ε = {law.epsilon:.6g}"
        )
    if broken and law.delta is not None:
        sentence += f"; at ε = {claimed:g} it needs δ = {law.delta:.4g}"
    elif broken:
        sentence += f"; claimed is {claimed:g}"
    else:
        sentence += f", within the {claimed:g} claimed"
    numbers = {"found": law.epsilon, "claimed": claimed}
    if law.delta is not None:
        numbers["delta at the claimed epsilon"] = law.delta
    return Finding(
        "exact law",
        f"{name} keeps ε = {claimed:g} for the sensitive value of a row",
        "refuted" if broken else "exact",
        f"{sentence}.",
        numbers,
    )
