"""Hidden: numbers of a private table that noise is to hide, as they are shown to a source of noise
that watches. Only an audit's does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian

How = Literal["sums", "cells", "splits", "least", "costs", "chosen"]


@dataclass(frozen=True, eq=False)
class Hidden:
    """What one step of a release looks at, the scale of its noise, and what came of it.

    Of "sums" every number is told with noise of its own; of "cells" all cells of a domain, of which
    those at `places` have rows, and more may be told by what is told of them. "splits": `chosen`
    says which numbers were above 0 after noise. "least": of each list, which begins at one of
    `places`, `chosen` is the place of the least number after one-sided noise was taken off.
    "costs": the cheapest sum of some of the numbers decides; what it decided is "chosen" after it.
    """

    how: How
    numbers: NDArray[Any]
    law: DiscreteLaplace | DiscreteGaussian
    chosen: NDArray[Any] | None = None
    places: NDArray[Any] | None = None

    def copy(self) -> Hidden:
        """The same, of which nothing changes when the numbers get their noise."""
        arrays = (self.chosen, self.places)
        copies = (None if each is None else np.array(each) for each in arrays)
        return Hidden(self.how, np.array(self.numbers), self.law, *copies)
