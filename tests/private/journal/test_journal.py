"""The ledger of the database: promises, turns, keys, and one sentence for each failure."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading

import pytest

import scumble as sc
from scumble.private.journal.journal import Journal

PROMISE = {"epsilon": "3/10", "noise": "2000", "schema": "ab" * 32, "data": "cd" * 32}


@pytest.fixture
def journal(tmp_path):
    with Journal.create(tmp_path / "db", PROMISE) as journal:
        yield journal


def append(journal: Journal, *values: int) -> None:
    with journal.turn() as turn:
        for value in values:
            turn.append("answer", {"value": value})


def fail(journal: Journal, value: int) -> None:
    with journal.turn() as turn:
        turn.append("answer", {"value": value})
        raise ZeroDivisionError


def values(entries) -> list[int]:
    return [entry.payload["value"] for entry in entries]


def test_a_ledger_begins_with_its_promise(journal, tmp_path):
    [first] = journal.entries()
    assert (first.number, first.kind, first.payload) == (1, "promise", PROMISE)
    assert journal.promise == PROMISE
    with Journal.open(tmp_path / "db", PROMISE) as again:
        assert again.entries() == [first]


def test_only_the_owner_can_read_it(journal):
    append(journal, 1)
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in journal.folder.iterdir()}
    assert {"ledger.sqlite", "ledger.head", "ledger.sqlite-wal"} <= set(files)
    assert set(files.values()) == {0o600}


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / "db").mkdir()
    with pytest.raises(sc.LedgerError, match="exists already"):
        Journal.create(tmp_path / "db", PROMISE)
    assert list((tmp_path / "db").iterdir()) == []


def test_creating_leaves_all_or_nothing(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scumble.private.journal.store.HeadFile.create", refuse)
    with pytest.raises(sc.LedgerError, match="No space left on device"):
        Journal.create(tmp_path / "db", PROMISE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": "1/2"}, "in epsilon"),
        ({"epsilon": "1/2", "data": "ef" * 32}, "in the content of the table, epsilon"),
        ({"tracker": "exact"}, "in tracker"),
        ({"noise": 2000}, "in noise"),
    ],
)
def test_another_promise_is_refused_by_the_names_of_its_parts(journal, change, named):
    with pytest.raises(sc.LedgerError) as caught:
        Journal.open(journal.folder, {**PROMISE, **change})
    message = str(caught.value)
    assert f"it differs {named}. Open" in message
    for value in (*PROMISE.values(), *change.values()):
        assert str(value) not in message.replace(str(journal.folder), "")


def test_a_part_that_is_missing_is_another_promise(journal):
    with pytest.raises(sc.LedgerError, match="differs in noise"):
        journal.expect({name: part for name, part in PROMISE.items() if name != "noise"})


def test_opening_without_a_promise_tells_it(journal):
    with Journal.open(journal.folder) as again:
        assert again.promise == PROMISE


def test_entries_keep_their_bytes(journal):
    payload = {"z": 10**40, "a": [1, None, True, "é\n\ud800"], "m": {"b": -1, "a": 0.1}}
    with journal.turn() as turn:
        given = turn.append("answer", payload, key="k1", analyst="Ann")
    found = journal.find("k1")
    assert found == given
    assert found.text.startswith('{"a":[1,null,true,"\\u00e9')
    assert found.payload == payload
    assert found.time.endswith("Z")
    assert len(found.time) == len("2026-01-01T00:00:00.000000Z")
    assert (found.analyst, found.number, found.previous) == ("Ann", 2, journal.entries()[0].hash)
    assert journal.find("k2") is None


@pytest.mark.parametrize(
    "bad",
    [
        {"payload": {"x": float("nan")}},
        {"payload": {"x": {1, 2}}},
        {"key": ""},
        {"key": "a\nb"},
        {"key": "k" * 201},
        {"key": 7},
        {"analyst": "\0"},
        {"kind": ""},
        {"kind": "promise"},
    ],
)
def test_bad_content_is_refused_and_leaves_nothing(journal, bad):
    with pytest.raises(sc.ParameterError), journal.turn() as turn:
        turn.append(**{"kind": "answer", "payload": {}, **bad})
    assert len(journal.entries()) == 1


def test_a_key_is_used_once(journal):
    with journal.turn() as turn:
        turn.append("answer", {}, key="k")
        assert turn.find("k").number == 2
        with pytest.raises(sc.LedgerError, match="key 'k' belongs to an earlier entry"):
            turn.append("answer", {}, key="k")
        turn.append("answer", {}, key="other")
    assert [entry.key for entry in journal.entries()] == [None, "k", "other"]
    assert journal.verify() == ()


def test_an_exception_leaves_nothing(journal):
    append(journal, 1)
    with pytest.raises(ZeroDivisionError):
        fail(journal, 2)
    append(journal, 3)
    assert values(journal.entries(after=1)) == [1, 3]
    assert journal.verify() == ()


def test_a_turn_that_is_over_takes_nothing(journal):
    with journal.turn() as turn:
        pass
    with pytest.raises(sc.LedgerError, match="is over"):
        turn.append("answer", {})


def test_news_are_what_others_wrote(journal):
    with Journal.open(journal.folder) as other:
        append(journal, 1, 2)
        with other.turn() as turn:
            assert turn.fresh
            assert values(turn.new_entries()) == [1, 2]
            turn.append("answer", {"value": 3})
        append(other, 4)
        with journal.turn() as turn:
            assert not turn.fresh
            assert values(turn.new_entries()) == [3, 4]
        with journal.turn() as turn:
            assert turn.new_entries() == ()


def test_after_a_turn_that_failed_everything_is_news_again(journal):
    append(journal, 1)
    with pytest.raises(ZeroDivisionError), journal.turn():
        raise ZeroDivisionError  # nothing was told and nothing written: memory is still right
    with journal.turn() as turn:
        assert not turn.fresh
    with pytest.raises(ZeroDivisionError):
        fail(journal, 2)
    with journal.turn() as turn:
        assert turn.fresh
        assert values(turn.new_entries()) == [1]


def test_a_failure_after_the_commit_is_told_as_news(journal):
    """The entry is in the ledger though nobody was told so: the next turn learns of it."""

    def fail(name):
        if name == "committed":
            raise OSError(5, "Input/output error")

    with Journal.open(journal.folder, step=fail) as failing:
        with pytest.raises(OSError, match="Input"):
            append(failing, 1)
        with failing.turn() as turn:
            assert turn.fresh
            assert values(turn.new_entries()) == [1]
    assert journal.verify() == ()


def test_a_ledger_in_use_is_refused_after_a_while(journal):
    refused = pytest.raises(sc.LedgerError, match=r"in use by others for more than 0\.05 seconds")
    with Journal.open(journal.folder, timeout=0.05) as other, journal.turn(), refused:
        append(other, 1)
    append(journal, 1)


def test_a_thread_of_the_same_journal_waits_too(tmp_path):
    caught = []

    def work():
        try:
            append(journal, 1)
        except sc.LedgerError as error:
            caught.append(str(error))

    with Journal.create(tmp_path / "db", PROMISE, timeout=0.05) as journal:
        with journal.turn():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert "in use by others" in caught[0]


def test_a_foreign_lock_on_the_file_is_refused_after_a_while(journal):
    stranger = sqlite3.connect(journal.folder / "ledger.sqlite", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with Journal.open(journal.folder, timeout=0.05) as other:
        with pytest.raises(sc.LedgerError, match="in use by others"):
            append(other, 1)
        stranger.execute("ROLLBACK")
        append(other, 1)
    stranger.close()


def test_a_full_disk_is_one_sentence_and_nothing_is_written(journal):
    pages = journal._writer.run("PRAGMA page_count")
    journal._writer.run(f"PRAGMA max_page_count = {pages}")
    refused = pytest.raises(sc.LedgerError, match=r"the disk is full\. Nothing was written")
    with refused, journal.turn() as turn:
        turn.append("answer", {"value": "x" * 100_000})
    journal._writer.run("PRAGMA max_page_count = 1000000")
    append(journal, 1)
    assert values(journal.entries(after=1)) == [1]
    assert journal.verify() == ()


def test_a_file_that_may_only_be_read_is_one_sentence(journal):
    journal._writer.run("PRAGMA query_only = ON")
    with pytest.raises(sc.LedgerError, match=r"may only be read\. Make its folder and all files"):
        append(journal, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_only_be_read_is_one_sentence(journal):
    journal.close()
    for path in (*journal.folder.iterdir(), journal.folder):
        path.chmod(0o500)
    with pytest.raises(sc.LedgerError, match="cannot be used"):
        Journal.open(journal.folder)


def test_a_place_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sc.LedgerError, match=r"cannot be used: (Not a directory|File exists)"):
        Journal.create(tmp_path / "file" / "db", PROMISE)
    with pytest.raises(sc.LedgerError, match="does not exist"):
        Journal.open(tmp_path / "nothing")


@pytest.mark.parametrize("damage", [b"not a database at all" * 300, b"", b"SQLite format 3\0"])
def test_a_damaged_file_is_one_sentence(journal, damage):
    append(journal, 1)
    journal.close()
    (journal.folder / "ledger.sqlite").write_bytes(damage)
    with pytest.raises(sc.LedgerError, match=r"damaged|restore the folder"):
        Journal.open(journal.folder)


def test_a_closed_journal_says_so(journal):
    journal.close()
    for use in (journal.turn().__enter__, journal.entries, journal.verify):
        with pytest.raises(sc.LedgerError, match="was closed"):
            use()
    journal.close()


def test_a_forked_process_has_to_open_its_own(journal, monkeypatch):
    """SQLite's connections do not survive a fork; here only the number of the process changes."""
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)
        with pytest.raises(sc.LedgerError, match="opened by another process"):
            journal.entries()


def test_a_ledger_of_a_later_format_is_refused(journal):
    journal._writer.run("PRAGMA user_version = 2")
    with pytest.raises(sc.LedgerError, match="has format 2; this version of scumble reads"):
        Journal.open(journal.folder)
