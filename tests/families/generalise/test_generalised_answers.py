"""Answers from generalised rows: bounds and even spread against all tables that fit a release."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.generalise.read import GeneralisedRows
from scumble.model.schema.hierarchies import read_rule
from scumble.public.estimate import Exact

SCHEMA = sc.Schema(
    [
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 3), hierarchy=read_rule({"intervals": [2]})),
        sc.Attribute("b", "quasi", sc.Category(["u", "v"])),
        sc.Attribute("s", "sensitive", sc.IntegerRange(1, 2)),
    ]
)
QUESTIONS = [
    ("a >= 1", "a >= 1"),
    ("a = 3 AND b = 'u'", "a = 3 AND b = 'u'"),
    ("a = 1 OR b = 'v'", "a = 1 OR b = 'v'"),
    ("s = 2 AND a <= 1", "s = 2 AND a <= 1"),
    ("a + s > 3", "a + s > 3"),
    ("1 = 1", "1 = 1"),
]
AMOUNTS = ("a", "a - 1", "a * s", "s")


def releases() -> list[tuple[sc.Release, pa.Table]]:
    made = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        table = pa.table(
            {
                "a": rng.choice(4, 5, p=[0.4, 0.3, 0.2, 0.1]),
                "b": rng.choice(["u", "v"], 5, p=[0.7, 0.3]),
                "s": rng.integers(1, 3, 5),
            }
        )
        mechanism = (
            sc.Generalise(k=2) if seed % 2 else sc.Generalise(k=2, recoding="global", suppress=0.3)
        )
        made.append(
            (sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=1)), table)
        )
    return made


def consistent(release: sc.Release) -> list[list[dict]]:
    """All tables of which the release could be made, by the boxes of its rows."""
    rows = GeneralisedRows.read(release.schema, release.evidence, release.folder)
    labels = {n: SCHEMA[n].labels().to_pylist() for n in SCHEMA.names}
    boxes = []
    for row in range(release.evidence.rows):
        sides = []
        for name in SCHEMA.names:
            if name in rows.nodes:
                sides.append(
                    [labels[name][c] for c in rows.tree(name).codes(rows.nodes[name][row])]
                )
            else:
                sides.append([labels[name][rows.codes[name][row]]])
        boxes.append([dict(zip(SCHEMA.names, cell, strict=True)) for cell in product(*sides)])
    anything = [dict(zip(SCHEMA.names, cell, strict=True)) for cell in product(*labels.values())]
    return boxes + [anything] * release.evidence.left_out


def holds(condition: str, row: dict) -> bool:
    text = condition.replace(" = ", " == ").replace("AND", "and").replace("OR", "or")
    return bool(eval(text, {}, row))


def extremes(boxes: list[list[dict]], condition: str, amount: str | None) -> tuple:
    """The least and largest count, sum and average over all tables, by states of (count, sum)."""
    states = {(0, 0)}
    for box in boxes:
        adds = {
            (1, 0 if amount is None else eval(amount, {}, row)) if holds(condition, row) else (0, 0)
            for row in box
        }
        states = {(n + m, total + more) for n, total in states for m, more in adds}
    counts, totals = [n for n, _ in states], [total for _, total in states]
    averages = [total / n for n, total in states if n]
    return (
        (min(counts), max(counts)),
        (min(totals), max(totals)),
        (min(averages), max(averages)) if averages else None,
        any(n == 0 for n in counts),
    )


def limits(estimate: sc.Estimate) -> tuple[float, float]:
    return (estimate.value,) * 2 if isinstance(estimate.law, Exact) else estimate.bounds


@pytest.mark.parametrize("place", range(6))
def test_bounds_are_those_of_all_consistent_tables(place: int) -> None:
    release, table = releases()[place]
    boxes = consistent(release)
    for condition, where in QUESTIONS:
        count = release.answer(f"SELECT COUNT(*) FROM t WHERE {where}")
        assert limits(count) == pytest.approx(extremes(boxes, condition, None)[0])
        assert count.interval(0.5) == pytest.approx(extremes(boxes, condition, None)[0])
        truth = sum(holds(condition, row) for row in table.to_pylist())
        assert count.interval()[0] <= truth <= count.interval()[1]
        if not release.evidence.left_out:
            even = sum(np.mean([holds(condition, row) for row in box]) for box in boxes)
            assert count.value == pytest.approx(even)
        for amount in AMOUNTS:
            _, totals, averages, _ = extremes(boxes, condition, amount)
            if averages is None:
                continue
            total = release.answer(f"SELECT SUM({amount}) FROM t WHERE {where}")
            assert limits(total) == pytest.approx(totals)
            if not release.evidence.left_out:
                mean = sum(
                    np.mean([eval(amount, {}, r) if holds(condition, r) else 0 for r in box])
                    for box in boxes
                )
                assert total.value == pytest.approx(mean)
            average = release.answer(f"SELECT AVG({amount}) FROM t WHERE {where}")
            if average.value == average.value:
                assert limits(average) == pytest.approx(averages)


@pytest.mark.parametrize("place", range(6))
def test_groups_have_the_bounds_of_their_conditions(place: int) -> None:
    release, _ = releases()[place]
    for where in ("1 = 1", "s = 1", "a >= 1"):
        for name in ("a", "b", "s"):
            found = release.answer(f"SELECT {name}, COUNT(*) FROM t WHERE {where} GROUP BY {name}")
            for (value,), estimate in found:
                text = f"'{value}'" if isinstance(value, str) else value
                alone = release.answer(f"SELECT COUNT(*) FROM t WHERE {where} AND {name} = {text}")
                assert limits(estimate) == pytest.approx(limits(alone))
                assert estimate.value == pytest.approx(alone.value)
    both = release.answer("SELECT a, b, AVG(s) FROM t GROUP BY a, b")
    for (a, b), estimate in both:
        alone = release.answer(f"SELECT AVG(s) FROM t WHERE a = {a} AND b = '{b}'")
        assert limits(estimate) == pytest.approx(limits(alone))


def test_what_cuts_nothing_is_exact() -> None:
    table = pa.table({"a": [0, 0, 3, 3], "b": ["u", "u", "v", "v"], "s": [1, 2, 1, 2]})
    release = sc.publish(table, SCHEMA, sc.Generalise(k=2), options=sc.PublishOptions(seed=1))
    assert repr(release.answer("SELECT COUNT(*) FROM t WHERE a = 3 AND s = 1")).startswith(
        "1 exactly"
    )
    assert release.answer("SELECT AVG(a) FROM t").value == 1.5
    assert "no rows" in repr(release.answer("SELECT AVG(a) FROM t WHERE a = 1"))
    assert [e.value for e in release.answer_many(["SELECT COUNT(*) FROM t WHERE b = 'u'"] * 2)] == [
        2,
        2,
    ]


def test_a_damaged_release_is_refused(tmp_path) -> None:
    import pyarrow.parquet as pq

    release = releases()[1][0]
    path = release.folder / "rows.parquet"
    table = pq.read_table(path)
    wrong = table.set_column(0, table.column_names[0], pa.array([99] * table.num_rows))
    pq.write_table(wrong, path)
    with pytest.raises(sc.ReleaseError, match="damaged"):
        release.answer("SELECT COUNT(*) FROM t WHERE a = 1")
