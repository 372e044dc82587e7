"""Data sets that are kept in PostgreSQL: two servers answer from one promise."""

from __future__ import annotations

from itertools import count

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.demo.census import census
from scumble.model.relational import DatabaseConnection, DatabaseError, read_target
from scumble.private.database.live.inspect import LiveInspection
from scumble.private.journal.journal import is_free
from scumble.server.catalogue import AskedQuestion, open_dataset
from scumble.server.config import load_settings
from tests.support.servers import ASKED, COUNT


def test_two_servers_share_a_database_and_a_release(postgresql, tmp_path):
    table, schema = census(500)
    source = tmp_path / "people.parquet"
    pq.write_table(table, source)
    answers, rows = postgresql.table("answers"), postgresql.table("rows")
    terms = {"epsilon": 1, "noise": 20, "attributes": ASKED}
    sc.Database.create(answers, source, schema, **terms).close()
    sc.publish(source, schema, sc.Uniform(epsilon=2), to=rows)
    (tmp_path / "server.toml").write_text(
        '[server]\nfolder = "server"\n'
        f'[datasets.people]\ndatabase = "{answers}"\nsource = "people.parquet"\n'
        f'[datasets.rows]\nrelease = "{rows}"\n'
    )
    live, published = load_settings(tmp_path / "server.toml").datasets
    one, other = open_dataset(live), open_dataset(live)
    try:
        first = one.answer(AskedQuestion(COUNT, "Ada"))
        again = other.answer(AskedQuestion(COUNT, "Bob"))
        assert (first.charged, again.charged) == (1, 0)
        assert first.estimate.value == again.estimate.value
        assert other.verify(None) == []
    finally:
        one.close()
        other.close()
    served = open_dataset(published)
    assert served.answer(AskedQuestion("SELECT COUNT(*) FROM t", "Ada")).estimate.value == 500
    served.close()


def test_two_servers_share_a_live_database(postgresql, tmp_path):
    """The base and the journal are tables: what one server buys is free at the other."""
    table, schema = census(500)
    source = tmp_path / "people.parquet"
    pq.write_table(table, source)
    place = postgresql.table("live")
    terms = {"epsilon": 1, "delta": 1e-9, "neighbours": "replace", "attributes": ASKED}
    ledger = sc.Ledger.create(tmp_path / "owner", epsilon=1, delta=1e-9, neighbours="replace")
    sc.LiveDatabase.create(place, source, schema, **terms, ledger=ledger).close()
    assert [each.state for each in ledger.charges] == ["made"]
    (tmp_path / "server.toml").write_text(
        '[server]\nfolder = "server"\n'
        f'[datasets.people]\ndatabase = "{place}"\nsource = "people.parquet"\n'
    )
    [settings] = load_settings(tmp_path / "server.toml").datasets
    one, other = open_dataset(settings), open_dataset(settings)
    try:
        wide = one.answer(AskedQuestion(COUNT, "Ada"))
        bought = one.answer(AskedQuestion(COUNT, "Ada", within=0.8 * wide.half_width))
        again = other.answer(AskedQuestion(COUNT, "Bob", within=0.8 * wide.half_width))
        assert (bought.status, again.status) == ("answered", "known")
        assert bought.estimate.value == again.estimate.value
        assert other.verify(None) == []
    finally:
        one.close()
        other.close()
    with LiveInspection(place) as reading:
        assert reading.status().purchases == 1
        assert reading.verify() == []


def test_a_live_database_is_made_whole_or_not_at_all(postgresql, tmp_path, monkeypatch):
    """A failure at each statement that creates the tables leaves none of them, and no charge."""
    table, schema = census(200)
    terms = {"epsilon": 0.5, "delta": 1e-9, "neighbours": "replace", "attributes": ASKED}
    ledger = sc.Ledger.create(tmp_path / "owner", epsilon=9, delta=1e-6, neighbours="replace")
    run, failures = DatabaseConnection.run, 0
    for number in count(1):
        place, left = postgresql.table(f"live{number}"), [number]

        def failing(own, sql, *parameters, left=left):
            if sql.strip().startswith(("CREATE TABLE", "INSERT INTO", "COMMIT")):
                left[0] -= 1
                if left[0] == 0:
                    raise DatabaseError("the disk is full")
            return run(own, sql, *parameters)

        monkeypatch.setattr(DatabaseConnection, "run", failing)
        try:
            sc.LiveDatabase.create(place, table, schema, **terms, ledger=ledger).close()
        except sc.LedgerError:
            failures += 1
            monkeypatch.setattr(DatabaseConnection, "run", run)
            assert is_free(place)
            assert ledger.charges[-1].state == "returned"
        else:
            assert not is_free(place)
            break
    assert failures >= 9  # four tables, the entry, the head, the secret, and two files
    assert ledger.charges[-1].state == "made"


def test_a_base_that_is_damaged_in_postgresql_is_refused(postgresql):
    table, schema = census(200)
    terms = {"epsilon": 1, "delta": 1e-9, "neighbours": "replace", "attributes": ASKED}
    place = postgresql.table("damaged")
    sc.LiveDatabase.create(place, table, schema, **terms).close()
    target = read_target(place, sc.LedgerError)
    connection = DatabaseConnection(target.database)
    files = target.relation("_files")
    connection.run(f"UPDATE {files} SET content = content || 'x' WHERE name LIKE '%parquet'")
    with pytest.raises(sc.ReleaseError, match="damaged"):
        sc.LiveDatabase.open(place, table)
    connection.run(f"DELETE FROM {files}")
    connection.close()
    with pytest.raises(sc.LedgerError, match="Restore it"):
        sc.LiveDatabase.open(place, table)
