"""The journal in PostgreSQL: several writers, lost connections, tampering, and a sentence for each
failure, without the user or host of its address.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import scumble as sc
from scumble.model.relational import DatabaseConnection, read_target
from scumble.private.journal.entries import digest
from scumble.private.journal.journal import Journal
from tests.support.people import people, schema
from tests.support.postgres import LosesReply

CHILD = "tests.support.database.journal_child"
TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


@pytest.fixture
def address(postgresql):
    return postgresql.table("journal")


@pytest.fixture
def journal(address):
    with Journal.create(address, {"epsilon": "1"}) as journal:
        append(journal, *range(2, 6))
        yield journal


def append(journal: Journal, *values: int) -> None:
    with journal.turn() as turn:
        for value in values:
            turn.append("answer", {"value": value}, key=f"k{value}")


def psql(address: str, statement: str) -> list[tuple]:
    """What somebody with psql does; {} is the table of the journal."""
    target = read_target(address, sc.LedgerError)
    connection = DatabaseConnection(target.database)
    try:
        return connection.run(statement.replace("{}", target.relation()))
    finally:
        connection.close()


def test_processes_use_exactly_the_room_there_is(journal):
    """60 requests of 2 processes with 6 threads each; one of the processes commits in groups."""
    room = 4 + 17  # of the fixture, and new ones
    command = [sys.executable, "-m", CHILD, "crowd", journal.place, str(room), "6", "5"]
    children = [
        subprocess.Popen(
            [*command, "group"] if number % 2 else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    told = [child.communicate("go\n")[0].split() for child in children]
    assert sum(int(asked) for _, asked in told) == 60
    assert sum(int(answered) for answered, _ in told) == 17
    assert len(journal.entries(after=1)) == room
    assert journal.verify() == ()


# --- lost connections -----------------------------------------------------------------------------


def test_connections_that_were_ended_between_turns_are_made_anew(journal):
    psql(journal.place, TERMINATE)
    append(journal, 6)
    psql(journal.place, TERMINATE)
    with pytest.raises(sc.LedgerError, match="the connection was lost"):
        journal.entries()  # nothing is repeated by itself inside of a reading
    assert len(journal.entries(after=1)) == 5
    assert journal.verify() == ()


def test_a_connection_lost_within_a_turn_leaves_nothing(journal):
    """Not even what a caller writes who goes on after the failure."""

    def lose() -> None:
        with journal.turn() as turn:
            turn.append("answer", {"value": 6}, key="k6")
            psql(journal.place, TERMINATE)
            for value in (7, 8):
                with pytest.raises(sc.LedgerError, match="the connection was lost"):
                    turn.append("answer", {"value": value}, key=f"k{value}")

    with pytest.raises(sc.LedgerError, match="the connection was lost"):
        lose()
    with Journal.open(journal.place) as again:
        assert len(again.entries(after=1)) == 4
    append(journal, 6)
    with pytest.raises(sc.LedgerError, match="the connection was lost"):
        journal.entries()
    assert journal.verify() == ()


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_whose_reply_is_lost_is_looked_up(journal, monkeypatch, arrives):
    connection = type("Connection", (LosesReply,), {"arrives": arrives})
    monkeypatch.setattr("scumble.private.journal.postgres_store.DatabaseConnection", connection)
    with Journal.open(journal.place) as other:
        connection.armed = True
        if arrives:
            append(other, 6)
        else:
            with pytest.raises(sc.LedgerError, match=r"before the commit\. Nothing was written"):
                append(other, 6)
        assert len(other.entries(after=1)) == 4 + arrives
        append(other, 7)
    assert journal.verify() == ()


# --- tampering ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "number", "words"),
    [
        ("UPDATE {} SET payload = '{\"value\":9}' WHERE number = 3", 3, "was changed"),
        ("DELETE FROM {} WHERE number = 3", 3, "deleted"),
        ("DELETE FROM {} WHERE number > 3", 4, "cut off"),
    ],
)
def test_tampering_is_found_and_the_journal_is_not_used(journal, statement, number, words):
    psql(journal.place, statement)
    assert any(each.number == number and words in str(each) for each in journal.verify())
    with (
        Journal.open(journal.place) as again,
        pytest.raises(sc.LedgerError, match="tampered with"),
        again.turn(),
    ):
        pass


def test_an_older_dump_is_refused_by_a_seal(journal):
    seal = str(journal.head)
    head = psql(journal.place, "SELECT number, hash FROM {} WHERE number = 3")[0]
    psql(journal.place, "DELETE FROM {} WHERE number > 3")
    target = read_target(journal.place, sc.LedgerError)
    psql(
        journal.place,
        f"UPDATE {target.relation('_head')} SET number = {head[0]}, hash = '{head[1]}'",
    )
    with Journal.open(journal.place) as restored:
        assert restored.verify() == ()  # in itself it is a whole journal
        [found] = restored.verify(seal)
        assert "cut off" in str(found)


def test_entries_are_those_that_auditors_can_check_with_psql(journal):
    columns = "number, kind, key, analyst, time, payload, previous"
    for row in psql(journal.place, f"SELECT {columns}, hash FROM {{}} ORDER BY number"):
        assert digest(*row[:-1]) == row[-1]


# --- one sentence for each failure ----------------------------------------------------------------


NO_PLACES = [
    (lambda text: text.replace("/public.", "/nowhere."), "There is no journal in"),
    (lambda text: text.replace("journal", "unheard"), "There is no journal in"),
    (lambda text: text.replace("test_", "untest_"), "there is no such database"),
    (lambda text: text.replace("host=", "host=/nowhere"), "the server cannot be reached"),
    (lambda text: text.replace("/public.", "."), "written postgresql://user@host/database"),
    (lambda text: text.replace(".journal", '.x"; DROP TABLE y'), "written postgresql://"),
    (lambda text: text.replace("postgres@", "postgres:secret@"), "has a password in it"),
    (lambda text: text.replace("postgresql:", "mysql:"), "written postgresql://"),
]


def test_a_place_that_is_none_is_one_sentence(address, subtests):
    for change, words in NO_PLACES:
        with subtests.test(words=words):
            with pytest.raises(sc.LedgerError, match=words) as caught:
                Journal.open(change(address))
            assert "@" not in str(caught.value).replace("user@host", "")
            assert "scumble-postgres" not in str(caught.value)
            assert "secret" not in str(caught.value)


def test_creating_at_a_place_that_is_taken_or_not_there_is_refused(journal):
    with pytest.raises(
        sc.OutputExistsError, match=r"The table public\.journal_\d+ .* already exists"
    ):
        Journal.create(journal.place, {})
    with pytest.raises(sc.LedgerError, match="there is no such schema"):
        Journal.create(journal.place.replace("/public.", "/nowhere."), {})
    assert journal.verify() == ()


def test_a_journal_of_a_later_format_is_refused(journal):
    target = read_target(journal.place, sc.LedgerError)
    psql(journal.place, f"UPDATE {target.relation('_head')} SET format = 2")
    with pytest.raises(sc.LedgerError, match="has format 2; this version of scumble reads"):
        Journal.open(journal.place)


# --- what is kept in it ---------------------------------------------------------------------------


def test_a_database_and_a_ledger_live_there(postgresql):
    table, domain = people(400, schema()), schema()
    place, owners = postgresql.table("database"), postgresql.table("ledger")
    ledger = sc.Ledger.create(owners, epsilon=2, neighbours="replace")
    question = "SELECT COUNT(*) FROM t WHERE age < 4"
    with sc.Database.create(place, table, domain, epsilon=1, noise=20, ledger=owners) as database:
        first = database.answer(question, key="one", options=sc.AskOptions(analyst="ann"))
        seal = database.seal
    with sc.Database.open(place, table) as again:
        assert (
            again.answer(question, key="one", options=sc.AskOptions(analyst="ann")).value
            == first.value
        )
        assert again.status().answered == 1
        assert again.verify(seal) == []
    with pytest.raises(sc.LedgerError, match="differs in the content of the table"):
        sc.Database.open(place, table.slice(1))
    with pytest.raises(sc.PromiseError):
        sc.publish(table, domain, sc.Histogram(["age"], epsilon=1.5, neighbours="replace"),
                   ledger=owners)  # fmt: skip
    assert [each.state for each in sc.Ledger.open(owners).charges] == ["made"]
    assert ledger.verify() == []
