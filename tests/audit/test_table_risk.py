"""Measures of a table against their definitions, written out row by row."""

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.anonymity.table_risk import anonymity, classes, diversity
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


@pytest.mark.parametrize(("rows", "seed"), [(30, 1), (200, 2), (5000, 3), (1, 4)])
def test_measures_are_their_definitions(rows, seed):
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
