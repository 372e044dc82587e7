"""What Frapp promises: to whoever sees a person's own row, and to whoever sees the shuffled set."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

from scumble.model.dialect import setting
from scumble.model.errors import PromiseError
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_least,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    float_at_most,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
)

LOCAL_LIMITS = (
    "How many rows there are is published, and who is known to have sent one is known.",
    "The promise is for one row of one release: more rows of a person, or more releases, add up.",
    "What the other rows tell about a person by statistics is not hidden.",
)
PUBLISHED_LIMITS = (
    "It is for an attacker who looks at how often one row is published, not at the other rows.",
    "To who knows other people's rows, or which row is whose, only the bound by ε is promised.",
    "It is for a row that at most one person has; what several people share shows more often.",
    "An attacker who gave the row more than k·n/m before may end higher.",
)
MOST_TIMES = 6
_SLACK = Fraction(11, 10)  # of γ: how far the first order may be off


@dataclass(frozen=True)
class Counts:
    """How often a tuple t of the domain is published, if one of n rows is t and if none is.

    A row that is not t shows t with probability q = (1-p)/m, one that is with s = p + q. So the
    count is Bin(n, q) if t is in no row, and one Bernoulli(s) plus Bin(n-1, q) if it is in one.
    """

    rows: int
    size: int
    keep: Fraction

    @property
    def other(self) -> Fraction:
        return (1 - self.keep) / self.size

    @property
    def own(self) -> Fraction:
        return self.keep + self.other

    def ratio(self, times: int) -> Fraction:
        """How many times as likely it is to be published so often if it is in one row as if it is
        in none: s·c/(n q) + (1-s)(n-c)/(n(1-q)), since both laws share their binomials.
        """
        seen = self.own * times / (self.rows * self.other)
        unseen = (1 - self.own) * (self.rows - times) / (self.rows * (1 - self.other))
        return seen + unseen

    def posterior(self, prior: Fraction, times: int) -> Fraction:
        odds = prior / (1 - prior) * self.ratio(times)
        return odds / (1 + odds)

    def expected(self, times: int) -> Fraction:
        """How many different tuples are published at least so often, at most and on average, in a
        table whose rows all differ; also a bound on the probability that there is any.

        P(Bin(n, q) >= c) is at most C(n, c) q^c, for there are so many ways to choose c rows.
        """
        q, n = self.other, self.rows
        false = self.size * comb(n, times) * q**times
        others = comb(n - 1, times) * q**times if n else Fraction(0)
        more = comb(n - 1, times - 1) * q ** (times - 1) if n else Fraction(0)
        return false + n * (self.own * more + (1 - self.own) * others)


def require(k: Fraction, gamma: Fraction, counts: Counts) -> None:
    """Refuse tables that are too large for their domain."""
    prior = k * counts.rows / counts.size
    if prior >= gamma:
        raise PromiseError(
            f"Frapp with {setting('reading', 'published')} speaks of priors up to k·n/m, n rows "
            "out of m possible ones: here that is no less than the posterior γ that is promised. "
            + _advice()
        )
    if counts.rows and counts.posterior(prior, 1) > _SLACK * gamma:
        raise PromiseError(
            f"Frapp with {setting('reading', 'published')} is made for priors k·n/m, n rows out of "
            "m possible ones, far below γ: here a row seen once would end above γ by more than a "
            "tenth of it. " + _advice()
        )


def _advice() -> str:
    return f"Use a smaller k, publish more attributes, or use {setting('reading', 'local')}."


def local(gamma: Fraction, *, anyway: bool = False) -> Guarantee:
    """ε-LDP of a whole row; `anyway`: it is not what was asked for, but holds."""
    epsilon = epsilon_for_gamma(gamma)
    known = "Even to an attacker who knows which row is whose" if anyway else "Whatever is known"
    return Guarantee(
        statement="ε-LDP",
        parameters={"epsilon": epsilon, "gamma": float_at_least(gamma)},
        scope="the whole release",
        neighbourhood="replace one person",
        trust="local",
        proof="a row shows itself with p + (1−p)/m and any other with (1−p)/m, whose ratio is γ; "
        "computed exactly from the published p",
        sentence=(
            f"{known}, the published row of a person changes the odds between any two true rows by "
            f"a factor of at most {at_most(gamma)} (ε = {at_most(epsilon)})."
        ),
        limits=LOCAL_LIMITS,
    )


def from_prior(prior: Fraction, gamma: Fraction) -> Guarantee:
    """(ρ1, ρ2)-privacy, which follows from γ."""
    end = posterior_at_most(prior, gamma)
    return Guarantee(
        statement="(ρ1, ρ2)-privacy",
        parameters={"rho1": float_at_most(prior), "rho2": float_at_least(end)},
        scope="each single value",
        neighbourhood="replace one person",
        trust="local",
        proof="γ ≤ ρ2(1−ρ1)/(ρ1(1−ρ2)): Evfimievski, Gehrke, Srikant, PODS 2003, statement 1",
        sentence=(
            f"An attacker who knows everybody else's rows, and gave {percent_at_least(prior)} to a "
            f"property of a person's row, can end at most at {percent_at_most(end)}."
        ),
        limits=LOCAL_LIMITS,
    )


def exposure(gamma: Fraction, size: int) -> Guarantee:
    """The best guess of a whole row."""
    success = gamma / (gamma + size - 1)
    return Guarantee(
        statement="p-exposure",
        parameters={"p": float_at_least(success), "values": size},
        scope="the whole release",
        neighbourhood="replace one person",
        trust="local",
        proof="p ≤ e^ε/(e^ε + d − 1), reached by uniform replacement",
        sentence=(
            f"An attacker who must guess one of {size} equally likely rows of a person, and knows "
            f"everybody else's, is right with probability at most {percent_at_most(success)} "
            f"(blind guessing: {percent_at_least(Fraction(1, size))})."
        ),
        limits=LOCAL_LIMITS,
    )


def published(k: Fraction, gamma: Fraction, counts: Counts | None) -> Guarantee:
    """The posterior of a tuple by how often it is published, for priors of at most k·n/m."""
    parameters = {"k": float_at_most(k), "first order gamma": float_at_least(gamma)}
    if counts is None or counts.rows < 2:
        sentence = (
            f"An attacker who gave a row at most {at_least(k)} times the chance n/m of a row drawn "
            "blindly, and sees it published once among the n shuffled rows, ends at about "
            f"{percent_at_most(gamma)}, in small tables higher; the release states it exactly."
        )
    else:
        prior = k * counts.rows / counts.size
        once, twice = (counts.posterior(prior, times) for times in (1, 2))
        many = counts.expected(2)
        parameters |= {"d": float_at_most(prior), "once": float_at_least(once)}
        parameters |= {"twice": float_at_least(twice), "repeated": float_at_least(many)}
        sentence = (
            f"An attacker who gave a row at most {percent_at_least(prior)}, and sees it published "
            f"once among the shuffled rows, ends at most at {percent_at_most(once)}; published "
            f"twice, at {percent_at_most(twice)}. Of a table whose rows all differ, at most "
            f"{at_most(many)} rows are published twice or more on average{_chance(many)}."
        )
    return Guarantee(
        statement="(d, γ)-privacy of a row seen once",
        parameters=parameters,
        scope="each single value",
        neighbourhood="add or remove one person",
        trust="central",
        proof="exact posterior from the law of how often a row is published: Bernoulli(p + q) + "
        "Bin(n−1, q) if one person has it, Bin(n, q) if nobody has, q = (1−p)/m; p/(1−p) = "
        "γ/(k(1−γ)) makes it γ but for terms of the order of the prior",
        sentence=sentence,
        limits=PUBLISHED_LIMITS,
    )


def _chance(many: Fraction) -> str:
    return f", and any at all with probability at most {percent_at_most(many)}" if many < 1 else ""
