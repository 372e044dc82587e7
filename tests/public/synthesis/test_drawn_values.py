"""Drawn rows have values inside of their bins, and none has an impossible combination."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import scumble as sc
from scumble.model.schema.domains import BinnedNumber
from scumble.model.schema.numbers import Number
from scumble.public.synthesis.drawn_values import make_possible, value_within
from tests.support.people import people, schema


@pytest.mark.parametrize(
    ("domain", "code", "values"),
    [
        (sc.Bins((0, 3, 10)), 0, [0, 1, 2]),
        (sc.Bins((0, 3, 6)), 1, [3, 4, 5, 6]),
        (sc.Dates(date(2020, 2, 1), date(2020, 3, 1), "month"), 0, range(18293, 18322)),
        (BinnedNumber.of(Number(0, 3, 0.5), (1,)), 0, [0, 0.5]),
        (BinnedNumber.of(Number(0, 3, 0.5), (1,)), 1, [1, 1.5, 2, 2.5, 3]),
        (sc.IntegerRange(4, 6), 1, [5]),
    ],
)
def test_every_value_of_a_bin_is_as_likely(domain: sc.Bins, code: int, values: list) -> None:
    """Chi-squared tests at 1e-4 each, with a fixed seed."""
    attribute = sc.Attribute("x", "quasi", domain, missing=True)
    codes = np.full(20_000, code)
    codes[:100] = attribute.size - 1
    drawn = value_within(attribute, codes, np.random.default_rng(7))
    assert drawn.type == attribute.arrow_type
    assert drawn.null_count == 100
    back, outside = attribute.encode(drawn)
    assert (back == codes).all()
    assert not outside.any()
    numbers = drawn.cast(pa.int32()) if pa.types.is_date(drawn.type) else drawn
    found, times = np.unique(numbers.drop_null().to_numpy(), return_counts=True)
    assert found.tolist() == list(values)
    if len(values) > 1:
        assert stats.chisquare(times).pvalue > 1e-4


def test_bins_of_real_numbers_are_filled() -> None:
    attribute = sc.Attribute("x", "quasi", sc.Bins((0.5, 1.5, 9)))
    drawn = value_within(attribute, np.ones(5000, int), np.random.default_rng(1)).to_numpy()
    assert stats.kstest(drawn, "uniform", (1.5, 7.5)).pvalue > 1e-4


TEXTS = ("age = 0 AND job = 'cook'", "sex = 'f' AND job = 'driver'", "age > 7 AND sex = 'm'")


@pytest.mark.parametrize(
    "mechanism",
    [
        sc.Histogram(["age", "sex", "job"], epsilon=1, neighbours="replace"),
        sc.Marginals(["age", "sex", "job"], ways=1, epsilon=1, neighbours="replace"),
        sc.Hierarchy(["age", "sex", "job"], epsilon=1, neighbours="replace"),
        sc.Synthesis(["age", "sex", "job"], epsilon=1, delta=1e-6, neighbours="replace"),
        sc.Mwem(
            ["age", "sex", "job"],
            queries=["SELECT job, COUNT(*) FROM t GROUP BY job"],
            rounds=2,
            epsilon=1,
            neighbours="replace",
        ),
    ],
    ids=lambda each: each.name,
)
def test_no_drawn_row_is_impossible(mechanism: sc.Histogram) -> None:
    known = sc.Schema(schema().attributes, None, TEXTS)
    options = sc.PublishOptions(seed=1, outside="drop")
    release = sc.publish(people(400, schema()), known, mechanism, options=options)
    rows = release.synthetic.rows(2000, seed=5)
    assert rows.num_rows == 2000
    assert rows.equals(release.synthetic.rows(2000, seed=5))
    codes = {name: known[name].encode(rows[name])[0] for name in known.names}
    assert not any(condition.holds(codes).any() for condition in known.impossible_conditions)
    assert release.synthetic.rows(0).num_rows == 0


def test_counts_of_columns_stay_what_they_are() -> None:
    known = sc.Schema(schema().attributes, None, ("age < 5 AND job = 'cook'", TEXTS[1]))
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, known[name].size, 9000) for name in known.names]
    before = [np.bincount(column) for column in columns]
    make_possible(known, list(known.names), columns, rng)
    assert all((np.bincount(c) == old).all() for c, old in zip(columns, before, strict=True))
    codes = dict(zip(known.names, columns, strict=True))
    assert not any(condition.holds(codes).any() for condition in known.impossible_conditions)


def test_impossible_rows_alone_become_others() -> None:
    known = sc.Schema(schema().attributes, None, ("age < 5 AND job = 'cook'",))
    for number in (0, 1, 50):
        columns = [np.zeros(number, np.int64) for _ in known.names]
        make_possible(known, list(known.names), columns, np.random.default_rng(1))
        assert not ((columns[0] < 5) & (columns[2] == 0)).any()


def test_quality_has_a_verdict_and_a_page(tmp_path: Path) -> None:
    mechanism = sc.Marginals(["age", "sex", "job"], ways=2, epsilon=1, neighbours="replace")
    options = sc.PublishOptions(seed=1)
    release = sc.publish(people(3000, schema()), schema(), mechanism, options=options)
    rows = release.synthetic.rows(3000, seed=1)
    report = release.synthetic.quality(rows)
    assert {*report["verdict"].to_pylist()} <= {"as measured", "near"}
    assert report.far() == []
    ages = rows.set_column(0, "age", pa.array([0] * 3000))
    worse = release.synthetic.quality(ages)
    assert worse.far()
    assert all("age" in each for each in worse.far())
    worse.save(tmp_path / "page.html", "<Rows>")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "&lt;Rows&gt;" in page
    assert page.count('class="far"') == len(worse.far())
    assert f"Of {len(worse)} tables: " in page
    assert f"Far: {', '.join(worse.far())}." in page
    assert worse._repr_html_().count("<tr>") == 1 + len(worse)
