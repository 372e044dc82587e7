"""A process that publishes on Spark and is stopped, or loses its Java process: what is left is a
sentence and the charge.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

import scumble as sc
from tests.support import faults
from tests.support import spark as clusters
from tests.support.people import people, schema

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(testrun_uid):
    yield from clusters.started(testrun_uid)


@contextmanager
def publishing(place: Path, cluster, *patience: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that has published one release, and waits for the tasks of another."""
    with driving(place, cluster, *patience) as driver:
        java: list[psutil.Process] = []
        try:
            wait(lambda: list(place.glob("worker-*")) or driver.poll() is not None, 600)
            assert list(place.glob("scumble-staging-*/*"))
            children = psutil.Process(driver.pid).children()
            java += [each for each in children if each.name() == "java"]
            yield driver
        finally:
            driver.kill()
            for each in java:
                with suppress(psutil.NoSuchProcess):
                    each.kill()  # a stopped one does not notice that its driver has ended


@contextmanager
def driving(place: Path, cluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process of `faults.py`, which is killed at the end of the block."""
    pq.write_table(people(400, schema()), place / "people.parquet", row_group_size=100)
    sc.Ledger.create(place / "ledger", epsilon=5, neighbours="replace")
    paths = {"TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    with (place / "errors").open("wb") as errors:  # Java, which may live longer, writes there too
        driver = subprocess.Popen(
            [sys.executable, faults.__file__, str(place), cluster.master, *arguments],
            env={**os.environ, **cluster.environment(), **paths},
            stderr=errors,
        )
    try:
        yield driver
    finally:
        driver.kill()
        driver.wait()


def sentence_of(place: Path) -> str:
    """The error that the driver ended with."""
    lines = (place / "errors").read_text().splitlines()
    [found] = [line for line in lines if "ScumbleError:" in line]
    return found


def assert_nothing_but_the_charge(place: Path) -> None:
    """One release was committed before, and stays; of the other nothing is left."""
    assert wait(lambda: not list(place.glob("scumble-staging-*")), 60)
    assert not (place / "release").exists()
    assert sc.open(place / "first").answer("SELECT COUNT(*) FROM t").value > 0
    charges = sc.Ledger.open(place / "ledger").charges
    assert [each.state for each in charges] == ["made", "begun"]


def wait(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_stopped(number: signal.Signals, cluster, tmp_path) -> None:
    with publishing(tmp_path, cluster) as driver:
        driver.send_signal(number)
        driver.wait(60)
    assert_nothing_but_the_charge(tmp_path)


def test_a_java_process_that_ends(cluster, tmp_path) -> None:
    """As it does by -XX:+ExitOnOutOfMemoryError, and when the system has no memory left."""
    with publishing(tmp_path, cluster) as driver:
        [java] = (each for each in psutil.Process(driver.pid).children() if each.name() == "java")
        java.kill()
        driver.wait(60)
    assert sentence_of(tmp_path).endswith(
        "The Spark cluster could not do its work: the Java process of the session ended, perhaps "
        "for lack of memory; a larger spark.driver.memory may help."
    )
    assert_nothing_but_the_charge(tmp_path)


@pytest.mark.parametrize("answers", [True, False])
def test_a_reply_that_never_comes(answers: bool, cluster, tmp_path) -> None:
    """Of a task that is lost; and of a Java process that does not even answer the question."""
    with publishing(tmp_path, cluster, "12") as driver:
        if not answers:
            children = psutil.Process(driver.pid).children()
            [java] = (each for each in children if each.name() == "java")
            java.suspend()
        driver.wait(120)
    assert "no task began or ended for 0.2 minutes" in sentence_of(tmp_path)
    assert_nothing_but_the_charge(tmp_path)


@pytest.mark.parametrize("ends", [True, False])
def test_java_is_lost_while_a_frame_is_written(ends: bool, cluster, tmp_path) -> None:
    """It ends, or does not answer any more."""
    with publishing(tmp_path, cluster, "12", "frame") as driver:
        [java] = (each for each in psutil.Process(driver.pid).children() if each.name() == "java")
        java.kill() if ends else java.suspend()
        driver.wait(120)
    lost = "no task began or ended for 0.2 minutes, because"
    lost = "the Java process of the session ended, perhaps" if ends else lost
    assert f"could not do its work: {lost}" in sentence_of(tmp_path)
    assert_nothing_but_the_charge(tmp_path)


def test_a_busy_cluster_is_waited_for(cluster, tmp_path) -> None:
    """While other tasks of the session begin and end; and then everything is published."""
    with driving(tmp_path, cluster, "6", "busy") as driver:
        assert driver.wait(180) == 0, (tmp_path / "errors").read_text()
    assert sc.open(tmp_path / "release").evidence.rows == 400
    charges = sc.Ledger.open(tmp_path / "ledger").charges
    assert [each.state for each in charges] == ["made", "made"]


def test_java_without_memory_ends(tmp_path) -> None:
    """In a session of the shell: it asks for more memory than it has."""
    script = (
        "from scumble.private.engines.spark_session import spark_session\n"
        "with spark_session('local[1]') as session:\n"
        "    gateway = session.sparkContext._gateway\n"
        "    try:\n"
        "        [gateway.new_array(gateway.jvm.byte, 2**30) for _ in range(64)]\n"
        "    finally:\n"
        "        print('ended', gateway.proc.wait(60))\n"
    )
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 600m\n")
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout == "ended 3\n", done.stderr  # the exit code of that option
