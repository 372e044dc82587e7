"""Releases in PostgreSQL: all or nothing, the same answers, and changes that are noticed."""

from __future__ import annotations

import gc
import json

import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.relational import Postgres, read_target
from scumble.public.archive.archive import manifest_to_json
from tests.support.people import people, schema
from tests.support.postgres import LosesReply
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
    "marginals": sc.Marginals(["age", "job"], epsilon=1, neighbours="replace", ways=1),
}


def psql(address: str, statement: str) -> list[tuple]:
    """What somebody with psql does; {} is the table of the release."""
    target = read_target(address, sc.ReleaseError)
    connection = Postgres(target.database)
    try:
        return connection.run(statement.replace("{}", target.relation()))
    finally:
        connection.close()


@pytest.fixture
def address(postgresql):
    return postgresql.table("view")


@pytest.fixture
def saved(address):
    table = people(300, schema())
    sc.publish(table, schema(), sc.Uniform(epsilon=1), to=address)
    return address


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_release_is_the_one_that_was_saved(address, name):
    domain = schema()
    release = sc.publish(people(300, domain), domain, MECHANISMS[name], seed=1)
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


def test_plain_sql_reads_the_rows(saved):
    assert psql(saved, "SELECT count(*), count(DISTINCT job) > 1 FROM {}") == [(300, True)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET age = age + 1 WHERE _position = 7",
        "DELETE FROM {} WHERE _position = 7",
        "UPDATE {} SET _position = _position + 1000 WHERE _position = 7",
    ],
)
def test_a_changed_table_is_noticed(saved, statement):
    psql(saved, statement)
    with pytest.raises(sc.ReleaseError, match="is damaged or was changed"):
        sc.open(saved)


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 1}', "[]", '{"format": 1e999999999}'])
def test_a_damaged_manifest_is_one_sentence(saved, text):
    target = read_target(saved, sc.ReleaseError)
    quoted = text.replace("{}", "{ }")
    psql(
        saved,
        f"UPDATE {target.relation('_manifest')} SET content = '{quoted}', "
        f"digest = encode(sha256('{quoted}'), 'hex')",
    )
    with pytest.raises(sc.ReleaseError, match=r"damaged|another format"):
        sc.open(saved)


def test_what_is_there_is_replaced_only_by_force_and_only_a_release(saved, postgresql):
    view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
    with pytest.raises(sc.ReleaseError, match="There is a release in table"):
        view.save(saved)
    assert sc.open(saved).evidence.rows == 300
    view.save(saved, force=True)
    assert sc.open(saved).evidence.rows == 200
    other = postgresql.table("mine")
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
    connection = type("Connection", (LosesReply,), {"arrives": arrives, "armed": True})
    monkeypatch.setattr("scumble.public.archive.relations.Postgres", connection)
    if arrives:
        view.save(saved, force=True)
    else:
        with pytest.raises(sc.ReleaseError, match="the connection was lost"):
            view.save(saved, force=True)
    assert sc.open(saved).evidence.rows == (200 if arrives else 300)


def test_an_impossible_place_is_refused_before_the_ledger_is_charged(saved, tmp_path, postgresql):
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
    table, domain = people(200, schema()), schema()
    elsewhere = postgresql.table("x").replace("/public.", "/nowhere.")
    for to, words in (
        (saved, "There is a release in table"),
        (elsewhere, "There is no schema nowhere in"),
        (elsewhere.replace("host=", "host=/nowhere"), "the server cannot be reached"),
        ("postgresql://h/db", "is written postgresql://user@host/database/schema.table"),
    ):
        with pytest.raises(sc.ReleaseError, match=words) as caught:
            sc.publish(table, domain, sc.Uniform(epsilon=1), to=to, ledger=ledger)
        assert "scumble-postgres" not in str(caught.value)
    with pytest.raises(sc.ReleaseError, match="NOT PRIVATE"):
        sc.publish(table, domain, sc.Uniform(epsilon=1), to=elsewhere, seed=1, ledger=ledger)
    assert ledger.charges == []


def test_the_shell_writes_reads_and_audits_it(address, tmp_path):
    domain = schema()
    domain.save(tmp_path / "people.toml")
    pq.write_table(people(300, domain), tmp_path / "people.parquet")
    source = (tmp_path / "people.parquet", "-s", tmp_path / "people.toml", "-m", "uniform")
    published = run("publish", *source, "-e", "1", "--to", address)
    assert (published.code, "Published" in published.out) == (0, True), published.err
    assert "uniform" in run("show", address).out
    asked = run("query", address, "SELECT COUNT(*) FROM t", "--json")
    assert json.loads(asked.out)[0]["value"] == 300
    audited = run("audit", address)
    assert audited.code == 0, audited.err
    assert "@" not in audited.out
    nowhere = run("publish", *source, "-e", "1")
    assert (nowhere.code, "--output FOLDER or --to ADDRESS" in nowhere.err) == (2, True)


@pytest.mark.parametrize(
    "suffix", ['" UNION ALL SELECT * FROM OTHER AS "x', '_manifest", OTHER, "x', "_other"]
)
def test_a_manifest_names_no_other_table(saved, suffix):
    """Somebody who may write the manifest cannot have another table read or dropped."""
    target = read_target(saved, sc.ReleaseError)
    manifest, other = target.relation("_manifest"), target.relation("_other")
    psql(saved, f"CREATE TABLE {other} (kept int)")
    [(content,)] = psql(saved, f"SELECT content FROM {manifest}")
    data = json.loads(content)
    for each in data["tables"].values():
        each["suffix"] = suffix.replace("OTHER", other)
    text = json.dumps(data).replace("'", "''").replace("{}", "{ }")
    psql(
        saved,
        f"UPDATE {manifest} SET content = '{text}', "
        f"digest = encode(sha256(convert_to('{text}', 'UTF8')), 'hex')",
    )
    view = sc.publish(people(200, schema()), schema(), sc.Uniform(epsilon=1))
    for use in (lambda: view.save(saved, force=True), lambda: sc.open(saved)):
        with pytest.raises(sc.ReleaseError, match="is damaged or was changed"):
            use()
    assert psql(saved, f"SELECT kept FROM {other}") == []
