"""The public names, pinned: adding or removing one is a decision."""

from __future__ import annotations

from pathlib import Path

import pytest

import scumble
from scumble.families import class_names, families
from tests.support.stubs import stub_text


def test_public_names() -> None:
    """All mechanisms, and these names."""
    others = [
        "ALL",
        "Unit",
        "AskOptions",
        "Attribute",
        "BinnedNumber",
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
        "LiveDatabase",
        "Number",
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
        "classic",
        "combine",
        "connect",
        "counts",
        "lists",
        "mechanisms",
        "open",
        "primitives",
        "private_limits",
        "publish",
        "publish_linked",
        "recommend",
        "rows",
        "synthetic",
    ]
    assert scumble.__all__ == sorted([*others, *class_names()])
    listed = set(class_names()).intersection(dir(scumble))
    assert listed == {
        *("Baskets", "Hierarchy", "Histogram", "Keys", "Marginals", "Sequences", "Subset"),
        "Synthesis",
    }
    assert set(scumble.__all__) - set(dir(scumble)) == set(class_names()) - listed


@pytest.mark.parametrize("use", ["rows", "counts", "synthetic", "lists", "classic"])
def test_mechanisms_are_in_the_module_of_their_use(use: str) -> None:
    module = getattr(scumble, use)
    wanted = {
        kind
        for family in families().values()
        if family.use == use
        for kind in family.mechanisms.values()
    }
    assert set(module.__all__) == wanted
    assert all(getattr(module, name) is getattr(scumble, name) for name in wanted)


def test_every_public_name_is_there() -> None:
    for name in scumble.__all__:
        assert getattr(scumble, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    stub = Path(scumble.__file__).with_suffix(".pyi")
    assert stub.read_text("utf-8") == stub_text(), "run `make options`"
