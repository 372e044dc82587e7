"""What the owner of a table can do with a release afterwards."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from inspect import signature
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.alphabeta.publish.views import TupleViews
from scumble.public.archive.load import load
from scumble.public.release import Release
from tests.support.people import people, schema

COOKS = "SELECT COUNT(*) FROM t WHERE job = 'cook'"


def distinct(rows: int, domain: sc.Schema) -> pa.Table:
    names = [attribute.name for attribute in domain.published]
    return people(rows, domain).group_by(names).aggregate([])


def tuples(views: int = 3) -> sc.AlphaBeta:
    return sc.AlphaBeta(alpha=0.4, beta=0.1, views=views)


class TestRepublish:
    def test_adds_a_view_and_keeps_the_earlier_ones(self, tmp_path: Path) -> None:
        domain = schema(ages=40)
        table = distinct(300, domain)
        book = tmp_path / "views.book"
        first = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        first.save(tmp_path / "view", insecure=True, update_record=book)
        second = sc.open(tmp_path / "view", update_record=book).republish(table, seed=2)
        assert second.evidence.presence.views == 2
        second.save(tmp_path / "view", force=True, insecure=True)
        third = sc.open(tmp_path / "view", update_record=book).republish(table, seed=3)
        assert third.evidence.presence.views == 3
        before = pq.read_table(tmp_path / "view" / "tuples.parquet").to_pylist()
        after = pq.read_table(third.folder / "tuples.parquet").to_pylist()
        names = [attribute.name for attribute in domain]
        earlier = {tuple(row[name] for name in names): row["views"] for row in before}
        later = {tuple(row[name] for name in names): row["views"] for row in after}
        assert {key: mask & 3 for key, mask in later.items() if mask & 3} == earlier
        with pytest.raises(sc.PromiseError, match="3"):
            third.republish(table, seed=4)

    def test_more_views_have_smaller_errors(self) -> None:
        domain = schema(ages=40)
        table = distinct(300, domain)
        release = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        errors = [release.answer(COOKS).stderr]
        for seed in (2, 3):
            release = release.republish(table, seed=seed)
            errors.append(release.answer(COOKS).stderr)
        assert errors[0] > errors[1] > errors[2]

    def test_promises_are_those_of_all_views(self) -> None:
        domain = schema(ages=40)
        table = distinct(300, domain)
        release = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        again = release.republish(table, seed=2)
        assert list(map(str, again.guarantees)) == list(map(str, release.guarantees))
        assert again.manifest.parameters == release.manifest.parameters
        single = sc.publish(table, domain, tuples(1), options=sc.PublishOptions(seed=1))
        assert list(map(str, single.guarantees)) != list(map(str, release.guarantees))

    def test_another_table_is_refused(self) -> None:
        """One row of 500 was replaced by another: as many rows, and other promises."""
        domain = schema(ages=400)
        table = distinct(700, domain).slice(0, 501)
        assert table.num_rows == 501
        release = sc.publish(
            table.slice(0, 500), domain, tuples(), options=sc.PublishOptions(seed=1)
        )
        for changed in (table.slice(1, 500), table.slice(0, 499), table):
            with pytest.raises(sc.PromiseError, match=r"not the table .* same table only") as error:
                release.republish(changed, seed=2)
            assert not any(number in str(error.value) for number in ("499", "500", "501"))
        again = pa.concat_tables([table.slice(100, 400), table.slice(0, 100)])
        assert release.republish(again, seed=2).evidence.presence.views == 2

    def test_one_second_view_of_a_first(self, tmp_path: Path) -> None:
        """Also from copies of the release, and from the same release in memory."""
        domain, book = schema(ages=40), tmp_path / "views.book"
        table = distinct(300, domain)
        first = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        first.save(tmp_path / "view", insecure=True, update_record=book)
        assert sorted(os.listdir(tmp_path / "view")) == ["manifest.json", "tuples.parquet"]
        assert stat.S_IMODE(book.stat().st_mode) == 0o600
        first.save(tmp_path / "copy", insecure=True)
        with pytest.raises(sc.ReleaseError, match=r"is kept in .*views\.book"):
            first.save(tmp_path / "other", insecure=True, update_record=tmp_path / "other.book")
        second = sc.open(tmp_path / "view", update_record=book).republish(table, seed=2)
        for again in (first, sc.open(tmp_path / "copy", update_record=book)):
            with pytest.raises(sc.PromiseError, match="one view more than was promised"):
                again.republish(table, seed=3)
        second.save(tmp_path / "view", force=True, insecure=True)
        assert second.republish(table, seed=4).evidence.presence.views == 3

    def test_one_second_view_before_anything_is_saved(self) -> None:
        domain = schema(ages=40)
        table = distinct(300, domain)
        first = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        second = first.republish(table, seed=2)
        with pytest.raises(sc.PromiseError, match="one view more than was promised"):
            first.republish(table, seed=3)
        del first
        assert second.republish(table, seed=4).evidence.presence.views == 3

    def test_one_of_two_that_draw_at_the_same_time(self, monkeypatch) -> None:
        """Both have seen that there is no second view; one is counted first."""
        domain = schema(ages=40)
        table = distinct(300, domain)
        first = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        later, made = TupleViews.later, []

        def between(*given):
            monkeypatch.setattr(TupleViews, "later", later)
            made.append(first.republish(table, seed=2))
            return later(*given)

        monkeypatch.setattr(TupleViews, "later", between)
        with pytest.raises(sc.PromiseError, match="one view more than was promised"):
            first.republish(table, seed=3)
        [second] = made
        assert second.republish(table, seed=4).evidence.presence.views == 3

    def test_the_private_record_is_needed(self, tmp_path: Path) -> None:
        domain = schema(ages=40)
        table = distinct(300, domain)
        first, other = (
            sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=seed))
            for seed in (1, 2)
        )
        with pytest.raises(sc.ReleaseError, match="would be lost"):
            first.save(tmp_path / "view", insecure=True)
        with pytest.raises(sc.ReleaseError, match="to a folder only"):
            first.save(f"sqlite:///{tmp_path}/views.db/view", insecure=True)
        first.save(tmp_path / "view", insecure=True, update_record=tmp_path / "views.book")
        with pytest.raises(sc.ReleaseError, match="needs the private record"):
            sc.open(tmp_path / "view").republish(table, seed=2)
        other.save(tmp_path / "other", insecure=True, update_record=tmp_path / "other.book")
        with pytest.raises(sc.ReleaseError, match="does not fit the release"):
            sc.open(tmp_path / "view", update_record=tmp_path / "other.book").republish(
                table, seed=2
            )
        for text in ("", "{}", "views\n", "[1]\n1 2\n", '{"scumble": "views of one table"}\n'):
            (tmp_path / "damaged").write_text(text)
            with pytest.raises(sc.ReleaseError, match="cannot be read"):
                sc.open(tmp_path / "view", update_record=tmp_path / "damaged").republish(
                    table, seed=2
                )

    def test_the_fingerprint_cannot_be_tried_out(self) -> None:
        """It is made under a key of its own: two records of one table have nothing in common but
        their form, and no part of the release has the key.
        """
        domain = schema(ages=40)
        table = distinct(300, domain)
        releases = [
            sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1)) for _ in range(2)
        ]
        firsts = [json.loads(each.update_record.read_text().splitlines()[0]) for each in releases]
        for name in ("key", "tuples"):
            one, other = (each[name] for each in firsts)
            assert one != other
            assert (len(one), len(other)) == (64, 64)
        for path in releases[0].folder.iterdir():
            assert (
                path == releases[0].update_record
                or firsts[0]["tuples"].encode() not in path.read_bytes()
            )

    def test_the_form_of_the_record(self, tmp_path: Path) -> None:
        """Version 1, written by hand: HMAC-SHA256 of the sorted numbers of the tuples."""
        domain = sc.Schema(
            [sc.Attribute(name, "sensitive", sc.IntegerRange(0, 3)) for name in ("x", "y")]
        )
        table = pa.table({"x": [3, 0, 2], "y": [1, 2, 0]})
        release = sc.publish(table, domain, tuples(), options=sc.PublishOptions(seed=1))
        release.save(tmp_path / "view", insecure=True, update_record=tmp_path / "own")
        key, numbers = bytes(range(32)), [4 * 0 + 2, 4 * 2 + 0, 4 * 3 + 1]
        told = b"".join(number.to_bytes(8, "little") for number in numbers)
        first = {"scumble": "views of one table", "version": 1, "key": key.hex()}
        first["tuples"] = hmac.new(key, told, "sha256").hexdigest()
        shown = hashlib.sha256((tmp_path / "view" / "tuples.parquet").read_bytes()).hexdigest()
        (tmp_path / "book").write_text(f"{json.dumps(first)}\n1 {shown}\n")
        second = sc.open(tmp_path / "view", update_record=tmp_path / "book").republish(
            table, seed=2
        )
        assert second.evidence.presence.views == 2
        lines = (tmp_path / "book").read_text().splitlines()
        new = hashlib.sha256((second.folder / "tuples.parquet").read_bytes()).hexdigest()
        assert lines[1:] == [f"1 {shown}", f"2 {new}"]

    def test_others_have_no_second_view(self) -> None:
        release = sc.publish(
            people(50, schema()), schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1)
        )
        with pytest.raises(sc.ParameterError, match="uniform has no republish"):
            release.republish(people(50, schema()))
        with pytest.raises(sc.ParameterError, match="uniform has no insert"):
            release.insert(people(50, schema()))
        with pytest.raises(sc.ParameterError, match="uniform has no delete"):
            release.delete(["1"])


def named(rows: int) -> tuple[pa.Table, sc.Schema]:
    """People with a number each, by which they are told apart."""
    domain = schema()
    table = people(rows, domain).append_column("person", pa.array(range(rows)))
    return table, sc.Schema((*domain, sc.Attribute("person", "identifier", None)))


class TestBook:
    def test_is_kept_outside_the_release(self, tmp_path: Path) -> None:
        table, domain = named(60)
        release = sc.publish(
            table, domain, sc.Aroma(k=7, identifier="person"), options=sc.PublishOptions(seed=1)
        )
        with pytest.raises(sc.ReleaseError, match="would be lost"):
            release.save(tmp_path / "view", insecure=True)
        with pytest.raises(sc.ReleaseError, match="outside of release folders"):
            release.save(tmp_path / "view", insecure=True, update_record=tmp_path / "view" / "book")
        other = sc.publish(
            people(5, schema()), schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1)
        )
        other.save(tmp_path / "other", insecure=True)
        with pytest.raises(sc.ReleaseError, match="outside of release folders"):
            release.save(
                tmp_path / "view", insecure=True, update_record=tmp_path / "other" / "book"
            )
        (tmp_path / "taken").touch()
        with pytest.raises(sc.OutputExistsError, match="already exists"):
            release.save(tmp_path / "view", insecure=True, update_record=tmp_path / "taken")
        assert not (tmp_path / "view").exists()
        release.save(
            tmp_path / "view", insecure=True, update_record=tmp_path / "own" / "people.book"
        )
        assert sorted(os.listdir(tmp_path / "view")) == ["manifest.json", "records.parquet"]
        mode = stat.S_IMODE((tmp_path / "own" / "people.book").stat().st_mode)
        assert mode == 0o600

    def test_leave_and_come_back(self, tmp_path: Path) -> None:
        """A record that is deleted and inserted again shows the same multiset."""
        table, domain = named(60)
        book = tmp_path / "people.book"
        release = sc.publish(
            table, domain, sc.Aroma(k=7, identifier="person"), options=sc.PublishOptions(seed=1)
        )
        release.save(tmp_path / "view", insecure=True, update_record=book)
        whole = pq.read_table(tmp_path / "view" / "records.parquet")
        fewer = sc.open(tmp_path / "view", update_record=book).delete(range(20))
        assert fewer.evidence.rows == 40
        fewer.save(tmp_path / "view", force=True, insecure=True, update_record=book)
        again = sc.open(tmp_path / "view", update_record=book).insert(table.slice(0, 20), seed=2)
        assert pq.read_table(again.folder / "records.parquet").equals(whole)

    def test_stays_if_the_release_cannot_be_saved(self, tmp_path: Path, monkeypatch) -> None:
        """The old release and the old private record fit each other until both are replaced."""
        table, domain = named(60)
        book = tmp_path / "people.book"
        release = sc.publish(
            table, domain, sc.Aroma(k=7, identifier="person"), options=sc.PublishOptions(seed=1)
        )
        release.save(tmp_path / "view", insecure=True, update_record=book)
        before = book.read_bytes()
        fewer = sc.open(tmp_path / "view", update_record=book).delete([3])

        def full(*_: object, **__: object) -> None:
            raise sc.ReleaseError("the disk is full")

        monkeypatch.setattr("scumble.public.archive.archive.save", full)
        with pytest.raises(sc.ReleaseError, match="disk is full"):
            fewer.save(tmp_path / "view", force=True, insecure=True, update_record=book)
        assert book.read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["people.book", "view"]
        sc.open(tmp_path / "view", update_record=book).delete([4])

    def test_is_needed_to_update(self, tmp_path: Path) -> None:
        table, domain = named(60)
        release = sc.publish(
            table, domain, sc.Aroma(k=7, identifier="person"), options=sc.PublishOptions(seed=1)
        )
        release.save(tmp_path / "view", insecure=True, update_record=tmp_path / "book")
        with pytest.raises(sc.ReleaseError, match="with its private record"):
            sc.open(tmp_path / "view").delete([1])
        with pytest.raises(sc.ReleaseError, match="not a file"):
            sc.open(tmp_path / "view", update_record=tmp_path / "none")

    def test_only_updatable_releases_have_one(self, tmp_path: Path) -> None:
        release = sc.publish(
            people(50, schema()), schema(), sc.Aroma(k=7), options=sc.PublishOptions(seed=1)
        )
        with pytest.raises(sc.ParameterError, match="no private record"):
            release.save(tmp_path / "view", insecure=True, update_record=tmp_path / "book")


class TestLevels:
    def test_one_release_for_each(self) -> None:
        table, domain = people(80, schema()), schema()
        found = sc.Aroma(k=9).publish_levels(
            table, domain, levels=[3, 9], options=sc.PublishOptions(seed=1)
        )
        assert [release.manifest.parameters["k"] for release in found] == [3, 9]
        for release in found:
            low, high = release.answer(COOKS).interval(0.999999)
            assert low <= table["job"].to_pylist().count("cook") <= high

    def test_only_for_aroma(self) -> None:
        assert [n for n, kind in sc.mechanisms().items() if hasattr(kind, "publish_levels")] == [
            "aroma"
        ]

    def test_options_are_those_of_publish(self) -> None:
        """Levels are published by the same options, and saved one by one: there is no `to`."""
        of_publish = signature(sc.publish).parameters
        of_levels = signature(sc.Aroma.publish_levels).parameters
        for name in ("options", "ledger"):
            assert of_levels[name].default == of_publish[name].default
        assert "to" not in of_levels
        with pytest.raises(TypeError, match="sead"):
            sc.Aroma(k=9).publish_levels("no such file", schema(), levels=[9], sead=1)


def test_the_public_side_knows_nothing_of_it(tmp_path: Path) -> None:
    release = sc.publish(
        people(50, schema()), schema(), sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1)
    )
    release.save(tmp_path / "view", insecure=True)
    assert type(load(tmp_path / "view")) is Release
