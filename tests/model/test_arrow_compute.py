"""The functions of `arrow_compute` are those of `pyarrow.compute`, for all kinds of columns."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scumble.model import arrow_compute

TEXT = pa.array(["abc", " ab", None, "", "ÄBC ", "1.0", "a b"])
NUMBERS = pa.array([1.5, None, float("nan"), -2.0])
WHOLE = pa.array([3, None, 1, 3], pa.int32())
TRUTH = pa.array([True, None, False])
LISTS = pa.array([["a", "b"], None, [], ["c"]])
TIMES = pa.array([0, None, 10**9], pa.timestamp("s", "Asia/Tokyo"))

CALLS = [
    ("binary_join_element_wise", (TEXT, pa.array(list("abcdefg")), pa.scalar("-"))),
    ("and_", (TRUTH, pa.array([True, True, None]))),
    ("or_", (TRUTH, pa.array([False, True, None]))),
    ("invert", (TRUTH,)),
    ("coalesce", (WHOLE, pa.array([7, 8, 9, 9], pa.int32()))),
    ("if_else", (pa.array([True, False, None, True]), None, WHOLE)),
    ("is_nan", (NUMBERS,)),
    ("equal", (TEXT, "")),
    ("is_valid", (TEXT,)),
    ("drop_null", (TEXT,)),
    ("value_counts", (WHOLE,)),
    ("value_counts", (TEXT.dictionary_encode(),)),
    ("count_substring", (TEXT, "b")),
    ("is_null", (TEXT,)),
    ("is_null", (pa.chunked_array([TEXT, TEXT]),)),
    ("not_equal", (TEXT, "")),
    ("utf8_lower", (TEXT,)),
    ("utf8_trim_whitespace", (TEXT,)),
    ("utf8_split_whitespace", (TEXT,)),
    ("utf8_slice_codeunits", (TEXT, 1)),
    ("utf8_slice_codeunits", (TEXT, 0, 2)),
    ("split_pattern", (TEXT, "b")),
    ("starts_with", (TEXT, "a")),
    ("match_substring_regex", (TEXT, "^a.?b")),
    ("replace_substring_regex", (TEXT, r"^\s|\.0*$", "-")),
    ("is_in", (TEXT, pa.array(["abc", ""]))),
    ("index_in", (TEXT, pa.array(["", "abc"]))),
    ("list_flatten", (LISTS,)),
    ("list_value_length", (LISTS,)),
    ("local_timestamp", (TIMES,)),
    ("fill_null", (WHOLE, 0)),
    ("fill_null", (pa.chunked_array([NUMBERS, NUMBERS]), 0.0)),
    ("fill_null", (TEXT, pa.scalar("?"))),
    ("take", (TEXT, pa.array([2, 0, None, 5]))),
    ("take", (pa.table({"a": WHOLE, "b": NUMBERS}), pa.array([3, 3]))),
    ("cast", (WHOLE, pa.float64())),
    ("cast", (WHOLE, pa.int32())),
    ("cast", (pa.chunked_array([WHOLE]), pa.string())),
    ("dictionary_encode", (TEXT,)),
    ("dictionary_encode", (TEXT.dictionary_encode(),)),
    ("run_end_decode", (pc.run_end_encode(WHOLE),)),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_the_results_are_those_of_arrow(name, arguments):
    found = getattr(arrow_compute, name)(*arguments)
    expected = getattr(pc, name)(*arguments)
    assert type(found) is type(expected)
    assert str(found) == str(expected)  # `equals` takes NaN for different
    assert getattr(found, "type", None) == getattr(expected, "type", None)


def test_every_function_has_a_case():
    public = {name for name, value in vars(arrow_compute).items() if callable(value)}
    public = {name for name in public if not name.startswith("_")} - {"Callable", "Any"}
    renamed = {"all_true", "any_true", "total", "filter_", "dictionary_decode"}
    renamed |= {"column", "to_numpy"}
    assert public == {name for name, _ in CALLS} | renamed


def test_functions_of_other_names():
    for values in ([True, None], [True, False], [None], []):
        column = pa.array(values, pa.bool_())
        assert arrow_compute.all_true(column) == pc.all(column)
        assert arrow_compute.any_true(column) == pc.any(column)
    for column in (WHOLE, NUMBERS.slice(0, 2), pa.array([], pa.int64())):
        assert arrow_compute.total(column) == pc.sum(column)
    coded = TEXT.dictionary_encode()
    assert arrow_compute.dictionary_decode(coded).equals(coded.dictionary_decode())
    mask = pa.array([True, None, False, True])
    assert arrow_compute.filter_(WHOLE, mask).equals(pc.filter(WHOLE, mask))


@pytest.mark.parametrize("kind", ["u1", "i2", "u4", "i8", "f8", "?"])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_columns_of_numpy_arrays(kind, size):
    numbers = (np.arange(2 * size) % 3).astype(kind)[::2]
    nulls = np.arange(size) % 4 == 1
    assert arrow_compute.column(numbers).equals(pa.array(numbers))
    found = arrow_compute.column(numbers, nulls)
    found.validate(full=True)
    assert found.equals(pa.array(numbers, mask=nulls))
    assert found.null_count == nulls.sum()


def test_casts_that_lose_something():
    with pytest.raises(pa.ArrowInvalid):
        arrow_compute.cast(NUMBERS, pa.int64())
    assert arrow_compute.cast(pa.array([1.5]), pa.int64(), safe=False).to_pylist() == [1]


ARRAYS = [
    *(pa.array([1, 2, 3, 1, 2, 3], kind) for kind in (pa.int8(), pa.uint16(), pa.int64())),
    *(pa.array([1, 2, float("nan"), 3, 4], kind) for kind in (pa.float32(), pa.float64())),
    pa.array([True, False, False, True] * 5),
    pa.array([1, None, 2, 3]),
    pa.array([True, None, False]),
    pa.array(["a", "b", None]),
    pa.array([0, 1], pa.date32()),
    pa.chunked_array([[1, 2], [3]]),
    pa.array([], pa.int32()),
    pa.array([], pa.bool_()),
]


@pytest.mark.parametrize("values", ARRAYS, ids=str)
def test_arrays_of_numpy(values):
    for begin, length in [(0, len(values)), (1, 1), (2, len(values))]:
        part = values.slice(begin, length)
        found = arrow_compute.to_numpy(part)
        chunked = isinstance(part, pa.ChunkedArray)
        expected = part.to_numpy() if chunked else part.to_numpy(zero_copy_only=False)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
