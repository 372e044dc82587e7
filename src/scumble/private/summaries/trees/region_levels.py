"""Levels of boxes from the whole domain down, as regular trees cut them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from scumble.model.designs.boxes import Boxes

Integers = npt.NDArray[np.int64]
Level = tuple[Boxes, Integers]

MOST_NODES = 1 << 21


def root(shape: tuple[int, ...]) -> Level:
    """The level of the whole domain."""
    return Boxes.whole(shape), np.zeros(1, np.int64)


def refined(boxes: Boxes, pieces: Integers) -> Level:
    """Every box in so many pieces along each attribute, as far as it has codes."""
    found, origin = boxes, np.arange(len(boxes))
    for axis in range(len(boxes.low)):
        found, of = found.even(axis, pieces[origin])
        origin = origin[of]
    return found, origin


@lru_cache(maxsize=2)
def regular(shape: tuple[int, ...], height: int | None) -> tuple[Level, ...]:
    """The levels of a domain that is halved again and again: its cuts depend on nothing else."""
    return tuple(halved([root(shape)], height))


def halved(levels: list[Level], height: int | None) -> list[Level]:
    """Further levels, each halving all boxes of the one above, up to a height in all, or until
    nothing is left to halve or too many nodes would be made.
    """
    grown = list(levels)
    while height is None or len(grown) <= height:
        boxes, _ = grown[-1]
        if (boxes.cells == 1).all() or len(boxes) << len(boxes.low) > MOST_NODES:
            break
        grown.append(boxes.halves())
    return grown
