"""Tables in files: every kind holds the same, and nothing that is not a table."""

import datetime
import json

import pyarrow as pa
import pyarrow.csv
import pytest

import scumble as sc
from scumble.cli import writing
from tests.support.terminal import run

TABLE = pa.table(
    {
        "name": ["Ada", "=1+1", "<b>", "bell \x07", None],
        "n": [1, -2, 3, 2**60, None],
        "share": [0.5, 1e-9, 2.0, None, 3.25],
        "day": [datetime.date(2024, 5, 17)] * 5,
        "list": [["a", "b"], [], ["c"], ["d"], ["e"]],
    }
)


def test_a_sheet_holds_values_and_no_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    place = tmp_path / "t.xlsx"
    writing.write_table(TABLE, str(place))
    head, *rows = openpyxl.load_workbook(place).active.iter_rows()
    assert [cell.value for cell in head] == TABLE.column_names
    assert [cell.value for cell in rows[0]][:3] == ["Ada", 1, 0.5]
    assert rows[0][3].value == datetime.datetime(2024, 5, 17)
    assert rows[0][4].value == "a b"
    assert (rows[1][0].value, rows[1][0].data_type) == ("=1+1", "s")
    assert rows[3][0].value == "bell \\x07"
    assert rows[3][1].value == str(2**60)  # a number would be rounded
    assert rows[4][0].value is None


def test_a_sheet_that_is_too_long_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.setattr(writing, "_EXCEL_ROWS", 4)
    with pytest.raises(sc.ParameterError, match="at most 4 rows"):
        writing.write_table(TABLE, str(tmp_path / "t.xlsx"))
    assert list(tmp_path.iterdir()) == []


def test_without_openpyxl_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "find_spec", lambda _: None)
    with pytest.raises(sc.ScumbleError, match=r"install scumble\[excel\]"):
        writing.check_output(str(tmp_path / "t.xlsx"), force=False)


def test_a_page_escapes_what_it_shows(tmp_path):
    writing.write_table(TABLE, str(tmp_path / "t.html"))
    page = (tmp_path / "t.html").read_text("utf-8")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "\x07" not in page
    assert page.count("<tr>") == 1 + TABLE.num_rows


def test_a_table_goes_to_a_database(place):
    address = f"sqlite:///{place / 'answers.db'}/by_sex"
    words = (
        "ask",
        place / "counts",
        "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex",
        "-o",
        address,
    )
    assert run(*words).code == 0
    again = run(*words)
    assert (again.code, "already exists. Use --force" in again.err) == (6, True)
    assert run(*words, "--force").code == 0


def test_what_is_shown_can_be_written(place, tmp_path):
    made = sc.publish(
        pa.table({"items": [["a"]] * 300 + [["a", "b"]] * 200, "who": list(map(str, range(500)))}),
        sc.Schema.loads(
            'unit = "row"\n[attributes.who]\nrole = "identifier"\n[attributes.items]\n'
            'role = "sensitive"\ntype = "set"\nvalues = ["a", "b"]\n'
        ),
        sc.Baskets("items", top=2, epsilon=1, neighbours="add_remove"),
        options=sc.PublishOptions(seed=1),
    )
    made.save(tmp_path / "baskets", insecure=True)
    done = run("release", "top", tmp_path / "baskets", "-n", "2", "-o", tmp_path / "top.csv")
    assert (done.code, done.out) == (0, "")
    read = pyarrow.csv.read_csv(tmp_path / "top.csv")
    assert read.num_rows == 2
    assert {"stderr", "low", "high", "level"} < set(read.column_names)
    both = run("release", "top", tmp_path / "baskets", "-o", tmp_path / "two.csv", "--json")
    assert len(json.loads(both.out)) == pyarrow.csv.read_csv(tmp_path / "two.csv").num_rows
