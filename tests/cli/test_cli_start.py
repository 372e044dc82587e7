"""The command line starts at once, and says what there is."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from scumble import __version__
from scumble.cli.app import HELP as HELP_FILE
from scumble.cli.app import app, application
from scumble.model.family import USES
from scumble.private.mechanism import mechanisms
from tests.support.terminal import on_terminal, run

HELP = [sys.executable, "-c", "from scumble.cli.app import main; main()", "--help"]
HEAVY = {
    "numpy",
    "pyarrow",
    "duckdb",
    "numba",
    "scipy",
    "matplotlib",
    "sqlglot",
    "pandas",
    "rich",
    "jinja2",
}


@pytest.mark.parametrize("words", [("--help",), ("publish", "--help")])
def test_help_imports_nothing_heavy(words):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *HELP[1:-1], *words],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE))
    assert ("typer" in imported) == (len(words) == 2)
    assert imported & HEAVY == set()


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_kept_help_is_that_of_the_commands(columns):
    """`make options` writes it."""
    code = "from scumble.cli.app import app; app(['--help'], prog_name='scumble')"
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (done.stdout == HELP_FILE.read_bytes()) == (columns >= 80)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_on_a_terminal_is_as_wide_as_it(columns):
    """A kept text on a wide terminal, and lines broken by typer on a narrow one."""
    shown = on_terminal([*HELP[:-1], "-h"], columns).output
    assert max(map(len, shown.splitlines())) < columns
    assert (shown.replace("\r\n", "\n") == HELP_FILE.read_text("ascii")) == (columns >= 80)


def test_help_into_a_closed_pipe():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(HELP, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


ALONE = [
    ("ask",),
    ("db",),
    ("db", "nothing"),
    ("ask", "-h"),
    ("publish", "--nothing"),
    ("publish", "uniform", "--nothing"),
]


def test_one_command_alone_is_as_among_all(subtests):
    """Only the command that runs is imported; what is said is the same."""
    for words in ALONE:
        with subtests.test(words=words):
            found = CliRunner().invoke(application(words[0]), words)
            expected = CliRunner().invoke(app, words)
            assert (found.exit_code, found.output) == (expected.exit_code, expected.output)


def test_help_is_quick():
    """The least processor time of five runs: what else the machine does must not count, an import
    of weight must."""
    times = []
    for _ in range(5):
        start = os.times()
        subprocess.run(HELP, capture_output=True, check=True)
        end = os.times()
        times.append(end.children_user - start.children_user)
        times[-1] += end.children_system - start.children_system
    assert min(times) < 0.3


COMMANDS = ["schema", "db", "publish", "show", "ask", "rows", "release", "token", "demo"]


def test_every_command_is_listed_and_has_help(subtests):
    for command in COMMANDS:
        with subtests.test(command=command):
            assert re.search(rf"^  {command} +[A-Z].*\.$", run("--help").out, re.MULTILINE)
            assert "Usage:" in run(command, "-h").out


def test_version():
    assert run("--version").out == f"scumble {__version__}\n"


def test_a_list_of_methods_asks_nothing_about_a_table():
    assert run("publish", "--list", "people.csv").code == 0
    alone = run("publish", "--json")
    assert (alone.code, "--json goes with --list" in alone.err) == (2, True)


def test_methods_are_listed_on_one_screen():
    """By use, from the records of the families."""
    lines = run("publish", "--list").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted(["auto", "linked", *mechanisms()])
    for heading in USES.values():
        assert f"{heading}:" in lines
    found = run("publish", "--list", "--json").json
    assert [each["method"] for each in found] == list(mechanisms())
    assert found[0] == {
        "method": "uniform",
        "use": "rows",
        "publishes": "every row; sensitive values kept, or drawn anew",
    }


def test_a_method_tells_its_promise_and_its_options_only():
    """On a screen and a half."""
    shown = on_terminal([*HELP[:-1], "publish", "histogram", "--help"], 80).text
    assert len(shown.splitlines()) <= 60
    words = " ".join(shown.split())
    assert "Promises: ε-DP of the whole release. Proof: the cells are disjoint" in words
    assert "-a, --attributes COLUMNS What to count by, as age,sex. [required]" in words
    assert "--contribution ROWS Most rows of one person. [default: 1]" in words
    for option in ("--levels", "--update-record", "--views", "--delta", "--k "):
        assert option not in words
    sections = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert sections == ["Arguments:", "Options of histogram:", "Options:", "Rarely used:"]


def test_the_help_of_every_method_is_short():
    for method in (*mechanisms(), "auto", "linked"):
        assert len(run("publish", method, "--help").out.splitlines()) <= 70, method


def test_a_terminal_without_greek_letters(place):
    """Text loses a letter; JSON loses nothing."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    view, words = str(place / "view"), [*HELP[:-1], "show"]
    given = {"env": environment, "capture_output": True, "check": True}
    assert b"?-LDP" in subprocess.run([*words, view], **given).stdout
    found = subprocess.run([*words, view, "--json"], **given)
    assert found.stdout.isascii()
    assert json.loads(found.stdout) == run("show", view, "--json").json


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("scumble pub", ["publish"]), ("scumble publish hi", ["hierarchy", "histogram"])],
)
def test_completion_offers_commands(typed, offered):
    environment = {
        **os.environ,
        "_SCUMBLE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    code = "import sys; sys.argv = ['scumble']; from scumble.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert sorted(done.stdout.split()) == offered
