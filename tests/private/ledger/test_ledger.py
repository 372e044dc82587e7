"""The owner's ledger: charged before a release exists, durable, and tellingly refusing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.private.database.inspect import DatabaseInspection
from tests.support import people

CHILD = "tests.support.database.publishing_child"
SCHEMA = people.schema()
TABLE = people.people(300, SCHEMA)


def histogram(epsilon: float, neighbours: str = "replace") -> sc.Histogram:
    return sc.Histogram(["age"], epsilon=epsilon, neighbours=neighbours)


def publish(ledger, mechanism=None, table=TABLE, schema=SCHEMA, **how) -> sc.Release:
    return sc.publish(table, schema, mechanism or histogram(0.1), ledger=ledger, **how)


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
    with pytest.raises(sc.LedgerError, match="does not exist"):
        publish(tmp_path / "nothing")
    assert ledger.seal == seal


def test_a_table_that_cannot_be_read_gets_its_charge_back(ledger: sc.Ledger) -> None:
    stray = TABLE.set_column(0, "age", pa.array([99] * TABLE.num_rows))
    with pytest.raises(sc.DomainError):
        publish(ledger, table=stray)
    assert [each.state for each in ledger.charges] == ["returned"]
    assert ledger.totals[None].losses == ()


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


@pytest.mark.parametrize(
    ("given", "words"),
    [
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
    ],
)
def test_terms_that_make_no_sense(given: dict, words: str, tmp_path: Path) -> None:
    with pytest.raises(sc.ParameterError, match=words):
        sc.Ledger.create(tmp_path / "none", **given)
    assert not (tmp_path / "none").exists()


def test_a_ledger_is_never_replaced(ledger: sc.Ledger) -> None:
    with pytest.raises(sc.LedgerError, match="exists already"):
        sc.Ledger.create(ledger.folder, neighbours="replace")


def test_a_database_is_charged_once_and_whole(ledger: sc.Ledger, tmp_path: Path) -> None:
    how = {"epsilon": 0.5, "noise": 40, "ledger": ledger}
    with sc.Database.create(tmp_path / "db", TABLE, SCHEMA, **how) as database:
        database.answer("SELECT COUNT(*) FROM t WHERE age < 5")
    assert ledger.totals[None].epsilon == Fraction(1, 2)
    with pytest.raises(sc.LedgerError, match="exists already"):
        sc.Database.create(tmp_path / "db", TABLE, SCHEMA, **how)
    assert [each.state for each in ledger.charges] == ["made", "returned"]
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


def test_an_owners_ledger_is_no_database(ledger: sc.Ledger) -> None:
    with pytest.raises(sc.LedgerError, match="owner's ledger of releases, no database"):
        sc.Database.open(ledger.folder, TABLE)
    with pytest.raises(sc.LedgerError, match="owner's ledger of releases, no database"):
        DatabaseInspection(ledger.folder)


def test_a_database_has_another_ledger(tmp_path: Path) -> None:
    sc.Database.create(tmp_path / "db", TABLE, SCHEMA, epsilon=0.5, noise=40).close()
    with pytest.raises(sc.LedgerError, match="not an owner's ledger"):
        sc.Ledger.open(tmp_path / "db")
