"""Baskets for tests: lists of sets of whole numbers, as encoded lists and as passes over them."""

from __future__ import annotations

import numpy as np

from scumble.model.schema.lists import EncodedLists

Basket = frozenset[int]


def lists(baskets: list[Basket]) -> EncodedLists:
    sizes = [len(each) for each in baskets]
    codes = np.array([item for each in baskets for item in sorted(each)], np.int64)
    return EncodedLists(np.cumsum([0, *sizes]), codes, np.zeros(len(baskets), bool))


def passes(baskets: list[Basket], batch: int = 7):
    """A pass over baskets in batches, that can be repeated."""
    return lambda: iter(
        [lists(baskets[at : at + batch]) for at in range(0, len(baskets), batch)] or [lists([])]
    )


def random_baskets(number: int, items: int, chance: float, seed: int) -> list[Basket]:
    """Items are rarer the larger they are, and item 1 comes with item 0."""
    drawn = np.random.default_rng(seed).random((number, items))
    has = drawn < chance / np.sqrt(1 + np.arange(items))
    has[:, 1] |= has[:, 0] & (drawn[:, 1] < 0.8)
    return [frozenset(np.flatnonzero(row).tolist()) for row in has]


def support(baskets: list[Basket], chosen) -> int:
    return sum(set(chosen) <= each for each in baskets)
