"""Questions that differ only in their numbers and words: the second of a shape is not parsed again.

Programs ask the same question with other limits, over and over, and parsing is a fifth of what an
answer takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from scumble.model.query import Expression, Query
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.database.comparing import is_plain
from scumble.public.sql.parse import parse

_REMEMBERED = 256  # shapes
_LONGEST = 1000  # characters of a question with a shape
_LITERAL = re.compile(r"[0-9]+|'[^']*'")
# Text without names in quotes, comments, signs or points, in which every literal stands alone.
_SIMPLE = re.compile(
    r"(?:[ \n]|[A-Za-z_][A-Za-z0-9_]*(?!['A-Za-z0-9_])|[0-9]+(?!['A-Za-z0-9_])"
    r"|'[^']*'(?!['A-Za-z0-9_])|[(),*=<>!])*+"
)
_LITERALS = re.compile(r"(?<![A-Za-z0-9_])(?:[0-9]+|'[^']*')")
_DIGITS = 15  # of a number; longer ones are no plain comparison


@dataclass(frozen=True)
class _Shape:
    """A question, and its clauses in parts between which the literals stand, with the words that
    each of these may be: None for any number.
    """

    query: Query
    clauses: tuple[tuple[Expression, tuple[str, ...]], ...]
    words: tuple[frozenset[str] | None, ...]

    def filled(self, text: str, literals: Sequence[str]) -> Query | None:
        """The question with other literals; None if one of them may have a meaning of its own."""
        for literal, words in zip(literals, self.words, strict=True):
            if len(literal) > _DIGITS if words is None else literal not in words:
                return None
        rest, clauses = iter(literals), []
        for clause, (first, *parts) in self.clauses:
            sql = first + "".join(next(rest) + part for part in parts)
            clauses.append(Expression(sql, clause.attributes, clause.start))
        return replace(self.query, clauses=tuple(clauses), text=text)


class Shapes:
    """Parses questions about a schema, those of a known shape by filling in their literals."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._known: dict[str, _Shape | None] = {}

    def read(self, text: str) -> Query:
        if len(text) > _LONGEST or not _SIMPLE.fullmatch(text):
            return parse(text, self.schema)
        literals = _LITERALS.findall(text)
        shape = _LITERALS.sub(_mark, text)
        known = self._known.get(shape)
        found = None if known is None else known.filled(text, literals)
        if found is None:
            found = parse(text, self.schema)
            if shape not in self._known:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[shape] = self._shape(found, literals)
        return found

    def _shape(self, query: Query, literals: list[str]) -> _Shape | None:
        """What all questions like this one share; None if a literal of it stands anywhere else than
        in a comparison whose meaning is plain, or the asker was told something about it.
        """
        if query.notes:
            return None
        clauses, words, there = [], list[frozenset[str] | None](), list[str]()
        for clause in query.clauses:
            domain = self.schema[clause.attributes[0]].domain if is_plain(clause) else None
            if not isinstance(domain, IntegerRange | Category):
                return None
            after = clause.sql.index('" ') + 2  # the name of the column, which may hold anything
            first, *parts = _LITERAL.split(clause.sql[after:])
            clauses.append((clause, (clause.sql[:after] + first, *parts)))
            for literal in _LITERAL.findall(clause.sql, after):
                there.append(literal)
                words.append(_words(domain) if literal[0] == "'" else None)
        return _Shape(query, tuple(clauses), tuple(words)) if there == literals else None


def _mark(literal: re.Match[str]) -> str:
    return "'" if literal[0][0] == "'" else "#"


@lru_cache(maxsize=256)
def _words(domain: IntegerRange | Category) -> frozenset[str]:
    """The words of a domain, in quotes."""
    values = domain.values if isinstance(domain, Category) else ()
    return frozenset(f"'{value}'" for value in values if isinstance(value, str))
