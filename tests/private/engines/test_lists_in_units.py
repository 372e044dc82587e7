"""Releases of lists by several processes are those of one, bit by bit."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.private.engines import tasks

ITEMS = [f"i{number:02}" for number in range(40)]
SCHEMA = sc.Schema.loads(
    f"""
[attributes.who]
role = "identifier"
[attributes.items]
role = "sensitive"
type = "set"
values = {ITEMS}
[attributes.x]
role = "sensitive"
type = "sequence"
range = [0, 3]
bins = 3
[attributes.y]
role = "sensitive"
type = "sequence"
range = [0, 3]
bins = 2
"""
)
GIVEN = {"epsilon": 2, "neighbours": "add_remove"}
MECHANISMS = {
    "baskets, clipped": sc.Baskets("items", top=400, longest=2, **GIVEN),
    "baskets, bases": sc.Baskets("items", top=20, **GIVEN),
    "sequences": sc.Sequences("x", length=5, **GIVEN),
    "trajectories": sc.Trajectories("x", "y", length=5, **GIVEN),
    "trajectories, people": sc.Trajectories("x", "y", length=5, person="who", **GIVEN),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    draw = np.random.default_rng(1)
    rows, shares = 900, 0.7 * 0.95 ** np.arange(40)
    sizes = draw.integers(0, 6, rows)
    table = pa.table(
        {
            "who": np.arange(rows) // 2,
            "items": [[ITEMS[i] for i in np.flatnonzero(draw.random(40) < shares)] for _ in sizes],
            "x": [draw.uniform(0, 3, size).tolist() for size in sizes],
            "y": [draw.uniform(0, 3, size).tolist() for size in sizes],
        }
    )
    found = tmp_path_factory.mktemp("lists") / "people.parquet"
    pq.write_table(table, found, row_group_size=100)
    return found


def digest(release: sc.Release) -> list[str]:
    files = release.evidence.files
    return [hashlib.sha256((release.folder / file).read_bytes()).hexdigest() for file in files]


@pytest.mark.parametrize("name", MECHANISMS)
def test_two_processes_publish_what_one_does(name: str, path) -> None:
    local = sc.publish(path, SCHEMA, MECHANISMS[name], seed=1)
    pool = sc.publish(path, SCHEMA, MECHANISMS[name], seed=1, jobs=2)
    assert digest(pool) == digest(local)


def test_lists_are_read_in_the_units(path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver opens no list of its own: its jobs do."""
    asked = []
    made = tasks.ListsJob.__init__
    monkeypatch.setattr(
        tasks.ListsJob,
        "__init__",
        lambda self, *given: (asked.append(given[1]), made(self, *given))[1],
    )
    sc.publish(path, SCHEMA, MECHANISMS["trajectories"], seed=1, jobs=2)
    assert set(asked) == {("x", "y")}
