"""Trees of boxes that follow the data."""

from scumble.families.boxes.design.box_tree import BoxTree as BoxTree
