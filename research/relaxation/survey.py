"""A survey: the codes of some attributes of many people, and fast true counts of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Literal

import numpy as np

from research.people import read as read_people
from research.study import Codes
from scumble.model.errors import SourceError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.database.space import Boxes, Space

NAMES = ("age", "education", "occupation", "income")
DOMAIN_SIZES = (79, 14, 23, 100)
_MOST_POINTS = 10**8


@dataclass(frozen=True)
class Survey:
    """Names, numbers of values, and one row of codes for each person."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Codes

    @cached_property
    def space(self) -> Space:
        attributes = tuple(
            Attribute(name, "quasi", IntegerRange(0, size - 1))
            for name, size in zip(self.names, self.sizes, strict=True)
        )
        return Space(Schema(attributes), self.names)

    def counts(self, boxes: Boxes) -> Codes:
        """How many people are in each box."""
        total = np.zeros(len(boxes), np.int64)
        # Inclusion and exclusion over the corners: a lower end counts with a minus.
        for sides in product((0, 1), repeat=len(self.sizes)):
            corner = tuple(boxes[:, axis, side] + side for axis, side in enumerate(sides))
            total += self._below[corner] * (-1) ** sides.count(0)
        return total

    @cached_property
    def _below(self) -> Codes:
        """At every corner of the grid, how many people have all codes below it."""
        found = np.zeros([size + 1 for size in self.sizes], np.int64)
        flat = np.ravel_multi_index(tuple(self.codes.T), self.sizes)
        cells = np.bincount(flat, minlength=int(np.prod(self.sizes)))
        found[(slice(1, None),) * len(self.sizes)] = cells.reshape(self.sizes)
        for axis in range(found.ndim):
            np.cumsum(found, axis=axis, out=found)
        return found


def synthetic(people: int, seed: int = 1) -> Survey:
    """Fictitious people with the attributes and numbers of values of the paper's CENSUS.

    Ages fall off towards the old, schooling and occupations have favourites, and income follows
    both with a long tail: skewed and correlated, as a census is. Numpy's generator makes them, the
    same ones every time; this is no privacy noise.
    """
    generator = np.random.default_rng(seed)
    age = 79 * generator.beta(1.4, 2.2, people)
    education = generator.normal(8.0 - 0.03 * age, 2.6)
    occupation = 22 * generator.beta(1.1, 2.0, people) + 0.4 * (education - 7)
    experience = 1 - ((age - 35) / 50) ** 2
    income = 14 * np.exp(
        0.12 * (education - 7) + 0.8 * experience + generator.normal(0, 0.5, people)
    )
    columns = (age, education, occupation, income)
    codes = np.stack(
        [
            column.clip(0, size - 1).astype(np.int64)
            for column, size in zip(columns, DOMAIN_SIZES, strict=True)
        ],
        axis=1,
    )
    return Survey(NAMES, DOMAIN_SIZES, codes)


def read(path: str | Path, columns: Sequence[str] = NAMES) -> Survey:
    """Read columns of a table as `people.read` does, unless they span too many points."""
    people = read_people(path, columns)
    if np.prod([float(size) for size in people.sizes]) > _MOST_POINTS:
        raise SourceError(
            f"The columns {', '.join(columns)} span more than {_MOST_POINTS} points. "
            "Choose others with --columns, or coarser ones."
        )
    return Survey(people.names, people.sizes, people.codes)


# Workloads of box queries, as in section 5 of the paper on query relaxation.

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
    """Return `count` boxes over two random attributes each: the codes within half of √volume of the
    range around a centre, which is a random person's value ("data") or any value ("uniform").

    The paper wants intervals of one length, inside the domain, around any centre. Near an end of
    the domain no interval is all three: "cut" keeps the centre and cuts the interval at the end,
    "moved" moves the interval inside, which keeps its length.
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
