"""Sets and sequences that `Schema.infer` proposes."""

from __future__ import annotations

import random
from itertools import product

import pandas as pd
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.schema.domains import Bins, Category, IntegerRange
from scumble.model.schema.lists import ListDomain


def drawn(letters: str, rows: int = 400, *, repeats: bool) -> list[list[str]]:
    rng = random.Random(4)
    pick = rng.choices if repeats else rng.sample
    return [pick(letters, k=rng.randrange(0, 6)) for _ in range(rows)]


@pytest.mark.parametrize("form", ["arrow", "pandas", "text", "whitespace numbers"])
@pytest.mark.parametrize("repeats", [False, True])
def test_lists_are_proposed_from_every_form(form, repeats) -> None:
    lists = drawn("abcdefgh", repeats=repeats)
    numbers = [" ".join(str("abcdefgh".index(x)) for x in each) for each in lists]
    tables = {
        "arrow": lambda: pa.table({"x": pa.array(lists, pa.list_(pa.string()))}),
        "pandas": lambda: pd.DataFrame({"x": lists}),
        "text": lambda: pa.table({"x": [";".join(each) for each in lists]}),
        "whitespace numbers": lambda: pa.table({"x": numbers}),
    }
    schema = sc.Schema.infer(tables[form](), sensitive="x", limit=100)
    found = schema["x"].domain
    assert isinstance(found, ListDomain)
    assert found.kind == ("sequence" if repeats else "set")
    assert found.longest == 5
    numeric = form == "whitespace numbers"
    assert found.members == (IntegerRange(0, 7) if numeric else Category(tuple("abcdefgh")))
    assert schema["x"].from_data
    assert schema["x"].role == "sensitive"
    assert sc.Schema.loads(schema.dumps()) == schema


def test_a_small_file_of_lists() -> None:
    rng = random.Random(6)
    lists = [" ".join(rng.choices("12345", k=rng.randrange(1, 4))) for _ in range(120)]
    found = sc.Schema.infer(pa.table({"x": lists}))["x"].domain
    assert isinstance(found, ListDomain)
    assert found.members == IntegerRange(1, 5)


def test_columns_that_are_not_lists_stay_what_they_are() -> None:
    rng = random.Random(5)
    people = [f"{rng.choice('ABCDEFG')}nna {rng.choice('XYZ')}mith{i}" for i in range(300)]
    streets = [f"{i} Long Street, Town" for i in range(300)]
    shades = [rng.choice(["dark blue", "light green"]) for _ in range(300)]
    schema = sc.Schema.infer(pa.table({"name": people, "street": streets, "shade": shades}))
    assert schema["name"].domain is None
    assert schema["street"].domain is None
    assert schema["shade"].domain == Category(("dark blue", "light green"))


def test_texts_of_words_that_repeat_are_sets(subtests: pytest.Subtests) -> None:
    for ordered, most, separator in product([False, True], [3, 5], [" ", ", ", ";"]):
        with subtests.test(ordered=ordered, most=most, separator=separator):
            rng, words = (
                random.Random(7),
                ["milk", "bread", "beer", "eggs", "tea", "jam", "rice", "salt"],
            )
            lists = [rng.sample(words, k=rng.randrange(0, most + 1)) for _ in range(300)]
            texts = [separator.join(sorted(each) if ordered else each) or None for each in lists]
            found = sc.Schema.infer(pa.table({"x": texts}))["x"].domain
            assert isinstance(found, ListDomain)
            assert (found.kind, found.members) == ("set", Category(tuple(sorted(words))))


def test_pages_that_begin_with_the_same_page_are_a_sequence() -> None:
    rng = random.Random(8)
    pages = [" ".join(["home", *rng.choices("abcdef", k=rng.randrange(0, 7))]) for _ in range(300)]
    found = sc.Schema.infer(pa.table({"x": pages}))["x"].domain
    assert isinstance(found, ListDomain)
    assert found.kind == "sequence"


def _texts(form: str, rng: random.Random) -> str:
    """Return a text of words that repeat, but each at its place."""
    given, family = ([f"{letter}{i}" for i in range(40)] for letter in "GF")
    if form == "names":
        return " ".join([*rng.sample(given, rng.choice([1, 1, 2])), rng.choice(family)])
    if form == "names of four":
        return " ".join([*rng.sample(given, rng.choice([1, 2])), *rng.sample(family, 2)])
    if form == "family names first":
        return f"{rng.choice(family)}, {rng.choice(given)}"
    if form == "towns":
        return f"{rng.choice(family)}, {rng.choice(given)}, Ohio"
    if form == "addresses":
        flat = rng.choice(["", "", f"Flat {rng.randrange(9)} "])
        return f"{flat}{rng.randrange(1, 60)} {rng.choice(family)} {rng.choice(['Street', 'Road'])}"
    symptom = rng.choice(["mild pain", "severe pain", "some swelling", "an itch"])
    where = rng.choice(["knee", "arm", "foot", "eye", "ear", "hip", "hand", "neck"])
    since = rng.choice(["", " since monday", " after work", " again", " at night"])
    return f"patient {rng.choice(['has', 'denies'])} {symptom} near the left {where}{since}"


def test_words_that_keep_their_place_are_no_lists(subtests: pytest.Subtests) -> None:
    for form in ["names", "names of four", "family names first", "towns", "addresses", "findings"]:
        with subtests.test(form=form):
            rng = random.Random(9)
            texts = [_texts(form, rng) for _ in range(3000)]
            found = sc.Schema.infer(pa.table({"x": texts}), limit=100)["x"].domain
            assert found is None


def test_prose_is_no_list() -> None:
    rng = random.Random(10)
    words, shares = [f"word{i}" for i in range(4000)], [1 / (i + 1) for i in range(4000)]
    texts = [" ".join(rng.choices(words, shares, k=rng.randrange(3, 20))) for _ in range(3000)]
    assert sc.Schema.infer(pa.table({"x": texts}))["x"].domain is None


def test_the_owner_says_that_it_is_a_set() -> None:
    table = pa.table({"x": ["a b", "b", "c a a"] * 5})
    schema = sc.Schema.infer(table, types={"x": "set"})
    assert schema["x"].domain == ListDomain("set", Category(("a", "b", "c")), longest=5)
    none = sc.Schema.infer(pa.table({"x": [1, 2, 3] * 5}), types={"x": "set"})
    assert none["x"].domain is None


def test_baskets_of_the_shared_data(shared_data) -> None:
    schema = sc.Schema.infer(shared_data / "fimi_retail.csv.gz", identifier="tid")
    assert schema["items"].domain == ListDomain("set", IntegerRange(0, 16469), longest=100)
    schema = sc.Schema.infer(shared_data / "msnbc_spmf_31790.csv.gz", identifier="sid")
    found = schema["pages"].domain
    assert isinstance(found, ListDomain)
    assert (found.kind, found.members) == ("sequence", IntegerRange(1, 17))


LONG = {
    "visit": [1, 1, 2, 2, 2, 3],
    "who": ["u", "u", "v", "v", "v", "u"],
    "time": [2, 1, 1, 2, 3, 1],
    "page": ["b", "a", "c", "a", "a", "b"],
    "shop": ["x", "x", "y", "y", "y", "x"],
}


@pytest.mark.parametrize("order", [None, "time"])
def test_rows_of_single_items_are_lists(order) -> None:
    table = pa.table(LONG) if order else pa.table(LONG).drop_columns("time")
    schema = sc.Schema.infer(table, identifier="who", basket="visit", order=order)
    kind = "sequence" if order else "set"
    assert schema["page"].domain == ListDomain(kind, Category(("a", "b", "c")), longest=5)
    assert schema["shop"].domain == Category(("x", "y"))
    assert schema["visit"].role == schema["who"].role == "identifier"
    assert [each.name for each in schema] == ["visit", "who", "page", "shop"]
    lengths = sc.Histogram("length(page)", epsilon=100, neighbours="add_remove")
    release = sc.publish(
        sc.Table(table, basket="visit", order=order),
        schema,
        lengths,
        options=sc.PublishOptions(seed=1),
    )
    longest = 3 if order else 2
    assert release.answer(f"SELECT COUNT(*) FROM t WHERE length(page) = {longest}").value > 0.9


def test_types_of_rows_of_single_items() -> None:
    types = {"page": "sequence", "shop": "set"}
    schema = sc.Schema.infer(
        pa.table(LONG), types=types, basket="visit", identifier=["who", "time"]
    )
    found = schema["page"].domain
    assert isinstance(found, ListDomain)
    assert found.kind == "sequence"
    assert schema["shop"].domain == ListDomain("set", Category(("x", "y")), longest=5)


def test_an_order_without_baskets_is_refused() -> None:
    with pytest.raises(sc.ParameterError, match="give basket too"):
        sc.Schema.infer(pa.table(LONG), order="time")


@pytest.mark.parametrize("form", ["lists", "single rows", "text"])
def test_coordinates_are_sequences_in_bins(form) -> None:
    rng = random.Random(11)
    trips = [[rng.uniform(-3, 7) for _ in range(rng.randrange(1, 6))] for _ in range(100)]
    trips[0] = [1.0, 2.0]  # whole numbers first
    given: dict[str, object] = {"types": {"x": "sequence"}}
    if form == "lists":
        table, given = pa.table({"x": trips}), {}
    elif form == "text":
        table = pa.table({"x": [";".join(map(str, trip)) for trip in trips]})
    else:
        pairs = [(trip, x) for trip, points in enumerate(trips) for x in points]
        table = pa.table({"trip": [trip for trip, _ in pairs], "x": [x for _, x in pairs]})
        given["basket"] = "trip"
    found = sc.Schema.infer(table, **given)["x"].domain
    assert found == ListDomain("sequence", Bins(found.members.edges), found.separator, longest=5)
    assert found.members.edges[0] == -3
    assert found.members.edges[-1] == 7
