"""The promise of a table in parts, each with a channel of its own, against an attacker who knows
how frequent every value is: what a value that is rare in the table can become in its part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.model.evidence.channels import SplitChannel
from scumble.model.evidence.evidence import Records
from scumble.model.privacy.guarantee import posterior_at_most
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """The parts of a release: how many rows each has, its values and its channel."""

    release: Release
    channel: SplitChannel
    file: str

    @classmethod
    def of(cls, release: Release) -> Parts | None:
        """None if the release has no parts, or one where nothing is changed."""
        evidence = release.evidence
        if not isinstance(evidence, Records) or not isinstance(evidence.channels[0], SplitChannel):
            return None
        channel = evidence.channels[0]
        return cls(release, channel, evidence.file) if 1 not in channel.keeps else None

    @property
    def gammas(self) -> list[Fraction]:
        """By how much each channel can change the odds of two values."""
        pairs = zip(self.channel.keeps, self.channel.domains, strict=True)
        return [1 + keep * len(domain) / (1 - keep) for keep, domain in pairs]

    def most(self, rho1: Fraction) -> Fraction:
        """The highest posterior that a value which at most a share ρ1 of all rows have may reach,
        whatever the table: of these rows no more than all are in one part.
        """
        rare = math.floor(rho1 * sum(self.channel.rows))
        shares = [Fraction(min(rare, size), max(size, 1)) for size in self.channel.rows]
        return max(map(posterior_at_most, shares, self.gammas))

    def end(self, rho2: Fraction) -> Fraction | None:
        """The highest posterior of such a value in a table that was split to reach `rho2`; None if
        the channels are none that such a split has.

        The channel of a part takes the most frequent of its rare values to `rho2` exactly: so its γ
        tells how many rows that one has, a whole number.
        """
        shares = [rho2 / (rho2 + gamma * (1 - rho2)) for gamma in self.gammas]
        sizes = self.channel.rows
        if any((share * size).denominator > 1 for share, size in zip(shares, sizes, strict=True)):
            return None
        return max(map(posterior_at_most, shares, self.gammas))

    def seen(self, rho1: Fraction, confidence: float) -> float:
        """A lower limit of the highest such posterior, out of the rows that are shown, which is
        wrong with a probability of at most 1 - confidence: by Hoeffding's inequality for how many
        rows of a part have a value, and how many of all rows at most.
        """
        error = 2 * (sum(map(len, self.channel.domains)) + self._cells) / (1 - confidence)
        reach = math.sqrt(math.log(error) / 2)
        most, wide = np.zeros(self._cells), np.zeros(self._cells)
        lowest: list[tuple[npt.NDArray[np.int64], Floats, float]] = []
        for (domain, shown, size), keep, gamma in zip(
            self._shown(), map(float, self.channel.keeps), self.gammas, strict=True
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
        return max((float(each.max(initial=0.0)) for each in ends), default=0.0)

    @property
    def _cells(self) -> int:
        return self.release.schema.size(self.channel.attributes)

    def _shown(self) -> Iterator[tuple[npt.NDArray[np.int64], Floats, int]]:
        """The values of each part, how many rows show them, and all its rows."""
        schema, channel = self.release.schema, self.channel
        table = pq.read_table(
            self.release.folder / self.file, columns=[*channel.attributes, channel.column]
        )
        codes = [schema[name].encode(table[name])[0] for name in channel.attributes]
        cells = schema.radix(channel.attributes).pack(codes).astype(np.int64)
        parts = table[channel.column].to_numpy()
        for number, domain in enumerate(channel.domains):
            inside = cells[parts == number]
            counts = np.bincount(inside, minlength=self._cells)
            yield np.array(domain), counts[list(domain)].astype(np.float64), len(inside)
