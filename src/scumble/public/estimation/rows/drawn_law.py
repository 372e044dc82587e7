"""The error law of a count to which draws from a public pool were added.

`shown` values count: those of the rows that truly do, and a binomial number of draws. The draws
know nothing of the rows, so the error is the binomial number without its mean, whatever the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar


@dataclass(frozen=True)
class DrawnCount:
    """Count estimate `shown - draws * share`, for `rows` rows and `draws` draws in all."""

    exact: ClassVar[bool] = True

    rows: int
    shown: int
    draws: int
    share: float

    @property
    def value(self) -> float:
        return self.shown - self.draws * self.share

    @property
    def stderr(self) -> float:
        return math.sqrt(self.draws * self.share * (1 - self.share))

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """All counts that leave a number of draws which its law does not reject, and the estimate
        itself.
        """
        tail = (1 - level) / 2
        fewest = _quantile(self.draws, self.share, tail)
        most = self.draws - _quantile(self.draws, 1 - self.share, tail)
        low, high = (min(max(self.shown - n, 0), self.rows) for n in (most, fewest))
        return min(float(low), value), max(float(high), value)


def _quantile(draws: int, share: float, tail: float) -> int:
    """The least number that Bin(draws, share) does not exceed with a probability above `tail`."""
    spread = math.sqrt(draws * share * (1 - share))
    guess = round(draws * share + NormalDist().inv_cdf(tail) * spread)
    found = min(max(guess, 0), draws)
    while found > 0 and _at_most(draws, share, found - 1) > tail:
        found -= 1
    while found < draws and _at_most(draws, share, found) <= tail:
        found += 1
    return found


def _at_most(draws: int, share: float, number: int) -> float:
    """P(Bin(draws, share) <= number), for a number below `draws`."""
    from scipy.special import betainc

    return float(betainc(draws - number, number + 1, 1 - share))
