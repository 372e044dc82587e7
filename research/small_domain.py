"""The experiments of section 6 of the paper on small domain randomization: its
perturbation partitioning (PP) against uniform perturbation (UP) and Anatomy (Ana).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from time import process_time
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from research.people import People
from research.study import Codes, Floats, Row, Step
from scumble.families.anatomy.design import Groups
from scumble.families.partition.publish import balance_groups, keep_for
from scumble.model.evidence.channels import PartitionChannel, UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.private.mechanism import Mechanism
from scumble.public.release import Release

COLUMNS = (
    "age", "sex", "education", "marital_stat", "race", "class_of_worker", "country_of_birth_self",
    "detailed_occupation_recode",
)  # fmt: skip
BALANCED, SKEWED = "detailed_occupation_recode", "education"
MADE_UP = ("age", "sex", "region", "education", "income", "occupation")
METHODS = ("PP", "UP", "Ana")
FLOORS = (0.001, 0.005, 0.01)  # the selectivities s
GAMMA = 5  # of table 1
RARE = Fraction(1, 30)  # ρ1 for the skewed attribute


@dataclass(frozen=True)
class Scale:
    """How large the experiments are."""

    people: int  # the number of made-up people, or the most rows taken from a table
    sizes: tuple[int, ...]  # the values of |T|, in parts per 100 of the table
    balanced: tuple[int, ...]  # the values of L
    skewed: tuple[int, ...]
    conditions: int
    runs: int


FULL = Scale(300_000, (20, 40, 60, 80, 100), (6, 5, 4, 3), (10, 8, 6, 4), 200, 8)
QUICK = Scale(30_000, (50, 100), (6, 4, 3), (10, 4), 100, 1)


@dataclass(frozen=True)
class Outcome:
    """A publication: its answers, the true ones, the report of its manifest, and its time."""

    estimates: Floats
    truth: Codes
    rows: int
    facts: Mapping[str, Any]
    seconds: float

    def relative(self, floor: float) -> float | None:
        """Return the mean relative error of the queries with at least this selectivity; None if
        there are none.
        """
        chosen = self.truth >= floor * self.rows
        if not chosen.any():
            return None
        off = np.abs(self.estimates - self.truth)[chosen] / self.truth[chosen]
        return float(off.mean())


class Laboratory:
    """A table, its two sensitive attributes, and its views, each published once."""

    def __init__(
        self,
        people: People,
        scale: Scale,
        step: Step,
        *,
        even: str = BALANCED,
        skewed: str = SKEWED,
        seed: int = 1,
    ) -> None:
        self.scale, self.step, self.seed = scale, step, seed
        self.people = people.some(min(people.rows, scale.people), seed)
        self.even, self.skewed = even, skewed
        self._outcomes: dict[tuple[Any, ...], Outcome] = {}
        self._tables: dict[tuple[str, int], tuple[People, Pool, Codes]] = {}

    @property
    def sizes(self) -> list[int]:
        return [self.people.rows * share // 100 for share in self.scale.sizes]

    def table(self, attribute: str, rows: int) -> tuple[People, Pool, Codes]:
        """Return `rows` people with a sensitive attribute, the query pool, and the true answers."""
        if (attribute, rows) not in self._tables:
            people = replace(self.people.some(rows, self.seed), sensitive=attribute)
            pool = Pool.drawn(people, self.scale.conditions, self.seed)
            self._tables[attribute, rows] = people, pool, pool.counts(people.table)
        return self._tables[attribute, rows]

    def counts(self, attribute: str, rows: int) -> Codes:
        people = self.table(attribute, rows)[0]
        size = people.sizes[people.names.index(attribute)]
        return np.bincount(people.column(attribute), minlength=size)

    def bound(self, attribute: str, rows: int) -> Fraction:
        """Return ρ1, with which all values are protected; of the skewed attribute the rare ones."""
        most = Fraction(int(self.counts(attribute, rows).max()), rows)
        return RARE if attribute == self.skewed else most

    def mechanism(self, method: str, attribute: str, rows: int, l: int) -> Mechanism:  # noqa: E741
        """Return the mechanism whose highest posterior is 1/L."""
        rho1, rho2 = self.bound(attribute, rows), Fraction(1, l)
        if method == "PP":
            return sc.Partition(rho1=rho1, rho2=rho2)  # type: ignore[arg-type]
        if method == "Ana":
            return sc.Anatomy(l=l, suppress=True)
        counts = self.counts(attribute, rows)
        most = max(int(count) for count in counts if count <= rho1 * rows)
        return sc.Uniform(rho1=Fraction(most, rows), rho2=rho2)  # type: ignore[arg-type]

    def outcome(self, method: str, attribute: str, rows: int, l: int, run: int) -> Outcome:  # noqa: E741
        key = method, attribute, rows, l, run
        if key not in self._outcomes:
            self.step(f"{method}, {attribute}, {rows:,} rows, L = {l}, run {run + 1}")
            people, pool, truth = self.table(attribute, rows)
            mechanism = self.mechanism(method, attribute, rows, l)
            table, schema = people.table, people.schema
            start = process_time()
            release = sc.publish(
                table, schema, mechanism, options=sc.PublishOptions(seed=self.seed + run)
            )
            seconds = process_time() - start
            found = estimates(release, pool)
            facts = release.manifest.report
            self._outcomes[key] = Outcome(found, truth, rows, facts, seconds)
        return self._outcomes[key]

    def runs(self, method: str, attribute: str, rows: int, l: int) -> list[Outcome]:  # noqa: E741
        return [self.outcome(method, attribute, rows, l, k) for k in range(self.scale.runs)]


def study(laboratory: Laboratory) -> Iterator[tuple[str, list[Row]]]:
    """Run all experiments; yield the name and the rows of each."""
    scale, sizes = laboratory.scale, laboratory.sizes
    even, skewed = laboratory.even, laboratory.skewed
    whole, first = sizes[-1:], scale.balanced[:1]
    yield "table 1", list(probabilities(laboratory.people))
    yield "figure 2, L", list(errors(laboratory, even, whole, scale.balanced))
    yield "table 2", list(retention(laboratory))
    yield "figure 2, T", list(errors(laboratory, even, sizes, first))
    yield "table 3", list(statistics(laboratory))
    yield "figure 3", list(scatter(laboratory))
    yield "figure 4, L", list(errors(laboratory, skewed, whole, scale.skewed))
    yield "figure 4, T", list(errors(laboratory, skewed, sizes, scale.skewed[:1]))
    yield "figure 5", list(times(laboratory))
    yield "figure 6", list(frequencies(laboratory))


def probabilities(people: People) -> Iterator[Row]:
    """Table 1: what γ = 5 leaves of a value, for the paper's domains and for those here."""
    paper = [("paper", size) for size in (77, 70, 50, 14, 9, 7, 6, 2)]
    for name, size in [*paper, *zip(people.names, people.sizes, strict=True)]:
        keep = keep_for(Fraction(GAMMA), size)
        yield {"attribute": name, "m": size, "p": float(keep), "q": float((1 - keep) / size)}


def errors(
    laboratory: Laboratory, attribute: str, sizes: Sequence[int], levels: Sequence[int]
) -> Iterator[Row]:
    """The mean relative error of queries of at least a selectivity, over all runs."""
    for rows, level, method in product(sizes, levels, METHODS):
        runs = laboratory.runs(method, attribute, rows, level)
        truth = runs[0].truth
        row: Row = {"method": method, "rows": rows, "L": level}
        for floor in FLOORS:
            row[f"queries, s = {floor:.1%}"] = int((truth >= floor * rows).sum())
            found = [each.relative(floor) for each in runs]
            known = [error for error in found if error is not None]
            row[f"s = {floor:.1%}"] = float(np.mean(known)) if known else None
            row[f"± {floor:.1%}"] = float(np.std(known)) if known else None
        row["sub-tables"] = runs[0].facts.get("sub-tables")
        yield row


def retention(laboratory: Laboratory) -> Iterator[Row]:
    """Table 2: the mean probability to keep a value."""
    rows, even = laboratory.sizes[-1], laboratory.even
    values = laboratory.people.sizes[laboratory.people.names.index(even)]
    for level in laboratory.scale.balanced:
        facts = laboratory.outcome("PP", even, rows, level, 0).facts
        rho1, rho2 = laboratory.bound(even, rows), Fraction(1, level)
        gamma = rho2 * (1 - rho1) / (rho1 * (1 - rho2))
        alone, ours = float(keep_for(gamma, values)), float(facts["average retention"])
        yield {"L": level, "γ": float(gamma), "UP": alone, "PP": ours, "ratio": ours / alone}


def statistics(laboratory: Laboratory) -> Iterator[Row]:
    """Table 3: the number of sub-tables, and their mean domain size and γ."""
    even, level = laboratory.even, laboratory.scale.balanced[0]
    for rows in laboratory.sizes:
        counts = laboratory.counts(even, rows)
        held = {value: int(count) for value, count in enumerate(counts) if count}
        facts = laboratory.outcome("PP", even, rows, level, 0).facts
        yield {
            "rows": rows,
            "values": len(held),
            "initial groups": len(balance_groups(held, {})),
            "sub-tables": facts["sub-tables"],
            "mean m": float(np.mean(facts["values"])),
            "mean γ": float(np.mean(facts["gamma"])),
        }


def scatter(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 3: estimate against truth, for every query of at least the smallest selectivity."""
    rows, level = laboratory.sizes[-1], laboratory.scale.balanced[0]
    for method in METHODS:
        first = laboratory.outcome(method, laboratory.even, rows, level, 0)
        chosen = first.truth >= FLOORS[0] * rows
        pairs = zip(first.truth[chosen].tolist(), first.estimates[chosen].tolist(), strict=True)
        for truth, estimate in pairs:
            yield {"method": method, "truth": truth, "estimate": estimate}


def times(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 5: processor time of a publication, the least of all runs."""
    pairs = (
        (laboratory.even, laboratory.scale.balanced[0]),
        (
            laboratory.skewed,
            laboratory.scale.skewed[0],
        ),
    )
    for (attribute, level), rows, method in product(pairs, laboratory.sizes, METHODS):
        runs = laboratory.runs(method, attribute, rows, level)
        seconds = min(each.seconds for each in runs)
        yield {"attribute": attribute, "rows": rows, "method": method, "seconds": seconds}


def frequencies(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 6: the shares of all values of both attributes, the most frequent first."""
    rows = laboratory.sizes[-1]
    for attribute in (laboratory.even, laboratory.skewed):
        counts = np.sort(laboratory.counts(attribute, rows))[::-1]
        for rank, count in enumerate(counts.tolist(), 1):
            yield {"attribute": attribute, "rank": rank, "share": count / rows}


# The query pool of the paper, and the answers of a release to it. They are closed forms over whole
# tables, which give the same values as the release's own answers in less time.


@dataclass(frozen=True)
class Pool:
    """Random conditions on one to three columns, each with every value of the sensitive one."""

    sensitive: str
    values: int
    conditions: tuple[dict[str, int], ...]

    @classmethod
    def drawn(cls, people: People, number: int, seed: int) -> Pool:
        """Draw the pool of appendix 10.9: the number of columns, the columns, and a value of each,
        all uniformly.
        """
        generator = np.random.default_rng(seed)
        sizes = dict(zip(people.names, people.sizes, strict=True))
        sensitive = cast(str, people.sensitive)
        others = [name for name in people.names if name != sensitive]
        found = []
        for _ in range(number):
            width = int(generator.integers(1, min(3, len(others)) + 1))
            chosen = [others[place] for place in generator.permutation(len(others))[:width]]
            found.append({name: int(generator.integers(sizes[name])) for name in chosen})
        return cls(sensitive, sizes[sensitive], tuple(found))

    def masks(self, table: pa.Table) -> list[Codes]:
        """Return the places of the rows that satisfy each condition."""
        names = {name for condition in self.conditions for name in condition}
        columns = {name: table[name].to_numpy() for name in names}
        found = []
        for condition in self.conditions:
            tests = [columns[name] == value for name, value in condition.items()]
            found.append(np.flatnonzero(np.logical_and.reduce(tests)))
        return found

    def counts(self, table: pa.Table) -> Codes:
        """Return the true answers: a row for each condition, a column for each value."""
        shown = table[self.sensitive].to_numpy()
        return np.stack(
            [np.bincount(shown[rows], minlength=self.values) for rows in self.masks(table)]
        )


def estimates(release: Release, pool: Pool) -> Floats:
    """Return the answers of a release of uniform, partition or anatomy to all queries."""
    evidence = release.evidence
    if isinstance(evidence, Groups):
        return _of_groups(release, evidence, pool)
    return _of_records(release, cast(Records, evidence), pool)


def _of_records(release: Release, evidence: Records, pool: Pool) -> Floats:
    """The sum over sub-tables of (o − n(1−p)/m)/p for each value of their domains."""
    table = pq.read_table(release.folder / evidence.file)
    channel = evidence.channels[0]
    if isinstance(channel, UniformChannel):
        part = np.zeros(table.num_rows, np.int64)
        keeps, domains = [channel.keep], [tuple(range(pool.values))]
    else:
        split = cast(PartitionChannel, channel)
        part = table[split.column].to_numpy().astype(np.int64)
        keeps, domains = list(split.keeps), list(split.domains)
    keep: Floats = np.array([float(each) for each in keeps])[:, None]
    inside = np.zeros((len(domains), pool.values))
    for place, domain in enumerate(domains):
        inside[place, list(domain)] = 1 / len(domain)
    cells = part * pool.values + table[pool.sensitive].to_numpy()
    found = []
    for rows in pool.masks(table):
        shown = np.bincount(cells[rows], minlength=inside.size).reshape(inside.shape)
        size = shown.sum(axis=1, keepdims=True)
        found.append(((shown - size * (1 - keep) * inside) / keep).sum(axis=0))
    return np.stack(found)


def _of_groups(release: Release, evidence: Groups, pool: Pool) -> Floats:
    """The sum over groups of matching rows times values over size."""
    table = pq.read_table(release.folder / evidence.file, columns=_needed(evidence, pool))
    shown = pq.read_table(release.folder / evidence.values)
    group, count = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    value = shown[pool.sensitive].to_numpy()
    number = int(group.max(initial=0)) + 1
    size = np.bincount(group, count, number)
    share = count / size[group]
    of_row = table[evidence.group].to_numpy()
    found = []
    for rows in pool.masks(table):
        matching = np.bincount(of_row[rows], minlength=number)
        found.append(np.bincount(value, share * matching[group], pool.values))
    return np.stack(found)


def _needed(evidence: Groups, pool: Pool) -> list[str]:
    return sorted({name for condition in pool.conditions for name in condition} | {evidence.group})
