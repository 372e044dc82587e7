"""The guarantees of Aroma: exact figures of what its multisets tell, and the paper's condition for
one count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError
from scumble.model.evidence.channels import PoolLaw
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    float_at_least,
    gamma_for_epsilon,
    read_positive,
    read_share,
)
from scumble.private.perturbation.guarantees import sensitive_values

EPSILONS = (0.5, 1.0, 2.0)
LIMITS: tuple[str, ...] = (
    "A value that is not among those of a row is excluded for certain: not ε-DP, for any ε.",
    "Everybody can see who is in the table: other columns are published as they are.",
    "The promise is for one row of one release: more rows of a person, or more releases, add up.",
    "Of levels that were drawn together the smallest k tells all; of different draws they add up.",
    "What the other rows and columns tell about a person by statistics is not hidden.",
)
PRIOR = (
    "The pool is published. It must be known without the private table; one taken from that table "
    "would be a leak that this promise does not cover."
)
UPDATED = (
    "An attacker who compares the releases before and after an update sees which rows were added "
    "and removed. If a record is removed and added again, the attacker learns for certain whether "
    "its sensitive value is the same; if it is not, two multisets of that person are published. "
    "The multiset is a pseudonym: it links a record that is added again to what it was before, "
    "also where other columns have changed."
)
COMBINED = (
    "The promise is for the combination of {}: one of them alone may be guessed more often, or be "
    "the same in all that a row shows, and is then told."
)


def k_for(epsilon: float | Fraction, f: float | Fraction) -> int:
    """Return the least k that meets the paper's condition for ONE count of a share `f` of the pool.

    Theorem 4.4 of the paper, by a normal approximation: ((k−1)(1−f)+2)·f ≤ e^ε ((k−1)f−1)(1−f) and
    k ≥ 1 + 3/(2ε f(1−f)). It is no differential privacy of the published view, which has none. The
    paper itself rounds 49.2 (f = 1/15, ε = 0.5) down to 49, which does not quite meet it.

    >>> k_for(0.5, 0.2)
    20
    """
    loss = read_positive("k_for", "epsilon", epsilon)
    part = read_share("k_for", "f", f)
    return max(-(-bound.numerator // bound.denominator) for bound in k_bounds(loss, part))


def k_bounds(epsilon: Fraction, f: Fraction) -> tuple[Fraction, Fraction]:
    """Return the two lower bounds on k in the condition of the paper, before rounding up."""
    ratio = gamma_for_epsilon(epsilon)
    if ratio <= 1:
        raise ParameterError.of("k_for", "epsilon", "large enough to change an odd", float(epsilon))
    spread = f * (1 - f)
    return 1 + (2 * f + ratio * (1 - f)) / (spread * (ratio - 1)), 1 + 3 / (2 * epsilon * spread)


def local_profile(law: PoolLaw, names: str, limits: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of (ε, δ)-LDP, with the exact δ at each ε of `EPSILONS`."""
    deltas = profile(law, EPSILONS)
    listed = ", ".join(
        f"{at_most(delta)} at ε = {epsilon:g}"
        for epsilon, delta in zip(EPSILONS, deltas, strict=True)
    )
    numbers = {
        f"delta at epsilon {epsilon:g}": delta
        for epsilon, delta in zip(EPSILONS, deltas, strict=True)
    }
    return Guarantee(
        statement="(ε, δ)-LDP profile",
        parameters={"k": law.size, **numbers},
        scope="the whole release",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="δ(ε) = max over x ≠ y of the sum over multisets c of max(0, P(c|x) − e^ε P(c|y)); "
        "computed exactly",
        sentence=(
            f"Each row shows {law.size} values of {names}, one of them true. Whatever can be seen "
            "of them is, for any two true values, equally likely up to a factor e^ε and a "
            f"probability δ: {listed}. A value that is not shown is excluded for certain, so this "
            "is not ε-DP for any ε."
        ),
        limits=limits,
    )


def exposed(law: PoolLaw, names: str, limits: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of p-exposure: the success probability of the best guess."""
    secret = sensitive_values(names, guessed=f"values of {names}", limits=limits)
    proof = "Σ over multisets c of max P(c|x) / d, the success of the best guess; computed exactly"
    return secret.exposure(pool_exposure(law), law.values, proof)


def close(closeness: Fraction, total: Fraction, names: str, limits: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of (n, 0)-closeness, which the caps ensure."""
    return Guarantee(
        statement="(n, 0)-closeness",
        parameters={"n": float(closeness), "t": 0, "pool": float_at_least(total)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="no value is in a multiset of k more often than k·m/n, m its weight in the pool: "
        "Theorem 4.1 of the paper",
        sentence=(
            f"The values of {names} that a row shows are distributed exactly like some "
            f"{float(closeness):g} or more of the {float(total):g} members of the public pool. "
            "This is a property of each row by itself, not a bound on what an attacker learns."
        ),
        limits=limits,
    )


def per_count(epsilon: Fraction, part: Fraction, size: int, limits: tuple[str, ...]) -> Guarantee:
    """Return the condition of the paper for one count, stated as such; it is not a bound."""
    return Guarantee(
        statement="per-count condition of the paper",
        parameters={"epsilon": float(epsilon), "f": float(part), "k": size},
        scope="one count answer",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="Theorem 4.4 of the paper, a normal approximation of one count; not a bound",
        sentence=(
            f"With k = {size} the paper's condition for ε = {float(epsilon):g} holds for ONE count "
            f"of values that make up {float(part):g} of the pool. It rests on a normal "
            "approximation and is not differential privacy, neither of that count nor of what is "
            "published."
        ),
        limits=limits,
    )


# What multisets of a pool reveal about their true values: exact figures, rounded up.
#
# All figures are sums of positive terms in floating point. Each rounding has a relative error of
# at most 2^-53, and no chain of roundings has 10^6 steps. So no relative error reaches 10^-9, and
# that much is added to every figure.
#
# With W(c) the multinomial probability of a multiset c of k (0 beyond the caps), and E_x = Σ_c c_x
# W(c), a multiset has probability c_x W(c) / E_x if x is the true value: x may be any of its c_x
# equal members.

Floats = npt.NDArray[np.float64]
SLACK = 1e-9


def acceptance(law: PoolLaw) -> float:
    """Return the probability that the first draws keep to the caps, for the true value for which
    it is smallest; rounded down.
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
    """Return the paper's bound on the probability of drawing again (Theorem 4.1), for the worst
    true value. `caps` are not rounded down. For comparison only: the bound multiplies over the
    values as if their counts were independent.
    """
    total = sum(weights)

    def excess(mean: float, cap: float) -> float:
        """Return the Chernoff bound on the probability that a count of this mean exceeds `cap`."""
        ratio = cap / mean
        return math.exp(mean * (ratio - 1 - ratio * math.log(ratio))) if ratio > 1 else 1.0

    means = [(size - 1) * weight / total for weight in weights]
    plain = [1 - excess(mean, cap) for mean, cap in zip(means, caps, strict=True)]
    true = [1 - excess(mean, cap - 1) for mean, cap in zip(means, caps, strict=True)]
    kept = [math.prod(plain[:x]) * true[x] * math.prod(plain[x + 1 :]) for x in range(len(plain))]
    return 1 - min(kept)


@lru_cache(maxsize=64)
def profile(law: PoolLaw, epsilons: tuple[float, ...]) -> tuple[float, ...]:
    """Return the least δ of (ε, δ)-LDP for each ε: max over x ≠ y of Σ_c max(0, P(c|x) − e^ε
    P(c|y)).

    Without caps the two values with the smallest weights are the worst pair. Their multisets can be
    post-processed into those of any two values with larger weights: each further member becomes
    one of the two with fixed probabilities. Post-processing reveals nothing more.
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
def pool_exposure(law: PoolLaw) -> float:
    """Return the success of the best guess of a uniformly chosen value: Σ_c max_x P(c|x) / d.

    Σ_c W(c) max_x c_x/E_x is computed by thresholds: W of all multisets with c_x ≤ t E_x for every
    x is a product of short polynomials, and a step of t changes one of them.
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
    # The remainder beyond the last threshold is no larger than the rounding.
    rounding = 1e-11 * total * steps[-1][0]
    return min(1.0, (success + rounding) / law.values + SLACK)


def least_k(law: Callable[[int], PoolLaw], allowed: float, largest: int) -> int | None:
    """Return the least k from 2 on with an exposure of at most `allowed`; None above `largest`.

    `law` returns the law of the multisets of size k. The exposure falls with k.
    """
    low, high = 1, 2
    while not _is_within(law(min(high, largest)), allowed):
        if high >= largest:
            return None
        low, high = high, 2 * high
    high = min(high, largest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_within(law(middle), allowed) else (middle, high)
    return high


def _is_within(law: PoolLaw, allowed: float) -> bool:
    """Return whether the exposure is at most `allowed`: by `equal_exposure` unless it is close."""
    if law.caps is None and len(set(law.weights)) == 1:
        exposure = equal_exposure(law.values, law.size)
        if abs(exposure - allowed) > 10 * SLACK:
            return exposure <= allowed
    return pool_exposure(law) <= allowed


@lru_cache(maxsize=64)
def equal_exposure(values: int, k: int) -> float:
    """Return the exposure of multisets of k equally likely values, without slack.

    It is the mean of the largest count, over k. All counts are at most t with the probability that
    independent Poisson counts are, given that their sum is k: the coefficient of z^k in the power
    of a polynomial, found by its values at roots of unity. On that circle the polynomial is at
    most 1, so that no digit is lost.
    """
    rate = k / values
    # Counts and sums that are twelve standard deviations off have no weight in floating point.
    least, most = -(-k // values), min(k, int(rate + 12 * math.sqrt(rate) + 40))
    roots = 1 << max(most, int(12 * math.sqrt(k) + 40)).bit_length()
    counts = range(most + 1)
    shares = np.exp([count * math.log(rate) - rate - math.lgamma(count + 1) for count in counts])
    limits = np.arange(least, most + 1)  # the largest count is one of these
    polynomials = np.fft.rfft(np.where(counts <= limits[:, None], shares, 0.0), roots)
    within = np.fft.irfft(_raised(polynomials, values), roots)[:, k % roots]
    return (least + float((1 - within / within[-1]).sum())) / k


def _raised(numbers: npt.NDArray[np.complex128], power: int) -> npt.NDArray[np.complex128]:
    """Return a whole power of numbers by squares, which is faster than the power of numpy."""
    found, square = np.ones_like(numbers), numbers
    while power:
        if power & 1:
            found = found * square
        power >>= 1
        square = square * square if power else square
    return found


@dataclass(frozen=True)
class _Kind:
    """All values of one weight: their number, their mean count in k draws, and their cap."""

    number: int
    rate: float
    cap: int
    size: int

    @cached_property
    def terms(self) -> Floats:
        return _terms(self.rate, self.cap, self.size)

    def power(self, cap: int, number: int) -> Floats:
        """Return the product of `number` equal polynomials, up to degree k."""
        result, square = _one(self.size), _terms(self.rate, cap, self.size)
        while number:
            if number & 1:
                result = _times(result, square)
            number >>= 1
            square = _times(square, square) if number else square
        return result


class _Tree:
    """A product of polynomials in which one factor at a time can be replaced."""

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


def _two_smallest(law: PoolLaw) -> list[_Kind]:
    """Return the two lightest values, and all others merged into one, which is heavier and thus no
    worse.
    """
    lightest = sorted(law.weights)
    total, size = sum(lightest), law.size
    rates = [size * weight / total for weight in (*lightest[:2], sum(lightest[2:]))]
    kinds = [_Kind(1, rate, size, size) for rate in rates]
    return kinds if len(lightest) > 2 else kinds[:2]


def _moments(kinds: Sequence[_Kind], size: int) -> Floats:
    """Return E_x = Σ_c c_x W(c) for a value of each kind."""
    counts = np.arange(size + 1)
    found = [
        _times(counts * kind.terms, _times(kind.power(kind.cap, kind.number - 1), others))[size]
        for kind, others in zip(kinds, _without_each(kinds), strict=True)
    ]
    return np.array(found)


def _pairs(kinds: Sequence[_Kind]) -> Iterator[tuple[int, int, Floats]]:
    """Yield every ordered pair of kinds that two different values can have, with the product of all
    other values.
    """
    for one, kind in enumerate(kinds):
        # One value is removed; a kind of one value leaves an empty product.
        rest = [*kinds[:one], replace(kind, number=kind.number - 1), *kinds[one + 1 :]]
        for other, others in enumerate(_without_each(rest)):
            if rest[other].number:
                chosen = rest[other]
                yield one, other, _times(others, chosen.power(chosen.cap, chosen.number - 1))


def _without_each(kinds: Sequence[_Kind]) -> list[Floats]:
    """Return for each kind the product of all others, from products on the left and the right."""
    factors = [kind.power(kind.cap, kind.number) for kind in kinds]
    one = _one(len(factors[0]) - 1)
    lefts = list(accumulate(factors[:-1], _times, initial=one))
    rights = list(accumulate(factors[:0:-1], _times, initial=one))[::-1]
    return [_times(left, right) for left, right in zip(lefts, rights, strict=True)]


def _joint(one: _Kind, other: _Kind, rest: Floats) -> Floats:
    """Return W of all multisets in which two values occur i and j times, up to their caps."""
    counts = np.arange(one.cap + 1)[:, None] + np.arange(other.cap + 1)
    tail = np.where(counts <= one.size, rest[np.maximum(one.size - counts, 0)], 0.0)
    joint: Floats = np.outer(one.terms[: one.cap + 1], other.terms[: other.cap + 1]) * tail
    return joint


def _terms(rate: float, cap: int, size: int) -> Floats:
    """Return the Poisson probabilities of the counts 0 to k, set to 0 beyond the cap."""
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
