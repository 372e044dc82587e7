"""Every kernel with a numpy form: both give the same results from the same bits.

`CASES` makes random arguments for each of them; a kernel without a case fails the first test.
Arguments are copied for each form, and what a form returns and what it leaves in its arguments are
compared bit by bit.
"""

import copy
import importlib
import itertools
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import scumble
from scumble.model.compiled import Kernel, kernels
from scumble.model.designs.lists.strings import StringTree
from scumble.private.meter import kernels as meter
from scumble.private.sampling import kernels as sampling
from scumble.private.sampling.noise import _constants, exponentials
from scumble.public.estimation import kernels as estimation
from tests.support import database_kernels

Random = np.random.Generator
ROUNDS = 30


def _prefixes(random: Random, outcomes: int) -> tuple[Any, Any]:
    """Return prefixes of 16 bits and a table of their outcomes."""
    size = int(random.integers(0, 400))
    table = np.sort(random.integers(0, outcomes, 1 << 16))
    return random.integers(0, 1 << 16, size, dtype=np.uint16), table


def lookup(random: Random) -> list[Any]:
    outcomes = int(random.integers(1, 60))
    prefixes, table = _prefixes(random, outcomes + 1)
    out, pending = np.empty(len(prefixes), np.uint16), np.empty(len(prefixes), np.int64)
    return [prefixes, table.astype(np.uint16), outcomes, out, pending]


def keep_or_replace(random: Random) -> list[Any]:
    size = int(random.integers(1, 250))
    kind = random.choice([np.uint8, np.uint16, np.uint32])
    prefixes, table = _prefixes(random, size + 2)
    codes = random.integers(0, size, len(prefixes)).astype(kind)
    entries = table.astype(np.uint8 if size <= 254 else np.uint16)
    return [codes, prefixes, entries, size, np.empty_like(codes), np.empty(len(codes), np.int64)]


def _words(random: Random, size: int) -> Any:
    """Return words of which some are near 0, where bounds refuse them."""
    words = random.integers(0, 1 << 64, size, dtype=np.uint64)
    return np.where(random.random(size) < 0.2, words >> np.uint64(60), words)


def scale_words(random: Random) -> list[Any]:
    bound = int(random.integers(1, 1 << int(random.integers(2, 64))))
    if random.random() < 0.5:
        bound = (1 << 63) + int(random.integers(1, 1 << 40))  # refuses nearly half of the words
    size = int(random.integers(0, 400))
    rows = random.permutation(size + 5)[:size]
    out = np.zeros(size + 5, np.uint64)
    return [_words(random, size), np.uint64(bound), np.uint64((1 << 64) % bound), out, rows]


def accept(random: Random) -> list[Any]:
    """Words are near the threshold for a tenth of the rows, so that some are pending."""
    variance = Fraction(int(random.integers(1, 1 << int(random.integers(1, 60)))), 7)
    law = _constants(variance)
    size = int(random.integers(1, 300))
    spread = 8 * float(variance) ** 0.5
    proposed = (random.normal(size=size) * spread).astype(np.int64)
    gamma = (np.abs(proposed) - float(variance / law.scale)) ** 2 / (2 * float(variance))
    words = random.integers(0, 1 << 64, size, dtype=np.uint64)
    near = (np.exp(-np.minimum(gamma, 40)) * 2.0**63).astype(np.uint64) << np.uint64(1)
    words = np.where(random.random(size) < 0.1, near, words)
    constants = [np.uint64(each) for each in (law.slope, law.shift, law.offset)]
    return [words, proposed, *constants, exponentials(), np.empty(size, bool), np.empty(size, int)]


def clause_sums(random: Random) -> list[Any]:
    cells, questions = int(random.integers(0, 300)), int(random.integers(0, 6))
    places = random.integers(0, 7, (3, cells)).astype(np.int32)
    truths = random.random(40) < 0.6
    starts = np.cumsum([0, *random.integers(0, 4, questions)])
    clauses = np.stack([random.integers(0, 3, starts[-1]), random.integers(0, 33, starts[-1])], 1)
    terms = random.normal(size=(4, cells)) * 10.0 ** random.integers(-8, 8, (4, cells))
    return [places, terms, truths, clauses, starts, np.zeros((questions, 4))]


def count_cells(random: Random) -> list[Any]:
    """Tables of one to three of four attributes; a place with stride 0 has none. Some columns are
    constant in stretches of rows.
    """
    sizes = np.append(random.integers(1, 7, 3), random.integers(1, 257))  # codes of up to 255
    kind = random.choice([np.uint8, np.uint16, np.uint32])
    rows = int(random.integers(0, 5000))
    codes = random.integers(0, sizes[:, None], (4, rows)).astype(kind)
    constant = random.random(4) < 0.5
    ends = np.unique([*random.integers(1, rows + 1, min(rows, 6)), rows])
    for begin, end in itertools.pairwise([0, *ends]):
        codes[constant, begin:end] = codes[constant, begin : begin + 1]
    tables = int(random.integers(1, 9))
    places, strides = np.zeros((tables, 3), np.int64), np.zeros((tables, 3), np.int64)
    starts = [0]
    for table in range(tables):
        chosen = random.permutation(4)[: random.integers(0, 4)]
        places[table, : len(chosen)] = chosen
        strides[table, : len(chosen)] = np.cumprod([1, *sizes[chosen]])[:-1]
        starts.append(starts[-1] + int(sizes[chosen].prod()))
    counts = random.integers(0, 9, starts[-1]).astype(np.uint32)
    return [codes, sizes, constant, ends, places, strides, np.array(starts), counts]


def context_sums(random: Random) -> list[Any]:
    """Sequences of up to six symbols, and a tree of contexts of up to three; some have no sums."""
    fanout = int(random.integers(2, 6))
    tree = StringTree.root(fanout)
    for _ in range(int(random.integers(0, 3))):
        begin, end = tree.levels[-1]
        keys = np.arange(begin * fanout, end * fanout)
        tree = tree.grown(keys[(keys % fanout < fanout - 1) & (random.random(len(keys)) < 0.6)])
    offsets = np.cumsum([0, *random.integers(0, 7, int(random.integers(0, 60)))])
    codes = random.integers(0, fanout - 1, offsets[-1]).astype(random.choice([np.uint8, np.uint16]))
    slots = random.permutation(len(tree) * fanout)
    slots[random.random(len(slots)) < 0.3] = -1
    length, unit = int(random.integers(1, 9)), int(random.choice([1, 1 << 16]))
    sums = random.integers(0, 9, len(slots) * fanout)
    return [codes, offsets, length, unit, tree.children, slots, fanout - 1, sums]


CASES: dict[Kernel[..., Any], Callable[[Random], list[Any]]] = {
    sampling.lookup: lookup,
    sampling.keep_or_replace: keep_or_replace,
    sampling.scale_words: scale_words,
    sampling.accept: accept,
    estimation.clause_sums: clause_sums,
    estimation.count_cells: count_cells,
    meter.context_sums: context_sums,
    **database_kernels.CASES,
}


def test_every_numpy_form_has_a_case() -> None:
    for module in pkgutil.walk_packages(scumble.__path__, "scumble."):
        if module.name.endswith("kernels"):
            importlib.import_module(module.name)
    inside = [each for each in kernels() if each.__module__.startswith("scumble.")]
    assert {each for each in inside if each.numpy_form is not None} == set(CASES)


@pytest.mark.parametrize("loop", CASES, ids=lambda loop: loop.__name__)
def test_numpy_form_and_loop_agree(loop: Kernel[..., Any]) -> None:
    assert loop.numpy_form is not None
    for seed in range(ROUNDS):
        arguments = CASES[loop](np.random.default_rng([1, seed]))
        one, other = copy.deepcopy(arguments), copy.deepcopy(arguments)
        found, expected = loop.numpy_form(*one), loop.compiled(*other)
        assert_same(found, expected)
        used = _used(loop, found)
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            if place in used:
                left, right = left[: used[place]], right[: used[place]]
            assert_same(left, right)


@pytest.mark.slow
@pytest.mark.parametrize("loop", database_kernels.CASES, ids=lambda loop: loop.__name__)
def test_they_agree_on_wide_codes_and_counters(
    loop: Kernel[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_kernels, "WIDE", True)
    test_numpy_form_and_loop_agree(loop)


def _used(loop: Kernel[..., Any], found: Any) -> dict[int, int]:
    """Return by place the number of elements in use of an argument that lists pending rows."""
    places = {"lookup": 4, "keep_or_replace": 5, "scale_words": 4, "accept": 7}
    return {places[loop.__name__]: found} if loop.__name__ in places else {}


def assert_same(left: Any, right: Any) -> None:
    """Compare values to the last bit, and types of arrays."""
    if isinstance(left, tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
    else:
        assert left == right
