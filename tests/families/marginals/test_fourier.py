"""Fourier coefficients: what they are, their exact ε, and marginals of real binary data."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

import scumble as sc
from scumble.model.designs.residuals import Residuals
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.table_trials import (
    laplace_loss,
    measured,
    readers,
    squares,
    true_numbers,
)
from tests.support.people import people, schema


def _schema(attributes: int) -> sc.Schema:
    return sc.Schema(
        [sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 1)) for i in range(attributes)]
    )


def _fourier(attributes: int, **changed) -> sc.Fourier:
    given = {"ways": 2, "epsilon": 1, "neighbours": "add_remove"} | changed
    return sc.Fourier([f"q{i}" for i in range(attributes)], **given)


def _design(mechanism: sc.Fourier, attributes: int) -> Residuals:
    domain = _schema(attributes)
    return Residuals(domain.names, (2,) * attributes, tuple(mechanism.tables(domain)))


def test_coefficients_are_signed_sums() -> None:
    """Rows with an even number of ones in the set, less those with an odd one, for every set."""
    counts = np.random.default_rng(1).integers(0, 9, (2, 2, 2))
    design = _design(_fourier(3), 3)
    found = true_numbers(design, counts)
    assert sorted(table.places for table in design.tables) == sorted(
        places for size in range(3) for places in itertools.combinations(range(3), size)
    )
    for table, number in zip(design.tables, found, strict=True):
        signed = sum(
            counts[cell] * (-1) ** sum(cell[place] for place in table.places)
            for cell in np.ndindex(2, 2, 2)
        )
        assert number == signed


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_epsilon_by_enumeration(neighbours: str, rows: int) -> None:
    """The worst output on the worst pair of tables of three attributes has a ratio of e^ε."""
    design = _design(_fourier(3, neighbours=neighbours, contribution=rows), 3)
    cells = [cell.reshape(2, 2, 2) for cell in np.eye(8, dtype=np.int64)]
    persons = [
        sum(chosen, np.zeros((2, 2, 2), np.int64))
        for chosen in itertools.combinations_with_replacement(cells, rows)
    ]
    # Exchanging the two values of an attribute changes no size: one person may start in cell 0.
    others = persons[:8] if neighbours == "replace" else [np.zeros((2, 2, 2), np.int64)]
    worst = max(laplace_loss(design, *pair) for pair in itertools.product(persons, others))
    assert 0.9999 < worst <= 1


def test_half_the_noise_would_be_seen() -> None:
    design = _design(_fourier(3, epsilon=2), 3)
    empty = np.zeros((2, 2, 2), np.int64)
    one = np.eye(8, dtype=np.int64)[0].reshape(2, 2, 2)
    assert laplace_loss(design, one, empty) > 1.9


def test_the_scale_is_that_of_the_paper_where_all_sets_are_needed_alike() -> None:
    """With one attribute, the two coefficients have noise of scale |c(B)|/ε = 2/ε; replacing moves
    only one of them, by 2.
    """
    domain = _schema(1)
    for neighbours in ("add_remove", "replace"):
        tables = _fourier(1, ways=1, neighbours=neighbours).tables(domain)
        scales = {table.places: float(table.law.scale) for table in tables}
        assert scales == pytest.approx({(): 2.0, (0,): 2.0}, rel=1e-4)


def test_replacing_costs_less_than_twice() -> None:
    """No two rows differ an odd number of times in all pairs and all single attributes."""
    scales = {
        neighbours: max(
            table.law.scale for table in _fourier(10, neighbours=neighbours).tables(_schema(10))
        )
        for neighbours in ("add_remove", "replace")
    }
    assert scales["add_remove"] < scales["replace"] < Fraction(13, 10) * scales["add_remove"]


def test_the_noise_is_there(tmp_path: Path) -> None:
    """The squared errors of 848 coefficients over their variances have mean 1; the fourth moment
    of Laplace noise is 6, so that 7 standard errors are a false alarm in less than one of 10^9
    runs. Half the noise is off by 9 of them.
    """
    attributes = 10
    counts = np.random.default_rng(1).poisson(1, (2,) * attributes)
    mechanism = _fourier(attributes, ways=6, epsilon=5)
    solver = measured(mechanism, _schema(attributes), counts, tmp_path, 1)
    found = squares(solver, counts)
    assert len(found) == sum(math.comb(10, size) for size in range(7))
    assert abs(found.mean() - 1) < 7 * math.sqrt(5 / len(found))


def test_unbiased_with_the_stated_variance() -> None:
    """300 releases: the mean of the standardised error is within 5.5 standard errors of 0 and its
    square of 1; each is a false alarm in less than one of 10^7 runs.
    """
    trials = 300
    counts = np.random.default_rng(1).poisson(9, (2, 2, 2, 2))
    weights = Weights(
        (WeightTensor(("q0",), np.array([1.0, 0.0])), WeightTensor(("q2",), np.array([0.0, 1.0])))
    )
    truth = counts[0, :, 1].sum()
    errors = []
    for reader in readers(_fourier(4), _schema(4), counts, trials):
        reading = reader.read(weights)
        errors.append((reading.value - truth) / math.sqrt(reading.variance))
    found = np.array(errors)
    assert abs(found.mean()) < 5.5 / math.sqrt(trials)
    assert abs((found**2).mean() - 1) < 5.5 * math.sqrt(5 / trials)


def test_other_domains_are_refused() -> None:
    mechanism = sc.Fourier(["sex", "job"], ways=1, epsilon=1, neighbours="replace")
    with pytest.raises(sc.SchemaError, match="two values, but 'job' has 5"):
        sc.publish(people(5, schema()), schema(), mechanism)
    with pytest.raises(sc.ParameterError, match="'ways' parameter of Fourier"):
        _fourier(3, ways=4)


def test_sixteen_disabilities(shared_data: Path) -> None:
    """All marginals of three of 16 real binary attributes, from 697 numbers: every one of 560
    marginals is within 6 standard errors, whose false-alarm rate is below 10^-4 for the worst law
    of its 4,480 cells.
    """
    rows = pyarrow.csv.read_csv(shared_data / "nltcs_21574x16.csv.gz")
    domain = sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, 1)) for name in rows.column_names]
    )
    mechanism = sc.Fourier(domain.names, ways=3, epsilon=1, neighbours="add_remove")
    release = sc.publish(rows, domain, mechanism, options=sc.PublishOptions(seed=1))
    assert release.evidence.design.numbers == 697
    columns = np.stack([rows[name].to_numpy() for name in domain.names])
    error = release.answer(
        "SELECT COUNT(*) FROM t WHERE " + " AND ".join(f'"{name}" = 1' for name in domain.names[:3])
    ).stderr
    worst = 0.0
    for chosen in itertools.combinations(range(16), 3):
        truth = np.bincount(columns[list(chosen)].T @ [4, 2, 1], minlength=8)
        table = release.marginals.marginal([domain.names[place] for place in chosen])
        worst = max(worst, float(np.abs(table["count"].to_numpy() - truth).max()))
    assert worst < 6 * error
