"""The examples of docs/schema.md and of the docstrings run as they are written."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from scumble.model.schema.schema import Schema

PAGE = Path(__file__).resolve().parents[3] / "docs" / "schema.md"


def test_the_page_runs():
    toml = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert toml is not None
    result = doctest.testfile(
        str(PAGE), module_relative=False, globs={"text": toml[1]}, encoding="utf-8"
    )
    assert result.attempted > 10
    assert result.failed == 0


def test_the_page_names_every_key():
    text = PAGE.read_text(encoding="utf-8")
    for key in (
        "values",
        "ordered",
        "range",
        "edges",
        "by",
        "missing",
        "from_data",
        "role",
        "type",
    ):
        assert f"`{key}" in text or f"{key} = " in text
    for role in ("identifier", "quasi", "sensitive", "insensitive"):
        assert f"| `{role}` |" in text


@pytest.mark.parametrize(
    "module",
    ["model.schema.attribute", "model.schema.cell_keys", "private.tables.infer", "cli.options"],
)
def test_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"scumble.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_what_is_written_is_pleasant_to_read():
    schema = Schema.loads("[attributes.age]\nrole = 'quasi'\ntype = 'integer'\nrange = [0, 120]")
    assert schema.dumps().endswith(
        '\n[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [0, 120]\n'
    )
    assert schema.dumps().startswith("# What each column may hold")
