"""What the audit and the comparison know of single families: functions in the `check` of a family,
found by their names.

A release is judged by what it holds: its family is the one that writes its kind of evidence, or the
first channel of its rows. The method that a manifest names is not used for it: whoever forges a
manifest could choose by it which checks are made. A mechanism has the family of its name.

Of a kind of evidence:

- `find_exposure(manifest)`, `promised_exposure(manifest)`: the success of the best adversary.
- `count_shown(release, target)`: how often each sensitive value is shown with each target.
- `guess_values(release, target, rng)`: the value that the best adversary names for each target.
- `find_row_law(evidence, schema, epsilon)`: the exact law of a row.
- `link_people(release, known)`: what an attacker learns who knows some columns of everybody.
- `check_promise(release, promise)`: the finding about a promise that the family alone makes.
- `release_findings(release)`: attacks and checks of its own.
- `owner_findings(release, source, outside=, joined=)`: what only the owner of the table can tell.
- `table_exposure(release, table)`: the `GroupExposure` of the best guess, from the true table.

Of a channel:

- `channel_exposure(channel, schema)`: the success of the best guess of one value.
- `find_likelihood(channel, table, sensitive)`: P(shown | value) of each row, up to a factor.
- `channel_findings(release, channel)`: whether the rows can have come through it.

Of a mechanism:

- `publish_secret(mechanism, value, runs, seed)`: many publications of one secret.
- `run_numbers(mechanism, table, folder, schema, names)`: the numbers of one release.
- `try_claim(claim, runs, seed)`: all attempts to refute its claim.
- `check_summary(release, mechanism, promise)`: the finding in place of runs on neighbours.
- `find_published(mechanism, schema)`, `find_loss(mechanism, schema, change)`: the linear map from
  noisy to published numbers, and the loss of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from scumble.families import families, find
from scumble.model.evidence.channels import Channel
from scumble.model.evidence.evidence import Evidence

EvidenceHook = Literal[
    "find_exposure",
    "promised_exposure",
    "count_shown",
    "guess_values",
    "find_row_law",
    "link_people",
    "check_promise",
    "release_findings",
    "owner_findings",
    "table_exposure",
]
ChannelHook = Literal["channel_exposure", "find_likelihood", "channel_findings"]
MechanismHook = Literal[
    "publish_secret",
    "run_numbers",
    "try_claim",
    "check_summary",
    "find_published",
    "find_loss",
]
Hook = Callable[..., Any]


def channels_of(evidence: Evidence) -> tuple[Channel, ...]:
    """Return the channels of perturbed rows; other evidence has none."""
    channels: tuple[Channel, ...] = getattr(evidence, "channels", ())
    return channels


def of_evidence(evidence: Evidence, hook: EvidenceHook) -> Hook | None:
    """Return what the family that writes this evidence knows; None if it has no such function."""
    for channel in channels_of(evidence)[:1]:
        return _find("channels", _kind(channel), hook)
    return _find("evidence", evidence.kind, hook)


def of_channel(channel: Channel, hook: ChannelHook) -> Hook | None:
    """Return what the family that writes this channel knows; None if it has no such function."""
    return _find("channels", _kind(channel), hook)


def of_mechanism(name: str, hook: MechanismHook) -> Hook | None:
    """Return what the family of the mechanism of this name knows; None if it has no such function,
    or if no family has the mechanism.
    """
    return _find("mechanisms", name, hook)


def _kind(channel: Channel) -> str:
    """Return the kind of a channel; of multisets, that of their law."""
    return str(getattr(channel, "law", channel).kind)


def _find(
    record: Literal["mechanisms", "evidence", "channels"], name: str, hook: str
) -> Hook | None:
    """Return the function of the family whose record has this name."""
    owners = (family for family, known in families().items() if name in getattr(known, record))
    owner = next(owners, None)
    check = None if owner is None else find(owner, "check")
    function: Hook | None = getattr(check, hook, None)
    return function
