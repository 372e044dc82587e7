"""Adaptive measurements against their promise: what one table publishes, replayed on its neighbour.

Where a choice depends on numbers that were published before it, runs on two tables must publish the
same for their steps to be compared. So a run on one table is recorded, and on the neighbour every
step is forced to the same outcome. The loss is then the sum over the steps: of a choice by the
exponential mechanism the ratio of its probabilities, of a noisy number its change over the scale.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.audit.report import Finding, Verdict
from scumble.audit.runs import Pair, changes, counter_of, tables_of
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.schema.schema import Schema
from scumble.private.hooks import Claim
from scumble.private.mechanism import Summary
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.top import Candidates

_SEEDS = 3
_ROUNDING = 1e-9
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlayedStep:
    """A step of a run: its outcome, and the true numbers or scores behind it.

    `scale` is that of the noise; a choice has `rate` instead, by which scores are weighted.
    """

    outcome: npt.NDArray[Any]
    numbers: npt.NDArray[Any]
    scale: Fraction | None = None
    rate: Fraction | None = None

    def loss(self, other: PlayedStep) -> float:
        """Return by how much the outcome is likelier here: of numbers, at most."""
        if self.scale is not None:
            return float(int(np.abs(self.numbers - other.numbers).sum()) / self.scale)
        return self._log_chance - other._log_chance

    @property
    def _log_chance(self) -> float:
        weighted = float(self.rate or 0) * self.numbers.astype(np.float64)
        top = float(weighted.max())
        whole = top + float(np.log(np.exp(weighted - top).sum()))
        return float(weighted[int(self.outcome[0])]) - whole


class PlayedSteps(NoisySteps):
    """The steps of a run, recorded; with `forced`, each has the outcome of that run."""

    def __init__(self, source: Keystream, forced: list[PlayedStep] | None = None) -> None:
        super().__init__(source)
        self.played: list[PlayedStep] = []
        self._forced = None if forced is None else iter(forced)

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        if not isinstance(law, DiscreteLaplace):
            raise TypeError("steps are replayed with discrete Laplace noise")
        true = numbers.copy()
        super().add(numbers, law)
        if self._forced is not None:
            numbers[:] = next(self._forced).outcome
        self.played.append(PlayedStep(numbers.copy(), true, scale=law.scale))

    def picks(
        self,
        candidates: Candidates,
        k: int,
        *,
        sensitivity: int,
        epsilon: Fraction,
        monotone: bool = True,
    ) -> npt.NDArray[np.uint64]:
        chosen = super().picks(
            candidates, k, sensitivity=sensitivity, epsilon=epsilon, monotone=monotone
        )
        if k != 1 or candidates.untouched:
            raise TypeError("one of listed candidates is chosen at a time")
        if self._forced is not None:
            chosen = next(self._forced).outcome
        rate = epsilon / (sensitivity * (1 if monotone else 2))
        self.played.append(PlayedStep(chosen.copy(), candidates.scores.copy(), rate=rate))
        return chosen


class PlayedTable(PrivateTable):
    """A private table whose steps are recorded, or forced."""

    forced: list[PlayedStep] | None = None

    def _steps(self, source: Keystream) -> NoisySteps:
        self.played = PlayedSteps(source, self.forced)
        return self.played


def play(
    mechanism: Summary,
    schema: Schema,
    counts: Counts,
    noise: Keystream,
    forced: list[PlayedStep] | None = None,
) -> list[PlayedStep]:
    """Return the steps of one run on a table with these counts, with the outcomes `forced`."""
    kind = type("ForcedTable", (PlayedTable,), {"forced": forced})
    table = kind(counter_of(mechanism, schema, counts), BudgetAccount(mechanism.promise), noise)
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        mechanism.measure(table, Path(folder))
    steps: list[PlayedStep] = table.played.played
    return steps


def replays(claim: Claim, mechanism: Summary, noise: Keystream) -> Iterator[tuple[Pair, float]]:
    """Yield pairs of neighbours with the loss of a run: the choices that it took, and the largest
    loss of any numbers that follow them.
    """
    given = mechanism.parameters
    for words, counts in tables_of(mechanism, claim.schema).items():
        places = [0, len(counts) - 1]
        for pair in changes(counts, places, given["neighbours"], given["contribution"]):
            for one, other in (pair, pair[::-1]):
                for _ in range(_SEEDS):
                    mine = play(mechanism, claim.schema, one, noise)
                    yours = play(mechanism, claim.schema, other, noise, mine)
                    losses = [m.loss(y) for m, y in zip(mine, yours, strict=True)]
                    yield Pair(words, one, other), sum(losses)


def replay_finding(claim: Claim, mechanism: Summary, noise: Keystream) -> Finding:
    """Return the largest loss of runs that were replayed on neighbouring tables."""
    found = list(replays(claim, mechanism, noise))
    pair, loss = max(found, key=lambda each: each[1])
    verdict: Verdict = "refuted" if loss > claim.epsilon * (1 + _ROUNDING) else "stands"
    sentence = (
        f"In {len(found)} runs that were replayed on a neighbouring table, all steps together lose "
        f"ε = {loss:.6g} at most ({pair.words}); promised is {claim.epsilon:.6g}."
    )
    numbers = {"found": loss, "claimed": claim.epsilon}
    return Finding("replayed runs", claim.words, verdict, sentence, numbers)
