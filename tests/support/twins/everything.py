"""The whole catalogue, real and broken, with a line for each: `make audit`.

The exit code is 1 if a real method is refuted, or a broken one is not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context

from scumble.audit.catalogue import catalogue
from scumble.audit.report import Finding
from tests.support.twins import (
    adaptive_twins,
    basket_twins,
    generalised_twins,
    key_twins,
    ledger_twins,
    list_twins,
    noise_twins,
    row_twins,
    synthetic_twins,
    trip_twins,
)

TWINS = [
    *noise_twins.TWINS,
    *adaptive_twins.TWINS,
    *list_twins.TWINS,
    *basket_twins.TWINS,
    *trip_twins.TWINS,
    *row_twins.TWINS,
    *generalised_twins.TWINS,
    *ledger_twins.TWINS,
    *key_twins.TWINS,
    *synthetic_twins.TWINS,
]
_WIDTH = 52


def findings(place: int, seed: int | None = None) -> list[Finding]:
    """What the check of a broken twin finds, with as many runs as it takes."""
    twin = TWINS[place]
    return list(twin.broken(twin.runs, seed))


def line(name: str, found: Iterable[Finding]) -> str:
    """The strongest finding: what refutes, else what came nearest to it."""
    worst = max(found, key=lambda each: (each.refuted, _share(each)))
    return f"{worst.verdict:8}  {name:{_WIDTH}}  {worst.sentence}"


def _share(finding: Finding) -> float:
    """How much of what is promised was found to be used."""
    used = finding.numbers.get("epsilon at least", finding.numbers.get("found", 0.0))
    return used / finding.numbers.get("claimed", 1.0)


def say(text: str) -> None:
    """A line at once, although more will take minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(runs: int) -> int:
    """Print a line for each method and each twin; the exit code."""
    wrong = 0
    for report in catalogue(runs, lambda words: None):
        say(line(report.subject, report.findings))
        wrong += bool(report.refuted)
    say("")
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        found = pool.map(findings, range(len(TWINS)), repeat(1))
        for twin, each in zip(TWINS, found, strict=True):
            say(line(f"broken: {twin.name}", each))
            wrong += not any(finding.refuted for finding in each)
    tail = "as it should be" if not wrong else f"{wrong} not as they should be"
    say(f"\nReal methods stand and broken ones are refuted: {tail}.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
