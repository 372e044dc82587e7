"""The figure of docs/choosing.md: every publisher on the same fictitious people, by what an
attacker can guess and by the error of the same counts. Errors are measured, success is computed.

python -m scumble.demo.choosing docs/choosing.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scumble as sc
from research.choosing_part import choosing
from scumble.compare.exposure import exposed
from scumble.compare.truth import TrueTable
from scumble.demo.census import census
from scumble.public.plot.curves import svg
from scumble.public.sandbox import Engine

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.private.mechanism import Mechanism

PEOPLE = 50_000
REPEATS = 5
AGES = ((18, 39), (40, 64), (65, 90))


@dataclass(frozen=True)
class Point:
    """One setting of one publisher: the best chance of an attacker, and the error of an answer."""

    method: str
    setting: str
    success: float
    error: float


def settings() -> Iterator[tuple[str, Mechanism]]:
    """What is compared, with the words for each setting."""
    for epsilon in (0.5, 1, 2, 3):
        yield f"ε = {epsilon:g}", sc.Uniform(epsilon=epsilon)
        yield f"ε = {epsilon:g}", sc.Subset(epsilon=epsilon)
    for k in (5, 15, 49, 200):
        yield f"k = {k}", sc.Aroma(k=k)
    for rho2 in (0.3, 0.4, 0.5):
        yield f"ρ2 = {rho2:g}", sc.Partition(rho1=0.2, rho2=rho2)
    for l in (2, 3, 4):  # noqa: E741  # the letter that everybody uses for it
        yield f"l = {l}", sc.Anatomy(l=l, suppress=True)
    yield "k = 10, γ = 0.2", sc.AlphaBeta(k=10, gamma=0.2, duplicates="collapse")
    yield "k = 10, γ = 0.2", sc.Frapp(reading="published", k=10, gamma=0.2)


def points(people: int = PEOPLE, repeats: int = REPEATS) -> Iterator[Point]:
    """Publish with every setting and compare the answers with the truth."""
    table, schema = census(people)
    questions = [
        f"SELECT COUNT(*) FROM people WHERE condition = '{condition}' AND sex = '{sex}' "
        f"AND age BETWEEN {low} AND {high}"
        for condition, sex, (low, high) in product(
            schema["condition"].labels().to_pylist(), ("female", "male"), AGES
        )
    ]
    true = TrueTable.read(table, schema)
    truths = {name: _truths(rows, schema, questions) for name, rows in _tables(table, schema)}
    for words, mechanism in settings():
        truth = truths["distinct" if mechanism.name == "alphabeta" else "all"]
        squares, success = 0.0, 0.0
        for _ in range(repeats):
            release = sc.publish(table, schema, mechanism)
            answers = release.answer_many(questions)
            squares += sum(_square(a, t) for a, t in zip(answers, truth, strict=True))
            success = exposed(release, true, Fraction(1, 10)).success
        error = sqrt(squares / repeats / len(questions))
        yield Point(type(mechanism).__name__, words, success, error)


def _square(answer: Any, truth: float) -> float:
    error: float = answer.value - truth
    return error * error


def _tables(table: pa.Table, schema: sc.Schema) -> Iterator[tuple[str, pa.Table]]:
    """The people, and the same without equal rows, which is what a set of tuples can tell of."""
    names = [attribute.name for attribute in schema.published]
    yield "all", table.select(names)
    yield "distinct", table.select(names).group_by(names).aggregate([])


def _truths(table: pa.Table, schema: sc.Schema, questions: list[str]) -> list[float]:
    engine = Engine(schema, {"people": table})
    return [engine.rows(sql).column(0)[0].as_py() for sql in questions]


if __name__ == "__main__":
    measured = []
    for point in points():
        measured.append(point)
        line = f"{point.method:10} {point.setting:18} {point.success:7.1%} {point.error:9.1f}"
        sys.stdout.write(f"{line}\n")
    Path(sys.argv[1]).write_text(svg(choosing(measured, 1 / 15)), "utf-8")
