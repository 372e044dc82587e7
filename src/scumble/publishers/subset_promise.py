"""What the subset mechanism promises, computed exactly from its published law."""

from __future__ import annotations

from fractions import Fraction

from scumble.guarantee import (
    Guarantee,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
)
from scumble.publishers.uniform import LIMITS


def local(gamma: Fraction, names: str) -> Guarantee:
    """No two values explain a set with probabilities more than γ apart."""
    epsilon = epsilon_for_gamma(gamma)
    return Guarantee(
        statement="ε-LDP",
        parameters={"epsilon": epsilon, "gamma": float_at_least(gamma)},
        scope="the whole release",
        neighbourhood="one person's sensitive values",
        trust="local",
        proof="g(m−ω)/((1−g)ω) = γ for every set, a value in it and a value not in it; computed "
        "exactly from the published g and ω",
        sentence=(
            f"Whatever an attacker knows, the published set of {names} in a row changes the odds "
            f"between any two true values by a factor of at most {at_most(gamma)} "
            f"(ε = {at_most(epsilon)})."
        ),
        limits=LIMITS,
    )


def posterior(prior: Fraction, gamma: Fraction, names: str) -> Guarantee:
    """Where an attacker who begins at `prior` can end."""
    end = posterior_at_most(prior, gamma)
    return Guarantee(
        statement="(ρ1, ρ2)-privacy",
        parameters={"rho1": float(prior), "rho2": float_at_least(end)},
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
