"""Exact draws from Pólya urns, many urns at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scumble.model.laws.polya_urn import GRID
from scumble.private.sampling.source import Keystream

Integers = NDArray[np.int64]
_SHIFTS = (1, 2, 4, 8, 16, 32)


def polya_rows(
    source: Keystream, counts: NDArray[np.int64], priors: Integers, rows: Integers
) -> tuple[Integers, Integers]:
    """Return the urn and the value of every row drawn, urn by urn.

    `counts` has the number of people of each urn and value, `priors` the prior balls of each value
    of an urn in parts of 1/`GRID`, and `rows` the number of rows to draw from each urn.

    The t-th draw of an urn picks one of its first balls or one of the t balls added since, each in
    proportion to its size. Picking an added ball copies the draw that added it. So each draw is one
    uniform number below a bound, and copies of copies are followed at the end.
    """
    urns = np.repeat(np.arange(len(rows)), rows)
    starts = np.concatenate([[0], np.cumsum(rows)])[:-1]
    before = np.arange(len(urns)) - starts[urns]
    values = counts.shape[1]
    prior = values * priors  # of all values together
    first = prior + counts.sum(axis=1) * GRID
    drawn = below(source, first[urns] + before * GRID)
    copied = drawn >= first[urns]
    chosen = np.zeros(len(urns), np.int64)
    from_prior = drawn < prior[urns]
    chosen[from_prior] = drawn[from_prior] // priors[urns[from_prior]]
    person = ~copied & ~from_prior
    chosen[person] = _of_people(counts, urns[person], (drawn[person] - prior[urns[person]]) // GRID)
    origin = np.arange(len(urns))
    added = (drawn[copied] - first[urns[copied]]) // GRID
    origin[copied] = starts[urns[copied]] + added
    while not np.array_equal(origin, further := origin[origin]):
        origin = further
    return urns, chosen[origin]


def _of_people(counts: NDArray[np.int64], urns: Integers, numbers: Integers) -> Integers:
    """Return the values of people: person `numbers[k]` of urn `urns[k]`, in the order of values."""
    ends = np.cumsum(counts.reshape(-1))
    before = np.concatenate([[0], ends])[urns * counts.shape[1]]
    places: Integers = np.searchsorted(ends, before + numbers, side="right").astype(np.int64)
    found: Integers = places - urns * counts.shape[1]
    return found


def below(source: Keystream, bounds: Integers) -> Integers:
    """Return a uniform whole number from 0 to bound - 1 for each of the bounds, all below 2^63.

    As many bits are read as the bound needs; a number that is too large is drawn again.
    """
    masks = (bounds - 1).astype(np.uint64)
    for shift in _SHIFTS:
        masks |= masks >> np.uint64(shift)
    out = np.empty(len(bounds), np.int64)
    left = np.arange(len(bounds))
    while len(left):
        out[left] = (source.words(len(left)) & masks[left]).astype(np.int64)
        left = left[out[left] >= bounds[left]]
    return out
