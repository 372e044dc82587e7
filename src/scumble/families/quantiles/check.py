"""What the audit knows of quantiles: the cuts that tell two tables apart best, the numbers of a
run, and the noise that a release states.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.audit.mechanism_claims import try_whole
from scumble.audit.report import Finding, Verdict
from scumble.audit.runs import Counts, Pair, changes, counter_of, tables_of
from scumble.families.boxes.design.box_tree import BoxNodes
from scumble.families.quantiles.design import QuantileBoxes
from scumble.families.quantiles.publish import Quantiles
from scumble.model.laws.distributions import DiscreteLaplace, NoiseLaw
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.domains import BinnedNumber
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Summary
from scumble.private.mechanism_metadata import Claim
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.runs import Runs
from scumble.private.sampling.source import Keystream
from scumble.public.release import Release

_ROUNDING = 1e-9


def log_p_number(runs: Runs, chosen: int, rate: Fraction) -> float:
    """Return the log probability that the exponential mechanism chooses a number of runs."""
    place, within = np.divmod((chosen - runs.first) * np.sign(runs.step), np.abs(runs.step))
    inside = (place >= 0) & (place < runs.length) & (within < runs.block)
    per = float(rate)
    gaps = per * (runs.score - runs.score.min())
    steep = np.maximum(per * runs.slope, np.finfo(float).tiny)
    sums = np.where(runs.slope > 0, np.expm1(-steep * runs.length) / np.expm1(-steep), runs.length)
    own = (np.log(runs.weight) - gaps - per * place * runs.slope)[inside]
    return float(np.logaddexp.reduce(own)) - math.log(
        float(np.exp(-gaps) @ (sums * runs.block * runs.weight))
    )


class OpenCutError(Exception):
    """A cut that is not given yet."""


class GivenCuts(NoisySteps):
    """Steps of a run whose cuts are given, and so are the sizes of groups. `cuts` has what each was
    chosen from, the last one maybe not given; `numbers` has the true numbers with their noise.
    """

    def __init__(self, source: Keystream, given: Sequence[int], sizes: Counts | None) -> None:
        super().__init__(source)
        self._given, self._sizes = given, sizes
        self.cuts: list[tuple[Runs, Fraction]] = []
        self.numbers: list[tuple[npt.NDArray[Any], NoiseLaw]] = []

    def add(self, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
        self.numbers.append((numbers.copy(), law))
        if self._sizes is not None and len(self.numbers) == 1:
            numbers[:] = self._sizes

    def number(self, runs: Runs, rate: Fraction) -> int:
        self.cuts.append((runs, rate))
        if len(self.cuts) > len(self._given):
            raise OpenCutError
        return self._given[len(self.cuts) - 1]


class GivenTable(PrivateTable):
    """A private table that is measured by `GivenCuts`."""

    given: tuple[Sequence[int], Counts | None] = ((), None)

    def _steps(self, source: Keystream) -> NoisySteps:
        self.played = GivenCuts(source, *self.given)
        return self.played


def play(
    mechanism: Summary, schema: Schema, counts: Counts, given: Sequence[int], sizes: Counts | None
) -> GivenCuts:
    """Return the steps of a run up to the first cut that is not given, or of the whole run."""
    kind = type("TableOfCuts", (GivenTable,), {"given": (given, sizes)})
    counter = counter_of(mechanism, schema, counts)
    table = kind(counter, BudgetAccount(mechanism.promise), Keystream(0))
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder, suppress(OpenCutError):
        mechanism.measure(table, Path(folder))
    steps: GivenCuts = table.played
    return steps


def find_loss_of_cuts(mechanism: Summary, schema: Schema, one: Counts, other: Counts) -> float:
    """Return the loss of a release of `one` against `other` with the cuts that lose most, each
    chosen after those before it, and any counts between them.
    """
    given: list[int] = []
    first = play(mechanism, schema, one, given, None)
    # Sizes of groups are measured before the cuts, and the counts after them.
    sized = len(first.numbers) > (0 if first.cuts else 1)
    sizes = first.numbers[0][0] if sized else None
    loss = 0.0
    while True:
        runs = [play(mechanism, schema, counts, given, sizes) for counts in (one, other)]
        if len(runs[0].cuts) == len(given):
            pairs = zip(runs[0].numbers, runs[1].numbers, strict=True)
            moved = (
                int(np.abs(mine - yours).sum()) / cast(DiscreteLaplace, law).scale
                for (mine, law), (yours, _) in pairs
            )
            return loss + float(sum(moved))
        (mine, rate), (yours, _) = (steps.cuts[-1] for steps in runs)
        # The ratio of probabilities changes evenly between the ends of runs.
        ends = {end for each in (mine, yours) for end in _find_ends(each)}
        ratios = {
            end: log_p_number(mine, end, rate) - log_p_number(yours, end, rate) for end in ends
        }
        best = max(sorted(ratios), key=lambda end: ratios[end])
        given.append(best)
        loss += ratios[best]


def _find_ends(runs: Runs) -> list[int]:
    """Return the first and the last number of each run."""
    last = runs.first + runs.step * (runs.length - 1)
    found: list[int] = np.concatenate([runs.first, last, last + runs.block - 1]).tolist()
    return found


def try_claim(claim: Claim, runs: int, seed: int | None) -> Iterator[Finding]:
    """Yield the finding about the cuts that lose most, and those of whole releases."""
    mechanism = cast(Summary, claim.mechanism)
    given = mechanism.parameters
    found: list[tuple[float, Pair]] = []
    for words, counts in tables_of(mechanism, claim.schema).items():
        places = [0, len(counts) // 2, len(counts) - 1]
        for pair in changes(counts, places, given["neighbours"], given["contribution"]):
            for one, other in (pair, pair[::-1]):
                loss = find_loss_of_cuts(mechanism, claim.schema, one, other)
                found.append((loss, Pair(words, one, other)))
    loss, worst = max(found, key=lambda each: each[0])
    verdict: Verdict = "refuted" if loss > claim.epsilon * (1 + _ROUNDING) else "stands"
    sentence = (
        f"Between {len(found)} pairs of neighbouring tables cuts and counts lose ε = {loss:.6g} "
        f"together ({worst.words}); promised is {claim.epsilon:.6g}."
    )
    numbers = {"found": loss, "claimed": claim.epsilon}
    yield Finding("cuts that lose most", claim.words, verdict, sentence, numbers)
    yield from try_whole(claim, mechanism, None, runs, Keystream(seed))


def run_numbers(
    mechanism: Summary, table: PrivateTable, folder: Path, _schema: Schema, _: Sequence[str]
) -> list[float]:
    """Return how many intervals there are, and the ends and counts of the first and the last."""
    evidence = cast(Quantiles, mechanism).measure(table, folder)
    design = cast(QuantileBoxes, evidence.design)
    tree = BoxNodes.read(pq.read_table(folder / evidence.file), evidence.columns)
    edges = cast(BinnedNumber, design.column.domain).edges
    counts = tree.noisy.tolist()
    return [float(len(edges)), edges[1], edges[-2], float(counts[0]), float(counts[-1])]


def check_summary(release: Release, mechanism: Quantiles, promise: Guarantee) -> Finding:
    """Compare the noise that a release states with what its promise needs."""
    claim = f"{promise.statement} of {mechanism.name}"
    design = getattr(release.evidence, "design", None)
    sized = mechanism.measures_sizes(release.schema, public=release.evidence.rows is not None)
    fits = isinstance(design, QuantileBoxes) and design.laws == (mechanism.law(sized=sized),)
    if fits and Fraction(promise.parameters["epsilon"]) >= mechanism.promise.epsilon:
        sentence = "The noise that it states is that which its promise needs beside its cuts."
        return Finding("quantiles", claim, "stands", sentence)
    sentence = "It states other noise than its promise needs beside its cuts."
    return Finding("quantiles", claim, "refuted", sentence)
