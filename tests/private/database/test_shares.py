"""Totals and shares in a database: their law, and that they cost nothing beside the counts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.database.answers import Average, Weights
from tests.support.database.small_database import count, database, given, some_people

COUNTS = "SELECT sex, COUNT(*) AS n FROM t WHERE age > 1 GROUP BY sex"
W = "FROM t WHERE age > 1 GROUP BY sex"
FREE = [
    f"SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share {W}",
    f"SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS p, SUM(COUNT(*)) OVER () AS n {W} LIMIT 1",
    f"SELECT sex, COUNT(*) / (SELECT COUNT(*) FROM t WHERE age > 1) AS s {W}",
    f"SELECT sex, COUNT(*) / (SELECT COUNT(*) FROM t) AS share {W}",
    "WITH w AS (SELECT * FROM t WHERE age > 1) SELECT sex, COUNT(*) FROM w GROUP BY sex",
    "WITH w AS (SELECT sex AS s FROM t WHERE age > 1) SELECT s, COUNT(*) FROM w GROUP BY s",
    "SELECT s.sex, COUNT(*) FROM (SELECT * FROM t WHERE age > 1) AS s GROUP BY s.sex",
    f"SELECT sex, COUNT(*) AS n {W} ORDER BY ALL DESC LIMIT 1",
    f"SELECT sex AS who, COUNT(*) AS n, n / 2 AS half {W} HAVING n > 0",
    "SELECT MODE(sex) FROM t WHERE age > 1",
]


def test_totals_shares_and_names_are_made_of_the_same_counts(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    with database(tmp_path / "db") as db:
        counts = {key: each.value for (key,), each in db.answer(COUNTS)}
        before = len(given(tmp_path / "db"))
        for sql in FREE:
            with subtests.test(sql):
                assert db.preview(sql).charged == 0
                db.answer(sql)
                assert len(given(tmp_path / "db")) == before
        shares = db.answer(FREE[0])
        for (key,), share in shares:
            assert share.value == pytest.approx(counts[key] / sum(counts.values()))
            assert share.status == "repeated"
        [(_, [_, total])] = db.answer(FREE[1]).rows
        assert total.value == sum(counts.values())
        for (key,), share in db.answer(FREE[3]):
            assert share.value == pytest.approx(counts[key] / 40)  # the public number of rows


def test_quantiles_of_a_list_are_paid_for_once(tmp_path: Path) -> None:
    with database(tmp_path / "db") as db:
        assert db.preview("SELECT MEDIAN(age) FROM t").charged == 6
        answer = db.answer("SELECT quantile_cont(age, [0.25, 0.5, 0.75]) AS q FROM t")
        assert len(given(tmp_path / "db")) == 6
        assert answer["q_0.5"].value == db.answer("SELECT MEDIAN(age) FROM t").value


def test_a_total_of_an_unknown_number_of_rows_is_the_sum_of_its_groups(tmp_path: Path) -> None:
    """Rows outside of the domain are left out, so that the number of the others is not public."""
    sql = "SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY sex"
    with database(tmp_path / "db", outside="drop") as db:
        counts = {
            key: each.value for (key,), each in db.answer("SELECT sex, COUNT(*) FROM t GROUP BY 1")
        }
        for (key,), share in db.answer(sql):
            assert share.value == pytest.approx(counts[key] / sum(counts.values()))
        assert len(given(tmp_path / "db")) == 2
    with database(tmp_path / "sized") as db:
        answer = db.answer(sql.replace("AS share", "AS share, SUM(COUNT(*)) OVER () AS n"))
        assert {row[1].value for _, row in answer.rows} == {40}
        assert {row[1].stderr for _, row in answer.rows} == {0}


def test_a_share_is_refused_and_not_relaxed(tmp_path: Path) -> None:
    """The count of a group and its total must be about the rows that were asked for."""
    sql = "SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t WHERE age = 3 GROUP BY sex"
    with database(tmp_path / "db") as db:
        for low in range(4):
            db.answer(count(low, 3))
        assert db.preview(sql).status == "refused"
        with pytest.raises(sc.PromiseError):
            db.answer(sql)
        assert len(given(tmp_path / "db")) == 4


def test_a_share_by_enumeration() -> None:
    """All pairs of noises of two groups, with their exact probabilities: N(a)/(N(a) + N(b)).

    The variance of N(a) - s·N is that of the two noises together, (1 - s)² + s² times one, and the
    interval covers at least its level. Noises beyond 30 have a probability below 1e-6 in all.
    """
    law, true = DiscreteLaplace(Fraction(2)), (9, 14)
    one, noises = law.stderr**2, range(-30, 31)
    wanted = true[0] / sum(true)
    covered = square = 0.0
    for first, second in product(noises, repeat=2):
        total, other = true[0] + first, true[1] + second
        chance = law.pmf(first) * law.pmf(second)
        own, both = Weights(1.0, 1.0, one), Weights(2.0, 2.0, 2 * one)
        share = Average(total, total + other, own, both, 0.0, 1.0, 1.0, one)
        low, high = share.interval(0.0, 0.95)
        covered += chance * (low - 1e-9 <= wanted <= high + 1e-9)
        square += chance * (total - wanted * (total + other)) ** 2
    assert share.variance(wanted) == pytest.approx(square, rel=1e-4)
    assert covered + 1e-6 >= 0.95
    assert share.variance(wanted) < one * (1 + 2 * wanted**2)  # of two numbers on their own
    assert math.isclose(share.count_variance, 2 * one)


@pytest.mark.slow
def test_coverage_of_shares(tmp_path: Path) -> None:
    """Six shares in each of 100 databases. Of 600 intervals at 95 % fewer than 554 hold by chance
    with probability 0.002 (binomial law; shares of one database depend on each other, which the
    conservative bound on the noise outweighs).
    """
    table = some_people(400)
    sql = "SELECT age, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t WHERE sex = 'f' GROUP BY age"
    ages = [row["age"] for row in table.to_pylist() if row["sex"] == "f"]
    held = 0
    for seed in range(100):
        with database(tmp_path / str(seed), table, seed=seed) as db:
            for (age,), share in db.answer(sql):
                low, high = share.interval(0.95)
                held += low - 1e-9 <= ages.count(age) / len(ages) <= high + 1e-9
    assert held >= 554
