"""Measures of a table against their definitions, written out row by row."""

import math
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.subjects import of_table
from scumble.audit.table_risk import (
    anonymity,
    classes,
    diversity,
    superset_distances,
)
from scumble.private.tables.rows import Rows

SCHEMA = sc.Schema(
    (
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 3)),
        sc.Attribute("b", "quasi", sc.IntegerRange(0, 2)),
        sc.Attribute("s", "sensitive", sc.IntegerRange(0, 5)),
    )
)


def table(rows: int, seed: int) -> dict[str, list[int]]:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.integers(0, 4, rows).tolist(),
        "b": rng.integers(0, 3, rows).tolist(),
        "s": np.minimum(rng.geometric(0.4, rows) - 1, 5).tolist(),
    }


def slow(given: dict[str, list[int]]) -> dict[str, float]:
    """Every measure by its definition."""
    groups: dict = defaultdict(list)
    for a, b, s in zip(given["a"], given["b"], given["s"], strict=True):
        groups[a, b].append(s)
    n = len(given["s"])
    whole = [given["s"].count(value) / n for value in range(6)]
    found: dict = defaultdict(list)
    least = min(len(set(members)) for members in groups.values())
    for members in groups.values():
        share = [members.count(value) / len(members) for value in range(6)]
        falling = sorted(share, reverse=True)
        found["size"].append(len(members))
        found["l"].append(len(set(members)))
        found["entropy"].append(math.exp(-sum(p * math.log(p) for p in share if p)))
        found["c"].append(falling[0] / sum(falling[least - 1 :]))
        found["alpha"].append(falling[0])
        found["equal"].append(sum(abs(p - q) for p, q in zip(share, whole, strict=True)) / 2)
        running, moved = 0.0, 0.0
        for p, q in zip(share, whole, strict=True):
            running += p - q
            moved += abs(running)
        found["ordered"].append(moved / 5)
        found["beta"].append(max((p - q) / q for p, q in zip(share, whole, strict=True) if p))
        logs = [
            abs(math.log(p / q)) if p else math.inf for p, q in zip(share, whole, strict=True) if q
        ]
        found["delta"].append(max(logs))
    return found | {"alone": [Counter(map(len, groups.values()))[1]]}


def test_measures_are_their_definitions(subtests):
    for rows, seed in [(30, 1), (200, 2), (5000, 3), (1, 4)]:
        with subtests.test(rows=rows, seed=seed):
            given = table(rows, seed)
            grouped = classes(Rows(pa.table(given), SCHEMA), ["a", "b"], "s")
            expected, people = slow(given), anonymity(grouped)
            assert (people.k, people.rows, people.alone) == (
                min(expected["size"]),
                rows,
                expected["alone"][0],
            )
            assert people.average_risk == pytest.approx(len(expected["size"]) / rows)
            for ordered, name in ((False, "equal"), (True, "ordered")):
                found = diversity(grouped, ordered=ordered)
                assert found.l == min(expected["l"])
                assert found.entropy_l == pytest.approx(min(expected["entropy"]))
                assert found.recursive_c == pytest.approx(max(expected["c"]))
                assert found.alpha == pytest.approx(max(expected["alpha"]))
                assert found.t == pytest.approx(max(expected[name]))
                assert found.beta == pytest.approx(max(expected["beta"]))
                assert found.delta == pytest.approx(max(expected["delta"]))


def test_a_product_beyond_64_bits_is_grouped_all_the_same():
    names = [f"q{place}" for place in range(5)]
    wide = sc.Schema(
        (
            *(sc.Attribute(name, "quasi", sc.IntegerRange(0, 10**6)) for name in names),
            sc.Attribute("s", "sensitive", sc.IntegerRange(0, 1)),
        )
    )
    rng = np.random.default_rng(1)
    base = rng.integers(0, 10**6, (100, 5))
    rows = np.repeat(base, 3, axis=0)
    given = {name: rows[:, place] for place, name in enumerate(names)} | {"s": [0, 1, 1] * 100}
    found = classes(Rows(pa.table(given), wide), names, "s")
    assert (anonymity(found).k, anonymity(found).classes) == (3, 100)
    assert diversity(found, ordered=False).l == 2


def test_without_a_sensitive_attribute_only_anonymity_is_measured():
    given = table(50, 5)
    assert anonymity(classes(Rows(pa.table(given), SCHEMA), ["a"], None)).classes == 4


def test_nothing_to_know_is_one_sentence():
    with pytest.raises(sc.SchemaError, match="name what an attacker may know"):
        classes(Rows(pa.table(table(5, 1)), SCHEMA), [], "s")
    empty = pa.table({name: pa.array([], pa.int64()) for name in "abs"})
    with pytest.raises(sc.SchemaError, match="no rows"):
        classes(Rows(empty, SCHEMA), ["a"], "s")


def nearest(given: dict[str, list[int]], n: int, *, ordered: bool) -> float:
    """The t of (n, t)-closeness by its definition: rows that agree with a class in a, in b, in both
    or in neither are its supersets.
    """
    rows = list(zip(given["a"], given["b"], given["s"], strict=True))

    def distance(one: list[int], other: list[int]) -> float:
        gaps = [one.count(v) / len(one) - other.count(v) / len(other) for v in range(6)]
        return sum(map(abs, np.cumsum(gaps))) / 5 if ordered else sum(map(abs, gaps)) / 2

    worst = 0.0
    for a, b in {(a, b) for a, b, _ in rows}:
        own = [s for x, y, s in rows if (x, y) == (a, b)]
        found = []
        for by_a, by_b in product((True, False), repeat=2):
            larger = [s for x, y, s in rows if (x == a or not by_a) and (y == b or not by_b)]
            if len(larger) >= n:
                found.append(distance(own, larger))
        worst = max(worst, min(found))
    return worst


@pytest.mark.parametrize("ordered", [True, False])
def test_n_t_closeness_is_its_definition(ordered, subtests):
    for rows, seed in [(30, 1), (200, 2), (1, 4)]:
        given = table(rows, seed)
        grouped = classes(Rows(pa.table(given), SCHEMA), ["a", "b"], "s")
        for n in {1, 2, rows // 4, rows // 2, rows} - {0}:
            if n > rows:
                continue
            with subtests.test(rows=rows, n=n):
                found = superset_distances(grouped, n, None, ordered=ordered).max()
                assert found == pytest.approx(nearest(given, n, ordered=ordered), abs=1e-12)
        # Of the whole table it is t-closeness, and a class of n rows is its own superset.
        whole = superset_distances(grouped, rows, None, ordered=ordered).max()
        assert whole == pytest.approx(diversity(grouped, ordered=ordered).t, abs=1e-12)
        assert not superset_distances(grouped, 1, None, ordered=ordered).any()


def test_a_claim_of_n_t_closeness_is_tried():
    """In the table of the paper's example, one value fills a class, but not the rows around it."""
    given = {"a": [0] * 40 + [1] * 40, "b": [0] * 20 + [1] * 20 + [0] * 20 + [1] * 20}
    given["s"] = [0, 1] * 10 + [0, 0, 1, 1] * 5 + [4, 5] * 20
    rows = pa.table(given)

    def verdicts(**claimed: float) -> dict[str, str]:
        return {each.check: each.verdict for each in of_table(rows, SCHEMA, **claimed).findings}

    assert verdicts(t=0.1)["t-closeness"] == "refuted"
    assert verdicts(t=0.1, n=40)["(n, t)-closeness"] == "exact"
    assert verdicts(t=0.1, n=40)["t-closeness"] == "noted"
    assert verdicts(t=0.1, n=41)["(n, t)-closeness"] == "refuted"
    assert verdicts(n=41)["(n, t)-closeness"] == "noted"
    assert "(n, t)-closeness" not in verdicts(t=0.1)
    for n in (0, 81):
        with pytest.raises(sc.ParameterError, match="from 1 to the number of rows"):
            of_table(rows, SCHEMA, n=n, t=0.1)


def test_too_many_quasi_identifiers_are_one_sentence():
    names = [f"q{place}" for place in range(11)]
    attributes = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 1)) for name in names]
    wide = sc.Schema((*attributes, sc.Attribute("s", "sensitive", sc.IntegerRange(0, 1))))
    given = pa.table({name: [0, 1] for name in (*names, "s")})
    with pytest.raises(sc.ParameterError, match="searched for up to 10 quasi-identifiers"):
        of_table(given, wide, n=2, t=0.5)
