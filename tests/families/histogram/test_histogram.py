"""Histogram: sensitivity by brute force, the exact ε, the meter, and bounds on a person's rows."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows
from tests.support.people import people, schema

TINY = sc.Schema(
    [
        sc.Attribute("id", "identifier"),
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 1)),
        sc.Attribute("b", "sensitive", sc.IntegerRange(0, 1)),
    ]
)
CELLS = list(itertools.product((0, 1), (0, 1)))


def _table(rows: list[tuple[str, tuple[int, int]]]) -> pa.Table:
    types = pa.schema([("id", pa.string()), ("a", pa.int64()), ("b", pa.int64())])
    dicts = [{"id": who, "a": cell[0], "b": cell[1]} for who, cell in rows]
    return pa.Table.from_pylist(dicts, schema=types)


def _counts(rows: list, person: PrivacyUnit) -> np.ndarray:
    table = PrivateTable(
        RowCounter(Rows(_table(rows), TINY)), BudgetAccount(PrivacyLoss(Fraction(1))), Keystream(1)
    )
    return table.counts(["a", "b"], person)._counts


def test_sensitivity_by_brute_force(subtests: pytest.Subtests) -> None:
    """All tables of two other rows, all ways to add or to exchange a person with up to three
    rows.
    """
    for bound, neighbours in product([1, 2], ["replace", "add_remove"]):
        with subtests.test(bound=bound, neighbours=neighbours):
            person = PrivacyUnit(neighbours, bound, "id")
            others = [[("x", one), ("y", other)] for one in CELLS for other in CELLS[::3]]
            persons = [
                [("z", cell) for cell in cells]
                for size in range(1, 4)
                for cells in itertools.combinations_with_replacement(CELLS[:3], size)
            ]
            largest = 0
            for rest in others[:4]:
                tables = [_counts(rest + rows, person) for rows in persons]
                partners = tables if neighbours == "replace" else [_counts(rest, person)]
                for one, other in itertools.product(tables, partners):
                    largest = max(largest, int(np.abs(one - other).sum()))
            assert largest == person.sensitivity


@pytest.mark.parametrize(("neighbours", "change"), [("add_remove", (1, 0)), ("replace", (1, -1))])
def test_epsilon_by_enumeration(neighbours: str, change: tuple[int, int]) -> None:
    """Two cells, all outputs from -12 to 12: the largest ratio of probabilities is e^ε and no
    more.
    """
    epsilon = Fraction(7, 10)
    law = DiscreteLaplace(PrivacyUnit(neighbours).sensitivity / epsilon)
    outputs = range(-12, 13)
    ratios = [
        law.pmf(x) * law.pmf(y) / (law.pmf(x - change[0]) * law.pmf(y - change[1]))
        for x, y in itertools.product(outputs, outputs)
    ]
    assert max(ratios) == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert 1 / min(ratios) == pytest.approx(math.exp(epsilon), rel=1e-12)


def test_the_scale_follows_neighbours_and_contribution() -> None:
    def scale(**changed) -> Fraction:
        given = {"epsilon": 0.5, "neighbours": "add_remove"} | changed
        release = sc.publish(
            people(20, schema()),
            schema(),
            sc.Histogram(["age"], **given),
            options=sc.PublishOptions(seed=1),
        )
        return release.evidence.design.noise.scale

    assert scale() == 2
    assert scale(neighbours="replace") == 4
    assert scale(contribution=3) == 6
    assert scale(neighbours="replace", contribution=3, epsilon=1) == 6


def test_rows_of_one_person_beyond_the_bound_are_left_out() -> None:
    rows = [("x", (0, 0))] * 5 + [("y", (1, 1))] * 2
    assert _counts(rows, PrivacyUnit("replace", 3, "id")).tolist() == [3, 0, 0, 2]
    assert _counts(rows, PrivacyUnit("replace", 3)).tolist() == [5, 0, 0, 2]
    release = sc.publish(
        _table(rows),
        TINY,
        sc.Histogram(["a"], epsilon=1, neighbours="replace", contribution=3, person="id"),
        options=sc.PublishOptions(seed=1),
    )
    assert any("at most 3 rows are counted" in limit for limit in release.guarantees[0].limits)


def test_person_must_be_an_identifier() -> None:
    mechanism = sc.Histogram(["age"], epsilon=1, neighbours="replace", person="sex")
    with pytest.raises(sc.ParameterError, match="role identifier"):
        sc.publish(people(5, schema()), schema(), mechanism)


def test_the_meter_stops_what_was_not_promised() -> None:
    account = BudgetAccount(PrivacyLoss(Fraction(1)))
    table = PrivateTable(RowCounter(Rows(people(9, schema()), schema())), account, Keystream(1))
    half = Fraction(1, 2)
    table.noisy_counts(["age"], PrivacyUnit("replace"), epsilon=half)
    table.noisy_counts(["job"], PrivacyUnit("replace"), epsilon=half)
    assert account.left == 0
    with pytest.raises(sc.PromiseError, match="only ε = 0 is left"):
        table.noisy_counts(["sex"], PrivacyUnit("replace"), epsilon=Fraction(1, 10**9))
    assert account.used == 1


def test_the_meter_charges_before_it_touches() -> None:
    """A refused look does not read a single row."""

    class Untouchable(Rows):
        def batches(self, names):
            raise AssertionError("rows were read")

    rows = Untouchable(people(9, schema()), schema())
    table = PrivateTable(RowCounter(rows), BudgetAccount(PrivacyLoss(Fraction(1))), Keystream(1))
    with pytest.raises(sc.PromiseError):
        table.noisy_counts(["age"], PrivacyUnit("replace"), epsilon=Fraction(2))


def test_every_cell_is_there_and_nothing_of_the_rows() -> None:
    rows = 12_347
    domain = schema()
    mechanism = sc.Histogram(["age", "job"], epsilon=1, neighbours="add_remove")
    release = sc.publish(people(rows, domain), domain, mechanism)
    cells = pq.read_table(release.folder / "cells.parquet")
    assert cells.num_rows == domain.size(["age", "job"])
    assert cells.column_names == ["age", "job", "count"]
    assert cells["count"].type == pa.int64()
    assert str(rows) not in repr(release.manifest)


def test_too_many_cells_are_refused_before_reading() -> None:
    wide = sc.Schema([sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 999)) for i in range(3)])
    with pytest.raises(sc.ParameterError, match=r"1,000,000,000 cells.*the method sparse"):
        sc.publish("no such file", wide, sc.Histogram(wide.names, epsilon=1, neighbours="replace"))


def test_a_column_called_count() -> None:
    domain = sc.Schema([sc.Attribute("count", "quasi", sc.IntegerRange(0, 4))])
    private = pa.table({"count": [0, 1, 2, 3, 4] * 200})
    release = sc.publish(
        private,
        domain,
        sc.Histogram(["count"], epsilon=5, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert release.answer('SELECT COUNT(*) FROM t WHERE "count" > 2').value == pytest.approx(
        400, abs=30
    )


def test_other_columns_cannot_be_asked_for() -> None:
    release = sc.publish(
        people(9, schema()),
        schema(),
        sc.Histogram(["age"], epsilon=1, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    with pytest.raises(sc.QueryError, match="no column 'job'"):
        release.answer("SELECT COUNT(*) FROM t WHERE job = 'cook'")


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_the_posterior_in_the_sentence_by_enumeration(neighbours: str) -> None:
    """One person, two cells: the best posterior over all outputs is that of the sentence, both for
    presence and for what the row says.
    """
    epsilon = Fraction(1)
    law = DiscreteLaplace(PrivacyUnit(neighbours).sensitivity / epsilon)
    sentence = str(sc.Histogram(["age"], epsilon=1, neighbours=neighbours).guarantee(schema())[0])
    outputs = range(-15, 16)

    def worst(one: tuple[int, int], other: tuple[int, int]) -> float:
        ends = []
        for x, y in itertools.product(outputs, outputs):
            first = 0.1 * law.pmf(x - one[0]) * law.pmf(y - one[1])
            second = 0.9 * law.pmf(x - other[0]) * law.pmf(y - other[1])
            ends.append(first / (first + second))
        return 100 * max(ends)

    content = worst((1, 0), (0, 1))
    if neighbours == "replace":
        assert content == pytest.approx(23.2, abs=0.05)
        assert "reach at most 23.2 %" in sentence
    else:
        assert worst((1, 0), (0, 0)) == pytest.approx(23.2, abs=0.05)
        assert content == pytest.approx(45.1, abs=0.05)
        assert "reach at most 23.2 %" in sentence
        assert sentence.endswith("at most 45.1 %.")


def test_only_the_counted_attributes_are_published() -> None:
    release = sc.publish(
        people(9, schema()),
        schema(),
        sc.Histogram(["age"], epsilon=1, neighbours="replace"),
        options=sc.PublishOptions(seed=1),
    )
    assert release.schema.names == ("age",)
