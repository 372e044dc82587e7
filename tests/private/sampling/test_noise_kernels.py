"""The samplers give what plain Python gives, bit by bit, on the same words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scumble.private.sampling import kernels
from scumble.private.sampling.bits import Cuts, integers, multiply_high
from scumble.private.sampling.noise import _constants, exponentials
from scumble.private.sampling.randomized_response import _channel, keep_or_replace
from scumble.private.sampling.source import Keystream
from tests.support import noise_reference

ROWS = 20_000


def test_lookup() -> None:
    cuts = Cuts.rational([Fraction(k, 301) for k in range(300)])
    source = Keystream(1)
    prefixes = source.halves(ROWS)
    outcomes, open_ = noise_reference.lookup(prefixes.tolist(), cuts.table.tolist(), cuts.ambiguous)
    for row, outcome in zip(open_, cuts.decide(source, prefixes[open_]).tolist(), strict=True):
        outcomes[row] = outcome
    assert cuts.draw(Keystream(1), ROWS).tolist() == outcomes
    assert len(open_) > 10


@pytest.mark.parametrize("size", [2, 50, 254, 255, 1000])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_replace(size: int, dtype: type) -> None:
    if size > np.iinfo(dtype).max:
        return
    keep = Fraction(2, 7)
    cuts, table = _channel(size, keep)
    source = Keystream(2)
    prefixes = source.halves(ROWS)
    codes = (Keystream(3).words(ROWS) % np.uint64(size)).astype(dtype)
    expected, open_ = noise_reference.replace(
        codes.tolist(), prefixes.tolist(), table.tolist(), size
    )
    for row, outcome in zip(open_, cuts.decide(source, prefixes[open_]).tolist(), strict=True):
        expected[row] = outcome - 1 if outcome else int(codes[row])
    found = keep_or_replace(Keystream(2), codes, size, keep)
    assert found.tolist() == expected
    assert found.dtype == dtype


@pytest.mark.parametrize("bound", [1, 3, 50, 2**32 + 1, 2**63 + 1, 2**64 - 1])
def test_scale(bound: int) -> None:
    source, rows = Keystream(4), list(range(ROWS))
    expected: dict[int, int] = {}
    while rows:
        kept, refused = noise_reference.scale(source.words(len(rows)).tolist(), bound)
        expected.update({rows[place]: number for place, number in kept.items()})
        rows = [rows[place] for place in refused]
    assert integers(Keystream(4), bound, ROWS).tolist() == [expected[row] for row in range(ROWS)]


def test_high_word() -> None:
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, *Keystream(5).words(20).tolist()]
    for left in edges:
        for right in edges:
            product = kernels.high_word(np.uint64(left), np.uint64(right))
            assert int(product) == left * right >> 64
    pairs = [(left, right) for left in edges for right in edges]
    products = multiply_high(*np.array(pairs, np.uint64).T)
    assert products.tolist() == [left * right >> 64 for left, right in pairs]


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
    given[1000:] = _near_chances(law, proposed[1000:])
    arguments = law.slope, law.shift, law.offset
    answers, pending = law._enclose(given, proposed)
    expected = noise_reference.accept(given.tolist(), proposed.tolist(), *arguments, exponentials())
    assert (answers.tolist(), pending.tolist()) == expected


def _near_chances(law: Any, proposed: Any) -> Any:
    """Words near the threshold of each row, some of which 64 bits do not decide."""
    gamma = (np.abs(proposed) - float(law.variance / law.scale)) ** 2 / (2 * float(law.variance))
    return (np.exp(-np.minimum(gamma, 40)) * 2.0**63).astype(np.uint64) << np.uint64(1)
