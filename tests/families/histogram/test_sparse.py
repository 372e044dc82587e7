"""Sparse releases: the meter, the exact ε, huge domains, and what is published."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import scumble as sc
from scumble.families.histogram.design import NoiseTails
from scumble.families.histogram.design import Sparse as Design
from scumble.families.histogram.publish import PrivateCells
from scumble.model.evidence.evidence import design_from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter, occupied
from scumble.private.tables.rows import Rows
from tests.support.mechanisms.sparse_trials import behind_the_meter, cell_law
from tests.support.people import people, schema

RULES = [
    {"rule": "filter"},
    {"rule": "threshold"},
    {"rule": "priority", "size": 20},
    {"rule": "filter priority", "size": 20},
]


def made(release: sc.Release) -> Design:
    found = release.evidence.design
    assert isinstance(found, Design)
    return found


def shown(release: sc.Release) -> pa.Table:
    return pq.read_table(release.folder / release.evidence.file)


def small(neighbours: str = "add_remove", contribution: int = 1, **more) -> sc.Release:
    domain = schema(ages=20)
    given = {"epsilon": 1, "neighbours": neighbours, "contribution": contribution} | more
    return sc.publish(
        people(300, domain),
        domain,
        sc.Sparse(["age", "sex", "job"], **given),
        options=sc.PublishOptions(seed=5),
    )


def test_the_whole_promise_is_charged_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for given in RULES:
        with subtests.test(given=given):
            tmp_path = tmp_path_factory.mktemp("case")
            mechanism = sc.Sparse(
                ["age", "sex"], epsilon=0.7, neighbours="replace", contribution=2, **given
            )
            account = BudgetAccount(mechanism.promise)
            domain = schema()
            rows = Rows(people(50, domain), domain)
            mechanism.measure(PrivateTable(RowCounter(rows), account, Keystream(1)), tmp_path)
            assert account.left == 0
            assert len(account.charges) == 2


def test_a_look_that_is_not_paid_for_is_refused_before_the_rows_are_read() -> None:
    class Unread:
        schema = schema()

    mechanism = sc.Sparse(["age"], epsilon=1, neighbours="add_remove")
    table = PrivateTable(Unread(), BudgetAccount(mechanism.promise), Keystream(1))  # type: ignore[arg-type]
    cells = PrivateCells(table, ["age"], mechanism.unit)
    cheap = DiscreteLaplace(Fraction(99, 100))
    for look in (
        lambda: cells.total(cheap),
        lambda: cells.filter(cheap, 3),
        lambda: cells.sample(cheap, 3),
        lambda: cells.draw_priority(cheap, 3),
        lambda: cells.filter_and_draw(cheap, 3, 3),
    ):
        with pytest.raises(sc.PromiseError):
            look()


def test_the_exact_epsilon(subtests: pytest.Subtests) -> None:
    """Two cells of 0 to 3 rows, all neighbours, all outcomes, and the number of rows beside it,
    with the noise that a release says it has: the largest log ratio is ε. With half the noise (a
    mutation) it would be twice as much.
    """
    for neighbours, contribution, rule in product(
        ["add_remove", "replace"], [1, 2], ["filter", "threshold"]
    ):
        with subtests.test(neighbours=neighbours, contribution=contribution, rule=rule):
            release = small(neighbours, contribution, rule=rule)
            found = made(release)
            limit = found.theta or int(found.tau)
            laws = [cell_law(rule, limit, float(found.noise.scale), n, 40) for n in range(4)]  # type: ignore[arg-type]
            worst = 0.0
            for one in itertools.product(range(4), repeat=2):
                for other in itertools.product(range(4), repeat=2):
                    moved = [after - before for before, after in zip(one, other, strict=True)]
                    rows = abs(sum(moved))
                    if sum(map(abs, moved)) > contribution * (1 + (neighbours == "replace")):
                        continue
                    if rows > contribution or (rows and found.total_noise is None):
                        continue  # with one row a person, a replacement leaves the number of rows
                    loss = rows / float(found.total_noise.scale) if rows else 0.0
                    for before, after in zip(one, other, strict=True):
                        loss += max(
                            abs(math.log(laws[before][out] / laws[after][out]))
                            for out in laws[before]
                        )
                    worst = max(worst, loss)
            # Some of a promise for several rows is for their number, which a replacement may
            # leave.
            most = 0.95 if neighbours == "replace" and contribution > 1 else 1
            assert worst <= 1 + 1e-9
            assert worst >= most - 1e-9


@pytest.mark.parametrize("given", RULES)
def test_noise_is_as_wide_as_it_says(given: dict) -> None:
    """The counts of 400 large cells, which every rule publishes if it can: their variance is within
    5.5 standard errors (false alarm 4e-8) of that of the law; half the scale is a quarter of it.
    """
    counts = np.full(400, 10**7)
    law = DiscreteLaplace(Fraction(3))
    cells = behind_the_meter(counts, Keystream(8))
    found = {
        "filter": lambda: cells.filter(law, 50),
        "threshold": lambda: cells.sample(law, 50),
        "priority": lambda: cells.draw_priority(law, 400),
        "filter priority": lambda: cells.filter_and_draw(law, 50, 400),
    }[given["rule"]]()
    assert len(found.counts) == 400
    squares = (found.counts - 10**7.0) ** 2
    assert abs(squares.mean() - law.variance) < 5.5 * squares.std() / 20


def test_what_is_published(subtests: pytest.Subtests) -> None:
    """Cells in the order of the domain, each once, with plain columns; weights as the rule says."""
    for given in RULES:
        with subtests.test(given=given):
            release = small(**given)
            found, table = made(release), shown(release)
            assert table.column_names == ["age", "sex", "job", "count", "weight"]
            codes = [release.schema[name].encode(table[name])[0] for name in ("age", "sex", "job")]
            keys = release.schema.cell_keys(["age", "sex", "job"]).pack(codes)
            assert (np.diff(keys.astype(np.int64)) > 0).all()
            counts, weights = table["count"].to_numpy(), table["weight"].to_numpy()
            assert (counts >= found.theta).all() or not found.theta
            assert np.array_equal(
                weights, np.sign(counts) * np.maximum(np.abs(counts), float(found.tau))
            )
            if "size" in given:
                assert len(table) == given["size"]
            assert design_from_dict(found.to_dict()) == found


def test_names_that_are_taken() -> None:
    domain = sc.Schema([sc.Attribute(name, "quasi", sc.Boolean()) for name in ("count", "weight")])
    table = pa.table({"count": [True, False], "weight": [True, True]})
    release = sc.publish(
        table,
        domain,
        sc.Sparse(["count", "weight"], epsilon=1, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert (made(release).count, made(release).weight) == ("count_2", "weight_2")
    assert release.answer("SELECT COUNT(*) FROM t WHERE weight").stderr > 0


def wide(columns: int) -> tuple[pa.Table, sc.Schema]:
    """`columns` columns of 1,000 values, 10,000 rows: half of them equal, the others anything."""
    names = [f"c{i}" for i in range(columns)]
    domain = sc.Schema([sc.Attribute(n, "quasi", sc.IntegerRange(0, 999)) for n in names])
    rng = np.random.default_rng(1)
    data = {name: np.append(np.full(5000, 7), rng.integers(0, 1000, 5000)) for name in names}
    return pa.table(data), domain


def test_domains_of_10_to_the_18_and_the_30(subtests: pytest.Subtests) -> None:
    """Little memory, the cell that half of the rows share, and answers that hold the truth; empty
    cells among those published as many as said (5.5 standard deviations of a Poisson number).
    """
    for given, columns in product(RULES, [6, 10]):
        with subtests.test(given=given, columns=columns):
            table, domain = wide(columns)
            assert domain.size() == 10 ** (3 * columns)
            mechanism = sc.Sparse(
                domain.names, epsilon=1, neighbours="replace", false_cells=200, **given
            )
            tracemalloc.start()
            release = sc.publish(table, domain, mechanism, options=sc.PublishOptions(seed=2))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 60e6
            found = made(release)
            if found.theta and not found.tau:
                expected = domain.size() * NoiseTails(found.noise).chance(found.theta)
                assert expected <= 200
                assert abs(len(shown(release)) - 1 - expected) < 5.5 * expected**0.5 + 1
            if found.theta:
                same = " AND ".join(f"{name} = 7" for name in domain.names)
                answer = release.answer(f"SELECT COUNT(*) FROM t WHERE {same}")
                assert abs(answer.value - 5000) < max(200, 6 * answer.stderr)
            for condition, truth in (("c0 = 7", 5000), ("c1 < 500 AND c2 >= 10", None)):
                rows = table.to_pandas().query(
                    condition.replace("AND", "and").replace(" = ", " == ")
                )
                answer = release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
                low, high = answer.interval(0.9999)
                assert low <= len(rows) <= high
                assert truth is None or len(rows) >= truth
            total = release.answer("SELECT COUNT(*) FROM t")
            assert abs(total.value - 10_000) < 1000
            assert len(release.answer("SELECT c0, COUNT(*) FROM t GROUP BY c0")) == 1000


def test_adult(shared_data: Path) -> None:
    """Nine columns of Adult, 648,023,040 cells: as many empty cells as said, and the cells with
    many rows.
    """
    names = (
        "age workclass education marital-status occupation race sex native-country income".split()
    )
    table = csv.read_csv(shared_data / "adult_train_complete_30162.csv").select(names)
    domains = [sc.Category(tuple(sorted(set(table[name].to_pylist())))) for name in names]
    attributes = [sc.Attribute(n, "quasi", d) for n, d in zip(names, domains, strict=True)]
    domain = sc.Schema(attributes)
    release = sc.publish(
        table,
        domain,
        sc.Sparse(names, epsilon=1, neighbours="add_remove"),
        options=sc.PublishOptions(seed=4),
    )
    assert release.manifest.report["cells of the domain"] == 648_023_040
    assert 20 < release.manifest.report["empty cells that pass"] <= 100
    assert 50 < len(shown(release)) < 400
    question = "SELECT COUNT(*) FROM t WHERE sex = 'Male' AND income = '>50K'"
    low, high = release.answer(question).interval(0.999)
    truth = sum(
        sex == "Male" and income == ">50K"
        for sex, income in zip(table["sex"].to_pylist(), table["income"].to_pylist(), strict=True)
    )
    assert low <= truth <= high


def test_a_bound_on_the_rows_of_a_person() -> None:
    """With an identifier only so many rows of each person are counted."""
    domain = sc.Schema(
        [
            sc.Attribute("id", "identifier"),
            sc.Attribute("a", "quasi", sc.IntegerRange(0, 9)),
        ]
    )
    table = pa.table({"id": ["x"] * 500 + ["y"] * 500, "a": [3] * 1000})
    mechanism = sc.Sparse(["a"], epsilon=50, neighbours="add_remove", contribution=2, person="id")
    release = sc.publish(table, domain, mechanism, options=sc.PublishOptions(seed=1))
    assert abs(release.answer("SELECT COUNT(*) FROM t").value - 4) < 5


@pytest.mark.parametrize("words", [1, 2])
def test_occupied_cells(words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in one batch or in many, merged often: the same."""
    monkeypatch.setattr("scumble.private.tables.counter._WAITING", 30)
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 40, (1000, words)).astype(np.uint64)
    keys = keys[:, 0] if words == 1 else keys
    parts = [keys[begin : begin + 90] for begin in range(0, 1000, 90)]
    found = occupied(parts)
    expected, times = np.unique(keys, axis=0, return_counts=True)
    assert np.array_equal(found.keys, expected)
    assert np.array_equal(found.counts, times)
    assert len(occupied([keys[:0]]).counts) == 0


def test_thresholds_from_the_number_of_false_cells() -> None:
    """The first theta and tau that let few enough empty cells pass, and never too small a theta."""
    for cells, wanted in ((10**12, 100), (10**12, 1), (1000, 0.5)):
        mechanism = sc.Sparse(["a"], epsilon=2, neighbours="replace", false_cells=wanted)
        noise, _ = mechanism._laws(known=True)
        tails = NoiseTails(noise)
        theta, tau = mechanism._theta(cells, noise), mechanism._tau(cells, noise)
        assert cells * tails.chance(theta) <= wanted < cells * tails.chance(theta - 1)
        assert (
            cells * tails.keep_chance(tau)
            <= wanted
            < cells * tails.keep_chance(tau * (1 - 2**-50) - 1)
        )
    assert mechanism._theta(2, noise) == tails.least_theta
