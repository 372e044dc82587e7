"""Checks of generalised rows, from the release alone: count k, l, t and α again, and compute the
risk figures that owners know.

The attacker knows the quasi-identifiers of a target, and how the rows were grouped. So the rows of
the target's group are the candidates, and each is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from math import inf
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.audit.exposure import Codes, GroupExposure, group_exposure, guess_likeliest
from scumble.audit.linkage import LinkageResult, check_known, only_sensitive
from scumble.audit.report import Finding, Verdict
from scumble.audit.row_laws import EXCLUDED, RowLaw
from scumble.audit.subjects import NOT_COMPARED
from scumble.audit.table_risk import classes
from scumble.families.generalise.design import Generalised
from scumble.families.generalise.publish.criteria import Criteria, Distance, entropies
from scumble.families.generalise.read import GeneralisedRows
from scumble.model.errors import ParameterError, PromiseError
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.guarantee import Guarantee, percent_at_least, percent_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, create
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.public.release import Release

if TYPE_CHECKING:
    from scumble.compare.truth import TrueTable

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
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        groups = int(group.max()) + 1
        counted = np.bincount(group * size + key, minlength=groups * size)
        return counted.reshape(groups, size)


def check_promise(release: Release, promise: Guarantee) -> Finding | None:
    """Return the finding about a promise of generalised rows; None if it is not one of them."""
    groups = PublishedGroups.of(release)
    if groups is None:
        return None
    given = promise.parameters
    if promise.statement == "k-anonymity":
        return _check_least(
            promise, float(groups.sizes.min()), given["k"], "rows in the smallest group"
        )
    if not release.schema.sensitive:
        return None
    values = groups.values
    if promise.statement == "distinct l-diversity":
        worst = float((values > 0).sum(axis=1).min())
        return _check_least(promise, worst, given["l"], "different values in the worst group")
    if promise.statement == "entropy l-diversity":
        worst = float(np.exp(entropies(values).min()))
        return _check_least(
            promise, worst, given["l"], "equally frequent values of the same entropy"
        )
    if promise.statement == "recursive (c, l)-diversity":
        ordered = -np.sort(-values, axis=1)
        tail = ordered[:, int(given["l"]) - 1 :].sum(axis=1)
        ratio = float((ordered[:, 0] / np.maximum(tail, 1e-300)).max())
        return _check_most(
            promise, ratio, given["c"], "the most frequent value over the tail, at worst,"
        )
    if promise.statement == "(α, k)-anonymity":
        share = float((values.max(axis=1) / groups.sizes).max())
        return _check_most(
            promise, share, given["alpha"], "the largest share of one value in a group"
        )
    if promise.statement.startswith("t-closeness"):
        distance = float(_measure_distances(release, promise, values).max())
        what = "the largest distance of a group from all published rows"
        return _check_most(promise, distance, given["t"], what)
    return None


def _measure_distances(release: Release, promise: Guarantee, values: Integers) -> Floats:
    words = promise.statement.split()[1]
    criteria = Criteria(k=1)
    if words != "equal":
        [one] = release.schema.sensitive
        distance: Distance = "ordered" if words == "ordered" else "hierarchical"
        criteria = replace(criteria, distance=distance, levels=one.levels, missing=one.missing)
    return criteria.distances(values, values.sum(axis=0))


def _check_least(promise: Guarantee, counted: float, claimed: float, what: str) -> Finding:
    broken = counted < claimed * (1 - _SLACK)
    said = (
        f"fewer than the {claimed:g} promised" if broken else f"at least the {claimed:g} promised"
    )
    sentence = f"Counted in the release there are {counted:.6g} {what}: {said}."
    return _make_finding(promise, broken, sentence, counted, claimed)


def _check_most(promise: Guarantee, counted: float, claimed: float, what: str) -> Finding:
    broken = counted > claimed * (1 + _SLACK)
    said = f"more than the {claimed:g} promised" if broken else f"within the {claimed:g} promised"
    sentence = f"Counted in the release, {what} is {counted:.6g}: {said}."
    return _make_finding(promise, broken, sentence, counted, claimed)


def _make_finding(
    promise: Guarantee, broken: bool, sentence: str, counted: float, claimed: float
) -> Finding:
    verdict: Verdict = "refuted" if broken else "exact"
    numbers = {"found": counted, "claimed": claimed}
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
    shares = np.zeros((tree.levels.size, sensitive.size))
    np.add.at(shares, tree.codes_of(used), np.repeat(by_node[used], tree.size[used], axis=0))
    return shares


def guess_values(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """Return the likeliest value for every code of `target`."""
    return guess_likeliest(candidate_shares(release, target), rng)


def find_row_law(_: Evidence, __: Schema, ___: float) -> RowLaw:
    """Return the law of a row: no ε holds."""
    return RowLaw(inf, None, f"{EXCLUDED} a row: its true value is published")


def link_people(release: Release, known: Sequence[str] | None) -> LinkageResult:
    """Return what groups of generalised rows tell. Rows with the same labels are one group."""
    evidence = cast(Generalised, release.evidence)
    sensitive = only_sensitive(release)
    allowed = [name for name in evidence.columns if name != sensitive.name]
    columns = check_known(allowed, known)
    rows = GeneralisedRows.read(release.schema, evidence, release.folder)
    group = np.zeros(evidence.rows, np.int64)
    for name in columns:
        column = rows.nodes[name] if name in rows.nodes else rows.codes[name]
        _, group = np.unique(group * (int(column.max()) + 1) + column, return_inverse=True)
    _, first, counts = np.unique(group, return_index=True, return_counts=True)
    total = np.zeros((len(first), sensitive.size))
    np.add.at(total, (group, rows.codes[sensitive.name]), 1.0)
    people = rows.labelled().select(list(columns)).take(pa.array(first)).to_pylist()
    values = sensitive.labels().to_pylist()
    prior = total.sum(axis=0) / total.sum()
    return LinkageResult(columns, people, counts, prior, total / counts[:, None], values)


def table_exposure(release: Release, table: TrueTable) -> GroupExposure:
    """Return the success of the best guess from generalised rows, by the rule of groups.

    The attacker knows all other columns of a person: those that are generalised, and those that are
    published as they are. Rows that agree in all of them are a group.
    """
    rows = GeneralisedRows.read(release.schema, release.evidence, release.folder)
    names = [attribute.name for attribute in release.schema.sensitive]
    group = rows.group_by(tuple(name for name in rows.codes if name not in names))
    codes = np.zeros(len(group), np.int64)
    for name in names:
        codes = codes * table.schema[name].size + rows.codes[name]
    whole = table.cube(names).reshape(-1)
    cells, counts = np.unique(group * len(whole) + codes, return_counts=True)
    return group_exposure(cells // len(whole), cells % len(whole), counts, whole)


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


def release_findings(release: Release) -> Iterator[Finding]:
    """Yield what the promises of generalised rows do not cover."""
    yield from risk_findings(release)
    given = release.manifest.parameters
    if release.manifest.mechanism == "generalise" and given.get("l"):
        yield minimality_finding(create("generalise", k=2, l=2, recoding=given["recoding"]))


def risk_findings(release: Release) -> Iterator[Finding]:
    """Yield how many rows were left out, and the risks of re-identification and of linkage."""
    groups = PublishedGroups.of(release)
    if groups is None:
        return
    yield _check_stated(release, groups)
    risk = Risk.of(groups.sizes)
    yield Finding("risk", "the risk of re-identification", "noted", risk.sentence(), risk.numbers())
    yield from _link_values(release, groups)


def _check_stated(release: Release, groups: PublishedGroups) -> Finding:
    """Check that the manifest and the limits state the same number of rows left out."""
    evidence = groups.rows.evidence
    said = release.manifest.report.get("rows left out")
    limits = [limit for guarantee in release.guarantees for limit in guarantee.limits]
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


def _link_values(release: Release, groups: PublishedGroups) -> Iterator[Finding]:
    """Yield how often an attacker names the right sensitive value, with and without the columns
    that are published as they are.
    """
    rows = groups.rows
    for attribute in release.schema.sensitive:
        counts = groups.counts(rows.group, [attribute.name])
        prior = float(counts.sum(axis=0).max()) / rows.evidence.rows
        alone = (counts > 0).sum(axis=1) == 1
        revealed = int(groups.sizes[alone].sum())
        success = float(counts.max(axis=1).sum()) / rows.evidence.rows
        sentence = (
            f"Who knows the quasi-identifiers names {attribute.name} rightly for "
            f"{percent_at_least(round(success, 12))} of the rows, against "
            f"{percent_at_least(round(prior, 12))} blindly; in {int(alone.sum()):,} groups "
            f"({revealed:,} rows) everybody has the same value."
        )
        auxiliary = tuple(a.name for a in release.schema.insensitive)
        numbers = {"success": success, "prior": prior, "rows told": float(revealed)}
        if auxiliary:
            finer = groups.counts(rows.group_by(auxiliary), [attribute.name])
            more = float(finer.max(axis=1).sum()) / rows.evidence.rows
            single = int((finer.sum(axis=1) == 1).sum())
            sentence += (
                f" Who also knows {', '.join(auxiliary)}: {percent_at_least(round(more, 12))}, and "
                f"{single:,} rows are found alone."
            )
            numbers |= {"success with auxiliary columns": more, "rows alone": float(single)}
        yield Finding("linkage", f"what is told of {attribute.name}", "noted", sentence, numbers)


# Attacks that need more than one release: what the private table tells its owner, the intersection
# of two releases, and the minimality attack.

_PEOPLE = 2_000  # targets of the intersection attack, at most


def owner_findings(
    release: Release, source: Any, *, outside: Outside = "error", joined: Release | None = None
) -> Iterator[Finding]:
    """Yield what only the owner can tell: the risk before and after, whether every row is accounted
    for, and, with a second release of the same table, what both together tell.
    """
    groups = PublishedGroups.of(release)
    if groups is None:
        raise ParameterError(NOT_COMPARED)
    evidence = groups.rows.evidence
    rows = Rows(open_source(source), release.schema, outside=outside)
    names = [attribute.name for attribute in release.schema.published]
    codes = _read_columns(rows, names)
    total = len(next(iter(codes.values())))
    fits = total == evidence.rows + evidence.left_out
    verdict: Verdict = "exact" if fits else "refuted"
    sentence = (
        "Published rows and rows left out add up to those of the table."
        if fits
        else f"The release accounts for {evidence.rows + evidence.left_out:,} rows; the table has "
        f"{total:,}: rows were left out that are not stated."
    )
    yield Finding("left out", "every row is published or stated", verdict, sentence)
    yield _check_rows(groups.rows, codes)
    before = Risk.of(classes(rows, list(evidence.generalised), None).sizes)
    after = Risk.of(groups.sizes)
    yield Finding("risk", "before", "noted", before.sentence(), before.numbers())
    change = (
        f"After: {after.expected:,} expected re-identifications in place of {before.expected:,}, "
        f"{after.at_risk:,} rows at risk in place of {before.at_risk:,}, and at worst a "
        f"probability of {after.highest:.3g} in place of {before.highest:.3g}."
    )
    yield Finding("risk", "after", "noted", change, after.numbers())
    if joined is not None:
        yield intersection(release, joined, codes)


def _read_columns(rows: Rows, names: Sequence[str]) -> dict[str, Integers]:
    parts = list(rows.batches(list(names)))
    empty = [np.empty(0, np.int64) for _ in names]
    joined = [np.concatenate([e, *p]) for e, *p in zip(empty, *parts, strict=True)]
    return {name: column.astype(np.int64) for name, column in zip(names, joined, strict=True)}


def _check_rows(shown: GeneralisedRows, codes: dict[str, Integers]) -> Finding:
    """Check that no more published rows show a value than rows of the table can."""
    worst = ""
    for name, nodes in shown.nodes.items():
        tree = shown.tree(name)
        have = np.concatenate(
            [[0], np.cumsum(np.bincount(codes[name], minlength=tree.levels.size)[tree.order])]
        )
        able = have[tree.begin + tree.size] - have[tree.begin]
        if (np.bincount(nodes, minlength=len(tree.size)) > able).any():
            worst = name
    for name, column in shown.codes.items():
        size = shown.schema[name].size
        if (np.bincount(column, minlength=size) > np.bincount(codes[name], minlength=size)).any():
            worst = name
    sentence = (
        f"More rows show a group of {worst} than the table has."
        if worst
        else ("No column shows a group of values in more rows than the table has.")
    )
    return Finding("truth", "every row is true", "refuted" if worst else "exact", sentence)


# Two releases of the same people.


def candidates(groups: PublishedGroups, people: dict[str, Integers]) -> Floats:
    """Return for each person how many rows that may be theirs have each sensitive value."""
    rows = groups.rows
    first = np.unique(rows.group, return_index=True)[1]
    number = len(next(iter(people.values())))
    inside = np.ones((number, len(first)), bool)
    for name, nodes in rows.nodes.items():
        tree = rows.tree(name)
        position = np.empty(tree.levels.size, np.int64)
        position[tree.order] = np.arange(tree.levels.size)
        at, node = position[people[name]][:, None], nodes[first][None, :]
        inside &= (at >= tree.begin[node]) & (at < tree.begin[node] + tree.size[node])
    counts: Floats = inside.astype(np.float64) @ groups.values.astype(np.float64)
    return counts


def intersection(one: Release, other: Release, people: dict[str, Integers]) -> Finding:
    """Return what two releases tell together of people whose quasi-identifiers are known.

    `people` are the codes of the table. A value must be possible in both releases, and the best
    guess is the value with the largest product of shares, over its share in the table. Up to 2,000
    people are tried, evenly spread over the table.
    """
    groups = [PublishedGroups.of(release) for release in (one, other)]
    sensitive = [[a.name for a in release.schema.sensitive] for release in (one, other)]
    same = len(sensitive[0]) == 1 and sensitive[0] == sensitive[1]
    if groups[0] is None or groups[1] is None or not same:
        raise ParameterError(
            "Two releases by generalise with the same sensitive attribute can be joined."
        )
    if set(groups[1].rows.nodes) - set(people):
        raise ParameterError("Both releases must have the same quasi-identifiers.")
    number = len(next(iter(people.values())))
    chosen = np.unique(np.linspace(0, number - 1, min(number, _PEOPLE)).astype(np.int64))
    known = {name: codes[chosen] for name, codes in people.items()}
    counts = [candidates(published, known) for published in groups if published is not None]
    possible = [count > 0 for count in counts]
    alone = [float((flags.sum(axis=1) == 1).mean()) for flags in possible]
    both = float(((possible[0] & possible[1]).sum(axis=1) == 1).mean())
    truth = known[sensitive[0][0]]
    prior = np.maximum(groups[0].values.sum(axis=0), 1)
    weights = [counts[0], counts[1], counts[0] * counts[1] / prior]
    right = [float((weight.argmax(axis=1) == truth).mean()) for weight in weights]
    shown = [percent_at_least(round(share, 12)) for share in (*alone, both, *right)]
    sentence = (
        f"Of {len(chosen):,} people, the first release alone leaves one possible value for "
        f"{shown[0]}, the second for {shown[1]}, and both together for {shown[2]}; the best guess "
        f"is right for {shown[3]}, {shown[4]} and {shown[5]}."
    )
    numbers = {"first": alone[0], "second": alone[1], "both": both}
    numbers |= {"right by first": right[0], "right by second": right[1], "right by both": right[2]}
    return Finding("intersection", "what two releases tell together", "noted", sentence, numbers)


# The minimality attack: the attacker knows that nothing is made coarser than necessary.

_MOST_ASSIGNMENTS = 50_000


@dataclass(frozen=True)
class Minimality:
    """The highest posterior of a value of a person, with and without knowledge of the algorithm."""

    within_group: float
    with_algorithm: float


def minimality(mechanism: Mechanism, schema: Schema, table: pa.Table) -> Minimality:
    """Return what the minimality attack tells of a table, by enumeration.

    The attacker knows the quasi-identifiers of everybody and the published rows. Every assignment
    of the published sensitive values to the people is tried: those for which the method publishes
    the same rows are possible, and equally likely.
    """
    [sensitive] = schema.sensitive
    values = table[sensitive.name].to_pylist()
    seen = _publish_rows(mechanism, schema, table)
    every = sorted(set(permutations(values)), key=str)
    if len(every) > _MOST_ASSIGNMENTS:
        raise ParameterError("The table is too large to try all assignments.")
    index = table.column_names.index(sensitive.name)
    possible = []
    for assigned in every:
        other = table.set_column(index, sensitive.name, pa.array(assigned))
        if _publish_rows(mechanism, schema, other) == seen:
            possible.append(assigned)
    shares = [
        max(sum(assignment[at] == value for assignment in possible) for value in set(values))
        / len(possible)
        for at in range(table.num_rows)
    ]
    groups = PublishedGroups.of(publish(table, schema, mechanism, options=PublishOptions(seed=0)))
    largest = 0.0 if groups is None else float((groups.values.max(axis=1) / groups.sizes).max())
    return Minimality(largest, max(shares))


def _publish_rows(mechanism: Mechanism, schema: Schema, table: pa.Table) -> list[Any] | None:
    try:
        release = publish(table, schema, mechanism, options=PublishOptions(seed=0))
    except PromiseError:
        return None
    rows: list[Any] = release.generalised.labelled().to_pylist()
    return rows


def plant_table() -> tuple[Schema, pa.Table]:
    """Return a table of five people on which a method that generalises for l = 2 only where needed
    gives away who made it necessary: only two people with the same value in place a did.
    """
    illness = ["flu", "flu", "asthma", "gout", "none"]
    schema = Schema(
        (
            Attribute("place", "quasi", Category(("a", "b"))),
            Attribute("illness", "sensitive", Category(tuple(dict.fromkeys(illness)))),
        )
    )
    return schema, pa.table({"place": ["a", "a", "b", "b", "b"], "illness": illness})


def minimality_finding(mechanism: Mechanism) -> Finding:
    """Return what the minimality attack tells of the planted table."""
    schema, table = plant_table()
    result = minimality(mechanism, schema, table)
    sentence = (
        "On a made-up table of five people an attacker who knows everybody's quasi-identifiers and "
        f"how the groups are chosen is sure of a value to {result.with_algorithm:.3g}, where the "
        f"group alone shows {result.within_group:.3g}."
    )
    numbers = {"with algorithm": result.with_algorithm, "within group": result.within_group}
    return Finding("minimality", "groups tell nothing but their values", "noted", sentence, numbers)
