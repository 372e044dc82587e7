"""How far a published view, or several, can move the odds that a tuple is true: exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from scumble.model.evidence.presence import Included
from scumble.model.privacy.guarantee import posterior_at_most


@dataclass(frozen=True)
class Odds:
    """The largest and the smallest factor between the odds of a tuple before and after: the
    extremes of P(what is seen of it | true) / P(what is seen of it | false).
    """

    most: Fraction
    least: Fraction

    @property
    def factor(self) -> Fraction:
        """The larger of the two ways, as a factor above 1."""
        return max(self.most, 1 / self.least)

    @property
    def spread(self) -> Fraction:
        """The factor between two tuples of which one is true and the other not."""
        return self.most / self.least

    def end(self, prior: Fraction) -> Fraction:
        """Where a prior can end at most, if tuples are independent."""
        return posterior_at_most(prior, self.most)

    def end_of_one(self, prior: Fraction) -> Fraction:
        """The same if exactly one of several tuples is true, and each had at most this prior."""
        return posterior_at_most(prior, self.spread)


def odds_of(presence: Included) -> Odds:
    """The odds of all views that were planned; those of fewer views lie between."""
    if presence.sources:
        return _of_sources(presence)
    ratios = list(_of_views(presence))
    return Odds(max(ratios), min(ratios))


def extremes(presence: Included) -> tuple[Fraction, Fraction]:
    """The smallest and the largest probability of a false tuple in the first view."""
    shares = (presence.sources or {}).values()
    low = prod((len(each) * min(each) for each in shares), start=presence.noise)
    high = prod((len(each) * max(each) for each in shares), start=presence.noise)
    return Fraction(low), Fraction(high)


def _of_sources(presence: Included) -> Odds:
    """Seen: (α + β(t)) / β(t), most where β(t) is smallest. Not seen: (1 − α − β(t)) / (1 − β(t)),
    least where it is largest.
    """
    alpha = presence.kept - presence.noise
    low, high = extremes(presence)
    return Odds((alpha + low) / low, (1 - alpha - high) / (1 - high))


def _of_views(presence: Included) -> Iterator[Fraction]:
    """The ratios of the histories that can be extreme.

    A history is: never, or first in view j and then in s of the v − j later ones. With a = `kept`,
    f = `fade` and c_i the noise of view i, its ratio is

        (1−a)^v / Π(1−c_i)       or       (1−a)^(j−1) a / (Π_{i<j}(1−c_i) c_j) · x^s · y^(v−j−s)

    with x = 1/f ≥ 1 for every later view that has the tuple, and y = (1−a)/(1−af) ≤ 1 for every one
    that has it not: so for each j, s = 0 and s = v − j are the extremes.
    """
    kept, fade, views = presence.kept, presence.fade, presence.most
    again, away = 1 / fade, (1 - kept) / (1 - kept * fade)
    unseen = Fraction(1)  # the ratio of a tuple that no view had so far
    for view in range(1, views + 1):
        noise = presence.noise_of(view)
        first = unseen * kept / noise
        yield first * again ** (views - view)
        yield first * away ** (views - view)
        unseen *= (1 - kept) / (1 - noise)
    yield unseen
