"""What the audit knows of randomised response: uniform channels, and subsets of the values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.evidence_checks import multiset_counts
from scumble.audit.exposure import count_members, count_values
from scumble.audit.hooks import channels_of
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding, Verdict
from scumble.audit.row_laws import ABSENT, SHOWN, RowLaw, law_of_channels, uniform_delta
from scumble.model.evidence.channels import MultisetChannel, SubsetLaw, UniformChannel
from scumble.model.evidence.evidence import Evidence
from scumble.model.laws.probabilities import binomial_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]
Perturbed = UniformChannel | MultisetChannel  # the law of the multisets is that of subsets


def channel_exposure(channel: Perturbed, schema: Schema) -> float:
    """Return the success of the best guess of a value."""
    if isinstance(channel, UniformChannel):
        return float(channel.keep + (1 - channel.keep) / schema.size(channel.attributes))
    return subset_exposure(_read_law(channel))


def subset_exposure(law: SubsetLaw) -> float:
    """Return the success of guessing a value of the set, or one outside it if that is likelier."""
    inside = law.inclusion / law.size
    outside = (1 - law.inclusion) / (law.values - law.size)
    return float(max(inside, outside))


def _read_law(channel: MultisetChannel) -> SubsetLaw:
    return cast(SubsetLaw, channel.law)


def count_shown(release: Release, target: str) -> Floats:
    """Return how often each sensitive value is shown with every code of `target`."""
    channel = channels_of(release.evidence)[0]
    if isinstance(channel, MultisetChannel):
        return count_members(release, target, channel)
    return count_values(release, target, pq.read_table(release.folder / release.evidence.files[0]))


def find_likelihood(channel: Perturbed, table: pa.Table, sensitive: Attribute) -> Floats:
    """Return P(shown | value) of each row, up to a factor for each row."""
    if isinstance(channel, UniformChannel):
        codes = known_codes(sensitive, table[sensitive.name]).astype(np.int64)
        alone: Floats = np.eye(sensitive.size)[codes]
        keep = float(channel.keep)
        return keep * alone + (1 - keep) / sensitive.size
    law = _read_law(channel)
    inside = float(law.inclusion) / law.size
    outside = float(1 - law.inclusion) / (law.values - law.size)
    return np.where(multiset_counts(channel, table, sensitive.size) > 0, inside, outside)


def find_row_law(evidence: Evidence, schema: Schema, epsilon: float) -> RowLaw:
    """Return the law of a row; δ is stated for a single channel."""
    channels = cast(tuple[Perturbed, ...], channels_of(evidence))
    delta = _compute_delta(channels[0], schema, epsilon) if len(channels) == 1 else None
    why = SHOWN if isinstance(channels[0], UniformChannel) else ABSENT
    return law_of_channels(channels, schema, delta, why)


def _compute_delta(channel: Perturbed, schema: Schema, epsilon: float) -> float:
    """Return Σ max(0, P(shown | one) - e^ε P(shown | other)) over all that can be shown.

    Sets with both values, or with neither, are as likely for the one as for the other.
    """
    if isinstance(channel, UniformChannel):
        return uniform_delta(channel.keep, schema.size(channel.attributes), epsilon)
    law = _read_law(channel)
    values, size = law.values, law.size
    inside = float(law.inclusion * Fraction(values - size, values - 1))  # with one, without other
    outside = float((1 - law.inclusion) * Fraction(size, values - 1))
    pairs = ((inside, outside), (outside, inside))
    return sum(max(0.0, one - math.exp(epsilon) * other) for one, other in pairs)


def channel_findings(release: Release, channel: Perturbed) -> Iterator[Finding]:
    """Check that rows can have come through a uniform channel: no value is shown too rarely.

    Such a channel shows every value in some share of the rows, however rare it is in the table.
    """
    if isinstance(channel, UniformChannel) and release.evidence.rows:
        yield _check_rarest(release, release.evidence.files[0], channel)


def _check_rarest(release: Release, file: str, channel: UniformChannel) -> Finding:
    """Test the value that is shown least often.

    A row shows any value with a probability of at least (1 - keep) / values, independently of other
    rows. The minimum over all values is tested, hence the factor `values` (a union bound).
    """
    schema, names = release.schema, channel.attributes
    table = pq.read_table(release.folder / file, columns=list(names))
    codes = [known_codes(schema[name], table[name]) for name in names]
    values, rows = schema.size(names), table.num_rows
    counts = np.unique(schema.cell_keys(names).pack(codes), return_counts=True)[1]
    fewest = int(counts.min()) if len(counts) == values else 0
    share = float(1 - channel.keep) / values
    refuted = values * binomial_at_most(fewest, rows, share) < 1 - CONFIDENCE
    verdict: Verdict = "refuted" if refuted else "stands"
    sentence = (
        f"Of {rows:,} rows {fewest:,} show the rarest of {values} values of {', '.join(names)}; "
        f"the channel that is stated shows every one in {rows * share:,.1f} of them or more, on "
        "average."
    )
    claim = f"the values of {', '.join(names)} came through the channel that is stated"
    numbers = {"found": float(fewest), "expected at least": rows * share}
    return Finding("shown rows", claim, verdict, sentence, numbers, CONFIDENCE)
