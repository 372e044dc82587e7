"""`scumble db append`: rows of new people, and everything else with batches."""

import pyarrow.parquet
import pytest

from scumble.demo.census import census
from tests.support.terminal import run

YOUNG = "SELECT COUNT(*) FROM people WHERE age BETWEEN 18 AND 40"
EVERYBODY = "SELECT COUNT(*) FROM people"


@pytest.fixture(scope="module")
def more(place):
    """Two batches of new people, as files."""
    files = [place / f"more {number}.parquet" for number in (2, 3)]
    for seed, file in enumerate(files):
        pyarrow.parquet.write_table(census(500, seed=50 + seed)[0], file)
    return files


@pytest.fixture
def folder(place, tmp_path):
    """A database with room for three answers at every point."""
    words = ("-s", place / "people.toml", "--epsilon", "0.3", "--noise", "20", "-a", "age,sex")
    done = run("db", "create", tmp_path / "db", place / "people.parquet", *words)
    assert done.code == 0, done.err
    return tmp_path / "db"


def ask(place, folder, sql, *files, words=()):
    batches = [word for file in files for word in ("--batch", file)]
    return run("ask", folder, "--source", place / "people.parquet", sql, *batches, *words)


def test_append_and_ask(place, folder, more):
    assert ask(place, folder, YOUNG).code == 0
    done = run("db", "append", folder, more[0])
    assert done.code == 0, done.err
    assert f"Added as batch 2 of {folder}, with the whole promise." in done.out
    assert "--batch ROWS" in done.out
    done = run("db", "append", folder, more[1], "--json")
    assert done.json == {"database": str(folder), "batch": 3}
    [fields] = ask(place, folder, YOUNG, *more, words=["--json"]).json
    assert (fields["status"], fields["numbers"]) == ("answered", 3)
    [fields] = ask(place, folder, EVERYBODY, *more, words=["--json"]).json
    assert fields["value"] == 4000


def test_all_batches_are_needed_in_their_order(place, folder, more):
    for file in more:
        assert run("db", "append", folder, file).code == 0
    done = ask(place, folder, YOUNG, more[0])
    assert (done.code, done.out) == (8, "")
    assert "Give all of them" in done.err
    done = ask(place, folder, YOUNG, *reversed(more))
    assert done.code == 8
    assert "Batch 2 was made of other rows" in done.err
    assert ask(place, folder, YOUNG, *more, *more).code == 8


def test_the_environment_may_name_the_batches(place, folder, more, tmp_path, monkeypatch):
    file = tmp_path / "plain.parquet"
    file.write_bytes(more[0].read_bytes())
    assert run("db", "append", folder, file).code == 0
    monkeypatch.setenv("SCUMBLE_SOURCE", str(place / "people.parquet"))
    monkeypatch.setenv("SCUMBLE_BATCHES", str(file))
    assert run("ask", "--preview", folder, YOUNG).code == 0
    assert run("db", "shell", folder, stdin=YOUNG).code == 0


def test_a_table_of_a_duckdb_file(place, folder, more, tmp_path):
    import duckdb

    file = tmp_path / "more.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE TABLE november AS FROM '{more[0]}'")
        connection.execute("CREATE TABLE empty AS FROM november LIMIT 0")
    assert run("db", "append", folder, file, "--table", "november").code == 0
    assert ask(place, folder, YOUNG, f"{file}::november").code == 0
    assert ask(place, folder, YOUNG, f"{file}::empty").code == 8


def test_a_key_adds_rows_once(folder, more):
    first, again = (run("db", "append", folder, more[0], "--key", "november") for _ in range(2))
    assert first.out == again.out
    other = run("db", "append", folder, more[1], "--key", "november")
    assert (other.code, other.out) == (2, "")
    assert "--key must be a new one for other rows" in other.err
    assert run("db", "status", folder, "--json").json["batches"] == 2


def test_the_same_rows_twice_are_refused(place, folder, more, tmp_path):
    """Also in another order, with a new key, and if they are those of the table itself."""
    assert run("db", "append", folder, more[0]).code == 0
    table = pyarrow.parquet.read_table(more[0])
    turned = tmp_path / "turned.parquet"
    pyarrow.parquet.write_table(table.take(list(reversed(range(len(table))))), turned)
    for file, words, batch in (
        (more[0], (), 2),
        (turned, (), 2),
        (more[0], ("--key", "new"), 2),
        (place / "people.parquet", (), 1),
    ):
        done = run("db", "append", folder, file, *words)
        assert (done.code, done.out) == (7, "")
        assert f"in the database already, as batch {batch}" in done.err
        assert "say --again" in done.err
    assert run("db", "status", folder, "--json").json["batches"] == 2
    assert run("db", "append", folder, more[1]).code == 0


def test_other_people_may_have_the_same_values(place, folder, more):
    assert run("db", "append", folder, more[0], "--key", "one").code == 0
    for _ in range(2):  # the second is a retry
        done = run("db", "append", folder, more[0], "--key", "two", "--again", "--json")
        assert done.json["batch"] == 3
    assert run("db", "append", folder, more[0], "--key", "one", "--json").json["batch"] == 2
    assert ask(place, folder, YOUNG, more[0], more[0]).code == 0


def test_status_history_verify_and_plot(place, folder, more, tmp_path):
    assert "batches" not in run("db", "status", folder).out
    assert ask(place, folder, YOUNG).code == 0
    assert run("db", "append", folder, more[0]).code == 0
    status = run("db", "status", folder).out
    assert "2, each with the promise; used in them: 1, 0" in status
    assert "1 of 3 at the most asked-about point" in status
    assert run("db", "history", folder).out.splitlines()[-1].split()[3:] == [
        "added",
        *"(rows of batch 2)".split(),
    ]
    assert run("db", "verify", folder).code == 0
    pytest.importorskip("matplotlib")
    for words in ((), ("-a", "age,sex")):
        picture = tmp_path / f"picture{len(words)}.svg"
        assert run("db", "status", folder, "-o", picture, *words).code == 0


def test_relaxed_in_one_batch(place, folder, more):
    for high in (40, 50, 60):
        asked = f"SELECT COUNT(*) FROM t WHERE age BETWEEN 20 AND {high}"
        assert ask(place, folder, asked).code == 0
    assert run("db", "append", folder, more[0]).code == 0
    done = ask(place, folder, "SELECT COUNT(*) FROM t WHERE age BETWEEN 22 AND 38", more[0])
    assert "Relaxed: this counts WHERE batch = 1 AND (age BETWEEN 20 AND 40)" in done.out
    assert "OR batch = 2 AND (age BETWEEN 22 AND 38)" in done.out


@pytest.mark.parametrize("name", ["nothing.parquet", "people.toml"])
def test_what_cannot_be_added_leaves_nothing(place, folder, name):
    done = run("db", "append", folder, place / name)
    assert done.code in (3, 4)
    assert done.err.startswith("Error: ")
    assert run("db", "status", folder, "--json").json["batches"] == 1
    assert run("db", "append", place, place / "people.parquet").code == 8


def test_the_place_of_the_rows_is_not_written_down(place, folder, more):
    assert run("db", "append", folder, more[0]).code == 0
    kept = b"".join(path.read_bytes() for path in folder.iterdir())
    assert str(place).encode() not in kept
    assert b"more 2" not in kept
