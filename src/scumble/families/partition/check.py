"""What the audit knows of Partition: parts of the table, each with a channel of its own.

The attacker knows how frequent every value is; what matters is how likely a value that is rare in
the table can become.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.exposure import count_values
from scumble.audit.hooks import channels_of
from scumble.audit.release_claims import CONFIDENCE, SLACK, at_most
from scumble.audit.report import Finding, Verdict
from scumble.audit.row_laws import EXCLUDED, RowLaw
from scumble.model.evidence.channels import PartitionChannel
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.guarantee import Guarantee, posterior_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]


def channel_exposure(channel: PartitionChannel, _: Schema) -> float:
    """Return the success of the best guess of a value in the worst part."""
    pairs = zip(channel.keeps, channel.domains, strict=True)
    return max(float(keep) + (1 - float(keep)) / len(domain) for keep, domain in pairs)


def count_shown(release: Release, target: str) -> Floats:
    """Return how often each sensitive value is shown with every code of `target`."""
    return count_values(release, target, pq.read_table(release.folder / release.evidence.files[0]))


def find_likelihood(channel: PartitionChannel, table: pa.Table, sensitive: Attribute) -> Floats:
    """Return P(shown | value) of each row, by the channel of its part."""
    codes = known_codes(sensitive, table[sensitive.name]).astype(np.int64)
    alone: Floats = np.eye(sensitive.size)[codes]
    part = table[channel.column].to_numpy()
    keep: Floats = np.array([float(chance) for chance in channel.keeps])[part][:, None]
    replaced = np.zeros((len(channel.domains), sensitive.size))
    for number, domain in enumerate(channel.domains):
        replaced[number, list(domain)] = 1 / len(domain)
    mixed: Floats = keep * alone + (1 - keep) * replaced[part]
    return mixed


def find_row_law(_: Evidence, __: Schema, ___: float) -> RowLaw:
    """Return the law of a row: no ε holds."""
    why = (
        f"{EXCLUDED} a row: a value outside of its sub-table is excluded, and the channels are "
        "computed from true counts"
    )
    return RowLaw(math.inf, None, why)


def check_promise(release: Release, promise: Guarantee) -> Finding | None:
    """Check the highest posterior of a value that at most a share ρ1 of the rows have.

    A bound that holds for every table is used if it is within the promise. Otherwise the shown rows
    give a lower limit, since only the private table tells how frequent a value is in its part.
    """
    if promise.statement != "restricted (ρ1, ρ2)-privacy":
        return None
    parts, asked = ReleasedParts.of(release), release.manifest.parameters.get("rho2")
    if parts is None or asked is None:
        return None
    prior, claimed = Fraction(str(promise.parameters["rho1"])), promise.parameters["rho2"]
    seen = parts.posterior_from_rows(prior, CONFIDENCE)
    most = parts.posterior_of_any_table(prior)
    end = parts.posterior_of_split(Fraction(str(asked)))
    what = f"the posterior of a value that a share of {float(prior):.3g} of the rows have"
    if seen <= claimed and most <= claimed:
        return at_most(promise, "rho2", float(most), what)
    if seen <= claimed and end is not None and end > claimed * (1 + SLACK):
        return at_most(promise, "rho2", float(end), what)
    sentence = (
        f"The rows that are shown imply a posterior of at least {seen:.4g} for some value that at "
        f"most a share of {float(prior):.3g} of the rows have; promised is {claimed:.4g}."
    )
    if seen <= claimed and end is not None:
        sentence += (
            " The channels are those of a split that keeps it, if it was made of true counts."
        )
    verdict: Verdict = "refuted" if seen > claimed else "stands"
    numbers = {"found": seen, "claimed": claimed}
    return Finding("shown rows", promise.claim, verdict, sentence, numbers, CONFIDENCE)


@dataclass(frozen=True)
class ReleasedParts:
    """The parts of a release, with their numbers of rows, domains and channels."""

    release: Release
    channel: PartitionChannel
    file: str

    @classmethod
    def of(cls, release: Release) -> ReleasedParts | None:
        """Return the parts; None if one of them is not perturbed."""
        [file] = release.evidence.files
        channel = cast(PartitionChannel, channels_of(release.evidence)[0])
        return cls(release, channel, file) if 1 not in channel.keeps else None

    @property
    def gammas(self) -> list[Fraction]:
        """The factor by which each channel can change the odds of two values."""
        pairs = zip(self.channel.keeps, self.channel.domains, strict=True)
        return [1 + keep * len(domain) / (1 - keep) for keep, domain in pairs]

    def posterior_of_any_table(self, rho1: Fraction) -> Fraction:
        """Return the highest posterior of a value that at most a share ρ1 of all rows have.

        It holds for every table: in the worst case all rows with the value are in one part.
        """
        rare = math.floor(rho1 * sum(self.channel.rows))
        shares = [Fraction(min(rare, size), max(size, 1)) for size in self.channel.rows]
        return max(map(posterior_at_most, shares, self.gammas))

    def posterior_of_split(self, rho2: Fraction) -> Fraction | None:
        """Return the highest posterior of such a value in a table that was split to reach `rho2`.

        Such a split gives each part the channel that takes the most frequent of its rare values to
        `rho2` exactly, so that γ tells how many rows have that value. The result is None if that is
        not a whole number, so that the channels are not those of such a split.
        """
        shares = [rho2 / (rho2 + gamma * (1 - rho2)) for gamma in self.gammas]
        sizes = self.channel.rows
        if any((share * size).denominator > 1 for share, size in zip(shares, sizes, strict=True)):
            return None
        return max(map(posterior_at_most, shares, self.gammas))

    def posterior_from_rows(self, rho1: Fraction, confidence: float) -> float:
        """Return a lower limit of the highest such posterior, from the rows that are shown.

        It is wrong with a probability of at most 1 - `confidence`. Hoeffding's inequality bounds
        how many rows of a part have a value from below, and how many of all rows from above.
        """
        error = 2 * (sum(map(len, self.channel.domains)) + self._cells) / (1 - confidence)
        reach = math.sqrt(math.log(error) / 2)
        most, wide = np.zeros(self._cells), np.zeros(self._cells)
        lowest: list[tuple[npt.NDArray[np.int64], Floats, float]] = []
        for (domain, shown, size), keep, gamma in zip(
            self._read_parts(), map(float, self.channel.keeps), self.gammas, strict=True
        ):
            rows = (shown - size * (1 - keep) / len(domain)) / keep
            most[domain] += rows
            wide[domain] += size / keep**2
            share = np.clip((rows - reach * math.sqrt(size) / keep) / max(size, 1), 0, 1)
            lowest.append((domain, share, float(gamma)))
        rare = most + reach * np.sqrt(wide) <= float(rho1) * sum(self.channel.rows)
        ends = [
            gamma * share[rare[domain]] / (1 + (gamma - 1) * share[rare[domain]])
            for domain, share, gamma in lowest
        ]
        return max((float(end.max(initial=0.0)) for end in ends), default=0.0)

    @property
    def _cells(self) -> int:
        return self.release.schema.size(self.channel.attributes)

    def _read_parts(self) -> Iterator[tuple[npt.NDArray[np.int64], Floats, int]]:
        """Yield the values of each part, how many rows show each, and the number of its rows."""
        schema, channel = self.release.schema, self.channel
        table = pq.read_table(
            self.release.folder / self.file, columns=[*channel.attributes, channel.column]
        )
        codes = [known_codes(schema[name], table[name]) for name in channel.attributes]
        cells = schema.cell_keys(channel.attributes).pack(codes).astype(np.int64)
        parts = table[channel.column].to_numpy()
        for number, domain in enumerate(channel.domains):
            inside = cells[parts == number]
            counts = np.bincount(inside, minlength=self._cells)
            yield np.array(domain), counts[list(domain)].astype(np.float64), len(inside)
