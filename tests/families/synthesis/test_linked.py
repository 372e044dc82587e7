"""Several tables about the same people: joins, budgets, synthetic foreign keys."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.errors import (
    DomainError,
    ParameterError,
    PromiseError,
    QueryError,
    ReleaseError,
    SchemaError,
    SourceError,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.private.publish import publish
from scumble.public.archive.load import load, load_linked
from scumble.public.synthesis.linked import _turns, match_cells

PEOPLE = sc.Schema(
    (
        Attribute("id", "identifier"),
        Attribute("age", "quasi", IntegerRange(0, 3)),
        Attribute("sex", "quasi", Category(("f", "m"))),
    )
)
VISITS = sc.Schema(
    (
        Attribute("person", "identifier"),
        Attribute("ward", "sensitive", Category(("eye", "heart"))),
        Attribute("days", "quasi", IntegerRange(0, 4)),
    )
)


def _tables(number=3000):
    generator = np.random.default_rng(1)
    age = generator.integers(0, 4, number)
    people = pa.table({"id": np.arange(number) + 7, "age": age, "sex": np.where(age > 1, "f", "m")})
    owner = np.repeat(np.arange(number), np.minimum(generator.poisson(1 + age / 2), 5))
    heart = generator.random(len(owner)) < 0.1 + 0.25 * age[owner]
    visits = pa.table(
        {
            "person": owner + 7,
            "ward": np.where(heart, "heart", "eye"),
            "days": generator.integers(0, 3, len(owner)) + 2 * heart,
        }
    )
    return people, visits


def _published(
    seed=1,
    *,
    visits=VISITS,
    tables=None,
    epsilon=5,
    children=("ward", "days", "age"),
    how=None,
    **changed,
):
    given = {"epsilon": epsilon, "delta": 1e-6, "neighbours": "add_remove", "contribution": 3}
    rows_of_people, rows_of_visits = tables or _tables()
    return sc.publish_linked(
        {"people": rows_of_people, "visits": rows_of_visits},
        {"people": PEOPLE, "visits": visits},
        sc.Synthesis(["age", "sex"], **given),
        children=None if children is None else {"visits": list(children)},
        options=sc.PublishOptions(seed=seed, **how or {}),
        **{"keys": {"people": "id", "visits": "person"}, **changed},
    )


def test_foreign_keys_join_and_rows_depend_on_their_person():
    release = _published()
    rows = release.rows(2000, seed=3)
    people, visits = rows["people"], rows["visits"]
    assert people.column_names == ["id", "age", "sex"]
    assert visits.column_names == ["person", "ward", "days"]
    assert set(visits["person"].to_pylist()) <= set(people["id"].to_pylist())
    assert np.bincount(visits["person"].to_numpy()).max() <= 3
    assert rows["visits"].equals(release.rows(2000, seed=3)["visits"])
    age = people["age"].to_numpy()[visits["person"].to_numpy()]
    heart = np.array(visits["ward"].to_pylist()) == "heart"
    shares = [heart[age == value].mean() for value in range(4)]
    # The truth is 0.1, 0.35, 0.6 and 0.85; the noise of ε = 5 moves a share by about 0.02.
    assert np.abs(np.array(shares) - [0.1, 0.35, 0.6, 0.85]).max() < 0.12
    each = [
        np.bincount(age, minlength=4)[value] / (people["age"].to_numpy() == value).sum()
        for value in range(4)
    ]
    assert each == sorted(each)


def test_each_table_answers_with_its_error_and_joins_are_a_model():
    release = _published()
    people, _visits = _tables()
    count = release.answer("SELECT COUNT(*) FROM people WHERE age = 1")
    low, high = count.interval(0.9999)
    assert low <= sum(value == 1 for value in people["age"].to_pylist()) <= high
    hearts = release.answer("SELECT COUNT(*) FROM visits WHERE ward = 'heart'")
    assert np.isfinite(hearts.stderr)
    joined = release.answer(
        "SELECT sex, COUNT(*) FROM people JOIN visits ON people.id = visits.person "
        "WHERE ward = 'heart' GROUP BY sex ORDER BY sex"
    )
    assert [key for key, _ in joined] == [("f",), ("m",)]
    assert all(each.interval() == (-np.inf, np.inf) for _, each in joined)
    assert "no interval" in repr(joined)
    one = release.answer("SELECT AVG(days) FROM people JOIN visits ON id = person WHERE age = 3")
    assert one.method.startswith("model")
    assert one.alias == ""
    named = "SELECT sex, COUNT(*) AS n FROM people JOIN visits ON id = person GROUP BY sex"
    assert release.answer(named).header(0.95)[:2] == ["sex", "n"]
    assert release.answer(named.replace("sex, ", "").split(" GROUP")[0]).alias == "n"
    for wrong in (
        "SELECT COUNT(*) FROM doctors",
        "DROP TABLE people",
        "SELECT * FROM people JOIN visits ON id = person; SELECT 1",
        "SELECT COUNT(*) FROM people JOIN read_csv('/etc/passwd') ON true",
        "SELECT ward FROM people JOIN visits ON id = person",
        "not sql at all (",
    ):
        with pytest.raises(QueryError):
            release.answer(wrong)


def test_the_budgets_add_up_to_the_promise():
    release = _published(epsilon=1)
    whole = sc.Synthesis(["age"], epsilon=1, delta=1e-6, neighbours="add_remove").promise.rho
    rhos = [Fraction(each.guarantees[0].parameters["rho"]) for each in release.tables.values()]
    assert sum(rhos) <= whole * (1 + Fraction(1, 10**9))
    assert float(rhos[0]) == pytest.approx(float(whole) / 2, rel=1e-6)
    assert [each.manifest.parameters["contribution"] for each in release.tables.values()] == [1, 3]
    assert release["visits"].manifest.parameters["person"] == "person"
    [promise] = release.guarantees
    assert promise.parameters["epsilon"] == 1
    assert "all tables together" in promise.limits[0]


def test_the_promise_of_all_tables_says_what_was_read_from_the_data():
    read = replace(VISITS["ward"], from_data=True)
    visits = replace(VISITS, attributes=(VISITS["person"], read, VISITS["days"]))
    [promise] = _published(visits=visits).guarantees
    assert promise.limits[0].startswith(
        "The possible values of ward were read from the private data"
    )
    assert promise.limits[-1].startswith("Publishing at all reveals")


def test_an_empty_table_is_published_like_any_other(tmp_path, subtests):
    """Whether there is a release does not depend on one person: the only one with a visit, or the
    only one at all.
    """
    people, visits = _tables(3)
    empty = {"people": people.slice(0, 0), "visits": visits.slice(0, 0)}
    files = {name: tmp_path / f"{name}.csv" for name in empty}
    for name, path in files.items():
        path.write_text(",".join(empty[name].column_names) + "\n")
    cases = product(
        (
            (people, empty["visits"]),
            (people, files["visits"]),
            (empty["people"], visits),
            (files["people"], files["visits"]),
        ),
        ("error", "drop", "missing"),
    )
    for number, (tables, outside) in enumerate(cases):
        with subtests.test(number=number):
            release = _published(tables=tables, epsilon=1, how={"outside": outside})
            place = release.save(tmp_path / f"{number}", insecure=True)
            opened = sc.open(place)
            for name in ("people", "visits"):
                low, high = opened.answer(f"SELECT COUNT(*) FROM {name}").interval(0.999999)
                assert low <= high
            assert set(opened.rows(20, seed=1)) == {"people", "visits"}


def test_the_rows_of_one_person_change_no_count_by_more_than_the_bound(monkeypatch):
    """A person with a hundred rows more: the true counts that are measured differ by one row of
    people, and by three joined rows in all.
    """
    from scumble.private.meter import noise

    def counts(tables):
        found = []

        def add(self, numbers, law):
            found.append(numbers.copy())

        with monkeypatch.context() as patch:
            patch.setattr(noise.NoisySteps, "add", add)
            _published(tables=tables)
        return found

    people, visits = _tables(200)
    more = pa.table({"person": [9999] * 100, "ward": ["heart"] * 100, "days": [4] * 100})
    someone = pa.table({"id": [9999], "age": [3], "sex": ["f"]})
    one = counts((people, visits))
    other = counts((pa.concat_tables([people, someone]), pa.concat_tables([visits, more])))
    # Single attributes come first: three of people (age, sex, number), then those of visits.
    singles = [abs(a - b).sum() for a, b in zip(one[:3], other[:3], strict=True)]
    assert singles == [1, 1, 1]
    last = [abs(a.sum() - b.sum()) for a, b in zip(one[-3:], other[-3:], strict=True)]
    assert max(last) <= 3
    nobody = counts((people, pa.concat_tables([visits, more])))
    assert all((a == b).all() for a, b in zip(one, nobody, strict=True))


def test_saved_and_opened_again(tmp_path):
    release = _published()
    folder = release.save(tmp_path / "hospital", insecure=True)
    again = sc.open(folder)
    assert again.rows(50, seed=1)["visits"].equals(release.rows(50, seed=1)["visits"])
    assert again.guarantees[0] == release.guarantees[0]
    with pytest.raises(sc.OutputExistsError, match="already exists"):
        release.save(folder, insecure=True)
    with pytest.raises(ReleaseError, match="not a release of linked tables"):
        load_linked(tmp_path)
    with pytest.raises(ReleaseError, match="several tables: give the folder of one"):
        load(folder)
    assert load(folder / "visits").schema == release["visits"].schema
    (folder / "linked.json").write_text('{"tables": ["../people"]}')
    with pytest.raises(ReleaseError, match="damaged"):
        sc.open(folder)
    with pytest.raises(ReleaseError, match="fixed seed"):
        release.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_refusals():
    people, visits = _tables(50)
    with pytest.raises(ParameterError, match="different in every row"):
        _published(tables=(pa.concat_tables([people, people]), visits))
    with pytest.raises(ParameterError, match="'keys' parameter"):
        _published(keys={"people": "id"})
    with pytest.raises(ParameterError, match="role identifier"):
        _published(keys={"people": "age", "visits": "person"})
    with pytest.raises(ParameterError, match="at least one of them of 'visits'"):
        _published(children=("age",))
    with pytest.raises(SchemaError, match="neither a column of 'visits'"):
        _published(children=("ward", "height"))
    with pytest.raises(ParameterError, match="one of people, visits"):
        _published()["doctors"]
    for given in ({"sample": 0.5}, {"engine": 1}, {"part": "x"}, {"basket": "id"}, {"order": "id"}):
        [name] = given
        of_all = name in ("sample", "engine")
        tables = (people, visits if of_all else sc.Table(visits, **given))
        with pytest.raises(ParameterError, match=f"Several tables are published without {name}: "):
            _published(tables=tables, how=given if of_all else None)
    with pytest.raises(ParameterError, match="Several tables are published without sums: "):
        sc.publish_linked(
            {"people": people, "visits": visits},
            {"people": PEOPLE, "visits": VISITS},
            sc.Synthesis(["age"], sums=["age"], epsilon=1, delta=1e-6, neighbours="add_remove"),
            keys={"people": "id", "visits": "person"},
        )
    with pytest.raises(ParameterError, match="must be one table; publish_linked takes several"):
        sc.publish({"people": people}, PEOPLE, sc.Uniform(epsilon=1))
    with pytest.raises(ParameterError, match="a Synthesis for several tables"):
        sc.publish_linked({"people": people}, {"people": PEOPLE}, sc.Uniform(epsilon=1), keys={})
    with pytest.raises(ParameterError, match="must be a dict of tables by name, the people first"):
        sc.publish_linked(people, PEOPLE, sc.Uniform(epsilon=1), keys={"people": "id"})
    with pytest.raises(ParameterError, match=r"'options' parameter .* must be PublishOptions"):
        sc.publish(people, PEOPLE, sc.Uniform(epsilon=1), options={"seed": 1})
    plan = sc.Synthesis(["age"], epsilon=1, delta=1e-6, neighbours="add_remove")
    with pytest.raises(ParameterError, match="two tables or more"):
        sc.publish_linked({"people": people}, {"people": PEOPLE}, plan, keys={"people": "id"})
    with pytest.raises(ParameterError, match="'schemas' parameter"):
        sc.publish_linked({"people": people, "visits": visits}, PEOPLE, plan, keys={"people": "id"})


def test_without_children_all_columns_are_published():
    release = _published(children=None, epsilon=5)
    assert release.given == {"visits": ("age", "sex")}
    assert release.rows(20, seed=1)["visits"].column_names == ["person", "ward", "days"]


def test_columns_that_are_not_published_are_not_read():
    people, visits = _tables(300)
    broken = people.set_column(2, "sex", pa.array(["not in the domain"] * 300))
    release = sc.publish_linked(
        {"people": broken, "visits": visits.drop_columns(["days"])},
        {"people": PEOPLE, "visits": VISITS},
        sc.Synthesis(["age"], epsilon=5, delta=1e-6, neighbours="add_remove", contribution=3),
        keys={"people": "id", "visits": "person"},
        children={"visits": ["ward"]},
        options=sc.PublishOptions(seed=1),
    )
    rows = release.rows(20, seed=1)
    assert [each.column_names for each in rows.values()] == [["id", "age"], ["person", "ward"]]


def test_the_report_on_rows_sees_a_wrong_join():
    """Rows are as near to the noisy tables as a tree allows; dealt out to others they are not."""
    release = _published()
    rows = release.rows(3000, seed=2)

    def worst(name, tables):
        report = release.quality(tables)[name].to_pylist()
        return max(each["distance"] for each in report if "age" in each["attributes"])

    assert worst("visits", rows) < 0.1
    visits = rows["visits"]
    shuffled = pa.array(np.random.default_rng(1).permutation(visits["person"].to_numpy()))
    dealt = {"people": rows["people"], "visits": visits.set_column(0, "person", shuffled)}
    assert worst("visits", dealt) > 0.3
    assert worst("people", dealt) == worst("people", rows)


def test_a_ledger_is_charged_once_what_the_promise_states(tmp_path_factory, subtests):
    """However many rows a person has by the ledger: the promise is for all rows of a person.
    Replacing a person is removing one and adding one, which costs ρ four times.
    """
    for contribution, neighbours in product([1, 3, 7], ["add_remove", "replace"]):
        with subtests.test(contribution=contribution, neighbours=neighbours):
            tmp_path = tmp_path_factory.mktemp("case")
            given = {"neighbours": neighbours, "delta": 1e-6, "contribution": contribution}
            ledger = sc.Ledger.create(tmp_path / "ledger", epsilon=20, **given)
            release = _published(None, tables=_tables(50), epsilon=1.3, ledger=ledger)
            [charge] = ledger.charges
            assert charge.counted
            [promise] = release.guarantees
            rho = Fraction(promise.parameters["rho"]) * (4 if neighbours == "replace" else 1)
            assert float(charge.bill.loss.rho) == pytest.approx(float(rho), rel=1e-12)
            assert charge.bill.parameters["attributes"] == {
                "people": ["age", "sex", "number of visits"],
                "visits": ["ward", "days", "age"],
            }


@pytest.mark.parametrize("error", [ParameterError("bad"), SourceError("bad")])
def test_a_charge_stays_once_noise_may_have_been_drawn(tmp_path, monkeypatch, error):
    """The first of the tables is published when the second fails."""
    ledger = sc.Ledger.create(tmp_path / "ledger", neighbours="add_remove", delta=1e-6)
    made = []

    def publish_once(*arguments, **options):
        if made:
            raise error
        made.append(publish(*arguments, **options))
        return made[0]

    monkeypatch.setattr("scumble.private.publish.publish", publish_once)
    with pytest.raises(type(error), match="bad"):
        _published(None, tables=_tables(50), ledger=ledger)
    assert len(made) == 1
    assert [each.state for each in ledger.charges] == ["begun"]


def test_a_ledger_without_room_is_not_charged_and_bad_keys_return_the_charge(tmp_path):
    given = {"neighbours": "add_remove", "delta": 1e-6}
    small = sc.Ledger.create(tmp_path / "small", epsilon=1, **given)
    with pytest.raises(PromiseError):
        _published(None, tables=_tables(50), epsilon=1.3, ledger=small)
    assert small.charges == []
    people, visits = _tables(50)
    twice = pa.concat_tables([people, people])
    with pytest.raises(ParameterError, match="different in every row"):
        _published(None, tables=(twice, visits), epsilon=0.5, ledger=small)
    assert [each.counted for each in small.charges] == [False]
    columns = sc.Ledger.create(tmp_path / "c", neighbours="values", sensitive="ward", delta=1e-6)
    _published(None, tables=_tables(50), ledger=columns)  # a column that only one table has
    assert [each.counted for each in columns.charges] == [True]


def test_values_outside_are_left_out_before_tables_are_joined():
    """A person with an age outside, and a visit with days outside: neither is published, nor are
    the visits of that person, nor is the visit counted as one of its person's.
    """
    people, visits = _tables(200)
    stray = pa.table({"id": [9999], "age": [17], "sex": ["f"]})
    own = pa.table({"person": [9999, 9999], "ward": ["eye", "eye"], "days": [1, 2]})
    wrong = pa.table({"person": [7], "ward": ["eye"], "days": [99]})
    more = (pa.concat_tables([people, stray]), pa.concat_tables([visits, own, wrong]))
    with pytest.raises(DomainError, match=r"Table 'people': Column 'age', row 201: the value is"):
        _published(tables=more)
    dropped, clean = (
        _published(tables=more, how={"outside": "drop"}),
        _published(tables=(people, visits)),
    )
    assert dropped.rows(200, seed=1) == clean.rows(200, seed=1)
    assert "'age' outside its domain were left out" in dropped["people"].remarks[0]
    assert dropped["people"].manifest.outside == "drop"
    nobody = people.set_column(0, "id", pa.array([None, *people["id"].to_pylist()[1:]]))
    with pytest.raises(ParameterError, match="never missing"):
        _published(tables=(nobody, visits))
    _published(tables=(nobody, visits), how={"outside": "drop"})
    with pytest.raises(DomainError, match="write missing = true"):
        _published(tables=more, how={"outside": "missing"})


def test_tables_of_one_file_and_processes(tmp_path):
    people, visits = _tables(100)
    with duckdb.connect(str(tmp_path / "hospital.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS FROM people")
        connection.execute("CREATE TABLE b AS FROM visits")
    path = tmp_path / "hospital.duckdb"
    named = sc.Table(path, table="a"), sc.Table(path, table="b")
    read = []
    release = _published(tables=named, how={"jobs": 2, "progress": read.append})
    assert release.rows(50, seed=1) == _published(tables=(people, visits)).rows(50, seed=1)
    assert max(read) == visits.num_rows


def test_groups_of_a_join_are_sorted_as_other_answers_are():
    release = _published()
    asked = "SELECT {} AS {}, COUNT(*) FROM people JOIN visits ON id = person GROUP BY 1"
    for what, name in (("ward", "ward"), ("age", "age"), ("days + 1", "more"), ("age", "ward")):
        keys = [key for key, _ in release.answer(asked.format(what, name))]
        assert keys == sorted(keys)
    backwards = release.answer(asked.format("age", "age") + " ORDER BY 1 DESC")
    assert [key for (key,), _ in backwards] == [3, 2, 1, 0]


@pytest.mark.slow
def test_several_tables_in_postgresql(postgresql):
    place = postgresql.table("hospital")
    release = _published(None, tables=_tables(100), to=place)
    again = sc.open(place)
    assert again.rows(50, seed=1) == release.rows(50, seed=1)
    assert again.guarantees[0] == release.guarantees[0]
    with pytest.raises(sc.OutputExistsError, match=r"several tables in table public.* already"):
        _published(None, tables=_tables(10), to=place)
    with pytest.raises(ReleaseError, match="fixed seed"):
        _published(1, tables=_tables(10), to=postgresql.table("seeded"))
    with pytest.raises(ReleaseError, match="cannot be kept in table"):
        sc.publish_linked(
            {"people": _tables(10)[0], "my visits": _tables(10)[1]},
            {"people": PEOPLE, "my visits": VISITS},
            sc.Synthesis(["age"], epsilon=1, delta=1e-6, neighbours="add_remove"),
            keys={"people": "id", "my visits": "person"},
            to=postgresql.table("named"),
        )
    database, relation = postgresql.shared_database, place.rpartition("/public.")[2].split("?")[0]
    links = {"tables": ["people?host=elsewhere"], "given": {}, "guarantees": []}
    for keys in ({}, {"people?host=elsewhere": "id"}):
        each = json.dumps({**links, "keys": keys})
        digest = hashlib.sha256(each.encode()).hexdigest()
        changed = f"UPDATE {relation}_linked SET content = $${each}$$, digest = '{digest}'"
        postgresql.run(database, changed)
        with pytest.raises(ReleaseError, match="damaged"):
            sc.open(place)


def test_rows_are_matched_by_cells_in_turn():
    generator = np.random.default_rng(1)
    assert _turns(np.array([5, 3, 5, 5, 3])).tolist() == [0, 0, 1, 2, 1]
    held = np.array([1, 1, 2])
    found = match_cells(np.array([1, 1, 1, 1, 2, 7]), held, generator)
    assert sorted(found[:4].tolist()) == [0, 0, 1, 1]
    assert found[4] == 2
    assert 0 <= found[5] < 3


def test_a_key_is_the_person_that_the_limit_of_rows_knows():
    """Two people whose keys are one person for the limit would share its rows: with one of them
    removed, the rows of the other would come in, and the change would be twice the promised one.
    """
    people, visits = _tables(40)
    spaced = [f"{key}" for key in range(38)] + ["7 ", " 8"]
    with pytest.raises(ParameterError, match="different in every row"):
        _published(tables=(people.set_column(0, "id", pa.array(spaced)), visits))
    numbers = visits["person"].cast(pa.float64())
    padded = pa.array([f" {key} " for key in visits["person"].to_pylist()])
    texts = people.set_column(0, "id", people["id"].cast(pa.string()))
    wanted = _published(tables=(people, visits)).rows(50, seed=1)
    for keys in (numbers, padded):
        written = visits.set_column(0, "person", keys)
        for own in (people, texts):
            assert _published(tables=(own, written)).rows(50, seed=1) == wanted


def test_each_table_has_its_own_bound_on_the_rows_of_a_person(monkeypatch):
    """A hundred rows more in both tables: at most three count in one, and one in the other."""
    from scumble.private.meter import noise

    people, visits = _tables(200)
    tests = visits.select(["person", "days"])

    def published(people, visits, tests, seed=1):
        found = []

        def add(self, numbers, law):
            found.append(numbers.copy())

        with monkeypatch.context() as patch:
            patch.setattr(noise.NoisySteps, "add", add)
            release = sc.publish_linked(
                {"people": people, "visits": visits, "tests": tests},
                {
                    "people": PEOPLE,
                    "visits": VISITS.with_unit("person", 3),
                    "tests": VISITS.select(["person", "days"]).with_unit("person", 1),
                },
                sc.Synthesis(["age"], epsilon=5, delta=1e-6, neighbours="add_remove"),
                keys={"people": "id", "visits": "person", "tests": "person"},
                children={"visits": ["ward"], "tests": ["days"]},
                options=sc.PublishOptions(seed=seed),
            )
        return release, found

    release, one = published(people, visits, tests)
    someone = pa.table({"id": [9999], "age": [3], "sex": ["f"]})
    more = pa.table({"person": [9999] * 100, "ward": ["heart"] * 100, "days": [4] * 100})
    _, other = published(
        pa.concat_tables([people, someone]),
        pa.concat_tables([visits, more]),
        pa.concat_tables([tests, more.select(["person", "days"])]),
    )
    changed = {(len(a), int(abs(a - b).sum())) for a, b in zip(one, other, strict=True)}
    assert (2, 3) in changed  # wards of visits
    assert (5, 1) in changed  # days of tests
    assert max(number for _, number in changed) == 3
    assert [each.manifest.parameters["contribution"] for each in release.tables.values()] == [
        *(1, 3, 1)
    ]
    report = release["people"].manifest.report["most rows of a person"]
    assert report == {"number of visits": 3, "number of tests": 1}
    rhos = [Fraction(each.guarantees[0].parameters["rho"]) for each in release.tables.values()]
    whole = sc.Synthesis(["age"], epsilon=5, delta=1e-6, neighbours="add_remove").promise.rho
    assert whole * (1 - Fraction(1, 10**6)) <= sum(rhos) <= whole * (1 + Fraction(1, 10**9))
    [promise] = release.guarantees
    assert promise.parameters["contribution"] == 3
    assert "at most 3 rows of that person in 'visits' and one row in 'tests'." in str(
        promise.limits
    )
    rows = release.rows(300, seed=2)
    most = {
        name: np.bincount(rows[name]["person"].to_numpy()).max() for name in ("visits", "tests")
    }
    assert most["visits"] <= 3
    assert most["tests"] == 1


def _impossible(people, visits):
    """Return both tables' rows that have an impossible combination of `KNOWN`."""
    wrong = [row["id"] for row in people.to_pylist() if row["age"] == 0 and row["sex"] == "m"]
    return wrong, [row for row in visits.to_pylist() if row["ward"] == "eye" and row["days"] == 2]


KNOWN = {
    "people": replace(PEOPLE, impossible=("age = 0 AND sex = 'm'",)),
    "visits": replace(VISITS, impossible=("ward = 'eye' AND days = 2",)),
}


def _publish_known(tables, outside, columns=("age", "sex")):
    given = {"epsilon": 5, "delta": 1e-6, "neighbours": "add_remove", "contribution": 3}
    return sc.publish_linked(
        dict(zip(("people", "visits"), tables, strict=True)),
        KNOWN,
        sc.Synthesis(list(columns), **given),
        keys={"people": "id", "visits": "person"},
        options=sc.PublishOptions(seed=1, outside=outside),
    )


def test_rows_that_cannot_be_are_left_out_with_their_own():
    """Every man of age 0 is left out with his visits, and so is every visit for an eye of 2 days,
    before anything is counted. The release is that of tables without them.
    """
    tables = _tables()
    people, visits = tables
    wrong, wrong_visits = _impossible(*tables)
    assert wrong
    assert wrong_visits
    with pytest.raises(DomainError, match=r"Table 'people'.*age = 0 AND sex = 'm'"):
        _publish_known(tables, "error")
    found = _publish_known(tables, "drop")
    of_wrong = pa.compute.is_in(visits["person"], pa.array(wrong))
    clean_visits = pa.Table.from_pylist(
        [
            row
            for row in visits.filter(pa.compute.invert(of_wrong)).to_pylist()
            if not (row["ward"] == "eye" and row["days"] == 2)
        ]
    )
    clean = people.filter(pa.compute.invert(pa.compute.is_in(people["id"], pa.array(wrong))))
    same = _publish_known((clean, clean_visits), "error")
    for name in ("people", "visits"):
        sql = f"SELECT age, COUNT(*) FROM {name} GROUP BY age"
        left, without = (dict(each.ask(sql)) for each in (found, same))
        assert [e.value for e in left.values()] == [e.value for e in without.values()]


@pytest.mark.parametrize("columns", [("age", "sex"), ("age",)])
def test_linked_answers_and_rows_know_what_cannot_be(columns, tmp_path):
    """A condition on a column that is not published is checked too."""
    made = _publish_known(_tables(), "drop", columns)
    found = load_linked(made.save(tmp_path / "release", insecure=True))
    asked = ["SELECT COUNT(*) FROM visits WHERE ward = 'eye' AND days = 2"]
    asked += ["SELECT COUNT(*) FROM people WHERE age = 0 AND sex = 'm'"] if "sex" in columns else []
    for sql in asked:
        assert found.ask(sql).interval(0.999999) == (0, 0)
    rows = found.rows(500, seed=3)
    visits = rows["visits"].to_pylist()
    assert not any(row["ward"] == "eye" and row["days"] == 2 for row in visits)
    if "sex" in columns:
        people = rows["people"].to_pylist()
        assert not any(row["age"] == 0 and row["sex"] == "m" for row in people)
    limits = [limit for each in found.guarantees for limit in each.limits]
    for schema in KNOWN.values():
        assert any(schema.impossible[0] in limit for limit in limits)
