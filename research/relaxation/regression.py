"""Compounds and regression side by side: their squared errors for the same relaxed queries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from research.relaxation.simulation import Outcome
from research.relaxation.survey import Survey
from scumble.private.database.regression import Combination, combine, nearest
from scumble.private.database.relaxation import Compound, Distance
from scumble.private.database.space import Box, Boxes

_ROUNDING = 1e-6


def compare(survey: Survey, boxes: Boxes, outcome: Outcome, sample: int) -> dict[str, Any]:
    """Root mean squared errors, for a sample of the relaxed queries.

    As in the database, regression is for the region of the compound and counts where its variance
    is less. `exact` is regression for the very box that was asked, where there is one, else the
    same as `regression`.
    """
    every = max(1, len(outcome.relaxed) // sample)
    chosen = outcome.relaxed[::every][:sample]
    errors: dict[str, list[float]] = {"compound": [], "regression": [], "exact": []}
    moved: list[int] = []
    better = same = 0
    begin = time.process_time()
    for each in chosen:
        known, asked = outcome.boxes[: each.known], boxes[each.query]
        compound = each.compound
        off = int(np.subtract(*survey.counts(np.stack([compound.region, asked]))))
        by_compound = _noise(outcome, _signs(compound))
        found = _combination(compound.region, known, survey)
        if found is not None and found.squares < compound.size - _ROUNDING:
            better += 1
            by_regression = _noise(outcome, found)
        else:
            by_regression = by_compound
        exact = found if compound.error == 0 else _combination(asked, known, survey)
        same += exact is not None
        errors["compound"].append(by_compound)
        errors["regression"].append(by_regression)
        errors["exact"].append(by_regression + off if exact is None else _noise(outcome, exact))
        moved.append(off)
    seconds = time.process_time() - begin
    return {
        "sampled": len(chosen),
        "regression is better": better / max(len(chosen), 1),
        "exact box possible": same / max(len(chosen), 1),
        "compound": _root(errors["compound"]),
        "regression": _root(errors["regression"]),
        "compound, for the box asked": _root(np.add(errors["compound"], moved)),
        "regression, for the box asked": _root(np.add(errors["regression"], moved)),
        "exact where possible, for the box asked": _root(errors["exact"]),
        "milliseconds": 1e3 * seconds / max(len(chosen), 1),
    }


def _combination(target: Box, known: Boxes, survey: Survey) -> Combination | None:
    return combine(target, known, nearest(Distance.over(survey.sizes)(known, target)))


def _signs(compound: Compound) -> Combination:
    signs = compound.signs()
    return Combination(tuple(signs), tuple(map(float, signs.values())))


def _noise(outcome: Outcome, combination: Combination) -> float:
    """The error of a combination of answers: that of what it adds up exactly."""
    noises = outcome.noises[list(combination.answers)]
    return float(noises @ np.array(combination.weights))


def _root(errors: Sequence[float] | np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(np.mean(np.square(errors)))) if len(errors) else float("nan")
