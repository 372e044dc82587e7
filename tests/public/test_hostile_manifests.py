"""Manifests and schemas made to hurt: one `ReleaseError` or `SchemaError`, at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from scumble.model.errors import ReleaseError, SchemaError
from scumble.model.stored import fraction
from scumble.public.archive.archive import MANIFEST, _digest_of_json
from tests.support import people


@pytest.fixture
def release(tmp_path) -> Path:
    schema = people.schema()
    mechanism = sc.Uniform(epsilon=1)
    folder: Path = sc.publish(people.people(200, schema), schema, mechanism).save(tmp_path / "r")
    return folder


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and give it the checksum of its new content."""
    data = json.loads((folder / MANIFEST).read_text())
    data.pop("checksum")
    change(data)
    data["checksum"] = _digest_of_json(data)
    (folder / MANIFEST).write_text(json.dumps(data))


def channel(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["evidence"]["channels"][0]
    return found


def promise(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["guarantees"][0]
    return found


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a huge exponent": lambda d: channel(d).update(keep="1e999999999"),
    "a small exponent": lambda d: channel(d).update(keep="1e-999999999"),
    "a long number": lambda d: channel(d).update(keep="0." + "1" * 100_000),
    "division by 0": lambda d: channel(d).update(keep="1/0"),
    "a negative keep": lambda d: channel(d).update(keep="-1/2"),
    "a keep above 1": lambda d: channel(d).update(keep="2"),
    "a keep that is a list": lambda d: channel(d).update(keep=["1/2"]),
    "epsilon that is not a number": lambda d: promise(d)["parameters"].update(epsilon=float("nan")),
    "an infinite epsilon": lambda d: promise(d)["parameters"].update(epsilon=float("inf")),
    "epsilon as text": lambda d: promise(d)["parameters"].update(epsilon="1"),
    "a scope of its own": lambda d: promise(d).update(scope="everything"),
    "a sentence that is a number": lambda d: promise(d).update(sentence=1),
    "limits as text": lambda d: promise(d).update(limits="none"),
    "no guarantees": lambda d: d.update(guarantees=[]),
    "guarantees as a table": lambda d: d.update(guarantees={}),
    "seeded as text": lambda d: d.update(seeded="no"),
    "outside as a list": lambda d: d.update(outside=[]),
    "a report that is a list": lambda d: d.update(report=[1]),
    "a mechanism that is a number": lambda d: d.update(mechanism=3),
    "negative rows": lambda d: d["evidence"].update(rows=-1),
    "rows as a float": lambda d: d["evidence"].update(rows=1.5),
    "a column that the schema lacks": lambda d: d["evidence"]["columns"].append("more"),
    "no columns": lambda d: d["evidence"].update(columns=[]),
    "a file outside": lambda d: d["evidence"].update(file="../other.parquet"),
    "files as a list": lambda d: d.update(files=[["records.parquet", "0"]]),
    "a deep report": lambda d: d.update(report={"x": nested(500)}),
    "an evidence of no kind": lambda d: d["evidence"].update(kind=["records"]),
    "a schema with control characters": lambda d: d["schema"]["attributes"][0].update(name="a\x1b"),
}


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def test_a_manifest_that_is_not_one_is_refused(release, subtests: pytest.Subtests) -> None:
    manifest = (release / MANIFEST).read_text()
    for name, change in CHANGES.items():
        (release / MANIFEST).write_text(manifest)
        assert sc.open(release).evidence.rows == 200
        rewrite(release, change)
        with subtests.test(name), pytest.raises(ReleaseError, match="is damaged"):
            sc.open(release)


@pytest.mark.parametrize("rows", [1, 199, 201, 10**6])
def test_a_number_of_rows_that_sparse_cells_do_not_have_is_refused(tmp_path, rows) -> None:
    schema = people.schema()
    names = list(schema.names[:2])
    mechanism = sc.Sparse(names, epsilon=1, neighbours="replace")
    table = people.people(200, schema).select(names)
    folder = sc.publish(table, schema.select(names), mechanism).save(tmp_path / "r")
    assert sc.open(folder).answer("SELECT COUNT(*) FROM t").value == 200
    rewrite(folder, lambda data: data["evidence"].update(rows=rows))
    with pytest.raises(ReleaseError, match="is damaged"):
        sc.open(folder)
    rewrite(folder, lambda data: data["evidence"].update(rows=200))
    noise = {"kind": "discrete laplace", "scale": "1"}
    rewrite(folder, lambda data: data["evidence"]["design"].update({"total noise": noise}))
    with pytest.raises(ReleaseError, match="is damaged"):
        sc.open(folder)


def test_a_manifest_that_is_no_table_is_refused(release, subtests: pytest.Subtests) -> None:
    for text in ["[" * 200_000, '{"a":' * 200_000, "1" * 1_000_000, "", "[]", "3"]:
        (release / MANIFEST).write_text(text)
        with subtests.test(text=text[:20]), pytest.raises(ReleaseError):
            sc.open(release)


def test_a_link_to_a_device_is_refused(release) -> None:
    (release / MANIFEST).unlink()
    (release / MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(ReleaseError, match="no readable"):
        sc.open(release)


def test_a_pipe_is_refused(release) -> None:
    (release / MANIFEST).unlink()
    os.mkfifo(release / MANIFEST)
    with pytest.raises(ReleaseError, match="no readable"):
        sc.open(release)


def test_linked_data_are_refused(release, tmp_path) -> None:
    [data] = release.glob("*.parquet")
    data.rename(tmp_path / "elsewhere.parquet")
    data.symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(ReleaseError, match="is a link or no ordinary file"):
        sc.open(release)


@pytest.mark.parametrize(
    "text",
    [
        "format = 1\n[attributes.a]\nrole = 'quasi'\ntype = 'category'\nvalues = "
        + "[" * 5000
        + "]" * 5000,
        "a" + ".a" * 5000 + " = 1",
        "format = 1" + "1" * 10_000,
    ],
)
def test_a_deep_schema_is_refused(text) -> None:
    with pytest.raises(SchemaError):
        sc.Schema.loads(text)


def test_exact_numbers_are_read_with_limits(subtests: pytest.Subtests) -> None:
    for text in ["1e500", "1e99999", "1/0", "nan", "inf", "0x1", "1" * 30_000, ""]:
        with subtests.test(text=text), pytest.raises(ValueError, match=r".+"):
            fraction(text)


def test_exact_numbers_are_read(subtests: pytest.Subtests) -> None:
    for text in ["1/3", "0.25", "-2", ".5", "1e-300", "2."]:
        with subtests.test(text=text):
            assert isinstance(fraction(text), type(fraction(1)))


@pytest.mark.parametrize("epsilon", ["1e999999999", "1/0", "1e-999999999"])
def test_numbers_of_users_are_read_with_the_same_limits(epsilon, tmp_path) -> None:
    with pytest.raises(ValueError, match=r".+"):
        sc.Uniform(epsilon=epsilon)
    with pytest.raises(sc.ParameterError):
        sc.Ledger.create(tmp_path / "l", neighbours="replace", epsilon=epsilon)


def test_a_number_of_rows_that_is_none_is_refused(tmp_path, subtests: pytest.Subtests) -> None:
    schema = people.schema()
    mechanism = sc.Histogram(["sex"], epsilon=1, neighbours="replace")
    folder = sc.publish(people.people(60, schema), schema, mechanism).save(tmp_path / "r")
    for rows in (-1, (1 << 53) + 1, "60", True, [60], 61.5, {"n": 1}):
        rewrite(folder, lambda data, rows=rows: data["evidence"].update(rows=rows))
        with subtests.test(rows=rows), pytest.raises(ReleaseError):
            sc.open(folder)
