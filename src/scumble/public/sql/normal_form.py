"""A condition in normal form: a tree of ANDs and ORs over atoms that name one attribute each."""

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
    """Parts of which `any` or `all` must be true for the whole to be true."""

    of: Literal["any", "all"]
    parts: tuple[Tree, ...]


Tree = Branch | Expression  # an expression is an atom, which names at most one attribute


def normal_form(clause: Expression) -> Tree:
    """The tree of a clause; negations stand in the atoms.

    An atom may be true, false or NULL. A tree of ANDs and ORs is true exactly where it is true
    with false in the place of NULL, so nothing is lost if atoms are later asked only whether they
    hold. What names several attributes and cannot be taken apart (`a < b`) raises `QueryError`.
    """
    if len(clause.attributes) <= 1:  # however long it is, only its values count
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
    """The different atoms of a tree, in order."""
    found: dict[Expression, None] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Expression):
            found[node] = None
        else:
            pending.extend(reversed(node.parts))
    return list(found)


@lru_cache(maxsize=1024)  # asked for with every answer
def sql_name(name: str) -> str:
    """The name of an attribute, in quotes only if SQL could take it for something else."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS
    if plain and name.lower() not in CLOCK_AND_USER:
        [token] = _DUCKDB.tokenize(name)
        return name if token.token_type is T.VAR else quoted(name)
    return quoted(name)


def sql_literal(value: str | int | float | bool | date) -> str:
    """A value as SQL writes it."""
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
