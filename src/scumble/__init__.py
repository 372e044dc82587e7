"""scumble: publish tables about people, and answer questions about them, with privacy and error
stated exactly.

import scumble as sc

schema = sc.Schema.load("people.toml")
release = sc.publish("people.csv", schema, sc.Uniform(epsilon=1))
release.answer("SELECT COUNT(*) FROM people WHERE age > 30 AND occupation = 'Sales'")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scumble._version import __version__
from scumble.errors import (
    DomainError,
    LedgerError,
    ParameterError,
    PromiseError,
    QueryError,
    ReleaseError,
    SchemaError,
    ScumbleError,
    SourceError,
)

if TYPE_CHECKING:
    from scumble.attribute import Attribute
    from scumble.database.database import Database
    from scumble.estimate import Estimate, Estimates
    from scumble.guarantee import Guarantee
    from scumble.kinds import Bins, Boolean, Category, Dates, IntegerRange
    from scumble.ledgers.ledger import Ledger
    from scumble.mechanism import mechanisms
    from scumble.owner import open
    from scumble.publishers.alphabeta import AlphaBeta
    from scumble.publishers.anatomy import Anatomy
    from scumble.publishers.aroma import Aroma
    from scumble.publishers.frapp import Frapp
    from scumble.publishers.partition import Partition
    from scumble.publishers.subset import Subset
    from scumble.publishers.uniform import Uniform
    from scumble.publishing import publish
    from scumble.query import Query
    from scumble.release import Release
    from scumble.releases.datacube import Datacube
    from scumble.releases.dawa import Dawa
    from scumble.releases.fourier import Fourier
    from scumble.releases.grid import Grid
    from scumble.releases.hierarchy import Hierarchy
    from scumble.releases.histogram import Histogram
    from scumble.releases.kdtree import Kdtree
    from scumble.releases.marginals import Marginals
    from scumble.releases.mosaic import Mosaic
    from scumble.releases.privtree import PrivTree
    from scumble.releases.quadtree import Quadtree
    from scumble.releases.selection import select
    from scumble.releases.sparse import Sparse
    from scumble.releases.wavelet import Wavelet
    from scumble.releases.workload import Workload
    from scumble.schema import Schema

# Names are fetched when they are first used, so that `import scumble` and the command line start at
# once.
_HOME = {
    "AlphaBeta": "publishers.alphabeta",
    "Anatomy": "publishers.anatomy",
    "Aroma": "publishers.aroma",
    "Attribute": "attribute",
    "Bins": "kinds",
    "Boolean": "kinds",
    "Category": "kinds",
    "Database": "database.database",
    "Datacube": "releases.datacube",
    "Dates": "kinds",
    "Dawa": "releases.dawa",
    "Estimate": "estimate",
    "Estimates": "estimate",
    "Fourier": "releases.fourier",
    "Frapp": "publishers.frapp",
    "Grid": "releases.grid",
    "Guarantee": "guarantee",
    "Hierarchy": "releases.hierarchy",
    "Histogram": "releases.histogram",
    "IntegerRange": "kinds",
    "Kdtree": "releases.kdtree",
    "Ledger": "ledgers.ledger",
    "Marginals": "releases.marginals",
    "Mosaic": "releases.mosaic",
    "Partition": "publishers.partition",
    "PrivTree": "releases.privtree",
    "Quadtree": "releases.quadtree",
    "Query": "query",
    "Release": "release",
    "Schema": "schema",
    "Sparse": "releases.sparse",
    "Subset": "publishers.subset",
    "Uniform": "publishers.uniform",
    "Wavelet": "releases.wavelet",
    "Workload": "releases.workload",
    "mechanisms": "mechanism",
    "open": "owner",
    "publish": "publishing",
    "select": "releases.selection",
}

__all__ = [
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
    "publish",
    "select",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'scumble' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    value = getattr(import_module(f"scumble.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
