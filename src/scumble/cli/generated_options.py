"""Options of `scumble publish`, one for each parameter of a mechanism.

Generated from the mechanism classes by `make options`; do not edit.
"""

# ruff: noqa: E501
# fmt: off

METHODS = ("uniform", "subset", "frapp", "alphabeta", "partition", "anatomy", "aroma", "histogram", "hierarchy", "wavelet", "marginals", "fourier", "datacube", "sparse", "workload", "quadtree", "kdtree", "privtree", "grid", "mosaic", "dawa", "sequences", "keys")

# parameter: (kind, flags, placeholder, help, words accepted besides a value)
OPTIONS: dict[str, tuple[str, str, str, str, str]] = {
    "epsilon": ("number", "--epsilon -e", "NUMBER", "Privacy loss of one person.", ""),
    "gamma": ("number", "--gamma", "NUMBER", "uniform, subset: amplification, e to the epsilon. frapp: amplification, e to the epsilon; with --k: the posterior allowed. alphabeta: the posterior allowed.", ""),
    "keep": ("number", "--keep", "SHARE", "uniform, frapp, alphabeta: probability to keep what is true.", ""),
    "rho1": ("number", "--rho1", "SHARE", "uniform, subset, frapp, partition: a prior of at most this ...", ""),
    "rho2": ("number", "--rho2", "SHARE", "... ends at most here; goes with --rho1.", ""),
    "several": ("pair", "--compound/--each", "", "uniform: perturb several sensitive columns as one value, or each (the default).", "compound each"),
    "size": ("whole", "--size", "NUMBER", "subset: values shown in every row. sparse: cells that priority sampling publishes.", ""),
    "reading": ("choice", "--reading", "CHOICE", "frapp: local or published.", ""),
    "k": ("number", "--k", "NUMBER", "frapp, alphabeta: prior as a multiple of rows / domain. aroma: values per row.", ""),
    "d": ("number", "--d", "SHARE", "alphabeta: a prior of at most this; goes with --gamma.", ""),
    "alpha": ("number", "--alpha", "SHARE", "alphabeta: what a true tuple has more than a false one; goes with --beta.", ""),
    "beta": ("number", "--beta", "SHARE", "alphabeta: probability of a false tuple.", ""),
    "adversary": ("choice", "--adversary", "CHOICE", "alphabeta: independent or exclusive.", ""),
    "duplicates": ("choice", "--duplicates", "CHOICE", "alphabeta: equal rows are an error, or collapse into one (--multiplicity counts them all).", ""),
    "multiplicity": ("whole", "--multiplicity", "NUMBER", "alphabeta: largest number of equal rows that are told apart.", ""),
    "sources": ("json", "--sources", "FILE", "alphabeta: JSON with public weights for the noise, by column.", ""),
    "views": ("whole", "--views", "NUMBER", "alphabeta: how often the table may be published.", ""),
    "confidence": ("number", "--confidence", "SHARE", "partition: of the error bound it reports.", ""),
    "plain": ("flag", "--plain", "", "partition: publish as it is what the promise does not bind.", ""),
    "l": ("whole", "--l", "NUMBER", "anatomy: values in every group.", ""),
    "suppress": ("flag", "--suppress", "", "anatomy: leave out rows of values that are too frequent.", ""),
    "f": ("number", "--f", "SHARE", "aroma: share of the values that a count asks about; goes with --epsilon.", ""),
    "pool": ("json", "--pool", "FILE", "aroma: uniform, or JSON with public weights of the values.", "uniform"),
    "closeness": ("number", "--closeness", "NUMBER", "aroma: draw again until the values of a row are as close to the pool as n = this number of members of it are.", ""),
    "identifier": ("text", "--identifier", "COLUMN", "aroma: identifier of a record, for updates; needs --book.", ""),
    "attributes": ("names", "--attributes -a", "COLUMNS", "histogram, hierarchy, wavelet, marginals, fourier, datacube, sparse, workload, quadtree, kdtree, privtree, grid, mosaic, dawa: what to count by, as age,sex. keys: the columns of a key, as query.", ""),
    "neighbours": ("choice", "--neighbours", "RELATION", "histogram and all after it in `scumble methods`: hide what the rows of a person say (replace), or also that they are there (add_remove).", ""),
    "contribution": ("whole", "--contribution", "ROWS", "histogram, hierarchy, wavelet, marginals, fourier, datacube, sparse, workload, quadtree, kdtree, privtree, grid, mosaic, dawa, sequences: most rows of one person.", ""),
    "person": ("text", "--person", "COLUMN", "histogram and all after it in `scumble methods`: identifier that names people.", ""),
    "delta": ("number", "--delta", "SHARE", "hierarchy, wavelet, marginals, datacube, workload, quadtree: probability beyond epsilon that is allowed; the noise is then Gaussian. keys: probability with which a key of one person alone may be named.", ""),
    "taxonomy": ("json", "--taxonomy", "FILE", "hierarchy, wavelet: JSON with values in nested lists, by attribute.", ""),
    "fanout": ("whole", "--fanout", "NUMBER", "hierarchy: children of a node of its trees.", ""),
    "root": ("flag", "--root", "", "hierarchy: also measure the count of everything.", ""),
    "budget": ("choice", "--budget", "CHOICE", "hierarchy: by level, uniform or optimal.", ""),
    "transform": ("choice", "--transform", "CHOICE", "wavelet: which attributes, large ones or all.", ""),
    "ways": ("whole", "--ways", "NUMBER", "marginals, fourier, datacube: attributes of a table.", ""),
    "sets": ("sets", "--sets", "COLUMNS", "marginals: one table to measure, as age,sex; repeatable.", ""),
    "weights": ("numbers", "--weights", "CHOICE", "marginals: tables, cells, or a number for each set.", "cells tables"),
    "within": ("number", "--within", "NUMBER", "datacube: standard error that many tables shall have. keys: column whose keys are found first.", ""),
    "rule": ("choice", "--rule", "CHOICE", "sparse: filter, threshold, priority or 'filter priority'. keys: auto, optimal, gaussian, sips, zealous or korolova.", ""),
    "false_cells": ("number", "--false-cells", "NUMBER", "sparse: most empty cells published, in the mean.", ""),
    "total": ("number", "--total", "SHARE", "sparse: of epsilon, for the number of rows.", ""),
    "queries": ("text", "--queries", "FILE", "workload: SQL counts to be answered best, one a line.", ""),
    "height": ("whole", "--height", "NUMBER", "quadtree, kdtree: levels below the domain.", ""),
    "prune": ("whole", "--prune", "ROWS", "quadtree, kdtree: nodes with fewer count as leaves.", ""),
    "cuts": ("whole", "--cuts", "NUMBER", "kdtree: levels that are cut near medians.", ""),
    "split": ("choice", "--split", "CHOICE", "kdtree: cuts at a median or a noisy_mean.", ""),
    "adaptive": ("pair", "--adaptive/--uniform", "", "grid: refine the grid where rows are (the default), or have one grid only.", ""),
    "attribute": ("text", "--attribute", "COLUMN", "sequences: the sequence to publish, as pages.", ""),
    "length": ("whole", "--length", "NUMBER", "sequences: most symbols of a sequence that are read.", ""),
    "model": ("choice", "--model", "CHOICE", "sequences: suffix, prefix or grams.", ""),
    "weigh": ("choice", "--weigh", "CHOICE", "sequences: by sequence (all together count one) or by symbol (each counts one).", ""),
    "depth": ("whole", "--depth", "NUMBER", "sequences: most symbols of a context (suffix; no limit by default), of a prefix (6) or of a run (3).", ""),
    "keys": ("whole", "--keys", "NUMBER", "keys: most keys of one person.", ""),
    "counts": ("flag", "--counts", "", "keys: publish how many people have each key.", ""),
}
