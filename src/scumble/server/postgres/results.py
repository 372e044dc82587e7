"""Answers as results of the wire: one row for each group, with the error of each number."""

from __future__ import annotations

from typing import Any

from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable, SelectedEstimates
from scumble.server.answer_json import Answer
from scumble.server.postgres.messages import FLOAT8, TEXT, Column, Rows

_LEVEL = 0.95
_NUMBERS = ("value", "stderr", "low", "high")


def result_of(answer: Answer) -> Rows:
    """Return an answer as columns and rows; limits are those of the level 95 %."""
    if isinstance(answer, Estimate):
        answer = Estimates([], [((), answer)], aliases=[answer.alias])
    if isinstance(answer, EstimateTable):
        groups = [Column.of(name, kind) for name, kind in answer.types]
        level = answer.shown_level(_LEVEL)
        named = [(item, *(f"{item}_{part}" for part in _NUMBERS[1:])) for item in answer.items]
        columns = [Column(name, FLOAT8) for names in named for name in names]
        rows = [
            (*key, *(number for each in row for number in _numbers(each, level)), _status(row))
            for key, row in answer.rows
        ]
        return Rows([*groups, *columns, Column("status", TEXT)], rows, notes=answer.notes)
    level = answer.shown_level(_LEVEL) if isinstance(answer, SelectedEstimates) else _LEVEL
    titles = zip(answer.titles, answer.types, strict=True)
    groups = [Column.of(title, kind) for title, (_, kind) in titles]
    columns = [Column(name, FLOAT8) for name in (answer.alias or _NUMBERS[0], *_NUMBERS[1:])]
    rows = [
        (*key, *_numbers(each, level), _status((each,)), getattr(each, "answered", ""))
        for key, each in answer.rows
    ]
    shown = [*groups, *columns, Column("status"), Column("answered")]
    return Rows(shown, rows, notes=answer.notes)


def _numbers(estimate: Estimate, level: float) -> tuple[float, ...]:
    return (float(estimate.value), float(estimate.stderr), *map(float, estimate.interval(level)))


def _status(row: tuple[Any, ...]) -> str:
    """The status of a row: the worst of its numbers; those of a release are released."""
    found = {each.status_label for each in row}
    order = ("not answered", "relaxed", "answered", "repeated")
    return next((status for status in order if status in found), "released")
