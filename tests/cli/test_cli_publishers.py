"""Every publisher from the command line on real tables: publish, ask, show."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.support.terminal import run

ADULT = "age workclass education marital-status occupation race sex native-country income".split()
ROWS = {
    "uniform": ("--epsilon", "1"),
    "subset": ("--epsilon", "1"),
    "partition": ("--rho1", "0.1", "--rho2", "0.3"),
    "anatomy": ("--l", "5", "--suppress"),
    "aroma": ("--k", "49"),
}
TUPLES = {
    "frapp": ("--reading", "published", "--prior-multiple", "10", "--gamma", "0.2"),
    "alphabeta": ("--prior-multiple", "10", "--gamma", "0.2", "--duplicates", "collapse"),
}


def prepared(folder: Path, lines: list[str], *sensitive: str) -> Path:
    """A table and its schema, with domains that are taken for public."""
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    words = [word for name in sensitive for word in ("--sensitive", name)]
    done = run("schema", "infer", str(folder / "table.csv"), *words, "-o", str(folder / "s.toml"))
    assert done.code == 0, done.err
    text = (folder / "s.toml").read_text()
    kept = [line for line in text.splitlines() if not line.startswith("from_data")]
    (folder / "s.toml").write_text("\n".join(kept))
    return folder


@pytest.fixture(scope="module")
def census(shared_data: Path, tmp_path_factory) -> Path:
    with gzip.open(shared_data / "census_like_kdd_employed.csv.gz", "rt") as file:
        lines = [next(file).rstrip() for _ in range(4_001)]
    return prepared(tmp_path_factory.mktemp("census"), lines, "detailed_occupation_recode")


@pytest.fixture(scope="module")
def adult(shared_data: Path, tmp_path_factory) -> Path:
    with (shared_data / "adult_train_complete_30162.csv").open() as file:
        rows = [next(file).rstrip().split(",") for _ in range(4_001)]
    places = [rows[0].index(name) for name in ADULT]
    lines = [",".join(row[place] for place in places) for row in rows]
    return prepared(tmp_path_factory.mktemp("adult"), lines)


def published(folder: Path, method: str, *words: str) -> Path:
    view = folder / method
    table, schema = str(folder / "table.csv"), str(folder / "s.toml")
    done = run("publish", method, table, "--schema", schema, *words, "-o", str(view))
    assert done.code == 0, done.err
    return view


def checked(view: Path, sql: str, promise: str) -> None:
    asked = run("ask", str(view), sql, "--json")
    assert asked.code == 0, asked.err
    [answer] = json.loads(asked.out)
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert answer["stderr"] > 0
    shown = run("show", str(view))
    assert shown.code == 0, shown.err
    assert promise in " ".join(shown.out.split())


@pytest.mark.parametrize("method", ROWS)
def test_rows(census: Path, method: str) -> None:
    view = published(census, method, *ROWS[method])
    sql = "SELECT COUNT(*) FROM t WHERE detailed_occupation_recode = 2 AND age < 50"
    checked(view, sql, "An attacker who")


@pytest.mark.parametrize("method", TUPLES)
def test_tuples(adult: Path, method: str) -> None:
    view = published(adult, method, *TUPLES[method])
    sql = "SELECT COUNT(*) FROM t WHERE education = 'Bachelors' AND age < 40 AND income = '>50K'"
    checked(view, sql, "An attacker who gave a row at most")
