"""Checks of generalised rows, from the release alone: k, l, t and α are counted again, and the risk
figures that owners know are computed.

The attacker knows the quasi-identifiers of a target, and how the rows were grouped. So the rows of
the target's group are the candidates, and each is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scumble.audit.report import Finding, Verdict
from scumble.model.evidence.generalised import Generalised
from scumble.model.privacy.guarantee import Guarantee, percent_at_least, percent_at_most
from scumble.private.perturbation.generalisation.criteria import Criteria, Distance, entropies
from scumble.public.estimation.rows.generalised.rows import GeneralisedRows
from scumble.public.release import Release

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
AT_RISK = Fraction(1, 5)  # a row is at risk if it is found with a larger probability
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class PublishedGroups:
    """The groups of a release, and how often each has each sensitive value."""

    rows: GeneralisedRows

    @classmethod
    def of(cls, release: Release) -> PublishedGroups | None:
        """Return the groups; None if the release has no generalised rows."""
        if not isinstance(release.evidence, Generalised) or not release.evidence.rows:
            return None
        return cls(GeneralisedRows.read(release.schema, release.evidence, release.folder))

    @property
    def sizes(self) -> Integers:
        return self.rows.sizes

    @cached_property
    def values(self) -> Integers:
        """The counts of the combinations of sensitive values that occur, one line a group."""
        names = [attribute.name for attribute in self.rows.schema.sensitive]
        return self.counts(self.rows.group, names)

    def counts(self, group: Integers, names: list[str]) -> Integers:
        """Return how often each group of rows has each combination of some columns."""
        key = np.zeros(len(group), np.int64)
        for name in names:
            key = key * self.rows.schema[name].size + self.rows.codes[name]
        if len(names) == 1:
            size = self.rows.schema[names[0]].size
        else:
            found, key = np.unique(key, return_inverse=True)
            size = len(found)
        groups = int(group.max()) + 1
        counted = np.bincount(group * size + key, minlength=groups * size)
        return counted.reshape(groups, size)


def check(release: Release, promise: Guarantee) -> Finding | None:
    """Return the finding about a promise of generalised rows; None if it is not one of them."""
    groups = PublishedGroups.of(release)
    if groups is None:
        return None
    given = promise.parameters
    if promise.statement == "k-anonymity":
        return _least(promise, float(groups.sizes.min()), given["k"], "rows in the smallest group")
    if not release.schema.sensitive:
        return None
    values = groups.values
    if promise.statement == "distinct l-diversity":
        worst = float((values > 0).sum(axis=1).min())
        return _least(promise, worst, given["l"], "different values in the worst group")
    if promise.statement == "entropy l-diversity":
        worst = float(np.exp(entropies(values).min()))
        return _least(promise, worst, given["l"], "equally frequent values of the same entropy")
    if promise.statement == "recursive (c, l)-diversity":
        ordered = -np.sort(-values, axis=1)
        tail = ordered[:, int(given["l"]) - 1 :].sum(axis=1)
        ratio = float((ordered[:, 0] / np.maximum(tail, 1e-300)).max())
        return _most(promise, ratio, given["c"], "the most frequent value over the tail, at worst,")
    if promise.statement == "(α, k)-anonymity":
        share = float((values.max(axis=1) / groups.sizes).max())
        return _most(promise, share, given["alpha"], "the largest share of one value in a group")
    if promise.statement.startswith("t-closeness"):
        found = float(_distances(release, promise, values).max())
        what = "the largest distance of a group from all published rows"
        return _most(promise, found, given["t"], what)
    return None


def _distances(release: Release, promise: Guarantee, values: Integers) -> Floats:
    words = promise.statement.split()[1]
    criteria = Criteria(k=1)
    if words != "equal":
        [one] = release.schema.sensitive
        distance: Distance = "ordered" if words == "ordered" else "hierarchical"
        criteria = replace(criteria, distance=distance, levels=one.levels, missing=one.missing)
    return criteria.distances(values, values.sum(axis=0))


def _least(promise: Guarantee, found: float, claimed: float, what: str) -> Finding:
    broken = found < claimed * (1 - _SLACK)
    said = (
        f"fewer than the {claimed:g} promised" if broken else f"at least the {claimed:g} promised"
    )
    sentence = f"Counted in the release there are {found:.6g} {what}: {said}."
    return _finding(promise, broken, sentence, found, claimed)


def _most(promise: Guarantee, found: float, claimed: float, what: str) -> Finding:
    broken = found > claimed * (1 + _SLACK)
    said = f"more than the {claimed:g} promised" if broken else f"within the {claimed:g} promised"
    sentence = f"Counted in the release, {what} is {found:.6g}: {said}."
    return _finding(promise, broken, sentence, found, claimed)


def _finding(
    promise: Guarantee, broken: bool, sentence: str, found: float, claimed: float
) -> Finding:
    verdict: Verdict = "refuted" if broken else "exact"
    numbers = {"found": found, "claimed": claimed}
    return Finding("exact check", promise.claim, verdict, sentence, numbers)


def candidate_shares(release: Release, target: str) -> Floats:
    """Return, for every value of `target`, the share of the rows of each sensitive value that are
    among the rows that may be the target's.
    """
    rows = GeneralisedRows.read(release.schema, release.evidence, release.folder)
    [sensitive] = release.schema.sensitive
    tree, codes = rows.tree(target), rows.codes[sensitive.name]
    by_node = np.zeros((len(tree.size), sensitive.size))
    np.add.at(by_node, (rows.nodes[target], codes), 1.0)
    by_node /= np.maximum(by_node.sum(axis=0), 1)
    used = np.flatnonzero(by_node.any(axis=1))
    found = np.zeros((tree.levels.size, sensitive.size))
    np.add.at(found, tree.codes_of(used), np.repeat(by_node[used], tree.size[used], axis=0))
    return found


# What the promises do not cover.


@dataclass(frozen=True)
class Risk:
    """The risk of re-identification of rows in groups of the given sizes.

    `highest` and `average` are the probabilities to pick the right row of a target who is known to
    be in the table (prosecutor), at worst and on average. `at_risk` is the number of rows for which
    it is above `AT_RISK`. `expected` is the number of rows that an attacker finds who matches
    everybody (marketer): one of each group.
    """

    rows: int
    highest: float
    average: float
    at_risk: int
    expected: int

    @classmethod
    def of(cls, sizes: Integers) -> Risk:
        small = sizes < float(1 / AT_RISK)
        rows = int(sizes.sum())
        return cls(
            rows, 1 / int(sizes.min()), len(sizes) / rows, int(sizes[small].sum()), len(sizes)
        )

    def sentence(self) -> str:
        share = percent_at_most(Fraction(self.expected, self.rows))
        return (
            f"Prosecutor (who knows that a target is in the table): finds the row with probability "
            f"{self.highest:.3g} at worst, {self.average:.3g} on average; {self.at_risk:,} of "
            f"{self.rows:,} rows are at risk (above {float(AT_RISK):g}). Journalist (who does not "
            "know who is in it): at most the same, less if the table is a sample. Marketer (who "
            f"matches everybody): expects {self.expected:,} right matches ({share})."
        )

    def numbers(self) -> dict[str, float]:
        return {
            "highest risk": self.highest,
            "average risk": self.average,
            "rows at risk": float(self.at_risk),
            "expected matches": float(self.expected),
        }


def findings(release: Release) -> Iterator[Finding]:
    """Yield what the promises of generalised rows do not cover; nothing for other releases."""
    groups = PublishedGroups.of(release)
    if groups is None:
        return
    yield _stated(release, groups)
    risk = Risk.of(groups.sizes)
    yield Finding("risk", "the risk of re-identification", "noted", risk.sentence(), risk.numbers())
    yield from _linked(release, groups)


def _stated(release: Release, groups: PublishedGroups) -> Finding:
    """Check that the rows that were left out are stated alike wherever they are."""
    evidence = groups.rows.evidence
    said = release.manifest.report.get("rows left out")
    limits = [limit for each in release.guarantees for limit in each.limits]
    named = any("left out, because too few" in limit for limit in limits)
    fits = said == evidence.left_out and named == bool(evidence.left_out)
    whole = evidence.rows + evidence.left_out
    sentence = (
        f"{evidence.left_out:,} of {whole:,} rows were left out, and the release says so."
        if fits
        else "How many rows were left out is not stated alike in the manifest and in its limits."
    )
    verdict: Verdict = "exact" if fits else "refuted"
    return Finding("left out", "rows that are left out are stated", verdict, sentence)


def _linked(release: Release, groups: PublishedGroups) -> Iterator[Finding]:
    """Yield how often an attacker names the right sensitive value, with and without the columns
    that are published as they are.
    """
    rows = groups.rows
    for attribute in release.schema.sensitive:
        counts = groups.counts(rows.group, [attribute.name])
        prior = float(counts.sum(axis=0).max()) / rows.evidence.rows
        alone = (counts > 0).sum(axis=1) == 1
        told = int(groups.sizes[alone].sum())
        success = float(counts.max(axis=1).sum()) / rows.evidence.rows
        sentence = (
            f"Who knows the quasi-identifiers names {attribute.name} rightly for "
            f"{percent_at_least(round(success, 12))} of the rows, against "
            f"{percent_at_least(round(prior, 12))} blindly; in {int(alone.sum()):,} groups "
            f"({told:,} rows) everybody has the same value."
        )
        auxiliary = tuple(a.name for a in release.schema.insensitive)
        numbers = {"success": success, "prior": prior, "rows told": float(told)}
        if auxiliary:
            finer = groups.counts(rows.grouped(auxiliary), [attribute.name])
            more = float(finer.max(axis=1).sum()) / rows.evidence.rows
            single = int((finer.sum(axis=1) == 1).sum())
            sentence += (
                f" Who also knows {', '.join(auxiliary)}: {percent_at_least(round(more, 12))}, and "
                f"{single:,} rows are found alone."
            )
            numbers |= {"success with auxiliary columns": more, "rows alone": float(single)}
        yield Finding("linkage", f"what is told of {attribute.name}", "noted", sentence, numbers)
