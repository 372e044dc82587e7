"""What the audit knows of published tuples: their exposure, the law of one tuple, and how often
secrets are shown.

The adversary knows everything but the sensitive values of a target.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scumble.audit.exposure import (
    SECRET,
    TARGET,
    VALUES,
    Codes,
    Exposure,
    count_values,
    guess_likeliest,
    publish_people,
    secret_schema,
)
from scumble.audit.row_laws import RowLaw, law_of_channels, uniform_delta
from scumble.families.alphabeta.design import (
    InclusionProbabilities,
    Pattern,
    ReplacedTuples,
    TupleOdds,
    Tuples,
    patterns,
)
from scumble.model.evidence.channels import UniformChannel
from scumble.model.evidence.evidence import Evidence
from scumble.model.laws.probabilities import binomial_masses, binomial_range, poisson_masses
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Publisher
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.public.manifest import Manifest
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]


def find_exposure(manifest: Manifest) -> Exposure | None:
    """Return the exposure of the sensitive attributes; None where it is not known."""
    evidence, schema = _tuples(manifest.evidence), manifest.schema
    sensitive = [attribute.name for attribute in schema.sensitive]
    if not sensitive:
        return None
    presence, values = evidence.presence, schema.size(sensitive)
    success = (
        find_inclusion_exposure(presence, schema, evidence.columns)
        if isinstance(presence, InclusionProbabilities)
        else find_replacement_exposure(presence, schema.size(evidence.columns), values)
    )
    return None if success is None else Exposure(values, *success)


def promised_exposure(manifest: Manifest) -> Exposure | None:
    """Return the exposure that is promised: where rows are replaced, that of a whole row to an
    adversary who is told which row is whose.
    """
    evidence = _tuples(manifest.evidence)
    if not isinstance(evidence.presence, ReplacedTuples):
        return find_exposure(manifest)
    size, keep = manifest.schema.size(evidence.columns), evidence.presence.keep
    return Exposure(size, float(keep + (1 - keep) / size))


def _tuples(evidence: Evidence) -> Tuples:
    return cast(Tuples, evidence)


def count_shown(release: Release, target: str) -> Floats:
    """Return how often each sensitive value is shown with every code of `target`; of equal rows
    that are numbered, the first counts.
    """
    table = pq.read_table(release.folder / _tuples(release.evidence).file)
    if InclusionProbabilities.occurrence in table.column_names:
        table = pc.filter(table, pc.equal(table[InclusionProbabilities.occurrence], 0))
    return count_values(release, target, table)


def guess_values(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """Return the likeliest value for every code of `target`.

    Without sources the likelihood of a value grows with how often its tuple is shown. With sources
    it is larger for shown tuples that are unlikely as noise.
    """
    shown, schema = count_shown(release, target), release.schema
    law = _tuples(release.evidence).presence
    if not isinstance(law, InclusionProbabilities) or not law.sources:
        return guess_likeliest(shown, rng)
    noise = np.full(shown.shape, float(law.noise))
    for axis, name in enumerate((target, schema.sensitive[0].name)):
        if name in law.sources:
            weights = np.array([float(share) for share in law.sources[name]]) * schema[name].size
            noise *= weights[:, None] if axis == 0 else weights
    alpha = float(law.keep - law.noise)
    likelihood: Floats = np.where(shown > 0, 1 + alpha / noise, 1 - alpha / (1 - noise))
    return guess_likeliest(likelihood, rng)


def publish_secret(mechanism: Publisher, value: int, runs: int, seed: int | None) -> Floats:
    """Return what `runs` publications of one secret show.

    Rows that may be replaced by any row of the domain, as FRAPP does, cannot be matched with
    people. So all people have the same row of a small domain, and every published row is a run. The
    rows come sorted, and are shuffled.
    """
    if mechanism.name != "frapp":
        return publish_people(mechanism, value, runs, seed)
    schema = secret_schema(2)
    last = value == VALUES - 1  # the two rows that differ in everything
    table = pa.table({TARGET: np.full(runs, int(last)), SECRET: np.full(runs, value)})
    release: Release = publish(table, schema, mechanism, options=PublishOptions(seed=seed))
    shown = pq.read_table(release.folder / _tuples(release.evidence).file)
    codes = [schema[name].encode(shown[name])[0] for name in (TARGET, SECRET)]
    keys = schema.cell_keys((TARGET, SECRET)).pack(codes).astype(np.int64)
    lines: Floats = np.eye(schema.size())[np.random.default_rng(seed).permutation(keys)]
    return lines


def find_row_law(evidence: Evidence, schema: Schema, epsilon: float) -> RowLaw:
    """Return the law of one tuple in place of another."""
    columns, law = _tuples(evidence).columns, _tuples(evidence).presence
    domain = schema.size(columns)
    if isinstance(law, ReplacedTuples):
        delta = uniform_delta(law.keep, domain, epsilon)
        return law_of_channels((UniformChannel(columns, law.keep),), schema, delta)
    loss = TupleOdds(law, domain * law.multiplicity).loss(replaced=True)
    why = "Some views show a tuple only if it is true" if loss == math.inf else ""
    return RowLaw(loss, None if law.sources else _delta_of_tuples(law, epsilon), why)


def _delta_of_tuples(law: InclusionProbabilities, epsilon: float) -> float:
    """One tuple is true and another false, or the other way round; each shows its own pattern."""
    every = list(patterns(law))
    times = np.array([float(pattern.times) for pattern in every])
    true = np.array([float(pattern.true) for pattern in every]) * times
    false = np.array([float(pattern.false) for pattern in every]) * times
    excess = np.multiply.outer(true, false) - math.exp(epsilon) * np.multiply.outer(false, true)
    return float(np.maximum(excess, 0.0).sum())


# The exposure. The target is a person whose other columns nobody shares, so
# that each value of the secret makes another tuple the true one. All other tuples of the release
# tell nothing about the secret, and neither do the numbers of equal rows, since the adversary knows
# all other rows.

MOST_LAWS = 200_000  # different laws of tuples; with more of them the exposure is not computed
MOST_BALLS = 500  # rows that fall on the tuples of one person
_TAIL = 1e-14

Success = tuple[float, float]  # the success, and the success if the release shows a tuple


def find_inclusion_exposure(
    presence: InclusionProbabilities, schema: Schema, columns: Sequence[str]
) -> Success | None:
    """Return the exposure of tuples that are included with some probability.

    Where sources make the other columns matter, it is the largest over them. None means that it
    takes too long.
    """
    sensitive = [attribute.name for attribute in schema.sensitive]
    known = [name for name in columns if name not in sensitive]
    if presence.sources and presence.views > 1:
        return None
    own, others = (find_noise_factors(presence, schema, names) for names in (sensitive, known))
    if own is None or others is None or len(own) * len(others) > MOST_LAWS:
        return None
    return max(
        _tuple_exposure(
            [(list(patterns(presence, factor * other)), times) for factor, times in own.items()]
        )
        for other in others
    )


def find_noise_factors(
    presence: InclusionProbabilities, schema: Schema, names: Iterable[str]
) -> Mapping[Fraction, int] | None:
    """Return by which factors false tuples are likelier than in the mean, because of their values
    of the attributes `names`, and for how many combinations of values; None if there are too many.
    """
    factors = Counter({Fraction(1): 1})
    for name in names:
        shares = (presence.sources or {}).get(name)
        size = schema[name].size
        own = Counter({Fraction(1): size} if shares is None else [size * p for p in shares])
        if len(factors) * len(own) > MOST_LAWS:
            return None
        more: Counter[Fraction] = Counter()
        for factor, times in factors.items():
            for other, again in own.items():
                more[factor * other] += times * again
        factors = more
    return factors


def _tuple_exposure(laws: Sequence[tuple[Sequence[Pattern], int]]) -> Success:
    """Return the success among independent tuples of which one is true, all equally likely.

    `laws` holds the patterns of a tuple, of which the last is that nothing is shown, and the number
    of tuples with these patterns. The success is 1/d of the sum, over all outputs, of the largest
    probability of the output under a true tuple. In units of the probability of the output if all
    tuples are false, that is the mean of the largest ratio; a pattern that only the true tuple can
    show identifies it.
    """
    values = sum(times for _, times in laws)
    success = (_sum_given_away(laws) + _mean_of_largest(laws)) / values
    ratios = [
        (float(own_patterns[-1].true / own_patterns[-1].false), times)
        for own_patterns, times in laws
    ]
    nothing = math.exp(
        math.fsum(times * _log(own_patterns[-1].false) for own_patterns, times in laws)
    )
    guessed = nothing * max(ratio for ratio, _ in ratios) / values
    missed = nothing * math.fsum(ratio * times for ratio, times in ratios) / values
    return success, (success - guessed) / (1 - missed)


def _sum_given_away(laws: Sequence[tuple[Sequence[Pattern], int]]) -> float:
    return math.fsum(
        float(pattern.true * pattern.times * times)
        for own_patterns, times in laws
        for pattern in own_patterns
        if not pattern.false
    )


def _mean_of_largest(laws: Sequence[tuple[Sequence[Pattern], int]]) -> float:
    """Return the mean of the largest ratio of true to false, if all tuples are false.

    It is the sum, from the top, of each step between ratios times the probability that one of the
    tuples is above it.
    """
    ratios = sorted(
        (
            (float(pattern.true / pattern.false), float(pattern.false * pattern.times), index)
            for index, (own_patterns, _) in enumerate(laws)
            for pattern in own_patterns
            if pattern.false
        ),
        reverse=True,
    )
    above = [0.0] * len(laws)
    none = total = 0.0  # `none`: log of the probability that no tuple has a ratio this high
    for (ratio, chance, index), (lower, _, _) in zip(
        ratios, [*ratios[1:], (0.0, 0, 0)], strict=True
    ):
        none -= laws[index][1] * _log1p(-above[index])
        above[index] += chance
        none += laws[index][1] * _log1p(-above[index])
        total += (ratio - lower) * -math.expm1(none)
    return total


def _log(number: Fraction) -> float:
    return _log1p(float(number - 1))


def _log1p(number: float) -> float:
    """Return log(1 + number); -800 for -1, whose exponential is 0 and which can be subtracted."""
    return math.log1p(number) if number > -1 + 1e-15 else -800.0


def find_replacement_exposure(presence: ReplacedTuples, domain: int, values: int) -> Success | None:
    """Return the exposure of rows that are kept, or replaced by any row of the domain.

    The adversary names the value whose tuple is shown most often. If the target's row was kept, it
    is any of the rows that show one of the target's tuples, with equal probabilities; if not, the
    guess is right with probability 1/values. The result is None if no other column tells people
    apart, or if too many rows fall on the tuples of one person.
    """
    if values == domain or not presence.rows:
        return None
    keep, chance = float(presence.keep), float((1 - presence.keep) / domain)
    hit = _most(presence.rows - 1, values, chance)
    if hit is None:
        return None
    success = (1 - keep) / values + keep * hit
    nothing = (1 - keep - values * chance) * math.exp(
        (presence.rows - 1) * math.log1p(-values * chance)
    )
    return success, (success - nothing / values) / (1 - nothing)


def _most(others: int, values: int, chance: float) -> float | None:
    """Return the mean share of the most frequent tuple among the rows that show one of some tuples.

    These rows are the target's and those of the others that fall on the tuples.
    """
    fewest, most = binomial_range(others, values * chance, _TAIL)
    if most > MOST_BALLS:
        return None
    balls = np.arange(1, most + 2)
    mean = others * values * chance + 1
    whole = poisson_masses(balls, mean)
    largest = np.ones(len(balls))
    for least in range(1, most + 2):  # at most this many rows show the same tuple
        below = _power(poisson_masses(np.arange(least + 1), mean / values), values, most + 2)[1:]
        over = np.where(whole > 0, 1 - below / np.where(whole > 0, whole, 1), 0)
        largest += np.clip(over, 0, 1)
        if over[fewest:].max() < _TAIL:
            break
    chances = binomial_masses(balls - 1, others, values * chance)
    return float((chances * largest / balls).sum())


def _power(series: Floats, times: int, size: int) -> Floats:
    """Return the first `size` coefficients of a power of a polynomial."""
    product = np.ones(1)
    while times:
        if times & 1:
            product = np.convolve(product, series)[:size]
        series, times = np.convolve(series, series)[:size], times >> 1
    return np.pad(product, (0, size - len(product)))
