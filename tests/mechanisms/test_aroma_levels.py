"""Levels: views of one table with different k, which together tell no more than the smallest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import JOBS, people, schema
from pool_bags import bags, drawn
from scipy.stats import chi2

import scumble as sc
from scumble.pool_law import PoolLaw

THREE = schema(ages=100_000, jobs=JOBS[:3])


def counts(release: sc.Release) -> np.ndarray:
    """The bags of a release as counts, in the order of age, which tells the rows apart."""
    [channel] = release.evidence.channels
    table = pq.read_table(release.folder / "records.parquet").sort_by("age")
    matrix = np.stack([table[name].to_numpy() for name in channel.columns], axis=1)
    if channel.layout == "counts":
        return matrix
    return np.stack([(matrix == value).sum(axis=1) for value in range(channel.law.values)], axis=1)


@pytest.mark.parametrize("levels", [[2, 3], [2, 5, 9], [3, 4, 40], [9, 2]])
def test_each_bag_lies_within_the_next(levels: list[int]) -> None:
    rows = 500
    job = [JOBS[place % 3] for place in range(rows)]
    private = pa.table({"age": np.arange(rows), "sex": ["f"] * rows, "job": job})
    views = sc.publish(private, THREE, sc.Aroma(k=2), levels=levels, seed=1)
    assert [view.manifest.parameters["k"] for view in views] == sorted(levels)
    found = [np.eye(3, dtype=int)[np.arange(rows) % 3], *(counts(view) for view in views)]
    for less, more, view in zip(found, found[1:], views, strict=False):
        assert (less <= more).all()
        assert (more.sum(axis=1) == view.evidence.channels[0].law.size).all()
    promised = [view.guarantees[1].parameters["p"] for view in views]
    assert promised == sorted(promised, reverse=True)


@pytest.mark.parametrize(("weights", "first", "second"), [((1, 1, 1), 2, 5), ((1, 2, 3), 3, 5)])
def test_colluding_readers_know_no_more_than_the_smallest_view(
    weights: tuple[int, ...], first: int, second: int
) -> None:
    """Exactly, over all pairs of views and several priors: the posterior of both views is that of
    the smaller one, because what the larger one adds is drawn without the true value.
    """
    law = PoolLaw(weights, first)
    small = [bags(law, true)[0] for true in range(3)]
    added = drawn(law, second - first)
    for prior in ([Fraction(1, 3)] * 3, [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]):
        for bag in {bag for known in small for bag in known}:
            alone = [prior[x] * small[x].get(bag, Fraction(0)) for x in range(3)]
            for more, chance in added.items():
                larger = tuple(a + b for a, b in zip(bag, more, strict=True))
                both = [prior[x] * small[x].get(bag, Fraction(0)) * chance for x in range(3)]
                assert sum(larger) == second
                assert [b * sum(alone) for b in both] == [a * sum(both) for a in alone]


def test_what_a_level_adds_does_not_depend_on_the_true_value_or_the_smaller_bag() -> None:
    """Chi-square of what was added against the law of plain draws, for every true value and, within
    it, for bags that show the true value once or twice: false alarm 1e-6 each, six tests.
    """
    rows = 60_000
    true = np.arange(rows) % 3
    private = pa.table(
        {"age": np.arange(rows), "sex": ["f"] * rows, "job": [JOBS[x] for x in true]}
    )
    views = sc.publish(private, THREE, sc.Aroma(k=2, pool=[1, 2, 3]), levels=[2, 4], seed=2)
    small, large = map(counts, views)
    law = drawn(PoolLaw((1, 2, 3), 2), 2)
    twice = small[np.arange(rows), true] == 2
    for value in range(3):
        for group in (twice, ~twice):
            chosen = (true == value) & group
            added = (large - small)[chosen]
            expected = {bag: float(chance) * len(added) for bag, chance in law.items()}
            assert min(expected.values()) > 5
            distance = sum(
                ((added == bag).all(axis=1).sum() - mean) ** 2 / mean
                for bag, mean in expected.items()
            )
            assert distance < chi2.isf(1e-6, len(law) - 1)


def test_each_level_is_an_ordinary_release(tmp_path) -> None:
    """Its interval holds the truth; the same table published alone has the same promise."""
    private = people(3000, schema())
    views = sc.publish(private, schema(), sc.Aroma(k=9), levels=[3, 9, 30], seed=1)
    truth = private["job"].to_pylist().count("cook")
    errors = []
    for view in views:
        saved = sc.open(
            view.save(tmp_path / str(view.evidence.channels[0].law.size), insecure=True)
        )
        answer = saved.answer("SELECT COUNT(*) FROM t WHERE job = 'cook'")
        low, high = answer.interval(0.999999)
        assert low <= truth <= high
        errors.append(answer.stderr)
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    ("mechanism", "levels", "sentence"),
    [
        (sc.Aroma(k=9), [], "a list of different k"),
        (sc.Aroma(k=9), [3, 3], "a list of different k"),
        (sc.Aroma(k=9), "39", "a list of different k"),
        (sc.Aroma(k=9), [1, 3], "a whole number from 2 to 1000. Got 1"),
        (sc.Aroma(k=9, closeness=2), [3, 9], "without closeness"),
        (sc.Aroma(k=9, identifier="pid"), [3, 9], "without identifier"),
    ],
)
def test_refused_levels(mechanism: sc.Aroma, levels: list[int], sentence: str) -> None:
    with pytest.raises(sc.ParameterError, match=sentence):
        sc.publish("no such file", schema(), mechanism, levels=levels)
