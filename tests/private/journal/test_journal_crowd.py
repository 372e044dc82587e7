"""Many threads and processes at one journal: nobody overruns, and one request is charged once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import scumble as sc
from scumble.private.journal.group_commit import GroupCommit
from scumble.private.journal.journal import Journal

CHILD = "tests.support.database.journal_child"


@pytest.fixture
def journal(tmp_path):
    with Journal.create(tmp_path / "db", {}) as journal:
        yield journal


def append_all(turn, requests):
    return [turn.append("answer", {"value": request}) for request in requests]


def values(journal: Journal) -> list[object]:
    return [entry.payload["value"] for entry in journal.entries(after=1)]


@pytest.mark.parametrize("room", [0, 37, 200])
def test_processes_and_threads_use_exactly_the_room_there_is(journal, room):
    """200 requests of 4 processes with 10 threads each; half of the processes commit in groups."""
    command = [sys.executable, "-m", CHILD, "crowd", str(journal.place), str(room), "10", "5"]
    children = [
        subprocess.Popen(
            [*command, "group"] if number % 2 else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    told = [child.communicate()[0].split() for child in children]
    assert sum(int(asked) for _, asked in told) == 200
    assert sum(int(answered) for answered, _ in told) == room
    assert len(journal.entries(after=1)) == room
    assert journal.verify() == ()


def test_ten_thousand_retries_are_charged_once_each(journal):
    """400 requests, each made 25 times by 16 threads in any order."""

    def decide(turn, keys):
        return [turn.find(key) or turn.append("answer", {"noise": draw()}, key=key) for key in keys]

    def draw() -> int:
        return chance.getrandbits(62)

    def ask(key: str) -> tuple[str, str]:
        entry = journal.find(key) or committer.submit(key)
        return key, f"{entry.number} {entry.text} {entry.time} {entry.hash}"

    chance = random.Random(3)
    committer = GroupCommit(journal, decide)
    requests = [f"request {number}" for number in range(400)] * 25
    chance.shuffle(requests)
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, requests))
    assert len(answers) == 10_000
    assert len(set(answers)) == 400
    assert len(journal.entries(after=1)) == 400
    assert journal.verify() == ()


def test_those_who_wait_are_served_together(journal):
    """While one turn is held up, nine requests gather; they get one turn."""
    sizes = []
    held, released = threading.Event(), threading.Event()

    def decide(turn, requests):
        sizes.append(len(requests))
        if 0 in requests:
            held.set()
            assert released.wait(30)
        return append_all(turn, requests)

    committer = GroupCommit(journal, decide)
    with ThreadPoolExecutor(10) as threads:
        first = threads.submit(committer.submit, 0)
        assert held.wait(30)
        others = [threads.submit(committer.submit, number) for number in range(1, 10)]
        wait_for_waiting(committer, 9)
        released.set()
        assert first.result().payload == {"value": 0}
        assert [each.result().payload["value"] for each in others] == list(range(1, 10))
    assert sizes == [1, 9]


def together(committer: GroupCommit, requests: list) -> list:
    """The outcomes of requests that are all in one batch."""
    with ThreadPoolExecutor(len(requests)) as threads:
        committer._has_leader = True  # as if somebody were at work
        futures = [threads.submit(committer.submit, request) for request in requests]
        wait_for_waiting(committer, len(requests))
        with committer._lock:
            committer._choose_leader()
        return [future.exception() or future.result() for future in futures]


def wait_for_waiting(committer: GroupCommit, number: int) -> None:
    while len(committer._waiting) < number:
        time.sleep(0.001)


def test_an_exception_strikes_only_its_own_request(journal):
    """Even one that comes after its request has written something."""

    def decide(turn, requests):
        entries = append_all(turn, requests)
        if 3 in requests:
            raise ZeroDivisionError("three")
        return entries

    outcomes = together(GroupCommit(journal, decide), [1, 2, 3, 4, 5])
    assert isinstance(outcomes.pop(2), ZeroDivisionError)
    assert [outcome.payload["value"] for outcome in outcomes] == [1, 2, 4, 5]
    assert sorted(values(journal)) == [1, 2, 4, 5]
    assert journal.verify() == ()


def test_an_exception_can_be_a_result(journal):
    def decide(turn, requests):
        good = append_all(turn, [request for request in requests if request])
        refused = sc.PromiseError("No room.")
        return [good.pop(0) if request else refused for request in requests]

    outcomes = together(GroupCommit(journal, decide), [1, 0, 2])
    assert str(outcomes[1]) == "No room."
    assert sorted(values(journal)) == [1, 2]


def test_a_ledger_that_fails_is_told_to_all(tmp_path):
    def fail(name):
        if name == "full":
            raise sc.LedgerError("The disk is full.")

    with Journal.create(tmp_path / "db", {}, step=fail) as journal:
        outcomes = together(GroupCommit(journal, append_all), [1, 2, 3])
        assert [str(outcome) for outcome in outcomes] == ["The disk is full."] * 3
        assert values(journal) == []


def test_results_that_do_not_fit_the_requests_are_not_committed(journal):
    def decide(turn, requests):
        return [*append_all(turn, requests), "one more"]

    for outcome in together(GroupCommit(journal, decide), [1, 2]):
        assert isinstance(outcome, ValueError)
    assert values(journal) == []


def test_an_interrupted_leader_leaves_the_others_to_the_next(journal):
    struck = []

    def decide(turn, requests):
        if not struck:
            struck.append(threading.current_thread())
            raise KeyboardInterrupt
        return append_all(turn, requests)

    outcomes = together(GroupCommit(journal, decide), [1, 2, 3])
    assert sum(isinstance(outcome, KeyboardInterrupt) for outcome in outcomes) == 1
    assert len(values(journal)) == 2
