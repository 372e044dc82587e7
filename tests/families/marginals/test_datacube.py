"""Data cubes: exact ε, the choice of cuboids, answers to every question about the cube."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import scumble as sc
from scumble.model.designs.residuals import Residuals
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from tests.support.mechanisms.table_trials import laplace_loss, measured, readers, squares
from tests.support.people import people, schema

NAMES = ("a", "b", "c")
SIZES = (2, 3, 6)
DOMAIN = sc.Schema(
    [
        sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
        for name, size in zip(NAMES, SIZES, strict=True)
    ]
)


def _cube(**changed) -> sc.Datacube:
    given = {"epsilon": 1, "neighbours": "add_remove"} | changed
    return sc.Datacube(NAMES, **given)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_epsilon_by_enumeration(neighbours: str) -> None:
    """The worst output on the worst pair of tables has a ratio of e^ε, but for the rounding of
    scales; a table that both rows fall into the same cell of does not count.
    """
    mechanism = _cube(neighbours=neighbours)
    design = Residuals(NAMES, SIZES, tuple(mechanism.tables(DOMAIN)))
    cells = [cell.reshape(SIZES) for cell in np.eye(36, dtype=np.int64)]
    empty = np.zeros(SIZES, np.int64)
    pairs = (
        [(cell, empty) for cell in cells]
        if neighbours == "add_remove"
        else list(itertools.product(cells[:1], cells))
    )
    worst = max(laplace_loss(design, *pair) for pair in pairs)
    unmoved = sum(not table.places for table in design.tables) if neighbours == "replace" else 0
    assert worst <= 1
    assert worst == pytest.approx(1 - unmoved / len(design.tables), abs=1e-4)


def test_half_the_noise_would_be_seen() -> None:
    design = Residuals(NAMES, SIZES, tuple(_cube(epsilon=2).tables(DOMAIN)))
    one = np.eye(36, dtype=np.int64)[0].reshape(SIZES)
    assert laplace_loss(design, one, np.zeros_like(one)) > 1.9


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_the_noise_is_there(delta: float | None, tmp_path: Path) -> None:
    """The squared errors of all residuals over their variances have mean 1: they are uncorrelated
    and their fourth moments are below 6, so that 7 standard errors are a false alarm in less than
    one of 10^9 runs. Half the noise is off by 20 of them.
    """
    sizes = (9, 20, 30)
    domain = sc.Schema(
        [
            sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1))
            for name, size in zip(NAMES, sizes, strict=True)
        ]
    )
    counts = np.random.default_rng(1).poisson(1, sizes)
    found = squares(measured(_cube(delta=delta), domain, counts, tmp_path, 1), counts)
    assert len(found) == 9 * 20 * 30
    assert abs(found.mean() - 1) < 7 * math.sqrt(5 / len(found))


def test_unbiased_with_the_stated_variance() -> None:
    """300 releases, a cell of the whole cube and a range: mean and square of the standardised error
    are within 5.5 standard errors; each is a false alarm in less than one of 10^7 runs.
    """
    trials = 300
    counts = np.random.default_rng(1).poisson(9, SIZES)
    asked = [
        (Weights((WeightTensor(NAMES, np.eye(36)[17].reshape(SIZES)),)), counts.reshape(-1)[17]),
        (Weights((WeightTensor(("c",), np.array([0, 1.0, 1, 1, 0, 0])),)), counts[:, :, 1:4].sum()),
    ]
    errors: list[list[float]] = [[], []]
    for reader in readers(_cube(), DOMAIN, counts, trials):
        for (weights, truth), found in zip(asked, errors, strict=True):
            reading = reader.read(weights)
            found.append((reading.value - truth) / math.sqrt(reading.variance))
    for each in map(np.array, errors):
        assert abs(each.mean()) < 5.5 / math.sqrt(trials)
        assert abs((each**2).mean() - 1) < 5.5 * math.sqrt(5 / trials)


def test_every_question_about_the_cube_is_answered() -> None:
    domain = schema(health=3)
    mechanism = sc.Datacube(domain.names, epsilon=1, neighbours="replace")
    release = sc.publish(people(2000, domain), domain, mechanism, options=sc.PublishOptions(seed=1))
    parts = {"age": "age < 4", "sex": "sex = 'f'", "job": "job <> 'cook'", "health": "health > 0"}
    for size in range(5):
        for names in itertools.combinations(domain.names, size):
            where = " AND ".join(parts[name] for name in names) or "TRUE"
            stderr = release.answer(f"SELECT COUNT(*) FROM t WHERE {where}").stderr
            assert (stderr > 0) == bool(names)  # the number of all rows is known
    whole = "age < 3 AND sex = 'f' AND job = 'cook' AND health = 1"
    assert math.isfinite(release.answer(f"SELECT COUNT(*) FROM t WHERE {whole}").stderr)


def test_few_ways_need_small_cuboids() -> None:
    sizes = [len(places) for places in _cube(ways=1).cuboids(DOMAIN)]
    assert max(sizes) <= 2
    assert max(len(places) for places in _cube().cuboids(DOMAIN)) == 3


def test_within_a_bound() -> None:
    """As many cuboids as possible have cells of this standard error; a loose bound needs only the
    base cuboid or less noise, never more tables than the noise allows.
    """
    loose, tight = (_cube(within=within).cuboids(DOMAIN) for within in (1000, 3))
    assert len(loose) == 1
    assert loose == [(0, 1, 2)]
    assert tight != loose


def test_refusals() -> None:
    with pytest.raises(sc.ParameterError, match="at most 10 attributes"):
        sc.Datacube([f"q{i}" for i in range(11)], epsilon=1, neighbours="replace")
    with pytest.raises(sc.ParameterError, match="'ways' parameter of Datacube"):
        _cube(ways=4)
    with pytest.raises(sc.ParameterError, match="'within' parameter of Datacube"):
        _cube(within=0)
    wide = sc.Schema([sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 999)) for i in range(4)])
    whole = sc.Datacube(wide.names, epsilon=1, neighbours="replace")
    with pytest.raises(sc.ParameterError, match="1,000,000,000"):
        sc.publish("no such file", wide, whole)
