"""Roles, sizes and checks of a schema."""

import subprocess
import sys

import pytest

from scumble.model.errors import SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Boolean, Category, IntegerRange
from scumble.model.schema.schema import Schema

AGE = Attribute("age", "quasi", IntegerRange(17, 90), from_data=True, note="Read from the data.")
JOB = Attribute("job", "sensitive", Category(("cook", "smith")), missing=True)
SMOKES = Attribute("smokes", "insensitive", Boolean(), from_data=True)
NAME = Attribute("name", "identifier")
SCHEMA = Schema((NAME, AGE, JOB, SMOKES))


def test_roles_keep_the_order():
    assert SCHEMA.names == ("name", "age", "job", "smokes")
    assert SCHEMA.published == (AGE, JOB, SMOKES)
    assert SCHEMA.role("quasi", "identifier") == (NAME, AGE)
    assert (SCHEMA.identifiers, SCHEMA.quasi) == ((NAME,), (AGE,))
    assert (SCHEMA.sensitive, SCHEMA.insensitive) == ((JOB,), (SMOKES,))
    assert list(SCHEMA) == [NAME, AGE, JOB, SMOKES]
    assert len(SCHEMA) == 4


def test_lookup_lists_the_real_columns():
    assert SCHEMA["age"] is AGE
    assert "age" in SCHEMA
    assert "Age" not in SCHEMA
    with pytest.raises(SchemaError, match=r"no attribute 'Age'\. It has 'name', 'age', 'job'"):
        SCHEMA["Age"]


def test_sizes_are_exact_beyond_words():
    wide = Schema(tuple(Attribute(f"a{k}", "quasi", IntegerRange(0, 2**40)) for k in range(5)))
    assert SCHEMA.size() == 74 * 3 * 2
    assert SCHEMA.size(["job"]) == 3
    assert SCHEMA.size([]) == 1
    assert wide.size() == (2**40 + 1) ** 5
    assert wide.cell_keys(wide.names).words == 5
    assert SCHEMA.cell_keys(["age", "job"]).sizes == (74, 3)


def test_changes_make_new_schemas():
    assert SCHEMA.select(["job", "age"]).names == ("job", "age")
    older = Attribute("age", "quasi", IntegerRange(0, 120))
    assert SCHEMA.replace(older)["age"] == older
    changed = SCHEMA.with_roles(sensitive="age", identifier=["smokes"], quasi=["job"])
    assert [attribute.role for attribute in changed] == [
        "identifier",
        "sensitive",
        "quasi",
        "identifier",
    ]
    assert changed["smokes"].domain is None
    assert SCHEMA["age"] is AGE


def test_roles_that_cannot_be():
    with pytest.raises(SchemaError, match="needs a domain; give its type"):
        SCHEMA.with_roles(quasi=["name"])
    with pytest.raises(SchemaError, match="A role must be one of"):
        SCHEMA.with_roles(secret=["age"])
    with pytest.raises(SchemaError, match="no attribute 'agee'"):
        SCHEMA.with_roles(quasi=["agee"])


def test_declaring_public_clears_the_marks():
    assert SCHEMA.from_data == ("age", "smokes")
    assert SCHEMA.checks() == [
        "'age' (integer 17 to 90): Read from the data.",
        (
            "'smokes' (boolean): read from the data; list what is possible, "
            "then delete the from_data line."
        ),
    ]
    assert SCHEMA.declare_public("age").from_data == ("smokes",)
    assert SCHEMA.declare_public().checks() == []
    with pytest.raises(SchemaError, match="no attribute 'agee'"):
        SCHEMA.declare_public("agee")


def test_repr_shows_every_attribute():
    assert "'age': quasi, integer 17 to 90" in repr(SCHEMA)


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ((), "at least one attribute"),
        ((AGE, AGE), "Got 'age' and 'age': the same"),
        ((AGE, Attribute("AGE", "identifier")), "the same but for case"),
    ],
)
def test_schemas_that_cannot_be(attributes, sentence):
    with pytest.raises(SchemaError, match=sentence):
        Schema(attributes)


def test_the_schema_does_not_load_the_private_side():
    code = (
        "import sys, scumble.model.schema.schema; "
        "print([m for m in sys.modules if m in ('duckdb', 'pandas') "
        "or m.startswith('scumble.private')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
