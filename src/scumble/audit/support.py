"""Whether the last bits of published numbers tell from which table they come (Mironov, 2012).

A real number of a computer has 53 bits. Noise that is computed in them and added to a count can
reach some numbers and not others, and which ones depends on the count: a number that only one of
two tables can give tells them apart for sure, whatever the scale of the noise.
"""

from __future__ import annotations

import numpy as np

from scumble.audit.claims import CONFIDENCE
from scumble.audit.distinguish import distinguish
from scumble.audit.events import Outputs
from scumble.audit.finding import Finding, Verdict


def grain(numbers: Outputs) -> Outputs:
    """The exponent of the last bit of each number that is not 0; of 0 itself, 64."""
    fractions, exponents = np.frexp(numbers)
    whole = np.ldexp(np.abs(fractions), 53).astype(np.int64)
    last = np.log2(np.where(whole == 0, 1, whole & -whole).astype(np.float64))
    found: Outputs = np.where(whole == 0, 64.0, exponents - 53 + last)
    return found


def support_finding(claim: str, one: Outputs, other: Outputs, epsilon: float) -> Finding:
    """What the last bits of outputs of two neighbouring tables tell, against a promised ε."""
    if all(np.array_equal(numbers, np.round(numbers)) for numbers in (one, other)):
        sentence = "All published numbers are whole: they have no bits that noise left alone."
        return Finding("last bits", claim, "stands", sentence)
    found = distinguish(grain(one), grain(other), confidence=CONFIDENCE)
    sentence = (
        f"The last bits of the numbers of {found.runs} runs imply an ε of at least "
        f"{found.epsilon:.4g} ({found.event}); promised is {epsilon:.4g}."
    )
    verdict: Verdict = "refuted" if found.epsilon > epsilon else "stands"
    numbers = {"epsilon at least": found.epsilon, "claimed": epsilon}
    return Finding("last bits", claim, verdict, sentence, numbers, CONFIDENCE)
