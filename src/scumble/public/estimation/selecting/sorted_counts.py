"""The counts of a histogram in falling order, whatever cell each belongs to.

Noise makes the largest counts larger and the smallest smaller, so that sorted noisy counts are too
spread out. The law of the noise is known: of all distributions of counts, the one under which the
noisy counts are likeliest is found by expectation and maximisation, and its quantiles are the
sorted counts. In a study of 15 settings their squared error was 0.10 to 0.93 of that of sorting
alone in twelve, and 1.15 to 1.38 of it in three, where counts differ by more than the noise.

The isotonic fit of Hay et al. (2010) needs noise that was added to sorted counts. Here it was added
to the cells, and sorted noisy counts are isotonic already.

Of the error one thing is certain. Sorting brings two lists nearer: if no noise is beyond t, no
sorted count is off by more than t. So the limits hold for all ranks at once.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.designs.registry import Cells
from scumble.model.errors import ReleaseError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.base import check_level
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.query import quoted
from scumble.public.sandbox import Sandbox

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_MOST = 3000  # different counts that are fitted
_STEPS = 200


def sorted_counts(evidence: Evidence, engine: Sandbox, level: float) -> pa.Table:
    """Return the columns rank, count, low and high, the largest count first.

    The limits contain the true sorted counts, all of them, with probability `level`.
    """
    check_level(level)
    design = evidence.design if isinstance(evidence, Measurements) else None
    if not isinstance(design, Cells):
        raise ReleaseError("Sorted counts are read from a release by Histogram; this is another.")
    table = engine.rows(f"SELECT {quoted(design.count)} FROM view")
    falling = np.sort(table.column(0).to_numpy().astype(np.int64))[::-1]
    far = common_reach(design.noise, len(falling), level)
    low, high = np.maximum(falling - far, 0), np.maximum(falling + far, 0)
    fitted = np.clip(fitted_counts(falling, design.noise), low, high)
    columns = {
        "rank": np.arange(1, len(falling) + 1),
        "count": np.round(fitted).astype(np.int64),
        "low": low,
        "high": high,
    }
    return pa.table(columns)


def common_reach(noise: DiscreteLaplace, number: int, level: float) -> int:
    """Return the least t such that none of `number` noises is beyond t with probability `level`."""
    rate = float(1 / noise.scale)
    one = -math.expm1(math.log(level) / max(number, 1))  # that a single noise is beyond it
    least = math.ceil((math.log(2 / one) - math.log1p(math.exp(-rate))) / rate) - 1
    return max(least, 0)


def fitted_counts(counts: Integers, noise: DiscreteLaplace) -> Floats:
    """Return the counts of at least 0 in falling order that explain the noisy `counts` best.

    With very many different counts, the noisy ones are returned, cut at 0.
    """
    shown, times = np.unique(counts, return_counts=True)
    possible = np.arange(max(int(shown.max(initial=0)), 0) + 1.0)
    if len(possible) > _MOST:
        possible = np.unique(np.maximum(shown, 0)).astype(np.float64)
    if len(possible) > _MOST:
        return np.sort(np.maximum(counts, 0)).astype(np.float64)[::-1]
    rate = float(1 / noise.scale)
    likely = np.exp(-rate * np.abs(shown[:, None] - possible[None, :]))
    shares = np.full(len(possible), 1 / len(possible))
    for _ in range(_STEPS):
        whole = np.maximum(likely @ shares, 1e-300)
        shares = shares * (likely.T @ (times / whole)) / max(len(counts), 1)
    middles = (np.arange(len(counts)) + 0.5) / max(len(counts), 1)
    places = np.searchsorted(np.cumsum(shares), middles)
    found: Floats = possible[np.minimum(places, len(possible) - 1)][::-1]
    return found
