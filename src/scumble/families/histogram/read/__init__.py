"""Noisy counts of cells: of all of them, or of those that are large."""

from scumble.families.histogram.read.cells import CellsReader as CellsReader
from scumble.families.histogram.read.sparse import SparseReader as SparseReader
