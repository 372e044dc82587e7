"""Differentially private noise for counts of your own: discrete Laplace, geometric and Gaussian
noise, and the private selection of the best of several candidates.

Inputs and outputs are whole numbers, and the law of the error is returned with them. All
probabilities are exact, and parameters are rounded so that the promise holds. No budget is kept:
the caller adds up the privacy losses of several calls about the same people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, Geometric
from scumble.model.parameters import flag, whole
from scumble.model.privacy import accounting
from scumble.model.privacy.guarantee import read_delta, read_epsilon, read_positive
from scumble.private.sampling.noise import discrete_gaussian, discrete_laplace
from scumble.private.sampling.noise import geometric as draw_geometric
from scumble.private.sampling.selection import permute_and_flip
from scumble.private.sampling.source import Keystream

Numbers = int | Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Noisy:
    """Noisy whole numbers in the shape of the input, and the law of the error of each.

    >>> laplace([10, 20], sensitivity=1, epsilon=1).law.half_width(0.95)
    3
    """

    values: Any
    law: DiscreteLaplace | DiscreteGaussian | Geometric


def laplace(
    counts: Numbers, *, sensitivity: float, epsilon: float, seed: int | None = None
) -> Noisy:
    """Return counts plus discrete Laplace noise, P(z) ∝ exp(-|z| ε/Δ): ε-DP, if one person changes
    all counts together by at most Δ = `sensitivity` (the sum of the absolute changes).

    This is the two-sided geometric mechanism. `seed` makes the noise repeatable and NOT PRIVATE:
    for tests.
    """
    law = DiscreteLaplace(_scale("laplace", sensitivity, epsilon))
    source = Keystream(seed)
    return _added(counts, "laplace", law, lambda size: discrete_laplace(source, law.scale, size))


def geometric(
    counts: Numbers,
    *,
    sensitivity: float,
    epsilon: float,
    one_sided: bool = False,
    seed: int | None = None,
) -> Noisy:
    """Return counts plus geometric noise. Two-sided noise is that of `laplace`, and ε-DP.

    With `one_sided` the noise is never below 0, P(z) ∝ exp(-z ε/Δ). This is NOT differential
    privacy. If a person is added who makes counts larger, no output becomes more than e^ε times as
    likely. But an output equal to the true count shows that no further person was there. So the
    noise hides presence and not absence. No count is published too low.
    """
    if not flag("geometric", "one_sided", one_sided):
        return laplace(counts, sensitivity=sensitivity, epsilon=epsilon, seed=seed)
    law = Geometric(_scale("geometric", sensitivity, epsilon))
    source = Keystream(seed)
    return _added(counts, "geometric", law, lambda size: draw_geometric(source, law.scale, size))


def gaussian(
    counts: Numbers,
    *,
    sensitivity: float,
    epsilon: float,
    delta: float,
    several: bool = False,
    seed: int | None = None,
) -> Noisy:
    """Return counts plus discrete Gaussian noise: (ε, δ)-DP, if one person changes one of the
    counts by at most `sensitivity`, a whole number. The variance is the smallest that the exact
    formula of the discrete law allows.

    With `several` one person may change several counts, and `sensitivity` is the square root of the
    sum of the squares of the changes; the variance is then that of zero-concentrated privacy.
    """
    law = DiscreteGaussian(
        gaussian_variance(sensitivity=sensitivity, epsilon=epsilon, delta=delta, several=several)
    )
    source = Keystream(seed)
    draw = lambda size: discrete_gaussian(source, law.parameter, size)  # noqa: E731
    return _added(counts, "gaussian", law, draw)


def gaussian_variance(
    *, sensitivity: float, epsilon: float, delta: float, several: bool = False
) -> Fraction:
    """Return the parameter σ² of the noise of `gaussian`."""
    promised, rest = read_epsilon("gaussian", epsilon), read_delta("gaussian", delta)
    if flag("gaussian", "several", several):
        length = read_positive("gaussian", "sensitivity", sensitivity)
        return length**2 / (2 * accounting.rho_for(promised, rest))
    most = whole("gaussian", "sensitivity", sensitivity, least=1)
    return accounting.discrete_variance(sensitivity=most, epsilon=promised, delta=rest)


def analytic_variance(*, sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the variance of continuous Gaussian noise that is (ε, δ)-DP, for comparison. Such
    noise drawn in floating point keeps no promise exactly.
    """
    length = float(read_positive("analytic_variance", "sensitivity", sensitivity))
    numbers = read_epsilon("analytic_variance", epsilon), read_delta("analytic_variance", delta)
    return accounting.analytic_variance(
        sensitivity=length, epsilon=float(numbers[0]), delta=float(numbers[1])
    )


def choose(
    scores: Sequence[int | Fraction],
    *,
    sensitivity: float,
    epsilon: float,
    monotone: bool = False,
    seed: int | None = None,
) -> int:
    """Return the index of a candidate, with high scores likelier: ε-DP, if one person changes every
    score by at most `sensitivity`.

    Permute-and-flip: its expected score is never below that of the exponential mechanism. With
    `monotone` the caller states that one person changes all scores in the same direction, as for
    counts of people; the same ε then allows twice the rate. Scores are whole numbers or Fractions.
    """
    steps = 1 if flag("choose", "monotone", monotone) else 2
    exact = [score.item() if hasattr(score, "item") else score for score in scores]
    rate = 1 / (steps * _scale("choose", sensitivity, epsilon))
    return permute_and_flip(Keystream(seed), exact, rate)


def _scale(owner: str, sensitivity: object, epsilon: object) -> Fraction:
    return read_positive(owner, "sensitivity", sensitivity) / read_epsilon(owner, epsilon)


def _added(counts: Numbers, owner: str, law: Any, draw: Any) -> Noisy:
    """Return the counts plus noise from `draw`; Python integers if 64 bits are too few."""
    given = np.asarray(counts)
    if given.size and given.dtype.kind not in "iu" and not _all_whole(given):
        raise ParameterError(f"The counts given to {owner} must be whole numbers.")
    noise = draw(given.size).reshape(given.shape)
    fits = given.dtype != object and _largest(given) + _largest(noise) < 1 << 63
    kind: Any = np.int64 if fits else object
    noisy = given.astype(kind) + noise.astype(kind)
    return Noisy(noisy if given.ndim else int(noisy), law)


def _all_whole(given: npt.NDArray[Any]) -> bool:
    return given.dtype == object and all(
        isinstance(each, int) and not isinstance(each, bool) for each in given.reshape(-1)
    )


def _largest(numbers: npt.NDArray[Any]) -> int:
    return max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
