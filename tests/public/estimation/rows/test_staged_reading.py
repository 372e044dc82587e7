"""Aroma's rows read by stages: exact moments, exact unbiasedness over all multisets, coverage.

The coverage test counts 2,400 intervals of groups that share one release. At each level it fails by
chance once in a million sets of draws (and draws are fixed).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.evidence.channels import PoolLaw
from scumble.public.estimation.rows import answer, posterior_law, staged_reading
from scumble.public.estimation.rows.posterior_law import PosteriorLaw, StagedInverse
from scumble.public.estimation.rows.staged_reading import deal, posterior_laws
from scumble.public.release import Release
from tests.support.covered import LEVELS, held, least
from tests.support.mechanisms.pool_multisets import bags
from tests.support.outcomes import multiset_channel, release

POOLS = [((1, 2, 3), 2), ((1, 1, 1), 4), ((1, 5), 3), ((3, 1, 1, 2), 3), ((1, 1), 5)]


@pytest.mark.parametrize(("weights", "k"), POOLS)
def test_moments_are_those_of_all_multisets(weights: tuple[int, ...], k: int) -> None:
    pool, generator = PoolLaw(weights, k), np.random.default_rng(k)
    shares = generator.dirichlet(np.ones(len(weights))) * 0.999 + 0.001 / len(weights)
    law = PosteriorLaw(pool, shares)
    one, other = generator.normal(size=(2, 1, len(weights)))
    for true in range(len(weights)):
        known, _ = bags(pool, true)
        chances = np.array([float(chance) for chance in known.values()])
        shown = law.posterior(np.array(list(known), float))
        assert shown.sum(axis=1) == pytest.approx(np.ones(len(shown)))
        assert law.means()[true] == pytest.approx(chances @ shown, rel=1e-12)
        products = (shown @ one[0]) * (shown @ other[0])
        assert law.second(one, other)[0, true] == pytest.approx(chances @ products, rel=1e-10)
        cubes = (shown @ one[0]) ** 3
        assert law.third(one)[0, true] == pytest.approx(chances @ cubes, rel=1e-10)


def test_with_the_shares_of_the_pool_it_is_the_plain_reader() -> None:
    pool = PoolLaw((1, 2, 3), 4)
    law = PosteriorLaw(pool, np.array([1, 2, 3]) / 6)
    assert law.posterior(np.array([[2.0, 0, 2]]))[0] == pytest.approx([0.5, 0, 0.5])
    inverse, holds = StagedInverse([law], np.zeros(1, np.intp)), np.array([[1.0, 0, 0]])
    assert inverse.covariance(holds, holds)[0] == pytest.approx(np.full(3, 3 * 5 / 36))


def _every(pool: PoolLaw, true: list[int]) -> list[tuple[np.ndarray, float]]:
    """All multisets of some rows, with their probability."""
    choices = [bags(pool, value)[0].items() for value in true]
    found = []
    for chosen in itertools.product(*choices):
        chance = np.prod([float(each) for _, each in chosen])
        found.append((np.array([bag for bag, _ in chosen], float), float(chance)))
    return found


def _read(pool: PoolLaw, counts: np.ndarray, stages: np.ndarray) -> tuple[float, float]:
    """The estimated number of rows with value 0, and its estimated variance."""
    laws = posterior_laws(pool, counts, stages, int(stages.max()))
    holds = np.eye(pool.values)[:1]
    total = variance = 0.0
    for row, stage in zip(counts, stages, strict=True):
        inverse = StagedInverse([laws[stage]], np.zeros(1, np.intp))
        shown = laws[stage].posterior(row[None])[0]
        total += float(shown @ inverse.invert(holds)[0])
        variance += float(shown @ inverse.invert(inverse.covariance(holds, holds))[0])
    return total, variance


@pytest.mark.parametrize(("weights", "k"), [((1, 1), 3), ((1, 2, 1), 2)])
@pytest.mark.parametrize("stages", [(0, 1, 2), (0, 0, 1), (1, 0, 1)])
def test_unbiased_over_all_multisets(
    weights: tuple[int, ...], k: int, stages: tuple[int, ...]
) -> None:
    """Later stages follow what earlier ones showed, and the mean is still the count, the mean of
    the estimated variance the variance: errors of stages are uncorrelated.
    """
    pool, true = PoolLaw(weights, k), [0, 0, 1]
    found = [(*_read(pool, counts, np.array(stages)), p) for counts, p in _every(pool, true)]
    totals, variances, chances = np.array(found).T
    assert chances.sum() == pytest.approx(1)
    assert chances @ totals == pytest.approx(2, rel=1e-9)
    assert chances @ variances == pytest.approx(chances @ (totals - 2) ** 2, rel=1e-9)


def test_stages_by_the_place_of_sorted_rows_are_biased() -> None:
    """Why coins must be independent: with fixed places of sorted rows the mean is off."""
    pool, true, stages = PoolLaw((1, 1), 3), [0, 0, 1], np.array([0, 1, 1])
    mean = 0.0
    for counts, chance in _every(pool, true):
        order = np.lexsort(counts.T)
        mean += chance * _read(pool, counts[order], stages)[0]
    assert abs(mean - 2) > 0.01


def test_coins(tmp_path: Path) -> None:
    """Coins follow the file alone; stages have their shares."""
    rows, file = 100_000, tmp_path / "rows"
    file.write_bytes(b"one")
    stages, last = deal(file, rows, 11)
    assert (deal(file, rows, 11)[0] == stages).all()
    sizes = np.bincount(stages)
    assert len(sizes) == last + 1
    assert sizes[-1] > rows / 2
    assert sizes[0] == pytest.approx(128, abs=6 * np.sqrt(128))  # by chance once in 10^8 files
    file.write_bytes(b"two")
    assert (deal(file, rows, 11)[0] != stages).any()


@pytest.mark.parametrize("k", [5, 10, 20])
@pytest.mark.parametrize("shares", [(0.82, *([0.09] + [0.01] * 9)), (1 / 11,) * 11])
def test_standard_error_is_near_the_information_bound(k: int, shares: tuple[float, ...]) -> None:
    """At most 1.05 times the least that any unbiased weight of the same multisets can have."""
    rows, values, generator = 20_000, len(shares), np.random.default_rng(k)
    pool, true = PoolLaw((1,) * values, k), np.array(shares) / sum(shares)
    ends = np.array(staged_reading._stage_ends(rows, values)) / staged_reading._COINS
    parts = np.diff(ends, prepend=0, append=1)
    pilot = round(ends[-1] * rows)
    people = generator.choice(values, pilot, p=true)
    counts = generator.multinomial(k - 1, np.full(values, 1 / values), pilot).astype(float)
    counts[np.arange(pilot), people] += 1
    stages = np.searchsorted(ends, generator.random(pilot) * ends[-1], side="right")
    laws = posterior_laws(pool, counts, stages.astype(np.uint8), len(ends))

    def variances(law: PosteriorLaw) -> np.ndarray:
        inverse = StagedInverse([law], np.zeros(values, np.intp))
        return inverse.covariance(np.eye(values), np.eye(values)) @ true

    bound = variances(PosteriorLaw(pool, true))
    found = parts @ np.stack([variances(law) for law in laws])
    assert np.sqrt(found / bound).max() <= 1.05


def _release(rows: int, k: int, layout: str, groups: int = 1) -> tuple[Release, pa.Table]:
    """A release of Aroma with skewed values, sorted as published ones are."""
    generator, values = np.random.default_rng(rows + k), 3
    domain = sc.Schema(
        [
            sc.Attribute("group", "quasi", sc.IntegerRange(0, groups - 1)),
            sc.Attribute("pay", "quasi", sc.IntegerRange(0, 9)),
            sc.Attribute("job", "sensitive", sc.Category(("a", "b", "c"))),
        ]
    )
    job = generator.choice(values, rows, p=[0.82, 0.1, 0.08])
    drawn = np.sort(np.c_[job, generator.integers(0, values, (rows, k - 1))], axis=1)
    channel = multiset_channel(domain, PoolLaw((1,) * values, k), layout)
    shown = (
        drawn if layout == "codes" else np.stack([(drawn == v).sum(1) for v in range(values)], 1)
    )
    columns = {"group": np.arange(rows) % groups, "pay": generator.integers(0, 10, rows)}
    private = pa.table({**columns, "job": np.array(["a", "b", "c"])[job]})
    published = pa.table(
        {**columns, **{name: shown[:, i] for i, name in enumerate(channel.columns)}}
    )
    names = [(name, "ascending") for name in published.column_names]
    return release(domain, [channel], published.sort_by(names)), private


QUESTIONS = [
    "SELECT COUNT(*) FROM t WHERE job = 'b'",
    "SELECT COUNT(*) FROM t WHERE job <> 'a' AND pay < 7",
    "SELECT job, COUNT(*) FROM t GROUP BY job",
    "SELECT pay, COUNT(*) FROM t WHERE job = 'a' GROUP BY pay",
    "SELECT COUNT(*) FROM t WHERE job = 'b' OR pay = 3",
]


def test_one_by_one_many_and_both_layouts() -> None:
    """The two layouts show the same multisets in files with other coins: estimates differ, within
    their errors; asked one by one or together they agree.
    """
    for layout in ("counts", "codes"):
        found, private = _release(6000, 4, layout)
        alone = [found.answer(question) for question in QUESTIONS]
        many = found.answer_many(QUESTIONS)
        for one, other in zip(alone, many, strict=True):
            pairs = [(one, other)] if isinstance(one, sc.Estimate) else zip(one, other, strict=True)
            for mine, theirs in pairs:
                if not isinstance(mine, sc.Estimate):
                    assert mine[0] == theirs[0]
                    mine, theirs = mine[1], theirs[1]
                assert theirs.value == pytest.approx(mine.value, rel=1e-6)
                assert theirs.interval(0.95) == pytest.approx(mine.interval(0.95), rel=1e-6)
        by_job = alone[2]
        assert sum(estimate.value for _, estimate in by_job) == pytest.approx(6000)
        for name, estimate in ((key[0], estimate) for key, estimate in by_job):
            truth = private["job"].to_pylist().count(name)
            assert abs(estimate.value - truth) < 5 * estimate.stderr
            assert estimate.stderr > 0
        total = found.answer("SELECT SUM(pay) FROM t WHERE job = 'a'")
        truth = sum(
            pay
            for pay, job in zip(private["pay"].to_pylist(), private["job"].to_pylist(), strict=True)
            if job == "a"
        )
        assert abs(total.value - truth) < 5 * total.stderr


def test_kept_moments_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = _release(6000, 4, "counts")
    questions = [f"SELECT job, COUNT(*) FROM t WHERE pay > {pay} GROUP BY job" for pay in range(3)]

    def asked(release: Release) -> list[tuple[float, float, tuple[float, float]]]:
        given = [each for some in release.answer_many(questions) for _, each in some]
        return [(each.value, each.stderr, each.interval()) for each in given]

    kept = asked(found)
    again = Release(found.manifest, found.folder)
    assert asked(again) == kept
    monkeypatch.setattr(posterior_law, "_MOMENTS", 0)
    assert asked(Release(found.manifest, found.folder)) == kept


def test_few_rows_keep_the_plain_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = _release(6000, 4, "counts", groups=60)
    small = "SELECT COUNT(*) FROM t WHERE job = 'b' AND \"group\" = 7"
    large = "SELECT COUNT(*) FROM t WHERE job = 'b' AND \"group\" < 50"
    by_stages = [found.answer(question) for question in (small, large)]
    assert [each.value for each in found.answer_many([small, large])] == pytest.approx(
        [estimate.value for estimate in by_stages], rel=1e-6
    )
    monkeypatch.setattr(answer, "staged", lambda *_: None)
    plain = [found.answer(question) for question in (small, large)]
    assert by_stages[0] == plain[0]
    assert by_stages[1].value != plain[1].value
    assert by_stages[1].stderr < 0.85 * plain[1].stderr


def test_a_saved_release_gives_the_same_answers(tmp_path: Path) -> None:
    domain = sc.Schema([sc.Attribute("job", "sensitive", sc.Category(("a", "b", "c")))])
    people = pa.table({"job": ["a"] * 1500 + ["b"] * 300 + ["c"] * 200})
    published = sc.publish(people, domain, sc.Aroma(k=3))
    before = published.answer(QUESTIONS[0])
    assert "score" in before.method
    assert sc.open(published.save(tmp_path / "saved")).answer(QUESTIONS[0]) == before


def test_coverage_of_many_groups() -> None:
    """800 groups of 400 rows, three values each: all are read by stages."""
    found, private = _release(320_000, 2, "counts", groups=800)
    truth: dict[tuple[int, str], int] = {}
    for key in zip(private["group"].to_pylist(), private["job"].to_pylist(), strict=True):
        truth[key] = truth.get(key, 0) + 1
    answers = found.answer('SELECT "group", job, COUNT(*) FROM t GROUP BY "group", job')
    estimates = list(answers)
    assert len(estimates) == 2400
    assert all("score" in estimate.method for _, estimate in estimates)
    for level in LEVELS:
        inside = sum(held([estimate], truth.get(key, 0), level) for key, estimate in estimates)
        assert inside >= least(level, 2400), level
    errors = [(e.value - truth.get(key, 0)) / e.stderr for key, e in estimates]
    assert np.std(errors) == pytest.approx(1, abs=0.1)
