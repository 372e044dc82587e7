"""Bags: the true value of a row among draws from a pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.pool_law import PoolLaw
from scumble.private.perturbation.bag_columns import counted
from scumble.private.sampling.pools import Pool
from scumble.private.sampling.source import Source

# One row a bag: a count for each value, or one code for each member.
Bags = npt.NDArray[Any]
Codes = npt.NDArray[Any]


def draw(noise: Source, law: PoolLaw, true: Codes) -> Bags:
    """A bag for every true value; all draws are made again for a bag beyond its caps."""
    [bags] = draw_nested(noise, law, true, [law.size])
    rows = np.flatnonzero(_beyond(law, bags))
    while len(rows):
        [again] = draw_nested(noise, law, true[rows], [law.size])
        bags[rows] = again
        rows = rows[_beyond(law, again)]
    return bags


def draw_nested(noise: Source, law: PoolLaw, true: Codes, sizes: Sequence[int]) -> Iterator[Bags]:
    """For each size, ascending, bags of the true value and the first draws: each within the
    next.
    """
    pool, counting = Pool(law.weights), counted(sizes[-1], law.values)
    bags: Bags = true[:, None]
    if counting:
        bags = np.zeros((len(true), law.values), np.min_scalar_type(sizes[-1]))
        bags[np.arange(len(true)), true] = 1
    before = 1
    for size in sizes:
        if counting:
            bags = bags + pool.counts(noise, size - before, len(true)).astype(
                bags.dtype, copy=False
            )
            yield bags if counted(size, law.values) else _listed(bags, size)
        else:
            bags = np.concatenate([bags, pool.members(noise, size - before, len(true))], axis=1)
            yield np.sort(bags, axis=1)
        before = size


def _listed(counts: Bags, size: int) -> Bags:
    """Counted bags as lists of their members, ascending."""
    values = np.arange(counts.shape[1], dtype=np.min_scalar_type(counts.shape[1]))
    return np.repeat(np.tile(values, len(counts)), counts.reshape(-1)).reshape(-1, size)


def _beyond(law: PoolLaw, bags: Bags) -> npt.NDArray[np.bool_]:
    """Which bags hold some value more often than its cap."""
    if law.caps is None:
        return np.zeros(len(bags), bool)
    caps = np.array(law.caps)
    if counted(law.size, law.values):
        return np.asarray(np.any(bags > caps, axis=1))
    beyond = np.zeros(len(bags), bool)
    for cap in {cap for cap in law.caps if cap < law.size}:
        # In ascending order, one member more than the cap ends where the same value began.
        begins = bags[:, :-cap]
        same: npt.NDArray[np.bool_] = (bags[:, cap:] == begins) & (caps[begins] == cap)
        beyond |= np.any(same, axis=1)
    return beyond
