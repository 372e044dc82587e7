"""Broken summaries whose plan depends on the data: steps that cost more than their part of ε."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import scumble as sc
from scumble.families.boxes.design.box_tree import BoxNodes, BoxTree
from scumble.families.boxes.publish.base import top
from scumble.families.boxes.publish.dawa import bucket_tree
from scumble.model.designs.boxes import Boxes, BoxSums
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.mechanism_metadata import LINE, SQUARE, TINY, Claim
from scumble.private.meter.splits import median_cuts, noisy_partition, split_boxes, split_rule
from tests.support.twins.noise_twins import GIVEN, unmetered
from tests.support.twins.twins import Twin, claimed


class EagerSplits(sc.PrivTree):
    """The splits have noise for one and a half times their half of ε."""

    def grow(self, table):
        shape, half = self.shape(table.schema), self.promise.epsilon / 2
        counts = unmetered(table).counts(self.attributes, self.unit)
        rule = split_rule(half * 3 / 2, self._pieces(shape), self.unit)
        leaves = split_boxes(counts, shape, rule)
        laws = self.laplace([half])
        [noisy] = counts.noisy(laws, BoxSums(shape, (leaves,)))
        return BoxNodes.of_leaves(leaves, noisy), BoxTree(laws)


class CutsPaidOnce(sc.KdTree):
    """Every level of cuts has the whole part of ε that all of them share."""

    def _cut(self, counts, blocks, cuts):
        counts = unmetered_counts(counts)
        levels, shape = [top(blocks)], (counts.size,)
        for _ in range(cuts):
            pieces, _ = levels[-1]
            last = median_cuts(counts, shape, pieces, 0, epsilon=self.promise.epsilon * 3 / 10)
            levels.append(pieces.cut(0, last))
        return levels


def unmetered_counts(counts):
    """Counts that are free from here on."""
    counts.charge = lambda what, cost: None
    return counts


class TotalForFree(sc.Sparse):
    """The cells have the whole ε, and the number of rows is told beside them."""

    def _laws(self, known):
        whole = DiscreteLaplace(Fraction(self.unit.sensitivity) / self.promise.epsilon)
        return whole, super()._laws(known)[1]

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class LooksTwice(sc.Grid):
    """A tenth of ε is spent once more."""

    def grow(self, table):
        given = {**self.parameters, "epsilon": float(self.promise.epsilon * 11 / 10)}
        return sc.Grid(given.pop("attributes"), **given).grow(unmetered(table))


class BoldBuckets(sc.Dawa):
    """The partition has noise for twice its eighth of ε."""

    def grow(self, table):
        counts = unmetered(table).counts(self.attributes, self.unit)
        share = self.promise.epsilon / 8
        last = noisy_partition(counts, epsilon=2 * share, price=self._price(counts.size))
        levels, shares = bucket_tree(Boxes(np.array([[0, *(last[:-1] + 1)]]), last[None]))
        laws = self.laplace([(self.promise.epsilon - share) * each for each in shares])
        noisy = counts.noisy(laws, BoxSums((counts.size,), tuple(boxes for boxes, _ in levels)))
        return BoxNodes.of_levels(levels, noisy), BoxTree(laws)


class OneLevelFree(sc.Quantiles):
    """The cuts have noise for one level fewer than there are."""

    def levels(self, cuts):
        return max(super().levels(cuts) - 1, 1)


def quantiles_twin(name, broken):
    """The broken and the honest one, for three quantiles of one column."""
    given = {"probabilities": (0.25, 0.5, 0.75), "epsilon": 1, "neighbours": "add_remove"}
    claims = [Claim(method("a", **given), 1, schema=LINE) for method in (broken, sc.Quantiles)]
    return Twin(name, *map(claimed, claims), 20_000)


def twin(name, broken, honest, schema, runs, *names, **more):
    """The broken and the honest one with the same parameters."""
    given = {**GIVEN, **more}
    claims = [Claim(method(names, **given), 1, schema=schema) for method in (broken, honest)]
    return Twin(name, *map(claimed, claims), runs)


TWINS = [
    twin("splits with too little noise", EagerSplits, sc.PrivTree, LINE, 20_000, "a"),
    twin("cuts paid once for all levels", CutsPaidOnce, sc.KdTree, LINE, 20_000, "a", cuts=2),
    twin(
        "number of rows for free",
        TotalForFree,
        sc.Sparse,
        TINY,
        20_000,
        "a",
        "b",
        false_cells=1,
        neighbours="add_remove",
    ),
    twin("a tenth of ε spent twice", LooksTwice, sc.Grid, SQUARE, 20_000, "a", "b"),
    twin("partition with half the noise", BoldBuckets, sc.Dawa, LINE, 20_000, "a"),
    quantiles_twin("one level of cuts for free", OneLevelFree),
]
