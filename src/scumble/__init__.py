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
from scumble.model.errors import (
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
    from scumble.compare.selection import select
    from scumble.model.privacy.guarantee import Guarantee
    from scumble.model.query import Query
    from scumble.model.schema.attribute import Attribute
    from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
    from scumble.model.schema.schema import Schema
    from scumble.private import primitives
    from scumble.private.database.database import Database
    from scumble.private.ledger.ledger import Ledger
    from scumble.private.mechanism import mechanisms
    from scumble.private.owner import open_release as open
    from scumble.private.perturbation.alphabeta import AlphaBeta
    from scumble.private.perturbation.anatomy import Anatomy
    from scumble.private.perturbation.aroma import Aroma
    from scumble.private.perturbation.frapp import Frapp
    from scumble.private.perturbation.partition import Partition
    from scumble.private.perturbation.subset import Subset
    from scumble.private.perturbation.uniform import Uniform
    from scumble.private.publish import publish
    from scumble.private.summaries.datacube import Datacube
    from scumble.private.summaries.fourier import Fourier
    from scumble.private.summaries.hierarchy import Hierarchy
    from scumble.private.summaries.histogram import Histogram
    from scumble.private.summaries.marginals import Marginals
    from scumble.private.summaries.sparse import Sparse
    from scumble.private.summaries.trees.dawa import Dawa
    from scumble.private.summaries.trees.grid import Grid
    from scumble.private.summaries.trees.kdtree import Kdtree
    from scumble.private.summaries.trees.mosaic import Mosaic
    from scumble.private.summaries.trees.privtree import PrivTree
    from scumble.private.summaries.trees.quadtree import Quadtree
    from scumble.private.summaries.wavelet import Wavelet
    from scumble.private.summaries.workload import Workload
    from scumble.public.estimate import Estimate, Estimates
    from scumble.public.release import Release

# Names are fetched when they are first used, so that `import scumble` and the command line start at
# once.
_HOME = {
    "AlphaBeta": "private.perturbation.alphabeta",
    "Anatomy": "private.perturbation.anatomy",
    "Aroma": "private.perturbation.aroma",
    "Attribute": "model.schema.attribute",
    "Bins": "model.schema.domains",
    "Boolean": "model.schema.domains",
    "Category": "model.schema.domains",
    "Database": "private.database.database",
    "Datacube": "private.summaries.datacube",
    "Dates": "model.schema.domains",
    "Dawa": "private.summaries.trees.dawa",
    "Estimate": "public.estimate",
    "Estimates": "public.estimate",
    "Fourier": "private.summaries.fourier",
    "Frapp": "private.perturbation.frapp",
    "Grid": "private.summaries.trees.grid",
    "Guarantee": "model.privacy.guarantee",
    "Hierarchy": "private.summaries.hierarchy",
    "Histogram": "private.summaries.histogram",
    "IntegerRange": "model.schema.domains",
    "Kdtree": "private.summaries.trees.kdtree",
    "Ledger": "private.ledger.ledger",
    "Marginals": "private.summaries.marginals",
    "Mosaic": "private.summaries.trees.mosaic",
    "Partition": "private.perturbation.partition",
    "PrivTree": "private.summaries.trees.privtree",
    "Quadtree": "private.summaries.trees.quadtree",
    "Query": "model.query",
    "Release": "public.release",
    "Schema": "model.schema.schema",
    "Sparse": "private.summaries.sparse",
    "Subset": "private.perturbation.subset",
    "Uniform": "private.perturbation.uniform",
    "Wavelet": "private.summaries.wavelet",
    "Workload": "private.summaries.workload",
    "mechanisms": "private.mechanism",
    "open": "private.owner:open_release",
    "primitives": "private.primitives:*",
    "publish": "private.publish",
    "select": "compare.selection",
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
    "primitives",
    "publish",
    "select",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'scumble' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    home = import_module(f"scumble.{module}")
    value = home if attribute == "*" else getattr(home, attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
