"""Trees of strings that grow where records are. Children without records are drawn lazily, so that
the work follows the records and the published tree, and not the number of possible strings.

Both rules take what they know of the records from `Records.children`: the numbers of the children
of some nodes that are not 0. A record has one string, so that it is in one child of each node on
the path of its string, and in no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scumble.families.histogram.design import NoiseTails
from scumble.families.sequences.design import StringTree
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.meter.noise import NoisySteps
from scumble.private.meter.splits import SplitRule

Integers = npt.NDArray[np.int64]

FALSE_CHILDREN = 0.25  # of a node without records, in the mean
_MOST_NODES = 1 << 22


@dataclass(frozen=True, eq=False)
class ChildNumbers:
    """Numbers of children that have records, by their keys in ascending order.

    The key of a child is its parent, counted from the first node of its level, times the fanout,
    plus its symbol.
    """

    keys: Integers
    numbers: Integers


class StringRecords(Protocol):
    """The strings of private records, as the rules below see them."""

    def children(self, tree: StringTree) -> ChildNumbers:
        """Return the numbers of the children of all nodes of the last level of the tree."""
        ...


# --- the threshold rule --------------------------------------------------------------------------


@dataclass(frozen=True)
class Threshold:
    """A child is kept if its number with noise of `law` is at least `theta`."""

    law: DiscreteLaplace
    theta: int

    @classmethod
    def for_fanout(
        cls, law: DiscreteLaplace, fanout: int, false_children: float = FALSE_CHILDREN
    ) -> Threshold:
        """Return the least threshold that at most `false_children` of `fanout` children without
        records pass in the mean: fanout · a^θ / (1 + a) of them do, a = e^(-1/scale).

        With that, false nodes die out. A threshold that ignores the fanout lets the false nodes
        multiply from level to level once there are many symbols.

        >>> Threshold.for_fanout(DiscreteLaplace(Fraction(3)), 88).theta
        17
        """
        ratio = fanout * NoiseTails(law).chance(0) / false_children
        return cls(law, max(math.ceil(law.scale * Fraction(math.log(max(ratio, 1)))), 1))


def threshold_tree(
    records: StringRecords, noise: NoisySteps, fanout: int, levels: Sequence[Threshold]
) -> StringTree:
    """Return the strings that pass the thresholds of their levels, and whose parents all do. The
    symbol `fanout - 1` ends a string, which then has no children.

    The numbers of one level are counts of disjoint strings. If one person changes those of level k
    by d_k in all, the tree is ε-DP with ε = Σ d_k / scale_k: level k is a function of counts with
    Laplace noise, of strings that the levels before chose.
    """
    tree = StringTree.root(fanout)
    for level in levels:
        begin, end = tree.levels[-1]
        found = records.children(tree)
        size = (end - begin) * fanout
        # count + noise ≥ θ is count - θ + 1 + noise > 0.
        shift = 1 - level.theta
        passed = noise.split_children(found.keys, found.numbers + shift, level.law, shift, size)
        ended = tree.symbols[begin + passed // fanout] == fanout - 1
        passed = passed[~ended]
        if not len(passed) or len(tree) + len(passed) > _MOST_NODES:
            break
        tree = tree.grown(passed + begin * fanout)
    return tree


# --- the split rule of PrivTree ------------------------------------------------------------------


def split_tree(
    records: StringRecords,
    noise: NoisySteps,
    fanout: int,
    rule: SplitRule,
    theta: int,
    *,
    root: int,
    depth: int | None = None,
    most: int = _MOST_NODES,
) -> StringTree:
    """Return the strings that were split: all of whose `fanout` children are in the tree.

    A string at depth d with the number s is split if max(s - theta - d · decay, -decay) + noise > 0
    (`SplitRule`). `root` is the number of the empty string. The symbol `fanout - 1` ends a string,
    which is never split; nor are strings of `depth` symbols. The loss is that of the rule for
    numbers that fall from a string to its children, and of which a record changes those of its path
    by 0 or 1, all in one direction; theta is any public number. Splitting ends where there would be
    more than `most` nodes, which depends on the tree alone.
    """
    law, decay = DiscreteLaplace(rule.scale), rule.decay
    top = np.array([max(root - theta, -decay)])
    if not noise.above_zero(top, law, np.array([depth != 0]))[0]:
        return StringTree(np.empty(0, np.int64), np.empty(0, np.int64), fanout)
    tree = StringTree.root(fanout)
    level = 1
    while depth is None or level < depth:
        begin, end = tree.levels[-1]
        found = records.children(tree)
        biased = np.maximum(found.numbers - theta - level * decay, -decay)
        symbols = fanout - 1  # without the one that ends a string
        keys = found.keys // fanout * symbols + found.keys % fanout
        split = noise.split_children(keys, biased, law, -decay, (end - begin) * symbols)
        if not len(split) or len(tree) + len(split) > most:
            break
        tree = tree.grown((split // symbols + begin) * fanout + split % symbols)
        level += 1
    return tree
