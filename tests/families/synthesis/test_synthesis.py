"""Synthesis: exact laws of its choices, what it spends, unbiased answers, and its model."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import scumble as sc
from scumble.families.synthesis.design import (
    ChosenTable,
    ChosenTables,
    by_class,
    class_of_code,
)
from scumble.families.synthesis.publish.synthesis import (
    PER_ROUND,
    Budget,
    ChosenSoFar,
    PrivateTables,
    closure_weights,
    laws_by_cells,
)
from scumble.model.laws.distributions import DiscreteGaussian
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from tests.support.terminal import run

BITS = sc.Schema(tuple(Attribute(name, "quasi", Category(("n", "y"))) for name in "abc"))
PAIRS = list(combinations(range(3), 2))
MODELS = {
    pair: np.array([[2, 0], [1, 0]]) + place * np.eye(2, dtype=np.int64)
    for place, pair in enumerate(PAIRS)
}
HANDICAPS = {pair: place for place, pair in enumerate(PAIRS)}
WEIGHTS = dict(zip(PAIRS, (1, 3, 2), strict=True))


def _private(counts, neighbours="add_remove", rows=1, seed=0, rho=10**9):
    account = BudgetAccount(PrivacyLoss(rho=Fraction(rho)))
    counter = TensorCounter(BITS, "abc", np.asarray(counts, np.int64))
    table = PrivateTable(counter, account, Keystream(seed))
    found = PrivateTables(table, "abc", PrivacyUnit(neighbours, rows))
    found.count(PAIRS)
    return found, account


def _scores(counts, weights=WEIGHTS):
    cells = np.asarray(counts).reshape(2, 2, 2)
    sums = {pair: cells.sum(axis=({0, 1, 2} - set(pair)).pop()) for pair in PAIRS}
    return [
        weights[pair] * (int(np.abs(sums[pair] - MODELS[pair]).sum()) - HANDICAPS[pair])
        for pair in PAIRS
    ]


def _law(counts, epsilon, change):
    """The probabilities of the three pairs by the definition of the exponential mechanism."""
    scores = np.array(_scores(counts), float)
    odds = np.exp(epsilon * (scores - scores.max()) / (2 * change * max(WEIGHTS.values())))
    return odds / odds.sum()


def test_choices_have_the_law_of_the_exponential_mechanism():
    """Chi-square of 2,000 choices; false alarm 1e-5."""
    counts, epsilon = [3, 0, 1, 0, 2, 0, 0, 1], Fraction(5)
    private, account = _private(counts)
    found = []
    for _ in range(2000):
        found.append(private.pick(MODELS, HANDICAPS, WEIGHTS, epsilon))
        [(_, cost)] = account.charges
        account.charges.clear()
        assert cost.rho == epsilon**2 / 8
    expected = _law(counts, 5.0, 1)
    seen = [found.count(pair) for pair in PAIRS]
    assert min(expected) > 0.01
    assert stats.chisquare(seen, 2000 * expected).pvalue > 1e-5


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_choices_keep_their_epsilon_on_all_small_tables(neighbours):
    """All tables of up to two rows over eight cells, and all their neighbours: the score moves by
    at most the sensitivity, and the odds of a choice by a factor of e^ε at most.
    """
    epsilon, unit = 1.0, PrivacyUnit(neighbours, 1)
    worst = 0.0
    for number in range(3):
        for cells in combinations_with_replacement(range(8), number):
            counts = np.bincount(cells, minlength=8)
            for one, other in _neighbours(counts, neighbours):
                gaps = np.subtract(_scores(one), _scores(other))
                assert max(abs(gaps)) <= unit.sensitivity * max(WEIGHTS.values())
                change = unit.sensitivity
                ratio = np.log(_law(one, epsilon, change) / _law(other, epsilon, change))
                worst = max(worst, abs(ratio).max())
    assert 0.2 < worst <= epsilon


def _neighbours(counts, relation):
    if relation == "add_remove":
        for place in range(8):
            yield counts, counts + np.eye(8, dtype=np.int64)[place]
        return
    for place in np.flatnonzero(counts):
        for other in range(8):
            unit = np.eye(8, dtype=np.int64)
            yield counts, counts - unit[place] + unit[other]


def test_scores_are_what_the_meter_computes():
    counts = [3, 0, 1, 0, 2, 0, 0, 1]
    private, _ = _private(counts)
    found = [
        WEIGHTS[pair] * (private._distance(pair, MODELS[pair]) - HANDICAPS[pair]) for pair in PAIRS
    ]
    assert found == _scores(counts)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_everything_is_paid_for(neighbours, tmp_path):
    rows = 2
    method = sc.Synthesis(
        list("abc"), epsilon=1, delta=1e-6, neighbours=neighbours, contribution=rows
    )
    account = BudgetAccount(method.promise)
    counter = TensorCounter(BITS, "abc", np.arange(8) * 100)
    table = PrivateTable(counter, account, Keystream(1))
    evidence = method.measure(table, tmp_path)
    assert account.used <= method.promise.rho
    assert account.used > method.promise.rho * Fraction(999_999, 1_000_000)
    # 3 tables of single attributes, 2 choices of an edge and 2 edges, 2 choices and 2 tables more.
    assert len(account.charges) == 3 + 2 + 2 + 2 + 2
    assert len(evidence.design.tables) == 7


@pytest.mark.parametrize(
    ("names", "workload", "extra"),
    [
        ("ab", ["ab"], 20),
        ("abc", ["ab"], 20),
        ("abc", ["ab", "bc"], 20),
        ("abc", ["abc"], 3),
        ("abc", ["abc"], 20),
    ],
)
def test_what_the_tree_has_measured_of_a_workload_is_not_left_unspent(
    names, workload, extra, tmp_path
):
    """All of ρ is used whichever pairs the tree has. A set is measured once."""
    method = sc.Synthesis(
        list(names),
        epsilon=1,
        delta=1e-6,
        neighbours="add_remove",
        workload=list(map(list, workload)),
        extra=extra,
    )
    counted = np.arange(2 ** len(names)) * 100
    for seed in range(8):
        account = BudgetAccount(method.promise)
        counter = TensorCounter(BITS.select(list(names)), names, counted)
        evidence = method.measure(PrivateTable(counter, account, Keystream(seed)), tmp_path)
        assert account.used <= method.promise.rho
        assert account.used > method.promise.rho * Fraction(999_999, 1_000_000)
        sets = [each.places for each in evidence.design.tables]
        assert len(set(sets)) == len(sets)
        asked = {tuple(sorted(map(names.index, each))) for each in workload}
        assert asked <= set(sets) or extra < 4


def test_the_budget_is_the_one_of_the_card():
    rho, unit = Fraction(1, 50), PrivacyUnit("add_remove", 1)
    budget = Budget.of(rho, unit, 14, 12)
    assert float(budget.single.parameter) == pytest.approx(14 / (2 * 0.2 * 0.02))
    assert float(budget.edge.parameter) == pytest.approx(13 / (2 * 0.25 * 0.02))
    assert float(budget.edge_choice) == pytest.approx((8 * 0.1 * 0.02 / 13) ** 0.5)
    assert float(budget.further.parameter) == pytest.approx(12 / (2 * 0.4 * 0.02))
    assert float(budget.further_choice) == pytest.approx((8 * 0.05 * 0.02 / 12) ** 0.5)
    twice = Budget.of(rho, PrivacyUnit("replace", 1), 14, 12)
    assert twice.single.parameter == 2 * budget.single.parameter
    assert Budget.of(rho, unit, 1, 0).single.parameter == 1 / (2 * rho)
    alone = Budget.of(rho, unit, 14, 0)
    assert alone.single.parameter == Fraction(14 * 11, 4) / (2 * rho)
    assert alone.edge.parameter == Fraction(13 * 11, 5) / (2 * rho)
    assert Budget.of(rho, unit, 14, 12, 0).edge.parameter == Fraction(13 * 20, 14) / (2 * rho)


def test_weights_of_subsets_are_those_of_what_they_share():
    found = closure_weights([(0, 1, 2), (1, 3)], [Fraction(1), Fraction(2)])
    assert found == {
        (0, 1): 2 + 2,
        (0, 2): 2,
        (1, 2): 2 + 2,
        (0, 1, 2): 3 + 2,
        (1, 3): 1 + 4,
    }


@pytest.mark.parametrize("cells", [[7], [4, 4, 4], [6, 100, 10_000], [1, 2, 3, 5, 8]])
def test_tables_of_a_round_cost_what_equal_noise_would(cells):
    """Exactly, in fractions. No shares of ρ that are a tenth off make a smaller error."""
    law = DiscreteGaussian(Fraction(12345, 7))
    found = laws_by_cells(law, cells)
    assert sum(1 / each.parameter for each in found) == len(cells) / law.parameter
    shares = np.array([float(1 / each.parameter) for each in found])

    def error(some):
        return float((np.array(cells) * (some * shares.sum() / some.sum()) ** -0.5).sum())

    for place in range(len(cells)):
        for factor in (0.9, 1.1):
            other = shares.copy()
            other[place] *= factor
            assert error(shares) <= error(other) * (1 + 1e-5)


def _planted(number=4000):
    """Five fair bits of which any two are independent: e is c XOR d, unless a coin says no."""
    generator = np.random.default_rng(8)
    a, b, c, d, coin = generator.random((5, number)) < [[0.5]] * 4 + [[0.05]]
    columns = {"a": a, "b": b, "c": c, "d": d, "e": c ^ d ^ coin}
    schema = sc.Schema(tuple(Attribute(name, "quasi", Category(("n", "y"))) for name in columns))
    words = {name: np.where(each, "y", "n") for name, each in columns.items()}
    return pa.table(words), schema


def test_a_triple_is_found_whose_pairs_tell_nothing():
    people, schema = _planted()
    asked = "SELECT COUNT(*) FROM t WHERE c = 'y' AND d = 'y' AND e = 'y'"
    for seed in range(3):
        method = sc.Synthesis(
            list("abcde"), epsilon=2, delta=1e-6, neighbours="add_remove", extra=4
        )
        release = sc.publish(people, schema, method, options=sc.PublishOptions(seed=seed))
        further = [table.places for table in release.evidence.design.tables[5 + 4 :]]
        assert (2, 3, 4) in further
        low, high = release.answer(asked).interval(0.99999)
        assert low <= _true(people, "c = 'y' AND d = 'y' AND e = 'y'") <= high
        rows = release.synthetic.rows(4000, seed=seed)
        assert _true(rows, "c = 'y' AND d = 'y' AND e = 'y'") < 200  # of 500 if by pairs alone


def test_the_sets_of_a_round_share_at_most_one_attribute(monkeypatch):
    schema = sc.Schema(tuple(Attribute(n, "quasi", IntegerRange(0, 2)) for n in "abcdefgh"))
    generator = np.random.default_rng(4)
    first = generator.integers(0, 3, 3000)
    people = pa.table({n: (first + generator.integers(0, 2, 3000)) % 3 for n in "abcdefgh"})
    rounds, measure = [], ChosenSoFar._measure_all

    def recorded(self, sets, law):
        rounds.append(list(sets))
        measure(self, sets, law)

    monkeypatch.setattr(ChosenSoFar, "_measure_all", recorded)
    method = sc.Synthesis(list("abcdefgh"), epsilon=5, delta=1e-6, neighbours="add_remove", extra=8)
    sc.publish(people, schema, method, options=sc.PublishOptions(seed=2))
    _, *further = rounds  # the first are the pairs of the tree
    assert sum(map(len, further)) == 8
    assert max(map(len, further)) <= PER_ROUND
    for sets in further:
        for one, other in combinations(sets, 2):
            assert len({*one} & {*other}) <= 1


def test_triples_are_those_that_can_be_counted():
    method = sc.Synthesis(list("abcd"), epsilon=1, delta=1e-6, neighbours="add_remove")
    every = method._candidates([2, 3, 4, 5])
    assert every == {
        places: Fraction(ways) for ways in (2, 3) for places in combinations(range(4), ways)
    }
    some = method._candidates([10, 300, 300, 300])  # 2.7e7 cells of b, c, d; 9e5 of the others
    assert (1, 2, 3) not in some
    assert len(some) == 6 + 3


# Answers.

SCHEMA = sc.Schema(
    (
        Attribute("a", "quasi", Category(("n", "y"))),
        Attribute("b", "quasi", Category(("n", "y"))),
        Attribute("c", "quasi", Category(("n", "y"))),
        Attribute("d", "quasi", IntegerRange(0, 7)),
    )
)


def _people(number=400):
    generator = np.random.default_rng(3)
    a, other, third = generator.random((3, number)) < [[0.4], [0.2], [0.3]]
    columns = {"a": a, "b": a ^ other, "c": a ^ third}
    words = {name: np.where(each, "y", "n") for name, each in columns.items()}
    return pa.table({**words, "d": np.minimum(generator.geometric(0.7, number) - 1, 7)})


QUESTIONS = [
    "a = 'y'",
    "d <= 1",
    *(f"{one} = 'y' AND {other} = 'n'" for one, other in combinations("abc", 2)),
    "a = 'y' AND d <= 1",
    "b = 'y' AND d = 0",
    "c = 'n' AND d >= 4",
]


def test_answers_from_measured_tables_are_unbiased_and_their_intervals_hold():
    """80 releases: 80 % intervals of each question hold as often as a binomial law allows, and the
    mean of the standardised errors is near 0. False alarm 1e-6 for each of 16 comparisons.
    """
    people = _people()
    truth = {text: _true(people, text) for text in QUESTIONS}
    inside = {text: [] for text in QUESTIONS}
    errors = {text: [] for text in QUESTIONS}
    cut = 0
    for seed in range(80):
        method = sc.Synthesis(list("abcd"), epsilon=2, delta=1e-3, neighbours="add_remove", extra=2)
        release = sc.publish(people, SCHEMA, method, options=sc.PublishOptions(seed=seed))
        held = [set(table.places) for table in release.evidence.design.tables]
        for text in QUESTIONS:
            asked = {"abcd".index(word) for word in text.split() if word in "abcd"}
            if not any(asked <= each for each in held):
                continue  # a model
            found = release.answer(f"SELECT COUNT(*) FROM t WHERE {text}")
            low, high = found.interval(0.8)
            inside[text].append(low <= truth[text] <= high)
            if found.bounds is None:
                errors[text].append((found.value - truth[text]) / found.stderr)
            else:
                cut += 1
    assert cut > 10  # rare values of d were counted together, and some questions tell them apart
    for text in QUESTIONS:
        held = inside[text]
        assert len(held) >= 10
        assert stats.binom.cdf(sum(held), len(held), 0.8) > 1e-6
        if errors[text]:
            assert abs(sum(errors[text])) / len(errors[text]) ** 0.5 < 4.9


def _true(people, text):
    import duckdb

    with duckdb.connect() as connection:
        connection.register("t", people)
        return connection.sql(f"SELECT COUNT(*) FROM t WHERE {text}").fetchall()[0][0]


def test_the_first_table_that_holds_the_columns_answers():
    law = DiscreteGaussian(Fraction(4))
    design = ChosenTables(
        ("a", "b", "c"),
        (2, 2, 2),
        ((), (), ()),
        tuple(ChosenTable(each, law) for each in [(0,), (1,), (2,), (0, 1, 2), (0, 1)]),
    )
    numbers = np.concatenate([[10, 10] * 3, np.arange(8), [50] * 4])
    reader = _reader(design, numbers)
    asked = "SELECT COUNT(*) FROM t WHERE a = 'n' AND b = 'n'"
    assert reader(asked).value == pytest.approx(0 + 1)
    assert reader(asked).stderr == pytest.approx(law.variance**0.5 * 2**0.5)


def test_where_values_were_merged_the_limits_are_those_of_any_spread():
    law = DiscreteGaussian(Fraction(1, 20))
    design = ChosenTables(
        ("a", "d"),
        (2, 8),
        ((), (2, 5, 6)),
        tuple(ChosenTable(e, law) for e in [(0,), (1,), (0, 1)]),
    )
    assert design.class_sizes == (2, 6)
    assert design.classes(1).tolist() == [0, 1, 5, 2, 3, 5, 5, 4]
    table = np.arange(12).reshape(2, 6) * 10
    numbers = np.concatenate([[150, 510], np.arange(8), table.reshape(-1)])
    reader = _reader(design, numbers)
    whole = reader("SELECT COUNT(*) FROM t WHERE a = 'n' AND d IN (0, 2, 5, 6)")
    assert whole.value == pytest.approx(0 + 50)
    assert whole.bounds is None
    part = reader("SELECT COUNT(*) FROM t WHERE a = 'n' AND d IN (0, 2)")
    assert part.value == pytest.approx(0 + 50 / 3)
    assert part.bounds == (pytest.approx(0), pytest.approx(50))
    assert "counted together" in part.notes[0]
    mean = reader("SELECT AVG(d) FROM t WHERE a = 'n'")
    low, high = mean.interval(0.95)
    # 50 of 150 rows have the value 2, 5 or 6; the others are 10 times 1, 3, 4 and 7 in turn.
    rest = 10 * 1 + 20 * 3 + 30 * 4 + 40 * 7
    assert low <= (rest + 50 * 2) / 150 <= (rest + 50 * 6) / 150 <= high


def _reader(design, numbers):
    """Answers from given numbers, by the schema of these tests."""
    from scumble.families.synthesis.read import ChosenReader
    from scumble.model.evidence.evidence import Measurements
    from scumble.public.sandbox import Sandbox
    from scumble.public.sql.parse import parse

    schema = SCHEMA.select(design.attributes)
    engine = Sandbox(schema)
    engine.rows = lambda sql: pa.table({"count": np.asarray(numbers, np.int64)})
    reader = ChosenReader(Measurements("tables.parquet", design.attributes, design), schema, engine)
    del engine.rows

    def answer(sql):
        [(_, found)] = reader.answer(parse(sql, schema), engine)
        return found

    return answer


def test_what_no_table_holds_is_a_model_without_an_interval(tmp_path):
    method = sc.Synthesis(list("abcd"), epsilon=5, delta=1e-6, neighbours="replace", extra=0)
    release = sc.publish(_people(), SCHEMA, method, options=sc.PublishOptions(seed=1))
    asked = "SELECT COUNT(*) FROM t WHERE a = 'y' AND b = 'y' AND c = 'y'"
    found = release.answer(asked)
    assert found.method == "model: counted in synthetic rows"
    assert found.interval() == (-np.inf, np.inf)
    assert "error is not known" in found.notes[0]
    assert "(no interval)" in repr(found)
    assert found.to_dict()["low"] is None
    assert "no interval" in found._repr_html_()
    assert (
        release.answer(asked).value
        == found.value
        == release.synthetic.rows(seed=0).num_rows
        - sum(
            not (row["a"] == row["b"] == row["c"] == "y")
            for row in release.synthetic.rows(seed=0).to_pylist()
        )
    )
    groups = release.answer("SELECT a, b, c, AVG(d) FROM t GROUP BY a, b, c")
    assert "no interval" in repr(groups)
    assert "∞" not in repr(groups)
    several = release.answer("SELECT COUNT(*), SUM(d) FROM t WHERE a = 'y' AND b = 'y' AND c = 'y'")
    assert "no interval" in repr(several)
    saved = release.save(tmp_path / "view", insecure=True)
    done = run("ask", saved, asked)
    assert done.code == 0
    assert "no interval" in done.out
    assert json.loads(run("ask", saved, asked, "--json").out)[0]["high"] is None
    assert "(no interval)" in repr(sc.open(saved).answer(asked))
    nobody = release.answer("SELECT AVG(d) FROM t WHERE a = 'y' AND b = 'y' AND c = 'y' AND d > 99")
    assert np.isnan(nobody.value)


def test_a_workload_keeps_choices_inside_its_sets():
    method = sc.Synthesis(
        list("abcd"),
        epsilon=5,
        delta=1e-6,
        neighbours="replace",
        extra=4,
        workload=[["a", "b", "c"]],
    )
    design = sc.publish(
        _people(), SCHEMA, method, options=sc.PublishOptions(seed=1)
    ).evidence.design
    further = [table.places for table in design.tables[4 + 3 :]]
    assert further
    assert {place for places in further for place in places} <= {0, 1, 2}
    assert len(set(further)) == len(further)


def test_one_attribute_spends_everything_on_its_counts():
    release = sc.publish(
        _people(),
        SCHEMA,
        sc.Synthesis(["d"], epsilon=1, delta=1e-6, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert len(release.evidence.design.tables) == 1
    assert release.synthetic.rows(50, seed=1).num_rows == 50
    assert release.answer("SELECT COUNT(*) FROM t").value == 400


def test_tables_that_cannot_be_counted_are_refused_before_anything_is_read():
    large = sc.Schema(tuple(Attribute(name, "quasi", IntegerRange(0, 10**4 - 1)) for name in "ab"))
    method = sc.Synthesis(["a", "b"], epsilon=1, delta=1e-6, neighbours="replace")
    with pytest.raises(sc.ParameterError, match="at most 50,000,000 are possible"):
        sc.publish("no such file.csv", large, method)


# The design as a file of others may hold it.


def _tables(*sets):
    return tuple(ChosenTable(each, DiscreteGaussian(Fraction(4))) for each in sets)


def _design(**changed):
    tables = _tables((0,), (1,), (0, 1))
    given = {"attributes": ("a", "b"), "sizes": (2, 3), "merged": ((), (0, 2)), "tables": tables}
    return ChosenTables(**{**given, **changed})


def test_a_design_is_read_back():
    design = _design()
    assert ChosenTables.from_dict(json.loads(json.dumps(design.to_dict()))) == design
    assert design.numbers == 2 + 3 + 2 * 2


def test_a_design_that_makes_no_sense_is_refused(subtests):
    for changed in [
        {"sizes": (2,)},
        {"sizes": (2, 0)},
        {"merged": ((), (1,))},
        {"merged": ((), (2, 0))},
        {"merged": ((), (0, 3))},
        {"tables": _tables((0,))},
        {"tables": _tables((1,), (0,))},
        {"tables": _tables((0,), (1,), (1,))},
        {"tables": _tables((0,), (1,), (1, 0))},
        {"tables": _tables((0,), (1,), (0, 2))},
        {"sizes": (10**5, 10**5)},
    ]:
        with (
            subtests.test(changed=changed),
            pytest.raises(ValueError, match=r"table|attribute|merged|cells"),
        ):
            _design(**changed)


def test_classes_add_up():
    generator = np.random.default_rng(1)
    counts = generator.integers(0, 9, (5, 4))
    classes = [class_of_code(5, (1, 3)), class_of_code(4, ())]
    found = by_class(counts, classes)
    assert found.tolist() == [
        counts[0].tolist(),
        counts[2].tolist(),
        counts[4].tolist(),
        (counts[1] + counts[3]).tolist(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "two", "three"), [("adult", 0.088, 0.205), ("nltcs", 0.014, 0.028)]
)
def test_distances_on_real_tables(shared_data, name, two, three):
    from research.synthetic import distances, real_table

    table, schema = real_table(name, shared_data)
    method = sc.Synthesis(list(schema.names), epsilon=1, delta=1e-9, neighbours="add_remove")
    release = sc.publish(table, schema, method, options=sc.PublishOptions(seed=1))
    found = distances(table, release.synthetic.rows(seed=1), schema)
    assert found[2] <= two
    assert found[3] <= three
