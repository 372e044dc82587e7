"""Ctrl-C while DuckDB works is a `KeyboardInterrupt`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest

from scumble.model.interrupts import interruptible
from scumble.private.tables.source import read_safely
from scumble.public.sandbox import Sandbox
from tests.support import people

SLOW = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"


@contextmanager
def ctrl_c() -> Iterator[None]:
    """Send SIGINT to this process in a moment, while the statement inside runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_a_statement_of_the_sandbox() -> None:
    sandbox = Sandbox(people.schema())
    assert sandbox.rows("SELECT 1").num_rows == 1
    with ctrl_c(), pytest.raises(KeyboardInterrupt):
        sandbox.rows(SLOW)
    assert sandbox.rows("SELECT 1").num_rows == 1


def test_the_sandbox_while_it_opens(monkeypatch) -> None:
    """A small table is read in no time, so that another statement takes its place."""
    monkeypatch.setattr("scumble.public.sandbox.bounded_macros", lambda: [SLOW])
    with ctrl_c(), pytest.raises(KeyboardInterrupt):
        Sandbox(people.schema()).rows("SELECT 1")


def test_a_source() -> None:
    def stopped() -> None:
        raise duckdb.InterruptException("Interrupted!")

    with pytest.raises(KeyboardInterrupt):
        read_safely("The table", stopped)


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), duckdb.InterruptException()])
def test_both_errors_of_duckdb(error) -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise error


@pytest.mark.parametrize("error", [RuntimeError("no"), duckdb.Error("no"), RecursionError()])
def test_other_errors_stay(error) -> None:
    with pytest.raises(type(error)), interruptible():
        raise error
