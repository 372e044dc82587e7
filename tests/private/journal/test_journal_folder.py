"""The journal in a folder: permissions, foreign locks, full disks, damaged files."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

import scumble as sc
from scumble.private.journal import sqlite_store
from scumble.private.journal.journal import Journal

PROMISE = {"epsilon": "3/10", "noise": "2000"}


@pytest.fixture
def journal(tmp_path):
    with Journal.create(tmp_path / "db", PROMISE) as journal:
        yield journal


def append(journal: Journal, value: int) -> None:
    with journal.turn() as turn:
        turn.append("answer", {"value": value})


def test_only_the_owner_can_read_it(journal):
    append(journal, 1)
    assert stat.S_IMODE(journal.place.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in journal.place.iterdir()}
    assert {"ledger.sqlite", "ledger.head", "ledger.sqlite-wal"} <= set(files)
    assert set(files.values()) == {0o600}


def test_every_commit_waits_for_the_disk(journal):
    """SQLite's FULL: the log is synced at each commit, so that a power failure loses no charge."""
    for store in (journal._writer, journal._reader):
        assert store.run("PRAGMA synchronous") == 2
        assert store.run("PRAGMA journal_mode") == "wal"


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / "db").mkdir()
    with pytest.raises(sc.OutputExistsError, match="already exists"):
        Journal.create(tmp_path / "db", PROMISE)
    assert list((tmp_path / "db").iterdir()) == []


def test_creating_leaves_all_or_nothing(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scumble.private.journal.sqlite_store.HeadFile.create", refuse)
    with pytest.raises(sc.LedgerError, match="No space left on device"):
        Journal.create(tmp_path / "db", PROMISE)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from scumble.private.journal import sqlite_store
from scumble.private.journal.journal import Journal
setattr(sqlite_store, sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
Journal.create(sys.argv[1], {}, secret=b"key")
"""


@pytest.mark.parametrize("step", ["_lock_folder", "_write_durably", "_sync_folder"])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, step):
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "db", step], check=False)
    assert killed.returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".db-")
    Journal.create(tmp_path / "other", PROMISE).close()
    assert left.exists()  # it is of another name
    Journal.create(tmp_path / "db", PROMISE).close()
    assert {path.name for path in tmp_path.iterdir()} == {"db", "other"}


def test_what_another_process_fills_is_not_removed(tmp_path):
    """Nor what only looks like it."""
    others = [tmp_path / ".db-0123abcd", tmp_path / ".db-more-0123abcd.new", tmp_path / "db-new"]
    for other in others:
        other.mkdir()
    link = tmp_path / ".db-0123abcd.new"
    link.symlink_to(others[0])
    with sqlite_store._unfinished(tmp_path / "db") as partial:
        (partial / "file").touch()
        sqlite_store.remove_unfinished(tmp_path / "db")
        assert (partial / "file").exists()
    assert set(tmp_path.iterdir()) == {*others, link}


def test_a_folder_that_is_taken_for_an_abandoned_one_is_replaced(tmp_path, monkeypatch):
    """Another process removes it between its creation and its lock."""
    lock, taken = sqlite_store._lock_folder, []

    def remove_first(folder):
        if not taken:
            taken.append(folder)
            sqlite_store.remove_unfinished(tmp_path / "db")
        return lock(folder)

    monkeypatch.setattr(sqlite_store, "_lock_folder", remove_first)
    Journal.create(tmp_path / "db", PROMISE).close()
    assert not taken[0].exists()
    assert [path.name for path in tmp_path.iterdir()] == ["db"]


def test_a_foreign_lock_on_the_file_is_refused_after_a_while(journal):
    stranger = sqlite3.connect(journal.place / "ledger.sqlite", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with Journal.open(journal.place, timeout=0.05) as other:
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
    assert len(journal.entries(after=1)) == 1
    assert journal.verify() == ()


def test_a_file_that_may_only_be_read_is_one_sentence(journal):
    journal._writer.run("PRAGMA query_only = ON")
    with pytest.raises(sc.LedgerError, match=r"may only be read\. Make its folder and all files"):
        append(journal, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_only_be_read_is_one_sentence(journal):
    journal.close()
    for path in (*journal.place.iterdir(), journal.place):
        path.chmod(0o500)
    with pytest.raises(sc.LedgerError, match="cannot be used"):
        Journal.open(journal.place)


def test_a_place_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sc.LedgerError, match=r"cannot be written: a file is in the way"):
        Journal.create(tmp_path / "file" / "db", PROMISE)
    with pytest.raises(sc.LedgerError, match="There is no folder"):
        Journal.open(tmp_path / "nothing")


@pytest.mark.parametrize("damage", [b"not a database at all" * 300, b"", b"SQLite format 3\0"])
def test_a_damaged_file_is_one_sentence(journal, damage):
    append(journal, 1)
    journal.close()
    (journal.place / "ledger.sqlite").write_bytes(damage)
    with pytest.raises(sc.LedgerError, match=r"damaged|restore the journal"):
        Journal.open(journal.place)


def test_a_ledger_of_a_later_format_is_refused(journal):
    journal._writer.run("PRAGMA user_version = 2")
    with pytest.raises(sc.LedgerError, match="has format 2; this version of scumble reads"):
        Journal.open(journal.place)
