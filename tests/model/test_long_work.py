"""Loops tell how far they are; Ctrl-C while DuckDB or numpy works is a `KeyboardInterrupt`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pytest

from scumble.model.long_work import aside, interruptible, listening, part, portion, tell, told
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


def test_nobody_listens():
    tell(1, 2)
    with portion(0, 0.5):
        tell(1, 2)


def test_parts_of_the_work_are_one_progress():
    heard = []
    with listening(heard.append):
        with portion(0, 0.5):
            tell(1, 2)
        with portion(0.5, 1):
            tell(0, 4)
            tell(1, 4)
        tell(0, 0)  # nothing to do is all done
    tell(1, 9)
    assert heard == pytest.approx([0.25, 0.5, 0.5, 0.625, 1, 1])


def test_work_aside_returns_tells_and_fails_as_it_would_here():
    told = []
    with listening(told.append):
        assert aside(lambda: tell(1, 4) or 7) == 7
        with pytest.raises(ZeroDivisionError):
            aside(lambda: 1 / 0)
    assert told == [0.25]


def test_ctrl_c_does_not_wait_for_work_aside():
    """The work would take a minute; the interrupt comes when it has begun."""
    begun, released, ended = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        released.wait(60)

    def press():
        begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)  # the system hands it to the main thread

    # Where the tests are run in the background, the signal is ignored otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=press).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            aside(lambda: work() or ended.append(True))
        assert not ended
    finally:
        released.set()
        signal.signal(signal.SIGINT, before)


def test_parts_and_items_of_a_loop():
    heard = []
    with listening(heard.append):
        for number in range(2):
            with part(number, 2):
                assert list(told("abcd")) == list("abcd")
    assert heard == pytest.approx([1 / 8, 2 / 8, 3 / 8, 1 / 2, 1 / 2, 5 / 8, 6 / 8, 7 / 8, 1, 1])
    with part(0, 2):
        assert list(told("ab")) == ["a", "b"]  # nobody listens


def test_what_is_told_only_grows():
    heard = []
    with listening(heard.append):
        tell(1, 2)
        tell(1, 4)  # a second pass over the same rows
        tell(3, 4)
    assert heard == [0.5, 0.75]
