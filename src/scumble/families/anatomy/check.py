"""What the audit knows of Anatomy's groups: diversity, guesses, and the deFinetti attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.exposure import Codes, GroupExposure, group_exposure, guess_likeliest
from scumble.audit.linkage import LinkageResult, link_rows
from scumble.audit.release_claims import within
from scumble.audit.report import Finding
from scumble.audit.row_laws import EXCLUDED, RowLaw
from scumble.families.anatomy.design import Groups
from scumble.families.anatomy.read.plan import GroupLayout, layout
from scumble.families.anatomy.read.regression import Regression, regression
from scumble.model.evidence.evidence import Evidence
from scumble.model.long_work import tell
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.release import Release

if TYPE_CHECKING:
    from scumble.compare.truth import TrueTable

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MOST_CODES = 4096  # of a column; wider ones are left out
_MOST_ENUMERATED = 5  # rows of a group whose assignments are all enumerated
_ROUNDS = 60  # of scaling to row and column sums 1, for larger groups
_BLOCK = 4096  # groups at a time


def _groups(release: Release) -> Groups:
    return cast(Groups, release.evidence)


def find_row_law(_: Evidence, __: Schema, ___: float) -> RowLaw:
    """Return the law of a group: no ε holds."""
    return RowLaw(inf, None, f"{EXCLUDED} a group: its true values are published")


def check_promise(release: Release, promise: Guarantee) -> Finding | None:
    """Check l-diversity; None for another promise."""
    if promise.statement != "l-diversity":
        return None
    evidence = _groups(release)
    shown = pq.read_table(release.folder / evidence.values)
    group, count = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    share = count / np.bincount(group, count)[group]
    worst, claimed = float(share.max()), 1 / promise.parameters["l"]
    return within(promise, worst, claimed, "the largest share of one value in a group", "p")


def guess_values(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """Guess the value with the largest part of its rows in the group of the target."""
    evidence = _groups(release)
    [sensitive] = release.schema.sensitive
    table = pq.read_table(release.folder / evidence.file)
    who = known_codes(release.schema[target], table[target]).astype(np.int64)
    values = pq.read_table(release.folder / evidence.values)
    codes = known_codes(sensitive, values[sensitive.name]).astype(np.int64)
    groups, counts = (values[name].to_numpy() for name in (evidence.group, evidence.count))
    whole = np.bincount(codes, counts, sensitive.size)
    likelihood = np.zeros((int(groups.max(initial=0)) + 1, sensitive.size))
    likelihood[groups, codes] = counts / whole[codes]
    guesses = rng.integers(0, sensitive.size, release.schema[target].size)
    guesses[who] = guess_likeliest(likelihood[table[evidence.group].to_numpy()], rng)
    return guesses


def link_people(release: Release, known: Sequence[str] | None) -> LinkageResult:
    """Return what the shares of values in groups tell of people whose columns `known` are known."""
    return link_rows(release, known, _posteriors)


def _posteriors(release: Release, table: pa.Table, sensitive: Attribute) -> tuple[Floats, Floats]:
    """Return the shares of all values in the table, and in the group of each row."""
    evidence = _groups(release)
    shown = pq.read_table(release.folder / evidence.values)
    codes = known_codes(sensitive, shown[sensitive.name]).astype(np.int64)
    group, count = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    shares = np.zeros((int(group.max(initial=0)) + 1, sensitive.size))
    shares[group, codes] = count
    prior: Floats = shares.sum(axis=0) / shares.sum()
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    return prior, shares[table[evidence.group].to_numpy()]


def table_exposure(release: Release, table: TrueTable) -> GroupExposure:
    """Return the success of the best guess from groups of rows, as Anatomy publishes them."""
    evidence = _groups(release)
    names = evidence.sensitive
    with pq.ParquetFile(release.folder / evidence.values) as file:
        shown = file.read()
    codes = np.zeros(shown.num_rows, np.int64)
    for name in names:
        codes = codes * table.schema[name].size + table.schema[name].encode(shown[name])[0]
    group, counts = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    return group_exposure(group, codes, counts, table.cube(names).reshape(-1))


# The deFinetti attack: what values go with other columns is learned from all groups, and used to
# tell the rows of each group apart. The attacker knows the published columns of everybody in a
# group. The regression over groups gives P(column = x | value) for every column, and columns are
# taken as independent given the value. Each assignment of the values of a group to its rows then
# has a probability, by Bayes' rule. The attacker names the likeliest value of every row. (Kifer,
# "Attacks on privacy and deFinetti's theorem", SIGMOD 2009, with a regression in place of iterated
# classification.)


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
        marginals = _marginals(np.take_along_axis(likelihood[rows], slots[:, None, :], axis=2))
        best = marginals.argmax(axis=2)
        values[rows] = np.take_along_axis(slots, best, axis=1)
        beliefs[rows] = marginals.max(axis=2)
    return Guesses(values, beliefs, 1 / np.repeat(held.sizes, held.sizes))


def _shares(fitted: Regression, codes: Integers, size: int) -> Floats:
    """Return P(code | value) of a column, by code and value: the regression's, kept above zero."""
    met = fitted.together(codes, size).astype(np.float64)
    weight = fitted.spread_of_counts(met).shrinkage[:, None]
    even = met / fitted.unit
    counts = even + weight * (fitted.shares(met) * fitted.numbers - even)
    shares = np.maximum(counts, 0.5) / fitted.numbers
    normalised: Floats = shares / shares.sum(axis=0)
    return normalised


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
    sums = np.zeros_like(weights)
    rows = np.arange(size)
    for order in permutations(range(size)):
        chance = np.prod(weights[:, rows, order], axis=1)
        sums[:, rows, order] += chance[:, None]
    whole = np.maximum(sums.sum(axis=2, keepdims=True), 1e-300)
    marginals: Floats = sums / whole
    return marginals


def release_findings(release: Release) -> Iterator[Finding]:
    """Yield what the attack gains on a release of groups, by the attacker's own account."""
    guesses = guess_rows(release)
    if guesses is None:
        return
    mean, even = float(guesses.beliefs.mean()), float(guesses.even.mean())
    sure = float((guesses.beliefs > 0.9).mean())
    sentence = (
        f"An attacker who knows the published columns, and learns from all groups which values go "
        f"with them, names the value of a row with a belief of {100 * mean:.1f} % on average (by "
        f"the shares in its group: {100 * even:.1f} %), and is more than 90 % sure of "
        f"{100 * sure:.1f} % of the rows."
    )
    numbers = {"mean belief": mean, "share in the group": even, "rows above 0.9": sure}
    claim = "no value of a person has more than 1/l for an attacker who learns from other groups"
    yield Finding("deFinetti attack", claim, "noted", sentence, numbers)
