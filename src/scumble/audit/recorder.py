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

import numpy as np
import numpy.typing as npt

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.ledger import Account
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.meter.private_counts import blur
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.hidden import Hidden
from scumble.private.sampling.source import Source
from scumble.private.tables.counter import TensorCounter

Counts = npt.NDArray[np.int64]


class Watcher(Source):
    """A source of noise that notes what it is asked to hide."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(seed)
        self.seen: list[Hidden] = []

    def watch(self, hidden: Hidden) -> None:
        """Note numbers before they get their noise."""
        self.seen.append(hidden.copy())


def measured(
    mechanism: Summary, schema: Schema, names: Sequence[str], counts: Counts, seed: int = 0
) -> list[Hidden]:
    """What a summary looks at in a table with these counts, step by step."""
    watcher = Watcher(seed)
    table = PrivateTable(TensorCounter(schema, names, counts), Account(mechanism.promise), watcher)
    if grow := getattr(mechanism, "grow", None):
        grow(table)
        return watcher.seen
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        mechanism.measure(table, Path(folder))
    return watcher.seen


@dataclass(frozen=True)
class Spent:
    """The exact loss between two tables: pure ε of the Laplace noise, ρ of the Gaussian."""

    epsilon: Fraction
    rho: Fraction


def spent(one: Sequence[Hidden], other: Sequence[Hidden]) -> Spent | None:
    """The loss of one list of numbers against another; None if they are not the same list, as when
    the plan depends on the data.
    """
    plans = [[(each.how, each.law, each.numbers.shape) for each in two] for two in (one, other)]
    if plans[0] != plans[1] or any(each.how != "sums" for each in one):
        return None
    epsilon = rho = Fraction(0)
    for first, second in zip(one, other, strict=True):
        gaps = [abs(int(gap)) for gap in (first.numbers - second.numbers).ravel().tolist()]
        if isinstance(first.law, DiscreteLaplace):
            epsilon += sum(gaps) / first.law.scale
        else:
            rho += sum(gap * gap for gap in gaps) / (2 * first.law.parameter)
    return Spent(epsilon, rho)


def outputs(measured: Sequence[Hidden], runs: int, noise: Source) -> npt.NDArray[np.float64]:
    """So many runs of one list of numbers, each with noise of its own, drawn as a release does."""
    columns = []
    for each in measured:
        tiled = np.tile(each.numbers.ravel().astype(np.int64), runs)
        blur(noise, tiled, each.law)
        columns.append(tiled.reshape(runs, -1).astype(np.float64))
    return np.concatenate(columns, axis=1)
