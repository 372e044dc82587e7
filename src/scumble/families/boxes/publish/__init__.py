"""Trees of boxes that follow the data."""

from scumble.families.boxes.publish.dawa import Dawa as Dawa
from scumble.families.boxes.publish.grid import Grid as Grid
from scumble.families.boxes.publish.kdtree import KdTree as KdTree
from scumble.families.boxes.publish.mosaic import Mosaic as Mosaic
from scumble.families.boxes.publish.privtree import PrivTree as PrivTree
from scumble.families.boxes.publish.quadtree import Quadtree as Quadtree
