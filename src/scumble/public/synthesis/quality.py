"""How near rows are to the noisy tables that they were drawn from; the data have no part in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import pi, sqrt

import pyarrow as pa

from scumble.model.long_work import tell
from scumble.public.synthesis.noisy_tables import NoisyTable
from scumble.public.synthesis.row_fitting import counts_of
from scumble.public.synthesis.tree_model import Codes

MOST_WAYS = 3


def quality(
    names: Sequence[str],
    columns: Sequence[Codes],
    sizes: Sequence[int],
    tables: Sequence[NoisyTable],
    total: float,
) -> pa.Table:
    """Return, for every noisy table of up to three attributes (of larger ones, for the sums by
    their single attributes and pairs), its L1 distance from the table of
    the rows, both as shares, and the distance that the noise alone would make.

    A distance near that of the noise is all that can be asked for: the noisy table is that far from
    the truth. A larger one tells that the rows do not show what was measured.
    """
    found = sorted(_small(tables), key=lambda each: (len(each.places), each.places))
    number = max(len(columns[0]), 1)
    distances, noises = [], []
    for done, each in enumerate(found, 1):
        shape = [sizes[place] for place in each.places]
        shares = counts_of(columns, each.places, shape) / number
        distances.append(float(abs(each.counts / total - shares).sum()))
        noises.append(sqrt(2 / pi * each.variance) * each.cells / total)
        tell(done, len(found))
    return pa.table(
        {
            "attributes": pa.array(
                [[names[place] for place in each.places] for each in found], pa.list_(pa.string())
            ),
            "ways": pa.array([len(each.places) for each in found], pa.int64()),
            "cells": pa.array([each.cells for each in found], pa.int64()),
            "distance": pa.array(distances, pa.float64()),
            "noise": pa.array(noises, pa.float64()),
        }
    )


def _small(tables: Sequence[NoisyTable]) -> list[NoisyTable]:
    found = {each.places: each for each in tables if len(each.places) <= MOST_WAYS}
    for each in tables:
        if len(each.places) > MOST_WAYS:
            for ways in (1, 2):
                for places in combinations(each.places, ways):
                    found.setdefault(places, each.along(places))
    return list(found.values())
