"""Presence: with which probability a tuple is in a published view, if it is true and if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar


@dataclass(frozen=True)
class ReplacedTuples:
    """A bag: every true tuple is kept with probability `keep`, else replaced by a uniform one of
    the whole domain. The view has as many rows as the table.
    """

    kind: ClassVar[str] = "replaced"

    rows: int
    keep: Fraction

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rows": self.rows, "keep": str(self.keep)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReplacedTuples:
        return cls(int(data["rows"]), Fraction(data["keep"]))


@dataclass(frozen=True)
class InclusionProbabilities:
    """A set: a true tuple is in the view with probability `kept`, a false one with `noise`.

    With `sources` (attribute to weights that add up to 1, for all or some attributes; the others
    are uniform) a false tuple t is there with probability noise · |D| · Π p_j(t_j), and a true one
    with `kept - noise` more than that: the mean over the domain is `noise`, uniform or not.

    `multiplicity` copies of a tuple count as different tuples, told apart by the column
    `occurrence` of the file (there only if it is above 1).

    With `most` views, a row of the file is a tuple that is in at least one of the `views` made so
    far, and bit i - 1 of its column `views` says whether view i has it (there only if `most` is
    above 1). In view i > 1 a true tuple is present with probability `kept`, a false one that an
    earlier view has with kept · `fade`, any other with noise · (1 - kept)^(i - 1).
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
    collapsed: bool = False  # equal rows of the table were made one

    def noise_of(self, view: int) -> Fraction:
        """The probability of a false tuple that no earlier view has, in view 1, 2, ..."""
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
            rows=int(data["rows"]),
            kept=Fraction(data["kept"]),
            noise=Fraction(data["noise"]),
            multiplicity=int(data["multiplicity"]),
            sources=given and {name: tuple(map(Fraction, each)) for name, each in given.items()},
            most=int(data["most"]),
            views=int(data["views"]),
            fade=Fraction(data["fade"]),
            collapsed=bool(data["collapsed"]),
        )


Presence = ReplacedTuples | InclusionProbabilities
_KINDS: Mapping[str, Any] = {kind.kind: kind for kind in (ReplacedTuples, InclusionProbabilities)}


def presence_from_dict(data: Mapping[str, Any]) -> Presence:
    """A presence out of a manifest."""
    found: Presence = _KINDS[data["kind"]].from_dict(data)
    return found
