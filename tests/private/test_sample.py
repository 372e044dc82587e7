"""`sample=` of publish: the amplified promise by enumeration, its answers, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import scumble as sc
from scumble.audit.subjects import of_release
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.guarantee import Guarantees
from scumble.model.privacy.sampling import Sample
from scumble.private.tables.frames import ArrowTable
from scumble.private.tables.persons.sample import SampledSource
from scumble.public.estimate import Estimate, Exact
from scumble.public.estimation.measurements.readings import LinearReading, NoisyTotal
from scumble.public.estimation.sampled import SampledCount, SampledMean, SampledSum
from tests.support.people import people, schema

OVER = ["age", "sex", "job"]
TABLE = people(400, schema())


def histogram(neighbours="add_remove", **more) -> sc.Histogram:
    return sc.Histogram(OVER, **{"epsilon": 1, "neighbours": neighbours} | more)


# --- the promise ---------------------------------------------------------------------------------


def _law(people: tuple[int, ...], samples, scale: Fraction, reach: range) -> dict:
    """The density of two noisy counts, given samples as (probability, which people)."""
    noise, found = DiscreteLaplace(scale), {}
    for output in product(reach, repeat=2):
        found[output] = math.fsum(
            chance
            * math.prod(
                noise.pmf(shown - sum(people[i] == cell for i in some))
                for cell, shown in enumerate(output)
            )
            for chance, some in samples
        )
    return found


def _poisson(number: int, rate: float):
    for some in (c for k in range(number + 1) for c in combinations(range(number), k)):
        yield rate ** len(some) * (1 - rate) ** (number - len(some)), some


def _fixed(number: int, drawn: int):
    for some in combinations(range(number), drawn):
        yield 1 / comb(number, drawn), some


def _worst(one: dict, other: dict) -> float:
    return max(abs(math.log(one[each] / other[each])) for each in one)


def test_adding_a_person_costs_what_is_promised(subtests):
    """Two cells, up to three people, all samples and outputs from -8 to 9: beyond, ratios are the
    same. The worst loss is the promised one.
    """
    for epsilon, rate in product([Fraction(1, 2), Fraction(2)], [Fraction(1, 5), Fraction(2, 3)]):
        with subtests.test(epsilon=epsilon, rate=rate):
            promised = float(Sample(rate).loss(epsilon, Fraction(0))[0])
            assert promised == pytest.approx(math.log(1 + float(rate) * (math.exp(epsilon) - 1)))
            found = []
            for before in [(), (0,), (0, 1), (1, 1)]:
                samples = (list(_poisson(len(before) + more, float(rate))) for more in (0, 1))
                laws = (
                    _law(some, drawn, 1 / epsilon, range(-8, 10))
                    for some, drawn in zip((before, (*before, 0)), samples, strict=True)
                )
                found.append(_worst(*laws))
            assert max(found) <= promised * (1 + 1e-9)
            assert max(found) == pytest.approx(promised, rel=1e-6)


def test_replacing_a_person_costs_what_is_promised(subtests):
    for number, drawn in [(2, 1), (3, 1), (3, 2), (4, 2)]:
        with subtests.test(number=number, drawn=drawn):
            epsilon, rate = Fraction(1), Fraction(drawn, number)
            promised = float(Sample(rate).loss(epsilon, Fraction(0))[0])
            found = []
            for others in product((0, 1), repeat=number - 1):
                laws = (
                    _law((*others, own), list(_fixed(number, drawn)), 2 / epsilon, range(-6, 9))
                    for own in (0, 1)
                )
                found.append(_worst(*laws))
            assert 0.9 * promised < max(found) <= promised * (1 + 1e-9)


def test_replacing_with_independent_draws_is_not_covered():
    """Why `replace` takes a sample of a fixed size: a method that shows how many rows it has is
    0-DP for replacing a person, but not for a sample of any size.
    """
    mechanism = histogram("replace", contribution=2)
    with pytest.raises(sc.PromiseError, match="a fixed number of rows"):
        sc.publish(TABLE, schema(), mechanism, options=sc.PublishOptions(sample=0.5))


def test_the_promise_of_a_release(tmp_path):
    release = sc.publish(TABLE, schema(), histogram(), options=sc.PublishOptions(sample=0.1))
    [promise] = release.guarantees
    wanted = math.log(1 + 0.1 * (math.e - 1))
    assert promise.parameters["epsilon"] == pytest.approx(wanted)
    assert "0.1586" in str(promise)
    assert "Balle" in promise.proof
    saved = sc.open(release.save(tmp_path / "view"))
    assert saved.guarantees == release.guarantees
    findings = of_release(tmp_path / "view").findings
    assert {each.check: each.verdict for each in findings}["sample"] == "exact"
    assert not [each for each in findings if each.refuted]
    gaussian = sc.Hierarchy(OVER, epsilon=1, delta=1e-3, neighbours="add_remove")
    [promise] = sc.publish(
        TABLE, schema(), gaussian, options=sc.PublishOptions(sample=0.1, seed=1)
    ).guarantees
    assert promise.parameters["delta"] == pytest.approx(1e-4)
    assert "rho" not in promise.parameters
    assert str(promise).startswith("NOT PRIVATE: seeded for a test.")


def test_a_release_that_states_less_is_refuted(tmp_path):
    release = sc.publish(TABLE, schema(), histogram(), options=sc.PublishOptions(sample=0.5))
    [promise] = release.guarantees
    less = Guarantees([replace(promise, parameters={"epsilon": 0.3, "contribution": 1})])
    release.manifest = replace(release.manifest, guarantees=less)
    found = {each.check: each for each in of_release(release.save(tmp_path / "view")).findings}
    assert found["sample"].refuted


def test_the_ledger_is_charged_less(tmp_path):
    ledger = sc.Ledger.create(tmp_path / "ledger", epsilon=3, neighbours="add_remove")
    sc.publish(TABLE, schema(), histogram(), options=sc.PublishOptions(sample=0.1), ledger=ledger)
    [charge] = ledger.charges
    assert float(charge.bill.loss.epsilon) == pytest.approx(math.log(1 + 0.1 * (math.e - 1)))


def _drawn(table: pa.Table, columns: list[str], person: str | None, rate=Fraction(1, 2)):
    source = SampledSource(ArrowTable(table), Sample(rate), person, 7, fixed=False)
    return [pa.table({c: b[c] for c in columns}) for b in source.batches(columns)], source


def test_spellings_of_an_identifier_are_one_person():
    """`contribution` takes "7", " 7" and 7.0 for one person: they are drawn together, else a person
    would be drawn more often than the rate says.
    """
    texts = pa.table({"id": [text for i in range(200) for text in (f"{i}", f" {i} ")]})
    numbers = pa.table({"id": pa.array(np.arange(200) * 1.0)})
    kept = [_drawn(each, ["id"], "id")[0] for each in (texts, numbers)]
    found = [[float(n) for piece in pieces for n in piece["id"].to_pylist()] for pieces in kept]
    assert found[0] == [n for n in found[1] for _ in range(2)]
    assert 50 < len(found[1]) < 150


def test_every_pass_has_the_same_sample():
    """Columns of a table may be chunked in different ways; batches then differ between passes."""
    numbers = np.arange(300_000)
    many = pa.chunked_array([numbers[i : i + 999] for i in range(0, len(numbers), 999)])
    table = pa.table({"one": many, "other": pa.array(numbers)})
    source = _drawn(table, ["one"], None, Fraction(1, 3))[1]
    passes = [
        np.concatenate([batch["other"].to_numpy() for batch in source.batches(names)])
        for names in (["other"], ["one", "other"])
    ]
    assert np.array_equal(*passes)
    assert 98_000 < len(passes[0]) < 102_000


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_values_anywhere_in_their_bins_are_covered(neighbours):
    """Everybody is 99, at the end of a bin: the limits of amounts are those of bins, not of their
    middles. Intervals at 99.9 % of a count of 400 with little noise.
    """
    binned = sc.Schema([sc.Attribute("age", "quasi", sc.Bins((0.0, 50.0, 100.0)))])
    mechanism = sc.Histogram(["age"], epsilon=5, neighbours=neighbours)
    table = pa.table({"age": np.full(400, 99.0)})
    release = sc.publish(table, binned, mechanism, options=sc.PublishOptions(sample=0.5, seed=1))
    for where in ("", " WHERE age > 98"):
        for asked, truth in (("AVG(age)", 99), ("SUM(age)", 39_600), ("SUM(-age)", -39_600)):
            found = release.answer(f"SELECT {asked} FROM t{where}")
            low, high = found.interval(0.999)
            assert low <= truth <= high
            assert low <= found.value <= high


# --- answers -------------------------------------------------------------------------------------


def test_intervals_of_counts_cover_exactly(subtests):
    """Without noise, for every count up to 40: binomial and hypergeometric, by summing up."""
    for level, rate in product([0.9, 0.99], [0.1, 0.7]):
        with subtests.test(level=level, rate=rate):
            from scipy.stats import binom, hypergeom

            share = Fraction(str(rate))
            fixed = Sample(share, people=60, drawn=int(60 * share))
            for number in range(0, 41, 8):
                for sample, law in (
                    (Sample(share), binom(number, rate)),
                    (fixed, hypergeom(60, number, fixed.drawn)),
                ):
                    covered = 0.0
                    for drawn in range(number + 1):
                        low, high = SampledCount(Exact(), drawn, sample).interval(0.0, level)
                        covered += float(law.pmf(drawn)) * (low <= number <= high)
                    assert covered >= level


def test_intervals_with_noise_cover():
    """1000 draws for each answer. The limits of noise and sample are added up, so that more than
    the level is covered; a coverage of the level itself would fail half of the time. People have up
    to three rows in the last case.
    """
    rng, noise, level, runs = np.random.default_rng(3), DiscreteLaplace(Fraction(2)), 0.9, 1000
    number, rate = 50, 0.3
    a = math.exp(-0.5)
    drawn = rng.binomial(number, rate, runs)
    errors = rng.geometric(1 - a, runs) - rng.geometric(1 - a, runs)
    sample = Sample(Fraction(3, 10))
    counts = [SampledCount(noise, k + z, sample) for k, z in zip(drawn, errors, strict=True)]
    limits = [each.interval(0.0, level) for each in counts]
    assert np.mean([low <= number <= high for low, high in limits]) >= level
    amounts = rng.integers(-2, 6, number)
    hit = errors_of = 0
    for run in range(runs):
        chosen = rng.random(number) < rate
        total, many = int(amounts[chosen].sum()), int(chosen.sum())
        count = SampledCount(Exact(), many, sample)
        low, high = SampledSum(noise, total + errors[run], count, 5.0).interval(0.0, level)
        hit += low <= amounts.sum() <= high
        if many:
            mean = SampledMean(Exact(), Exact(), many, (-2.0, 5.0))
            low, high = mean.interval(total / many, level)
            errors_of += not low <= amounts.mean() <= high
    assert hit / runs >= level
    assert errors_of / runs <= 1 - level
    rows = np.array([3] * 10 + [1] * 20)
    groups = Sample(Fraction(3, 10), rows=3)
    hit = 0
    for _ in range(runs):
        many = int(rows[rng.random(30) < rate].sum())
        low, high = SampledCount(Exact(), many, groups).interval(0.0, level)
        hit += low <= 50 <= high
    assert hit / runs >= level


def test_intervals_of_sums_cover_exactly(subtests):
    """All samples of people who add one of two amounts, by enumeration, without noise."""
    levels = (0.5, 0.8, 0.95, 0.999)
    for rate, (one, other), many in product((0.01, 0.3, 0.9), ((1, 10), (1, -10)), (1, 8, 40)):
        with subtests.test(rate=rate, amounts=(one, other), many=many):
            sample, few = Sample(Fraction(str(rate))), max(many // 4, 1)
            first, second = binom(many, rate), binom(few, rate)
            covered, truth = dict.fromkeys(levels, 0.0), one * many + other * few
            for i, j in product(range(many + 1), range(few + 1)):
                squares = Estimate(one**2 * i + other**2 * j, Exact(), "")
                count = SampledCount(Exact(), i + j, sample)
                law = SampledSum(Exact(), one * i + other * j, count, 10.0, squares)
                for level in levels:
                    low, high = law.interval(0.0, level)
                    covered[level] += (low <= truth <= high) * first.pmf(i) * second.pmf(j)
            assert all(covered[level] >= level - 1e-9 for level in levels)


@pytest.mark.parametrize(
    ("neighbours", "alike"), [("add_remove", 1), ("replace", 1), ("add_remove", 5)]
)
def test_intervals_of_sums_are_as_long_as_noise_and_sample_make_them(neighbours, alike):
    """12,000 draws, with which a scale that is 5 % too small is found with 99 %; the law is at most
    1.5 times as wide as a normal one. False alarms: 10^-4 for all together. Of people with up to
    five rows, that is where all five are alike: the same numbers would be published of people with
    one row each, whose sums vary less by √5, and the interval has to hold for both.
    """
    rng, level, runs, rate = np.random.default_rng(5), 0.95, 12_000, Fraction(1, 2)
    amounts = np.arange(20, 60)
    people, noise = amounts.repeat(10), DiscreteLaplace(Fraction(1))
    size = {"people": len(people), "drawn": len(people) // 2} if neighbours == "replace" else {}
    sample = Sample(rate, alike, **size)
    a, held, found, widths = math.exp(-1), 0, [], []

    def read(weights, counts):
        sums = [float(np.sum(np.abs(weights) ** power)) for power in (2, 4)]
        moments = noise.variance * sums[0], 12 * sums[1]
        return LinearReading(float(weights @ counts), *moments, float(weights.max()))

    for _ in range(runs):
        if size:
            chosen = rng.permutation(people)[: sample.drawn]
        else:
            chosen = people[rng.random(len(people)) < 0.5]
        errors = rng.geometric(1 - a, len(amounts)) - rng.geometric(1 - a, len(amounts))
        counts = alike * np.bincount(chosen, minlength=60)[20:] + errors
        total, rows, squares = (read(amounts.astype(float) ** power, counts) for power in (1, 0, 2))
        count = SampledCount(NoisyTotal(rows), rows.value, sample)
        of_squares = Estimate(squares.value, NoisyTotal(squares), "")
        law = SampledSum(NoisyTotal(total), total.value, count, 59.0, of_squares)
        low, high = law.interval(0.0, level)
        held += low <= alike * people.sum() <= high
        found.append(total.value / 0.5)
        widths.append(high - low)
    assert binom.cdf(held, runs, level) > 1e-4 / 3
    assert np.median(widths) <= 1.5 * 2 * 1.96 * np.std(found)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_answers_are_about_the_whole_table(neighbours):
    release = sc.publish(
        TABLE, schema(), histogram(neighbours), options=sc.PublishOptions(sample=0.5, seed=2)
    )
    rows = TABLE.to_pylist()
    truth = sum(row["age"] < 5 for row in rows)
    found = release.answer("SELECT COUNT(*) FROM t WHERE age < 5")
    low, high = found.interval(0.999)
    assert low <= truth <= high
    assert abs(found.value - truth) < 4 * found.stderr
    low, high = release.answer("SELECT SUM(age) FROM t").interval(0.99)
    assert low <= sum(row["age"] for row in rows) <= high
    low, high = release.answer("SELECT AVG(age) FROM t").interval(0.99)
    assert low <= sum(row["age"] for row in rows) / len(rows) <= high
    whole = release.answer("SELECT COUNT(*) FROM t")
    assert (whole.stderr == 0) == (neighbours == "replace")
    assert release.answer_many(["SELECT COUNT(*) FROM t WHERE age < 5"])[0].value == found.value
    assert release.answer("SELECT COUNT(*) FROM t WHERE age > 50").value == 0


def test_estimates_are_unbiased():
    """40 samples: the mean is within four standard errors, a false alarm of 6e-5."""
    table = pa.table({"age": [1] * 60 + [7] * 40, "sex": ["f"] * 100, "job": ["cook"] * 100})
    mechanism = sc.Histogram(["age"], epsilon=3, neighbours="add_remove")
    values = [
        sc.publish(table, schema(), mechanism, options=sc.PublishOptions(sample=0.3, seed=seed))
        .answer("SELECT COUNT(*) FROM t WHERE age = 7")
        .value
        for seed in range(40)
    ]
    assert abs(np.mean(values) - 40) < 4 * np.std(values) / math.sqrt(40)
    assert np.std(values) == pytest.approx(math.sqrt(40 * 0.7 / 0.3 + 0.2 / 0.09), rel=0.45)


def test_people_are_drawn_with_all_their_rows():
    known = sc.Schema([sc.Attribute("who", "identifier"), *schema()])
    rows = [{"who": f"p{i // 2}", "age": i % 10, "sex": "f", "job": "cook"} for i in range(200)]
    table = pa.Table.from_pylist(rows)
    mechanism = sc.Histogram(
        ["age"], epsilon=100, neighbours="add_remove", contribution=2, person="who"
    )
    release = sc.publish(table, known, mechanism, options=sc.PublishOptions(sample=0.5, seed=1))
    counts = dict(release.answer("SELECT age, COUNT(*) FROM t GROUP BY age"))
    for even in range(0, 10, 2):  # the two rows of a person have neighbouring ages
        assert counts[(even,)].value == counts[(even + 1,)].value
    assert math.isinf(release.answer("SELECT AVG(age) FROM t").stderr)


# --- refusals ------------------------------------------------------------------------------------


def test_what_no_proof_covers_is_refused(subtests):
    for mechanism, sentence in [
        (sc.Uniform(epsilon=1), "shows who was drawn"),
        (sc.Dirichlet("job", "age", epsilon=1), "shows who was drawn"),
        (
            sc.Keys(["age"], epsilon=1, delta=0.01, keys=1, neighbours="add_remove"),
            "Keys takes no sample",
        ),
        (histogram(contribution=2), "single rows would be drawn"),
        (histogram("replace", contribution=2), "a fixed number of rows"),
    ]:
        with (
            subtests.test(mechanism=mechanism, sentence=sentence),
            pytest.raises(sc.PromiseError, match=sentence),
        ):
            sc.publish(
                "no such file.csv", schema(), mechanism, options=sc.PublishOptions(sample=0.5)
            )


def test_the_share_is_checked(subtests):
    for share in [0, 1, 1.5, "x"]:
        with subtests.test(share=share), pytest.raises(sc.ParameterError, match="between 0 and 1"):
            sc.publish(TABLE, schema(), histogram(), options=sc.PublishOptions(sample=share))


def test_other_readers_refuse_a_sample():
    release = sc.publish(
        TABLE, schema(), histogram("replace"), options=sc.PublishOptions(sample=0.5, seed=1)
    )
    with pytest.raises(sc.ReleaseError, match="a sample of the people"):
        release.marginals.marginal(["age"])
    with pytest.raises(sc.PromiseError, match="must be public"):
        sc.publish(
            TABLE,
            schema(),
            histogram("replace"),
            options=sc.PublishOptions(sample=0.5, outside="drop"),
        )
