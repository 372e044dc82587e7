"""Limits of a number for a part of the budget: chosen by noisy counts on a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.model.errors import SchemaError
from scumble.model.privacy.guarantee import Guarantee, read_epsilon, read_share
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import BinnedNumber
from scumble.model.schema.numbers import Number, UnlimitedNumber, exact, plain_number
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import create, protect_unit
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.public.sql.names import sql_name

if TYPE_CHECKING:
    from scumble.model.privacy.accounting import Neighbours
    from scumble.private.ledger.ledger import Ledger

Floats = npt.NDArray[np.float64]
Amount = int | float

_MOST = 1 << 53  # steps of a grid
_FALSE = 0.05  # probability that noise alone makes bins beyond the largest amount look filled
_LEVEL = 0.95


@dataclass(frozen=True)
class PrivateLimits:
    """Limits of a column that were paid for with a part of the budget, and what they clamp.

    `clamped` is the share of the rows with an amount beyond the limits, and an interval for it that
    holds with 95 %, whichever limits the noise led to. `bias` is such an interval for how far the
    average of unclamped amounts lies above that of clamped ones; None unless the schema had limits
    that are certain, as nothing bounds it then. `schema` has the new limits.
    """

    column: str
    low: Amount
    high: Amount
    clamped: tuple[float, float, float]
    bias: tuple[float, float] | None
    guarantee: Guarantee
    schema: Schema

    def __str__(self) -> str:
        share, least, most = (f"{100 * each:.2g} %" for each in self.clamped)
        if self.bias is None:
            bias = (
                "Sums and averages are about clamped amounts. Nothing bounds how far those of "
                "unclamped amounts lie away: for that, write limits into the schema first that no "
                "amount can exceed."
            )
        else:
            below, above = (f"{abs(each):,.4g}" for each in self.bias)
            bias = (
                f"The average of unclamped amounts lies at most {below} below and {above} above "
                "that of clamped ones (95 %)."
            )
        return (
            f"{self.column}: limits = [{self.low}, {self.high}]\n"
            f"About {share} of the rows are clamped (95 %: {least} to {most}).\n{bias}\n"
            f"{self.guarantee}"
        )


def private_limits(
    source: Any,
    schema: Schema | str | Path,
    column: str,
    *,
    epsilon: float,
    neighbours: Neighbours = "replace",
    share: float | None = None,
    sum_epsilon: float | None = None,
    ledger: Ledger | str | Path | None = None,
    options: PublishOptions | None = None,
) -> PrivateLimits:
    """Choose limits for the amounts of a column: 0, or 1, 2, 5, 10, 20, ..., of either sign.

    They make the error of a sum of the column small, which has two parts: its noise, if it is
    measured with `sum_epsilon` (by default `epsilon`), and what clamping changes. With `share`,
    they are the narrowest that hold this share of the rows. The type of the column must be number;
    limits that it has already are taken for certain, and the new ones lie within them.

    `epsilon` pays for a histogram of the amounts between the points of this grid, from which all
    else is computed; the promise is that of `Histogram`, also for people with several rows. It is
    charged to the `ledger`.
    """
    strength = float(read_epsilon("private_limits", epsilon))
    held = None if share is None else float(read_share("private_limits", "share", share))
    if sum_epsilon is not None:
        strength = float(read_epsilon("private_limits", sum_epsilon))
    known = schema if isinstance(schema, Schema) else Schema.load(schema)
    attribute = known[column]
    grid = grid_of(attribute)
    counted = replace(attribute, role="quasi", domain=grid, hierarchy=None, from_data=False)
    people = [each.name for each in known.identifiers]
    table = replace(known.replace(counted).select([column, *people]), unit=known.unit)
    method = create("histogram", attributes=[column], epsilon=epsilon, neighbours=neighbours)
    mechanism: Any = protect_unit(method, table)
    how = PublishOptions() if options is None else options
    release = publish(source, table, mechanism, options=how, ledger=ledger)
    evidence: Any = release.evidence
    design = evidence.design
    cells = pq.read_table(release.folder / "cells.parquet").column(design.count)
    counts = cells.to_numpy()[: grid.size].astype(np.float64)
    moved = 2 if neighbours == "replace" else 1  # by how much of half the width a row moves a sum
    noise = math.sqrt(2) * mechanism.unit.rows * moved / 2 / strength
    low, high = choose_limits(grid, counts, float(design.noise.scale), noise, held)
    limited = replace(attribute, domain=Number(low, high, grid.number.step), note="")
    clamping = _Clamping(release, column, grid)
    return PrivateLimits(
        column,
        low,
        high,
        clamping.share(low, high),
        None if attribute.number is None else clamping.bias(low, high),
        release.guarantees[0],
        known.replace(limited),
    )


def grid_of(attribute: Attribute) -> BinnedNumber:
    """Return the public grid: bins of amounts up to each of its points, counted from 0.

    A point is the last amount of its bin, as many people have round amounts.
    """
    domain = attribute.number or attribute.domain
    if not isinstance(domain, Number | UnlimitedNumber):
        raise SchemaError(
            f"{attribute} must be of the type number. It is {attribute.describe()}; write "
            'type = "number" and limits_needed = true.'
        )
    step = exact(domain.step)
    points = [first * Fraction(10) ** power for power in range(-17, 17) for first in (1, 2, 5)]
    points = [p for p in points if (p / step).denominator == 1 and p * step.denominator < _MOST]
    if not points:
        raise SchemaError(
            f"{attribute}: no amount of 1, 2, 5, 10, ... is a whole number of steps of "
            f"{domain.step}. Write the limits."
        )
    edges = {Fraction(0), step, *(-point for point in points), *(point + step for point in points)}
    if isinstance(domain, Number):
        number = domain
    else:
        last = _plain(points[-1])
        number = _Unlimited(-last, last, domain.step)
    low, high = exact(number.low), exact(number.high)
    inner = [edge for edge in sorted(edges) if low < edge < high]
    return BinnedNumber.of(
        number, [_plain(edge) for edge in inner if ((edge - low) / step).denominator == 1]
    )


class _Unlimited(Number):
    """The amounts of a grid without outer limits. A word for a missing value is none of them."""

    def beyond(self, values: Any) -> npt.NDArray[np.bool_]:
        return np.ones(len(values), bool)


def choose_limits(
    grid: BinnedNumber, counts: Floats, scale: float, noise: float, share: float | None
) -> tuple[Amount, Amount]:
    """Return the lower and the upper limit with the least error, by the noisy counts of the bins.

    The noise of the counts has the `scale`; `noise` is that of a sum for each unit between the
    limits. The amounts of a bin are taken for its middle. With `share`, the narrowest limits that
    hold this share of the rows.
    """
    firsts, lasts = grid.ends()
    middles = grid.middles()
    counts = np.where(_filled(counts, scale), counts, 0.0)
    lows, highs = firsts[firsts <= 0], lasts[lasts >= 0]
    lows, highs = (lows if len(lows) else firsts[:1]), (highs if len(highs) else lasts[-1:])
    below = np.array([counts @ np.maximum(low - middles, 0) for low in lows])
    above = np.array([counts @ np.maximum(middles - high, 0) for high in highs])
    width = highs[None, :] - lows[:, None]
    change = np.maximum(below, 0)[:, None] + np.maximum(above, 0)[None, :]
    error = np.hypot(noise * width, change)
    if share is not None:
        outside = [[counts[(middles < a) | (middles > b)].sum() for b in highs] for a in lows]
        enough = np.array(outside) <= (1 - share) * counts.sum()
        error = np.where(enough, width, np.inf)
    error = np.where(width > 0, error, np.inf)
    place = np.unravel_index(np.argmin(error), error.shape)
    return _short(lows[place[0]]), _short(highs[place[1]])


def _filled(counts: Floats, scale: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the bins from the first to the last that has rows.

    From the largest count outwards, a bin has rows if noise would be as large with a probability of
    at most `_FALSE` / 2, halved for every bin that lies between.
    """
    filled = np.zeros(len(counts), bool)
    start = int(np.argmax(counts))
    ends = [start, start]
    for side, places in enumerate((range(start - 1, -1, -1), range(start + 1, len(counts)))):
        for place in places:
            gap = abs(place - ends[side])
            if counts[place] > scale * (math.log(1 / _FALSE) + gap * math.log(2)):
                ends[side] = place
    filled[ends[0] : ends[1] + 1] = True
    return filled


class _Clamping:
    """What limits clamp, by the counts that they were chosen by.

    The intervals hold for all limits of the grid at once.
    """

    def __init__(self, release: Any, column: str, grid: BinnedNumber) -> None:
        self._release, self._name = release, sql_name(column)
        firsts, lasts = grid.ends()
        self._firsts, self._lasts = list(map(_short, firsts)), list(map(_short, lasts))
        questions = len(firsts) ** 2 + 2 * len(firsts) + 1
        self._level = 1 - (1 - _LEVEL) / questions

    def share(self, low: Amount, high: Amount) -> tuple[float, float, float]:
        """Return the share of the rows beyond limits, and its interval."""
        rows, fewest, most = self._rows()
        beyond = self._count(f"{self._name} < {low} OR {self._name} > {high}")
        value, least, largest = (max(each, 0.0) for each in beyond)
        return min(value / rows, 1.0), min(least / most, 1.0), min(largest / fewest, 1.0)

    def bias(self, low: Amount, high: Amount) -> tuple[float, float]:
        """Return the interval of what clamping takes from the average: rows beyond each point of
        the grid times the distance to the next one.
        """
        above = [
            (after - point) * self._count(f"{self._name} > {point}")[2]
            for point, after in pairwise(self._lasts)
            if point >= high
        ]
        below = [
            (point - before) * self._count(f"{self._name} < {point}")[2]
            for before, point in pairwise(self._firsts)
            if point <= low
        ]
        fewest = self._rows()[1]
        return -max(sum(below), 0.0) / fewest, max(sum(above), 0.0) / fewest

    def _rows(self) -> tuple[float, float, float]:
        rows, fewest, most = self._count(f"{self._name} IS NOT NULL")
        return max(rows, 1.0), max(fewest, 1.0), max(most, 1.0)

    def _count(self, condition: str) -> tuple[float, float, float]:
        found = self._release.ask(f"SELECT COUNT(*) FROM t WHERE {condition}")
        return (found.value, *found.interval(self._level))


def _short(amount: float) -> Amount:
    return _plain(exact(float(amount)))


def _plain(number: Fraction) -> Amount:
    return plain_number(int(number) if number.denominator == 1 else float(number), "limits")
