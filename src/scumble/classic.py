"""Methods of earlier papers, and true rows with coarser values: `sc.classic.AlphaBeta`."""

from scumble.families.alphabeta.publish import AlphaBeta, Frapp
from scumble.families.anatomy.publish import Anatomy
from scumble.families.aroma.publish import Aroma
from scumble.families.generalise.publish import Generalise
from scumble.families.partition.publish import Partition

__all__ = [
    "AlphaBeta",
    "Anatomy",
    "Aroma",
    "Frapp",
    "Generalise",
    "Partition",
]
