"""Merged cells: cells of a product of domains that no question of a workload tells apart, as one.

First the values of every block of attributes are merged (attributes are in one block if a condition
compares them), then the cells of the product of what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Block:
    """Attributes, and the class of every cell of the product of their domains, the last attribute
    fastest. Classes are numbered as they appear.
    """

    names: tuple[str, ...]
    labels: Labels

    @cached_property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    @cached_property
    def sizes(self) -> npt.NDArray[np.float64]:
        """How many cells are in each class."""
        return np.bincount(self.labels, minlength=self.classes).astype(np.float64)

    def first(self) -> Labels:
        """A cell of every class."""
        return np.unique(self.labels, return_index=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Merged:
    """Blocks, and the merged cell of every cell of the product of their classes."""

    blocks: tuple[Block, ...]
    labels: Labels

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that questions tell apart, in the order of the counts to merge."""
        return tuple(name for block in self.blocks for name in block.names)

    @cached_property
    def cells(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(block.classes for block in self.blocks)

    def merge(self, counts: Integers) -> Integers:
        """The counts of the merged cells, from those of the product of `names`."""
        tensor = counts.reshape([len(block.labels) for block in self.blocks])
        for axis, block in enumerate(self.blocks):
            tensor = _added(tensor, axis, block.labels)
        return _added(tensor.reshape(-1), 0, self.labels)

    def total(self, by_class: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sums over the merged cells of numbers given for the product of the classes."""
        return np.asarray(np.bincount(self.labels, by_class.reshape(-1), self.cells), np.float64)

    def to_dict(self) -> dict[str, Any]:
        blocks = [{"names": list(b.names), "labels": _runs(b.labels)} for b in self.blocks]
        return {"blocks": blocks, "labels": _runs(self.labels)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Merged:
        blocks = [Block(tuple(b["names"]), _labels(b["labels"])) for b in data["blocks"]]
        return cls(tuple(blocks), _labels(data["labels"]))


def in_order(labels: npt.NDArray[Any]) -> Labels:
    """The same classes, numbered as they appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def _added(tensor: Integers, axis: int, labels: Labels) -> Integers:
    """Whole numbers added up by the label of their place along an axis."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    return np.add.reduceat(np.take(tensor, order, axis), starts, axis)


def _runs(labels: Labels) -> list[list[int]]:
    """Labels as runs [first, step, length] with steps of 0 or 1."""
    runs: list[list[int]] = []
    for label in labels.tolist():
        if runs:
            first, step, length = runs[-1]
            if length == 1 and label - first in (0, 1):
                runs[-1] = [first, label - first, 2]
                continue
            if label == first + step * length:
                runs[-1][2] += 1
                continue
        runs.append([label, 0, 1])
    return runs


def _labels(runs: Sequence[Sequence[int]]) -> Labels:
    parts = [first + step * np.arange(length) for first, step, length in runs]
    return np.concatenate(parts).astype(np.int64)
