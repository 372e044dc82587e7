"""Sets of items."""

from scumble.families.baskets.publish.baskets import Baskets as Baskets
from scumble.families.baskets.publish.diffpart import DiffPart as DiffPart
