"""Which modules a command imports: imports are nearly all that a small command costs.

Each command runs in a process of its own and prints the names of heavy modules that it imported.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import scumble as sc
from scumble.cli import options
from tests.support.terminal import run

PROGRAM = """
import atexit, sys
def report():
    packages = {name.split(".")[0] for name in sys.modules} | set(sys.modules)
    print("IMPORTED", *sorted(packages), file=sys.stderr)
atexit.register(report)
from scumble.cli.app import main
main()
"""
COMPILERS = {"numba", "llvmlite", "pandas", "pyarrow.dataset", "pydantic", "matplotlib"}
SCHEMA = """
format = 1
[attributes.age]
role = "quasi"
type = "integer"
range = [0, 9]
[attributes.job]
role = "sensitive"
type = "category"
values = ["a", "b"]
"""
COUNT = "SELECT COUNT(*) FROM t WHERE age < 3 AND job = 'a'"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("home")
    (folder / "people.toml").write_text(SCHEMA, "utf-8")
    pq.write_table(
        pa.table({"age": [1, 2, 3] * 40, "job": ["a", "b", "a"] * 40}), folder / "p.parquet"
    )
    schema = sc.Schema.loads(SCHEMA)
    sc.publish(folder / "p.parquet", schema, sc.Uniform(epsilon=1)).save(folder / "uniform")
    cells = sc.Histogram(["age"], epsilon=1, neighbours="replace")
    sc.publish(folder / "p.parquet", schema, cells).save(folder / "cells")
    with sc.Database.create(
        folder / "asked", folder / "p.parquet", schema, epsilon=1, noise=9
    ) as db:
        db.answer("SELECT COUNT(*) FROM t WHERE age < 2")
    return folder


def imported(home: Path, *words: str) -> set[str]:
    """Return the modules and packages that a command has imported when it ends."""
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [line] = [each for each in done.stderr.splitlines() if each.startswith("IMPORTED")]
    return set(line.split()[1:])


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "uniform", COUNT),
        ("ask", "cells", "SELECT COUNT(*) FROM t WHERE age < 3"),
        ("show", "uniform"),
    ],
    ids=" ".join,
)
def test_a_release_is_read_without_private_code(home: Path, words: tuple[str, ...]) -> None:
    found = imported(home, *words)
    assert found & (COMPILERS | {"scipy.special", "scumble.private"}) == set()
    assert words[0] == "show" or "rich" not in found


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "uniform", "p.parquet", "-s", "people.toml", "-e", "1", "-o", "u"),
        (
            *("publish", "histogram", "p.parquet", "-s", "people.toml", "-e", "1"),
            *("-a", "age", "--neighbours", "replace", "-o", "h"),
        ),
        ("recommend", "-s", "people.toml", "-a", "age", "--rows", "99", "-e", "1"),
        ("schema", "infer", "p.parquet"),
        ("ask", "asked", "--source", "p.parquet", COUNT),
        ("db", "create", "new", "p.parquet", "-s", "people.toml", "-e", "1", "--noise", "9"),
    ],
    ids=lambda words: " ".join(words[:6]),
)
def test_small_tables_need_no_compiler(home: Path, words: tuple[str, ...]) -> None:
    """Parquet files need no DuckDB; only databases, which read questions, need sqlglot."""
    unneeded = {"scipy.special", "duckdb", "sqlglot"}
    read = {"sqlglot"} if words[0] in ("db", "ask") else set()
    assert imported(home, *words) & (COMPILERS | unneeded) == read


@pytest.mark.parametrize(
    ("words", "families"), [("--list", set()), ("histogram --help", {"histogram"})]
)
def test_methods_are_listed_without_their_code(home: Path, words: str, families: set[str]) -> None:
    """The list comes from the records of the families; a method needs the code of its family."""
    found = imported(home, "publish", *words.split())
    codes = [each.split(".")[2:] for each in found if each.startswith("scumble.families.")]
    assert ["boxes"] in codes
    assert {each[0] for each in codes if "publish" in each} == families
    assert families or {each for each in found if each.startswith("scumble.private")} == set()


def test_plain_values_and_others_are_read_alike(home: Path, tmp_path: Path) -> None:
    """A value that is not plain goes to typer's validators, with their sentences."""
    folder = str(home / "uniform")
    assert run("ask", folder, COUNT, "--level", "0.9").code == 0
    assert run("ask", folder, COUNT, "--level", "9e-1").code == 0
    done = run("ask", folder, COUNT, "--level", "many")
    assert done.code == 2
    assert "must be a number" in done.err


def test_a_path_with_conditions_is_left_to_typer(tmp_path: Path) -> None:
    class Info:
        exists = writable = resolve_path = allow_dash = False
        path_type = None
        file_okay = dir_okay = True

    assert options._path(str(tmp_path), Info()) == tmp_path
    Info.exists = True
    assert options._path(str(tmp_path / "none"), Info()) is None
