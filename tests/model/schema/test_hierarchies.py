"""Hierarchies of values: how they are declared, resolved, refused, saved and read from files."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.errors import QueryError, SchemaError
from scumble.model.schema.hierarchies import read_rule
from scumble.model.schema.hierarchy_files import proposed_hierarchy
from scumble.model.schema.schema import Schema

WORK = """
[attributes.work]
role = "quasi"
type = "category"
values = ["federal", "state", "private", "none"]
missing = true
hierarchy = {government = ["federal", "state"], other = ["private", "none"]}
"""


def attribute(domain: object, hierarchy: object, **more: object) -> sc.Attribute:
    return sc.Attribute("x", "quasi", domain, hierarchy=read_rule(hierarchy), **more)  # type: ignore[arg-type]


def test_labelled_groups_with_a_missing_value() -> None:
    work = Schema.loads(WORK)["work"]
    assert work.levels.labels == (
        ("federal", "state", "private", "none", ""),
        ("government", "other", ""),
        ("*",),
    )
    assert work.levels.groups[1].tolist() == [0, 0, 1, 1, 2]
    assert work.levels.nested() == [[0, 1], [2, 3], [4]]


def test_lists_without_labels_and_values_at_several_heights() -> None:
    found = attribute(sc.Category(["a", "b", "c", "d"]), [[["a", "b"], "c"], "d"]).levels
    assert found.labels == (
        ("a", "b", "c", "d"),
        ("{a, b}", "c", "d"),
        ("{a, b, c}", "d"),
        ("*",),
    )


def test_intervals_of_integers_and_of_bins() -> None:
    ages = attribute(sc.IntegerRange(17, 40), {"intervals": [5, 10], "from": 0}).levels
    assert ages.labels[1] == ("17-19", "20-24", "25-29", "30-34", "35-39", "40-40")
    assert ages.labels[2] == ("17-19", "20-29", "30-39", "40-40")
    weights = attribute(sc.Bins([0, 40, 60, 80, 400]), {"intervals": [[0, 60]]}).levels
    assert weights.labels[1] == ("[0, 60)", "[60, 400]")


def test_prefixes_and_periods() -> None:
    zips = attribute(sc.Category(["8101", "8102", "9000"]), {"prefixes": [3, 1]}).levels
    assert zips.labels[1:] == (("810*", "900*"), ("8***", "9***"), ("*",))
    days = sc.Dates(date(2023, 12, 30), date(2024, 4, 2))
    found = attribute(days, {"periods": ["month", "quarter", "year"]}).levels
    assert found.labels[2] == ("2023-Q4", "2024-Q1", "2024-Q2")
    assert len(found.labels[1]) == 5
    assert found.labels[3] == ("2023", "2024")


def test_a_hierarchy_that_does_not_fit_is_refused(subtests: pytest.Subtests) -> None:
    for domain, given, words in [
        (sc.Category(["a", "b"]), [["a"], ["c"]], "has 'c', which is not a value"),
        (sc.Category(["a", "b"]), [["a"]], "lacks 'b'"),
        (sc.Category(["a", "b"]), [["a", "b"], ["a"]], "has 'a' twice"),
        (sc.Category(["a", "b"]), {"intervals": [2]}, "integers and binned numbers"),
        (sc.Category(["a", "b"]), {"periods": ["year"]}, "hierarchy of dates"),
        (sc.IntegerRange(0, 9), {"prefixes": [1]}, "category of texts"),
        (sc.IntegerRange(0, 9), {"intervals": [4, 6]}, "not nested: the interval 6 cuts"),
        (sc.Bins([0, 10, 20]), {"intervals": [15]}, "cuts a bin"),
        (sc.Dates(date(2020, 1, 1), date(2021, 1, 1), "year"), {"periods": ["month"]}, "longer"),
    ]:
        with subtests.test(given=given, words=words):
            with pytest.raises(SchemaError, match=words) as caught:
                attribute(domain, given)
            assert str(caught.value).startswith("Attribute 'x': ")


def test_a_rule_that_is_none_is_refused(subtests: pytest.Subtests) -> None:
    for given, words in [
        (3, "must be nested lists"),
        ([], "must be nested lists"),
        ([[]], "empty"),
        ({"intervals": [0]}, "widths above 0"),
        ({"intervals": 5}, "must be a list"),
        ({"intervals": [5], "to": 3}, "no key 'to'"),
        ({"prefixes": [1, 2]}, "that fall"),
        ({"periods": ["year", "month"]}, "in this order"),
        ([[None]], "text or a number"),
    ]:
        with subtests.test(given=given, words=words), pytest.raises(SchemaError, match=words):
            read_rule(given)


def test_every_rule_is_saved_and_read_back() -> None:
    ages = [attribute(sc.IntegerRange(0, 9), rule) for rule in ({"intervals": [2, 4], "from": 0},)]
    texts = sc.Category(["aa", "ab", "b c"])
    rules = (
        {"x y": ["aa", "ab"], "b": ["b c"]},
        [["aa", "ab"], "b c"],
        [{"one": ["aa"]}, "ab", "b c"],
        {"prefixes": [1]},
        {
            "a long label of a group that does not fit": {"inner": ["aa"], "second": ["ab"]},
            "z": ["b c"],
        },
    )
    for each in [*ages, *(attribute(texts, rule) for rule in rules)]:
        schema = Schema((each,))
        assert Schema.loads(schema.dumps()) == schema
        assert Schema.from_dict(schema.to_dict()) == schema
        assert hash(schema["x"].hierarchy) is not None


def test_files_in_the_layout_of_arx(tmp_path: Path) -> None:
    folder = tmp_path
    lines = ["17;17-18;*", "18;17-18;*", "19;19-20;*", "20;19-20;*", "99;99-100;*"]
    (folder / "age.csv").write_text("\n".join(lines), "utf-8")
    text = '[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [17, 20]\n'
    text += 'hierarchy = "age.csv"\n'
    (folder / "s.toml").write_text(text, "utf-8")
    schema = Schema.load(folder / "s.toml")
    levels = schema["age"].levels
    assert levels.labels[1] == ("17-18", "19-20")
    pairs = list(zip(levels.groups, levels.labels, strict=True))
    for code, line in enumerate(lines[:4]):
        assert ";".join(labels[group[code]] for group, labels in pairs) == line
    assert Schema.loads(schema.dumps()) == schema
    with pytest.raises(SchemaError, match="in a schema file only"):
        Schema.loads(text)
    for content, words in [
        ("17;a;*\n18;a\n", "same number of fields"),
        ("17;a;*\n", "lacks 18"),
        ("17;a;x;*\n18;a;y;*\n19;b;y;*\n20;b;y;*\n", "'a' is in two groups"),
        ("17;a;*\n17;b;*\n18;a;*\n19;b;*\n20;b;*\n", "has 17 twice"),
        ("", "one line for each value"),
    ]:
        (folder / "age.csv").write_text(content, "utf-8")
        with pytest.raises(SchemaError, match=words):
            Schema.load(folder / "s.toml")
    (folder / "age.csv").unlink()
    with pytest.raises(SchemaError, match="no hierarchy file"):
        Schema.load(folder / "s.toml")


def test_proposals_fit_their_domains() -> None:
    domains = (
        sc.IntegerRange(17, 90),
        sc.Bins([0, 10, 20, 50, 100, 200]),
        sc.Dates(date(2020, 1, 1), date(2022, 5, 5)),
        sc.Dates(date(2020, 1, 1), date(2022, 5, 5), "month"),
        sc.Category(["01234", "01235", "98765"]),
    )
    heights = []
    for domain in domains:
        plain = sc.Attribute("x", "quasi", domain)
        found = sc.Attribute("x", "quasi", domain, hierarchy=proposed_hierarchy(plain))
        heights.append(found.levels.height)
    assert heights == [4, 3, 3, 3, 5]
    assert proposed_hierarchy(sc.Attribute("x", "quasi", sc.Category(["a", "b"]))) is None
    table = pa.table({"age": np.arange(18, 80) % 60 + 18, "sex": ["a", "b"] * 31})
    schema = Schema.infer(table, hierarchies=True)
    assert schema["age"].hierarchy is not None
    assert schema["sex"].hierarchy is None
    assert Schema.infer(table)["age"].hierarchy is None


def test_an_attribute_without_a_hierarchy_has_default_levels() -> None:
    number = sc.Attribute("x", "quasi", sc.IntegerRange(0, 4)).levels
    assert number.labels[1:] == (("0-1", "2-3", "4"), ("0-3", "4"), ("*",))
    assert sc.Attribute("x", "quasi", sc.Category(["a", "b"])).levels.height == 1


def test_summaries_take_the_hierarchy_of_the_schema() -> None:
    schema = Schema.loads(WORK.replace("missing = true\n", ""))
    nested = {"work": [["federal", "state"], ["private", "none"]]}
    for kind in (sc.Hierarchy, sc.Wavelet):
        more = {"transform": "all"} if kind is sc.Wavelet else {}
        own = kind(["work"], epsilon=1, neighbours="replace", **more)
        given = kind(["work"], epsilon=1, neighbours="replace", taxonomy=nested, **more)
        assert own.design(schema).to_dict() == given.design(schema).to_dict()


def test_level_in_sql_over_every_type() -> None:
    schema = Schema.loads(
        WORK + '[attributes.age]\nrole = "quasi"\ntype = "integer"\nrange = [17, 40]\n'
        "hierarchy = {intervals = [5, 10], from = 0}\n"
        '[attributes.weight]\nrole = "quasi"\ntype = "binned"\nedges = [0, 40, 60, 80]\n'
        "hierarchy = {intervals = [[0, 60]]}\n"
        '[attributes.day]\nrole = "quasi"\ntype = "date"\nrange = [2020-01-01, 2021-06-01]\n'
        'by = "month"\n'
        'hierarchy = {periods = ["quarter", "year"]}\n'
        '[attributes.ill]\nrole = "sensitive"\ntype = "boolean"\n'
    )
    rng = np.random.default_rng(1)
    codes = {a.name: rng.integers(0, a.size, 300) for a in schema}
    table = pa.table({n: schema[n].decode(c.astype(schema[n].code_type)) for n, c in codes.items()})
    release = sc.publish(table, schema, sc.Uniform(epsilon=5), options=sc.PublishOptions(seed=1))
    for name, level in [("work", 1), ("age", 1), ("age", 2), ("weight", 1), ("day", 1), ("day", 2)]:
        found = release.answer(
            f"SELECT level({name}, {level}), COUNT(*) FROM t GROUP BY level({name}, {level})"
        ).to_arrow()
        assert found.column_names[0] == f"level({name}, {level})"
        levels = schema[name].levels
        counts = np.bincount(levels.groups[level][codes[name]], minlength=len(levels.labels[level]))
        expected = {
            label or None: int(n) for label, n in zip(levels.labels[level], counts, strict=True)
        }
        got = dict(zip(found.column(0).to_pylist(), found["value"].to_pylist(), strict=True))
        assert got == {label: n for label, n in expected.items() if n}
    where = "SELECT COUNT(*) FROM t WHERE level(age, 2) = '20-29'"
    expected = int(((codes["age"] >= 3) & (codes["age"] <= 12)).sum())
    assert release.answer(where).value == expected
    assert [each.value for each in release.answer_many([where, where])] == [expected] * 2
    with pytest.raises(QueryError, match="from 0 to 3"):
        release.answer("SELECT COUNT(*) FROM t WHERE level(age, 4) = 'x'")
