"""Answers from groups of rows and the sensitive values of each group."""

from scumble.families.anatomy.read.answers import answer as answer
from scumble.families.anatomy.read.answers import answer_together as answer_together
