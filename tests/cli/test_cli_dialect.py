"""In the shell, sentences name options; in Python, parameters. No sentence is written for one."""

import ast
import re
from pathlib import Path

import pytest

import scumble as sc
from scumble.cli.console import ShellDialect
from scumble.model.errors import named, setting, using_dialect
from tests.support.terminal import run

PACKAGE = Path(sc.__file__).parent
FRONT = ("cli", "demo")


def publish(place, method, *words):
    source = (place / "people.csv", "-s", place / "people.toml")
    return run("publish", method, *source, "-o", place / "never", *words)


SENTENCES = [
    (("uniform", "-e", "0"), "--epsilon must be"),
    (("uniform", "--rho1", "0.5"), "--gamma, --keep, or --rho1 with --rho2. Got --rho1 "),
    (("uniform", "-e", "1", "--part", "x"), "with --parts COLUMN. Give such a --ledger"),
    (("alphabeta", "-e", "1", "--adversary", "exclusive"), "--adversary exclusive with"),
    (("anatomy", "--l", "14"), "or say --suppress to leave out"),
    (
        ("frapp", "--reading", "published", "-e", "1"),
        "Frapp with --reading published takes either --prior-multiple with --gamma",
    ),
    (
        ("histogram", "-a", "sex,sex", "-e", "1", "--neighbours", "replace"),
        "Got 'sex,sex'",
    ),
    (
        ("sparse", "-a", "sex", "-e", "1", "--neighbours", "replace", "--rule=priority"),
        "--size must be",
    ),
]


def test_sentences_name_options(place, subtests):
    for words, sentence in SENTENCES:
        with subtests.test(words=words):
            done = publish(place, *words)
            assert done.code in (2, 7)
            assert sentence in done.err


def test_a_value_outside_its_domain(place, tmp_path):
    table = tmp_path / "odd.csv"
    lines = (place / "people.csv").read_text().splitlines()
    table.write_text("\n".join([*lines[:2], lines[2].replace("male", "nobody")]))
    done = run("publish", "uniform", table, "-s", place / "people.toml", "-e", "1",
               "-o", tmp_path / "v")  # fmt: skip
    assert done.code == 4
    assert "choose --outside drop to leave such rows out" in done.err
    assert "--outside missing" in done.err
    with pytest.raises(sc.DomainError, match="choose outside='drop' to leave"):
        sc.publish(table, place / "people.toml", sc.Uniform(epsilon=1))


def test_commands_within_commands(place, tmp_path):
    """`db` and `ledger` are groups: the options are those of the command in the group."""
    made = run("ledger", "create", tmp_path / "l", "--neighbours", "replace", "--sensitive", "sex")
    assert "sensitive columns with --neighbours values, and only then" in made.err
    asked = ("db", "create", tmp_path / "d", place / "people.csv", "-s", place / "people.toml")
    made = run(*asked, "-e", "0.5", "--noise", "40", "--quota", "anna=9")
    assert made.err.startswith("Error: --quota must be enough for one answer")


def test_what_was_not_typed_as_an_option_keeps_its_owner(place, tmp_path):
    done = run("compare", place / "people.csv", "-s", place / "people.toml", "-m", "aroma",
               "--setting", "aroma:k=1", "-o", tmp_path / "c.html")  # fmt: skip
    assert "The 'k' parameter of Aroma must be" in done.err


def test_python_is_spoken_again_afterwards(place):
    assert publish(place, "uniform", "-e", "0").code == 2
    assert (named("outside"), setting("outside", "drop")) == ("outside", "outside='drop'")
    with pytest.raises(sc.ParameterError, match="The 'epsilon' parameter of Uniform must be"):
        sc.Uniform(epsilon=0)


def test_flags_and_unknown_options():
    with using_dialect(ShellDialect(lambda: None)):
        assert setting("views", 3) == "--views 3"
        assert setting("false_cells", 10) == "--false-cells 10"
        assert setting("suppress", True) == "--suppress"
        assert setting("suppress", False) == "no --suppress"
        assert setting("rule", "filter priority") == "--rule 'filter priority'"
        assert named("joint") == "--joint"


def test_no_sentence_is_written_in_pythons_words():
    """What an error says about parameters goes through `named` and `setting`."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in FRONT:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise):
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                wrong = [t for t in texts if isinstance(t, str) and re.search(r"\b\w+=['\"\w]", t)]
                found += [f"{path.name}: {text}" for text in wrong]
    allowed = ("words for a missing value need missing=True", "name=value")  # of Python, of audit
    assert [each for each in found if not any(part in each for part in allowed)] == []


def test_what_a_newcomer_gets_wrong(place, tmp_path):
    """A place that is no release is refused before anything is charged; a file of SQL that is not
    there; a schema that begins with the mark of Windows; a schema with a slip in its tables.
    """
    ledger, words = tmp_path / "ledger", ("-e", "1", "--force")
    made = run("ledger", "create", ledger, "--neighbours", "values", "--sensitive", "condition")
    assert made.code == 0, made.err
    source = (place / "people.csv", "-s", place / "people.toml")
    taken = run("publish", "uniform", *source, *words, "-o", place, "--ledger", ledger)
    assert taken.code == 6
    assert "not even --force replaces it" in taken.err
    assert run("ledger", "show", ledger, "--json").json["releases"] == []
    asked = run("ask", place / "view", "--file", tmp_path / "none.sql")
    assert (asked.code, "There is no file" in asked.err) == (2, True)
    marked = tmp_path / "marked.toml"
    marked.write_text((place / "people.toml").read_text("utf-8"), "utf-8-sig")
    done = run(
        "publish", "uniform", place / "people.csv", "-s", marked, *words, "-o", tmp_path / "v"
    )
    assert done.code == 0, done.err
    marked.write_text("[attribute.age]\n")
    done = run(
        "publish", "uniform", place / "people.csv", "-s", marked, *words, "-o", tmp_path / "v"
    )
    assert "write [attributes.NAME]" in done.err
    done = run("release", "republish", place / "view", place / "people.csv")
    assert "that needs alphabeta with --views 2 or more" in done.err
