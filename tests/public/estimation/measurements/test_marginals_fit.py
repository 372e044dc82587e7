"""Non-negative tables: what they keep, and that they are nearer to the truth than noisy ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scumble as sc
from scumble.public.estimation.measurements.marginals import moved, raked, rounded
from scumble.public.synthesis.noisy_tables import onto_simplex
from tests.support.people import people, schema

ROWS = 3000


@pytest.fixture(scope="module")
def release() -> sc.Release:
    domain = schema(ages=30, health=6)
    mechanism = sc.Marginals(domain.names, ways=2, epsilon=1, delta=1e-6, neighbours="add_remove")
    return sc.publish(people(ROWS, domain), domain, mechanism, options=sc.PublishOptions(seed=1))


def test_projection_is_the_nearest_with_its_total() -> None:
    """Against the conditions of optimality: one number is taken from all cells that stay."""
    noisy = np.random.default_rng(1).normal(0, 10, (6, 7))
    found = onto_simplex(noisy, 25.0)
    assert found.min() == 0
    assert found.sum() == pytest.approx(25.0)
    taken = (noisy - found)[found > 0]
    assert taken == pytest.approx(np.full(len(taken), taken[0]))
    assert (noisy[found == 0] <= taken[0]).all()


def test_no_noise_moves_all_the_way_and_much_noise_not_at_all() -> None:
    start, noisy = np.full((3, 4), 10.0), np.arange(12.0).reshape(3, 4) * 10 + 1
    assert moved(start, noisy, 1e-6) == pytest.approx(noisy, rel=1e-3)
    assert moved(start, noisy, 1e9) == pytest.approx(start, rel=0.05)


def test_raking_finds_the_sums() -> None:
    table = np.random.default_rng(1).uniform(1, 2, (3, 4))
    sums = {(0,): np.array([5.0, 0.0, 1.0]), (1,): np.array([1.0, 2.0, 2.0, 1.0])}
    found = raked(table, sums)
    assert found.sum(axis=1) == pytest.approx(sums[(0,)])
    assert found.sum(axis=0) == pytest.approx(sums[(1,)])


def test_whole_numbers_keep_runs() -> None:
    table = np.random.default_rng(1).uniform(0, 2, (5, 9))
    found = rounded(table)
    assert (found == np.rint(found)).all()
    assert found.min() >= 0
    assert found.sum() == np.rint(table.sum())
    for row in range(5):
        assert abs(found[row].sum() - table[row].sum()) <= 1
        assert abs(found[: row + 1].sum() - table[: row + 1].sum()) <= 0.5 + 1e-9


def _counts(release: sc.Release, names: list[str], **how: bool) -> np.ndarray:
    shape = [release.schema[name].size for name in names]
    return release.marginals.marginal(names, **how)["count"].to_numpy().reshape(shape)


def test_tables_agree_with_each_other(release: sc.Release) -> None:
    names = release.evidence.columns
    ones = {name: _counts(release, [name], nonnegative=True) for name in names}
    for one, other in itertools.permutations(names, 2):
        table = _counts(release, [one, other], nonnegative=True)
        assert table.min() >= 0
        assert np.abs(table.sum(axis=1) - ones[one]).sum() < 1e-3
        assert table == pytest.approx(_counts(release, [other, one], nonnegative=True).T)


def test_a_table_of_three_follows_from_those_of_two(release: sc.Release) -> None:
    """No table of three was measured: it has the sums of those of two, and no question about it is
    answered.
    """
    table = _counts(release, ["age", "sex", "job"], nonnegative=True)
    pair = _counts(release, ["age", "job"], nonnegative=True)
    assert np.abs(table.sum(axis=1) - pair).sum() < 1
    with pytest.raises(sc.QueryError, match="ties age, sex, job together"):
        release.marginals.marginal(["age", "sex", "job"])


def test_fitted_tables_are_nearer(release: sc.Release) -> None:
    """On average over all pairs; the private table is known here."""
    rows = people(ROWS, schema(ages=30, health=6))
    plain, fitted = [], []
    for names in itertools.combinations(release.evidence.columns, 2):
        values = [release.schema[name].labels().to_pylist() for name in names]
        codes = [
            [known.index(value) for value in rows[name].to_pylist()]
            for name, known in zip(names, values, strict=True)
        ]
        shape = [release.schema[name].size for name in names]
        truth = np.zeros(shape)
        np.add.at(truth, tuple(codes), 1)
        plain.append(np.abs(_counts(release, list(names)) - truth).sum())
        fitted.append(np.abs(_counts(release, list(names), nonnegative=True) - truth).sum())
    assert np.mean(fitted) < 0.5 * np.mean(plain)


def test_whole_tables_have_the_total(release: sc.Release) -> None:
    total = round(float(_counts(release, [], nonnegative=True).sum()))
    table = release.marginals.marginal(["job", "age"], nonnegative=True, integers=True)
    assert table.column_names == ["job", "age", "count"]
    assert sum(table["count"].to_pylist()) == total
    assert all(isinstance(count, int) and count >= 0 for count in table["count"].to_pylist())
    assert table["job"].to_pylist()[:2] == ["cook", "cook"]


def test_estimates_are_those_of_questions(release: sc.Release) -> None:
    answers = release.answer("SELECT sex, job, COUNT(*) FROM t GROUP BY sex, job")
    table = release.marginals.marginal(["sex", "job"]).to_pylist()
    assert [row["count"] for row in table] == pytest.approx([e.value for _, e in answers])


def test_refusals(release: sc.Release) -> None:
    with pytest.raises(sc.QueryError, match="no column 'height'"):
        release.marginals.marginal(["height"])
    with pytest.raises(sc.QueryError, match="there twice"):
        release.marginals.marginal(["age", "age"])
    cells = sc.Histogram(["age"], epsilon=1, neighbours="replace")
    other = sc.publish(people(9, schema()), schema(), cells, options=sc.PublishOptions(seed=1))
    with pytest.raises(sc.ParameterError, match="by marginals, fourier or datacube has"):
        other.marginals.marginal(["age"])


def test_of_an_empty_table_nothing_is_made_up() -> None:
    """The estimated total may fall below 0; then all cells are 0."""
    domain = schema()
    mechanism = sc.Marginals(domain.names, ways=2, epsilon=1, neighbours="add_remove")
    totals = []
    for seed in range(12):
        release = sc.publish(
            people(0, domain), domain, mechanism, options=sc.PublishOptions(seed=seed)
        )
        total = float(_counts(release, []).sum())
        fitted = _counts(release, ["age", "job"], nonnegative=True)
        assert fitted.sum() == pytest.approx(max(total, 0.0), abs=1e-6)
        totals.append(total)
    assert min(totals) < 0 < max(totals)
