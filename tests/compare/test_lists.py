"""Comparisons of methods of lists: true counts against enumeration, and measures of releases."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.compare import lists
from scumble.compare.lists import BasketTruth, StringTruth
from tests.support.baskets import random_baskets
from tests.support.lists import FEW as SCHEMA
from tests.support.lists import people
from tests.support.terminal import run


def test_frequent_sets_are_those_of_enumeration(subtests: pytest.Subtests) -> None:
    baskets = random_baskets(200, 4, 0.7, seed=1)
    truth = BasketTruth(baskets)
    sets = [frozenset(s) for n in range(1, 5) for s in combinations(range(4), n)]
    counts = {each: sum(each <= basket for basket in baskets) for each in sets}
    assert all(truth.count(each) == count for each, count in counts.items())
    there = [each for each in sets if counts[each]]
    ranked = sorted(there, key=lambda each: (-counts[each], len(each), sorted(each)))
    for k in (1, 3, 9, 20):
        with subtests.test(k=k):
            assert truth.top(k) == ranked[:k]


def test_strings_are_counted_by_their_definition() -> None:
    sequences = [(0, 1, 0, 1), (1,), (), (0, 0, 0, 0, 0, 0)]
    plain = StringTruth(sequences, 5, weighted=False)
    assert plain.counts[0, 1] == 2
    assert plain.counts[0,] == 2 + 5  # five symbols are read
    weighed = StringTruth(sequences, 5, weighted=True)
    assert weighed.counts[0, 1] == pytest.approx(2 / 5)
    assert weighed.counts[1,] == pytest.approx(2 / 5 + 1 / 2)


def test_a_large_epsilon_errs_little_and_a_small_one_more() -> None:
    table = lists.ListTable(people(1500, items=4), SCHEMA)
    given = {"baskets": {"top": [5]}, "keys": {"delta": [1e-6]}}
    settings = lists.choices(SCHEMA, lists.METHODS, [0.05, 50], "add_remove", given)
    found = list(lists.compared(table, settings, 1, seed=1))
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
    assert means["keys, ε = 50, δ = 1e-06"]["keys named"] > 10


def test_rows_of_single_items_are_compared_as_lists() -> None:
    text = '[attributes.x]\nrole = "sensitive"\ntype = "sequence"\nvalues = ["a", "b", "c"]'
    schema = sc.Schema.loads(text)
    visits = [["a", "b"], ["b", "a", "c"], ["c"]] * 50
    long = [(visit, -place, x) for visit, each in enumerate(visits) for place, x in enumerate(each)]
    columns = zip(*long[::-1], strict=True)  # the order of the rows is not that of the items
    single = pa.table(dict(zip(("visit", "time", "x"), map(list, columns), strict=True)))
    lasts = [[*each[::-1]] for each in visits[::-1]]
    given = {"sequences": {"length": [4]}}
    choices = lists.choices(schema, ["sequences"], [1], "add_remove", given)
    grouped = lists.ListTable(single, schema, basket="visit", order="time")
    [one] = lists.compared(grouped, choices, 2, seed=1)
    [other] = lists.compared(lists.ListTable(pa.table({"x": lasts}), schema), choices, 2, seed=1)
    assert one == other


def test_the_command(tmp_path) -> None:
    pq.write_table(people(300, items=4), tmp_path / "people.parquet")
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
    single = run(*given, "-m", "histogram", "--basket", "who", *more, "--force")
    assert single.code == 2
    assert "--basket and --order are for methods of lists" in single.err
