"""Small things that commands say: names of files, tables, trips and entries."""

from __future__ import annotations

import pyarrow as pa
import pytest

import scumble as sc
from scumble.cli.groups.ledger import show_verified
from scumble.cli.printing import _short
from scumble.model.errors import QueryError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins
from scumble.model.schema.lists import ListDomain
from tests.support import people
from tests.support.terminal import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    schema = people.schema()
    made = tmp_path_factory.mktemp("words") / "rows"
    sc.publish(people.people(100, schema), schema, sc.Uniform(epsilon=1)).save(made)
    return made


def test_only_known_kinds_of_files_are_written(folder, tmp_path):
    done = run("rows", folder, "-o", tmp_path / "rows.ods")
    assert done.code == 2
    assert "must end in .csv, .parquet, .xlsx or .html" in done.err
    assert not list(tmp_path.iterdir())


def test_a_number_of_rows_is_named_as_the_option(folder):
    done = run("rows", folder, "-n", "-5")
    assert done.code == 2
    assert "--number" in done.err


def test_rows_say_where_other_rows_are(folder):
    done = run("rows", folder)
    [file] = [path.name for path in folder.glob("*.parquet")]
    assert f"the file {file} in its folder" in done.err


def test_lists_of_lists_are_told_apart():
    assert _short([["age", "sex"], ["age", "condition"]]) == "age × sex; age × condition"
    assert _short(["age", "sex"]) == "age, sex"
    assert _short([[str(n)] for n in range(13)]).endswith("11; ...")


@pytest.mark.parametrize(("number", "words"), [(1, "1 entry"), (2, "2 entries")])
def test_the_number_of_entries(capsys, number, words):
    show_verified([], f"{number} abc", "ledger verify l", False)
    assert f"The ledger is whole, with {words}. Its seal:" in capsys.readouterr().err


def test_a_server_without_its_libraries_makes_no_data(monkeypatch):
    monkeypatch.setattr("scumble.server.serve.find_spec", lambda _: None)
    monkeypatch.setattr("scumble.server.demo.make_demo", lambda *_: pytest.fail("made"))
    done = run("serve", "--demo")
    assert done.complaint.startswith("Error: ")
    assert "scumble[server]" in done.complaint


def test_the_demonstration_says_where_a_token_is_used(monkeypatch):
    monkeypatch.setattr("scumble.server.serve.listen", lambda _, started: started())
    done = run("serve", "--demo", "--address", "127.0.0.1:8470")
    assert done.code == 0, done.err
    assert "Owner, log in once:  http://127.0.0.1:8470/login?link=" in done.out
    assert "It opens http://127.0.0.1:8470/login in a browser; or from Python:" in done.out


def test_a_port_is_an_address_of_this_machine(monkeypatch):
    monkeypatch.setattr("scumble.server.serve.listen", lambda _, started: started())
    done = run("serve", "--demo", "--port", "8471")
    assert done.code == 0, done.err
    assert "http://127.0.0.1:8471" in done.out
    both = run("serve", "--demo", "--port", "8471", "--address", "127.0.0.1:8471")
    assert (both.code, "not both" in both.err) == (2, True)


def test_an_earlier_demo_is_replaced_by_force(tmp_path):
    words = ("demo", "--people", "50", "--no-report", "-o", tmp_path / "demo")
    assert run(*words).code == 0
    again = run(*words)
    assert (again.code, "already exists. Use --force to replace it." in again.err) == (6, True)
    assert run(*words, "--force").code == 0


def test_trips_beside_a_column_of_that_name():
    points = ListDomain("sequence", Bins((0, 1, 2)), longest=4)
    columns = [Attribute(name, "sensitive", points) for name in ("x", "y")]
    schema = sc.Schema((Attribute("trip", "identifier"), *columns), sc.Unit())
    names = list(map(str, range(50)))
    table = pa.table({"trip": names, "x": [[0.5, 1.5]] * 50, "y": [[0.5, 0.5]] * 50})
    mechanism = sc.Trajectories("x", "y", length=3, epsilon=1, neighbours="add_remove")
    assert "call a trip trip_2" in mechanism.outlook(schema)[-1]
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    with pytest.raises(QueryError, match=r"There is first\(trip_2\), last\(trip_2\)"):
        release.answer("SELECT COUNT(*) FROM t WHERE first(trip) = 'x0y0'")
