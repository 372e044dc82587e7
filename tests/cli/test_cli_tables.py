"""Tables that are printed without rich look as those that rich draws."""

import random

import pytest

from scumble.cli import console, printing
from tests.support.terminal import run

ALPHABET = "ab ,1[é]ε\\…−:/"


@pytest.fixture
def drawn(capsys):
    """Return what rich prints of a table."""

    def draw(head, body, text_columns):
        printing._rich_table(head, body, text_columns)
        return capsys.readouterr().out

    return draw


def test_plain_tables_are_those_of_rich(drawn):
    draws = random.Random(3)
    plain = 0
    for _ in range(200):
        columns, rows = draws.randint(1, 6), draws.randint(0, 5)
        texts = ["".join(draws.choices(ALPHABET, k=draws.randint(0, 12))) for _ in range(columns)]
        body = [["".join(draws.choices(ALPHABET, k=3)) for _ in texts] for _ in range(rows)]
        text_columns = draws.randint(0, columns)
        lines = printing.plain_table(texts, body, text_columns, console.PIPE_COLUMNS)
        if lines is not None:
            expected = drawn(texts, body, text_columns).splitlines()
            assert lines == [line.rstrip() for line in expected]
            plain += 1
    assert plain > 30


OTHERS = [
    ("漢字", 160),
    ("a\nb", 160),
    ("\x1b[1m", 160),
    ("e\u0301", 160),
    ("x" * 80, 79),
    ("", 160),
]


def test_other_tables_are_left_to_rich(subtests):
    for cell, width in OTHERS:
        with subtests.test(cell=cell):
            assert printing.plain_table([cell], [[cell]], 1, width) is None


def test_what_rich_is_told_by_the_environment(monkeypatch):
    assert console.plain_width() == console.PIPE_COLUMNS or not console._writes_unicode()
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console.plain_width() is None


def test_a_sentence_is_one_line_in_a_pipe_and_broken_on_a_terminal(monkeypatch, capsys):
    sentence = "a promise of many words " * 20
    printing.hanging("  •", sentence.strip())
    assert capsys.readouterr().out == f"  • {sentence.strip()}\n"
    monkeypatch.setattr(console, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "dumb")
    printing.hanging("  •", sentence)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("  • a promise")
    assert all(line.startswith("    ") for line in others)
    assert max(map(len, [first, *others])) <= 60


def test_values_with_commas_are_quoted_in_a_list():
    assert printing._listed("Bern, CH") == "'Bern, CH'"
    assert printing._listed("Zug") == "Zug"


def test_sets_of_attributes_and_their_weights():
    sets = [["age", "income"], ["owner"]]
    assert printing._plain("workload", sets) == "age × income; owner"
    assert printing._plain("weights", [3.0, 1.5]) == "3, 1.5"
    assert printing._plain("attributes", ["age", "owner"]) == "age × owner"


def test_parameters_that_say_nothing_are_not_shown(place, tmp_path):
    words = ("-s", place / "people.toml", "-a", "sex", "-e", "1", "--neighbours", "replace")
    run("publish", "histogram", place / "people.parquet", *words, "-o", tmp_path / "sexes")
    line = run("show", tmp_path / "sexes").out.splitlines()[0]
    numbers = "epsilon = 1, neighbours = replace, contribution = 1"
    assert line.endswith(f"sexes: histogram (attributes = sex, {numbers})")
