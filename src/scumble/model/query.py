"""A question as pure data: what to count or add up, under which condition, by which groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Aggregate = Literal["count", "sum", "mean"]


@dataclass(frozen=True)
class Expression:
    """A deterministic scalar expression in the dialect of DuckDB, over attributes of a schema.

    Attributes stand in it under their exact names, quoted. Put it into parentheses to embed it.
    """

    sql: str
    attributes: tuple[str, ...]  # those it names, sorted
    start: int = field(default=0, compare=False, repr=False)  # where it begins in the question


@dataclass(frozen=True)
class Query:
    """COUNT, SUM or AVG of the rows that satisfy every clause, one answer for each group."""

    aggregate: Aggregate
    argument: Expression | None = None  # what is added up; None for a count
    clauses: tuple[Expression, ...] = ()  # a conjunction; none at all holds for every row
    groups: tuple[str, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()  # what the asker should know about the meaning of the question

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The clauses, then the argument if there is one."""
        return self.clauses if self.argument is None else (*self.clauses, self.argument)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute that the question names, sorted."""
        named = {name for part in self.expressions for name in part.attributes}
        return tuple(sorted(named.union(self.groups)))


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier.

    >>> quoted('education-num')
    '"education-num"'
    """
    return '"' + name.replace('"', '""') + '"'


def place(text: str, start: int) -> tuple[int, int]:
    """Line and column, counted from 1, of an offset into a text.

    >>> place("SELECT *", 7)
    (1, 8)
    """
    lines = (text[:start] + "^").splitlines()
    return len(lines), len(lines[-1])
