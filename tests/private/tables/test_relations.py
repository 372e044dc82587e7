"""Tables of PostgreSQL and SQLite: the same release as from a file, one snapshot, counts by the
server, and no word of the server or the address in a message.
"""

from __future__ import annotations

import gc
import hashlib
import sqlite3

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.partition import publish as partition_groups
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.private.tables import source as sources
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.open import open_source
from scumble.private.tables.relations import Relation
from scumble.private.tables.rows import Rows
from tests.support.people import people, schema

UNIT = PrivacyUnit("add_remove")
SECRET = "ada lovelace 4711"


@pytest.fixture
def address(postgresql):
    found = postgresql.database()
    postgresql.ingest(found, "people", people(400, schema()))
    return found


@pytest.fixture
def file(tmp_path):
    """The same people in SQLite."""
    path = tmp_path / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (age, sex TEXT, job TEXT COLLATE NOCASE)")
        rows = zip(*people(400, schema()).to_pydict().values(), strict=True)
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    connection.close()
    return path


def digest(release: sc.Release) -> list[str]:
    files = sorted(release.folder.iterdir())
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


MECHANISMS = [
    sc.Uniform(epsilon=1),
    sc.Partition(rho1=0.3, rho2=0.8),
    sc.Histogram(["age", "job"], epsilon=1, neighbours="add_remove"),
    sc.Sparse(["age", "job"], epsilon=1, neighbours="add_remove"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
def test_releases_are_those_of_the_same_rows(mechanism, address, file) -> None:
    table, domain = people(400, schema()), schema()
    expected = digest(sc.publish(table, domain, mechanism, options=sc.PublishOptions(seed=1)))
    named = digest(
        sc.publish(
            sc.Table(address, table="people"), domain, mechanism, options=sc.PublishOptions(seed=1)
        )
    )
    asked = "SELECT * FROM people -- all of them"
    queried = digest(
        sc.publish(
            sc.Table(address, query=asked),
            domain,
            mechanism,
            options=sc.PublishOptions(seed=1, jobs=2),
        )
    )
    sqlalchemy = address.replace("postgresql:", "postgresql+psycopg:")
    driver = digest(sc.publish(sqlalchemy, domain, mechanism, options=sc.PublishOptions(seed=1)))
    lite = digest(
        sc.publish(f"sqlite:///{file}", domain, mechanism, options=sc.PublishOptions(seed=1))
    )
    assert named == queried == driver == lite == expected


def test_all_passes_read_one_snapshot(postgresql, address, file) -> None:
    for source, change in (
        (Relation(address, "people"), lambda sql: postgresql.run(address, sql)),
        (Relation(f"sqlite:///{file}"), _in_sqlite(file)),
    ):
        before = pa.Table.from_batches(source.batches(["age", "job"]))
        change("UPDATE people SET age = 9 WHERE age = 0")
        change("INSERT INTO people (age, sex, job) VALUES (1, 'f', 'cook')")
        assert pa.Table.from_batches(source.batches(["age", "job"])).equals(before)
        [(_, weights)] = source.distinct(["sex"]) and [_together(source.distinct(["sex"]))]
        assert weights.sum() == 400
        del source
        gc.collect()


@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_that_are_updated_between_the_passes(jobs, postgresql, address, monkeypatch) -> None:
    """Partition counts, then deals values: both see the table as it was."""
    mechanism, shares = sc.Partition(rho1=0.3, rho2=0.8), partition_groups.Assignment.shares
    updated: list[str] = []

    def updating(*given):
        updated.append("UPDATE people SET job = 'cook', age = 9")
        postgresql.run(address, updated[-1], "DELETE FROM people WHERE sex = 'f'")
        return shares(*given)

    monkeypatch.setattr(sources, "UNIT_ROWS", 100)
    monkeypatch.setattr(partition_groups.Assignment, "shares", updating)
    found = sc.publish(
        sc.Table(address, table="people"),
        schema(),
        mechanism,
        options=sc.PublishOptions(seed=1, jobs=jobs),
    )
    assert updated, "there are two passes, and a change between them"
    monkeypatch.setattr(partition_groups.Assignment, "shares", shares)
    expected = digest(
        sc.publish(people(400, schema()), schema(), mechanism, options=sc.PublishOptions(seed=1))
    )
    assert digest(found) == expected
    now = sc.publish(
        sc.Table(address, table="people"), schema(), mechanism, options=sc.PublishOptions(seed=1)
    )
    assert now.evidence.rows < 400, "the next release sees the change"


def _together(found):
    parts = list(found)
    return [batch for batch, _ in parts], np.concatenate([weights for _, weights in parts])


def _in_sqlite(file):
    def run(sql: str) -> None:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(sql)
        connection.close()

    run("CREATE TABLE other (x)")  # the mode of the journal cannot be changed under a reader
    run("DROP TABLE other")
    return run


CASES = {
    "text": ("text", ["cook", "Cook", " cook", "cook ", "", None, "nurse", "x"]),
    "char": ("char(8)", ["cook", "nurse", None, "cook"]),
    "enum": ("job", ["cook", "nurse", None, "cook"]),
}


@pytest.mark.parametrize("outside", ["drop", "missing"])
@pytest.mark.parametrize("kind", CASES)
def test_counts_by_the_server(kind, outside, postgresql, monkeypatch) -> None:
    """They are the counts of the rows as this process reads them, and no row is fetched."""
    address = postgresql.database()
    type_, values = CASES[kind]
    literals = ["NULL" if each is None else f"'{each}'" for each in values]
    rows = ", ".join(f"({n % 3}, {literals[n % len(values)]})" for n in range(200))
    postgresql.run(
        address,
        "CREATE TYPE job AS ENUM ('cook', 'nurse')",
        f"CREATE TABLE t (age int, job {type_})",
        f"INSERT INTO t VALUES {rows}",
    )
    job = sc.Category(("cook", "nurse"))
    domain = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 2)),
            sc.Attribute("job", "sensitive", job, missing=outside == "missing"),
        ]
    )
    fetched = pa.Table.from_batches(Relation(address).batches(["age", "job"]))
    sets = [["age", "job"], ["job"], []]
    expected = RowCounter(Rows(fetched, domain, outside=outside)).counts(sets, UNIT)
    asked = RowCounter(Rows(Relation(address), domain, outside=outside))
    with monkeypatch.context() as patch:
        patch.setattr(Relation, "batches", None)
        found = asked.counts(sets, UNIT)
        occupied = asked.occupied(["age", "job"], UNIT)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    assert asked.counted == expected[2][0]
    cells = np.flatnonzero(expected[0])
    assert occupied.keys.tolist() == cells.tolist()
    assert occupied.counts.tolist() == expected[0][cells].tolist()


def test_values_outside_name_their_row(postgresql, address) -> None:
    postgresql.run(address, "INSERT INTO people VALUES (3, 'f', 'astronaut')")
    histogram = sc.Histogram(["job"], epsilon=1, neighbours="add_remove")
    with pytest.raises(sc.DomainError, match="row 401"):
        sc.publish(address, schema(), histogram)


def test_text_of_any_encoding(postgresql) -> None:
    address = postgresql.database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    postgresql.run(address, "CREATE TABLE people AS SELECT convert_from('\\xee', 'LATIN1') AS job")
    [batch] = open_source(address).batches(["job"])
    assert batch["job"].to_pylist() == ["î"]
    [(batch, _)] = open_source(address).distinct(["job"])
    assert batch["job"].to_pylist() == ["î"]


def test_numbers_that_look_alike_are_not_counted_by_the_server(postgresql) -> None:
    address = postgresql.database()
    postgresql.run(
        address,
        "CREATE TABLE t (n numeric, f float8, a int[], ts timestamp, u uuid)",
        "INSERT INTO t VALUES (1.0, 1, '{1}', now(), gen_random_uuid())",
        "INSERT INTO t VALUES (1.00, 2, '{}')",
    )
    source = Relation(address)
    assert [source.distinct([name]) is None for name in "n f a ts".split()] == [True] * 4
    [(batch, weights)] = source.distinct(["u"])
    assert sorted(map(len, map(str, batch.column("u").to_pylist()))) == [4, 36]
    assert weights.tolist() == [1, 1]
    read = pa.Table.from_batches(source.batches(["n", "f", "a", "ts"])).to_pydict()
    assert (read["n"], read["f"], read["a"]) == (["1.0", "1.00"], [1, 2], [[1], []])


def test_the_first_rows_of_a_person_are_those_of_the_primary_key(postgresql) -> None:
    address = postgresql.database()
    postgresql.run(
        address,
        'CREATE TABLE t ("row" int PRIMARY KEY, id int, age int)',
        "INSERT INTO t SELECT n, n % 3, n / 3 FROM generate_series(29, 0, -1) n",
    )
    domain = sc.Schema(
        [
            sc.Attribute("id", "identifier"),
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        ]
    )
    unit = PrivacyUnit("add_remove", rows=2, column="id")
    [found] = RowCounter(Rows(Relation(address), domain)).counts([["age"]], unit)
    assert found.tolist() == [3, 3, *[0] * 8]


def test_sqlite_reads_every_value_by_itself(tmp_path) -> None:
    """A column that begins with thousands of nulls, and has values of all types."""
    path = tmp_path / "mixed?.db"
    values = [None] * 3000 + [3, 2.5, "text", "", "3", b"\xff", 10**15]
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (v)")
        connection.executemany("INSERT INTO t VALUES (?)", [(each,) for each in values])
    connection.close()
    source = Relation(f"sqlite:///{str(path).replace('?', '%3F')}")
    read = pa.Table.from_batches(source.batches(["v"])).column("v").cast(pa.binary()).to_pylist()
    assert read == [b""] * 3000 + [b"3", b"2.5", b"text", b"", b"3", b"\xff", b"1000000000000000"]


def test_equal_numbers_of_sqlite_are_one_person(tmp_path) -> None:
    """Of an untyped column: 1 and 1.0 are equal to SQLite, 1.5 and 2^63 are equal to no other. The
    text '1' is the same person as well, as in every source; '1.0' and '01' are others.
    """
    path = tmp_path / "people.db"
    people = [1, 1.0, "1", " 1 ", 0, -0.0, 1.5, 2**53, 2.0**53, 2.0**63, 2**63 - 1, "1.0", "01"]
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id, age)")
        rows = [(each, number % 10) for number, each in enumerate(people)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        [(equal,)] = connection.execute(
            "SELECT COUNT(DISTINCT id) FROM t WHERE NOT typeof(id) = 'text'"
        )
    connection.close()
    source = Relation(f"sqlite:///{path}")
    names = pa.Table.from_batches(source.batches(["id"])).column("id").cast(pa.string()).to_pylist()
    large = names[people.index(2.0**63)]  # its digits depend on the version of SQLite
    numbers = {"0", "1", "1.5", str(2**53), str(2**63 - 1), large}
    assert set(names) == {*numbers, " 1 ", "1.0", "01"}
    assert equal == len(numbers)  # as SQLite counts them
    domain = sc.Schema(
        [
            sc.Attribute("id", "identifier"),
            sc.Attribute("age", "sensitive", sc.IntegerRange(0, 9)),
        ]
    )
    unit = PrivacyUnit("add_remove", rows=1, column="id")
    [found] = RowCounter(Rows(source, domain)).counts([["age"]], unit)
    first = {name.strip(): row for row, name in reversed(list(enumerate(names)))}
    assert (
        found.tolist() == np.bincount([row % 10 for row in first.values()], minlength=10).tolist()
    )
    assert found.sum() == len(numbers) + 2


REFUSED = {
    "postgresql://ada:lovelace4711@localhost/x": "password",
    "postgresql://localhost/x?password=lovelace4711": "password",
    "postgresql://ada@localhost:1/x": "cannot be reached",
    "mysql://ada:lovelace4711@localhost/x": "begins with postgresql://",
    "sqlite:///absent.db": "no file 'absent.db'",
}


def test_addresses_that_are_refused(subtests: pytest.Subtests) -> None:
    for address in REFUSED:
        with subtests.test(address=address):
            with pytest.raises(sc.SourceError, match=REFUSED[address]) as found:
                open_source(address)
            assert "lovelace" not in str(found.value)
            assert "ada" not in str(found.value)


def _read(address: str, query: str) -> None:
    source = open_source(address, query=query)
    list(source.batches(source.columns))


QUERIES = {
    f"SELECT '{SECRET}'::int AS x": "some value",
    f"SELECT '{SECRET}'::int AS x, age FROM people": "some value",
    f'SELECT * FROM "{SECRET}"': "no such table",
    f'SELECT "{SECRET}" FROM people': "column that does not exist",
    f"SELEC '{SECRET}'": "not valid SQL",
    "SELECT 1 AS a; DROP TABLE people": "not valid SQL",
    "SELECT setval('counter', 7)": "only read",
    "SELECT 1 / (age - age) AS x FROM people": "some value",
    f"SELECT tell('{SECRET}')": "gave an error",
}


@pytest.mark.parametrize("query", QUERIES)
def test_errors_of_the_server_are_not_quoted(query, postgresql, address, capfd) -> None:
    postgresql.run(
        address,
        "CREATE SEQUENCE counter",
        "CREATE FUNCTION tell(x text) RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE WARNING '%', x; RAISE EXCEPTION '%', x; END $$",
    )
    with pytest.raises(sc.SourceError, match=QUERIES[query]) as found:
        _read(address, query)
    error = found.value
    assert SECRET not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None
    assert SECRET not in "".join(capfd.readouterr())


def test_tables_are_chosen_as_in_duckdb(postgresql, address, file) -> None:
    with pytest.raises(sc.SourceError, match=r"no table 'nobody'\. Its tables: 'people'"):
        open_source(address, table="nobody")
    postgresql.run(address, "CREATE SCHEMA more", 'CREATE TABLE more."Odd ""one""" (age int)')
    with pytest.raises(sc.SourceError, match="several tables"):
        open_source(address)
    assert open_source(address, table="public.people").columns == ["age", "sex", "job"]
    assert open_source(address, table='more.Odd "one"').columns == ["age"]
    with pytest.raises(sc.SourceError, match="not both"):
        open_source(address, table="people", query="SELECT 1")
    with pytest.raises(sc.SourceError, match="Only a database"):
        open_source(str(file), query="SELECT 1")
