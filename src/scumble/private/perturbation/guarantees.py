"""LDP guarantees and expected errors shared by publishers.

How wrong a count of one sensitive value will be: closed forms that need no data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    float_at_most,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
)

NINETEEN = 1.96  # standard errors that hold nineteen times in twenty
_ASKED, _HAVING = 10_000, 1_000  # the example that an owner is told


def shown_error(having: float, asked: float, own: float, other: float) -> float:
    """The standard error of how many of the rows asked about have a value, if a row shows it with
    probability `own` if it has it, with `other` if not.
    """
    spread = having * own * (1 - own) + (asked - having) * other * (1 - other)
    return math.sqrt(spread) / (own - other)


def drawn_error(asked: float, draws: int, chance: float) -> float:
    """The same, if each row shows its own value and some draws that hit the value by chance."""
    return math.sqrt(draws * asked * chance * (1 - chance))


def outlook_shown(names: Sequence[str], own: float, other: float) -> str:
    """What an owner can expect of counts, in a sentence."""
    return _sentence(names, shown_error(_HAVING, _ASKED, own, other))


def outlook_drawn(names: Sequence[str], draws: int, chance: float) -> str:
    """The same for values that are shown among others."""
    return _sentence(names, drawn_error(_ASKED, draws, chance))


def _sentence(names: Sequence[str], error: float) -> str:
    far = NINETEEN * error
    reach = f"±{far:,.0f}" if far >= 10 else f"±{far:.2g}"
    what = "one value" if len(names) == 1 else "one combination of values"
    return (
        f"To expect: among {_ASKED:,} rows, a count of {_HAVING:,} that have {what} of "
        f"{', '.join(names)} will be within {reach} nineteen times in twenty."
    )


# Promises of channels that keep all odds within a factor γ, whatever an attacker knows.

LIMITS = (
    "Everybody can see who is in the table: other columns are published as they are.",
    "The promise is for one row of one release: more rows of a person, or more releases, add up.",
    "What the other rows and columns tell about a person by statistics is not hidden.",
)


def local(gamma: Fraction, names: str, shown: str, proof: str) -> Guarantee:
    """No two values explain what is shown with probabilities more than γ apart."""
    epsilon = epsilon_for_gamma(gamma)
    return Guarantee(
        statement="ε-LDP",
        parameters={"epsilon": epsilon, "gamma": float_at_least(gamma)},
        scope="the whole release",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof=proof,
        sentence=(
            f"Whatever an attacker knows, the published {shown} of {names} in a row changes the "
            f"odds between any two true values by a factor of at most {at_most(gamma)} "
            f"(ε = {at_most(epsilon)})."
        ),
        limits=LIMITS,
    )


def posterior(prior: Fraction, gamma: Fraction, names: str) -> Guarantee:
    """Where an attacker who begins at `prior` can end."""
    end = posterior_at_most(prior, gamma)
    return Guarantee(
        statement="(ρ1, ρ2)-privacy",
        parameters={"rho1": float_at_most(prior), "rho2": float_at_least(end)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="γ ≤ ρ2(1−ρ1)/(ρ1(1−ρ2)): Evfimievski, Gehrke, Srikant, PODS 2003, statement 1",
        sentence=(
            f"An attacker who knows everybody else's values, and gave {percent_at_least(prior)} to "
            f"a value of {names}, can end at most at {percent_at_most(end)}."
        ),
        limits=LIMITS,
    )


def exposure(success: Fraction, values: int, proof: str) -> Guarantee:
    """How often the best guess of one of `values` equally likely values is right."""
    return Guarantee(
        statement="p-exposure",
        parameters={"p": float_at_least(success), "values": values},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof=proof,
        sentence=(
            f"An attacker who must guess one of {values} equally likely values of a person, and "
            f"knows everybody else's, is right with probability at most {percent_at_most(success)} "
            f"(blind guessing: {percent_at_least(Fraction(1, values))})."
        ),
        limits=LIMITS,
    )
