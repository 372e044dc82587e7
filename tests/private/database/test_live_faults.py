"""What goes wrong around a live database: places, tables, bases, disks and Ctrl-C. Nothing that is
half made can be opened, and a charge is returned only where nothing was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.database.live.inspect import BASE, LiveInspection
from tests.support.database.live_table import OPTIONS, SCHEMA, table
from tests.support.database.small_database import database as paper_database

RANGE = "SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 9 AND sex = 'f'"


def create(folder: str | Path, source: Any = None, **options: Any) -> sc.LiveDatabase:
    found = table() if source is None else source
    return sc.LiveDatabase.create(folder, found, SCHEMA, **{**OPTIONS, **options})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sc.LiveDatabase]:
    with create(tmp_path / "db") as found:
        yield found


# --- places ---------------------------------------------------------------------------------------


def test_an_address_without_a_server_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Nothing is charged, and the sentence has no user or host."""
    owners = sc.Ledger.create(tmp_path / "owners", epsilon=1, delta=1e-9, neighbours="replace")
    address = "postgresql://somebody@somewhere/people/public.live"
    for attempt in (
        lambda: create(address, ledger=owners),
        lambda: sc.LiveDatabase.open(address, table()),
        lambda: LiveInspection(address),
    ):
        with pytest.raises(sc.LedgerError, match="the server cannot be reached") as caught:
            attempt()
        assert "some" not in str(caught.value)
    assert owners.charges == []


def test_what_is_no_live_database_is_refused(tmp_path: Path) -> None:
    with paper_database(tmp_path / "paper"):
        pass
    sc.Ledger.create(tmp_path / "owners", epsilon=1, neighbours="replace")
    for name, words in (("paper", r"open it by Database\.open"), ("owners", "an owner's ledger")):
        with pytest.raises(sc.LedgerError, match=words):
            sc.LiveDatabase.open(tmp_path / name, table())
        with pytest.raises(sc.LedgerError, match=words):
            LiveInspection(tmp_path / name)


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_stream_that_is_read_once_is_refused(tmp_path: Path, neighbours: str) -> None:
    """The base and the counts that are bought are about the same rows, in two passes."""
    owners = sc.Ledger.create(tmp_path / "owners", epsilon=1, delta=1e-9, neighbours=neighbours)
    given = table()
    stream = pa.RecordBatchReader.from_batches(given.schema, given.to_batches())
    with pytest.raises(sc.SourceError, match="can be read only once"):
        create(tmp_path / "db", stream, neighbours=neighbours, ledger=owners)
    assert not (tmp_path / "db").exists()
    assert [each.state for each in owners.charges] == ["returned"]


def test_a_table_with_more_rows_is_another_one(database: sc.LiveDatabase) -> None:
    """It was not changed while it was read."""
    with pytest.raises(sc.LedgerError, match="content of the table"):
        sc.LiveDatabase.open(database._journal.place, table(rows=10))


# --- the base -------------------------------------------------------------------------------------


def test_a_base_that_is_gone_is_one_sentence(database: sc.LiveDatabase) -> None:
    base = database._journal.place / BASE
    for lost in (base / "manifest.json", base):
        lost.rename(database._journal.place / f"lost-{lost.name}")
        with pytest.raises(sc.LedgerError, match="Restore it from a copy"):
            sc.LiveDatabase.open(database._journal.place, table())
        with pytest.raises(sc.LedgerError, match="Restore it from a copy"):
            LiveInspection(database._journal.place)


def test_the_base_of_another_database_is_refused(tmp_path: Path) -> None:
    """Both are of the same table with the same terms."""
    for name in ("one", "other"):
        create(tmp_path / name).close()
    (tmp_path / "one" / BASE).rename(tmp_path / "one" / "old")
    (tmp_path / "other" / BASE).rename(tmp_path / "one" / BASE)
    with pytest.raises(sc.LedgerError, match="not the one that"):
        sc.LiveDatabase.open(tmp_path / "one", table())


# --- numbers ------------------------------------------------------------------------------------


def test_any_number_says_how_accurate(database: sc.LiveDatabase) -> None:
    for place, within in enumerate((np.int64(20), np.float32(20), Fraction(20), "20", 20)):
        database.ask(RANGE, within=within, key=f"k{place}")
    stored = [entry.payload["within"] for entry in database._journal.entries(after=1)]
    assert stored == [20.0] * 5
    database.ask(RANGE, within=" 1.5 %", key="share")
    database.ask(RANGE, within="1.5%", key="share")
    assert len(database.history()) == 6
