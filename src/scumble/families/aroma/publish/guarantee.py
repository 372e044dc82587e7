"""The guarantees of Aroma, with the exact figures of its law, and the paper's condition for one
count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from scumble.families.aroma.design import (
    CLOSENESS,
    DELTA_AT,
    PER_COUNT,
    PROFILE,
    SLACK,
    k_bounds,
    pool_exposure,
    profile_together,
)
from scumble.model.evidence.channels import PoolLaw
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    float_at_least,
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
CORRELATED = (
    "The figures of one attribute are for an attacker to whom the others tell nothing about it. "
    "Where they do, those of {} together hold."
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


def local_profile(
    laws: tuple[PoolLaw, ...], names: str, limits: tuple[str, ...], attribute: int | None = None
) -> Guarantee:
    """Return the guarantee of (ε, δ)-LDP, with the δ at each ε of `EPSILONS`: of multisets of all
    sensitive attributes, or of the multiset of one, which is the `attribute`-th.
    """
    deltas = profile_together(laws, EPSILONS)
    listed = ", ".join(
        f"{at_most(delta)} at ε = {epsilon:g}"
        for epsilon, delta in zip(EPSILONS, deltas, strict=True)
    )
    numbers = {
        f"{DELTA_AT}{epsilon:g}": delta for epsilon, delta in zip(EPSILONS, deltas, strict=True)
    }
    proof = (
        "δ(ε) = max over x ≠ y of the sum over multisets c of max(0, P(c|x) − e^ε P(c|y)); "
        "computed exactly"
    )
    shown, which = f"{names}, one of them true", "any two true values"
    if len(laws) > 1:
        proof = (
            "the same sum over multisets of each attribute, drawn independently: their losses "
            "ln P(c|x) − ln P(c|y) add up, and are rounded so that δ(ε) is no smaller"
        )
        shown, which = f"each of {names}, one of them true", "any two combinations of true values"
    return Guarantee(
        statement=PROFILE,
        parameters={"k": laws[0].size, **numbers, **_state_number(attribute)},
        scope="the whole release" if attribute is None else "each single value",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof=proof,
        sentence=(
            f"Each row shows {laws[0].size} values of {shown}. Whatever can be seen "
            f"of them is, for {which}, equally likely up to a factor e^ε and a "
            f"probability δ: {listed}. A value that is not shown is excluded for certain, so this "
            "is not ε-DP for any ε."
        ),
        limits=limits,
    )


def promise_exposure(
    laws: tuple[PoolLaw, ...], names: str, limits: tuple[str, ...], attribute: int | None = None
) -> Guarantee:
    """Return the guarantee of p-exposure: the success probability of the best guess of the values
    of all sensitive attributes, or of that of one, which is the `attribute`-th.
    """
    secret = sensitive_values(names, guessed=f"values of {names}", limits=limits)
    proof = "Σ over multisets c of max P(c|x) / d, the success of the best guess; computed exactly"
    if len(laws) > 1:
        proof += "; multisets are independent, so that the successes of all attributes multiply"
    success = math.prod(map(pool_exposure, laws))
    promise = secret.exposure(success, math.prod(law.values for law in laws), proof)
    return replace(promise, parameters={**promise.parameters, **_state_number(attribute)})


def _state_number(attribute: int | None) -> dict[str, float]:
    return {} if attribute is None else {"attribute": attribute}


def close(closeness: Fraction, total: Fraction, names: str, limits: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of (n, 0)-closeness, which the caps ensure."""
    return Guarantee(
        statement=CLOSENESS,
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
        statement=PER_COUNT,
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
    accepted = [
        math.prod(plain[:x]) * true[x] * math.prod(plain[x + 1 :]) for x in range(len(plain))
    ]
    return 1 - min(accepted)


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
    within = np.fft.irfft(_raise_to(polynomials, values), roots)[:, k % roots]
    return (least + float((1 - within / within[-1]).sum())) / k


def _raise_to(numbers: npt.NDArray[np.complex128], power: int) -> npt.NDArray[np.complex128]:
    """Return a whole power of numbers by squares, which is faster than the power of numpy."""
    powers, square = np.ones_like(numbers), numbers
    while power:
        if power & 1:
            powers = powers * square
        power >>= 1
        square = square * square if power else square
    return powers
