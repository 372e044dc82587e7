"""Trees of blocks over the cells of one or more ordered attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

from scumble.designs.axis import Floats, Integers
from scumble.designs.steps import Blocks
from scumble.designs.tree_squares import TreeSquares


@dataclass(frozen=True)
class Tree:
    """A grid of cells in blocks, those in larger blocks, and so on; one group a measured level.

    `sides` are the sides of a block in blocks of the level below, from the leaves up. `weights` are
    inverse variances of the levels' noises, up to a factor; a level of weight 0 is not measured.
    """

    kind: ClassVar[str] = "tree"
    signed: ClassVar[bool] = False

    shape: tuple[int, ...]
    sides: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @cached_property
    def _steps(self) -> tuple[Blocks, ...]:
        steps: list[Blocks] = []
        below = self.shape
        for sides in self.sides:
            steps.append(Blocks(below, sides))
            below = steps[-1].above
        return tuple(steps)

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of all levels, measured or not."""
        return (self.shape, *(step.above for step in self._steps))

    @property
    def _measured(self) -> tuple[bool, ...]:
        return tuple(weight > 0 for weight in self.weights)

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(
            prod(shape) for shape, there in zip(self._shapes, self._measured, strict=True) if there
        )

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),) * sum(self._measured)

    @cached_property
    def _squares(self) -> TreeSquares:
        return TreeSquares(self.shape, self._steps, self.weights)

    def measure(self, counts: Integers) -> list[Integers]:
        before, _, after = counts.shape
        levels = [counts.reshape(before, *self.shape, after)]
        for step in self._steps:
            levels.append(step.sum(levels[-1]))
        return [
            level.reshape(before, -1, after)
            for level, there in zip(levels, self._measured, strict=True)
            if there
        ]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        before, _, after = parts[0].shape
        given = iter(parts)
        levels = [
            next(given).reshape(before, *shape, after) if there else None
            for shape, there in zip(self._shapes, self._measured, strict=True)
        ]
        return self._squares.reconstruct(levels).reshape(before, -1, after)

    def adjoint(self, weights: Floats) -> list[Floats]:
        before, _, after = weights.shape
        levels = self._squares.adjoint(weights.reshape(before, *self.shape, after))
        return [
            level.reshape(before, -1, after)
            for level, there in zip(levels, self._measured, strict=True)
            if there
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "sides": [list(sides) for sides in self.sides],
            "weights": list(self.weights),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tree:
        sides = tuple(tuple(map(int, sides)) for sides in data["sides"])
        return cls(tuple(map(int, data["shape"])), sides, tuple(map(float, data["weights"])))
