"""Matrix: noisy sums of merged cells with whole coefficients, each row of the file with its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model.designs.merged import Merged
from scumble.model.designs.strategy import Strategy
from scumble.model.laws import from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian

if TYPE_CHECKING:
    import pyarrow as pa

NoiseLaw = DiscreteLaplace | DiscreteGaussian
NOISY, CELLS, ENTRIES = "noisy", "cells", "entries"  # columns of the file


@dataclass(frozen=True, eq=False)
class Matrix:
    """Which cells were merged, and the noise, which is independent by row. Which sum a row of the
    file is of stands in the row: the numbers of its merged cells, and their coefficients.
    """

    kind: ClassVar[str] = "matrix"

    merged: Merged
    noise: NoiseLaw

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.merged.to_dict(), "noise": self.noise.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Matrix:
        noise = from_dict(data["noise"])
        if not isinstance(noise, DiscreteLaplace | DiscreteGaussian):
            raise ValueError("sums of cells have discrete Laplace or Gaussian noise")
        return cls(Merged.from_dict(data), noise)


@dataclass(frozen=True, eq=False)
class MergedSums:
    """A strategy on merged cells, as a map from the counts of all cells."""

    merged: Merged
    strategy: Strategy

    def acute(self, laws: Sequence[object]) -> bool:
        return not self.strategy.signed

    def apply(self, counts: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
        return self.strategy.apply(self.merged.merge(counts))

    def norms(self) -> list[tuple[int, int]]:
        """Merging moves a row to one merged cell, so these are the norms of the strategy."""
        return self.strategy.norms()


def to_table(strategy: Strategy, noisy: npt.NDArray[Any]) -> pa.Table:
    """What is published: every noisy sum, with what it is a sum of."""
    import pyarrow as pa

    matrix = strategy.matrix.sorted_indices()
    ends = pa.array(matrix.indptr.astype(np.int32))
    cells = pa.ListArray.from_arrays(ends, pa.array(matrix.indices.astype(np.int32)))
    entries = pa.ListArray.from_arrays(ends, pa.array(matrix.data.astype(np.int32)))
    return pa.table({NOISY: pa.array(noisy.astype(np.int64)), CELLS: cells, ENTRIES: entries})


def from_table(table: pa.Table, cells: int) -> tuple[Strategy, npt.NDArray[np.int64]]:
    """The strategy and the noisy sums that `to_table` wrote."""
    from scipy.sparse import csr_array

    listed = table[CELLS].combine_chunks(), table[ENTRIES].combine_chunks()
    ends = listed[0].offsets.to_numpy() - listed[0].offsets[0].as_py()
    places, entries = (each.flatten().to_numpy().astype(np.int64) for each in listed)
    matrix = csr_array((entries, places, ends), shape=(table.num_rows, cells))
    return Strategy("published", matrix), table[NOISY].to_numpy()
