"""How every mechanism is made for the conformance tests, and what it must refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from people import JOBS, people, schema

import scumble as sc
from scumble.mechanism import Mechanism

TABLES = {"empty": 0, "one row": 1, "skewed": 500, "ordinary": 400}  # and how many rows


@dataclass(frozen=True)
class Case:
    """A mechanism, how to make it, and parameters that it must refuse with their names in the
    sentence; and tables to which it cannot keep its promise, which it must refuse. `ages` is the
    size of the domain of one attribute, for mechanisms that need a large one; `jobs` is that of
    another, for those that need small ones. `columns` are those that it publishes.
    """

    make: Callable[[], Mechanism]
    refused: tuple[tuple[dict, str], ...]
    unserved: tuple[str, ...] = ()
    ages: int = 10
    jobs: tuple[str, ...] = JOBS
    columns: tuple[str, ...] = ("age", "sex", "job")

    def asked(self, *questions: str) -> list[str]:
        """The questions about columns that it publishes."""
        hidden = {"age", "sex", "job"} - set(self.columns)
        return [each for each in questions if not any(name in each for name in hidden)]

    @property
    def schema(self) -> sc.Schema:
        return schema(ages=self.ages, jobs=self.jobs)

    def table(self, kind: str) -> pa.Table:
        if kind == "skewed":
            age = min(3, self.ages - 1)
            return pa.table({"age": [age] * 500, "sex": ["f"] * 500, "job": ["cook"] * 500})
        return people(TABLES[kind], self.schema)

    def publish(self, kind: str = "ordinary", seed: int | None = 1) -> sc.Release:
        return sc.publish(self.table(kind), self.schema, self.make(), seed=seed)


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


def _workload(**changed) -> Mechanism:
    questions = [
        "SELECT age, sex, job, COUNT(*) FROM t GROUP BY age, sex, job",
        "SELECT COUNT(*) FROM t WHERE age < 5",
    ]
    given = {"attributes": ["age", "sex", "job"], "queries": questions, "epsilon": 1}
    given |= {"neighbours": "replace"} | changed
    return sc.Workload(given.pop("attributes"), **given)


CASES = {
    "uniform": Case(
        lambda: sc.Uniform(epsilon=1),
        (
            ({}, "exactly one of"),
            ({"epsilon": 1, "gamma": 2}, "exactly one of"),
            ({"rho1": 0.1}, "exactly one of"),
            ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
            ({"epsilon": -1}, "Got -1 instead"),
            ({"epsilon": float("nan")}, "Got nan instead"),
            ({"epsilon": float("inf")}, "Got inf instead"),
            ({"epsilon": 101}, "Got 101 instead"),
            ({"epsilon": 1e300}, "Got 1e+300 instead"),
            ({"gamma": 1e300}, "at most 1e+40"),
            ({"epsilon": True}, "Got True instead"),
            ({"epsilon": "much"}, "Got 'much' instead"),
            ({"epsilon": [1]}, "instead"),
            ({"gamma": 1}, "'gamma' parameter of Uniform must be a number above 1"),
            ({"keep": 0}, "between 0 and 1"),
            ({"keep": 1}, "between 0 and 1"),
            ({"keep": 1e-15}, "at least 1e-12"),
            ({"rho1": 0.5, "rho2": 0.5}, "below rho2"),
            ({"rho1": 0.6, "rho2": 0.5}, "below rho2"),
            ({"rho1": 0, "rho2": 0.5}, "between 0 and 1"),
            ({"rho1": 0.1, "rho2": 1}, "between 0 and 1"),
            ({"epsilon": 1, "several": "both"}, "'each' or 'compound'"),
        ),
    ),
    "frapp": Case(
        lambda: sc.Frapp(epsilon=5),
        (
            ({}, "exactly one of"),
            ({"epsilon": 1, "keep": 0.5}, "exactly one of"),
            ({"epsilon": 1, "k": 10}, "with reading='local' takes exactly one of"),
            ({"reading": "both", "epsilon": 1}, "'local' or 'published'"),
            ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
            ({"epsilon": float("nan")}, "Got nan instead"),
            ({"gamma": 0.2}, "'gamma' parameter of Frapp must be a number above 1"),
            ({"keep": 1}, "between 0 and 1"),
            ({"keep": 1e-15}, "at least 1e-12"),
            ({"rho1": 0.5, "rho2": 0.5}, "below rho2"),
            ({"rho1": 0.1}, "exactly one of"),
        ),
    ),
    "frapp, published": Case(
        lambda: sc.Frapp(reading="published", k=1, gamma=0.5),
        (
            ({"reading": "published", "epsilon": 1}, "takes either k with gamma, or k with keep"),
            ({"reading": "published", "gamma": 0.2}, "takes either k with gamma, or k with keep"),
            ({"reading": "published", "k": 10}, "takes either k with gamma, or k with keep"),
            ({"reading": "published", "k": 10, "gamma": 2}, "between 0 and 1"),
            ({"reading": "published", "k": 0.5, "gamma": 0.2}, "a number of at least 1"),
        ),
        ages=1000,  # 10,000 possible rows: with 500 in the table d is 0.05
    ),
    "alphabeta": Case(
        lambda: sc.AlphaBeta(k=2, gamma=0.5, multiplicity=500),
        (
            ({}, "exactly one of"),
            ({"k": 10}, "exactly one of"),
            ({"k": 10, "d": 0.1, "gamma": 0.2}, "exactly one of"),
            ({"alpha": 0.5, "gamma": 0.2}, "exactly one of"),
            ({"alpha": 0.5, "beta": 0.1, "adversary": "exclusive"}, "with gamma only"),
            ({"k": 0.5, "gamma": 0.2}, "a number of at least 1"),
            ({"k": float("nan"), "gamma": 0.2}, "Got nan instead"),
            ({"d": 0.2, "gamma": 0.2}, "'d' parameter of AlphaBeta must be below gamma (0.2)"),
            ({"d": 0.3, "gamma": 0.2}, "below gamma"),
            ({"d": 0, "gamma": 0.2}, "between 0 and 1"),
            ({"d": 0.1, "gamma": 1}, "between 0 and 1"),
            ({"d": 0.1, "gamma": 0.2, "keep": 0.8}, "keep of at most 1 − d/γ"),
            ({"d": 0.1, "gamma": 0.2, "keep": 1}, "between 0 and 1"),
            ({"d": 0.1, "gamma": 0.2, "adversary": "exclusive"}, "α ≤ 0"),
            ({"d": 0.01, "gamma": 0.2, "adversary": "any"}, "'independent' or 'exclusive'"),
            (
                {"d": 0.01, "gamma": 0.2, "adversary": "exclusive", "keep": 0.4},
                "1/2 for exclusive attackers",
            ),
            ({"alpha": 0.5, "beta": 0.5}, "below 1 − beta (0.5)"),
            ({"alpha": 0.5, "beta": 0.1, "keep": 0.6}, "no keep with alpha"),
            ({"k": 2, "gamma": 0.2, "duplicates": "count"}, "'error' or 'collapse'"),
            ({"k": 2, "gamma": 0.2, "multiplicity": 0}, "a whole number from 1"),
            ({"k": 2, "gamma": 0.2, "multiplicity": 1.5}, "Got 1.5 instead"),
            (
                {"k": 2, "gamma": 0.2, "multiplicity": 2, "duplicates": "collapse"},
                "either collapses equal rows or tells them apart",
            ),
        ),
    ),
    "alphabeta, epsilon": Case(
        lambda: sc.AlphaBeta(epsilon=3, multiplicity=500),
        (
            ({"epsilon": 1, "gamma": 0.2}, "exactly one of"),
            ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead"),
            ({"epsilon": float("nan")}, "Got nan instead"),
            ({"epsilon": 101}, "Got 101 instead"),
            ({"epsilon": 1, "keep": 0.9}, "keep of at most e^ε/(1 + e^ε)"),
            ({"epsilon": 1e-30}, "α ≤ 0"),
            ({"epsilon": 1, "adversary": "exclusive"}, "with gamma only"),
        ),
        unserved=("wide",),  # it would take a share e^−ε / 2 of all possible rows
    ),
    "alphabeta, sources": Case(
        lambda: sc.AlphaBeta(
            k=2, gamma=0.5, multiplicity=500, sources={"sex": [1, 2], "job": [3, 1, 1, 1, 2]}
        ),
        (
            ({"k": 2, "gamma": 0.2, "sources": {}}, "a mapping from columns"),
            ({"k": 2, "gamma": 0.2, "sources": {"age": []}}, "a mapping from columns"),
            ({"k": 2, "gamma": 0.2, "sources": {"age": [1, 0]}}, "Got 0 instead"),
            ({"k": 2, "gamma": 0.2, "sources": {"age": [1]}, "views": 2}, "one view"),
        ),
    ),
    "alphabeta, views": Case(
        lambda: sc.AlphaBeta(k=2, gamma=0.5, multiplicity=500, views=2),
        (
            ({"d": 0.001, "gamma": 0.2, "views": 9}, "at most 7 views hold"),
            ({"d": 0.001, "gamma": 0.2, "views": 0}, "a whole number from 1 to 63"),
            ({"d": 0.001, "gamma": 0.2, "views": 64}, "Got 64 instead"),
            ({"epsilon": 1, "views": 9}, "views break what is asked of AlphaBeta"),
        ),
    ),
    "partition": Case(
        lambda: sc.Partition(rho1=0.4, rho2=0.8),
        (
            ({"rho1": 0.5}, "'rho1' parameter of Partition must be below rho2 (0.5). Got 0.5"),
            ({"rho1": 0.6}, "below rho2"),
            ({"rho1": 0}, "'rho1' parameter of Partition must be a number between 0 and 1"),
            ({"rho1": float("nan")}, "Got nan instead"),
            ({"rho1": True}, "Got True instead"),
            ({"rho1": "rare"}, "Got 'rare' instead"),
            ({"rho2": 1}, "between 0 and 1"),
            ({"rho2": -0.5}, "Got -0.5 instead"),
            ({"rho1": 1e-60}, "is no privacy"),
            ({"confidence": 1}, "'confidence' parameter of Partition must be"),
            ({"plain": "yes"}, "True or False"),
        ),
    ),
    "anatomy": Case(
        lambda: sc.Anatomy(l=2),
        (
            ({"l": 1}, "'l' parameter of Anatomy must be a whole number of at least 2. Got 1"),
            ({"l": 0}, "Got 0 instead"),
            ({"l": 2.5}, "Got 2.5 instead"),
            ({"l": True}, "Got True instead"),
            ({"l": "3"}, "Got '3' instead"),
            ({"l": float("nan")}, "Got nan instead"),
            ({"suppress": "yes"}, "True or False"),
        ),
        unserved=("one row", "skewed"),
    ),
    "aroma": Case(
        lambda: sc.Aroma(k=9),
        (
            ({}, "either k, or epsilon with f"),
            ({"k": 5, "epsilon": 1, "f": 0.1}, "either k, or epsilon with f"),
            ({"epsilon": 1}, "either k, or epsilon with f"),
            ({"k": 1}, "'k' parameter of Aroma must be a whole number from 2 to 1000. Got 1 inst"),
            ({"k": 2.5}, "Got 2.5 instead"),
            ({"k": True}, "Got True instead"),
            ({"k": 10**6}, "Got 1000000 instead"),
            ({"epsilon": 0, "f": 0.1}, "above 0"),
            ({"epsilon": 1, "f": 1}, "between 0 and 1"),
            ({"epsilon": 0.001, "f": 0.1}, "such that k is at most 1000"),
            ({"k": 5, "pool": "private"}, "'uniform', a list of weights, or a table of weights"),
            ({"k": 5, "pool": 3}, "'uniform', a list of weights, or a table of weights"),
            ({"k": 5, "pool": [1, 0, 1]}, "'pool' parameter of Aroma must be a number above 0"),
            ({"k": 5, "pool": {"cook": -1}}, "Got -1 instead"),
            ({"k": 5, "identifier": 7}, "the name of a column"),
        ),
    ),
    "aroma, closeness": Case(
        lambda: sc.Aroma(k=9, closeness=2.5),
        (
            ({"k": 5, "closeness": 0}, "'closeness' parameter of Aroma must be a number above 0"),
            ({"k": 5, "closeness": float("inf")}, "Got inf instead"),
        ),
    ),
    "subset": Case(
        lambda: sc.Subset(epsilon=1, size=2),
        (
            ({}, "exactly one of"),
            ({"size": 2}, "exactly one of"),
            ({"epsilon": 1, "gamma": 2}, "exactly one of"),
            ({"rho2": 0.1}, "exactly one of"),
            ({"epsilon": 0}, "'epsilon' parameter of Subset must be a number above 0"),
            ({"epsilon": float("nan")}, "Got nan instead"),
            ({"epsilon": 101}, "Got 101 instead"),
            ({"gamma": 1}, "'gamma' parameter of Subset must be a number above 1"),
            ({"gamma": 1e300}, "at most 1e+40"),
            ({"rho1": 0.5, "rho2": 0.5}, "below rho2"),
            ({"rho1": 0, "rho2": 0.5}, "between 0 and 1"),
            ({"epsilon": 1, "size": 0}, "a whole number of at least 1. Got 0 instead"),
            ({"epsilon": 1, "size": 1.5}, "a whole number of at least 1"),
            ({"epsilon": 1, "size": True}, "a whole number of at least 1"),
        ),
    ),
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
    "hierarchy, gaussian": Case(lambda: _hierarchy(delta=1e-6, budget="optimal", root=True), ()),
    "wavelet": Case(
        _wavelet,
        (*_AXIS_REFUSED, ({"transform": "some"}, "'large' or 'all'")),
    ),
    "wavelet, gaussian": Case(lambda: _wavelet(delta=1e-6), ()),
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
            ({"false_cells": 1e9}, "at most 1e+07"),
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
            ({"queries": []}, "a file of SQL counts, or a list of them, with at least one"),
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
    "quadtree, gaussian": Case(
        lambda: sc.Quadtree(
            ["age", "sex", "job"], epsilon=1, delta=1e-6, neighbours="replace", prune=3
        ),
        (({"delta": float("nan")}, "Got nan instead"),),
    ),
    "kdtree": Case(
        lambda: sc.Kdtree(["age", "sex", "job"], epsilon=2, neighbours="replace"),
        (
            ({"epsilon": -1}, "'epsilon' parameter of Kdtree must be a number above 0"),
            ({"neighbours": "all"}, "'replace' or 'add_remove'"),
            ({"cuts": -1}, "'cuts' parameter of Kdtree must be a whole number from 0 to 64"),
            ({"height": 3, "cuts": 4}, "a whole number from 0 to 3"),
            ({"split": "mean"}, "'median' or 'noisy_mean'"),
        ),
    ),
    "kdtree, means": Case(
        lambda: sc.Kdtree(
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
    "dawa": Case(
        lambda: sc.Dawa(["age"], epsilon=2, neighbours="replace"),
        (
            ({"epsilon": 0}, "'epsilon' parameter of Dawa must be a number above 0"),
            ({"attributes": ["age", "sex"]}, "must be one attribute name"),
        ),
        columns=("age",),
    ),
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
    "grid": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "dawa": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "hierarchy": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "wavelet": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "partition": {"rho1": 0.2, "rho2": 0.5},
    "anatomy": {"l": 2},
    "histogram": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "marginals": {"attributes": ["age"], "ways": 1, "epsilon": 1, "neighbours": "replace"},
    "fourier": {"attributes": ["sex"], "ways": 1, "epsilon": 1, "neighbours": "replace"},
    "datacube": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "quadtree": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "kdtree": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "privtree": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "sparse": {"attributes": ["age"], "epsilon": 1, "neighbours": "replace"},
    "workload": {
        "attributes": ["age"],
        "queries": ["SELECT COUNT(*) FROM t"],
        "epsilon": 1,
        "neighbours": "replace",
    },
}
