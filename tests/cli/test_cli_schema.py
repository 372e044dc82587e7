"""schema check: all that is wrong or to be looked at, and no value of the table."""

import pyarrow.parquet

from tests.support.terminal import run


def test_a_table_that_fits(place):
    for words in ((), (place / "people.parquet",)):
        done = run("schema", "check", place / "people.toml", *words)
        assert done.code == 0, done.err
        assert "people.toml is well formed" in done.err
        assert ("the table fits it" in done.err) == bool(words)


def test_every_column_that_does_not_fit_is_named_and_no_value(place, tmp_path):
    table = pyarrow.parquet.read_table(place / "people.parquet").slice(0, 500)
    for name, value in (("age", 1001), ("sex", "unheard of")):
        column = table[name].combine_chunks().cast(pyarrow.string()).to_pylist()
        column[7] = str(value)
        kind = pyarrow.int64() if name == "age" else pyarrow.string()
        place_of = table.column_names.index(name)
        table = table.set_column(place_of, name, pyarrow.array(column).cast(kind))
    pyarrow.parquet.write_table(table, tmp_path / "odd.parquet")
    done = run("schema", "check", place / "people.toml", tmp_path / "odd.parquet")
    assert done.code == 4
    lines = [line for line in done.out.splitlines() if "outside its domain" in line]
    assert [line.split("'")[1] for line in lines] == ["age", "sex"]
    assert "1001" not in done.out + done.err
    assert "unheard" not in done.out + done.err
    assert all(line.endswith("or publish with --outside drop.") for line in lines)
    found = run("schema", "check", place / "people.toml", tmp_path / "odd.parquet", "--json")
    assert (found.code, len(found.json["wrong"])) == (4, 2)


def test_what_is_to_be_checked_is_said(place, tmp_path):
    assert run("schema", "infer", place / "people.csv", "-o", tmp_path / "s.toml").code == 0
    done = run("schema", "check", tmp_path / "s.toml")
    assert done.code == 0, done.err
    assert "Check 'age'" in done.out
    assert "No column is sensitive" in done.out


def test_a_schema_that_says_not_what_a_row_is_is_wrong(place, tmp_path):
    text = (place / "people.toml").read_text()
    (tmp_path / "s.toml").write_text(text.replace('unit = "row"', ""))
    done = run("schema", "check", tmp_path / "s.toml")
    assert (done.code, "what one row stands for" in done.err) == (3, True)


def test_a_missing_column_is_named(place, tmp_path):
    table = pyarrow.parquet.read_table(place / "people.parquet").drop_columns(["sex"])
    pyarrow.parquet.write_table(table, tmp_path / "few.parquet")
    done = run("schema", "check", place / "people.toml", tmp_path / "few.parquet")
    assert (done.code, "has no column 'sex'" in done.err) == (4, True)


def test_an_identifier_that_repeats_where_rows_are_people_is_named(tmp_path):
    text = 'format = 1\nunit = "row"\n[attributes.patient]\nrole = "identifier"\n'
    text += '[attributes.age]\nrole = "sensitive"\ntype = "integer"\nrange = [0, 9]\n'
    (tmp_path / "s.toml").write_text(text)
    for name, patients, repeats in (("one.csv", "abc", False), ("two.csv", "aba", True)):
        rows = [f"{patient},{age}" for age, patient in enumerate(patients)]
        (tmp_path / name).write_text("\n".join(["patient,age", *rows, ""]))
        done = run("schema", "check", tmp_path / "s.toml", tmp_path / name)
        assert done.code == 0, done.err
        assert done.out.startswith("Check unit: 'patient' has the same value") == repeats
        found = run("schema", "check", tmp_path / "s.toml", tmp_path / name, "--json").json
        assert len(found["checks"]) == repeats
