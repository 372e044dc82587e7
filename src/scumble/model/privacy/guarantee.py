"""What is promised, to whom and by which proof; and the theorems that turn one promise into
another.

Every conversion rounds in the direction that keeps the promise true: a ratio that noise must
respect is rounded down, a loss that is claimed is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Any, Literal

from scumble.model.errors import ParameterError

Scope = Literal["the whole release", "each single value", "one count answer"]
Neighbourhood = Literal[
    "one person's sensitive values", "replace one person", "add or remove one person"
]
Trust = Literal["local", "central"]

NEIGHBOURS: Mapping[str, Neighbourhood] = {
    "replace": "replace one person",
    "add_remove": "add or remove one person",
}

LARGEST_EPSILON = 100
SMALLEST_DELTA = Fraction(1, 10**300)
_HIDES_LITTLE = 10  # a larger ε is allowed, and warned of

# Parameters that a promise presupposes, or promises at least: they are rounded down, all others up.
PREMISES = frozenset({"d", "k", "l", "least", "n", "rho1"})
_SHARES = frozenset({"d", "gamma", "p", "rho1", "rho2"})
_SHORT = 8  # letters of a number that somebody has typed

# Ratios that the samplers have to keep are multiples of 2^-64: exact, and small enough to print.
_GRID = 1 << 64


@dataclass(frozen=True, repr=False)
class Guarantee:
    """One promise. `str()` is a sentence for people; `limits` say what it does not promise."""

    statement: str
    parameters: Mapping[str, float]
    scope: Scope
    neighbourhood: Neighbourhood
    trust: Trust
    proof: str
    sentence: str
    limits: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"{self.claim}: {self.sentence}"

    @property
    def claim(self) -> str:
        """The statement with its numbers."""
        numbers = (
            f"{name} = {format_parameter(name, value)}" for name, value in self.parameters.items()
        )
        return f"{self.statement} ({', '.join(numbers)})"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "limits": list(self.limits)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guarantee:
        return cls(**{**data, "limits": tuple(data["limits"])})


class Guarantees(tuple[Guarantee, ...]):
    """All promises of a release; printed, they stand one to a line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))


# --- reading numbers -----------------------------------------------------------------------------


def read_positive(owner: str, parameter: str, value: object) -> Fraction:
    """A number above 0 as the exact fraction that was written (0.1 is one tenth)."""
    return _number(owner, parameter, value, "a number above 0", lambda number: number > 0)


def read_epsilon(owner: str, value: object) -> Fraction:
    """An ε: above 0, and not so large that the word privacy means nothing (e^100 is 10^43)."""
    allowed = f"a number above 0 and at most {LARGEST_EPSILON}"
    return _number(owner, "epsilon", value, allowed, lambda number: 0 < number <= LARGEST_EPSILON)


def read_share(owner: str, parameter: str, value: object) -> Fraction:
    """A number strictly between 0 and 1 as the exact fraction that was written."""
    allowed = "a number between 0 and 1 (both excluded)"
    return _number(owner, parameter, value, allowed, lambda number: 0 < number < 1)


def read_delta(owner: str, value: object) -> Fraction:
    """A δ as the exact fraction that was written: not so small that tails of noise, and the δ
    itself, are 0 in floating point, where a promise would seem to be kept by too little noise.
    """
    allowed = f"a number between 0 and 1 (both excluded), at least {float(SMALLEST_DELTA):g}"
    return _number(owner, "delta", value, allowed, lambda number: SMALLEST_DELTA <= number < 1)


def _number(
    owner: str, parameter: str, value: object, allowed: str, test: Callable[[Fraction], bool]
) -> Fraction:
    plain = value.item() if hasattr(value, "item") else value  # numpy's numbers
    try:
        if isinstance(plain, bool) or not isinstance(plain, (int, float, Fraction, Decimal, str)):
            raise ValueError
        number = plain if isinstance(plain, Fraction) else Fraction(str(plain))
    except (ValueError, ZeroDivisionError):
        raise ParameterError.of(owner, parameter, allowed, value) from None
    if not test(number):
        raise ParameterError.of(owner, parameter, allowed, value)
    return number


# --- ε, γ, (ρ1, ρ2), exposure
# ----------------------------------------------------------------------


def gamma_for_epsilon(epsilon: Fraction, parts: int = 1) -> Fraction:
    """The largest ratio on the grid whose `parts`-th power is at most e^ε."""
    with localcontext() as context:
        context.prec = 120 + LARGEST_EPSILON // 2
        exponent = Decimal(epsilon.numerator) / (Decimal(epsilon.denominator) * parts)
        scaled = exponent.exp() * _GRID
        # The 120 digits are good to far more than one grid step; one step down covers the rest.
        return Fraction(int(scaled * (1 - Decimal(10) ** -100)), _GRID)


def gamma_above_epsilon(epsilon: Fraction) -> Fraction:
    """A ratio on the grid just above e^ε, for sentences that bound what an attacker may reach."""
    return gamma_for_epsilon(epsilon) + Fraction(2, _GRID)


def gamma_root(gamma: Fraction, parts: int) -> Fraction:
    """The largest ratio on the grid whose `parts`-th power is at most γ (γ itself for one part)."""
    if parts == 1:
        return gamma
    with localcontext() as context:
        context.prec = 120
        root = (Decimal(gamma.numerator) / Decimal(gamma.denominator)) ** (Decimal(1) / parts)
        candidate = int(root * _GRID) + 1
    while Fraction(candidate, _GRID) ** parts > gamma:
        candidate -= 1
    return Fraction(candidate, _GRID)


def epsilon_for_gamma(gamma: Fraction) -> float:
    """ln γ, rounded up to the next float."""
    if gamma == 1:
        return 0.0
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(gamma.numerator) / Decimal(gamma.denominator)).ln()
    nearest = float(exact)
    return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)


def gamma_for_rho(rho1: Fraction, rho2: Fraction) -> Fraction:
    """The amplification that keeps every prior of at most ρ1 at a posterior of at most ρ2."""
    return rho2 * (1 - rho1) / (rho1 * (1 - rho2))


def posterior_at_most(prior: Fraction, gamma: Fraction) -> Fraction:
    """Where a prior can end under γ-amplification: the inverse reading of `gamma_for_rho`."""
    return gamma * prior / (1 + (gamma - 1) * prior)


def exposure_at_most(epsilon: float, values: int) -> float:
    """The best success of any adversary who guesses one of `values` equally likely values."""
    return 1 / (1 + (values - 1) * math.exp(-epsilon))


def epsilon_for_exposure(success: float, values: int) -> float:
    """The ε that a success probability in the exposure test implies at least."""
    if success >= 1:
        return math.inf
    return max(0.0, math.log((values - 1) * success / (1 - success))) if success > 0 else 0.0


def large_epsilon_warning(epsilon: float | Fraction) -> str:
    """A warning about a privacy loss that hides next to nothing; empty if it is not so large."""
    given = Fraction(epsilon)
    if given <= _HIDES_LITTLE:
        return ""
    prior = Fraction(1, 10)
    end = posterior_at_most(prior, gamma_for_epsilon(min(given, Fraction(LARGEST_EPSILON))))
    one = posterior_at_most(prior, gamma_above_epsilon(Fraction(1)))
    return (
        f"ε = {at_most(given)} hides next to nothing: who gave {percent_at_most(prior)} to a guess "
        f"may end at {percent_at_least(end)}. With ε = 1 that is at most {percent_at_most(one)}."
    )


# --- composition
# -----------------------------------------------------------------------------------


def sampled(epsilon: float, rate: float) -> float:
    """The loss when each person takes part with probability `rate` (add or remove one person)."""
    return math.log1p(rate * math.expm1(epsilon))


# --- numbers in sentences, rounded so that the sentence stays true -------------------------------


def float_at_least(number: Fraction) -> float:
    """The nearest float that is not below an exact number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def float_at_most(number: Fraction) -> float:
    """The nearest float that is not above an exact number."""
    return -float_at_least(-number)


def at_most(number: float | Fraction, digits: int = 4) -> str:
    """A bound in so many digits, rounded up."""
    return _rounded(number, digits, ROUND_CEILING)


def at_least(number: float | Fraction, digits: int = 4) -> str:
    """A number that a condition names, in so many digits, rounded down."""
    return _rounded(number, digits, ROUND_FLOOR)


def format_parameter(name: str, value: float) -> str:
    """A parameter of a promise in a few digits, rounded as sentences round it: shares have three
    digits, as percentages have.
    """
    digits = 3 if name in _SHARES and value < 1 else 4
    return (at_least if name in PREMISES else at_most)(_meant(value), digits)


def _meant(value: float) -> float:
    """A tenth for the float beside 0.1: what was moved by one step, lest a promise be rounded, is
    said as it was given.
    """
    near = (value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf))
    return next((each for each in near if len(str(each)) <= _SHORT), value)


def percent_at_most(probability: float | Fraction) -> str:
    """A bound on a probability in percent, rounded up to three digits."""
    return _rounded(100 * _written(probability), 3, ROUND_CEILING) + " %"


def percent_at_least(probability: float | Fraction) -> str:
    """A prior, or the success of a blind guess, in percent, rounded down to three digits."""
    return _rounded(100 * _written(probability), 3, ROUND_FLOOR) + " %"


def _written(number: float | Fraction) -> Fraction:
    """A number as it is written: the float 0.1 is a tenth."""
    return number if isinstance(number, Fraction) else Fraction(str(number))


def _rounded(number: float | Fraction, digits: int, direction: str) -> str:
    exact = _written(number)
    with localcontext() as context:
        context.prec, context.rounding = digits, direction
        short = Decimal(exact.numerator) / Decimal(exact.denominator)
    plain = abs(short.adjusted()) < 7
    return f"{short.normalize():f}" if plain else f"{short.normalize():e}"
