"""The compiled loops give what plain Python gives, bit by bit, on the same words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from scumble.private.sampling import kernels
from scumble.private.sampling.bits import Cuts
from scumble.private.sampling.noise import _constants, exponentials
from scumble.private.sampling.randomized_response import _channel
from scumble.private.sampling.source import Keystream
from tests.support import noise_reference

ROWS = 20_000


def test_lookup() -> None:
    cuts = Cuts.rational([Fraction(k, 301) for k in range(300)])
    prefixes, out = Keystream(1).halves(ROWS), np.empty(ROWS, np.uint16)
    pending = np.empty(ROWS, np.int64)
    count = kernels.lookup(prefixes, cuts.table, cuts.ambiguous, out, pending)
    expected = noise_reference.lookup(prefixes.tolist(), cuts.table.tolist(), cuts.ambiguous)
    assert (out.tolist(), pending[:count].tolist()) == expected
    assert count > 10


@pytest.mark.parametrize("size", [2, 50, 254, 255, 1000])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_replace(size: int, dtype: type) -> None:
    if size > np.iinfo(dtype).max:
        return
    _, table = _channel(size, Fraction(2, 7))
    prefixes, pending = Keystream(2).halves(ROWS), np.empty(ROWS, np.int64)
    codes = (Keystream(3).words(ROWS) % np.uint64(size)).astype(dtype)
    out = np.empty_like(codes)
    count = kernels.keep_or_replace(codes, prefixes, table, size, out, pending)
    expected = noise_reference.replace(codes.tolist(), prefixes.tolist(), table.tolist(), size)
    assert (out.tolist(), pending[:count].tolist()) == expected


@pytest.mark.parametrize("bound", [1, 3, 50, 2**32 + 1, 2**63 + 1, 2**64 - 1])
def test_scale(bound: int) -> None:
    given, out, rows = Keystream(4).words(ROWS), np.empty(ROWS, np.uint64), np.arange(ROWS)
    count = kernels.scale_words(given, np.uint64(bound), np.uint64(2**64 % bound), out, rows)
    kept, refused = noise_reference.scale(given.tolist(), bound)
    assert rows[:count].tolist() == refused
    assert {row: int(out[row]) for row in kept} == kept


def test_high_word() -> None:
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, *Keystream(5).words(20).tolist()]
    for left in edges:
        for right in edges:
            product = kernels.high_word(np.uint64(left), np.uint64(right))
            assert int(product) == left * right >> 64


def test_count_ones() -> None:
    counts = np.array([0, 1, 63, 64, 65, 0, 1000, 0], np.int64)
    given = Keystream(6).words(int(((counts + 63) // 64).sum()))
    ones = np.zeros(len(counts), np.int64)
    row, left = -1, 0
    for part in (given[:3], given[3:10], given[10:]):  # a row may go on in the next part
        row, left = kernels.count_ones(part, counts, ones, row, left)
    assert ones.tolist() == noise_reference.count_ones(given.tolist(), counts.tolist())


VARIANCES = [Fraction(1, 10**9), Fraction(1, 50), Fraction(1), Fraction(22, 7), Fraction(2**105)]


@pytest.mark.parametrize("variance", VARIANCES)
def test_accept(variance: Fraction) -> None:
    law = _constants(variance)
    scale = min(int(law.scale), 2**60)
    proposed = (Keystream(7).words(2000) % np.uint64(8 * scale)).astype(np.int64) - 4 * scale
    proposed[:3] = [0, 2**62, -(2**62)]
    given = Keystream(8).words(2000)
    given[100:200] = 0
    arguments = law.slope, law.shift, law.offset
    answers, pending = np.empty(2000, bool), np.empty(2000, np.int64)
    count = kernels.accept(
        given, proposed, *map(np.uint64, arguments), exponentials(), answers, pending
    )
    expected = noise_reference.accept(given.tolist(), proposed.tolist(), *arguments, exponentials())
    assert (answers.tolist(), pending[:count].tolist()) == expected
