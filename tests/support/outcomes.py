"""Releases that list all possible outcomes of a channel, made without randomness.

One table has everything that may be published about a few people. The public attribute `outcome`
distinguishes the outcomes.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import factorial, prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.model.evidence.channels import (
    Channel,
    MultisetChannel,
    MultisetLaw,
    PartitionChannel,
    PoolLaw,
    SubsetLaw,
)
from scumble.model.evidence.evidence import Records
from scumble.model.privacy.guarantee import Guarantees
from scumble.public.estimation.rows.answer import _gather
from scumble.public.estimation.rows.plan import RowsPlan
from scumble.public.estimation.rows.sums import Sums
from scumble.public.manifest import Manifest
from scumble.public.release import Release

Multiset = tuple[int, ...]  # the cells that a row shows, ascending


@dataclass(frozen=True)
class Outcomes:
    """A release of all outcomes, and the probability of each."""

    release: Release
    probabilities: list[Fraction]
    asked: dict[str, Any] = field(default_factory=dict)  # the answers so far, by question

    def answers(self, question: str) -> list[sc.Estimate]:
        """The answer in each outcome to `SELECT what FROM t WHERE condition`."""
        found = dict(self._grouped(question))
        return [found[outcome,] for outcome in range(len(self.probabilities))]

    def moments(self, question: str) -> tuple[float, float, float]:
        """Return mean and variance of the estimate, and the mean of its estimated variance before
        the lower bound is applied.
        """
        weights = np.array([float(probability) for probability in self.probabilities])
        found = {key[0]: estimate.value for key, estimate in self._grouped(question)}
        values = np.array([found.get(outcome, 0.0) for outcome in range(len(weights))])
        mean = float(weights @ values)
        return mean, float(weights @ (values - mean) ** 2), self._variance(question, weights)

    def _grouped(self, question: str) -> Any:
        if question not in self.asked:
            what, _, rest = question.removeprefix("SELECT ").partition(" FROM ")
            grouped = f"SELECT outcome, {what} FROM {rest} GROUP BY outcome"
            self.asked[question] = self.release.answer(grouped)
        return self.asked[question]

    def _variance(self, question: str, weights: Any) -> float:
        what, _, rest = question.removeprefix("SELECT ").partition(" FROM ")
        query = self.release.parse(f"SELECT outcome, {what} FROM {rest} GROUP BY outcome")
        plan = RowsPlan(self.release.evidence, self.release.schema, query)
        counted, holds, amount = _gather(plan, self.release._sandbox)
        groups = counted.groups(["outcome"])
        sums = Sums(plan, counted, groups, holds, amount)
        added = holds if amount is None else amount
        lines = counted.squares if query.aggregate == "sum" and amount is None else counted.count
        variances = sums._weighted(lines, sums.inverse.covariance(added, added))
        places = [key["outcome"] for key in groups.keys]
        return float(weights[places] @ variances)


def release(domain: sc.Schema, channels: Sequence[Channel], published: pa.Table) -> Release:
    """A release of rows that were perturbed elsewhere."""
    folder = Path(tempfile.mkdtemp())
    pq.write_table(published, folder / "records.parquet")
    added = Records("", (), tuple(channels), 0).added
    shown = sc.Schema([*domain, *added])
    names = tuple(shown.names)
    evidence = Records("records.parquet", names, tuple(channels), published.num_rows)
    return Release(Manifest("test", {}, shown, Guarantees(), evidence), folder, temporary=True)


def every(domain: sc.Schema, private: pa.Table, *channels: Channel) -> Outcomes:
    """Return all outcomes of `channels` on the rows of a table, as one release."""
    people = private.num_rows
    choices = [
        _shown(channel, row, cell, domain.size(channel.attributes))
        for channel in channels
        for row, cell in _rows(domain, private, channel)
    ]
    outcomes = list(itertools.product(*(choice.items() for choice in choices)))
    number = sc.Attribute("outcome", "quasi", sc.IntegerRange(0, len(outcomes) - 1))
    published = pa.concat_tables([private] * len(outcomes))
    column = np.repeat(np.arange(len(outcomes)), people)
    published = published.append_column("outcome", pa.array(column))
    for place, channel in enumerate(channels):
        own = slice(place * people, (place + 1) * people)
        multisets = [multiset for chosen in outcomes for multiset, _ in chosen[own]]
        published = publish(domain, published, channel, multisets)
    chances = [prod((chance for _, chance in chosen), start=Fraction(1)) for chosen in outcomes]
    assert sum(chances) == 1
    return Outcomes(release(sc.Schema([number, *domain]), channels, published), chances)


def publish(
    domain: sc.Schema, private: pa.Table, channel: Channel, multisets: Sequence[Multiset]
) -> pa.Table:
    """Return the table with these multisets of cells in place of the true cells."""
    table = private.drop_columns(list(channel.attributes))
    if isinstance(channel, MultisetChannel):
        for place, name in enumerate(channel.columns):
            codes = channel.layout == "codes"
            column = [multiset[place] if codes else multiset.count(place) for multiset in multisets]
            table = table.append_column(name, pa.array(column, pa.int64()))
        return table
    cells = np.array([cell for (cell,) in multisets], np.uint64)
    columns = domain.cell_keys(channel.attributes).unpack(cells)
    for name, codes in zip(channel.attributes, columns, strict=True):
        table = table.append_column(name, domain[name].decode(codes))
    return table


def _rows(domain: sc.Schema, private: pa.Table, channel: Channel) -> list[tuple[Any, int]]:
    """Return each row with the cell of its sensitive values."""
    codes = [domain[name].encode(private[name])[0] for name in channel.attributes]
    keys = domain.cell_keys(channel.attributes).pack(codes)
    return list(zip(private.to_pylist(), map(int, keys), strict=True))


def _shown(channel: Channel, row: dict[str, Any], true: int, size: int) -> dict[Multiset, Fraction]:
    """Return what a row may show, with exact probabilities; a domain has `size` cells."""
    if isinstance(channel, MultisetChannel):
        return multisets_of(channel.law, true)
    if isinstance(channel, PartitionChannel):
        part = row[channel.column]
        keep, cells = channel.keeps[part], channel.domains[part]
    else:
        keep, cells = channel.keep, tuple(range(size))
    assert true in cells
    return {(c,): (1 - keep) / len(cells) + (keep if c == true else 0) for c in cells}


def multisets_of(law: MultisetLaw, true: int) -> dict[Multiset, Fraction]:
    """Return every multiset of a row whose true cell is given, with its exact probability."""
    if isinstance(law, PoolLaw):
        return _pool_multisets(law, true)
    assert isinstance(law, SubsetLaw)
    sets = list(itertools.combinations(range(law.values), law.size))
    inside = sum(true in some for some in sets)
    chances = (law.inclusion / inside, (1 - law.inclusion) / (len(sets) - inside))
    return {some: chances[true not in some] for some in sets}


def _pool_multisets(law: PoolLaw, true: int) -> dict[Multiset, Fraction]:
    found: dict[Multiset, Fraction] = {}
    for drawn in itertools.combinations_with_replacement(range(law.values), law.size - 1):
        multiset = tuple(sorted((*drawn, true)))
        counts = Counter(multiset)
        if law.caps is None or all(counts[v] <= law.caps[v] for v in counts):
            ways = factorial(law.size - 1) // prod(map(factorial, Counter(drawn).values()))
            found[multiset] = ways * prod((law.shares[v] for v in drawn), start=Fraction(1))
    total = sum(found.values())
    return {multiset: chance / total for multiset, chance in found.items()}


def multiset_channel(
    domain: sc.Schema, law: MultisetLaw, layout: Any = "counts"
) -> MultisetChannel:
    names = tuple(attribute.name for attribute in domain.sensitive)
    columns = [f"c{place}" for place in range(law.values if layout == "counts" else law.size)]
    return MultisetChannel(names, layout, tuple(columns), law)
