"""The Bayes-optimal adversary of the exposure test: from a published view to a guess for everyone.

All values are equally likely beforehand, so the best guess is the value under which what is shown
was likeliest; ties are broken by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.channels import BagChannel
from scumble.errors import ParameterError
from scumble.evidence import Groups, Records, Tuples
from scumble.pool_law import PoolLaw
from scumble.release import Release

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def guesses(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """The guessed code of the only sensitive attribute for every code of `target`, a column that
    is different for everybody.
    """
    evidence, schema = release.evidence, release.schema
    [sensitive] = schema.sensitive
    people = schema[target].size
    table = pq.read_table(release.folder / evidence.files[0])
    who = schema[target].encode(table[target])[0].astype(np.int64)
    if isinstance(evidence, Records):
        found = np.empty(people, np.int64)
        found[who] = _likeliest(_records(evidence, table, sensitive), rng)
        return found
    if isinstance(evidence, Tuples):
        shown = sensitive.encode(table[sensitive.name])[0].astype(np.int64)
        return _one_of(who, shown, people, sensitive.size, rng)
    if isinstance(evidence, Groups):
        return _by_group(release, evidence, who, table, rng)
    raise ParameterError("The exposure test is about publishers; this release shows no rows.")


def _records(evidence: Records, table: pa.Table, sensitive: Any) -> Floats:
    """The likelihood of every value for every row, up to a factor of the row."""
    [channel] = evidence.channels
    if not isinstance(channel, BagChannel):
        shown = sensitive.encode(table[sensitive.name])[0].astype(np.int64)
        alone: Floats = np.eye(sensitive.size)[shown]
        return alone
    columns = [table[name].to_numpy() for name in channel.columns]
    counts: Floats
    if channel.layout == "counts":
        counts = np.stack(columns, axis=1).astype(np.float64)
    else:
        counts = np.zeros((table.num_rows, sensitive.size))
        for members in columns:
            np.add.at(counts, (np.arange(table.num_rows), members.astype(np.int64)), 1.0)
    if isinstance(channel.law, PoolLaw):  # a member is the true one in proportion to count / share
        counts = counts / np.array([float(share) for share in channel.law.shares])
    return counts


def _likeliest(likelihood: Floats, rng: np.random.Generator) -> Codes:
    best = likelihood >= likelihood.max(axis=1, keepdims=True) * (1 - 1e-12)
    found: Codes = np.argmax(best * (1 + rng.random(best.shape)), axis=1)
    return found


def _one_of(who: Codes, shown: Codes, people: int, values: int, rng: np.random.Generator) -> Codes:
    """One of the values that the view shows with a target, or any if it shows none."""
    found = rng.integers(0, values, people)
    mixed = rng.permutation(len(who))
    found[who[mixed]] = shown[mixed]  # the last one written stays: a uniform choice
    return found


def _by_group(
    release: Release, evidence: Groups, who: Codes, table: pa.Table, rng: np.random.Generator
) -> Codes:
    """The value of whose rows the largest part is in the group of the target."""
    [sensitive] = release.schema.sensitive
    shown = pq.read_table(release.folder / evidence.values)
    codes = sensitive.encode(shown[sensitive.name])[0].astype(np.int64)
    groups, counts = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    whole = np.bincount(codes, counts, sensitive.size)
    likelihood = np.zeros((int(groups.max(initial=0)) + 1, sensitive.size))
    likelihood[groups, codes] = counts / whole[codes]
    found = rng.integers(0, sensitive.size, release.schema[table.column_names[0]].size)
    found[who] = _likeliest(likelihood[table[evidence.group].to_numpy()], rng)
    return found
