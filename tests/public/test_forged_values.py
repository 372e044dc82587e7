"""Files of a release with values that its schema does not have, and checksums that fit.

Taken for the first value of the domain, they would change answers without a word. A file that any
ordinary program wrote is refused when it is opened; one whose metadata lie, when its rows are read.
"""

from __future__ import annotations

import datetime
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import scumble as sc
from scumble.audit.linkage import linkage
from scumble.cli.app import app
from scumble.model.errors import ReleaseError, SourceError
from scumble.model.stored import DAMAGED
from scumble.public.archive import row_values

DAYS = [datetime.date(2024, 1, day) for day in range(1, 9)]
SCHEMA = sc.Schema(
    [
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 7)),
        sc.Attribute("b", "quasi", sc.Bins((0, 5, 10)), missing=True),
        sc.Attribute("c", "quasi", sc.Category([3, 5, 9])),
        sc.Attribute("d", "quasi", sc.Dates(DAYS[0], DAYS[-1])),
        sc.Attribute("m", "quasi", sc.Dates(DAYS[0], datetime.date(2024, 6, 30), by="month")),
        sc.Attribute("s", "sensitive", sc.Category(["x", "y", "z"])),
    ]
)
SMALL = SCHEMA.select(["a", "s"])
PEOPLE = pa.table(
    {
        "a": [0, 1, 2, 3, 4, 5, 6, 7] * 30,
        "b": [1.0, 7.0, None, 4.0] * 60,
        "c": [3, 5, 9] * 80,
        "d": DAYS * 30,
        "m": DAYS * 30,
        "s": ["x", "y", "z", "x"] * 60,
    }
)
STRANGE = [
    ("a", -1),
    ("a", 8),
    ("a", None),
    ("b", 11.0),
    ("b", 3.0),  # not the middle of a bin
    ("b", float("nan")),
    ("c", 4),
    ("d", datetime.date(2024, 1, 9)),
    ("m", datetime.date(2024, 7, 1)),
    ("m", datetime.date(2024, 2, 2)),
    ("s", "w"),
    ("s", " x"),
    ("s", None),
]
MECHANISMS = {
    "records": (sc.Uniform(epsilon=1), 0, "s"),
    "parts": (sc.Partition(rho1=0.2, rho2=0.5), 0, "part"),
    "tuples": (sc.AlphaBeta(epsilon=3, multiplicity=500), 0, "s"),
    "groups": (sc.Anatomy(l=2), 0, "a"),
    "values of groups": (sc.Anatomy(l=2), 1, "s"),
    "cells": (sc.Sparse(["a", "s"], epsilon=20, neighbours="add_remove"), 0, "s"),
}


def forged(
    release: sc.Release, column: str, value: Any, file: int = 0, row: int = 200, **options: Any
) -> sc.Release:
    """The release with another value in one row; it is saved with the checksum of that file."""
    path = Path(release.folder) / release.evidence.files[file]
    table = pq.read_table(path)
    kind = pa.string() if isinstance(value, str) else table.schema.field(column).type
    values = table[column].to_pylist()
    values[min(row, len(values) - 1)] = value
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array(values, kind)), path, **options)
    return release


def uniform() -> sc.Release:
    return sc.publish(PEOPLE, SCHEMA, sc.Uniform(epsilon=1))


def small() -> sc.Release:
    return sc.publish(PEOPLE.select(["a", "s"]), SMALL, sc.Uniform(epsilon=1))


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch) -> None:
    """Small files are read whole, large ones by their metadata."""
    if request.param == "large":
        monkeypatch.setattr(row_values, "SMALL", -1)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"use_dictionary": False}])
def test_values_outside_their_domain(
    options: Any, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for place, (column, value) in enumerate(STRANGE):
        with subtests.test(column=column, value=value):
            release = forged(uniform(), column, value, row_group_size=70, **options)
            release.save(tmp_path / str(place))
            sentence = rf"has values of '{column}' that the schema does not"
            with pytest.raises(ReleaseError, match=sentence):
                sc.open(tmp_path / str(place))


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("options", [{}, {"write_statistics": False}, {"use_dictionary": False}])
def test_other_values_are_read(options: Any, tmp_path) -> None:
    forged(uniform(), "s", "x", row_group_size=70, **options).save(tmp_path / "view")
    assert sc.open(tmp_path / "view").answer("SELECT COUNT(*) FROM t").value == 240
    none = sc.publish(PEOPLE.slice(0, 0), SCHEMA, sc.Uniform(epsilon=1))
    none.save(tmp_path / "none")
    assert sc.open(tmp_path / "none").evidence.rows == 0


# The metadata of `s`, a column of byte arrays, give it a type that does not exist.
STRANGE_TYPE = b"\x15\x0c\x19", b"\x15\x1c\x19"
# The schema of the file says that `s` has a value in every row, and its column has levels for them.
STRANGE_LEVELS = b"%\x02\x18\x01s", b"%\x00\x18\x01s"
# The schema says that `s` may lack values, and its column has no levels.
NO_LEVELS = STRANGE_LEVELS[::-1]


def contradict(path: Path, change: tuple[bytes, bytes]) -> None:
    """Change the metadata of a Parquet file so that Arrow's reader of metadata ends the process."""
    before = path.read_bytes()
    assert before.count(change[0]) == 1
    path.write_bytes(before.replace(*change))


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("change", [STRANGE_TYPE, STRANGE_LEVELS, NO_LEVELS])
def test_metadata_that_contradict_each_other(change, tmp_path) -> None:
    """The file is refused, or answers as before if nothing that is needed was changed."""
    release = uniform()
    path = Path(release.folder) / release.evidence.file
    question = "SELECT COUNT(*) FROM t WHERE s = 'x' AND a > 3"
    answer = release.answer(question)
    if change is STRANGE_LEVELS:  # earlier builds wrote all columns as if values could be missing
        table = pq.read_table(path)
        fields = [field.with_nullable(True) for field in table.schema]
        pq.write_table(table.cast(pa.schema(fields)), path, store_schema=False)
    contradict(path, change)
    release.save(tmp_path / "view")
    try:
        found = sc.open(tmp_path / "view").answer(question)
    except ReleaseError:
        return
    assert found.value == answer.value


def test_a_table_with_metadata_that_contradict_each_other(tmp_path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(PEOPLE, path)
    contradict(path, STRANGE_LEVELS)
    with pytest.raises(SourceError, match="cannot be read"):
        sc.publish(path, SCHEMA, sc.Uniform(epsilon=1))


def test_a_column_of_another_type(tmp_path) -> None:
    release = uniform()
    path = Path(release.folder) / release.evidence.file
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "a", table["a"].cast(pa.string())), path)
    release.save(tmp_path / "view")
    with pytest.raises(ReleaseError, match="has values of 'a' that the schema does not have"):
        sc.open(tmp_path / "view")


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_kind_of_rows(name: str, tmp_path) -> None:
    mechanism, file, column = MECHANISMS[name]
    release = sc.publish(PEOPLE.select(["a", "s"]), SMALL, mechanism)
    value = "w" if column == "s" else 99
    forged(release, column, value, file).save(tmp_path / "view")
    with pytest.raises(ReleaseError, match=rf"has values of '{column}' that the schema does not"):
        sc.open(tmp_path / "view")


@pytest.mark.parametrize("system", ["sqlite", "postgresql"])
def test_releases_in_databases(system: str, tmp_path, request) -> None:
    if system == "sqlite":
        pytest.importorskip("adbc_driver_sqlite", reason="needs scumble[postgres]")
        place = f"sqlite:///{tmp_path}/views.db/view"
    else:
        place = request.getfixturevalue("postgresql").table("forged")
    forged(small(), "s", "w").save(place)
    with pytest.raises(ReleaseError, match="has values of 's' that the schema does not have"):
        sc.open(place)


@pytest.mark.parametrize("command", [["ask", "SELECT COUNT(*) FROM t"], ["show"], ["audit"]])
def test_commands(command: list[str], tmp_path) -> None:
    forged(small(), "s", "w").save(tmp_path / "view")
    [verb, *rest] = command
    done = CliRunner().invoke(app, [verb, str(tmp_path / "view"), *rest])
    assert done.exit_code == 6
    assert "has values of 's' that the schema does not have" in " ".join(done.output.split())


# Released here and never opened, as a file is whose metadata lie.

COUNTS = [f"SELECT s, COUNT(*) FROM t WHERE a < {n} GROUP BY s" for n in range(1, 9)]


def test_readers_of_rows(subtests: pytest.Subtests) -> None:
    for many, name in product(
        [False, True], ["records", "tuples", "groups", "values of groups", "cells"]
    ):
        with subtests.test(many=many, name=name):
            mechanism, file, column = MECHANISMS[name]
            release = sc.publish(PEOPLE.select(["a", "s"]), SMALL, mechanism)
            forged(release, column, "w" if column == "s" else 99, file)
            with pytest.raises(ReleaseError, match=DAMAGED):
                release.answer_many(COUNTS) if many else release.answer(COUNTS[-1])


@pytest.mark.parametrize("name", ["records", "groups"])
def test_audits(name: str) -> None:
    mechanism, file, column = MECHANISMS[name]
    release = sc.publish(PEOPLE.select(["a", "s"]), SMALL, mechanism)
    with pytest.raises(ReleaseError, match=DAMAGED):
        linkage(forged(release, column, "w" if column == "s" else 99, file))
