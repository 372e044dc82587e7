"""The first rows of each person: few in a dictionary, many in a hash table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from scumble.private.tables.persons import kernels, limit
from scumble.private.tables.persons.limit import RowLimit


def _slowly(batches: list[list[object]], most: int) -> list[bool]:
    """Which rows are kept, one row after the other; None is no identifier."""
    seen: dict[str, int] = {}
    kept = []
    for person in (str(each) if each is not None else None for some in batches for each in some):
        kept.append(person is not None and seen.get(person, 0) < most)
        if person is not None:
            seen[person] = seen.get(person, 0) + 1
    return kept


def _kept(batches: list[pa.Array], most: int) -> list[bool]:
    limited = RowLimit("id", most)
    found = [limited.keep(batch) for batch in batches]
    nulls = [each for batch in batches for each in batch.is_null().to_pylist()]
    assert np.concatenate([without for _, without in found]).tolist() == nulls
    return np.concatenate([kept for kept, _ in found]).tolist()


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("begin", [0, 40, 10**9])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.uint32(), pa.uint64()])
def test_rows_are_kept_as_one_by_one(monkeypatch, kind, begin: int, most: int) -> None:
    """Whichever rows are counted by the hash table: all, those after some, none."""
    monkeypatch.setattr(limit, "_MANY", begin)
    rng = np.random.default_rng(most)
    values = rng.integers(0, 100, (7, 30)).tolist()
    values.append([])
    values.append([None, 3, None, 4, 127])
    batches = [pa.array(each, kind) for each in values]
    assert _kept(batches, most) == _slowly(values, most)


def test_numbers_of_all_sizes_and_signs(monkeypatch) -> None:
    monkeypatch.setattr(limit, "_MANY", 0)
    numbers = [0, -1, 1, 2**63 - 1, -(2**63), 2**32, -(2**32), 2**40]
    rng = np.random.default_rng(5)
    far = rng.integers(-(2**63), 2**63 - 1, 3000).tolist()
    values = [[*numbers, *far[:50]], [*reversed(numbers), *far], far]
    assert _kept([pa.array(each, pa.int64()) for each in values], 2) == _slowly(values, 2)


def test_other_identifiers_may_follow_numbers(monkeypatch) -> None:
    """1, 1.0 and the text "1" are the same person, whichever came first."""
    monkeypatch.setattr(limit, "_MANY", 0)
    batches = [
        pa.array([1, 2, 2, -7]),
        pa.array(["1", "x", "-7", "01"]),
        pa.array([1, 5]),
        pa.array([5.0, 2.0, 1.0]),
        pa.array(["x", "5"]),
    ]
    kept = [True, True, True, True, True, True, True, True, False, True, True, False, False]
    assert _kept(batches, 2) == [*kept, True, False]


TEXTS = {
    "text": pa.string(),
    "bytes": pa.binary(),
    "large": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("begin", [0, 40, 10**9])
def test_texts_are_kept_as_one_by_one(monkeypatch, kind: str, begin: int) -> None:
    """Texts of many lengths, prefixes of each other, slices of arrays, and empty batches."""
    monkeypatch.setattr(limit, "_MANY", begin)
    rng = np.random.default_rng(7)
    names = ["a", "aa", "aaa", "ab", "é", "0", "00", "x" * 300, *map(str, range(60))]
    values = [[names[at] for at in rng.integers(0, len(names), 40)] for _ in range(7)]
    values += [[], [None, "a", None], [None], ["aa", "new"]]
    batches = [pa.array([None, *each, "a"]).cast(TEXTS[kind])[1:-1] for each in values]
    assert _kept(batches, 3) == _slowly(values, 3)


@pytest.mark.parametrize("hashed", [5, (1 << 28) - 1])
def test_texts_with_the_same_hash_are_different_persons(monkeypatch, hashed: int) -> None:
    """Every text collides with every other one, also at the last place of the table."""
    monkeypatch.setattr(limit, "_MANY", 0)
    pack = kernels.pack_texts

    def collide(data, offsets, words, starts, hashes) -> None:
        pack(data, offsets, words, starts, hashes)
        hashes[:] = hashed

    monkeypatch.setattr(kernels, "pack_texts", collide)
    values = [["a", "b", "a", "aa", "b"], ["b", "a", "c", "a", "aa"], _alike(), _alike()[::-1]]
    assert _kept([pa.array(each) for each in values], 2) == _slowly(values, 2)


def _alike() -> list[str]:
    """Texts that end around the ends of words, differ in one byte, or only in their length."""
    lengths = [1, 2, 3, 9, 10, 11, 17, 18, 19, 65534, 65535, 65536, 65543]
    texts = ["x" * length for length in lengths]
    texts += ["x" * (length - 1) + "y" for length in lengths]
    return texts + [f"x\0{'x' * length}" for length in range(9)]


@pytest.mark.parametrize("kind", ["bytes", "large"])
def test_texts_that_differ_little_are_different_persons(monkeypatch, kind: str) -> None:
    monkeypatch.setattr(limit, "_MANY", 0)
    values = [_alike(), [], _alike()[3:9], _alike()[::-1]]
    batches = [pa.array(["z", *each], pa.string()).cast(TEXTS[kind])[1:] for each in values]
    assert _kept(batches, 2) == _slowly(values, 2)
    # Bytes 0 at the end are a part of an identifier.
    zeros = [b"a" + bytes(length) for length in range(20)]
    assert len({*zeros}) == 20
    assert _kept([pa.array([*zeros, *zeros], pa.binary())], 1) == [True] * 20 + [False] * 20


def test_a_known_number_of_rows_changes_nothing(monkeypatch) -> None:
    """The loop is used from the first batch on; numbers may turn into texts later."""
    monkeypatch.setattr(limit, "_MANY", 100)
    numbers = [[1, 2, 1, 1], [3, 1]]
    texts = [["1", "x", "2"], ["3", "x", "x", "2", "3"]]
    batches = [*map(pa.array, numbers), *map(pa.array, texts)]
    found = {}
    for expected in (0, 10**6):
        rows = limit.RowLimit("id", 2)
        rows.expected = expected
        found[expected] = [rows.keep(each)[0].tolist() for each in batches]
    assert found[0] == found[10**6]


def test_identifiers_whose_form_is_seen_at_once(subtests: pytest.Subtests) -> None:
    """A batch in canonical form gives what a batch with a value that has to be changed gives."""
    for kind in [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view()]:
        with subtests.test(kind=kind):
            plain = ["P1", "~", "!", "a b", "é1é1", "x\u00a0y", "a\x01b"]
            changed = [" a", "a ", "", None, "\x01a", "é", "\u00a0a", "a\u2003", "\x7f", "\x1f"]
            for start in range(3):
                fast = limit.identifiers(pa.array(plain[:4], kind)[start:])
                assert fast.to_pylist() == [each.encode() for each in plain[start:4]]
            for each in [*plain, *changed]:
                alone = limit.identifiers(pa.array([each], kind))
                beside = limit.identifiers(pa.array([None, each, " "], kind))
                assert alone.type == beside.type == pa.large_binary()
                assert alone.to_pylist() == beside.to_pylist()[1:2]


def test_bytes_that_are_not_text_stay_identifiers() -> None:
    raw = [b"a\xffb", b"\xff", b"\xff(unreadable)"]
    for each in raw:
        beside = limit.identifiers(pa.array([each, b" "], pa.binary())).to_pylist()
        assert limit.identifiers(pa.array([each], pa.binary())).to_pylist() == beside[:1]
