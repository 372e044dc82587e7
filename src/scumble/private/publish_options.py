"""Table and PublishOptions: which table `publish` reads, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scumble.private.engines.spark import Spark
    from scumble.private.tables.rows import Outside


@dataclass(frozen=True)
class Table:
    """A table that takes more to find than its source: `Table("people.duckdb", table="people")`.

    `table` names one in a DuckDB file or a database, and `query` is a SELECT for a database. With
    `part`, a value of the column by which the ledger knows parts of the table, only that part is
    read and charged. `basket` names the column by which rows with one item each are grouped into
    rows with lists, in the order of the column `order`.
    """

    source: Any
    table: str | None = None
    query: str | None = None
    part: Any = None
    basket: str | None = None
    order: str | None = None

    @classmethod
    def of(cls, source: Any) -> Table:
        """Return a source as a table."""
        return source if isinstance(source, Table) else cls(source)


@dataclass(frozen=True, kw_only=True)
class PublishOptions:
    """How `publish` reads a table.

    `outside` says what happens to a row with a value outside its domain: "error" names the row,
    "drop" leaves it out, "missing" makes the value missing. `reveal` allows private values in error
    messages, for the owner's eyes. `seed` makes the release repeatable and NOT PRIVATE: for tests.
    `sample` is the share of people to draw in secret: the promise is stronger, and answers, which
    are about the whole table, allow for it. `jobs` is the number of processes that read and perturb
    rows, and `engine` a cluster that does it, `Spark(session)`; the release does not depend on
    them. `progress` is called with the number of rows read.
    """

    outside: Outside = "error"
    reveal: bool = False
    seed: int | None = None
    sample: float | None = None
    jobs: int = 1
    engine: Spark | None = None
    progress: Callable[[int], None] | None = None


DEFAULTS = PublishOptions()
