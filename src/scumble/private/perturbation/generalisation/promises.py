"""What Generalise promises in words, and what it does not."""

from __future__ import annotations

from dataclasses import replace

from scumble.model.privacy.guarantee import Guarantee, at_least, at_most, percent_at_most
from scumble.model.schema.schema import Schema
from scumble.private.perturbation.generalisation.criteria import Criteria

DEPENDS = (
    "This is not differential privacy and depends on the data: it says how the published rows "
    "look, not what may be learned from them."
)
LIMITS = (
    "It counts rows: a person who has several of them may be a whole group.",
    "A group whose rows have the same or similar sensitive values tells them of everybody in it.",
    "An attacker who knows values of others in a group can exclude them; one may be left.",
    "Two releases of the same people can be joined: what both leave possible may be one value.",
    "An attacker who knows how the groups were chosen may conclude what made them necessary.",
    "Everybody can see that a person is in the table, if others know all who may be.",
    "Columns that are not quasi-identifiers are published as they are, and may be linked, too.",
)


NO_VALUE = "That a sensitive value is missing counts as a value like any other."


def absent(number: int) -> str:
    """Return the sentence about rows that were left out."""
    rows = "1 row was" if number == 1 else f"{number:,} rows were"
    return (
        f"{rows} left out, because too few others are alike: a person who is known to be in the "
        "table, and is missing from the release, has rare values."
    )


def of(criteria: Criteria, schema: Schema) -> tuple[Guarantee, ...]:
    """Return a promise for each criterion; nothing of them is taken from the data."""
    quasi = ", ".join(attribute.name for attribute in schema.quasi)
    secret = ", ".join(attribute.name for attribute in schema.sensitive)
    what = f"combination of {secret}" if len(schema.sensitive) > 1 else f"value of {secret}"
    found = [
        _promise(
            "k-anonymity",
            {"k": criteria.k},
            f"Of every published row there are at least {criteria.k} that look alike in {quasi}. "
            "This says nothing about what else is the same in all of them.",
        )
    ]
    if criteria.l is not None:
        found.append(_diversity(criteria, what))
    if criteria.alpha is not None:
        found.append(
            _promise(
                "(α, k)-anonymity",
                {"alpha": float(criteria.alpha), "k": criteria.k},
                f"In every group of rows that look alike no {what} has more than "
                f"{percent_at_most(criteria.alpha)} of the rows.",
            )
        )
    if criteria.t is not None:
        found.append(
            _promise(
                f"t-closeness, {criteria.distance} distance",
                {"t": float(criteria.t)},
                f"In every group of rows that look alike the shares of each {what} are within a "
                f"distance of {at_most(criteria.t)} of those of all published rows.",
            )
        )
    if criteria.about_values and any(attribute.missing for attribute in schema.sensitive):
        found = [replace(each, limits=(*each.limits, NO_VALUE)) for each in found]
    return tuple(found)


def _diversity(criteria: Criteria, what: str) -> Guarantee:
    least = criteria.l or 1
    if criteria.diversity == "distinct":
        return _promise(
            "distinct l-diversity",
            {"l": least},
            f"In every group of rows that look alike at least {least} different values occur "
            f"({what}). One of them may be that of nearly all.",
        )
    if criteria.diversity == "entropy":
        return _promise(
            "entropy l-diversity",
            {"l": least},
            f"In every group of rows that look alike the entropy of the {what} is at least that of "
            f"{least} equally frequent ones.",
        )
    ratio = criteria.c or 1
    return _promise(
        "recursive (c, l)-diversity",
        {"c": float(ratio), "l": least},
        f"In every group of rows that look alike the most frequent {what} has less than "
        f"{at_least(ratio)} times the rows of all but the {least - 1} most frequent ones.",
    )


def _promise(statement: str, numbers: dict[str, float], sentence: str) -> Guarantee:
    return Guarantee(
        statement=statement,
        parameters=numbers,
        scope="the whole release",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="counted before publishing; `scumble audit` counts the published rows again",
        sentence=sentence,
        limits=(DEPENDS, *LIMITS),
    )
