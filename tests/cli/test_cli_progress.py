"""What is shown of long work: how far it is, and the time left where the work can be counted."""

import re
import subprocess
import sys

import pytest

from scumble.audit.subjects import of_release
from scumble.cli.bars import time_left
from scumble.compare.comparison import Comparison
from scumble.compare.questions import questions
from scumble.compare.settings import Settings, schema_to_compare
from scumble.compare.truth import TrueTable
from scumble.demo.run import demo_steps, run_demo
from scumble.model.long_work import listening
from scumble.model.schema.schema import Schema
from scumble.private.database.database import Database
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.recommend import recommend
from scumble.public.archive.load import load
from scumble.server.config import Address
from scumble.server.demo import STEPS, make_demo
from tests.support.terminal import child_command, on_terminal, run


def shares(work):
    """How far some work says it is, 0 to 1."""
    told = []
    with listening(told.append):
        work()
    return told


@pytest.fixture(scope="module")
def marginals(place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marginals") / "m"
    cells = ("-a", "age,condition,sex", "-e", "1", "--neighbours", "replace", "--ways", "2")
    words = (place / "people.parquet", "-s", place / "people.toml", "-o", folder)
    assert run("publish", "marginals", *words, *cells).code == 0
    return folder


NAMES = ["age", "condition", "sex"]
GROUPS = "SELECT sex, condition, COUNT(*) FROM t GROUP BY ALL"
MEANS = "SELECT sex, AVG(age) FROM t WHERE condition <> 'Asthma' GROUP BY sex"
WORK = {
    "audit of rows": lambda place, _: of_release(place / "view"),
    "audit, of known columns": lambda place, _: of_release(place / "view", ["age", "sex"]),
    "audit of counts": lambda place, _: of_release(place / "counts"),
    "marginal": lambda _, made: load(made).marginals.marginal(NAMES, nonnegative=True),
    "groups of rows": lambda place, _: load(place / "view").answer(GROUPS),
    "groups of cells": lambda place, _: load(place / "counts").answer(GROUPS),
    "groups of marginals": lambda _, made: load(made).answer(GROUPS),
    "means of rows": lambda place, _: load(place / "view").answer(MEANS),
    "several questions": lambda place, _: load(place / "view").answer_many([GROUPS, MEANS]),
    "several numbers": lambda place, _: load(place / "view").answer(
        "SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex"
    ),
    "recommend": lambda place, _: recommend(
        place / "people.toml", attributes=["age", "sex"], rows=3000, epsilon=1,
        queries=[f"SELECT COUNT(*) FROM t WHERE age < {age} AND sex = 'male'" for age in (20, 40)],
    ),
}  # fmt: skip


def test_long_work_tells_how_far_it_is(place, marginals, subtests):
    for name in WORK:
        with subtests.test(name=name):
            told = shares(lambda work=WORK[name]: work(place, marginals))
            assert len(set(told)) > 1
            assert told == sorted(told)
            assert told[-1] == pytest.approx(1)


def test_the_first_run_of_a_comparison_tells_how_far_it_is(place):
    """Not only how many runs are done."""
    schema = Schema.load(place / "people.toml")
    table = TrueTable.read(place / "people.parquet", schema_to_compare(schema))
    asked = questions("breakdowns", table, 4, 0)
    choices = Settings(table, asked, "replace").choices(["uniform"], [1.0], {})
    comparison = Comparison(table, asked, choices, 3)
    runs = comparison.runs(comparison.blank(sensitive=["condition"]))
    assert next(runs) == 0
    told = shares(lambda: next(runs))
    assert len({share for share in told if 0 < share < 1 / 3}) > 2
    assert told[-1] == pytest.approx(1 / 3)
    runs.close()


def test_a_journal_tells_how_far_it_is_read(place, tmp_path):
    source, schema = place / "people.parquet", Schema.load(place / "people.toml")
    folder = tmp_path / "db"
    with Database.create(
        folder, source, schema, epsilon=1, noise=20, attributes=["age", "sex"]
    ) as database:
        for age in (30, 40, 50):
            database.answer(f"SELECT COUNT(*) FROM t WHERE age < {age}")
    with DatabaseInspection(folder) as reading:
        for work in (reading.history, reading.verify, reading.status):
            told = shares(work)
            assert len(told) > 2
            assert told[-1] == 1
        *first, full = (share for share in shares(reading.history) if share <= 1 / 8)
        assert len(first) >= 3, "both passes are told: entries are read"
        assert full == 1 / 8
        assert len({share for share in shares(reading.history) if share > 1 / 8}) >= 3


def test_steps_are_counted_before(tmp_path):
    for report in (True, False):
        said = []
        run_demo(200, tmp_path / "demo", said.append, report=report, force=True)
        assert len(said) == demo_steps(report)
    said = []
    make_demo(tmp_path, Address("127.0.0.1", 0), said.append, people=200)
    assert len(said) == STEPS


PACES = [
    (10.0, 1, 4, "0:00:30 left"),
    (3600.0, 0.25, 1.0, "3:00:00 left"),
    (90.0, 3, 3, "0:00:00 left"),
    (5.0, 0, 3, "-:--:-- left"),
    (None, 0, 3, "-:--:-- left"),
    (5.0, 0, None, ""),
]


def test_time_left_is_that_of_the_rest_at_the_same_pace(subtests):
    for elapsed, done, total, shown in PACES:
        with subtests.test(elapsed=elapsed):
            assert time_left(elapsed, done, total) == shown


WORKS = """
import time
from scumble.cli import bars
from scumble.model.long_work import tell
with bars.working("Working"):
    for number in range(10):
        time.sleep(0.2)
        {told}
"""


@pytest.mark.parametrize(("told", "left"), [("tell(number + 1, 10)", True), ("pass", False)])
def test_the_time_left_is_shown_if_the_work_tells(told, left):
    done = on_terminal(child_command(WORKS.format(told=told)))
    assert done.code == 0
    assert "Working" in done.text
    assert ("left" in done.text) == left


LINES = """
import time
from scumble.cli import bars
from scumble.model.long_work import tell
bars.LINE_SECONDS = 0.2
with bars.{kind}:
    time.sleep(0.3)
    {told}
    time.sleep(0.6)
"""
LOGGED = [
    ("working('Working')", "tell(1, 4)", r"Working: 25 %, 0:00:0\d left"),
    ("working('Working')", "pass", r"Working: 0:00:0\d so far"),
    ("progress('Reading', lambda: 8) as rows", "rows(2)", r"Reading: 25 %, 0:00:0\d left"),
    ("progress('Reading', 8) as rows", "rows(9)", r"Reading: last steps, 0:00:0\d so far"),
]


@pytest.mark.parametrize(("kind", "told", "line"), LOGGED)
def test_a_log_has_a_line_now_and_then(kind, told, line):
    """Where stderr is no terminal; a number of rows is never in it."""
    code = LINES.format(kind=kind, told=told)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert 2 <= len(lines) <= 5
    assert re.fullmatch(line, lines[-1])


def test_json_has_no_lines_beside_it():
    code = "from scumble.cli import console; console._running.json = True\n"
    code += LINES.format(kind="working('Working')", told="pass")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
