"""Identified bounds hold for every table: also where all rows are at one edge of a cut leaf.

Each coverage test asks questions of fixed tables over independent releases. With n independent
intervals at level p, fewer than p·n - 3 √(n p (1 - p)) hits happen with probability below 0.2 %;
questions of one release are correlated, so hits are counted by release and question and the
limit is applied to the mean over questions, with n the number of releases.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.cli.writing import answer_table
from scumble.public.estimate import TYPICAL, Exact
from scumble.public.estimation.bounds import Bounded, BoundedAverage, Limit
from scumble.server.answer_json import decode_answer, encode_answer
from scumble.server.postgres.session import result_of

LEVEL = 0.9
RELEASES = 40
SIZE = 64
SCHEMA = sc.Schema((sc.Attribute("x", "quasi", sc.IntegerRange(0, SIZE - 1)),))
RANGES = [(0, 40), (5, 5), (13, 29), (31, 32), (33, 63), (60, 63), (1, 62)]


def _tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    edges = np.concatenate([np.full(300, 31), np.full(200, 63), np.full(100, 0)])
    gaps = np.repeat(np.arange(0, SIZE, 9), 40)
    smooth = np.clip(rng.normal(30, 9, 600), 0, SIZE - 1).astype(int)
    return {"edges": edges, "gaps": gaps, "smooth": smooth}


MECHANISMS = {
    "quadtree pruned": lambda: sc.Quadtree(["x"], epsilon=1, neighbours="add_remove", prune=40),
    "kdtree": lambda: sc.KdTree(["x"], epsilon=1, neighbours="add_remove", height=3),
    "privtree": lambda: sc.PrivTree(["x"], epsilon=1, neighbours="add_remove"),
    "mosaic": lambda: sc.Mosaic(["x"], epsilon=1, neighbours="add_remove"),
    "dawa": lambda: sc.Dawa(["x"], epsilon=1, neighbours="add_remove"),
}
QUICK = {("mosaic", "edges")}
CASES = [
    pytest.param(name, table, marks=[] if (name, table) in QUICK else [pytest.mark.slow])
    for name in MECHANISMS
    for table in ("edges", "gaps", "smooth")
]


@pytest.mark.parametrize(("name", "table"), CASES)
def test_coverage_of_cut_questions(name: str, table: str) -> None:
    values = _tables()[table]
    people = pa.table({"x": values})
    counts, averages, bounded = [], [], 0
    for seed in range(RELEASES):
        release = sc.publish(
            people, SCHEMA, MECHANISMS[name](), options=sc.PublishOptions(seed=seed)
        )
        for low, high in RANGES:
            inside = values[(values >= low) & (values <= high)]
            where = f"FROM t WHERE x BETWEEN {low} AND {high}"
            count = release.answer(f"SELECT COUNT(*) {where}")
            start, end = count.interval(LEVEL)
            counts.append(start <= len(inside) <= end)
            bounded += count.bounds is not None
            if len(inside) and (low, high) == RANGES[0]:
                average = release.answer(f"SELECT AVG(x) {where}")
                start, end = average.interval(LEVEL)
                averages.append(start - 1e-9 <= inside.mean() <= end + 1e-9)
                assert min(low, average.value) <= start <= end <= max(high, average.value)
    floor = LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / RELEASES)
    assert np.mean(counts) >= floor
    assert np.mean(averages) >= floor
    assert bounded


def test_coverage_of_a_grid_whose_rows_are_in_corners() -> None:
    """All rows of every block of 4 x 4 cells are in one corner of it."""
    size = 32
    names = ("x", "y")
    schema = sc.Schema(
        tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name in names)
    )
    corners = np.repeat(np.stack(np.meshgrid(*[np.arange(3, size, 4)] * 2)).reshape(2, -1), 12, 1)
    people = pa.table(dict(zip(names, corners, strict=True)))
    hits = []
    for seed in range(RELEASES):
        mechanism = sc.Grid(list(names), epsilon=0.2, neighbours="add_remove")
        release = sc.publish(people, schema, mechanism, options=sc.PublishOptions(seed=seed))
        for low, high in ((0, 13), (5, 20), (9, 31)):
            inside = ((corners >= low) & (corners <= high)).all(axis=0).sum()
            where = " AND ".join(f"{name} BETWEEN {low} AND {high}" for name in names)
            found = release.answer(f"SELECT COUNT(*) FROM t WHERE {where}")
            start, end = found.interval(LEVEL)
            hits.append((start <= inside <= end, found.bounds is not None))
    covered, bounded = np.mean(hits, axis=0)
    assert covered >= LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / RELEASES)
    assert bounded > 0.5


def test_groups_have_the_limits_of_single_questions() -> None:
    schema = sc.Schema(
        (
            sc.Attribute("x", "quasi", sc.IntegerRange(0, 15)),
            sc.Attribute("y", "quasi", sc.IntegerRange(0, 3)),
        )
    )
    rng = np.random.default_rng(1)
    people = pa.table({"x": rng.integers(0, 16, 400), "y": rng.integers(0, 4, 400)})
    mechanism = sc.Grid(["x", "y"], epsilon=0.2, neighbours="add_remove")
    release = sc.publish(people, schema, mechanism, options=sc.PublishOptions(seed=3))
    for what in ("COUNT(*)", "SUM(x - 7)", "AVG(x)"):
        groups = release.answer(f"SELECT y, {what} FROM t WHERE x < 11 GROUP BY y")
        assert len(groups) == 4
        for (code,), found in groups:
            single = release.answer(f"SELECT {what} FROM t WHERE x < 11 AND y = {code}")
            assert (found.bounds is None) == (single.bounds is None)
            assert found.value == pytest.approx(single.value, nan_ok=True)
            assert found.interval() == pytest.approx(single.interval())
            assert found.bounds == pytest.approx(single.bounds)
            assert found.typical_interval() == pytest.approx(single.typical_interval())


def test_bounds_and_intervals_are_nested() -> None:
    values = _tables()["edges"]
    mechanism = sc.Dawa(["x"], epsilon=0.5, neighbours="add_remove")
    release = sc.publish(
        pa.table({"x": values}), SCHEMA, mechanism, options=sc.PublishOptions(seed=2)
    )
    found = release.answer("SELECT COUNT(*) FROM t WHERE x BETWEEN 33 AND 50")
    low, high = found.bounds
    start, end = found.interval()
    noise, typical = found.noise_interval(), found.typical_interval()
    assert start <= low <= high <= end
    assert start <= typical[0] <= max(noise[0], start)
    assert min(noise[1], end) <= typical[1] <= end
    assert noise[0] <= noise[1]
    width = (noise[1] - noise[0]) / 2
    assert found.stderr >= (high - low) / math.sqrt(12)
    assert f"noise alone ± {width:.0f}"[:-1] in repr(found)
    fields = found.to_dict()
    assert (fields["bound_low"], fields["bound_high"]) == found.bounds
    assert "not in the interval" not in " ".join(found.notes)


def test_negative_noise_can_cross_the_limits() -> None:
    law = Bounded(Exact(), Limit(5.0, Exact()), Limit(2.0, Exact()))
    assert law.bounds == (2.0, 5.0)


def test_an_average_is_inverted() -> None:
    """Ten rows at 0 to 1 and five rows at 3: the average is from 1 to 25 / 15."""

    def centred(t: float, lower: bool) -> Limit:
        end = 0 if lower else 1
        return Limit(10 * (end - t) + 5 * (3 - t), Exact())

    law = BoundedAverage(Exact(), centred, 0.0, 3.0, 1.3)
    assert law.bounds == pytest.approx((1.0, 25 / 15), abs=1e-5)
    assert law.interval(1.3, 0.95) == pytest.approx((1.0, 25 / 15), abs=1e-5)


def test_tables_have_a_column_for_the_noise_alone_where_leaves_are_cut() -> None:
    values = _tables()["edges"]
    mechanism = sc.Dawa(["x"], epsilon=0.5, neighbours="add_remove")
    release = sc.publish(
        pa.table({"x": values}), SCHEMA, mechanism, options=sc.PublishOptions(seed=2)
    )
    groups = release.answer("SELECT x, COUNT(*) FROM t GROUP BY x")
    assert groups.header(0.95)[-2:] == ["noise alone", "typical 95 %"]
    assert "noise alone" in repr(groups)
    assert "noise alone" in groups._repr_html_()
    bounded = [found for _, found in groups if found.bounds is not None]
    assert bounded
    half = (bounded[0].noise_interval()[1] - bounded[0].noise_interval()[0]) / 2
    assert float(bounded[0].noise_label(0.95).removeprefix("± ")) == pytest.approx(half, rel=0.1)
    fields = groups.to_dicts()[0]
    assert (fields["noise_low"], fields["noise_high"]) == groups.rows[0][1].noise_interval()
    typical = groups.rows[0][1].typical_interval()
    assert (fields["typical_low"], fields["typical_high"]) == typical
    assert bounded[0].typical_label(0.95) in repr(groups)
    assert TYPICAL in groups.notes
    typical = bounded[0].typical_label(0.95)
    assert any(
        note.startswith("typical value: ") and typical in note for note in result_of(groups).notes
    )
    csv = answer_table(groups, 0.95)
    place = groups.rows.index(next(row for row in groups.rows if row[1] is bounded[0]))
    ends = csv.column("typical_low")[place].as_py(), csv.column("typical_high")[place].as_py()
    assert ends == bounded[0].typical_interval()
    sent = decode_answer(encode_answer(groups))
    assert sent.rows[place][1].typical_interval() == bounded[0].typical_interval()
    two = release.answer("SELECT x, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY x")
    assert "n (typical 95 %)" in two.header()
    assert typical in repr(two)
    assert "n_typical_low" in two.to_arrow().column_names
    whole = release.answer("SELECT COUNT(*) FROM t")
    assert whole.noise_label(0.95) == ""
