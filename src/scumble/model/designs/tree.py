"""Trees over the cells of one ordered attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from scumble.model.designs.axis import Floats, Integers
from scumble.model.designs.steps import Runs
from scumble.model.designs.symmetry import alike
from scumble.model.designs.tree_squares import TreeSquares


@dataclass(frozen=True)
class Tree:
    """Neighbouring cells in blocks, those in larger blocks, and so on; one group a measured level.

    `fanouts` are the children of a node, from those whose children are cells up; the last node of a
    level may have fewer. `weights` are inverse variances of the levels' noises up to a factor, from
    the cells up; a level of weight 0 is not measured.
    """

    kind: ClassVar[str] = "tree"
    signed: ClassVar[bool] = False

    size: int
    fanouts: tuple[int, ...]
    weights: tuple[float, ...]

    @cached_property
    def _steps(self) -> tuple[Runs, ...]:
        steps: list[Runs] = []
        below = self.size
        for children in self.fanouts:
            steps.append(Runs(below, children))
            below = steps[-1].above
        return tuple(steps)

    @property
    def _measured(self) -> tuple[bool, ...]:
        return tuple(weight > 0 for weight in self.weights)

    @property
    def lengths(self) -> tuple[int, ...]:
        nodes = (self.size, *(step.above for step in self._steps))
        return tuple(n for n, there in zip(nodes, self._measured, strict=True) if there)

    @property
    def norms(self) -> tuple[tuple[int, int], ...]:
        return ((1, 1),) * sum(self._measured)

    @cached_property
    def _squares(self) -> TreeSquares:
        return TreeSquares(self.size, self._steps, self.weights)

    def acute(self, weights: Sequence[Fraction]) -> bool:
        return True

    @property
    def alike(self) -> Integers:
        return alike(self.size, self.fanouts)

    def measure(self, counts: Integers) -> list[Integers]:
        levels = [counts]
        for step in self._steps:
            levels.append(step.sum(levels[-1]))
        return [level for level, there in zip(levels, self._measured, strict=True) if there]

    def reconstruct(self, parts: Sequence[Floats]) -> Floats:
        given = iter(parts)
        return self._squares.reconstruct(
            [next(given) if there else None for there in self._measured]
        )

    def adjoint(self, weights: Floats) -> list[Floats]:
        levels = self._squares.adjoint(weights)
        return [level for level, there in zip(levels, self._measured, strict=True) if there]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "size": self.size,
            "fanouts": list(self.fanouts),
            "weights": list(self.weights),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tree:
        fanouts, weights = tuple(map(int, data["fanouts"])), tuple(map(float, data["weights"]))
        return cls(int(data["size"]), fanouts, weights)
