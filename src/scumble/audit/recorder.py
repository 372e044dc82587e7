"""What a summary measures, before and after its noise: the exact loss between two tables, and many
runs at once.

A summary whose plan does not depend on the data is a list of numbers with independent noise. Run on
two neighbouring tables it measures the same list with other numbers, so its loss is known exactly;
and its outputs can be drawn a million times without planning a million times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.engine.counter import TensorCounter
from scumble.ledger import Account
from scumble.mechanism import Summary
from scumble.noise.laws import DiscreteLaplace
from scumble.noise.source import Source
from scumble.private import PrivateTable
from scumble.private_counts import NoiseLaw, blur
from scumble.schema import Schema

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Measured:
    """Numbers that were measured together, and their noise."""

    numbers: npt.NDArray[Any]
    law: NoiseLaw


class Watcher(Source):
    """A source of noise that notes what it is asked to hide."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed)
        self.measured: list[Measured] = []

    def watch(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        """Note numbers before they get their noise."""
        self.measured.append(Measured(numbers.copy(), law))


def measured(
    mechanism: Summary, schema: Schema, names: Sequence[str], counts: Counts
) -> list[Measured]:
    """What a summary measures of a table with these counts."""
    watcher = Watcher(0)
    table = PrivateTable(TensorCounter(schema, names, counts), Account(mechanism.promise), watcher)
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        mechanism.measure(table, Path(folder))
    return watcher.measured


@dataclass(frozen=True)
class Spent:
    """The exact loss between two tables: pure ε of the Laplace noise, ρ of the Gaussian."""

    epsilon: Fraction
    rho: Fraction


def spent(one: Sequence[Measured], other: Sequence[Measured]) -> Spent | None:
    """The loss of one list of numbers against another; None if they are not the same list, as when
    the plan depends on the data.
    """
    if [(each.law, each.numbers.shape) for each in one] != [
        (each.law, each.numbers.shape) for each in other
    ]:
        return None
    epsilon = rho = Fraction(0)
    for mine, yours in zip(one, other, strict=True):
        gaps = [abs(int(gap)) for gap in (mine.numbers - yours.numbers).ravel().tolist()]
        if isinstance(mine.law, DiscreteLaplace):
            epsilon += sum(gaps) / mine.law.scale
        else:
            rho += sum(gap * gap for gap in gaps) / (2 * mine.law.parameter)
    return Spent(epsilon, rho)


def outputs(measured: Sequence[Measured], runs: int, noise: Source) -> npt.NDArray[np.float64]:
    """So many runs of one list of numbers, each with noise of its own, drawn as a release does."""
    columns = []
    for each in measured:
        tiled = np.tile(each.numbers.ravel().astype(np.int64), runs)
        blur(noise, tiled, each.law)
        columns.append(tiled.reshape(runs, -1).astype(np.float64))
    return np.concatenate(columns, axis=1)
