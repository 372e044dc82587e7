"""Sorted runs: merging is sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scumble.private.tables.sorted_keys import Run, StoredRun, merge_sorted, sort_keys

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
