"""A schema written as TOML or JSON is the same when read back; mistakes get one clear sentence."""

import json
import re
from datetime import date

import pytest
from hypothesis import given, settings

from scumble.model.errors import OutputExistsError, SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Boolean, Category, Dates, IntegerRange
from scumble.model.schema.schema import Schema
from tests.support.drawn import SCHEMAS

EXAMPLE = """\
format = 1

[attributes.age]
role = "quasi"
type = "integer"
range = [17, 90]

[attributes.occupation]
role = "sensitive"
type = "category"
values = ["Sales", "Craft-repair"]
missing = ["?"]
from_data = true

[attributes.grade]
role = "quasi"
type = "category"
values = [1, 2, 3]
ordered = true
missing = true

[attributes.weight]
role = "quasi"
type = "binned"
edges = [0, 10, 20.5]

[attributes.admitted]
role = "quasi"
type = "date"
range = [2020-01-01, 2024-12-31]
by = "month"

[attributes.smoker]
role = "insensitive"
type = "boolean"

[attributes.name]
role = "identifier"
"""


def test_every_option_is_read():
    schema = Schema.loads(EXAMPLE)
    assert schema.attributes == (
        Attribute("age", "quasi", IntegerRange(17, 90)),
        Attribute(
            "occupation",
            "sensitive",
            Category(("Sales", "Craft-repair")),
            missing=True,
            null_words=("?",),
            from_data=True,
        ),
        Attribute("grade", "quasi", Category((1, 2, 3), ordered=True), missing=True),
        Attribute("weight", "quasi", Bins((0.0, 10.0, 20.5))),
        Attribute("admitted", "quasi", Dates(date(2020, 1, 1), date(2024, 12, 31), "month")),
        Attribute("smoker", "insensitive", Boolean()),
        Attribute("name", "identifier"),
    )


@settings(max_examples=40)
@given(SCHEMAS)
def test_toml_round_trip(schema):
    assert Schema.loads(schema.dumps()) == schema


@settings(max_examples=40)
@given(SCHEMAS)
def test_json_round_trip(schema):
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict(), sort_keys=True))) == schema


def test_odd_names_survive(subtests: pytest.Subtests) -> None:
    for name in ['say "hi"', "a.b", "straße 🏠", "x]", "#", " "]:
        with subtests.test(name=name):
            schema = Schema((Attribute(name, "quasi", Category((name + "!", "b"))),))
            assert Schema.loads(schema.dumps()) == schema


def test_long_lists_are_wrapped_and_notes_are_comments():
    note = "Read from the data: " + "list every value that is possible, " * 6
    values = tuple(f"value number {place}" for place in range(40))
    attribute = Attribute("job", "sensitive", Category(values), from_data=True, note=note)
    text = Schema((attribute,)).dumps()
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "# Read from the data" in text
    assert Schema.loads(text)["job"].domain == Category(values)


def test_a_value_longer_than_a_line_is_not_broken():
    values = ("x" * 300, "y z" * 100)
    schema = Schema((Attribute("a", "quasi", Category(values)),))
    assert Schema.loads(schema.dumps()) == schema


def test_an_attribute_made_an_identifier_by_hand_may_keep_its_lines():
    text = EXAMPLE.replace('role = "insensitive"', 'role = "identifier"')
    assert Schema.loads(text)["smoker"] == Attribute("smoker", "identifier")


def test_file_round_trip_and_force(tmp_path):
    path = tmp_path / "schema.toml"
    schema = Schema.loads(EXAMPLE)
    schema.save(path)
    assert Schema.load(path) == schema
    with pytest.raises(OutputExistsError, match="already exists"):
        schema.save(path)
    schema.select(["age"]).save(path, force=True)
    assert Schema.load(path).names == ("age",)


def test_file_problems(tmp_path):
    with pytest.raises(SchemaError, match="There is no schema file"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match="cannot be written"):
        Schema.loads(EXAMPLE).save(tmp_path / "no folder" / "schema.toml")
    (tmp_path / "latin.toml").write_bytes("[attributes.größe]".encode("latin-1"))
    with pytest.raises(SchemaError, match="not UTF-8"):
        Schema.load(tmp_path / "latin.toml")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path)


def one(body: str) -> str:
    return f"[attributes.x]\n{body}"


MISTAKES = {
    "": "at least one attribute",
    "format = 2": "format 2",
    "[attributes.x\n": "not valid TOML: line 1, column 14",
    "[attributes.x]\nrole = quasi": "line 2, column 8",
    "[atributes.x]": "Unknown key 'atributes'",
    "[attributes]\nx = 3": "in a table [attributes.x]",
    one("type = 'boolean'"): "'x': give its role",
    one("role = 'quasi'"): "'x': give its type",
    one("role = 'quasy'\ntype = 'boolean'"): "Did you mean 'quasi'?",
    one("role = 'quasi'\ntype = 'bool'"): "Did you mean 'boolean'?",
    one("role = 'quasi'\ntype = 3"): "type must be one of",
    one("role = 'quasi'\ntype = 'integer'\nrnge = [1, 2]"): "Did you mean 'range'?",
    one("role = 'quasi'\ntype = 'integer'\nvalues = [1]"): "'values' is not for type integer",
    one("role = 'quasi'\ntype = 'integer'"): "give 'range'",
    one("role = 'quasi'\ntype = 'integer'\nrange = [1]"): "'range' must be two values",
    one("role = 'quasi'\ntype = 'integer'\nrange = [2, 1]"): "must start at its lower end",
    one("role = 'quasi'\ntype = 'integer'\nrange = [1.5, 2]"): "Got 1.5",
    one("role = 'quasi'\ntype = 'integer'\nrange = [true, 2]"): "Got True",
    one("role = 'quasi'\ntype = 'integer'\nrange = [0, 9223372036854775808]"): "64-bit integers",
    one("role = 'quasi'\ntype = 'category'\nvalues = []"): "at least one value",
    one("role = 'quasi'\ntype = 'category'\nvalues = ['a', 'b', 'a']"): "Got 'a' twice.",
    one("role = 'quasi'\ntype = 'category'\nvalues = ['a', 1]"): "all text",
    one("role = 'quasi'\ntype = 'category'\nvalues = [1.5]"): "Got float instead.",
    one("role = 'quasi'\ntype = 'category'\nvalues = ['a', ' ']"): "empty text cannot be a value",
    one("role = 'quasi'\ntype = 'category'\nvalues = ['?']\nmissing = ['?']"): "both a value and",
    one("role = 'quasi'\ntype = 'category'\nvalues = ['a']\nordered = 1"): "must be true or false",
    one("role = 'quasi'\ntype = 'binned'\nedges = [1, 3, 2]"): "Got 3 before 2",
    one("role = 'quasi'\ntype = 'binned'\nedges = [1]"): "at least two edges",
    one("role = 'quasi'\ntype = 'binned'\nedges = [1, inf]"): "Got inf",
    one("role = 'quasi'\ntype = 'binned'\nedges = [1, 'a']"): "Got 'a'",
    one("role = 'quasi'\ntype = 'date'\nrange = [1, 2]"): "two dates like 2024-12-31",
    one("role = 'quasi'\ntype = 'date'\nrange = ['2024-13-01', '2025-01-01']"): "two dates like",
    one("role = 'quasi'\ntype = 'date'\nrange = [2024-02-01, 2024-01-01]"): "its lower end",
    one(
        "role = 'quasi'\ntype = 'date'\nrange = [2024-01-01, 2024-02-01]\nby = 'week'"
    ): "day, month",
    one("role = 'quasi'\ntype = 'boolean'\nmissing = 3"): "must be true, false or a list of words",
    one("role = 'quasi'\ntype = 'boolean'\nfrom_data = 'yes'"): "must be true or false",
    one(
        "role = 'sensitive'\ntype = 'integer'\nrange = [5, 5]"
    ): "at least two values to hide among",
    one("role = 'quasi'\ntype = 'boolean'\n[attributes.X]\nrole = 'identifier'"): "but for case",
}


def test_mistakes_get_one_sentence(subtests: pytest.Subtests) -> None:
    for text in MISTAKES:
        with subtests.test(text=text):
            with pytest.raises(SchemaError, match=re.escape(MISTAKES[text])) as caught:
                Schema.loads(text)
            assert caught.value.__cause__ is None
            assert str(caught.value).endswith((".", "?"))


@pytest.mark.parametrize("document", [{}, {"attributes": 3}, {"attributes": [3]}, {"format": 9}])
def test_bad_json(document):
    with pytest.raises(SchemaError):
        Schema.from_dict(document)
