"""The public names of scumble. Generated from __init__.py by `make options`; do not edit."""

from scumble._version import __version__ as __version__
from scumble.compare.selection import select as select
from scumble.model.errors import DomainError as DomainError
from scumble.model.errors import LedgerError as LedgerError
from scumble.model.errors import ParameterError as ParameterError
from scumble.model.errors import PromiseError as PromiseError
from scumble.model.errors import QueryError as QueryError
from scumble.model.errors import ReleaseError as ReleaseError
from scumble.model.errors import SchemaError as SchemaError
from scumble.model.errors import ScumbleError as ScumbleError
from scumble.model.errors import SourceError as SourceError
from scumble.model.privacy.guarantee import Guarantee as Guarantee
from scumble.model.query import Query as Query
from scumble.model.schema.attribute import Attribute as Attribute
from scumble.model.schema.domains import Bins as Bins
from scumble.model.schema.domains import Boolean as Boolean
from scumble.model.schema.domains import Category as Category
from scumble.model.schema.domains import Dates as Dates
from scumble.model.schema.domains import IntegerRange as IntegerRange
from scumble.model.schema.schema import Schema as Schema
from scumble.private import primitives as primitives
from scumble.private.database.database import Database as Database
from scumble.private.engines.spark import Spark as Spark
from scumble.private.ledger.ledger import Ledger as Ledger
from scumble.private.mechanism import mechanisms as mechanisms
from scumble.private.owner import open_saved as open
from scumble.private.perturbation.alphabeta import AlphaBeta as AlphaBeta
from scumble.private.perturbation.anatomy import Anatomy as Anatomy
from scumble.private.perturbation.aroma import Aroma as Aroma
from scumble.private.perturbation.frapp import Frapp as Frapp
from scumble.private.perturbation.generalisation.generalise import Generalise as Generalise
from scumble.private.perturbation.partition import Partition as Partition
from scumble.private.perturbation.subset import Subset as Subset
from scumble.private.perturbation.uniform import Uniform as Uniform
from scumble.private.publish import publish as publish
from scumble.private.summaries.datacube import Datacube as Datacube
from scumble.private.summaries.fourier import Fourier as Fourier
from scumble.private.summaries.hierarchy import Hierarchy as Hierarchy
from scumble.private.summaries.histogram import Histogram as Histogram
from scumble.private.summaries.keys import Keys as Keys
from scumble.private.summaries.lists.baskets import Baskets as Baskets
from scumble.private.summaries.lists.diffpart import DiffPart as DiffPart
from scumble.private.summaries.lists.sequences import Sequences as Sequences
from scumble.private.summaries.lists.trajectories import Trajectories as Trajectories
from scumble.private.summaries.marginals import Marginals as Marginals
from scumble.private.summaries.sparse import Sparse as Sparse
from scumble.private.summaries.synthetic.dirichlet import Dirichlet as Dirichlet
from scumble.private.summaries.synthetic.mwem import Mwem as Mwem
from scumble.private.summaries.synthetic.synthesis import Synthesis as Synthesis
from scumble.private.summaries.trees.dawa import Dawa as Dawa
from scumble.private.summaries.trees.grid import Grid as Grid
from scumble.private.summaries.trees.kdtree import Kdtree as Kdtree
from scumble.private.summaries.trees.mosaic import Mosaic as Mosaic
from scumble.private.summaries.trees.privtree import PrivTree as PrivTree
from scumble.private.summaries.trees.quadtree import Quadtree as Quadtree
from scumble.private.summaries.wavelet import Wavelet as Wavelet
from scumble.private.summaries.workload import Workload as Workload
from scumble.public.estimate import Estimate as Estimate
from scumble.public.estimate import Estimates as Estimates
from scumble.public.estimate_table import EstimateTable as EstimateTable
from scumble.public.release import Release as Release
from scumble.server.client import connect as connect

__all__ = [
    "AlphaBeta",
    "Anatomy",
    "Aroma",
    "Attribute",
    "Baskets",
    "Bins",
    "Boolean",
    "Category",
    "Database",
    "Datacube",
    "Dates",
    "Dawa",
    "DiffPart",
    "Dirichlet",
    "DomainError",
    "Estimate",
    "EstimateTable",
    "Estimates",
    "Fourier",
    "Frapp",
    "Generalise",
    "Grid",
    "Guarantee",
    "Hierarchy",
    "Histogram",
    "IntegerRange",
    "Kdtree",
    "Keys",
    "Ledger",
    "LedgerError",
    "Marginals",
    "Mosaic",
    "Mwem",
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
    "Sequences",
    "SourceError",
    "Spark",
    "Sparse",
    "Subset",
    "Synthesis",
    "Trajectories",
    "Uniform",
    "Wavelet",
    "Workload",
    "__version__",
    "connect",
    "mechanisms",
    "open",
    "primitives",
    "publish",
    "select",
]
