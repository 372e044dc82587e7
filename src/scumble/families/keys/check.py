"""What the audit knows of keys: whether a release states the noise that its promise needs."""

from __future__ import annotations

from fractions import Fraction

from scumble.audit.report import Finding
from scumble.families.keys.design import OpenKeys
from scumble.families.keys.publish import Keys
from scumble.model.privacy.guarantee import Guarantee
from scumble.public.release import Release


def check_summary(release: Release, mechanism: Keys, promise: Guarantee) -> Finding:
    """Compare the noise and the thresholds that a release of keys states with those it needs."""
    claim, given = f"{promise.statement} of {mechanism.name}", promise.parameters
    design = getattr(release.evidence, "design", None)
    fits = isinstance(design, OpenKeys) and design.levels == mechanism.levels()
    promised = Fraction(given["epsilon"]) >= mechanism.promise.epsilon
    if fits and promised and Fraction(given.get("delta", 0)) >= mechanism.promise.delta:
        sentence = "The noise and the thresholds that it states are those that its promise needs."
        return Finding("keys", claim, "stands", sentence)
    sentence = "It states other noise or other thresholds than its promise needs."
    return Finding("keys", claim, "refuted", sentence)
