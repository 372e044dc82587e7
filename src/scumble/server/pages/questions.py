"""The five questions that an owner answers about a table, and the methods that suit the answers.

They are those of `scumble publish SOURCE`: what one row stands for, what must stay secret, what
others will do, how careful to be, and how the data set is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from scumble.families import families
from scumble.model.errors import ParameterError
from scumble.model.family import USES as HEADINGS
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import read_epsilon
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.numbers import Number, UnlimitedNumber
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.private.recommend import (
    CARE_LEVELS,
    DATABASE,
    TYPICAL_ROWS,
    USES,
    Advice,
    Recommendation,
    Use,
    recommend,
)
from scumble.server.problems import Problem
from scumble.server.publishing.drafts import Draft, OwnerAnswers

ROLE_WORDS = {
    "sensitive": "must stay secret",
    "quasi": "known to others",
    "insensitive": "harmless",
    "identifier": "not published",
}
OWN = "own"  # care: a number that the owner gives
_MOST_VALUES = 300  # of a column; all of them are in the text of the schema
_SHORT = 60  # characters of a domain that are not folded
_LONGEST = {"title": 100, "description": 300}


# --- what is shown --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column as the page shows it: its values stand before the box that declares them."""

    name: str
    role: str
    values: str
    from_data: bool
    declared: bool  # whether the owner has said so, and not yet saved it
    proposed: bool  # whether there are values; without them it cannot be published
    limits: tuple[str, str] | None  # of amounts, empty where the owner has still to write them

    @classmethod
    def of(cls, attribute: Attribute, role: str, place: int, form: Mapping[str, Any]) -> Column:
        """Return a column as the form has it where it was filled in, else as the schema has it: in
        a role, with the values that it has or had.
        """
        proposed = attribute.domain is not None and not attribute.to_fill_in
        number = attribute.number
        low, high = ("", "") if number is None else (str(number.low), str(number.high))
        amounts = attribute.limits_needed or number is not None
        chosen = str(form.get(f"role-{place}", ""))
        return cls(
            attribute.name,
            chosen if chosen in ROLE_WORDS else role,
            _values(attribute) if proposed else "",
            attribute.from_data,
            bool(form.get(f"declared-{place}")),
            proposed,
            (str(form.get(f"low-{place}", low)), str(form.get(f"high-{place}", high)))
            if amounts
            else None,
        )

    @property
    def short(self) -> str:
        """The first of the values, where all of them are too long for a row; else all."""
        return self.values if not self.folded else f"{self.values[:_SHORT].rstrip(', ')} …"

    @property
    def folded(self) -> bool:
        return len(self.values) > _SHORT + 20


def _values(attribute: Attribute) -> str:
    if attribute.limits_needed or attribute.number is not None:
        return "amounts or missing," if attribute.missing else "amounts"
    if not isinstance(attribute.domain, Category):
        return attribute.describe()
    values = [str(each) for each in attribute.domain.values]
    more = f" and {len(values) - _MOST_VALUES:,} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(values[:_MOST_VALUES]) + more


def filled_in(schema: Schema, answers: OwnerAnswers | None, draft: Draft) -> dict[str, str]:
    """Return the fields of the form as they were answered; what was never answered is empty.

    A proposed unit is not chosen before the owner does: who is protected is never assumed. Its
    column is.
    """
    unit = schema.unit if answers is not None or not draft.proposed else None
    rows = f"{float(f'{draft.rows:.2g}'):,.0f}" if draft.rows else ""
    found = {
        "unit": "" if unit is None else "row" if unit.person is None else "person",
        "person": schema.person or "",
        "most_rows": str(5 if unit is None or unit.person is None else unit.most_rows),
        "rows": rows,
    }
    if answers is None:
        named = dict.fromkeys(("use", "care", "own_epsilon", "name", "title", "description"), "")
        return found | named
    level = next((each.name for each in CARE_LEVELS if each.epsilon == answers.epsilon), OWN)
    return found | {
        "use": answers.use,
        "care": level,
        "own_epsilon": f"{answers.epsilon:g}" if level == OWN else "",
        "rows": f"{answers.rows:,}" if answers.rows else rows,
        "name": answers.name,
        "title": answers.title,
        "description": answers.description,
    }


def open_checks(schema: Schema, draft: Draft) -> list[str]:
    """Return what is to be checked yet: nothing about values that were declared, limits that the
    page asks for, or a unit that was stated.
    """
    if not draft.proposed:
        return schema.checks()
    done = [f"'{each.name}' (" for each in schema.published if not each.from_data]
    done += [f"'{each.name}' (" for each in schema if each.limits_needed]
    done += ["unit: "] if draft.answers is not None else []
    return [each for each in draft.checks if not each.startswith(tuple(done))]


# --- what was answered ----------------------------------------------------------------------------


def read_schema(
    schema: Schema, form: Mapping[str, Any], withheld: Mapping[str, Attribute]
) -> Schema:
    """Return a schema with the roles, the declared values and the unit of the form.

    Columns that were `withheld` get their values back in another role than that of an identifier.
    """
    unit = _read_unit(schema, form)
    roles = {
        each.name: str(form.get(f"role-{place}", each.role)) for place, each in enumerate(schema)
    }
    if unit.person is not None:
        roles[unit.person] = "identifier"
    changed = replace(schema, unit=None)
    for name, role in roles.items():
        if name in withheld and role != "identifier":
            changed = changed.replace(withheld[name])
        if role != changed[name].role:
            changed = changed.with_roles(**{role: [name]})
    for place, each in enumerate(changed):
        if roles[each.name] != "identifier" and (each.limits_needed or each.number is not None):
            changed = changed.replace(_limited(changed[each.name], form, place))
    declared = [each.name for place, each in enumerate(schema) if form.get(f"declared-{place}")]
    changed = changed.declare_public(*declared) if declared else changed
    return replace(changed, unit=unit)


def _limited(attribute: Attribute, form: Mapping[str, Any], place: int) -> Attribute:
    """Return amounts with the limits of the form; bins stay only where the limits do."""
    given = [
        str(form.get(f"{end}-{place}", "")).replace(",", "").strip() for end in ("low", "high")
    ]
    number = attribute.number
    if number is not None and given in (["", ""], [str(number.low), str(number.high)]):
        return attribute
    try:
        low, high = (int(each) if each.lstrip("-").isdigit() else float(each) for each in given)
    except ValueError:
        raise Problem(
            422,
            f"Say the lowest and the highest amount of '{attribute.name}' that matter, as numbers, "
            "or do not publish it.",
        ) from None
    step = number.step if number is not None else cast(UnlimitedNumber, attribute.domain).step
    return replace(attribute, domain=Number(low, high, step), hierarchy=None, note="")


def _read_unit(schema: Schema, form: Mapping[str, Any]) -> Unit:
    given = form.get("unit")
    if given == "row":
        return Unit()
    if given != "person":
        raise Problem(422, "Say what one row stands for: one person, or one event of a person.")
    person, most = str(form.get("person", "")), str(form.get("most_rows", ""))
    if person not in schema:
        raise Problem(422, "Say which column names the person.")
    if not most.isdecimal() or len(most) > 9 or int(most) < 1:
        raise Problem(422, "Say how many rows of one person count at most: a number above 0.")
    return Unit(person, int(most))


def read_answers(form: Mapping[str, Any]) -> OwnerAnswers:
    """Return what the form says besides the schema; raises `Problem` with one sentence."""
    use = str(form.get("use", ""))
    if use not in USES:
        raise Problem(422, "Say what others will do with the data.")
    texts = {name: str(form.get(name, "")).strip() for name in ("name", "title", "description")}
    for name, longest in _LONGEST.items():
        if len(texts[name]) > longest or not texts[name].isprintable():
            raise Problem(422, f"The {name} must be a line of at most {longest} characters.")
    rows = str(form.get("rows", "")).replace(",", "").strip()
    if rows and (not rows.isdecimal() or len(rows) > 12 or int(rows) < 1):
        raise Problem(422, "The number of rows must be a whole number above 0, or left out.")
    return OwnerAnswers(cast(Use, use), _read_care(form), int(rows or 0), **texts)


def _read_care(form: Mapping[str, Any]) -> float:
    levels = {each.name: each.epsilon for each in CARE_LEVELS}
    care = str(form.get("care", ""))
    if care in levels:
        return levels[care]
    if care != OWN:
        raise Problem(422, "Say how careful to be with each person.")
    try:
        number = float(str(form.get("own_epsilon", "")))
        read_epsilon("recommend", number)
    except (ValueError, ParameterError):
        raise Problem(422, "Your own ε must be a number above 0, such as 0.8.") from None
    return number


# --- what suits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A method as the page lists it: its name never stands alone."""

    name: str
    publishes: str
    reason: str


def describe_method(name: str) -> str:
    """Return in a line what a method publishes."""
    if name == DATABASE:
        return "a live database: questions one after the other, each charged"
    lines = {
        method: line for each in families().values() for method, line in each.publishes.items()
    }
    return lines.get(name, "")


def advise(schema: Schema, answers: OwnerAnswers, neighbours: Neighbours) -> Advice:
    """Return the method that suits the answers. The number of rows is private where a person may
    have several.
    """
    private = schema.person is not None
    rows = TYPICAL_ROWS if private else answers.rows or TYPICAL_ROWS
    return _advise(schema.dumps(), rows, answers.use, answers.epsilon, neighbours)


@lru_cache(maxsize=32)
def _advise(schema: str, rows: int, use: Use, epsilon: float, neighbours: Neighbours) -> Advice:
    return recommend(
        Schema.loads(schema), rows=rows, use=use, epsilon=epsilon, neighbours=neighbours
    )


def not_recommended(advice: Advice) -> dict[str, list[Method]]:
    """Return the other methods with the reasons why not, by what people do with them."""
    found: dict[str, list[Method]] = {}
    for family in families().values():
        for name in family.mechanisms:
            if name in advice.not_recommended:
                reason = advice.not_recommended[name]
                method = Method(name, describe_method(name), reason[:1].upper() + reason[1:])
                found.setdefault(HEADINGS[family.use], []).append(method)
    return found


def recipe_of(found: Recommendation) -> dict[str, Any]:
    """Return what the publishing service makes of a recommendation."""
    if found.method == DATABASE:
        return {"kind": "database", "attributes": None, **found.parameters}
    return {"kind": "release", "method": found.method, "parameters": dict(found.parameters)}
