"""The experiments of section 5 of the paper on query relaxation: figures 11 to 16 as plain rows.

The paper's parameters are those of `FULL`; `QUICK` is the same with a tenth of the noise, and hence
of the capacity, and of the queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, get_args

import numpy as np

from research.relaxation.simulation import PAPER, Outcome, Setting, compare, run
from research.relaxation.survey import Centres, Edges, Survey, volumes, workload
from research.study import Row, Step

EPSILONS = tuple(Fraction(tenths, 10) for tenths in range(1, 6))
VOLUMES = (0.01, 0.02, 0.04, 0.08, 0.16)
SIZES = (1, 2, 3, 4, 5)  # ξ
CENTRES: tuple[Centres, ...] = get_args(Centres)
_POINTS = 40  # of a curve


@dataclass(frozen=True)
class Scale:
    """How large the experiments are."""

    people: int
    queries: int
    noise: int
    buckets: tuple[int, ...]  # the values of θ; the last but one is the default
    sample: int  # relaxed queries for which regression is tried

    def setting(self, **changed: Any) -> Setting:
        """The default values of the parameters, but for some."""
        return replace(Setting(noise=self.noise, buckets=self.buckets[-2]), **changed)


FULL = Scale(1_000_000, 20_000, 2000, tuple(10**k for k in range(2, 7)), 400)
QUICK = Scale(100_000, 2_000, 200, tuple(10**k for k in range(1, 6)), 25)


def bounds(epsilon: Fraction, noise: int, volume: float) -> tuple[float, float]:
    """Return the two bounds of lemma 3 on the number of answered queries: if all have this volume;
    and if all have at least this volume, and leave out as much.
    """
    budget = float(epsilon) * noise
    return budget / (2 * volume * (1 - volume)), budget / volume


class Laboratory:
    """A survey, its workloads, and the outcomes of all settings, each run once."""

    def __init__(self, survey: Survey, scale: Scale, step: Step, seed: int = 1) -> None:
        self.survey, self.scale, self.seed = survey, scale, seed
        self.step = step
        self._outcomes: dict[tuple[Any, ...], Outcome] = {}
        for kind in ("exact", "histogram"):  # compiled before anything is timed
            few = workload(survey, "uniform", volume=0.04, count=60, seed=0)
            run(survey, few, Setting(kind, noise=20))

    def outcome(
        self,
        centres: Centres,
        setting: Setting,
        volume: float = 0.04,
        edges: Edges = "cut",
    ) -> Outcome:
        key = centres, setting, volume, edges
        if key not in self._outcomes:
            relaxed = f"ξ = {setting.most}" if setting.most else "no relaxation"
            self.step(
                f"{centres} centres, {setting.tracker}, θ = {setting.buckets}, "
                f"ε = {float(setting.epsilon):g}, s = {volume:.0%}, {edges}, {relaxed}"
            )
            self._outcomes[key] = run(
                self.survey, self.boxes(centres, volume, edges), setting, self.seed
            )
        return self._outcomes[key]

    def boxes(self, centres: Centres, volume: float = 0.04, edges: Edges = "cut") -> Any:
        count, seed = self.scale.queries, self.seed
        return workload(self.survey, centres, volume=volume, count=count, seed=seed, edges=edges)

    def volume(self, centres: Centres, volume: float = 0.04, edges: Edges = "cut") -> float:
        """The mean volume that the queries of a workload really have: codes are whole."""
        return float(volumes(self.boxes(centres, volume, edges), self.survey).mean())


def study(laboratory: Laboratory) -> Iterator[tuple[str, list[Row]]]:
    """Run all experiments; yield the name and the rows of each."""
    yield "figure 11", list(progress(laboratory))
    yield "figure 12", list(capacity(laboratory))
    scale = laboratory.scale
    size = list(quality(laboratory, "ξ", SIZES, trackers=("histogram", "exact")))
    epsilon = list(quality(laboratory, "ε", EPSILONS))
    volume = list(quality(laboratory, "s", VOLUMES))
    buckets = list(quality(laboratory, "θ", scale.buckets))
    yield "figure 13", size
    yield "figure 14", epsilon
    yield "figure 15", volume
    yield "figure 16", [*epsilon, *volume, *size, *buckets]
    yield "edges", list(readings(laboratory))
    yield "regression", list(estimates(laboratory))
    yield "repeats", list(once(laboratory))


def progress(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 11: how many queries are answered, without relaxation, of those submitted so far."""
    scale = laboratory.scale
    trackers = [("disjoint", scale.buckets[0]), *(("histogram", k) for k in scale.buckets)]
    trackers += [("exact", scale.buckets[0]), (PAPER, scale.buckets[-2])]
    submitted = np.linspace(0, scale.queries, _POINTS + 1).astype(int)[1:]
    for centres, (tracker, buckets) in product(CENTRES, trackers):
        setting = scale.setting(tracker=tracker, buckets=buckets, most=0)
        fixed, least = bounds(setting.epsilon, setting.noise, 0.04)
        answered = laboratory.outcome(centres, setting).answered.cumsum()
        for count in submitted.tolist():
            yield {
                "centres": centres,
                "tracker": tracker,
                "θ": buckets if tracker in ("histogram", PAPER) else None,
                "submitted": count,
                "answered": int(answered[count - 1]),
                "bound (3)": fixed,
                "bound (4)": least,
            }


def capacity(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 12: how many of all queries are answered, without relaxation, against ε and s."""
    scale = laboratory.scale
    points: list[tuple[str, Any]] = [("ε", each) for each in EPSILONS]
    points += [("s", each) for each in VOLUMES]
    for centres, (varied, value), tracker in product(CENTRES, points, ("histogram", "exact")):
        setting, volume = _varied(scale.setting(tracker=tracker, most=0), varied, value)
        fixed, least = bounds(setting.epsilon, setting.noise, volume)
        yield {
            "centres": centres,
            "varied": varied,
            "value": float(value),
            "tracker": tracker,
            "answered": laboratory.outcome(centres, setting, volume).capacity,
            "mean volume": laboratory.volume(centres, volume),
            "bound (3)": fixed,
            "bound (4)": least,
        }


def quality(
    laboratory: Laboratory,
    varied: str,
    values: Sequence[Any],
    trackers: Sequence[str] = ("histogram",),
) -> Iterator[Row]:
    """Figures 13 to 16: relaxation error, compound size and time per query, against a parameter."""
    for centres, tracker, value in product(CENTRES, trackers, values):
        setting, volume = _varied(laboratory.scale.setting(tracker=tracker), varied, value)
        outcome = laboratory.outcome(centres, setting, volume)
        yield {
            "centres": centres,
            "tracker": tracker,
            "varied": varied,
            "value": float(value),
            "answered": outcome.capacity,
            "relaxed": len(outcome.relaxed),
            "patches": len(outcome.boxes) - outcome.capacity,
            "error": outcome.error,
            "size": outcome.size,
            "microseconds": outcome.microseconds,
        }


def readings(laboratory: Laboratory) -> Iterator[Row]:
    """The capacity when intervals are moved into the domain instead of cut."""
    for centres, edges, tracker in product(CENTRES, get_args(Edges), ("histogram", "exact")):
        setting = laboratory.scale.setting(tracker=tracker, most=0)
        volume = laboratory.volume(centres, edges=edges)
        answered = laboratory.outcome(centres, setting, edges=edges).capacity
        yield {
            "centres": centres,
            "edges": edges,
            "tracker": tracker,
            "answered": answered,
            "mean volume": volume,
            "of bound (3)": answered / bounds(setting.epsilon, setting.noise, 0.04)[0],
            # No rule that lets at most ελ/2 queries cover a point can fill more than the space.
            "of the space": answered * volume / setting.limit,
        }


def estimates(laboratory: Laboratory) -> Iterator[Row]:
    """Squared errors of compounds and of regression, on a sample of the queries relaxed."""
    for centres, tracker in product(CENTRES, ("histogram", "exact")):
        outcome = laboratory.outcome(centres, laboratory.scale.setting(tracker=tracker))
        laboratory.step(f"{centres} centres, {tracker}, regression")
        boxes = laboratory.boxes(centres)
        found = compare(laboratory.survey, boxes, outcome, laboratory.scale.sample)
        relaxed = len(outcome.relaxed)
        yield {"centres": centres, "tracker": tracker, "relaxed": relaxed, **found}


def once(laboratory: Laboratory) -> Iterator[Row]:
    """The same queries without repeated ones, for which the database repeats its answer and charges
    nothing.
    """
    survey, scale = laboratory.survey, laboratory.scale
    for centres, tracker in product(CENTRES, ("histogram", "exact")):
        laboratory.step(f"{centres} centres, {tracker}, every query once")
        boxes = laboratory.boxes(centres)
        boxes = boxes[np.sort(np.unique(boxes, axis=0, return_index=True)[1])]
        outcome = run(survey, boxes, scale.setting(tracker=tracker), laboratory.seed)
        found = compare(survey, boxes, outcome, scale.sample)
        yield {
            "centres": centres,
            "tracker": tracker,
            "submitted": len(boxes),
            "answered": outcome.capacity,
            "relaxed": len(outcome.relaxed),
            "error": outcome.error,
            "size": outcome.size,
            "compound": found["compound"],
            "regression": found["regression"],
        }


def _varied(setting: Setting, varied: str, value: Any) -> tuple[Setting, float]:
    """A setting with one parameter changed, and the volume of the queries."""
    if varied == "s":
        return setting, value
    fields = {"ε": "epsilon", "ξ": "most", "θ": "buckets"}
    return replace(setting, **{fields[varied]: value}), 0.04
