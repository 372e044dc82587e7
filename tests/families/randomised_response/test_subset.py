"""The subset mechanism: its exact channel, the best size of its sets, and what it publishes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import scumble as sc
from scumble.families.randomised_response.publish.subset import _make_law, spread
from scumble.model.evidence.channels import SubsetLaw
from scumble.model.privacy.guarantee import gamma_for_epsilon
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import subsets
from scumble.public.estimation.rows.inverse_channels import MultisetInverse
from tests.support.people import people, schema

REQUESTS = [
    ({"gamma": 3}, Fraction(3)),
    ({"rho1": 0.1, "rho2": 0.5}, Fraction(9)),
    ({"epsilon": 1}, gamma_for_epsilon(Fraction(1))),
    ({"epsilon": 0.2, "size": 3}, gamma_for_epsilon(Fraction(1, 5))),
]


def _sized(values: int) -> sc.Schema:
    return schema(jobs=[f"job {number}" for number in range(values)])


def _matrix(law) -> dict[tuple[int, ...], list[Fraction]]:
    """For every set, its probability under each true value."""
    holding = math.comb(law.values - 1, law.size - 1)
    lacking = math.comb(law.values - 1, law.size)
    sets = itertools.combinations(range(law.values), law.size)
    return {
        some: [
            law.inclusion / holding if x in some else (1 - law.inclusion) / lacking
            for x in range(law.values)
        ]
        for some in sets
    }


def test_the_channel_has_exactly_the_promised_ratio(subtests: pytest.Subtests) -> None:
    """All sets as fractions: the largest ratio is γ, and the best guess is right as promised."""
    for values, (parameters, gamma) in product([4, 7, 10], REQUESTS):
        with subtests.test(values=values, parameters=parameters, gamma=gamma):
            mechanism = sc.Subset(**parameters)
            matrix = _matrix(mechanism.law(_sized(values)))
            assert [sum(column) for column in zip(*matrix.values(), strict=True)] == [1] * values
            assert max(max(row) / min(row) for row in matrix.values()) == gamma == mechanism.gamma
            success = sum(max(row) for row in matrix.values()) / values
            local, _, exposure = mechanism.guarantee(_sized(values))
            assert exposure.parameters["p"] >= success
            assert exposure.parameters["p"] == pytest.approx(float(success), rel=1e-15)
            assert local.parameters["epsilon"] == pytest.approx(math.log(gamma), rel=1e-12)
            if "epsilon" in parameters:
                assert local.parameters["epsilon"] <= math.nextafter(parameters["epsilon"], 9)


def test_the_size_is_the_best_one(subtests: pytest.Subtests) -> None:
    for values, gamma in product(
        [2, 3, 5, 14, 50, 77], ["1.001", "1.2", "2", "2.718", "5", "20", "1000"]
    ):
        with subtests.test(values=values, gamma=gamma):
            law = sc.Subset(gamma=Fraction(gamma)).law(_sized(values))
            best = min(
                spread(_make_law(values, size, Fraction(gamma))) for size in range(1, values)
            )
            assert spread(law) == best
            assert abs(law.size - values / (float(gamma) + 1)) < 1 or law.size == 1


def test_the_variance_is_that_of_the_estimates(subtests: pytest.Subtests) -> None:
    """What ω is chosen by is what the estimator says of its counts, added up over all values."""
    for values, size in [(2, 1), (5, 2), (6, 4), (50, 13)]:
        with subtests.test(values=values, size=size):
            law = _make_law(values, size, Fraction(3))
            lens, every = MultisetInverse(law), np.eye(values)
            variances = lens.covariance(every, every)  # of each count (rows), for each true value
            assert variances.sum(axis=0) == pytest.approx(float(spread(law)), rel=1e-12)


def test_sets_beat_single_values_where_the_domain_is_large() -> None:
    """Of 50 values at ε = 1, the variance is a quarter of uniform perturbation's."""
    law = sc.Subset(epsilon=1).law(_sized(50))
    assert law.size == 13
    ratio = spread(law) / spread(_make_law(50, 1, sc.Subset(epsilon=1).gamma))
    assert ratio < Fraction(1, 4)


@pytest.mark.parametrize(("values", "size"), [(2, 1), (5, 1), (5, 2), (6, 3), (6, 5)])
def test_every_set_comes_as_often_as_it_should(values: int, size: int) -> None:
    """Chi-square over all sets of 300,000 rows, false alarm 1e-6 each; an inclusion that is 2 % off
    is found.
    """
    inclusion, own, rows = Fraction(3, 5), values - 1, 300_000
    drawn = subsets(Keystream(values + size), np.full(rows, own, np.uint8), values, size, inclusion)
    assert drawn.shape == (rows, size)
    keys = (1 << drawn.astype(np.int64)).sum(axis=1)
    law = {some: row[own] for some, row in _matrix(SubsetLaw(values, size, inclusion)).items()}
    wrong = {
        s: row[own] for s, row in _matrix(SubsetLaw(values, size, Fraction(588, 1000))).items()
    }
    observed = np.array([(keys == sum(1 << v for v in some)).sum() for some in law])
    assert observed.sum() == rows  # each is a set: no member twice

    def statistic(shares) -> float:
        expected = np.array([float(share) * rows for share in shares])
        return float(((observed - expected) ** 2 / expected).sum())

    critical = chi2.isf(1e-6, len(observed) - 1)
    assert statistic(law.values()) < critical
    assert statistic(wrong.values()) > critical


def test_draws_that_do_not_divide_the_words_are_refused() -> None:
    """A source whose first words are all refused gives the sets of the words after them."""
    codes = np.zeros(2, np.uint8)

    class Refused(Keystream):
        filled = 0

        def fill(self, out) -> None:
            super().fill(out)
            self.filled += out.dtype == np.uint32
            if out.dtype == np.uint32 and self.filled == 1:
                out[:] = 0  # the low half of 0 * 3 lies below 2**32 mod 3 = 1

    source = Refused(1)
    drawn = subsets(source, codes, 4, 1, Fraction(0))
    assert source.filled == 2
    assert ((drawn > 0) & (drawn < 4)).all()


@pytest.mark.parametrize(("size", "health"), [(2, 0), (1, 0), (2, 3)])
def test_what_is_published_follows_the_law(size: int, health: int) -> None:
    """How often each value is in the sets of 100,000 equal rows: within 5.5 standard errors (false
    alarm 4e-8 for each of at most 15 values).
    """
    domain = schema(health=health)
    rows = 100_000
    row = {"age": [1], "sex": ["f"], "job": ["nurse"]} | ({"health": [2]} if health else {})
    private = pa.table({name: pa.array(value * rows) for name, value in row.items()})
    release = sc.publish(
        private, domain, sc.Subset(epsilon=1, size=size), options=sc.PublishOptions(seed=3)
    )
    [channel] = release.evidence.channels
    published = pq.read_table(release.folder / "records.parquet")
    assert published.column_names[:2] == ["age", "sex"]
    shown = np.stack([published[name].to_numpy() for name in channel.columns])
    if channel.layout == "codes":
        counts = np.bincount(shown.reshape(-1), minlength=channel.law.values)
    else:
        assert (shown.sum(axis=0) == size).all()
        counts = shown.sum(axis=1)
    true = 2 if not health else 2 * 3 + 2
    for cell, count in enumerate(counts):
        chance = float(channel.law.inclusion if cell == true else channel.law.chance)
        assert abs(count - rows * chance) < 5.5 * math.sqrt(rows * chance * (1 - chance))


def test_layouts() -> None:
    """Few values are marked, many are listed."""
    few = sc.Subset(epsilon=1, size=2).channel(schema())
    assert few.layout == "counts"
    assert few.columns == tuple(f"job={name}" for name in schema()["job"].labels().to_pylist())
    many = sc.Subset(epsilon=4).channel(_sized(500))
    assert (many.layout, many.columns[0], len(many.columns)) == ("codes", "job 1", many.law.size)
    cased = sc.Subset(epsilon=1, size=2).channel(schema(jobs=("a", "A", "b", "c")))
    assert cased.columns == ("job #0", "job #1", "job #2", "job #3")


def test_the_order_of_rows_and_of_members_says_nothing() -> None:
    domain = _sized(40)
    release = sc.publish(people(500, domain), domain, sc.Subset(epsilon=3, size=3))
    table = pq.read_table(release.folder / "records.parquet")
    keys = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert keys == sorted(keys)
    assert all(key[2] < key[3] < key[4] for key in keys)


def test_refusals(subtests: pytest.Subtests) -> None:
    for domain, parameters, error, sentence in [
        (_sized(5), {"epsilon": 1, "size": 5}, sc.ParameterError, "below the number of sensitive"),
        (_sized(5000), {"epsilon": 1}, sc.SchemaError, "at most 4096 are possible"),
        (_sized(5), {"epsilon": 1e-30}, sc.ParameterError, "nothing of the values would be left"),
        (_sized(5), {"rho1": 1e-60, "rho2": 0.5}, sc.ParameterError, "no privacy"),
    ]:
        with (
            subtests.test(domain=domain, parameters=parameters, error=error, sentence=sentence),
            pytest.raises(error, match=sentence),
        ):
            sc.publish("no such file", domain, sc.Subset(**parameters))


def test_several_attributes_are_one_value() -> None:
    domain = schema(jobs=("a", "b", "c"), health=2)
    mechanism = sc.Subset(gamma=4)
    law = mechanism.law(domain)
    assert law.values == 6
    matrix = _matrix(law)
    assert max(max(row) / min(row) for row in matrix.values()) == 4
    # The best guess of health alone, all six pairs being equally likely, stays below the promise.
    success = sum(max(sum(row[0::2]), sum(row[1::2])) for row in matrix.values()) / law.values
    assert float(success) <= mechanism.guarantee(domain)[2].parameters["p"]


def test_the_report_is_made_of_what_is_published() -> None:
    release = sc.publish(
        people(50, schema()),
        schema(),
        sc.Subset(epsilon=1, size=2),
        options=sc.PublishOptions(seed=1),
    )
    [channel] = release.evidence.channels
    report = release.manifest.report
    assert report["values in a set"] == 2
    assert report["chance that the true value is in it"] == float(channel.law.inclusion)
