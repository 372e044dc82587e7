"""Sequences of values, and trips."""

from scumble.families.sequences.read.parts import PartsReader as PartsReader
from scumble.families.sequences.read.questions import read_strings as read_strings
from scumble.families.sequences.read.reader import StringsReader as StringsReader
