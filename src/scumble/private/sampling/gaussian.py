"""Discrete Gaussian noise: P(x) proportional to exp(-x**2 / (2 variance)) on the whole numbers.

Canonne, Kamath and Steinke (2020): draw y from the discrete Laplace law of scale t, the first whole
number above the standard deviation, and accept it with probability exp(-gamma), gamma =
(|y| - variance / t)**2 / (2 variance). The compiled loop encloses that probability in whole numbers
of 63 bits; the few draws that fall inside the enclosure are decided by exact arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.rational import positive
from scumble.private.sampling.bits import chunks, decide_below
from scumble.private.sampling.exponential import exponential, floors, powers
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Source

_FRACTION = 56  # bits after the point of the square root of gamma
_STEP = 1 << 15
_WIDE = 1 << 106  # from this variance on, results are Python integers


def discrete_gaussian(source: Source, variance: Fraction, size: int) -> NDArray[Any]:
    """Independent discrete Gaussian numbers: int64, or Python integers from variance 2**106 on.

    `variance` is the parameter of the law; the variance of the numbers is a little smaller.
    """
    law = _constants(positive("discrete_gaussian", "variance", variance))
    out: NDArray[Any] = np.empty(size, object if variance >= _WIDE else np.int64)
    for part in chunks(size, _STEP):
        target = out[part]
        rows = np.arange(len(target))
        while len(rows):
            proposed = discrete_laplace(source, law.scale, len(rows))
            accepted = law.accept(source, proposed)
            target[rows[accepted]] = proposed[accepted]
            rows = rows[~accepted]
    return out


@dataclass(frozen=True)
class _Constants:
    """What the compiled loop needs of one variance: sqrt(gamma) = ||y| * slope - offset|."""

    variance: Fraction
    scale: Fraction
    slope: int
    shift: int
    offset: int

    def accept(self, source: Source, proposed: NDArray[Any]) -> NDArray[np.bool_]:
        words = source.words(len(proposed))
        if proposed.dtype == object:
            answers, pending = np.zeros(len(words), bool), np.arange(len(words))
        else:
            answers, pending = self._enclose(words, proposed)
        for row in pending:
            answers[row] = self._exactly(source, int(proposed[row]), int(words[row]))
        return answers

    def _enclose(
        self, words: NDArray[np.uint64], proposed: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        from scumble.private.sampling import kernels

        answers, pending = np.empty(len(words), bool), np.empty(len(words), np.int64)
        slope, shift, offset = np.uint64(self.slope), np.uint64(self.shift), np.uint64(self.offset)
        count = kernels.accept(
            words, proposed, slope, shift, offset, exponentials(), answers, pending
        )
        return answers, pending[:count]

    def _exactly(self, source: Source, proposed: int, word: int) -> bool:
        """Whether the uniform number that begins with `word` lies below exp(-gamma)."""
        gamma = (abs(proposed) - self.variance / self.scale) ** 2 / (2 * self.variance)
        if gamma == 0:
            return True
        below = lambda bits: (floors(lambda p: [exponential(gamma, p)], bits), [False])  # noqa: E731
        return decide_below(source, below, word, 64)


@lru_cache(maxsize=64)
def _constants(variance: Fraction) -> _Constants:
    above, below = variance.numerator, variance.denominator
    scale = isqrt(above // below) + 1
    offset = isqrt((above << (2 * _FRACTION)) // (2 * below * scale**2))
    # slope = 1 / sqrt(2 variance), as a whole number of 63 bits over 2**(56 + shift)
    shift = 6 + isqrt(2 * above // below).bit_length()
    slope = isqrt((below << (2 * (_FRACTION + shift))) // (2 * above))
    while slope >= 1 << 63 and shift:
        shift -= 1
        slope >>= 1
    # A slope above 64 rejects everything but 0 in 64 bits, whatever it is.
    return _Constants(variance, Fraction(scale), min(slope, (1 << 63) - 1), shift, offset)


@lru_cache(maxsize=1)
def exponentials() -> NDArray[np.uint64]:
    """exp(-b * 256**j / 2**48) * 2**63, rounded down, for the bytes b and j = 0 to 6."""
    precision = 128
    table = np.empty((7, 256), np.uint64)
    for place in range(7):
        base = exponential(Fraction(256**place, 1 << 48), precision)
        table[place] = [low >> (precision - 63) for low, _ in powers(base, 255, precision)]
    return table
