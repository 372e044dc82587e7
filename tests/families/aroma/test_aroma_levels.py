"""Levels: views of one table with different k, which together tell no more than the smallest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import scumble as sc
from scumble.families.aroma.publish import views as aroma_views
from scumble.model.evidence.channels import PoolLaw
from tests.support.mechanisms.pool_multisets import drawn
from tests.support.people import JOBS, people, schema

THREE = schema(ages=100_000, jobs=JOBS[:3])


def counts(release: sc.Release) -> np.ndarray:
    """The bags of a release as counts, in the order of age, which tells the rows apart."""
    [channel] = release.evidence.channels
    table = pq.read_table(release.folder / "records.parquet").sort_by("age")
    matrix = np.stack([table[name].to_numpy() for name in channel.columns], axis=1)
    if channel.layout == "counts":
        return matrix
    return np.stack([(matrix == value).sum(axis=1) for value in range(channel.law.values)], axis=1)


def test_each_bag_lies_within_the_next(subtests: pytest.Subtests) -> None:
    for levels in [[2, 3], [2, 5, 9], [3, 4, 40], [9, 2]]:
        with subtests.test(levels=levels):
            rows = 500
            job = [JOBS[place % 3] for place in range(rows)]
            private = pa.table({"age": np.arange(rows), "sex": ["f"] * rows, "job": job})
            views = sc.Aroma(k=max(levels)).publish_levels(
                private, THREE, levels=levels, options=sc.PublishOptions(seed=1)
            )
            assert [view.manifest.parameters["k"] for view in views] == sorted(levels)
            found = [np.eye(3, dtype=int)[np.arange(rows) % 3], *(counts(view) for view in views)]
            for less, more, view in zip(found, found[1:], views, strict=False):
                assert (less <= more).all()
                assert (more.sum(axis=1) == view.evidence.channels[0].law.size).all()
            promised = [view.guarantees[1].parameters["p"] for view in views]
            assert promised == sorted(promised, reverse=True)


class Tape:
    """In place of the pool: draws that are listed beforehand, one row of them for each true value,
    taken from left to right.
    """

    def __init__(self, draws: np.ndarray, values: int) -> None:
        self._draws, self._values = draws, values

    def __call__(self, weights: Sequence[int]) -> Tape:
        return self

    def members(self, noise: object, number: int, rows: int) -> np.ndarray:
        assert len(self._draws) == rows
        taken, self._draws = self._draws[:, :number], self._draws[:, number:]
        return taken

    def counts(self, noise: object, number: int, rows: int) -> np.ndarray:
        taken = self.members(noise, number, rows)
        return np.stack([(taken == value).sum(axis=1) for value in range(self._values)], axis=1)


Joint = dict[tuple[bytes, bytes], list[Fraction]]


def joint(
    weights: Sequence[int], prior: Sequence[Fraction], levels: list[list[int]], patch
) -> Joint:
    """For each pair of a small and a large bag the probability of it with each true value: summed
    over all true values and ordered draws, of which the published rule makes the bags. Levels of
    one list are nested, those of different lists are drawn by themselves.
    """
    draws = sum(sizes[-1] - 1 for sizes in levels)
    cells = np.array(list(itertools.product(range(len(weights)), repeat=draws + 1)))
    law = PoolLaw(tuple(weights), max(sizes[-1] for sizes in levels))
    patch.setattr(aroma_views, "Pool", Tape(cells[:, 1:], len(weights)))
    made = [aroma_views.draw_nested(None, law, cells[:, 0], sizes) for sizes in levels]
    small, large = (np.asarray(bags, np.int64) for bags in itertools.chain(*made))
    found: Joint = {}
    for (true, *others), less, more in zip(cells.tolist(), small, large, strict=True):
        chance = prior[true] * prod(law.shares[value] for value in others)
        belief = found.setdefault((less.tobytes(), more.tobytes()), [Fraction(0)] * len(weights))
        belief[true] += chance
    return found


def learns_from_the_larger(found: Joint) -> bool:
    """Whether any posterior of the true value given both bags is not that given the smaller."""
    alone: dict[bytes, list[Fraction]] = {}
    for (less, _), belief in found.items():
        so_far = alone.get(less, [Fraction(0)] * len(belief))
        alone[less] = [a + b for a, b in zip(so_far, belief, strict=True)]
    return any(
        [b / sum(belief) for b in belief] != [a / sum(alone[less]) for a in alone[less]]
        for (less, _), belief in found.items()
        if sum(belief)
    )


@pytest.mark.parametrize("prior", [(1, 1, 1), (3, 2, 1), (0, 1, 5)], ids=str)
@pytest.mark.parametrize(
    ("weights", "first", "second"),
    [((1, 1, 1), 2, 3), ((1, 2, 3), 2, 3), ((1, 1, 1), 2, 4), ((1, 2, 3), 2, 4), ((1, 2, 3), 3, 4)],
)
@pytest.mark.parametrize("counted", [True, False])
def test_colluding_readers_know_no_more_than_the_smallest_view(
    weights: tuple[int, ...],
    first: int,
    second: int,
    prior: tuple[int, ...],
    counted: bool,
    monkeypatch,
) -> None:
    """Exactly, by all draws through the code that makes the bags, in both layouts. The check finds
    a rule that is wrong: with draws of its own the larger view tells more.
    """
    monkeypatch.setattr("scumble.families.aroma.publish.views.counted", lambda *_: counted)
    beliefs = [Fraction(part, sum(prior)) for part in prior]
    nested = joint(weights, beliefs, [[first, second]], monkeypatch)
    assert sum(sum(belief) for belief in nested.values()) == 1
    assert not learns_from_the_larger(nested)
    apart = joint(weights, beliefs, [[first], [second]], monkeypatch)
    assert sum(sum(belief) for belief in apart.values()) == 1
    assert learns_from_the_larger(apart)


def test_what_a_level_adds_does_not_depend_on_the_true_value_or_the_smaller_bag() -> None:
    """Chi-square of what was added against the law of plain draws, for every true value and, within
    it, for bags that show the true value once or twice: false alarm 1e-6 each, six tests.
    """
    rows = 60_000
    true = np.arange(rows) % 3
    private = pa.table(
        {"age": np.arange(rows), "sex": ["f"] * rows, "job": [JOBS[x] for x in true]}
    )
    views = sc.Aroma(k=4, pool=[1, 2, 3]).publish_levels(
        private, THREE, levels=[2, 4], options=sc.PublishOptions(seed=2)
    )
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
    views = sc.Aroma(k=30).publish_levels(
        private, schema(), levels=[3, 9, 30], options=sc.PublishOptions(seed=1)
    )
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


def test_refused_levels(subtests: pytest.Subtests) -> None:
    for mechanism, levels, sentence in [
        (sc.Aroma(k=9), [], "a list of different k"),
        (sc.Aroma(k=9), [3, 3], "a list of different k"),
        (sc.Aroma(k=9), "39", "a list of different k"),
        (sc.Aroma(k=9), [1, 3], "a whole number from 2 to 1000. Got 1"),
        (sc.Aroma(k=9), [3, 20], r"must be the largest of the levels \(20\). Got 9 instead"),
        (sc.Aroma(k=9), [3, 5], r"must be the largest of the levels \(5\). Got 9 instead"),
        (sc.Aroma(epsilon=1, f=0.2), [3, 9], "give the largest as k, and no epsilon and f"),
        (sc.Aroma(k=9, closeness=2), [3, 9], "without closeness"),
        (sc.Aroma(k=9, identifier="pid"), [3, 9], "without identifier"),
    ]:
        with (
            subtests.test(mechanism=mechanism, levels=levels, sentence=sentence),
            pytest.raises(sc.ParameterError, match=sentence),
        ):
            mechanism.publish_levels("no such file", schema(), levels=levels)
