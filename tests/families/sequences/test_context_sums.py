"""The loop over sequences against contexts that are found as suffixes, one symbol at a time."""

import itertools
from typing import Any

import numpy as np
import pytest

from scumble.families.sequences.design import StringTree
from scumble.families.sequences.publish.meter import context_sums


def _tree(random: np.random.Generator, fanout: int) -> StringTree:
    """Return a tree of contexts of up to three symbols."""
    tree = StringTree.root(fanout)
    for _ in range(int(random.integers(0, 4))):
        begin, end = tree.levels[-1]
        keys = np.arange(begin * fanout, end * fanout)
        tree = tree.grown(keys[(keys % fanout < fanout - 1) & (random.random(len(keys)) < 0.6)])
    return tree


def _contexts(children: Any, fanout: int) -> dict[tuple[int, ...], int]:
    """Return the node of each split context, its last symbol first."""
    found, waiting = {(): 0}, [()]
    while waiting:
        context: tuple[int, ...] = waiting.pop()
        for code in range(fanout):
            child = int(children[found[context] * fanout + code])
            if child >= 0:
                found[(*context, code)] = child
                waiting.append((*context, code))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_sums_are_those_of_the_longest_contexts(seed: int) -> None:
    random = np.random.default_rng([1, seed])
    fanout = int(random.integers(2, 6))
    end, tree = fanout - 1, _tree(random, fanout)
    offsets = np.cumsum([0, *random.integers(0, 7, int(random.integers(0, 60)))])
    codes = random.integers(0, end, offsets[-1]).astype(random.choice([np.uint8, np.uint16]))
    slots = random.permutation(len(tree) * fanout)
    slots[random.random(len(slots)) < 0.3] = -1  # these have no sums
    length, unit = int(random.integers(1, 9)), int(random.choice([1, 1 << 16]))
    sums = random.integers(0, 9, len(slots) * fanout)

    expected, contexts = sums.copy(), _contexts(tree.children, fanout)
    for begin, stop in itertools.pairwise(offsets):
        symbols = [*codes[begin:stop].tolist(), end][:length]
        for place, symbol in enumerate(symbols):
            past = (*symbols[:place][::-1], end)  # before the beginning there is the end mark
            known = max(size for size in range(place + 1) if past[:size] in contexts)
            slot = slots[contexts[past[:known]] * fanout + past[known]]
            if slot >= 0:
                expected[slot * fanout + symbol] += 1 if unit == 1 else unit // len(symbols)
    context_sums(codes, offsets, length, unit, tree.children, slots, end, sums)
    assert sums.tolist() == expected.tolist()
