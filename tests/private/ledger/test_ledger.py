"""The owner's ledger: charged before a release exists, durable, and tellingly refusing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

import scumble as sc
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.relational import Address, DatabaseError
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.journal import sqlite_store
from tests.support import people, publishing
from tests.support.postgres import LosesReply, Server

CHILD = "tests.support.database.publishing_child"
SCHEMA = people.schema()
TABLE = people.people(300, SCHEMA)


def histogram(epsilon: float, neighbours: str = "replace") -> sc.Histogram:
    return sc.Histogram(["age"], epsilon=epsilon, neighbours=neighbours)


def publish(ledger, mechanism=None, table=TABLE, schema=SCHEMA, **how) -> sc.Release:
    return publishing.publish(table, schema, mechanism or histogram(0.1), ledger=ledger, **how)


def run(*arguments: object) -> list[list[str]]:
    command = [sys.executable, "-m", CHILD, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture
def ledger(tmp_path: Path) -> sc.Ledger:
    return sc.Ledger.create(tmp_path / "ledger", epsilon=1, neighbours="replace", name="our people")


def test_two_releases_of_one_table_add_up(ledger: sc.Ledger) -> None:
    first = publish(ledger)
    warning, charged = first.remarks
    assert "off by more than itself" in warning
    assert charged == "The ledger was charged ε = 0.1."
    publish(str(ledger.folder), histogram(0.2, "add_remove"))
    again = sc.Ledger.open(ledger.folder)
    assert again.totals[None].epsilon == Fraction(1, 2)
    assert [each.state for each in again.charges] == ["made", "made"]
    assert [each.bill.loss for each in again.charges] == [
        PrivacyLoss(Fraction(1, 10)),
        PrivacyLoss(Fraction(2, 5)),
    ]
    assert repr(again) == (
        "Ledger of our people, protecting what the rows of one person say; limit: ε = 1\n"
        "  2 releases cost together ε = 0.5."
    )
    assert again.verify() == []


def test_ten_tenths_are_one(ledger: sc.Ledger) -> None:
    for _ in range(10):
        publish(ledger)
    assert ledger.statement().left() == "nothing"
    with pytest.raises(sc.PromiseError, match="nothing is left of the limit ε = 1"):
        publish(ledger, histogram(1e-9))


def test_refusals_charge_nothing(ledger: sc.Ledger) -> None:
    publish(ledger, histogram(0.6))
    seal = ledger.seal
    refused = [
        (histogram(0.5), "ε = 0.5, but only ε = 0.4 is left of the limit ε = 1 of the ledger"),
        (histogram(0.21, "add_remove"), "ε = 0.42 .2 times the promised loss"),
        (sc.Uniform(epsilon=0.1), "nothing follows about replacing"),
        (sc.Anatomy(l=2), "l-diversity, which is no loss that adds up"),
    ]
    for mechanism, words in refused:
        with pytest.raises(sc.PromiseError, match=f"{words}.* Nothing was charged"):
            publish(ledger, mechanism)
    assert ledger.seal == seal


def test_what_fails_before_it_reads_charges_nothing(ledger: sc.Ledger, tmp_path: Path) -> None:
    seal = ledger.seal
    with pytest.raises(sc.SourceError):
        publish(ledger, table=tmp_path / "missing.csv")
    with pytest.raises(sc.SchemaError):
        publish(ledger, sc.Histogram(["height"], epsilon=0.1, neighbours="replace"))
    with pytest.raises(sc.ParameterError):
        publish(ledger, outside="nowhere")
    with pytest.raises(sc.ParameterError, match="'ledger' parameter of publish"):
        publish(7)
    with pytest.raises(sc.LedgerError, match="There is no folder"):
        publish(tmp_path / "nothing")
    assert ledger.seal == seal


def test_a_table_that_cannot_be_read_gets_its_charge_back(ledger: sc.Ledger) -> None:
    stray = TABLE.set_column(0, "age", pa.array([99] * TABLE.num_rows))
    with pytest.raises(sc.DomainError):
        publish(ledger, table=stray)
    assert [each.state for each in ledger.charges] == ["returned"]
    assert ledger.totals[None].losses == ()


def test_a_table_that_is_gone_once_noise_was_drawn_stays_charged(tmp_path: Path) -> None:
    """Which columns Synthesis reads next depends on its noise, and so may a failure."""
    path = tmp_path / "people.csv"
    csv.write_csv(TABLE, path)

    def remove(rows: int) -> None:
        if rows == TABLE.num_rows:
            path.unlink(missing_ok=True)

    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="replace", delta=1e-5)
    mechanism = sc.Synthesis(["age", "job"], epsilon=1, delta=1e-6, neighbours="replace")
    with pytest.raises(sc.SourceError):
        sc.publish(
            path, SCHEMA, mechanism, ledger=ledger, options=sc.PublishOptions(progress=remove)
        )
    assert [each.state for each in ledger.charges] == ["begun"]


def test_any_other_failure_stays_charged(
    ledger: sc.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(sc.Histogram, "measure", fail)
    with pytest.raises(MemoryError):
        publish(ledger)
    assert [each.state for each in ledger.charges] == ["begun"]
    assert ledger.totals[None].epsilon == Fraction(1, 10)


def test_without_a_limit_all_is_listed(tmp_path: Path) -> None:
    free = sc.Ledger.create(tmp_path / "free", neighbours="values", sensitive=["job"])
    publish(free, sc.Uniform(epsilon=2))
    found = publish(free, sc.Anatomy(l=2))
    assert found.remarks[-1].startswith("The ledger does not count this release. It promises l-div")
    publish(free, histogram(3))
    assert str(free.statement()) == (
        "2 releases cost together ε = 5. 1 more is not counted: what it tells comes on top."
    )
    assert free.statement().left() == "no limit"
    assert [each.counted for each in free.charges] == [True, False, True]


def test_levels_are_one_release(tmp_path: Path) -> None:
    free = sc.Ledger.create(tmp_path / "free", neighbours="values", sensitive=["job"])
    views = sc.Aroma(k=4).publish_levels(TABLE, SCHEMA, levels=[2, 4], ledger=free)
    assert len(views) == 2
    assert [each.state for each in free.charges] == ["made"]


def test_killed_at_any_step(ledger: sc.Ledger) -> None:
    """Charged from the commit on, and made only when all is done; never half of it."""
    fates = {
        "1-begun": None,
        "1-full": None,
        "1-committed": "begun",
        "1-done": "begun",
        "before-reading": "begun",
        "measured": "begun",
        "2-full": "begun",
        "2-committed": "made",
        "published": "made",
    }
    assert run("kill", ledger.folder, *fates) == [[step, "-9"] for step in fates]
    assert [each.state for each in ledger.charges] == [fate for fate in fates.values() if fate]
    assert ledger.verify() == []
    assert ledger.totals[None].epsilon == Fraction(7, 10)
    publish(ledger, histogram(0.3))
    assert ledger.statement().left() == "nothing"


def test_room_for_one_of_several_processes(ledger: sc.Ledger) -> None:
    fates = sorted(int(code) for [code] in run("crowd", ledger.folder, 4))
    assert fates == [0, 7, 7, 7]
    assert ledger.totals[None].epsilon == Fraction(3, 5)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET payload = replace(payload, '1/10', '1/99') WHERE number = 2",
        "UPDATE entries SET kind = 'returned' WHERE number = 3",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries WHERE number >= 4",
    ],
)
def test_who_makes_room_is_found(ledger: sc.Ledger, change: str) -> None:
    publish(ledger)
    publish(ledger)
    with sqlite3.connect(ledger.folder / "ledger.sqlite") as connection:
        connection.execute(change)
    connection.close()
    assert ledger.verify() != []
    with pytest.raises(sc.LedgerError, match="tampered"):
        ledger.statement()
    with pytest.raises(sc.LedgerError, match="tampered"):
        publish(ledger)


def test_a_seal_kept_elsewhere_finds_an_older_copy(ledger: sc.Ledger) -> None:
    old = {path: path.read_bytes() for path in ledger.folder.iterdir()}
    publish(ledger)
    seal = ledger.seal
    for path in ledger.folder.iterdir():
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)
    assert ledger.verify() == []
    assert "cut off" in ledger.verify(seal)[0]


def test_nothing_of_the_table_is_written(ledger: sc.Ledger, tmp_path: Path) -> None:
    """Neither a value nor the number of rows, nor where the table is."""
    schema = people.schema(jobs=("ordinary", "zyxwvut"))
    place = tmp_path / "whereitlies.csv"
    rows = [f"{number % 10},f,{'zyxwvut' if number == 7 else 'ordinary'}" for number in range(7919)]
    place.write_text("\n".join(["age,sex,job", *rows]))
    publish(ledger, table=place, schema=schema)
    with pytest.raises(sc.DomainError):
        publish(ledger, table=place, schema=people.schema(ages=3))
    written = b"".join(path.read_bytes() for path in ledger.folder.iterdir())
    assert b"histogram" in written
    assert not [word for word in (b"zyxwvut", b"7919", b"whereitlies") if word in written]


NONSENSE = [
    ({"neighbours": "others"}, "'neighbours' parameter of Ledger must be 'values', 'replace'"),
    ({"neighbours": "values"}, "a list of sensitive columns with neighbours='values'"),
    ({"neighbours": "replace", "sensitive": ["job"]}, "and only then"),
    ({"neighbours": "replace", "epsilon": 0}, "'epsilon' parameter of Ledger"),
    ({"neighbours": "replace", "delta": 1}, "'delta' parameter of Ledger"),
    ({"neighbours": "replace", "contribution": 0}, "'contribution' parameter of Ledger"),
    ({"neighbours": "replace", "pure": 0.5}, "together with a delta"),
    (
        {"neighbours": "replace", "epsilon": 1, "delta": 0.1, "pure": 1},
        "'pure' parameter of Ledger must be below epsilon",
    ),
    ({"neighbours": "replace", "name": ""}, "name"),
]


def test_terms_that_make_no_sense(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for given, words in NONSENSE:
        with subtests.test(given=given):
            with pytest.raises(sc.ParameterError, match=words):
                sc.Ledger.create(tmp_path / "none", **given)
            assert not (tmp_path / "none").exists()


def test_a_ledger_is_never_replaced(ledger: sc.Ledger) -> None:
    with pytest.raises(sc.OutputExistsError, match="already exists"):
        sc.Ledger.create(ledger.folder, neighbours="replace")


def test_a_database_is_charged_once_and_whole(ledger: sc.Ledger, tmp_path: Path) -> None:
    how = {"epsilon": 0.5, "noise": 40, "ledger": ledger}
    with sc.Database.create(tmp_path / "db", TABLE, SCHEMA, **how) as database:
        database.answer("SELECT COUNT(*) FROM t WHERE age < 5")
    assert ledger.totals[None].epsilon == Fraction(1, 2)
    with pytest.raises(sc.OutputExistsError, match="already exists"):
        sc.Database.create(tmp_path / "db", TABLE, SCHEMA, **how)
    assert [each.state for each in ledger.charges] == ["made"]
    publish(ledger, histogram(0.1))
    with pytest.raises(sc.PromiseError, match="is left of the limit ε = 1"):
        sc.Database.create(tmp_path / "other", TABLE, SCHEMA, **how)
    assert not (tmp_path / "other").exists()


def test_a_database_that_can_be_opened_stays_paid_for(
    ledger: sc.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens after its folder is there."""

    def begun(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(sc.Database, "__init__", begun)
        with pytest.raises(MemoryError):
            sc.Database.create(tmp_path / "db", TABLE, SCHEMA, epsilon=0.5, noise=40, ledger=ledger)
    with sc.Database.open(tmp_path / "db", TABLE) as database:
        database.answer("SELECT COUNT(*) FROM t WHERE age < 5")
    assert ledger.totals[None].epsilon == Fraction(1, 2)


def create(ledger: sc.Ledger, place: Path | str, table: pa.Table = TABLE) -> sc.Database:
    return sc.Database.create(place, table, SCHEMA, epsilon=0.5, noise=40, ledger=ledger)


def test_a_database_that_was_not_made_gets_its_charge_back(
    ledger: sc.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray = TABLE.set_column(0, "age", pa.array([99] * TABLE.num_rows))
    with pytest.raises(sc.DomainError):
        create(ledger, tmp_path / "db", stray)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scumble.private.journal.sqlite_store._create_file", full)
    with pytest.raises(sc.LedgerError, match="No space left on device"):
        create(ledger, tmp_path / "db")
    assert [each.state for each in ledger.charges] == ["returned", "returned"]


def failing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk fail to sync a folder, after some of these calls."""
    sync, calls = sqlite_store._sync_folder, [0]

    def fail(folder: Path) -> None:
        calls[0] += 1
        if calls[0] > after:
            raise OSError(5, "Input/output error")
        sync(folder)

    monkeypatch.setattr(sqlite_store, "_sync_folder", fail)


def test_a_database_stays_paid_for_whose_folder_the_disk_does_not_confirm(
    ledger: sc.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder has its name when its parent cannot be synced: it can be opened and asked."""
    with monkeypatch.context() as patched:
        failing(patched, after=1)
        with pytest.raises(sc.LedgerError, match="was created, but the disk did not confirm it"):
            create(ledger, tmp_path / "db")
    with sc.Database.open(tmp_path / "db", TABLE) as database:
        database.answer("SELECT COUNT(*) FROM t WHERE age < 5")
    assert [each.state for each in ledger.charges] == ["begun"]
    with monkeypatch.context() as patched:
        failing(patched, after=0)  # before it has its name
        with pytest.raises(sc.LedgerError, match="Input/output error"):
            create(ledger, tmp_path / "other")
    assert [each.state for each in ledger.charges] == ["begun", "returned"]


def test_what_nobody_can_look_at_stays_paid_for(
    ledger: sc.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = sqlite_store.is_free_folder, []

    def fail(folder: Path) -> bool:
        looks.append(folder)
        if len(looks) < 3:  # before the charge, and before the folder is filled
            return look(folder)
        raise sc.LedgerError("The disk is gone.")

    failing(monkeypatch, after=0)
    monkeypatch.setattr(sqlite_store, "is_free_folder", fail)
    with pytest.raises(sc.LedgerError, match="Input/output error"):
        create(ledger, tmp_path / "db")
    assert len(looks) == 3
    assert [each.state for each in ledger.charges] == ["begun"]


@pytest.mark.parametrize(
    ("arrives", "reached", "state"),
    [(True, True, "made"), (False, True, "returned"), (True, False, "begun")],
)
def test_a_lost_reply_to_the_commit_that_creates_a_database(
    ledger: sc.Ledger,
    postgresql: Server,
    monkeypatch: pytest.MonkeyPatch,
    arrives: bool,
    reached: bool,
    state: str,
) -> None:
    """The server has the COMMIT or not, and can be reached afterwards or not."""

    class Connection(LosesReply):
        def __init__(self, address: Address) -> None:
            if lost and not reached:
                raise DatabaseError("the server cannot be reached", "08001")
            super().__init__(address)

        def run(self, sql: str, *parameters: object) -> list[tuple[object, ...]]:
            try:
                return super().run(sql, *parameters)
            except DatabaseError:
                lost.append(sql)
                raise

    lost: list[str] = []
    Connection.arrives, Connection.armed = arrives, True
    place = postgresql.table("database")
    with monkeypatch.context() as patched:
        patched.setattr("scumble.private.journal.postgres_store.DatabaseConnection", Connection)
        if state == "made":
            create(ledger, place).close()
        else:
            with pytest.raises(sc.LedgerError, match="the connection was lost"):
                create(ledger, place)
    assert lost == ["COMMIT"]
    assert [each.state for each in ledger.charges] == [state]
    if state == "returned":
        create(ledger, place).close()
    with sc.Database.open(place, TABLE) as database:
        database.answer("SELECT COUNT(*) FROM t WHERE age < 5")


def test_an_owners_ledger_is_no_database(ledger: sc.Ledger) -> None:
    with pytest.raises(sc.LedgerError, match="owner's ledger of releases, no database"):
        sc.Database.open(ledger.folder, TABLE)
    with pytest.raises(sc.LedgerError, match="owner's ledger of releases, no database"):
        DatabaseInspection(ledger.folder)


def test_a_database_has_another_ledger(tmp_path: Path) -> None:
    sc.Database.create(tmp_path / "db", TABLE, SCHEMA, epsilon=0.5, noise=40).close()
    with pytest.raises(sc.LedgerError, match="not an owner's ledger"):
        sc.Ledger.open(tmp_path / "db")
