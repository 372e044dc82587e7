"""What a family of mechanisms says about itself: names only, so that reading it loads no code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# What people do with a release, with the heading in lists of methods.
Use = Literal["rows", "counts", "synthetic", "lists", "classic"]
USES: Mapping[Use, str] = {
    "counts": "Noisy counts: tables for a publication, and questions",
    "synthetic": "Synthetic rows, for tools",
    "rows": "Rows with perturbed values, for tools and questions",
    "lists": "Lists: keys, baskets, sequences and trips",
    "classic": "Methods of the literature, with older promises",
}


@dataclass(frozen=True)
class Family:
    """The names of a family. Its code is in the modules of its folder that are named by their
    role: `design`, `read`, `publish` and `check`.

    `order` says where its mechanisms stand in lists, and `use` under which heading. `mechanisms`
    has the name of each on the command line and its class in `publish`; `publishes` says in a line
    what each publishes; `evidence` has the kinds of evidence in manifests that the family alone
    writes, and their classes in `design` (`read` has the functions `answer` and `answer_together`
    for them); `designs` the kinds of measurements, and their classes in `design` and `read`;
    `verbs` the methods of a release besides `answer` that a class in `read` has which is not the
    reader of a design; `channels` the kinds of channels of records, or of laws of multisets in
    them; `views` the attributes that releases of some of its mechanisms have and others lack
    (`public/views.py`), with the names of these mechanisms.
    """

    order: int
    use: Use
    mechanisms: Mapping[str, str]
    publishes: Mapping[str, str]
    evidence: Mapping[str, str] = field(default_factory=dict)
    designs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    verbs: Mapping[str, str] = field(default_factory=dict)
    channels: Sequence[str] = ()
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
