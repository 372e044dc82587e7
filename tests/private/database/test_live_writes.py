"""Live databases that fail at any write: while they are created, and while they answer. A charge is
returned only where nothing was made, and nothing that is half made can be opened.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from tests.support.database.live_child import create, question, value_of
from tests.support.database.live_table import OPTIONS, SCHEMA, assert_promise, assert_same, table
from tests.support.database.nursery import Nursery
from tests.support.database.write_points import struck

STEP = 10  # of the points, one after the other in the slow tests
FAILURES = [OSError(28, "No space left on device"), KeyboardInterrupt()]


def prepared(folder: Path) -> sc.Ledger:
    """A folder for `create`, with an owner's ledger."""
    (folder / "temporary").mkdir(parents=True)
    return sc.Ledger.create(folder / "owners", epsilon=9, delta=1e-3, neighbours="replace")


def opened(folder: Path) -> sc.LiveDatabase | None:
    """The database, if it can be opened; then it is whole."""
    try:
        found = sc.LiveDatabase.open(folder, table(rows=300))
    except sc.ScumbleError:
        return None
    assert found.verify() == []
    assert found.ask("SELECT COUNT(*) FROM t").estimate.value == 300
    found.close()
    return found


def state_of_charge(ledger: sc.Ledger) -> str:
    """The state of the one charge."""
    assert ledger.verify() == []
    charges = ledger.charges
    assert len(charges) <= 1
    return charges[0].state if charges else "none"


# --- creation -------------------------------------------------------------------------------------


def killed_creations(nursery: Nursery, place: Path, first: int, step: int) -> int:
    """Kill a creation at every so many points; return how many were killed."""
    for times, number in enumerate(count(first, step)):
        folder = place / str(number)
        ledger = prepared(folder)
        if nursery.lives(folder, number, "created"):
            assert state_of_charge(ledger) == "made"
            return times
        state = state_of_charge(ledger)
        if (folder / "db").exists():
            assert opened(folder / "db")
            assert state in ("begun", "made")
        else:
            assert state in ("none", "begun")
            left = list(folder.glob(".db-*"))
            assert len(left) <= 1
            assert state == "begun" or not left
            for partial in left:
                opened(partial)
            create(folder).close()
            assert list(folder.glob(".db-*")) == []
            assert opened(folder / "db")
            assert ledger.charges[-1].state == "made"
    raise AssertionError


@pytest.fixture(scope="module")
def nursery():
    with Nursery("tests.support.database.live_child", "creators") as found:
        yield found


def test_a_creation_that_is_killed_is_charged_or_never_began(nursery, tmp_path):
    assert killed_creations(nursery, tmp_path, 3, STEP) > 5


@pytest.mark.slow
def test_a_creation_that_is_killed_at_every_write(nursery, tmp_path):
    assert killed_creations(nursery, tmp_path, 1, 1) > 60


def failed_creations(
    place: Path, monkeypatch: Any, failure: BaseException, first: int, step: int, *, often: bool
) -> list[str]:
    """Let a creation fail at every so many points; return the states of the charges."""
    states = []
    for number in count(first, step):
        folder = place / str(number)
        ledger = prepared(folder)
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "temporary"))
        with struck(number, _raising(failure), often=often) as hit:
            try:
                create(folder).close()
            except (sc.ScumbleError, type(failure)):
                assert hit
        states.append(state_of_charge(ledger))
        if (folder / "db").exists():
            assert opened(folder / "db")
            assert states[-1] in ("begun", "made")
        else:
            assert states[-1] in ("none", "begun", "returned")
        gc.collect()
        assert list((folder / "temporary").iterdir()) == []
        assert list(folder.glob(".db-*")) == []
        if not hit:
            assert states[-1] == "made"
            return states
    raise AssertionError


def _raising(failure: BaseException) -> Callable[[], None]:
    def strike() -> None:
        raise type(failure)(*failure.args)  # a new one: no traceback holds what was made

    return strike


@pytest.mark.parametrize("often", [False, True], ids=["once", "often"])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)
def test_a_creation_that_fails(tmp_path, monkeypatch, failure, often):
    first = 1 + FAILURES.index(failure) + 2 * often
    states = failed_creations(tmp_path, monkeypatch, failure, first, STEP, often=often)
    check(states, failure, often=often)


@pytest.mark.soak
@pytest.mark.parametrize("often", [False, True], ids=["once", "often"])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)
def test_a_creation_that_fails_at_every_write(tmp_path, monkeypatch, failure, often):
    states = failed_creations(tmp_path, monkeypatch, failure, 1, 1, often=often)
    check(states, failure, often=often)
    assert len(states) > 60


def check(states: list[str], failure: BaseException, *, often: bool) -> None:
    """A full disk is no secret; who pressed Ctrl-C may have seen something; and a ledger that
    cannot be written returns nothing.
    """
    returned = states.count("returned")
    if isinstance(failure, Exception) and not often:
        assert returned >= len(states) // 4
    else:
        assert returned == 0


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)
def test_an_answer_that_fails_at_any_write(tmp_path, failure):
    """It is charged from its commit on; tried again it is charged once, and is the same."""
    told: dict[str, str] = {}
    with sc.LiveDatabase.create(tmp_path / "db", table(), SCHEMA, **OPTIONS) as database:

        def ask(number: int, within: float = 45) -> str:
            return value_of(database.ask(question(number), within=within, key=f"k{number}"))

        for number in count(1):
            before = database.status()
            with struck(number, _raising(failure)) as hit:
                try:
                    told[f"k{number}"] = ask(number)
                except (sc.ScumbleError, type(failure)):
                    assert hit
            written = database._journal.find(f"k{number}")
            bought = len(written.payload["new"]) if written else 0
            assert database.status().purchases == before.purchases + bought
            assert written or f"k{number}" not in told
            told.setdefault(f"k{number}", ask(number))
            assert ask(number) == told[f"k{number}"]
            database.preview(question(number + 1), within=20)
            assert_promise(database)
            if not hit:
                break
        assert number > 5
        assert len(database.history()) == len(told)
        assert database.verify() == []
        with sc.LiveDatabase.open(tmp_path / "db", table()) as other:
            assert other.status() == database.status()
            assert_same(database._state, other._state)
            for key, value in told.items():
                sql = question(int(key[1:]))
                assert value_of(other.ask(sql, within=45, key=key)) == value


def test_a_full_disk_is_one_sentence_and_nothing_is_charged(tmp_path):
    with sc.LiveDatabase.create(tmp_path / "db", table(), SCHEMA, **OPTIONS) as database:
        writer = database._journal._writer
        first = database.ask(question(1), within=45, key="one")
        writer.run(f"PRAGMA max_page_count = {writer.run('PRAGMA page_count')}")
        before = database.status()
        long = f"{question(2)} -- {'x' * 20_000}"
        with pytest.raises(sc.LedgerError, match=r"the disk is full\. Nothing was written"):
            database.ask(long, within=40)
        assert database.status() == before
        assert value_of(database.ask(question(1), within=45, key="one")) == value_of(first)
        writer.run("PRAGMA max_page_count = 1000000")
        assert database.ask(long, within=40).charged > 0
        assert_promise(database)


def test_a_journal_that_may_only_be_read_is_one_sentence(tmp_path):
    with sc.LiveDatabase.create(tmp_path / "db", table(), SCHEMA, **OPTIONS) as database:
        writer = database._journal._writer
        writer.run("PRAGMA query_only = ON")
        for within in (None, 45):
            with pytest.raises(sc.LedgerError, match="may only be read"):
                database.ask(question(1), within=within)
        writer.run("PRAGMA query_only = OFF")
        assert database.status().purchases == 0
        assert database.ask(question(1), within=45).charged > 0
        assert_promise(database)


def test_a_folder_that_cannot_be_made_is_not_charged(tmp_path):
    """That is known only when the base was measured, which nobody has seen."""
    ledger = prepared(tmp_path / "place")
    (tmp_path / "place" / "db").write_text("")
    with pytest.raises(sc.OutputExistsError):
        create(tmp_path / "place")
    assert state_of_charge(ledger) == "none"
    folder = tmp_path / "place" / "db" / "inner"
    with pytest.raises(sc.LedgerError, match="cannot be written: a file is in the way"):
        sc.LiveDatabase.create(folder, table(), SCHEMA, **OPTIONS, ledger=ledger)
    assert state_of_charge(ledger) == "returned"
