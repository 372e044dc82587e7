"""Merged cells: what questions tell apart, by brute force over all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scumble as sc
from scumble.model.designs.matrix import MergedCells, numbered_by_appearance
from scumble.private.summaries.workload_matrix import Questions, merging
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("hours", "quasi", sc.IntegerRange(0, 6)),
        sc.Attribute("job", "sensitive", sc.Category(["cook", "nurse", "smith"])),
    ]
)
WORKLOADS = {
    "one": ["SELECT COUNT(*) FROM t WHERE age < 5"],
    "all": ["SELECT COUNT(*) FROM t"],
    "constant": ["SELECT COUNT(*) FROM t WHERE 1 = 2", "SELECT COUNT(*) FROM t WHERE age = 3"],
    "ranges": [f"SELECT COUNT(*) FROM t WHERE age BETWEEN {i} AND {i + 3}" for i in (0, 2, 4)],
    "tied": [
        "SELECT COUNT(*) FROM t WHERE age > hours AND job = 'cook'",
        "SELECT COUNT(*) FROM t WHERE age < 4 OR job = 'smith'",
    ],
    "groups": [
        "SELECT job, COUNT(*) FROM t WHERE age >= 5 GROUP BY job",
        "SELECT COUNT(*) FROM t WHERE hours > 2 AND job = 'nurse'",
    ],
}


def _merging(texts: list[str]) -> Questions:
    queries = [parse(text, SCHEMA) for text in texts]
    return merging(queries, SCHEMA, Sandbox(SCHEMA))


def _truths(texts: list[str]) -> np.ndarray:
    """A row a count and a column a cell, by evaluating every clause in every cell."""
    engine, rows = Sandbox(SCHEMA), []
    grid = np.indices([SCHEMA[name].size for name in SCHEMA.names]).reshape(3, -1)
    for text in texts:
        query = parse(text, SCHEMA)
        holds = np.logical_and.reduce(
            [np.ones(grid.shape[1], bool), *engine.holds(query.clauses, SCHEMA.names)]
        )
        places = [SCHEMA.names.index(name) for name in query.groups]
        for codes in itertools.product(*[range(SCHEMA[name].size) for name in query.groups]):
            mine = [grid[place] == code for place, code in zip(places, codes, strict=True)]
            rows.append(np.logical_and.reduce([holds, *mine]))
    return np.array(rows)


def test_cells_are_merged_if_and_only_if_nothing_tells_them_apart(
    subtests: pytest.Subtests,
) -> None:
    for name in WORKLOADS:
        with subtests.test(name=name):
            questions, truths = _merging(WORKLOADS[name]), _truths(WORKLOADS[name])
            merged = questions.merged
            assert merged.cells == len(np.unique(truths, axis=1).T)
            assert len(questions.asked) == len(truths)
            generator = np.random.default_rng(3)
            tensor = generator.integers(0, 9, [SCHEMA[each].size for each in SCHEMA.names])
            others = tuple(i for i, each in enumerate(SCHEMA.names) if each not in merged.names)
            order = [[n for n in SCHEMA.names if n in merged.names].index(n) for n in merged.names]
            counts = merged.merge(tensor.sum(axis=others).transpose(order).reshape(-1))
            assert counts.dtype == np.int64
            assert (questions.matrix @ counts == truths @ tensor.reshape(-1)).all()
            assert (questions.gram() == questions.matrix.T.astype(int) @ questions.matrix).all()
            assert np.array_equal(questions.distinct(), np.unique(questions.matrix, axis=0))


def test_a_manifest_keeps_them(subtests: pytest.Subtests) -> None:
    for name in WORKLOADS:
        with subtests.test(name=name):
            merged = _merging(WORKLOADS[name]).merged
            again = MergedCells.from_dict(merged.to_dict())
            assert again.names == merged.names
            assert (again.labels == merged.labels).all()
            for one, other in zip(again.blocks, merged.blocks, strict=True):
                assert (one.labels == other.labels).all()


def test_classes_are_numbered_as_they_appear() -> None:
    assert numbered_by_appearance(np.array([7, 7, 2, 9, 2])).tolist() == [0, 0, 1, 2, 1]


def test_too_many_kinds_of_rows() -> None:
    wide = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 4999))])
    queries = [parse("SELECT a, COUNT(*) FROM t GROUP BY a", wide)]
    with pytest.raises(sc.ParameterError, match=r"tell 5000 kinds of rows apart; .* at most 4096"):
        merging(queries, wide, Sandbox(wide))


def test_a_large_domain_and_a_coarse_workload() -> None:
    wide = sc.Schema([sc.Attribute(f"a{i}", "quasi", sc.IntegerRange(0, 999)) for i in range(2)])
    text = "SELECT COUNT(*) FROM t WHERE a0 < 500 AND a1 BETWEEN 100 AND 299"
    merged = merging([parse(text, wide)], wide, Sandbox(wide)).merged
    assert merged.cells == 2
    assert len(str(merged.to_dict())) < 400
