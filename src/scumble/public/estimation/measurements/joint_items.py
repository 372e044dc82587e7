"""Questions that tie more items of a basket together than were counted together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from scumble.model.schema.lists import DerivedName
from scumble.public.estimation.measurements.readings import LinearReading, Weights, WeightTensor

_MOST_TRIED = 12  # items of which all subsets are tried for an upper bound; of more, pairs
_LEVEL = 0.95


def conjunction(weights: Weights) -> tuple[str, ...] | None:
    """Return the columns of a count of rows that have all of some items; None for others."""
    names: list[str] = []
    for part in weights.parts:
        wanted = np.zeros(part.values.shape)
        wanted[(-1,) * part.values.ndim] = 1
        derived = all((read := DerivedName.read(name)) and read.function == "contains"
                      for name in part.names)  # fmt: skip
        if not derived or not np.array_equal(part.values, wanted):
            return None
        names += part.names
    return tuple(names) or None


def refusal(
    read: Callable[[Weights], LinearReading],
    names: tuple[str, ...] | None,
    measured: Callable[[Sequence[str]], bool],
) -> str:
    """Return why a question about so many items is refused; for a count of baskets with all of
    them, the message has an upper bound by what was measured of fewer.
    """
    why = "The question ties more items together than were counted together."
    if names is None:
        return f"{why} Ask about fewer items."
    high = min(_upper_limits(read, names, measured), default=None)
    if high is None:
        return f"{why} Ask about fewer items."
    return (
        f"No number of baskets with all of these {len(names)} items was published. By smaller "
        f"sets of them there are at most {max(high, 0):,.0f} ({100 * _LEVEL:.0f} %)."
    )


def _upper_limits(
    read: Callable[[Weights], LinearReading],
    names: tuple[str, ...],
    measured: Callable[[Sequence[str]], bool],
) -> Iterator[float]:
    """Yield the upper limits of the counts of the largest measured subsets; all of them hold at
    the level together.
    """
    most = len(names) - 1 if len(names) <= _MOST_TRIED else 2
    for size in range(most, 0, -1):
        sets = [each for each in combinations(names, size) if measured(each)]
        if sets:
            level = 1 - 2 * (1 - _LEVEL) / len(sets)  # one-sided, for all of them
            for each in sets:
                high = read(having(each)).limits[1]
                yield high.upper(max(level, 0.0))
            return


def having(names: Sequence[str]) -> Weights:
    """Return the weights of the count of baskets with all of some items."""
    return Weights(tuple(WeightTensor((name,), np.array([0.0, 1.0])) for name in names))
