"""What Aroma promises: exact figures of its bags, and the paper's condition as what it is."""

from __future__ import annotations

from fractions import Fraction

from scumble.model.errors import ParameterError
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    float_at_least,
    gamma_for_epsilon,
    percent_at_least,
    percent_at_most,
    positive,
    share,
)

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
    "Who compares the releases before and after an update sees which rows came and went. Who sees "
    "a record leave and come back learns for certain whether its sensitive value is the same; if "
    "it is not, there are two bags of that person. The bag is a pseudonym: it links a record that "
    "comes back to what it was before, also where other columns have changed."
)
COMBINED = (
    "The promise is for the combination of {}: one of them alone may be guessed more often, or be "
    "the same in all that a row shows, and is then told."
)


def k_for(epsilon: float | Fraction, f: float | Fraction) -> int:
    """The least k that meets the paper's condition for ONE count of a share `f` of the pool.

    Theorem 4.4 of the paper, by a normal approximation: ((k−1)(1−f)+2)·f ≤ e^ε ((k−1)f−1)(1−f) and
    k ≥ 1 + 3/(2ε f(1−f)). It is no differential privacy of the published view, which has none. The
    paper itself rounds 49.2 (f = 1/15, ε = 0.5) down to 49, which does not quite meet it.

    >>> k_for(0.5, 0.2)
    20
    """
    loss = positive("k_for", "epsilon", epsilon)
    part = share("k_for", "f", f)
    return max(-(-bound.numerator // bound.denominator) for bound in k_bounds(loss, part))


def k_bounds(epsilon: Fraction, f: Fraction) -> tuple[Fraction, Fraction]:
    """The two lower bounds on k of the paper's condition, before they are rounded up."""
    ratio = gamma_for_epsilon(epsilon)
    if ratio <= 1:
        raise ParameterError.of("k_for", "epsilon", "large enough to change an odd", float(epsilon))
    spread = f * (1 - f)
    return 1 + (2 * f + ratio * (1 - f)) / (spread * (ratio - 1)), 1 + 3 / (2 * epsilon * spread)


def local_profile(law: PoolLaw, names: str, limits: tuple[str, ...]) -> Guarantee:
    """(ε, δ)-LDP as it really is, at a few ε."""
    from scumble.private.perturbation.aroma_risk import profile

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
        proof="δ(ε) = max over x ≠ y of Σ max(0, P(bag|x) − e^ε P(bag|y)); computed exactly",
        sentence=(
            f"Each row shows {law.size} values of {names}, one of them true. Whatever can be seen "
            "of them is, for any two true values, equally likely up to a factor e^ε and a "
            f"probability δ: {listed}. A value that is not shown is excluded for certain, so this "
            "is not ε-DP for any ε."
        ),
        limits=limits,
    )


def exposed(law: PoolLaw, names: str, limits: tuple[str, ...]) -> Guarantee:
    """The success of the best guess."""
    from scumble.private.perturbation.aroma_risk import exposure

    success = exposure(law)
    return Guarantee(
        statement="p-exposure",
        parameters={"p": success, "values": law.values},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="Σ over bags of max P(bag|x) / d, the success of the best guess; computed exactly",
        sentence=(
            f"An attacker who must guess one of {law.values} equally likely values of {names}, and "
            "knows everybody else's, is right with probability at most "
            f"{percent_at_most(success)} (blind guessing: "
            f"{percent_at_least(Fraction(1, law.values))})."
        ),
        limits=limits,
    )


def close(closeness: Fraction, total: Fraction, names: str, limits: tuple[str, ...]) -> Guarantee:
    """What the caps ensure."""
    return Guarantee(
        statement="(n, 0)-closeness",
        parameters={"n": float(closeness), "t": 0, "pool": float_at_least(total)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="no value is in a bag of k more often than k·m/n, m its weight in the pool: Theorem "
        "4.1 of the paper",
        sentence=(
            f"The values of {names} that a row shows are distributed exactly like some "
            f"{float(closeness):g} or more of the {float(total):g} members of the public pool. "
            "This is a property of each row by itself, not a bound on what an attacker learns."
        ),
        limits=limits,
    )


def per_count(epsilon: Fraction, part: Fraction, size: int, limits: tuple[str, ...]) -> Guarantee:
    """The paper's claim, for what it is worth."""
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
