"""Workloads of box queries, as in section 5 of the paper on query relaxation."""

from __future__ import annotations

from math import sqrt
from typing import Literal

import numpy as np

from research.relaxation.survey import Codes, Survey
from scumble.private.database.space import Boxes

Centres = Literal["data", "uniform"]
Edges = Literal["cut", "moved"]


def workload(
    survey: Survey,
    centres: Centres,
    *,
    volume: float,
    count: int,
    seed: int,
    edges: Edges = "cut",
) -> Boxes:
    """Boxes over two random attributes each: the codes within half of √volume of the range around a
    centre, which is a random person's (`data`) or any value (`uniform`).

    The paper wants intervals of one length, inside the domain, around any centre, and near an end
    of the domain no interval is all three. `cut` leaves the centre and cuts what sticks out;
    `moved` moves the interval inside, which keeps its length.
    """
    generator = np.random.default_rng(seed)
    sizes = np.array(survey.sizes)
    pairs = np.argsort(generator.random((count, len(sizes))), axis=1)[:, :2]
    people = survey.codes[generator.integers(len(survey.codes), size=count)]
    values = generator.integers(0, sizes, size=(count, len(sizes)))
    middles = people if centres == "data" else values
    boxes = np.repeat(survey.space.whole[np.newaxis], count, axis=0)
    rows = np.arange(count)
    for axes in pairs.T:
        boxes[rows, axes] = _interval(middles[rows, axes], sizes[axes], sqrt(volume), edges)
    return boxes


def _interval(middles: Codes, sizes: Codes, share: float, edges: Edges) -> Codes:
    reach = (share * (sizes - 1) / 2).astype(np.int64)
    if edges == "moved":
        middles = middles.clip(reach, sizes - 1 - reach)
    return np.stack([(middles - reach).clip(0), np.minimum(middles + reach, sizes - 1)], axis=1)


def volumes(boxes: Boxes, survey: Survey) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The share of the points of the space that each box covers."""
    lengths = boxes[:, :, 1] - boxes[:, :, 0] + 1
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = (lengths / survey.sizes).prod(axis=1)
    return found
