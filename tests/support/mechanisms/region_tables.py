"""Small tables of counts for tests of releases that count boxes, and what a tree has spent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

import scumble as sc
from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.read import BoxTreeReader
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.private.meter.table import PrivateCounts, PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter


def domain(shape: tuple[int, ...]) -> sc.Schema:
    """Attributes a, b, … with so many codes."""
    letters = "abcd"[: len(shape)]
    return sc.Schema(
        [
            sc.Attribute(letter, "quasi", sc.IntegerRange(0, size - 1))
            for letter, size in zip(letters, shape, strict=True)
        ]
    )


def private_table(counts: np.ndarray, promise: PrivacyLoss, seed: int) -> PrivateTable:
    """A table of counts behind the meter."""
    schema = domain(counts.shape)
    counter = TensorCounter(schema, schema.names, counts)
    return PrivateTable(counter, BudgetAccount(promise), Keystream(seed))


def private_counts(
    counts: np.ndarray, promise: PrivacyLoss, person: PrivacyUnit, seed: int = 1
) -> PrivateCounts:
    """All counts of a table behind the meter."""
    table = private_table(counts, promise, seed)
    return table.counts(table.schema.names, person)


def grown(mechanism, counts: np.ndarray, seed: int) -> tuple[BoxNodes, BoxTree, BoxTreeReader]:
    """A tree measured on counts, and its reader."""
    tree, design = mechanism.grow(private_table(counts, mechanism.promise, seed))
    return tree, design, BoxTreeReader.of_tree(tree, domain(counts.shape).names, design)


def members(boxes, shape: tuple[int, ...]) -> np.ndarray:
    """One row a box: which cells it holds."""
    codes = np.stack([axis.ravel() for axis in np.indices(shape)])
    inside = (boxes.low[:, :, None] <= codes[:, None]) & (codes[:, None] <= boxes.high[:, :, None])
    return inside.all(axis=0)


def spent_on_counts(tree: BoxNodes, design: BoxTree, shape: tuple[int, ...], person: PrivacyUnit):
    """The ε of all noisy counts together, by brute force: the rows that one person may change, each
    in the cell where it weighs most, a weight being the sum of 1 / scale over the boxes around it.
    """
    measured = tree.law >= 0
    inside = members(tree.boxes, shape)[measured]
    laws = tree.law[measured]
    boxes = [inside[laws == law].sum(axis=0) for law in range(len(design.laws))]  # by law and cell
    around = np.unique(boxes, axis=1).T.tolist()
    most = max(
        sum(number / law.scale for number, law in zip(numbers, design.laws, strict=True))
        for numbers in around
    )
    return most * person.sensitivity


def neighbours(size: int, most: int, relation: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of tables of `size` cells with up to `most` rows in a cell that differ in a row."""
    for cells in itertools.product(range(most + 1), repeat=size):
        counts = np.array(cells)
        for place in range(size):
            more = counts.copy()
            more[place] += 1
            if relation == "add_remove":
                yield counts, more
                continue
            for other in range(place):
                moved = counts.copy()
                moved[other] += 1
                yield more, moved
