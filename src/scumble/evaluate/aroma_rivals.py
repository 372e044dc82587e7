"""Aroma against output perturbation, αβ, FRAPP and subsets: at the paper's reading of the same
privacy, and at the same exposure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

import scumble as sc
from scumble.attribute import Attribute
from scumble.audit.exposure import subset
from scumble.errors import ParameterError
from scumble.evaluate.aroma import EPSILON, K, Laboratory, Row, deviation, uniform_pool
from scumble.evaluate.aroma_views import Floats, expected, exposed, publish, tuple_counts, weights
from scumble.guarantee import epsilon_for_exposure
from scumble.kinds import IntegerRange
from scumble.mechanism import Mechanism
from scumble.publishers.aroma_risk import exposure, profile
from scumble.schema import Schema

Rivals = dict[str, tuple[Mechanism, int]]  # with the places that there are for each person

_HOT, _AWAY, _SHARE = 30, 5000, 0.8  # hot areas, their deviation, and queries that go to one
_WIDTH = 5  # in parts per hundred of the table: how many people a query is about
_SPREAD = 1000  # possible places for each person, in the comparison at the paper's reading
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
        """After each query, how often the most popular person's value was asked for so far."""
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
        off = laboratory.weights(sc.Aroma(k=k), 0) - laboratory.truth
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


def paper(laboratory: Laboratory) -> Iterator[Row]:
    """Figures 8 and 9: the same posterior, as Theorem 5.1 reads it: (k−1)qf = n_D β/α for αβ with
    α + β = 1/2, and FRAPP keeps a value with 1/k.
    """
    f = 1 / laboratory.values
    for k in laboratory.scale.levels:
        odds = (k - 1) * f / _SPREAD
        noise = 0.5 * odds / (1 + odds)
        rivals: Rivals = {
            "αβ": (sc.AlphaBeta(alpha=0.5 - noise, beta=noise), _SPREAD),
            "FRAPP": (sc.Uniform(keep=1 / k), 1),
        }
        yield _compared(laboratory, k, rivals)


def equal(laboratory: Laboratory) -> Iterator[Row]:
    """The same exposure as Aroma: uniform perturbation, which has the ε whose bound that is; αβ
    where every place has somebody, its best case; subsets that are exposed as much, and subsets
    with the ε of uniform, which are exposed less.
    """
    for k in laboratory.scale.levels:
        law = uniform_pool(k, laboratory.values)
        success = exposure(law)
        epsilon = epsilon_for_exposure(success, laboratory.values)
        noise = noise_for(success, laboratory.values)
        rivals: Rivals = {
            "uniform": (sc.Uniform(epsilon=epsilon), 1),
            "αβ": (sc.AlphaBeta(alpha=0.5 - noise, beta=noise), 1),
            "subset": (sc.Subset(epsilon=loss_for(success, laboratory.values)), 1),
            "subset, ε": (sc.Subset(epsilon=epsilon), 1),
        }
        row = _compared(laboratory, k, rivals)
        yield row | {
            "ε implied": epsilon,
            "δ(ε) of Aroma": profile(law, (epsilon,))[0],
            "ε of subset": loss_for(success, laboratory.values),
        }


def noise_for(success: float, values: int) -> float:
    """The β for which αβ with α + β = 1/2 has this exposure, by bisection: it falls with β."""
    low, high = 0.0, 0.5
    for _ in range(60):
        noise = (low + high) / 2
        chosen = (1 - (1 - noise) ** values) / (values * noise)
        reached = 0.5 * chosen + 0.5 * (1 - noise) ** (values - 1) / values
        low, high = (noise, high) if reached > success else (low, noise)
    return high


def loss_for(success: float, values: int) -> float:
    """The largest ε, in hundredths, with which subsets are exposed no more than this."""
    schema = Schema((Attribute("secret", "sensitive", IntegerRange(0, values - 1)),))
    allowed = [
        epsilon
        for epsilon in (hundredths / 100 for hundredths in range(1, 401))
        if subset(sc.Subset(epsilon=epsilon).law(schema)) <= success
    ]
    return max(allowed)


def _compared(laboratory: Laboratory, k: int, rivals: Rivals) -> Row:
    """Mean |error| of the counts of all values over some people, and the exposure of each."""
    secrets = laboratory.secrets[: laboratory.scale.rivals]
    truth = np.bincount(secrets, minlength=laboratory.values)
    row: Row = {"k": k, "people": len(secrets)}
    every: Rivals = {"Aroma": (sc.Aroma(k=k), 1), **rivals}
    for name, (mechanism, spread) in every.items():
        laboratory.step(f"{name} beside k = {k}")
        errors, facts = [], Row()
        for run in range(laboratory.scale.runs):
            seed = laboratory.seed + run
            view = publish(secrets, laboratory.values, mechanism, seed, spread)
            tuples = mechanism.name == "alphabeta"
            found = tuple_counts(view) if tuples else weights(view).sum(axis=0)
            errors.append(np.abs(found - truth).mean())
            if not facts:
                facts[f"theory, {name}"] = expected(view, truth)
                facts[f"exposure, {name}"] = exposed(view).success
        row |= {name: float(np.mean(errors)), **facts}
    return row


def one_count(laboratory: Laboratory) -> Iterator[Row]:
    """The paper's count on Adult: people over 30 with one common value; relative errors against ε.

    Aroma with the paper's k for that ε, and two methods that really have ε-LDP.
    """
    people = laboratory.people
    over = _above(people.labels[0], 30)[people.codes[:, 0]]
    # Craft-repair is the second most frequent occupation of Adult.
    value = int(np.argsort(-np.bincount(laboratory.secrets, minlength=laboratory.values))[1])
    truth = int((laboratory.secrets[over] == value).sum())
    for epsilon in laboratory.scale.epsilons:
        k = sc.Aroma.k_for(epsilon, 1 / laboratory.values)
        spread = deviation(k, int(over.sum()), 1 / laboratory.values)
        row: Row = {"ε": epsilon, "k": k, "theory": sqrt(2 / pi) * spread / truth}
        methods = {
            "Aroma": sc.Aroma(k=k),
            "uniform": sc.Uniform(epsilon=epsilon),
            "subset": sc.Subset(epsilon=epsilon),
        }
        for name, mechanism in methods.items():
            views = [laboratory.weights(mechanism, run) for run in range(laboratory.scale.runs)]
            errors = [abs(view[over, value].sum() - truth) / truth for view in views]
            row[name] = float(np.mean(errors))
        success = exposure(uniform_pool(k, laboratory.values))
        yield row | {"ε implied for Aroma": epsilon_for_exposure(success, laboratory.values)}


def _above(labels: Sequence[Any], limit: float) -> npt.NDArray[np.bool_]:
    """Which of the values of the first column are larger; a text file has them as text."""
    try:
        return np.array([float(label) > limit for label in labels])
    except ValueError:
        raise ParameterError("The first of the columns must be an age, in years.") from None
