"""A driver that is stopped: nothing half-published, no stray process, and the charge stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

import scumble as sc
from tests.support import faults
from tests.support.people import people, schema

STAGING = "scumble-*/scumble-staging-*"


def _wait(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


def _named(folder) -> list[int]:
    """The processes of the workers that have said that they are there, the driver among them."""
    return [int(path.name.split("-")[1]) for path in folder.glob("worker-*")]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("threads", [False, True], ids=["processes", "threads"])
def test_a_driver_that_is_stopped(number: signal.Signals, threads: bool, tmp_path) -> None:
    pq.write_table(people(400, schema()), tmp_path / "people.parquet", row_group_size=100)
    sc.Ledger.create(tmp_path / "ledger", epsilon=5, neighbours="replace")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    driver = subprocess.Popen(
        [sys.executable, faults.__file__, str(tmp_path), *(["threads"] if threads else [])],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(lambda: len(_named(tmp_path)) == 2 or driver.poll() is not None, 60)
        processes = _named(tmp_path)
        assert len(processes) == 2
        assert driver.pid in processes
        assert len(set(processes)) == (1 if threads else 2)
        assert list(tmp_path.glob(STAGING))
        driver.send_signal(number)
        driver.wait(60)
    finally:
        driver.kill()
        driver.wait()
    assert _wait(lambda: not any(map(_alive, processes)), 60)
    assert _wait(lambda: not list(tmp_path.glob(STAGING)), 60)
    if number == signal.SIGINT:
        assert not list(tmp_path.glob("scumble-*"))
    assert not (tmp_path / "release").exists()
    assert sc.open(tmp_path / "first").evidence.rows == 400, "what was committed before stays"
    charges = sc.Ledger.open(tmp_path / "ledger").charges
    assert [each.state for each in charges] == ["made", "begun"]
