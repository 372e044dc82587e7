"""The deFinetti attack on groups: what values go with other columns is learned from all groups, and
used to tell the rows of each group apart.

The attacker knows the published columns of everybody in a group. The regression over groups gives
P(column = x | value) for every column, and columns are taken as independent given the value. Each
assignment of the values of a group to its rows then has a probability, by Bayes' rule. The attacker
names the likeliest value of every row. (Kifer, "Attacks on privacy and deFinetti's theorem", SIGMOD
2009, with a regression in place of iterated classification.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from scumble.audit.report import Finding
from scumble.model.evidence.evidence import Groups
from scumble.model.long_work import tell
from scumble.public.estimation.anatomy.plan import GroupLayout, layout
from scumble.public.estimation.anatomy.regression import Regression, regression
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MOST_CODES = 4096  # of a column; wider ones are left out
_MOST_ENUMERATED = 5  # rows of a group whose assignments are all enumerated
_ROUNDS = 60  # of scaling to row and column sums 1, for larger groups
_BLOCK = 4096  # groups at a time


@dataclass(frozen=True, eq=False)
class Guesses:
    """The attacker's guess of every row, in the order of the groups.

    `values` are numbers of values of the regression, and `beliefs` their posterior probabilities.
    `even` is the belief without the attack: one over the number of values of the group.
    """

    values: Integers
    beliefs: Floats
    even: Floats


def guess_rows(release: Release) -> Guesses | None:
    """Return the guesses of the attack; None if there are too many values for a regression."""
    evidence = release.evidence
    if not isinstance(evidence, Groups) or not evidence.rows:
        return None
    engine = release._sandbox
    held = layout(evidence, release.schema, engine)
    fitted = regression(evidence, held, engine)
    if not fitted.possible:
        return None
    likelihood = np.zeros((held.rows.lines, fitted.size))
    for name in evidence.unchanged:
        if release.schema[name].size <= _MOST_CODES:
            codes = held.rows.cells([name]).astype(np.int64)
            likelihood += np.log(_shares(fitted, codes, release.schema[name].size))[codes]
    values, beliefs = np.empty(held.rows.lines, np.int64), np.empty(held.rows.lines)
    done = 0
    for rows, slots in _blocks(held, fitted):
        tell(done := done + rows.size, held.rows.lines)
        found = _marginals(np.take_along_axis(likelihood[rows], slots[:, None, :], axis=2))
        best = found.argmax(axis=2)
        values[rows] = np.take_along_axis(slots, best, axis=1)
        beliefs[rows] = found.max(axis=2)
    return Guesses(values, beliefs, 1 / np.repeat(held.sizes, held.sizes))


def _shares(fitted: Regression, codes: Integers, size: int) -> Floats:
    """Return P(code | value) of a column, by code and value: the regression's, kept above zero."""
    met = fitted.together(codes, size).astype(np.float64)
    weight = fitted.spread_of_counts(met).shrinkage[:, None]
    even = met / fitted.unit
    counts = even + weight * (fitted.shares(met) * fitted.numbers - even)
    shares = np.maximum(counts, 0.5) / fitted.numbers
    found: Floats = shares / shares.sum(axis=0)
    return found


def _blocks(held: GroupLayout, fitted: Regression) -> Iterator[tuple[Integers, Integers]]:
    """Yield the rows and the values of groups of equal size, as [group, place]."""
    starts, of, times, _ = fitted.lines
    slots = np.repeat(of, times).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(times)])[starts]
    for size in held.distinct_sizes.tolist():
        groups = np.flatnonzero(held.sizes == size)
        for start in range(0, len(groups), _BLOCK):
            some = groups[start : start + _BLOCK]
            places = np.arange(size)
            yield held.rows.starts[some][:, None] + places, slots[begins[some][:, None] + places]


def _marginals(logs: Floats) -> Floats:
    """Return the probability that row i of a group has the value in slot j, as [group, i, j].

    `logs` are logarithms of the likelihoods of slots by row. The probability of an assignment is
    proportional to the product of its likelihoods.
    """
    weights: Floats = np.exp(logs - logs.max(axis=2, keepdims=True))
    size = weights.shape[1]
    if size > _MOST_ENUMERATED:
        for _ in range(_ROUNDS):
            weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
            weights /= np.maximum(weights.sum(axis=2, keepdims=True), 1e-300)
        return weights
    found = np.zeros_like(weights)
    rows = np.arange(size)
    for order in permutations(range(size)):
        chance = np.prod(weights[:, rows, order], axis=1)
        found[:, rows, order] += chance[:, None]
    whole = np.maximum(found.sum(axis=2, keepdims=True), 1e-300)
    marginals: Floats = found / whole
    return marginals


def attack_finding(release: Release) -> Iterator[Finding]:
    """Yield what the attack gains on a release of groups, by the attacker's own account."""
    found = guess_rows(release)
    if found is None:
        return
    mean, even = float(found.beliefs.mean()), float(found.even.mean())
    sure = float((found.beliefs > 0.9).mean())
    sentence = (
        f"An attacker who knows the published columns, and learns from all groups which values go "
        f"with them, names the value of a row with a belief of {100 * mean:.1f} % on average (by "
        f"the shares in its group: {100 * even:.1f} %), and is more than 90 % sure of "
        f"{100 * sure:.1f} % of the rows."
    )
    numbers = {"mean belief": mean, "share in the group": even, "rows above 0.9": sure}
    claim = "no value of a person has more than 1/l for an attacker who learns from other groups"
    yield Finding("deFinetti attack", claim, "noted", sentence, numbers)
