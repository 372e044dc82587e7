"""Lists between passes: read once, private on disk, gone at the end."""

from __future__ import annotations

import gc
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.errors import ScumbleError
from scumble.model.schema.lists import EncodedLists
from scumble.private.tables import list_spool as kept
from scumble.private.tables.list_spool import EncryptedFile, KeptLists
from tests.support.lists import SCHEMA, people

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /dev/full")


def batches() -> list[EncodedLists]:
    """Lists of codes of several types, empty lists, and a batch without lists."""
    draw = np.random.default_rng(5)
    found = []
    for rows, longest, dtype in ((7, 4, np.uint8), (0, 1, np.uint8), (90, 400, np.uint16)):
        offsets = np.concatenate([[0], np.cumsum(draw.integers(0, longest, rows))])
        codes = draw.integers(0, 250, offsets[-1]).astype(dtype)
        found.append(EncodedLists(offsets, codes, np.zeros(rows, bool)))
    return found


class Table:
    """Counts how often its lists are read."""

    def __init__(self) -> None:
        self.passes = 0

    def read(self) -> Iterator[EncodedLists]:
        self.passes += 1
        yield from batches()


def assert_all_there(lists: KeptLists) -> None:
    for found, true in zip(lists, batches(), strict=True):
        assert found.offsets.tolist() == true.offsets.tolist()
        assert found.codes.tolist() == true.codes.tolist()
        assert found.codes.dtype == true.codes.dtype
        assert found.codes.flags.writeable  # as in memory: a loop is compiled for each kind
        assert len(found.outside) == len(true)


@pytest.mark.parametrize("most", [0, 40, 1 << 20])
def test_lists_are_read_once_wherever_they_are_kept(most: int) -> None:
    table = Table()
    lists = KeptLists(table.read, most)
    for _ in range(3):
        assert_all_there(lists)
    assert table.passes == 1


def test_long_lists_are_encrypted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_TOGETHER", 11)
    lists = KeptLists(Table().read, 0)
    for _ in range(2):
        assert_all_there(lists)


def test_a_pass_that_is_left_early_keeps_nothing() -> None:
    table = Table()
    lists = KeptLists(table.read, 0)
    next(iter(lists))
    assert_all_there(lists)
    assert_all_there(lists)
    assert table.passes == 2


@on_linux
def test_lists_are_read_again_where_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115 (that it is closed is tested)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full)
    table = Table()
    lists = KeptLists(table.read, 40)
    for _ in range(3):
        assert_all_there(lists)
    assert table.passes == 3
    assert full.closed


@on_linux
def test_a_file_has_no_name_and_nothing_that_can_be_read() -> None:
    file = EncryptedFile()
    assert len(_open_files(Path(tempfile.gettempdir()))) >= 1
    before = file.append(b"private" * 1000)
    assert file.append(b"private" * 1000).number != before.number
    found = os.fstat(file._file.fileno())
    assert found.st_nlink == 0
    assert stat.S_IMODE(found.st_mode) == 0o600
    raw = os.pread(file._file.fileno(), found.st_size, 0)
    assert len(raw) == 2 * (7000 + 16)
    assert b"private" not in raw
    assert raw[:7016] != raw[7016:]  # what is equal does not look equal
    assert file.read(before) == b"private" * 1000


@pytest.mark.parametrize("what", ["changed", "cut"])
def test_a_file_that_was_changed_is_refused(what: str) -> None:
    file = EncryptedFile()
    section = file.append(b"private values")
    if what == "changed":
        [byte] = os.pread(file._file.fileno(), 1, 3)
        os.pwrite(file._file.fileno(), bytes([byte ^ 1]), 3)
    else:
        file._file.truncate(5)
    with pytest.raises(ScumbleError, match="could not be read again; nothing was pub") as refusal:
        file.read(section)
    assert refusal.value.__context__ is None
    assert "private" not in str(refusal.value)


MECHANISMS = {
    "baskets": sc.Baskets("items", top=20, epsilon=1, neighbours="add_remove"),
    "diffpart": sc.DiffPart("items", epsilon=1, neighbours="add_remove"),
    "sequences": sc.Sequences("x", length=5, epsilon=1, neighbours="add_remove"),
    "trajectories": sc.Trajectories("x", "y", length=5, epsilon=1, neighbours="add_remove"),
}


@on_linux
@pytest.mark.parametrize("name", MECHANISMS)
def test_no_file_is_left_and_the_table_is_read_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made, passes = [], []
    make = EncryptedFile.__init__
    monkeypatch.setattr(EncryptedFile, "__init__", lambda self: (made.append(1), make(self))[1])
    release = _published(people(300), name, monkeypatch, passes)
    assert len(passes) == 1
    assert made
    assert release.folder.exists()
    assert _open_files(tmp_path) == []
    assert list(tmp_path.glob("tmp*")) == []


def _published(
    table: pa.Table, name: str, monkeypatch: pytest.MonkeyPatch, passes: list[int]
) -> sc.Release:
    from scumble.private.tables.rows import Rows

    begin = Rows.begin_lists

    def counted(self: Rows, names: list[str]) -> None:
        passes.append(1)
        begin(self, names)

    monkeypatch.setattr(Rows, "begin_lists", counted)
    gc.disable()  # files are closed without a search for cycles
    try:
        return sc.publish(table, SCHEMA, MECHANISMS[name], options=sc.PublishOptions(seed=1))
    finally:
        gc.enable()


def _open_files(folder: Path) -> list[str]:
    links = (os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return [link for link in links if link.startswith(f"{folder}{os.sep}")]
