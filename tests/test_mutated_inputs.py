"""Mutated manifests, schemas, CSV and Parquet files and SQL texts: an answer or a `ScumbleError`.

Each case is made from its number as the seed, so that a failure can be made again: the assertion
names kind and seed. `make test` runs a few hundred cases, `make test-slow` 10,000.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.errors import ScumbleError
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Rows
from scumble.public import limits
from scumble.public.archive.archive import MANIFEST, _digest_of_json, digest
from scumble.public.release import Release
from tests.support import people

SCHEMA = people.schema()
TABLE = people.people(120, SCHEMA)
QUESTIONS = [
    "SELECT COUNT(*) FROM t WHERE age BETWEEN 2 AND 5 AND job = 'cook'",
    "SELECT sex, AVG(age) FROM t WHERE NOT job IN ('nurse', 'smith') GROUP BY sex",
    "SELECT SUM(CASE WHEN age > 3 THEN age * 2 ELSE 0 END) FROM t WHERE sex LIKE 'f%'",
    "SELECT COUNT(*) FROM t WHERE lower(job) || repeat('x', 3) = 'cookxxx' OR age IS NULL",
]
WORDS = [
    *(
        "SELECT",
        "COUNT(*)",
        "FROM",
        "t",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        ",",
        "'",
        '"',
        "--",
    ),
    *("/*", "*/", ";", "age", "sex", "job", "NULL", "1e308", "9" * 40, "::INTEGER", "CASE", "END"),
    *("GROUP BY", "HAVING", "LIMIT", "repeat('x', 99999)", "levenshtein(job, sex)", "[1, 2]", "{"),
    *("\x00", "\x1b", "\ud800", "\u202e", "INTERVAL 3 DAY", "DATE '2020-02-30'", "/ 0", "^", "->"),
    *("IN (SELECT 1)", "read_text('/etc/passwd')", "OVER ()", "@", "$1", "?", "%", "<<", "||"),
]
VALUES: list[Any] = [
    *(None, True, -1, 0, 1.5, 10**30, 1e308, -0.0, "", "1/0", "1e999999999", "nan", "-1/2", "2"),
    *("\x1b", "../x", "x" * 5000, [], {}, [[]], {"kind": "x"}, [1, "a", None], "records.parquet"),
]


def mutated_text(text: str, draw: random.Random, words: list[str]) -> str:
    """Return a text with a few parts deleted, doubled, moved or replaced."""
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(text) + 1)
        end = min(len(text), start + draw.choice([0, 1, 1, 2, 5, 20]))
        piece = text[start:end]
        new = draw.choice(
            [
                "",
                piece * 2,
                piece[::-1],
                draw.choice(words),
                f" {draw.choice(words)} ",
                chr(draw.randrange(1, 0xD7FF)),
            ]
        )
        text = text[:start] + new + text[end:]
    return text * draw.choice([1, 1, 1, 1, 2])


def mutated_bytes(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with a few of them changed, cut out or put in."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        place = draw.randrange(len(found) + 1)
        match draw.randrange(4):
            case 0:
                found[place : place + 1] = bytes([draw.randrange(256)])
            case 1:
                del found[place : place + draw.choice([1, 1, 4, 100])]
            case 2:
                found[place:place] = draw.randbytes(draw.choice([1, 4, 50]))
            case _:
                found[place : place + 4] = draw.choice(
                    [b"\xff" * 4, b"\0" * 4, b"\n\r\n\r", b'"",,']
                )
    return bytes(found)


def mutated_parquet(data: bytes, draw: random.Random) -> bytes:
    """Return a Parquet file with some bytes changed, in half of the cases in its metadata only."""
    if draw.random() < 0.5:
        return mutated_bytes(data, draw)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = bytearray(data[start:-8])
    for _ in range(draw.randint(1, 3)):
        footer[draw.randrange(len(footer))] = draw.randrange(256)
    return data[:start] + bytes(footer) + data[-8:]


def mutate_values(value: Any, draw: random.Random) -> None:
    """Change one item somewhere in JSON values."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = draw.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.75:
            value = inner
            continue
        match draw.randrange(4):
            case 0 if isinstance(value, dict):
                del value[key]
            case 1 if isinstance(value, list):
                value.append(inner)
            case _:
                value[key] = draw.choice(VALUES)
        return


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> list[Path]:
    """One release of every kind of evidence."""
    place = tmp_path_factory.mktemp("releases")
    names = ["age", "sex", "job"]
    made = {
        "records": sc.Uniform(epsilon=1),
        "bags": sc.Aroma(k=5),
        "split": sc.Partition(rho1=0.4, rho2=0.6),
        "groups": sc.Anatomy(l=2),
        "generalised": sc.Generalise(k=3),
        "tuples": sc.Frapp(gamma=19),
        "cells": sc.Histogram(names, epsilon=1, neighbours="replace"),
        "product": sc.Hierarchy(names, epsilon=1, neighbours="replace"),
        "regions": sc.PrivTree(["age"], epsilon=1, neighbours="add_remove"),
        "residuals": sc.Marginals(names, epsilon=1, neighbours="replace", ways=1),
    }
    found = []
    for name, mechanism in made.items():
        found.append(sc.publish(TABLE, SCHEMA, mechanism).save(place / name))
    return found


def manifest_case(releases: list[Path], place: Path, draw: random.Random) -> None:
    """Open and ask a release with a mutated manifest, with or without its right checksum."""
    source = draw.choice(releases)
    data = json.loads((source / MANIFEST).read_text())
    data.pop("checksum")
    for _ in range(draw.choice([1, 1, 2])):
        mutate_values(data, draw)
    data["checksum"] = _digest_of_json(data)
    text = json.dumps(data)
    if draw.random() < 0.2:
        text = mutated_text(text, draw, ["[" * 1000, "{", "}", "1e999", "NaN", '"', ","])
    for path in source.glob("*.parquet"):
        (place / path.name).write_bytes(path.read_bytes())
    (place / MANIFEST).write_bytes(text.encode("utf-8", "surrogatepass"))
    ask(sc.open(place), draw)


def data_case(releases: list[Path], place: Path, draw: random.Random) -> None:
    """Open and ask a release whose Parquet file is mutated and has the right checksum."""
    source = draw.choice(releases)
    data = json.loads((source / MANIFEST).read_text())
    data.pop("checksum")
    for name in data["files"]:
        (place / name).write_bytes(mutated_parquet((source / name).read_bytes(), draw))
        data["files"][name] = digest(place / name)
    data["checksum"] = _digest_of_json(data)
    (place / MANIFEST).write_text(json.dumps(data))
    ask(sc.open(place), draw)


def ask(release: Release, draw: random.Random) -> None:
    answer = release.answer(draw.choice(QUESTIONS))
    assert str(answer)


def schema_case(_: list[Path], place: Path, draw: random.Random) -> None:
    """Read a mutated schema, as TOML or as JSON values."""
    if draw.random() < 0.5:
        words = ["[attributes.x]\n", "values = [", "]" * 50, "[" * 500, "1e999", "'", "role", "="]
        path = place / "s.toml"
        text = mutated_text(SCHEMA.dumps(), draw, words)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        sc.Schema.load(path)
    else:
        data = json.loads(json.dumps(SCHEMA.to_dict()))
        mutate_values(data, draw)
        assert repr(sc.Schema.from_dict(data))


def csv_case(_: list[Path], place: Path, draw: random.Random) -> None:
    """Read a mutated CSV file."""
    rows = zip(*(TABLE.column(name).to_pylist() for name in TABLE.column_names), strict=True)
    lines = [TABLE.column_names, *([str(each) for each in row] for row in rows)]
    mark = draw.choice(",;\t|")
    text = "\n".join(mark.join(line) for line in lines) + "\n"
    path = place / draw.choice(["t.csv", "t.csv", "t.csv.gz"])
    path.write_bytes(mutated_bytes(text.encode(), draw))
    read_rows(path)


def parquet_case(_: list[Path], place: Path, draw: random.Random) -> None:
    """Read a mutated Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, row_group_size=draw.choice([7, 50, 1000]))
    path = place / "t.parquet"
    path.write_bytes(mutated_parquet(sink.getvalue().to_pybytes(), draw))
    read_rows(path)


def read_rows(path: Path) -> None:
    for _ in Rows(open_source(str(path)), SCHEMA).batches(SCHEMA.names):
        pass


def sql_case(releases: list[Path], _: Path, draw: random.Random) -> None:
    """Ask a mutated question."""
    release = opened(draw.choice(releases[:4]))
    text = mutated_text(draw.choice(QUESTIONS), draw, WORDS)
    if draw.random() < 0.02:
        text = f"SELECT COUNT(*) FROM t WHERE {'(' * 2000}age > 3{')' * 2000}"
    assert str(release.answer(text))


OPENED: dict[Path, Any] = {}


def opened(folder: Path) -> Release:
    found: Release = OPENED.get(folder) or sc.open(folder)
    OPENED[folder] = found
    return found


Case = Callable[[list[Path], Path, random.Random], None]
CASES: dict[str, tuple[Case, int]] = {  # and how many cases of 10,000
    "manifest": (manifest_case, 2500),
    "data": (data_case, 1000),
    "schema": (schema_case, 2000),
    "csv": (csv_case, 1500),
    "parquet": (parquet_case, 1000),
    "sql": (sql_case, 2000),
}


def run_cases(kind: str, seeds: range, releases: list[Path], place: Path) -> None:
    """Run the cases of these seeds; fail with all that did not end in an answer or ScumbleError."""
    case, _ = CASES[kind]
    failures = []
    for seed in seeds:
        folder = place / f"{seed}"
        folder.mkdir()
        try:
            case(releases, folder, random.Random(f"{kind} {seed}"))
        except ScumbleError:
            pass
        except Exception as error:
            failures.append(f"{kind} {seed}: {type(error).__name__}: {str(error)[:100]}")
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kind", CASES)
def test_a_few_mutated_inputs(kind, releases, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(limits.SECONDS, "10")
    run_cases(kind, range(60), releases, tmp_path)


@pytest.mark.parametrize(
    "share", [pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("kind", CASES)
def test_many_mutated_inputs(kind, share, releases, tmp_path, monkeypatch) -> None:
    """A quarter of the cases in the slow tests, all in the soak tests."""
    monkeypatch.setenv(limits.SECONDS, "10")
    run_cases(kind, range(CASES[kind][1] // share), releases, tmp_path)
