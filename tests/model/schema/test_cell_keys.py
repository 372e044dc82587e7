"""Cell keys against Python integers."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scumble.model.errors import ParameterError
from scumble.model.schema import cell_keys
from scumble.model.schema.cell_keys import CellKeys, smallest_unsigned

BOUNDS = st.sampled_from([1, 2**32 - 1, 2**32, 2**64])
SIZES = st.lists(
    st.one_of(st.integers(1, 300), st.integers(1, 2**64), BOUNDS), min_size=1, max_size=8
)


@st.composite
def tuples(draw):
    sizes = draw(SIZES)
    rows = draw(
        st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1, max_size=20)
    )
    return sizes, rows


def columns_of(sizes, rows):
    return [
        np.array([row[place] for row in rows], smallest_unsigned(size))
        for place, size in enumerate(sizes)
    ]


@settings(max_examples=40)
@given(tuples())
def test_numbers_are_those_of_python(drawn):
    sizes, rows = drawn
    radix = CellKeys(sizes)
    keys = radix.pack(columns_of(sizes, rows))
    expected = []
    for row in rows:
        number = 0
        for size, code in zip(sizes, row, strict=True):
            number = number * size + code
        expected.append(number)
    assert radix.to_integers(keys) == expected
    assert np.array_equal(radix.from_integers(expected), keys)
    assert keys.dtype == np.uint64
    assert keys.shape == ((len(rows),) if radix.words == 1 else (len(rows), radix.words))


@settings(max_examples=40)
@given(tuples())
@example(([1, 2**32], [(0, 7), (0, 2**32 - 1)]))
def test_narrow_keys_are_the_same_numbers(drawn):
    sizes, rows = drawn
    radix, columns = CellKeys(sizes), columns_of(sizes, rows)
    keys = radix.pack(columns, narrow=True)
    assert keys.dtype == (np.uint32 if radix.size < 2**32 else np.uint64)
    assert np.array_equal(keys, radix.pack(columns))


@settings(max_examples=40)
@given(tuples(), st.booleans())
@example(([1, 2**32], [(0, 7), (0, 2**32 - 1)]), False)
@example(([2**32 - 1, 1], [(2**32 - 2, 0)]), True)
def test_unpacking_gives_the_columns_back(drawn, narrow):
    sizes, rows = drawn
    columns = columns_of(sizes, rows)
    radix = CellKeys(sizes)
    found = radix.unpack(radix.pack(columns, narrow=narrow))
    for column, back in zip(columns, found, strict=True):
        assert back.dtype == column.dtype
        assert np.array_equal(column, back)


@settings(max_examples=40)
@given(tuples(), st.booleans(), st.integers(1, 7))
def test_blocks_change_nothing(drawn, narrow, block):
    """Keys are packed and unpacked in blocks, all of the same number of rows but the last."""
    sizes, rows = drawn
    radix, columns = CellKeys(sizes), columns_of(sizes, rows)
    whole = radix.pack(columns, narrow=narrow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_keys, "_BLOCK", block)
        keys = radix.pack(columns, narrow=narrow)
        found = radix.unpack(keys)
    assert keys.dtype == whole.dtype
    assert np.array_equal(keys, whole)
    for column, back in zip(columns, found, strict=True):
        assert back.dtype == column.dtype
        assert np.array_equal(column, back)


@settings(max_examples=40)
@given(tuples())
def test_order_is_lexicographic(drawn):
    sizes, rows = drawn
    keys = CellKeys(sizes).pack(columns_of(sizes, rows))
    keyed = [tuple(np.atleast_1d(key).tolist()) for key in keys]
    assert sorted(range(len(rows)), key=lambda k: keyed[k]) == sorted(
        range(len(rows)), key=lambda k: rows[k]
    )


@settings(max_examples=40)
@given(SIZES)
def test_words_are_as_few_as_neighbours_allow(sizes):
    radix = CellKeys(sizes)
    assert radix.size == np.prod([int(size) for size in sizes], dtype=object)
    assert (radix.words == 1) == (radix.size <= 2**64)


def test_chosen_types_and_nothing_at_all():
    radix = CellKeys([10, 20])
    key = radix.pack([np.array([3], np.uint8), np.array([4], np.uint8)])
    wide = radix.unpack(key, [np.dtype(np.int64)] * 2)
    assert [column.dtype for column in wide] == [np.int64, np.int64]
    empty = radix.pack([np.empty(0, np.uint8)] * 2)
    assert [len(column) for column in radix.unpack(empty)] == [0, 0]
    assert radix.from_integers([]).shape == (0,)
    assert CellKeys([]).size == 1


def test_smallest_type_holds_the_last_code():
    sizes = [1, 256, 257, 2**16, 2**16 + 1, 2**32, 2**32 + 1, 2**64]
    assert [smallest_unsigned(size).name for size in sizes] == [
        *("uint8", "uint8", "uint16", "uint16", "uint32", "uint32", "uint64", "uint64")
    ]


def test_refusals():
    with pytest.raises(ParameterError, match="'sizes' parameter of CellKeys must be"):
        CellKeys([3, 0])
    with pytest.raises(
        ParameterError, match=r"'columns' parameter of CellKeys\.pack must be 2 arrays"
    ):
        CellKeys([3, 2]).pack([np.zeros(1, np.uint8)])
    with pytest.raises(ParameterError, match=r"from 0 to 5\. Got 6 instead"):
        CellKeys([3, 2]).from_integers([6])
