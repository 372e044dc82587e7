"""Broken noise: too little, used twice, paid for once, drawn again, or added in floating point."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.audit.distinguish import distinguish, floating_point_finding
from scumble.audit.mechanism_claims import judged
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, PrivacyLoss, PrivacyUnit
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism_metadata import TINY, Claim
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream
from tests.support.twins.twins import Twin, claimed

GIVEN = {"epsilon": 1, "neighbours": "add_remove"}
NAMES = ["a", "b"]


def unmetered(table: PrivateTable) -> PrivateTable:
    """The table behind an account that pays for everything."""
    return charged(table, PrivacyLoss(Fraction(10**6)))


def charged(table: PrivateTable, limit: PrivacyLoss) -> PrivateTable:
    """The same table behind an account of its own; an audit goes on recording its steps."""
    other = copy(table)
    other._account = BudgetAccount(limit)
    return other


class HalfTheNoise(sc.Histogram):
    """Noise for twice the ε."""

    def measure(self, table, folder):
        given = {**self.parameters, "epsilon": float(2 * self.promise.epsilon)}
        return sc.Histogram(given.pop("attributes"), **given).measure(unmetered(table), folder)


class OffByOne(sc.Histogram):
    """Noise for one row of a person less than there may be."""

    def measure(self, table, folder):
        given = {**self.parameters, "contribution": self.unit.rows - 1}
        return sc.Histogram(given.pop("attributes"), **given).measure(unmetered(table), folder)


class Undercounted(sc.Marginals):
    """Every table gets the whole ε."""

    def tables(self, schema):
        law = DiscreteLaplace(self.unit.sensitivity / self.promise.epsilon)
        return [replace(table, law=law) for table in super().tables(schema)]

    def measure(self, table, folder):
        return super().measure(unmetered(table), folder)


class SmallSigma(sc.Marginals):
    """Gaussian noise of half the variance."""

    def tables(self, schema):
        halved = [DiscreteGaussian(table.law.parameter / 2) for table in super().tables(schema)]
        return [
            replace(table, law=law)
            for table, law in zip(super().tables(schema), halved, strict=True)
        ]

    def measure(self, table, folder):
        return super().measure(charged(table, PrivacyLoss(rho=Fraction(1))), folder)


class _WithoutSigns(PrivacyUnit):
    """Replacing a row moves sums as it moves counts, times the largest amount: as if amounts had no
    signs, and a row could not change its amount alone.
    """

    def squared_sensitivity(self, *, nonnegative_gram):
        counts = PrivacyUnit(self.neighbours, self.rows, self.column)
        return self.amount**2 * counts.squared_sensitivity(nonnegative_gram=nonnegative_gram)


class ReplaceNormOfCounts(sc.Quadtree):
    """Sums of amounts with the replace norm of counts times the largest amount."""

    def _part(self, share, unit):
        part = super()._part(share, unit)
        part.unit = _WithoutSigns(unit.neighbours, unit.rows, unit.column, unit.amount)
        return part


class HalfOfTheSteps(sc.Histogram):
    """Sides of amounts with noise for half of the steps between the limits."""

    def parts(self, amounts):
        half = replace(self.unit, amount=-(-amounts.reach // 2), sided=True)
        return [self.at_cost(self.promise, half)] * amounts.sides


class BelowTheMiddle(sc.Histogram):
    """What is below the amounts has noise as if nobody's amount were below the middle."""

    def parts(self, amounts):
        [above, _] = super().parts(amounts)
        return [above, HalfOfTheSteps.parts(self, amounts)[1]]

    def measure(self, table, folder):
        return super().measure(_PaidForAll.of(table), folder)


class _PaidForAll(PrivateTable):
    """Sides are not compared with what was paid."""

    @classmethod
    def of(cls, table):
        found = copy(table)
        found.paid_together = lambda sides: (unmetered(table.over(lambda _, s=s: s)) for s in sides)
        return found


class ReusedSeed(sc.Histogram):
    """The noise of every cell is drawn from a source with the same seed."""

    def measure(self, table, folder):
        evidence = super().measure(table, folder)
        [counts] = table._counter.counts([self.attributes], self.unit)
        seed, scale = table._noise.source.bits(60), evidence.design.noise.scale
        noise = [discrete_laplace(Keystream(seed), scale, 1)[0] for _ in counts]
        written = pq.read_table(folder / evidence.file).drop_columns(["count"])
        pq.write_table(
            written.append_column("count", pa.array(counts + np.array(noise))),
            folder / evidence.file,
        )
        return evidence


class OnlyOccupied(sc.Histogram):
    """The domain is what the data have: cells without rows are not published."""

    def measure(self, table, folder):
        evidence = super().measure(table, folder)
        [counts] = table._counter.counts([self.attributes], self.unit)
        written = pq.read_table(folder / evidence.file)
        pq.write_table(written.filter(pa.array(counts > 0)), folder / evidence.file)
        return evidence


def counted(draw):
    """Noisy counts of nobody and of one person, one number a run."""

    def outputs(runs: int, seed: int):
        noise = Keystream(seed)
        return [draw(noise, count, runs)[:, None].astype(float) for count in (0, 1)]

    return outputs


def laplace(noise: Keystream, count: int, runs: int) -> np.ndarray:
    return count + discrete_laplace(noise, Fraction(1), runs)


def until_not_negative(noise: Keystream, count: int, runs: int) -> np.ndarray:
    """Noise is drawn again as long as the noisy count is negative."""
    noisy = laplace(noise, count, runs)
    while len(negative := np.flatnonzero(noisy < 0)):
        noisy[negative] = laplace(noise, count, len(negative))
    return noisy


def floating(noise: Keystream, count: int, runs: int) -> np.ndarray:
    """Laplace noise by the textbook: the logarithm of a uniform number of 53 bits."""
    uniform = ((noise.words(runs) >> np.uint64(11)).astype(float) + 0.5) / 2**53
    signs = 1.0 - 2.0 * (noise.words(runs) & np.uint64(1)).astype(float)
    return count - signs * np.log(uniform)


def told_apart(draw):
    outputs = counted(draw)
    return lambda runs, seed: [judged(draw.__name__, 1, distinguish(*outputs(runs, seed)), "0, 1")]


def last_bits(draw):
    outputs = counted(draw)
    return lambda runs, seed: [floating_point_finding(draw.__name__, *outputs(runs, seed), 1)]


_HISTOGRAM = Claim(sc.Histogram(NAMES, **GIVEN), 1)
_MARGINALS = {**GIVEN, "ways": 1}
_GAUSSIAN = {**GIVEN, "ways": 2, "delta": 1e-3}
_THREE = {**GIVEN, "contribution": 3}
_PAID = Schema([*TINY, Attribute("pay", "sensitive", IntegerRange(-2, 2))])
# With a smaller share a row that changes its amount alone loses no more than one that moves.
_SIDES = {"sums": ["pay"], "epsilon": 1, "neighbours": "add_remove"}
_SUMS = {"sums": ["pay"], "sum_share": 0.75, "delta": 1e-3, "epsilon": 1, "neighbours": "replace"}

TWINS = [
    Twin(
        "half the noise",
        claimed(Claim(HalfTheNoise(NAMES, **GIVEN), 1)),
        claimed(_HISTOGRAM),
        20_000,
    ),
    Twin(
        "off-by-one sensitivity",
        claimed(Claim(OffByOne(NAMES, **_THREE), 1)),
        claimed(Claim(sc.Histogram(NAMES, **_THREE), 1)),
        20_000,
    ),
    Twin(
        "budget undercounted",
        claimed(Claim(Undercounted(NAMES, **_MARGINALS), 1)),
        claimed(Claim(sc.Marginals(NAMES, **_MARGINALS), 1)),
        20_000,
    ),
    Twin(
        "half the variance of Gaussian noise",
        claimed(Claim(SmallSigma(NAMES, **_GAUSSIAN), 1, 1e-3)),
        claimed(Claim(sc.Marginals(NAMES, **_GAUSSIAN), 1, 1e-3)),
        20_000,
    ),
    Twin(
        "sums of amounts with the replace norm of counts",
        claimed(Claim(ReplaceNormOfCounts(NAMES, **_SUMS), 1, 1e-3, _PAID)),
        claimed(Claim(sc.Quadtree(NAMES, **_SUMS), 1, 1e-3, _PAID)),
        20_000,
    ),
    Twin(
        "sums of amounts with noise for half of the steps",
        claimed(Claim(HalfOfTheSteps(NAMES, **_SIDES), 1, schema=_PAID)),
        claimed(Claim(sc.Histogram(NAMES, **_SIDES), 1, schema=_PAID)),
        20_000,
    ),
    Twin(
        "sums below amounts with less noise than those above",
        claimed(Claim(BelowTheMiddle(NAMES, **_SIDES), 1, schema=_PAID)),
        claimed(Claim(sc.Histogram(NAMES, **_SIDES), 1, schema=_PAID)),
        20_000,
    ),
    Twin("reused seed", claimed(Claim(ReusedSeed(NAMES, **GIVEN), 1)), claimed(_HISTOGRAM), 20_000),
    Twin(
        "domain inferred from data",
        claimed(Claim(OnlyOccupied(NAMES, **GIVEN), 1)),
        claimed(_HISTOGRAM),
        20_000,
    ),
    Twin(
        "resampling that leaks: no count is negative",
        told_apart(until_not_negative),
        told_apart(laplace),
        100_000,
    ),
    Twin("float Laplace with leaking low bits", last_bits(floating), last_bits(laplace), 20_000),
]
