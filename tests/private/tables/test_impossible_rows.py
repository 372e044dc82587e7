"""Rows with an impossible combination of values are outside their domain, for every reader."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.schema.open_category import OpenCategory
from scumble.private.tables.check import check_table
from scumble.private.tables.rows import Rows

TEXTS = ("age < 3 AND job = 'cook'", "job = 'smith' AND married", "age > 8 AND sex = 'f'")
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "quasi", sc.Category(("cook", "smith")), missing=True),
        sc.Attribute("married", "sensitive", sc.Boolean(), missing=True),
        sc.Attribute("shoe", "quasi", sc.IntegerRange(0, 3)),
    ),
    sc.Unit(),
    TEXTS,
)


def _table(rows: int = 500) -> pa.Table:
    rng = np.random.default_rng(4)

    def drawn(values: list[object]) -> list[object]:
        return [values[place] for place in rng.integers(0, len(values), rows)]

    return pa.table(
        {
            "age": rng.integers(0, 10, rows),
            "sex": drawn(["f", "m"]),
            "job": drawn(["cook", "smith", None]),
            "married": drawn([True, False, None]),
            "shoe": rng.integers(0, 4, rows),
        }
    )


def _broken(row: dict) -> list[bool]:
    return [
        row["age"] < 3 and row["job"] == "cook",
        row["job"] == "smith" and bool(row["married"]),
        row["age"] > 8 and row["sex"] == "f",
    ]


def _read(rows: Rows, names: list[str]) -> list[tuple]:
    batches = [np.stack(list(map(np.asarray, each)), 1) for each in rows.batches(names)]
    return list(map(tuple, np.concatenate(batches).tolist()))


@pytest.mark.parametrize("names", [["shoe"], ["age", "sex", "job", "married"], ["job"]])
def test_drops_rows_whatever_is_read(names: list[str]) -> None:
    rows = Rows(_table(), SCHEMA, outside="drop", reveal=True)
    found = _read(rows, names)
    kept = pa.Table.from_pylist([r for r in _table().to_pylist() if not any(_broken(r))])
    assert found == _read(Rows(kept, SCHEMA), names)
    times = [sum(column) for column in zip(*map(_broken, _table().to_pylist()), strict=True)]
    assert rows.outside_counts == dict(zip(TEXTS, times, strict=True))
    for text, number in zip(TEXTS, times, strict=True):
        remark = f"Rows with the impossible combination {text} were left out ({number} times)."
        assert remark in rows.remarks()


def test_sets_a_value_missing_where_one_can_be() -> None:
    known = SCHEMA.select(["age", "job", "married", "shoe"])
    assert known.impossible == TEXTS[:2]
    names = list(known.names)
    rows = Rows(_table().select(names), known, outside="missing")
    wanted = []
    for row in _table().to_pylist():
        first, second, _ = _broken(row)
        wanted.append({**row, "job": None if first or second else row["job"]})
    table = pa.Table.from_pylist(wanted).select(names)
    assert _read(rows, names) == _read(Rows(table, known), names)
    with pytest.raises(sc.DomainError, match="age > 8 AND sex = 'f'"):
        _read(Rows(_table(), SCHEMA, outside="missing"), ["shoe"])


def test_error_names_the_condition_and_no_value() -> None:
    table = pa.table(
        {"age": [5, 9], "sex": ["m", "f"], "job": ["cook"] * 2, "married": [None] * 2}
    ).append_column("shoe", pa.array([1, 2]))
    with pytest.raises(sc.DomainError) as error:
        _read(Rows(table, SCHEMA), ["shoe"])
    assert "Row 2: it has the combination" in str(error.value)
    assert "(age > 8 AND sex = 'f')" in str(error.value)
    assert "9" not in str(error.value).replace("age > 8", "")
    found = check_table(table, SCHEMA)
    assert any("the impossible combination age > 8 AND sex = 'f'" in each for each in found)


def test_value_outside_its_domain_satisfies_no_condition() -> None:
    table = _table(3).set_column(0, "age", pa.array([55, 1, 1]))
    table = table.set_column(2, "job", pa.array(["king", "cook", "smith"]))
    table = table.set_column(3, "married", pa.array([None, None, False]))
    assert _read(Rows(table, SCHEMA, outside="drop"), ["age"]) == [(1,)]


def test_processes_read_the_same_rows() -> None:
    options = [sc.PublishOptions(seed=3, outside="drop", jobs=jobs) for jobs in (1, 2)]
    mechanism = sc.Histogram(["shoe", "sex"], epsilon=1, neighbours="add_remove")
    one, two = (sc.publish(_table(), SCHEMA, mechanism, options=each) for each in options)
    question = "SELECT shoe, sex, COUNT(*) FROM t GROUP BY shoe, sex"
    assert repr(one.ask(question)) == repr(two.ask(question))
    assert any("impossible combination" in remark for remark in two.remarks)


def test_keys_leave_the_rows_out() -> None:
    table = pa.table({"job": ["cook"] * 500 + ["smith"] * 500, "age": [1] * 500 + [5] * 500})
    schema = sc.Schema(
        (
            sc.Attribute("job", "quasi", OpenCategory()),
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        ),
        sc.Unit(),
        ("age < 3",),
    )
    release = sc.publish(
        table,
        schema,
        sc.Keys(["job"], keys=1, epsilon=2, delta=1e-6, neighbours="add_remove"),
        options=sc.PublishOptions(seed=1, outside="drop"),
    )
    [(key, _)] = list(release.keys.top(5))
    assert key == ("smith",)
