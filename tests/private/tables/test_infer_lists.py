"""Sets and sequences that `Schema.infer` proposes."""

from __future__ import annotations

import random

import pandas as pd
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.schema.domains import Category, IntegerRange
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
