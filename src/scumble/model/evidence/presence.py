"""Inclusion probabilities: how likely a tuple is in a published view, if it is true or false."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from scumble.model import stored


@dataclass(frozen=True)
class ReplacedTuples:
    """The law of a published multiset: every true tuple is kept with probability `keep`, and else
    replaced by a uniform tuple of the whole domain. The view has as many rows as the table.
    """

    kind: ClassVar[str] = "replaced"

    rows: int
    keep: Fraction

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rows": self.rows, "keep": str(self.keep)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReplacedTuples:
        return cls(stored.whole(data["rows"]), stored.share(data["keep"]))


@dataclass(frozen=True)
class InclusionProbabilities:
    """The law of a published set: a true tuple is in the view with probability `kept`, a false one
    with probability `noise`.

    `sources` maps attributes to weights p_j that add up to 1; attributes without weights are
    uniform. Then a false tuple t is present with probability noise · |D| · Π p_j(t_j), and a true
    one with `kept - noise` more. The mean over the domain D is `noise` in either case.

    Up to `multiplicity` copies of a tuple count as different tuples, which the column `occurrence`
    of the file tells apart. The file has this column only if `multiplicity` is above 1.

    With `most` views, a row of the file is a tuple that is in at least one of the `views` made so
    far. Bit i - 1 of its column `views` tells whether view i has it. The file has this column only
    if `most` is above 1. In view i > 1 a true tuple is present with probability `kept`, a false one
    that an earlier view has with kept · `fade`, any other with noise · (1 - kept)^(i - 1).
    """

    kind: ClassVar[str] = "included"
    occurrence: ClassVar[str] = "occurrence"
    views_column: ClassVar[str] = "views"

    rows: int
    kept: Fraction
    noise: Fraction
    multiplicity: int = 1
    sources: Mapping[str, tuple[Fraction, ...]] | None = None
    most: int = 1
    views: int = 1
    fade: Fraction = Fraction(1)
    collapsed: bool = False  # duplicate rows of the table were removed

    def noise_of(self, view: int) -> Fraction:
        """Return the probability of a false tuple in the given view (from 1 on), if no earlier
        view has it.
        """
        return self.noise * (1 - self.kept) ** (view - 1)

    def to_dict(self) -> dict[str, Any]:
        sources = {name: list(map(str, shares)) for name, shares in (self.sources or {}).items()}
        return {
            "kind": self.kind,
            "rows": self.rows,
            "kept": str(self.kept),
            "noise": str(self.noise),
            "multiplicity": self.multiplicity,
            "sources": sources or None,
            "most": self.most,
            "views": self.views,
            "fade": str(self.fade),
            "collapsed": self.collapsed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InclusionProbabilities:
        given = data["sources"]
        return cls(
            rows=stored.whole(data["rows"]),
            kept=stored.share(data["kept"]),
            noise=stored.share(data["noise"]),
            multiplicity=stored.whole(data["multiplicity"], 1),
            sources=given
            and {name: stored.items(stored.share, each) for name, each in given.items()},
            most=stored.whole(data["most"], 1),
            views=stored.whole(data["views"], 1),
            fade=stored.share(data["fade"]),
            collapsed=stored.flag(data["collapsed"]),
        )


Presence = ReplacedTuples | InclusionProbabilities
_KINDS: Mapping[str, Any] = {kind.kind: kind for kind in (ReplacedTuples, InclusionProbabilities)}


def presence_from_dict(data: Mapping[str, Any]) -> Presence:
    """Return the law that a manifest holds as `data`."""
    found: Presence = _KINDS[data["kind"]].from_dict(data)
    return found
