"""The options of a method are those of the constructor of its mechanism."""

import re

import pytest

from scumble.cli.method_options import method_options
from scumble.model.errors import ParameterError
from scumble.private.mechanism import constructor_parameters, mechanisms
from tests.support.terminal import run


def test_every_parameter_of_every_mechanism_has_an_option(subtests):
    for name, kind in mechanisms().items():
        with subtests.test(method=name):
            words = "".join(run("publish", name, "--help").out.split())
            own = method_options(name, kind)
            assert list(own) == [each.name for each in constructor_parameters(kind)]
            for option in own.values():
                assert option.name in words
                assert "".join(option.help.split()) in words
            assert "Promises:" in words


def test_what_one_method_has_is_an_option_of_that_method():
    for option, methods in {
        "--levels": {"aroma"},
        "--update-record": {"aroma", "alphabeta"},
        "--views": {"alphabeta"},
        "--k": {"aroma", "generalise"},
        "--workload": {"synthesis"},
    }.items():
        found = {n for n in mechanisms() if f" {option} " in run("publish", n, "--help").out}
        assert found == methods


def test_an_option_is_read_alike_for_all_methods():
    kinds: dict[str, set[str]] = {}
    for name, kind in mechanisms().items():
        for option in method_options(name, kind).values():
            kinds.setdefault(option.name, set()).add(option.kind)
    for name, found in kinds.items():
        assert len(found) == 1 or found in ({"number", "whole"}, {"text", "names"}), name


VALUES = [
    ("uniform", "epsilon", 1.0, 1.0),
    ("aroma", "k", 20, 20),
    ("uniform", "joint", False, False),
    ("aroma", "joint", True, True),
    ("histogram", "attributes", ["age, sex", '"Weight, kg"'], ["age", "sex", "Weight, kg"]),
    ("marginals", "sets", ["age,sex", "sex"], [["age", "sex"], ["sex"]]),
    ("marginals", "weights", "1,2", ["1", "2"]),
    ("marginals", "weights", "cells", "cells"),
    ("synthesis", "weights", "1,2", ["1", "2"]),
    ("aroma", "pool", "uniform", "uniform"),
    ("aroma", "closeness", 2.5, 2.5),
    ("grid", "adaptive", False, False),
]


def test_values_of_options_become_arguments(subtests):
    for method, parameter, given, argument in VALUES:
        with subtests.test(method=method, parameter=parameter):
            found = method_options(method, mechanisms()[method])[parameter].read(given)
            assert found == argument
    prior = method_options("frapp", mechanisms()["frapp"])["k"]
    assert (prior.name, prior.read(20.0), type(prior.read(20.0))) == ("--prior-multiple", 20, int)


def test_files_of_weights(tmp_path):
    option = method_options("alphabeta", mechanisms()["alphabeta"])["sources"]
    (tmp_path / "w.json").write_text('{"age": [1, 2]}')
    assert option.read(str(tmp_path / "w.json")) == {"age": [1, 2]}
    with pytest.raises(ParameterError, match="a readable file of JSON"):
        option.read(str(tmp_path / "none.json"))


def test_flags_that_are_on_can_be_turned_off():
    assert "--counts / --no-counts" in run("publish", "keys", "--help").out
    assert "--plain  " in run("publish", "partition", "--help").out


NO_METHOD = [
    (("histogramm", "people.csv"), "no method and no file 'histogramm'. Did you mean 'histogram'?"),
    (("-s", "s.toml", "uniform", "people.csv"), "comes first: scumble publish uniform SOURCE ..."),
    (("people.csv", "--method", "uniform"), "comes first: scumble publish uniform SOURCE ..."),
]


def test_a_command_without_a_method_says_what_to_write(subtests):
    for words, sentence in NO_METHOD:
        with subtests.test(words=words):
            done = run("publish", *words)
            assert (done.code, done.err.startswith("Error: ")) == (2, True)
            assert sentence in done.err


def test_care_stands_for_an_epsilon(place):
    words = ("recommend", "-s", place / "people.toml", "-a", "age", "--rows", "99")
    found = [run(*words, *given, "--json") for given in (("-e", "0.46"), ("--care", "careful"))]
    assert found[0].json == found[1].json
    assert found[0].json["best"]["command"].startswith("scumble publish privtree TABLE --schema ")
    assert "can reach at most 15 %." in run(*words, "--care", "careful").out
    told = run(*words, "-e", "1", "--all").out
    assert "Not recommended here:" in told
    assert "uniform: subset is at least as private" in told
    refused = {(): "either --epsilon or --care", ("-e", "1", "--care", "open"): "either --epsilon"}
    refused[("--care", "lax")] = "careful, balanced, open"
    refused[("-e", "1", "--use", "fun")] = "one of questions, rows, tables, live"
    for given, sentence in refused.items():
        done = run(*words, *given)
        assert (done.code, sentence in done.err) == (2, True), done.err


def test_rows_say_what_the_distance_of_their_tables_means(place):
    told = run("rows", place / "counts", "-n", "50").err
    assert re.search(
        r"differ by \d\.\d{3} on average \(0: equal, 2 or more: nothing in common\)", told
    )
