"""How far released marginals are from the true ones: mean L1 distances of normalised tables."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError
from scumble.model.privacy.person import Person
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.private.publish import publish
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows
from scumble.public.release import Release

Tables = dict[tuple[str, ...], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class MarginalErrors:
    """Means over all sets of `ways` attributes of Σ |estimated share - true share|, from 0 to 2.

    `plain` is of the unbiased estimates (None if the release does not have them for every set) and
    `fitted` of the non-negative tables.
    """

    ways: int
    sets: int
    plain: float | None
    fitted: float
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One release, the seconds it took, and its errors."""

    release: Release
    seconds: float
    errors: tuple[MarginalErrors, ...]


def trial(
    source: Any,
    schema: Schema,
    mechanism: Mechanism,
    *,
    ways: Iterable[int] = (2, 3),
    seed: int | None = None,
) -> Trial:
    """Publish a table whose exact marginals may be known here, and compare."""
    begin = time.perf_counter()
    release = publish(source, schema, mechanism, seed=seed)
    seconds = time.perf_counter() - begin
    errors = tuple(_errors(release, true_marginals(source, schema, each)) for each in ways)
    return Trial(release, seconds, errors)


def true_marginals(source: Any, schema: Schema, ways: int) -> Tables:
    """The exact counts of all sets of so many attributes."""
    sets = list(combinations(schema.names, ways))
    counts = RowCounter(Rows(source, schema)).counts(sets, Person("replace"))
    return dict(zip(sets, counts, strict=True))


def _errors(release: Release, truths: Tables) -> MarginalErrors:
    begin = time.perf_counter()
    fitted = [_distance(release, names, truths[names], nonnegative=True) for names in truths]
    seconds = time.perf_counter() - begin
    ways = len(next(iter(truths)))
    return MarginalErrors(
        ways, len(truths), _plain(release, truths), float(np.mean(fitted)), seconds
    )


def _plain(release: Release, truths: Tables) -> float | None:
    try:
        found = [_distance(release, names, truths[names], nonnegative=False) for names in truths]
    except QueryError:  # some set was not measured
        return None
    return float(np.mean(found))


def _distance(
    release: Release, names: tuple[str, ...], truth: npt.NDArray[np.int64], *, nonnegative: bool
) -> float:
    estimated = release.marginal(names, nonnegative=nonnegative).columns[-1].to_numpy()
    shares = estimated / max(float(estimated.sum()), 1.0)
    return float(np.abs(shares - truth / max(int(truth.sum()), 1)).sum())
