"""How wrong the answers of a release will be, as far as its design alone tells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.model.designs.axis import Floats
from scumble.model.designs.kronecker import Product
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.public.estimation.measurements.reading import reach

OFTEN = "nineteen times in twenty"
_LEVEL = 0.95


def of_cells(law: DiscreteLaplace, cells: int) -> str:
    """The error of the sum of so many cells."""
    return _reach(NoiseSum(law, [(1, cells)]).half_width(_LEVEL))


def of_product(design: Product, weights: Sequence[Floats]) -> str:
    """The error of the sum of cells whose weights are a product, one factor for each axis."""
    variance, fourth, largest = design.variances, design.fourths, 1.0
    for place, along in enumerate(weights):
        found = design.coefficients([place], along)
        # The next axis is always the first direction that is left.
        variance = np.tensordot([float((each**2).sum()) for each in found], variance, 1)
        fourth = np.tensordot([float((each**4).sum()) for each in found], fourth, 1)
        largest *= max(float(np.abs(each).max()) for each in found)
    return _reach(reach(float(variance), float(fourth), largest, _LEVEL))


def _reach(far: float) -> str:
    return f"±{far:,.0f}" if far >= 10 else f"±{far:.2g}"
