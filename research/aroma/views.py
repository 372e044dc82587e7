"""Published views of one sensitive value per person, for the experiments on Aroma.

A view is read as weights: what each row adds to the estimated count of every value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from research.people import People
from research.study import Codes, Floats, Step
from scumble.audit.exposure import Exposure, exposure, shown_counts
from scumble.families.alphabeta.design import InclusionProbabilities, Tuples
from scumble.model.errors import ParameterError
from scumble.model.evidence.channels import MultisetChannel, PoolLaw, SubsetLaw, UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.public.release import Release

COLUMNS = ("age", "occupation")
MADE_UP = ("age", "condition")
VALUES, K, EPSILON = 15, 49, 0.5  # the paper's number of occupations, and its k for its ε
CLOSE = 4  # n / m_i, of figure 5(a)
PLACE, SECRET = "place", "secret"


@dataclass(frozen=True)
class Scale:
    """How large the experiments are."""

    people: int
    runs: int
    sizes: tuple[int, ...]  # the values of q
    levels: tuple[int, ...]  # the values of k
    shares: tuple[float, ...] = (0.05, 0.2, 0.5, 0.8, 0.95)  # the values of f
    epsilons: tuple[float, ...] = (0.2, 0.3, 0.5, 0.7, 1.0)
    queries: int = 2000
    bags: int = 20_000  # drawn for the rate of drawing again
    rivals: int = 4000  # people in the comparison with αβ
    timed: int = 1_000_000  # rows of the views whose times are taken


FULL = Scale(30_000, 20, (500, 1000, 2000, 5000, 10_000), (20, 49, 100, 200))
QUICK = Scale(
    10_000,
    3,
    (500, 2000, 5000),
    (20, 49),
    epsilons=(0.2, 0.5, 1.0),
    bags=5000,
    rivals=2000,
    timed=30_000,
)


class Laboratory:
    """The sensitive values ("secrets") of some people, and views of them, each published once."""

    def __init__(self, people: People, scale: Scale, step: Step, seed: int = 1) -> None:
        self.scale, self.step, self.seed = scale, step, seed
        self.people = people.some(min(people.rows, scale.people), seed)
        self.years = _years(self.people)
        self.secrets: Codes = self.people.codes[:, 1]
        self.values = self.people.sizes[1]
        self._views: dict[tuple[Any, ...], View] = {}

    @property
    def rows(self) -> int:
        return self.people.rows

    @cached_property
    def truth(self) -> Floats:
        """The weights of a view without noise."""
        return np.eye(self.values)[self.secrets]

    def view(self, mechanism: Mechanism, run: int) -> View:
        key = mechanism.name, *sorted((n, str(v)) for n, v in mechanism.parameters.items()), run
        if key not in self._views:
            given = ", ".join(f"{n} = {v}" for n, v in mechanism.parameters.items())
            self.step(f"{mechanism.name}, {given}, run {run + 1}")
            view = View.of(publish(self.secrets, self.values, mechanism, self.seed + run))
            if len(self._views) > 2 * self.scale.runs:  # they are large
                self._views.pop(next(iter(self._views)))
            self._views[key] = view
        return self._views[key]

    def views(self, mechanism: Mechanism) -> list[View]:
        return [self.view(mechanism, run) for run in range(self.scale.runs)]

    def errors(self, mechanism: sc.Aroma, size: int, value: int | None = None) -> Floats:
        """Return |error| of the counts of all values, or of `value`, in disjoint groups of `size`
        people: a row for each view.
        """
        number = max(self.rows // size, 1)
        found = []
        for view in self.views(mechanism):
            off = (view.weights - self.truth)[: number * size]
            sums = np.abs(off.reshape(number, -1, self.values).sum(axis=1))
            found.append((sums if value is None else sums[:, value]).ravel())
        return np.stack(found)


def _years(people: People) -> Floats:
    """Return the ages as numbers; a text file has them as text."""
    try:
        labels = np.array([float(label) for label in people.labels[0]])
    except ValueError:
        raise ParameterError("The first of the columns must be an age, in years.") from None
    found: Floats = labels[people.codes[:, 0]]
    return found


def uniform_pool(k: int, values: int = VALUES, caps: int | None = None) -> PoolLaw:
    """Return the law of multisets of size k from a pool with equal weights."""
    return PoolLaw((1,) * values, k, None if caps is None else (caps,) * values)


def publish(
    secrets: Codes, values: int, mechanism: Mechanism, seed: int, spread: int = 1
) -> Release:
    """Publish a table in which everybody has a unique place, `spread` apart, and a secret."""
    places = len(secrets) * spread
    schema = Schema(
        (
            Attribute(PLACE, "quasi", IntegerRange(0, places - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, values - 1)),
        )
    )
    table = pa.table({PLACE: spread * np.arange(len(secrets)), SECRET: secrets})
    return sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=seed))


def weights(release: Release) -> Floats:
    """Return the weights of a view that shows every place: a row for each place, a column for each
    value. The shown counts are multiplied by the inverse of their means under each true value, so
    that sums over places are unbiased.
    """
    [channel] = cast(Records, release.evidence).channels
    counts = shown_counts(release, PLACE)
    if isinstance(channel, UniformChannel):
        keep, values = float(channel.keep), counts.shape[1]
        means = keep * np.eye(values) + (1 - keep) / values
    else:
        means = cast(MultisetChannel, channel).law.means()
    found: Floats = counts @ np.linalg.inv(means)
    return found


def tuple_counts(release: Release) -> Floats:
    """Return the estimated counts of all values from a view of true and false tuples."""
    evidence, schema = cast(Tuples, release.evidence), release.schema
    presence = cast(InclusionProbabilities, evidence.presence)
    table = pq.read_table(release.folder / evidence.file, columns=[SECRET])
    seen = np.bincount(table[SECRET].to_numpy(), minlength=schema[SECRET].size)
    noise = float(presence.noise)
    return np.asarray((seen - noise * schema[PLACE].size) / (float(presence.keep) - noise))


def row_noise(release: Release) -> tuple[Floats, Floats]:
    """Return the variance that one row adds to the estimated count of each value: of a row that has
    the value, and of a row that has another. In a view of tuples every possible tuple is a row.
    """
    evidence, values = release.evidence, release.schema[SECRET].size
    if isinstance(evidence, Tuples):
        presence = cast(InclusionProbabilities, evidence.presence)
        home, away = float(presence.keep), float(presence.noise)
    else:
        [channel] = cast(Records, evidence).channels
        if isinstance(channel, UniformChannel):
            away = float(1 - channel.keep) / values
            home = float(channel.keep) + away
        else:
            law = cast(MultisetChannel, channel).law
            if isinstance(law, PoolLaw):
                shares = np.array([float(share) for share in law.shares])
                drawn: Floats = (law.size - 1) * shares * (1 - shares)
                return drawn, drawn
            subset = cast(SubsetLaw, law)
            home, away = float(subset.inclusion), float(subset.chance)
    gain, same = (home - away) ** 2, np.ones(values)
    return home * (1 - home) / gain * same, away * (1 - away) / gain * same


def expected(release: Release, truth: Codes) -> float:
    """Return the mean |error| of the counts of all values by theory, for nearly normal errors."""
    tuples = isinstance(release.evidence, Tuples)
    candidates = release.schema[PLACE].size if tuples else int(truth.sum())
    home, away = row_noise(release)
    return float(np.sqrt(2 / np.pi * (truth * home + (candidates - truth) * away)).mean())


@dataclass(frozen=True, eq=False)
class View:
    """What an experiment needs of a published view."""

    weights: Floats
    noise: tuple[Floats, Floats]  # `row_noise`
    exposure: float

    @classmethod
    def of(cls, release: Release) -> View:
        return cls(weights(release), row_noise(release), exposed(release).success)


def exposed(release: Release) -> Exposure:
    """Return the exposure of a view."""
    return cast(Exposure, exposure(release.manifest))  # there is one for all views made here
