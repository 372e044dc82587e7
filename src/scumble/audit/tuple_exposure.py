"""The exposure test of published tuples: how often the best adversary names the true one of those
that a person may have.

The target is somebody whose other columns nobody shares. Under every value of the secret another
tuple is the true one, and all that the view shows beside these tuples tells nothing of it; copies
that are told apart by a number are of no use either, since the adversary knows all other rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from scumble.audit.tuple_odds import Pattern, patterns
from scumble.model.evidence.presence import Included, Replaced
from scumble.model.schema.schema import Schema

MOST_LAWS = 200_000  # different laws of tuples that are looked at
MOST_BALLS = 500  # rows that fall on the tuples of one person
_TAIL = 1e-14

Floats = npt.NDArray[np.float64]
Named = tuple[float, float]  # the success, and the success if the view shows one of the tuples


def included(presence: Included, schema: Schema, columns: Sequence[str]) -> Named | None:
    """For the person whose other columns make it largest, where sources make them matter; None if
    that takes too long.
    """
    sensitive = [attribute.name for attribute in schema.sensitive]
    known = [name for name in columns if name not in sensitive]
    if presence.sources and presence.views > 1:
        return None
    own, others = (relatives(presence, schema, names) for names in (sensitive, known))
    if own is None or others is None or len(own) * len(others) > MOST_LAWS:
        return None
    return max(
        named([(list(patterns(presence, each * other)), times) for each, times in own.items()])
        for other in others
    )


def relatives(
    presence: Included, schema: Schema, names: Iterable[str]
) -> Mapping[Fraction, int] | None:
    """By which factors false tuples are likelier than in the mean because of their values of some
    attributes, and for how many of these values; None if there are too many.
    """
    found = Counter({Fraction(1): 1})
    for name in names:
        shares = (presence.sources or {}).get(name)
        size = schema[name].size
        each = Counter({Fraction(1): size} if shares is None else [size * p for p in shares])
        if len(found) * len(each) > MOST_LAWS:
            return None
        more: Counter[Fraction] = Counter()
        for factor, times in found.items():
            for other, again in each.items():
                more[factor * other] += times * again
        found = more
    return found


def named(laws: Sequence[tuple[Sequence[Pattern], int]]) -> Named:
    """The success among independent tuples of which one is true, each as likely as the others: so
    many with these patterns, of which the last is that nothing is shown.

    It is 1/d of the sum over all views of the largest probability that a true tuple gives them. In
    units of the probability that they have if all tuples are false that is the mean of the largest
    ratio; a pattern that only the true one can show gives it away.
    """
    values = sum(times for _, times in laws)
    success = (_given_away(laws) + _mean_of_largest(laws)) / values
    ratios = [(float(each[-1].true / each[-1].false), times) for each, times in laws]
    nothing = math.exp(math.fsum(times * _log(each[-1].false) for each, times in laws))
    guessed = nothing * max(ratio for ratio, _ in ratios) / values
    missed = nothing * math.fsum(ratio * times for ratio, times in ratios) / values
    return success, (success - guessed) / (1 - missed)


def _given_away(laws: Sequence[tuple[Sequence[Pattern], int]]) -> float:
    return math.fsum(
        float(pattern.true * pattern.times * times)
        for each, times in laws
        for pattern in each
        if not pattern.false
    )


def _mean_of_largest(laws: Sequence[tuple[Sequence[Pattern], int]]) -> float:
    """The mean of the largest ratio of true to false, all tuples being false: from the top, each
    step between ratios times the probability that one of the tuples is above it.
    """
    ratios = sorted(
        (
            (float(pattern.true / pattern.false), float(pattern.false * pattern.times), place)
            for place, (each, _) in enumerate(laws)
            for pattern in each
            if pattern.false
        ),
        reverse=True,
    )
    above = [0.0] * len(laws)
    none = total = 0.0  # the logarithm of the probability that no tuple is so high
    for (ratio, chance, place), (lower, _, _) in zip(
        ratios, [*ratios[1:], (0.0, 0, 0)], strict=True
    ):
        none -= laws[place][1] * _log1p(-above[place])
        above[place] += chance
        none += laws[place][1] * _log1p(-above[place])
        total += (ratio - lower) * -math.expm1(none)
    return total


def _log(number: Fraction) -> float:
    return _log1p(float(number - 1))


def _log1p(number: float) -> float:
    """Of -1 a number so low that its exponential is 0, from which others can be taken."""
    return math.log1p(number) if number > -1 + 1e-15 else -800.0


def replaced(presence: Replaced, domain: int, values: int) -> Named | None:
    """Of a bag of rows the adversary names the value whose tuple is there most often. The row was
    kept, and is then one of so many rows with his tuples, any of them with the same probability; or
    it is one of all rows, whatever its value. None if nobody can be told apart, or if too many rows
    fall on the tuples of one person.
    """
    if values == domain or not presence.rows:
        return None
    keep, each = float(presence.keep), float((1 - presence.keep) / domain)
    hit = _most(presence.rows - 1, values, each)
    if hit is None:
        return None
    success = (1 - keep) / values + keep * hit
    nothing = (1 - keep - values * each) * math.exp(
        (presence.rows - 1) * math.log1p(-values * each)
    )
    return success, (success - nothing / values) / (1 - nothing)


def _most(others: int, values: int, each: float) -> float | None:
    """The mean share of the most frequent of some tuples among the rows that show one of them: one
    row of its own, and of all others those that fall there.
    """
    from scipy.stats import binom, poisson

    law = binom(others, values * each)
    fewest, most = int(law.ppf(_TAIL)), int(law.isf(_TAIL))
    if most > MOST_BALLS:
        return None
    balls = np.arange(1, most + 2)
    mean = float(law.mean()) + 1
    whole = poisson.pmf(balls, mean)
    largest = np.ones(len(balls))
    for least in range(1, most + 2):  # at most so many in each
        below = _power(poisson.pmf(np.arange(least + 1), mean / values), values, most + 2)[1:]
        over = np.where(whole > 0, 1 - below / np.where(whole > 0, whole, 1), 0)
        largest += np.clip(over, 0, 1)
        if over[fewest:].max() < _TAIL:
            break
    return float((law.pmf(balls - 1) * largest / balls).sum())


def _power(series: Floats, times: int, size: int) -> Floats:
    """A power of a polynomial, its first coefficients."""
    found = np.ones(1)
    while times:
        if times & 1:
            found = np.convolve(found, series)[:size]
        series, times = np.convolve(series, series)[:size], times >> 1
    return np.pad(found, (0, size - len(found)))
