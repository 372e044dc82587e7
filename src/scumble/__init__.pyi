"""The public names of scumble. Generated from __init__.py by `make options`; do not edit."""

from scumble import classic as classic
from scumble import counts as counts
from scumble import lists as lists
from scumble import rows as rows
from scumble import synthetic as synthetic
from scumble._version import __version__ as __version__
from scumble.families.alphabeta.publish import AlphaBeta as AlphaBeta
from scumble.families.alphabeta.publish import Frapp as Frapp
from scumble.families.anatomy.publish import Anatomy as Anatomy
from scumble.families.aroma.publish import Aroma as Aroma
from scumble.families.axes.publish import Dyadic as Dyadic
from scumble.families.axes.publish import Hierarchy as Hierarchy
from scumble.families.axes.publish import Wavelet as Wavelet
from scumble.families.baskets.publish import Baskets as Baskets
from scumble.families.baskets.publish import DiffPart as DiffPart
from scumble.families.boxes.publish import Dawa as Dawa
from scumble.families.boxes.publish import Grid as Grid
from scumble.families.boxes.publish import KdTree as KdTree
from scumble.families.boxes.publish import Mosaic as Mosaic
from scumble.families.boxes.publish import PrivTree as PrivTree
from scumble.families.boxes.publish import Quadtree as Quadtree
from scumble.families.dirichlet.publish import Dirichlet as Dirichlet
from scumble.families.generalise.publish import Generalise as Generalise
from scumble.families.histogram.publish import Histogram as Histogram
from scumble.families.histogram.publish import Sparse as Sparse
from scumble.families.keys.publish import Keys as Keys
from scumble.families.marginals.publish import Datacube as Datacube
from scumble.families.marginals.publish import Fourier as Fourier
from scumble.families.marginals.publish import Marginals as Marginals
from scumble.families.partition.publish import Partition as Partition
from scumble.families.quantiles.publish import Quantiles as Quantiles
from scumble.families.randomised_response.publish import Subset as Subset
from scumble.families.randomised_response.publish import Uniform as Uniform
from scumble.families.sequences.publish import Sequences as Sequences
from scumble.families.sequences.publish import Trajectories as Trajectories
from scumble.families.synthesis.publish import Mwem as Mwem
from scumble.families.synthesis.publish import Synthesis as Synthesis
from scumble.families.workload.publish import Workload as Workload
from scumble.model.errors import DomainError as DomainError
from scumble.model.errors import LedgerError as LedgerError
from scumble.model.errors import OutputExistsError as OutputExistsError
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
from scumble.model.schema.domains import BinnedNumber as BinnedNumber
from scumble.model.schema.domains import Bins as Bins
from scumble.model.schema.domains import Boolean as Boolean
from scumble.model.schema.domains import Category as Category
from scumble.model.schema.domains import Dates as Dates
from scumble.model.schema.domains import IntegerRange as IntegerRange
from scumble.model.schema.numbers import Number as Number
from scumble.model.schema.schema import Schema as Schema
from scumble.model.schema.spelling import Spelling as Spelling
from scumble.model.schema.unit import Unit as Unit
from scumble.private import primitives as primitives
from scumble.private.database.database import Database as Database
from scumble.private.database.live.database import LiveDatabase as LiveDatabase
from scumble.private.database.plan import AskOptions as AskOptions
from scumble.private.engines.spark import Spark as Spark
from scumble.private.ledger.ledger import Ledger as Ledger
from scumble.private.limits import private_limits as private_limits
from scumble.private.mechanism import mechanisms as mechanisms
from scumble.private.owner import open_saved as open
from scumble.private.publish import publish as publish
from scumble.private.publish import publish_linked as publish_linked
from scumble.private.publish_options import PublishOptions as PublishOptions
from scumble.private.publish_options import Table as Table
from scumble.private.recommend import recommend as recommend
from scumble.public.combined import combine as combine
from scumble.public.estimate import ALL as ALL
from scumble.public.estimate import Estimate as Estimate
from scumble.public.estimate import Estimates as Estimates
from scumble.public.estimate_table import EstimateTable as EstimateTable
from scumble.public.release import Release as Release
from scumble.server.client import connect as connect

__all__ = [
    "ALL",
    "AlphaBeta",
    "Anatomy",
    "Aroma",
    "AskOptions",
    "Attribute",
    "Baskets",
    "BinnedNumber",
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
    "Dyadic",
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
    "KdTree",
    "Keys",
    "Ledger",
    "LedgerError",
    "LiveDatabase",
    "Marginals",
    "Mosaic",
    "Mwem",
    "Number",
    "OutputExistsError",
    "ParameterError",
    "Partition",
    "PrivTree",
    "PromiseError",
    "PublishOptions",
    "Quadtree",
    "Quantiles",
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
    "Spelling",
    "Subset",
    "Synthesis",
    "Table",
    "Trajectories",
    "Uniform",
    "Unit",
    "Wavelet",
    "Workload",
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
