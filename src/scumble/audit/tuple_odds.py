"""Tuples that are in views or not: how far what is shown of one can move the odds that it is true.

All patterns of the views are gone through, with the probabilities that are published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, inf, log, prod

from scumble.model.evidence.presence import Included


@dataclass(frozen=True)
class Pattern:
    """Which views show a tuple, with the probabilities if it is true and if it is false; `times` is
    how many patterns there are with these probabilities.
    """

    true: Fraction
    false: Fraction
    times: int


def patterns(presence: Included, relative: Fraction = Fraction(1)) -> Iterator[Pattern]:
    """Every pattern of the views made so far: first in some view and in so many of the later ones,
    in any order; the last one is never. Sources make false tuples more or less likely than in the
    mean, by the factor `relative`, in the only view that there is then.
    """
    kept, faded = presence.kept, presence.kept * presence.fade
    own = kept + (relative - 1) * presence.noise
    true = false = Fraction(1)  # no view so far
    for view in range(1, presence.views + 1):
        noise, later = presence.noise_of(view) * relative, presence.views - view
        for again in range(later + 1):
            yield Pattern(
                true * own * kept**again * (1 - kept) ** (later - again),
                false * noise * faded**again * (1 - faded) ** (later - again),
                comb(later, again),
            )
        true, false = true * (1 - own), false * (1 - noise)
    yield Pattern(true, false, 1)


@dataclass(frozen=True)
class TupleOdds:
    """What the views of a law may show of a tuple out of `domain` possible ones.

    With sources, of those that noise shows least and most often: all ratios of true to false fall
    as that grows, and posteriors from priors in proportion to it are larger at the ends too.
    """

    law: Included
    domain: int

    @cached_property
    def _seen(self) -> list[tuple[Fraction, Pattern]]:
        """The share of a tuple in the sources, and a pattern that can happen."""
        sources = list((self.law.sources or {}).values())
        ends = [
            prod((len(each) * end(each) for each in sources), start=Fraction(1))
            for end in (min, max)
        ]
        return [
            (relative / self.domain, pattern)
            for relative in dict.fromkeys(ends)
            for pattern in patterns(self.law, relative)
            if pattern.true or pattern.false
        ]

    @cached_property
    def least(self) -> Fraction:
        """The smallest ratio: the factor by which a prior near 0 can fall, and no other falls by
        more.
        """
        return min(each.true / each.false for _, each in self._seen if each.false)

    @cached_property
    def most(self) -> Fraction | None:
        """The largest ratio; None if it has no limit."""
        if any(not each.false for _, each in self._seen):
            return None
        return max(each.true / each.false for _, each in self._seen)

    def end(self, prior: Fraction) -> Fraction:
        """Where a prior can end, if tuples are independent."""
        return max(_bayes(prior, each.true, each.false) for _, each in self._seen)

    def end_by_share(self, k: Fraction) -> Fraction:
        """The same for a prior of k times the number of rows times the share of the tuple."""
        rows = max(self.law.rows, 1)
        return max(
            _bayes(min(k * rows * share, Fraction(1)), each.true, each.false)
            for share, each in self._seen
        )

    def end_of_one(self, prior: Fraction) -> Fraction:
        """The same if exactly one of several tuples is true and none had more than `prior`: one
        shows what speaks most for it, all others what speaks most against them.
        """
        return Fraction(1) if self.most is None else _bayes(prior, self.most, self.least)

    def loss(self, *, replaced: bool) -> float:
        """The largest loss of one tuple: added or removed, or taken away for another one, which is
        then shown with a pattern of its own.
        """
        up = inf if self.most is None else log(self.most)
        down = -log(self.least) if self.least else inf
        return up + down if replaced else max(up, down)


def _bayes(prior: Fraction, true: Fraction, false: Fraction) -> Fraction:
    """Nothing of what cannot happen: who is sure of a tuple will not see what no true one shows."""
    seen = prior * true + (1 - prior) * false
    return prior * true / seen if seen else Fraction(0)
