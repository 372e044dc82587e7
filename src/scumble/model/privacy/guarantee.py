"""Guarantees: the statement, scope and proof of a privacy promise, and the conversions between ε, γ
and (ρ1, ρ2).

Every conversion rounds in the direction that keeps the guarantee true: a ratio that noise must
respect is rounded down, a privacy loss that is claimed is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import Any, Literal, get_args

from scumble.model import stored
from scumble.model.errors import ParameterError
from scumble.model.notebook import html_list

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
_LARGE_EPSILON = 10  # a larger ε is allowed, with a warning

# Parameters that a guarantee presupposes, or lower bounds: rounded down; all others are rounded up.
PREMISES = frozenset({"d", "k", "l", "least", "n", "rho1"})
_SHARES = frozenset({"d", "gamma", "p", "rho1", "rho2"})
_SHORT = 8  # characters of a number that a user has typed

# Ratios that the samplers must respect are multiples of 2^-64: exact, and short enough to print.
_GRID = 1 << 64


@dataclass(frozen=True, repr=False)
class Guarantee:
    """One guarantee of a release. `str()` is a sentence for people; `limits` are sentences about
    what is not guaranteed.
    """

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

    def _repr_html_(self) -> str:
        limits = (f"Not promised: {limit}" for limit in self.limits)
        return html_list(self.claim, [self.sentence, *limits])

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
        return cls(
            statement=stored.text(data["statement"]),
            parameters=stored.numbers(data["parameters"]),
            scope=stored.one_of(data["scope"], get_args(Scope)),
            neighbourhood=stored.one_of(data["neighbourhood"], get_args(Neighbourhood)),
            trust=stored.one_of(data["trust"], get_args(Trust)),
            proof=stored.text(data["proof"]),
            sentence=stored.text(data["sentence"]),
            limits=stored.items(stored.text, data["limits"]),
        )


PROBABILISTIC = "(ε, δ)-probabilistic DP"


def probabilistic(stated: Guarantee) -> tuple[Guarantee, Guarantee]:
    """Return an (ε, δ)-probabilistic promise, and the (ε, δ)-DP that follows from it.

    Outputs of probability δ at most change the odds between a table and some neighbour by more than
    e^ε. For any set R of outputs, P(R) is the probability of its other outputs, at most e^ε times
    that under the neighbour, plus at most δ. The converse does not hold: (ε, δ)-DP allows outputs
    of any probability to change the odds a little more than e^ε.
    """
    if stated.statement != PROBABILISTIC or not {"epsilon", "delta"} <= set(stated.parameters):
        raise ParameterError.of("probabilistic", "stated", f"a promise of {PROBABILISTIC}", stated)
    proof = f"from the probabilistic promise, with the same ε and δ; {stated.proof}"
    epsilon, delta = (at_most(stated.parameters[name]) for name in ("epsilon", "delta"))
    sentence = (
        "So nothing that can be published is more than e^ε times as likely after a change of one "
        f"person, but for a probability of δ (ε = {epsilon}, δ = {delta})."
    )
    return stated, replace(stated, statement="(ε, δ)-DP", proof=proof, sentence=sentence)


class Guarantees(tuple[Guarantee, ...]):
    """All guarantees of a release; `repr()` has one line for each."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return "".join(guarantee._repr_html_() for guarantee in self)


# --- numbers given by users: the exact fraction as written (0.1 is one tenth), or ParameterError -


def read_positive(owner: str, parameter: str, value: object) -> Fraction:
    """Return `value`, a number above 0, as a Fraction."""
    return _number(owner, parameter, value, "a number above 0", lambda number: number > 0)


def read_epsilon(owner: str, value: object) -> Fraction:
    """Return `value`, an ε above 0 and at most `LARGEST_EPSILON` (e^100 is 10^43), as a
    Fraction.
    """
    allowed = f"a number above 0 and at most {LARGEST_EPSILON}"
    return _number(owner, "epsilon", value, allowed, lambda number: 0 < number <= LARGEST_EPSILON)


def read_share(owner: str, parameter: str, value: object) -> Fraction:
    """Return `value`, a number strictly between 0 and 1, as a Fraction."""
    allowed = "a number between 0 and 1 (both excluded)"
    return _number(owner, parameter, value, allowed, lambda number: 0 < number < 1)


def read_delta(owner: str, value: object) -> Fraction:
    """Return `value`, a δ between `SMALLEST_DELTA` and 1, as a Fraction. For a smaller δ the tails
    of the noise are 0 in floating point, and too little noise would seem to be enough.
    """
    allowed = f"a number between 0 and 1 (both excluded), at least {float(SMALLEST_DELTA):g}"
    return _number(owner, "delta", value, allowed, lambda number: SMALLEST_DELTA <= number < 1)


_NUMBERS = (int, float, Fraction, Decimal, stored.ExactText)


def _number(
    owner: str, parameter: str, value: object, allowed: str, test: Callable[[Fraction], bool]
) -> Fraction:
    plain = value.item() if hasattr(value, "item") else value  # numpy's numbers
    try:
        if isinstance(plain, bool) or not isinstance(plain, _NUMBERS):
            raise ValueError
        number = plain if isinstance(plain, Fraction) else stored.fraction(str(plain).strip())
    except ValueError:
        raise ParameterError.of(owner, parameter, allowed, value) from None
    if not test(number):
        raise ParameterError.of(owner, parameter, allowed, value)
    return number


# --- ε, γ, (ρ1, ρ2), exposure --------------------------------------------------------------------


def gamma_for_epsilon(epsilon: Fraction, parts: int = 1) -> Fraction:
    """Return the largest ratio on the grid of 2^-64 whose `parts`-th power is at most e^ε."""
    with localcontext() as context:
        context.prec = 120 + LARGEST_EPSILON // 2
        exponent = Decimal(epsilon.numerator) / (Decimal(epsilon.denominator) * parts)
        scaled = exponent.exp() * _GRID
        # 120 digits are far more precise than one grid step; rounding down covers the error.
        return Fraction(int(scaled * (1 - Decimal(10) ** -100)), _GRID)


def gamma_above_epsilon(epsilon: Fraction) -> Fraction:
    """Return a ratio on the grid just above e^ε, for sentences that bound an attacker's success."""
    return gamma_for_epsilon(epsilon) + Fraction(2, _GRID)


def gamma_root(gamma: Fraction, parts: int) -> Fraction:
    """Return the largest ratio on the grid whose `parts`-th power is at most γ (γ for one part)."""
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
    """Return ln γ, rounded up to a float."""
    if gamma == 1:
        return 0.0
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(gamma.numerator) / Decimal(gamma.denominator)).ln()
    nearest = float(exact)
    return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)


def gamma_for_rho(rho1: Fraction, rho2: Fraction) -> Fraction:
    """Return the amplification γ under which a prior of at most ρ1 has a posterior of at
    most ρ2.
    """
    return rho2 * (1 - rho1) / (rho1 * (1 - rho2))


def posterior_at_most(prior: Fraction, gamma: Fraction) -> Fraction:
    """Return the largest posterior of a prior under γ-amplification, the inverse of
    `gamma_for_rho`.
    """
    return gamma * prior / (1 + (gamma - 1) * prior)


def exposure_at_most(epsilon: float, values: int) -> float:
    """Return the best success probability, under ε-DP, of an adversary who guesses one of `values`
    equally likely values.
    """
    return 1 / (1 + (values - 1) * math.exp(-epsilon))


def epsilon_for_exposure(success: float, values: int) -> float:
    """Return the smallest ε that allows a success probability of `success` among `values` equally
    likely values.
    """
    if success >= 1:
        return math.inf
    return max(0.0, math.log((values - 1) * success / (1 - success))) if success > 0 else 0.0


def large_epsilon_warning(epsilon: float | Fraction) -> str:
    """Return a warning about an ε that protects hardly anything; empty for an ε of at most 10."""
    given = Fraction(epsilon)
    if given <= _LARGE_EPSILON:
        return ""
    prior = Fraction(1, 10)
    end = posterior_at_most(prior, gamma_for_epsilon(min(given, Fraction(LARGEST_EPSILON))))
    one = posterior_at_most(prior, gamma_above_epsilon(Fraction(1)))
    return (
        f"ε = {at_most(given)} hides next to nothing: someone who believed a guess with "
        f"{percent_at_most(prior)} may reach {percent_at_least(end)}. "
        f"With ε = 1 that is at most {percent_at_most(one)}."
    )


# --- numbers in sentences, rounded so that the sentence stays true -------------------------------


def float_at_least(number: Fraction) -> float:
    """Return the least float that is not below `number`."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def float_at_most(number: Fraction) -> float:
    """Return the largest float that is not above `number`."""
    return -float_at_least(-number)


def at_most(number: float | Fraction, digits: int = 4) -> str:
    """Return an upper bound in `digits` digits, rounded up."""
    return _rounded(number, digits, ROUND_CEILING)


def at_least(number: float | Fraction, digits: int = 4) -> str:
    """Return a lower bound, or a number of a condition, in `digits` digits, rounded down."""
    return _rounded(number, digits, ROUND_FLOOR)


def format_parameter(name: str, value: float) -> str:
    """Return the parameter `name` of a guarantee in a few digits, rounded so that the guarantee
    stays true. Probabilities have three digits, like percentages.
    """
    digits = 3 if name in _SHARES and value < 1 else 4
    return (at_least if name in PREMISES else at_most)(_meant(value), digits)


def _meant(value: float) -> float:
    """Return the short neighbour of a float, if it has one: 0.1 for the next float above 0.1. A
    number that was rounded by one step to keep a guarantee true is printed as it was given.
    """
    near = (value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf))
    return next((each for each in near if len(str(each)) <= _SHORT), value)


def percent_at_most(probability: float | Fraction) -> str:
    """Return an upper bound on a probability in percent, rounded up to three digits."""
    return _rounded(100 * _written(probability), 3, ROUND_CEILING) + " %"


def percent_at_least(probability: float | Fraction) -> str:
    """Return a probability in percent, rounded down to three digits."""
    return _rounded(100 * _written(probability), 3, ROUND_FLOOR) + " %"


def _written(number: float | Fraction) -> Fraction:
    """Return a number as it is written: the float 0.1 is one tenth."""
    return number if isinstance(number, Fraction) else Fraction(str(number))


def _rounded(number: float | Fraction, digits: int, direction: str) -> str:
    exact = _written(number)
    with localcontext() as context:
        context.prec, context.rounding = digits, direction
        short = Decimal(exact.numerator) / Decimal(exact.denominator)
    plain = abs(short.adjusted()) < 7
    return f"{short.normalize():f}" if plain else f"{short.normalize():e}"
