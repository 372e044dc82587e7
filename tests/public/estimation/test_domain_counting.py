"""Counting over the product domain against enumeration."""

from __future__ import annotations

import gc
import itertools
import weakref
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.query import Expression, Query
from scumble.model.schema.cells import CELL_LIMIT
from scumble.public.estimation import domain_counting
from scumble.public.estimation.domain_counting import Domain, Factor, Network, Truths, domain_of
from scumble.public.sandbox import Sandbox
from scumble.public.sql.conditions import split
from scumble.public.sql.parse import parse

SMALL = sc.Schema(
    [
        sc.Attribute("a", "quasi", sc.IntegerRange(-1, 2)),
        sc.Attribute("b", "quasi", sc.IntegerRange(1, 3), missing=True),
        sc.Attribute("c", "quasi", sc.Category(("u", "v"))),
        sc.Attribute("d", "quasi", sc.IntegerRange(0, 4)),
        sc.Attribute("e", "sensitive", sc.Boolean(), missing=True),
    ]
)
ENGINE = Sandbox(SMALL)
# A domain that takes every clause apart, and one that takes none.
APART, WHOLE = Domain(ENGINE, split_beyond=0), Domain(ENGINE)

ATOMS = (
    "a*a + d*d >= 9",
    "a < d",
    "b > a",
    "b IS NULL",
    "b BETWEEN 1 AND 2",
    "b + d = 4",
    "c = 'u'",
    "e",
    "NOT e",
    "d IN (1, 3)",
    "a*a + b*b + d*d > 8",
    "CASE WHEN c = 'u' OR e THEN a > 0 AND d > 1 ELSE b = 2 END",
    "a*b*d + length(c) > 3 - a",
)
conditions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda p: "(" + " OR ".join(p) + ")"),
        st.lists(inner, min_size=2, max_size=3).map(lambda p: "(" + " AND ".join(p) + ")"),
        inner.map(lambda part: f"NOT ({part})"),
    ),
    max_leaves=6,
)


def _query(condition: str, what: str = "COUNT(*)", schema: sc.Schema = SMALL) -> Query:
    return parse(f"SELECT {what} FROM t WHERE {condition}", schema)


def _brute(query: Query) -> tuple[np.ndarray, np.ndarray]:
    """Whether each tuple of the small domain satisfies the question, and what it adds."""
    shape = [attribute.size for attribute in SMALL]
    parts = [*query.clauses, *([query.argument] if query.argument else [])]
    found = ENGINE.evaluate(parts, SMALL.names)
    holds = np.logical_and.reduce(found[: len(query.clauses)])
    amount = found[-1] if query.argument else np.ones(len(holds))
    return holds.reshape(shape), amount.reshape(shape)


@settings(max_examples=50)
@given(conditions, st.sets(st.sampled_from(SMALL.names), max_size=2))
def test_counts_are_those_of_enumeration(condition: str, groups: set[str]) -> None:
    query = _query(condition)
    holds, _ = _brute(query)
    order = sorted(groups)
    places = [SMALL.names.index(name) for name in order]
    others = tuple(place for place in range(len(SMALL)) if place not in places)
    expected = holds.sum(axis=others).transpose(np.argsort(np.argsort(places)))
    for domain in (APART, WHOLE):
        found = domain.count(query.clauses, order)
        assert found.shape == expected.shape
        assert (found == expected).all()


@settings(max_examples=40)
@given(conditions, st.sampled_from(["a", "d - 2", "a * d + 1", "b", "1.5"]))
def test_weighted_sums_are_those_of_enumeration(condition: str, argument: str) -> None:
    query = _query(condition, f"SUM({argument})")
    holds, amount = _brute(query)
    weights = {
        "a": [Fraction(place, 10) for place in (1, 2, 3, 4)],
        "c": [Fraction(1, 3), Fraction(2, 3)],
        "e": [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)],
    }
    each = np.ones(holds.shape)
    for place, name in enumerate(SMALL.names):
        if name in weights:
            shape = [-1 if axis == place else 1 for axis in range(len(SMALL))]
            each = each * np.array([float(share) for share in weights[name]]).reshape(shape)
    for domain, power in itertools.product((APART, WHOLE), (1, 2)):
        found = domain.sum(
            query.clauses,
            ["d"],
            amount=query.argument,
            power=power,
            weights=weights,
            scale=Fraction(1, 7),
        )
        expected = (holds * amount**power * each).sum(axis=(0, 1, 2, 4)) / 7
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    low, high = WHOLE.limits(query.argument, query.clauses)
    if holds.any():
        assert (low, high) == (amount[holds].min(), amount[holds].max())


def test_worked_example_of_the_spec() -> None:
    """183 pairs of age and score, and three nationalities."""
    domain = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(20, 39)),
            sc.Attribute("nation", "quasi", sc.Category(("British", "Indian", "Chinese"))),
            sc.Attribute("score", "sensitive", sc.IntegerRange(81, 100)),
        ]
    )
    query = _query("score < 3*age", schema=domain)
    counted = Domain(Sandbox(domain))
    assert counted.size == 1200
    assert counted.count(query.clauses) == 549
    assert counted.count(query.clauses, ["nation"]).tolist() == [183, 183, 183]


HUNDREDS = sc.Schema([sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 99)) for i in range(15)])
HUGE = Domain(Sandbox(HUNDREDS))


def test_exact_in_a_domain_of_10_to_the_30() -> None:
    assert HUGE.count(()) == 10**30
    one = _query("q0 = 3 AND q7 <> 5", schema=HUNDREDS)
    assert HUGE.count(one.clauses) == 99 * 10**26
    rising = _query(" AND ".join(f"q{i} <= q{i + 1}" for i in range(14)), schema=HUNDREDS)
    assert HUGE.count(rising.clauses) == comb(114, 15)  # more than 2^53
    by_last = HUGE.count(rising.clauses, ["q14"])
    assert by_last.tolist() == [comb(last + 14, 14) for last in range(100)]
    apart = _query(" AND ".join(f"q{i} <> q{i + 1}" for i in range(14)), schema=HUNDREDS)
    assert HUGE.count(apart.clauses) == 100 * 99**14


def test_disjunctions_over_all_attributes_of_a_huge_domain() -> None:
    """DNF and CNF of small parts; a part alone would have 10^30 cells."""
    some = _query(" OR ".join(f"q{i} < 10" for i in range(15)), schema=HUNDREDS)
    assert HUGE.count(some.clauses) == 100**15 - 90**15
    pairs = [f"(q{i} < 10 AND q{i + 1} > 20)" for i in range(0, 14, 2)]
    dnf = _query(" OR ".join(pairs), schema=HUNDREDS)
    assert HUGE.count(dnf.clauses) == (10**28 - (10**4 - 790) ** 7) * 100
    cnf = _query(
        " AND ".join(f"(q{i} < 10 OR q{i + 1} > 20 OR q14 = 0)" for i in range(0, 14, 2)),
        schema=HUNDREDS,
    )
    each = 10**4 - 90 * 21
    assert HUGE.count(cnf.clauses) == 99 * each**7 + 10**28
    none = _query(f"NOT ({' OR '.join(pairs)})", schema=HUNDREDS)
    assert HUGE.count(none.clauses) + HUGE.count(dnf.clauses) == 10**30
    chained = " OR ".join(f"(q{i} < 10 AND q{i + 1} > 20)" for i in range(14))
    assert HUGE.count(_query(chained, schema=HUNDREDS).clauses) == _no_step()


def _no_step() -> int:
    """All sequences but those in which no value below 10 is followed by one above 20."""
    low, middle, high = 10, 11, 79
    ends = (low, middle, high)  # sequences that end with a value of each kind
    for _ in range(14):
        total = sum(ends)
        ends = (total * low, total * middle, (total - ends[0]) * high)
    return 100**15 - sum(ends)


def test_many_more_than_52_attributes() -> None:
    wide = sc.Schema([sc.Attribute(f"w{i}", "quasi", sc.IntegerRange(0, 9)) for i in range(400)])
    domain = Domain(Sandbox(wide))
    assert domain.count(()) == 10**400
    chain = _query(" AND ".join(f"w{i} <= w{i + 1}" for i in range(79)), schema=wide)
    assert domain.count(chain.clauses) == comb(89, 9) * 10**320
    scale = Fraction(1, 10**400)
    assert domain.sum(chain.clauses, scale=scale) == pytest.approx(comb(89, 9) / 10**80)


def test_a_clause_too_large_is_named() -> None:
    query = _query("q0 = 1 AND q1 * q2 * q3 * q4 * q5 > 7", schema=HUNDREDS)
    with pytest.raises(sc.QueryError) as error:
        HUGE.count(query.clauses)
    assert '"q1" * "q2" * "q3" * "q4" * "q5" > 7' in str(error.value)
    assert "10000000000 combinations" in str(error.value)
    assert "fewer attributes" in str(error.value)
    assert '"q0"' not in str(error.value)


def test_clauses_too_entangled_are_named_before_they_are_evaluated() -> None:
    pairs = itertools.combinations(range(8), 2)
    query = _query(" AND ".join(f"q{i} + q{j} < 100" for i, j in pairs), schema=HUNDREDS)
    truths = Truths()
    domain = Domain(Sandbox(HUNDREDS), truths=truths)
    with pytest.raises(sc.QueryError) as error:
        domain.count(query.clauses)
    assert '"q0" + "q1" < 100' in str(error.value)
    assert "too many attributes" in str(error.value)
    assert not truths.size


def test_too_many_groups() -> None:
    with pytest.raises(sc.QueryError, match="100000000 groups"):
        HUGE.count((), ["q0", "q1", "q2", "q3"])


def test_an_amount_that_is_not_finite_where_it_counts() -> None:
    fine = _query("d <> 0 AND a < d", "SUM(1 / d)")
    assert WHOLE.sum(fine.clauses, amount=fine.argument) > 0
    guarded = _query("d > a AND a >= 0", "SUM(1 / d)")
    assert WHOLE.sum(guarded.clauses, amount=guarded.argument) > 0
    far = _query("d > a AND a > b - 2", "SUM(1 / d)")
    assert WHOLE.sum(far.clauses, amount=far.argument) > 0
    wrong = _query("a < d", "SUM(1 / d)")
    with pytest.raises(sc.QueryError, match="not a finite number"):
        WHOLE.sum(wrong.clauses, amount=wrong.argument)


def test_clauses_are_evaluated_once_per_engine() -> None:
    [clause] = _query("a + d = 3").clauses
    assert domain_of(ENGINE)._truth(clause) is domain_of(ENGINE)._truth(clause)


def test_what_is_remembered_does_not_keep_an_engine_alive() -> None:
    engine = Sandbox(SMALL)
    query = _query("a < d", "SUM(a)")
    assert domain_of(engine).sum(query.clauses, amount=query.argument) != 0
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("most", [0, 20])
def test_truths_may_be_forgotten_at_any_time(most: int) -> None:
    """As if another thread had made room just after each was evaluated."""
    query = _query("a < d AND b > a AND a*a + d*d >= 9")
    truths = Truths(most)
    assert Domain(ENGINE, truths=truths).count(query.clauses) == _brute(query)[0].sum()
    assert truths.size <= most


def test_a_sum_goes_through_its_clauses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def network(self: Domain, *given: Any) -> Network:
        made.append(given)
        return plain(self, *given)

    plain = Domain._network
    monkeypatch.setattr(Domain, "_network", network)
    query = _query("a < d", "SUM(a)")
    shares = {"a": [Fraction(1, 4)] * 4, "c": [Fraction(1, 2)] * 2}
    holds, amount = _brute(query)
    found = WHOLE.sum(query.clauses, amount=query.argument, weights=shares)
    assert found == pytest.approx((holds * amount).sum() / 8)
    assert len(made) == 1


def test_an_amount_guarded_through_a_chain_of_clauses() -> None:
    """1 / d is finite because d > a > b - 2 > -1: a chain of clauses, in any order."""
    for chain in itertools.permutations(("d > a", "a > b - 2", "b > 1")):
        query = _query(" AND ".join(chain), "SUM(1 / d)")
        holds, amount = _brute(query)
        assert WHOLE.sum(query.clauses, amount=query.argument) == pytest.approx(amount[holds].sum())


def test_residues_are_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With float sums allowed up to 2^12 only, a chain of six matrices goes through small primes;
    the numbers, negative ones too, are those of Python.
    """
    rng = np.random.default_rng(4)
    values = [rng.integers(-1, 2, (5, 5)) for _ in range(6)]
    factors = [Factor((i, i + 1), lambda i=i: values[i]) for i in range(6)]
    network = Network(factors, dict.fromkeys(range(7), 5), (0,))
    exact = np.linalg.multi_dot(values).sum(axis=1)
    monkeypatch.setattr(domain_counting, "_EXACT", 1 << 12)
    assert network.integers().tolist() == exact.tolist()
    assert min(exact) < 0 < max(exact)


def test_split(subtests: pytest.Subtests) -> None:
    for sql, of, parts in [
        ('"a" OR "b"', "any", ['"a"', '"b"']),
        ('("a" AND "b") OR "c"', "any", ['("a" AND "b")', '"c"']),
        ('"a" BETWEEN 1 AND 2 AND "b"', "all", ['"a" BETWEEN 1 AND 2', '"b"']),
        ('NOT ("a" OR "b")', "all", ['NOT ("a")', 'NOT ("b")']),
        ('NOT NOT ("a" OR "b")', "any", ['"a"', '"b"']),
        ('NOT (("a" AND "b"))', "any", ['NOT ("a")', 'NOT ("b")']),
        ('(("a" OR "b"))', "any", ['"a"', '"b"']),
        ('NOT "a" OR "b"', "any", ['NOT "a"', '"b"']),
    ]:
        with subtests.test(sql=sql, of=of, parts=parts):
            found = split(Expression(sql, ("a", "b", "c")))
            assert found is not None
            assert (found.of, [part.sql for part in found.parts]) == (of, parts)
            assert all(part.attributes for part in found.parts)


@pytest.mark.parametrize(
    "sql", ['"a" = 1', 'NOT ("a" = 1)', 'CASE WHEN "a" OR "b" THEN 1 = 1 END', '("a") IN (1, 2)']
)
def test_what_has_no_parts(sql: str) -> None:
    assert split(Expression(sql, ("a", "b"))) is None


def test_nine_attributes_of_adult_cost_little() -> None:
    """No timing here: the count goes through as many cells as the clauses have, not 648 million."""
    sizes = (72, 7, 16, 7, 14, 5, 2, 41, 2)
    adult = sc.Schema(
        [sc.Attribute(f"v{i}", "quasi", sc.IntegerRange(0, s - 1)) for i, s in enumerate(sizes)]
    )
    truths = Truths()
    domain = Domain(Sandbox(adult), truths=truths)
    assert domain.size == 648_023_040
    query = _query(
        "v0 BETWEEN 10 AND 40 AND v1 <> 3 AND (v2 > 8 OR v3 = 1) AND v4 + v2 < 20 AND v5 < 3"
        " AND v6 = 1 AND v7 < 10 AND v8 = 0",
        schema=adult,
    )
    pairs = sum(
        (v2 > 8 or v3 == 1) and v4 + v2 < 20
        for v2, v3, v4 in itertools.product(range(16), range(7), range(14))
    )
    assert domain.count(query.clauses) == 31 * 6 * pairs * 3 * 10
    assert 0 < truths.size < CELL_LIMIT // 10**5
