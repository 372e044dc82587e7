"""Trees and wavelets: measured and reconstructed in memory, against drawing as much noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import scumble as sc
from benchmarks.measure import at_most, take_turns
from scumble.families.axes.publish import AxisSummary
from scumble.families.boxes.publish.base import RegionSummary
from scumble.families.boxes.read import BoxTreeReader
from scumble.model.designs.kronecker import ByLaw
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimation.measurements.readings import GroupedAxes, Weights

MOST_SECONDS = 0.005
GROUP_SECONDS = 0.065  # what they took before limits were read
MANY = 10_000_000
SMALL = {
    "hierarchy of 4096 cells": ("hierarchy", (4096,)),
    "hierarchy of 128 × 128 cells": ("hierarchy", (128, 128)),
    "wavelet of 4096 cells": ("wavelet", (4096,)),
    "wavelet of 128 × 128 cells": ("wavelet", (128, 128)),
}

BOXES: dict[str, tuple[type[RegionSummary], float]] = {
    "kdtree": (sc.KdTree, 0.005),
    "mosaic": (sc.Mosaic, 0.015),
}


def run() -> list[dict[str, Any]]:
    trees = [boxes(name, *how) for name, how in BOXES.items()]
    return [*(small(name, *how) for name, how in SMALL.items()), *trees, groups(), large()]


def small(name: str, method: str, shape: tuple[int, ...]) -> dict[str, Any]:
    times = take_turns({"run": release(method, shape)}, repeats=30, warm=3)["run"]
    return at_most(f"{name} / 5 ms", 1, times.wall / MOST_SECONDS, str(times))


def boxes(name: str, make: type[RegionSummary], most: float) -> dict[str, Any]:
    """A tree that follows the data: cut, measured and fitted."""
    schema, counter = _table((128, 128))
    mechanism = make(schema.names, epsilon=0.1, neighbours="add_remove")

    def once(turn: int) -> object:
        table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(turn))
        tree, design = mechanism.grow(table)
        return BoxTreeReader.of_tree(tree, schema.names, design)

    times = take_turns({"run": once}, repeats=30, warm=3)["run"]
    words = f"{name} of 128 × 128 cells / {most * 1e3:g} ms of CPU"
    return at_most(words, 1, times.cpu / most, str(times))


def groups() -> dict[str, Any]:
    """All groups of a GROUP BY on a tree of boxes, limits of cut boxes included."""
    schema, counter = _table((64, 128, 20))
    mechanism = sc.Quadtree(schema.names, epsilon=0.1, neighbours="add_remove")
    table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(1))
    tree, design = mechanism.grow(table)
    reader = BoxTreeReader.of_tree(tree, schema.names, design)
    grouping = GroupedAxes(schema.names[:2], (64, 128))

    def every(_: int) -> object:
        return reader.by_group(Weights(()), grouping)

    times = take_turns({"all": every}, repeats=15, warm=2)["all"]
    name = f"8192 groups of a tree of 163,840 cells / {GROUP_SECONDS * 1e3:g} ms of CPU"
    return at_most(name, 1, times.cpu / GROUP_SECONDS, str(times))


def large() -> dict[str, Any]:
    """Of ten million cells, against the noise alone."""
    times = take_turns(
        {
            "hierarchy": release("hierarchy", (MANY,)),
            "noise": lambda turn: discrete_laplace(Keystream(turn), Fraction(60), MANY),
        },
        repeats=3,
        warm=1,
    )
    ours, noise = times["hierarchy"], times["noise"]
    told = f"hierarchy {ours}; noise {noise}"
    return at_most("hierarchy of 10M cells / as much noise", 30, ours.wall / noise.wall, told)


def release(method: str, shape: tuple[int, ...]) -> Callable[[int], object]:
    """Plan, measure and estimate all cells; nothing is written."""
    schema, counter = _table(shape)
    names = schema.names
    given: dict[str, Any] = {"epsilon": 0.1, "neighbours": "add_remove"}
    mechanism: AxisSummary = (
        sc.Hierarchy(names, **given)
        if method == "hierarchy"
        else sc.Wavelet(names, transform="all", **given)
    )

    def once(turn: int) -> object:
        design = mechanism.design(schema)
        sums = ByLaw(design)
        table = PrivateTable(counter, BudgetAccount(mechanism.promise), Keystream(turn))
        noisy = table.counts(names, mechanism.unit).noisy(sums.laws, sums)
        return design.reconstruct(design.split(sums.ordered(noisy)))

    return once


def _table(shape: tuple[int, ...]) -> tuple[sc.Schema, TensorCounter]:
    """Counts from 0 to 99 of all cells."""
    schema = sc.Schema(
        [
            sc.Attribute(f"a{place}", "quasi", sc.IntegerRange(0, size - 1))
            for place, size in enumerate(shape)
        ]
    )
    counts = np.random.default_rng(0).integers(0, 100, int(np.prod(shape)))
    return schema, TensorCounter(schema, schema.names, counts)
