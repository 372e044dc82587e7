"""A database answers sums and averages of money by the amounts that it holds, with or without edges
for counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import scumble as sc
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.database import session
from scumble.private.database.tables import BoxCounter
from tests.support.database.small_database import database, given

GROUPS = 640
RNG = np.random.default_rng(7)
PAY = np.round(RNG.lognormal(3, 1, 32_000), 1)
PEOPLE = pa.table(
    {
        "g": np.arange(len(PAY)) % GROUPS,
        "pay": pa.array(PAY, mask=RNG.random(len(PAY)) < 0.1),
    }
)
LEVELS = (0.9, 0.95, 0.99)


def _schema(edges: tuple[float, ...], step: float = 0.5, *, missing: bool = True) -> sc.Schema:
    number = sc.Number(0, 100, step)
    domain = sc.BinnedNumber.of(number, edges) if edges else number
    return sc.Schema(
        [
            sc.Attribute("g", "quasi", sc.IntegerRange(0, GROUPS - 1)),
            sc.Attribute("pay", "sensitive", domain, missing=missing),
        ],
        sc.Unit(),
    )


def _amounts(step: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Return clamped and rounded amounts, and who has one."""
    known = ~PEOPLE["pay"].is_null().to_numpy(zero_copy_only=False)
    steps = np.floor(np.clip(PAY, 0, 100) / step + 0.5)
    return steps * step, known


@pytest.mark.parametrize("edges", [(), (10, 50)])
@pytest.mark.parametrize("step", [0.5, 1])
def test_without_noise_the_answers_are_those_of_clamped_amounts(
    edges: tuple[float, ...], step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "discrete_laplace", lambda stream, scale, size: [0] * size)
    pay, known = _amounts(step)
    few = known & (np.asarray(PEOPLE["g"]) < 100)
    rich = known & (pay >= 12.5)
    truths = {
        "SUM(pay) FROM t": pay[known].sum(),
        "AVG(pay) FROM t": pay[known].mean(),
        "AVG(pay) FROM t WHERE g < 100": pay[few].mean(),
        "AVG(2 * pay - 1) FROM t": 2 * pay[known].mean() - 1,
        "STDDEV_POP(pay) FROM t": pay[known].std(),
        "VAR_SAMP(pay) FROM t WHERE g < 100": pay[few].var(ddof=1),
        "SUM(pay * pay) FROM t": (pay[known] ** 2).sum(),
        "COUNT(*) FROM t WHERE pay >= 12.5": rich.sum(),
        "SUM(pay) FROM t WHERE pay >= 12.5": pay[rich].sum(),
        "COUNT(*) FROM t WHERE pay IS NULL": (~known).sum(),
        "SUM(CASE WHEN pay > 90 THEN pay ELSE 0 END) FROM t": pay[known & (pay > 90)].sum(),
    }
    schema = _schema(edges, step)
    with database(tmp_path / "db", PEOPLE, schema=schema, epsilon=1, noise=100) as db:
        for question, truth in truths.items():
            assert db.answer(f"SELECT {question}").value == pytest.approx(truth), question
        assert db.ask("SELECT SUM(pay * 2), AVG(pay) FROM t").charged == 0


def test_the_noise_is_by_the_limits(tmp_path: Path) -> None:
    """λ times the highest amount in steps, whatever the table; a square costs a quarter of the
    squared width.
    """
    noise, high = 4, 200
    tiny = PEOPLE.slice(0, 5)
    with database(tmp_path / "db", tiny, schema=_schema(()), epsilon=10, noise=noise) as db:
        found = db.answer("SELECT SUM(pay) FROM t")
        law = DiscreteLaplace(noise * high)
        assert found.stderr == pytest.approx(float(law.variance) ** 0.5 / 2)
        charged = db.ask("SELECT VAR_POP(pay) FROM t")
        assert charged.charged <= 2
    [square] = [
        number for number in given(tmp_path / "db") if number.kind not in ('sum "pay"', "count")
    ]
    assert square.times == (high // 2) ** 2


@pytest.mark.parametrize("asked", ["SUM(pay)", "AVG(pay)"])
def test_intervals_hold(asked: str, tmp_path: Path) -> None:
    """Each of 640 groups has noise of its own. Three levels, each fails once in 10^6 by chance."""
    pay, known = _amounts()
    groups = np.asarray(PEOPLE["g"])
    sums = np.bincount(groups, np.where(known, pay, 0))
    counts = np.bincount(groups, known)
    truth = sums if asked.startswith("SUM") else sums / counts
    schema = _schema((20,))
    with database(tmp_path / "db", PEOPLE, schema=schema, epsilon=5, noise=2) as db:
        answers = db.answer(f"SELECT g, {asked} FROM t GROUP BY g")
        found = {key[0]: each for key, each in answers.rows}
    assert len(found) == GROUPS
    for level in LEVELS:
        held = 0
        for group, each in found.items():
            low, high = each.interval(level)
            held += low <= truth[group] <= high
        assert held >= stats.binom.ppf(1e-6, GROUPS, level)


def test_appended_rows_and_an_opened_database_have_amounts(tmp_path: Path) -> None:
    schema = _schema((10, 50))
    one, other = PEOPLE.slice(0, 16_000), PEOPLE.slice(16_000)
    with database(tmp_path / "db", one, schema=schema, epsilon=1, noise=100) as db:
        db.append(other)
        before = db.answer("SELECT AVG(pay) FROM t")
    with sc.Database.open(tmp_path / "db", one, schema, batches=[other], seed=1) as db:
        after = db.answer("SELECT AVG(pay) FROM t")
    assert (after.value, after.interval()) == (before.value, before.interval())


@pytest.mark.parametrize("sizes", [(3, 5000, 4), (5000,), (7, 8), (9000, 9000), (5000, 2, 6000, 3)])
def test_counts_beside_columns_of_many_amounts(sizes: tuple[int, ...]) -> None:
    """Boxes that do not limit amounts are counted by a table of the other columns."""
    random = np.random.default_rng(len(sizes))
    columns = [random.integers(0, size, 2000).astype(np.uint16) for size in sizes]
    counter = BoxCounter(columns, sizes)
    ends = [
        [
            (0, size - 1) if random.random() < 0.5 else np.sort(random.integers(0, size, 2))
            for size in sizes
        ]
        for _ in range(60)
    ]
    boxes = np.array(ends, np.int64)
    truths = [
        np.logical_and.reduce(
            [(low <= c) & (c <= high) for c, (low, high) in zip(columns, box, strict=True)]
        ).sum()
        for box in boxes
    ]
    assert counter.counts(boxes) == truths
    assert [counter.counts(box[np.newaxis])[0] for box in boxes] == truths


@pytest.mark.parametrize("step", [1, 0.5])
def test_a_refused_quantile_or_grouping_names_an_expression_that_is_answered(
    step: float, tmp_path: Path
) -> None:
    rows = pa.table({"pay": np.arange(5000) * 3})
    schema = sc.Schema([sc.Attribute("pay", "sensitive", sc.Number(0, 20_000, step))], sc.Unit())
    written = '"pay" // {}' if step == 1 else 'floor("pay" / {})'
    with database(tmp_path / "db", rows, schema=schema, epsilon=1, noise=20) as db:
        for asked, told in (
            ("MEDIAN(pay) FROM t", written.format(20)),
            ("QUANTILE_DISC(pay + 5, 0.9) FROM t", written.format(20).replace('"pay"', "({})")),
            ("pay, COUNT(*) FROM t GROUP BY pay", written.format(200)),
        ):
            with pytest.raises(sc.QueryError) as refused:
                db.answer(f"SELECT {asked}")
            assert told.replace("{}", '"pay" + 5') in str(refused.value)
        assert db.answer(f"SELECT {written.format(200)}, COUNT(*) FROM t GROUP BY 1")
        low, high = db.answer(f"SELECT MEDIAN({written.format(20)}) FROM t").interval(0.95)
        assert low <= 7497 // 20 <= high
