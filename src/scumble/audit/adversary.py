"""The Bayes-optimal adversary of the exposure test: from a published view to a guess for everyone.

All values are equally likely beforehand, so the best guess is the value under which what is shown
was likeliest; ties are broken by chance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scumble.model.errors import ParameterError
from scumble.model.evidence.channels import BagChannel
from scumble.model.evidence.evidence import Groups, Records, Tuples
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.evidence.presence import Included
from scumble.model.schema.schema import Schema
from scumble.public.release import Release

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def guesses(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """The guessed code of the only sensitive attribute for every code of `target`, a column that
    is different for everybody.
    """
    if isinstance(release.evidence, Groups):
        return _by_group(release, release.evidence, target, rng)
    likelihood = shown(release, target)
    [channel] = release.evidence.channels if isinstance(release.evidence, Records) else [None]
    if isinstance(channel, BagChannel) and isinstance(channel.law, PoolLaw):
        # A member of the bag is the true one in proportion to its count over its share.
        likelihood /= np.array([float(share) for share in channel.law.shares])
    elif isinstance(release.evidence, Tuples):
        likelihood = _of_tuples(likelihood, release.evidence, release.schema, target)
    return _likeliest(likelihood, rng)


def _of_tuples(shown: Floats, evidence: Tuples, schema: Schema, target: str) -> Floats:
    """How likely each value is, up to a factor for each target: the oftener its tuple is shown, and
    with sources the likelier, the less it looks like noise.
    """
    law = evidence.presence
    if not isinstance(law, Included) or not law.sources:
        return shown
    noise = np.full(shown.shape, float(law.noise))
    for axis, name in enumerate((target, schema.sensitive[0].name)):
        if name in law.sources:
            weights = np.array([float(share) for share in law.sources[name]]) * schema[name].size
            noise *= weights[:, None] if axis == 0 else weights
    alpha = float(law.kept - law.noise)
    found: Floats = np.where(shown > 0, 1 + alpha / noise, 1 - alpha / (1 - noise))
    return found


def shown(release: Release, target: str) -> Floats:
    """How often each sensitive value is shown with every code of `target`; of copies that are told
    apart the first, for nobody else has the target's.
    """
    evidence, schema = release.evidence, release.schema
    [sensitive] = schema.sensitive
    table = pq.read_table(release.folder / evidence.files[0])
    if isinstance(evidence, Tuples) and Included.occurrence in table.column_names:
        table = table.filter(pc.equal(table[Included.occurrence], 0))
    who = schema[target].encode(table[target])[0].astype(np.int64)
    found = np.zeros((schema[target].size, sensitive.size))
    if isinstance(evidence, Records) and isinstance(evidence.channels[0], BagChannel):
        found[who] = bags(evidence.channels[0], table, sensitive.size)
    elif isinstance(evidence, (Records, Tuples)):
        codes = sensitive.encode(table[sensitive.name])[0].astype(np.int64)
        np.add.at(found, (who, codes), 1.0)
    else:
        raise ParameterError("The exposure test is about publishers; this release shows no rows.")
    return found


def bags(channel: BagChannel, table: pa.Table, values: int) -> Floats:
    """How often every value is in the bag of each row."""
    columns = [table[name].to_numpy() for name in channel.columns]
    if channel.layout == "counts":
        return np.stack(columns, axis=1).astype(np.float64)
    counts = np.zeros((table.num_rows, values))
    for members in columns:
        np.add.at(counts, (np.arange(table.num_rows), members.astype(np.int64)), 1.0)
    return counts


def _likeliest(likelihood: Floats, rng: np.random.Generator) -> Codes:
    best = likelihood >= likelihood.max(axis=1, keepdims=True) * (1 - 1e-12)
    found: Codes = np.argmax(best * (1 + rng.random(best.shape)), axis=1)
    return found


def _by_group(release: Release, evidence: Groups, target: str, rng: np.random.Generator) -> Codes:
    """The value of whose rows the largest part is in the group of the target."""
    [sensitive] = release.schema.sensitive
    table = pq.read_table(release.folder / evidence.file)
    who = release.schema[target].encode(table[target])[0].astype(np.int64)
    values = pq.read_table(release.folder / evidence.values)
    codes = sensitive.encode(values[sensitive.name])[0].astype(np.int64)
    groups, counts = (values[name].to_numpy() for name in (evidence.group, evidence.count))
    whole = np.bincount(codes, counts, sensitive.size)
    likelihood = np.zeros((int(groups.max(initial=0)) + 1, sensitive.size))
    likelihood[groups, codes] = counts / whole[codes]
    found = rng.integers(0, sensitive.size, release.schema[target].size)
    found[who] = _likeliest(likelihood[table[evidence.group].to_numpy()], rng)
    return found
