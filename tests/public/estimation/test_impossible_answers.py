"""Answers about combinations that no row can have: exactly 0, from whatever was published."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import scumble as sc
from scumble.public.estimate import Exact
from tests.support.mechanisms.conformance_case import Case
from tests.support.mechanisms.conformance_cases import cases
from tests.support.people import people, schema

TEXTS = ("age = 0 AND job = 'cook'", "sex = 'f' AND job = 'driver'")
CASES = {name: case for name, case in cases().items() if set(case.columns) == {"age", "sex", "job"}}


def _known(case: Case) -> sc.Schema:
    plain = case.schema
    return sc.Schema(plain.attributes, plain.unit, TEXTS)


def _release(case: Case, seed: int = 1) -> sc.Release:
    options = sc.PublishOptions(seed=seed, outside="drop")
    return sc.publish(people(400, case.schema), _known(case), case.make(), options=options)


ALL_CASES = cases()


def _texts(case: Case) -> tuple[str, ...]:
    """Return conditions on the columns of a case."""
    if {"sex", "job"} <= set(case.columns):
        return TEXTS
    return ("age = 3",) if set(case.columns) == {"age"} else TEXTS[:1]


def _held(row: dict[str, object], text: str) -> bool:
    wanted = (part.split(" = ") for part in text.split(" AND "))
    return all(repr(row[name]) == value for name, value in wanted)


@pytest.mark.parametrize("name", ALL_CASES)
def test_no_front_shows_what_cannot_be(name: str, tmp_path: Path) -> None:
    """Counts, sums, averages, totals and rows, of a new release and of a saved one."""
    case = ALL_CASES[name]
    texts = _texts(case)
    known = sc.Schema(case.schema.attributes, case.schema.unit, texts)
    rows = people(400, case.schema).to_pylist()
    table = pa.Table.from_pylist(
        [row for row in rows if not any(_held(row, text) for text in texts)]
    )
    made = sc.publish(table, known, case.make(), options=sc.PublishOptions(seed=1))
    book = {"update_record": tmp_path / "book"} if made.update_record is not None else {}
    release = sc.open(made.save(tmp_path / "release", insecure=True, **book))
    cut = name.partition(",")[0] == "quantiles"  # it cuts age anew: a bin may have other ages too
    kept = tuple(text for text in texts if not (cut and "age" in text))
    assert release.schema.impossible == kept
    for text in kept:
        columns = [part.split(" = ")[0] for part in text.split(" AND ")]
        *others, last = text.split(" AND ")
        where = f"WHERE {' AND '.join(others)}" if others else ""
        for number in (
            f"COUNT(*) FROM t WHERE {text}",
            f"COUNT(*) FILTER (WHERE {text}) FROM t",
            f"COUNT(*) FILTER (WHERE {last}) FROM t {where}",
            f"2 * COUNT(*) FROM t WHERE {text}",
            f"SUM(CASE WHEN {text} THEN 5 ELSE 0 END) FROM t",
            f"SUM(CASE WHEN {last} THEN 5 ELSE 0 END) FROM t {where}",
        ):
            answer = release.ask(f"SELECT {number}")
            assert answer.interval(0.999999) == (0, 0), number
        if others:
            share = release.ask(f"SELECT AVG(CASE WHEN {last} THEN 1 ELSE 0 END) FROM t {where}")
            if name.partition(",")[0] == "mwem":  # a model: how many rows there are is not known
                assert share.value == 0
            else:
                assert share.interval(0.999999) == (0, 0) or share.reason
        two = release.ask(f"SELECT COUNT(*) AS n, AVG(age) AS a FROM t WHERE {text}")
        assert two["n"].interval(0.999999) == (0, 0)
        assert two["a"].reason == "no rows"
        with suppress(sc.QueryError):  # it does not know these columns together
            listed = ", ".join(columns)
            for grouping in (listed, f"ROLLUP ({listed})", f"CUBE ({listed})"):
                found = release.ask(f"SELECT {listed}, COUNT(*) FROM t GROUP BY {grouping}")
                zeros = [
                    each.interval(0.999999)
                    for key, each in found
                    if _held(dict(zip(columns, key, strict=True)), text)
                ]
                assert zeros in ([(0, 0)], [])
    if hasattr(release, "synthetic"):
        with suppress(sc.ReleaseError):  # it has no rows to draw
            drawn = release.synthetic.rows(300, seed=2).to_pylist()
            assert not any(_held(row, text) for row in drawn for text in kept)
    if hasattr(release, "marginals"):
        with suppress(sc.QueryError):
            for given in ({}, {"nonnegative": True}, {"integers": True}):
                marginal = release.marginals.marginal(["sex", "job"], **given)
                shown = [row["count"] for row in marginal.to_pylist() if _held(row, texts[1])]
                assert shown == [0]
    said = " ".join(limit for each in release.guarantees for limit in each.limits)
    assert f"is public and was used: {'; '.join(texts)}." in said


def test_every_mechanism_says_exactly_zero(subtests: pytest.Subtests) -> None:
    for name, case in CASES.items():
        with subtests.test(name=name):
            try:
                release = _release(case)
            except sc.PromiseError:  # it takes no rows that are left out
                continue
            for condition in (*TEXTS, "age = 0 AND job = 'cook' AND sex = 'm'"):
                answer = release.ask(f"SELECT COUNT(*) FROM t WHERE {condition}")
                assert (answer.value, answer.interval(0.999999)) == (0, (0, 0))
            [many] = release.ask_many([f"SELECT COUNT(*) FROM t WHERE {TEXTS[1]}"])
            assert isinstance(many.law, Exact)
            assert many.value == 0
            with suppress(sc.QueryError):  # it does not know these columns together
                groups = release.ask("SELECT job, COUNT(*) FROM t WHERE sex = 'f' GROUP BY job")
                assert dict(groups)["driver",].interval(0.95) == (0, 0)
            total = release.ask(f"SELECT SUM(age) FROM t WHERE {TEXTS[1]}")
            mean = release.ask(f"SELECT AVG(age) FROM t WHERE {TEXTS[1]}")
            assert math.isnan(total.value)  # as SQL has it: a sum of no rows
            assert math.isnan(mean.value)
            said = " ".join(limit for each in release.guarantees for limit in each.limits)
            assert f"is public and was used: {'; '.join(TEXTS)}." in said


def test_histogram_has_zeros_and_less_noise() -> None:
    """Σ over 40 releases of (estimate - truth)² is that of the noise of possible cells alone, and
    the mean is within 4 standard errors: fixed seeds, false alarm below 1e-3 each.
    """
    case = CASES["histogram"]
    rows = [
        row
        for row in people(400, case.schema).to_pylist()
        if not (row["age"] == 0 and row["job"] == "cook")
        and not (row["sex"] == "f" and row["job"] == "driver")
    ]
    truth = sum(row["job"] == "driver" for row in rows)
    question = "SELECT COUNT(*) FROM t WHERE job = 'driver'"
    errors = []
    for seed in range(40):
        release = _release(case, seed)
        answer = release.ask(question)
        errors.append(answer.value - truth)
    plain = sc.publish(
        people(400, case.schema), case.schema, case.make(), options=sc.PublishOptions(seed=1)
    )
    # 10 of the 20 cells of a driver are possible: half of the variance, but for the known total.
    assert answer.stderr < 0.8 * plain.ask(question).stderr
    assert abs(np.mean(errors)) < 4 * answer.stderr / math.sqrt(40)
    assert 0.4 < np.mean(np.square(errors)) / answer.stderr**2 < 2.0
    table = release._sandbox.rows("SELECT * FROM view").to_pylist()
    zeros = [row["count"] for row in table if row["sex"] == "f" and row["job"] == "driver"]
    assert zeros == [0] * 10
    assert release.histogram.sorted_counts().num_rows == 100 - 10 - 2


@pytest.mark.parametrize("rule", ["filter", "threshold", "priority", "filter priority"])
def test_sparse_publishes_and_counts_possible_cells_only(rule: str) -> None:
    """Of 80 releases: no impossible cell is published; the law of sums of half of the cells and of
    all cells but a few holds at 80 %, refuted below the count that chance allows with probability
    1e-4; the total is known.
    """
    known = sc.Schema(schema().attributes, schema().unit, TEXTS)
    rows = [row for row in people(400, known).to_pylist() if not any(_held(row, t) for t in TEXTS)]
    table = pa.Table.from_pylist(rows)
    questions = {
        "job = 'driver'": sum(row["job"] == "driver" for row in rows),
        "NOT (age = 9 AND job = 'smith')": sum(
            not (row["age"] == 9 and row["job"] == "smith") for row in rows
        ),
    }
    size = 30 if "priority" in rule else None
    mechanism = sc.Sparse(
        ["age", "sex", "job"], rule=rule, size=size, false_cells=3, epsilon=2, neighbours="replace"
    )
    hits = dict.fromkeys(questions, 0)
    for seed in range(80):
        release = sc.publish(table, known, mechanism, options=sc.PublishOptions(seed=seed))
        for where, truth in questions.items():
            low, high = release.ask(f"SELECT COUNT(*) FROM t WHERE {where}").interval(0.8)
            hits[where] += low <= truth <= high
        if seed < 20:
            cells = pq.read_table(release.folder / release.evidence.file).to_pylist()
            assert cells
            assert not any(_held(row, text) for row in cells for text in TEXTS)
    assert min(hits.values()) >= stats.binom.ppf(1e-4, 80, 0.8)
    assert release.ask("SELECT COUNT(*) FROM t").interval(0.999) == (len(rows), len(rows))


def test_conditions_together_leave_nothing() -> None:
    known = schema()
    texts = ("age = 3 AND sex = 'f'", "age = 3 AND sex = 'm' AND job <> 'nurse'")
    known = sc.Schema(known.attributes, known.unit, (*texts, "age = 3 AND job = 'nurse'"))
    options = sc.PublishOptions(seed=2, outside="drop")
    mechanism = sc.Marginals(["age", "sex", "job"], ways=1, epsilon=1, neighbours="replace")
    release = sc.publish(people(300, known), known, mechanism, options=options)
    assert release.ask("SELECT COUNT(*) FROM t WHERE age = 3").interval(0.999) == (0, 0)
    assert release.ask("SELECT COUNT(*) FROM t WHERE age = 4").stderr > 0


@pytest.mark.parametrize("bins", [(0, 2, 4, 6, 8, 10)])
def test_condition_that_cuts_a_bin_is_not_taken_for_impossible(bins: tuple[float, ...]) -> None:
    """Bins 0 and 1 are impossible for f, and `age < 5` may hold in bin 2, which is not."""
    known = sc.Schema(
        (
            sc.Attribute("age", "quasi", sc.Bins(bins)),
            sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        ),
        impossible=("age < 4 AND sex = 'f'",),
    )
    table = {"age": [4.5] * 50 + [1.0] * 20, "sex": ["f"] * 50 + ["m"] * 20}
    mechanism = sc.Histogram(["age", "sex"], epsilon=1, neighbours="replace")
    release = sc.publish(pa.table(table), known, mechanism, options=sc.PublishOptions(seed=1))
    low, high = release.ask("SELECT COUNT(*) FROM t WHERE age < 4.8 AND sex = 'f'").interval(0.999)
    assert low <= 50 <= high
    assert release.ask("SELECT COUNT(*) FROM t WHERE age < 3 AND sex = 'f'").interval(0.9) == (0, 0)
