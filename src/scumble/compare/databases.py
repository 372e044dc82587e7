"""Databases in a comparison: output perturbation, asked all questions one after the other.

`database` is the live database: it does not know how many questions will come, and measures each as
precisely as its rules allow. `database-pure` is the database without δ: its noise is the least with
which each of these questions gets an answer of its own, so it knows them beforehand. Both have
promised their ε however few of the questions touch a person, so that is what an attacker may learn.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from scumble.model.errors import ParameterError, PromiseError, ScumbleError
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.private.database.database import Database
from scumble.private.database.live.database import LiveDatabase
from scumble.private.database.plan import AskOptions
from scumble.private.database.results import Status
from scumble.private.mechanism_metadata import ComparisonPreset
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable

METHOD, PURE = "database", "database-pure"
METHODS = (METHOD, PURE)
_DELTA = 1e-9
_WITHIN = 1.0  # rows: more accuracy than can be had
_ANSWERED = AskOptions(relax="refuse")
_ROOM = 10**9  # answers for a point in a trial


class Asked(NamedTuple):
    """The answers of a database to all questions, and its promise."""

    answers: list[Estimate | Estimates | EstimateTable]
    guarantee: Guarantee


def settings(
    study: ComparisonPreset,
    epsilons: Sequence[float],
    given: Mapping[str, Sequence[Any]] | None,
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the method of each database to compare, what is said of it in words, and all of its
    parameters. `given` may list `epsilon` and `delta`; δ = 0 is the database without δ.
    """
    given = given or {}
    if unknown := sorted(set(given) - {"epsilon", "delta"}):
        allowed = f"{METHOD}:epsilon=NUMBERS or {METHOD}:delta=NUMBERS"
        raise ParameterError.of("compare", "setting", allowed, f"{METHOD}:{unknown[0]}")
    losses = given.get("epsilon", epsilons)
    if not losses:
        raise ParameterError("Say --epsilon NUMBERS for the databases.")
    answers = most_answers(study)
    for delta in given.get("delta", (_DELTA, 0)):
        for epsilon in losses:
            words = {"epsilon": epsilon, **({"delta": delta} if "delta" in given else {})}
            fixed = {"epsilon": epsilon, "attributes": list(study.attributes)}
            if delta:
                yield METHOD, words, {**fixed, "delta": delta, "neighbours": study.neighbours}
            else:
                yield PURE, words, {**fixed, "noise": _noise(answers, epsilon)}


def most_answers(study: ComparisonPreset) -> int:
    """Return the least limit of answers about one point with which all questions are answered. It
    is the number of questions if a database refuses one: then it refuses it in the comparison, too.
    """
    try:
        most = _trial(study, _ROOM)
        if most.tracker == "exact":
            return max(most.used, 1)
        # The histogram tracker divides the domain only as far as its limit makes it.
        enough = 1
        while enough < most.used and not _suffices(study, enough):
            enough *= 2
        half, enough = enough // 2, min(enough, most.used)
        known = range(half + 1, enough)
        return half + 1 + bisect_left(known, True, key=lambda each: _suffices(study, each))
    except ScumbleError:
        return len(study.queries)


def _suffices(study: ComparisonPreset, limit: int) -> bool:
    try:
        _trial(study, limit)
    except PromiseError:
        return False
    return True


def _trial(study: ComparisonPreset, limit: int) -> Status:
    """Ask a database about nobody all questions. What it refuses depends on these alone."""
    schema = study.schema
    nobody = pa.table({a.name: a.decode(np.empty(0, a.code_type)) for a in schema.published})
    names = list(study.attributes)
    with (
        tempfile.TemporaryDirectory(prefix="scumble-") as folder,
        Database.create(
            Path(folder) / "trial",
            nobody,
            schema,
            epsilon=1,
            noise=2 * limit,
            attributes=names,
            seed=0,
        ) as trial,
    ):
        for text in study.queries:
            trial.answer(text, options=_ANSWERED)
        return trial.status()


def _noise(answers: int, epsilon: float) -> float:
    """Return the least noise for so many answers about a point, rounded up to five digits."""
    least = Fraction(2 * answers) / Fraction(str(epsilon))
    step = Fraction(10) ** (len(str(ceil(least))) - 5)
    return float(ceil(least / step) * step)


def ask(
    rows: pa.Table,
    schema: Schema,
    queries: Sequence[Query],
    parameters: Mapping[str, Any],
    seed: int,
) -> Asked:
    """Create a database over the rows, and ask it all questions, in their order."""
    with tempfile.TemporaryDirectory(prefix="scumble-") as folder:
        place = Path(folder) / "database"
        if "noise" in parameters:
            with Database.create(place, rows, schema, seed=seed, **parameters) as pure:
                return Asked(
                    [pure.answer(q.text, options=_ANSWERED) for q in queries], pure.guarantee
                )
        with LiveDatabase.create(place, rows, schema, seed=seed, **parameters) as live:
            return Asked([live.answer(q.text, within=_within(q)) for q in queries], live.guarantee)


def _within(query: Query) -> float | None:
    """Return the accuracy that is asked for: counts are measured, all else is read off them."""
    return _WITHIN if query.aggregate == "count" else None
