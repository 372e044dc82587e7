"""Ctrl-C while DuckDB works is a `KeyboardInterrupt`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pytest

from scumble.model.interrupts import interruptible
from scumble.private.tables.source import read_safely
from scumble.public import sandbox as module
from scumble.public.sandbox import Sandbox
from tests.support import people

SLOW = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"


def test_a_statement_of_the_sandbox(monkeypatch) -> None:
    """It is interrupted in a moment, and not because of a limit."""
    watched = module.watched

    @contextmanager
    def stopping(interrupt: Callable[[], None]) -> Iterator[object]:
        timer = threading.Timer(0.3, interrupt)
        timer.start()
        with watched(interrupt) as watch:
            yield watch
        timer.cancel()

    sandbox = Sandbox(people.schema())
    monkeypatch.setattr(module, "watched", stopping)
    with pytest.raises(KeyboardInterrupt):
        sandbox.rows(SLOW)
    monkeypatch.undo()
    assert sandbox.rows("SELECT 1").num_rows == 1


def test_the_sandbox_while_it_opens(monkeypatch) -> None:
    def stopped(words: list[str]) -> str:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(module, "_list", stopped)
    with pytest.raises(KeyboardInterrupt):
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
