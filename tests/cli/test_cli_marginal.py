"""Releases of marginals from the command line: publish, ask, write whole tables."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.people import people, schema
from tests.support.terminal import run

WHO = ("--neighbours", "add_remove", "--epsilon", "1", "--insecure-seed", "1")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    """A folder with a table, its schema, and the release `pairs`."""
    folder = tmp_path_factory.mktemp("marginals")
    domain = schema()
    pq.write_table(people(2000, domain), folder / "people.parquet")
    domain.save(folder / "people.toml")
    done = _publish(
        folder, "pairs", "marginals", "-a", "age,sex,job", "--ways", "2", "--delta", "1e-9"
    )
    assert done.code == 0, done.err
    return folder


def _publish(folder: Path, name: str, method: str, *words: str):
    table, domain = folder / "people.parquet", folder / "people.toml"
    return run("publish", method, table, "-s", domain, *words, *WHO, "-o", folder / name)


def test_a_marginal_as_csv(pairs: Path) -> None:
    done = run("release", "marginal", pairs / "pairs", "sex,job", "--nonnegative", "--integers")
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 10
    assert rows[0] == {"sex": "f", "job": "cook", "count": rows[0]["count"]}
    assert 1900 < sum(int(row["count"]) for row in rows) < 2100


def test_a_marginal_as_json_and_files(pairs: Path) -> None:
    done = run("release", "marginal", pairs / "pairs", "job", "--json")
    assert [row["job"] for row in done.json][:2] == ["cook", "driver"]
    for name in ("table.parquet", "table.csv"):
        written = pairs / name
        assert run("release", "marginal", pairs / "pairs", "job", "-o", written).code == 0
        refused = run("release", "marginal", pairs / "pairs", "job", "-o", written)
        assert refused.code == 6
        assert "already exists" in refused.err
        assert (
            run("release", "marginal", pairs / "pairs", "job", "-o", written, "--force").code == 0
        )
    assert pq.read_table(pairs / "table.parquet").num_rows == 5


def test_what_is_not_there_is_said(pairs: Path) -> None:
    done = run("release", "marginal", pairs / "pairs", "age,sex,job")
    assert done.code != 0
    assert "ties age, sex, job together" in done.err
    assert "no column 'height'" in run("release", "marginal", pairs / "pairs", "height").err


def test_lists_of_sets(pairs: Path) -> None:
    words = ("-a", "age,sex,job", "--sets", "age,sex", "--sets", "job", "--weights", "1,2.5")
    done = _publish(pairs, "listed", "marginals", *words)
    assert done.code == 0, done.err
    shown = run("show", pairs / "listed", "--json").json
    assert shown["parameters"]["sets"] == [["age", "sex"], ["job"]]
    assert shown["parameters"]["weights"] == [1.0, 2.5]
    wrong = _publish(pairs, "wrong", "marginals", *words[:-1], "1,much")
    assert "--weights must be" in wrong.err


def test_a_cube_and_its_bound(pairs: Path) -> None:
    done = _publish(pairs, "cube", "datacube", "-a", "age,sex,job", "--within", "30")
    assert done.code == 0, done.err
    asked = "SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'f' AND job = 'cook'"
    assert run("ask", pairs / "cube", asked).code == 0
    fourier = _publish(pairs, "signs", "fourier", "-a", "sex", "--ways", "1")
    assert fourier.code == 0, fourier.err
