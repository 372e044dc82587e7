"""What Aroma costs in processor time and in room: figure 11 of its paper."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import numpy as np

import scumble as sc
from research.aroma.aroma_views import PLACE, SECRET, publish
from research.aroma.experiments import CLOSE, Laboratory, Row
from research.people import Codes
from scumble.private.mechanism import Mechanism
from scumble.public.release import Release

_REPEATS = 3
_QUERIES = 10
_PART = 20  # of which one is asked about: the places in a query


def times(laboratory: Laboratory) -> Iterator[Row]:
    """Processor time to publish a view and to answer a count, against k; FRAPP keeps with 1/k. The
    people of the table come several times, so that there is something to measure.
    """
    secrets: Codes = np.resize(laboratory.secrets, laboratory.scale.timed)
    _timed(secrets, laboratory.values, sc.Uniform(keep=0.5), 1)  # nothing is compiled later
    for k in laboratory.scale.levels:
        mechanisms: dict[str, Mechanism] = {
            "FRAPP": sc.Uniform(keep=1 / k),
            "Aroma": sc.Aroma(k=k),
            f"Aroma, n = {CLOSE} m": sc.Aroma(k=k, closeness=CLOSE),
        }
        first: Row = {}
        for name, mechanism in mechanisms.items():
            laboratory.step(f"time of {name}, k = {k}")
            found = _timed(secrets, laboratory.values, mechanism, _REPEATS)
            first = first or found
            yield {
                "k": k,
                "rows": len(secrets),
                "method": name,
                **found,
                "publish / FRAPP": found["publish, s"] / first["publish, s"],
                "answer / FRAPP": found["answer, ms"] / first["answer, ms"],
            }


def _timed(secrets: Codes, values: int, mechanism: Mechanism, repeats: int) -> Row:
    """The least of some tries: others are disturbed."""
    publishing, answering = [], []
    for run in range(repeats):
        start = process_time()
        release = publish(secrets, values, mechanism, seed=run)
        publishing.append(process_time() - start)
        questions = _questions(len(secrets), values)
        release.answer(questions[0])  # the view is opened by then
        start = process_time()
        for question in questions:
            release.answer(question)
        answering.append(1000 * (process_time() - start) / len(questions))
    return {
        "publish, s": min(publishing),
        "answer, ms": min(answering),
        "bytes a row": _size(release) / len(secrets),
    }


def _questions(rows: int, values: int) -> list[str]:
    """Counts of a value in a range of places."""
    width, found = rows // _PART, []
    for number in range(_QUERIES):
        start = number * (rows - width) // _QUERIES
        where = f"{PLACE} BETWEEN {start} AND {start + width - 1} AND {SECRET} = {number % values}"
        found.append(f"SELECT COUNT(*) FROM t WHERE {where}")
    return found


def _size(release: Release) -> int:
    return sum((release.folder / name).stat().st_size for name in release.evidence.files)
