"""Mechanism options (better: generated from signatures).

Options of the commands that an owner of a table uses.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

# Options of the releases that measure attributes along axes: trees and wavelets.

Fanout = Annotated[
    int | None,
    typer.Option("--fanout", metavar="NUMBER", help="hierarchy: children of a node of its trees."),
]
Root = Annotated[
    bool | None, typer.Option("--root", help="hierarchy: also measure the count of everything.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="CHOICE", help="hierarchy: by level, uniform or optimal."),
]
TransformChoice = Annotated[
    str | None,
    typer.Option(
        "--transform", metavar="CHOICE", help="wavelet: which attributes, large ones or all."
    ),
]
TaxonomyFile = Annotated[
    str | None,
    typer.Option(
        "--taxonomy",
        metavar="FILE",
        help="hierarchy, wavelet: JSON with values in nested lists, by attribute.",
    ),
]


# Options of the releases that count boxes: trees and grids.

Height = Annotated[
    int | None,
    typer.Option("--height", metavar="NUMBER", help="quadtree, kdtree: levels below the domain."),
]
Cuts = Annotated[
    int | None,
    typer.Option("--cuts", metavar="NUMBER", help="kdtree: levels that are cut near medians."),
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="CHOICE", help="kdtree: cuts at a median or a noisy_mean."),
]
Prune = Annotated[
    int | None,
    typer.Option(
        "--prune", metavar="ROWS", help="quadtree, kdtree: nodes with fewer count as leaves."
    ),
]
Adaptive = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--uniform",
        help="grid: refine the grid where rows are (the default), or have one grid only.",
        show_default=False,
    ),
]


def _method_names() -> list[str]:
    from scumble.private.mechanism import mechanisms

    return list(mechanisms())


# --- what to publish, and where ------------------------------------------------------------------

Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="How to publish: see `scumble methods`.",
        autocompletion=_method_names,
    ),
]
ReleaseOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the release.")
]
Ledger = Annotated[
    Path | None,
    typer.Option(
        "--ledger", metavar="LEDGER", help="The owner's ledger to charge: see `scumble ledger`."
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="VALUE",
        help="Only the rows of this part: a value of the --parts column of the ledger.",
    ),
]

# --- what is promised ----------------------------------------------------------------------------

Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", metavar="NUMBER", help="Privacy loss of one person."),
]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="SHARE",
        help="hierarchy, wavelet, marginals, datacube, workload, quadtree: probability beyond "
        "epsilon that is allowed; the noise is then Gaussian.",
    ),
]
Gamma = Annotated[
    float | None,
    typer.Option(
        "--gamma",
        metavar="NUMBER",
        help="uniform, subset, frapp: amplification, e to the epsilon; "
        "alphabeta, and frapp with --k: the posterior allowed.",
    ),
]
Keep = Annotated[
    float | None,
    typer.Option(
        "--keep",
        metavar="SHARE",
        help="uniform, frapp, alphabeta: probability to keep what is true.",
    ),
]
Rho1 = Annotated[
    float | None,
    typer.Option(
        "--rho1",
        metavar="SHARE",
        help="uniform, subset, frapp, partition: a prior of at most this ...",
    ),
]
Rho2 = Annotated[
    float | None,
    typer.Option("--rho2", metavar="SHARE", help="... ends at most here; goes with --rho1."),
]
K = Annotated[
    float | None,
    typer.Option(
        "--k",
        metavar="NUMBER",
        help="aroma: values per row. frapp, alphabeta: prior as a multiple of rows / domain.",
    ),
]
D = Annotated[
    float | None,
    typer.Option(
        "--d", metavar="SHARE", help="alphabeta: a prior of at most this; goes with --gamma."
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        "--alpha",
        metavar="SHARE",
        help="alphabeta: what a true tuple has more than a false one; goes with --beta.",
    ),
]
Beta = Annotated[
    float | None,
    typer.Option("--beta", metavar="SHARE", help="alphabeta: probability of a false tuple."),
]
L = Annotated[
    int | None, typer.Option("--l", metavar="NUMBER", help="anatomy: values in every group.")
]

# --- how it is done ------------------------------------------------------------------------------

Compound = Annotated[
    bool | None,
    typer.Option(
        "--compound/--each",
        help="uniform: perturb several sensitive columns as one value, or each (the default).",
        show_default=False,
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option("--confidence", metavar="SHARE", help="partition: of the error bound it reports."),
]
Plain = Annotated[
    bool | None,
    typer.Option("--plain", help="partition: publish as it is what the promise does not bind."),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--size",
        metavar="NUMBER",
        help="subset: values shown in every row. sparse: cells that priority sampling publishes.",
    ),
]
Reading = Annotated[
    str | None, typer.Option("--reading", metavar="CHOICE", help="frapp: local or published.")
]
Adversary = Annotated[
    str | None,
    typer.Option("--adversary", metavar="CHOICE", help="alphabeta: independent or exclusive."),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        "--duplicates", metavar="CHOICE", help="alphabeta: equal rows are an error, or collapse."
    ),
]
Multiplicity = Annotated[
    int | None,
    typer.Option(
        "--multiplicity", metavar="NUMBER", help="alphabeta: so many equal rows are told apart."
    ),
]
Sources = Annotated[
    str | None,
    typer.Option(
        "--sources",
        metavar="FILE",
        help="alphabeta: JSON with public weights for the noise, by column.",
    ),
]
Views = Annotated[
    int | None,
    typer.Option(
        "--views", metavar="NUMBER", help="alphabeta: how often the table may be published."
    ),
]
Suppress = Annotated[
    bool | None,
    typer.Option("--suppress", help="anatomy: leave out rows of values that are too frequent."),
]
F = Annotated[
    float | None,
    typer.Option(
        "--f",
        metavar="SHARE",
        help="aroma: share of the values that a count asks about; goes with --epsilon.",
    ),
]
Pool = Annotated[
    str | None,
    typer.Option(
        "--pool", metavar="FILE", help="aroma: uniform, or JSON with public weights of the values."
    ),
]
Closeness = Annotated[
    int | None,
    typer.Option(
        "--closeness",
        metavar="NUMBER",
        help="aroma: draw again until the values are as close to the pool as those of so many.",
    ),
]
RecordIdentifier = Annotated[
    str | None,
    typer.Option(
        "--identifier",
        metavar="COLUMN",
        help="aroma: identifier of a record, for updates; needs --book.",
    ),
]
Levels = Annotated[
    str | None,
    typer.Option(
        "--levels",
        metavar="NUMBERS",
        help="aroma: one nested view for each k, --k the largest: 5,20,49.",
    ),
]
Book = Annotated[
    Path | None,
    typer.Option(
        "--book", metavar="FILE", help="aroma: where to keep the private book that updates need."
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attributes",
        "-a",
        metavar="COLUMNS",
        help="histogram and all after it in `scumble methods`: what to count by, as age,sex.",
    ),
]
Neighbours = Annotated[
    str | None,
    typer.Option(
        "--neighbours",
        metavar="RELATION",
        help="with --attributes: hide what the rows of a person say (replace), "
        "or also that they are there (add_remove).",
    ),
]
Contribution = Annotated[
    int | None,
    typer.Option(
        "--contribution", metavar="ROWS", help="with --attributes: most rows of one person."
    ),
]
Person = Annotated[
    str | None,
    typer.Option(
        "--person", metavar="COLUMN", help="with --attributes: identifier that names people."
    ),
]
Ways = Annotated[
    int | None,
    typer.Option(
        "--ways", metavar="NUMBER", help="marginals, fourier, datacube: attributes of a table."
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--sets", metavar="COLUMNS", help="marginals: one table to measure, as age,sex; repeatable."
    ),
]
TableWeights = Annotated[
    str | None,
    typer.Option(
        "--weights", metavar="CHOICE", help="marginals: tables, cells, or a number for each set."
    ),
]
Within = Annotated[
    float | None,
    typer.Option(
        "--within", metavar="NUMBER", help="datacube: standard error that many tables shall have."
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule", metavar="CHOICE", help="sparse: filter, threshold, priority or 'filter priority'."
    ),
]
FalseCells = Annotated[
    float | None,
    typer.Option(
        "--false-cells", metavar="NUMBER", help="sparse: most empty cells published, in the mean."
    ),
]
Total = Annotated[
    float | None,
    typer.Option("--total", metavar="SHARE", help="sparse: of epsilon, for the number of rows."),
]
Queries = Annotated[
    str | None,
    typer.Option(
        "--queries", metavar="FILE", help="workload: SQL counts to be answered best, one a line."
    ),
]
Outside = Annotated[
    str,
    typer.Option(
        "--outside", metavar="CHOICE", help="A value outside its domain: error, drop or missing."
    ),
]
Reveal = Annotated[bool, typer.Option("--reveal", help="Let messages quote private values.")]
InsecureSeed = Annotated[
    int | None,
    typer.Option(
        "--insecure-seed", metavar="NUMBER", help="Draw from a fixed seed. NOT PRIVATE; for tests."
    ),
]


# --- going on with a release ---------------------------------------------------------------------

KnownBook = Annotated[
    Path, typer.Option("--book", metavar="FILE", help="The private book of the release.")
]
Identifiers = Annotated[
    Path,
    typer.Option("--identifiers", metavar="FILE", help="Text file with one identifier a line."),
]

# --- parameters of mechanisms, in the order of the help ------------------------------------------

MECHANISM = {
    "epsilon": Epsilon,
    "delta": Delta,
    "gamma": Gamma,
    "keep": Keep,
    "rho1": Rho1,
    "rho2": Rho2,
    "k": K,
    "d": D,
    "alpha": Alpha,
    "beta": Beta,
    "l": L,
    "f": F,
    "compound": Compound,
    "size": Size,
    "confidence": Confidence,
    "plain": Plain,
    "reading": Reading,
    "adversary": Adversary,
    "duplicates": Duplicates,
    "multiplicity": Multiplicity,
    "sources": Sources,
    "views": Views,
    "suppress": Suppress,
    "pool": Pool,
    "closeness": Closeness,
    "identifier": RecordIdentifier,
    "attributes": Attributes,
    "neighbours": Neighbours,
    "contribution": Contribution,
    "person": Person,
    "ways": Ways,
    "sets": Sets,
    "weights": TableWeights,
    "within": Within,
    "queries": Queries,
    "rule": Rule,
    "false_cells": FalseCells,
    "total": Total,
    "fanout": Fanout,
    "root": Root,
    "budget": Budget,
    "transform": TransformChoice,
    "taxonomy": TaxonomyFile,
    "height": Height,
    "cuts": Cuts,
    "split": Split,
    "prune": Prune,
    "adaptive": Adaptive,
}


def take_options(command: Any) -> None:
    """Give a command that takes `**parameters` an option for each parameter of a mechanism."""
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in MECHANISM.items()
    ]
    command.__signature__ = signature.replace(parameters=[*own, *more])
    command.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
