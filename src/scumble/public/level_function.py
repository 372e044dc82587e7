"""`level(column, n)` in SQL: the group of a value at level n of its hierarchy in the schema.

The call is written out as a CASE over the public domain, which every kind of evidence can evaluate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scumble.model.errors import QueryError
from scumble.model.query import quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Dates, IntegerRange
from scumble.model.schema.numbers import Number

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema
    from scumble.public.sql.tokens import TokenizedSql

FUNCTION = "level"
_MOST_GROUPS = 1000  # of a level that a question names


def spell_levels(question: TokenizedSql, schema: Schema) -> None:
    """Write out every `level(column, n)` in the text and the tokens of the question."""
    if FUNCTION not in question.text.lower():
        return
    tokens, text = question.tokens, question.text
    names = {attribute.name.lower(): attribute for attribute in schema.published}
    parts, done, at = list[str](), tokens[0].start, 0
    while at + 5 < len(tokens):
        word, opening, name, comma, number, closing = tokens[at : at + 6]
        marks = "".join(each.text for each in (opening, comma, closing))
        if word.text.lower() != FUNCTION or marks != "(,)" or name.text.lower() not in names:
            at += 1
            continue
        attribute = names[name.text.lower()]
        if not number.text.isdigit() or int(number.text) > attribute.levels.height:
            raise question.error(
                f"The level of '{attribute.name}' must be a whole number from 0 to "
                f"{attribute.levels.height}.",
                number,
            )
        spelled = f"({level_sql(attribute, int(number.text))})"
        question.written[spelled] = text[word.start : closing.end + 1]
        parts += [text[done : word.start], spelled]
        done, at = closing.end + 1, at + 6
    if parts:
        question.text = "".join([*parts, text[done : tokens[-1].end + 1]])
        question.tokens = question._tokenize()


def level_sql(attribute: Attribute, level: int) -> str:
    """Return the SQL of the label of a value at a level of its hierarchy; NULL if it is missing."""
    levels, column = attribute.levels, quoted(attribute.name)
    if not level:
        return column
    labels = levels.labels[level]
    if len(labels) > _MOST_GROUPS:
        raise QueryError(
            f"Level {level} of '{attribute.name}' has {len(labels)} groups; at most {_MOST_GROUPS} "
            "can be named. Take a higher level."
        )
    known = levels.groups[level][: levels.size - attribute.missing]
    cases = [
        f"WHEN {_within(attribute, np.flatnonzero(known == group))} THEN {_text(label)}"
        for group, label in enumerate(labels)
        if (known == group).any()
    ]
    return f"CASE {' '.join(cases)} END"


def _within(attribute: Attribute, codes: np.ndarray) -> str:
    """Return the condition that a value is one of some codes: ranges where codes follow."""
    column, domain = quoted(attribute.name), attribute.domain
    if not isinstance(domain, IntegerRange | Number | Bins | Dates):
        values = attribute.labels().to_pylist()
        return f"{column} IN ({', '.join(_literal(values[code]) for code in codes.tolist())})"
    breaks = np.flatnonzero(np.diff(codes) > 1)
    firsts, lasts = codes[[0, *(breaks + 1)]], codes[[*breaks, len(codes) - 1]]
    ranges = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return " OR ".join(_range(column, domain, first, last) for first, last in ranges)


def _range(column: str, domain: IntegerRange | Number | Bins | Dates, first: int, last: int) -> str:
    if isinstance(domain, Number):
        return f"{column} BETWEEN {domain.value(first)!r} AND {domain.value(last)!r}"
    if isinstance(domain, IntegerRange):
        return f"{column} BETWEEN {domain.low + first} AND {domain.low + last}"
    if isinstance(domain, Bins):
        end = "<=" if last == domain.size - 1 else "<"
        return (
            f"({column} >= {domain.edges[first]!r} AND {column} {end} {domain.edges[last + 1]!r})"
        )
    periods = domain._periods()
    begin, after = periods[first].astype("M8[D]"), (periods[last] + 1).astype("M8[D]")
    return f"({column} >= DATE '{begin}' AND {column} < DATE '{after}')"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else str(value)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
