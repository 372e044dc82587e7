"""The demo: publish fictitious people in two ways, ask questions, compare with the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from scumble.private.mechanism import create
from scumble.private.publish import publish
from scumble.public.estimate import Estimate, Estimates
from scumble.public.sandbox import Sandbox

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.model.schema.schema import Schema
    from scumble.private.mechanism import Mechanism
    from scumble.public.release import Release

EPSILON = 1.0
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
COUNTED = ("age", "sex", "income", "condition")
MARK = "census.toml"
STEPS = 4  # of `run_steps`

Step = Callable[[str], None]


class DemoAnswer(NamedTuple):
    """One group of a question: the true answer, and the answer of every release."""

    question: DemoQuestion
    group: tuple[Any, ...]
    truth: float
    answers: Mapping[str, Estimate]


class MeasuredErrors(NamedTuple):
    """Errors of one mechanism over all conditions at every ε: as stated, and as measured."""

    stated: list[float]
    found: list[float]


@dataclass(frozen=True)
class Story:
    """The results that the terminal and the report show."""

    people: int
    releases: Mapping[str, Release]
    lines: Sequence[DemoAnswer]
    conditions: Sequence[DemoAnswer]
    spreads: Mapping[str, MeasuredErrors]

    @property
    def covered(self) -> tuple[int, int]:
        """The number of intervals that contain the truth, and the number of all intervals."""
        held = [
            low <= line.truth <= high
            for line in (*self.lines, *self.conditions)
            if not math.isnan(line.truth)
            for low, high in (answer.interval() for answer in line.answers.values())
        ]
        return sum(held), len(held)


def methods(epsilon: float) -> dict[str, Mechanism]:
    """Return both mechanisms, with the same privacy loss."""
    return {
        "uniform": create("uniform", epsilon=epsilon),
        "histogram": create(
            "histogram", attributes=list(COUNTED), epsilon=epsilon, neighbours="replace"
        ),
    }


def run_steps(table: pa.Table, schema: Schema, draft: Path, step: Step) -> Story:
    """Publish `table` into the folder `draft`, ask both releases, and return the answers."""
    pq.write_table(table, draft / "census.parquet")
    schema.save(draft / MARK)
    releases = {}
    for name, method in methods(EPSILON).items():
        step(f"Publishing them with the method {name}")
        releases[name] = publish(table, schema, method)
        releases[name].save(draft / name)
    step("Asking five questions")
    lines = [line for question in QUESTIONS for line in _ask(table, schema, question, releases)]
    conditions = _ask(table, schema, EVERY_CONDITION, releases)
    step("Publishing again with more and with less privacy, to see what it costs")
    return Story(
        people=table.num_rows,
        releases=releases,
        lines=lines,
        conditions=conditions,
        spreads=_spreads(table, schema),
    )


def _ask(
    table: pa.Table, schema: Schema, question: DemoQuestion, releases: Mapping[str, Release]
) -> list[DemoAnswer]:
    """Return the answers to a question, one per group that every release answers."""
    truth = true_answers(table, schema, question)
    answers = {name: _by_group(release, question) for name, release in releases.items()}
    first, *others = answers.values()
    groups = [key for key in first if all(key in other for other in others)]
    return [
        DemoAnswer(
            question, key, truth.get(key, 0.0), {name: answers[name][key] for name in answers}
        )
        for key in groups
    ]


def _by_group(release: Release, question: DemoQuestion) -> dict[tuple[Any, ...], Estimate]:
    answer = release.answer(question.sql)
    if isinstance(answer, Estimates):
        return dict(answer)
    return {(): answer} if isinstance(answer, Estimate) else {}


def _spreads(table: pa.Table, schema: Schema) -> dict[str, MeasuredErrors]:
    """Publish at every ε and compare the counts of all conditions with the truth."""
    spreads = {name: MeasuredErrors([], []) for name in methods(EPSILON)}
    for epsilon in EPSILONS:
        releases = {name: publish(table, schema, each) for name, each in methods(epsilon).items()}
        lines = _ask(table, schema, EVERY_CONDITION, releases)
        for name, spread in spreads.items():
            answers = [line.answers[name] for line in lines]
            errors = [line.answers[name].value - line.truth for line in lines]
            spread.stated.append(_root_mean_square([answer.stderr for answer in answers]))
            spread.found.append(_root_mean_square(errors))
    return spreads


def _root_mean_square(errors: Sequence[float]) -> float:
    return math.sqrt(sum(error * error for error in errors) / len(errors))


# The questions, and their true answers.

Answer = Mapping[tuple[Any, ...], float]


class DemoQuestion(NamedTuple):
    """A question in English and in SQL."""

    words: str
    sql: str


QUESTIONS = (
    DemoQuestion(
        "How many people have diabetes?",
        "SELECT COUNT(*) FROM people WHERE condition = 'Diabetes'",
    ),
    DemoQuestion(
        "How many women and men suffer from migraine?",
        "SELECT sex, COUNT(*) FROM people WHERE condition = 'Migraine' GROUP BY sex",
    ),
    DemoQuestion(
        "How old are people with high blood pressure on average?",
        "SELECT AVG(age) FROM people WHERE condition = 'High blood pressure'",
    ),
    DemoQuestion(
        "What do people with depression earn on average?",
        "SELECT AVG(income) FROM people WHERE condition = 'Depression'",
    ),
    DemoQuestion(
        "How many under 40 with asthma or an allergy earn below 1,000 times their age?",
        "SELECT COUNT(*) FROM people\n"
        "WHERE age < 40 AND condition IN ('Asthma', 'Allergy') AND income < 1000 * age",
    ),
)

EVERY_CONDITION = DemoQuestion(
    "How many people have each condition?",
    "SELECT condition, COUNT(*) FROM people WHERE condition <> 'No condition' GROUP BY condition",
)


def true_answers(people: pa.Table, schema: Schema, question: DemoQuestion) -> Answer:
    """Return the true answer by group; only a demo on fictitious people may show it.

    The average of no rows is NaN.
    """
    found = Sandbox(schema, tables={"people": people}).rows(question.sql)
    *groups, values = (column.to_pylist() for column in found.columns)
    keys = zip(*groups, strict=True) if groups else [()]
    numbers = (math.nan if value is None else float(value) for value in values)
    return dict(zip(keys, numbers, strict=True))
