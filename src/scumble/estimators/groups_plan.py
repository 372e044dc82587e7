"""A question to groups, split by what it asks of rows and of values, and the statements that
gather what its answer needs.

If each part of a question is about rows only or about values only, a row and a value that meet add
x · y to the answer. Under even spread the sum of a group has the mean Σx · Σy / s and the variance
(sΣx² - (Σx)²)(sΣy² - (Σy)²) / (s²(s - 1)), s being its size: sums by group are all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from scumble.evidence import Groups
from scumble.query import Expression, Query, quoted

# Names that no attribute and no side table of a question has.
GROUP, SIZE, NUMBER = '"scumble group"', '"scumble size"', '"scumble number"'
SUM, SQUARES, LEAST, MOST = '"scumble sum"', '"scumble squares"', '"scumble low"', '"scumble high"'


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
    def keys(self) -> list[str]:
        return [key(name) for name in self.query.groups]

    def keys_of(self, *, sensitive: bool) -> list[str]:
        """The grouped attributes of rows or of values, under names of their own."""
        return [
            f"{quoted(name)} AS {key(name)}"
            for name in self.query.groups
            if (name in self.evidence.sensitive) == sensitive
        ]

    @property
    def weight(self) -> str:
        """For how many values a line of the values stands."""
        return f"CAST({quoted(self.evidence.count)} AS BIGINT)"

    @property
    def group(self) -> str:
        return f"{quoted(self.evidence.group)} AS {GROUP}"

    @property
    def sizes(self) -> str:
        return (
            f"SELECT {self.group}, CAST(sum({self.weight}) AS DOUBLE) AS {SIZE} "
            f'FROM "values"{where(self.wanted)} GROUP BY ALL'
        )

    @property
    def wanted(self) -> list[Expression]:
        """Only groups with a value that may count: others need not be looked at."""
        if not self.about_values:
            return []
        group = quoted(self.evidence.group)
        chosen = f'SELECT {group} FROM "values"{where(self.about_values)}'
        return [Expression(f"{group} IN ({chosen})", (self.evidence.group,))]

    def one_table(self) -> str:
        """The answer from the one table that knows all the question names."""
        table, weight = ('"values"', self.weight) if self.only_values else ("view", "1")
        keys = [f"{quoted(name)} AS {key(name)}" for name in self.query.groups]
        columns = [*keys, f"CAST(sum({weight}) AS DOUBLE) AS count"]
        if self.query.argument:
            columns.append(f"sum({number(self.query.argument)} * {weight}) AS total")
        return (
            f"SELECT {', '.join(columns)} FROM {table}{where(self.query.clauses)}{self._by(keys)}"
        )

    def counts(self) -> str:
        """The groups of each key, counted by their rows, values and size."""
        return self._joined(
            [f"r.{NUMBER} AS rows", f"v.{NUMBER} AS values", SIZE, "count(*) AS times"],
        )

    def moments(self) -> str:
        """Mean, variances and covariance of the sum and of the count, for each key."""
        over = f"({SIZE} * {SIZE} * greatest({SIZE} - 1, 1))"

        def spread(one: str, other: str, both: str) -> str:
            sides = (
                f"({SIZE} * {side}.{both} - {side}.{one} * {side}.{other})" for side in ("r", "v")
            )
            return f"sum({' * '.join(sides)} / {over})"

        argument = self.query.argument
        side = "v" if argument and self._sensitive(argument.attributes) else "r"
        return self._joined(
            [
                f"sum(r.{NUMBER} * v.{NUMBER} / {SIZE}) AS count",
                f"sum(r.{SUM} * v.{SUM} / {SIZE}) AS total",
                f"{spread(NUMBER, NUMBER, NUMBER)} AS count_variance",
                f"{spread(SUM, SUM, SQUARES)} AS total_variance",
                f"{spread(NUMBER, SUM, SUM)} AS covariance",
                f"min({side}.{LEAST}) AS least",
                f"max({side}.{MOST}) AS most",
            ]
        )

    def _joined(self, columns: Sequence[str]) -> str:
        rows, values = (
            self._side("view", "1", [*self.about_rows, *self.wanted], sensitive=False),
            self._side('"values"', self.weight, self.about_values, sensitive=True),
        )
        return (
            f"SELECT {', '.join([*self.keys, *columns])} FROM ({rows}) r "
            f"JOIN ({values}) v USING ({GROUP}) JOIN ({self.sizes}) s USING ({GROUP})"
            f"{' GROUP BY ALL' if self.keys or self.query.aggregate == 'count' else ''}"
        )

    def _side(
        self, table: str, weight: str, clauses: Sequence[Expression], *, sensitive: bool
    ) -> str:
        """Number, sum, sum of squares and limits of one side of the groups, by group and key."""
        argument = self.query.argument
        here = argument and self._sensitive(argument.attributes) == sensitive
        value = number(argument) if argument and here else "1.0"
        columns = [self.group, *self.keys_of(sensitive=sensitive)]
        columns += [f"CAST(sum({weight}) AS DOUBLE) AS {NUMBER}"]
        if argument:
            columns += [
                f"sum({value} * {weight}) AS {SUM}",
                f"sum({value} * {value} * {weight}) AS {SQUARES}",
                f"min({value}) AS {LEAST}",
                f"max({value}) AS {MOST}",
            ]
        return f"SELECT {', '.join(columns)} FROM {table}{where(clauses)} GROUP BY ALL"

    def _by(self, keys: Sequence[str]) -> str:
        return " GROUP BY ALL" if keys else ""

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
