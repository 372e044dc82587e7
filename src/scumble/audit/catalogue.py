"""The whole catalogue of methods, each with the promise to break, tried on all cores.

Each distinguishing test is wrong about an honest method with a probability of at most 1e-4, so the
catalogue is with at most that for each of its tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from math import log
from multiprocessing import get_context
from typing import Any

import scumble as sc
from scumble.audit.attacked_database import attacked_database
from scumble.audit.claim import Claim, tried
from scumble.audit.report import Report
from scumble.audit.shown_rows import secret_schema
from scumble.model.schema.schema import Schema

# Methods that promise no differential privacy, and where their promises are tried.
LEFT_OUT = {
    "partition": "promises (ρ1, ρ2) within sub-tables: recomputed by `scumble audit RELEASE`",
    "anatomy": "promises l-diversity: recomputed by `scumble audit RELEASE`",
}

LINE = Schema((sc.Attribute("a", "quasi", sc.IntegerRange(0, 7)),))
SQUARE = Schema(tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, 3)) for name in "ab"))
BINARY = Schema(tuple(sc.Attribute(name, "quasi", sc.Category(("x", "y"))) for name in "ab"))
_ASKED = ["SELECT COUNT(*) FROM t WHERE a < 2", "SELECT b, COUNT(*) FROM t GROUP BY b"]
_DELTA = 1e-3


def everything() -> Iterator[Claim]:
    """Every method that promises differential privacy, local or central."""
    yield from _publishers()
    for neighbours in ("add_remove", "replace"):
        yield from _summaries({"epsilon": 1, "neighbours": neighbours})


def _publishers() -> Iterator[Claim]:
    yield Claim(sc.Uniform(epsilon=1), 1)
    yield Claim(sc.Subset(epsilon=1), 1)
    yield Claim(sc.Frapp(epsilon=2), 2)
    profile = sc.Aroma(k=20).guarantee(secret_schema(1))[0].parameters
    yield Claim(sc.Aroma(k=20), 0.5, profile["delta at epsilon 0.5"])
    # One tuple in place of another: the one is shown or not, and so is the other.
    yield Claim(sc.AlphaBeta(alpha=0.5, beta=0.1), log(0.6 / 0.1) + log(0.9 / 0.4))


def _summaries(given: dict[str, Any]) -> Iterator[Claim]:
    names = ["a", "b"]
    gaussian = {**given, "delta": _DELTA}
    yield Claim(sc.Histogram(names, **given), 1)
    yield Claim(sc.Histogram(names, **given, contribution=3), 1)
    yield Claim(sc.Hierarchy(names, fanout=2, root=True, **given), 1)
    yield Claim(sc.Hierarchy(names, **gaussian), 1, _DELTA)
    yield Claim(sc.Wavelet(names, transform="all", **given), 1)
    yield Claim(sc.Marginals(names, ways=1, **given), 1)
    yield Claim(sc.Marginals(names, ways=2, **gaussian), 1, _DELTA)
    yield Claim(sc.Fourier(names, ways=2, **given), 1, schema=BINARY)
    yield Claim(sc.Datacube(names, **given), 1)
    yield Claim(sc.Workload(names, queries=_ASKED, **given), 1)
    yield Claim(sc.Workload(names, queries=_ASKED, **gaussian), 1, _DELTA)
    yield Claim(sc.Quadtree(["a"], **given), 1, schema=LINE)
    yield Claim(sc.Kdtree(["a"], **given), 1, schema=LINE)
    yield Claim(sc.PrivTree(["a"], **given), 1, schema=LINE)
    yield Claim(sc.Sparse(names, false_cells=1, **given), 1)
    yield Claim(sc.Sparse(names, rule="priority", size=3, **given), 1)
    yield Claim(sc.Grid(names, **given), 1, schema=SQUARE)
    yield Claim(sc.Mosaic(names, **given), 1, schema=SQUARE)
    yield Claim(sc.Dawa(["a"], **given), 1, schema=LINE)


def catalogue(
    runs: int, step: Callable[[str], None], *, seed: int | None = None, workers: int | None = None
) -> Iterator[Report]:
    """One report for each method, in the order of the catalogue."""
    claims = list(everything())
    cores = workers or os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        found = pool.map(reported, range(len(claims) + 1), repeat(runs), repeat(seed))
        for words in (*(claim.words for claim in claims), "attacks on the statistical database"):
            step(words)
            yield next(found)


def reported(place: int, runs: int, seed: int | None = None) -> Report:
    """The report of one entry; after the last method comes the database."""
    claims = list(everything())
    if place == len(claims):
        return attacked_database(seed)
    claim = claims[place]
    findings = list(tried(claim, runs, seed=seed))
    return Report(f"{claim.name}, entry {place + 1} of the catalogue", findings)
