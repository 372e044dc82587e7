"""Whole rows hidden among false ones, or replaced by others."""

from scumble.families.alphabeta.publish.alphabeta import AlphaBeta as AlphaBeta
from scumble.families.alphabeta.publish.frapp import Frapp as Frapp
