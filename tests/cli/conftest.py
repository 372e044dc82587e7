"""A small table with its schema and both releases, made once through the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from scumble.demo.census import census
from tests.support.terminal import PEOPLE, run


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with people.parquet, people.csv, people.toml and the releases view and counts."""
    folder = tmp_path_factory.mktemp("cli")
    table, schema = census(PEOPLE)
    pyarrow.parquet.write_table(table, folder / "people.parquet")
    plain = table.cast(pyarrow.schema([(f.name, _plain(f.type)) for f in table.schema]))
    pyarrow.csv.write_csv(plain, folder / "people.csv")
    schema.save(folder / "people.toml")
    source = (folder / "people.parquet", "-s", folder / "people.toml", "--insecure-seed", "1")
    view = run("publish", "uniform", *source, "--epsilon", "2", "-o", folder / "view")
    assert view.code == 0, view.err
    counts = run(
        "publish", "histogram", *source, "-a", "sex, condition", "--neighbours", "add_remove",
        "--epsilon", "1", "-o", folder / "counts",
    )  # fmt: skip
    assert counts.code == 0, counts.err
    return folder


def _plain(kind: pyarrow.DataType) -> pyarrow.DataType:
    return pyarrow.string() if pyarrow.types.is_dictionary(kind) else kind
