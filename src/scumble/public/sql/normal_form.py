"""Conditions in normal form: a tree of ANDs and ORs over atoms that name one attribute each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.public.sql.conditions import split

_SHOWN = 80


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


def _brief(sql: str) -> str:
    return sql if len(sql) <= _SHOWN else sql[:_SHOWN] + " ..."
