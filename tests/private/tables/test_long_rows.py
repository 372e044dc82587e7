"""Tables with one item per row, grouped into lists."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

import scumble as sc
from scumble.private.tables.basket_grouping import LongRows
from scumble.private.tables.open import open_source
from tests.support.publishing import publish

ROWS = [("t1", "b", 2, "x"), ("t2", "a", 1, "y"), ("t1", "a", 10, "x"), ("t1", "c", 1, "x")]
NAMES = ["basket", "item", "place", "shop"]
SCHEMA = sc.Schema.loads("""
[attributes.item]
role = "sensitive"
type = "sequence"
values = ["a", "b", "c"]
[attributes.shop]
role = "quasi"
type = "category"
values = ["x", "y"]
""")


def table(rows: list[tuple]) -> pa.Table:
    return pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))


def grouped(source, **options) -> list[dict]:
    rows = LongRows(open_source(source), "basket", **options)
    columns = [name for name in rows.columns if name != options.get("order")]
    return [row for batch in rows.batches(columns) for row in batch.to_pylist()]


def test_rows_are_grouped_in_their_order() -> None:
    found = grouped(table(ROWS), order="place")
    assert found == [
        {"basket": "t1", "item": ["c", "b", "a"], "shop": "x"},
        {"basket": "t2", "item": ["a"], "shop": "y"},
    ]
    assert [each["item"] for each in grouped(table(ROWS), lists=["item"])] == [
        ["b", "a", "c"],
        ["a"],
    ]


def test_numbers_in_text_are_ordered_as_numbers(tmp_path) -> None:
    pyarrow.csv.write_csv(table(ROWS), tmp_path / "long.csv")
    found = grouped(str(tmp_path / "long.csv"), order="place")
    assert [each["item"] for each in found] == [["c", "b", "a"], ["a"]]


def test_many_baskets_against_a_dictionary() -> None:
    rng = random.Random(3)
    rows = [(f"t{rng.randrange(200)}", rng.choice("abc"), rng.random(), "x") for _ in range(3000)]
    expected: dict[str, list] = {}
    for basket, item, place, _ in rows:
        expected.setdefault(basket, []).append((place, item))
    found = grouped(table(rows), order="place", lists=["item"])
    assert [each["basket"] for each in found] == list(expected)
    for each in found:
        assert each["item"] == [item for _, item in sorted(expected[each["basket"]])]


def test_publish_groups_by_basket() -> None:
    mechanism = sc.Histogram(["first(item)"], epsilon=90, neighbours="add_remove")
    release = sc.publish(
        sc.Table(table(ROWS), basket="basket", order="place"),
        SCHEMA,
        mechanism,
        options=sc.PublishOptions(seed=1),
    )
    found = {
        row["first(item)"]: round(row["value"])
        for row in release.answer("SELECT first(item), COUNT(*) FROM t GROUP BY 1")
        .to_arrow()
        .to_pylist()
    }
    assert (found["a"], found["b"], found["c"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "place"}, "give basket too"),
        ({"basket": "none"}, "no column 'none'"),
        ({"basket": "basket", "order": "none"}, "no column 'none'"),
    ],
)
def test_refusals(options, words) -> None:
    mechanism = sc.Histogram(["first(item)"], epsilon=1, neighbours="add_remove")
    with pytest.raises(sc.ScumbleError, match=words):
        publish(table(ROWS), SCHEMA, mechanism, **options)


def test_a_row_without_a_basket_is_refused() -> None:
    with pytest.raises(sc.SourceError, match="a row without a value of 'basket'"):
        grouped(table([*ROWS, (None, "a", 1, "x")]))


@pytest.mark.parametrize("who", [("q", "p"), ("q", None), (None, "q")])
def test_a_basket_of_two_persons_is_refused(who) -> None:
    rows = pa.table({"basket": [1, 2, 2], "who": ["q", *who], "item": ["a", "a", "b"]})
    text = SCHEMA.select(["item"]).dumps() + '\n[attributes.who]\nrole = "identifier"\n'
    given = {"epsilon": 1, "neighbours": "add_remove"}

    def publish(table: pa.Table, **more) -> None:
        mechanism = sc.Histogram(["first(item)"], **given, **more)
        sc.publish(
            sc.Table(table, basket="basket"),
            sc.Schema.loads(text).with_unit(),
            mechanism,
            options=sc.PublishOptions(seed=1),
        )

    with pytest.raises(sc.SourceError, match="a basket whose rows differ in 'who'"):
        publish(rows, person="who")
    publish(rows)  # a basket is a person
    publish(rows.slice(0, 2).filter(pa.compute.is_valid(rows.slice(0, 2)["who"])), person="who")


def test_an_empty_table_has_no_baskets() -> None:
    assert grouped(table(ROWS).slice(0, 0), lists=["item"]) == []


@pytest.mark.parametrize("names", [("b", "B"), ("scumble row", "o")])
def test_names_that_grouping_cannot_tell_apart_are_refused(names) -> None:
    basket, order = names
    rows = pa.table({basket: [1, 1], order: [2, 1], "item": ["a", "b"]})
    with pytest.raises(sc.SourceError, match="names differ in case only"):
        sc.publish(
            sc.Table(rows, basket=basket, order=order),
            SCHEMA,
            sc.Histogram(["first(item)"], epsilon=1, neighbours="add_remove"),
        )


def test_lists_inside_of_lists_are_outside_however_deep() -> None:
    loop: list[object] = []
    loop.append(loop)
    domain = SCHEMA.select(["item"])
    mechanism = sc.Histogram(["contains(item, 'a')"], epsilon=1, neighbours="add_remove")
    for value in (loop, [["a"]], np.array("a"), np.array([["a"]])):
        cells = np.empty(1, object)
        cells[0] = value
        with pytest.raises(sc.DomainError, match="outside the domain"):
            sc.publish(pd.DataFrame({"item": pd.Series(cells)}), domain, mechanism)


def test_who_has_any_item_is_said_not_to_be_hidden() -> None:
    """A person without items has no row here. Where one person stands in for another, the number of
    baskets is public and tells of them; where people are added and removed it is hidden.
    """
    lists = pa.table({"item": ["b a c", "a"], "shop": ["x", "y"]})

    def limits(source, neighbours: str, **options) -> str:
        given = {"length": 3, "epsilon": 1, "neighbours": neighbours}
        release = publish(source, SCHEMA, sc.Sequences("item", **given), **options)
        return " ".join(release.guarantees[0].limits)

    said = "whether somebody has any item is not hidden"
    assert said in limits(table(ROWS), "replace", basket="basket")
    assert said not in limits(table(ROWS), "add_remove", basket="basket")
    assert said not in limits(lists, "replace")
    counts = sc.Histogram(["shop"], epsilon=1, neighbours="replace")
    for sample in (None, 0.5):
        rows = sc.publish(
            sc.Table(table(ROWS), basket="basket"),
            SCHEMA,
            counts,
            options=sc.PublishOptions(sample=sample),
        )
        assert said in " ".join(rows.guarantees[0].limits)
