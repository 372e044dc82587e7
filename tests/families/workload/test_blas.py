"""Linear algebra on one thread: set for a block, whoever else is in one, and set back after it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import scumble as sc
from scumble.families.workload.publish import strategies
from scumble.families.workload.publish import workload as blas


def _threads() -> list[int]:
    return [library.get() for library in blas._load_libraries()]


def test_one_thread_within_the_block() -> None:
    before = _threads()
    blas._set([2] * len(before))
    try:
        several = _threads()
        with blas.one_thread():
            assert _threads() == [1] * len(before)
            with blas.one_thread():
                pass
            assert _threads() == [1] * len(before)
        assert _threads() == several
    finally:
        blas._set(before)


def test_blocks_of_several_threads_overlap() -> None:
    before = _threads()
    blas._set([2] * len(before))
    several, inside, leave = _threads(), threading.Event(), threading.Event()

    def other() -> None:
        with blas.one_thread():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    try:
        with blas.one_thread():
            thread.start()
            assert inside.wait(60)
        assert _threads() == [1] * len(before)  # the other block still runs
        leave.set()
        thread.join()
        assert _threads() == several
    finally:
        leave.set()
        blas._set(before)


def test_a_plan_is_searched_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the strategy, and so what is released, would depend on the number of processors."""
    seen: list[list[int]] = []

    def search(*given: Any, **options: Any) -> strategies.Choice:
        seen.append(_threads())
        return choose(*given, **options)

    choose = strategies.choose_strategy
    monkeypatch.setattr(strategies, "choose_strategy", search)
    schema = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 7))])
    queries = ["SELECT COUNT(*) FROM t WHERE a < 3", "SELECT COUNT(*) FROM t WHERE a < 6"]
    before = _threads()
    blas._set([2] * len(before))
    try:
        sc.Workload(["a"], queries=queries, epsilon=1, neighbours="replace").forecast(schema)
    finally:
        blas._set(before)
    assert seen == [[1] * len(before)]
