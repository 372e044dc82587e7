"""Which values of an unlisted domain may be named: exact parameters and draws.

A key is shown only if somebody has it, so that a key of one person alone must be shown with a
probability of at most δ. `count` is the number of people who have a key.

- The most keys (Desfontaines, Voss, Gipson, 2022): π(count) is the largest probability of showing a
  key under (ε, δ), and the noise X has P(X > k - count) = π(count), where k is its largest value. A
  key is shown with the number count + X if that is above k. Proof of (ε, δ) for one key: from one
  number to the next P(X) grows by the factor e^ε, then falls by it. So all numbers of neighbouring
  counts have probabilities within e^ε, but for the largest, of probability δ, and at the other end
  the last two, whose excess is 1 - π(n) - e^ε (1 - π(n+1)) = δ.
- Laplace noise of scale b: shown if the noisy count reaches a threshold, so high that a key of one
  person reaches it with probability p <= δ and 1/(1 - p) <= e^(1/b). One key costs 1/b and p.
- Weighted sums with Gaussian noise: a person with t keys adds floor(2^20 / √t) to each of them, a
  vector of length 2^20 at most; the threshold is so high that a person alone passes it with
  probability δ. Several rounds add up by their precisions 1/σ² (`gaussian_rounds`). A round may use
  of those before only which keys passed: that a key has a noisy sum tells that somebody drew it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.distributions import DiscreteGaussian
from scumble.model.laws.key_noise import KeyNoise, shown_probabilities
from scumble.model.privacy.accounting import analytic_variance
from scumble.private.sampling.bits import Cuts
from scumble.private.sampling.noise import Enclosure, exponential
from scumble.private.sampling.source import Keystream

Integers = NDArray[np.int64]

UNIT = 1 << 20  # the weight of a person with one key
SHARES = (1, 4, 16, 64)  # of the precision and of δ in the four rounds of `sips`
# Of ε and δ in the three rounds that name keys without counts, by the noise that names the most.
NAMING = (Fraction(3, 100), Fraction(1, 10), Fraction(87, 100))
FOR_NAMES = Fraction(2, 5)  # of δ, for keys of one person alone; the rest is for Gaussian noise
# Gaussian noise on whole numbers is continuous noise of a variance less by this, rounded at random
# (see `_discrete`), but for a factor of 1 ± 2e^(-2π²·2) = 1 ± 2e-17 in each probability.
_ROUNDED = 2
_MARGIN = 1 - 1e-6  # of δ: far more than floating point and that factor can lose


def weight_of(keys: int) -> int:
    """Return what a person with `keys` keys adds to each of them: 2^20 / √keys, rounded down."""
    return math.isqrt(UNIT * UNIT // keys)


# --- noise that names the most keys ---------------------------------------------------------------


def key_noise(source: Keystream, law: KeyNoise, size: int) -> Integers:
    """Return `size` independent variables of `law`."""
    drawn = _cuts(law).draw(source, size)
    return law.reach - drawn.astype(np.int64)


@lru_cache(maxsize=16)
def _cuts(law: KeyNoise) -> Cuts:
    """The error is reach - j if a uniform number is from π(j) on and below π(j + 1)."""
    return Cuts.rational(shown_probabilities(1 / law.scale, law.delta)[1:-1])


# --- Laplace noise -------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def laplace_threshold(scale: Fraction, delta: Fraction) -> int:
    """Return the least number that the noisy count of one person reaches with probability p, where
    p <= δ and 1/(1 - p) <= e^(1/scale).
    """
    precision = 256 + 2 * (delta.denominator // delta.numerator).bit_length()
    chance = float(delta) * (1 + math.exp(-1 / float(scale)))
    threshold = max(math.floor(-math.log(chance) * float(scale)) - 1, 1)
    while not _passes_rarely(scale, delta, threshold, precision):
        threshold += 1
    return threshold


def _passes_rarely(scale: Fraction, delta: Fraction, threshold: int, precision: int) -> bool:
    """P(noise >= threshold - 1) = a^(threshold - 1) / (1 + a), with a = e^(-1/scale)."""
    one = 1 << precision
    ratio: Enclosure = exponential(1 / scale, precision)
    chance = Fraction(exponential((threshold - 1) / scale, precision)[1], one + ratio[0])
    return chance <= delta and chance <= 1 - Fraction(ratio[1], one)


# --- Gaussian noise on weighted sums -------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One round: the noise of the weighted sums, and what a noisy sum must exceed."""

    noise: DiscreteGaussian
    threshold: int


@dataclass(frozen=True)
class GaussianRounds:
    """Rounds of weighted sums, and the noise of counts of the keys that were found, if any."""

    rounds: tuple[Round, ...]
    counts: DiscreteGaussian | None


@lru_cache(maxsize=64)
def gaussian_rounds(
    epsilon: Fraction,
    delta: Fraction,
    keys: int,
    *,
    shares: tuple[int, ...],
    vectors: int,
    for_counts: Fraction,
) -> GaussianRounds:
    """Return rounds that cost (ε, δ) in all, if a person has up to `keys` keys in each round.

    Neighbouring tables differ in `vectors` people (1, or 2 for a replacement), whose vectors have
    no negative entries, so that the squared distance is at most `vectors` times that of one. All
    sums with Gaussian noise lose (ε, 0.6 δ) together: continuous noise of precisions p_1, p_2, ...
    loses as much as one of precision p_1 + p_2 + ..., also if each vector is chosen after the
    noisy sums before are seen (Dong, Roth, Su, 2022). `for_counts` is the share of the precision
    for the counts. The rest of δ is for keys that one person alone drew in a round.
    """
    for_names = FOR_NAMES * delta
    allowed = float(delta - for_names) * _MARGIN
    spread = analytic_variance(
        sensitivity=math.sqrt(vectors), epsilon=float(epsilon), delta=allowed
    )
    variance = Fraction(spread) / (1 - for_counts)
    total = sum(shares)
    rounds = []
    for share in shares:
        noise = _discrete(variance * Fraction(total, share) * UNIT**2)
        rounds.append(Round(noise, sum_threshold(noise, keys, for_names * Fraction(share, total))))
    counts = _discrete(Fraction(spread) * keys / for_counts) if for_counts else None
    return GaussianRounds(tuple(rounds), counts)


def _discrete(variance: Fraction) -> DiscreteGaussian:
    """Return discrete noise that hides as much as continuous noise of this variance.

    Rounding continuous noise of variance s² at random, to z with probability proportional to
    e^(-(z - y)²/2t²), gives discrete noise of parameter s² + t², up to the factor at `_ROUNDED`:
    the sum of e^(-(z - y)²/2t²) over all integers z is the same for all y up to that factor.
    """
    return DiscreteGaussian(Fraction(math.ceil(variance * 1024), 1024) + _ROUNDED)


def sum_threshold(noise: DiscreteGaussian, keys: int, delta: Fraction) -> int:
    """Return a number that a person alone, with up to `keys` keys, exceeds in one of them with
    probability δ at most: t P(weight_of(t) + noise > threshold) <= δ for t = 1 to `keys`.
    """
    allowed = float(delta) * _MARGIN
    # quantile(q) is the least k with P(noise <= k) >= q, so that P(noise > -k) < q.
    return max(weight_of(t) - int(noise.quantile(allowed / t)) for t in range(1, keys + 1))
