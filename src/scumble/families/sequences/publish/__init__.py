"""Sequences of values, and trips."""

from scumble.families.sequences.publish.sequences import Sequences as Sequences
from scumble.families.sequences.publish.trajectories import Trajectories as Trajectories
