"""What bags of a pool tell about their true values: exact figures, rounded up.

All of them are sums of positive terms in floating point. Each rounding is at most 2^-53 of what it
rounds; the longest chain of them has fewer than 10^6 links; so no relative error reaches 10^-9,
which is added to every figure.

With W(c) the multinomial probability of a bag c of k (0 beyond the caps), and E_x = Σ_c c_x W(c),
a bag has probability c_x W(c) / E_x if x is the true value: x may be any of its c_x equal members.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.pool_law import PoolLaw

Floats = npt.NDArray[np.float64]
SLACK = 1e-9


def acceptance(law: PoolLaw) -> float:
    """The probability that the first draws keep to the caps, for the true value for which this is
    least likely; rounded down.
    """
    if law.caps is None:
        return 1.0
    kinds = _kinds(law)
    # Without caps, W sums to the Poisson probability of k at rate k.
    whole = _terms(float(law.size), law.size, law.size)[law.size]
    moments = _moments(kinds, law.size)
    least = min(moment / (kind.rate * whole) for moment, kind in zip(moments, kinds, strict=True))
    return max(0.0, float(least) - SLACK)


def again_in_paper(weights: Sequence[int], size: int, caps: Sequence[float]) -> float:
    """The paper's bound on the probability of drawing again (Theorem 4.1), for the worst true
    value; `caps` before they are rounded down. For comparison only: it multiplies over the values
    as if their counts were independent.
    """
    total = sum(weights)

    def excess(mean: float, cap: float) -> float:
        """Chernoff: the probability that a count of this mean exceeds its cap."""
        ratio = cap / mean
        return math.exp(mean * (ratio - 1 - ratio * math.log(ratio))) if ratio > 1 else 1.0

    means = [(size - 1) * weight / total for weight in weights]
    plain = [1 - excess(mean, cap) for mean, cap in zip(means, caps, strict=True)]
    true = [1 - excess(mean, cap - 1) for mean, cap in zip(means, caps, strict=True)]
    kept = [math.prod(plain[:x]) * true[x] * math.prod(plain[x + 1 :]) for x in range(len(plain))]
    return 1 - min(kept)


@lru_cache(maxsize=64)
def profile(law: PoolLaw, epsilons: tuple[float, ...]) -> tuple[float, ...]:
    """The least δ of (ε, δ)-LDP for each ε: max over x ≠ y of Σ_c max(0, P(c|x) − e^ε P(c|y)).

    Without caps the two values with the smallest weights are the worst: a bag of theirs turns into
    one with larger weights for two other values if each further member becomes one of the two with
    fixed probabilities, and what is made of a bag tells no more than the bag.
    """
    # A little below e^ε, so that the δ is not too small.
    ratios = np.exp(np.array(epsilons)) * (1 - 1e-12)
    kinds = _kinds(law)
    if law.caps is None:
        kinds = _two_smallest(law)
    moments = _moments(kinds, law.size)
    worst = np.zeros(len(ratios))
    for one, other, rest in _pairs(kinds):
        joint = _joint(kinds[one], kinds[other], rest)
        gain = np.arange(joint.shape[0]) / moments[one]
        loss = np.arange(joint.shape[1]) / moments[other]
        for place, ratio in enumerate(ratios):
            excess = np.maximum(0.0, gain[:, None] - ratio * loss[None, :])
            worst[place] = max(worst[place], float((excess * joint).sum()))
    return tuple(min(1.0, float(delta) + SLACK) for delta in worst)


@lru_cache(maxsize=64)
def exposure(law: PoolLaw) -> float:
    """The success of the best guess of a value that was chosen uniformly: Σ_c max_x P(c|x) / d.

    Σ_c W(c) max_x c_x/E_x, by thresholds: W of all bags with c_x ≤ t E_x for every x is one product
    of short polynomials, of which a step of t changes a single one.
    """
    kinds, size = _kinds(law), law.size
    moments = _moments(kinds, size)
    steps = sorted(
        (count / float(moment), place, count)
        for place, (kind, moment) in enumerate(zip(kinds, moments, strict=True))
        for count in range(1, kind.cap + 1)
    )
    total = float(_product([kind.power(kind.cap, kind.number) for kind in kinds])[size])
    tree = _Tree([kind.power(0, kind.number) for kind in kinds])
    success, before, beyond = 0.0, 0.0, total
    for threshold, place, count in steps:
        success += (threshold - before) * beyond
        before = threshold
        tree.change(place, kinds[place].power(count, kinds[place].number))
        beyond = total - float(tree.product[size])
        if beyond <= 1e-14 * total:
            break
    # What is left beyond the last threshold is no larger than the rounding.
    rounding = 1e-11 * total * steps[-1][0]
    return min(1.0, (success + rounding) / law.values + SLACK)


@dataclass(frozen=True)
class _Kind:
    """All values of one weight: how many, their mean count in k draws, and their cap."""

    number: int
    rate: float
    cap: int
    size: int

    @cached_property
    def terms(self) -> Floats:
        return _terms(self.rate, self.cap, self.size)

    def power(self, cap: int, number: int) -> Floats:
        """The product of `number` equal polynomials, up to degree k."""
        result, square = _one(self.size), _terms(self.rate, cap, self.size)
        while number:
            if number & 1:
                result = _times(result, square)
            number >>= 1
            square = _times(square, square) if number else square
        return result


class _Tree:
    """A product of polynomials in which single ones can be changed."""

    def __init__(self, leaves: Sequence[Floats]) -> None:
        self._first = 1 << (len(leaves) - 1).bit_length()
        spare = [_one(len(leaves[0]) - 1)] * (self._first - len(leaves))
        self._nodes = [*([leaves[0]] * self._first), *leaves, *spare]
        for node in range(self._first - 1, 0, -1):
            self._nodes[node] = _times(self._nodes[2 * node], self._nodes[2 * node + 1])

    @property
    def product(self) -> Floats:
        return self._nodes[1]

    def change(self, place: int, leaf: Floats) -> None:
        node = self._first + place
        self._nodes[node] = leaf
        while node := node // 2:
            self._nodes[node] = _times(self._nodes[2 * node], self._nodes[2 * node + 1])


def _kinds(law: PoolLaw) -> list[_Kind]:
    """The values by weight, lightest first; equal weights have equal caps."""
    caps = dict(zip(law.weights, law.caps or [law.size] * law.values, strict=True))
    total = sum(law.weights)
    return [
        _Kind(
            law.weights.count(weight),
            law.size * weight / total,
            min(caps[weight], law.size),
            law.size,
        )
        for weight in sorted(caps)
    ]


def _two_smallest(law: PoolLaw) -> list[_Kind]:
    """The two lightest values, and all others as one, which is heavier and so no worse."""
    lightest = sorted(law.weights)
    total, size = sum(lightest), law.size
    rates = [size * weight / total for weight in (*lightest[:2], sum(lightest[2:]))]
    kinds = [_Kind(1, rate, size, size) for rate in rates]
    return kinds if len(lightest) > 2 else kinds[:2]


def _moments(kinds: Sequence[_Kind], size: int) -> Floats:
    """E_x = Σ_c c_x W(c) for a value of each kind."""
    counts = np.arange(size + 1)
    found = [
        _times(counts * kind.terms, _times(kind.power(kind.cap, kind.number - 1), others))[size]
        for kind, others in zip(kinds, _without_each(kinds), strict=True)
    ]
    return np.array(found)


def _pairs(kinds: Sequence[_Kind]) -> Iterator[tuple[int, int, Floats]]:
    """Every ordered pair of kinds that two different values can have, and the product of all other
    values.
    """
    for one, kind in enumerate(kinds):
        # One value is taken out; a kind of one value leaves an empty product.
        rest = [*kinds[:one], replace(kind, number=kind.number - 1), *kinds[one + 1 :]]
        for other, others in enumerate(_without_each(rest)):
            if rest[other].number:
                chosen = rest[other]
                yield one, other, _times(others, chosen.power(chosen.cap, chosen.number - 1))


def _without_each(kinds: Sequence[_Kind]) -> list[Floats]:
    """For each kind the product of all others, by products from the left and from the right."""
    factors = [kind.power(kind.cap, kind.number) for kind in kinds]
    one = _one(len(factors[0]) - 1)
    lefts = list(accumulate(factors[:-1], _times, initial=one))
    rights = list(accumulate(factors[:0:-1], _times, initial=one))[::-1]
    return [_times(left, right) for left, right in zip(lefts, rights, strict=True)]


def _joint(one: _Kind, other: _Kind, rest: Floats) -> Floats:
    """W of all bags in which two values come i and j times, up to their caps."""
    counts = np.arange(one.cap + 1)[:, None] + np.arange(other.cap + 1)
    tail = np.where(counts <= one.size, rest[np.maximum(one.size - counts, 0)], 0.0)
    joint: Floats = np.outer(one.terms[: one.cap + 1], other.terms[: other.cap + 1]) * tail
    return joint


def _terms(rate: float, cap: int, size: int) -> Floats:
    """Poisson probabilities of the counts 0 to k; 0 beyond the cap."""
    counts = np.arange(1, size + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(rate / counts))]) - rate
    return np.where(np.arange(size + 1) <= cap, np.exp(logs), 0.0)


def _one(size: int) -> Floats:
    one = np.zeros(size + 1)
    one[0] = 1.0
    return one


def _times(one: Floats, other: Floats) -> Floats:
    return np.convolve(one, other)[: len(one)]


def _product(factors: Sequence[Floats]) -> Floats:
    result = factors[0]
    for factor in factors[1:]:
        result = _times(result, factor)
    return result
