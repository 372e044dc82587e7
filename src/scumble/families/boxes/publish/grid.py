"""Grid: a coarse grid of noisy counts, refined where they are large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import Level, RegionSummary, refine, top
from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.parameters import flag
from scumble.private.mechanism_metadata import SQUARE
from scumble.private.meter.table import PrivateTable

_FOR_SIZE = Fraction(1, 50)  # of ε, for a rough number of rows
_FOR_SHAPE = Fraction(1, 10)  # of the rest, for rough counts that decide where to refine
_FOR_COARSE = Fraction(3, 10)  # of the rest after that, for the counts of the coarse grid
_COARSE, _FINE = 10, 5  # the paper's c and c₂
_FEWEST = 144  # boxes of the coarse grid: 12 × 12 in two attributes


@dataclass(kw_only=True, eq=False, repr=False)
class Grid(RegionSummary):
    """Publishes noisy counts of a grid over one to four ordered attributes; each of its boxes is
    cut again, the finer the more rows it seems to have.

    With `adaptive=False` there is one grid only. The number of rows, on which the size of the grid
    depends, is measured with noise as well. `neighbours`, `contribution` and `person` say who is
    protected, as for a histogram.

    Parameters:
        adaptive: refine the grid where rows are (the default), or have one grid only.

    Promises: ε-DP of the whole release. Proof: the boxes of a grid are disjoint, so that discrete
        Laplace noise of scale Δ/εᵢ makes their counts εᵢ-DP. 2 % of ε are for the number of rows,
        a tenth of the rest for noisy counts of the coarse grid that decide where to refine it, and
        what is left then for the counts of both grids. Each step depends on earlier outputs only.
    Estimate: the least-squares fit of the counts of both grids, each box the sum of its pieces;
        unbiased, and of known noise, if a question takes whole pieces. Of a piece that it cuts, a
        part in proportion to its cells, and the interval reaches from the least to the most that
        it can add, however its rows are spread.
    Reference: Qardaji, Yang, Li, Differentially private grids for geospatial data, ICDE 2013 (UG
        and AG, c = 10, c₂ = 5).
    Differs: the paper takes the true number of rows. It refines the coarse grid by the same noisy
        counts that it then uses, which biases sums of many boxes by most of a standard error; here
        it is refined by counts of its own, and the published counts are independent of them. The
        coarse grid has at least 12 × 12 boxes instead of 10 × 10: better on a public benchmark.
        For d attributes there are (Nε/c)^(2/(d+2)) pieces along each, which balances the same
        errors as the paper does for two.
    """

    name = "grid"
    data_dependent = True
    example = SQUARE

    adaptive: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        flag("Grid", "adaptive", self.adaptive)

    def grow(self, table: PrivateTable) -> tuple[BoxNodes, BoxTree]:
        """Return the measured grids."""
        shape = self.shape(table.schema)
        counts = table.counts(self.names, self.unit)

        def measure(
            epsilons: Sequence[Fraction], levels: Sequence[Level]
        ) -> list[npt.NDArray[Any]]:
            sums = BoxSums(shape, tuple(boxes for boxes, _ in levels))
            return counts.noisy(self.laplace(epsilons), sums)

        left = self.cell_promise.epsilon * (1 - _FOR_SIZE)
        blocks = self.blocks(table.schema)
        [rows] = measure([self.cell_promise.epsilon * _FOR_SIZE], [top(Boxes.whole(shape))])
        coarse = self._refine(blocks, np.repeat(rows, len(blocks)), 1)
        if not self.adaptive:
            [noisy] = measure([left], [coarse])
            return BoxNodes.of_leaves(coarse[0], noisy), BoxTree(self.laplace([left]))
        [seen] = measure([left * _FOR_SHAPE], [coarse])
        left *= 1 - _FOR_SHAPE
        levels = [coarse, self._refine(coarse[0], seen, 2)]
        epsilons = [left * _FOR_COARSE, left * (1 - _FOR_COARSE)]
        tree = BoxNodes.of_levels(levels, measure(epsilons, levels))
        return tree, BoxTree(self.laplace(epsilons))

    def _refine(self, boxes: Boxes, noisy: npt.NDArray[Any], level: int) -> Level:
        """Return the pieces that balance noise and unevenness: their number grows with rows · ε."""
        axes = len(boxes.low)
        fine = float((1 - _FOR_SIZE) * (1 - _FOR_SHAPE) * (1 - _FOR_COARSE))
        share = fine / _FINE if level == 2 else 1 / _COARSE
        per_row = float(self.cell_promise.epsilon) / self.unit.sensitivity * share
        pieces = (np.maximum(noisy, 0) * per_row) ** (2 / (axes + 2))
        if level == 1 and self.adaptive:  # a sixteenth of the boxes, but not too few
            pieces = np.maximum(pieces / 16 ** (1 / axes), _FEWEST ** (1 / axes))
        return refine(boxes, np.maximum(np.ceil(pieces - 1e-9), 1).astype(np.int64))
