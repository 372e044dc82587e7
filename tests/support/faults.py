"""Jobs of the pool that go wrong once at every unit, after its noise was drawn and written; and a
process that publishes slowly, to be stopped from outside.

faults.py FOLDER             publishes FOLDER/people.parquet with a ledger; names its processes.
                             Before, a release is saved as FOLDER/first
faults.py FOLDER MASTER      the same on Spark
faults.py FOLDER MASTER SECONDS   ... which waits so long for a sign of life
faults.py FOLDER MASTER SECONDS frame   ... while the plan of a DataFrame takes forever
faults.py FOLDER MASTER SECONDS busy    ... while another job has all cores for three times as long
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import scumble as sc
from scumble.private.engines import persons, pool, tasks, workers
from scumble.private.engines import spark as spark_wait
from scumble.private.engines.engine import RowKernel
from scumble.private.tables import source
from tests.support.people import schema
from tests.support.publishing import publish


class Fails(tasks.MapJob):
    """Every unit fails once."""

    def run(self, content: tasks.UnitToMap, note: Any) -> Any:
        answer = super().run(content, note)
        mark = self.staging / f"mark-{content.unit.number}"
        if not mark.exists():
            mark.touch()
            self.fail(content)
        mark.unlink()
        return answer

    def fail(self, content: tasks.UnitToMap) -> None:
        raise OSError("the disk is full")


class _FailsOnce:
    """A job of which every task fails once after its file was written."""

    def run(self, content: Any, note: Any) -> Any:
        answer = super().run(content, note)  # type: ignore[misc]
        number = getattr(content, "unit", content).number
        mark = self.staging / f"mark-{type(self).__name__}-{number}"  # type: ignore[attr-defined]
        if not mark.exists():
            mark.touch()
            raise OSError("the disk is full")
        return answer


class FailsIdentifiers(_FailsOnce, persons.IdentifiersJob):
    """Every unit fails once."""


class FailsDraw(_FailsOnce, tasks.DrawJob):
    """Every range of keys fails once."""


class FailsSurplus(_FailsOnce, persons.SurplusJob):
    """Every part fails once."""


class Dies(Fails):
    """The worker of every unit is killed once. The driver fails once, as in `Fails`."""

    def fail(self, content: tasks.UnitToMap) -> None:
        if "_pytest.config" not in sys.modules:  # it is in the driver only, also under xdist
            os.kill(os.getpid(), signal.SIGKILL)
        super().fail(content)


class KillsExecutor(Fails):
    """The Java process of the executor is killed at the first unit. The others fail, as above."""

    def fail(self, content: tasks.UnitToMap) -> None:
        if content.unit.number == 0:
            os.kill(_executor(), signal.SIGKILL)
        super().fail(content)


class _KilledOnce:
    """A job whose first worker is killed when it has its answer: its own process, or the Java
    process of its executor. The driver says which, and where the killed job leaves its name.
    """

    marks, victim = Path(), ""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        kind = type(self)
        self.marks, self.victim = kind.marks, kind.victim  # so that they are sent

    def run(self, content: Any, note: Any) -> Any:
        answer = super().run(content, note)  # type: ignore[misc]
        with suppress(FileExistsError):
            (self.marks / type(self).__name__.removeprefix("Killed")).touch(exist_ok=False)
            os.kill(_executor() if self.victim == "executor" else os.getpid(), signal.SIGKILL)
            time.sleep(600)
        return answer


def _killed_once(kind: type) -> type:
    """Return the job of which one worker is killed; tasks find it by its name in this module."""
    return type(f"Killed{kind.__name__}", (_KilledOnce, kind), {"__module__": __name__})


def kill_once(monkeypatch: Any, marks: Path, victim: str) -> None:
    """Let one worker of every job be killed: `victim` is "worker" or "executor"."""
    monkeypatch.setattr(_KilledOnce, "marks", marks)
    monkeypatch.setattr(_KilledOnce, "victim", victim)
    for kind in JOBS:
        place = pool if kind in (persons.IdentifiersJob, persons.SurplusJob) else tasks
        monkeypatch.setattr(place, kind.__name__, globals()[f"Killed{kind.__name__}"])


JOBS = (
    tasks.CodesJob,
    tasks.CountJob,
    tasks.DrawJob,
    tasks.KeysJob,
    tasks.ListsJob,
    tasks.MapJob,
    tasks.OccupiedJob,
    tasks.SortedRowsJob,
    tasks.UnitCellsJob,
    persons.IdentifiersJob,
    persons.SurplusJob,
)
globals().update({f"Killed{kind.__name__}": _killed_once(kind) for kind in JOBS})


def _executor() -> int:
    """Return the process that started the daemon of this worker."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    return int(daemon[1])


class Changes(Fails):
    """The file is another one when a unit is read again."""

    def fail(self, content: tasks.UnitToMap) -> None:
        path = content.unit._part.opened[0]
        table = pq.read_table(path)
        rest = table.num_rows - 1
        new = path.with_name(f"new-{os.getpid()}")
        pq.write_table(table.take([rest, *range(rest)]), new, row_group_size=50)
        new.replace(path)
        raise OSError("the disk is full")


@dataclass(frozen=True)
class Fresh(RowKernel):
    """Noise that is drawn anew at every attempt, which must not happen."""

    def perturb(self, stream: Any, columns: Any) -> Any:
        columns[2] = (columns[2] + secrets.randbelow(5)) % 5
        return ([column.astype("u1") for column in columns],)


@dataclass(frozen=True)
class Wrong:
    """All tasks but the first are wrong; those of the driver at once, those of a worker later."""

    driver: int

    def run(self, content: int, note: Any) -> int:
        if os.getpid() != self.driver:
            time.sleep(0.3)
        if content:
            raise sc.SchemaError(f"task {content}")
        return content


@dataclass(frozen=True)
class Missing:
    """Opens a file that does not exist."""

    def run(self, content: str, note: Any) -> None:
        open(content).close()


class Waits(tasks.MapJob):
    """Tells which process it is in, and takes forever after the first unit. No thread does it."""

    releases_lock = False

    def run(self, content: tasks.UnitToMap, note: Any) -> Any:
        answer = super().run(content, note)
        if content.unit.number:
            (self.staging.parent.parent / f"worker-{os.getpid()}").touch()
            time.sleep(600)
        return answer


class WaitsInThreads(tasks.MapJob):
    """Tells which thread it is in, and takes forever after the first unit, a piece at a time."""

    def run(self, content: tasks.UnitToMap, note: Any) -> Any:
        answer = super().run(content, note)
        if content.unit.number:
            name = f"worker-{os.getpid()}-{threading.get_ident()}"
            (self.staging.parent.parent / name).touch()
            while True:
                time.sleep(0.01)
                note(None)
        return answer


def waiting(batches: Any) -> Any:
    """Of a DataFrame: tell which process it is in, and take forever after the first rows."""
    for batch in batches:
        yield batch
        (Path(batch["place"][0].as_py()) / f"worker-{os.getpid()}").touch()
        time.sleep(600)


def busy(work: tuple[Path, float]) -> None:
    """Hold a core for some seconds, and tell so."""
    place, seconds = work
    (place / f"busy-{os.getpid()}").touch()
    time.sleep(seconds)


def hold_all_cores(session: Any, place: Path, seconds: float) -> None:
    """Return when another job of the session has all cores, with six tasks for each of them."""
    from pyspark import InheritableThread

    from tests.support import faults

    context = session.sparkContext
    cores = context.defaultParallelism
    held = context.parallelize([(place, seconds)] * 6 * cores, 6 * cores)
    InheritableThread(target=lambda: held.foreach(faults.busy), daemon=True).start()
    while len(list(place.glob("busy-*"))) < cores:
        time.sleep(0.05)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    source.UNIT_ROWS = 100
    options: dict[str, Any] = {"ledger": place / "ledger"}
    threads = sys.argv[2:] == ["threads"]
    if len(sys.argv) == 2 or threads:
        options["jobs"] = 2
    else:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master(sys.argv[2]).getOrCreate()
        options["engine"] = sc.Spark(session)
    table = place / "people.parquet"
    publish(table, schema(), sc.Frapp(epsilon=2), **options).save(place / "first")
    if len(sys.argv) >= 4:
        spark_wait.PATIENCE = float(sys.argv[3])
    workers.WORTH = 0
    from tests.support import faults  # the workers know it by this name

    given: Any = table
    if sys.argv[4:] == ["busy"]:
        hold_all_cores(session, place, spark_wait.PATIENCE / 2)
    else:
        tasks.MapJob = faults.WaitsInThreads if threads else faults.Waits  # type: ignore[misc]
    if sys.argv[4:] == ["frame"]:
        frame = session.read.parquet(str(given)).selectExpr("*", f"'{place}' AS place")
        given = frame.mapInArrow(faults.waiting, frame.schema)
    publish(given, schema(), sc.Frapp(epsilon=2), **options).save(place / "release")
