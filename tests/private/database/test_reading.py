"""What the ledger alone tells: the same as the database does, without its table."""

from fractions import Fraction

import pytest

from scumble.demo.census import census
from scumble.model.errors import LedgerError, ParameterError
from scumble.private.database import inspect
from scumble.private.database.database import Database
from scumble.private.database.inspect import DatabaseInspection

ATTRIBUTES = ["age", "sex", "income"]


@pytest.fixture(scope="module")
def table():
    return census(500)


@pytest.fixture
def database(table, tmp_path):
    """With room for two answers at every point."""
    how = {"epsilon": 0.2, "noise": 20, "attributes": ATTRIBUTES}
    with Database.create(tmp_path / "db", *table, **how) as found:
        yield found


def ask(database, *ages):
    for low, high in ages:
        database.answer(f"SELECT COUNT(*) FROM t WHERE age BETWEEN {low} AND {high}")


def test_reading_says_what_the_database_says(database, tmp_path):
    ask(database, (20, 40), (20, 41), (20, 42), (20, 40))
    with DatabaseInspection(tmp_path / "db") as reading:
        assert reading.status() == database.status()
        assert reading.history() == database.history()
        assert [entry.status for entry in reading.history()] == [
            "answered",
            "answered",
            "relaxed",
        ]
        assert reading.guarantee == database.guarantee
        assert reading.schema == database.schema
        assert reading.verify() == []
        assert reading.verify(reading.seal) == []


def test_reading_follows_a_database_that_goes_on(database, tmp_path):
    with DatabaseInspection(tmp_path / "db") as reading:
        for answered in (1, 2):
            ask(database, (20 + answered, 40))
            assert reading.status().answered == answered


def test_the_schema_is_known_to_the_folder(database, table, tmp_path):
    database.close()
    people, schema = table
    with Database.open(tmp_path / "db", people) as again:
        assert again.schema == schema.select(ATTRIBUTES)
    with Database.open(tmp_path / "db", people, schema):
        pass
    with pytest.raises(LedgerError, match="differs in the schema"):
        Database.open(tmp_path / "db", people, schema.with_roles(sensitive="age"))


def test_the_map_has_the_popularity_of_every_pair(database):
    ask(database, (20, 40))
    database.answer("SELECT COUNT(*) FROM t WHERE age < 30 AND sex = 'male'")
    [image] = database.plot("sex", "age").axes[0].images
    shown = image.get_array()
    assert shown.shape == (73, 2)
    assert [list(shown[age - 18]) for age in (18, 25, 35, 50)] == [[0, 1], [1, 2], [1, 1], [0, 0]]


def test_a_map_needs_two_attributes(database, subtests):
    for names in [("age", "height"), ("age",), ("age", "age")]:
        with subtests.test(names=names), pytest.raises(ParameterError):
            database.plot(*names)


def test_the_curve_counts_what_was_asked_anew(database):
    ask(database, (20, 40), (20, 40), (25, 45), (22, 42))
    database.answer("SELECT SUM(age) FROM t WHERE age > 60")
    answered = database.plot().axes[0].lines[0]
    assert list(answered.get_xdata()) == [0, 1, 2, 3]
    assert list(answered.get_ydata()) == [0, 1, 2, 2]


def test_bounds_follow_the_volumes(database):
    """ελ = 4: with boxes of one volume s it is 4/(2s(1-s)), with several 4/s'."""

    def found(*volumes):
        return [bound.value for bound in inspect._bounds(database.terms, volumes)]

    half, small = Fraction(1, 2), Fraction(1, 100)
    assert found() == found(Fraction(1)) == found(half, Fraction(1)) == []
    assert found(half) == [8]
    assert found(half, small) == found(half, 1 - small) == [400]


def test_the_curve_shows_the_bound(database):
    database.answer("SELECT COUNT(*) FROM t WHERE sex = 'male'")
    database.answer("SELECT COUNT(*) FROM t WHERE sex = 'female'")
    [axes] = database.plot().axes
    assert "ελ/(2s(1−s)) for s = 50 %: 8" in axes.get_title("left")


def test_without_the_plotting_library_it_is_said(database, monkeypatch):
    from scumble.model.errors import ScumbleError
    from scumble.public.plot import figures

    monkeypatch.setattr(figures, "available", lambda: False)
    with pytest.raises(ScumbleError, match="matplotlib is not installed"):
        database.plot()
