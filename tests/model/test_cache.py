"""What is remembered: made once, up to a size, from any thread."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from scumble.model.cache import Cache


def test_made_once_while_it_is_there() -> None:
    known, made = Cache[str, list[int]](10), []

    def make() -> list[int]:
        made.append(1)
        return [7]

    assert known.of("a", 4, make) is known.of("a", 4, make)
    assert len(made) == 1
    assert known.held == 4


def test_all_is_forgotten_beyond_the_size() -> None:
    known = Cache[str, int](10)
    known.keep("a", 1, 6)
    known.keep("b", 2, 4)
    assert (known.get("a"), known.get("b"), known.held) == (1, 2, 10)
    known.keep("c", 3, 1)
    assert (known.get("a"), known.get("b"), known.get("c"), known.held) == (None, None, 3, 1)


def test_what_is_too_large_is_made_but_not_kept() -> None:
    known = Cache[str, int](10)
    known.keep("a", 1, 6)
    assert known.of("b", 11, lambda: 2) == 2
    assert (known.get("a"), known.get("b"), known.held) == (1, None, 6)


def test_threads_share_it() -> None:
    """Room for a few only, so that it is forgotten all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        known = Cache[int, int](5)
        with ThreadPoolExecutor(8) as pool:
            asked = [n % 40 for n in range(20_000)]
            found = list(pool.map(lambda n: known.of(n, 1, lambda: n * n), asked, chunksize=500))
    finally:
        sys.setswitchinterval(before)
    assert found == [n * n for n in asked]
    assert 0 < known.held <= 5
