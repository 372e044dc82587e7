"""All mechanisms, on all cores.

The whole catalogue of methods, each with the promise to break, tried on all cores.

Each distinguishing test is wrong about an honest method with a probability of at most 1e-4, so the
catalogue is with at most that for each of its tests.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from math import log
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from scumble.audit.attacks import (
    ATTACKS,
    DatabaseVictim,
    refusal_attack,
    refusal_finding,
    run_attack,
)
from scumble.audit.exposure import secret_schema
from scumble.audit.mechanism_claims import Claim, tried
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding, Report
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.perturbation.alphabeta import AlphaBeta
from scumble.private.perturbation.aroma import Aroma
from scumble.private.perturbation.frapp import Frapp
from scumble.private.perturbation.subset import Subset
from scumble.private.perturbation.uniform import Uniform
from scumble.private.summaries.datacube import Datacube
from scumble.private.summaries.fourier import Fourier
from scumble.private.summaries.hierarchy import Hierarchy
from scumble.private.summaries.histogram import Histogram
from scumble.private.summaries.marginals import Marginals
from scumble.private.summaries.sparse import Sparse
from scumble.private.summaries.trees.dawa import Dawa
from scumble.private.summaries.trees.grid import Grid
from scumble.private.summaries.trees.kdtree import Kdtree
from scumble.private.summaries.trees.mosaic import Mosaic
from scumble.private.summaries.trees.privtree import PrivTree
from scumble.private.summaries.trees.quadtree import Quadtree
from scumble.private.summaries.wavelet import Wavelet
from scumble.private.summaries.workload import Workload

# Methods that promise no differential privacy, and where their promises are tried.
LEFT_OUT = {
    "partition": "promises (ρ1, ρ2) within sub-tables: recomputed by `scumble audit RELEASE`",
    "anatomy": "promises l-diversity: recomputed by `scumble audit RELEASE`",
}

LINE = Schema((Attribute("a", "quasi", IntegerRange(0, 7)),))
SQUARE = Schema(tuple(Attribute(name, "quasi", IntegerRange(0, 3)) for name in "ab"))
BINARY = Schema(tuple(Attribute(name, "quasi", Category(("x", "y"))) for name in "ab"))
_ASKED = ["SELECT COUNT(*) FROM t WHERE a < 2", "SELECT b, COUNT(*) FROM t GROUP BY b"]
_DELTA = 1e-3


def everything() -> Iterator[Claim]:
    """Every method that promises differential privacy, local or central."""
    yield from _publishers()
    for neighbours in ("add_remove", "replace"):
        yield from _summaries({"epsilon": 1, "neighbours": neighbours})


def _publishers() -> Iterator[Claim]:
    yield Claim(Uniform(epsilon=1), 1)
    yield Claim(Subset(epsilon=1), 1)
    yield Claim(Frapp(epsilon=2), 2)
    profile = Aroma(k=20).guarantee(secret_schema(1))[0].parameters
    yield Claim(Aroma(k=20), 0.5, profile["delta at epsilon 0.5"])
    # One tuple in place of another: the one is shown or not, and so is the other.
    yield Claim(AlphaBeta(alpha=0.5, beta=0.1), log(0.6 / 0.1) + log(0.9 / 0.4))


def _summaries(given: dict[str, Any]) -> Iterator[Claim]:
    names = ["a", "b"]
    gaussian = {**given, "delta": _DELTA}
    yield Claim(Histogram(names, **given), 1)
    yield Claim(Histogram(names, **given, contribution=3), 1)
    yield Claim(Hierarchy(names, fanout=2, root=True, **given), 1)
    yield Claim(Hierarchy(names, **gaussian), 1, _DELTA)
    yield Claim(Wavelet(names, transform="all", **given), 1)
    yield Claim(Marginals(names, ways=1, **given), 1)
    yield Claim(Marginals(names, ways=2, **gaussian), 1, _DELTA)
    yield Claim(Fourier(names, ways=2, **given), 1, schema=BINARY)
    yield Claim(Datacube(names, **given), 1)
    yield Claim(Workload(names, queries=_ASKED, **given), 1)
    yield Claim(Workload(names, queries=_ASKED, **gaussian), 1, _DELTA)
    yield Claim(Quadtree(["a"], **given), 1, schema=LINE)
    yield Claim(Kdtree(["a"], **given), 1, schema=LINE)
    yield Claim(PrivTree(["a"], **given), 1, schema=LINE)
    yield Claim(Sparse(names, false_cells=1, **given), 1)
    yield Claim(Sparse(names, rule="priority", size=3, **given), 1)
    yield Claim(Grid(names, **given), 1, schema=SQUARE)
    yield Claim(Mosaic(names, **given), 1, schema=SQUARE)
    yield Claim(Dawa(["a"], **given), 1, schema=LINE)


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
        return database_report(seed)
    claim = claims[place]
    findings = list(tried(claim, runs, seed=seed))
    return Report(f"{claim.name}, entry {place + 1} of the catalogue", findings)


# The statistical database as an entry of the catalogue: all attacks on databases of made-up
# people, and whether what it refuses depends on them.

_PEOPLE, _EPSILON, _NOISE = 40, 1.0, 2.0
_QUESTIONS = 4  # for each person: more than the database will answer


def database_report(seed: int | None = None) -> Report:
    """What attacks on the statistical database find."""
    rng = np.random.default_rng(seed)
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        for place, attack in enumerate(ATTACKS):
            victim, secrets = _victim(Path(folder) / f"attack-{place}", rng)
            outcome = run_attack(attack, victim, secrets, rng, _QUESTIONS)
            victim.close()
            found.append(outcome.finding(CONFIDENCE))
        found += _refusals(Path(folder), rng)
    return Report("the statistical database, last entry of the catalogue", found)


def _refusals(folder: Path, rng: np.random.Generator) -> list[Finding]:
    """Two databases with other people are asked the same."""
    made = [_victim(folder / f"refusal-{place}", rng) for place in range(2)]
    outcomes = [refusal_attack(victim, secrets) for victim, secrets in made]
    victims = [victim for victim, _ in made]
    alike = refusal_finding(victims[0], victims[1], _QUESTIONS)
    for victim in victims:
        victim.close()
    return [outcomes[0].finding(CONFIDENCE), alike]


def _victim(folder: Path, rng: np.random.Generator) -> tuple[DatabaseVictim, list[int]]:
    secrets = rng.integers(0, 2, _PEOPLE).tolist()
    return DatabaseVictim(folder, secrets, epsilon=_EPSILON, noise=_NOISE), secrets
