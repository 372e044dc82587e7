"""What notebooks show: HTML of schemas, promises, mechanisms and databases; data frames."""

from __future__ import annotations

import html.parser

import polars
import pyarrow as pa
import pytest

import scumble as sc
from scumble.cli.printing import warnings
from scumble.model.errors import SchemaError
from tests.support import people


class Cells(html.parser.HTMLParser):
    """The alignment and text of all table cells; the HTML is balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[tuple[str, str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append((dict(attributes)["style"].removeprefix("text-align: "), ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            side, text = self.cells[-1]
            self.cells[-1] = (side, text + data)


@pytest.fixture(scope="module")
def release():
    schema = people.schema()
    return sc.publish(people.people(300, schema), schema, sc.Uniform(epsilon=1))


def test_schemas_promises_and_mechanisms(release):
    hostile = sc.Schema([sc.Attribute("<b>x", "quasi", sc.Category(["a", "b"]))])
    assert ("left", "<b>x") in Cells(hostile._repr_html_()).cells
    shown = Cells(sc.Histogram(["age", "sex"], epsilon=1, neighbours="replace")._repr_html_())
    assert ("right", "age, sex") in shown.cells
    for promise in (release.guarantees[0], release.guarantees):
        text = promise._repr_html_()
        Cells(text)
        assert "Not promised: " in text


def test_databases(tmp_path):
    schema = people.schema()
    table = people.people(300, schema)
    with sc.Database.create(tmp_path / "db", table, schema, epsilon=0.5, noise=40) as database:
        assert "<b>Database of " in database._repr_html_()
        Cells(database._repr_html_())


@pytest.mark.parametrize("asked", ["COUNT(*)", "COUNT(*), AVG(age)"])
def test_numbers_are_aligned_right(release, asked):
    answer = release.answer(f"SELECT sex, {asked} FROM t WHERE age < 9 GROUP BY sex")
    cells = Cells(answer._repr_html_()).cells
    names = {"sex", *(str(key[0]) for key, _ in answer)}
    assert {text for side, text in cells if side == "left"} == names
    assert sum(side == "right" for side, _ in cells) == len(cells) - len(names)


def test_frames_begin_with_the_group_and_its_numbers(release):
    answer = release.answer("SELECT sex, COUNT(*) FROM t GROUP BY sex")
    first = ["sex", "value", "stderr", "low", "high"]
    assert list(answer.to_pandas().columns[:5]) == first
    frame = answer.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns[:5] == first
    assert frame.to_arrow().column("value").to_pylist() == [each.value for _, each in answer]
    several = release.answer("SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY sex")
    assert several.to_polars().columns[:5] == ["sex", "n", "n_stderr", "n_low", "n_high"]


def test_misspelt_names_are_refused_with_the_nearest():
    mechanism = sc.Histogram(["Agee"], epsilon=1, neighbours="replace")
    with pytest.raises(SchemaError, match=r"no attribute 'Agee'\. It has .* Did you mean 'age'"):
        mechanism.guarantee(people.schema())


def test_look_alike_names_are_warned_of():

    schema = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(0, 3)),
            sc.Attribute("\u0430ge", "sensitive", sc.IntegerRange(0, 3)),
        ]
    )
    table = {"age": [1, 2], "\u0430ge": [1, 2]}

    [sentence] = warnings(sc.publish(pa.table(table), schema, sc.Uniform(epsilon=1)))
    assert sentence == "'age' and '\\u0430ge' are names that look alike and are different."
