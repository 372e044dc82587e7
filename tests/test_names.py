"""The public names, pinned: adding or removing one is a decision."""

from __future__ import annotations

import scumble


def test_public_names() -> None:
    assert scumble.__all__ == [
        "AlphaBeta",
        "Anatomy",
        "Aroma",
        "Attribute",
        "Bins",
        "Boolean",
        "Category",
        "Database",
        "Datacube",
        "Dates",
        "Dawa",
        "DomainError",
        "Estimate",
        "Estimates",
        "Fourier",
        "Frapp",
        "Grid",
        "Guarantee",
        "Hierarchy",
        "Histogram",
        "IntegerRange",
        "Kdtree",
        "Ledger",
        "LedgerError",
        "Marginals",
        "Mosaic",
        "ParameterError",
        "Partition",
        "PrivTree",
        "PromiseError",
        "Quadtree",
        "Query",
        "QueryError",
        "Release",
        "ReleaseError",
        "Schema",
        "SchemaError",
        "ScumbleError",
        "SourceError",
        "Sparse",
        "Subset",
        "Uniform",
        "Wavelet",
        "Workload",
        "__version__",
        "mechanisms",
        "open",
        "primitives",
        "publish",
        "select",
    ]
    assert dir(scumble) == scumble.__all__


def test_every_public_name_is_there() -> None:
    for name in scumble.__all__:
        assert getattr(scumble, name) is not None
