"""Partition: what is published, on every kind of table, and the paper's figures."""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.partition.publish import gamma_of, split
from scumble.model.evidence.channels import PartitionChannel
from scumble.private.mechanism import create
from tests.support.goodness import rejects
from tests.support.people import JOBS, people, records_release, schema

WORKED = [12, 8, 6, 5, 4, 3, 1, 1, 1, 1]
VALUES = tuple(f"x{number}" for number in range(1, 11))
DOMAIN = schema(jobs=VALUES)


def _table(counts: list[int]) -> pa.Table:
    """Rows with these numbers of the values of DOMAIN."""
    jobs = [value for value, count in zip(VALUES, counts, strict=False) for _ in range(count)]
    ages = [row % 10 for row in range(len(jobs))]
    sexes = ["fm"[row % 3 % 2] for row in range(len(jobs))]
    return pa.table({"age": ages, "sex": sexes, "job": jobs})


def _published(release: sc.Release) -> list[dict]:
    return pq.read_table(release.folder / "records.parquet").to_pylist()


def test_worked_example() -> None:
    mechanism = sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3))
    release = sc.publish(_table(WORKED), DOMAIN, mechanism, options=sc.PublishOptions(seed=1))
    [channel] = release.evidence.channels
    assert (channel.attributes, channel.column) == (("job",), "part")
    assert channel.domains == ((0, 1, 2, 3, 4, 5), (3, 5, 6, 7, 8, 9))
    assert channel.keeps == (Fraction(1, 3), Fraction(3, 5))
    assert channel.rows == (36, 6)
    assert Counter(row["part"] for row in _published(release)) == {0: 36, 1: 6}
    for row in _published(release):
        assert VALUES.index(row["job"]) in channel.domains[row["part"]]
    report = release.manifest.report
    assert report["sub-tables"] == 2
    assert not report["fell back to uniform"]
    assert (report["rows"], report["values"], report["gamma"]) == ([36, 6], [6, 6], [4, 10])
    assert report["average retention"] == pytest.approx((36 / 3 + 6 * 0.6) / 42)
    assert report["retention as one table with rho1"] == pytest.approx(3 / 13)
    assert math.floor(1000 * report["error bound"]) == 2019
    assert report["error bound as one table with rho1"] > report["error bound"]
    promise, odds = release.guarantees
    assert promise.statement == "restricted (ρ1, ρ2)-privacy"
    assert "2 sub-tables" in promise.proof
    assert odds.parameters == {"gamma": 10}
    assert release.remarks[0].startswith("The 2 sub-tables keep a sensitive value")
    alone = report["retention as one table with rho1"]  # the one figure, to reader and owner
    assert release.remarks[0].endswith(f"one table with rho1 would keep it with {alone:.2g}.")


@pytest.mark.parametrize(("rare", "warned"), [(1, True), (20, False)])
def test_a_rare_value_that_a_sub_table_has_more_often_is_warned_of(rare: int, warned: bool) -> None:
    """Six common values and four of `rare` rows, which fill a sub-table of their own. The warning
    names neither the value nor a number of the table.
    """
    counts = [1_000] * 6 + [rare] * 4
    release = sc.publish(
        _table(counts),
        DOMAIN,
        sc.Partition(rho1=Fraction(1, 4), rho2=Fraction(2, 3)),
        options=sc.PublishOptions(seed=1),
    )
    assert release.manifest.report["sub-tables"] > 1
    found = [remark for remark in release.remarks if remark.startswith("Some rare value")]
    assert len(found) == warned
    for remark in found:
        assert re.findall(r"\d+", remark) == ["50"]
        assert not any(value in remark for value in VALUES)


def test_other_columns_are_as_they_were() -> None:
    private = _table(WORKED)
    release = sc.publish(
        private,
        DOMAIN,
        sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3)),
        options=sc.PublishOptions(seed=1),
    )
    names = ("age", "sex")
    before = Counter(tuple(row[name] for name in names) for row in private.to_pylist())
    assert before == Counter(tuple(row[name] for name in names) for row in _published(release))
    keys = [(row["age"], row["sex"], row["job"], row["part"]) for row in _published(release)]
    order = {value: place for place, value in enumerate(VALUES)}
    assert keys == sorted(keys, key=lambda key: (*key[:2], order[key[2]], key[3]))


@pytest.mark.parametrize(
    ("rho2", "one", "many"),
    [("1/6", 2.3, 8.3), ("1/5", 3.3, 11.8), ("1/4", 5.0, 17.2), ("1/3", 8.3, 26.3)],
)
def test_retention_on_the_census(shared_data, rho2: str, one: float, many: float) -> None:
    """Retention p of uniform perturbation, and the average over sub-tables, in percent.

    The spec's averages come from scipy's order of the groups; the order whose bound is the lowest
    keeps a little less, hence a tolerance of 3 %.
    """
    with gzip.open(shared_data / "census_like_kdd_employed.csv.gz", "rt") as text:
        found = Counter(row["detailed_occupation_recode"] for row in csv.DictReader(text))
    counts = {int(value): count for value, count in found.items()}
    rows = sum(counts.values())
    rho1 = Fraction(max(counts.values()), rows)
    parts = split(counts, rho1, Fraction(rho2))
    average = 100 * sum(part.rows * part.keep for part in parts) / rows
    gamma = Fraction(rho2) * (1 - rho1) / (rho1 * (1 - Fraction(rho2)))
    assert round(float(100 * (gamma - 1) / (len(counts) - 1 + gamma)), 1) == one
    assert float(average) == pytest.approx(many, rel=0.03)
    assert average > 3 * one


def test_a_skewed_attribute_falls_back_to_uniform_perturbation() -> None:
    """Nine rare values and five frequent ones, as in the paper's table of education."""
    counts = [270, 200, 180, 150, 110, 20, 15, 15, 12, 10, 8, 5, 3, 2]
    domain = schema(jobs=[f"job {number}" for number in range(14)])
    jobs = [f"job {number}" for number, count in enumerate(counts) for _ in range(count)]
    table = pa.table({"age": [1] * len(jobs), "sex": ["f"] * len(jobs), "job": jobs})
    release = sc.publish(
        table,
        domain,
        sc.Partition(rho1=Fraction(1, 30), rho2=0.25),
        options=sc.PublishOptions(seed=1),
    )
    assert release.manifest.report["fell back to uniform"]
    assert release.evidence.channels[0].domains == (tuple(range(14)),)
    assert "this is uniform perturbation" in release.remarks[0]


def test_rows_of_a_value_go_to_parts_at_random() -> None:
    """Value x4 has four rows in the first part and one in the second: that one is each of the five
    equally often. Chi-square over 2000 deals, false alarm 1e-6.
    """
    from scumble.families.partition.publish import Assignment
    from scumble.private.sampling.source import Keystream

    split_table = split(dict(enumerate(WORKED)), Fraction(1, 3), Fraction(2, 3))
    cells = np.repeat(np.arange(10), WORKED).astype(np.uint64)
    ours = np.flatnonzero(cells == 3)
    noise, found = Keystream(7), Counter()
    for _ in range(2000):
        deal = Assignment(split_table, 10)
        units = {0: cells[:20], 1: cells[20:]}
        counted = {unit: np.unique(own, return_counts=True) for unit, own in units.items()}
        shares = deal.shares(noise, counted)
        urns = {unit: deal.urns(share) for unit, share in shares.items()}
        parts = np.concatenate(
            [deal.through(noise, own, urns[unit])[0] for unit, own in units.items()]
        )
        assert not any(each.left for each in urns.values())
        assert np.bincount(parts).tolist() == [36, 6]
        [place] = np.flatnonzero(parts[ours])
        found[int(place)] += 1
    assert not rejects([found[place] for place in range(5)], [0.2] * 5)
    assert rejects([found[place] * (9 if place else 12) for place in range(5)], [0.2] * 5)


def test_what_is_published_follows_the_channel_of_each_part() -> None:
    """Chi-square of what the rows of one value show, by part, on the worked example times 2000;
    false alarm 1e-6 each.
    """
    from scumble.families.partition.publish import Assignment
    from scumble.private.sampling.source import Keystream

    counts = {value: 2000 * count for value, count in enumerate(WORKED)}
    parts = split(counts, Fraction(1, 3), Fraction(2, 3))
    cells = np.repeat(np.arange(10), [2000 * count for count in WORKED]).astype(np.uint64)
    deal, noise = Assignment(parts, 10), Keystream(3)
    [whole] = deal.shares(noise, {0: np.unique(cells, return_counts=True)}).values()
    numbers, shown = deal.through(noise, cells, deal.urns(whole))
    for number, part in enumerate(parts):
        size, keep = len(part.domain), float(part.keep)
        for value, count in part.counts.items():
            rows = (numbers == number) & (cells == value)
            assert rows.sum() == count
            observed = np.bincount(shown[rows].astype(int), minlength=10)
            law = [(1 - keep) / size + keep * (other == value) for other in part.domain]
            assert observed[list(part.domain)].sum() == count
            assert not rejects(observed[list(part.domain)], law)


def test_several_sensitive_attributes_are_one_value() -> None:
    """The interval of a count over both misses the truth with probability 1e-6."""
    domain = schema(health=4)
    private = people(4000, domain)
    release = sc.publish(
        private, domain, sc.Partition(rho1=0.2, rho2=0.5), options=sc.PublishOptions(seed=1)
    )
    [channel] = release.evidence.channels
    assert channel.attributes == ("job", "health")
    assert set().union(*channel.domains) <= set(range(20))
    for row in _published(release):
        cell = 4 * JOBS.index(row["job"]) + row["health"]
        assert cell in channel.domains[row["part"]]
    cooks = sum(row["job"] == "cook" and row["health"] < 2 for row in private.to_pylist())
    low, high = release.answer("SELECT COUNT(*) FROM t WHERE job = 'cook' AND health < 2").interval(
        0.999999
    )
    assert low <= cooks <= high


def test_a_column_named_part_stays() -> None:
    part = sc.Attribute("part", "quasi", sc.IntegerRange(0, 1))
    domain = sc.Schema([sc.Attribute("Part_2", "identifier"), part, *DOMAIN], sc.Unit())
    private = _table(WORKED).append_column("part", pa.array([1] * 42))
    private = private.append_column("Part_2", pa.array(["nobody"] * 42))
    release = sc.publish(
        private,
        domain,
        sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3)),
        options=sc.PublishOptions(seed=1),
    )
    assert release.evidence.columns == ("part", "age", "sex", "job", "part_3")
    assert {row["part"] for row in _published(release)} == {1}
    assert {row["part_3"] for row in _published(release)} == {0, 1}


def test_a_promise_that_binds_nothing(subtests: pytest.Subtests) -> None:
    """No rows, or no value as rare as ρ1: one part with the whole domain and the γ of (ρ1, ρ2)."""
    for counts in [[], [1], [500], [10, 10, 10]]:
        with subtests.test(counts=counts):
            release = sc.publish(
                _table(counts),
                DOMAIN,
                sc.Partition(rho1=0.2, rho2=0.5),
                options=sc.PublishOptions(seed=1),
            )
            [channel] = release.evidence.channels
            assert channel.domains == (tuple(range(10)),)
            assert channel.rows == (sum(counts),)
            assert gamma_of(channel.keeps[0], 10) == 4
            assert len(release.guarantees) == 2
            assert len(_published(release)) == sum(counts)
            assert any("binds nothing" in remark for remark in release.remarks) == bool(counts)


def test_plain_publishes_what_the_promise_does_not_bind() -> None:
    mechanism = sc.Partition(rho1=0.2, rho2=0.5, plain=True)
    private = _table([10, 10, 10])
    release = sc.publish(private, DOMAIN, mechanism, options=sc.PublishOptions(seed=1))
    assert release.evidence.channels[0].keeps == (1,)
    assert Counter(row["job"] for row in _published(release)) == {"x1": 10, "x2": 10, "x3": 10}
    [promise] = release.guarantees
    assert "NOTHING IS PROTECTED" in promise.sentence
    assert release.manifest.report["average retention"] == 1
    count = release.answer("SELECT COUNT(*) FROM t WHERE job = 'x2'")
    assert (count.value, count.interval()) == (10, (10, 10))
    # Where a value is rare, nothing is plain.
    bound = sc.publish(
        _table(WORKED), DOMAIN, sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3), plain=True)
    )
    assert max(bound.evidence.channels[0].keeps) < 1


def test_frequent_values_ride_along() -> None:
    """Values above ρ1 are spread over the parts, and perturbed, but not covered."""
    release = sc.publish(
        _table([400, 30, 25, 20, 20, 10, 10, 5]),
        DOMAIN,
        sc.Partition(rho1=0.1, rho2=0.2),
        options=sc.PublishOptions(seed=1),
    )
    assert all(0 in domain for domain in release.evidence.channels[0].domains)
    assert any("is not covered" in limit for limit in release.guarantees[0].limits)


def test_rows_that_are_dropped_are_not_counted() -> None:
    private = _table(WORKED).to_pylist()
    private[0]["age"] = 77
    table = pa.Table.from_pylist(private)
    mechanism = sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3))
    release = sc.publish(
        table, DOMAIN, mechanism, options=sc.PublishOptions(outside="drop", seed=1)
    )
    assert sum(release.evidence.channels[0].rows) == 41 == len(_published(release))
    with pytest.raises(sc.DomainError):
        sc.publish(table, DOMAIN, mechanism, options=sc.PublishOptions(seed=1))


@pytest.mark.parametrize("later", [[12, 8, 6], [*WORKED, 1], [11, 9, *WORKED[2:]], [0] * 9 + [42]])
def test_a_table_that_changes_between_the_passes(later: list[int], tmp_path) -> None:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows

    domain = schema(jobs=(*VALUES, "x11"))
    jobs = [f"x{place + 1}" for place, count in enumerate(later) for _ in range(count)]
    changed = pa.table({"age": [1] * len(jobs), "sex": ["f"] * len(jobs), "job": jobs})
    first, second = Rows(_table(WORKED), domain), Rows(changed, domain)
    passes = iter((first, second))
    rows = Rows(_table(WORKED), domain)
    rows.units = lambda names: next(passes).units(names)
    with pytest.raises(sc.SourceError, match="changed while it was read"):
        sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3)).perturb(rows, Keystream(1), tmp_path)
    assert not list(tmp_path.iterdir())


def test_unfit_schemas_are_refused() -> None:
    mechanism = sc.Partition(rho1=0.1, rho2=0.2)
    large = [sc.Attribute(f"s{i}", "sensitive", sc.IntegerRange(0, 999)) for i in range(3)]
    for domain, sentence in [
        (schema().with_roles(quasi=["job"]), "at least one sensitive"),
        (sc.Schema(large), "1,000,000,000 values together"),
    ]:
        with pytest.raises(sc.SchemaError, match=sentence.replace("+", r"\+")):
            sc.publish("no such file", domain, mechanism)


def test_parameters_are_kept_as_written() -> None:
    mechanism = create("partition", rho1="1/3", rho2=Fraction(2, 3), confidence=0.9)
    assert mechanism.parameters == {
        "rho1": "1/3",
        "rho2": "2/3",
        "confidence": 0.9,
        "plain": False,
    }


QUESTIONS = {
    "SELECT COUNT(*) FROM t WHERE job = 'x4'": lambda row: row["job"] == "x4",
    "SELECT COUNT(*) FROM t WHERE job IN ('x1', 'x7') AND age < 5": lambda row: (
        row["job"] in ("x1", "x7") and row["age"] < 5
    ),
    "SELECT SUM(age) FROM t WHERE job <> 'x1'": lambda row: row["age"] * (row["job"] != "x1"),
    "SELECT COUNT(*) FROM t WHERE job = 'x6' AND part = 1": None,
}


def test_answers_are_unbiased_over_releases() -> None:
    """The mean of 40 answers is within 7 of its estimated standard errors of the truth: false alarm
    below 1e-6 for all together (Student with 39 degrees of freedom: 3e-8 each).
    """
    private = _table([10 * count for count in WORKED])
    mechanism = sc.Partition(rho1=Fraction(1, 3), rho2=Fraction(2, 3))
    releases = [
        sc.publish(private, DOMAIN, mechanism, options=sc.PublishOptions(seed=seed))
        for seed in range(40)
    ]
    answers = np.array(
        [[answer.value for answer in release.answer_many(list(QUESTIONS))] for release in releases]
    )
    truths = [
        10 if holds is None else sum(map(holds, private.to_pylist()))
        for holds in QUESTIONS.values()
    ]
    errors = answers.std(axis=0, ddof=1) / math.sqrt(len(answers))
    assert (errors > 0).all()
    assert (abs(answers.mean(axis=0) - truths) < 7 * errors).all()


def _outcomes(private: list[dict], domains: list[list[str]], keeps: list[Fraction]):
    """Every table that may be published of rows whose parts are known, with its probability."""
    for shown in product(*(domains[row["part"]] for row in private)):
        probability = Fraction(1)
        for row, value in zip(private, shown, strict=True):
            size, keep = len(domains[row["part"]]), keeps[row["part"]]
            probability *= (1 - keep) / size + (keep if value == row["job"] else 0)
        yield probability, [row | {"job": v} for row, v in zip(private, shown, strict=True)]


def test_answers_are_unbiased_exactly() -> None:
    """All 18 tables that three rows in two parts may become, whatever dealt them: the mean of the
    estimate is the truth, and its variance that of the channels.
    """
    channel = PartitionChannel(
        ("job",), "part", ((0, 1, 2), (2, 3)), (Fraction(2, 5), Fraction(1, 3)), (2, 1)
    )
    domain = schema(ages=4, jobs=("a", "b", "c", "d"))
    number = sc.Attribute("part", "insensitive", sc.IntegerRange(0, 1))
    columns = {"age": [1, 3, 2], "sex": list("fmf"), "job": list("acc"), "part": [0, 0, 1]}
    private = pa.table(columns).to_pylist()
    truths = {
        "SELECT COUNT(*) FROM t WHERE job = 'c'": 2,
        "SELECT COUNT(*) FROM t WHERE job <> 'c' AND age = 1": 1,
        "SELECT SUM(age) FROM t WHERE job IN ('b', 'c')": 5,
    }
    moments = {question: [0.0, 0.0] for question in truths}
    for probability, rows in _outcomes(private, [list("abc"), list("cd")], list(channel.keeps)):
        release = records_release(
            sc.Schema([*domain, number]), pa.Table.from_pylist(rows), [channel]
        )
        for question, answer in zip(truths, release.answer_many(list(truths)), strict=True):
            moments[question][0] += float(probability) * answer.value
            moments[question][1] += float(probability) * answer.value**2
    for question, truth in truths.items():
        assert moments[question][0] == pytest.approx(truth, abs=1e-9)
    first = "SELECT COUNT(*) FROM t WHERE job = 'c'"
    # t(1−t)/p² for each row, with t = 1/5, 3/5 and 2/3.
    variance = (Fraction(4, 25) + Fraction(6, 25)) / Fraction(4, 25) + Fraction(2, 9) * 9
    assert moments[first][1] - 2**2 == pytest.approx(float(variance), rel=1e-9)
