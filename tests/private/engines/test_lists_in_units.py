"""Releases of lists by several processes are those of one, bit by bit."""

from __future__ import annotations

import hashlib

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.private.engines import tasks
from tests.support.lists import SCHEMA, people

GIVEN = {"epsilon": 2, "neighbours": "add_remove"}
MECHANISMS = {
    "baskets, clipped": sc.Baskets("items", top=400, longest=2, **GIVEN),
    "baskets, bases": sc.Baskets("items", top=20, **GIVEN),
    "sequences": sc.Sequences("x", length=5, **GIVEN),
    "diffpart": sc.DiffPart("items", **GIVEN),
    "trajectories": sc.Trajectories("x", "y", length=5, **GIVEN),
    "trajectories, people": sc.Trajectories("x", "y", length=5, person="who", **GIVEN),
    "keys": sc.Keys("query", keys=1, delta=1e-3, **GIVEN),
    "keys, people": sc.Keys("click", within="query", keys=2, delta=1e-3, person="who", **GIVEN),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    table = people(900, rows_of_one=2, least=0)
    found = tmp_path_factory.mktemp("lists") / "people.parquet"
    pq.write_table(table, found, row_group_size=100)
    return found


def digest(release: sc.Release) -> list[str]:
    files = release.evidence.files
    return [hashlib.sha256((release.folder / file).read_bytes()).hexdigest() for file in files]


def test_two_processes_publish_what_one_does(path, subtests: pytest.Subtests) -> None:
    for name in MECHANISMS:
        with subtests.test(name=name):
            local = sc.publish(path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
            pool = sc.publish(
                path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1, jobs=2)
            )
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
    sc.publish(path, SCHEMA, MECHANISMS["trajectories"], options=sc.PublishOptions(seed=1, jobs=2))
    assert set(asked) == {("x", "y")}


def test_keys_are_read_in_the_units(path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads no rows: the units of the pool do, of which one may have no keys."""
    table = pq.read_table(path)
    empty = table["query"].to_pylist()
    empty[:100] = [None] * 100
    table = table.set_column(table.column_names.index("query"), "query", [empty])
    some = path.with_name("some.parquet")
    pq.write_table(table, some, row_group_size=100)
    mechanism = sc.Keys("query", keys=2, delta=1e-3, person="who", **GIVEN)
    local = sc.publish(some, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    monkeypatch.setattr("scumble.private.engines.local.LocalEngine.keys", None)
    pool = sc.publish(some, SCHEMA, mechanism, options=sc.PublishOptions(seed=1, jobs=2))
    assert digest(pool) == digest(local)


@pytest.mark.parametrize("name", MECHANISMS)
def test_slices_of_a_batch_do_not_change_a_release(
    name: str, path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sc.publish(path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
    monkeypatch.setattr("scumble.private.tables.rows._LIST_BYTES", 1)
    monkeypatch.setattr("scumble.private.tables.rows._LIST_ROWS", 7)
    assert digest(
        sc.publish(path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
    ) == digest(whole)


@pytest.mark.parametrize("name", MECHANISMS)
def test_lists_kept_in_a_file_or_read_again_do_not_change_a_release(
    name: str, path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = sc.publish(path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
    monkeypatch.setattr("scumble.private.tables.list_spool.MEMORY", 100)
    in_file = sc.publish(path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
    monkeypatch.setattr("tempfile.TemporaryFile", _no_room)
    read_again = sc.publish(path, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
    assert digest(in_file) == digest(read_again) == digest(in_memory)


def _no_room(**_: object) -> None:
    raise OSError("no room")
