"""Views of one sensitive value per person as weights: what each row adds to the estimated count of
every value. For experiments: the rows are known to whoever publishes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from research.people import Codes
from scumble.audit.adversary import shown
from scumble.audit.exposure import Exposure, exposure
from scumble.model.evidence.channels import BagChannel, UniformChannel
from scumble.model.evidence.evidence import Records, Tuples
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.evidence.presence import Included
from scumble.model.evidence.subset_law import SubsetLaw
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]
PLACE, SECRET = "place", "secret"


def publish(
    secrets: Codes, values: int, mechanism: Mechanism, seed: int, spread: int = 1
) -> Release:
    """Everybody has a place of their own, `spread` apart, which is published, and a secret."""
    places = len(secrets) * spread
    schema = Schema(
        (
            Attribute(PLACE, "quasi", IntegerRange(0, places - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, values - 1)),
        )
    )
    table = pa.table({PLACE: spread * np.arange(len(secrets)), SECRET: secrets})
    return sc.publish(table, schema, mechanism, seed=seed)


def weights(release: Release) -> Floats:
    """A row for each place, a column for each value, of a view that shows every place: the inverse
    of the mean counts under each true value, so that sums over places are unbiased.
    """
    [channel] = cast(Records, release.evidence).channels
    counts = shown(release, PLACE)
    if isinstance(channel, UniformChannel):
        keep, values = float(channel.keep), counts.shape[1]
        means = keep * np.eye(values) + (1 - keep) / values
    else:
        means = cast(BagChannel, channel).law.means()
    found: Floats = counts @ np.linalg.inv(means)
    return found


def tuple_counts(release: Release) -> Floats:
    """The estimated counts of all values of a view of tuples, true and false."""
    evidence, schema = cast(Tuples, release.evidence), release.schema
    presence = cast(Included, evidence.presence)
    table = pq.read_table(release.folder / evidence.file, columns=[SECRET])
    seen = np.bincount(table[SECRET].to_numpy(), minlength=schema[SECRET].size)
    noise = float(presence.noise)
    return np.asarray((seen - noise * schema[PLACE].size) / (float(presence.kept) - noise))


def row_noise(release: Release) -> tuple[Floats, Floats]:
    """The variance that one row adds to the estimated count of each value: a row that has the
    value, and one that has another. In a view of tuples every possible one is a row.
    """
    evidence, values = release.evidence, release.schema[SECRET].size
    if isinstance(evidence, Tuples):
        presence = cast(Included, evidence.presence)
        home, away = float(presence.kept), float(presence.noise)
    else:
        [channel] = cast(Records, evidence).channels
        if isinstance(channel, UniformChannel):
            away = float(1 - channel.keep) / values
            home = float(channel.keep) + away
        else:
            law = cast(BagChannel, channel).law
            if isinstance(law, PoolLaw):
                shares = np.array([float(share) for share in law.shares])
                drawn: Floats = (law.size - 1) * shares * (1 - shares)
                return drawn, drawn
            subset = cast(SubsetLaw, law)
            home, away = float(subset.inclusion), float(subset.chance)
    gain, same = (home - away) ** 2, np.ones(values)
    return home * (1 - home) / gain * same, away * (1 - away) / gain * same


def expected(release: Release, truth: Codes) -> float:
    """The mean |error| of the counts of all values by theory, for errors that are nearly normal."""
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
    """How often the best adversary names a secret, all being equally likely."""
    return cast(Exposure, exposure(release.manifest))  # there is one for all views made here
