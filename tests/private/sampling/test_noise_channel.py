"""Keep or replace: exact shares, whatever the size of the domain and the type of the codes."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scumble.model.errors import ParameterError
from scumble.private.sampling.randomized_response import keep_or_replace
from scumble.private.sampling.source import Keystream
from tests.support.goodness import rejects
from tests.support.scripted import Scripted, halves, words

fractions = some.fractions(0, 1, max_denominator=10**30).filter(lambda keep: keep < 1)


def test_all_prefixes_have_exactly_their_share() -> None:
    """keep = 1/2 and four values: 5/8 for the same value, 1/8 for each other one."""
    out = keep_or_replace(
        Scripted(halves(range(65536))), np.full(65536, 2, np.uint8), 4, Fraction(1, 2)
    )
    assert np.bincount(out).tolist() == [8192, 8192, 40960, 8192]


@settings(max_examples=40, deadline=None)
@given(some.integers(2, 300), fractions, some.data())
def test_each_prefix_gives_the_outcome_its_interval_lies_in(
    size: int, keep: Fraction, data: some.DataObject
) -> None:
    """By exact arithmetic, next to a cut: [0, keep) keeps, then one part for each code."""
    cut = keep + data.draw(some.integers(0, size - 1)) * (1 - keep) / size
    word = min(max(floor(cut * 2**64) + data.draw(some.integers(-1, 1)), 0), 2**64 - 1)
    ends = [Fraction(word, 2**64), Fraction(word + 1, 2**64)]
    parts = [floor((end - keep) * size / (1 - keep)) if end >= keep else -1 for end in ends]
    exact_end = (ends[1] - keep) * size / (1 - keep)
    if parts[0] != parts[1] and not (exact_end == parts[1] and parts[1] == parts[0] + 1):
        return  # a cut lies inside: another test
    source = Scripted(halves([word >> 48]), words((word << 16) % 2**64))
    given_code = size - 1
    out = keep_or_replace(source, np.array([given_code], np.uint16), size, keep)
    assert out[0] == (parts[0] if parts[0] >= 0 else given_code)


def test_a_tie_reads_on() -> None:
    keep = Fraction(1, 3)
    word, more = (floor(keep * 2**bits) % 2**64 for bits in (64, 128))
    head = [halves([word >> 48]), words((word << 16) % 2**64)]
    code = np.array([7], np.uint8)
    assert keep_or_replace(Scripted(*head, words(more - 1)), code, 10, keep)[0] == 7
    assert keep_or_replace(Scripted(*head, words(more + 1)), code, 10, keep)[0] == 0


CASES = [(2, np.uint8), (50, np.uint8), (254, np.uint8), (255, np.uint8), (256, np.uint8)]
WIDE = [(3000, np.uint16), (65536, np.uint16), (70_000, np.uint32), (2**40, np.uint64)]


def test_frequencies(subtests: pytest.Subtests) -> None:
    """False alarm 1e-6 each (two tests a case); sees a keep that is 2 % off."""
    for size, dtype in CASES + WIDE:
        with subtests.test(size=size, dtype=dtype):
            keep, rows, code = Fraction(3, 5), 400_000, size - 1
            codes = np.full(rows, code, dtype)
            out = keep_or_replace(Keystream(size), codes, size, keep)
            assert out.dtype == dtype
            assert (codes == code).all()
            same = float(keep + (1 - keep) / size)
            kept = int((out == code).sum())
            assert not rejects([kept, rows - kept], [same, 1 - same])
            off = same + float(keep) * 0.02
            assert rejects([kept, rows - kept], [off, 1 - off])
            others = out[out != code]
            bins = min(size - 1, 32)
            edges = [(size - 1) * part // bins for part in range(bins + 1)]
            counts = np.histogram(others.astype(float), edges)[0]
            assert not rejects(counts, (np.diff(edges) / (size - 1)).tolist())


def test_keep_one_keeps_and_keep_zero_forgets() -> None:
    codes = np.arange(200, dtype=np.uint8)
    out = keep_or_replace(Keystream(1), codes, 200, Fraction(1))
    assert (out == codes).all()
    assert out is not codes
    assert (keep_or_replace(Keystream(1), codes, 1, Fraction(1, 2)) == codes).all()
    zeros = keep_or_replace(Keystream(1), np.zeros(100_000, np.uint8), 4, Fraction(0))
    assert not rejects(np.bincount(zeros), [0.25] * 4)


def test_probabilities_with_long_fractions() -> None:
    """False alarm 1e-6: a fraction of 200 bits next to 1/2 keeps as 1/2 does."""
    keep = Fraction(2**199 + 1, 2**200 + 3)
    kept = int((keep_or_replace(Keystream(2), np.ones(10**5, np.uint8), 100, keep) == 1).sum())
    assert not rejects([kept, 10**5 - kept], [0.505, 0.495])
    assert len(keep_or_replace(Keystream(2), np.empty(0, np.uint8), 5, keep)) == 0


def test_strided_codes_are_read_in_order() -> None:
    codes = np.arange(200, dtype=np.uint8)[::-2]
    assert (keep_or_replace(Keystream(1), codes, 200, Fraction(10**9, 10**9 + 1)) == codes).all()


@pytest.mark.parametrize("keep", [0.5, Fraction(3, 2), -1])
def test_keep_is_an_exact_probability(keep: object) -> None:
    with pytest.raises(ParameterError, match="The 'keep' parameter of keep_or_replace must be"):
        keep_or_replace(Keystream(1), np.zeros(1, np.uint8), 2, keep)  # type: ignore[arg-type]
