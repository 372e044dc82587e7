"""The journal of a database with appended rows: killed at every step, shared, tampered with."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import scumble as sc
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.database.state import DatabaseState
from scumble.private.database.tables import SourceTable, append_rows
from scumble.private.journal.entries import digest
from scumble.private.journal.journal import Journal, Turn
from tests.support.database.append_child import MORE, OPTIONS, SCHEMA, STEPS, TABLE
from tests.support.database.small_database import given

CHILD = "tests.support.database.append_child"
LOW = "SELECT COUNT(*) FROM t WHERE n < 50"
WHOLE = {"committed", "done"}
LIMIT = 15


def create(folder: Path) -> sc.Database:
    return sc.Database.create(folder, TABLE, SCHEMA, **OPTIONS)


def child(*words: object) -> subprocess.Popen:
    command = [sys.executable, "-m", CHILD, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """By step, a folder whose grower was killed at it."""
    place = tmp_path_factory.mktemp("killed")
    with create(place / "begin") as db:
        db.answer(LOW)
    folders = {step: shutil.copytree(place / "begin", place / step) for step in STEPS}
    told = child("kill", place).communicate()[0]
    assert told.split() == [word for step in STEPS for word in (step, "-9")]
    return folders


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_leaves_no_batch_or_a_whole_one(killed, step):
    """And with its key it can be tried again."""
    folder = killed[step]
    with DatabaseInspection(folder) as reading:
        assert reading.verify() == []
        assert reading.status().batches == (2 if step in WHOLE else 1)
    if step not in WHOLE:
        with sc.Database.open(folder, TABLE) as db:
            assert db.answer(LOW).status == "repeated"
    assert append_rows(folder, SourceTable(MORE), "k") == 2
    with sc.Database.open(folder, TABLE, batches=[MORE]) as db:
        assert db.answer("SELECT COUNT(*) FROM t").value == 800
        assert db.answer(LOW).numbers == 2
        assert db.verify() == []


def test_growers_of_several_processes_make_one_batch_each(tmp_path):
    folder = tmp_path / "db"
    create(folder).close()
    told = child("crowd", folder, 3).communicate()[0]
    assert sorted(map(int, told.split())) == [2, 3, 4]
    with sc.Database.open(folder, TABLE, batches=[MORE] * 3) as db:
        assert db.answer(LOW).numbers == 4
        assert db.verify() == []


def test_a_program_without_the_new_rows_is_told_so(tmp_path):
    """It must not answer for a part of the table as if that were all."""
    folder = tmp_path / "db"
    create(folder).close()
    asker = child("stale", folder)
    assert asker.stdout.readline() == "ready\n"
    append_rows(folder, SourceTable(MORE))
    answered, forecast, rest = asker.communicate("\n")[0].splitlines()
    assert "Rows were added to this database as batch 2" in answered
    assert answered == forecast
    assert rest.split()[1:] == ["2", "2"]
    assert len(given(folder)) == 1


def test_threads_ask_while_rows_are_added(tmp_path):
    """Each answer is over the batches of its moment, paid for once in each."""
    folder, start = tmp_path / "db", Barrier(24, timeout=60)

    def work(number: int) -> int:
        start.wait()
        if number % 6 == 0:
            return -db.append(MORE, key=f"batch {number}")
        return db.answer(f"SELECT COUNT(*) FROM t WHERE n <= {number}").numbers

    with create(folder) as db:
        with ThreadPoolExecutor(24) as threads:
            found = list(threads.map(work, range(24)))
        assert sorted(-each for each in found if each < 0) == [2, 3, 4, 5]
        asked = [(f"SELECT COUNT(*) FROM t WHERE n <= {n}") for n in range(24) if n % 6]
        assert all(
            db.answer(sql, options=sc.AskOptions(relax="compound")).numbers >= 5 for sql in asked
        )
        assert db.verify() == []
        used = db.status().used_in_batches
        assert max(used) <= LIMIT
    numbers = [(each.batch, each.kind, each.box.tobytes()) for each in given(folder)]
    assert len(set(numbers)) == len(numbers)


def test_a_failure_leaves_the_state_right(tmp_path, monkeypatch):
    """After the entry was written into the turn, which is undone."""
    learn = DatabaseState.learn

    def torn(state, entry, payload=None):
        learn(state, entry)
        raise OSError("torn")

    with create(tmp_path / "db") as db:
        db.answer(LOW)
        monkeypatch.setattr(DatabaseState, "learn", torn)
        with pytest.raises(OSError, match="torn"):
            db.append(MORE)
        monkeypatch.setattr(DatabaseState, "learn", learn)
        assert db.status().batches == 1
        assert db.answer(LOW).status == "repeated"
        assert db.append(MORE) == 2
        assert db.answer(LOW).numbers == 2
        monkeypatch.setattr(Turn, "append", _broken)
        with pytest.raises(OSError, match="broken"):
            db.append(MORE)
        assert db.answer(LOW).status == "repeated"


def _broken(*arguments):
    raise OSError("broken")


# --- tampering -----------------------------------------------------------------------------------


@pytest.fixture
def grown(tmp_path):
    """Entries: promise, answer, batch 2, answer, batch 3, answer."""
    with create(tmp_path / "db") as db:
        for rows in (MORE, MORE.slice(100), None):
            db.answer(LOW)
            if rows is not None:
                db.append(rows)
    return tmp_path / "db"


def meddle(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "ledger.sqlite")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def swap(one: int, other: int) -> list[str]:
    return [
        f"UPDATE entries SET number = -1 WHERE number = {one}",
        f"UPDATE entries SET number = {one} WHERE number = {other}",
        f"UPDATE entries SET number = {other} WHERE number = -1",
    ]


@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (["DELETE FROM entries WHERE number = 3"], "Entry 3 was deleted"),
        (["DELETE FROM entries WHERE number >= 5"], "Entries 5 to 6 were cut off"),
        (swap(3, 5), "Entry 3 was written as entry 5"),
        (
            ["UPDATE entries SET payload = replace(payload, '\"batch\":3', '\"batch\":2')"],
            "Entry 5 was changed",
        ),
        (["UPDATE entries SET payload = '{}' WHERE kind = 'append'"], "Entry 3 was changed"),
        (["UPDATE entries SET payload = 'no' WHERE number = 5"], "Entry 5 was changed"),
        (["UPDATE entries SET kind = 'answer' WHERE number = 3"], "Entry 3 was changed"),
    ],
)
def test_tampering_with_batches_is_found(grown, statements, sentence):
    with DatabaseInspection(grown) as reading:
        assert reading.verify() == []
        seal = reading.seal
    meddle(grown, *statements)
    with DatabaseInspection(grown) as reading:
        assert sentence in " ".join(reading.verify())
        assert sentence in " ".join(reading.verify(seal))
        with pytest.raises(sc.LedgerError, match="tampered"):
            reading.status()
    with pytest.raises(sc.LedgerError, match="tampered"):
        append_rows(grown, SourceTable(MORE))
    # Before the chain is read, the batches may already not be those that are given.
    with pytest.raises(sc.LedgerError), sc.Database.open(grown, TABLE, batches=_batches()) as db:
        db.answer(LOW)


def test_history_does_not_tell_what_was_changed(grown):
    meddle(grown, "UPDATE entries SET payload = '{}' WHERE number = 3")
    with (
        DatabaseInspection(grown) as reading,
        pytest.raises(sc.LedgerError, match=r"Entry 3 .* was changed"),
    ):
        reading.history()


def _batches():
    return [MORE, MORE.slice(100)]


def test_a_forged_chain_without_a_batch_does_not_fit_its_seal(grown):
    """All hashes and the head are made anew, as if batch 3 had never come."""
    with DatabaseInspection(grown) as reading:
        seal = reading.seal
    meddle(grown, "DELETE FROM entries WHERE number > 4")
    meddle_heads(grown)
    with DatabaseInspection(grown) as reading:
        assert reading.verify() == []  # nobody can tell from the folder alone
        assert "cut off" in " ".join(reading.verify(seal))
    with pytest.raises(sc.LedgerError, match="that are given: 2"):
        sc.Database.open(grown, TABLE, batches=_batches())


def meddle_heads(folder: Path) -> None:
    """Write both lines of the head anew, for the ledger as it is."""
    from scumble.private.journal.sqlite_store import HeadFile

    with Journal.open(folder) as journal:
        head = journal.head
    (folder / "ledger.head").unlink()
    HeadFile.create(folder / "ledger.head", head)


def test_a_batch_of_an_unknown_kind_is_not_passed_over(grown):
    """What a later version writes is not read as if it were nothing."""
    with Journal.open(grown) as journal, journal.turn() as turn:
        turn.append("shrink", {})
    with DatabaseInspection(grown) as reading:
        assert reading.verify() == []
        with pytest.raises(sc.LedgerError, match=r"Entry 7 .*'shrink'.*Upgrade"):
            reading.status()
        assert len(reading.history()) == 5


def test_reordered_batches_do_not_fit_their_rows(grown):
    """Also where somebody has made the chain hang together again."""
    connection = sqlite3.connect(grown / "ledger.sqlite")
    columns = "number, kind, key, analyst, time, payload, previous"
    with connection:
        texts = [
            connection.execute("SELECT payload FROM entries WHERE number = ?", (n,)).fetchone()[0]
            for n in (3, 5)
        ]
        for number, text in ((3, texts[1]), (5, texts[0])):
            connection.execute("UPDATE entries SET payload = ? WHERE number = ?", (text, number))
        for number in range(3, 7):
            before = "(SELECT hash FROM entries WHERE number = ?)"
            connection.execute(
                f"UPDATE entries SET previous = {before} WHERE number = ?", (number - 1, number)
            )
            row = connection.execute(
                f"SELECT {columns} FROM entries WHERE number = ?", (number,)
            ).fetchone()
            connection.execute(
                "UPDATE entries SET hash = ? WHERE number = ?", (digest(*row), number)
            )
    connection.close()
    meddle_heads(grown)
    with pytest.raises(sc.LedgerError, match="was made of other rows"):
        sc.Database.open(grown, TABLE, batches=_batches())
    with DatabaseInspection(grown) as reading:
        assert reading.verify() == [
            "Entry 3 adds batch 3 where batch 2 is next: batches were removed or reordered.",
            "Entry 5 adds batch 2 where batch 3 is next: batches were removed or reordered.",
        ]
        with pytest.raises(sc.LedgerError, match="Entry 3 adds batch 3"):
            reading.status()
