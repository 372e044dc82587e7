"""Attacks on generalised rows that need more than one release: what the private table tells its
owner, the intersection of two releases, and the minimality attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.audit.anonymity.generalised import PublishedGroups, Risk
from scumble.audit.anonymity.table_risk import classes
from scumble.audit.report import Finding, Verdict
from scumble.model.errors import ParameterError
from scumble.model.privacy.guarantee import percent_at_least
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.private.publish import publish
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.public.estimation.rows.generalised.rows import GeneralisedRows
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_PEOPLE = 2_000  # targets of the intersection attack, at most


def owner_findings(
    release: Release, source: Any, *, outside: Outside = "error", joined: Release | None = None
) -> Iterator[Finding]:
    """Yield what only the owner can tell: the risk before and after, whether every row is accounted
    for, and, with a second release of the same table, what both together tell.
    """
    groups = PublishedGroups.of(release)
    if groups is None:
        raise ParameterError("Only a release by generalise with rows is compared with its table.")
    evidence = groups.rows.evidence
    rows = Rows(open_source(source), release.schema, outside=outside)
    names = [attribute.name for attribute in release.schema.published]
    codes = _columns(rows, names)
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
    yield _true_rows(groups.rows, codes)
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


def _columns(rows: Rows, names: Sequence[str]) -> dict[str, Integers]:
    parts = list(rows.batches(list(names)))
    empty = [np.empty(0, np.int64) for _ in names]
    joined = [np.concatenate([e, *p]) for e, *p in zip(empty, *parts, strict=True)]
    return {name: column.astype(np.int64) for name, column in zip(names, joined, strict=True)}


def _true_rows(shown: GeneralisedRows, codes: dict[str, Integers]) -> Finding:
    """Check that no value is in more published rows than rows of the table could show it so."""
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
        place = np.empty(tree.levels.size, np.int64)
        place[tree.order] = np.arange(tree.levels.size)
        at, node = place[people[name]][:, None], nodes[first][None, :]
        inside &= (at >= tree.begin[node]) & (at < tree.begin[node] + tree.size[node])
    found: Floats = inside.astype(np.float64) @ groups.values.astype(np.float64)
    return found


def intersection(one: Release, other: Release, people: dict[str, Integers]) -> Finding:
    """Return what two releases tell together of people whose quasi-identifiers are known.

    `people` are the codes of the table. A value must be possible in both releases, and the best
    guess is the value with the largest product of shares, over its share in the table. Up to 2,000
    people are tried, evenly spread over the table.
    """
    groups = [PublishedGroups.of(each) for each in (one, other)]
    sensitive = [[a.name for a in each.schema.sensitive] for each in (one, other)]
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
    counts = [candidates(each, known) for each in groups if each is not None]
    possible = [each > 0 for each in counts]
    alone = [float((each.sum(axis=1) == 1).mean()) for each in possible]
    both = float(((possible[0] & possible[1]).sum(axis=1) == 1).mean())
    truth = known[sensitive[0][0]]
    prior = np.maximum(groups[0].values.sum(axis=0), 1)
    weights = [counts[0], counts[1], counts[0] * counts[1] / prior]
    right = [float((each.argmax(axis=1) == truth).mean()) for each in weights]
    shown = [percent_at_least(round(each, 12)) for each in (*alone, both, *right)]
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
    seen = _published(mechanism, schema, table)
    every = sorted(set(permutations(values)), key=str)
    if len(every) > _MOST_ASSIGNMENTS:
        raise ParameterError("The table is too large to try all assignments.")
    place = table.column_names.index(sensitive.name)
    possible = []
    for assigned in every:
        other = table.set_column(place, sensitive.name, pa.array(assigned))
        if _published(mechanism, schema, other) == seen:
            possible.append(assigned)
    shares = [
        max(sum(each[at] == value for each in possible) for value in set(values)) / len(possible)
        for at in range(table.num_rows)
    ]
    groups = PublishedGroups.of(publish(table, schema, mechanism, seed=0))
    largest = 0.0 if groups is None else float((groups.values.max(axis=1) / groups.sizes).max())
    return Minimality(largest, max(shares))


def _published(mechanism: Mechanism, schema: Schema, table: pa.Table) -> list[Any] | None:
    from scumble.model.errors import PromiseError

    try:
        release = publish(table, schema, mechanism, seed=0)
    except PromiseError:
        return None
    found: list[Any] = release.generalised().labelled().to_pylist()
    return found


def planted() -> tuple[Schema, pa.Table]:
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
    schema, table = planted()
    found = minimality(mechanism, schema, table)
    sentence = (
        "On a made-up table of five people an attacker who knows everybody's quasi-identifiers and "
        f"how the groups are chosen is sure of a value to {found.with_algorithm:.3g}, where the "
        f"group alone shows {found.within_group:.3g}."
    )
    numbers = {"with algorithm": found.with_algorithm, "within group": found.within_group}
    return Finding("minimality", "groups tell nothing but their values", "noted", sentence, numbers)
