"""The design of open keys: keys that are in no schema, and the laws of their counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from scumble.model import stored
from scumble.model.designs.design import Design
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.laws.key_noise import KeyNoise
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, counts_loss

FOR_COUNTS = Fraction(3, 10)  # of the precision of Gaussian noise

KeyLaw = KeyNoise | DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True)
class KeyLevel:
    """The keys over the first `columns` columns, and the law of their counts.

    `noise` is the law of a published count, if counts are published. A key was published if its
    count with noise of `selection` was above `threshold`: with the same noise that is published if
    `fresh` is False, so that a count near the threshold is probably too large. Without `selection`
    the threshold was for another number than the count.
    """

    columns: int
    noise: KeyLaw | None
    fresh: bool
    selection: KeyLaw | None = None
    threshold: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "noise": self.noise and self.noise.to_dict(),
            "fresh": self.fresh,
            "selection": self.selection and self.selection.to_dict(),
            "threshold": self.threshold,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KeyLevel:
        level = cls(
            stored.whole(data["columns"], 1),
            _read_law(data["noise"]),
            stored.flag(data["fresh"]),
            _read_law(data["selection"]),
            stored.whole(data["threshold"]),
        )
        if not level.fresh and level.noise not in (None, level.selection):
            raise ValueError("a count that is not measured again has the noise of the selection")
        return level

    @property
    def bias(self) -> float:
        """The mean of the noise of a count."""
        return self.noise.mean if isinstance(self.noise, KeyNoise) else 0.0

    # --- what a count, or its absence, tells about the number of people -------------------------

    def limits(self, count: int, miss: float) -> tuple[int, int]:
        """Return the least and the largest number of people of a key that was published with
        `count`, each wrong with probability miss/2 at most, given that the key was published.

        With noise X of `selection`, n people are published with count v with probability
        P(X = v - n) / P(X > threshold - n). As the logarithm of P(X = x) is concave, P(at least v |
        published) grows with n, and the limits are where it passes miss/2 and 1 - miss/2.
        """
        if self.noise is None:
            raise ValueError("no counts were published")
        if self.fresh:
            half = math.ceil(self.noise.half_width(1 - miss))
            return max(count - half, 0), max(count + half, 0)
        low = _find_first(lambda n: self._compute_chance(count, n) > miss / 2, 1, max(count, 1))
        high = _find_first(
            lambda n: 1 - self._compute_chance(count + 1, n) <= miss / 2, low, count + 1
        )
        return low, max(high - 1, low)

    def _compute_chance(self, count: int, people: int) -> float:
        """P(published count >= `count`), given that the key of `people` people is published."""
        if count <= self.threshold + 1 or self.selection is None:
            return 1.0
        shown = _compute_tail(self.selection, self.threshold - people)
        return _compute_tail(self.selection, count - 1 - people) / shown if shown else 0.0

    def most_unseen(self, miss: float) -> float:
        """Return a number such that a key of more people is left out with probability `miss` at
        most; infinite if the design does not tell.
        """
        if self.selection is None:
            return math.inf
        law, threshold = self.selection, self.threshold
        return (
            _find_first(lambda n: 1 - _compute_tail(law, threshold - n) <= miss, 1, threshold + 1)
            - 1
        )


def _compute_tail(law: KeyLaw, x: int) -> float:
    """P(noise > x), of symmetric laws a lower tail, which keeps its digits."""
    return law.above(x) if isinstance(law, KeyNoise) else law.cdf(-x - 1)


def _find_first(holds: Any, low: int, guess: int) -> int:
    """Return the smallest n >= low for which `holds` is true; it is true from some n on."""
    if holds(low):
        return low
    below, above = low, max(guess, low + 1)
    while not holds(above):
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def _read_law(data: Mapping[str, Any] | None) -> KeyLaw | None:
    if data is None:
        return None
    law = law_from_dict(data)
    if not isinstance(law, KeyLaw):
        raise ValueError("keys have Laplace or Gaussian noise")
    return law


@dataclass(frozen=True)
class OpenKeys(Design):
    """The file has one row for each published key: the values of its columns, in order, and its
    noisy count in the column `count`; no counts were published if `count` is None.

    With two levels, a row of the first level has no values in the columns of the second. A person
    has up to `keys` keys on each level; `limited` tells that those of a person who has more were
    chosen at random, and that only these are counted.
    """

    kind: ClassVar[str] = "open"

    rule: str
    keys: int
    limited: bool
    count: str | None
    levels: tuple[KeyLevel, ...]

    @property
    def rows_refused(self) -> str:
        return (
            "This release names keys: it has no rows to draw. Close its category with "
            "`release.close_categories(schema)` and publish with Synthesis."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "rule": self.rule,
            "keys": self.keys,
            "limited": self.limited,
            "count": self.count,
            "levels": [level.to_dict() for level in self.levels],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OpenKeys:
        levels = stored.items(KeyLevel.from_dict, data["levels"])
        columns = [level.columns for level in levels]
        if not columns or columns != sorted(set(columns)):
            raise ValueError("levels of keys have more and more columns")
        if data["count"] is not None and any(level.noise is None for level in levels):
            raise ValueError("counts have noise")
        return cls(
            stored.text(data["rule"]),
            stored.whole(data["keys"], 1),
            stored.flag(data["limited"]),
            None if data["count"] is None else stored.text(data["count"]),
            levels,
        )

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        """A person has `unit.rows` keys on each level, and levels add up.

        Which keys pass by weighted sums is not stated: where they have no counts, nothing is.
        """
        if self.keys != unit.rows:
            return StatedLoss(math.inf)
        loss = StatedLoss()
        for level in self.levels:
            laws = [level.selection] if level.noise is None or not level.fresh else [level.noise]
            if level.fresh and level.selection is not None and level.noise is not None:
                laws.append(level.selection)
            for law in laws:
                if isinstance(law, KeyNoise):
                    epsilon = float(unit.sensitivity / law.scale)
                    loss += StatedLoss(epsilon, delta=float(unit.sensitivity * law.delta))
                    if level.threshold < law.reach:
                        return StatedLoss(math.inf)
                elif isinstance(law, DiscreteGaussian):
                    square = unit.rows * (2 if unit.neighbours == "replace" else 1)
                    loss += StatedLoss(gaussian=float(law.parameter * FOR_COUNTS / square))
                elif law is not None:
                    loss += counts_loss(law, unit)
            if isinstance(level.selection, DiscreteLaplace):  # a key of one person passes by chance
                alone = level.selection.cdf(-level.threshold)
                loss += StatedLoss(delta=unit.rows * alone)
        return loss
