"""What a database cannot hold is refused before the owner's ledger is charged."""

from __future__ import annotations

import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.relational import read_place
from scumble.private.owner import check_address
from scumble.public.archive.relations import check_can_write_linked
from tests.support.people import people, schema
from tests.support.postgres import psql

SYSTEMS = ("postgresql", "sqlite")


@pytest.fixture(params=SYSTEMS)
def place(request, tmp_path):
    """The address of a table that is not there yet."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql").table("view")
    return f"sqlite:///{tmp_path}/kept.db/view"


def refusals(system: str) -> list[tuple[sc.Schema, object, str]]:
    """Tables that a database cannot hold: schemas, mechanisms, and what is said of them."""
    uniform, subset = sc.Uniform(epsilon=1), sc.Subset(epsilon=1)
    many = sc.Category([f"job {number}" for number in range(2_100)])
    larger = sc.Category([f"job {number}" for number in range(1_200)])
    long = "a" * 63
    found = [
        (named("_position"), uniform, "cannot be called _position"),
        (named("age", many), subset, "more columns than the database allows"),
        (named("age"), sc.Aroma(k=4, identifier="person"), "saved to a folder only"),
    ]
    if system == "sqlite":
        return [*found, (named("_POSITION"), uniform, "differ only in upper and lower case")]
    return [
        *found,
        (named("ctid"), uniform, "a name that the database keeps for itself"),
        (named(f"{long}1", more=f"{long}2"), uniform, "two columns have one name"),
        (named("age", larger), subset, "larger rows than the database allows"),
    ]


def named(name: str, jobs: sc.Category | None = None, more: str = "more") -> sc.Schema:
    ages = sc.IntegerRange(0, 9)
    return sc.Schema(
        [
            sc.Attribute("person", "identifier"),
            *(sc.Attribute(each, "quasi", ages) for each in (name, more)),
            sc.Attribute("job", "sensitive", jobs or sc.Category(["cook", "nurse"])),
        ],
        sc.Unit(),
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_columns_that_a_database_cannot_hold_are_refused_before_the_charge(
    system, tmp_path, request
):
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
    for number, (domain, mechanism, words) in enumerate(refusals(system)):
        if system == "sqlite":
            to = f"sqlite:///{tmp_path}/kept{number}.db/view"
        else:
            to = request.getfixturevalue("postgresql").table("view")
        # No table is opened before: there is none of that name.
        with pytest.raises(sc.ReleaseError, match=words):
            sc.publish("no such file.csv", domain, mechanism, to=to, ledger=ledger)
        if "folder only" not in words:
            published = sc.publish(
                rows_of(domain), domain, mechanism, options=sc.PublishOptions(seed=1)
            )
            with pytest.raises(sc.ReleaseError, match=words):
                published.save(to, insecure=True)
    assert ledger.charges == []
    assert not list(tmp_path.glob("*.db"))


def rows_of(domain: sc.Schema) -> pa.Table:
    columns = {name: [0, 1] * 20 for name in domain.names[:-1]}
    return pa.table({**columns, "job": domain["job"].labels().slice(0, 2).to_pylist() * 20})


def test_tables_in_the_way_are_found_before_the_charge(place, tmp_path):
    """A release by Anatomy has two tables: somebody has one of the name of the second."""
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
    table, domain = people(300, schema()), schema()
    target = read_place(place, sc.ReleaseError, create=True)
    psql(place, f"CREATE TABLE {target.relation('_values')} (kept int)")
    for force in (False, True):
        with pytest.raises(sc.ReleaseError, match="there is another table of that name"):
            check_address(place, sc.Anatomy(l=2), domain, force=force)
    with pytest.raises(sc.ReleaseError, match="there is another table of that name"):
        sc.publish(table, domain, sc.Anatomy(l=2), to=place, ledger=ledger)
    assert ledger.charges == []
    sc.publish(table, domain, sc.Uniform(epsilon=1), to=place)
    check_address(place, sc.Uniform(epsilon=1), domain, force=True)
    assert sc.open(place).evidence.rows == 300, "what is there stays as it is"
    assert psql(place, f"SELECT count(*) FROM {target.relation('_values')}") == [(0,)]


def test_who_may_not_create_tables_is_told_before_the_charge(postgresql, tmp_path):
    database = postgresql.database()
    postgresql.run(
        database,
        "CREATE ROLE reader LOGIN",
        "CREATE SCHEMA closed",
        "GRANT USAGE ON SCHEMA closed TO reader",
    )
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
    place, _, options = database.replace("postgres@", "reader@").partition("?")
    try:
        with pytest.raises(sc.ReleaseError, match="permission is denied"):
            check_can_write_linked(f"{place}/closed.view?{options}", ["people", "visits"])
        with pytest.raises(sc.ReleaseError, match="permission is denied"):
            sc.publish(
                people(200, schema()),
                schema(),
                sc.Uniform(epsilon=1),
                to=f"{place}/closed.view?{options}",
                ledger=ledger,
            )
    finally:
        postgresql.run(database, "DROP SCHEMA closed", "DROP ROLE reader")
    assert ledger.charges == []


def test_values_that_the_encoding_of_a_database_lacks(postgresql, tmp_path):
    place = postgresql.database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    place = place.replace("?", "/public.view?")
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="values", sensitive=["job"])
    for jobs, lacks in ((["chef", "maître"], False), (["chef", "料理人"], True)):
        domain = named("age", sc.Category(jobs))
        if lacks:
            with pytest.raises(sc.ReleaseError, match="the encoding of the database lacks"):
                sc.publish("none.csv", domain, sc.Uniform(epsilon=1), to=place, ledger=ledger)
        else:
            check_address(place, sc.Uniform(epsilon=1), domain)
    assert ledger.charges == []
