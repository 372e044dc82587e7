"""Adaptive measurements against their promise: what one table publishes, replayed on its neighbour.

Where a choice depends on numbers that were published before it, runs on two tables must publish the
same for their steps to be compared. So a run on one table is recorded, and on the neighbour every
step is forced to the same outcome. The loss is then the sum over the steps. For a promise of ε it
is of a choice by the exponential mechanism the ratio of its probabilities, of a noisy number its
change over the scale. For one of ρ (zCDP, which bounds the sum over the steps of every run) it is
of a choice η²/8, where η is the range of the log ratios of its probabilities (Cesar, Rogers, ALT
2021), of a number with Gaussian noise its squared change over 2σ². Of tables of sums only residuals
are published: it is of the change less its means along each axis.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import inf, prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.audit.mechanism_claims import try_whole
from scumble.audit.report import Finding, Verdict
from scumble.audit.runs import Pair, changes, counter_of, file_numbers, tables_of
from scumble.families.synthesis.design import ChosenTables
from scumble.families.synthesis.publish.synthesis import Synthesis
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import BudgetAccount, rho_for
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.mechanism_metadata import Claim
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

    `law` is that of the noise; choices have `rate` instead, by which scores are weighted.
    """

    outcome: npt.NDArray[Any]
    numbers: npt.NDArray[Any]
    law: NoiseLaw | None = None
    rate: Fraction | None = None

    def loss(self, other: PlayedStep) -> float:
        """Return by how much the outcome is likelier here: of numbers, at most."""
        if isinstance(self.law, DiscreteLaplace):
            return float(int(np.abs(self.numbers - other.numbers).sum()) / self.law.scale)
        if self.law is not None or len(self.outcome) != 1:
            raise TypeError("an ε is known of Laplace noise, and of one choice at a time")
        return self._log_chance - other._log_chance

    def rho(self, other: PlayedStep) -> float:
        """Return the ρ of the step: of choices, of each among the candidates that are left."""
        gaps = self.numbers - other.numbers
        if isinstance(self.law, DiscreteGaussian):
            return float(sum(int(gap) ** 2 for gap in gaps.ravel()) / (2 * self.law.parameter))
        if self.rate is None:
            raise TypeError("a ρ is known of Gaussian noise and of choices")
        total, left = Fraction(0), np.ones(len(gaps), bool)
        for candidate in self.outcome:
            spread = int(gaps[left].max()) - int(gaps[left].min())
            total += (self.rate * spread) ** 2 / 8
            left[int(candidate)] = False
        return float(total)

    @property
    def _log_chance(self) -> float:
        weighted = float(self.rate or 0) * self.numbers.astype(np.float64)
        top = float(weighted.max())
        whole = top + float(np.log(np.exp(weighted - top).sum()))
        return float(weighted[int(self.outcome[0])]) - whole


class OtherStepsError(Exception):
    """After the same outcomes the neighbour takes another step: who sees it can tell them apart."""


class PlayedSteps(NoisySteps):
    """The steps of a run, recorded; with `forced`, each has the outcome of that run."""

    def __init__(self, source: Keystream, forced: list[PlayedStep] | None = None) -> None:
        super().__init__(source)
        self.played: list[PlayedStep] = []
        self._forced = None if forced is None else iter(forced)

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        true = numbers.copy()
        super().add(numbers, law)
        if self._forced is not None:
            numbers[:] = self._next_outcome(numbers)
        self.played.append(PlayedStep(numbers.copy(), true, law))

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
        if candidates.untouched:
            raise TypeError("choices are replayed among listed candidates")
        if self._forced is not None:
            chosen = self._next_outcome(chosen)
        rate = epsilon / (sensitivity * (1 if monotone else 2))
        self.played.append(PlayedStep(chosen.copy(), candidates.scores.copy(), rate=rate))
        return chosen

    def _next_outcome(self, own: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the next forced outcome, which must be one that `own` could have been."""
        step = next(self._forced or iter(()), None)
        if step is None or step.outcome.shape != own.shape:
            raise OtherStepsError
        return step.outcome


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
    loss of any numbers that follow them. It is an ε, or for a promise with δ a ρ.
    """
    given = mechanism.parameters
    lost = PlayedStep.rho if claim.delta else PlayedStep.loss
    residuals = _residuals_of_sums(mechanism, claim.schema)
    for words, counts in tables_of(mechanism, claim.schema).items():
        places = [0, len(counts) - 1]
        for pair in changes(counts, places, given["neighbours"], given["contribution"]):
            for one, other in (pair, pair[::-1]):
                for _ in range(_SEEDS):
                    mine = play(mechanism, claim.schema, one, noise)
                    try:
                        yours = play(mechanism, claim.schema, other, noise, mine)
                    except OtherStepsError:
                        yield Pair(words, one, other), inf
                        continue
                    steps = list(zip(mine, yours, strict=True))
                    counted = len(steps) - _count_last(mine, sum(map(_cells, residuals)))
                    losses = [lost(m, y) for m, y in steps[:counted]]
                    gaps = [(m.numbers - y.numbers).ravel() for m, y in steps[counted:]]
                    sums = _rho_of_residuals(residuals, gaps)
                    yield Pair(words, one, other), sum(losses) + sums


Residual = tuple[list[int], Fraction]  # the shape of a table, and the parameter of its noise


def _residuals_of_sums(mechanism: Summary, schema: Schema) -> list[Residual]:
    """Return the tables of sums, in the order in which they are measured."""
    if not isinstance(mechanism, Synthesis):
        return []
    return [
        ([schema[mechanism.names[place]].size for place in table.places], table.law.parameter)
        for part in mechanism.parts_of_sums(schema)
        for table in part.tables(schema)
    ]


def _cells(residual: Residual) -> int:
    return prod(residual[0])


def _count_last(steps: Sequence[PlayedStep], numbers: int) -> int:
    """Return how many of the last steps have so many numbers."""
    found = 0
    while numbers > 0:
        found += 1
        numbers -= steps[-found].numbers.size
    return found


def _rho_of_residuals(residuals: Sequence[Residual], gaps: Sequence[Counts]) -> float:
    """Return the ρ of tables whose noisy numbers change by `gaps`, given only residuals of them."""
    if not residuals:
        return 0.0
    ends = np.cumsum([_cells(each) for each in residuals])[:-1]
    total = 0.0
    for (shape, parameter), gap in zip(
        residuals, np.split(np.concatenate(gaps), ends), strict=True
    ):
        left = gap.reshape(shape).astype(np.float64)
        for axis in range(left.ndim):
            left = left - left.mean(axis=axis, keepdims=True)
        total += float((left**2).sum()) / (2 * float(parameter))
    return total


def replay_finding(claim: Claim, mechanism: Summary, noise: Keystream) -> Finding:
    """Return the largest loss of runs that were replayed on neighbouring tables."""
    runs = list(replays(claim, mechanism, noise))
    pair, loss = max(runs, key=lambda run: run[1])
    letter = "ρ" if claim.delta else "ε"
    promised = float(rho_for(claim.epsilon, claim.delta)) if claim.delta else claim.epsilon
    verdict: Verdict = "refuted" if loss > promised * (1 + _ROUNDING) else "stands"
    sentence = (
        f"In {len(runs)} runs that were replayed on a neighbouring table, all steps together lose "
        f"{letter} = {loss:.6g} at most ({pair.words}); promised is {promised:.6g}."
    )
    numbers = {"found": loss, "claimed": promised}
    return Finding("replayed runs", claim.words, verdict, sentence, numbers)


def try_claim(claim: Claim, runs: int, seed: int | None) -> Iterator[Finding]:
    """Yield the finding about replayed runs, and those of whole releases."""
    mechanism, noise = cast(Summary, claim.mechanism), Keystream(seed)
    yield replay_finding(claim, mechanism, noise)
    yield from try_whole(claim, mechanism, None, runs, noise)


def run_numbers(
    mechanism: Summary, table: PrivateTable, folder: Path, schema: Schema, names: Sequence[str]
) -> list[float]:
    """Return the numbers of single attributes, and which pairs were measured; of rounds, all."""
    evidence = cast(Measurements, mechanism.measure(table, folder))
    design = evidence.design
    if not isinstance(design, ChosenTables):
        return file_numbers(evidence, folder, schema, names)
    column = pq.read_table(folder / evidence.file, use_threads=False).column(0).to_numpy()
    numbers: list[float] = column[: sum(design.sizes)].astype(np.float64).tolist()
    measured = {chosen.places for chosen in design.tables}
    every = combinations(range(len(design.attributes)), 2)
    numbers += [float(pair in measured) for pair in every]
    for part in (part for each in evidence.sums for part in each.parts):
        numbers += pq.read_table(folder / part.file, use_threads=False).column(0).to_pylist()
    return numbers
