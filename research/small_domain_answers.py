"""The query pool of the paper on small domain randomization, and the answers of a release to it.

Closed forms over whole tables: a release answers the same, with intervals, in more time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from research.people import Codes, People
from scumble.model.evidence.channels import SplitChannel, UniformChannel
from scumble.model.evidence.evidence import Groups, Records
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Random conditions on one to three columns, each with every value of the sensitive one."""

    sensitive: str
    values: int
    conditions: tuple[dict[str, int], ...]

    @classmethod
    def drawn(cls, people: People, number: int, seed: int) -> Pool:
        """Appendix 10.9: how many columns, which, and which value of each, all with equal odds."""
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
        """For each condition the places of the rows that satisfy it."""
        names = {name for condition in self.conditions for name in condition}
        columns = {name: table[name].to_numpy() for name in names}
        found = []
        for condition in self.conditions:
            tests = [columns[name] == value for name, value in condition.items()]
            found.append(np.flatnonzero(np.logical_and.reduce(tests)))
        return found

    def counts(self, table: pa.Table) -> Codes:
        """True answers: a row for each condition, a column for each value."""
        shown = table[self.sensitive].to_numpy()
        return np.stack(
            [np.bincount(shown[rows], minlength=self.values) for rows in self.masks(table)]
        )


def estimates(release: Release, pool: Pool) -> Floats:
    """What a release of uniform, partition or anatomy answers to all queries."""
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
        split = cast(SplitChannel, channel)
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
