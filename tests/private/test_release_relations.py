"""Releases in PostgreSQL and SQLite: all or nothing, the same answers, changes that are noticed."""

from __future__ import annotations

import gc
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.relational import DatabaseConnection, read_place
from scumble.public.archive import relations
from scumble.public.archive.relations import (
    ReleaseConnection,
    address_of_table,
    is_release,
    read_links,
    save_linked_relation,
)
from scumble.public.archive.row_tables import write_rows
from scumble.public.manifest import manifest_to_json
from tests.support.people import people, schema
from tests.support.postgres import LosesReply, psql
from tests.support.terminal import run

QUESTION = "SELECT job, COUNT(*) FROM t WHERE age < 3 GROUP BY job"
MECHANISMS = {
    "uniform": sc.Uniform(epsilon=1),
    "alphabeta": sc.AlphaBeta(alpha=0.5, beta=0.1, duplicates="collapse"),
    "anatomy": sc.Anatomy(l=2),
    "sparse": sc.Sparse(["age", "job"], epsilon=1, neighbours="add_remove"),
    "workload": sc.Workload(
        ["age", "job"],
        queries=["SELECT COUNT(*) FROM t WHERE age < 3"],
        epsilon=1,
        neighbours="add_remove",
    ),
    "privtree": sc.PrivTree(["age"], epsilon=1, neighbours="add_remove"),
    "mwem": sc.Mwem(
        ["age", "job"],
        queries=["SELECT COUNT(*) FROM t WHERE age < 3"],
        rounds=2,
        epsilon=1,
        neighbours="replace",
    ),
    "marginals": sc.Marginals(["age", "job"], epsilon=1, neighbours="replace", ways=1),
}


SYSTEMS = ("postgresql", "sqlite")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(params=SYSTEMS)
def new_table(request, tmp_path):
    """A function that returns the address of a table that is not there yet."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql").table
    return lambda name: f"sqlite:///{tmp_path}/kept.db/{name}"


@pytest.fixture
def address(new_table):
    return new_table("view")


@pytest.fixture
def saved(address):
    table = people(300, schema())
    sc.publish(table, schema(), sc.Uniform(epsilon=1), to=address)
    return address


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_release_is_the_one_that_was_saved(name, address):
    domain = schema()
    release = sc.publish(
        people(300, domain), domain, MECHANISMS[name], options=sc.PublishOptions(seed=1)
    )
    assert release.save(address, insecure=True) == address
    found = sc.open(address)
    assert manifest_to_json(found.manifest, {}) == manifest_to_json(release.manifest, {})
    for file in release.evidence.files:
        expected = pq.read_table(release.folder / file)
        assert pq.read_table(found.folder / file).equals(expected, check_metadata=False)


def test_answers_are_the_same_and_the_copy_is_removed_with_the_release(saved):
    found = sc.open(saved)
    again = sc.open(saved)
    assert found.answer(QUESTION).to_arrow().equals(again.answer(QUESTION).to_arrow())
    folder = found.folder
    del found
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError("disk")])
def test_what_stops_the_rows_is_not_an_error_of_the_database(address, monkeypatch, error):
    """The driver takes an exception in a batch, also that of Ctrl-C, for one of its own."""

    def stopped(*_):
        raise error

    release = sc.publish(people(300, schema()), schema(), sc.Uniform(epsilon=1))
    with monkeypatch.context() as patched:
        patched.setattr(relations.ContentDigest, "add", stopped)
        with pytest.raises(type(error)) as raised:
            release.save(address)
    assert raised.value is error
    release.save(address)  # nothing was left behind


def test_plain_sql_reads_the_rows(saved):
    assert psql(saved, "SELECT count(*), count(DISTINCT job) > 1 FROM {}") == [(300, True)]


def test_a_changed_table_is_noticed(saved, subtests):
    for statement in [
        "UPDATE {} SET age = age + 1 WHERE _position = 7",
        "DELETE FROM {} WHERE _position = 7",
        "UPDATE {} SET _position = _position + 1000 WHERE _position = 7",
    ]:
        with subtests.test(statement=statement):
            psql(saved, statement)
            with pytest.raises(sc.ReleaseError, match="is damaged or was changed"):
                sc.open(saved)


def test_a_damaged_manifest_is_one_sentence(saved, subtests):
    for text in ["{", "{}", '{"format": 1}', "[]", '{"format": 1e999999999}']:
        with subtests.test(text=text):
            target = read_place(saved, sc.ReleaseError)
            quoted = text.replace("{}", "{ }")
            psql(
                saved,
                f"UPDATE {target.relation('_manifest')} SET content = '{quoted}', "
                f"digest = '{digest(quoted)}'",
            )
            with pytest.raises(sc.ReleaseError, match=r"damaged|another format"):
                sc.open(saved)


def test_what_is_there_is_replaced_only_by_force_and_only_a_release(saved, new_table):
    view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
    with pytest.raises(sc.ReleaseError, match=r"The release in table .* already exists"):
        view.save(saved)
    assert sc.open(saved).evidence.rows == 300
    view.save(saved, force=True)
    assert sc.open(saved).evidence.rows == 200
    other = new_table("mine")
    psql(other, "CREATE TABLE {} (x int)")
    with pytest.raises(sc.ReleaseError, match="which is no release, and is not replaced"):
        view.save(other, force=True)
    assert psql(other, "SELECT count(*) FROM {}") == [(0,)]


def test_a_failure_leaves_nothing_and_the_old_release_stays(saved, monkeypatch):
    view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))

    def fail(*_: object) -> None:
        raise OSError("the cable was pulled")

    monkeypatch.setattr("scumble.public.archive.relations._sha256", fail)
    with pytest.raises(OSError, match="cable"):
        view.save(saved, force=True)
    monkeypatch.undo()
    assert sc.open(saved).evidence.rows == 300


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_whose_reply_is_lost_is_looked_up(saved, monkeypatch, arrives):
    """Before anybody is told that nothing was published."""
    view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
    lose_reply(monkeypatch, arrives)
    if arrives:
        view.save(saved, force=True)
    else:
        with pytest.raises(sc.ReleaseError, match="the connection was lost"):
            view.save(saved, force=True)
    assert sc.open(saved).evidence.rows == (200 if arrives else 300)


def lose_reply(monkeypatch, arrives: bool) -> None:
    connection = type("Connection", (LosesReply,), {"arrives": arrives, "armed": True})
    monkeypatch.setattr("scumble.public.archive.relations.DatabaseConnection", connection)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_is_looked_up_for_rows_as_well(address, monkeypatch, arrives):
    write_rows(people(200, schema()), address)
    lose_reply(monkeypatch, arrives)
    if arrives:
        write_rows(people(100, schema()), address, force=True)
    else:
        with pytest.raises(sc.ReleaseError, match=r"Rows cannot be written .* was lost"):
            write_rows(people(100, schema()), address, force=True)
    assert psql(address, "SELECT count(*) FROM {}") == [(100 if arrives else 200,)]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_is_looked_up_for_several_tables(address, monkeypatch, arrives):
    names = ("people", "visits")
    releases = {
        name: sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1)) for name in names
    }
    links = {"tables": list(names)}
    lose_reply(monkeypatch, arrives)
    if arrives:
        save_linked_relation(releases, links, address, insecure=False)
    else:
        with pytest.raises(sc.ReleaseError, match="the connection was lost"):
            save_linked_relation(releases, links, address, insecure=False)
    assert read_links(address) == (links if arrives else None)
    for name in names:
        assert is_release(address_of_table(address, name)) == arrives


def test_rows_keep_their_values_and_replace_only_rows(new_table):
    place, other = new_table("drawn"), new_table("mine")
    rows = pa.table(
        {
            "text": pa.array([None, "it's", ""] * 700),
            "list": pa.array([[1, 2], [], None] * 700, pa.list_(pa.int32())),
            "number": pa.array([1.5, None, -1e300] * 700),
            "whole": pa.array([2**62, -1, None] * 700),
        }
    )
    write_rows(rows, place)
    with pytest.raises(sc.ReleaseError, match="already"):
        write_rows(rows, place)
    write_rows(rows, place, force=True)
    found = psql(place, "SELECT count(*), count(text), sum(number), max(whole) FROM {}")
    assert found == [(2100, 1400, pytest.approx(-700e300), 2**62)]
    psql(other, "CREATE TABLE {} (x int)")
    with pytest.raises(sc.ReleaseError, match="which has no rows of a release"):
        write_rows(rows, other, force=True)


def test_values_of_all_types_come_back(address):
    """Also where a column begins with more missing values than the driver looks at."""
    empty = 3000
    columns = {
        "flag": pa.array([None] * empty + [True, False]),
        "day": pa.array([None] * empty + [0, -1], pa.date32()),
        "share": pa.array([None] * empty + [-0.0, float("inf")]),
        "small": pa.array([None] * empty + [-3, 3], pa.int16()),
        "text": pa.array([None] * empty + ["", "é"]),
        "list": pa.array([None] * empty + [[], [1, 2]], pa.list_(pa.field("element", pa.int32()))),
    }
    path = Path(tempfile.mkdtemp()) / "table.parquet"
    pq.write_table(pa.table(columns), path)
    with ReleaseConnection(read_place(address, sc.ReleaseError, create=True)) as connection:
        connection.begin()
        described = connection.copy_from(path, "")
        connection.copy_to(path.with_name("again.parquet"), described)
    assert (
        pq.read_table(path.with_name("again.parquet")).to_pydict() == pa.table(columns).to_pydict()
    )
    shutil.rmtree(path.parent)


class TestSQLite:
    def test_an_address_without_a_table(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for address in ("sqlite:///view.db", f"sqlite:///{tmp_path}/other.db"):
            sc.publish(people(300, schema()), schema(), sc.Uniform(epsilon=1), to=address)
            assert sc.open(address).evidence.rows == 300
            assert sc.open(f"{address}/release").evidence.rows == 300
        with sqlite3.connect("view.db") as plain:
            assert plain.execute("SELECT count(*) FROM release").fetchone() == (300,)
        plain.close()

    def test_an_impossible_place_is_refused_before_the_ledger_is_charged(self, tmp_path):
        ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
        (tmp_path / "text.db").write_text("not a database " * 100)
        for place, words in (
            ("nowhere/view.db", "names no file in a folder that exists"),
            ("", "names no file in a folder that exists"),
            ("text.db", "it is no database file"),
            ("view.db/a;b", "names no file in a folder that exists"),
            ("view.db/sqlite_a", "has no name that begins with sqlite_"),
        ):
            with pytest.raises(sc.ReleaseError, match=words):
                sc.publish(
                    people(200, schema()),
                    schema(),
                    sc.Uniform(epsilon=1),
                    to=f"sqlite:///{tmp_path}/{place}",
                    ledger=ledger,
                )
        assert ledger.charges == []
        assert not (tmp_path / "view.db").exists()

    def test_looking_for_a_release_makes_no_file(self, tmp_path):
        address = f"sqlite:///{tmp_path}/view.db"
        with pytest.raises(sc.ReleaseError, match="There is no release in table release"):
            sc.open(address)
        assert not is_release(address)
        assert list(tmp_path.iterdir()) == []

    def test_kill_9_leaves_nothing_and_the_old_release_stays(self, tmp_path):
        """The process is killed at a number of moments of the transaction."""
        address = f"sqlite:///{tmp_path}/view.db"
        sc.publish(people(300, schema()), schema(), sc.Uniform(epsilon=1), to=address)
        view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
        fork = multiprocessing.get_context("fork")
        for step in range(1, 40):
            child = fork.Process(target=_killed_at, args=(view, address, step))
            child.start()
            child.join()
            assert child.exitcode in (0, -signal.SIGKILL)
            assert sc.open(address).evidence.rows == (200 if child.exitcode == 0 else 300)
            if child.exitcode == 0:
                break
        assert child.exitcode == 0
        assert step > 5

    def test_writers_and_readers_wait_for_each_other(self, tmp_path):
        address = f"sqlite:///{tmp_path}/view.db"
        sc.publish(people(300, schema()), schema(), sc.Uniform(epsilon=1), to=address)
        view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
        for use in (
            lambda: sc.open(address).evidence.rows == 300,
            lambda: is_release(address),
            lambda: view.save(address, force=True) == address,
        ):
            with ThreadPoolExecutor() as pool, _locked(tmp_path / "view.db"):
                waiting = pool.submit(use)
                assert not wait([waiting], timeout=0.3).done
            assert waiting.result()
        assert sc.open(address).evidence.rows == 200

    def test_a_first_write_that_fails_leaves_no_file(self, tmp_path):
        address = f"sqlite:///{tmp_path}/view.db"
        for values, words in (
            ({"a": [float("nan")]}, "no number, which SQLite does not keep"),
            ({"a": [1], "A": [2]}, "differ only in upper and lower case"),
        ):
            with pytest.raises(sc.ReleaseError, match=words):
                write_rows(pa.table(values), address)
            assert list(tmp_path.iterdir()) == []
        write_rows(pa.table({"a": [1]}), address)
        with pytest.raises(sc.ReleaseError, match="no number"):
            write_rows(pa.table({"a": [float("nan")]}), address, force=True)
        assert psql(address, "SELECT a FROM {}") == [(1,)]

    def test_a_file_that_was_removed_is_made_again(self, tmp_path):
        """As by another process that made it and failed."""
        target = read_place(f"sqlite:///{tmp_path}/view.db", sc.ReleaseError, create=True)
        with ReleaseConnection(target) as connection:
            (tmp_path / "view.db").unlink()
            connection.begin()
            connection.write_json("", {"a": 1})
            connection.commit()
        with ReleaseConnection(target) as connection:
            assert connection.read_json("") == {"a": 1}

    def test_the_file_that_is_read_is_written(self, tmp_path):
        """The source is closed before the release is saved: its snapshot locks the file."""
        file, domain = tmp_path / "clinic.db", schema()
        write_rows(people(300, domain), f"sqlite:///{file}/people")
        domain.save(tmp_path / "people.toml")
        source = f"sqlite:///{file}"
        sc.publish(
            sc.Table(source, table="people"), domain, sc.Uniform(epsilon=1), to=f"{source}/view"
        )
        words = ("--table", "people", "-s", tmp_path / "people.toml", "--epsilon", "1")
        run("publish", "uniform", source, *words, "--to", f"{source}/shell")
        for name in ("view", "shell"):
            assert sc.open(f"{source}/{name}").evidence.rows == 300

    def test_memory_is_no_place(self):
        with pytest.raises(sc.ReleaseError, match="kept in a file, not in memory"):
            read_place("sqlite:///:memory:", sc.ReleaseError)

    def test_a_folder_without_permission_is_refused_before(self, tmp_path, monkeypatch):
        """SQLite writes its journal there."""
        address = f"sqlite:///{tmp_path}/view.db"
        write_rows(pa.table({"a": [1]}), address)
        monkeypatch.setattr(os, "access", lambda place, _: Path(place) != tmp_path)
        with pytest.raises(sc.ReleaseError, match="or its folder, cannot be written"):
            relations.check_can_write(f"{address}/other")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let another process hold a lock: locks are per process."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN EXCLUSIVE'); print(flush=True); sys.stdin.read(); c.execute('ROLLBACK')"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield


def _killed_at(view, address: str, step: int) -> None:
    """Save a release in a process that ends at a statement."""
    left = [step]

    class Ends(DatabaseConnection):
        def _with_cursor(self, use):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return super()._with_cursor(use)

    relations.DatabaseConnection = Ends
    view.save(address, force=True)
    os._exit(0)


def test_an_impossible_place_is_refused_before_the_ledger_is_charged(saved, tmp_path, postgresql):
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
    table, domain = people(200, schema()), schema()
    elsewhere = postgresql.table("x").replace("/public.", "/nowhere.")
    for to, words in (
        (saved, "The release in table .* already exists"),
        (elsewhere, "There is no schema nowhere in"),
        (elsewhere.replace("host=", "host=/nowhere"), "the server cannot be reached"),
        ("postgresql://h/db", "is written postgresql://user@host/database/schema.table"),
    ):
        with pytest.raises(sc.ReleaseError, match=words) as caught:
            sc.publish(table, domain, sc.Uniform(epsilon=1), to=to, ledger=ledger)
        assert "scumble-postgres" not in str(caught.value)
    with pytest.raises(sc.ReleaseError, match="NOT PRIVATE"):
        sc.publish(
            table,
            domain,
            sc.Uniform(epsilon=1),
            to=elsewhere,
            options=sc.PublishOptions(seed=1),
            ledger=ledger,
        )
    assert ledger.charges == []


def test_the_shell_writes_reads_and_audits_it(address, tmp_path):
    domain = schema()
    domain.save(tmp_path / "people.toml")
    pq.write_table(people(300, domain), tmp_path / "people.parquet")
    source = ("uniform", tmp_path / "people.parquet", "-s", tmp_path / "people.toml")
    published = run("publish", *source, "-e", "1", "--to", address)
    assert (published.code, "Published" in published.out) == (0, True), published.err
    assert "uniform" in run("show", address).out
    asked = run("ask", address, "SELECT COUNT(*) FROM t", "--json")
    assert json.loads(asked.out)[0]["value"] == 300
    audited = run("audit", address)
    assert audited.code == 0, audited.err
    assert "@" not in audited.out
    missing = address.replace("view", "nothing")
    for command in ("show", "audit"):
        assert "There is no " in run(command, missing).err
    nowhere = run("publish", *source, "-e", "1")
    assert (nowhere.code, "--output FOLDER or --to ADDRESS" in nowhere.err) == (2, True)


@pytest.mark.parametrize(
    "suffix", ['" UNION ALL SELECT * FROM OTHER AS "x', '_manifest", OTHER, "x', "_other"]
)
def test_a_manifest_names_no_other_table(saved, suffix):
    """Somebody who may write the manifest cannot have another table read or dropped."""
    target = read_place(saved, sc.ReleaseError)
    manifest, other = target.relation("_manifest"), target.relation("_other")
    psql(saved, f"CREATE TABLE {other} (kept int)")
    [(content,)] = psql(saved, f"SELECT content FROM {manifest}")
    data = json.loads(content)
    for each in data["tables"].values():
        each["suffix"] = suffix.replace("OTHER", other)
    plain = json.dumps(data).replace("{}", "{ }")
    text = plain.replace("'", "''")
    psql(
        saved,
        f"UPDATE {manifest} SET content = '{text}', digest = '{digest(plain)}'",
    )
    view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
    for use in (lambda: view.save(saved, force=True), lambda: sc.open(saved)):
        with pytest.raises(sc.ReleaseError, match="is damaged or was changed"):
            use()
    assert psql(saved, f"SELECT kept FROM {other}") == []
