"""Comparisons in several processes: the same results, no process left behind, errors in words."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

import pytest

import scumble as sc
from scumble.cli.console import ShellDialect
from scumble.compare import comparison
from scumble.compare.comparison import Comparison, Results
from scumble.compare.questions import questions
from scumble.compare.runs import RunTask, RunWorkers, try_run, usable_cores
from scumble.compare.settings import Choice, Settings
from scumble.compare.truth import stand_in
from scumble.model.errors import ScumbleError, setting, using_dialect

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(20, 29)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "sensitive", sc.Category(tuple("abcdef"))),
    )
)
METHODS = ["uniform", "subset", "partition", "anatomy", "aroma", "histogram"]


@pytest.fixture(scope="module")
def made() -> Comparison:
    table = stand_in(SCHEMA, 500, seed=4)
    workload = questions("breakdowns", table, 3, 0)
    given = {"histogram": {"epsilon": [1, -1]}}
    choices = Settings(table, workload, "replace").choices(METHODS, [2.0], given)
    return Comparison(table, workload, choices, 2, seed=5)


def _blank(comparison: Comparison) -> Results:
    return comparison.blank(subject="people", preview=False, sensitive=["job"])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further processes are started after the first run, however little is left."""
    monkeypatch.setattr(comparison, "_WORTH_PROCESSES", 0.0)
    monkeypatch.setattr(comparison, "_TIMED_ALONE", 0.0)


@pytest.mark.usefixtures("at_once")
def test_the_same_whatever_the_number_of_processes(
    made: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = _blank(made), _blank(made)
    list(made.runs(alone))
    started: list[int] = []
    start = RunWorkers._start
    monkeypatch.setattr(RunWorkers, "_start", lambda self: started.append(1) or start(self))
    list(made.runs(together, jobs=2))
    assert started == [1]
    assert together == alone
    assert len(alone.runs) == 2 * len(METHODS)
    assert list(alone.left_out) == ["histogram, ε = -1"]
    first, second = (run for run in alone.runs if run.method == "uniform")
    assert first.values != second.values
    assert not multiprocessing.active_children()


WORTH = [
    ([0.1, 0.1, 0.1, 1.7], 72, False),  # one run loaded compiled loops; the mean would be 36 s
    ([1.7], 72, False),
    ([0.6, 0.6, 0.6], 72, True),
    ([0.3, 0.3, 0.3], 900, False),  # not yet a second
    ([1.7, 0.3, 0.3], 900, True),
    ([40.0], 3, True),
    ([40.0, 1.0, 1.0], 3, False),
]


def test_processes_are_started_for_long_work_only(subtests: pytest.Subtests) -> None:
    for spent, left, worth in WORTH:
        with subtests.test(spent=spent):
            assert comparison.worth_processes(spent, left) is worth


@pytest.mark.usefixtures("at_once")
def test_who_stops_listening_leaves_no_process(made: Comparison) -> None:
    results = _blank(made)
    runs = made.runs(results, jobs=2)
    while next(runs) < 3:
        pass
    assert multiprocessing.active_children()
    runs.close()
    assert not multiprocessing.active_children()
    assert len(results.runs) == 3


def _tasks(choice: Choice) -> Iterator[RunTask]:
    yield from (RunTask(number, choice, number) for number in range(4))


def test_a_process_that_dies_is_told(made: Comparison) -> None:
    with RunWorkers(1, made.runner.material) as workers:
        [child] = multiprocessing.active_children()
        found = workers.made(_tasks(made.choices[0]))
        next(found)
        child.kill()
        with pytest.raises(ScumbleError, match="fewer --jobs"):
            list(found)


def test_a_mistake_in_a_process_is_one_here(made: Comparison) -> None:
    wrong = Choice("uniform", "ε = 1", None)  # type: ignore[arg-type]
    with (
        RunWorkers(1, made.runner.material) as workers,
        pytest.raises(RuntimeError, match="AttributeError") as caught,
    ):
        list(workers.made(_tasks(wrong)))
    assert "compare/runs.py" in "".join(caught.value.__notes__)  # where it happened


def test_usable_cores() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


class _Refusing:
    def run(self, *_: object) -> None:
        raise ScumbleError(f"Say {setting('suppress', True)}.")


def test_reasons_have_the_same_words_in_every_process(made: Comparison) -> None:
    with using_dialect(ShellDialect(lambda: None)):
        reason = try_run(_Refusing(), RunTask(0, made.choices[0], 0))  # type: ignore[arg-type]
    assert reason == "Say suppress=True."
