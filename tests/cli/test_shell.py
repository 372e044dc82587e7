"""The shell of a database: lines of a pipe, lines of a person, and what can be completed."""

import sys

import pytest

from scumble.cli import shell
from scumble.private.database.database import Database
from tests.support.terminal import run

YOUNG = "SELECT COUNT(*) FROM t WHERE age < 40"


@pytest.fixture(scope="module")
def folder(place, tmp_path_factory):
    found = tmp_path_factory.mktemp("shell") / "db"
    how = {"epsilon": 0.3, "noise": 20, "attributes": ["age", "sex"]}
    Database.create(found, place / "people.parquet", place / "people.toml", **how).close()
    return found


@pytest.fixture
def database(folder, place):
    with Database.open(folder, place / "people.parquet") as found:
        yield found


def piped(place, folder, *lines):
    text = "".join(f"{line}\n" for line in lines)
    return run("db", "shell", folder, "--source", place / "people.parquet", stdin=text)


def test_every_line_is_a_question(place, folder):
    done = piped(place, folder, f"{YOUNG};", "", "  SELECT sex, COUNT(*) FROM t GROUP BY sex  ")
    assert done.code == 0, done.err
    assert done.out.count("Answered as asked.") == 2
    assert "female" in done.out
    assert "scumble>" not in done.out + done.err


def test_commands(place, folder):
    lines = (YOUNG, f"\\cost {YOUNG}", "\\status", "\\history 1", "\\columns", "\\help")
    done = piped(place, folder, *lines)
    assert done.code == 0, done.err
    for words in (
        "It would be repeated",
        "at the most asked-about point",
        "question",
        "integer 18 to 90",
        "\\quit",
    ):
        assert words in done.out


def test_quit(place, folder, subtests):
    for last in ["\\quit", "\\q", "quit", "exit"]:
        with subtests.test(last=last):
            done = piped(place, folder, last, "\\help")
            assert (done.code, done.out) == (0, "")


WRONG_LINES = [("SELECT nothing", 5), ("\\nonsense", 2), ("\\cost", 2), ("\\history x", 2)]


def test_an_error_ends_a_line_not_the_shell(place, folder, subtests):
    for line, code in WRONG_LINES:
        with subtests.test(line=line):
            done = piped(place, folder, line, "\\help")
            assert done.code == code
            assert done.err.startswith("Error: ")
            assert done.out.startswith("A line is a question")


def test_completion_knows_columns_words_and_commands(database):
    words = shell.Shell(database, {}, 0.95).words
    assert {"age", "sex", "SELECT", "BETWEEN", "\\status", "\\quit"} <= set(words)
    complete = shell.completer(words)
    assert [complete("ag", place) for place in (0, 1)] == ["age", None]
    assert complete("bet", 0) == "BETWEEN"
    assert complete("\\st", 0) == "\\status"


class Terminal:
    """Stands for a person's terminal."""

    def isatty(self):
        return True


def seated(monkeypatch, *lines):
    """A person who types lines, then Ctrl-D; KeyboardInterrupt stands for Ctrl-C."""
    answers = iter([*lines, EOFError])

    def typed(prompt=""):
        line = next(answers)
        if isinstance(line, type):
            raise line
        return line

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(shell, "find_spec", lambda name: None)


def test_a_person_may_err_and_interrupt(database, monkeypatch, capsys):
    seated(monkeypatch, "SELECT nothing", KeyboardInterrupt, "\\columns")
    assert shell.Shell(database, {}, 0.95).run() == 0
    said = capsys.readouterr()
    assert "integer 18 to 90" in said.out
    assert "All answers together" in said.err
    assert "Error: FROM is missing" in said.err


def test_readline_is_told(monkeypatch):
    readline = pytest.importorskip("readline")
    readline.clear_history()
    monkeypatch.setattr("builtins.input", lambda prompt: "typed")
    assert shell._readline(["age"], ["asked before"])() == "typed"
    assert readline.get_history_item(1) == "asked before"
    assert readline.get_completer()("a", 0) == "age"
    readline.clear_history()


def test_prompt_toolkit_is_told():
    """Lines end with Enter, the whole with Ctrl-D."""
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("SELECT 1\r\x03\\status\r\x04")
        assert list(shell.typed_lines(["age"], [])) == ["SELECT 1", "\\status"]
        session = shell._toolkit(["age", "\\status"], ["asked before"]).__self__
        assert list(session.history.load_history_strings()) == ["asked before"]
        for begun, whole in (("WHERE AG", "age"), ("\\st", "\\status")):
            found = session.completer.get_completions(Document(begun), CompleteEvent())
            assert [each.text for each in found] == [whole]
