"""Sorted runs: merging is sorting, and cuts at ranks are exact whatever is equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scumble.private.tables.sorted_keys import sort_keys
from scumble.private.tables.sorting import runs as runs_module
from scumble.private.tables.sorting.runs import Run, StoredRun, cut_at_ranks, merge_sorted

SMALL = st.integers(0, 9)
LARGE = st.one_of(SMALL, st.integers(2**33, 2**33 + 40))
RUNS = st.one_of(
    st.lists(st.lists(each, max_size=60), min_size=1, max_size=5) for each in (SMALL, LARGE)
)


def arrays(runs: list[list[int]], two_words: bool) -> list[np.ndarray]:
    """The runs, sorted; with two words the first one has few values, so that there are ties. Small
    keys of one word have 32 bits.
    """
    found = [np.array(run, np.uint64) for run in runs]
    if not two_words and max(map(max, filter(None, runs)), default=0) < 2**32:
        found = [keys.astype(np.uint32) for keys in found]
    if two_words:
        found = [np.stack([keys // 4, keys % 4], axis=1) for keys in found]
    return [sort_keys(keys) for keys in found]


@given(RUNS, st.booleans())
def test_sorting(runs: list[list[int]], two_words: bool) -> None:
    for keys in arrays(runs, two_words):
        assert keys.tolist() == sorted(keys.tolist())


@given(RUNS, st.booleans())
def test_only_keys_that_may_be_reused_are_changed(runs: list[list[int]], two_words: bool) -> None:
    keys = np.concatenate(arrays(runs, two_words))
    given_ = keys.copy()
    ordered = sort_keys(keys)
    assert np.array_equal(keys, given_)
    reused = sort_keys(given_, reuse=True)
    assert reused.dtype == ordered.dtype
    assert np.array_equal(reused, ordered)


@given(RUNS, st.integers(1, 20), st.booleans(), st.booleans())
def test_merging_is_sorting(tmp_path_factory, runs, chunk, two_words, stored) -> None:
    given_ = arrays(runs, two_words)
    opened: list[Run] = [Run(keys) for keys in given_]
    if stored:
        folder = tmp_path_factory.mktemp("runs")
        files = [StoredRun.write(folder / str(n), keys) for n, keys in enumerate(given_)]
        opened = [Run(each) for each in files]
    pieces = list(merge_sorted(opened, chunk))
    assert all(len(piece) == chunk for piece in pieces[:-1])
    together = np.concatenate([*pieces, given_[0][:0]])
    assert np.array_equal(together, sort_keys(np.concatenate(given_)))


@given(RUNS, st.integers(1, 9), st.booleans())
def test_cuts_at_all_ranks(tmp_path_factory, runs, sample, two_words) -> None:
    given_ = arrays(runs, two_words)
    folder = tmp_path_factory.mktemp("runs")
    ordered = sort_keys(np.concatenate(given_)).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "SAMPLE", sample)
        files = [StoredRun.write(folder / str(n), keys) for n, keys in enumerate(given_)]
        cuts = cut_at_ranks(files, range(len(ordered) + 1))
    for rank, places in enumerate(cuts):
        before = [keys[:place] for keys, place in zip(given_, places, strict=True)]
        assert sort_keys(np.concatenate(before)).tolist() == ordered[:rank]
    assert all(np.all(np.diff(places) >= 0) for places in zip(*cuts, strict=True))


def test_a_run_of_equal_keys_is_not_read(tmp_path, monkeypatch) -> None:
    """A cut reads a few blocks, also where most keys are equal."""
    sorted_keys = [np.sort(np.r_[np.full(50_000, 7), np.arange(100)]).astype(np.uint64)] * 3
    files = [StoredRun.write(tmp_path / str(n), keys) for n, keys in enumerate(sorted_keys)]
    read, original = [], StoredRun.read

    def counted(run, begin, end):
        read.append(min(end, len(run)) - begin)
        return original(run, begin, end)

    monkeypatch.setattr(StoredRun, "read", counted)
    cuts = cut_at_ranks(files, range(0, 150_000, 10_000))
    assert [sum(places) for places in cuts] == [*range(0, 150_000, 10_000)]
    assert max(read) <= runs_module.SAMPLE * (2 * len(files) + 1)
