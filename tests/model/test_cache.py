"""The cache: each value is computed once, the total size is bounded, any thread may use it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from scumble.model.cache import Cache


def test_a_value_is_made_once() -> None:
    cache, made = Cache[str, list[int]](10), []

    def make() -> list[int]:
        made.append(1)
        return [7]

    assert cache.get_or_make("a", 4, make) is cache.get_or_make("a", 4, make)
    assert len(made) == 1
    assert cache.size == 4


def test_all_entries_are_dropped_beyond_the_limit() -> None:
    cache = Cache[str, int](10)
    cache.put("a", 1, 6)
    cache.put("b", 2, 4)
    assert (cache.get("a"), cache.get("b"), cache.size) == (1, 2, 10)
    cache.put("c", 3, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.size) == (None, None, 3, 1)


def test_a_value_beyond_the_limit_is_not_stored() -> None:
    cache = Cache[str, int](10)
    cache.put("a", 1, 6)
    assert cache.get_or_make("b", 11, lambda: 2) == 2
    assert (cache.get("a"), cache.get("b"), cache.size) == (1, None, 6)


def test_threads_share_a_cache() -> None:
    """A small limit, so that entries are dropped all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        cache = Cache[int, int](5)
        with ThreadPoolExecutor(8) as pool:
            asked = [n % 40 for n in range(6_000)]
            found = list(
                pool.map(lambda n: cache.get_or_make(n, 1, lambda: n * n), asked, chunksize=150)
            )
    finally:
        sys.setswitchinterval(before)
    assert found == [n * n for n in asked]
    assert 0 < cache.size <= 5
