"""Sets, sequences and keys: `sc.lists.Baskets`."""

from scumble.families.baskets.publish import Baskets, DiffPart
from scumble.families.keys.publish import Keys
from scumble.families.sequences.publish import Sequences, Trajectories

__all__ = [
    "Baskets",
    "DiffPart",
    "Keys",
    "Sequences",
    "Trajectories",
]
