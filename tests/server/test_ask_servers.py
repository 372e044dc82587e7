"""`scumble ask` and `scumble show` of a server: by HTTP, and by its PostgreSQL wire."""

from __future__ import annotations

import pytest

from scumble.server.config import Limits
from tests.support.servers import COUNT, listening, make_settings
from tests.support.terminal import run

GROUPS = "SELECT sex AS who, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    limits = Limits(wire_quota=1)
    folder = tmp_path_factory.mktemp("asked")
    with listening(make_settings(folder, epsilon=4, limits=limits)) as found:
        found[2].login_delay = 0.0
        yield found


@pytest.fixture
def people(server, monkeypatch):
    """The address of a database, and the token in the environment."""
    address, users, _ = server
    monkeypatch.setenv("SCUMBLE_TOKEN", users.analyst)
    return f"{address}/people"


def test_a_server_is_asked_like_a_database(people, tmp_path):
    shown = run("ask", people, COUNT)
    assert shown.code == 0, shown.err
    assert "Answered as asked" in shown.out
    again = run("ask", people, COUNT)
    assert "The same answer as before, free of charge" in again.out
    [row] = run("ask", people, COUNT, "--json", "--level", "0.9").json
    assert (row["status"], row["level"]) == ("repeated", 0.9)
    written = run("ask", people, GROUPS, "-o", tmp_path / "n.csv")
    assert written.code == 0, written.err
    head = (tmp_path / "n.csv").read_text().splitlines()[0]
    assert head == '"who","n","stderr","low","high","level","status","answered"'


def test_a_preview_charges_nothing(people):
    sql = "SELECT COUNT(*) FROM people WHERE age = 33"
    assert "It would be answered" in run("ask", people, sql, "--preview").out
    assert run("ask", people, sql, "--preview", "--json").json["status"] == "answered"


def test_what_a_server_does_not_take_is_refused(people):
    done = run("ask", people, COUNT, "--analyst", "ada")
    assert (done.code, "--analyst is for a database; " in done.err) == (2, True)
    wrong = run("ask", people, "SELECT COUNT(*) FROM people WHERE hight > 3")
    assert (wrong.code, "hight" in wrong.err) == (5, True)


def test_a_data_set_is_shown(people):
    done = run("show", people)
    assert done.code == 0, done.err
    for part in ("age", "Promised", "Not promised"):
        assert part in done.out
    assert run("show", people, "--json").json["name"] == "people"


@pytest.fixture
def wire(server, monkeypatch):
    """The address of the wire; the token is the password, which is in no address."""
    pytest.importorskip("adbc_driver_postgresql")
    _, users, service = server
    monkeypatch.setenv("PGPASSWORD", users.analyst)
    user = users.analyst.split("_")[1]
    return f"postgresql://{user}@{service.settings.postgres}/people"


def test_the_wire_is_asked(wire, tmp_path):
    done = run("ask", wire, GROUPS, "--csv")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == '"who","n","stderr","low","high","status","answered"'
    assert [row["who"] for row in run("ask", wire, GROUPS, "--json").json] == ["female", "male"]
    assert run("ask", wire, GROUPS, "-o", tmp_path / "n.parquet").code == 0


def test_the_wire_says_what_is_wrong_in_its_words(wire):
    done = run("ask", wire, "SELECT COUNT(*) FROM people WHERE hight > 3")
    assert (done.code, "hight" in done.err) == (5, True)
    level = run("ask", wire, COUNT, "--level", "0.9")
    assert (level.code, "--level is for" in level.err) == (2, True)
    assert run("show", wire).code == 2


def test_any_other_postgresql_is_refused(postgresql):
    """Its rows would be private ones."""
    done = run("ask", postgresql.shared_database, "SELECT 1")
    assert (done.code, "not one of scumble" in done.err) == (2, True)
    assert done.out == ""
