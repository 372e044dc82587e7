"""Many counts at once: sums over boxes against sums over cells, and answers of whole workloads
against the answers one by one.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.compare.truth import TrueTable
from scumble.public.estimation import tables
from scumble.public.estimation.rows import row_tables
from scumble.public.estimation.tables import (
    MOST_CELLS,
    Clauses,
    CodeSet,
    CodeSets,
    PrefixSums,
    same_shape,
    table_rounds,
)
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse
from tests.support.people import people, schema

AGES = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 999)) for name in "abcd"]


def test_sums_over_boxes_are_sums_over_cells(subtests: pytest.Subtests) -> None:
    for axes, shape in product([0, 1, 2, 3], [(), (7,), (5, 4), (5, 4, 3), (3, 2, 4, 2)]):
        with subtests.test(axes=axes, shape=shape):
            rng = np.random.default_rng([len(shape), axes])
            axes = min(axes, len(shape))
            table = rng.integers(0, 100, shape)
            questions = [
                [CodeSet(rng.random(size) < chance) for size in shape[:axes]]
                for chance in (0, 0.2, 0.5, 0.8, 1, *rng.random(20))
            ]
            found = PrefixSums(table, axes).of(questions)
            assert found.shape == (len(questions), *shape[axes:])
            for sides, answer in zip(questions, found, strict=True):
                cells = table
                for axis, side in enumerate(sides):
                    cells = cells * side.holds.reshape(
                        [-1 if a == axis else 1 for a in range(len(shape))]
                    )
                assert np.array_equal(answer, cells.sum(axis=tuple(range(axes))))


def test_runs_are_what_a_side_holds() -> None:
    side = CodeSet(np.array([1, 1, 0, 1, 0, 0, 1], bool))
    assert side.runs == ((0, 2), (3, 4), (6, 7))
    assert side.size == 4
    assert CodeSet(np.zeros(3, bool)).runs == ((0, 0),)


def test_questions_without_boxes_are_told_apart() -> None:
    domain = schema(ages=200)
    odd = " OR ".join(f"age = {age}" for age in range(1, 200, 2))
    conditions = ["age < 3 AND age <> 1", "age < 3 OR sex = 'f'", odd, "age > 5 AND age < 2"]
    queries = [parse(f"SELECT COUNT(*) FROM t WHERE {each}", domain) for each in conditions]
    sides = CodeSets(domain, Clauses(domain, queries, Sandbox(domain)))
    runs = [sides.of(query, query.attributes) for query in queries]
    assert [[side.runs for side in each] if each else None for each in runs] == [
        [((0, 1), (2, 3))],
        None,
        None,
        [((0, 0),)],
    ]


def test_counts_of_one_shape_come_together() -> None:
    domain = schema()
    texts = [
        "SELECT COUNT(*) FROM t WHERE age < 3",
        "SELECT COUNT(*) FROM t WHERE age = 7",
        "SELECT SUM(age) FROM t WHERE age = 7",
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WHERE age = 7 AND sex = 'f'",
        "SELECT sex, COUNT(*) FROM t WHERE age = 7 GROUP BY sex",
    ]
    found = same_shape([parse(text, domain) for text in texts])
    assert sorted(found.values()) == [[0, 1], [4]]


def test_tables_are_made_in_rounds_that_fit_in_memory() -> None:
    domain = sc.Schema(AGES)
    pairs = {frozenset(pair): 10 for pair in ("ab", "ac", "ad", "bc", "bd", "cd")}
    large = {frozenset("abc"): 10**6, frozenset("abcd"): 1}
    asked = Counter({**pairs, **large, frozenset("a"): 1})
    some = list(table_rounds(domain, asked))
    assert set().union(*some) == {*pairs, frozenset("a")}
    names = [f"q{number}" for number in range(10)]
    wide = sc.Schema(sc.Attribute(name, "quasi", sc.IntegerRange(0, 999)) for name in names)
    often = Counter({frozenset(pair): 1 for pair in combinations(names, 2)})
    several = list(table_rounds(wide, often))
    assert len(several) == 2
    assert set().union(*several) == set(often)
    for each in several:
        assert sum(prod(wide[name].size for name in pair) for pair in each) <= MOST_CELLS


def test_threads_share_memory_as_well_as_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each counts into tables of its own: of large ones a machine with many processors has few."""
    domain = schema()
    pq.write_table(people(500, domain, seed=4), tmp_path / "t.parquet", row_group_size=10)
    monkeypatch.setattr(row_tables.os, "cpu_count", lambda: 16)
    cells = domain.size(["age", "sex"])
    tables = []
    for most, threads in ((0, 1), (3 * cells, 3), (1000 * cells, 16)):
        monkeypatch.setattr(row_tables, "_MOST_NUMBERS", most)
        rows = row_tables.RowTables(tmp_path / "t.parquet", domain)
        shares: list[row_tables.RowGroups] = []
        part = rows._part
        monkeypatch.setattr(rows, "_part", lambda *a, p=part, s=shares: s.append(a[1]) or p(*a))
        tables += rows.count([("age", "sex")])
        assert sorted(group for share in shares for group in share) == list(range(50))
        assert len(shares) == threads
    assert tables[0].sum() == 500
    assert all(np.array_equal(tables[0], other) for other in tables[1:])


@pytest.mark.parametrize("number", [0, 3, 40, 5000])
def test_tables_of_fewer_attributes_are_sums_of_others(tmp_path: Path, number: int) -> None:
    """Whether a table is counted or summed up depends on the number of rows; the numbers do not."""
    domain = schema()
    pq.write_table(people(number, domain, seed=4), tmp_path / "t.parquet")
    rows = row_tables.RowTables(tmp_path / "t.parquet", domain)
    names = [each.name for each in domain.published]
    sets = [some for size in (0, 2, 1, 3) for some in combinations(names, size)]
    alone = [rows.count([some])[0] for some in sets]
    assert bool(rows._wider(sets)) == (number > 0)
    assert rows._wider([("age",), ("sex",)]) == {}
    for found, expected in zip(rows.count(sets), alone, strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_questions_come_in_portions_that_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = schema(ages=200)
    monkeypatch.setattr(tables, "_MOST_TRUTHS", 500)
    conditions = ["age < 3", "age < 4", "age < 3 AND age < 4", "sex = 'f'", "age < 5", "age < 3"]
    texts = [f"SELECT COUNT(*) FROM t WHERE {each}" for each in conditions]
    asked = [parse(text, domain) for text in texts]
    portions = list(tables.portions(domain, asked))
    assert [len(some) for some in portions] == [4, 2]
    assert [query for some in portions for query in some] == asked
    assert list(tables.portions(domain, [])) == []
    table = people(300, domain, seed=4)
    release = sc.publish(table, domain, sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=4))
    answers = [answer.value for answer in release.answer_many(texts)]
    assert answers == [release.answer(text).value for text in texts]
    truth = TrueTable.read(table, domain)
    alone = [truth.counts([query])[0] for query in asked]
    assert truth.counts(asked).tolist() == alone
    assert np.concatenate(truth.answers(asked)).tolist() == alone


METHODS = {
    "uniform, each": (sc.Uniform(epsilon=1, joint=False), 4),
    "uniform, compound": (sc.Uniform(epsilon=1, joint=True), 4),
    "subset": (sc.Subset(epsilon=1), 0),
    "aroma": (sc.Aroma(k=7), 0),
    "aroma, listed": (sc.Aroma(k=2), 0),
    "partition": (sc.Partition(rho1=Fraction(1, 5), rho2=Fraction(1, 2)), 0),
    "anatomy": (sc.Anatomy(l=2, suppress=True), 0),
    "alphabeta": (sc.AlphaBeta(k=2, gamma=0.8, duplicates="collapse"), 9),
    "frapp": (sc.Frapp(epsilon=1), 4),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_workload_has_the_answers_of_its_questions(name: str) -> None:
    """Of every kind: conditions that hold for one value, for several runs of them, for none, and
    those on several attributes.
    """
    method, health = METHODS[name]
    domain = schema(jobs=[f"job {number}" for number in range(12)], health=health)
    release = sc.publish(
        people(600, domain, seed=8), domain, method, options=sc.PublishOptions(seed=8)
    )
    chance = random.Random(8)
    questions = [f"SELECT COUNT(*) FROM t WHERE {_condition(domain, chance)}" for _ in range(20)]
    questions += ["SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE 1 = 0 AND age = 3"]
    for question, answer in zip(questions, release.answer_many(questions), strict=True):
        single = release.answer(question)
        numbers = (single.value, single.stderr, *single.interval())
        found = (answer.value, answer.stderr, *answer.interval())
        assert found == pytest.approx(numbers, rel=1e-9, abs=1e-9), question
        assert (answer.method, answer.notes) == (single.method, single.notes)


def _condition(domain: sc.Schema, chance: random.Random) -> str:
    names = chance.sample(domain.names, chance.randrange(1, 4))
    return " AND ".join(_clause(domain, name, chance) for name in names)


def _clause(domain: sc.Schema, name: str, chance: random.Random) -> str:
    labels = [repr(label) for label in domain[name].labels().to_pylist()]
    one, other = sorted(chance.choices(labels, k=2))
    several = ", ".join(chance.sample(labels, min(len(labels), 5)))
    else_ = chance.choice([each for each in domain.names if each != name])
    value = chance.choice(domain[else_].labels().to_pylist())
    return chance.choice(
        [
            f"{name} = {one}",
            f"{name} <> {one}",
            f"{name} IN ({several})",
            f"{name} BETWEEN {one} AND {other}",
            f"({name} = {one} OR {else_} = {value!r})",
        ]
    )


GROUPED = [
    "SELECT condition, COUNT(*) FROM t GROUP BY condition",
    "SELECT condition, COUNT(*) FROM t WHERE age < 40 AND age >= 25 GROUP BY condition",
    "SELECT sex, COUNT(*) FROM t WHERE condition IN ('flu', 'cold') GROUP BY sex",
    "SELECT sex, condition, COUNT(*) FROM t WHERE condition <> 'flu' GROUP BY sex, condition",
    "SELECT sex, COUNT(*) FROM t WHERE age < 33 OR sex = 'm' GROUP BY sex",
    "SELECT age, COUNT(*) FROM t WHERE age > 1000 GROUP BY age",
]


@pytest.mark.parametrize(
    "method",
    [
        sc.Uniform(epsilon=1),
        sc.Subset(epsilon=1),
        sc.Aroma(k=4),
        sc.Partition(rho1=0.5, rho2=0.8),
    ],
    ids=lambda method: method.name,
)
def test_groups_of_many_are_those_of_one(
    method: sc.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts with GROUP BY from tables, against those that the engine counts one by one."""
    table, domain = _grouped_people()
    release = sc.publish(table, domain, method, options=sc.PublishOptions(seed=3))
    alone = [release.answer(text) for text in GROUPED]

    def nothing(*_: object) -> None:
        raise AssertionError("the engine was asked for rows")

    monkeypatch.setattr(Sandbox, "rows", nothing)
    for one, many in zip(alone, release.answer_many(GROUPED), strict=True):
        first, second = dict(one), dict(many)
        assert list(first) == list(second)
        for key, estimate in first.items():
            assert second[key].value == pytest.approx(estimate.value, rel=1e-12, abs=1e-9)
            limits = estimate.interval()
            assert second[key].interval() == pytest.approx(limits, rel=1e-9, abs=1e-7)
            assert second[key].method == estimate.method


def _grouped_people() -> tuple[pa.Table, sc.Schema]:
    rng = np.random.default_rng(8)
    names = ["flu", "cold", "none", "other"]
    columns = {
        "age": rng.integers(20, 50, 600),
        "sex": rng.choice(["f", "m"], 600),
        "condition": rng.choice(names, 600, p=[0.3, 0.3, 0.3, 0.1]),
    }
    attributes = [
        sc.Attribute("age", "quasi", sc.IntegerRange(20, 49)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("condition", "sensitive", sc.Category(tuple(names))),
    ]
    return pa.table(columns), sc.Schema(attributes)


def test_truths_are_those_of_the_own_domain() -> None:
    """What is kept for other sandboxes belongs to the domains, not to the text alone."""
    for low, high in ((0, 9), (3, 12), (0, 9)):
        domain = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(low, high))])
        query = parse("SELECT COUNT(*) FROM t WHERE a < 5", domain)
        [holds] = Sandbox(domain).holds(query.clauses, ["a"])
        assert holds.tolist() == [value < 5 for value in range(low, high + 1)]
        holds[:] = False  # the caller's own array


def test_kept_truths_need_the_same_side_tables() -> None:
    domain = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 9))])
    for some in ([1, 2], [7]):
        sandbox = Sandbox(domain, {"few": pa.table({"a": some})})
        text = "SELECT COUNT(*) FROM t WHERE a IN (SELECT a FROM few)"
        query = parse(text, domain, sandbox.columns)
        [holds] = sandbox.holds(query.clauses, ["a"])
        assert np.flatnonzero(holds).tolist() == some
