"""The questions of a comparison as one row of answers: one for each, or for each of its groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.compare import measures
from scumble.compare.measures import Answers
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Estimates
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Key = tuple[Any, ...]

MOST_INTERVALS = 500  # of one release: the exact ones of publishers take milliseconds each


class Asked:
    """What is asked of every release, what of it can be compared, and how that is done."""

    def __init__(self, schema: Schema, queries: Sequence[Query]) -> None:
        self._queries = queries
        self._keys: list[list[Key]] = [
            list(product(*(schema[name].labels().to_pylist() for name in query.groups)))
            for query in queries
        ]
        self.counts = np.array(
            [q.aggregate == "count" for q, keys in self._pairs() for _ in keys], bool
        )

    def kept(self, truth: Floats) -> Places:
        """The answers that can be compared: an average of no rows, and a count of none that is only
        one of many groups, cannot.
        """
        grouped = np.array([bool(q.groups) for q, keys in self._pairs() for _ in keys], bool)
        wanted = np.isfinite(truth) & ~(grouped & (truth == 0)) & (self.counts | (truth != 0))
        return np.flatnonzero(wanted)

    def names(self, kept: Places) -> Iterator[str]:
        """The text of every answer's question, with its group."""
        every = [
            query.text + (f" -- {', '.join(map(str, key))}" if key else "")
            for query, keys in self._pairs()
            for key in keys
        ]
        return (every[place] for place in kept)

    def answers(self, release: Release) -> list[Estimate | None]:
        """Every answer; None for a group that the release does not know."""
        found: list[Estimate | None] = []
        given = release.answer_many(self._queries)
        for answer, keys in zip(given, self._keys, strict=True):
            if isinstance(answer, Estimates):
                by_key = dict(answer)
                found += [by_key.get(key) for key in keys]
            else:
                found.append(answer)
        return found

    def values(self, answers: Sequence[Estimate | None]) -> Floats:
        """The numbers; a group that is not there has none, and what is unknown counts as none."""
        found = np.array([0.0 if each is None else each.value for each in answers])
        return np.asarray(np.nan_to_num(found, posinf=0.0, neginf=0.0))

    def rounded(self, values: Floats, truth: Floats, kept: Places) -> list[float]:
        """Numbers to keep, in ten digits: those behind change with the order in which threads add
        up.
        """
        least = np.where(self.counts[kept], 1.0, 1e-300)
        scale = np.maximum(np.maximum(np.abs(values[kept]), np.abs(truth[kept])), least)
        digits = 9 - np.floor(np.log10(scale)).astype(int)
        pairs = zip(values[kept].tolist(), digits.tolist(), strict=True)
        return [round(value, places) for value, places in pairs]

    def distances(self, values: Floats, truth: Floats) -> list[float]:
        """How far the table of every GROUP BY that counts is from the true one, with all its cells;
        of a table of nobody there is nothing to tell.
        """
        found, start = [], 0
        for query, keys in self._pairs():
            cells = slice(start, start + len(keys))
            start += len(keys)
            if query.groups and query.aggregate == "count" and truth[cells].any():
                found.append(round(measures.marginal_distance(truth[cells], values[cells]), 10))
        return found

    def coverage(
        self, answers: Sequence[Estimate | None], truth: Floats, kept: Places, repeat: int
    ) -> tuple[float | None, int]:
        """The share of the intervals of 95 % that hold the truth, and of how many: all, or as many
        as can be computed in a short time, which change from run to run.
        """
        stride = -(-len(kept) // MOST_INTERVALS)
        known = [(p, a) for p in kept[repeat % max(stride, 1) :: stride] if (a := answers[p])]
        if not known:
            return None, 0
        limits = np.array([answer.interval() for _, answer in known]).T[:, np.newaxis]
        right = truth[[place for place, _ in known]]
        return float(measures.coverage(Answers(right, right[np.newaxis], 1, *limits))[0]), len(
            known
        )

    def _pairs(self) -> Iterator[tuple[Query, list[Key]]]:
        return zip(self._queries, self._keys, strict=True)
