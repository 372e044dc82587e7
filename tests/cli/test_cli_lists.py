"""The commands top, rules, next and closed."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from tests.support.terminal import run

SCHEMA = """
unit = "row"
[attributes.who]
role = "identifier"
[attributes.items]
role = "sensitive"
type = "set"
values = ["a", "b", "c"]
[attributes.pages]
role = "sensitive"
type = "sequence"
values = ["a", "b", "c"]
[attributes.query]
role = "sensitive"
type = "category"
open = true
"""
TABLE = pa.table(
    {
        "who": [str(row) for row in range(300)],
        "items": [["a b", "a b c", "a"][row % 3] for row in range(300)],
        "pages": [["a b", "a b a b", "c"][row % 3] for row in range(300)],
        "query": ["rain"] * 299 + ["my name"],
    }
)
GIVEN = {"epsilon": 20, "neighbours": "add_remove"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("lists")
    schema = sc.Schema.loads(SCHEMA)
    mechanisms = {
        "baskets": sc.Baskets("items", top=5, **GIVEN),
        "pages": sc.Sequences("pages", length=5, **GIVEN),
        "keys": sc.Keys("query", keys=1, person="who", delta=1e-6, **GIVEN),
    }
    for name, mechanism in mechanisms.items():
        sc.publish(TABLE, schema, mechanism, options=sc.PublishOptions(seed=1)).save(
            found / name, insecure=True
        )
    (found / "schema.toml").write_text(SCHEMA)
    return found


@pytest.mark.parametrize(
    ("method", "column", "more"),
    [("baskets", "items", ("--top", "3")), ("histogram", "who", ()), ("uniform", "who", ())],
)
def test_one_column_is_named_alike_for_all_methods(tmp_path, method, column, more) -> None:
    """-a is one column or several; a method that counts by none has no such option."""
    schema = SCHEMA.replace(
        'role = "identifier"', 'role = "quasi"\ntype = "integer"\nrange = [0, 299]'
    )
    (tmp_path / "schema.toml").write_text(schema)
    pq.write_table(TABLE, tmp_path / "visits.parquet")
    words = [tmp_path / "visits.parquet", "-s", tmp_path / "schema.toml", "-e", "1"]
    if method != "uniform":
        words += ["--neighbours", "replace"]
    long = "--attribute" if method == "baskets" else "--attributes"
    for flag in ("-a", long):
        found = tmp_path / flag
        done = run("publish", method, *words, *more, flag, column, "-o", found)
        if method == "uniform":
            assert (done.code, found.exists()) == (2, False)
            assert "No such option" in done.err
        else:
            assert done.code == 0, done.err
            assert column in sc.open(found).evidence.columns[0]
    if method == "baskets":
        done = run("publish", method, *words, *more, "-a", "items,pages", "-o", tmp_path / "two")
        assert (done.code, "no attribute 'items,pages'" in done.err) == (3, True)
        assert not (tmp_path / "two").exists()


def test_top(folder) -> None:
    [first, *rest] = json.loads(
        run("release", "top", str(folder / "baskets"), "-n", "3", "--json").out
    )
    assert first["items"] == ["a"]
    assert first["low"] < 300 < first["high"]
    assert len(rest) == 2
    assert len(run("release", "top", str(folder / "baskets"), "-n", "3", "--json").json) == 3
    shown = run("release", "top", str(folder / "baskets"), "--length", "3", "-n", "1")
    assert "['a', 'b', 'c']" in shown.out
    assert "picked by their noisy values" not in shown.err  # there is one set of three
    some = run("release", "top", str(folder / "baskets"), "-n", "1")
    assert "groups are shown. They were picked by their noisy values" in some.err
    assert run("release", "top", str(folder / "baskets"), "-n", "0").code == 2


def test_rules(folder) -> None:
    found = run(
        "release", "rules", str(folder / "baskets"), "--support", "50", "--confidence", "0.9"
    )
    assert found.code == 0
    assert "['c']" in found.out
    assert (
        run("release", "rules", str(folder / "pages"), "--support", "1", "--confidence", "0.5").code
        == 2
    )


def test_next(folder) -> None:
    found = json.loads(run("release", "next", str(folder / "pages"), "a", "--json").out)
    assert found["next"][0]["next"] == "b"
    assert "(end)" in run("release", "next", str(folder / "pages"), "b").out
    refused = run("release", "next", str(folder / "pages"), "zebra").err
    assert refused == "Error: VALUES must be values of 'pages' (a, b, c). Got 'zebra' instead.\n"
    assert run("release", "next", str(folder / "baskets")).code == 2


def test_closed(folder, tmp_path) -> None:
    output = tmp_path / "closed.toml"
    given = ("schema", "close", str(folder / "keys"), str(folder / "schema.toml"))
    assert run(*given, "-o", str(output)).code == 0
    closed = sc.Schema.load(output)["query"].domain
    assert closed == sc.Category(("rain", "other"), other="other")
    assert run(*given, "-o", str(output)).code != 0  # it exists
    assert '"rain"' in run(*given, "--json").out


def test_two_levels_of_keys(folder, tmp_path) -> None:
    log, urls = tmp_path / "log.parquet", ["a.org"] * 298 + ["b.org", "mine.org"]
    pq.write_table(TABLE.append_column("url", pa.array(urls)), log)
    schema = tmp_path / "log.toml"
    schema.write_text(SCHEMA + SCHEMA[SCHEMA.index("[attributes.query]") :].replace("query", "url"))
    given = ("--attributes", "url", "--within-column", "query", "--keys", "1")
    promise = ("--epsilon", "40", "--delta", "1e-6", "--neighbours", "add_remove")
    output = str(tmp_path / "release")
    table = (str(log), "--schema", str(schema))
    done = run("publish", "keys", *table, *given, "--person", "who", *promise, "-o", output)
    assert done.code == 0, done.err
    [found] = json.loads(run("release", "top", output, "--length", "2", "--json").out)
    assert (found["query"], found["url"]) == ("rain", "a.org")
    assert found["alias"] == "people who kept it"
    assert found["low"] <= 298 <= found["high"]
    [asked] = json.loads(
        run("ask", output, "SELECT query, url, COUNT(*) FROM t GROUP BY ALL", "--json").out
    )
    assert asked["value"] is None
    assert asked["reason"] == "only bounds"
    assert asked["low"] <= 298
    assert asked["high"] is None  # others may have kept another key
