"""Comparisons of methods of lists: true counts against enumeration, and measures of releases."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.compare import lists
from scumble.compare.list_truth import BasketTruth, StringTruth
from tests.support.terminal import run

SCHEMA = sc.Schema.loads(
    """
[attributes.who]
role = "identifier"
[attributes.items]
role = "sensitive"
type = "set"
values = ["a", "b", "c", "d"]
[attributes.pages]
role = "sensitive"
type = "sequence"
values = ["a", "b", "c"]
[attributes.x]
role = "sensitive"
type = "sequence"
range = [0, 2]
bins = 2
[attributes.y]
role = "sensitive"
type = "sequence"
range = [0, 2]
bins = 2
[attributes.query]
role = "sensitive"
type = "category"
open = true
"""
)


def people(number: int = 1500) -> pa.Table:
    draw = np.random.default_rng(1)
    sizes = draw.integers(1, 5, number)
    shares = zip("abcd", (0.7, 0.5, 0.3, 0.1), strict=True)
    has = {item: draw.random(number) < share for item, share in shares}
    return pa.table(
        {
            "who": np.arange(number),
            "items": [[item for item in "abcd" if has[item][row]] for row in range(number)],
            "pages": [draw.choice(list("abc"), size).tolist() for size in sizes],
            "x": [draw.uniform(0, 2, size).tolist() for size in sizes],
            "y": [draw.uniform(0, 2, size).tolist() for size in sizes],
            "query": [f"q{place}" for place in np.minimum(draw.geometric(0.2, number), 30)],
        }
    )


@pytest.mark.parametrize("k", [1, 3, 9, 20])
def test_frequent_sets_are_those_of_enumeration(k: int) -> None:
    baskets = [frozenset("abcd".index(item) for item in each) for each in _items()]
    truth = BasketTruth(baskets)
    sets = [frozenset(s) for n in range(1, 5) for s in combinations(range(4), n)]
    counts = {each: sum(each <= basket for basket in baskets) for each in sets}
    assert all(truth.count(each) == count for each, count in counts.items())
    there = [each for each in sets if counts[each]]
    ranked = sorted(there, key=lambda each: (-counts[each], len(each), sorted(each)))
    assert truth.top(k) == ranked[:k]


def _items() -> list[list[str]]:
    return people(200)["items"].to_pylist()


def test_strings_are_counted_by_their_definition() -> None:
    sequences = [(0, 1, 0, 1), (1,), (), (0, 0, 0, 0, 0, 0)]
    plain = StringTruth(sequences, 5, weighted=False)
    assert plain.counts[0, 1] == 2
    assert plain.counts[0,] == 2 + 5  # five symbols are read
    weighed = StringTruth(sequences, 5, weighted=True)
    assert weighed.counts[0, 1] == pytest.approx(2 / 5)
    assert weighed.counts[1,] == pytest.approx(2 / 5 + 1 / 2)


def test_a_large_epsilon_errs_little_and_a_small_one_more() -> None:
    table = lists.ListTable(people(), SCHEMA)
    given = {"baskets": {"top": [5]}, "keys": {"delta": [1e-6]}}
    settings = lists.choices(SCHEMA, lists.METHODS, [0.05, 50], "add_remove", given)
    found = list(lists.compared(table, settings, 2, seed=1))
    assert all(isinstance(each, lists.ListRun) for each in found)
    means = {each.name: {k: v.mean for k, v in each.measures.items()} for each in found}
    names = Counter(each.method for each in found)
    assert names == dict.fromkeys(lists.METHODS, 2)
    for name in lists.METHODS:
        small, large = (means[each.name] for each in found if each.method == name)
        for measure in set(large) & {"error of counts", "error of first and last"}:
            assert large[measure] < 0.2 < small[measure], (name, measure)
        assert large.get("missed of the top", 0) <= small.get("missed of the top", 1)
    assert means["baskets, ε = 50, top = 5"]["precision"] == 1
    assert means["keys, ε = 50, delta = 1e-06"]["keys named"] > 10


def test_the_command(tmp_path) -> None:
    pq.write_table(people(300), tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA.dumps())
    given = ["compare", str(tmp_path / "people.parquet"), "-s", str(tmp_path / "people.toml")]
    output = tmp_path / "page.html"
    more = ["-e", "1", "--repeats", "2", "-o", str(output)]
    done = run(*given, "-m", "baskets,keys", *more)
    assert done.code == 0
    assert "missed of the top" in done.out
    assert json.loads(output.with_suffix(".json").read_text())["notice"] == lists.OWNER
    assert output.stat().st_mode & 0o777 == 0o600
    mixed = run(*given, "-m", "baskets,uniform", *more, "--force")
    assert mixed.code == 2
    assert "Leave out uniform" in mixed.err
