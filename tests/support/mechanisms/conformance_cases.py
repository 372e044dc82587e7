"""How mechanisms are made for the conformance tests, and what they must refuse.

A mechanism that has no entry here gets the default case of its class. Entries are for other ways to
use a mechanism, as "frapp, published", and for parameters that it must refuse.
"""

from __future__ import annotations

import scumble as sc
from scumble.private.mechanism import Mechanism, mechanisms
from tests.support.mechanisms.conformance_case import Case, default_case
from tests.support.mechanisms.conformance_publishers import PUBLISHERS
from tests.support.people import JOBS


def _histogram(**changed) -> Mechanism:
    given = {"attributes": ["age", "sex", "job"], "epsilon": 1, "neighbours": "replace"} | changed
    return sc.Histogram(given.pop("attributes"), **given)


def _marginals(**changed) -> Mechanism:
    given = {"ways": 2, "epsilon": 1, "neighbours": "replace"} | changed
    return sc.Marginals(["age", "sex", "job"], **given)


_TABLES_REFUSED = (
    ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
    ({"ways": 2}, "'ways' parameter"),
    ({"ways": 1.5}, "'ways' parameter"),
    ({"neighbours": "all"}, "'replace' or 'add_remove'"),
    ({"contribution": 0}, "a whole number of at least 1"),
    ({"attributes": []}, "one or more different attribute names"),
)


def _hierarchy(**changed) -> Mechanism:
    given = {"attributes": ["age", "sex", "job"], "epsilon": 1, "neighbours": "replace"} | changed
    return sc.Hierarchy(given.pop("attributes"), **given)


def _wavelet(**changed) -> Mechanism:
    given = {"attributes": ["age", "sex", "job"], "epsilon": 1, "neighbours": "replace"} | changed
    return sc.Wavelet(given.pop("attributes"), transform="all", **given)


def _dyadic(**changed) -> Mechanism:
    given = {"attributes": ["age", "sex", "job"], "epsilon": 1, "neighbours": "replace"}
    given |= {"delta": 1e-6} | changed
    return sc.Dyadic(given.pop("attributes"), **given)


def _sparse(**changed) -> Mechanism:
    given = {"epsilon": 1, "neighbours": "add_remove"} | changed
    return sc.Sparse(["age", "sex", "job"], **given)


_AXIS_REFUSED = (
    ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
    ({"epsilon": 1e-30}, "larger than any count"),
    ({"delta": 1}, "between 0 and 1"),
    ({"neighbours": "all"}, "'replace' or 'add_remove'"),
    ({"contribution": 0}, "a whole number of at least 1"),
    ({"attributes": []}, "one or more different attribute names"),
    ({"taxonomy": ["cook"]}, "nested lists of the attribute's values"),
    ({"taxonomy": {"age": []}}, "nested lists of the attribute's values"),
    ({"taxonomy": {"age": [[1], []]}}, "nested lists of the attribute's values"),
    ({"taxonomy": {"job": ["cook"]}}, "about the counted attributes (age)"),
)


# Whatever the ε, its δ allows noise that fits.
_DYADIC_REFUSED = tuple(each for each in _AXIS_REFUSED if each[0] != {"epsilon": 1e-30})


def _workload(**changed) -> Mechanism:
    questions = [
        "SELECT age, sex, job, COUNT(*) FROM t GROUP BY age, sex, job",
        "SELECT COUNT(*) FROM t WHERE age < 5",
    ]
    given = {"attributes": ["age", "sex", "job"], "queries": questions, "epsilon": 1}
    given |= {"neighbours": "replace"} | changed
    return sc.Workload(given.pop("attributes"), **given)


def _synthesis(**changed) -> Mechanism:
    given = {"epsilon": 1, "delta": 1e-6, "neighbours": "replace"} | changed
    return sc.Synthesis(["age", "sex", "job"], **given)


def _mwem(**changed) -> Mechanism:
    questions = ["SELECT job, COUNT(*) FROM t GROUP BY job", "SELECT COUNT(*) FROM t WHERE age < 5"]
    given = {"queries": questions, "rounds": 3, "epsilon": 1, "neighbours": "replace"} | changed
    return sc.Mwem(["age", "sex", "job"], **given)


CASES = {
    **PUBLISHERS,
    "histogram": Case(
        _histogram,
        (
            ({"epsilon": 0}, "'epsilon' parameter of Histogram must be a number above 0"),
            ({"epsilon": float("nan")}, "Got nan instead"),
            ({"epsilon": 1000}, "Got 1000 instead"),
            ({"epsilon": 1e-300}, "the noise would be larger than"),
            ({"contribution": 10**30}, "the noise would be larger than"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"contribution": 0}, "a whole number of at least 1"),
            ({"contribution": 1.5}, "a whole number of at least 1"),
            ({"attributes": []}, "one or more different attribute names"),
            ({"attributes": ["age", "age"]}, "one or more different attribute names"),
        ),
    ),
    "histogram, sums": Case(
        lambda: _histogram(sums=["age"]),
        (
            ({"sums": ["age"], "sum_ways": 1, "sum_share": 1}, "between 0 and 1"),
            ({"sums": ["age"], "sum_ways": 0}, "a whole number from 1 to"),
        ),
    ),
    "marginals": Case(
        _marginals,
        (
            *_TABLES_REFUSED,
            ({"sets": [["age"]]}, "either ways or sets"),
            ({"weights": "rows"}, "'cells', 'tables', or a list"),
            ({"delta": 1}, "between 0 and 1"),
            ({"delta": 0.1, "epsilon": 1e-10}, "at least 1e-09 with delta"),
        ),
    ),
    "marginals, gaussian": Case(lambda: _marginals(delta=1e-6), ()),
    "marginals, listed": Case(
        lambda: _marginals(ways=None, sets=[["age", "job"], ["age", "sex"]], weights=[1, 2]), ()
    ),
    "fourier": Case(
        lambda: sc.Fourier(["age", "sex", "job"], ways=2, epsilon=1, neighbours="replace"),
        _TABLES_REFUSED,
        ages=2,
        jobs=JOBS[:2],
    ),
    "datacube": Case(
        lambda: sc.Datacube(["age", "sex", "job"], epsilon=1, neighbours="replace"),
        (*_TABLES_REFUSED, ({"within": -1}, "'within' parameter of Datacube")),
    ),
    "datacube, gaussian": Case(
        lambda: sc.Datacube(
            ["age", "sex", "job"], ways=2, within=20, epsilon=1, delta=1e-6, neighbours="replace"
        ),
        (),
    ),
    "hierarchy": Case(
        _hierarchy,
        (
            *_AXIS_REFUSED,
            ({"fanout": 1}, "a whole number from 2 to"),
            ({"fanout": 2.5}, "a whole number from 2 to"),
            ({"budget": "geometric"}, "'uniform' or 'optimal'"),
            ({"root": "yes"}, "True or False"),
        ),
    ),
    "hierarchy, sums by columns": Case(
        lambda: _hierarchy(sums=["age"], sum_ways=1, delta=1e-6), ()
    ),
    "hierarchy, gaussian": Case(lambda: _hierarchy(delta=1e-6, budget="optimal", root=True), ()),
    "wavelet": Case(
        _wavelet,
        (*_AXIS_REFUSED, ({"transform": "some"}, "'large' or 'all'")),
    ),
    "wavelet, gaussian": Case(lambda: _wavelet(delta=1e-6), ()),
    "dyadic": Case(
        _dyadic,
        (
            *_DYADIC_REFUSED,
            ({"delta": None}, "needs a delta"),
            ({"sum_ways": 1}, "takes no sum_ways"),
        ),
    ),
    "sparse": Case(
        _sparse,
        (
            ({"epsilon": 0}, "'epsilon' parameter of Sparse must be a number above 0"),
            ({"epsilon": 1e-300}, "the noise would be larger than"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"attributes": []}, "one or more different attribute names"),
            ({"rule": "largest"}, "one of filter, threshold, priority, filter priority"),
            ({"size": 10}, "takes no size"),
            ({"rule": "priority"}, "'size' parameter of Sparse must be a whole number from 2"),
            ({"rule": "filter priority", "size": 1}, "Got 1 instead"),
            ({"false_cells": 0}, "'false_cells' parameter of Sparse must be a number above 0"),
            ({"false_cells": 1e9}, "at most 10,000,000"),
            ({"total": 1}, "between 0 and 1"),
        ),
    ),
    "sparse, threshold": Case(lambda: _sparse(rule="threshold", false_cells=20), ()),
    "sparse, priority": Case(lambda: _sparse(rule="priority", size=30), ()),
    "sparse, both": Case(lambda: _sparse(rule="filter priority", size=30, false_cells=5), ()),
    "workload": Case(
        _workload,
        (
            ({"epsilon": 0}, "'epsilon' parameter of Workload must be a number above 0"),
            ({"epsilon": 1e-300}, "the noise would be larger than"),
            ({"delta": 1}, "between 0 and 1"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            (
                {"queries": []},
                "a list of SQL counts, or the pathlib.Path of a file of them",
            ),
            ({"queries": "no such file.sql"}, "'queries' parameter of Workload"),
            ({"attributes": []}, "one or more different attribute names"),
        ),
    ),
    "workload, gaussian": Case(lambda: _workload(delta=1e-6), ()),
    "quadtree": Case(
        lambda: sc.Quadtree(["age", "sex", "job"], epsilon=1, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Quadtree must be a number above 0"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"contribution": 0}, "a whole number of at least 1"),
            ({"attributes": []}, "one or more different attribute names"),
            ({"delta": 1}, "between 0 and 1"),
            ({"height": 0}, "'height' parameter of Quadtree must be a whole number from 1 to 64"),
            ({"prune": 0}, "'prune' parameter of Quadtree must be a whole number of at least 1"),
            ({"prune": 2.5}, "Got 2.5 instead"),
        ),
    ),
    "quadtree, sums": Case(
        lambda: sc.Quadtree(["age", "sex", "job"], sums=["age"], epsilon=1, neighbours="replace"),
        (),
    ),
    "quadtree, gaussian": Case(
        lambda: sc.Quadtree(
            ["age", "sex", "job"], epsilon=1, delta=1e-6, neighbours="replace", prune=3
        ),
        (({"delta": float("nan")}, "Got nan instead"),),
    ),
    "kdtree": Case(
        lambda: sc.KdTree(["age", "sex", "job"], epsilon=2, neighbours="replace"),
        (
            ({"epsilon": -1}, "'epsilon' parameter of KdTree must be a number above 0"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"cuts": -1}, "'cuts' parameter of KdTree must be a whole number from 0 to 64"),
            ({"height": 3, "cuts": 4}, "a whole number from 0 to 3"),
            ({"split": "mean"}, "'median' or 'noisy_mean'"),
        ),
    ),
    "kdtree, means": Case(
        lambda: sc.KdTree(
            ["age", "sex", "job"], epsilon=2, neighbours="replace", cuts=1, split="noisy_mean"
        ),
        (({"prune": 0}, "a whole number of at least 1"),),
    ),
    "grid": Case(
        lambda: sc.Grid(["age", "sex", "job"], epsilon=3, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Grid must be a number above 0"),
            ({"adaptive": "no"}, "True or False"),
        ),
    ),
    "grid, uniform": Case(
        lambda: sc.Grid(["age", "sex", "job"], epsilon=3, neighbours="replace", adaptive=False),
        (({"neighbours": "all"}, "'replace' or 'add_remove'"),),
    ),
    "mosaic": Case(
        lambda: sc.Mosaic(["age", "sex", "job"], epsilon=3, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Mosaic must be a number above 0"),
            ({"contribution": 0}, "a whole number of at least 1"),
        ),
    ),
    "dawa": Case(
        lambda: sc.Dawa(["age"], epsilon=2, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Dawa must be a number above 0"),
            ({"attributes": ["age", "sex"]}, "must be one attribute name"),
        ),
        columns=("age",),
    ),
    "quantiles": Case(
        lambda: sc.Quantiles("age", epsilon=2, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Quantiles must be a number above 0"),
            ({"epsilon": 1e-300}, "the noise would be larger than"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"attribute": ""}, "must be a column"),
            ({"groups": ["age"]}, "a list of other columns, none of them twice"),
            ({"probabilities": []}, "a list of one to 100 different numbers"),
            ({"probabilities": [0.5, 1]}, "a number between 0 and 1"),
            ({"probabilities": [0.5, 0.5]}, "a list of one to 100 different numbers"),
        ),
        columns=("age",),
    ),
    "quantiles, by group": Case(
        lambda: sc.Quantiles("age", groups=["job"], epsilon=2, neighbours="add_remove"),
        (),
        columns=("age", "job"),
    ),
    "keys": Case(
        lambda: sc.Keys(["age"], epsilon=1, delta=1e-3, keys=1, neighbours="add_remove"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Keys must be a number above 0"),
            ({"delta": 0}, "'delta' parameter of Keys must be a number between 0 and 1"),
            ({"delta": None}, "'delta' parameter of Keys must be a number between 0 and 1"),
            ({"keys": 0}, "'keys' parameter of Keys must be a whole number from 1 to 10000"),
            ({"keys": 2}, "every row is a person with one key"),
            ({"rule": "largest"}, "one of auto, optimal, gaussian, sips, zealous, korolova"),
            ({"rule": "hong"}, "impossible without that person"),
            ({"counts": "yes"}, "True or False"),
            ({"within": "age"}, "the name of another column"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"attributes": []}, "one or more different attribute names"),
            ({"epsilon": 1e-7, "delta": 1e-9}, "hardly a key could be named"),
        ),
        columns=("age",),
    ),
    "keys, sums": Case(
        lambda: sc.Keys(["age"], epsilon=1, delta=1e-3, keys=1, neighbours="replace", rule="sips"),
        (),
        columns=("age",),
    ),
    "synthesis": Case(
        _synthesis,
        (
            ({"epsilon": 0}, "'epsilon' parameter of Synthesis must be a number above 0"),
            ({"epsilon": 1e-9}, "at least 1e-06"),
            ({"delta": 1}, "between 0 and 1"),
            ({"delta": None}, "between 0 and 1"),
            ({"extra": -1}, "'extra' parameter of Synthesis must be a whole number from 0"),
            ({"extra": 1.5}, "Got 1.5 instead"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"contribution": 0}, "a whole number of at least 1"),
            ({"attributes": []}, "one or more different attribute names"),
            ({"workload": []}, "lists of 1 to 6 different attributes"),
            ({"workload": [["height"]]}, "lists of 1 to 6 different attributes"),
            ({"workload": [["age"], "age"]}, "lists of 1 to 6 different attributes"),
            ({"weights": [1]}, "give workload too"),
            ({"workload": [["age"]], "weights": [1, 2]}, "one number above 0 for each set"),
            ({"workload": [["age"]], "weights": [0]}, "'weights' parameter of Synthesis"),
        ),
    ),
    "synthesis, sums": Case(
        lambda: _synthesis(sums=["age"]),
        (
            ({"sums": ["age"], "sum_ways": 4}, "a whole number from 1 to 3"),
            ({"sum_ways": 1}, "sum_ways is for sums"),
            ({"sums": ["age"], "sum_share": 1}, "between 0 and 1"),
        ),
    ),
    "synthesis, tree": Case(lambda: _synthesis(extra=0, neighbours="add_remove"), ()),
    "synthesis, workload": Case(
        lambda: _synthesis(workload=[["age", "sex", "job"], ["sex", "job"]], weights=[1, 2]), ()
    ),
    "dirichlet": Case(
        lambda: sc.Dirichlet(["job"], ["age", "sex"], epsilon=1),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Dirichlet must be a number above 0"),
            ({"target": []}, "one or more attribute names"),
            ({"target": ["job", "job"]}, "none of them twice"),
            ({"target": ["job"], "given": ["job"]}, "none of them twice"),
            ({"synthetic": 0}, "a whole number of at least 1"),
            ({"synthetic": 1.5}, "a whole number of at least 1"),
            ({"prior": -1}, "'prior' parameter of Dirichlet must be a number above 0"),
            ({"prior": 1e-3}, "so that a row can be drawn"),
            ({"prior": 1e30}, "at most 1099511627776"),
            ({"delta": 1, "synthetic": 5}, "between 0 and 1"),
            ({"delta": 1e-6}, "needs synthetic"),
            ({"epsilon": 1e-12, "synthetic": 10**6}, "outweigh any number of people"),
        ),
    ),
    "dirichlet, probabilistic": Case(
        lambda: sc.Dirichlet("job", "age", epsilon=1, delta=0.01, synthetic=10),
        (),
        columns=("age", "job"),
    ),
    "mwem": Case(
        lambda: _mwem(),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Mwem must be a number above 0"),
            ({"epsilon": 1e-300}, "the noise would be larger than"),
            ({"rounds": 0}, "'rounds' parameter of Mwem must be a whole number from 1 to 200"),
            (
                {"queries": []},
                "a list of SQL counts, or the pathlib.Path of a file of them",
            ),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"attributes": []}, "one or more different attribute names"),
        ),
    ),
    "mwem, add or remove": Case(lambda: _mwem(neighbours="add_remove"), ()),
    "privtree": Case(
        lambda: sc.PrivTree(["age", "sex", "job"], epsilon=4, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of PrivTree must be a number above 0"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"contribution": 1.5}, "a whole number of at least 1"),
        ),
    ),
}
FULL = {
    "mosaic": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "grid": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "dawa": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "hierarchy": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "wavelet": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "dyadic": {"attributes": ["age"], "epsilon": 1, "delta": 1e-6, "neighbours": "replace"},
    "partition": {"rho1": 0.2, "rho2": 0.5},
    "anatomy": {"l": 2},
    "generalise": {"k": 2},
    "histogram": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "marginals": {"attributes": ["age"], "ways": 1, "epsilon": 1, "neighbours": "replace"},
    "fourier": {"attributes": ["sex"], "ways": 1, "epsilon": 1, "neighbours": "replace"},
    "datacube": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "quadtree": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "kdtree": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "privtree": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "sparse": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "synthesis": {
        "attributes": ["age", "sex", "job"],
        "epsilon": 1,
        "delta": 1e-6,
        "neighbours": "replace",
    },
    "quantiles": {"attribute": "age", "epsilon": 1, "neighbours": "replace"},
    "keys": {
        "attributes": ["age"],
        "epsilon": 1,
        "delta": 1e-3,
        "keys": 1,
        "neighbours": "replace",
    },
    "dirichlet": {"target": ["job"], "given": ["age"], "epsilon": 1},
    "mwem": {
        "attributes": ["age"],
        "queries": ["SELECT COUNT(*) FROM t"],
        "epsilon": 1,
        "neighbours": "replace",
    },
    "workload": {
        "attributes": ["age"],
        "queries": ["SELECT COUNT(*) FROM t"],
        "epsilon": 1,
        "neighbours": "replace",
    },
}


def cases() -> dict[str, Case]:
    """The cases of all mechanisms of the registry that publish columns.

    Those of lists have a suite of their own, `tests/private/test_list_mechanisms.py`.
    """
    listed = {name.partition(",")[0] for name in CASES}
    kinds = {name: kind for name, kind in mechanisms().items() if not kind.of_lists}
    others = {n: default_case(kind) for n, kind in kinds.items() if n not in listed}
    return {**CASES, **others}


def full_parameters(method: str) -> dict:
    """Parameters of a mechanism that lack nothing, for one of them to be wrong."""
    if method in FULL or method in CASES:
        return dict(FULL.get(method, {}))
    return default_case(mechanisms()[method]).make().parameters
