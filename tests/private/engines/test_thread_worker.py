"""A second thread of the driver: the same bits as one process, and nothing left of it."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.alphabeta.publish import views as tuple_views
from scumble.private.engines import tasks, workers
from scumble.private.engines import workers as thread_worker
from scumble.private.engines.workers import Task, Workers
from scumble.private.tables import source, writer
from tests.support import faults
from tests.support.mechanisms.conformance_cases import cases
from tests.support.people import people, schema

CASES = cases()


@pytest.fixture
def given(monkeypatch) -> list[int]:
    """The tasks that threads were given, by their numbers."""
    found: list[int] = []
    give = thread_worker.ThreadWorker.give

    def counted(self, task, job):
        found.append(task.number)
        give(self, task, job)

    monkeypatch.setattr(thread_worker.ThreadWorker, "give", counted)
    return found


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(source, "UNIT_ROWS", 50)
    monkeypatch.setattr(writer, "CHUNK", 30)
    monkeypatch.setattr(tuple_views, "RANGE_TUPLES", 300)


def digest(release: sc.Release) -> dict[str, str]:
    assert sorted(p.name for p in release.folder.iterdir()) == sorted(release.evidence.files)
    return {
        name: hashlib.sha256((release.folder / name).read_bytes()).hexdigest()
        for name in release.evidence.files
    }


def published(name: str, table, *, jobs: int) -> sc.Release:
    case = CASES[name]
    return sc.publish(table, case.schema, case.make(), options=sc.PublishOptions(seed=1, jobs=jobs))


@pytest.mark.parametrize("fault", [None, "Fails"])
@pytest.mark.parametrize(
    "name", ["uniform", "frapp", "subset", "partition", "anatomy", "alphabeta", "aroma"]
)
def test_two_threads_publish_the_same_bits(name, fault, given, tmp_path, monkeypatch) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(CASES[name].table("ordinary"), path, row_group_size=50)
    local = digest(published(name, path, jobs=1))
    assert not given
    if fault:  # every unit fails once after its draw, in either thread
        monkeypatch.setattr(tasks, "MapJob", getattr(faults, fault))
    assert digest(published(name, path, jobs=2)) == local
    assert given
    assert digest(published(name, CASES[name].table("ordinary"), jobs=2)) == local


@pytest.mark.parametrize("name", ["histogram", "marginals", "sparse"])
def test_counts_of_two_threads(name: str, given, tmp_path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(CASES[name].table("ordinary"), path, row_group_size=50)
    assert digest(published(name, path, jobs=2)) == digest(published(name, path, jobs=1))
    assert given


def test_the_first_error_is_raised(given) -> None:
    table = people(400, schema())
    jobs = table["job"].to_pylist()
    jobs[30] = jobs[333] = "astronaut"
    wrong = table.set_column(2, "job", pa.array(jobs))
    with pytest.raises(sc.DomainError, match="row 31:") as error:
        sc.publish(wrong, schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(jobs=2))
    assert (error.value.column, error.value.row) == ("job", 31)
    assert 0 in given


@dataclass(frozen=True)
class Endless:
    """A task of a second thread goes on until it is stopped; one of the driver raises an error."""

    error: BaseException
    releases_lock: bool = True

    def run(self, content: int, note: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            raise self.error
        while True:
            time.sleep(0.01)
            note(None)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_the_thread_ends_with_the_driver(error: BaseException) -> None:
    before = threading.enumerate()
    with Workers(2) as found:
        run = found.run(Endless(error), [Task(number, int) for number in range(6)])
        with pytest.raises(type(error)):
            list(run)
        assert not found.running
    assert threading.enumerate() == before


def test_a_thread_takes_the_place_of_one_process(given, monkeypatch) -> None:
    """Two jobs need no process, whatever the work; three need one."""
    monkeypatch.setattr(workers, "WORTH", 0)
    started: list[int] = []
    for jobs in (2, 3):
        with Workers(jobs) as found:
            monkeypatch.setattr(found, "start", lambda: started.append(1) or found.start_thread())
            monkeypatch.setattr(workers, "Workers", lambda _, own=found: nullcontext(own))
            sc.publish(
                people(400, schema()),
                schema(),
                sc.Uniform(epsilon=1),
                options=sc.PublishOptions(jobs=jobs),
            )
        assert bool(started) == (jobs == 3)


def test_jobs_that_hold_the_lock_get_no_thread(given) -> None:
    job = faults.Missing()
    assert not getattr(job, "releases_lock", False)
    with Workers(2) as found, pytest.raises(FileNotFoundError):
        list(found.run(job, [Task(number, lambda: "no-such-file") for number in range(4)]))
    assert not given
