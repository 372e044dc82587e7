"""The ledger of the database: promises, turns, keys, and one sentence for each failure."""

from __future__ import annotations

import re
import threading

import pytest

import scumble as sc
from scumble.private.journal.journal import Journal

PROMISE = {"epsilon": "3/10", "noise": "2000", "schema": "ab" * 32, "data": "cd" * 32}


@pytest.fixture
def journal(place):
    with Journal.create(place, PROMISE) as journal:
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


def test_a_ledger_begins_with_its_promise(journal):
    [first] = journal.entries()
    assert (first.number, first.kind, first.payload) == (1, "promise", PROMISE)
    assert journal.promise == PROMISE
    with Journal.open(journal.place, PROMISE) as again:
        assert again.entries() == [first]


OTHERS = [
    ({"epsilon": "1/2"}, "in epsilon"),
    ({"epsilon": "1/2", "data": "ef" * 32}, "in the content of the table, epsilon"),
    ({"tracker": "exact"}, "in tracker"),
    ({"noise": 2000}, "in noise"),
]


def test_another_promise_is_refused_by_the_names_of_its_parts(journal, subtests):
    for change, named in OTHERS:
        with subtests.test(change=change):
            with pytest.raises(sc.LedgerError) as caught:
                Journal.open(journal.place, {**PROMISE, **change})
            message = str(caught.value)
            assert f"it differs {named}. Open" in message
            for value in (*PROMISE.values(), *change.values()):
                assert str(value) not in message.replace(str(journal.place), "")


def test_a_part_that_is_missing_is_another_promise(journal):
    with pytest.raises(sc.LedgerError, match="differs in noise"):
        journal.expect({name: part for name, part in PROMISE.items() if name != "noise"})


def test_opening_without_a_promise_tells_it(journal):
    with Journal.open(journal.place) as again:
        assert again.promise == PROMISE


def test_entries_keep_their_bytes(journal):
    payload = {"z": 10**40, "a": [1, None, True, "é\n\ud800"], "m": {"b": -1, "a": 0.1}}
    with journal.turn() as turn:
        given = turn.append("answer", payload, key="k1", analyst="Ann")
    found = journal.find("k1")
    assert found == given
    salt, text = found.text[:44], found.text[44:]
    assert re.fullmatch(r'\{"_salt":"[0-9a-f]{32}",', salt)
    assert text.startswith('"a":[1,null,true,"\\u00e9')
    assert found.payload == payload
    assert found.time.endswith("Z")
    assert len(found.time) == len("2026-01-01T00:00:00.000000Z")
    assert (found.analyst, found.number, found.previous) == ("Ann", 2, journal.entries()[0].hash)
    assert journal.find("k2") is None


BAD = [
    {"payload": {"x": float("nan")}},
    {"payload": {"x": {1, 2}}},
    {"key": ""},
    {"key": "a\nb"},
    {"key": "k" * 201},
    {"key": 7},
    {"analyst": "\0"},
    {"kind": ""},
    {"kind": "promise"},
]


def test_bad_content_is_refused_and_leaves_nothing(journal, subtests):
    for bad in BAD:
        with subtests.test(bad=bad):
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
    with Journal.open(journal.place) as other:
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

    with Journal.open(journal.place, step=fail) as failing:
        with pytest.raises(OSError, match="Input"):
            append(failing, 1)
        with failing.turn() as turn:
            assert turn.fresh
            assert values(turn.new_entries()) == [1]
    assert journal.verify() == ()


def test_a_ledger_in_use_is_refused_after_a_while(journal):
    refused = pytest.raises(sc.LedgerError, match=r"in use by others for more than 0\.05 seconds")
    with Journal.open(journal.place, timeout=0.05) as other, journal.turn(), refused:
        append(other, 1)
    append(journal, 1)


def test_a_thread_of_the_same_journal_waits_too(place):
    caught = []

    def work():
        try:
            append(journal, 1)
        except sc.LedgerError as error:
            caught.append(str(error))

    with Journal.create(place, PROMISE, timeout=0.05) as journal:
        with journal.turn():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert "in use by others" in caught[0]


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
