"""No text of a release or of an error reaches a terminal with a control character in it."""

from __future__ import annotations

import re

import pytest
import typer

import scumble as sc
from scumble.cli import console, printing
from scumble.model.errors import SchemaError
from scumble.model.schema.names import look_alikes
from scumble.public.release import Release
from tests.support import people
from tests.support.terminal import run

HURTFUL = ["\x1b[2J", "a\x07", "a\x00b", "a\rb", "\u202eabc", "a\x9b31m", "\u2066a", "a\nb"]
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def test_schemas_refuse_control_characters(subtests) -> None:
    for text in HURTFUL:
        with subtests.test(text=text):
            with pytest.raises(SchemaError, match=r"control character.*U\+"):
                sc.Attribute(text, "identifier")
            with pytest.raises(SchemaError, match=r"control character.*U\+"):
                sc.Attribute("x", "quasi", sc.Category(("a", text)))


def test_every_way_to_the_terminal_escapes_them(capsys, subtests) -> None:
    for text in HURTFUL:
        with subtests.test(text=text):
            console.say(text)
            console.echo(text)
            console.print_json({text: [text]})
            printing.bullets([text])
            printing.table([text, "b"], [[text, text]], 1)
            console.stdout().print(text, markup=False)
            printed = capsys.readouterr()
            assert not RAW.search(printed.out + printed.err)


def test_a_release_in_memory_with_hurtful_sentences_is_shown_escaped(tmp_path, capsys) -> None:
    schema = people.schema()
    release = sc.publish(people.people(50, schema), schema, sc.Uniform(epsilon=1))
    bad = release.manifest.guarantees[0]
    object.__setattr__(bad, "sentence", "\x1b[31mred\x07 \u202e")
    object.__setattr__(release.manifest, "report", {"\x1b]0;title\x07": "\x9b"})
    printing.show_release(release, tmp_path)
    printing.show_published(release, tmp_path)
    shown = capsys.readouterr().out
    assert not RAW.search(shown)
    assert "\\x1b[31mred" in shown
    assert isinstance(release, Release)


def test_errors_are_escaped() -> None:
    program = typer.Typer(cls=console.ErrorReportingGroup)

    @program.command()
    def fail() -> None:
        raise SchemaError("\x1b[2J\u202e")

    @program.command()
    def other() -> None:
        pass

    done = run("fail", program=program)
    assert done.code == SchemaError.exit_code
    assert not RAW.search(done.err)
    assert "\\x1b[2J\\u202e" in done.err


def test_names_that_look_alike_are_pointed_out() -> None:
    latin, cyrillic, joined = "cap", "с\u0430р", "ca\u200bp"
    assert look_alikes([latin, cyrillic, joined, "cup"]) == [(latin, cyrillic), (latin, joined)]
    schema = sc.Schema(
        (
            sc.Attribute(latin, "identifier"),
            sc.Attribute(cyrillic, "quasi", sc.Category(("x", "х"))),
        )
    )
    first, second = schema.checks()
    assert "are names that look alike" in first
    assert "are values of" in second
    assert "\\u0430" in first  # written so that the difference is seen


def test_words_of_other_languages_are_no_control_characters() -> None:
    words = ("می\u200cخواهم", "👩\u200d⚕️", "naïve", "Ελλάδα", "שלום")
    assert sc.Attribute("word", "quasi", sc.Category(words)).size == 5
