"""Anatomy: every group is l-diverse, nothing but chance decides who is in it, and as few rows as
possible are left out.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.families.anatomy.publish import LEFT_OUT, cap_counts, eligible
from scumble.private.sampling.source import Keystream
from tests.support.anatomy import groups_of_records
from tests.support.goodness import rejects
from tests.support.people import JOBS, people, schema

TINY = schema(ages=12)


def _table(jobs: list[str]) -> pa.Table:
    """People of different ages with these jobs, in this order."""
    return pa.table({"age": range(len(jobs)), "sex": ["f"] * len(jobs), "job": jobs})


def _files(release: sc.Release) -> tuple[pa.Table, pa.Table]:
    return tuple(pq.read_table(release.folder / name) for name in release.evidence.files)


def _groups(codes: list[int], least: int, seed: int = 0) -> np.ndarray:
    array = np.array(codes, np.uint8)
    kept = cap_counts(np.bincount(array, minlength=1), least)
    return groups_of_records(Keystream(seed), array, kept, least)


@given(st.lists(st.integers(0, 7), max_size=60), st.integers(2, 5), st.integers(0, 1000))
@settings(max_examples=300, deadline=None)
def test_every_group_is_diverse(codes: list[int], least: int, seed: int) -> None:
    """At least l different values, each once, so that none has more than 1/l; the groups are all
    that fit, and nothing that can be kept is left out.
    """
    groups = _groups(codes, least, seed)
    kept = [(group, code) for group, code in zip(groups, codes, strict=True) if group != LEFT_OUT]
    assert len(set(kept)) == len(kept)
    sizes = Counter(group for group, _ in kept)
    assert set(sizes) == set(range(len(kept) // least))
    assert all(least <= size < 2 * least for size in sizes.values())
    assert len(kept) == max(_keepable(Counter(codes), least))
    if eligible(np.bincount(codes, minlength=1), least):
        assert len(kept) == len(codes)


def _keepable(counts: Counter, least: int) -> list[int]:
    """Numbers of rows that can be kept: all caps are tried."""
    totals = [0]
    for cap in range(1, max(counts.values(), default=0) + 1):
        total = sum(min(count, cap) for count in counts.values())
        if cap * least <= total:
            totals.append(total)
    return totals


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(2, 3))
@settings(max_examples=100, deadline=None)
def test_the_fewest_rows_are_left_out(counts: list[int], least: int) -> None:
    """Against all ways to keep some records of each value."""
    ways = itertools.product(*(range(count + 1) for count in counts))
    best = max(sum(way) for way in ways if max(way) * least <= sum(way))
    assert cap_counts(np.array(counts, np.int64), least).sum() == best


def test_eligible_up_to_exactly_one_in_l(subtests: pytest.Subtests) -> None:
    for jobs, least, fits in [
        ("ccnnss", 3, True),
        ("cccnss", 3, False),
        ("ccnnsst", 3, True),
        ("cccnsst", 3, False),
        ("ccnn", 2, True),
        ("cccnn", 2, False),
        ("c", 2, False),
        ("cn", 2, True),
        ("", 2, True),
    ]:
        with subtests.test(jobs=jobs, least=least, fits=fits):
            words = {job[0]: job for job in JOBS}
            private = _table([words[letter] for letter in jobs]).cast(
                pa.schema([("age", pa.int64()), ("sex", pa.string()), ("job", pa.string())])
            )
            if fits:
                release = sc.publish(
                    private, TINY, sc.Anatomy(l=least), options=sc.PublishOptions(seed=1)
                )
                assert release.evidence.rows == len(jobs)
                assert release.evidence.complete
                continue
            with pytest.raises(sc.PromiseError, match="suppress=True") as error:
                sc.publish(private, TINY, sc.Anatomy(l=least), options=sc.PublishOptions(seed=1))
            assert "\n" not in str(error.value)
            assert not any(word in str(error.value) for word in JOBS)


def test_refused_before_anything_is_drawn_or_written(tmp_path, monkeypatch) -> None:
    def drawn(*_: object) -> None:
        raise AssertionError("randomness was drawn")

    monkeypatch.setattr(Keystream, "fill", drawn)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(sc.PromiseError):
        sc.publish(_table(["cook"] * 9), TINY, sc.Anatomy(l=2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("least", [6, 100])
def test_more_values_than_there_are(least: int) -> None:
    for suppress in (False, True):
        with pytest.raises(sc.SchemaError, match=f"l = {least} needs as many different values"):
            sc.publish("no such file", schema(), sc.Anatomy(l=least, suppress=suppress))


def test_the_files_hold_the_rows_and_their_values_apart() -> None:
    private = people(500, schema())
    release = sc.publish(private, schema(), sc.Anatomy(l=2), options=sc.PublishOptions(seed=1))
    rows, values = _files(release)
    assert rows.column_names == ["age", "sex", "group"]
    assert values.column_names == ["job", "group", "count"]
    for table in (rows, values):  # in an order that says nothing
        columns = [(name, "ascending") for name in table.column_names]
        assert table.equals(table.sort_by(columns))
    assert Counter(values["job"].to_pylist()) == Counter(private["job"].to_pylist())
    known = Counter(zip(*(private[name].to_pylist() for name in ("age", "sex")), strict=True))
    assert known == Counter(zip(*(rows[name].to_pylist() for name in ("age", "sex")), strict=True))
    assert Counter(rows["group"].to_pylist()) == Counter(values["group"].to_pylist())
    assert set(values["count"].to_pylist()) == {1}


def test_an_archive_has_both_files(tmp_path) -> None:
    release = sc.publish(
        people(300, schema()), schema(), sc.Anatomy(l=2), options=sc.PublishOptions(seed=1)
    )
    saved = release.save(tmp_path / "release", insecure=True)
    names = {path.name for path in saved.iterdir()}
    assert names == {"manifest.json", "rows.parquet", "values.parquet"}
    again = sc.open(saved)
    assert again.evidence == release.evidence
    question = "SELECT sex, COUNT(*) FROM t WHERE job = 'cook' GROUP BY sex"
    assert repr(again.answer(question)) == repr(release.answer(question))
    (saved / "values.parquet").write_bytes((saved / "rows.parquet").read_bytes())
    with pytest.raises(sc.ReleaseError, match=r"values\.parquet"):
        sc.open(saved)


def test_columns_may_be_called_group_and_count() -> None:
    extra = [sc.Attribute(name, "quasi", sc.IntegerRange(0, 3)) for name in ("Group", "count")]
    domain = sc.Schema([*schema(), *extra])
    release = sc.publish(
        people(200, domain), domain, sc.Anatomy(l=2), options=sc.PublishOptions(seed=1)
    )
    rows, values = _files(release)
    assert rows.column_names == ["age", "sex", "Group", "count", "group_2"]
    assert values.column_names == ["job", "group_2", "count_2"]
    assert release.answer("SELECT COUNT(*) FROM t WHERE count = 1 AND job = 'cook'").stderr > 0


def test_several_attributes_are_one_value() -> None:
    domain = schema(health=3)
    release = sc.publish(
        people(600, domain), domain, sc.Anatomy(l=4), options=sc.PublishOptions(seed=1)
    )
    _, values = _files(release)
    assert values.column_names == ["job", "health", "group", "count"]
    pairs = list(zip(*(values[n].to_pylist() for n in ("group", "job", "health")), strict=True))
    assert len(set(pairs)) == len(pairs)
    [promise] = release.guarantees
    assert any("combination of job, health" in limit for limit in promise.limits)
    alone = [group for group, *_ in {(group, job) for group, job, _ in pairs}]
    assert min(Counter(alone).values()) < 4  # as the limit says: one attribute may be less diverse


def test_many_possible_values() -> None:
    """A domain beyond what is counted in an array."""
    salary = sc.Attribute("salary", "sensitive", sc.IntegerRange(0, 10**12))
    domain = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 99)), salary])
    private = pa.table({"age": [i % 100 for i in range(500)], "salary": [i**4 for i in range(500)]})
    release = sc.publish(private, domain, sc.Anatomy(l=10), options=sc.PublishOptions(seed=1))
    _, values = _files(release)
    assert sorted(values["salary"].to_pylist()) == [i**4 for i in range(500)]
    assert set(Counter(values["group"].to_pylist()).values()) == {10}


def test_which_rows_meet_is_chance() -> None:
    """Six rows a1 a2 b1 b2 c1 c2 and l = 3 make two groups, with each of the four ways to split
    them equally often: chi-square over 4000 releases, false alarm 1e-6.
    """
    ways: Counter = Counter()
    for seed in range(4000):
        groups = _groups([0, 1, 2, 0, 1, 2], 3, seed)
        ways[tuple(groups[:3] == groups[0])] += 1
    assert len(ways) == 4
    assert not rejects(list(ways.values()), [1 / 4] * 4)


def test_ties_and_the_rest_go_by_chance() -> None:
    """Three values twice each and l = 2: any two of them may make the first group, and the other
    groups follow; five values once each and l = 2: each is as often the one that is left over and
    joins another group. Chi-square, false alarm 1e-6 each.
    """
    pairs: Counter = Counter()
    crowded: Counter = Counter()
    for seed in range(3000):
        first = _groups([0, 1, 2, 0, 1, 2], 2, seed)
        pairs[
            tuple(
                sorted(code for code, group in zip([0, 1, 2] * 2, first, strict=True) if not group)
            )
        ] += 1
        five = _groups([0, 1, 2, 3, 4], 2, seed)
        [crowd] = [group for group, size in Counter(five.tolist()).items() if size == 3]
        crowded[tuple(np.flatnonzero(five == crowd))] += 1
    assert not rejects([pairs[pair] for pair in itertools.combinations(range(3), 2)], [1 / 3] * 3)
    triples = list(itertools.combinations(range(5), 3))
    assert not rejects([crowded[triple] for triple in triples], [1 / 10] * 10)


def test_which_rows_are_left_out_is_chance() -> None:
    """Five cooks and two others with l = 2: two of the five are kept, every pair equally often.
    Chi-square over 4000 releases, false alarm 1e-6.
    """
    kept: Counter = Counter()
    for seed in range(4000):
        groups = _groups([0, 1, 0, 0, 2, 0, 0], 2, seed)
        assert groups[1] != LEFT_OUT
        assert groups[4] != LEFT_OUT
        kept[tuple(np.flatnonzero(groups[[0, 2, 3, 5, 6]] != LEFT_OUT))] += 1
    pairs = list(itertools.combinations(range(5), 2))
    assert not rejects([kept[pair] for pair in pairs], [1 / len(pairs)] * len(pairs))


def test_every_way_to_hand_out_the_values_is_published_equally_often() -> None:
    """The proof of the promise, by Bayes: over all tables with the same values, what is published
    as the first two of six rows in one group with the values a and b comes from a table in which
    the first has a as often as from one in which it has b. Chi-square, false alarm 1e-6.
    """
    true: Counter = Counter()
    tables = sorted(set(itertools.permutations([0, 0, 1, 1, 2, 2])))
    for seed, table in enumerate(tables * 60):
        groups = _groups(list(table), 2, seed)
        if groups[0] == groups[1] and {table[0], table[1]} == {0, 1}:
            true[table[0]] += 1
    assert not rejects([true[0], true[1]], [1 / 2] * 2)


def test_left_out_rows_are_told_as_far_as_they_may_be() -> None:
    private = _table(["cook"] * 8 + ["nurse", "smith", "driver"])
    release = sc.publish(
        private, TINY, sc.Anatomy(l=2, suppress=True), options=sc.PublishOptions(seed=1)
    )
    assert release.evidence.rows == 6
    assert not release.evidence.complete
    [promise] = release.guarantees
    assert any("missing from the release" in limit for limit in promise.limits)
    [remark] = release.remarks
    assert remark.startswith("A large part of the table is not in this release.")
    assert remark.endswith("a value of job is too frequent, 45 % of the rows were left out.")
    shown = sc.publish(
        private,
        TINY,
        sc.Anatomy(l=2, suppress=True),
        options=sc.PublishOptions(seed=1, reveal=True),
    )
    assert "5 rows were left out" in shown.remarks[0]
    assert release.evidence.left_out == 5  # which is published
    assert any("left out" in note for note in release.answer("SELECT COUNT(*) FROM t").notes)


def test_left_out_rows_are_counted_where_their_value_tells() -> None:
    """All of them have the most frequent value, so that only conditions on others leave it open."""
    private = _table(["cook"] * 8 + ["nurse", "smith", "driver"])
    release = sc.publish(
        private, TINY, sc.Anatomy(l=2, suppress=True), options=sc.PublishOptions(seed=1)
    )
    conditions = {"": 11, "WHERE job = 'cook'": 8, "WHERE job <> 'nurse'": 10}
    for condition, number in conditions.items():
        told = release.answer(f"SELECT COUNT(*) FROM t {condition}")
        assert (told.value, *told.interval()) == (number, number, number)
    by_job = release.answer("SELECT job, COUNT(*) FROM t GROUP BY job")
    assert [each.value for _, each in by_job if each.value] == [8, 1, 1, 1]
    assert all(each.stderr == 0 for _, each in by_job)
    least, most = release.answer("SELECT COUNT(*) FROM t WHERE age < 6").interval()
    assert most - least == 5
    clamped = release.answer("SELECT COUNT(*) FROM t", clamp=True)
    assert clamped.value == 11


def test_nothing_left_out_is_told_too() -> None:
    release = sc.publish(
        people(100, schema()),
        schema(),
        sc.Anatomy(l=2, suppress=True),
        options=sc.PublishOptions(seed=1),
    )
    [promise] = release.guarantees
    assert not any("missing from the release" in limit for limit in promise.limits)
    assert release.remarks == ()


@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_to_publish(rows: int) -> None:
    release = sc.publish(
        people(rows, schema()),
        schema(),
        sc.Anatomy(l=2, suppress=True),
        options=sc.PublishOptions(seed=1),
    )
    assert [table.num_rows for table in _files(release)] == [0, 0]
    assert release.answer("SELECT COUNT(*) FROM t WHERE job = 'cook' AND age < 5").value == 0
    assert math.isnan(release.answer("SELECT AVG(age) FROM t WHERE job = 'cook'").value)
    assert len(release.answer("SELECT job, COUNT(*) FROM t WHERE age > 1 GROUP BY job")) == 0


def test_the_promise_is_rounded_up_and_has_its_limits() -> None:
    for least in (2, 3, 7):
        [promise] = sc.Anatomy(l=least).guarantee(schema())
        assert promise.statement == "l-diversity"
        assert promise.parameters == {"l": least}
        told = promise.sentence.rsplit("more than ", 1)[1].split(" %")[0]
        assert Fraction(told) / 100 >= Fraction(1, least)
        for word in ("can exclude them", "guess better", "not differential privacy", "who is in"):
            assert any(word in limit for limit in promise.limits)


def test_no_private_value_gets_out(capfd) -> None:
    jobs = tuple(f"CANARY-{number}" for number in range(4))
    domain = schema(jobs=jobs)
    private = pa.table(
        {"age": [1] * 773, "sex": ["f"] * 773, "job": [jobs[0]] * 700 + [jobs[1]] * 73}
    )
    with pytest.raises(sc.PromiseError) as error:
        sc.publish(private, domain, sc.Anatomy(l=3))
    release = sc.publish(private, domain, sc.Anatomy(l=2, suppress=True))
    said = str(error.value) + repr(release) + "".join(release.remarks) + "".join(capfd.readouterr())
    assert "CANARY" not in said
    assert not any(number in said for number in ("773", "700", "73", "627"))
