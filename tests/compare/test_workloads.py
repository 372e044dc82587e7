"""Workloads: what the generators draw, and true answers against a look at every row."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.compare import workloads
from scumble.compare.truth import TrueTable
from scumble.model.errors import ParameterError, QueryError
from scumble.model.query import Expression, Query
from scumble.public.sandbox import Sandbox

SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(20, 29)),
        sc.Attribute("town", "quasi", sc.Category(("Ay", "Bee", "Cee's"))),
        sc.Attribute("pay", "quasi", sc.Bins((0.0, 10.0, 20.0, 40.0)), missing=True),
        sc.Attribute("ill", "sensitive", sc.Category(("no", "flu", "cold"))),
    )
)
GENERATOR = np.random.default_rng(7)
ROWS = 400
ENGINE = Sandbox(SCHEMA)
ENGINE.known = None  # every condition is evaluated by DuckDB
TABLE = pa.table(
    {
        "age": GENERATOR.integers(20, 30, ROWS),
        "town": GENERATOR.choice(["Ay", "Bee", "Cee's"], ROWS, p=[0.6, 0.3, 0.1]),
        "pay": pa.array(
            [None if x < 4 else float(x) for x in GENERATOR.integers(0, 40, ROWS).tolist()]
        ),
        "ill": GENERATOR.choice(["no", "flu", "cold"], ROWS, p=[0.8, 0.15, 0.05]),
    }
)


@pytest.fixture(scope="module")
def true() -> TrueTable:
    return TrueTable.read(TABLE, SCHEMA)


def test_selections_are_all_there() -> None:
    found = workloads.selections(SCHEMA, ways=2)
    sizes = [10, 3, 4, 3]
    pairs = [a * b for place, a in enumerate(sizes) for b in sizes[place + 1 :]]
    assert len(found) == sum(sizes) + sum(pairs)
    assert len({query.text for query in found.queries}) == len(found)
    assert "SELECT COUNT(*) FROM t WHERE town = 'Cee''s' AND ill = 'flu'" in {
        query.text for query in found.queries
    }


def test_a_sample_of_selections_is_even() -> None:
    """100 samples of 50 of all: how often a selection is drawn is binomial, and none of them is six
    deviations off (false alarm below 1e-6 for all together).
    """
    times = Counter(
        query.text
        for seed in range(100)
        for query in workloads.selections(SCHEMA, ways=2, most=50, seed=seed).queries
    )
    whole = len(workloads.selections(SCHEMA, ways=2))
    assert len(times) == whole
    share = 50 / whole
    limit = 6 * (100 * share * (1 - share)) ** 0.5
    assert all(abs(number - 100 * share) < limit for number in times.values())


def test_marginals_are_whole_tables(true: TrueTable) -> None:
    found = workloads.marginals(SCHEMA, ways=3)
    tables = true.answers(found.queries)
    assert [len(each) for each in tables] == [10 * 3 * 4, 10 * 3 * 3, 10 * 4 * 3, 3 * 4 * 3]
    assert all(each.sum() == ROWS for each in tables)
    some = workloads.marginals(SCHEMA, ways=2, most=4, seed=1).queries
    assert len({query.groups for query in some}) == 4


def test_breakdowns_have_many_rows(true: TrueTable) -> None:
    found = workloads.breakdowns(true, count=10, floor=0.1, groups=["ill"], seed=2)
    assert all(query.groups == ("ill",) for query in found.queries)
    assert all(len(query.attributes) in (2, 3) for query in found.queries)
    assert min(each.sum() for each in true.answers(found.queries)) >= 0.1 * ROWS
    with pytest.raises(ParameterError, match="smaller floor"):
        workloads.breakdowns(true, count=10, floor=0.99, groups=["ill"])
    alone = TrueTable(SCHEMA.select(["ill"]), {"ill": true.codes("ill")}, ROWS)
    assert len(workloads.breakdowns(alone, count=10, floor=0.1, groups=["ill"])) == 1


def test_a_column_of_many_values_hides_no_other_breakdown() -> None:
    """Of 5,000 codes none is frequent; all conjunctions that are frequent are found without it."""
    towns = sc.Attribute("code", "quasi", sc.IntegerRange(0, 4999))
    schema = sc.Schema((towns, *SCHEMA))
    wide = TABLE.append_column("code", pa.array(GENERATOR.integers(0, 5000, ROWS)))
    table = TrueTable.read(wide, schema)
    found = workloads.breakdowns(table, count=30, floor=0.02, groups=["ill"])
    assert len(found) == 30
    assert found.wanted is None
    every = workloads.breakdowns(table, count=None, floor=0.02, groups=["ill"])
    boxes = workloads.selections(SCHEMA, ["age", "town", "pay"], ways=2).queries
    reached = np.flatnonzero(table.counts(boxes) >= 0.02 * ROWS)
    assert {_condition(query) for query in every.queries} == {
        _condition(boxes[place]) for place in reached
    }
    more = workloads.breakdowns(table, count=5000, floor=0.02, groups=["ill"])
    assert len(more) == len(every) < 5000 == more.wanted
    values = workloads.conjunctions(table, count=20, floor=0.02)
    assert len(values) == 20


def test_breakdowns_are_even(true: TrueTable) -> None:
    """400 draws of 10 of all: how often each comes is binomial, and none is six deviations off
    (false alarm below 1e-6 for all together).
    """
    given = {"floor": 0.05, "groups": ["ill"]}
    every = {query.text for query in workloads.breakdowns(true, count=None, **given).queries}
    times = Counter(
        query.text
        for seed in range(400)
        for query in workloads.breakdowns(true, count=10, seed=seed, **given).queries
    )
    assert set(times) == every
    share = 10 / len(every)
    limit = 6 * (400 * share * (1 - share)) ** 0.5
    assert all(abs(number - 400 * share) < limit for number in times.values())


@pytest.mark.slow
def test_conjunctions_are_drawn_by_width_first(true: TrueTable) -> None:
    """The first conjunction of 600 draws, over a column of three values and one of ten: width 1 has
    half of all draws, and those that reach the floor keep their shares (a binomial within six
    deviations: false alarm below 1e-8).
    """
    given = {"floor": 0.001, "attributes": ["age", "town"], "ways": 2, "count": 1}
    first = [workloads.conjunctions(true, seed=seed, **given).queries[0] for seed in range(600)]
    single = sum(len(query.attributes) == 2 for query in first)
    cells = true.cube(["age", "town"])
    pairs = (cells >= 1).sum() / cells.size
    share = 1 / (1 + pairs)
    assert abs(single - 600 * share) < 6 * (600 * share * (1 - share)) ** 0.5


def test_conjunctions_keep_to_the_floor(true: TrueTable) -> None:
    found = workloads.conjunctions(true, count=60, floor=0.01, seed=3)
    assert 0 < len(found) <= 60
    assert min(true.counts(found.queries)) >= 0.01 * ROWS
    assert all(1 <= len(set(query.attributes) - {"ill"}) <= 3 for query in found.queries)
    assert all("ill" in query.attributes for query in found.queries)
    assert len({query.text for query in found.queries}) == len(found)


def test_conjunctions_that_are_all_there_are_all_found(true: TrueTable) -> None:
    """A floor that only few reach: everything above it is found, and drawing ends."""
    found = workloads.conjunctions(true, count=1000, floor=0.1, attributes=["town"], ways=1)
    every = workloads.selections(SCHEMA, ["town", "ill"], ways=2)
    pairs = zip(every.queries, true.counts(every.queries), strict=True)
    large = [q.text for q, number in pairs if number >= 0.1 * ROWS and len(q.attributes) == 2]
    assert {query.text for query in found.queries} == set(large)
    with pytest.raises(ParameterError, match="smaller floor"):
        workloads.conjunctions(true, count=10, floor=0.99)


def _condition(query: Query) -> str:
    return query.text.partition(" WHERE ")[2].partition(" GROUP BY ")[0]


def test_ranges_have_their_volume(true: TrueTable) -> None:
    found = workloads.ranges(SCHEMA, volume=0.25, count=200, attributes=["age", "pay"])
    lengths = {len(_codes(query, "age")) for query in found.queries}
    assert lengths == {5}
    starts = Counter(min(_codes(query, "age")) for query in found.queries)
    assert set(starts) == set(range(6))  # moved inside at both ends
    with pytest.raises(ParameterError, match="centres"):
        workloads.ranges(SCHEMA, volume=0.25, count=1, centres="data")


def test_centres_of_data_follow_the_data(true: TrueTable) -> None:
    """The middle of three towns is moved nowhere if one town is as long as the interval: of 800
    centres each has its share within 6 deviations (false alarm below 1e-8 each).
    """
    found = workloads.ranges(
        SCHEMA, volume=0.1, count=800, attributes=["town", "ill"], centres="data", table=true
    )
    times = Counter(_codes(query, "town")[0] for query in found.queries)
    shares = true.cube(["town"]) / ROWS
    for code, share in enumerate(shares.tolist()):
        assert abs(times[code] / 800 - share) < 6 * (share * (1 - share) / 800) ** 0.5


def test_prefixes_and_intervals(true: TrueTable) -> None:
    prefixes = workloads.prefixes(SCHEMA, "age")
    assert true.counts(prefixes.queries).tolist() == true.cube(["age"]).cumsum().tolist()
    drawn = workloads.intervals(SCHEMA, "town", count=6000, seed=1)
    times = Counter(query.text for query in drawn.queries)
    assert len(times) == 6  # of three values, the whole domain among them
    # Each has 1000 in the mean; six deviations of a binomial (false alarm below 1e-7).
    assert all(abs(number - 1000) < 6 * (1000 * 5 / 6) ** 0.5 for number in times.values())


def test_intervals_of_a_large_domain_are_even() -> None:
    """The ends are the smaller and the larger of two even draws: a third and two thirds in the
    mean, within six deviations (false alarm below 1e-8).
    """
    large = sc.Schema((sc.Attribute("x", "quasi", sc.IntegerRange(0, 9999)),))
    drawn = workloads.intervals(large, "x", count=600, seed=5)
    ends = [[int(n) for n in re.findall(r"\d+", query.text)] for query in drawn.queries]
    lows, highs = np.array([min(e) for e in ends]), np.array([max(e) for e in ends])
    assert (lows <= highs).all()
    assert highs.max() <= 9999
    assert abs(lows.mean() / 9999 - 1 / 3) < 6 * (1 / 18 / 600) ** 0.5
    assert abs(highs.mean() / 9999 - 2 / 3) < 6 * (1 / 18 / 600) ** 0.5


def test_the_owners_sql(tmp_path: Path, true: TrueTable) -> None:
    file = tmp_path / "mine.sql"
    file.write_text(
        "-- what matters\nSELECT COUNT(*) FROM t WHERE age < 25;\n"
        "SELECT town, AVG(age) FROM t\n WHERE ill <> 'no' GROUP BY town;\n"
    )
    found = workloads.from_sql(file, SCHEMA)
    assert found.name == "the questions in mine.sql"
    count, means = true.answers(found.queries)
    frame = TABLE.to_pandas()
    assert count == [(frame.age < 25).sum()]
    wanted = frame[frame.ill != "no"].groupby("town").age.mean()
    assert means == pytest.approx([wanted[town] for town in ("Ay", "Bee", "Cee's")], rel=1e-12)
    with pytest.raises(QueryError, match="Question 2"):
        workloads.from_sql(
            ["SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE no = 1"], SCHEMA
        )


QUESTIONS = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE town = 'Bee' AND age BETWEEN 22 AND 26",
    "SELECT COUNT(*) FROM t WHERE town IN ('Ay', 'Cee''s') AND ill = 'flu'",
    "SELECT COUNT(*) FROM t WHERE age + 1 > 27 OR town = 'Ay'",
    "SELECT COUNT(*) FROM t WHERE age > 27 AND age < 22",
    "SELECT COUNT(*) FROM t WHERE pay IS NULL",
    "SELECT COUNT(*) FROM t WHERE NOT pay >= 20",
    "SELECT SUM(age) FROM t WHERE ill = 'cold'",
    "SELECT AVG(pay) FROM t WHERE town = 'Ay'",
    "SELECT ill, COUNT(*) FROM t WHERE age > 24 GROUP BY ill",
    "SELECT town, ill, SUM(2 * age) FROM t GROUP BY town, ill",
    "SELECT SUM(100 / (age - 20)) FROM t WHERE age > 20",
]


def test_true_answers_are_those_of_sql(true: TrueTable) -> None:
    """DuckDB over the same values as they are published: a bin is its middle."""
    decoded = pa.table({a.name: a.decode(true.codes(a.name)) for a in SCHEMA})
    engine = Sandbox(SCHEMA, {"t": decoded})
    found = true.answers(workloads.from_sql(QUESTIONS, SCHEMA).queries)
    for sql, numbers in zip(QUESTIONS, found, strict=True):
        rows = engine.rows(sql)
        *keys, values = (column.to_pylist() for column in rows.columns)
        domains = [SCHEMA[name].labels().to_pylist() for name in rows.column_names[: len(keys)]]
        named = zip(*keys, strict=True) if keys else [()]
        wanted = dict(zip(named, map(float, values), strict=True))
        expected = [wanted.get(key, 0) for key in product(*domains)]
        assert numbers == pytest.approx(expected, rel=1e-12), sql


def test_every_box_is_counted_as_by_rows(true: TrueTable) -> None:
    every = workloads.selections(SCHEMA, ways=3)
    fast = true.counts(every.queries)
    codes = {a.name: true.codes(a.name).astype(int) for a in SCHEMA}
    slow = []
    for width in (1, 2, 3):
        for names in combinations(SCHEMA.names, width):
            for cell in product(*(range(SCHEMA[name].size) for name in names)):
                holds = [codes[name] == code for name, code in zip(names, cell, strict=True)]
                slow.append(np.logical_and.reduce(holds).sum())
    assert fast.tolist() == slow


def test_distinct_rows(true: TrueTable) -> None:
    few = true.distinct()
    columns = [true.codes(name).tolist() for name in SCHEMA.names]
    assert few.rows == len(set(zip(*columns, strict=True)))
    assert few.cube(["age"]).sum() == few.rows


def test_a_table_without_rows() -> None:
    empty = TrueTable.read(TABLE.slice(0, 0), SCHEMA)
    assert empty.rows == 0
    found = empty.answers(workloads.from_sql(QUESTIONS[:2] + QUESTIONS[8:10], SCHEMA).queries)
    assert [each.tolist() for each in found[:2]] == [[0], [0]]
    assert np.isnan(found[2]).all()
    assert found[3].tolist() == [0, 0, 0]


def _codes(query: Query, name: str) -> list[int]:
    """The codes of an attribute that a question allows."""
    return _allowed(tuple(each for each in query.clauses if each.attributes == (name,)), name)


@lru_cache
def _allowed(clauses: tuple[Expression, ...], name: str) -> list[int]:
    holds = [np.ones(SCHEMA[name].size, bool), *ENGINE.holds(clauses, [name])]
    return np.flatnonzero(np.logical_and.reduce(holds)).tolist()


NO_QUESTIONS = [
    (b"", "has no question"),
    (b"-- nothing\n;\n", "has no question"),
    (b"\xff\xfe\x00", "cannot be read as text"),
    (b"SELECT COUNT(*) FROM t\nWHERE age < 25", "put semicolons after those of several lines"),
]


def test_files_that_are_no_questions(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for content, complaint in NO_QUESTIONS:
        with subtests.test(content=content):
            (tmp_path / "mine.sql").write_bytes(content)
            with pytest.raises((ParameterError, QueryError), match=complaint) as refused:
                workloads.from_sql(tmp_path / "mine.sql", SCHEMA)
            assert "parameter" not in str(refused.value)
