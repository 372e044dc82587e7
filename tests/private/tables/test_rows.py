"""Rows as codes: values outside their domain, progress, and limits on rows of a person."""

import numpy as np
import pyarrow as pa
import pytest

from scumble.model.errors import DomainError, ParameterError, SchemaError, SourceError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import BATCH_ROWS

AGE = Attribute("age", "quasi", IntegerRange(0, 99), missing=True)
SEX = Attribute("sex", "quasi", Category(("f", "m")))
JOB = Attribute("job", "sensitive", Category(("cook", "smith")), missing=True)
PERSON = Attribute("person", "identifier")
SCHEMA = Schema((PERSON, AGE, SEX, JOB))
TABLE = pa.table(
    {
        "person": ["a", "b", "a", "c", "a"],
        "age": [30, 200, None, 41, -1],
        "sex": ["f", "m", "m", "f", "m"],
        "job": ["cook", "smith", "pirate", None, "sailor"],
    }
)


def columns(rows: Rows, names: list[str]) -> list[list[int]]:
    batches = list(rows.batches(names))
    return [np.concatenate([batch[k] for batch in batches]).tolist() for k in range(len(names))]


def test_error_names_column_row_and_domain():
    with pytest.raises(DomainError) as caught:
        columns(Rows(TABLE, SCHEMA), ["job", "age"])
    assert str(caught.value) == (
        "Column 'age', row 2: the value is outside the domain (integer 0 to 99, or missing). "
        "Change the schema, or choose outside='drop' to leave such rows out, or outside='missing' "
        "to blank such values."
    )
    assert (caught.value.column, caught.value.row) == ("age", 2)


def test_the_value_itself_only_on_request():
    with pytest.raises(DomainError, match="row 3: the value 'pirate' is outside the domain"):
        columns(Rows(TABLE, SCHEMA, reveal=True), ["job"])


def test_a_missing_value_that_does_not_belong_is_not_told_from_others():
    table = TABLE.set_column(2, "sex", pa.array(["f", None, "f", "m", "m"]))
    with pytest.raises(DomainError, match="2 values; a missing value does not belong to it"):
        columns(Rows(table, SCHEMA), ["sex"])


def test_row_numbers_count_over_batches():
    ages = np.zeros(BATCH_ROWS * 2 + 10, np.int64)
    ages[BATCH_ROWS + 3] = 1000
    table = pa.table({"age": ages, "sex": ["f"] * len(ages), "job": ["cook"] * len(ages)})
    with pytest.raises(DomainError, match=f"row {BATCH_ROWS + 4}:"):
        columns(Rows(table, SCHEMA), ["age"])


def test_drop_leaves_whole_rows_out():
    rows = Rows(TABLE, SCHEMA, outside="drop")
    assert columns(rows, ["age", "sex", "job"]) == [[30, 41], [0, 0], [0, 2]]
    assert rows.outside_columns == {"age", "job"}
    assert rows.outside_counts == {}


def test_missing_blanks_single_values():
    rows = Rows(TABLE, SCHEMA, outside="missing", reveal=True)
    assert columns(rows, ["age", "job"]) == [[30, 100, 100, 41, 100], [0, 1, 2, 2, 2]]
    assert rows.outside_columns == {"age", "job"}
    assert rows.outside_counts == {"age": 2, "job": 2}


def test_only_a_column_that_may_be_missing_is_blanked():
    """With outside="missing", only a column with values outside needs a missing value."""
    rows = Rows(TABLE, SCHEMA, outside="missing")
    assert columns(rows, ["age", "sex"])[1] == [0, 1, 1, 0, 1]
    strange = TABLE.set_column(TABLE.column_names.index("sex"), "sex", pa.array(["x"] * 5))
    with pytest.raises(DomainError, match="'sex', row 1"):
        columns(Rows(strange, SCHEMA, outside="missing"), ["age", "sex"])


def test_each_pass_reports_for_itself():
    rows = Rows(TABLE, SCHEMA, outside="drop")
    columns(rows, ["age"])
    assert rows.outside_columns == {"age"}
    columns(rows, ["sex"])
    assert rows.outside_columns == set()


def test_progress_counts_rows_of_the_source():
    seen: list[int] = []
    table = pa.table({"age": np.zeros(BATCH_ROWS + 7, np.int8)})
    schema = Schema((AGE,))
    columns(Rows(table, schema, progress=seen.append), ["age"])
    assert seen == [BATCH_ROWS, BATCH_ROWS + 7]


def test_codes_come_in_the_type_of_their_attribute():
    batch = next(Rows(TABLE, SCHEMA, outside="drop").batches(["age", "sex"]))
    assert [codes.dtype for codes in batch] == [AGE.code_type, SEX.code_type]


def test_refusals():
    with pytest.raises(ParameterError, match="'outside' parameter of publish"):
        Rows(TABLE, SCHEMA, outside="ignore")
    with pytest.raises(
        SourceError, match=r"no column 'age', 'job'\. It has 2 columns, among them 'sex'\."
    ):
        Rows(TABLE.select(["person", "sex"]), SCHEMA)
    with pytest.raises(SourceError, match=r"no column 'age', 'job'\. It has 2 columns: 'person', "):
        Rows(TABLE.select(["person", "sex"]), SCHEMA, reveal=True)
    with pytest.raises(SchemaError, match="identifier: it has no codes"):
        Rows(TABLE, SCHEMA).batches(["person"])
    with pytest.raises(SchemaError, match="no attribute 'agee'"):
        Rows(TABLE, SCHEMA).batches(["agee"])


def test_an_identifier_need_not_be_there():
    rows = Rows(TABLE.drop_columns("person"), SCHEMA, outside="drop")
    assert columns(rows, ["sex"]) == [[0, 1, 1, 0, 1]]
    with pytest.raises(SourceError, match="no column 'person'"):
        rows.limited("person", 1)


def test_limited_keeps_the_first_rows_of_each_person():
    rows = Rows(TABLE, SCHEMA)
    assert columns(rows.limited("person", 1), ["sex"]) == [[0, 1, 0]]
    assert columns(rows.limited("person", 2), ["sex"]) == [[0, 1, 1, 0]]
    assert columns(rows.limited("person", 9), ["sex"]) == [[0, 1, 1, 0, 1]]
    assert columns(rows, ["sex"]) == [[0, 1, 1, 0, 1]]


def test_rows_cut_by_the_limit_are_not_looked_at_and_numbers_are_those_of_the_source():
    table = TABLE.set_column(2, "sex", pa.array(["f", "m", "x", "x", "x"]))
    with pytest.raises(DomainError, match="row 4:"):
        columns(Rows(table, SCHEMA).limited("person", 1), ["sex"])


def test_limits_hold_over_batches_and_match_plain_python():
    rng = np.random.default_rng(7)
    count = BATCH_ROWS + 50_000
    people = rng.integers(0, 60_000, count)
    ages = rng.integers(0, 100, count)
    table = pa.table({"person": people, "age": ages})
    schema = Schema((PERSON, AGE))
    found = columns(Rows(table, schema).limited("person", 3), ["age"])[0]
    seen: dict[int, int] = {}
    expected = []
    for person, age in zip(people.tolist(), ages.tolist(), strict=True):
        seen[person] = seen.get(person, 0) + 1
        if seen[person] <= 3:
            expected.append(age)
    assert found == expected


def test_persons_in_any_layout(subtests):
    for kind in [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ]:
        with subtests.test(kind=kind):
            table = TABLE.set_column(0, "person", TABLE["person"].cast(kind))
            assert columns(Rows(table, SCHEMA).limited("person", 1), ["sex"]) == [[0, 1, 0]]


@pytest.mark.parametrize("nobody", [None, "", "  "])
def test_a_row_without_a_person(nobody):
    table = TABLE.set_column(0, "person", pa.array(["a", nobody, "a", nobody, "b"]))
    with pytest.raises(DomainError, match="Column 'person', row 2: there is no identifier"):
        columns(Rows(table, SCHEMA).limited("person", 1), ["sex"])
    rows = Rows(table, SCHEMA, outside="drop", reveal=True).limited("person", 1)
    assert columns(rows, ["sex"]) == [[0, 1]]
    assert rows.outside_counts == {"person": 2}


def test_columns_in_any_layout_with_a_limit():
    table = pa.table({name: TABLE[name].cast(pa.string_view()) for name in ("person", "sex")})
    schema = Schema((PERSON, SEX))
    assert columns(Rows(table, schema).limited("person", 1), ["sex"]) == [[0, 1, 0]]


def test_compounds_do_not_tell_persons_apart(subtests):
    for people in [
        pa.array([["a"], ["b"]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int8())),
        pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    ]:
        with subtests.test(people=people):
            rows = Rows(pa.table({"person": people, "sex": ["f", "m"]}), Schema((PERSON, SEX)))
            with pytest.raises(SourceError, match="Column 'person' cannot tell persons apart"):
                columns(rows.limited("person", 1), ["sex"])


def test_runs_of_equal_persons():
    people = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    table = pa.table({"person": people, "sex": ["f", "m", "m"]})
    rows = Rows(table, Schema((PERSON, SEX))).limited("person", 1)
    assert columns(rows, ["sex"]) == [[0, 1]]


@pytest.mark.parametrize("outside", ["drop", "missing"])
def test_remarks_say_what_was_done(outside):
    table = TABLE.set_column(0, "person", pa.array(["a", None, "b", "c", "d"]))
    rows = Rows(table, SCHEMA, outside=outside, reveal=True).limited("person", 1)
    columns(rows, ["age"])
    assert rows.remarks() == (
        "Rows with a value of 'age' outside its domain were left out (1 times)."
        if outside == "drop"
        else "Values of 'age' outside its domain were set missing (1 times).",
        "Rows without an identifier in 'person' were left out (1 times).",
    )


def test_values_for_the_owners_eyes(subtests):
    for values, shown in [
        (pa.array([b"pirate"]), "'pirate'"),
        (pa.array([b"\xff"]), "(text that is not UTF-8"),
        (pa.array([2**62]).cast(pa.timestamp("s")), "(text that is not UTF-8, or a date out of"),
        (pa.array([1.5]), "1.5"),
    ]:
        with subtests.test(values=values, shown=shown):
            with pytest.raises(DomainError) as caught:
                columns(Rows(pa.table({"job": values}), Schema((JOB,)), reveal=True), ["job"])
            assert f"row 1: the value {shown}" in str(caught.value)


def test_white_space_does_not_make_another_person():
    table = TABLE.set_column(0, "person", pa.array(["a", " a", "a ", "b", "b"]))
    assert columns(Rows(table, SCHEMA).limited("person", 1), ["sex"]) == [[0, 0]]


def test_limits_that_cannot_be():
    rows = Rows(TABLE, SCHEMA)
    for most in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="'most' parameter"):
            rows.limited("person", most)
    with pytest.raises(SchemaError, match="'sex' must be an identifier"):
        rows.limited("sex", 1)
