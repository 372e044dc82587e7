"""The first rows of each person, found by tasks: those of one process, whatever happens to a task;
and nothing in a file tells who is in the table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.private.engines import persons, pool, workers
from scumble.private.engines.local import LocalEngine
from scumble.private.engines.pool import PoolEngine
from scumble.private.sampling.source import Keystream
from scumble.private.tables import source
from scumble.private.tables.rows import Rows
from tests.support import faults
from tests.support.people import people, schema

NAMED = sc.Schema([sc.Attribute("id", "identifier"), *schema()])
SETS = [("age",), ("age", "job"), ()]
KINDS = {
    "text": lambda number: f"someone-{number}",
    "number": int,
    "mixed": lambda number: f" {number} " if number % 2 else f"{number}",
    "garbled": lambda number: b"\xff%d" % number,
}


@pytest.fixture(scope="module")
def shared():
    with workers.Workers(2) as found:
        found.takes_part, found.divides_people = False, True
        yield found


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(source, "UNIT_ROWS", 100)


def stored(folder, kind: str = "text"):
    """400 rows of 60 persons and of some that nobody knows, in four units of work."""
    who = np.random.default_rng(3).integers(0, 60, 400).tolist()
    names = [None if place % 50 == 7 else KINDS[kind](who[place]) for place in range(400)]
    path = folder / "people.parquet"
    table = people(400, schema()).append_column("id", pa.array(names))
    pq.write_table(table, path, row_group_size=50)
    return path


def counted(engine, most: int) -> list[list[int]]:
    unit = PrivacyUnit("add_remove", most, "id")
    dense = [counts.tolist() for counts in engine.count(SETS, unit)]
    cells = engine.occupied(["age", "job"], unit)
    return [*dense, cells.keys.tolist(), cells.counts.tolist()]


def engines(path, executor):
    rows = [Rows(path, NAMED, outside="drop", reveal=True) for _ in range(2)]
    return LocalEngine(rows[0], Keystream(1)), PoolEngine(rows[1], Keystream(1), executor)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_as_in_one_process(kind: str, shared, tmp_path) -> None:
    alone, divided = engines(stored(tmp_path, kind), shared)
    for most in (1, 3, 400):
        assert counted(alone, most) == counted(divided, most)
        assert alone.rows.remarks() == divided.rows.remarks()
    assert sum(counted(alone, 1)[2]) == 60, "every person has one row"


@pytest.mark.parametrize("fault", ["identifiers", "surplus", "order", "parts"])
def test_faults_change_nothing(fault: str, shared, tmp_path, monkeypatch) -> None:
    alone, divided = engines(stored(tmp_path), shared)
    if fault == "order":
        monkeypatch.setattr(shared, "order", lambda tasks: tasks[::-1])
    elif fault == "parts":
        monkeypatch.setattr(pool, "MOST_PARTS", 2)
    elif fault == "identifiers":
        monkeypatch.setattr(pool, "IdentifiersJob", faults.FailsIdentifiers)
    else:
        monkeypatch.setattr(pool, "SurplusJob", faults.FailsSurplus)
    assert counted(alone, 2) == counted(divided, 2)


def test_identifiers_that_change_places_between_the_passes(shared, tmp_path, monkeypatch) -> None:
    """The same persons in another order: whoever had the first row has another one now."""
    path = stored(tmp_path)
    table = pq.read_table(path)
    _, divided = engines(path, shared)
    run = shared.run

    def changed(job, tasks):
        yield from run(job, tasks)
        if isinstance(job, persons.SurplusJob):
            names = table["id"].take(pa.array([*range(400)[::-1]]))
            pq.write_table(table.set_column(3, "id", names), path, row_group_size=50)

    monkeypatch.setattr(shared, "run", changed)
    with pytest.raises(sc.SourceError, match=r"changed while it was read|cannot be read"):
        counted(divided, 1)


def test_files_in_between_tell_nothing_and_are_removed(shared, tmp_path) -> None:
    _, divided = engines(stored(tmp_path), shared)
    counted(divided, 1)
    files = [path for path in shared.staging().rglob("*") if path.is_file()]
    assert len(files) == 8, "four units and four parts"
    assert shared.staging().stat().st_mode & 0o077 == 0
    assert not any(b"someone" in path.read_bytes() for path in files)
    del divided
    assert not list(shared.staging().iterdir())


def test_another_key_reads_nothing(tmp_path) -> None:
    [section] = persons.write_sections(tmp_path / "file", bytes(32), [b"somebody"])
    assert section.read(bytes(32)) == b"somebody"
    with pytest.raises(sc.ScumbleError, match="staging folder was changed"):
        section.read(bytes(31) + b"1")


def test_errors_name_the_first_row_that_is_wrong(shared, tmp_path) -> None:
    path = stored(tmp_path)
    messages = []
    for make in (LocalEngine, lambda rows, noise: PoolEngine(rows, noise, shared)):
        with pytest.raises(sc.DomainError, match="row 8: there is no identifier") as error:
            counted(make(Rows(path, NAMED), Keystream(1)), 1)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
