"""Workload: the noise that its matrix needs, its errors before and after, and what it refuses."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.designs.matrix import MergedSums, from_table
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter
from scumble.public.estimation.interval_laws import noise_half_width
from scumble.public.estimation.measurements.matrix import MatrixReader
from scumble.public.estimation.measurements.readings import Weights, WeightTensor
from scumble.public.sandbox import Sandbox
from tests.support.people import people, schema

LINE = sc.Schema([sc.Attribute("a", "quasi", sc.IntegerRange(0, 23))])
PREFIXES = [f"SELECT COUNT(*) FROM t WHERE a <= {last}" for last in range(24)]
TRUTH = np.array([3, 0, 12, 7, 1, 0, 5, 40] * 3)


def _line(**changed) -> sc.Workload:
    given = {"queries": PREFIXES, "epsilon": 1, "neighbours": "add_remove"} | changed
    return sc.Workload(["a"], **given)


def _measured(mechanism: sc.Workload, folder: Path, noise: Keystream) -> MatrixReader:
    account = BudgetAccount(mechanism.promise)
    table = PrivateTable(TensorCounter(LINE, ["a"], TRUTH), account, noise)
    evidence = mechanism.measure(table, folder)
    assert account.charges
    return MatrixReader(evidence, LINE, Sandbox(LINE, view=folder / evidence.file))


def test_the_noise_is_the_least_that_keeps_the_promise(subtests: pytest.Subtests) -> None:
    """Exactly, by all columns of the whole-number matrix that is published."""
    for delta, (neighbours, contribution) in product(
        [None, 1e-6], [("add_remove", 1), ("replace", 3)]
    ):
        with subtests.test(delta=delta, neighbours=neighbours, contribution=contribution):
            mechanism = _line(neighbours=neighbours, contribution=contribution, delta=delta)
            people_ = pa.table({"a": [1, 2, 3]})
            release = sc.publish(people_, LINE, mechanism, options=sc.PublishOptions(seed=1))
            table = Sandbox(LINE, view=release.folder / "sums.parquet").rows("SELECT * FROM view")
            strategy, _ = from_table(table, 24)
            matrix = strategy.matrix.toarray()
            law = release.evidence.design.noise
            times = contribution * (2 if neighbours == "replace" else 1)
            if delta is None:
                assert isinstance(law, DiscreteLaplace)
                assert times * int(np.abs(matrix).sum(axis=0).max()) / law.scale == 1
                continue
            assert isinstance(law, DiscreteGaussian)
            moves = [matrix[:, i] - matrix[:, j] for i in range(24) for j in range(24) if i != j]
            if neighbours == "add_remove":
                moves = list(matrix.T)
            worst = contribution**2 * max(int(move @ move) for move in moves)
            assert Fraction(worst) / (2 * law.parameter) <= mechanism.promise.rho


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_errors_are_those_of_the_forecast(tmp_path: Path, delta: float | None) -> None:
    """Every prefix count, 2500 times: unbiased, with the variance that was forecast, covered as
    often as stated.

    False alarms: 48 means at 6 standard errors, 48 variances at 6 (the noise of a count has at
    most the kurtosis of one Laplace noise), 48 coverages at 6: below 10^-6 in all. Noise of half
    the scale would be found with certainty.
    """
    mechanism = _line(delta=delta)
    stderrs = mechanism.forecast(LINE).stderrs
    plan = mechanism._plan(LINE)
    transform, noise, runs = MergedSums(plan.questions.merged, plan.strategy), Keystream(5), 2500
    errors = np.empty((runs, 24))
    for run in range(runs):
        account = BudgetAccount(mechanism.promise)
        table = PrivateTable(TensorCounter(LINE, ["a"], TRUTH), account, noise)
        [noisy] = table.counts(["a"], mechanism.unit).noisy([plan.law], transform)
        errors[run] = np.cumsum(plan.strategy.estimate(noisy) - TRUTH)
    assert (np.abs(errors.mean(axis=0)) <= 6 * stderrs / runs**0.5).all()
    spread = (errors**2).mean(axis=0) / stderrs**2
    assert (np.abs(spread - 1) <= 6 * (5 / runs) ** 0.5).all()
    reader = _measured(mechanism, tmp_path, noise)
    for last in range(24):
        weights = Weights((WeightTensor(("a",), (np.arange(24) <= last).astype(float)),))
        reading = reader.read(weights)
        assert reading.variance == pytest.approx(stderrs[last] ** 2)
        half = noise_half_width(reading.variance, reading.fourth, reading.largest, 0.95)
        inside = float((np.abs(errors[:, last]) <= half).mean())
        assert 0.95 - 6 * (0.95 * 0.05 / runs) ** 0.5 <= inside <= 0.98


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_a_workload_that_tells_nothing_apart(delta: float | None) -> None:
    """One count of everything, and one of nothing: one noisy number."""
    for texts, total in (
        (["SELECT COUNT(*) FROM t"], 1),
        (["SELECT COUNT(*) FROM t WHERE 1=2"], 0),
    ):
        mechanism = _line(queries=texts, delta=delta)
        forecast = mechanism.forecast(LINE)
        noise = mechanism._plan(LINE).law.variance ** 0.5
        assert forecast.rmse == pytest.approx(total * noise)
        assert forecast.bound <= forecast.rmse
        release = sc.publish(
            pa.table({"a": [1, 2, 3]}), LINE, mechanism, options=sc.PublishOptions(seed=1)
        )
        assert release.answer("SELECT COUNT(*) FROM t").stderr == pytest.approx(noise)


def test_half_the_noise_is_refused() -> None:
    """The meter recomputes the price from the matrix itself."""
    mechanism = _line()
    plan = mechanism._plan(LINE)
    table = PrivateTable(
        TensorCounter(LINE, ["a"], TRUTH), BudgetAccount(mechanism.promise), Keystream(1)
    )
    counts = table.counts(["a"], mechanism.unit)
    half = DiscreteLaplace(plan.law.scale / 2)
    with pytest.raises(sc.PromiseError):
        counts.noisy([half], MergedSums(plan.questions.merged, plan.strategy))


def test_the_forecast_before_anything_is_read() -> None:
    forecast = _line(delta=1e-6).forecast(LINE)
    assert len(forecast.stderrs) == 24
    assert forecast.bound <= forecast.rmse <= min(forecast.tried.values()) * (1 + 1e-9)
    assert "kinds of rows" in forecast.sentences()[0]
    assert "SELECT COUNT(*) FROM t WHERE a <= 0" in repr(forecast)
    assert _line(delta=1e-6, epsilon=2).forecast(LINE).rmse < forecast.rmse


def test_questions_beyond_the_workload_are_refused_with_the_nearest() -> None:
    """A question that is no sum of planned ones has no answer: spread evenly, 39 % were covered."""
    asked = [
        "SELECT COUNT(*) FROM t WHERE sex = 'f'",
        "SELECT COUNT(*) FROM t WHERE age < 5",
        "SELECT COUNT(*) FROM t WHERE age BETWEEN 5 AND 7",
    ]
    mechanism = sc.Workload(
        ["age", "sex", "job"], queries=asked, epsilon=50, neighbours="add_remove"
    )
    table = people(2000, schema())
    release = sc.publish(table, schema(), mechanism, options=sc.PublishOptions(seed=1))
    ages = table["age"].to_pylist()
    for condition, truth in (
        ("age < 5", sum(age < 5 for age in ages)),
        ("age >= 5", sum(age >= 5 for age in ages)),
        ("age < 8", sum(age < 8 for age in ages)),
        ("age > 7", sum(age > 7 for age in ages)),
        ("age >= 0", 2000),
    ):
        known = release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
        assert known.value == pytest.approx(truth, abs=2)
        assert not known.notes
    for condition in (
        "age < 2",
        "age < 5 AND job = 'cook'",
        "job = 'cook'",
        "age < 6 OR sex = 'f'",
    ):
        with pytest.raises(sc.QueryError, match="tells rows apart that the published sums do not"):
            release.answer(f"SELECT COUNT(*) FROM t WHERE {condition}")
    with pytest.raises(sc.QueryError) as told:
        release.answer("SELECT COUNT(*) FROM t WHERE age < 2")
    assert f"The nearest of them: {asked[1]}; {asked[2]}; {asked[0]}." in str(told.value)
    for refused in (
        "SELECT age, COUNT(*) FROM t GROUP BY age",
        "SELECT SUM(age) FROM t",
        "SELECT AVG(age) FROM t WHERE age < 5",
        "SELECT SUM(100000 + age) FROM t WHERE age < 5",
    ):
        with pytest.raises(sc.QueryError, match="tells rows apart"):
            release.answer(refused)


def test_conditions_over_several_blocks() -> None:
    """The question is not planned for, but adds up cells of two tables that are."""
    queries = [
        "SELECT age, sex, COUNT(*) FROM t GROUP BY age, sex",
        "SELECT age, job, COUNT(*) FROM t GROUP BY age, job",
    ]
    mechanism = sc.Workload(
        ["age", "sex", "job"], queries=queries, epsilon=90, neighbours="add_remove"
    )
    table = people(3000, schema())
    release = sc.publish(table, schema(), mechanism, options=sc.PublishOptions(seed=1))
    rows = table.to_pylist()
    asked = "SELECT COUNT(*) FROM t WHERE (age < 3 AND sex = 'f') OR (age > 7 AND job = 'cook')"
    truth = sum(
        (row["age"] < 3 and row["sex"] == "f") or (row["age"] > 7 and row["job"] == "cook")
        for row in rows
    )
    found = release.answer(asked)
    assert found.value == pytest.approx(truth, abs=6 * found.stderr + 1)
    assert not found.notes


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SELECT 1\n\n-- a remark; here\nSELECT 2\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT\n 1;\nSELECT 'a;b' ;\n;", ["SELECT\n 1", "SELECT 'a;b'"]),
    ],
)
def test_questions_in_a_file(tmp_path: Path, text: str, kept: list[str]) -> None:
    (tmp_path / "questions.sql").write_text(text)
    mechanism = _line(queries=tmp_path / "questions.sql")
    assert mechanism.parameters["queries"] == kept


@pytest.mark.parametrize(
    ("queries", "sentence"),
    [
        (["SELECT COUNT(*) FROM t WHERE b = 1"], r"Question 1 of the workload, line 1, column 30"),
        (
            ["SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE a LIKE 'x%' = 3"],
            r"Question 2 of the workload, line 1, column 30",
        ),
        (
            ["SELECT COUNT(*) FROM t", "SELECT SUM(a) FROM t"],
            "Question 2 of the workload is no cou",
        ),
    ],
)
def test_questions_that_do_not_fit(queries: list[str], sentence: str) -> None:
    with pytest.raises(sc.ParameterError, match=sentence):
        sc.publish("no such file", LINE, _line(queries=queries))


def test_no_questions(subtests: pytest.Subtests) -> None:
    for queries in [[], ["", ";"], "no such file.sql", 3, [4]]:
        with (
            subtests.test(queries=queries),
            pytest.raises(sc.ParameterError, match="'queries' parameter of Workload"),
        ):
            _line(queries=queries)


def test_a_file_of_questions_is_an_ordinary_one(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A text never opens a file: over a network it would be a file of the server."""
    file = tmp_path / "questions.sql"
    file.write_text("SELECT COUNT(*) FROM t")
    (tmp_path / "link.sql").symlink_to(file)
    assert _line(queries=tmp_path / "link.sql").parameters["queries"] == ["SELECT COUNT(*) FROM t"]
    os.mkfifo(tmp_path / "pipe")
    reading, writing = os.pipe()
    os.close(writing)
    (tmp_path / "large.sql").touch()
    os.truncate(tmp_path / "large.sql", (1 << 24) + 1)
    for given, sentence in (
        (str(file), "must be a list of SQL counts"),
        (tmp_path / "no.sql", "There is no file"),
        (tmp_path / "pipe", "must be an ordinary file of at most 16 MiB"),
        (tmp_path / "large.sql", "must be an ordinary file of at most 16 MiB"),
        (Path(f"/dev/fd/{reading}"), "must be an ordinary file of at most 16 MiB"),
        (tmp_path, "must be an ordinary file of at most 16 MiB"),
        (Path("/dev/zero"), "must be an ordinary file of at most 16 MiB"),
    ):
        with subtests.test(given=given), pytest.raises(sc.ParameterError, match=sentence):
            _line(queries=given)
    os.close(reading)
