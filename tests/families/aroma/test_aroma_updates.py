"""Updates: a record inserted again shows its old multiset; the private record stays private."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.aroma.publish.views import UPDATE_RECORD
from tests.support.people import JOBS, schema

DOMAIN = sc.Schema([sc.Attribute("pid", "identifier"), *schema(ages=1000)], sc.Unit())


def rows(people: list[int], job: str = "cook") -> pa.Table:
    """One row a person, whose age is its number: views tell bags of persons apart by it."""
    return pa.table(
        {
            "pid": [f"CANARY{person}" for person in people],
            "age": people,
            "sex": ["f"] * len(people),
            "job": [job] * len(people),
        }
    )


def names(people: list[int]) -> list[str]:
    return [f"CANARY{person}" for person in people]


def shown(release: sc.Release) -> dict[int, tuple[int, ...]]:
    """The bag of every person."""
    table = pq.read_table(release.folder / "records.parquet")
    columns = [table[name].to_pylist() for name in release.evidence.channels[0].columns]
    ages = table["age"].to_pylist()
    assert ages == sorted(ages)
    return dict(zip(ages, zip(*columns, strict=True), strict=True))


@pytest.fixture(params=[(30, True), (5, True), (5, False)])
def release(request, monkeypatch) -> sc.Release:
    """Forty persons, their bags as counts and as codes."""
    k, counted = request.param
    for module in ("private.perturbation.multisets", "families.aroma.publish.views"):
        monkeypatch.setattr(f"scumble.{module}.counted", lambda *_: counted)
    mechanism = sc.Aroma(k=k, identifier="pid")
    return sc.publish(rows(list(range(40))), DOMAIN, mechanism)


def test_the_book_lists_who_is_published(release) -> None:
    assert release.update_record == release.folder / UPDATE_RECORD
    assert stat.S_IMODE(release.update_record.stat().st_mode) == 0o600
    book = pq.read_table(release.update_record)
    assert sorted(book["id"].to_pylist()) == sorted(name.encode() for name in names(range(40)))
    assert set(book["true"].to_pylist()) == {0}
    assert all(book["present"].to_pylist())
    assert UPDATE_RECORD not in release.evidence.files


def test_inserted_records_leave_all_others_as_they_are(release) -> None:
    before = shown(release)
    after = release.insert(rows([100, 101], "smith"))
    assert after.evidence.rows == 42
    now = shown(after)
    assert {age: bag for age, bag in now.items() if age < 100} == before
    assert set(now) - set(before) == {100, 101}
    assert all(size == 42 for size in [len(pq.read_table(after.update_record)), len(now)])
    assert shown(release) == before


def test_a_returning_record_shows_its_old_bag(release) -> None:
    before = shown(release)
    without = release.delete(names(list(range(20))))
    assert set(shown(without)) == set(range(20, 40))
    assert without.evidence.rows == 20
    back = without.insert(rows(list(range(20))))
    assert shown(back) == before
    assert len(pq.read_table(back.update_record)) == 40


def test_another_value_is_another_bag_and_the_old_one_is_kept(release) -> None:
    """Twenty persons come back with another job: that all their bags agree with the old ones has
    probability below 1e-6. With the first job again, they show the first bag again.
    """
    people = list(range(20))
    before = shown(release)
    moved = release.delete(names(people)).insert(rows(people, "smith"))
    now = shown(moved)
    assert [now[person] for person in people] != [before[person] for person in people]
    smith = JOBS.index("smith")
    counted = moved.evidence.channels[0].layout == "counts"
    assert all((now[p][smith] > 0) if counted else (smith in now[p]) for p in people)
    book = pq.read_table(moved.update_record)
    assert len(book) == 60
    assert sum(book["present"].to_pylist()) == 40
    again = moved.delete(names(people)).insert(rows(people))
    assert shown(again) == before


def test_other_columns_of_a_returning_record_may_change(release) -> None:
    before = shown(release)
    changed = rows([7]).set_column(1, "age", pa.array([777]))
    back = release.delete(names([7])).insert(changed)
    assert shown(back)[777] == before[7]


def test_answers_follow_the_updates(release) -> None:
    grown = release.insert(rows(list(range(100, 400)), "nurse")).delete(names([1, 2, 3]))
    assert grown.answer("SELECT COUNT(*) FROM t").value == 337
    low, high = grown.answer("SELECT COUNT(*) FROM t WHERE job = 'nurse'").interval(0.999999)
    assert low <= 300 <= high
    empty = release.delete(names(list(range(40))))
    assert empty.evidence.rows == 0
    assert shown(empty.insert(rows(list(range(40))))) == shown(release)


def test_a_saved_release_goes_on_with_its_book(release, tmp_path: Path) -> None:
    folder, book = tmp_path / "view", tmp_path / "private" / "book.parquet"
    with pytest.raises(sc.ReleaseError, match="private record would be lost"):
        release.save(folder)
    release.save(folder, update_record=book)
    assert not any(b"CANARY" in file.read_bytes() for file in folder.iterdir())
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    opened = sc.open(folder, update_record=book)
    opened.insert(rows([50])).save(folder, update_record=book, force=True)
    assert set(shown(sc.open(folder))) == {*range(40), 50}
    with pytest.raises(sc.ReleaseError, match="private record"):
        sc.open(folder).delete(names([50]))


def test_a_book_of_another_release_is_refused(release, tmp_path: Path) -> None:
    other = sc.publish(rows(list(range(40))), DOMAIN, sc.Aroma(k=30, identifier="pid"))
    release.update_record = other.update_record
    with pytest.raises(sc.ReleaseError, match="does not fit the release"):
        release.insert(rows([50]))
    plain = tmp_path / "plain.parquet"
    pq.write_table(rows([1]), plain)
    release.update_record = plain
    with pytest.raises(sc.ReleaseError, match="damaged, or another file"):
        release.delete(names([1]))


def test_refusals_name_nobody(release) -> None:
    cases = [
        (lambda: release.insert(rows([3, 100])), "in the release already"),
        (lambda: release.insert(rows([100, 100])), "the same identifier in several rows"),
        (lambda: release.delete(names([100])), "not in the release"),
        (lambda: release.delete([None]), "not in the release"),
        (lambda: release.delete(["CANARY1", 2]), "all text or all numbers"),
        (lambda: sc.publish(rows([1, 1]), DOMAIN, sc.Aroma(k=5, identifier="pid")), "several rows"),
    ]
    for work, sentence in cases:
        with pytest.raises(sc.ScumbleError) as error:
            work()
        assert sentence in str(error.value)
        assert "CANARY" not in str(error.value)


def test_nothing_to_do(release) -> None:
    with pytest.raises(sc.SourceError, match="no records to insert"):
        release.insert(rows([]))
    with pytest.raises(sc.ParameterError, match="no identifiers to delete"):
        release.delete([])


def test_a_release_without_identifiers_cannot_be_updated() -> None:
    release = sc.publish(rows([1, 2]), DOMAIN, sc.Aroma(k=5))
    assert release.update_record is None
    with pytest.raises(sc.ReleaseError, match="private record"):
        release.insert(rows([3]))


def test_identifiers_in_any_spelling() -> None:
    numbers = rows([1, 2, 3]).set_column(0, "pid", pa.array([1, 2, 3]))
    release = sc.publish(numbers, DOMAIN, sc.Aroma(k=30, identifier="pid"))
    less = release.delete(["1", " 3 "])
    texts = rows([1, 3]).set_column(0, "pid", pa.array(["1", "3"]).dictionary_encode())
    assert shown(less.insert(texts)) == shown(release)


def test_rows_that_are_left_out_keep_their_identifiers_with_them() -> None:
    stray = rows([1, 2, 3]).set_column(3, "job", pa.array(["cook", "king", "smith"]))
    mechanism = sc.Aroma(k=30, identifier="pid")
    release = sc.publish(stray, DOMAIN, mechanism, options=sc.PublishOptions(outside="drop"))
    book = pq.read_table(release.update_record)
    assert book["id"].to_pylist() == [b"CANARY1", b"CANARY3"]
    assert book["true"].to_pylist() == [JOBS.index("cook"), JOBS.index("smith")]
    assert np.array_equal(book["present"].to_numpy(), [True, True])


def test_updates_are_said_in_the_limits(release) -> None:
    assert all(
        any("before and after an update" in limit for limit in promise.limits)
        for promise in release.guarantees
    )
