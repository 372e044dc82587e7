"""Aroma against αβ, FRAPP and subsets: at the paper's reading of the same privacy, and at the same
exposure. Counts (figures 8 and 9 of the paper) and averages (figure 10).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import pi, sqrt
from time import process_time

import numpy as np

import scumble as sc
from research.aroma.views import (
    CLOSE,
    EPSILON,
    PLACE,
    SECRET,
    K,
    Laboratory,
    View,
    expected,
    exposed,
    publish,
    tuple_counts,
    uniform_pool,
    weights,
)
from research.study import Codes, Floats, Row
from scumble.families.aroma.design import pool_exposure
from scumble.families.randomised_response.check import subset_exposure
from scumble.model.privacy.guarantee import epsilon_for_exposure
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.public.release import Release

_SPREAD = 1000  # possible places for each person, in the comparison at the paper's reading


def against_size(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 8: groups of q people, the same posterior as Theorem 5.1 reads it."""
    for size in laboratory.scale.sizes:
        yield _counts(laboratory, K, "Aroma", sc.Aroma(k=K), size)
        yield _counts(laboratory, K, "αβ", _tuples(laboratory, K), size, _SPREAD)


def against_k(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 9: the same against k, and FRAPP, which keeps a value with 1/k."""
    size = laboratory.scale.rivals
    for k in laboratory.scale.levels:
        yield _counts(laboratory, k, "Aroma", sc.Aroma(k=k), size)
        yield _counts(laboratory, k, "αβ", _tuples(laboratory, k), size, _SPREAD)
        yield _counts(laboratory, k, "FRAPP", sc.Uniform(keep=1 / k), size)


def _tuples(laboratory: Laboratory, k: int) -> sc.AlphaBeta:
    """αβ with α + β = 1/2 and (k−1)qf = n_D β/α."""
    odds = (k - 1) / laboratory.values / _SPREAD
    noise = 0.5 * odds / (1 + odds)
    return sc.AlphaBeta(alpha=0.5 - noise, beta=noise)


def equal(laboratory: Laboratory) -> Iterator[Row]:
    """Errors of methods with the exposure of Aroma: uniform perturbation; αβ in its best case,
    where every place is occupied; subsets with the same exposure, and subsets with the ε of uniform
    perturbation, whose exposure is smaller.
    """
    for k in laboratory.scale.levels:
        success = pool_exposure(uniform_pool(k, laboratory.values))
        implied = epsilon_for_exposure(success, laboratory.values)
        noise = noise_for(success, laboratory.values)
        largest = loss_for(success, laboratory.values)
        rivals: dict[str, tuple[Mechanism, float | None]] = {
            "Aroma": (sc.Aroma(k=k), None),
            "uniform": (sc.Uniform(epsilon=implied), implied),
            "αβ": (sc.AlphaBeta(alpha=0.5 - noise, beta=noise), None),
            "subset": (sc.Subset(epsilon=largest), largest),
            "subset, ε": (sc.Subset(epsilon=implied), implied),
        }
        for name, (mechanism, epsilon) in rivals.items():
            row = _counts(laboratory, k, name, mechanism, laboratory.scale.rivals)
            yield row | {"ε of its LDP": epsilon}


def noise_for(success: float, values: int) -> float:
    """Return the β for which αβ with α + β = 1/2 has this exposure, by bisection."""
    low, high = 0.0, 0.5
    for _ in range(60):
        noise = (low + high) / 2
        chosen = (1 - (1 - noise) ** values) / (values * noise)
        reached = 0.5 * chosen + 0.5 * (1 - noise) ** (values - 1) / values
        low, high = (noise, high) if reached > success else (low, noise)
    return high


def loss_for(success: float, values: int) -> float:
    """Return the largest ε, in hundredths, for which the exposure of subsets is at most this."""
    schema = Schema((Attribute("secret", "sensitive", IntegerRange(0, values - 1)),))
    allowed = [
        epsilon
        for epsilon in (hundredths / 100 for hundredths in range(1, 401))
        if subset_exposure(sc.Subset(epsilon=epsilon).law(schema)) <= success
    ]
    return max(allowed)


def _counts(
    laboratory: Laboratory, k: int, name: str, mechanism: Mechanism, size: int, spread: int = 1
) -> Row:
    """Return the mean |error| of the counts of all values over `size` people, and the exposure."""
    laboratory.step(f"{name} beside k = {k}, {size:,} people")
    secrets = laboratory.secrets[:size]
    truth = np.bincount(secrets, minlength=laboratory.values)
    errors = []
    for run in range(laboratory.scale.runs):
        view = publish(secrets, laboratory.values, mechanism, laboratory.seed + run, spread)
        tuples = mechanism.name == "alphabeta"
        found = tuple_counts(view) if tuples else weights(view).sum(axis=0)
        errors.append(np.abs(found - truth).mean())
    return {
        "k": k,
        "q": len(secrets),
        "method": name,
        "error": float(np.mean(errors)),
        "deviation": float(np.std(errors)),
        "theory": expected(view, truth),
        "exposure": exposed(view).success,
    }


def averages(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 10: the mean age of the people with a value, for all values of average frequency or
    more. FRAPP is that of figure 9; the others have the exposure of Aroma.
    """
    years = laboratory.years
    for k in laboratory.scale.levels:
        success = pool_exposure(uniform_pool(k, laboratory.values))
        rivals = {
            "Aroma": sc.Aroma(k=k),
            "FRAPP": sc.Uniform(keep=1 / k),
            "uniform": sc.Uniform(epsilon=epsilon_for_exposure(success, laboratory.values)),
            "subset": sc.Subset(epsilon=loss_for(success, laboratory.values)),
        }
        for name, mechanism in rivals.items():
            views = laboratory.views(mechanism)
            truth = ratios(laboratory.truth, years)
            chosen = laboratory.truth.mean(axis=0) >= 1 / laboratory.values
            errors = [np.abs(ratios(view.weights, years) - truth)[chosen] for view in views]
            theory = sqrt(2 / pi) * average_deviation(views[0], laboratory.truth, years)
            yield {
                "k": k,
                "values": int(chosen.sum()),
                "method": name,
                "error": float(np.mean(errors)),
                "deviation": float(np.std([each.mean() for each in errors])),
                "theory": float(theory[chosen].mean()),
                "exposure": views[0].exposure,
            }


def ratios(counted: Floats, years: Floats) -> Floats:
    """Return estimated sums over estimated counts, clipped to the range of the years."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (counted.T @ years) / counted.sum(axis=0)
    kept: Floats = np.nan_to_num(found, nan=float(years.mean())).clip(years.min(), years.max())
    return kept


def average_deviation(view: View, truth: Floats, years: Floats) -> Floats:
    """Return the standard deviation of the estimated mean age of each value: that of Σ w (a − mean)
    over its count, which is accurate where the count is far from zero.
    """
    home, away = view.noise
    off = (years[:, None] - ratios(truth, years)) ** 2
    rows = np.where(truth > 0, home, away)
    found: Floats = np.sqrt((off * rows).sum(axis=0)) / truth.sum(axis=0).clip(1)
    return found


# Aroma against noise on each answer: figure 7 of its paper.

_HOT, _AWAY, _SHARE = 30, 5000, 0.8  # hot areas, their deviation, and queries that go to one
_WIDTH = 5  # in parts per hundred of the table: how many people a query is about
_POINTS = 20


class Ranges:
    """The queries of figure 7: a value, in a range of places, mostly in one of the hot areas."""

    def __init__(self, laboratory: Laboratory) -> None:
        generator = np.random.default_rng(laboratory.seed)
        rows, number = laboratory.rows, laboratory.scale.queries
        self.size = max(rows * _WIDTH // 100, 1)
        centres = generator.integers(0, rows, _HOT)[generator.integers(0, _HOT, number)]
        hot = centres + generator.normal(0, min(_AWAY, rows / 20), number)
        anywhere = generator.uniform(0, rows, number)
        middle = np.where(generator.random(number) < _SHARE, hot, anywhere)
        starts = (middle - self.size / 2).clip(0, rows - self.size).astype(np.int64)
        self.starts, self.values = starts, generator.integers(0, laboratory.values, number)

    def popularity(self, laboratory: Laboratory) -> Floats:
        """Return after each query the largest number of queries so far that count one person's
        value.
        """
        asked = np.zeros((laboratory.values, laboratory.rows), np.int32)
        most, found = 0, []
        for start, value in zip(self.starts.tolist(), self.values.tolist(), strict=True):
            part = asked[value, start : start + self.size]
            part += 1
            most = max(most, int(part.max()))
            found.append(most)
        return np.array(found, float)

    def errors(self, laboratory: Laboratory, k: int) -> Floats:
        """|error| of every answer of one view."""
        off = laboratory.view(sc.Aroma(k=k), 0).weights - laboratory.truth
        sums = np.concatenate([np.zeros((1, laboratory.values)), off.cumsum(axis=0)])
        ends = self.starts + self.size
        found: Floats = np.abs(sums[ends, self.values] - sums[self.starts, self.values])
        return found


def accumulated(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 7(a): the error of the answers as more are given, ε = 0.5.

    Laplace noise of scale 2S/ε, S the largest number of queries so far that count one person's
    value; its mean |error| is the scale.
    """
    ranges = Ranges(laboratory)
    popularity, errors = ranges.popularity(laboratory), ranges.errors(laboratory, K)
    ends = np.linspace(0, len(errors), _POINTS + 1).astype(int)
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        yield {
            "queries": last,
            "people in a query": ranges.size,
            "output perturbation": float((2 * popularity[first:last] / EPSILON).mean()),
            "Aroma": float(errors[first:last].mean()),
        }


def output(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 7(b): the same against ε, at the first, the middle and the last query."""
    ranges = Ranges(laboratory)
    popularity = ranges.popularity(laboratory)
    middle = len(popularity) // 2
    for epsilon in laboratory.scale.epsilons:
        k = sc.Aroma.k_for(epsilon, 1 / laboratory.values)
        yield {
            "ε": epsilon,
            "k": k,
            "first query": 2 * float(popularity[0]) / epsilon,
            f"query {middle:,}": 2 * float(popularity[middle - 1]) / epsilon,
            f"query {len(popularity):,}": 2 * float(popularity[-1]) / epsilon,
            "Aroma": float(ranges.errors(laboratory, k).mean()),
        }


# Processor time and size of views: figure 11 of the paper.

_REPEATS = 3
_QUERIES = 10
_PART = 20  # of which one is asked about: the places in a query


def times(laboratory: Laboratory) -> Iterator[Row]:
    """Processor time to publish a view and to answer a count, against k; FRAPP keeps with 1/k. The
    people of the table come several times, so that there is something to measure.
    """
    secrets: Codes = np.resize(laboratory.secrets, laboratory.scale.timed)
    _timed(secrets, laboratory.values, sc.Uniform(keep=0.5), 1)  # nothing is compiled later
    for k in laboratory.scale.levels:
        mechanisms: dict[str, Mechanism] = {
            "FRAPP": sc.Uniform(keep=1 / k),
            "Aroma": sc.Aroma(k=k),
            f"Aroma, n = {CLOSE} m": sc.Aroma(k=k, closeness=CLOSE),
        }
        first: Row = {}
        for name, mechanism in mechanisms.items():
            laboratory.step(f"time of {name}, k = {k}")
            found = _timed(secrets, laboratory.values, mechanism, _REPEATS)
            first = first or found
            yield {
                "k": k,
                "rows": len(secrets),
                "method": name,
                **found,
                "publish / FRAPP": found["publish, s"] / first["publish, s"],
                "answer / FRAPP": found["answer, ms"] / first["answer, ms"],
            }


def _timed(secrets: Codes, values: int, mechanism: Mechanism, repeats: int) -> Row:
    """Return the least times of `repeats` tries, and the size of the view."""
    publishing, answering = [], []
    for run in range(repeats):
        start = process_time()
        release = publish(secrets, values, mechanism, seed=run)
        publishing.append(process_time() - start)
        questions = _questions(len(secrets), values)
        release.answer(questions[0])  # the view is opened by then
        start = process_time()
        for question in questions:
            release.answer(question)
        answering.append(1000 * (process_time() - start) / len(questions))
    return {
        "publish, s": min(publishing),
        "answer, ms": min(answering),
        "bytes a row": _size(release) / len(secrets),
    }


def _questions(rows: int, values: int) -> list[str]:
    """Counts of a value in a range of places."""
    width, found = rows // _PART, []
    for number in range(_QUERIES):
        start = number * (rows - width) // _QUERIES
        where = f"{PLACE} BETWEEN {start} AND {start + width - 1} AND {SECRET} = {number % values}"
        found.append(f"SELECT COUNT(*) FROM t WHERE {where}")
    return found


def _size(release: Release) -> int:
    return sum((release.folder / name).stat().st_size for name in release.evidence.files)
