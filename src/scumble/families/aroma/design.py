"""What multisets of a pool reveal about their true values: exact figures, rounded up.

All figures are sums of positive terms in floating point. Each rounding has a relative error of
at most 2^-53, and no chain of roundings has 10^6 steps. So no relative error reaches 10^-9, and
that much is added to every figure.

With W(c) the multinomial probability of a multiset c of k (0 beyond the caps), and E_x = Σ_c c_x
W(c), a multiset has probability c_x W(c) / E_x if x is the true value: x may be any of its c_x
equal members.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, islice

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError
from scumble.model.evidence.channels import Channel, MultisetChannel, PoolLaw
from scumble.model.privacy.computed import Computed, at_most, compute_exposure, worst
from scumble.model.privacy.guarantee import LARGEST_EPSILON, Guarantee, gamma_for_epsilon

Floats = npt.NDArray[np.float64]
SLACK = 1e-9

PROFILE, CLOSENESS = PoolLaw.main_promise, "(n, 0)-closeness"
PER_COUNT, DELTA_AT = "per-count condition of the paper", "delta at epsilon "
LARGEST_K = 1000
MOST_VALUES = 1024


def k_bounds(epsilon: Fraction, f: Fraction) -> tuple[Fraction, Fraction]:
    """Return the two lower bounds on k in the condition of the paper, before rounding up."""
    ratio = gamma_for_epsilon(epsilon)
    if ratio <= 1:
        raise ParameterError.of("k_for", "epsilon", "large enough to change an odd", float(epsilon))
    spread = f * (1 - f)
    return 1 + (2 * f + ratio * (1 - f)) / (spread * (ratio - 1)), 1 + 3 / (2 * epsilon * spread)


def acceptance(law: PoolLaw) -> float:
    """Return the probability that the first draws keep to the caps, for the true value for which
    it is smallest; rounded down.
    """
    if law.caps is None:
        return 1.0
    kinds = _group_values(law)
    # Without caps, W sums to the Poisson probability of k at rate k.
    whole = _compute_terms(float(law.size), law.size, law.size)[law.size]
    moments = _compute_moments(kinds, law.size)
    least = min(moment / (kind.rate * whole) for moment, kind in zip(moments, kinds, strict=True))
    return max(0.0, float(least) - SLACK)


@lru_cache(maxsize=64)
def profile(
    law: PoolLaw, epsilons: tuple[float, ...], pairs: int | None = None
) -> tuple[float, ...]:
    """Return the least δ of (ε, δ)-LDP for each ε: max over x ≠ y of Σ_c max(0, P(c|x) − e^ε
    P(c|y)). With `pairs`, only so many x and y are tried, the lightest first.

    Without caps the two values with the smallest weights are the worst pair. Their multisets can be
    post-processed into those of any two values with larger weights: each further member becomes
    one of the two with fixed probabilities. Post-processing reveals nothing more.
    """
    # A little below e^ε, so that the δ is not too small.
    ratios = np.exp(np.array(epsilons)) * (1 - 1e-12)
    kinds = _group_values(law)
    if law.caps is None:
        kinds = _find_two_smallest(law)
    moments = _compute_moments(kinds, law.size)
    worst = np.zeros(len(ratios))
    for one, other, rest in islice(_list_pairs(kinds), pairs):
        joint = _compute_joint(kinds[one], kinds[other], rest)
        gain = np.arange(joint.shape[0]) / moments[one]
        loss = np.arange(joint.shape[1]) / moments[other]
        for index, ratio in enumerate(ratios):
            excess = np.maximum(0.0, gain[:, None] - ratio * loss[None, :])
            worst[index] = max(worst[index], float((excess * joint).sum()))
    return tuple(min(1.0, float(delta) + SLACK) for delta in worst)


_STEP = 2.0**-12  # of privacy losses on a grid
_FOURIER = 2.0**-48  # what a Fourier sum of up to 2^30 points rounds off a mass: 30 · 2^-53


@lru_cache(maxsize=64)
def profile_together(laws: tuple[PoolLaw, ...], epsilons: tuple[float, ...]) -> tuple[float, ...]:
    """Return the δ of (ε, δ)-LDP of independent multisets for each ε: the least one for one law, an
    upper bound of it for several, which have no caps.

    Combinations of values that differ in every attribute are the worst, since to look at fewer
    multisets is post-processing. So are, in each attribute, the two lightest values (`profile`), in
    one order or the other. The losses of independent multisets add up.
    """
    if len(laws) == 1:
        return profile(laws[0], epsilons)
    sums = [_Losses(np.ones(1), 0, 0.0)]
    for law in laws:
        sums = [one.plus(other) for one in sums for other in _find_losses(law)]
    deltas = (max(losses.delta(epsilon) for losses in sums) for epsilon in epsilons)
    rounding = SLACK + _FOURIER * len(laws) * max(len(losses.masses) for losses in sums)
    return tuple(min(1.0, delta + rounding) for delta in deltas)


@dataclass(frozen=True)
class _Losses:
    """The law of a privacy loss: the probability of (first + i) steps in `masses[i]`, and of an
    infinite loss in `certain`.
    """

    masses: Floats
    first: int
    certain: float

    def plus(self, other: _Losses) -> _Losses:
        """Return the law of the sum of two independent losses."""
        length = len(self.masses) + len(other.masses) - 1
        points = 1 << (length - 1).bit_length()
        product = np.fft.rfft(self.masses, points) * np.fft.rfft(other.masses, points)
        masses = np.fft.irfft(product, points)[:length].clip(0)
        certain = self.certain + other.certain - self.certain * other.certain
        return _Losses(masses, self.first + other.first, certain)

    def delta(self, epsilon: float) -> float:
        """Return the mean of max(0, 1 − e^(ε − loss))."""
        losses = _STEP * (self.first + np.arange(len(self.masses)))
        return self.certain + float(-np.expm1(np.minimum(epsilon - losses, 0.0)) @ self.masses)


def _find_losses(law: PoolLaw) -> list[_Losses]:
    """Return the loss between the two lightest values, in either order, rounded to a grid.

    What is seen with probability p of the one and q of the other is divided between the two losses
    on the grid next to ln p/q, so that both p and q are kept. To join the two again is
    post-processing: so no δ becomes smaller.
    """
    one, other, *others = kinds = _find_two_smallest(law)
    joint = _compute_joint(one, other, others[0].terms if others else _make_one(law.size))
    gain, loss = (
        np.arange(law.size + 1) / moment for moment in _compute_moments(kinds, law.size)[:2]
    )
    pair = gain[:, None] * joint, loss[None, :] * joint
    orders = [pair] if one.rate == other.rate else [pair, pair[::-1]]
    return [_round_losses(p[p > 0], q[p > 0]) for p, q in orders]


def _round_losses(p: Floats, q: Floats) -> _Losses:
    known = q > 0
    steps = np.log(p[known] / q[known]) / _STEP
    below = np.floor(steps).astype(np.int64)
    above = p[known] * np.expm1(-_STEP * (steps - below)) / math.expm1(-_STEP)
    first = int(below.min(initial=0))
    masses = np.zeros(int(below.max(initial=0)) - first + 2)
    np.add.at(masses, below - first, p[known] - above)
    np.add.at(masses, below - first + 1, above)
    return _Losses(masses, first, float(p[~known].sum()))


@lru_cache(maxsize=64)
def pool_exposure(law: PoolLaw) -> float:
    """Return the success of the best guess of a uniformly chosen value: Σ_c max_x P(c|x) / d.

    Σ_c W(c) max_x c_x/E_x is computed by thresholds: W of all multisets with c_x ≤ t E_x for every
    x is a product of short polynomials, and a step of t changes one of them.
    """
    kinds, size = _group_values(law), law.size
    moments = _compute_moments(kinds, size)
    steps = sorted(
        (count / float(moment), index, count)
        for index, (kind, moment) in enumerate(zip(kinds, moments, strict=True))
        for count in range(1, kind.cap + 1)
    )
    total = float(_multiply_all([kind.power(kind.cap, kind.number) for kind in kinds])[size])
    tree = _Tree([kind.power(0, kind.number) for kind in kinds])
    success, before, beyond = 0.0, 0.0, total
    for threshold, index, count in steps:
        success += (threshold - before) * beyond
        before = threshold
        tree.change(index, kinds[index].power(count, kinds[index].number))
        beyond = total - float(tree.product[size])
        if beyond <= 1e-14 * total:
            break
    # The remainder beyond the last threshold is no larger than the rounding.
    rounding = 1e-11 * total * steps[-1][0]
    return min(1.0, (success + rounding) / law.values + SLACK)


@dataclass(frozen=True)
class _Kind:
    """All values of one weight: their number, their mean count in k draws, and their cap."""

    number: int
    rate: float
    cap: int
    size: int

    @cached_property
    def terms(self) -> Floats:
        return _compute_terms(self.rate, self.cap, self.size)

    def power(self, cap: int, number: int) -> Floats:
        """Return the product of `number` equal polynomials, up to degree k."""
        result, square = _make_one(self.size), _compute_terms(self.rate, cap, self.size)
        while number:
            if number & 1:
                result = _multiply(result, square)
            number >>= 1
            square = _multiply(square, square) if number else square
        return result


class _Tree:
    """A product of polynomials in which one factor at a time can be replaced."""

    def __init__(self, leaves: Sequence[Floats]) -> None:
        self._first = 1 << (len(leaves) - 1).bit_length()
        spare = [_make_one(len(leaves[0]) - 1)] * (self._first - len(leaves))
        self._nodes = [*([leaves[0]] * self._first), *leaves, *spare]
        for node in range(self._first - 1, 0, -1):
            self._nodes[node] = _multiply(self._nodes[2 * node], self._nodes[2 * node + 1])

    @property
    def product(self) -> Floats:
        return self._nodes[1]

    def change(self, index: int, leaf: Floats) -> None:
        node = self._first + index
        self._nodes[node] = leaf
        while node := node // 2:
            self._nodes[node] = _multiply(self._nodes[2 * node], self._nodes[2 * node + 1])


def _group_values(law: PoolLaw) -> list[_Kind]:
    """Return the values by weight, lightest first; equal weights have equal caps."""
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


def _find_two_smallest(law: PoolLaw) -> list[_Kind]:
    """Return the two lightest values, and all others merged into one, which is heavier and thus no
    worse.
    """
    lightest = sorted(law.weights)
    total, size = sum(lightest), law.size
    rates = [size * weight / total for weight in (*lightest[:2], sum(lightest[2:]))]
    kinds = [_Kind(1, rate, size, size) for rate in rates]
    return kinds if len(lightest) > 2 else kinds[:2]


def _compute_moments(kinds: Sequence[_Kind], size: int) -> Floats:
    """Return E_x = Σ_c c_x W(c) for a value of each kind."""
    counts = np.arange(size + 1)
    moments = [
        _multiply(counts * kind.terms, _multiply(kind.power(kind.cap, kind.number - 1), others))[
            size
        ]
        for kind, others in zip(kinds, _multiply_others(kinds), strict=True)
    ]
    return np.array(moments)


def _list_pairs(kinds: Sequence[_Kind]) -> Iterator[tuple[int, int, Floats]]:
    """Yield every ordered pair of kinds that two different values can have, with the product of all
    other values.
    """
    for one, kind in enumerate(kinds):
        # One value is removed; a kind of one value leaves an empty product.
        rest = [*kinds[:one], replace(kind, number=kind.number - 1), *kinds[one + 1 :]]
        for other, others in enumerate(_multiply_others(rest)):
            if rest[other].number:
                chosen = rest[other]
                yield one, other, _multiply(others, chosen.power(chosen.cap, chosen.number - 1))


def _multiply_others(kinds: Sequence[_Kind]) -> list[Floats]:
    """Return for each kind the product of all others, from products on the left and the right."""
    factors = [kind.power(kind.cap, kind.number) for kind in kinds]
    one = _make_one(len(factors[0]) - 1)
    lefts = list(accumulate(factors[:-1], _multiply, initial=one))
    rights = list(accumulate(factors[:0:-1], _multiply, initial=one))[::-1]
    return [_multiply(left, right) for left, right in zip(lefts, rights, strict=True)]


def _compute_joint(one: _Kind, other: _Kind, rest: Floats) -> Floats:
    """Return W of all multisets in which two values occur i and j times, up to their caps."""
    counts = np.arange(one.cap + 1)[:, None] + np.arange(other.cap + 1)
    tail = np.where(counts <= one.size, rest[np.maximum(one.size - counts, 0)], 0.0)
    joint: Floats = np.outer(one.terms[: one.cap + 1], other.terms[: other.cap + 1]) * tail
    return joint


def _compute_terms(rate: float, cap: int, size: int) -> Floats:
    """Return the Poisson probabilities of the counts 0 to k, set to 0 beyond the cap."""
    counts = np.arange(1, size + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(rate / counts))]) - rate
    return np.where(np.arange(size + 1) <= cap, np.exp(logs), 0.0)


def _make_one(size: int) -> Floats:
    one = np.zeros(size + 1)
    one[0] = 1.0
    return one


def _multiply(one: Floats, other: Floats) -> Floats:
    return np.convolve(one, other)[: len(one)]


def _multiply_all(factors: Sequence[Floats]) -> Floats:
    result = factors[0]
    for factor in factors[1:]:
        result = _multiply(result, factor)
    return result


# --- promises that are computed when a release is opened ------------------------------------------
#
# In half a second at most: of very large pools a part of the sums is left to the audit.

_MACHINES = 1e-7  # by which figures of two machines may differ, rounding and Fourier sums included
_MOST_TOGETHER = 3  # laws: each doubles the pairs of values
_MOST_WORK = 2 * 10**9  # products of numbers in the sums of an exposure: half a second
_MOST_PAIRED = 3 * 10**7  # counts of pairs of values in a profile: half a second


def compute_promise(promise: Guarantee, channels: Sequence[Channel]) -> Computed | None:
    """Return the number of a promise about multisets of pools; None for any other promise."""
    laws = [channel.law for channel in channels if isinstance(channel, MultisetChannel)]
    pools = tuple(law for law in laws if isinstance(law, PoolLaw))
    capped = any(law.caps is not None for law in pools)
    if len(pools) < len(channels) or (capped and len(pools) > 1):
        return None
    if any(law.size > LARGEST_K or law.values > MOST_VALUES for law in pools):
        raise ValueError("a larger pool or multiset than any release has")
    with np.errstate(divide="raise", over="raise", invalid="raise"):  # of laws that nobody draws
        return _compute(promise, pools)


def _compute(promise: Guarantee, pools: tuple[PoolLaw, ...]) -> Computed | None:
    if promise.statement == PROFILE:
        return _compute_profile(promise, pools)
    if promise.statement == "p-exposure":
        success = math.prod(map(_compute_known_exposure, pools))
        return compute_exposure(promise, success, math.prod(law.values for law in pools))
    if promise.statement == CLOSENESS and len(pools) == 1:
        return _compute_closeness(promise, pools[0])
    if promise.statement == PER_COUNT:
        return _compute_count(promise, pools)
    return None


def _compute_profile(promise: Guarantee, laws: tuple[PoolLaw, ...]) -> Computed:
    """Return the δ that is furthest beyond the promised one."""
    given = promise.parameters
    if any(law.size != given["k"] for law in laws):
        return Computed(math.inf, given["k"], "the values that a row shows")
    names = [name for name in given if name.startswith(DELTA_AT)]
    epsilons = tuple(float(name.removeprefix(DELTA_AT)) for name in names)
    if not all(0 <= epsilon <= LARGEST_EPSILON for epsilon in epsilons):
        raise ValueError("not an ε of a profile")
    known = _compute_known_profile(laws, epsilons)
    return worst(
        at_most(
            promise, name, max(_compute_excluded(laws), delta - _MACHINES), f"δ at ε = {epsilon:g}"
        )
        for name, epsilon, delta in zip(names, epsilons, known, strict=True)
    )


def _compute_excluded(laws: tuple[PoolLaw, ...]) -> float:
    """Return the probability that the rarest value of a pool is missing in its multiset, and thus
    excluded: (1 - share)^(k - 1). No δ is smaller. With caps, 0 is returned.
    """
    if any(law.caps is not None for law in laws):
        return 0.0
    present = (1 - (1 - min(law.shares)) ** (law.size - 1) for law in laws)
    return 1 - float(math.prod(present))


def _compute_known_profile(
    laws: tuple[PoolLaw, ...], epsilons: tuple[float, ...]
) -> tuple[float, ...]:
    """Return the δ at each ε; a smaller one where that takes long: of some of the multisets, which
    tell no more than all, or of some pairs of values.
    """
    if len(laws) == 1:
        return profile(laws[0], epsilons, _count_quick_pairs(laws[0]))
    return profile_together(laws[:_MOST_TOGETHER], epsilons)


def _count_quick_pairs(law: PoolLaw) -> int | None:
    """Return how many pairs of values can be tried in a short time; None if all can."""
    kinds, largest = len(set(law.weights)), max(law.caps or (0,)) + 1
    # A pair has products of its counts, and some of polynomials of degree k.
    most = _MOST_PAIRED // (largest**2 + law.size**2 // 10 + 5000)
    return None if law.caps is None or kinds**2 <= most else max(most, 1)


def _compute_known_exposure(law: PoolLaw) -> float:
    """Return the success of the best guess; that of a blind one where it takes long."""
    kinds = len(set(law.weights))
    # One product of polynomials of degree k for each count and level of the tree.
    work = kinds * law.size * kinds.bit_length() * (law.size**2 + 16_000)
    return 1 / law.values if work > _MOST_WORK else pool_exposure(law) - _MACHINES


def _compute_closeness(promise: Guarantee, law: PoolLaw) -> Computed:
    """Return how many members of the pool every multiset is close to, over the promised number."""
    given = promise.parameters
    caps = law.caps or (law.size,) * law.values
    members = [
        law.size * given["pool"] * share / cap for share, cap in zip(law.shares, caps, strict=True)
    ]
    return Computed(given["n"], float(min(members)), "the members of the pool that are promised")


def _compute_count(promise: Guarantee, laws: Sequence[PoolLaw]) -> Computed:
    given = promise.parameters
    if any(law.size != given["k"] for law in laws):
        return Computed(math.inf, given["k"], "the values that a row shows")
    least = max(k_bounds(Fraction(given["epsilon"]), Fraction(given["f"])))
    return at_most(promise, "k", float(least), "the least k of the condition")
