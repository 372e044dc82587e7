"""Generalise: the optimum by brute force over all levels, cuts that keep every criterion, distances
against transport plans, and what is refused.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import scumble as sc
from scumble.families.generalise.design import nodes_of
from scumble.families.generalise.publish import search as lattice
from scumble.families.generalise.publish.criteria import (
    Criteria,
    hierarchical_distance,
    ordered_distance,
)
from scumble.families.generalise.publish.search import CodedTable, LocalRecoding
from scumble.families.generalise.read import GeneralisedRows
from scumble.model.schema.hierarchies import Levels, read_rule

A = sc.Attribute(
    "a", "quasi", sc.Category(list("pqrs")), hierarchy=read_rule([["p", "q"], ["r", "s"]])
)
B = sc.Attribute("b", "quasi", sc.IntegerRange(0, 5), hierarchy=read_rule({"intervals": [2, 6]}))
C = sc.Attribute("c", "quasi", sc.Boolean())
LEVELS = [attribute.levels for attribute in (A, B, C)]
VALUES = 3
CRITERIA = {
    "k": Criteria(3),
    "distinct": Criteria(2, l=2),
    "entropy": Criteria(2, l=2, diversity="entropy"),
    "recursive": Criteria(2, l=2, diversity="recursive", c=Fraction(2)),
    "alpha": Criteria(2, alpha=Fraction(3, 5)),
    "t": Criteria(2, t=Fraction(3, 10)),
    "t, ordered": Criteria(2, t=Fraction(1, 4), distance="ordered"),
}


def random_table(seed: int, rows: int = 24) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = [np.minimum(rng.geometric(0.4, rows) - 1, levels.size - 1) for levels in LEVELS]
    return codes, rng.integers(0, VALUES, rows)


def coded(seed: int, weights: tuple[float, ...] = (1, 1, 1)) -> CodedTable:
    codes, secret = random_table(seed)
    return CodedTable.of(codes, secret, VALUES, LEVELS, weights)[0]


# The same in plain Python, group by group.


def holds(criteria: Criteria, group: list[int], everybody: list[int]) -> bool:
    counts = Counter(group)
    n, found = len(group), sorted(counts.values(), reverse=True)
    fine = [n >= criteria.k]
    if criteria.l:
        entropy = -sum(c / n * log(c / n) for c in found)
        tail = sum(found[criteria.l - 1 :])
        fine.append(
            {
                "distinct": len(counts) >= criteria.l,
                "entropy": entropy >= log(criteria.l) - 1e-9,
                "recursive": found[0] < (criteria.c or 0) * tail,
            }[criteria.diversity]
        )
    if criteria.alpha:
        fine.append(found[0] <= criteria.alpha * n)
    if criteria.t is not None:
        whole = Counter(everybody)
        gaps = [Fraction(counts[v], n) - Fraction(whole[v], len(everybody)) for v in range(VALUES)]
        far = sum(abs(gap) for gap in gaps) / 2
        if criteria.distance == "ordered":
            far = sum(abs(sum(gaps[: i + 1])) for i in range(VALUES)) / (VALUES - 1)
        fine.append(far <= criteria.t)
    return all(fine)


def brute_force(seed: int, criteria: Criteria, most: int, weights: tuple[float, ...]) -> object:
    """The best of all combinations of levels: loss, then levels; None if there is none."""
    codes, secret = random_table(seed)
    best = None
    for levels in product(*(range(each.height + 1) for each in LEVELS)):
        groups: dict[tuple[int, ...], list[int]] = {}
        for row in range(len(secret)):
            key = tuple(
                int(each.groups[level][column[row]])
                for each, level, column in zip(LEVELS, levels, codes, strict=True)
            )
            groups.setdefault(key, []).append(row)
        kept = {key: rows for key, rows in groups.items() if len(rows) >= criteria.k}
        while True:
            everybody = [int(secret[row]) for rows in kept.values() for row in rows]
            still = {
                key: rows
                for key, rows in kept.items()
                if holds(criteria, [int(secret[row]) for row in rows], everybody)
            }
            if len(still) == len(kept):
                break
            kept = still
        inside = {row for rows in kept.values() for row in rows}
        if len(secret) - len(inside) > most:
            continue
        loss = 0.0
        for row in range(len(secret)):
            each = [
                w * (int(lv.sizes(h)[lv.groups[h][column[row]]]) - 1) / (lv.size - 1)
                for w, lv, h, column in zip(weights, LEVELS, levels, codes, strict=True)
            ]
            loss += sum(each) / sum(weights) if row in inside else 1.0
        found = (round(loss / len(secret), 10), levels, len(secret) - len(inside))
        best = found if best is None or found < best else best
    return best


def test_the_search_finds_what_brute_force_finds(subtests: pytest.Subtests) -> None:
    for name in CRITERIA:
        with subtests.test(name=name):
            found = 0
            for seed in range(12):
                weights = (1.0, 1.0, 1.0) if seed % 2 else (1.0, 3.0, 0.5)
                for most in (0, 3, 8):
                    best = lattice.optimal(coded(seed, weights), CRITERIA[name], most)
                    wanted = brute_force(seed, CRITERIA[name], most, weights)
                    if best is None:
                        assert wanted is None
                        continue
                    assert (round(best.loss, 10), best.levels, best.left_out) == wanted
                    found += 1
            assert found > 10


def test_every_group_of_a_local_recoding_satisfies_the_criteria(subtests: pytest.Subtests) -> None:
    for name in CRITERIA:
        with subtests.test(name=name):
            cut = 0
            for seed in range(40):
                table = coded(seed)
                if not lattice.judge(table, table.top, CRITERIA[name]).published.all():
                    continue
                local = LocalRecoding(table, CRITERIA[name])
                local.run()
                secret = np.repeat(table.secret, table.count)
                group = np.repeat(local.group, table.count)
                for number in np.unique(group):
                    inside = secret[group == number].tolist()
                    assert holds(CRITERIA[name], inside, secret.tolist())
                nodes = np.stack(table.nodes(local.level[local.group]), axis=1)
                for number in np.unique(local.group):
                    assert len(np.unique(nodes[local.group == number], axis=0)) == 1
                cut += len(np.unique(group)) > 1
            assert cut > 5


def transport(gap: np.ndarray, cost: np.ndarray) -> float:
    """The least cost of moving what is too much to where it lacks, by linear programming."""
    size = len(gap)
    out, into = np.zeros((size, size * size)), np.zeros((size, size * size))
    for i in range(size):
        out[i, i * size : (i + 1) * size] = 1
        into[i, i::size] = 1
    supply, demand = np.maximum(gap, 0), np.maximum(-gap, 0)
    solved = linprog(cost.ravel(), A_eq=np.vstack([out, into]), b_eq=np.append(supply, demand))
    return float(solved.fun)


def test_distances_are_those_of_the_best_transport() -> None:
    rng = np.random.default_rng(3)
    values = sc.Attribute(
        "s",
        "quasi",
        sc.Category(list("abcdef")),
        hierarchy=read_rule([[["a", "b"], "c"], ["d", "e"], "f"]),
    ).levels
    for size, missing in ((5, False), (5, True), (2, True), (6, False)):
        shares = rng.dirichlet(np.ones(size), 6) - rng.dirichlet(np.ones(size), 6)
        steps = max(size - missing - 1, 1)
        cost = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / steps
        if missing:
            cost[-1, :-1] = cost[:-1, -1] = 1.0
        found = ordered_distance(shares, missing=missing)
        assert found == pytest.approx([transport(gap, cost) for gap in shares], abs=1e-9)
        found = Criteria(2).distances(np.array([[3, 1, 0], [1, 1, 1]]), np.array([4, 2, 6]))
        gaps = [
            np.array([3, 1, 0]) / 4 - np.array([4, 2, 6]) / 12,
            np.full(3, 1 / 3) - np.array([4, 2, 6]) / 12,
        ]
        assert found == pytest.approx([transport(gap, 1 - np.eye(3)) for gap in gaps], abs=1e-9)
    shares = rng.dirichlet(np.ones(6), 6) - rng.dirichlet(np.ones(6), 6)
    cost = _levels_apart(values)
    found = hierarchical_distance(shares, values)
    assert found == pytest.approx([transport(gap, cost) for gap in shares], abs=1e-9)


def _levels_apart(levels: Levels) -> np.ndarray:
    """The level of the lowest common group of two values, over the height."""
    found = np.zeros((levels.size, levels.size))
    for i, j in product(range(levels.size), repeat=2):
        common = [h for h, groups in enumerate(levels.groups) if groups[i] == groups[j]]
        found[i, j] = common[0] / levels.height
    return found


SCHEMA = sc.Schema(
    [
        A,
        sc.Attribute("b", "quasi", B.domain, hierarchy=B.hierarchy, missing=True),
        sc.Attribute("note", "insensitive", sc.IntegerRange(0, 9)),
        sc.Attribute("ill", "sensitive", sc.Category(["x", "y", "z"])),
    ]
)


def people(rows: int, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    codes = {a.name: rng.integers(0, a.size, rows).astype(a.code_type) for a in SCHEMA}
    return pa.table({name: SCHEMA[name].decode(code) for name, code in codes.items()})


def test_published_rows_are_those_of_the_table(subtests: pytest.Subtests) -> None:
    """Rows with their labels replaced by what they may be: each table row fits one of them."""
    for mechanism in [
        sc.Generalise(k=4),
        sc.Generalise(k=4, l=2, alpha=0.8),
        sc.Generalise(k=4, t=0.4),
        sc.Generalise(k=4, recoding="global", suppress=0.1),
        sc.Generalise(k=4, l=3, recoding="global", suppress=0.3, weights={"a": 5}),
    ]:
        with subtests.test(mechanism=repr(mechanism)):
            table = people(120)
            release = sc.publish(table, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
            rows = GeneralisedRows.read(release.schema, release.evidence, release.folder)
            assert rows.sizes.min() >= 4
            assert release.evidence.rows + release.evidence.left_out == 120
            assert release.manifest.report["rows left out"] == release.evidence.left_out
            codes = {name: SCHEMA[name].encode(table[name])[0].astype(int) for name in SCHEMA.names}
            fits = np.ones((release.evidence.rows, 120), bool)
            for name, shown in rows.codes.items():
                fits &= shown[:, None] == codes[name][None, :]
            for name, nodes in rows.nodes.items():
                inside = [np.isin(codes[name], rows.tree(name).codes(node)) for node in nodes]
                fits &= np.array(inside)
            matched = maximum_bipartite_matching(csr_array(fits), perm_type="column")
            assert (matched >= 0).all()  # every published row is that of a person of its own
            labels = release.generalised.labelled()
            assert labels.column_names == ["a", "b", "note", "ill"]
            assert set(labels["a"].to_pylist()) <= {*"pqrs", "{p, q}", "{r, s}", "*"}


def test_every_node_is_a_set_of_values_once() -> None:
    for attribute in (*SCHEMA.quasi, sc.Attribute("d", "quasi", sc.IntegerRange(0, 0))):
        tree = nodes_of(attribute)
        sets = [frozenset(tree.codes(node).tolist()) for node in range(len(tree.size))]
        assert len(set(sets)) == len(sets)
        for level, groups in enumerate(tree.levels.groups):
            for code, group in enumerate(groups):
                assert code in sets[tree.numbers[level][group]]
        assert len(sets[tree.root]) == attribute.size


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(sc.PromiseError, match="cannot be had"):
        sc.publish(people(3), SCHEMA, sc.Generalise(k=4), options=sc.PublishOptions(seed=1))
    with pytest.raises(sc.PromiseError, match="cannot be had"):
        sc.publish(
            people(3),
            SCHEMA,
            sc.Generalise(k=4, recoding="global"),
            options=sc.PublishOptions(seed=1),
        )
    with pytest.raises(sc.SchemaError, match="smaller l"):
        sc.publish(people(9), SCHEMA, sc.Generalise(k=2, l=4))
    with pytest.raises(sc.SchemaError, match="no order"):
        sc.publish(people(9), SCHEMA, sc.Generalise(k=2, t=0.5, distance="ordered"))
    with pytest.raises(sc.ParameterError, match="role quasi"):
        sc.publish(people(9), SCHEMA, sc.Generalise(k=2, weights={"ill": 1}))
    with pytest.raises(sc.SchemaError, match="role quasi"):
        sc.publish(people(9), SCHEMA.with_roles(insensitive=["a", "b"]), sc.Generalise(k=2))
    empty = sc.publish(people(0), SCHEMA, sc.Generalise(k=2), options=sc.PublishOptions(seed=1))
    assert empty.evidence.rows == 0
    assert empty.generalised.labelled().num_rows == 0


def test_guarantees_say_that_they_depend_on_the_data() -> None:
    found = sc.Generalise(k=3, l=2, t=0.3, alpha=0.5).guarantee(SCHEMA, 100)
    assert [each.statement for each in found] == [
        "k-anonymity",
        "distinct l-diversity",
        "(α, k)-anonymity",
        "t-closeness, equal distance",
    ]
    for each in found:
        assert "not differential privacy and depends on the data" in each.limits[0]
        assert "a person who has several of them may be a whole group" in each.limits[1]
    assert found == sc.Generalise(k=3, l=2, t=0.3, alpha=0.5).guarantee(SCHEMA)
