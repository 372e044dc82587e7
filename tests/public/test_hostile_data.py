"""Files of a release whose numbers are used as indices, and name what is not there.

Anybody may have written them, with checksums that fit. A negative index counts from the end in
numpy, and a compiled loop would write beside its table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.errors import ReleaseError
from scumble.model.stored import DAMAGED

SCHEMA = sc.Schema(
    [
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 7)),
        sc.Attribute("s", "sensitive", sc.Category(["x", "y", "z"])),
    ]
)
PEOPLE = pa.table({"a": [0, 1, 2, 3, 4, 5, 6, 7] * 30, "s": ["x", "y", "z", "x"] * 60})
ITEMS = sc.Schema.loads(
    '[attributes.bought]\nrole = "sensitive"\ntype = "set"\nvalues = ["p", "q", "r"]\n'
)
BASKETS = pa.table({"bought": [["p"], ["p", "q"], ["q", "r"]] * 200})
DP = {"epsilon": 4.0, "neighbours": "add_remove"}

Forge = Callable[[list[Any]], list[Any]]


def first(value: Any) -> Forge:
    """Replace the first number."""
    return lambda column: [value, *column[1:]]


def last(value: Any) -> Forge:
    return lambda column: [*column[:-1], value]


def forged(release: sc.Release, column: str, forge: Forge) -> sc.Release:
    """The release with other numbers in a column of its first file."""
    path = Path(release.folder) / release.evidence.file
    table = pq.read_table(path)
    field = table.schema.field(column)
    place = table.column_names.index(column)
    new = pa.array(forge(table[column].to_pylist()))
    kind = field.type if new.cast(field.type, safe=False).cast(new.type) == new else new.type
    table = table.set_column(place, pa.field(column, kind), new.cast(kind))
    pq.write_table(table, path)
    return release


TREE = [
    ("law", last(-2)),
    ("law", last(99)),
    ("law", last(-1)),
    ("parent", last(-7)),
    ("parent", last(10**6)),
    ("parent", first(0)),
    ("a low", first(-1)),
    ("a high", first(8)),
    ("a high", last(0)),
]


def test_nodes_of_a_tree(subtests: pytest.Subtests) -> None:
    for column, forge in TREE:
        with subtests.test(column=column):
            release = sc.publish(PEOPLE, SCHEMA, sc.Quadtree(["a"], **DP))
            names = pq.read_schema(Path(release.folder) / release.evidence.file).names
            assert column in names
            with pytest.raises(ReleaseError, match=DAMAGED):
                forged(release, column, forge).answer("SELECT COUNT(*) FROM t WHERE a < 3")


@pytest.mark.parametrize("forge", [first([-1]), first([10**6]), first([0, 0, 0, 0, 0, 0, 0, 0, 0])])
def test_cells_of_a_workload(forge: Forge) -> None:
    queries = ["SELECT COUNT(*) FROM t WHERE a < 3", "SELECT COUNT(*) FROM t WHERE a > 5"]
    release = sc.publish(PEOPLE, SCHEMA, sc.Workload(["a"], queries=queries, **DP))
    with pytest.raises(ReleaseError, match=DAMAGED):
        forged(release, "cells", forge).answer(queries[0])


@pytest.mark.parametrize("code", [-1, 60, 200])
@pytest.mark.parametrize("many", [False, True])
def test_members_of_a_multiset(code: int, many: bool) -> None:
    values = [f"v{n}" for n in range(60)]
    schema = sc.Schema([SCHEMA["a"], sc.Attribute("s", "sensitive", sc.Category(values))])
    people = pa.table({"a": PEOPLE["a"], "s": values * 4})
    release = sc.publish(people, schema, sc.Aroma(k=2))
    [channel] = release.evidence.channels
    assert channel.layout == "codes"
    forged(release, channel.columns[0], first(code))
    asked = [f"SELECT s, COUNT(*) FROM t WHERE a < {n} GROUP BY s" for n in range(1, 4)]
    with pytest.raises(ReleaseError, match=DAMAGED):
        release.answer_many(asked) if many else release.answer(asked[0])


@pytest.mark.parametrize(
    ("column", "forge"),
    [("law", first(-1)), ("law", first(50)), ("items", first([-1])), ("items", first([3]))],
)
def test_items_and_laws_of_whole_baskets(column: str, forge: Forge) -> None:
    release = sc.publish(BASKETS, ITEMS, sc.DiffPart("bought", epsilon=20, neighbours="add_remove"))
    with pytest.raises(ReleaseError, match=DAMAGED):
        forged(release, column, forge).answer("SELECT COUNT(*) FROM t WHERE contains(bought, 'p')")
