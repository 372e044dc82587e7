"""The number of rows as an exact constraint, under `neighbours="replace"`, in every reader.

The oracle is dense: the covariance of all cells, read without the constraint, gives the constrained
least squares estimate by its Karush-Kuhn-Tucker equations. The coefficients of every noise are
found by changing one published number at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import scumble as sc
from scumble.model.evidence.evidence import Measurements, evidence_from_dict
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import PartOfSource
from scumble.public.estimation.measurements.readers import reader_kind
from scumble.public.estimation.measurements.readings import (
    AverageWeights,
    GroupedAxes,
    GroupReader,
    Weights,
    WeightTensor,
    joined,
)
from tests.support.people import people, schema

DOMAIN = schema(ages=8)
NAMES = ("age", "sex")
TABLE = people(60, DOMAIN, seed=3)
FALSE_ALARM = 1e-6
READERS: dict[str, Any] = {
    "hierarchy": (sc.Hierarchy, {}),
    "wavelet": (sc.Wavelet, {}),
    "gaussian": (sc.Hierarchy, {"delta": 1e-6}),
    "marginals": (sc.Marginals, {"ways": 2}),
    "quadtree": (sc.Quadtree, {}),
    "privtree": (sc.PrivTree, {}),
    "mosaic": (sc.Mosaic, {}),
    "grid": (sc.Grid, {}),
    "kdtree": (sc.KdTree, {}),
    "workload": (
        sc.Workload,
        {"queries": ["SELECT age, sex, COUNT(*) FROM t GROUP BY age, sex"]},
    ),
}
ALL = READERS | {"histogram": (sc.Histogram, {}), "sparse": (sc.Sparse, {"false_cells": 1})}


def made(name: str, *, epsilon: float = 1.0, **given: Any) -> Any:
    kind, more = ALL[name]
    protected = {"epsilon": epsilon, "neighbours": "replace"} | more | given
    return kind(list(NAMES), **protected)


@cache
def published(name: str, seed: int = 5, **given: Any) -> sc.Release:
    return sc.publish(TABLE, DOMAIN, made(name, **given), options=sc.PublishOptions(seed=seed))


class Engine:
    """The published numbers of a release, as a reader asks for them."""

    def __init__(self, view: pa.Table) -> None:
        self.view = view
        self.derived: dict[str, Any] = {}

    def rows(self, sql: str) -> pa.Table:
        view = self.view  # noqa: F841, named in the SQL text
        return duckdb.sql(sql).to_arrow_table()


def column(evidence: Measurements) -> str:
    return {"product": "number", "matrix": "noisy"}.get(evidence.design.kind, "count")


def read(release: sc.Release, evidence: Measurements) -> Any:
    view = pq.read_table(release.folder / evidence.file)
    return reader(evidence, view)


def reader(evidence: Measurements, view: pa.Table) -> Any:
    kind = reader_kind(evidence.design.kind)
    return kind(evidence, DOMAIN, Engine(view))


def laws(evidence: Measurements, view: pa.Table) -> list[Any]:
    """Return the law of the noise of every published number; None for one without noise."""
    design: Any = evidence.design
    if design.kind == "product":
        pairs = zip(design.laws, design.lengths, strict=True)
        return [law for law, times in pairs for _ in range(times)]
    if design.kind == "residuals":
        return [table.law for table in design.tables for _ in range(table.numbers(design.sizes))]
    if design.kind == "regions":
        return [None if at < 0 else design.laws[at] for at in view["law"].to_pylist()]
    return [design.noise] * view.num_rows


def questions() -> Iterator[Weights]:
    rng = np.random.default_rng(7)
    age, sex = (
        WeightTensor(("age",), (np.arange(8) < 5) * 1.0),
        WeightTensor(("sex",), np.array([1.0, 0.0])),
    )
    but_one = np.ones((8, 2))
    but_one[3, 1] = 0.0
    yield Weights((age,))
    yield Weights((age, sex))
    yield Weights((WeightTensor(NAMES, but_one),))
    yield Weights((WeightTensor(NAMES, rng.normal(size=(8, 2))),))
    yield Weights((WeightTensor((), np.array(2.5)), sex))


def tensor(weights: Weights) -> np.ndarray:
    found = np.ones((8, 2))
    for part in weights.parts:
        shape = [n if a in part.names else 1 for a, n in zip(NAMES, (8, 2), strict=True)]
        found = found * part.values.reshape(shape)
    return found.reshape(-1)


def cell(place: int) -> Weights:
    one = np.zeros(16)
    one[place] = 1.0
    return Weights((WeightTensor(NAMES, one.reshape(8, 2)),))


def whole_cells(name: str) -> bool:
    """Whether all cells have a measurement of their own, so that their covariance is regular."""
    return name in ("hierarchy", "wavelet", "gaussian", "marginals", "workload")


@pytest.mark.parametrize("name", [name for name in READERS if whole_cells(name)])
def test_readings_solve_the_kkt_equations(name: str) -> None:
    release = published(name)
    assert release.evidence.rows == 60
    aware = read(release, release.evidence)
    unaware = read(release, replace(release.evidence, rows=None))
    estimates = np.array([unaware.read(cell(i)).value for i in range(16)])
    covariance = np.array(
        [[unaware.pair(cell(i), cell(j))[2] for j in range(16)] for i in range(16)]
    )
    precision = np.linalg.inv(covariance)
    ones = np.ones((16, 1))
    system = np.block([[precision, ones], [ones.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(precision @ estimates, 60.0))[:16]
    left = np.linalg.inv(system)[:16, :16]  # the covariance of the constrained estimate
    asked = list(questions())
    for weights in asked:
        found = aware.read(weights)
        assert found.value == pytest.approx(tensor(weights) @ solved, rel=1e-9, abs=1e-9)
        assert found.variance == pytest.approx(tensor(weights) @ left @ tensor(weights), rel=1e-7)
    for one, other in pairwise(asked):
        covariance_of = aware.pair(one, other)[2]
        assert covariance_of == pytest.approx(tensor(one) @ left @ tensor(other), abs=1e-7)


def test_moments_are_those_of_the_coefficients_of_every_noise(subtests: pytest.Subtests) -> None:
    for name in READERS:
        with subtests.test(name=name):
            release = published(name)
            evidence = release.evidence
            assert isinstance(evidence, Measurements)
            view = pq.read_table(release.folder / evidence.file)
            numbers, place = (
                view[column(evidence)].to_numpy(),
                view.column_names.index(column(evidence)),
            )
            asked = list(questions())
            first = [reader(evidence, view).read(weights) for weights in asked]
            coefficients = np.zeros((len(asked), len(numbers)))
            for at in range(len(numbers)):
                moved = numbers.copy()
                moved[at] += 1000
                other = reader(evidence, view.set_column(place, column(evidence), pa.array(moved)))
                coefficients[:, at] = [
                    (other.read(weights).value - found.value) / 1000
                    for weights, found in zip(asked, first, strict=True)
                ]
            noises = laws(evidence, view)
            variances = np.array([0.0 if law is None else law.variance for law in noises])
            fourths = np.array([0.0 if law is None else law.fourth for law in noises])
            for found, own in zip(first, coefficients, strict=True):
                assert found.variance == pytest.approx(own**2 @ variances, rel=1e-6)
                assert found.fourth == pytest.approx(own**4 @ fourths, rel=1e-5, abs=1e-9)
                assert found.largest >= np.abs(own[variances > 0]).max() * (1 - 1e-6)


def test_the_number_of_rows_is_exact_and_complements_add_up_to_it(
    subtests: pytest.Subtests,
) -> None:
    for name in ALL:
        with subtests.test(name=name):
            release = published(name)
            assert release.evidence.rows == 60
            everything = release.answer("SELECT COUNT(*) FROM t")
            assert (everything.value, everything.stderr, everything.interval()) == (
                60.0,
                0.0,
                (60.0, 60.0),
            )
            for condition in ("age < 5", "sex = 'f'", "age < 7 OR sex = 'm'"):
                one = release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
                other = release.answer(f"SELECT COUNT(*) FROM t WHERE NOT ({condition})")
                if name != "sparse" or condition == "age < 7 OR sex = 'm'":
                    assert one.value + other.value == pytest.approx(60.0)
                    assert one.stderr == pytest.approx(other.stderr)


def test_without_noise_answers_are_true(subtests: pytest.Subtests) -> None:
    """Readers are linear, so an estimate that is right without noise is unbiased with it."""
    for name in ALL:
        with subtests.test(name=name):
            release = published(name, epsilon=100)
            columns = TABLE.to_pydict()
            rows = list(zip(columns["age"], columns["sex"], strict=True))
            asked = {
                "SELECT COUNT(*) FROM t WHERE age < 4": sum(age < 4 for age, _ in rows),
                "SELECT COUNT(*) FROM t WHERE sex = 'f'": sum(sex == "f" for _, sex in rows),
                "SELECT COUNT(*) FROM t WHERE age <> 3 OR sex = 'f'": sum(
                    age != 3 or sex == "f" for age, sex in rows
                ),
                "SELECT SUM(age) FROM t WHERE sex = 'm'": sum(
                    age for age, sex in rows if sex == "m"
                ),
                "SELECT AVG(age) FROM t": np.mean(columns["age"]),
            }
            for sql, truth in asked.items():
                low, high = release.answer(sql).interval(0.9999)
                assert low - 1e-6 <= truth <= high + 1e-6, sql


def test_groups_have_the_readings_of_single_questions(subtests: pytest.Subtests) -> None:
    for name in READERS:
        with subtests.test(name=name):
            release = published(name)
            found = read(release, release.evidence)
            if not isinstance(found, GroupReader):
                pytest.skip("reads groups one by one")
            amount = WeightTensor(("age",), np.arange(8.0))
            for condition in (
                Weights(()),
                Weights((WeightTensor(NAMES, np.arange(16.0).reshape(8, 2) % 5),)),
            ):
                weighted = joined(DOMAIN, [*condition.parts, amount])
                for names, shape in ((("sex",), (2,)), (("age", "sex"), (8, 2))):
                    grouping = GroupedAxes(names, shape)
                    groups = found.by_group(condition, grouping)
                    averages = found.averages(AverageWeights(condition, amount, weighted), grouping)
                    for at in range(len(grouping)):
                        codes = {
                            n: int(c)
                            for n, c in zip(names, np.unravel_index(at, shape), strict=True)
                        }
                        one, other = (each.fixed(DOMAIN, codes) for each in (condition, weighted))
                        single, group = found.read(one), groups.at(at)
                        assert group.value == pytest.approx(single.value, abs=1e-8)
                        assert group.variance == pytest.approx(single.variance, rel=1e-7, abs=1e-9)
                        assert group.fourth == pytest.approx(single.fourth, rel=1e-6, abs=1e-8)
                        *_, covariance = found.pair(other, one)
                        assert averages.covariances[at] == pytest.approx(
                            covariance, rel=1e-6, abs=1e-7
                        )


def test_many_boxes_without_a_measured_root_are_read_alike() -> None:
    domain = sc.Schema([sc.Attribute("x", "quasi", sc.IntegerRange(0, 199))])
    rng = np.random.default_rng(1)
    rows = pa.table({"x": rng.integers(0, 200, 20_000)})
    grid = sc.Grid(["x"], epsilon=10, neighbours="replace")
    release = sc.publish(rows, domain, grid, options=sc.PublishOptions(seed=2))
    found = reader_kind("regions")(
        release.evidence, domain, Engine(pq.read_table(release.folder / release.evidence.files[0]))
    )
    assert len(found.leaves) > 64
    groups = found.by_group(Weights(()), GroupedAxes(("x",), (200,)))
    for at in (0, 17, 199):
        single = found.read(Weights(()).fixed(domain, {"x": at}))
        assert groups.at(at).value == pytest.approx(single.value, abs=1e-7)
        assert groups.at(at).variance == pytest.approx(single.variance, rel=1e-7)
        assert groups.at(at).fourth == pytest.approx(single.fourth, rel=1e-6)
        assert groups.at(at).largest == pytest.approx(single.largest, rel=1e-7)


def covers(name: str, releases: int) -> None:
    """Fail if intervals hold too rarely. The number of holds is not binomial over the questions of
    a release, so each question is counted on its own; `FALSE_ALARM` is for one of them.
    """
    columns = TABLE.to_pydict()
    rows = list(zip(columns["age"], columns["sex"], strict=True))
    asked = {
        "SELECT COUNT(*) FROM t WHERE age < 4": sum(age < 4 for age, _ in rows),
        "SELECT COUNT(*) FROM t WHERE age <> 2 OR sex = 'f'": sum(
            age != 2 or sex == "f" for age, sex in rows
        ),
        "SELECT SUM(age) FROM t WHERE sex = 'f'": sum(age for age, sex in rows if sex == "f"),
        "SELECT AVG(age) FROM t": float(np.mean(columns["age"])),
    }
    held = dict.fromkeys(asked, 0)
    errors: dict[str, list[float]] = {sql: [] for sql in asked}
    for seed in range(releases):
        release = published(name, seed=seed)
        for sql, truth in asked.items():
            answer = release.answer(sql)
            low, high = answer.interval(0.9)
            held[sql] += low <= truth <= high
            if answer.bounds is None:
                errors[sql].append(((answer.value - truth) / answer.stderr) ** 2)
    assert min(held.values()) >= binom.ppf(FALSE_ALARM, releases, 0.9)
    for sql, squares in errors.items():
        if name != "sparse" and "AVG" not in sql and len(squares) == releases:
            # Kurtosis at most 6, so that a mean square has a standard error of at most √(5/n).
            assert abs(np.mean(squares) - 1) < 5 * np.sqrt(5 / releases), sql


# Quick tests prove the same exactly: that readings are those of the least squares, and that their
# variance and fourth cumulant are those of the coefficients of every noise.
@pytest.mark.parametrize(
    "releases",
    [pytest.param(50, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("name", ALL)
def test_coverage_of_many(name: str, releases: int) -> None:
    covers(name, releases)


def test_rows_are_published_only_where_no_replacement_changes_them(
    subtests: pytest.Subtests,
) -> None:
    for name in ALL:
        with subtests.test(name=name):
            assert published(name).evidence.rows == 60
            assert published(name, contribution=2).evidence.rows is None
            assert published(name, neighbours="add_remove").evidence.rows is None
            dropped = sc.publish(
                TABLE, DOMAIN, made(name), options=sc.PublishOptions(seed=1, outside="drop")
            )
            assert dropped.evidence.rows is None
            assert "rows" not in dropped.evidence.to_dict()


def test_people_named_by_a_column_and_parts_of_a_table_hide_the_number_of_rows() -> None:
    named = sc.Schema([sc.Attribute("id", "identifier"), *DOMAIN])
    table = TABLE.append_column("id", pa.array([str(i // 2) for i in range(60)]))
    one = sc.Histogram(["age"], epsilon=1, neighbours="replace", person="id")
    assert sc.publish(table, named, one, options=sc.PublishOptions(seed=1)).evidence.rows is None
    part = Rows(PartOfSource(open_source(TABLE), DOMAIN["sex"], "f"), DOMAIN)
    assert RowCounter(part).selects


def test_rows_are_kept_in_the_archive_and_may_be_absent() -> None:
    release = published("hierarchy")
    data = release.evidence.to_dict()
    assert evidence_from_dict(data) == release.evidence
    data.pop("rows")
    assert evidence_from_dict(data).rows is None


def test_sparse_spends_nothing_on_a_number_of_rows_that_is_known() -> None:
    plain = published("sparse").evidence.design
    hidden = published("sparse", contribution=2).evidence.design
    assert plain.total_noise is None
    assert plain.total == 60
    assert float(plain.noise.scale) == 2.0
    assert hidden.total_noise is not None
    assert float(hidden.noise.scale) == pytest.approx(4 / 0.95)
