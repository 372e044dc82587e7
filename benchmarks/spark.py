"""The same release by one process and by a Spark cluster of two workers: processor time and memory.

The cluster is a real one, on this machine. In all, a run starts a session of its own, and its
processor time is that of all processes that take part, the Java processes among them. An empty job
has as many tasks, which do nothing; it is compared in one session that is running already, because
the start of a session varies by more than the work takes. Where pyspark or Java is missing nothing
is measured.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import scumble as sc
from benchmarks.measure import at_most
from benchmarks.people import SCHEMA, table

UNIFORM, COUNTED = 5_000_000, 20_000_000
FLAT = (5_000_000, 50_000_000)
CELLS = ["age", "sex", "income"]  # 40,200 cells
IN_ALL, BEYOND, MEMORY = 10, 2, 1.2
REPEATS = 3


def run() -> list[dict[str, Any]]:
    return [result for part in PARTS.values() for result in part()]


def uniform() -> list[dict[str, Any]]:
    """Rows are perturbed, sorted and written."""
    with started() as cluster:
        words = f"uniform, {UNIFORM // 10**6}M rows"
        return _compared(cluster, words, sc.Uniform(epsilon=1), UNIFORM) if cluster else []


def count() -> list[dict[str, Any]]:
    """Rows are counted."""
    histogram = sc.Histogram(CELLS, epsilon=1, neighbours="add_remove")
    with started() as cluster:
        words = f"count, {COUNTED // 10**6}M rows, 40,200 cells"
        return _compared(cluster, words, histogram, COUNTED) if cluster else []


def memory() -> list[dict[str, Any]]:
    """The memory of tasks for few rows and for many."""
    with started() as cluster:
        return [_flat(cluster)] if cluster else []


PARTS = {"uniform": uniform, "count": count, "memory": memory}


@contextmanager
def started() -> Iterator[Any]:
    """A cluster of two workers; None where pyspark or Java is missing."""
    if find_spec("pyspark") is None or shutil.which("java") is None:
        yield None
        return
    from tests.support import spark as clusters

    found = clusters.started(f"bench-{os.getpid()}-{next(_NUMBERS)}")
    yield next(found)
    next(found, None)


_NUMBERS = itertools.count()


def _compared(cluster: Any, words: str, mechanism: Any, rows: int) -> list[dict[str, Any]]:
    source, schema = table(rows), sc.Schema.loads(SCHEMA)

    def local() -> float:
        before = sum(os.times()[:2])
        sc.publish(source, schema, mechanism)
        return sum(os.times()[:2]) - before

    def publish(engine: sc.Spark) -> None:
        sc.publish(source, schema, mechanism, options=sc.PublishOptions(engine=engine))

    tasks = tasks_of(cluster, publish)
    spent = _turns({"local": local, "spark": lambda: seconds_of(cluster, publish)})
    in_all = at_most(
        f"{words}: CPU of Spark / of one process",
        IN_ALL,
        spent["spark"] / spent["local"],
        f"Spark {spent['spark']:.1f} s CPU, one process {spent['local']:.2f}; {_machine()}",
    )
    with session_of(cluster) as session:
        running = sc.Spark(session)

        def within(work: Callable[[sc.Spark], object]) -> float:
            before = clock(cluster.folder)
            work(running)
            return clock(cluster.folder) - before

        spent = _turns(
            {
                "local": local,
                "empty": lambda: within(lambda engine: empty_job(engine, tasks)),
                "spark": lambda: within(publish),
            }
        )
    alone, empty, spark = spent["local"], spent["empty"], spent["spark"]
    beyond = at_most(
        f"{words}: ... in a running session, beyond an empty job / of one process",
        BEYOND,
        (spark - empty) / alone,
        f"Spark {spark:.2f} s CPU, {tasks} empty tasks {empty:.2f}, one process {alone:.2f}; "
        f"{_machine()}",
    )
    return [in_all, beyond]


def _machine() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _flat(cluster: Any) -> dict[str, Any]:
    """Compare the memory of tasks for few and for many rows."""
    schema = sc.Schema.loads(SCHEMA)
    peaks = []
    for rows in FLAT:
        with session_of(cluster) as session:
            sc.publish(
                table(rows),
                schema,
                sc.Uniform(epsilon=1),
                options=sc.PublishOptions(engine=sc.Spark(session)),
            )
            peaks.append(max(map(_peak, _pythons(cluster.folder))))
    few, many = (f"{rows // 10**6}M" for rows in FLAT)
    shown = ", ".join(f"{peak / 2**20:.0f} MB" for peak in peaks)
    return at_most(
        f"uniform: memory of a task, {many} rows / {few}", MEMORY, peaks[1] / peaks[0], shown
    )


def tasks_of(cluster: Any, work: Callable[[sc.Spark], object]) -> int:
    """The number of tasks that Spark gets for some work, beyond those that look at the workers."""
    from scumble.private.engines.spark import SparkExecutor

    found = []
    sent = SparkExecutor._answers

    def noted(executor: SparkExecutor, orders: Any) -> Any:
        found.append(len(orders))
        return sent(executor, orders)

    with session_of(cluster) as session, patch.object(SparkExecutor, "_answers", noted):
        work(sc.Spark(session))
    return sum(found[1:])


def empty_job(engine: sc.Spark, tasks: int) -> None:
    from scumble.private.engines.spark_task import Probe
    from scumble.private.engines.workers import Task

    with engine.opened() as executor:  # which looks at every worker
        list(executor.run(Probe(), [Task(number, lambda: None) for number in range(tasks)]))


def _turns(rivals: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median processor time of rivals that take turns, the first one not counted."""
    found: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(1 + REPEATS):
        for name, rival in rivals.items():
            spent = rival()
            if turn:
                found[name].append(spent)
    return {name: statistics.median(times) for name, times in found.items()}


def seconds_of(cluster: Any, work: Callable[[sc.Spark], object]) -> float:
    """Processor time of a session that does some work, its start included."""
    before = clock(cluster.folder)
    with session_of(cluster) as session:
        work(sc.Spark(session))
        return clock(cluster.folder) - before


@contextmanager
def session_of(cluster: Any) -> Iterator[Any]:
    from tests.support import spark as clusters

    session = cluster.session()
    try:
        yield session
    finally:
        clusters.stop(session)


def clock(folder: Path) -> float:
    """Processor time so far of this process, of its Java process and of the cluster."""
    import psutil

    own = psutil.Process()
    running = [own, *own.children(recursive=True), *_processes(folder)]
    total = 0.0
    for process in {each.pid: each for each in running}.values():
        times = process.cpu_times()
        total += times.user + times.system
    return total


def _processes(folder: Path) -> list[Any]:
    """The processes of the cluster, whose keeper has the folder in its command line."""
    import psutil

    keepers = [
        each
        for each in psutil.process_iter(["cmdline"])
        if str(folder) in (each.info["cmdline"] or [])
    ]
    return [child for keeper in keepers for child in keeper.children(recursive=True)]


def _pythons(folder: Path) -> list[Any]:
    return [each for each in _processes(folder) if "python" in each.name()]


def _peak(process: Any) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
