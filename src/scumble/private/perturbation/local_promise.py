"""Promises of channels that keep all odds within a factor γ, whatever an attacker knows."""

from __future__ import annotations

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
