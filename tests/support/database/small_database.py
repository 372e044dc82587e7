"""Small databases for tests: twelve points, a few rows, and what their ledgers say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.private.database.state import PastAnswer
from scumble.private.journal.entries import ANSWER
from scumble.private.journal.journal import Journal
from tests.support.people import people

AGES = 6
SEXES = ("f", "m")
SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, AGES - 1)),
        sc.Attribute("sex", "quasi", sc.Category(SEXES)),
    ]
)
POINTS = list(product(range(AGES), range(len(SEXES))))
ROWS = 40


def some_people(rows: int = ROWS, seed: int = 0) -> pa.Table:
    return people(rows, SCHEMA, seed)


@contextmanager
def database(folder: Path, table: Any = None, **options: Any) -> Iterator[sc.Database]:
    """A database over some people, of noise 4 and, for ε = 2, at most four answers for a point."""
    wanted = {"epsilon": 2, "noise": 4, "seed": 1, "schema": SCHEMA, **options}
    with sc.Database.create(folder, some_people() if table is None else table, **wanted) as made:
        yield made


def count(low: int, high: int, sexes: str = "fm") -> str:
    """A question whose condition is one box."""
    sex = "" if sexes == "fm" else f" AND sex = '{sexes}'"
    return f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {high}{sex}"


def truth(table: pa.Table, condition: str) -> int:
    """The true count, by another engine."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("people", table)
        [(rows,)] = connection.sql(f"SELECT COUNT(*) FROM people WHERE {condition}").fetchall()
    return rows


def given(folder: Path) -> list[PastAnswer]:
    """All numbers that were given out, from the ledger alone."""
    with Journal.open(folder) as journal:
        return [
            PastAnswer.from_dict(item)
            for entry in journal.entries(kind=ANSWER)
            for item in entry.payload["new"]
        ]


def covers(box: np.ndarray, point: Iterable[int]) -> bool:
    return all(low <= code <= high for (low, high), code in zip(box, point, strict=True))


def most_popular(folder: Path) -> int:
    """The largest popularity of any point in any batch of rows, by brute force."""
    numbers = given(folder)
    batches = {1} | {number.batch for number in numbers}
    return max(
        sum(number.batch == batch and covers(number.box, point) for number in numbers)
        for batch, point in product(batches, POINTS)
    )
