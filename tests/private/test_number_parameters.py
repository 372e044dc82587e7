"""Text in place of a number is refused: every number of every mechanism and public function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scumble as sc
from scumble.private.mechanism import constructor_parameters, create
from tests.support.people import people, schema

_SUMMARY = {"attributes": ["age", "job"], "epsilon": 1, "neighbours": "replace"}
_SUMMED = {**_SUMMARY, "sums": ["age"], "sum_share": 0.3, "sum_ways": 1}
_LIST = {"attribute": "pages", "epsilon": 1, "neighbours": "replace", "contribution": 2}
_POINTS = {"x": "pages", "y": "lines", "epsilon": 1, "neighbours": "replace"}

# Of each mechanism settings that are allowed, which have all of its numbers among them.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "uniform": [
        {"epsilon": 1, "joint": True},
        {"gamma": 3},
        {"keep": 0.5},
        {"rho1": 0.1, "rho2": 0.5},
    ],
    "subset": [{"epsilon": 1, "size": 2}, {"gamma": 3}, {"rho1": 0.1, "rho2": 0.5}],
    "frapp": [
        {"epsilon": 1},
        {"gamma": 3},
        {"keep": 0.5},
        {"rho1": 0.1, "rho2": 0.5},
        {"reading": "published", "k": 10, "keep": 0.1},
    ],
    "alphabeta": [
        {"k": 10, "gamma": 0.5},
        {"d": 0.1, "gamma": 0.5, "keep": 0.4, "multiplicity": 2, "views": 2},
        {"epsilon": 1},
        {"alpha": 0.5, "beta": 0.25, "sources": {"sex": [1.0, 2.0]}},
    ],
    "partition": [{"rho1": 0.2, "rho2": 0.5, "confidence": 0.9, "plain": True}],
    "anatomy": [{"l": 2, "suppress": True}],
    "generalise": [
        {"k": 2, "l": 2, "c": 2.0, "diversity": "recursive"},
        {"k": 2, "t": 0.3, "weights": {"age": 2.0}},
        {"k": 2, "alpha": 0.5, "suppress": 0.1, "recoding": "global"},
    ],
    "aroma": [
        {"k": 3, "closeness": 2.0, "pool": [1.0, 2.0]},
        {"k": 3, "joint": False},
        {"epsilon": 1, "f": 0.5},
    ],
    "histogram": [{**_SUMMED, "contribution": 2, "person": "who"}],
    "sparse": [
        {**_SUMMARY, "contribution": 2, "person": "who", "rule": "priority", "size": 10},
        {**_SUMMARY, "false_cells": 10, "total": 0.1},
    ],
    "hierarchy": [{**_SUMMED, "contribution": 1, "delta": 1e-6, "fanout": 4, "root": True}],
    "wavelet": [{**_SUMMED, "contribution": 1, "delta": 1e-6}],
    "dyadic": [{**_SUMMARY, "sums": ["age"], "contribution": 1, "delta": 1e-6}],
    "marginals": [{**_SUMMED, "contribution": 1, "delta": 1e-6, "ways": 1, "weights": [1.0, 2.0]}],
    "fourier": [{**_SUMMED, "contribution": 1, "ways": 1}],
    "datacube": [{**_SUMMED, "contribution": 1, "delta": 1e-6, "ways": 1, "within": 2.0}],
    "workload": [
        {**_SUMMED, "contribution": 1, "delta": 1e-6, "queries": ["SELECT COUNT(*) FROM t"]}
    ],
    "quadtree": [{**_SUMMED, "contribution": 1, "delta": 1e-6, "height": 2, "prune": 3}],
    "kdtree": [{**_SUMMED, "contribution": 1, "height": 2, "cuts": 1, "prune": 3}],
    "privtree": [{**_SUMMED, "contribution": 1}],
    "grid": [{**_SUMMED, "contribution": 1, "adaptive": True}],
    "mosaic": [{**_SUMMED, "contribution": 1}],
    "dawa": [{**_SUMMED, "attributes": ["age"], "contribution": 1}],
    "quantiles": [
        {"attribute": "age", "epsilon": 1, "neighbours": "replace", "contribution": 1}
        | {"probabilities": [0.5, 0.9]}
    ],
    "keys": [
        {"attributes": ["age"], "epsilon": 1, "delta": 1e-3, "keys": 1, "neighbours": "replace"}
        | {"counts": True}
    ],
    "baskets": [{**_LIST, "top": 3, "delta": 1e-6, "longest": 2, "items": 3}],
    "diffpart": [{**_LIST, "fanout": 3, "false_parts": 0.5}],
    "sequences": [{**_LIST, "length": 4, "depth": 2}],
    "trajectories": [{**_POINTS, "contribution": 1, "length": 4}],
    "dirichlet": [
        {"target": ["job"], "given": ["age"], "epsilon": 1, "synthetic": 10, "delta": 1e-6},
        {"target": ["job"], "given": ["age"], "epsilon": 1, "prior": 3.0},
    ],
    "mwem": [{**_SUMMARY, "contribution": 1, "queries": ["SELECT COUNT(*) FROM t"], "rounds": 3}],
    "synthesis": [
        {**_SUMMED, "contribution": 1, "delta": 1e-6, "extra": 3}
        | {"workload": [["age", "job"]], "weights": [1.0]},
    ],
}


def _numbers(kind: type[sc.mechanisms]) -> set[str]:
    """The parameters of a mechanism that take a number, a truth value, or several of them."""
    kinds = ("int", "float", "bool")
    known = constructor_parameters(kind)
    return {each.name for each in known if any(name in str(each.annotation) for name in kinds)}


def _as_text(value: Any) -> Any:
    """The value with its number as text; of several numbers, the first."""
    if isinstance(value, list):
        return [str(value[0]), *value[1:]]
    if isinstance(value, dict):
        return {name: _as_text(each) for name, each in value.items()}
    return str(value)


def _cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for method, settings in SETTINGS.items():
        for given in settings:
            for name in _numbers(sc.mechanisms()[method]) & set(given):
                yield method, name, given


def test_every_number_of_every_mechanism_is_here() -> None:
    assert set(SETTINGS) == set(sc.mechanisms())
    for method, settings in SETTINGS.items():
        listed = set().union(*settings)
        refused = {"sum_ways", "sum_share"} if method == "dyadic" else set()
        assert _numbers(sc.mechanisms()[method]) <= listed | refused, method
        for given in settings:
            create(method, **given)


def test_mechanisms_refuse_text_in_place_of_a_number(subtests: pytest.Subtests) -> None:
    for method, name, given in _cases():
        kind = sc.mechanisms()[method]
        with subtests.test(method=method, name=name, given=given):
            with pytest.raises(sc.ParameterError) as caught:
                kind(**{**given, name: _as_text(given[name])})
            said = str(caught.value)
            assert said.startswith(f"The '{name}' parameter of {kind.__name__} must be "), said
            assert said.endswith(" instead."), said


# Of each public function its numbers, and a call with one of them.
Call = Callable[[Path, Any], object]
FUNCTIONS: dict[str, tuple[Any, Call]] = {
    "publish, epsilon": (1, lambda _, x: sc.publish(people(9, schema()), schema(), epsilon=x)),
    "publish, delta": (
        1e-6,
        lambda _, x: sc.publish(people(9, schema()), schema(), epsilon=1, delta=x),
    ),
    "PublishOptions, seed": (1, lambda _, x: _publish(seed=x)),
    "PublishOptions, sample": (0.5, lambda _, x: _publish(sample=x)),
    "PublishOptions, jobs": (1, lambda _, x: _publish(jobs=x)),
    "PublishOptions, reveal": (False, lambda _, x: _publish(reveal=x)),
    "recommend, rows": (9, lambda _, x: sc.recommend(schema(), rows=x, use="tables", epsilon=1)),
    "recommend, epsilon": (1, lambda _, x: sc.recommend(schema(), rows=9, use="tables", epsilon=x)),
    "recommend, occupied": (
        0.5,
        lambda _, x: sc.recommend(schema(), rows=9, use="tables", epsilon=1, occupied=x),
    ),
    "Ledger, epsilon": (1, lambda path, x: _ledger(path, epsilon=x)),
    "Ledger, delta": (1e-6, lambda path, x: _ledger(path, epsilon=1, delta=x)),
    "Ledger, pure": (1, lambda path, x: _ledger(path, epsilon=2, delta=1e-6, pure=x)),
    "Ledger, contribution": (2, lambda path, x: _ledger(path, epsilon=1, contribution=x)),
    "Database, epsilon": (1, lambda path, x: _database(path, epsilon=x)),
    "Database, noise": (40, lambda path, x: _database(path, noise=x)),
    "Database, quotas": (0.5, lambda path, x: _database(path, quotas={"anna": x})),
    "Database, buckets": (100, lambda path, x: _database(path, buckets=x)),
    "Database, relax": (2, lambda path, x: _database(path, relax=x)),
    "set_quota, epsilon": (0.5, lambda path, x: _database(path).set_quota("anna", x)),
    "AskOptions, max_relaxation_error": (5, lambda path, x: _ask(path, max_relaxation_error=x)),
    "AskOptions, weights": (5, lambda path, x: _ask(path, weights={"age": x})),
    "Aroma.k_for, epsilon": (1, lambda _, x: sc.Aroma.k_for(x, 0.5)),
    "Aroma.k_for, f": (0.5, lambda _, x: sc.Aroma.k_for(1, x)),
    "laplace, epsilon": (1, lambda _, x: sc.primitives.laplace([1], sensitivity=1, epsilon=x)),
    "laplace, sensitivity": (1, lambda _, x: sc.primitives.laplace([1], sensitivity=x, epsilon=1)),
    "geometric, epsilon": (1, lambda _, x: sc.primitives.geometric([1], sensitivity=1, epsilon=x)),
    "gaussian, delta": (
        1e-6,
        lambda _, x: sc.primitives.gaussian([1], sensitivity=1, epsilon=1, delta=x),
    ),
    "interval, level": (0.9, lambda _, x: _publish().number(_COUNT).interval(x)),
    "to_pandas, level": (0.9, lambda _, x: _publish().groups(_GROUPS).to_pandas(x)),
    "plot, level": (0.9, lambda _, x: _publish().groups(_GROUPS).plot(x)),
}
_COUNT = "SELECT COUNT(*) FROM t"
_GROUPS = "SELECT sex, COUNT(*) FROM t GROUP BY sex"


def _publish(**options: Any) -> sc.Release:
    options = {"seed": 1} | options
    mechanism = sc.Histogram(["sex"], epsilon=1, neighbours="add_remove")
    return sc.publish(
        people(9, schema()), schema(), mechanism, options=sc.PublishOptions(**options)
    )


def _ledger(path: Path, **given: Any) -> sc.Ledger:
    return sc.Ledger.create(path, neighbours="replace", **given)


def _database(path: Path, **given: Any) -> sc.Database:
    given = {"epsilon": 1, "noise": 40, "attributes": ["age"]} | given
    return sc.Database.create(path, people(9, schema()), schema(), **given)


def _ask(path: Path, **options: Any) -> object:
    return _database(path).ask(
        "SELECT COUNT(*) FROM t WHERE age < 3", options=sc.AskOptions(**options)
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_refuse_text_in_place_of_a_number(name: str, tmp_path: Path) -> None:
    number, call = FUNCTIONS[name]
    call(tmp_path / "number", number)
    with pytest.raises(sc.ParameterError) as caught:
        call(tmp_path / "text", str(number))
    said = str(caught.value)
    assert f"'{name.partition(', ')[2]}' parameter of " in said, said
    assert said.endswith(f"Got '{number}' instead."), said


@pytest.mark.parametrize("number", [Fraction(1, 3), np.float64(0.5), np.int64(2)])
def test_numbers_of_other_types_are_taken(number: Any) -> None:
    assert sc.Uniform(epsilon=number).guarantee(schema())


@pytest.mark.parametrize("text", ["1", "1/3", " 0.5 ", "1e-1"])
def test_text_of_a_file_or_a_command_line_is_taken(text: str) -> None:
    mechanism = create("uniform", epsilon=text)
    assert mechanism.parameters["epsilon"] == text
    assert type(mechanism)(**mechanism.parameters).parameters == mechanism.parameters
