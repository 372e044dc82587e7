"""Keys: what is published, answered and refused, with one and two levels."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import scumble as sc
from scumble.families.keys import publish as open_keys
from scumble.families.keys.design import KeyLevel
from scumble.families.keys.publish import (
    GaussianRule,
    KeyRule,
    LaplaceRule,
    OptimalRule,
    PrivateKeys,
)
from scumble.model.laws import DiscreteGaussian
from scumble.model.laws.key_noise import KeyNoise
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.key_pairs import KeyPairs, KeyTotals, _add_choice
from scumble.private.tables.rows import Rows
from tests.support.goodness import rejects

SCHEMA = sc.Schema.loads(
    """
unit = "row"
[attributes.who]
role = "identifier"
[attributes.query]
role = "sensitive"
type = "category"
open = true
[attributes.url]
role = "sensitive"
type = "category"
open = true
[attributes.sex]
role = "quasi"
type = "category"
values = ["f", "m"]
"""
)
GIVEN = {"epsilon": 1, "delta": 1e-4, "neighbours": "add_remove", "person": "who"}


def table(people: int = 3000, seed: int = 1) -> pa.Table:
    """People with one to six queries each, some far more frequent than others."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, 7, people))
    query = rng.zipf(1.4, len(who)) % 4000
    return pa.table(
        {
            "who": [f"P{each}" for each in who],
            "query": [f"query {each}" for each in query],
            "url": [f"site {each % 3}.org" for each in rng.integers(0, 9, len(who))],
            "sex": rng.choice(["f", "m"], len(who)).tolist(),
        }
    )


def kept(release: sc.Release, sql: str) -> Any:
    """Answer a question about the people who kept a key, as `top` counts them."""
    reader = release.keys.reader
    found = dict(reader.answer(release.parse(sql), reader.sandbox, kept=True))
    return found if "GROUP BY" in sql else found[()]


def truth(rows: pa.Table, names: list[str]) -> dict[tuple, int]:
    """How many people have each key."""
    pairs = set(zip(*(rows[name].to_pylist() for name in ("who", *names)), strict=True))
    found: dict[tuple, int] = {}
    for _, *key in pairs:
        found[tuple(key)] = found.get(tuple(key), 0) + 1
    return found


RULES = ["optimal", "zealous", "korolova", "gaussian", "sips"]


def test_counts_are_near_the_truth_and_saved(tmp_path_factory, subtests):
    """No person has more than 6 keys, so that all are kept; each interval misses by 1e-9 or less,
    all together by 1e-6.
    """
    for rule in RULES:
        with subtests.test(rule=rule):
            tmp_path = tmp_path_factory.mktemp("case")
            rows = table()
            release = sc.publish(
                rows,
                SCHEMA,
                sc.Keys("query", keys=6, rule=rule, **GIVEN),
                options=sc.PublishOptions(seed=3),
            )
            known = truth(rows, ["query"])
            found = release.answer("SELECT query, COUNT(*) FROM t GROUP BY query")
            assert len(found) > 5
            people = kept(release, "SELECT query, COUNT(*) FROM t GROUP BY query")
            for key, estimate in found:
                low, high = people[key].interval(1 - 1e-9)
                assert low <= known[key] <= high
                assert estimate.interval(1 - 1e-9) == (low, math.inf)
                assert estimate.reason == "only bounds"
            saved = sc.open(release.save(tmp_path / "release", insecure=True))
            assert repr(saved.answer("SELECT query, COUNT(*) FROM t GROUP BY query")) == repr(found)
            assert repr(saved.keys.top(3)) == repr(release.keys.top(3))
            assert "query 1" in release.schema.names or release.schema["query"].open


def test_auto_takes_counts_for_few_keys_and_sums_for_many():
    rules = [sc.Keys("query", keys=keys, **GIVEN).chosen_rule for keys in (1, 2, 3, 30)]
    assert rules == ["optimal", "sips", "sips", "sips"]
    assert sc.Keys("query", keys=1, counts=False, **GIVEN).chosen_rule == "optimal"


def test_questions():
    rows = table()
    release = sc.publish(
        rows,
        SCHEMA,
        sc.Keys("query", keys=2, rule="optimal", **GIVEN),
        options=sc.PublishOptions(seed=3),
    )
    groups = release.answer("SELECT query, COUNT(*) FROM t GROUP BY query")
    sql = "SELECT COUNT(*) FROM t WHERE query = 'query 1'"
    one, one_kept = release.answer(sql), kept(release, sql)
    people = kept(release, "SELECT query, COUNT(*) FROM t GROUP BY query")
    assert one_kept.value == people["query 1",].value
    assert one.interval() == groups["query 1"].interval() == (one_kept.interval()[0], math.inf)
    assert math.isnan(one.value)
    assert one.to_dict()["value"] is None
    assert release.answer(f"SELECT 2 * COUNT(*) {sql[15:]}").reason == "only bounds"
    assert any("up to 2 keys" in note for note in one.notes)
    sql = "SELECT COUNT(*) FROM t WHERE query = 'nobody asked this'"
    absent, absent_kept = release.answer(sql), kept(release, sql)
    most = release.evidence.design.levels[0].most_unseen(0.005)
    assert (absent_kept.value, absent_kept.interval()) == (0, (0, most))
    assert absent.interval() == (0, math.inf)  # people may have it and have kept others
    assert not any("no row has it" in note for note in absent.notes)
    sql = "SELECT COUNT(*) FROM t WHERE query IN ('query 1', 'it''s not there')"
    both, both_kept = release.answer(sql), kept(release, sql)
    assert both_kept.value == one_kept.value
    assert one_kept.interval()[1] < both_kept.interval()[1] < math.inf
    assert both.interval() == (both_kept.interval()[0], math.inf)
    some = release.answer("SELECT COUNT(*) FROM t WHERE query LIKE 'query 1%'")
    assert some.interval()[1] == np.inf  # nobody knows how many others there are
    assert some.interval()[0] >= one.interval()[0] - 50
    best = release.answer(
        "SELECT query, COUNT(*) AS n FROM t GROUP BY query HAVING COUNT(*) > 100 ORDER BY n DESC"
    )
    assert next(iter(best.rows))[0] == ("query 1",)


@pytest.mark.parametrize("rule", RULES)
def test_answers_are_about_all_rows_of_the_table(rule, subtests):
    """3,000 people have "rain" and three of five other queries, and keep two of the four; one in
    ten has "rain" twice. The noise alone misses by 1e-9 or less, and the people who kept "rain" are
    at least 1,300 of 3,000 but for a probability of 1e-13 (binomial, 1/2 each).
    """
    others = list(combinations([f"query {each}" for each in range(5)], 3))
    lists = [["rain", *others[n % 10], *["rain"] * (n % 10 == 0)] for n in range(3000)]
    flat = [(f"P{n}", each) for n, own in enumerate(lists) for each in own]
    who, query = map(list, zip(*flat, strict=True))
    rows = pa.table({"who": who, "query": query, "url": query, "sex": ["f"] * len(who)})
    release = sc.publish(
        rows,
        SCHEMA,
        sc.Keys("query", keys=2, rule=rule, **GIVEN),
        options=sc.PublishOptions(seed=3),
    )
    for amount, truth in (("COUNT(*)", 3300), ("SUM(2)", 6600), ("SUM(-1)", -3300)):
        with subtests.test(amount=amount):
            sql = f"SELECT {amount} FROM t WHERE query = 'rain'"
            found, people = release.answer(sql), kept(release, sql)
            for low, high in (found.interval(1 - 1e-9), found.bounds):
                assert low <= truth <= high
                assert low <= people.value <= high
            assert 1200 <= abs(people.value) / (2 if amount == "SUM(2)" else 1) <= 1800
            assert found.reason == "only bounds"
            assert any("any number more" in note for note in found.notes)
            assert not any("any number more" in note for note in people.notes)
    average = release.answer("SELECT AVG(2) FROM t WHERE query = 'rain'")
    assert average.interval()[0] <= 2 <= average.interval()[1]


@pytest.mark.parametrize("most", [1, 4])
def test_lower_limits_hold_over_releases(most):
    """People have 1 to `most` keys and keep one. Of 80 releases with five keys each, the keys of
    one release have independent noise. A lower limit at 80 % may miss one in ten times: more
    misses than happen so with probability 1e-4 fail. Where people have one key, limits that are
    higher by one would fail.
    """
    rng = np.random.default_rng(most)
    who = np.repeat(np.arange(1500), rng.integers(1, most + 1, 1500))
    query = [f"query {each}" for each in rng.integers(0, 5, len(who))]
    rows = pa.table({"who": who, "query": query, "url": query, "sex": ["f"] * len(who)})
    counted = {key: query.count(key) for key in set(query)}
    mechanism = sc.Keys("query", keys=1, **GIVEN)
    missed = too_high = asked = 0
    for seed in range(80):
        release = sc.publish(rows, SCHEMA, mechanism, options=sc.PublishOptions(seed=seed))
        for (key,), each in release.answer("SELECT query, COUNT(*) FROM t GROUP BY query"):
            low, high = each.interval(0.8)
            assert high == math.inf
            missed += low > counted[key]
            too_high += low + 1 > counted[key]
            asked += 1
    most_missed = stats.binom.ppf(1 - 1e-4, asked, 0.1)
    assert asked == 400
    assert missed <= most_missed
    assert most > 1 or too_high > most_missed


def test_without_a_person_every_row_is_counted_and_the_interval_ends():
    """Each interval misses by 1e-9 or less."""
    rows = pa.table({"who": [1] * 900, "query": ["rain"] * 900, "url": [""] * 900})
    rows = rows.append_column("sex", pa.array(["f"] * 900))
    given = {**GIVEN, "person": None}
    release = sc.publish(
        rows, SCHEMA, sc.Keys("query", keys=1, **given), options=sc.PublishOptions(seed=3)
    )
    found = release.answer("SELECT COUNT(*) FROM t WHERE query = 'rain'")
    low, high = found.interval(1 - 1e-9)
    assert low <= 900 <= high < 1000
    assert found.bounds is None


def test_top_ranks_by_counts_with_intervals_for_all_together():
    release = sc.publish(
        table(), SCHEMA, sc.Keys("query", keys=1, **GIVEN), options=sc.PublishOptions(seed=3)
    )
    groups = kept(release, "SELECT query, COUNT(*) FROM t GROUP BY query")
    top = release.keys.top(4)
    assert "people who kept it" in repr(top)
    assert "people who kept it" in top.to_arrow().column_names
    values = sorted((each.value for each in groups.values()), reverse=True)
    assert [each.value for _, each in top] == values[:4]
    for key, each in top:
        many = len(groups)
        assert each.interval(0.95) == groups[key].interval(1 - 0.05 / many)
    with pytest.raises(sc.ParameterError, match="'k' parameter of top"):
        release.keys.top(0)
    with pytest.raises(sc.ParameterError, match="'length' parameter of top"):
        release.keys.top(2, length=2)
    histogram = sc.Histogram(["sex"], epsilon=1, neighbours="replace")
    other = sc.publish(table(), SCHEMA, histogram, options=sc.PublishOptions(seed=1))
    with pytest.raises(sc.ParameterError, match="has no 'keys': a release by keys has"):
        other.keys.top(1)


def test_names_without_counts():
    release = sc.publish(
        table(),
        SCHEMA,
        sc.Keys("query", keys=2, counts=False, **GIVEN),
        options=sc.PublishOptions(seed=3),
    )
    assert pq.read_schema(release.folder / "keys.parquet").names == ["query"]
    with pytest.raises(sc.QueryError, match="without counts"):
        release.answer("SELECT query, COUNT(*) FROM t GROUP BY query")
    assert "query 1" in release.close_categories(SCHEMA)["query"].domain.values


@pytest.mark.parametrize(("rule", "epsilon"), [("auto", 4), ("korolova", 40)])
def test_two_levels(rule, epsilon):
    rows = table()
    given = {**GIVEN, "rule": rule, "epsilon": epsilon}
    mechanism = sc.Keys("url", within="query", keys=6, **given)
    release = sc.publish(rows, SCHEMA, mechanism, options=sc.PublishOptions(seed=3))
    first = kept(release, "SELECT query, COUNT(*) FROM t GROUP BY query")
    second = kept(release, "SELECT query, url, COUNT(*) FROM t GROUP BY query, url")
    queries, pairs = truth(rows, ["query"]), truth(rows, ["query", "url"])
    assert {query for query, _ in second} <= {query for (query,) in first}
    assert len(second) > len(first) > 5
    for found, known in ((first, queries), (second, pairs)):
        for key, each in found.items():
            low, high = each.interval(1 - 1e-9)
            assert low <= known[key] <= high
    asked = "SELECT COUNT(*) FROM t WHERE query = 'query 1' AND url = 'site 1.org'"
    assert kept(release, asked).value == second["query 1", "site 1.org"].value
    assert [len(key) for key, _ in release.keys.top(2, length=2)] == [2, 2]
    assert [len(key) for key, _ in release.keys.top(2)] == [1, 1]


def test_a_key_of_two_levels_may_fail_at_either():
    """A tenth of the miss is for keys that were not published, half of it for each level."""
    mechanism = sc.Keys("url", within="query", keys=1, **GIVEN)
    release = sc.publish(table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=3))
    first, second = release.evidence.design.levels
    asked = "SELECT COUNT(*) FROM t WHERE query = 'nobody asked this'"
    assert kept(release, asked).interval(0.95)[1] == first.most_unseen(0.005)
    asked += " AND url = 'nowhere.org'"
    assert kept(release, asked).interval(0.95)[1] == second.most_unseen(0.0025)
    assert second.most_unseen(0.0025) > second.most_unseen(0.005)


def test_a_listed_column_beside_an_open_one():
    rows = table()
    release = sc.publish(
        rows, SCHEMA, sc.Keys(["query", "sex"], keys=1, **GIVEN), options=sc.PublishOptions(seed=3)
    )
    found = release.answer("SELECT query, sex, COUNT(*) FROM t GROUP BY query, sex")
    assert len(found) > 3
    absent = kept(release, "SELECT COUNT(*) FROM t WHERE query = 'nobody asked this'")
    level = release.evidence.design.levels[0]
    assert absent.interval() == (0, 2 * level.most_unseen(0.005 / 2))  # f and m


def test_the_front_door_for_unknown_values(tmp_path):
    """Keys first, then any mechanism with the values that it named; one ledger pays for both."""
    rows = table()
    ledger = sc.Ledger.create(
        tmp_path / "ledger", neighbours="add_remove", epsilon=3, delta=1e-3, contribution=6
    )
    keys = sc.publish(rows, SCHEMA, sc.Keys("query", keys=2, **GIVEN), ledger=ledger)
    closed = keys.close_categories(SCHEMA)
    values = closed["query"].domain.values
    assert values[-1] == closed["query"].domain.other == "other"
    given = {**GIVEN, "contribution": 6, "epsilon": 2}
    given.pop("delta")
    release = sc.publish(rows, closed, sc.Histogram(["query", "sex"], **given), ledger=ledger)
    total = release.answer("SELECT COUNT(*) FROM t")
    low, high = total.interval(1 - 1e-9)
    assert low <= rows.num_rows <= high  # nothing was dropped: others are in 'other'
    assert "ε = 3" in str(ledger.statement())
    assert ledger.totals[None].losses[0] == PrivacyLoss(Fraction(1), delta=Fraction(1, 10**4))
    with pytest.raises(sc.PromiseError):
        sc.publish(rows, closed, sc.Histogram(["sex"], **given), ledger=ledger)


@pytest.mark.parametrize(("most", "clicks"), [(4, 600), (2, 400)])
def test_clicks_of_named_pairs(most, clicks):
    """Keys counts people; the table that it closes counts their rows, up to `contribution`."""
    links = ["a.org", "a.org", "a.org", "b.org"]
    columns = {"query": ["rain"] * 800, "url": links * 200, "sex": ["f"] * 800}
    rows = pa.table({"who": np.repeat(np.arange(200), 4), **columns})
    given = {**GIVEN, "epsilon": 50}
    pairs = sc.publish(
        rows,
        SCHEMA,
        sc.Keys("url", within="query", keys=2, **given),
        options=sc.PublishOptions(seed=1),
    )
    people = kept(pairs, "SELECT query, url, COUNT(*) FROM t GROUP BY query, url")
    assert abs(people["rain", "a.org"].value - 200) < 5
    given.pop("delta")
    counts = sc.Histogram(["query", "url"], contribution=most, **given)
    release = sc.publish(
        rows, pairs.close_categories(SCHEMA), counts, options=sc.PublishOptions(seed=1)
    )
    found = release.answer("SELECT COUNT(*) FROM t WHERE query = 'rain' AND url = 'a.org'")
    assert abs(found.value - clicks) < 5  # of two rows, the first two
    total = release.answer("SELECT COUNT(*) FROM t")
    assert abs(total.value - 200 * most) < 5


def test_closing():
    release = sc.publish(
        table(), SCHEMA, sc.Keys("query", keys=1, **GIVEN), options=sc.PublishOptions(seed=3)
    )
    assert release.close_categories(SCHEMA, other="query 1")["query"].domain.other == "query 1_2"
    with pytest.raises(sc.SchemaError, match="no open category whose values this release names"):
        release.close_categories(SCHEMA.select(["who", "url"]))
    with pytest.raises(sc.ParameterError, match="'other' parameter"):
        release.close_categories(SCHEMA, other=" ")


def test_a_release_without_keys():
    few = table().slice(0, 3)
    release = sc.publish(
        few, SCHEMA, sc.Keys("query", keys=1, **GIVEN), options=sc.PublishOptions(seed=3)
    )
    assert any("No key has enough people" in remark for remark in release.remarks)
    assert len(release.answer("SELECT query, COUNT(*) FROM t GROUP BY query")) == 0
    assert len(release.keys.top(3)) == 0
    assert kept(release, "SELECT COUNT(*) FROM t WHERE query = 'a'").value == 0
    with pytest.raises(sc.SchemaError, match="closes nothing"):
        release.close_categories(SCHEMA)
    empty = sc.publish(
        few.slice(0, 0),
        SCHEMA,
        sc.Keys("query", keys=3, **GIVEN),
        options=sc.PublishOptions(seed=3),
    )
    assert len(empty.answer("SELECT query, COUNT(*) FROM t GROUP BY query")) == 0


def test_nothing_else_of_the_table_is_written(tmp_path):
    rows = table(300)
    release = sc.publish(
        rows, SCHEMA, sc.Keys("query", keys=3, **GIVEN), options=sc.PublishOptions(seed=3)
    )
    folder = release.save(tmp_path / "release", insecure=True)
    named = set(pq.read_table(folder / "keys.parquet")["query"].to_pylist())
    hidden = set(rows["query"].to_pylist()) - named
    assert hidden
    text = b"".join(path.read_bytes() for path in folder.iterdir()).decode("latin-1")
    assert not [word for word in hidden if f"{word}'" in text or f'{word}"' in text]
    assert "P1" not in repr(release)


def test_values_that_cannot_be_published_and_rows_of_nobody():
    rows = pa.table({"who": ["a", "b", None], "query": ["x", "y\x1b[2J", "x"]})
    schema = SCHEMA.select(["who", "query"])
    with pytest.raises(sc.DomainError, match=r"'query', row 2: the value is no text") as error:
        sc.publish(
            rows, schema, sc.Keys("query", keys=1, **GIVEN), options=sc.PublishOptions(seed=1)
        )
    assert "y" not in str(error.value).replace("query", "").replace("Keys", "").split()
    with pytest.raises(sc.DomainError, match="no identifier"):
        sc.publish(
            rows.slice(2),
            schema,
            sc.Keys("query", keys=1, **GIVEN),
            options=sc.PublishOptions(seed=1),
        )
    release = sc.publish(
        rows,
        schema,
        sc.Keys("query", keys=1, **GIVEN),
        options=sc.PublishOptions(outside="drop", seed=1, reveal=True),
    )
    assert any("'query'" in remark for remark in release.remarks)


def test_who_may_be_a_key():
    with pytest.raises(sc.SchemaError, match="make it a category with open = true"):
        sc.publish(
            table(9), SCHEMA, sc.Keys("who", keys=1, **GIVEN), options=sc.PublishOptions(seed=1)
        )
    mechanism = sc.Keys("query", keys=1, **{**GIVEN, "person": "sex"})
    with pytest.raises(sc.ParameterError, match="'person' parameter"):
        sc.publish(table(9), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))


# --- the choice of keys --------------------------------------------------------------------------


def pairs_of(lists: list[str]) -> KeyPairs:
    rows = pa.table(
        {
            "who": [str(i) for i, keys in enumerate(lists) for _ in keys],
            "query": [key for keys in lists for key in keys],
        }
    )
    return KeyPairs(Rows(rows, SCHEMA.select(["who", "query"])), ["query"], "who")


def test_everybody_keeps_a_uniform_choice():
    """False alarm: 1e-6. Repeated keys count once."""
    pairs = pairs_of(["abcda", "ab", "a"] * 1)
    weights = np.array([0, 100, 10])
    stream, seen = Keystream(5), dict.fromkeys(combinations(range(4), 2), 0)
    for _ in range(1200):
        drawn = pairs.draw(weights, stream)
        own = drawn.people - np.array([2, 1, 0, 0])  # the two others always keep theirs
        seen[tuple(np.flatnonzero(own))] += 1
        assert drawn.sums.sum() == 2 * 10 + 2 * 10 + 100
    assert not rejects(list(seen.values()), [1 / 6] * 6)
    pairs.close()


def test_sums_against_a_loop():
    rng = np.random.default_rng(3)
    lists = ["".join(rng.choice(list("abcdefgh"), rng.integers(0, 6))) for _ in range(400)]
    pairs = pairs_of(lists)
    weights = np.array([0, *map(open_keys.weight_of, range(1, 9))])
    drawn = pairs.draw(weights, Keystream(1))
    values = pairs.values(np.arange(len(pairs)))[0].to_pylist()
    for place, key in enumerate(values):
        having = [keys for keys in lists if key in keys]
        assert drawn.people[place] == len(having)
        assert drawn.sums[place] == sum(open_keys.weight_of(len(set(keys))) for keys in having)
    among = np.array([value in "abc" for value in values])
    some = pairs.draw(weights, Keystream(1), among)
    assert not some.people[~among].any()
    first = values.index("a")
    assert some.sums[first] == sum(
        open_keys.weight_of(len(set(keys) & set("abc"))) for keys in lists if "a" in keys
    )
    pairs.close()


def test_two_processes_publish_what_one_does(tmp_path):
    path = tmp_path / "queries.parquet"
    pq.write_table(table(500), path)
    mechanism = sc.Keys("query", keys=3, **GIVEN)
    one, two = (
        sc.publish(path, SCHEMA, mechanism, options=sc.PublishOptions(seed=1, jobs=jobs))
        for jobs in (1, 2)
    )
    files = [(each.folder / "keys.parquet").read_bytes() for each in (one, two)]
    assert files[0] == files[1]


# --- the price -----------------------------------------------------------------------------------


def private(promise: PrivacyLoss) -> PrivateTable:
    rows = Rows(table(50), SCHEMA)
    return PrivateTable(RowCounter(rows), BudgetAccount(promise), Keystream(1))


def test_the_meter_refuses_what_is_not_paid_for():
    unit, delta = PrivacyUnit("add_remove", 2, "who"), Fraction(1, 1000)
    mechanism = sc.Keys("query", keys=2, rule="optimal", **{**GIVEN, "delta": delta})
    rule = mechanism._rule()
    assert isinstance(rule, OptimalRule)
    assert rule.loss(unit) == PrivacyLoss(Fraction(1), delta=delta)
    assert rule.loss(PrivacyUnit("replace", 2, "who")) == PrivacyLoss(Fraction(2), delta=2 * delta)
    for promise in (
        PrivacyLoss(Fraction(1)),
        PrivacyLoss(Fraction(1, 2), delta=delta),
        PrivacyLoss(Fraction(1), delta=delta / 2),
        PrivacyLoss(rho=Fraction(10)),
    ):
        with pytest.raises(sc.PromiseError):
            PrivateKeys(private(promise), ["query"], unit).find(rule)
    PrivateKeys(private(mechanism.promise), ["query"], unit).find(rule)


def test_a_threshold_that_is_too_low_is_refused():
    unit = PrivacyUnit("replace", 1, "who")
    rule = sc.Keys("query", keys=1, rule="zealous", **{**GIVEN, "neighbours": "replace"})._rule()
    assert isinstance(rule, LaplaceRule)
    rule.loss(unit)
    lower = LaplaceRule(rule.noise, rule.threshold - 1, rule.delta)
    with pytest.raises(sc.PromiseError, match="too low"):
        lower.loss(unit)


def test_every_rule_costs_what_is_promised(subtests):
    for rule, neighbours in product(RULES, ["add_remove", "replace"]):
        with subtests.test(rule=rule, neighbours=neighbours):
            for counts in (True, False):
                given = {**GIVEN, "neighbours": neighbours}
                mechanism = sc.Keys("query", keys=3, rule=rule, counts=counts, **given)
                assert mechanism._rule().loss(mechanism.unit) == mechanism.promise


class Alone:
    """Keys that one person each has, and nobody else."""

    def __len__(self) -> int:
        return 100_000

    def draw(self, weights, stream, among=None) -> KeyTotals:
        there = np.ones(len(self), np.int64) if among is None else among.astype(np.int64)
        return KeyTotals(there, weights[1] * there)


def test_keys_of_one_person_are_named_as_rarely_as_promised(subtests):
    """Of 100,000 keys of one person each, a share of at most δ is named. False alarms: 1e-6."""
    for rule, counts in product(RULES, [True, False]):
        with subtests.test(rule=rule, counts=counts):
            given = {**GIVEN, "delta": 0.02}
            chosen = sc.Keys("query", keys=1, rule=rule, counts=counts, **given)._rule()
            keys, _ = chosen.find(Alone(), 1, NoisySteps(Keystream(6)), None)
            assert 0 < len(keys) <= stats.binom.isf(1e-6, len(Alone()), 0.02)


def test_the_promise_in_words():
    [promise] = sc.Keys("query", keys=3, **GIVEN).guarantee(SCHEMA)
    assert promise.statement == "(ε, δ)-DP"
    assert promise.parameters == {"epsilon": 1.0, "delta": 1e-4, "contribution": 3}
    assert "reach at most 45.1 %" in promise.sentence  # e^2 in odds
    assert any("drawn at random" in limit for limit in promise.limits)
    assert any("1/(10 · people)" in limit for limit in promise.limits)


def test_sips_names_more_keys_than_one_round():
    rows = table(6000)
    named = {}
    for rule in ("gaussian", "sips", "zealous"):
        mechanism = sc.Keys("query", keys=4, rule=rule, counts=False, **GIVEN)
        release = sc.publish(rows, SCHEMA, mechanism, options=sc.PublishOptions(seed=2))
        named[rule] = pq.read_metadata(release.folder / "keys.parquet").num_rows
    assert named["sips"] > named["gaussian"] > named["zealous"] > 0
    for counts in (True, False):  # without counts in rounds
        mechanism = sc.Keys("query", keys=1, counts=counts, **GIVEN)
        release = sc.publish(rows, SCHEMA, mechanism, options=sc.PublishOptions(seed=2))
        named[counts] = pq.read_metadata(release.folder / "keys.parquet").num_rows
    assert named[False] > named[True] > 0


class Hidden:
    """Others who have many keys that the first round finds, and k; p has only k, if p is there.

    In the first round nearly always p alone draws k, in the second all others do.
    """

    def __init__(self, fillers: int, owners: int, others: int, *, p: bool) -> None:
        self.k = fillers
        keys = [np.repeat(np.arange(fillers), owners)]
        people = [np.arange(fillers * owners)]
        for each in range(others):
            keys.append(np.arange(fillers + 1))
            people.append(np.full(fillers + 1, fillers * owners + each))
        if p:
            keys.append(np.array([self.k]))
            people.append(np.array([fillers * owners + others]))
        self.people, self.keys = np.concatenate(people), np.concatenate(keys)

    def __len__(self) -> int:
        return self.k + 1

    def draw(self, weights, stream, among=None) -> KeyTotals:
        drawn = KeyTotals(np.zeros(len(self), np.int64), np.zeros(len(self), np.int64))
        kept = slice(None) if among is None else among[self.keys]
        _add_choice(drawn, self.people[kept], self.keys[kept], weights, stream)
        return drawn


@pytest.mark.parametrize("name", ["sips", "optimal"])
def test_rounds_promise_their_loss_where_people_have_more_keys_than_they_draw(name):
    """The only person who draws a key that others have, but did not draw, may not decide about it.

    P(k is not named) with p must be at most e^ε times that without p, plus δ = 0.05, and the other
    way round. Both are near 0 (none in 1,500 runs each); giving keys up whose noisy sum was not
    above 0 made them 0.42 and 0.04, which 40 runs of each show with a probability of 99.9 %.
    """
    epsilon, delta = Fraction(1, 2), Fraction(1, 20)
    unit = PrivacyUnit("add_remove", 1, "who")
    rule: KeyRule = GaussianRule(epsilon, delta, unit, open_keys.SHARES, Fraction(0))
    if name == "optimal":
        laws = [KeyNoise(1 / (share * epsilon), share * delta) for share in open_keys.NAMING]
        rule = OptimalRule(tuple(laws))
    noise, missing = NoisySteps(Keystream(4)), []
    for p in (False, True):
        counter = Hidden(408, 61, 34, p=p)
        found = [rule.find(counter, 1, noise, None)[0] for _ in range(40)]
        missing.append(sum(counter.k not in keys for keys in found) / len(found))
    assert missing[1] <= math.exp(epsilon) * missing[0] + float(delta)
    assert missing[0] <= math.exp(epsilon) * missing[1] + float(delta)


def test_an_audit_of_the_release(tmp_path):
    from scumble.audit.subjects import of_release

    release = sc.publish(table(800), SCHEMA, sc.Keys("query", keys=2, **GIVEN))
    folder = release.save(tmp_path / "release")
    found = {each.check: each.verdict for each in of_release(folder).findings}
    assert found["keys"] == "stands"
    weaker = replace(release.evidence, design=replace(release.evidence.design, levels=LOWER))
    release.manifest = replace(release.manifest, evidence=weaker)
    release.save(tmp_path / "weaker")
    found = {each.check: each.verdict for each in of_release(tmp_path / "weaker").findings}
    assert found["keys"] == "refuted"


LOWER = (KeyLevel(1, DiscreteGaussian(Fraction(1)), True),)
