"""The randomised steps of the meter: true numbers go in, noisy numbers or noisy decisions come out.

The keystream only supplies bits and never receives a count. The audit records true numbers by a
subclass of `NoisySteps` of its own; nothing in this package hands them to a caller.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw, RoundedNormal
from scumble.private.sampling.noise import (
    discrete_gaussian,
    discrete_laplace,
    geometric,
    rounded_normal,
)
from scumble.private.sampling.runs import Runs, pick_number
from scumble.private.sampling.selection import permute_and_flip, report_noisy_min
from scumble.private.sampling.sparse import FilterRule, passing_cells
from scumble.private.sampling.top import pick_top, select_top
from scumble.private.tables.sorted_keys import isin_sorted

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.sampling.top import Candidates

Integers = npt.NDArray[np.int64]

LARGEST_SCALE = 1 << 48  # counts with such noise still fit 64 bits, but for odds of e^-16000
_NOISE_CHUNK = 1 << 22


_GRID = 1 << 40  # the ε of a choice is rounded down to multiples of 2^-40


class NoisySteps:
    """The randomised steps that measurements are made of, with bits from one keystream."""

    def __init__(self, source: Keystream) -> None:
        self.source = source

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        """Add independent noise of `law` to a one-dimensional array, in place."""
        for begin in range(0, len(numbers), _NOISE_CHUNK):
            part = numbers[begin : begin + _NOISE_CHUNK]
            if isinstance(law, DiscreteLaplace):
                part += discrete_laplace(self.source, law.scale, len(part))
            elif isinstance(law, RoundedNormal):
                part += rounded_normal(self.source, law.parameter, len(part))
            else:
                part += discrete_gaussian(self.source, law.parameter, len(part))

    def decide(self, chosen: npt.NDArray[Any], law: NoiseLaw) -> None:
        """Take note of a choice that follows from noisy numbers. It costs nothing; the audit
        compares the later steps of runs that chose alike.
        """

    def cells(
        self, keys: npt.NDArray[np.uint64], counts: Integers, law: DiscreteLaplace
    ) -> Integers:
        """Return the noisy counts of the occupied cells `keys` of a sparse table.

        The noise of the empty cells is drawn elsewhere, and only for those that are published.
        """
        noisy: Integers = counts + discrete_laplace(self.source, law.scale, len(counts))
        return noisy

    def above_zero(
        self, numbers: Integers, law: DiscreteLaplace, open_: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return which of the `open_` numbers are above 0 after noise of `law` on all numbers."""
        noisy = numbers + discrete_laplace(self.source, law.scale, len(numbers))
        above: npt.NDArray[np.bool_] = (noisy > 0) & open_
        return above

    def split_children(
        self, keys: Integers, numbers: Integers, law: DiscreteLaplace, floor: int, size: int
    ) -> Integers:
        """Return which of `size` keys have numbers above 0 after noise of `law`, in order.

        `numbers` are those of the keys `keys`, in ascending order; all other keys have the number
        `floor`, below 0. The noise of those is not drawn one by one: which of them pass is drawn
        from the law that they would have.
        """
        noisy = numbers + discrete_laplace(self.source, law.scale, len(numbers))
        others = passing_cells(self.source, [size], FilterRule(law.scale, 1 - floor))
        others = others[~isin_sorted(others, keys.astype(np.uint64))].astype(np.int64)
        return np.sort(np.concatenate([keys[noisy > 0], others]))

    def least(self, scores: Integers, starts: Integers, law: DiscreteLaplace) -> Integers:
        """Return the place of the least score of each list after geometric noise of the scale of
        `law` is subtracted; list k begins at `starts[k]`.
        """
        return report_noisy_min(self.source, scores, starts, law.scale)

    def cheapest(
        self, costs: Integers, law: DiscreteLaplace, choose: Callable[[Integers], Integers]
    ) -> Integers:
        """Return `choose(costs)` after geometric noise of the scale of `law` is subtracted from
        the costs, in place.
        """
        costs -= geometric(self.source, law.scale, len(costs))
        return choose(costs)

    def one_of(self, scores: Integers, rate: Fraction) -> int:
        """Return the place of one score by permute-and-flip with the given rate."""
        return permute_and_flip(self.source, scores.tolist(), rate)

    def number(self, runs: Runs, rate: Fraction) -> int:
        """Return one of the numbers of `runs`, with probability proportional to
        exp(-rate · score).
        """
        return pick_number(self.source, runs, rate)

    def top(
        self, candidates: Candidates, k: int, *, sensitivity: int, epsilon: Fraction
    ) -> npt.NDArray[np.uint64]:
        """Return the k candidates of largest monotone scores, by one-shot noise; ε-DP."""
        return select_top(self.source, candidates, k, sensitivity=sensitivity, epsilon=epsilon)

    def picks(
        self,
        candidates: Candidates,
        k: int,
        *,
        sensitivity: int,
        epsilon: Fraction,
        monotone: bool = True,
    ) -> npt.NDArray[np.uint64]:
        """Return k candidates, by as many choices of the exponential mechanism, ε-DP each."""
        return pick_top(
            self.source,
            candidates,
            k,
            sensitivity=sensitivity,
            epsilon=epsilon,
            monotone=monotone,
        )


def check_scale(law: NoiseLaw) -> None:
    """Raise ParameterError for noise that may not fit 64 bits."""
    spread = law.scale if isinstance(law, DiscreteLaplace) else law.parameter / LARGEST_SCALE
    if spread.numerator > LARGEST_SCALE * spread.denominator:
        raise ParameterError(
            "With this epsilon and this number of rows of a person, the noise would be larger "
            "than any count; allow a larger epsilon, or a smaller contribution."
        )


def choice_epsilon(k: int, rho: Fraction) -> Fraction:
    """Return the ε of each of k choices by the exponential mechanism that cost ρ together: the
    largest multiple of 2^-40 with k · ε²/8 <= ρ.
    """
    square = 8 * rho / k * _GRID**2
    found = Fraction(isqrt(square.numerator // square.denominator), _GRID)
    if not found:
        raise ParameterError("The epsilon is too small for so many choices; allow a larger one.")
    return found
