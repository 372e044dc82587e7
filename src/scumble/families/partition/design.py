"""What is known of the promises of a partition from its channel alone."""

from __future__ import annotations

from collections.abc import Sequence

from scumble.model.evidence.channels import PartitionChannel
from scumble.model.privacy.computed import Computed, at_most
from scumble.model.privacy.guarantee import Guarantee

NOTHING = "NOTHING IS PROTECTED"  # begins the sentence of a release that shows rows as they are


def compute_promise(promise: Guarantee, channels: Sequence[PartitionChannel]) -> Computed | None:
    """Return the posterior of a value that is shown as it is, unless the promise says so; None for
    any other promise.
    """
    stated = promise.statement != "restricted (ρ1, ρ2)-privacy" or promise.sentence.startswith(
        NOTHING
    )
    if stated or not any(1 in channel.keeps for channel in channels):
        return None
    return at_most(promise, "rho2", 1.0, "the posterior of a value that is shown as it is")
