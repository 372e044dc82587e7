"""Promises and expected errors that publishers share.

`ProtectedValue` builds the promises that follow from an amplification γ: ε-LDP, (ρ1, ρ2)-privacy
and p-exposure. `outlook_shown` and `outlook_drawn` say before anything is read how large the error
of a count will be; they are closed forms that need no data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scumble.model.errors import large
from scumble.model.privacy.guarantee import (
    Guarantee,
    Neighbourhood,
    Scope,
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


@dataclass(frozen=True)
class ProtectedValue:
    """What a channel hides about a person, in the words of its promises.

    `shown` is what is published in its place, as "value of job in a row". `kind` is "values" or
    "rows". `property` is what a prior is about, as "a value of job"; `guessed` is what an attacker
    chooses from, as "values of a person". `guess_scope` is the scope of the p-exposure.
    """

    shown: str
    kind: str
    property: str
    guessed: str
    neighbourhood: Neighbourhood
    limits: tuple[str, ...]
    guess_scope: Scope = "each single value"

    def amplification(
        self, gamma: Fraction, proof: str, known: str = "Whatever an attacker knows"
    ) -> Guarantee:
        """ε-LDP with ε = ln γ: no two secrets explain what is shown with probabilities more than a
        factor γ apart. `known` begins the sentence.
        """
        epsilon = epsilon_for_gamma(gamma)
        sentence = (
            f"{known}, the published {self.shown} changes the odds between any two true "
            f"{self.kind} by a factor of at most {at_most(gamma)} (ε = {at_most(epsilon)})."
        )
        numbers = {"epsilon": epsilon, "gamma": float_at_least(gamma)}
        return self._local("ε-LDP", numbers, "the whole release", proof, sentence)

    def posterior(self, prior: Fraction, gamma: Fraction) -> Guarantee:
        """(ρ1, ρ2)-privacy: the largest posterior after `prior`, which follows from γ."""
        end = posterior_at_most(prior, gamma)
        proof = "γ ≤ ρ2(1−ρ1)/(ρ1(1−ρ2)): Evfimievski, Gehrke, Srikant, PODS 2003, statement 1"
        sentence = (
            f"Someone who knows everybody else's {self.kind}, and already believed "
            f"{self.property} with {percent_at_least(prior)}, can reach at most "
            f"{percent_at_most(end)}."
        )
        numbers = {"rho1": float_at_most(prior), "rho2": float_at_least(end)}
        return self._local("(ρ1, ρ2)-privacy", numbers, "each single value", proof, sentence)

    def exposure(self, success: Fraction | float, values: int, proof: str) -> Guarantee:
        """p-exposure: the probability that the best guess of one of `values` equally likely secrets
        is right. A float must have been rounded up already.
        """
        sentence = (
            f"An attacker who must guess one of {values:,} equally likely {self.guessed}, and "
            f"knows everybody else's, is right with probability at most {percent_at_most(success)} "
            f"(blind guessing: {percent_at_least(Fraction(1, values))})."
        )
        above = success if isinstance(success, float) else float_at_least(success)
        numbers = {"p": above, "values": values}
        return self._local("p-exposure", numbers, self.guess_scope, proof, sentence)

    def _local(
        self, statement: str, numbers: dict[str, float], scope: Scope, proof: str, sentence: str
    ) -> Guarantee:
        return Guarantee(
            statement=statement,
            parameters=numbers,
            scope=scope,
            neighbourhood=self.neighbourhood,
            trust="local",
            proof=proof,
            sentence=sentence,
            limits=self.limits,
        )


def sensitive_values(
    names: str,
    *,
    shown: str = "value",
    guessed: str = "values of a person",
    limits: tuple[str, ...] = LIMITS,
) -> ProtectedValue:
    """The secret of a channel on the sensitive attributes `names`, which publishes a value, a set
    or a multiset (`shown`) in each row.
    """
    return ProtectedValue(
        shown=f"{shown} of {names} in a row",
        kind="values",
        property=f"a value of {names}",
        guessed=guessed,
        neighbourhood="one person's sensitive values",
        limits=limits,
    )


NINETEEN = 1.96  # standard errors that hold nineteen times in twenty
LOUD = "An answer about a tenth of the rows may be off by more than itself"
_ASKED, _HAVING = 10_000, 1_000  # the example that an owner is told


def shown_error(having: float, asked: float, own: float, other: float) -> float:
    """The standard error of the estimated number of rows that have a value.

    `asked` rows are counted and `having` of them have the value. A row that has it shows it with
    probability `own`, any other row with probability `other`.
    """
    spread = having * own * (1 - own) + (asked - having) * other * (1 - other)
    return math.sqrt(spread) / (own - other)


def drawn_error(asked: float, draws: int, chance: float) -> float:
    """The same, if each row shows its own value and `draws` others, each of which is the value in
    question with probability `chance`.
    """
    return math.sqrt(draws * asked * chance * (1 - chance))


def tenth_error(values: int, keep: float, rows: int) -> float:
    """The standard error of a count of a tenth of `rows` rows, by a tenth of the values, if a value
    is kept with probability `keep` and is else drawn uniformly from all `values`.
    """
    other = (1 - keep) * tenth(values)
    own = keep + other
    spread = rows / 10 * own * (1 - own) + rows * 9 / 10 * other * (1 - other)
    return math.sqrt(spread) / keep  # which own − other would round to 0 in a large domain


def tenth(values: int) -> float:
    """The share of a tenth of a number of values, at least one."""
    return -(-values // 10) / values


def outlook_shown(names: Sequence[str], own: float, other: float) -> str:
    """The error to expect of a count, in a sentence; `own` and `other` as for `shown_error`."""
    return _sentence(names, shown_error(_HAVING, _ASKED, own, other))


def outlook_drawn(names: Sequence[str], draws: int, chance: float) -> str:
    """The error to expect of a count, in a sentence; `draws`, `chance` as for `drawn_error`."""
    return _sentence(names, drawn_error(_ASKED, draws, chance))


def _sentence(names: Sequence[str], error: float) -> str:
    far = NINETEEN * error
    reach = f"±{far:,.0f}" if far >= 10 else f"±{far:.2g}"
    what = "one value" if len(names) == 1 else "one combination of values"
    return (
        f"To expect: among {_ASKED:,} rows, a count of {_HAVING:,} that have {what} of "
        f"{', '.join(names)} will be within {reach} nineteen times in twenty."
    )


def noise_warning(reach: float, rows: int) -> str:
    """Return a warning if `reach`, by which a count of a tenth of the rows may be off, is more than
    the count, or an empty text.
    """
    if rows < 10 or reach <= rows / 10:
        return ""
    return (
        f"{LOUD}: of {rows:,} rows, a count of {rows / 10:,.0f} by {plus_minus(reach)}. "
        "Publish fewer columns or coarser values, ask for less privacy, or take another method: "
        "scumble recommend names one."
    )


def plus_minus(far: float) -> str:
    """Return how far a number may be off, as a text."""
    if far >= 1e9:
        return f"±{large(far)}"
    return f"±{far:,.0f}" if far >= 10 else f"±{far:.2g}"
