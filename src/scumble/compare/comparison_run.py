"""One release of one setting, and what its answers and its exposure come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.compare.comparison_asked import Asked, Floats, Places
from scumble.compare.exposure import exposed
from scumble.compare.settings import PRIOR, Choice
from scumble.compare.truth import Codes, TrueTable
from scumble.model.errors import ParameterError
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import mechanisms
from scumble.private.publish import publish


@dataclass(frozen=True)
class Run:
    """The answers of one release, how far its tables are from the true ones, what it exposes, and
    the share of some intervals that held the truth.
    """

    method: str
    words: str
    repeat: int
    values: list[float]
    distances: list[float]
    success: float
    basis: str
    posterior: float | None
    whole: bool
    delta: float
    coverage: float | None
    intervals: int


@dataclass(frozen=True)
class Task:
    """A run that is to be made; its number among all of a comparison."""

    number: int
    choice: Choice
    repeat: int


@dataclass(frozen=True, eq=False)
class Material:
    """All that a process needs to make runs, in a form that can be sent to it."""

    schema: Schema
    codes: Mapping[str, Codes]
    rows: int
    queries: tuple[Query, ...]
    truth: Floats
    seed: int

    @classmethod
    def of(cls, table: TrueTable, queries: Sequence[Query], seed: int) -> Material:
        codes = {each.name: table.codes(each.name) for each in table.schema.published}
        truth: npt.NDArray[np.float64] = np.concatenate([*table.answers(queries), np.empty(0)])
        return cls(table.schema, codes, table.rows, tuple(queries), truth, seed)


class Runner:
    """Makes runs in this process."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.table = TrueTable(material.schema, material.codes, material.rows)
        self.asked = Asked(material.schema, material.queries)
        self.truth = material.truth

    @cached_property
    def kept(self) -> Places:
        """The answers that can be compared."""
        return self.asked.kept(self.truth)

    @cached_property
    def _rows(self) -> pa.Table:
        """In memory, as it is published: once for all runs."""
        schema = self.material.schema
        return pa.table({a.name: a.decode(self.table.codes(a.name)) for a in schema.published})

    def run(self, choice: Choice, repeat: int) -> Run:
        """Publish once and measure; a setting that cannot be raises its reason. The same seed makes
        the same release, in whatever process: nobody else ever sees it.
        """
        _check_columns(choice)
        seed = _seed(self.material.seed, choice, repeat)
        release = publish(self._rows, self.material.schema, choice.mechanism, seed=seed)
        found = self.asked.answers(release)
        values = self.asked.values(found)
        share, intervals = self.asked.coverage(found, self.truth, self.kept, repeat)
        place = exposed(release, self.table, PRIOR)
        return Run(
            method=choice.method,
            words=choice.words,
            repeat=repeat,
            values=self.asked.rounded(values, self.truth, self.kept),
            distances=self.asked.distances(values, self.truth),
            success=place.success,
            basis=place.basis,
            posterior=place.posterior,
            whole=place.whole,
            delta=max((g.parameters.get("delta", 0.0) for g in release.guarantees), default=0.0),
            coverage=share,
            intervals=intervals,
        )


def _check_columns(choice: Choice) -> None:
    """Refuse questions about more columns than a summary can measure."""
    kind, names = mechanisms()[choice.method], choice.parameters.get("attributes", ())
    most = getattr(kind, "most_attributes", len(names))
    if len(names) > most:
        takes = {1: "one column", 2: "two columns", 4: "four columns"}.get(most, f"{most} columns")
        raise ParameterError(
            f"It takes at most {takes}; the questions name {len(names)}: "
            f"{', '.join(names)}. Ask about fewer with --workload."
        )


def _seed(seed: int, choice: Choice, repeat: int) -> int:
    """Another one for every run, that depends on no other run."""
    words = f"{seed}, {choice.name}, {repeat}"
    return int.from_bytes(sha256(words.encode()).digest()[:8], "big")
