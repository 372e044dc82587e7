"""The audit of all mechanisms and of the statistical database, on all cores.

Each distinguishing test refutes an honest method with a probability of at most 1e-4, so a run of
the catalogue has at most that probability of an error for each of its tests.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np

from scumble.audit.attacks import (
    ATTACKS,
    DatabaseVictim,
    LiveVictim,
    refusal_attack,
    refusal_finding,
    run_attack,
)
from scumble.audit.mechanism_claims import tried
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding, Report
from scumble.model.privacy.accounting import Neighbours
from scumble.private.engines.interrupts import interrupts_blocked
from scumble.private.mechanism import Publisher, Summary, mechanisms
from scumble.private.mechanism_metadata import Claim

RELATIONS: tuple[Neighbours, ...] = ("add_remove", "replace")


def everything() -> Iterator[Claim]:
    """Yield the claims of every method that promises differential privacy, local or central."""
    kinds = mechanisms().values()
    for kind in kinds:
        if issubclass(kind, Publisher):
            yield from kind.claims("replace")
    for neighbours in RELATIONS:
        for kind in kinds:
            if issubclass(kind, Summary):
                yield from kind.claims(neighbours)


def catalogue(
    runs: int, step: Callable[[str], None], *, seed: int | None = None, workers: int | None = None
) -> Iterator[Report]:
    """Yield a report for each claim and one for the database, with `runs` runs of each.

    `step` is called with a description before each report.
    """
    claims = list(everything())
    words = [*(claim.words for claim in claims), "attacks on the statistical database"]
    with _processes(workers or os.cpu_count() or 1) as pool:
        with interrupts_blocked():
            found = pool.map(reported, range(len(words)), repeat(runs), repeat(seed))
        for each in words:
            step(each)
            yield next(found)


@contextmanager
def _processes(cores: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes that end with the block; if it fails or is left early, at once.

    A terminal sends Ctrl-C to all of them. They ignore it, and this process ends them. Their
    temporary folders are in one that is removed here.
    """
    before = active_children()
    spawn = get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder,
        ProcessPoolExecutor(cores, spawn, _start_process, (folder,)) as pool,
    ):
        try:
            yield pool
        except BaseException:
            for process in active_children():
                if process not in before:
                    process.kill()
            pool.shutdown(cancel_futures=True)
            raise


def _start_process(folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = folder


def reported(place: int, runs: int, seed: int | None = None) -> Report:
    """Return the report of one entry; the entry after the last claim is the database."""
    claims = list(everything())
    if place == len(claims):
        return database_report(seed)
    claim = claims[place]
    findings = list(tried(claim, runs, seed=seed))
    return Report(f"{claim.name}, entry {place + 1} of the catalogue", findings)


# The statistical database: all attacks on databases of made-up people, and whether its refusals
# depend on them.

_PEOPLE, _EPSILON, _NOISE = 40, 1.0, 2.0
_DELTA = 1e-12  # what it adds to a probability of success is below all that is printed
_QUESTIONS = 4  # for each person: more than the database will answer


def database_report(seed: int | None = None) -> Report:
    """Return the findings of all attacks on the statistical database, and on the live one."""
    rng = np.random.default_rng(seed)
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        for place, attack in enumerate(ATTACKS):
            victim, secrets = _victim(Path(folder) / f"attack-{place}", rng)
            outcome = run_attack(attack, victim, secrets, rng, _QUESTIONS)
            victim.close()
            found.append(outcome.finding(CONFIDENCE))
        found += _refusals(Path(folder), rng)
        for place, attack in enumerate(ATTACKS):
            secrets = rng.integers(0, 2, _PEOPLE).tolist()
            live = LiveVictim(
                Path(folder) / f"live-{place}", secrets, epsilon=_EPSILON, delta=_DELTA
            )
            outcome = run_attack(attack, live, secrets, rng, _QUESTIONS)
            live.close()
            found.append(outcome.finding(CONFIDENCE))
    return Report("the statistical database, last entry of the catalogue", found)


def _refusals(folder: Path, rng: np.random.Generator) -> list[Finding]:
    """Ask two databases with different people the same questions, and compare refusals."""
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
