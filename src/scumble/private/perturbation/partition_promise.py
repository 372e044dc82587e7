"""The promises of a partition in words, with all that they leave open."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    float_at_least,
    float_at_most,
    percent_at_least,
    percent_at_most,
)

DEPENDS = (
    "The sub-tables, their sizes, values and retention are public and depend on the data: this is "
    "not differential privacy, and who knows all other people's values can often work out a "
    "person's own."
)
SETS = (
    "It is a promise about single values: the sub-table of a row is published, and with it that "
    "the row has none of the values that the sub-table lacks."
)
MORE = (
    "Who knows more about a person than the frequencies in the table may end higher, be it from "
    "other columns, from several rows put together, from other rows of the person, or from another "
    "release."
)
COMBINED = (
    "The promise is for the combination of {}: a single one of them may be believed more, or even "
    "be the same in all rows of a sub-table, and is then told."
)
SEEN = "Everybody can see who is in the table: other columns are published as they are."


def restricted(
    names: Sequence[str], rho1: Fraction, rho2: Fraction, gammas: Sequence[Fraction] = ()
) -> Guarantee:
    """What a belief that is the frequency in the table can become; of `gammas` if these are
    known.
    """
    several = len(names) > 1
    what = f"combination of {', '.join(names)}" if several else f"value of {names[0]}"
    combined = (COMBINED.format(", ".join(names)),) if several else ()
    frequent = f"What more than {percent_at_least(rho1)} of the rows have is not covered."
    return Guarantee(
        statement="restricted (ρ1, ρ2)-privacy",
        parameters={"rho1": float_at_most(rho1), "rho2": float_at_least(rho2)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="Chaytor, Wang, VLDB 2010, Corollary 1, for the frequencies in the table as prior"
        + (_computed(rho2, gammas) if gammas else ""),
        sentence=(
            f"An attacker who knows of a person only how frequent each {what} is in the table, and "
            f"sees the person's row by itself, ends at most at {percent_at_most(rho2)} for one "
            f"that at most {percent_at_least(rho1)} of the rows have."
        ),
        limits=(*combined, DEPENDS, SETS, MORE, frequent, SEEN),
    )


def _computed(rho2: Fraction, gammas: Sequence[Fraction]) -> str:
    """The numbers that the proof comes to in the sub-tables."""
    share = rho2 / (rho2 + min(gammas) * (1 - rho2))
    tables = "one sub-table" if len(gammas) == 1 else f"{len(gammas)} sub-tables"
    return (
        f"; computed exactly for {tables}: such a value has at most {percent_at_most(share)} of "
        f"the rows of its sub-table, γ is at most {at_most(max(gammas))}"
    )


def amplification(names: str, gamma: Fraction) -> Guarantee:
    """What the published value adds for whoever knows the sub-table already."""
    return Guarantee(
        statement="γ-amplification within a sub-table",
        parameters={"gamma": float_at_least(gamma)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="ratio of the probabilities of one output under two values; computed exactly from "
        "the published retention of each sub-table",
        sentence=(
            "Whatever an attacker knows, and once the sub-table of a row is known, the published "
            f"value of {names} changes the odds between any two values of that sub-table by a "
            f"factor of at most {at_most(gamma)}."
        ),
        limits=(DEPENDS, "What the sub-table itself tells about a row is not bounded.", SEEN),
    )


def nothing(names: str, rho1: Fraction, rho2: Fraction) -> Guarantee:
    """What is left of the promise where no value is as rare as ρ1, and nothing was perturbed."""
    return Guarantee(
        statement="restricted (ρ1, ρ2)-privacy",
        parameters={"rho1": float_at_most(rho1), "rho2": float_at_least(rho2)},
        scope="each single value",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="no value is covered",
        sentence=(
            f"NOTHING IS PROTECTED: more than {percent_at_least(rho1)} of the rows have each value "
            f"of {names} that occurs, which the promise does not cover, and the owner chose to "
            "publish such a table as it is."
        ),
        limits=(SEEN,),
    )
