"""Sets and sequences in a schema, and the columns that are derived from lists."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from scumble.model.errors import SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Boolean, Category, IntegerRange
from scumble.model.schema.lists import Derivation, DerivedName, EncodedLists, ListDomain
from scumble.model.schema.schema import Schema

LETTERS = Category(("a", "b", "c"))
TEXT = """
[attributes.pages]
role = "sensitive"
type = "sequence"
values = ["a", "b", "c"]
separator = ";"
longest = 4

[attributes."first(pages)"]
role = "quasi"

[attributes.items]
role = "sensitive"
type = "set"
range = [0, 9]
"""


def listed(lists: EncodedLists) -> list[list[int]]:
    return [
        lists.codes[begin:end].tolist()
        for begin, end in zip(lists.offsets, lists.offsets[1:], strict=False)
    ]


ALL = [list(each) for length in range(4) for each in product("abcx", repeat=length)]


def test_all_short_lists_are_encoded_in_every_form(subtests: pytest.Subtests) -> None:
    texts = [";".join(each) for each in ALL]
    forms = {
        "text": pa.array(texts),
        "bytes": pa.array([text.encode() for text in texts]),
        "list": pa.array(ALL, pa.list_(pa.string())),
        "large list": pa.array(ALL, pa.large_list(pa.large_string())),
        "dictionary": pa.array(texts).dictionary_encode(),
        "chunks": pa.chunked_array([texts[:30], texts[30:]]),
    }
    for form, kind in product(forms, ["set", "sequence"]):
        with subtests.test(form=form, kind=kind):
            values = forms[form]
            found = ListDomain(kind, LETTERS, ";").encode(values)
            codes = [["abc".index(letter) for letter in each if letter != "x"] for each in ALL]
            expected = [sorted(set(each)) for each in codes] if kind == "set" else codes
            assert listed(found) == expected
            assert found.outside.tolist() == ["x" in each for each in ALL]


def test_missing_and_empty_values_are_no_members() -> None:
    domain = ListDomain("sequence", IntegerRange(0, 9))
    assert listed(domain.encode(pa.array(["1  2", "", None, " 3 "]))) == [[1, 2], [], [], [3]]
    assert listed(domain.encode(pa.array([[1, None, 2], [], None]))) == [[1, 2], [], []]
    assert listed(domain.encode(pa.array([7, None]))) == [[7], []]
    garbled = domain.encode(pa.array([b"1", b"\xff 2"]))
    assert listed(garbled) == [[1], []]
    assert garbled.outside.tolist() == [False, True]


def test_a_wide_domain_does_not_overflow() -> None:
    domain = ListDomain("set", IntegerRange(-(2**62), 2**62))
    found = domain.encode(pa.array([[2**62, -(2**62), 2**62], [0]]))
    assert listed(found) == [[0, 2**63], [2**62]]


def test_choosing_and_clipping_lists() -> None:
    lists = ListDomain("sequence", LETTERS, ";").encode(pa.array(["a;b;c", "", "c;c"]))
    assert listed(lists[np.array([2, 0])]) == [[2, 2], [0, 1, 2]]
    assert listed(lists[np.array([True, True, False])]) == [[0, 1, 2], []]
    assert listed(lists.clipped(2)) == [[0, 1], [], [2, 2]]


def test_derived_columns_of_all_short_lists() -> None:
    kept = [each for each in ALL if "x" not in each]
    lists = ListDomain("sequence", LETTERS, ";", longest=2)
    encoded = lists.encode(pa.array([";".join(each) for each in kept]))
    expected = {
        "first(pages)": [each[0] if each else None for each in kept],
        "last(pages)": [each[-1] if each else None for each in kept],
        "length(pages)": [min(len(each), 2) for each in kept],
        "contains(pages, 'b')": ["b" in each for each in kept],
    }
    schema = Schema((Attribute("pages", "sensitive", lists),))
    for name, values in expected.items():
        derivation = schema.derivation(name)
        assert derivation is not None
        codes = derivation.encode(encoded)
        assert schema[name].decode(codes).to_pylist() == values
        assert schema[name].code_type == codes.dtype


def test_a_schema_with_lists_is_written_and_read() -> None:
    schema = Schema.loads(TEXT)
    assert schema["pages"].domain == ListDomain("sequence", LETTERS, ";", 4)
    assert schema["first(pages)"] == Attribute("first(pages)", "quasi", LETTERS, missing=True)
    assert schema["items"].domain == ListDomain("set", IntegerRange(0, 9))
    assert Schema.loads(schema.dumps()) == schema
    assert Schema.from_dict(schema.to_dict()) == schema
    assert [each.name for each in schema.published] == ["first(pages)"]
    assert [each.name for each in schema.lists] == ["pages", "items"]


def test_derived_columns_need_not_be_listed() -> None:
    schema = Schema.loads(TEXT)
    assert schema["contains(items, 3)"].domain == Boolean()
    assert schema["CONTAINS( pages , 'c' )"].role == "sensitive"
    assert schema.with_derived(["length(pages)", "items"]).names[-1] == "length(pages)"
    assert schema.with_derived(["first(pages)", "items"]) is schema


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("first(items)", "is a set, which has no order"),
        ("length(items)", "write longest = NUMBER"),
        ("contains(items, 10)", "there is no such value"),
        ("contains(pages, 'z')", "there is no such value"),
        ("contains(pages)", "has no attribute"),
    ],
)
def test_columns_that_a_list_does_not_have(name, words) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema.loads(TEXT)[name]


def test_bad_schemas_are_refused_in_a_sentence(subtests: pytest.Subtests) -> None:
    for text, words in [
        ('type = "set"\nvalues = ["a"]\nmissing = true', "Delete 'missing'"),
        ('type = "set"\nvalues = ["a"]\nseparator = ""', "separator must be text"),
        ('type = "set"\nvalues = ["a"]\nlongest = 0', "'longest' must be a whole number"),
        ('type = "set"\nvalues = ["a"]\nrange = [0, 1]', "either 'range' or 'values'"),
        ('type = "category"\nvalues = ["a"]\nother = "b"', "'other' must be one of the values"),
        ('type = "set"', "give 'values' as a list"),
    ]:
        with subtests.test(text=text, words=words), pytest.raises(SchemaError, match=words):
            Schema.loads(f'[attributes.x]\nrole = "sensitive"\n{text}\n')


def test_a_derived_column_with_another_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="give its role only"):
        Schema.loads(TEXT + '[attributes."last(pages)"]\nrole = "quasi"\ntype = "boolean"\n')


def test_codes_of_lists_are_refused_with_advice() -> None:
    schema = Schema.loads(TEXT)
    for name, words in {"pages": "first\\(pages\\)", "items": "derived from it: length"}.items():
        with pytest.raises(SchemaError, match=words):
            _ = schema[name].size


def test_other_takes_every_value_that_is_not_listed() -> None:
    attribute = Attribute("x", "quasi", Category(("a", "rest"), other="rest"), missing=True)
    codes, outside = attribute.encode(pa.array(["a", "b", None, "", "rest"]))
    assert codes.tolist() == [0, 1, 2, 2, 1]
    assert not outside.any()
    lists = ListDomain("set", Category(("a", "rest"), other="rest"))
    assert listed(lists.encode(pa.array(["a z y", "z"]))) == [[0, 1], [1]]


def test_names_of_derived_columns() -> None:
    assert DerivedName.read("first(a b)") == DerivedName("first", "a b")
    assert DerivedName.read("contains(x, 'it''s')") == DerivedName("contains", "x", "it's")
    assert DerivedName.read("contains(x, -3)") == DerivedName("contains", "x", -3)
    assert DerivedName.read('first("a b")') == DerivedName("first", "a b")
    assert DerivedName.read('first(a "b")') == DerivedName("first", 'a "b"')
    for name in ("first", "first()", "first(x, 'a')", "median(x)", "contains(x, y)"):
        assert DerivedName.read(name) is None


def test_codes_of_a_text_do_not_depend_on_whether_another_row_is_marked_as_list(
    subtests: pytest.Subtests,
) -> None:
    for separator, text in product(
        [" ", "\x02", ";"], ["a\u3000b", "a\x0bb", "a\x1fb", "a\u00a0b", "a\x02b", "a\x01b"]
    ):
        with subtests.test(separator=separator, text=text):
            lists = ListDomain("set", LETTERS, separator)
            alone, beside = (lists.encode(pa.array([text, other])) for other in ("c", "\x01c"))
            assert listed(alone) == listed(beside)
            assert alone.outside.tolist() == beside.outside.tolist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"x": "a"}]),
        pa.array([["a"]], pa.list_view(pa.string())),
        pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
    ],
)
def test_values_that_cannot_be_read_are_outside_and_not_empty_lists(values: pa.Array) -> None:
    assert ListDomain("set", LETTERS).encode(values).outside.tolist() == [True]


def test_members_may_be_stored_by_a_dictionary() -> None:
    members = pa.array(["a", None, "b"]).dictionary_encode()
    lists = ListDomain("set", LETTERS).encode(pa.ListArray.from_arrays([0, 2, 3], members))
    assert listed(lists) == [[0], [1]]
    assert not lists.outside.any()


@pytest.mark.parametrize(
    "names",
    [("length(x)", "Length( x )"), ("first(x)", 'first("X")'), ("contains(x, 1)", "contains(x,1)")],
)
def test_two_spellings_of_one_column_are_refused(names: tuple[str, str]) -> None:
    columns = [Attribute(name, "quasi", IntegerRange(0, 3)) for name in names]
    with pytest.raises(SchemaError, match="two spellings of one column"):
        Schema(tuple(columns))


def test_hostile_names_are_read_at_once_and_refused() -> None:
    assert DerivedName.read("first(" + " " * 3000) is None
    assert DerivedName.read(f"contains(x, {'9' * 5000})") is None
    name = DerivedName.read(f"contains(x, {'9' * 40})")
    assert name is not None
    with pytest.raises(SchemaError, match="no such value"):
        Derivation.of(name, ListDomain("set", IntegerRange(0, 5)))
