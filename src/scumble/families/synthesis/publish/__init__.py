"""Tables and questions chosen in private, from which synthetic rows are drawn."""

from scumble.families.synthesis.publish.linked import publish_linked as publish_linked
from scumble.families.synthesis.publish.mwem import Mwem as Mwem
from scumble.families.synthesis.publish.synthesis import Synthesis as Synthesis
