"""Release folders: nothing half-written, nothing overwritten unasked, nothing damaged accepted."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import scumble as sc
from scumble.public.archive import archive
from tests.support.people import people, schema


@pytest.fixture
def made() -> sc.Release:
    return sc.publish(people(300, schema()), schema(), sc.Uniform(epsilon=1))


@pytest.fixture
def saved(made: sc.Release, tmp_path: Path) -> Path:
    return made.save(tmp_path / "view")


def test_round_trip(made: sc.Release, saved: Path) -> None:
    opened = sc.open(saved)
    assert opened.manifest == made.manifest
    question = "SELECT job, COUNT(*) FROM t GROUP BY job"
    assert repr(opened.answer(question)) == repr(made.answer(question))
    assert sorted(path.name for path in saved.iterdir()) == ["manifest.json", "records.parquet"]
    (saved.parent / "ordinary").mkdir()
    assert saved.stat().st_mode == (saved.parent / "ordinary").stat().st_mode


def test_a_release_moves_into_its_folder(tmp_path: Path) -> None:
    release = sc.publish(people(10, schema()), schema(), sc.Uniform(epsilon=1))
    before = release.folder
    release.answer("SELECT COUNT(*) FROM t")
    saved = release.save(tmp_path / "view")
    assert not before.exists()
    assert release.folder.samefile(saved)
    assert release.answer("SELECT COUNT(*) FROM t").value == 10
    del release
    assert sc.open(saved).answer("SELECT COUNT(*) FROM t").value == 10


def test_a_saved_release_is_saved_again_as_a_copy(saved: Path, tmp_path: Path) -> None:
    again = sc.open(saved).save(tmp_path / "copy")
    assert not (again / "records.parquet").samefile(saved / "records.parquet")
    assert sc.open(again).manifest == sc.open(saved).manifest


def test_an_existing_folder_is_in_the_way(made: sc.Release, saved: Path) -> None:
    before = (saved / "manifest.json").read_bytes()
    with pytest.raises(sc.OutputExistsError, match="already exists"):
        made.save(saved)
    assert (saved / "manifest.json").read_bytes() == before
    made.save(saved, force=True)
    assert sc.open(saved).manifest == made.manifest


def test_force_does_not_replace_what_is_no_release(made: sc.Release, tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.txt").write_text("words")
    with pytest.raises(sc.ReleaseError, match="not a release"):
        made.save(precious, force=True)
    assert (precious / "chapter1.txt").read_text() == "words"


def test_force_does_not_remove_the_files_of_others(made: sc.Release, saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(sc.ReleaseError, match=r"not part of a release \(notes.txt\)"):
        made.save(saved, force=True)
    assert (saved / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("step", ["_write_files", "swap", "sync"])
@pytest.mark.parametrize("force", [False, True])
def test_a_crash_leaves_nothing_half_made(
    made: sc.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, force: bool
) -> None:
    """If saving stops at any step, the old release is there, or none, and no partial folder."""
    target = tmp_path / "view"
    if force:
        made.save(target)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archive, step, stop)
        with pytest.raises(KeyboardInterrupt):
            made.save(target, force=force)
    assert [path.name for path in tmp_path.iterdir()] == (["view"] if force else [])
    if force:
        sc.open(target)


def test_a_failed_rename_brings_the_old_release_back(
    made: sc.Release, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if not self.name.endswith("-old") and Path(target) == saved:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(sc.ReleaseError, match="No space left on device"):
            made.save(saved, force=True)
    assert [path.name for path in saved.parent.iterdir()] == ["view"]
    sc.open(saved)


def test_a_folder_that_cannot_be_written(made: sc.Release, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(sc.ReleaseError, match="cannot be written"):
        made.save(tmp_path / "file" / "view")


def _flip_a_byte(folder: Path) -> None:
    path = folder / "records.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _edit(folder: Path, change) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text("utf-8"))
    change(data)
    path.write_text(json.dumps(data), "utf-8")


DAMAGE = {
    "a byte": (_flip_a_byte, "records.parquet does not fit its checksum"),
    "cut off": (lambda f: os.truncate(f / "records.parquet", 40), "does not fit its checksum"),
    "no data": (lambda f: (f / "records.parquet").unlink(), "records.parquet is missing"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "not a release"),
    "binary": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe\x00"), "not a release"),
    "not JSON": (lambda f: (f / "manifest.json").write_text("{"), "cannot be read"),
    "JSON list": (lambda f: (f / "manifest.json").write_text("[]"), "cannot be read"),
    "promise": (lambda f: _edit(f, lambda d: d["parameters"].update(epsilon=0.1)), "was changed"),
    "newer": (lambda f: _edit(f, lambda d: d.update(format=99)), "Upgrade scumble"),
    "no checksum": (lambda f: _edit(f, lambda d: d.pop("checksum")), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(saved: Path, kind: str) -> None:
    harm, sentence = DAMAGE[kind]
    harm(saved)
    with pytest.raises(sc.ReleaseError, match=sentence) as error:
        sc.open(saved)
    assert "\n" not in str(error.value)


def _resealed(folder: Path, change) -> None:
    """Edit the manifest and write a new checksum."""

    def reseal(data: dict) -> None:
        del data["checksum"]
        change(data)
        data["checksum"] = archive._digest_of_json(data)

    _edit(folder, reseal)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("evidence"),
        lambda data: data["evidence"].update(kind="rumour"),
        lambda data: data["evidence"].update(file="other.parquet"),
        lambda data: data["schema"].update(attributes="none"),
        lambda data: data.update(guarantees=[{}]),
        lambda data: data["files"].update({"../../secret": "0"}),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(saved: Path, change) -> None:
    _resealed(saved, change)
    with pytest.raises(sc.ReleaseError, match="damaged"):
        sc.open(saved)


@pytest.mark.parametrize(
    ("path", "sentence"), [("nowhere", "There is no folder .*nowhere"), ("file", "is not a folder")]
)
def test_what_is_no_folder(tmp_path: Path, path: str, sentence: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(sc.ReleaseError, match=sentence):
        sc.open(tmp_path / path)


def test_the_temporary_folder_goes_with_the_release() -> None:
    release = sc.publish(people(10, schema()), schema(), sc.Uniform(epsilon=1))
    folder = release.folder
    assert folder.is_dir()
    del release
    assert not folder.exists()


def test_a_failed_publication_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    private = people(10, schema()).drop_columns(["age"]).append_column("age", [[99] * 10])
    with pytest.raises(sc.DomainError):
        sc.publish(private, schema(), sc.Uniform(epsilon=1))
    assert not list(tmp_path.iterdir())


def test_other_programs_read_it(saved: Path) -> None:
    import duckdb
    import pandas as pd

    frame = pd.read_parquet(saved / "records.parquet")
    assert list(frame.columns) == ["age", "sex", "job"]
    assert len(frame) == 300
    [(count,)] = duckdb.sql(f"SELECT COUNT(*) FROM '{saved}/*.parquet' WHERE age >= 0").fetchall()
    assert count == 300


def test_moving_a_folder_keeps_it_whole(saved: Path, tmp_path: Path) -> None:
    moved = shutil.move(saved, tmp_path / "elsewhere")
    assert sc.open(moved).answer("SELECT COUNT(*) FROM t").value == 300
