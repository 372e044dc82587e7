"""Impossible combinations of a schema: read as DuckDB reads them, refused with one sentence."""

from __future__ import annotations

from datetime import date
from itertools import product

import numpy as np
import pytest

import scumble as sc
from scumble.model.schema.impossible import no_row_within
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse

ATTRIBUTES = (
    sc.Attribute("name", "identifier"),
    sc.Attribute("age", "quasi", sc.IntegerRange(10, 20)),
    sc.Attribute("job", "quasi", sc.Category(("cook", "nurse", "smith")), missing=True),
    sc.Attribute("school", "quasi", sc.Category(("none", "low", "high"), ordered=True)),
    sc.Attribute("married", "sensitive", sc.Boolean(), missing=True),
    sc.Attribute("pay", "sensitive", sc.Bins((0, 10, 100, 1000))),
    sc.Attribute("since", "quasi", sc.Dates(date(2020, 1, 1), date(2020, 12, 31), "month")),
)
READ = (
    "age < 16 AND job = 'cook'",
    "NOT (job = 'cook' OR age >= 12)",
    "NOT married AND age BETWEEN 11 AND 13",
    "married IS NOT NULL AND job NOT IN ('cook', 'smith')",
    "16 > age AND (married = true OR job IS NULL)",
    "pay >= 100 AND AGE <> 12",
    "pay < 10 AND school >= 'low' AND age IN (10, 14, 20)",
    "school BETWEEN 'low' AND 'high' AND NOT age NOT BETWEEN 12 AND 14",
    "since < '2020-03-01' AND since >= DATE '2020-02-01'",
    '"age" = 11',
    "NOT (married AND age > 12) AND NOT job = 'nurse'",
)


def _schema(*texts: str) -> sc.Schema:
    return sc.Schema(ATTRIBUTES, impossible=texts)


@pytest.mark.parametrize("text", READ)
def test_is_true_where_the_engine_says_so(text: str) -> None:
    schema = _schema(text)
    [condition] = schema.impossible_conditions
    query = parse(f"SELECT COUNT(*) FROM t WHERE {text}", schema)
    names = condition.names
    held = np.ones(schema.size(names), bool)
    for truth in Sandbox(schema).holds(query.clauses, names):
        held &= truth
    cells = schema.impossible_cells(names)
    assert cells is not None
    assert (cells.reshape(-1) == held).all()
    assert held.any()
    assert not held.all()


@pytest.mark.parametrize("text", READ)
def test_holds_within_a_box_as_in_all_its_cells(text: str) -> None:
    schema = _schema(text, "age = 20 AND job = 'smith'")
    conditions = schema.impossible_conditions
    names = [each for each in schema.names if any(each in c.names for c in conditions)]
    cells = schema.impossible_cells(names)
    assert cells is not None
    rng = np.random.default_rng(1)
    for _ in range(60):
        ends = [np.sort(rng.integers(0, size, 2)) for size in cells.shape]
        box = tuple(slice(low, high + 1) for low, high in ends)
        within = {name: (int(e[0]), int(e[1])) for name, e in zip(names, ends, strict=True)}
        assert no_row_within(conditions, within) == cells[box].all()


def test_is_saved_and_read() -> None:
    schema = _schema(*READ)
    assert sc.Schema.loads(schema.dumps()) == schema
    assert sc.Schema.from_dict(schema.to_dict()) == schema
    assert "impossible" not in sc.Schema(ATTRIBUTES).to_dict()
    assert schema.select(["age", "job"]).impossible == (READ[0], READ[1], READ[9])
    assert schema != sc.Schema(ATTRIBUTES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("agee < 16", "no column 'agee'. Did you mean 'age'?"),
        ("name = 'x'", "'name' is identifier: only columns with one listed value"),
        ("age=11 AND job='cook' AND married AND pay<10", "compares 4 columns, and at most 3"),
        ("age >= 10", "true for all values"),
        ("age < 10", "no value of the columns satisfies it"),
        ("pay < 50", "'pay' is known by bins only"),
        ("pay <= 10", "'pay' is known by bins only"),
        ("pay = 10", "'pay' is known by bins only"),
        ("since < '2020-02-10'", "'since' is known by months only"),
        ("job = 'cok'", "no value 'cok'. Did you mean 'cook'?"),
        ("school >= 'lower'", "no value 'lower'"),
        ("age + 1 < 12", "cannot be read"),
        ("age < job", "cannot be read"),
        ("length(job) < 2", "cannot be read"),
        ("age < 12 AND", "a comparison such as age < 16 is missing"),
        ("(age < 12", "a parenthesis is never closed"),
        ("age < 12)", "cannot be read"),
        ("job = 'cook", "a closing mark is missing"),
        ("", "it is empty"),
        ("(" * 40 + "age < 12" + ")" * 40, "nested too deeply"),
    ],
)
def test_refuses_with_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(sc.SchemaError) as error:
        _schema(text)
    assert sentence in str(error.value)
    assert repr(text) in str(error.value)
    with pytest.raises(sc.SchemaError, match="must be a list of conditions"):
        sc.Schema.loads('impossible = "age < 16"\n[attributes.age]\nrole="identifier"\n')


def test_tells_which_boxes_are_impossible_by_several_conditions() -> None:
    schema = _schema("age = 10 AND school = 'none'", "age = 10 AND school > 'none'")
    conditions = schema.impossible_conditions
    for low, high in product((0, 1), (0, 1, 2)):
        within = {"age": (low, max(low, 0)), "school": (0, high)}
        assert no_row_within(conditions, within) == (low == 0)
