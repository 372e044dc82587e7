"""Averages and ratios of groups without people have no value, on every front.

Nobody is a spy. The estimated number of spies is noise around 0, and an average of theirs would be
the ratio of two noises: any number at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.cli import printing
from scumble.server.answer_json import decode_answer, encode_answer
from scumble.server.pages.asking import _table
from scumble.server.postgres.session import result_of

SCHEMA = sc.Schema.loads(
    '[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [1, 8]\n'
    '[attributes.job]\nrole = "sensitive"\ntype = "category"\nvalues = ["cook", "nurse", "spy"]'
)
PEOPLE = pa.table({"age": [1 + n % 8 for n in range(4000)], "job": ["cook", "nurse"] * 2000})
BY_JOB = ["age", "job"]
MECHANISMS: dict[str, Callable[[], Any]] = {
    "rows": lambda: sc.Uniform(epsilon=1),
    "tuples": lambda: sc.Frapp(keep=0.2),
    "cells": lambda: sc.Histogram(BY_JOB, epsilon=0.5, neighbours="replace"),
    "residuals": lambda: sc.Marginals(BY_JOB, epsilon=0.5, neighbours="replace", ways=2),
    "matrix": lambda: sc.Hierarchy(BY_JOB, epsilon=0.5, neighbours="replace"),
    "sparse": lambda: sc.Sparse(BY_JOB, epsilon=0.5, neighbours="replace"),
}
# Two forms of an average, a ratio of two counts, and two numbers that are made of averages.
NUMBERS = {
    "AVG(age)": (1, 8),
    "1000 * AVG(age) - 3000": (-2000, 5000),
    "COUNT(*) FILTER (WHERE age > 4) / COUNT(*)": (0, 1),
    "SUM(age) / COUNT(*) FILTER (WHERE age < 9)": (1, 8),
    "VAR_POP(age)": (0, 12.25),
    "STDDEV(age)": (0, 24.5**0.5),
}
SPIES = "SELECT {} FROM t WHERE job = 'spy'"


def sources(kind: str, tmp_path: Path) -> Iterator[Any]:
    """Yield releases or databases with three seeds."""
    for seed in range(3):
        if kind == "database":
            folder = tmp_path / str(seed)
            options = {"epsilon": 20, "noise": 40, "seed": seed}
            yield sc.Database.create(folder, PEOPLE, SCHEMA, **options)
        else:
            yield sc.publish(
                PEOPLE, SCHEMA, MECHANISMS[kind](), options=sc.PublishOptions(seed=seed)
            )


@pytest.mark.parametrize("kind", [*MECHANISMS, "database"])
def test_no_ratio_of_two_noises_is_a_number(kind: str, tmp_path: Path) -> None:
    """A group without people has no value, but with the chance that its count is 2 standard errors
    above 0: 3 % for each of three seeds, which are fixed.
    """
    withheld = 0
    for source in sources(kind, tmp_path):
        with closing(source) if isinstance(source, sc.Database) else nullcontext():
            count = source.answer(SPIES.format("COUNT(*)"))
            for sql, (low, high) in NUMBERS.items():
                found = source.answer(SPIES.format(sql))
                if count.value <= 0:
                    assert math.isnan(found.value), sql
                if math.isnan(found.value):
                    withheld += 1
                    assert repr(found).startswith(("too few people", "no rows"))
                    assert found.interval(0.95)[0] <= low + 1e-6
                    assert found.interval(0.95)[1] >= high - 1e-6
                else:
                    assert count.value > 1.9 * count.stderr, sql
            cooks = source.answer("SELECT job, AVG(age) AS a FROM t GROUP BY job")["cook"]
            assert cooks.value == pytest.approx(4, abs=6 * cooks.stderr)
    assert withheld >= 2 * len(NUMBERS)


BOTH = "SELECT job, AVG(age) AS a, COUNT(*) AS n FROM t GROUP BY job"
ONE = "SELECT job, AVG(age) AS a FROM t GROUP BY job"


def test_every_front_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    release = sc.publish(PEOPLE, SCHEMA, MECHANISMS["cells"](), options=sc.PublishOptions(seed=1))
    for sql, name in ((ONE, "a"), (BOTH, "a")):
        answer = release.answer(sql)
        column = answer.to_arrow()[name].to_pylist()
        assert [value is None for value in column] == [False, False, True]
        assert answer.to_polars()[name].to_list() == column
        assert answer.to_pandas()[name].isna().tolist() == [False, False, True]
        sent = encode_answer(answer)
        spy = sent["rows"][-1]
        assert (spy if sql == ONE else spy["estimates"][0])["value"] is None
        for told in (answer, decode_answer(sent)):
            assert repr(told).count("too few people") == 1
            assert told._repr_html_().count("too few people") == 1
        printing.show_answer(answer, 0.95)
        assert capsys.readouterr().out.count("too few people") == 1
        [cell, *_] = _table(answer, 0.95)["rows"][-1][1]
        assert cell["value"] == "too few people"
        wire = result_of(answer)
        assert math.isnan(wire.rows[-1][1])  # which is NULL on the wire


def test_a_formula_without_a_value_is_undefined() -> None:
    """Many people are counted: a quotient by zero and a root of less are not for want of them."""
    table = pa.table({"n": np.arange(5000) % 10})
    domain = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(0, 9))])
    cells = sc.Histogram(["n"], epsilon=1, neighbours="replace")
    release = sc.publish(table, domain, cells, options=sc.PublishOptions(seed=1))
    for formula in (
        "COUNT(*) / 0",
        "COUNT(*) / (COUNT(*) - COUNT(*))",
        "COUNT(*) / (AVG(n) - 4.5)",
        "SQRT(COUNT(*) - 100000)",
        "LN(COUNT(*) - 100000)",
        "COVAR_POP(n, n) / (COUNT(*) - COUNT(*))",
    ):
        found = release.answer(f"SELECT {formula} FROM t")
        assert repr(found).startswith("undefined\n"), formula
        assert math.isnan(found.value)


def test_limits_of_binned_averages_have_the_whole_bins() -> None:
    """Two people with an income below 1,000 are too few; the lowest bin begins at 0."""
    rows = pa.table(
        {"income": [900.0 - 3 * i for i in range(300)] + [300, 400], "dx": ["a"] * 300 + ["b"] * 2}
    )
    domain = sc.Schema(
        [
            sc.Attribute("income", "quasi", sc.Bins([0, 10_000, 50_000])),
            sc.Attribute("dx", "sensitive", sc.Category(["a", "b"])),
        ]
    )
    cells = sc.Histogram(["income", "dx"], epsilon=0.3, neighbours="replace")
    withheld = 0
    for mechanism in (sc.Uniform(epsilon=1), sc.Aroma(k=10), sc.Frapp(epsilon=1), cells):
        for seed in range(3):
            release = sc.publish(rows, domain, mechanism, options=sc.PublishOptions(seed=seed))
            for question in ("AVG(income)", "SUM(income) / COUNT(*)", "MEDIAN(income)"):
                found = release.answer(f"SELECT {question} FROM t WHERE dx = 'b'")
                if math.isnan(found.value):
                    low, high = found.interval()
                    assert low <= 300 <= 400 <= high, (mechanism, question)
                    withheld += 1
    assert withheld > 20


def test_an_average_of_bins_that_no_table_has_is_noted() -> None:
    """Seeds are fixed: some of the averages lie outside of the bins, and each says so."""
    schema = sc.Schema((sc.Attribute("cost", "quasi", sc.Bins((0, 10, 50, 1000))),))
    table = pa.table({"cost": [1.0, 5.0, 20.0, 60.0] * 4})
    outside = 0
    for seed in range(60):
        histogram = sc.Histogram(["cost"], epsilon=0.2, neighbours="replace")
        options = sc.PublishOptions(seed=seed)
        answer = sc.publish(table, schema, histogram, options=options).number(
            "SELECT AVG(cost) FROM t"
        )
        noted = any("outside of what is possible, 0 to 1,000" in note for note in answer.notes)
        assert noted == (not 0 <= answer.value <= 1000)
        outside += noted
    assert outside > 3
