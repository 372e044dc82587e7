"""Conditions in normal form: a tree of ANDs and ORs over atoms that name one attribute each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from sqlglot import TokenType as T
from sqlglot.dialects.duckdb import DuckDB

from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.public.sql.conditions import split
from scumble.public.sql.expressions import KEYWORDS
from scumble.public.sql.tokens import CLOCK_AND_USER

_SHOWN = 80
_PLAIN = re.compile("[A-Za-z][A-Za-z0-9_]*")
_DUCKDB = DuckDB()


@dataclass(frozen=True)
class Branch:
    """A disjunction ("any") or conjunction ("all") of parts."""

    of: Literal["any", "all"]
    parts: tuple[Tree, ...]


Tree = Branch | Expression  # an Expression is an atom: it names at most one attribute


def normal_form(clause: Expression) -> Tree:
    """Return the tree of a clause; negations are inside the atoms.

    An atom may be true, false or NULL. A tree of ANDs and ORs is true exactly where it is true
    with false in place of NULL, so it suffices to know where atoms are true. A part that names
    several attributes and cannot be split (`a < b`) raises `QueryError`.
    """
    if len(clause.attributes) <= 1:  # one attribute: an atom, whatever its structure
        return clause
    junction = split(clause)
    if junction is None:
        raise QueryError(
            f"The part {_brief(clause.sql)} compares {' with '.join(clause.attributes)}: it is not "
            "made of boxes. Each part of a condition may name one attribute; AND, OR and NOT join "
            "parts."
        )
    parts = tuple(normal_form(part) for part in junction.parts)
    return Branch(junction.of, tuple(dict.fromkeys(parts)))


def atoms(tree: Tree) -> list[Expression]:
    """Return the distinct atoms of a tree, in order."""
    found: dict[Expression, None] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Expression):
            found[node] = None
        else:
            pending.extend(reversed(node.parts))
    return list(found)


@lru_cache(maxsize=1024)  # called for every answer
def sql_name(name: str) -> str:
    """Return the name of an attribute as SQL, quoted only if that is necessary."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS
    if plain and name.lower() not in CLOCK_AND_USER:
        [token] = _DUCKDB.tokenize(name)
        return name if token.token_type is T.VAR else quoted(name)
    return quoted(name)


def sql_literal(value: str | int | float | bool | date) -> str:
    """Return a value as a SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value) if whole else value)


def _brief(sql: str) -> str:
    return sql if len(sql) <= _SHOWN else sql[:_SHOWN] + " ..."
