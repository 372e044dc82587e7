"""Several releases of one table together: least squares against dense matrices, the law of the
error, the joint promise, and refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.model.designs.residuals import Residuals
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import epsilon_for
from scumble.public.estimation.interval_laws import noise_half_width
from tests.support.marginal_matrices import measured
from tests.support.publishing import publish

SIZES = {"a": 2, "b": 3, "c": 2}
SCHEMA = sc.Schema(
    tuple(sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in SIZES.items())
)
RNG = np.random.default_rng(5)
ROWS = pa.table({name: RNG.integers(0, size, 200) for name, size in SIZES.items()})
ADD = {"neighbours": "add_remove"}
GAUSSIAN = {"delta": 1e-6, **ADD}
QUESTIONS = {
    "SELECT COUNT(*) FROM t": lambda a, b, c: 1,
    "SELECT COUNT(*) FROM t WHERE a = 1 AND b < 2": lambda a, b, c: a == 1 and b < 2,
    "SELECT COUNT(*) FROM t WHERE b = 1 AND c = 0": lambda a, b, c: b == 1 and c == 0,
    "SELECT SUM(b) FROM t WHERE a = 0": lambda a, b, c: b * (a == 0),
}


def pairs(names: list[str], **given: Any) -> sc.Marginals:
    return sc.Marginals(names, ways=2, **given)


def made(method: Any, seed: int, table: pa.Table = ROWS) -> sc.Release:
    release = publish(table, SCHEMA, method, seed=seed)
    assert isinstance(release, sc.Release)
    return release


def dense(
    releases: Sequence[sc.Release], weights: np.ndarray, rows: int | None = None
) -> tuple[float, float]:
    """The least squares estimate of Σ weight · count and its variance, by a pseudo-inverse."""
    total = np.zeros((len(weights), len(weights)))
    right = np.zeros(len(weights))
    for release in releases:
        design = cast(Residuals, release.evidence.design)  # type: ignore[attr-defined]
        numbers = pq.read_table(release.folder / release.evidence.files[0])[design.count]
        order = [list(SIZES).index(name) for name in design.attributes]
        # Cells of the design as cells of the whole domain.
        cells = np.arange(len(weights)).reshape(tuple(SIZES.values()))
        others = tuple(axis for axis in range(3) if axis not in order)
        moved = cells.transpose([*order, *others]).reshape(int(np.prod(design.sizes)), -1)
        spread = np.zeros((len(moved), len(weights)))
        for line, some in enumerate(moved):
            spread[line, some] = 1
        for table, own in zip(design.tables, design.slices(), strict=True):
            counts, noises = measured(design.sizes, table)
            precision = np.linalg.inv(noises @ noises.T * table.law.variance)
            total += spread.T @ counts.T @ precision @ counts @ spread
            right += spread.T @ counts.T @ precision @ numbers.to_numpy()[own]
    if rows is not None:
        sure = 1e7 * np.linalg.norm(total)
        total, right = total + sure, right + sure * rows
    inverse = np.linalg.pinv(total, rcond=1e-14)
    return float(weights @ inverse @ right), float(weights @ inverse @ weights)


def weights_of(question: str) -> np.ndarray:
    values = product(*(range(size) for size in SIZES.values()))
    return np.array([float(QUESTIONS[question](*each)) for each in values])


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "methods",
    [
        (pairs(["a", "b"], epsilon=1, **ADD), pairs(["b", "c"], epsilon=2, **ADD)),
        # Columns in another order, and Gaussian noise beside Laplace noise.
        (pairs(["c", "b", "a"], epsilon=1, **GAUSSIAN), pairs(["b", "a"], epsilon=2, **ADD)),
        (
            sc.Fourier(["c", "a"], ways=2, epsilon=1, **ADD),
            pairs(["b", "c", "a"], epsilon=1, **ADD),
        ),
    ],
)
def test_marginals_are_fitted_as_one(methods: tuple[Any, Any], question: str) -> None:
    releases = [made(method, seed) for seed, method in enumerate(methods)]
    weights = weights_of(question)
    value, variance = dense(releases, weights)
    found = sc.combine(releases).number(question)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.stderr**2 == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_number_of_rows_is_used_where_it_is_known(question: str) -> None:
    methods = (
        sc.Marginals(["a", "b", "c"], ways=2, epsilon=1, neighbours="replace"),
        sc.Marginals(["c", "b"], ways=2, epsilon=1, neighbours="replace"),
    )
    releases = [made(method, seed) for seed, method in enumerate(methods)]
    value, variance = dense(releases, weights_of(question), rows=200)
    found = sc.combine(releases).number(question)
    assert found.value == pytest.approx(value, rel=1e-5)
    assert found.stderr**2 == pytest.approx(variance, rel=1e-5, abs=1e-5)


PLANNED = [f"SELECT COUNT(*) FROM t WHERE a = {a} AND b = {b}" for a in (0, 1) for b in (0, 1, 2)]
OTHERS = (
    sc.Histogram(["b", "a"], epsilon=1, **ADD),
    sc.Hierarchy(["a", "b"], epsilon=2, **ADD),
    sc.Workload(["b", "a"], queries=PLANNED, epsilon=1, **ADD),
    sc.Marginals(["a", "b", "c"], ways=2, epsilon=1, **ADD),
)


@pytest.mark.parametrize("question", [each for each in QUESTIONS if "c =" not in each])
@pytest.mark.parametrize("some", [(0, 1), (0, 3), (1, 2), (0, 1, 2, 3)])
def test_designs_of_several_kinds_are_weighed_by_their_precision(
    some: tuple[int, ...], question: str
) -> None:
    releases = [made(OTHERS[place], place) for place in some]
    singles = [release.number(question) for release in releases]
    precisions = np.array([each.stderr**-2 for each in singles])
    shares = precisions / precisions.sum()
    found = sc.combine(releases).number(question)
    assert found.value == pytest.approx(float(shares @ [each.value for each in singles]))
    assert found.stderr == pytest.approx(float(precisions.sum()) ** -0.5)
    assert found.stderr < min(each.stderr for each in singles)


def test_a_question_is_answered_by_the_releases_that_can() -> None:
    pairs = made(sc.Marginals(["b", "c"], ways=2, epsilon=1, **ADD), 1)
    both = sc.combine([made(OTHERS[0], 0), pairs])
    question = "SELECT b, COUNT(*) FROM t WHERE c = 1 GROUP BY b"
    alone, found = pairs.groups(question), both.groups(question)
    for (key, one), (other, two) in zip(alone, found, strict=True):
        assert (key, one.value, one.stderr) == (other, two.value, two.stderr)
    with pytest.raises(sc.QueryError, match="None of these releases determines counts by a and c"):
        both.ask("SELECT COUNT(*) FROM t WHERE a = 0 AND c = 1")
    assert both.ask_many([question, "SELECT COUNT(*) FROM t"])[1] == both.ask(
        "SELECT COUNT(*) FROM t"
    )


def test_groups_averages_and_tables_have_the_law_of_all_releases() -> None:
    releases = [made(OTHERS[0], 0), made(OTHERS[1], 1)]
    both = sc.combine(releases)
    for key, one in both.groups("SELECT a, AVG(b) FROM t GROUP BY a"):
        alone = [each.groups("SELECT a, AVG(b) FROM t GROUP BY a")[key] for each in releases]
        assert one.stderr < 1.01 * min(each.stderr for each in alone)
    table = both.table("SELECT a, COUNT(*), AVG(b), STDDEV(b) FROM t GROUP BY a")
    assert len(table.rows) == 2
    assert both.number("SELECT AVG(b) FROM t WHERE a = 1").interval(0.95)[0] > 0


def _errors(scale: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The values of `share` times Laplace noise, and their probabilities."""
    law, reach = DiscreteLaplace(Fraction(scale)), 40 * scale
    values = np.arange(-reach, reach + 1)
    return share * values, np.array([law.pmf(int(value)) for value in values])


@pytest.mark.parametrize("scales", [(1, 1), (1, 2), (2, 5), (1, 3, 4)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_intervals_hold_by_enumeration(scales: tuple[int, ...], level: float) -> None:
    """One noise of each release, with the shares of least squares: no noise is further away from 0
    than the interval with more than the probability that it allows.
    """
    laws = [DiscreteLaplace(Fraction(scale)) for scale in scales]
    precisions = np.array([1 / law.variance for law in laws])
    shares = precisions / precisions.sum()
    parts = [_errors(scale, share) for scale, share in zip(scales, shares, strict=True)]
    errors = reduce(np.add.outer, [values for values, _ in parts]).reshape(-1)
    chances = reduce(np.multiply.outer, [each for _, each in parts]).reshape(-1)
    half = noise_half_width(
        1 / precisions.sum(),
        sum(s**4 * law.fourth for s, law in zip(shares, laws, strict=True)),
        float(shares.max()),
        level,
    )
    assert chances[np.abs(errors) <= half + 1e-9].sum() >= level


@pytest.mark.parametrize("seeds", [100, pytest.param(400, marks=pytest.mark.soak)])
def test_unbiased_with_the_stated_variance(seeds: int) -> None:
    """Pairs of releases, 3 questions: means and mean squares of z within 4.4 standard errors, a
    false alarm once in 20,000 (mean squares by the kurtosis of the Laplace law, at most 6).
    """
    asked = list(QUESTIONS)[:2] + list(QUESTIONS)[3:]
    cells = np.zeros(tuple(SIZES.values()))
    np.add.at(cells, tuple(ROWS[name].to_numpy() for name in SIZES), 1)
    truth = np.array([weights_of(question) @ cells.reshape(-1) for question in asked])
    scores = []
    for seed in range(seeds):
        both = sc.combine([made(OTHERS[0], 2 * seed), made(OTHERS[3], 2 * seed + 1)])
        answers = [both.number(question) for question in asked]
        scores.append(
            [(each.value - t) / each.stderr for each, t in zip(answers, truth, strict=True)]
        )
    found = np.array(scores)
    assert np.abs(found.mean(axis=0)).max() < 4.4 / seeds**0.5
    assert np.abs((found**2).mean(axis=0) - 1).max() < 4.4 * (5 / seeds) ** 0.5


def test_the_promise_of_all_releases_is_that_of_the_ledger(tmp_path: Path) -> None:
    pure = [made(OTHERS[0], 1), made(OTHERS[1], 2)]
    [promise] = sc.combine(pure).guarantees
    assert (promise.statement, promise.parameters["epsilon"]) == ("ε-DP", 3.0)
    assert "together keep ε = 3;" in repr(sc.combine(pure))
    gaussian = made(sc.Marginals(["a", "b"], ways=2, epsilon=1, **GAUSSIAN), 3)
    rho = gaussian.guarantees[0].parameters["rho"] + 0.5
    [promise] = sc.combine([pure[0], gaussian]).guarantees
    # The sum of both ε is smaller here than what the sum of the ρ amounts to.
    assert epsilon_for(rho, 1e-6) > 2
    assert promise.statement == "(ε, δ)-DP"
    assert promise.parameters == pytest.approx({"epsilon": 2, "delta": 1e-6, "contribution": 1})
    more = [gaussian, *(made(pairs(["a", "b"], epsilon=1, **GAUSSIAN), seed) for seed in (4, 5))]
    [promise] = sc.combine(more).guarantees
    total = 3 * gaussian.guarantees[0].parameters["rho"]
    numbers = {"epsilon": epsilon_for(total, 3e-6), "delta": 3e-6, "rho": total, "contribution": 1}
    assert promise.parameters == pytest.approx(numbers)
    assert promise.parameters["epsilon"] < 3
    ledger = sc.Ledger.create(tmp_path / "ledger", epsilon=50, delta=1e-6, **ADD)
    for method in (OTHERS[0], sc.Marginals(["a", "b"], ways=2, epsilon=1, **GAUSSIAN)):
        sc.publish(ROWS, SCHEMA, method, ledger=ledger)
    total_charged = ledger.totals[None]
    assert total_charged.epsilon == 1
    assert float(total_charged.rho) == pytest.approx(rho - 0.5)


def test_the_promise_of_normal_noise_counts_as_rho() -> None:
    more = [made(sc.Dyadic(["a", "b"], epsilon=1, **GAUSSIAN), seed) for seed in range(4)]
    [promise] = sc.combine(more).guarantees
    total = 4 * more[0].guarantees[0].parameters["mu"] ** 2 / 2
    assert promise.parameters["rho"] == pytest.approx(total)
    assert promise.parameters["epsilon"] == pytest.approx(epsilon_for(total, 4e-6))
    assert promise.parameters["epsilon"] < 4


def test_refusals() -> None:
    first, second = made(OTHERS[0], 1), made(OTHERS[1], 2)
    with pytest.raises(sc.ParameterError, match="two or more releases"):
        sc.combine([first])
    with pytest.raises(sc.ReleaseError, match=r"1 and 2 .* same noisy numbers: give each"):
        sc.combine([first, first])
    with pytest.raises(sc.ReleaseError, match=r"Release 2 .* it is by mosaic, and combine takes"):
        sc.combine([first, made(sc.Mosaic(["a", "b"], epsilon=1, **ADD), 1)])
    with pytest.raises(sc.ReleaseError, match="it is by synthesis"):
        sc.combine([first, made(sc.Synthesis(["a", "b"], epsilon=1, **GAUSSIAN), 1)])
    with pytest.raises(sc.ReleaseError, match="replace one person"):
        sc.combine([first, made(sc.Histogram(["a"], epsilon=1, neighbours="replace"), 3)])
    with pytest.raises(sc.ReleaseError, match="contribution"):
        sc.combine([first, made(sc.Histogram(["a"], epsilon=1, contribution=2, **ADD), 3)])
    known = [
        made(sc.Histogram(["a"], epsilon=1, neighbours="replace"), 4, table)
        for table in (ROWS, ROWS.slice(1))
    ]
    with pytest.raises(sc.ReleaseError, match="different numbers of rows"):
        sc.combine(known)
    sampled = publish(ROWS, SCHEMA, sc.Histogram(["a"], epsilon=1, **ADD), seed=1, sample=0.5)
    with pytest.raises(sc.ReleaseError, match="a secret sample"):
        sc.combine([first, sampled])
    with pytest.raises(sc.QueryError, match="no column 'c'"):
        sc.combine([first, second]).ask("SELECT COUNT(*) FROM t WHERE c = 1")


def test_a_part_of_a_table_is_not_combined_with_others(tmp_path: Path) -> None:
    ledger = sc.Ledger.create(tmp_path / "ledger", epsilon=9, parts="a", **ADD)
    method = sc.Histogram(["b"], epsilon=1, **ADD)
    of_one, again, of_other = (
        sc.publish(sc.Table(ROWS, part=part), SCHEMA, method, ledger=ledger) for part in (0, 0, 1)
    )
    for other in (of_other, made(method, 1)):
        with pytest.raises(sc.ReleaseError, match="of a part of the table"):
            sc.combine([of_one, other])
    assert sc.combine([of_one, again]).guarantees[0].parameters["epsilon"] == 2
