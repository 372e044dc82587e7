"""Synthetic rows: `sc.synthetic.Synthesis`."""

from scumble.families.dirichlet.publish import Dirichlet
from scumble.families.synthesis.publish import Mwem, Synthesis

__all__ = [
    "Dirichlet",
    "Mwem",
    "Synthesis",
]
