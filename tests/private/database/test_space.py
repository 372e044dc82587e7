"""Spaces, and boxes as SQL that is read back as the same boxes."""

from datetime import date

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.errors import ParameterError
from scumble.private.database.questions.conditions import boxes_of
from scumble.private.database.space import Space
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse
from tests.support.drawn import attributes

SCHEMA = sc.Schema(
    [
        sc.Attribute("age", "quasi", sc.IntegerRange(17, 90), missing=True),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m", "o'k"))),
        sc.Attribute("pay", "quasi", sc.Bins((0, 10, 20.5, 40)), missing=True),
        sc.Attribute("date", "quasi", sc.Dates(date(2001, 1, 1), date(2001, 12, 31))),
        sc.Attribute("born", "quasi", sc.Dates(date(2000, 1, 15), date(2004, 2, 1), "month")),
        sc.Attribute("rich-est", "quasi", sc.Boolean()),
    ]
)


WRITTEN = [
    ("age", (3, 22), "age BETWEEN 20 AND 39"),
    ("age", (0, 0), "age = 17"),
    ("age", (74, 74), "age IS NULL"),
    ("age", (0, 73), "age IS NOT NULL"),
    ("age", (73, 74), "(age = 90 OR age IS NULL)"),
    ("sex", (1, 1), "sex = 'm'"),
    ("sex", (1, 2), "sex IN ('m', 'o''k')"),
    ("pay", (0, 1), "pay < 20.5"),
    ("pay", (1, 1), "pay >= 10 AND pay < 20.5"),
    ("pay", (1, 2), "pay >= 10"),
    ("pay", (1, 3), "(pay >= 10 OR pay IS NULL)"),
    ("date", (0, 58), "\"date\" BETWEEN DATE '2001-01-01' AND DATE '2001-02-28'"),
    ("date", (0, 0), "\"date\" = DATE '2001-01-01'"),
    ("born", (1, 1), "born BETWEEN DATE '2000-02-01' AND DATE '2000-02-29'"),
    ("rich-est", (1, 1), '"rich-est" = TRUE'),
]


def test_an_interval_is_written_for_people(subtests):
    for name, interval, sql in WRITTEN:
        with subtests.test(sql=sql):
            space = Space(SCHEMA, SCHEMA.names)
            box = space.whole.copy()
            box[SCHEMA.names.index(name)] = interval
            assert space.sql(box) == sql
            query = parse(f"SELECT COUNT(*) FROM t WHERE {sql}", SCHEMA)
            assert boxes_of(query.clauses, space, Sandbox(SCHEMA)).tolist() == [box.tolist()]


def test_the_whole_space_and_several_attributes():
    space = Space(SCHEMA, ["sex", "age"])
    assert space.names == ("sex", "age")
    assert space.sizes == (3, 75)
    assert space.points == 225
    assert space.sql(space.whole) == "TRUE"
    assert space.sql(np.array([[0, 0], [3, 22]])) == "sex = 'f' AND age BETWEEN 20 AND 39"


@given(attributes(), st.data())
@settings(max_examples=40)
def test_any_interval_of_any_attribute_is_read_back(attribute, data):
    assume(attribute.domain is not None and attribute.size <= 1000)
    schema = sc.Schema([attribute])
    space = Space(schema, schema.names)
    ends = st.integers(0, attribute.size - 1)
    box = np.array([sorted(data.draw(st.tuples(ends, ends)))])
    text = f"SELECT COUNT(*) FROM t WHERE {space.sql(box)}"
    assume("\0" not in text and len(text) < 100_000)
    assert boxes_of(parse(text, schema).clauses, space, Sandbox(schema)).tolist() == [box.tolist()]


def test_a_space_may_be_larger_than_any_number_of_the_machine():
    names = [f"n{place}" for place in range(6)]
    schema = sc.Schema([sc.Attribute(n, "quasi", sc.IntegerRange(0, 10**12 - 1)) for n in names])
    assert Space(schema, names).points == 10**72


def test_what_is_no_space():
    with pytest.raises(ParameterError, match="attributes that differ"):
        Space(SCHEMA, ["age", "age"])
    with pytest.raises(ParameterError, match="'names' parameter of Space"):
        Space(SCHEMA, [])
    huge = sc.Schema([sc.Attribute("n", "quasi", sc.IntegerRange(-(2**62), 2**62))])
    with pytest.raises(ParameterError, match="too many values for boxes; use bins"):
        Space(huge, ["n"])
