"""The journal in a folder: permissions, foreign locks, full disks, damaged files."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest

import scumble as sc
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


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / "db").mkdir()
    with pytest.raises(sc.LedgerError, match="exists already"):
        Journal.create(tmp_path / "db", PROMISE)
    assert list((tmp_path / "db").iterdir()) == []


def test_creating_leaves_all_or_nothing(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scumble.private.journal.sqlite_store.HeadFile.create", refuse)
    with pytest.raises(sc.LedgerError, match="No space left on device"):
        Journal.create(tmp_path / "db", PROMISE)
    assert list(tmp_path.iterdir()) == []


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
    with pytest.raises(sc.LedgerError, match="does not exist"):
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
