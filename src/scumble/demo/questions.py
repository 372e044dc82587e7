"""Five questions about the fictitious census, and their true answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.model.schema.schema import Schema

Answer = Mapping[tuple[Any, ...], float]


class Question(NamedTuple):
    """A question as a person asks it, and in SQL."""

    words: str
    sql: str


QUESTIONS = (
    Question(
        "How many people have diabetes?",
        "SELECT COUNT(*) FROM people WHERE condition = 'Diabetes'",
    ),
    Question(
        "How many women and men suffer from migraine?",
        "SELECT sex, COUNT(*) FROM people WHERE condition = 'Migraine' GROUP BY sex",
    ),
    Question(
        "How old are people with high blood pressure on average?",
        "SELECT AVG(age) FROM people WHERE condition = 'High blood pressure'",
    ),
    Question(
        "What do people with depression earn on average?",
        "SELECT AVG(income) FROM people WHERE condition = 'Depression'",
    ),
    Question(
        "How many under 40 with asthma or an allergy earn below 1,000 times their age?",
        "SELECT COUNT(*) FROM people\n"
        "WHERE age < 40 AND condition IN ('Asthma', 'Allergy') AND income < 1000 * age",
    ),
)

EVERY_CONDITION = Question(
    "How many people have each condition?",
    "SELECT condition, COUNT(*) FROM people WHERE condition <> 'No condition' GROUP BY condition",
)


def true_answers(people: pa.Table, schema: Schema, question: Question) -> Answer:
    """The answer on the private table itself, by group; only a demo on fiction may show it.

    The average of nobody is not a number.
    """
    from scumble.public.sandbox import Engine

    found = Engine(schema, tables={"people": people}).rows(question.sql)
    *groups, values = (column.to_pylist() for column in found.columns)
    keys = zip(*groups, strict=True) if groups else [()]
    numbers = (math.nan if value is None else float(value) for value in values)
    return dict(zip(keys, numbers, strict=True))
