"""The public names, pinned: adding or removing one is a decision."""

from __future__ import annotations

from pathlib import Path

import scumble
from scumble.families import class_names
from tests.support.stubs import stub_text


def test_public_names() -> None:
    """All mechanisms, and these names."""
    others = [
        "ALL",
        "Unit",
        "Attribute",
        "Bins",
        "Boolean",
        "Category",
        "Database",
        "Dates",
        "DomainError",
        "Estimate",
        "EstimateTable",
        "Estimates",
        "Guarantee",
        "IntegerRange",
        "Ledger",
        "LedgerError",
        "OutputExistsError",
        "ParameterError",
        "PromiseError",
        "PublishOptions",
        "Query",
        "QueryError",
        "Release",
        "ReleaseError",
        "Schema",
        "SchemaError",
        "ScumbleError",
        "SourceError",
        "Spark",
        "Spelling",
        "Table",
        "__version__",
        "connect",
        "mechanisms",
        "open",
        "primitives",
        "publish",
        "publish_linked",
        "recommend",
    ]
    assert scumble.__all__ == sorted([*others, *class_names()])
    assert dir(scumble) == scumble.__all__


def test_every_public_name_is_there() -> None:
    for name in scumble.__all__:
        assert getattr(scumble, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    stub = Path(scumble.__file__).with_suffix(".pyi")
    assert stub.read_text("utf-8") == stub_text(), "run `make options`"
