"""Where results go: one sentence and one exit code for a place that cannot be written."""

import pyarrow as pa
import pytest

from scumble.model.errors import ScumbleError, writing
from tests.support.terminal import run

EPSILON = ("--epsilon", "1")
CANNOT_WRITE = 1


def test_one_exit_code_for_a_place_that_cannot_be_written(place, tmp_path):
    """A file stands where a folder should be; no name of an internal file is told."""
    (tmp_path / "file").write_text("")
    there = tmp_path / "file"
    table, schema = place / "people.parquet", place / "people.toml"
    commands = {
        ("publish", "uniform", table, "-s", schema, *EPSILON, "-o"): "view",
        ("rows", place / "counts", "-n", "9", "-o"): "rows.csv",
        ("schema", "infer", table, "-o"): "people.toml",
        ("ledger", "create", there / "ledger", "-e", "3", "--neighbours", "replace"): "ledger",
        (
            "db",
            "create",
            there / "db",
            table,
            "-s",
            schema,
            "-a",
            "age",
            "-e",
            "1",
            "-l",
            "9",
        ): "db",
        ("compare", "--private-preview", "-s", schema, "-m", "uniform", "-e", "1", "-o"): "c.html",
        ("audit", place / "view", "-o"): "a.html",
        ("demo", "--people", "100", "-o"): "demo",
    }
    for words, name in commands.items():
        done = run(*words, there / name) if words[-1] == "-o" else run(*words)
        assert done.code == CANNOT_WRITE, (words, done.err)
        [error] = [line for line in done.err.splitlines() if line.startswith("Error: ")]
        assert f"'{there / name}'" in error
        assert "in the way" in error


def test_the_reason_is_that_of_the_system_and_not_of_a_library(tmp_path):
    """Arrow's own sentence has the path of a file that is not the user's."""
    with pytest.raises(ScumbleError) as caught, writing("rows.csv"):
        pa.OSFile(str(tmp_path / "none" / ".rows.csv.partial"), "wb")
    assert "'rows.csv'" in str(caught.value)
    assert "No such file" in str(caught.value)
    assert "partial" not in str(caught.value)


def test_a_release_goes_to_a_new_or_empty_folder(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "diary.txt").write_text("")
    (tmp_path / "empty").mkdir()
    words = ("publish", "uniform", place / "people.parquet", "-s", place / "people.toml", *EPSILON)
    assert run(*words, "-o", "empty").code == 0
    again = run(*words, "-o", "empty")
    assert (again.code, "Use --force to replace it" in again.err) == (6, True)
    for force in ((), ("--force",)):
        own = run(*words, "-o", "own", *force)
        assert own.code == 6
        assert "own exists and is not a release" in own.err
        assert "Use --force" not in own.err
    assert "not to the current one: name it" in run(*words, "-o", "").err
    both = run(*words, "-o", "new", "--to", "postgresql://nobody@localhost/x/y.z")
    assert (both.code, "not both" in both.err) == (2, True)
    assert not (tmp_path / "new").exists()
