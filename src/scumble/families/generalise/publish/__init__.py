"""True rows with coarser values."""

from scumble.families.generalise.publish.generalise import Generalise as Generalise
