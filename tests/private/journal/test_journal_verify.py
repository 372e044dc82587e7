"""Tampering with a ledger: each kind is found, in words, at the right entry."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import pytest

import scumble as sc
from scumble.private.database.recorded import links
from scumble.private.journal.chain import Head
from scumble.private.journal.entries import canonical, digest
from scumble.private.journal.journal import Journal
from scumble.private.journal.sqlite_store import HeadFile

ENTRIES = 9  # with the promise


@pytest.fixture
def journal(tmp_path):
    with Journal.create(tmp_path / "db", {"epsilon": "1"}) as journal:
        for values in (range(2, ENTRIES), [ENTRIES]):
            with journal.turn() as turn:
                for value in values:
                    turn.append("answer", {"value": value}, key=f"k{value}", analyst="ann")
        yield journal


def meddle(journal: Journal, *statements: str) -> None:
    """What somebody with an SQLite shell does."""
    with sqlite3.connect(journal.place / "ledger.sqlite") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def forge(journal: Journal, first: int) -> None:
    """New hashes from an entry on, so that the chain hangs together again."""
    connection = sqlite3.connect(journal.place / "ledger.sqlite")
    columns = "number, kind, key, analyst, time, payload, previous"
    for number in range(first, ENTRIES + 1):
        connection.execute(
            "UPDATE entries SET previous = (SELECT hash FROM entries WHERE number = ?) "
            "WHERE number = ?",
            (number - 1, number),
        )
        query = f"SELECT {columns} FROM entries WHERE number = ?"
        row = connection.execute(query, (number,)).fetchone()
        connection.execute("UPDATE entries SET hash = ? WHERE number = ?", (digest(*row), number))
    connection.commit()
    connection.close()


def found(journal: Journal, head: Head | str | None = None) -> list[tuple[int, str]]:
    return [(finding.number, str(finding)) for finding in journal.verify(head)]


def refuse_to_use(journal: Journal, match: str) -> None:
    refused = pytest.raises(sc.LedgerError, match=match)
    with Journal.open(journal.place) as again, refused, again.turn():
        pass


def test_a_whole_ledger_is_whole(journal):
    assert journal.verify() == ()
    assert journal.verify(journal.head) == ()
    assert journal.verify(str(journal.head)) == ()


def test_hashes_tell_nothing_to_somebody_who_tries_out_contents(journal):
    """Auditors see numbers, times and hashes, and know what the few possible answers look like."""
    entries = journal.entries()
    salts = [json.loads(entry.text)["_salt"] for entry in entries]
    assert len(set(salts)) == ENTRIES
    assert all(len(bytes.fromhex(salt)) >= 16 for salt in salts)
    shown = json.dumps([dataclasses.asdict(link) for link in links(entries)])
    for entry, salt in zip(entries, salts, strict=True):
        guess = dataclasses.replace(entry, text=canonical(entry.payload))
        assert not guess.intact
        assert salt not in shown
        assert "_salt" not in entry.payload


def test_entries_of_earlier_versions_have_no_salt_and_are_continued(journal):
    remove = "payload = json_remove(payload, '$._salt')"
    meddle(journal, f"UPDATE entries SET {remove} WHERE number > 1")
    forge(journal, 2)
    HeadFile(journal.place / "ledger.head").write(journal.head)
    with Journal.open(journal.place) as again:
        assert [entry.text for entry in again.entries(after=7)] == ['{"value":8}', '{"value":9}']
        with again.turn() as turn:
            assert turn.append("answer", {"value": 10}).payload == {"value": 10}
        assert again.verify(again.head) == ()


@pytest.mark.parametrize(
    "change",
    [
        """payload = '{"value":6}'""",
        "payload = x'00'",
        "kind = 'denied'",
        "key = 'other'",
        "key = NULL",
        "analyst = 'bob'",
        "analyst = ''",
        "time = '2020-01-01T00:00:00.000000Z'",
        "kind = 'answer' || char(10) || '=k5', key = NULL",
    ],
)
def test_a_changed_entry_is_named(journal, change):
    meddle(journal, f"UPDATE entries SET {change} WHERE number = 5")
    assert found(journal) == [(5, "Entry 5 was changed: its content does not fit its hash.")]
    refuse_to_use(journal, "Entry 5 was changed")


def test_a_changed_entry_with_a_new_hash_breaks_the_next(journal):
    meddle(journal, """UPDATE entries SET payload = '{"value":0}' WHERE number = 5""")
    connection = sqlite3.connect(journal.place / "ledger.sqlite")
    columns = "number, kind, key, analyst, time, payload, previous"
    row = connection.execute(f"SELECT {columns} FROM entries WHERE number = 5").fetchone()
    connection.close()
    meddle(journal, f"UPDATE entries SET hash = '{digest(*row)}' WHERE number = 5")
    [(number, sentence)] = found(journal)
    assert number == 6
    assert "does not continue what stands before it: an earlier entry was replaced" in sentence


@pytest.mark.parametrize(
    ("condition", "number", "sentence"),
    [
        ("number = 5", 5, "Entry 5 was deleted."),
        ("number BETWEEN 4 AND 6", 4, "Entries 4 to 6 were deleted."),
        ("number = 1", 1, "Entry 1 was deleted."),
    ],
)
def test_deleted_entries_are_named(journal, condition, number, sentence):
    meddle(journal, f"DELETE FROM entries WHERE {condition}")
    assert found(journal) == [(number, sentence)]


def test_a_deletion_that_is_hidden_by_new_numbers_is_found(journal):
    meddle(
        journal,
        "DELETE FROM entries WHERE number = 5",
        *(f"UPDATE entries SET number = {n - 1} WHERE number = {n}" for n in range(6, ENTRIES + 1)),
    )
    first, *_, last = found(journal)
    assert first[0] == 5
    assert "Entry 5 was written as entry 6: entries were inserted, deleted or" in first[1]
    assert "the journal ends with entry 8, but its head file remembers entry 9" in last[1]


def test_reordered_entries_are_found(journal):
    moves = [(5, 100), (7, 5), (100, 7)]
    meddle(journal, *(f"UPDATE entries SET number = {b} WHERE number = {a}" for a, b in moves))
    assert [number for number, _ in found(journal)][:2] == [5, 6]
    assert "Entry 5 was written as entry 7" in found(journal)[0][1]
    assert any("Entry 7 was written as entry 5" in sentence for _, sentence in found(journal))


def test_an_inserted_entry_is_found(journal):
    down = range(ENTRIES, 4, -1)
    copied = "kind, 'new', analyst, time, payload, previous, hash FROM entries WHERE number = 4"
    meddle(
        journal,
        *(f"UPDATE entries SET number = {n + 1} WHERE number = {n}" for n in down),
        f"INSERT INTO entries SELECT 5, {copied}",
    )
    numbers = [number for number, _ in found(journal)]
    assert numbers[0] == 5
    assert "Entry 6 was written as entry 5" in found(journal)[1][1]


@pytest.mark.parametrize("number", [0, -7])
def test_an_entry_before_the_first_is_found(journal, number):
    meddle(
        journal,
        f"INSERT INTO entries SELECT {number}, kind, NULL, analyst, time, payload, previous, hash "
        "FROM entries WHERE number = 4",
    )
    assert (number, f"Entry {number} was inserted: the journal begins with entry 1.") in found(
        journal
    )


@pytest.mark.parametrize("kept", [8, 5, 1])
def test_a_truncated_ledger_is_found_and_not_used(journal, kept):
    meddle(journal, f"DELETE FROM entries WHERE number > {kept}")
    [(number, sentence)] = found(journal)
    assert number == kept + 1
    assert f"cut off: the journal ends with entry {kept}, but its head file remembers" in sentence
    with pytest.raises(sc.LedgerError, match="cut off"), journal.turn():
        pass
    refuse_to_use(journal, "cut off")


def test_without_its_log_the_ledger_is_truncated(tmp_path):
    """What SQLite had not yet brought into the main file is lost with the WAL."""
    journal = Journal.create(tmp_path / "db", {})
    with journal.turn() as turn:
        turn.append("answer", {})
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("ledger.sqlite", "ledger.head"):
        (copy / name).write_bytes((journal.place / name).read_bytes())
    journal.close()
    with Journal.open(copy) as again:
        assert "Entry 2 was cut off" in found(again)[0][1]


def test_a_ledger_longer_than_its_head_is_what_a_crash_leaves(journal):
    head = (journal.place / "ledger.head").read_bytes()
    with journal.turn() as turn:
        turn.append("answer", {"value": 10})
    (journal.place / "ledger.head").write_bytes(head)
    assert found(journal) == []
    with Journal.open(journal.place) as again, again.turn() as turn:
        turn.append("answer", {"value": 11})
    assert found(journal) == []
    meddle(journal, "DELETE FROM entries WHERE number = 11")
    assert [number for number, _ in found(journal)] == [11]


def test_a_half_written_head_leaves_the_one_before(journal):
    """The second entry from the end is in the other line; a torn line counts as none."""
    path = journal.place / "ledger.head"
    content = bytearray(path.read_bytes())
    newest = content.index(b"%020d" % ENTRIES)
    content[newest + 50 : newest + 60] = b"\0" * 10
    path.write_bytes(content)
    assert found(journal) == []
    with journal.turn() as turn:
        turn.append("answer", {"value": 10})
    assert b"%020d" % (ENTRIES + 1) in path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"nonsense\n" * 30])
def test_a_damaged_head_is_told(journal, content):
    (journal.place / "ledger.head").write_bytes(content)
    [(number, sentence)] = found(journal)
    assert number == ENTRIES
    assert "The head file is damaged" in sentence
    with pytest.raises(sc.LedgerError, match="head file is damaged"), journal.turn():
        pass


def test_a_rewritten_chain_contradicts_the_head(journal):
    meddle(journal, """UPDATE entries SET payload = '{"value":0}' WHERE number = 5""")
    forge(journal, 5)
    [(number, sentence)] = found(journal)
    assert number == ENTRIES
    assert "is not the one that its head file remembers: the journal was rewritten" in sentence
    refuse_to_use(journal, "rewritten")


def test_only_a_head_kept_elsewhere_shows_that_everything_was_forged(journal):
    seal = str(journal.head)
    meddle(journal, """UPDATE entries SET payload = '{"value":0}' WHERE number = 5""")
    forge(journal, 5)
    path = journal.place / "ledger.head"
    path.unlink()
    HeadFile.create(path, journal.head)
    with Journal.open(journal.place) as forged:
        assert found(forged) == []
        [(number, sentence)] = found(forged, seal)
    assert number == ENTRIES
    assert "is not the one that the seal kept elsewhere remembers" in sentence


def test_an_old_seal_still_fits_a_longer_ledger(journal):
    seal = journal.head
    with journal.turn() as turn:
        turn.append("answer", {"value": 10})
    assert found(journal, seal) == []


def test_a_seal_shows_an_older_copy_of_the_folder(journal):
    seal = Head(ENTRIES + 3, "0" * 64)
    [(number, sentence)] = found(journal, seal)
    assert number == ENTRIES + 1
    assert "but the seal kept elsewhere remembers entry 12" in sentence


def test_what_is_no_seal_is_refused(journal):
    with pytest.raises(sc.ParameterError, match="a number, a blank and 64 hex digits"):
        journal.verify("9 beef")


def test_a_changed_entry_is_not_given_back_for_its_key(journal):
    meddle(journal, """UPDATE entries SET payload = '{"value":0}' WHERE number = 5""")
    with pytest.raises(sc.LedgerError, match="Entry 5 of the journal was changed"):
        journal.find("k5")


def test_an_open_journal_notices_what_it_has_seen_changing(journal):
    with journal.turn():
        pass
    meddle(journal, "UPDATE entries SET hash = previous WHERE number = 9")
    refused = pytest.raises(sc.LedgerError, match="not the one that this program remembers")
    with refused, journal.turn():
        pass


def test_the_first_ten_findings_are_enough(tmp_path):
    with Journal.create(tmp_path / "db", {}) as journal:
        with journal.turn() as turn:
            for _ in range(30):
                turn.append("answer", {})
        meddle(journal, "UPDATE entries SET time = '' WHERE number > 5")
        assert [number for number, _ in found(journal)] == list(range(6, 16))
