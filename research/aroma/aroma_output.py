"""Aroma against noise on each answer: figure 7 of its paper."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import scumble as sc
from research.aroma.aroma_views import Floats
from research.aroma.experiments import EPSILON, K, Laboratory, Row

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
