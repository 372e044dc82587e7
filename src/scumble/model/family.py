"""What a family of mechanisms says about itself: names only, so that reading it loads no code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Family:
    """The names of a family. Its code is in the modules of its folder that are named by their
    role: `design`, `read`, `publish` and `check`.

    `order` says where its mechanisms stand in lists. `mechanisms` has the name of each on the
    command line and its class in `publish`; `evidence` the kinds of evidence in manifests that the
    family alone writes, and their classes in `design` (`read` has the functions `answer` and
    `answer_together` for them); `designs` the kinds of measurements, and their classes in `design`
    and `read`; `verbs` the methods of a release besides `answer` that a class in `read` has which
    is not the reader of a design; `channels` the kinds of channels of records, or of laws of
    multisets in them.
    """

    order: int
    mechanisms: Mapping[str, str]
    evidence: Mapping[str, str] = field(default_factory=dict)
    designs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    verbs: Mapping[str, str] = field(default_factory=dict)
    channels: Sequence[str] = ()
