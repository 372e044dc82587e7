"""The options of mechanisms are those of their constructors, and come from one generated file."""

import re
import subprocess
import sys
from pathlib import Path

from scumble.cli import generated_options
from scumble.cli.publish_options import MECHANISM_OPTIONS, mechanism_parameters, option_of
from scumble.cli.tools import make_options
from scumble.private.mechanism import constructor_parameters, mechanisms
from tests.support.terminal import child_command, run


def test_the_generated_file_is_up_to_date():
    """If this fails: make options."""
    path = Path(generated_options.__file__)
    assert path.read_text("utf-8") == make_options.generated_text()


def test_every_parameter_of_every_mechanism_has_an_option():
    wanted = {
        option_of(name, parameter.name)
        for name, kind in mechanisms().items()
        for parameter in constructor_parameters(kind)
    }
    assert set(MECHANISM_OPTIONS) == wanted
    assert tuple(mechanisms()) == generated_options.METHODS
    text = " ".join(run("publish", "--help").out.split())
    for option in MECHANISM_OPTIONS.values():
        assert option.name in text
        assert option.help in text


def test_no_option_is_a_number_for_one_method_and_text_for_another():
    for name, uses in make_options._uses().items():
        kinds = {make_options._kind(name, each.annotation)[0] for each in uses.values()}
        assert len(kinds) == 1 or kinds in ({"number", "whole"}, {"numbers", "names"}), name


def test_help_of_publish_imports_no_mechanism():
    command = child_command()
    words = [sys.executable, "-X", "importtime", *command[1:], "publish", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE)
    assert "scumble.cli.generated_options" in imported
    private = {name for name in imported if name.startswith("scumble.private")}
    assert private == set()


def test_values_of_options_become_arguments(tmp_path):
    (tmp_path / "w.json").write_text('{"age": [1, 2]}')
    given = {
        "epsilon": 1.0,
        "k": 20.0,
        "several": False,
        "attributes": ["age, sex", '"Weight, kg"'],
        "sets": ["age,sex", "sex"],
        "weights": "1,2",
        "sources": str(tmp_path / "w.json"),
        "pool": "uniform",
        "adaptive": False,
        "rule": None,
    }
    found = mechanism_parameters(given)
    assert found == {
        "epsilon": 1.0,
        "k": 20,
        "several": "each",
        "attributes": ["age", "sex", "Weight, kg"],
        "sets": [["age", "sex"], ["sex"]],
        "weights": ["1", "2"],
        "sources": {"age": [1, 2]},
        "pool": "uniform",
        "adaptive": False,
    }
    assert isinstance(found["k"], int)
    assert mechanism_parameters({"weights": "cells", "several": True, "k": 2.5}) == {
        "weights": "cells",
        "several": "compound",
        "k": 2.5,
    }


def test_care_stands_for_an_epsilon(place):
    words = ("recommend", "-s", place / "people.toml", "-a", "age", "-n", "99")
    found = [run(*words, *given, "--json") for given in (("-e", "0.46"), ("--care", "careful"))]
    assert found[0].json == found[1].json
    assert found[0].json["best"]["command"].startswith("scumble publish TABLE --schema ")
    assert "can reach at most 15 %." in run(*words, "--care", "careful").out
    told = run(*words, "-e", "1", "--all").out
    assert "Not recommended here:" in told
    assert "uniform: subset is at least as private" in told
    refused = {(): "either --epsilon or --care", ("-e", "1", "--care", "open"): "either --epsilon"}
    refused[("--care", "lax")] = "careful, balanced, open"
    refused[("-e", "1", "--use", "fun")] = "'questions', 'rows', 'tables', 'live'"
    for given, sentence in refused.items():
        done = run(*words, *given)
        assert (done.code, sentence in done.err) == (2, True), done.err


def test_rows_say_what_the_distance_of_their_tables_means(place):
    told = run("rows", place / "counts", "-n", "50").err
    assert re.search(r"differ by \d\.\d{3} on average \(0: equal, 2: nothing in common\)", told)
