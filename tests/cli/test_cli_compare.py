"""scumble compare: from a table to a page, stopped and resumed, on a stand-in, and refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scumble.cli import compare
from scumble.compare import runs
from tests.support.terminal import child_command, run

QUESTIONS = """\
-- how many are ill
SELECT COUNT(*) FROM people WHERE condition = 'Asthma' AND age < 50;
SELECT condition, COUNT(*) FROM people WHERE sex = 'female' GROUP BY condition;
SELECT AVG(age) FROM people WHERE condition <> 'Asthma';
"""


@pytest.fixture
def words(place: Path, tmp_path: Path) -> list[str]:
    """A table, its schema and the owner's questions."""
    (tmp_path / "mine.sql").write_text(QUESTIONS)
    table, schema = str(place / "people.parquet"), str(place / "people.toml")
    return [
        "compare",
        table,
        "-s",
        schema,
        "--queries",
        str(tmp_path / "mine.sql"),
        "--repeats",
        "2",
    ]


def test_from_a_table_to_a_page(words: list[str], tmp_path: Path) -> None:
    page = tmp_path / "c.html"
    done = run(*words, "-m", "uniform,histogram", "-m", "aroma", "-e", "1,3", "-o", page)
    assert done.code == 0, done.err
    assert "uniform, ε = 1: the best guess is right in " in done.out
    assert "6 settings, 2 releases of each: 12 in all." in done.err
    assert "nineteen times in twenty" in done.out
    assert "For the owner only" in done.err
    found = json.loads(page.with_suffix(".json").read_text("utf-8"))
    assert found["about"]["questions"] == 3
    assert found["about"]["preview"] is False
    assert len(found["points"]) == 6
    assert page.with_suffix(".csv").read_text("utf-8").count("\n") == 7
    assert "the questions in mine.sql" in page.read_text("utf-8")
    again = run(*words, "-m", "uniform", "-e", "1", "-o", page)
    assert again.code == 6
    assert "Use --force to replace it, or --resume to go on with it." in again.err


def test_stopped_and_resumed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "c.html"
    publish, calls = runs.publish, iter(range(100))

    def stopped(*given: object, **named: object) -> object:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return publish(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "publish", stopped)
    arguments = [*words, "-m", "uniform,subset", "-e", "1", "-o", page]
    first = run(*arguments)
    assert first.code == 130
    assert "Stopped" in first.err
    kept = json.loads(page.with_suffix(".json").read_text("utf-8"))["runs"]
    assert [(each["method"], each["repeat"]) for each in kept] == [
        ("uniform", 0),
        ("subset", 0),
        ("uniform", 1),
    ]
    second = run(*arguments, "--resume", "--json")
    assert second.code == 0, second.err
    assert [(each["method"], each["runs"]) for each in second.json] == [
        ("uniform", 2),
        ("subset", 2),
    ]
    whole = json.loads(page.with_suffix(".json").read_text("utf-8"))["runs"]
    assert whole[:3] == kept
    other = run(*arguments[:-2], "-o", page, "--resume", "--queries", "prefixes:age")
    assert other.code == 2
    assert "about other questions" in other.err
    seeded = run(*arguments, "--resume", "--seed", "3")
    assert seeded.code == 2
    assert "made with --seed 0, not 3" in seeded.err


def test_stopped_before_the_first_result(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "publish", stopped)
    done = run(*words, "-m", "uniform", "-e", "1", "-o", tmp_path / "c.html")
    assert done.code == 130
    assert done.err.endswith("Stopped. Nothing was left half-written.\n")
    assert "Nothing was compared" not in done.err
    assert not (tmp_path / "c.json").exists()


def _below(process: int) -> list[int]:
    """The processes that another one started."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def _running(process: int) -> bool:
    """Whether a process is there, other than as one that nobody has asked how it ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes in /proc")
def test_ctrl_c_in_a_terminal(place: Path, tmp_path: Path) -> None:
    """The signal goes to all processes of the command, as from a terminal: what is done is written,
    and nobody is left or complains.
    """
    page = tmp_path / "c.html"
    program = "from scumble.compare import comparison as c; "
    program += "c._WORTH_PROCESSES = c._TIMED_ALONE = 0; "
    program += "from scumble.cli.app import main; main()"
    words = f"compare {place / 'people.parquet'} -s {place / 'people.toml'} -m uniform,subset -e 1 "
    words += f"-o {page} --jobs 2 --repeats 1000"
    with subprocess.Popen(
        [*child_command(program), *words.split()],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        while len(started := _below(command.pid)) < 3:  # a tracker of resources, and two
            assert command.poll() is None
            time.sleep(0.05)
        os.killpg(command.pid, signal.SIGINT)
        out, said = command.communicate(timeout=600)
    assert command.returncode == 130, said
    assert "Traceback" not in said
    assert "--resume goes on" in said
    assert "uniform, ε = 1: the best guess" in out
    assert json.loads(page.with_suffix(".json").read_text("utf-8"))["runs"]
    # The tracker ends by itself when the command is gone, which nobody waits for: on a machine with
    # other work it may come to that later than this line. Who stayed would hang here.
    while any(map(_running, started)):
        time.sleep(0.05)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.csv", "c.html", "c.json"]


def test_a_preview_reads_no_table(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    schema = str(place / "people.toml")
    done = run(
        "compare", tmp_path / "nowhere.csv", "-s", schema, "--private-preview", "--rows", "500",
        "-m", "uniform,anatomy", "--setting", "anatomy:l=2,3", "-e", "2", "--repeats", "1",
        "--questions", "3", "-o", page,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "no private row was read" in done.err
    assert "no private row was read" in page.read_text("utf-8")
    assert "nowhere.csv is not read: --private-preview makes a stand-in" in done.err
    assert "breakdowns: conjunctions of up to 2 attributes" in page.read_text("utf-8")
    assert "anatomy, l = 3: not DP" in done.out


REFUSALS = [
    (["-m", "uniform", "-o", "c.html"], "Say --epsilon"),
    (["-m", "uniform", "-e", "-1", "-o", "c.html"], "epsilon"),
    (["-m", "unifrom", "-e", "1", "-o", "c.html"], "names among"),
    (["-m", "uniform", "-e", "1", "-o", "c.txt"], "ends in .html"),
    (["-m", "uniform", "-e", "1", "-o", "c.html", "--measure", "worst"], "measure"),
    (["-m", "uniform", "-e", "1", "-o", "c.html", "--resume"], "to go on with"),
    (
        ["-m", "uniform", "-e", "1", "-o", "c.html", "--queries", "no.sql"],
        "'no.sql' does not exist",
    ),
    (["-m", "uniform", "-e", "1", "-o", "c.html", "--setting", "aroma"], "METHOD:PARAMETER"),
    (["-m", "anatomy", "--setting", "anatomy:l=99", "-o", "c.html"], "Nothing was compared"),
]


def test_refusals(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for more, complaint in REFUSALS:
        with subtests.test(more=more):
            monkeypatch.chdir(tmp_path)
            done = run(*words, *more)
            assert done.code == 2
            assert complaint in done.err
            assert not list(tmp_path.glob("c.*"))


def test_a_table_is_needed(place: Path, tmp_path: Path) -> None:
    done = run(
        "compare",
        "-s",
        place / "people.toml",
        "-m",
        "uniform",
        "-e",
        "1",
        "-o",
        tmp_path / "c.html",
    )
    assert done.code == 2
    assert "--private-preview" in done.err


def test_the_folder_of_the_page_is_made_before_anything_else(
    words: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "new" / "folder" / "c.html"
    done = run(*words, "-m", "uniform", "-e", "1", "-o", page)
    assert done.code == 0, done.err
    assert page.exists()
    (tmp_path / "file").write_text("in the way")
    done = run(*words, "-m", "uniform", "-e", "1", "-o", tmp_path / "file" / "c.html")
    assert done.code == 1
    assert "c.html' cannot be written" in done.err


def test_fewer_questions_than_wanted(words: list[str], tmp_path: Path) -> None:
    page = tmp_path / "c.html"
    asked = [*words, "-m", "uniform", "-e", "1", "--repeats", "1", "-o", page]
    done = run(*asked, "--queries", "breakdowns:floor=0.3", "--questions", "500")
    assert done.code == 0, done.err
    assert "asked for 500, found " in done.err
    assert "asked for 500, found " in page.read_text("utf-8")
    done = run(*asked, "--force", "--queries", "breakdowns:floor=0.99")
    assert done.code == 2
    assert "--queries breakdowns:floor=0.099" in done.err


def test_a_table_without_rows(words: list[str], place: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(place / "people.parquet").slice(0, 0), tmp_path / "none.parquet")
    words[1] = str(tmp_path / "none.parquet")
    done = run(*words, "-m", "uniform", "-e", "1", "-o", tmp_path / "c.html")
    assert done.code == 2
    assert "The table has no rows" in done.err


def test_the_time_is_limited(words: list[str], tmp_path: Path) -> None:
    """The first run is made; the others are named, and made by --resume."""
    page = tmp_path / "c.html"
    given = (*words, "-m", "uniform,histogram", "-e", "1,3", "-o", page)
    done = run(*given, "--time", "0")
    assert done.code == 0, done.err
    assert "After --time 0 seconds 7 of 8 runs are not made. Left out: uniform, ε = 3;" in done.err
    assert "--resume goes on" in done.err
    assert len(json.loads(page.with_suffix(".json").read_text("utf-8"))["points"]) == 1
    again = run(*given, "--resume")
    assert again.code == 0, again.err
    assert "--time" not in again.err
    assert len(json.loads(page.with_suffix(".json").read_text("utf-8"))["points"]) == 4


def test_the_time_is_forecast_once_after_some_releases(capsys):
    """By the median: the first releases load libraries."""
    ends = [0.0, 20.0, *(20.0 + 0.5 * each for each in range(1, compare._FORECAST_RUNS + 1))]
    assert compare._say_forecast(ends, 8)
    assert capsys.readouterr().err == "About 4 more seconds.\n"
    assert compare._say_forecast(ends, 1)
    assert capsys.readouterr().err == "About 1 more second.\n"
    assert not compare._say_forecast(ends, 0)
    assert not compare._say_forecast(ends[: compare._FORECAST_RUNS], 8)
    assert not compare._say_forecast([0.0] * len(ends), 8)
    assert capsys.readouterr().err == ""
