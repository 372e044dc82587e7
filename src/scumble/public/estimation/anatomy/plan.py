"""A question to groups, split by what it asks of rows and of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from scumble.model.evidence.evidence import Groups
from scumble.model.query import Expression, Query, quoted


@dataclass(frozen=True)
class Plan:
    """Which part of a question is about what."""

    evidence: Groups
    query: Query

    @cached_property
    def about_rows(self) -> list[Expression]:
        """The clauses without a sensitive attribute."""
        return [c for c in self.query.clauses if not self._sensitive(c.attributes)]

    @cached_property
    def about_values(self) -> list[Expression]:
        """The clauses on sensitive attributes alone."""
        return [c for c in self.query.clauses if c.attributes and not self._open(c.attributes)]

    @cached_property
    def mixed(self) -> list[Expression]:
        """The clauses on both."""
        return [c for c in self.query.clauses if self._both(c)]

    @property
    def only_rows(self) -> bool:
        return not self._sensitive(self.query.attributes)

    @property
    def only_values(self) -> bool:
        return bool(self.query.attributes) and not self._open(self.query.attributes)

    @property
    def apart(self) -> bool:
        """Whether every part is about rows only or about values only."""
        argument = self.query.argument
        return not self.mixed and not (argument and self._both(argument))

    @property
    def together(self) -> list[Expression]:
        """What has to be evaluated for rows and values together: the mixed clauses, and last what
        is added up.
        """
        return [*self.mixed, self.query.argument or Expression("1", ())]

    def named(self, *, sensitive: bool) -> list[str]:
        """The attributes of rows or of values by which an answer tells them apart."""
        needed = {name for part in self.together for name in part.attributes}
        return [
            name
            for name in self.query.attributes
            if name in needed.union(self.query.groups)
            and (name in self.evidence.sensitive) == sensitive
        ]

    @property
    def weight(self) -> str:
        """For how many values a line of the values stands."""
        return f"CAST({quoted(self.evidence.count)} AS BIGINT)"

    def one_table(self) -> str:
        """The answer from the one table that knows all the question names."""
        table, weight = ('"values"', self.weight) if self.only_values else ("view", "1")
        keys = [f"{quoted(name)} AS {key(name)}" for name in self.query.groups]
        columns = [*keys, f"CAST(sum({weight}) AS DOUBLE) AS count"]
        if self.query.argument:
            columns.append(f"sum({number(self.query.argument)} * {weight}) AS total")
        by = " GROUP BY ALL" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {table}{where(self.query.clauses)}{by}"

    def _sensitive(self, names: Sequence[str]) -> bool:
        return not set(names).isdisjoint(self.evidence.sensitive)

    def _open(self, names: Sequence[str]) -> bool:
        return not set(names) <= set(self.evidence.sensitive)

    def _both(self, part: Expression) -> bool:
        return self._sensitive(part.attributes) and self._open(part.attributes)


def key(name: str) -> str:
    """The name of a grouped attribute in what is gathered."""
    return quoted(f"scumble key {name}")


def number(expression: Expression) -> str:
    """An expression that is added up."""
    return f"CAST(({expression.sql}) AS DOUBLE)"


def where(clauses: Sequence[Expression]) -> str:
    """What comes after FROM and a table."""
    return f" WHERE {condition(clauses)}" if clauses else ""


def condition(clauses: Sequence[Expression]) -> str:
    """All clauses as one."""
    return " AND ".join(f"({clause.sql})" for clause in clauses) or "true"
