"""Broken releases of trips: the mistakes of the published code of AdaTrace.

One part of the release is broken in each, and only that part is measured, with its share of ε.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.mechanism_claims import judged
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding
from scumble.audit.summary_plans import transcripts
from scumble.families.histogram.design import Cells
from scumble.families.sequences.publish.trajectories import TripCounter, trip_schema
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.mechanism_metadata import TRIPS
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import ListCounter
from tests.support.twins.noise_twins import unmetered
from tests.support.twins.twins import Check, Twin

GIVEN = {"length": 40, "epsilon": 2, "neighbours": "add_remove"}
ENDS, LENGTHS = 0, 2  # places of parts


class CellsInBounds(sc.Sparse):
    """No cell beyond the westernmost and the easternmost trip is published."""

    def measure(self, table, folder):
        found = super().measure(table, folder)
        counts = table._counter.counts([["first(trip)"]], self.unit)[0][:-1]
        seen = [f"x{place}y0" for place in np.flatnonzero(counts)]
        cells = pq.read_table(folder / found.file)
        inside = pc.is_in(cells["first(trip)"], pa.array(seen, pa.string()))
        pq.write_table(cells.filter(inside), folder / found.file)
        return found


class ExactCounts(sc.Histogram):
    """Counts without noise, as those of AdaTrace's second-level cells."""

    def measure(self, table, folder):
        [counts] = table._counter.counts([self.names], self.unit)
        pq.write_table(pa.table({"count": counts}), folder / "cells.parquet")
        law = DiscreteLaplace(Fraction(1))
        return Measurements("cells.parquet", self.names, Cells("count", law))


class LongestInData(sc.Histogram):
    """The sum of lengths, with noise for the longest trip in the data."""

    def measure(self, table, folder):
        [counts] = table._counter.counts([self.names], self.unit)
        lengths = np.arange(len(counts))
        longest = max(int(lengths[counts > 0].max(initial=0)), 1)
        total = np.array([int(counts @ lengths)])
        law = DiscreteLaplace(longest / self.promise.epsilon)
        table._noise.add(total, law)
        pq.write_table(pa.table({"count": total}), folder / "cells.parquet")
        return Measurements("cells.parquet", self.names, Cells("count", law))


class SpentTwice(sc.Trajectories):
    """Lengths have an ε that was spent on the way of trips already."""

    def _parts(self, trip):
        ends, steps, lengths = super()._parts(trip)
        return ends, steps, sc.Histogram(**{**lengths.parameters, "epsilon": steps.epsilon})

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


def _part(place: int, broken: type | None = None):
    """One part of the mechanism, or its broken twin with the same parameters."""
    honest = sc.Trajectories("x", "y", **GIVEN)._parts("trip")[place]
    return honest if broken is None else broken(**honest.parameters)


def _added(part, others: list, person: list) -> Check:
    """A person is added to other trips; only this part is published."""
    schema = trip_schema(TRIPS, "x", "y", GIVEN["length"]).with_derived(part.names)

    def outputs(trips: list, runs: int, noise: Keystream) -> np.ndarray:
        points = ListCounter(TRIPS, [(), *trips], np.array([0] + [1] * len(trips)))
        counter, found = TripCounter(points, "x", "y", schema), []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(runs):
                table = PrivateTable(counter, BudgetAccount(part.promise), noise)
                evidence = part.measure(table, Path(folder))
                rows = pq.read_table(Path(folder) / evidence.file)
                named = rows["first(trip)"].to_pylist() if "first(trip)" in part.names else []
                first = float(rows["count"][0].as_py()) if len(rows) else 0.0
                found.append([float("x1y0" in named), first])
        return np.array(found)

    def check(runs: int, seed: int) -> list[Finding]:
        noise = Keystream(seed)
        one, other = (outputs(trips, runs, noise) for trips in (others, [*others, person]))
        found = distinguish(one, other, confidence=CONFIDENCE)
        return [judged(repr(part), float(part.promise.epsilon), found, "one trip more")]

    return check


def _steps(kind: type[sc.Trajectories]) -> Check:
    """The steps of runs on neighbouring tables that decided alike."""
    mechanism = kind("x", "y", **{**GIVEN, "length": 3})

    def check(runs: int, seed: int) -> list[Finding]:
        found = transcripts(mechanism, TRIPS, "add_remove", 1, range(seed, seed + runs))
        loss = max(told.loss for told in found)
        verdict = "refuted" if loss > mechanism.epsilon else "stands"
        sentence = f"All steps together lose ε = {loss:.4g}; promised is {mechanism.epsilon}."
        numbers = {"found": loss, "claimed": mechanism.epsilon}
        return [Finding("steps of a run", repr(mechanism), verdict, sentence, numbers)]

    return check


def _twin(name: str, place: int, broken: type, others: list, person: list, runs: int) -> Twin:
    checks = (_added(_part(place, kind), others, person) for kind in (broken, None))
    return Twin(name, *checks, runs)


TWINS = [
    _twin("bounds of the grid from the data", ENDS, CellsInBounds, [[0]] * 3, [1], 400),
    _twin("cells of a second level without noise", LENGTHS, ExactCounts, [[0]] * 3, [], 200),
    _twin(
        "lengths by the longest of the data", LENGTHS, LongestInData, [[0]] * 3, [0, 1] * 20, 400
    ),
    Twin("ε of trips spent twice", _steps(SpentTwice), _steps(sc.Trajectories), 1),
]
