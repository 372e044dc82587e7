"""Columns derived from lists: for mechanisms, databases and SQL they are columns of the table."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import scumble as sc
from scumble.private.mechanism_metadata import ComparisonPreset
from scumble.private.tables.rows import Rows

NAMES = ("age", "first(pages)", "contains(pages, 'b')")
PAGES = sc.Schema.loads("""
[attributes.pages]
role = "sensitive"
type = "sequence"
values = ["a", "b", "c"]
longest = 3
[attributes.age]
role = "quasi"
type = "integer"
range = [0, 9]
[attributes."first(pages)"]
role = "sensitive"
[attributes."contains(pages, 'b')"]
role = "sensitive"
""")
PLAIN = PAGES.select(NAMES)  # the same columns without the list that they derive from


def tables(rows: int = 300) -> tuple[pa.Table, pa.Table]:
    """Return a table with lists, and the same table with the derived columns in their place."""
    rng = np.random.default_rng(2)
    pages = [list(rng.choice(list("abc"), length)) for length in rng.integers(1, 5, rows)]
    ages = rng.integers(0, 10, rows)
    derived = {"first(pages)": [each[0] for each in pages]}
    derived["contains(pages, 'b')"] = ["b" in each for each in pages]
    return pa.table({"pages": pages, "age": ages}), pa.table({"age": ages, **derived})


def made(name: str) -> sc.Mechanism:
    """Return a mechanism for the columns, or for those of them that it takes."""
    if name == "dawa":
        return sc.Dawa("first(pages)", epsilon=1, neighbours="replace")
    if name == "fourier":
        return sc.Fourier(["contains(pages, 'b')"], epsilon=1, neighbours="replace", ways=1)
    if name == "frapp":
        return sc.Frapp(gamma=19)
    if name == "alphabeta":
        return sc.AlphaBeta(epsilon=1, duplicates="collapse")
    groups = ", ".join(f'"{each}"' for each in NAMES)
    question = f"SELECT {groups}, COUNT(*) FROM t GROUP BY {groups}"
    study = ComparisonPreset(PLAIN, NAMES, "replace", 2, (question,), lambda: 0.4)
    return sc.mechanisms()[name].made_for(1, study)


ASKED = {
    "dawa": "SELECT first(pages), COUNT(*) FROM t GROUP BY first(pages)",
    "fourier": "SELECT COUNT(*) FROM t WHERE contains(pages, 'b')",
    "": "SELECT first(pages), COUNT(*) FROM t WHERE contains(pages, 'b') GROUP BY first(pages)",
}


def test_a_derived_column_is_published_like_a_column_of_the_table(
    subtests: pytest.Subtests,
) -> None:
    for name in sorted(
        n
        for n, kind in sc.mechanisms().items()
        if not kind.of_lists and n not in ("keys", "quantiles")  # neither is a number
    ):
        with subtests.test(name=name):
            lists, plain = tables()
            derived = sc.publish(lists, PAGES, made(name), options=sc.PublishOptions(seed=1))
            column = sc.publish(plain, PLAIN, made(name), options=sc.PublishOptions(seed=1))
            asked = ASKED.get(name, ASKED[""])
            quoted = asked.replace("first(pages)", '"first(pages)"')
            quoted = quoted.replace("contains(pages, 'b')", "\"contains(pages, 'b')\"")
            assert repr(derived.answer(asked)) == repr(column.answer(quoted))
            shown = derived.manifest.schema.names
            assert all(
                derived.schema[name] == column.schema[name] for name in shown if name != "pages"
            )


def test_keys_refuses_them_in_a_sentence() -> None:
    """It reads the columns of the table as they are."""
    lists, _ = tables()
    with pytest.raises(sc.SchemaError, match="derived from a list"):
        sc.publish(lists, PAGES, made("keys"), options=sc.PublishOptions(seed=1))


def test_a_database_is_asked_about_them(tmp_path) -> None:
    lists, plain = tables()
    options = {"epsilon": 1, "noise": 10, "attributes": ["age", "first(pages)"], "seed": 3}
    asked = "SELECT COUNT(*) FROM t WHERE first(pages) = 'a' AND age < 5"
    with sc.Database.create(tmp_path / "one", lists, PAGES, **options) as one:
        found = [repr(one.answer(asked)), repr(one.answer(asked.replace("'a'", "'b'")))]
    with sc.Database.create(tmp_path / "two", plain, PLAIN, **options) as two:
        expected = [repr(two.answer(asked)), repr(two.answer(asked.replace("'a'", "'b'")))]
    assert found == expected
    with sc.Database.open(tmp_path / "one", lists, seed=3) as again:
        assert repr(again.answer(asked)).split("\n")[0] == found[0].split("\n")[0]


def test_sql_names_them_by_their_calls() -> None:
    lists, _ = tables()
    release = sc.publish(lists, PAGES, sc.Uniform(keep=0.9), options=sc.PublishOptions(seed=1))
    base = release.answer("SELECT COUNT(*) FROM t WHERE first(pages) = 'a'").value
    for other in ("FIRST ( Pages ) = 'a'", "\"first(pages)\" = 'a'", "first(\"pages\") IN ('a')"):
        assert release.answer(f"SELECT COUNT(*) FROM t WHERE {other}").value == base
    with pytest.raises(sc.QueryError, match=r"last\(pages\) was not published"):
        release.answer("SELECT COUNT(*) FROM t WHERE last(pages) = 'a'")
    assert "'pages' is left out" in release.remarks[0]


def test_values_outside_of_lists() -> None:
    table = pa.table({"pages": ["a b", "x a", "b"], "age": [1, 2, 3]})
    with pytest.raises(sc.DomainError, match="row 2: the value has members outside") as refused:
        list(Rows(table, PAGES).batches(["first(pages)"]))
    assert "x" not in str(refused.value).split("row 2")[1].split("outside")[0].split()
    dropped = Rows(table, PAGES, outside="drop")
    assert [codes.tolist() for codes in next(dropped.batches(["first(pages)"]))] == [[0, 1]]
    blanked = Rows(table, PAGES, outside="missing")
    assert [codes.tolist() for codes in next(blanked.batches(["first(pages)"]))] == [[0, 0, 1]]
    [lists] = blanked.lists("pages")
    assert lists.offsets.tolist() == [0, 2, 3, 4]
    assert "Values of 'pages'" in blanked.remarks()[0]


def test_lists_of_data_frames() -> None:
    expected = [[0, 1], [], [2]]
    values = {"lists": [["a", "b"], [], ["c"]], "tuples": [("a", "b"), None, ("c",)]}
    values["arrays"] = [np.array(["a", "b"]), np.array([]), np.array(["c"])]
    for pages in values.values():
        frame = pd.DataFrame({"pages": pages, "age": [1, 2, 3]})
        [lists] = Rows(frame, PAGES).lists("pages")
        bounds = zip(lists.offsets, lists.offsets[1:], strict=False)
        assert [lists.codes[begin:end].tolist() for begin, end in bounds] == expected


def test_a_list_alone_is_refused_with_the_columns_to_declare(subtests: pytest.Subtests) -> None:
    for kind, (mechanism, role) in product(
        ["set", "sequence"],
        [
            (sc.Uniform(epsilon=1), "sensitive"),
            (sc.Anatomy(l=2), "sensitive"),
            (sc.Generalise(k=2), "quasi"),
            (sc.Frapp(gamma=19), "sensitive"),
            (sc.AlphaBeta(epsilon=1), "sensitive"),
        ],
    ):
        with subtests.test(kind=kind, mechanism=mechanism, role=role):
            lists = sc.Schema.loads(
                f'[attributes.items]\nrole = "sensitive"\ntype = "{kind}"\nvalues = ["a", "b"]'
            )
            with pytest.raises(sc.SchemaError) as caught:
                sc.publish(
                    pa.table({"items": ["a b"] * 9}),
                    lists,
                    mechanism,
                    options=sc.PublishOptions(seed=1),
                )
            message = str(caught.value)
            assert f"items, a {kind}, is never published itself" in message
            assert ("first(items)" in message) == (kind == "sequence")
            assert f'contains(items, VALUE), in the schema with role = "{role}"' in message
