"""Marginals: exact losses on tiny domains, unbiased answers, honest intervals, what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.designs.residuals import Residuals
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss
from scumble.private.meter.table import PrivateTable, noisy_tables
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimation.measurements.readings import NoisyTotal, Weights, WeightTensor
from tests.support.mechanisms.table_trials import laplace_loss, measured, readers, squares
from tests.support.people import people, schema


def _schema(*sizes: int) -> sc.Schema:
    return sc.Schema(
        [
            sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
            for name, size in zip("abcdefgh", sizes, strict=False)
        ]
    )


SMALL = _schema(3, 4, 5)
COUNTS = np.random.default_rng(1).poisson(8, (3, 4, 5))


def _marginals(domain: sc.Schema = SMALL, **changed) -> sc.Marginals:
    given = {"ways": 2, "epsilon": 1, "neighbours": "add_remove"} | changed
    return sc.Marginals(domain.names, **given)


def _tables(domain: sc.Schema, rows: int, neighbours: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of tables that differ by a person with so many rows, on top of some others."""
    shape = [attribute.size for attribute in domain]
    cells = [np.eye(math.prod(shape), dtype=np.int64)[i].reshape(shape)
             for i in range(math.prod(shape))]  # fmt: skip
    rest = 5 * cells[0] + 2 * cells[-1]
    persons = [
        sum(chosen, np.zeros(shape, np.int64))
        for chosen in itertools.combinations_with_replacement(cells, rows)
    ]
    others = persons if neighbours == "replace" else [np.zeros(shape, np.int64)]
    return [(rest + one, rest + other) for one, other in itertools.product(persons, others)]


def test_epsilon_by_enumeration(subtests: pytest.Subtests) -> None:
    """The worst output on the worst pair of tables has a ratio of e^ε, but for the rounding of
    scales.
    """
    for rows, neighbours in product([1, 2], ["replace", "add_remove"]):
        with subtests.test(rows=rows, neighbours=neighbours):
            domain = _schema(2, 3)
            mechanism = _marginals(
                domain, ways=1, neighbours=neighbours, contribution=rows, weights=[1, 2]
            )
            design = Residuals(domain.names, (2, 3), tuple(mechanism.tables(domain)))
            worst = max(laplace_loss(design, *pair) for pair in _tables(domain, rows, neighbours))
            assert 0.9999 < worst <= 1


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_delta_by_enumeration(neighbours: str) -> None:
    """One attribute of two values, all outputs: the exact δ of ε is at most the promised one, and
    not far below it.
    """
    domain, epsilon, delta = _schema(2), 0.5, 1e-3
    mechanism = _marginals(domain, ways=1, epsilon=epsilon, delta=delta, neighbours=neighbours)
    tables = {table.places: table for table in mechanism.tables(domain)}
    assert {table.form for table in tables.values()} == {"residual"}
    reach = 700
    z = np.arange(-reach, reach + 1)

    def law(parameter: Fraction) -> np.ndarray:
        odds = np.exp(-(z**2) / (2 * float(parameter)))
        return odds / odds.sum()

    total = law(tables[()].law.parameter)
    one = law(tables[(0,)].law.parameter)
    difference = np.convolve(one, one)[reach:-reach]
    moves = [(1, 1), (1, -1)] if neighbours == "add_remove" else [(0, 2), (0, -2)]
    exact = 0.0
    for move, turn in moves:
        before = np.multiply.outer(total, difference)
        after = np.multiply.outer(np.roll(total, move), np.roll(difference, turn))
        exact = max(exact, float(np.maximum(before - math.exp(epsilon) * after, 0).sum()))
    assert delta / 20 < exact <= delta


def test_half_the_noise_would_be_seen() -> None:
    """The two tests above notice a plan that is half as noisy as it has to be."""
    domain = _schema(2, 3)
    tables = _marginals(domain, ways=1, epsilon=2).tables(domain)
    design = Residuals(domain.names, (2, 3), tuple(tables))
    assert max(laplace_loss(design, *pair) for pair in _tables(domain, 1, "add_remove")) > 1.9


def test_the_noise_is_there(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    """The squared errors of all numbers over their variances have mean 1. They are uncorrelated,
    with fourth moments below 6; a deviation of 7 standard errors is a false alarm in less than one
    of 10^9 runs, and half the noise is off by 20 of them.
    """
    for delta, sizes in product([None, 1e-6], [(40, 50, 30), (2, 3000)]):
        with subtests.test(delta=delta, sizes=sizes):
            tmp_path = tmp_path_factory.mktemp("case")
            domain = _schema(*sizes)
            counts = np.random.default_rng(1).poisson(1, sizes)
            mechanism = _marginals(domain, delta=delta, epsilon=3)
            found = squares(measured(mechanism, domain, counts, tmp_path, 1), counts)
            assert len(found) > 4000
            assert abs(found.mean() - 1) < 7 * math.sqrt(5 / len(found))


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_unbiased_with_the_stated_variance_and_coverage(delta: float | None) -> None:
    """300 releases, a range and a cell: the mean error is within 5.5 standard errors of 0, its
    square within 5.5 of the variance, and the intervals cover at least 95 % less 5.5 standard
    errors; each is a false alarm in less than one of 10^7 runs.
    """
    trials = 300
    asked = {
        (0, 1): Weights(
            (WeightTensor(("a",), np.array([1.0, 1.0, 0.0])), WeightTensor(("b",), np.eye(4)[2]))
        ),
        (1, 2): Weights((WeightTensor(("b", "c"), np.eye(20)[7].reshape(4, 5)),)),
        (2,): Weights((WeightTensor(("c",), np.arange(5.0)),)),
    }
    truths = {
        (0, 1): COUNTS.sum(axis=2)[:2, 2].sum(),
        (1, 2): COUNTS.sum(axis=0).reshape(-1)[7],
        (2,): COUNTS.sum(axis=(0, 1)) @ np.arange(5),
    }
    mechanism = _marginals(delta=delta)
    errors: dict = {places: [] for places in asked}
    hits = dict.fromkeys(asked, 0)
    for reader in readers(mechanism, SMALL, COUNTS, trials):
        for places, weights in asked.items():
            reading = reader.read(weights)
            errors[places].append((reading.value - truths[places]) / math.sqrt(reading.variance))
            low, high = NoisyTotal(reading).interval(reading.value, 0.95)
            hits[places] += low <= truths[places] <= high
    for places in asked:
        found = np.array(errors[places])
        assert abs(found.mean()) < 5.5 / math.sqrt(trials)
        assert abs((found**2).mean() - 1) < 5.5 * math.sqrt(5 / trials)
        assert hits[places] >= trials * 0.95 - 5.5 * math.sqrt(trials * 0.95 * 0.05)
        assert hits[places] <= trials * 0.95 + 5.5 * math.sqrt(trials * 0.95 * 0.05)


def test_pairs_and_averages_from_all_tables() -> None:
    domain = schema(health=4)
    rows = people(20_000, domain)
    release = sc.publish(
        rows, domain, _marginals(domain, epsilon=2, delta=1e-9), options=sc.PublishOptions(seed=1)
    )
    frame = rows.to_pandas()
    truth = frame[frame.job == "nurse"].age.mean()
    low, high = release.answer("SELECT AVG(age) FROM t WHERE job = 'nurse'").interval(0.999999)
    assert low < truth < high
    assert high - low < 1
    groups = release.answer("SELECT sex, health, COUNT(*) FROM t GROUP BY sex, health")
    sums = release.answer("SELECT sex, COUNT(*) FROM t GROUP BY sex")
    for sex in ("f", "m"):
        parts = sum(estimate.value for key, estimate in groups if key[0] == sex)
        assert parts == pytest.approx(sums[sex].value)


def test_the_meter_charges_before_it_touches() -> None:
    class Untouchable(TensorCounter):
        def counts(self, sets, person):
            raise AssertionError("rows were read")

    mechanism = _marginals(epsilon=2)
    design = Residuals(SMALL.names, (3, 4, 5), tuple(mechanism.tables(SMALL)))
    account = BudgetAccount(PrivacyLoss(Fraction(1)))
    table = PrivateTable(Untouchable(SMALL, SMALL.names, COUNTS), account, Keystream(1))
    with pytest.raises(sc.PromiseError, match=r"would cost ε = 1\.99"):
        noisy_tables(table, design, mechanism.unit)
    assert not account.charges


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_all_but_a_trifle_of_the_promise_is_used(delta: float | None, tmp_path: Path) -> None:
    mechanism = _marginals(delta=delta, neighbours="replace", contribution=3)
    account = BudgetAccount(mechanism.promise)
    counter = TensorCounter(SMALL, SMALL.names, COUNTS)
    mechanism.measure(PrivateTable(counter, account, Keystream(1)), tmp_path)
    whole = account.left + account.used
    assert 0 <= account.left < whole / 10_000


def test_a_hundred_attributes() -> None:
    domain = sc.Schema([sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 1)) for i in range(100)])
    rows = people(500, domain)
    mechanism = sc.Marginals(domain.names, ways=2, epsilon=1, delta=1e-6, neighbours="add_remove")
    release = sc.publish(rows, domain, mechanism, options=sc.PublishOptions(seed=1))
    found = release.answer("SELECT COUNT(*) FROM t WHERE q17 = 0 AND q83 = 1")
    low, high = found.interval(0.999999)
    frame = rows.to_pandas()
    assert low <= ((frame.q17 == 0) & (frame.q83 == 1)).sum() <= high


def test_lists_of_sets_with_weights() -> None:
    """More weight makes a table more exact, and nothing else is known."""

    def errors(weights: object) -> list[float]:
        mechanism = _marginals(
            schema(), ways=None, sets=[["job", "age"], ["sex"]], weights=weights, delta=1e-6
        )
        release = sc.publish(
            people(100, schema()), schema(), mechanism, options=sc.PublishOptions(seed=1)
        )
        with pytest.raises(sc.QueryError, match="ties age, sex together"):
            release.answer("SELECT COUNT(*) FROM t WHERE age = 3 AND sex = 'f'")
        return [
            release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}").stderr
            for condition in ("age = 3 AND job = 'cook'", "sex = 'f'")
        ]

    first, second = errors([1, 1]), errors([1, 100])
    assert second[0] > first[0]
    assert second[1] < first[1]


def test_the_promise_puts_the_difference_of_the_laws_aside() -> None:
    from scumble.model.privacy.accounting import rho_for

    promised = _marginals(delta=1e-9).promise.rho
    assert 0 < rho_for(1, 1e-9) - promised < Fraction(1, 10**10)
    with pytest.raises(sc.ParameterError, match="at least 1e-09 with delta"):
        _marginals(epsilon=1e-10, delta=1e-9)


def test_too_many_cells_are_refused_before_reading() -> None:
    wide = _schema(*[1000] * 8)
    with pytest.raises(sc.ParameterError, match=r"28 tables of Marginals.*2\.8e\+07|at most"):
        sc.publish("no such file", wide, _marginals(wide, ways=3))
    with pytest.raises(sc.ParameterError, match="at most 200000 tables"):
        sc.Marginals([f"q{i}" for i in range(100)], ways=5, epsilon=1, neighbours="replace")
    names = [f"q{i}" for i in range(24)]
    binary = sc.Schema([sc.Attribute(name, "quasi", sc.IntegerRange(0, 1)) for name in names])
    many = [[*names[:i], *names[i + 9 :]] for i in range(15)]
    listed = sc.Marginals(names, sets=many, epsilon=1, delta=1e-6, neighbours="replace")
    with pytest.raises(sc.ParameterError, match="measures every subset of the sets by itself"):
        sc.publish("no such file", binary, listed)


def test_refused_parameters(subtests: pytest.Subtests) -> None:
    for changed, sentence in [
        ({"sets": [["a"]]}, "takes either ways or sets"),
        ({"ways": None}, "takes either ways or sets"),
        ({"ways": 0}, "'ways' parameter of Marginals"),
        ({"ways": 4}, "'ways' parameter of Marginals"),
        ({"ways": None, "sets": []}, "'sets' parameter of Marginals"),
        ({"ways": None, "sets": [["a", "a"]]}, "'sets' parameter of Marginals"),
        ({"ways": None, "sets": [["a", "z"]]}, "'sets' parameter of Marginals"),
        ({"ways": None, "sets": [["a", "b"], ["b", "a"]]}, "'sets' parameter of Marginals"),
        ({"weights": "rows"}, "'weights' parameter of Marginals"),
        ({"weights": [1]}, "'weights' parameter of Marginals"),
        ({"weights": [1, 2, 0]}, "'weights' parameter of Marginals"),
        ({"delta": 1}, "'delta' parameter of Marginals"),
    ]:
        with (
            subtests.test(changed=changed, sentence=sentence),
            pytest.raises(sc.ParameterError, match=sentence),
        ):
            _marginals(**changed)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_attributes_of_one_value(delta: float | None) -> None:
    """They tell nothing but the total, which is what is measured."""
    domain = _schema(1, 3)
    rows = pa.table({"a": [0] * 60, "b": [0, 1, 2] * 20})
    for names in (["a"], ["a", "b"]):
        mechanism = sc.Marginals(
            names, ways=len(names), epsilon=5, delta=delta, neighbours="add_remove"
        )
        release = sc.publish(rows, domain, mechanism, options=sc.PublishOptions(seed=1))
        found = release.answer("SELECT COUNT(*) FROM t WHERE a = 0")
        low, high = found.interval(0.999999)
        assert low <= 60 <= high
        assert found.value == pytest.approx(release.answer("SELECT COUNT(*) FROM t").value)
