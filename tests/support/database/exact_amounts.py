"""What a row adds to each number that a database gave out, for the exact loss of a person."""

from __future__ import annotations

import pyarrow as pa

import scumble as sc
from scumble.private.database.state import COUNT, PastAnswer
from scumble.public.estimate_table import EstimateTable
from tests.support.database.small_database import AGES, SEXES, covers

EPSILON, NOISE = 1, 4
LIMIT = 2  # floor(ε λ / 2)
OPTIONS = {"epsilon": EPSILON, "noise": NOISE}
TRACKERS = ("exact", "histogram", "disjoint")


def rows(points) -> pa.Table:
    return pa.table({"age": [age for age, _ in points], "sex": [SEXES[sex] for _, sex in points]})


def amount(number: PastAnswer, point: tuple[int, int]) -> int:
    """What a row at a point adds to a number; plain sums are of age, or of age + constant."""
    if not covers(number.box, point):
        return 0
    if number.kind.startswith("sum by "):  # the amounts are in the name
        names, _, listed = number.kind.removeprefix("sum by ").partition(": ")
        cell = 0
        for name in names.split(", "):
            cell = cell * {"age": AGES, "sex": len(SEXES)}[name] + point[name == "sex"]
        return int(listed.split()[cell])
    return 1 if number.kind == COUNT else point[0] + int(number.kind.partition("+")[2] or 0)


def listed(answer) -> list[sc.Estimate]:
    if isinstance(answer, EstimateTable):
        return [each for _, row in answer.rows for each in row]
    return [each for _, each in answer] if isinstance(answer, sc.Estimates) else [answer]
