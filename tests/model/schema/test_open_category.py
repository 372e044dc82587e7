"""Open categories: their TOML, how values are read, and who refuses them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.schema.open_category import OpenCategory

TEXT = """
unit = "row"
[attributes.who]
role = "identifier"
[attributes.query]
role = "sensitive"
type = "category"
open = true
[attributes.age]
role = "sensitive"
type = "integer"
range = [0, 9]
"""


def test_toml_and_json_round_trip():
    schema = sc.Schema.loads(TEXT)
    assert schema["query"].open
    assert not schema["age"].open
    assert schema["query"].describe() == "open category"
    assert schema["query"].arrow_type == pa.string()
    assert sc.Schema.loads(schema.dumps()) == schema
    assert sc.Schema.from_dict(schema.to_dict()) == schema
    assert [each.name for each in schema.open] == ["query"]
    assert [each.name for each in schema.published] == ["age"]
    assert schema.lists == ()


@pytest.mark.parametrize("more", ['values = ["a"]', "ordered = true", 'other = "a"'])
def test_open_or_listed(more):
    with pytest.raises(sc.SchemaError, match=r"'query': give either 'open' or"):
        sc.Schema.loads(TEXT.replace("open = true", f"open = true\n{more}"))


def test_open_is_a_truth_value_and_lists_no_values():
    with pytest.raises(sc.SchemaError, match="must be true or false"):
        sc.Schema.loads(TEXT.replace("open = true", 'open = "yes"'))
    with pytest.raises(sc.SchemaError, match="lists no values"):
        sc.Schema.loads(TEXT.replace("open = true", "open = true\nfrom_data = true"))
    closed = sc.Schema.loads(TEXT.replace("open = true", 'open = false\nvalues = ["a", "b"]'))
    assert not closed["query"].open


def test_values_are_read_one_by_one():
    values = [" a", "a", None, "", "n/a", "b\x1b[2J", "\u202eb", "1"]
    found, wrong = OpenCategory().read(pa.array(values), ("n/a",))
    assert found.to_pylist() == ["a", "a", None, None, None, None, None, "1"]
    assert wrong.tolist() == [False] * 5 + [True, True, False]
    for value, text, bad in zip(values, found.to_pylist(), wrong, strict=True):
        alone, mask = OpenCategory().read(pa.array([value], pa.string()), ("n/a",))
        assert (alone.to_pylist(), mask.tolist()) == ([text], [bad])
    numbers, _ = OpenCategory().read(pa.array([1.0, 2.5, None]))
    assert numbers.to_pylist() == ["1", "2.5", None]
    raw, wrong = OpenCategory().read(pa.array([b"ok", b"\xff", None]))
    assert raw.to_pylist() == ["ok", None, None]
    assert wrong.tolist() == [False, True, False]
    assert OpenCategory().read(pa.array([], pa.string()))[0].to_pylist() == []


ROWS = pa.table({"who": ["a", "b"], "query": ["x", "y"], "age": [1, 2]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: sc.Histogram(["query"], epsilon=1, neighbours="replace"),
        lambda: sc.Sparse(["age", "query"], epsilon=1, neighbours="add_remove"),
        lambda: sc.Marginals(["age", "query"], ways=1, epsilon=1, neighbours="replace"),
        lambda: sc.PrivTree(["query"], epsilon=1, neighbours="replace"),
    ],
)
def test_other_mechanisms_name_keys(make):
    with pytest.raises(sc.SchemaError, match="only Keys names them"):
        sc.publish(ROWS, sc.Schema.loads(TEXT), make(), options=sc.PublishOptions(seed=1))


def test_publishers_leave_it_out_and_say_so():
    release = sc.publish(
        ROWS, sc.Schema.loads(TEXT), sc.Uniform(epsilon=1), options=sc.PublishOptions(seed=1)
    )
    assert "query" not in release.schema.names
    assert any("only Keys publishes" in remark for remark in release.remarks)


def test_infer_says_how():
    many = pa.table({"query": [f"word number {i % 1500} and more" for i in range(9000)]})
    schema = sc.Schema.infer(many, limit=1000)
    assert "open = true" in schema["query"].note
