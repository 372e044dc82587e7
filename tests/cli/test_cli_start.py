"""The command line starts at once, and says what there is."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from scumble import __version__
from scumble.cli import printing
from scumble.cli.app import HELP as HELP_FILE
from scumble.cli.app import app, application
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


ALONE = [("ask",), ("db",), ("db", "nothing"), ("ask", "-h"), ("publish", "--nothing")]


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


def test_methods_say_what_they_promise():
    done = run("methods", "--json")
    promises = {row["method"]: row["promises"] for row in done.json}
    assert promises["uniform"].startswith("ε-LDP")
    assert promises["histogram"].startswith("ε-DP")


def test_methods_take_two_lines_each():
    lines = run("methods").out.splitlines()
    names = [row["method"] for row in run("methods", "--json").json]
    assert [line.split()[0] for line in lines[::2]] == names
    assert all(line.split()[0] == "Promises" for line in lines[1::2])
    assert all(line.endswith(".") for line in lines)  # whole sentences, as this is no terminal


def test_methods_are_cut_to_the_width_of_a_terminal():
    done = on_terminal([*HELP[:-1], "methods"], columns=80)
    lines = [line.rstrip() for line in done.text.splitlines()]
    assert any(line.endswith("…") for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_method_tells_its_promise_and_options():
    done = run("methods", "histogram")
    assert done.code == 0
    assert "Promises: ε-DP" in done.out
    options = [line for line in done.out.splitlines() if line.startswith("  • ")]
    assert [line.split()[1] for line in options if "(required)" in line] == [
        "--attributes",
        "--epsilon",
        "--neighbours",
    ]
    assert any(line.startswith("  • --contribution ROWS: ") for line in options)
    assert run("methods", "histogram", "--json").json["promises"].startswith("ε-DP")
    unknown = run("methods", "histogramm")
    assert (unknown.code, "Did you mean 'histogram'?" in unknown.err) == (2, True)


CUT = [
    ("All of it is here.", "All of it is here."),
    ("Rows are kept, mostly, or drawn from a domain.", "Rows are kept, mostly …"),
    ("One (d, g)-promise of many words, and more words.", "One (d, g)-promise of …"),
    ("Rows; some of them with other values in place", "Rows; some of them with …"),
]


def test_texts_are_cut_between_clauses_or_words(subtests):
    for text, short in CUT:
        with subtests.test(text=text):
            assert printing.shortened(text, 25) == short


def test_a_terminal_without_greek_letters():
    """Text loses a letter; JSON loses nothing."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [*HELP[:-1], "methods"]
    text = subprocess.run(words, env=environment, capture_output=True, check=True).stdout
    assert b"?-DP" in text
    found = subprocess.run([*words, "--json"], env=environment, capture_output=True, check=True)
    assert found.stdout.isascii()
    assert json.loads(found.stdout) == run("methods", "--json").json


def test_completion_offers_commands():
    environment = {
        **os.environ,
        "_SCUMBLE_COMPLETE": "complete_bash",
        "COMP_WORDS": "scumble pub",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv = ['scumble']; from scumble.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["publish"]
