"""A comparison: every setting published several times, and its answers held against the truth.

What comes out holds true answers of the private table: it is for the owner only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.errors import ScumbleError
from scumble.estimate import Estimate, Estimates
from scumble.evaluate.comparison_exposure import exposed
from scumble.evaluate.comparison_settings import PRIOR, Choice
from scumble.evaluate.workloads import Workload
from scumble.evaluate.workloads_truth import TrueTable
from scumble.publishing import publish
from scumble.query import Query
from scumble.release import Release
from scumble.schema import Schema

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

FORMAT = 1
_INTERVALS = 24  # of one release that are computed: they take longer than answers


@dataclass(frozen=True)
class Run:
    """One release of one setting: its answers, what it exposes, and how many of some intervals held
    the truth.
    """

    method: str
    words: str
    repeat: int
    values: list[float]
    success: float
    basis: str
    posterior: float | None
    delta: float
    held: int
    intervals: int
    seconds: float


@dataclass
class Results:
    """All runs until now; `left_out` are settings that cannot be, with the reason."""

    about: dict[str, Any]
    questions: list[str]
    counts: list[bool]  # whether an answer is a count
    truth: list[float]
    runs: list[Run] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Results:
        return cls(**{**data, "runs": [Run(**run) for run in data["runs"]]})

    def done(self, choice: Choice, repeat: int) -> bool:
        """Whether a run need not be made any more."""
        return choice.name in self.left_out or any(
            (run.method, run.words, run.repeat) == (choice.method, choice.words, repeat)
            for run in self.runs
        )


class Comparison:
    """One table, one workload, several settings, several repeats."""

    def __init__(
        self, table: TrueTable, workload: Workload, choices: Sequence[Choice], repeats: int
    ) -> None:
        self.table = table
        self.workload = workload
        self.choices = list(choices)
        self.repeats = repeats
        self.asked = Asked(table.schema, workload.queries)
        # In memory, as it is published: the source is read once for all runs.
        self._rows = pa.table(
            {a.name: a.decode(table.codes(a.name)) for a in table.schema.published}
        )

    @cached_property
    def _truth(self) -> Floats:
        return np.concatenate([*self.table.answers(self.workload.queries), np.empty(0)])

    def blank(self, **about: Any) -> Results:
        """Results without any run."""
        truth = self._truth
        kept = self.asked.kept(truth)
        facts = {
            "format": FORMAT,
            "questions": len(self.workload),
            "workload": self.workload.name,
            "rows": self.table.rows,
            "values": self.table.schema.size(a.name for a in self.table.schema.sensitive),
            "table": self._fingerprint(truth),
        }
        return Results(
            {**facts, **about},
            list(self.asked.names(kept)),
            [bool(each) for each in self.asked.counts[kept]],
            truth[kept].tolist(),
        )

    def runs(self, results: Results) -> Iterator[tuple[int, Choice]]:
        """Make what is not there yet, all settings once before any is made again; the number of
        runs that are done, and what is made next.
        """
        truth = self._truth
        kept = self.asked.kept(truth)
        todo = list(product(range(self.repeats), self.choices))
        for number, (repeat, choice) in enumerate(todo):
            yield number, choice
            if results.done(choice, repeat):
                continue
            try:
                results.runs.append(self._run(choice, repeat, truth, kept))
            except ScumbleError as error:
                results.left_out[choice.name] = str(error)

    def _run(self, choice: Choice, repeat: int, truth: Floats, kept: Places) -> Run:
        begin = time.perf_counter()
        release = publish(self._rows, self.table.schema, choice.mechanism)
        found = self.asked.answers(release)
        values = self.asked.values(found)[kept]
        held, tried = self.asked.covered(found, truth, kept, repeat)
        place = exposed(release, self.table, PRIOR)
        return Run(
            choice.method,
            choice.words,
            repeat,
            [float(value) for value in values],
            place.success,
            place.basis,
            place.posterior,
            max((each.parameters.get("delta", 0.0) for each in release.guarantees), default=0.0),
            held,
            tried,
            time.perf_counter() - begin,
        )

    def _fingerprint(self, truth: Floats) -> str:
        """What must be the same for a comparison to go on."""
        texts = "\n".join(query.text for query in self.workload.queries)
        known = f"{self.table.schema.dumps()}\n{texts}\n{truth.tolist()}"
        return sha256(known.encode()).hexdigest()[:16]


class Asked:
    """Questions as one row of answers: one for each, or one for each combination of its groups."""

    def __init__(self, schema: Schema, queries: Sequence[Query]) -> None:
        self._queries = queries
        self._keys = [
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

    def covered(
        self, answers: Sequence[Estimate | None], truth: Floats, kept: Places, repeat: int
    ) -> tuple[int, int]:
        """How many intervals hold the truth, of some that change from run to run."""
        stride = max(1, len(kept) // _INTERVALS)
        held = tried = 0
        for place in kept[repeat % stride :: stride]:
            answer = answers[place]
            if answer is not None:
                low, high = answer.interval()
                held += bool(low <= truth[place] <= high)
                tried += 1
        return held, tried

    def _pairs(self) -> Iterator[tuple[Query, list[tuple[Any, ...]]]]:
        return zip(self._queries, self._keys, strict=True)
