"""The exposure test: how often the best adversary names the true sensitive value of a target, in
closed form and as a game.

The sensitive value of a target is drawn uniformly among d values, and the table is published. The
adversary knows everything but that value, sees the release and names a value. Blind guessing
succeeds with probability 1/d. An ε-DP method allows at most e^ε / (e^ε + d - 1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.anonymity.generalised import candidate_shares
from scumble.audit.evidence_checks import Pattern, multiset_counts, patterns
from scumble.audit.report import Finding
from scumble.model import arrow_compute as pc
from scumble.model.errors import ParameterError
from scumble.model.evidence.channels import (
    Channel,
    MultisetChannel,
    PartitionChannel,
    PoolLaw,
    SubsetLaw,
    UniformChannel,
)
from scumble.model.evidence.evidence import Groups, Records, Tuples
from scumble.model.evidence.generalised import Generalised
from scumble.model.evidence.presence import InclusionProbabilities, ReplacedTuples
from scumble.model.laws.probabilities import (
    binomial_masses,
    binomial_range,
    clopper_pearson_lower,
    poisson_masses,
)
from scumble.model.privacy.guarantee import epsilon_for_exposure, exposure_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.private.hooks import SECRET_VALUES
from scumble.private.mechanism import Mechanism, Publisher
from scumble.private.publish import publish
from scumble.public.release import Manifest, Release


@dataclass(frozen=True)
class Exposure:
    """The success probability of the best adversary against a target.

    `shown` is the success given that the release shows the target; None if it always does.
    """

    values: int
    success: float
    shown: float | None = None

    @property
    def blind(self) -> float:
        return 1 / self.values


def exposure(manifest: Manifest) -> Exposure | None:
    """Return the exposure of all sensitive attributes of a release together.

    It is None where it depends on the private table, or takes too long to compute.
    """
    evidence, schema = manifest.evidence, manifest.schema
    if isinstance(evidence, Records):
        values = math.prod(schema[name].size for name in evidence.perturbed)
        return Exposure(values, math.prod(_channel(each, schema) for each in evidence.channels))
    if isinstance(evidence, Tuples):
        sensitive = [attribute.name for attribute in schema.sensitive]
        if not sensitive:
            return None
        return _tuples(evidence, schema, schema.size(sensitive))
    return None


def _tuples(evidence: Tuples, schema: Schema, values: int) -> Exposure | None:
    presence = evidence.presence
    found = (
        included_exposure(presence, schema, evidence.columns)
        if isinstance(presence, InclusionProbabilities)
        else replaced_exposure(presence, schema.size(evidence.columns), values)
    )
    return None if found is None else Exposure(values, *found)


def _channel(channel: Channel, schema: Schema) -> float:
    if isinstance(channel, UniformChannel):
        return float(channel.keep + (1 - channel.keep) / schema.size(channel.attributes))
    if isinstance(channel, PartitionChannel):
        pairs = zip(channel.keeps, channel.domains, strict=True)
        return max(float(keep) + (1 - float(keep)) / len(domain) for keep, domain in pairs)
    if isinstance(channel.law, SubsetLaw):
        return subset_exposure(channel.law)
    from scumble.private.perturbation.aroma_guarantee import pool_exposure as of_pool

    return of_pool(cast(PoolLaw, channel.law))  # multisets have one of two laws


def subset_exposure(law: SubsetLaw) -> float:
    """Return the success of guessing a value of the set, or one outside it if that is likelier."""
    inside = law.inclusion / law.size
    outside = (1 - law.inclusion) / (law.values - law.size)
    return float(max(inside, outside))


# The Bayes-optimal adversary. All values are equally likely a priori, so the best guess is the
# value with the largest likelihood; ties are broken at random.

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def guesses(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """Return the guessed code of the only sensitive attribute for every code of `target`.

    `target` is a column that has a different value for everybody.
    """
    if isinstance(release.evidence, Groups):
        return _by_group(release, release.evidence, target, rng)
    if isinstance(release.evidence, Generalised):
        return _likeliest(candidate_shares(release, target), rng)
    likelihood = shown_counts(release, target)
    [channel] = release.evidence.channels if isinstance(release.evidence, Records) else [None]
    if isinstance(channel, MultisetChannel) and isinstance(channel.law, PoolLaw):
        # A member of the multiset is the true one in proportion to its count over its share.
        likelihood /= np.array([float(share) for share in channel.law.shares])
    elif isinstance(release.evidence, Tuples):
        likelihood = _of_tuples(likelihood, release.evidence, release.schema, target)
    return _likeliest(likelihood, rng)


def _of_tuples(shown: Floats, evidence: Tuples, schema: Schema, target: str) -> Floats:
    """Return the likelihood of each value, up to a factor for each target.

    Without sources it grows with how often its tuple is shown. With sources it is larger for shown
    tuples that are unlikely as noise.
    """
    law = evidence.presence
    if not isinstance(law, InclusionProbabilities) or not law.sources:
        return shown
    noise = np.full(shown.shape, float(law.noise))
    for axis, name in enumerate((target, schema.sensitive[0].name)):
        if name in law.sources:
            weights = np.array([float(share) for share in law.sources[name]]) * schema[name].size
            noise *= weights[:, None] if axis == 0 else weights
    alpha = float(law.kept - law.noise)
    found: Floats = np.where(shown > 0, 1 + alpha / noise, 1 - alpha / (1 - noise))
    return found


def shown_counts(release: Release, target: str) -> Floats:
    """Return how often each sensitive value is shown with every code of `target`.

    Where a release numbers equal rows, the first of them counts: a target's row is unique.
    """
    evidence, schema = release.evidence, release.schema
    [sensitive] = schema.sensitive
    table = pq.read_table(release.folder / evidence.files[0])
    if isinstance(evidence, Tuples) and InclusionProbabilities.occurrence in table.column_names:
        table = pc.filter_(table, pc.equal(table[InclusionProbabilities.occurrence], 0))
    who = known_codes(schema[target], table[target]).astype(np.int64)
    found = np.zeros((schema[target].size, sensitive.size))
    if isinstance(evidence, Records) and isinstance(evidence.channels[0], MultisetChannel):
        found[who] = multiset_counts(evidence.channels[0], table, sensitive.size)
    elif isinstance(evidence, (Records, Tuples)):
        codes = known_codes(sensitive, table[sensitive.name]).astype(np.int64)
        np.add.at(found, (who, codes), 1.0)
    else:
        raise ParameterError("The exposure test is about publishers; this release shows no rows.")
    return found


def _likeliest(likelihood: Floats, rng: np.random.Generator) -> Codes:
    best = likelihood >= likelihood.max(axis=1, keepdims=True) * (1 - 1e-12)
    found: Codes = np.argmax(best * (1 + rng.random(best.shape)), axis=1)
    return found


def _by_group(release: Release, evidence: Groups, target: str, rng: np.random.Generator) -> Codes:
    """Guess the value with the largest part of its rows in the group of the target."""
    [sensitive] = release.schema.sensitive
    table = pq.read_table(release.folder / evidence.file)
    who = known_codes(release.schema[target], table[target]).astype(np.int64)
    values = pq.read_table(release.folder / evidence.values)
    codes = known_codes(sensitive, values[sensitive.name]).astype(np.int64)
    groups, counts = (values[name].to_numpy() for name in (evidence.group, evidence.count))
    whole = np.bincount(codes, counts, sensitive.size)
    likelihood = np.zeros((int(groups.max(initial=0)) + 1, sensitive.size))
    likelihood[groups, codes] = counts / whole[codes]
    found = rng.integers(0, sensitive.size, release.schema[target].size)
    found[who] = _likeliest(likelihood[table[evidence.group].to_numpy()], rng)
    return found


# The exposure test as a game: many targets, one release, and the adversary's score.

TARGET, SECRET = "target", "secret"


@dataclass(frozen=True)
class Score:
    """How often the adversary was right, and the exact exposure where it is known."""

    values: int
    games: int
    hits: int
    exact: Exposure | None

    def least(self, confidence: float) -> float:
        """Return the success probability, or a lower limit from the games where it is not known."""
        if self.exact is not None:
            return self.exact.success
        return clopper_pearson_lower(self.hits, self.games, confidence)


def play(
    mechanism: Publisher,
    values: int,
    games: int,
    *,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Score:
    """Publish a table of `games` targets with random secrets, and let the adversary name them all.

    Each target is a game of its own. `progress` is called with the number of rows read.
    """
    schema = Schema(
        (
            Attribute(TARGET, "quasi", IntegerRange(0, games - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, values - 1)),
        )
    )
    rng = np.random.default_rng(seed)
    secrets = rng.integers(0, values, games)
    table = pa.table({TARGET: np.arange(games), SECRET: secrets})
    release = publish(table, schema, mechanism, seed=seed, progress=progress)
    hits = int((guesses(release, TARGET, rng) == secrets).sum())
    return Score(values, games, hits, exposure(release.manifest))


def finding(mechanism: Mechanism, score: Score, claimed: float, confidence: float) -> Finding:
    """Return the finding whether the adversary did better than a claimed ε allows."""
    allowed = exposure_at_most(claimed, score.values)
    success = score.least(confidence)
    implied = epsilon_for_exposure(success, score.values)
    refuted = success > allowed * (1 + 1e-9)
    how = "exactly" if score.exact is not None else f"at least (from {score.games} games)"
    if score.exact is not None and score.exact.shown is not None:
        how += f"; {score.exact.shown:.3g} if the view shows the target"
    sentence = (
        f"The best adversary names one of {score.values} equally likely values with probability "
        f"{success:.4g} ({how}); ε = {claimed:g} allows at most {allowed:.4g}, "
        f"blind guessing gives {1 / score.values:.3g}."
    )
    if refuted:
        sentence += f" No method with ε below {implied:.4g} can be guessed so often."
    return Finding(
        check="exposure game",
        claim=f"{mechanism.name} keeps ε = {claimed:g} for the sensitive value of a row",
        verdict="refuted" if refuted else "stands",
        sentence=sentence,
        numbers={
            "success": success,
            "allowed": allowed,
            "measured": score.hits / score.games,
            "implied epsilon": implied,
        },
        confidence=None if score.exact is not None else confidence,
    )


# Publications of people who all have the same secret: each person is a run.

VALUES = SECRET_VALUES


def secret_schema(people: int) -> Schema:
    """Return the schema of `people` numbered people with a secret of four values."""
    return Schema(
        (
            Attribute(TARGET, "quasi", IntegerRange(0, max(people - 1, 1))),
            Attribute(SECRET, "sensitive", IntegerRange(0, VALUES - 1)),
        )
    )


def publish_secret(
    mechanism: Publisher, value: int, runs: int, *, seed: int | None = None
) -> Floats:
    """Publish `runs` people with one secret; return how often each person shows each value."""
    if mechanism.name == "frapp":
        return _replaced(mechanism, value, runs, seed)
    table = pa.table({TARGET: np.arange(runs), SECRET: np.full(runs, value)})
    return shown_counts(publish(table, secret_schema(runs), mechanism, seed=seed), TARGET)


def _replaced(mechanism: Publisher, value: int, runs: int, seed: int | None) -> Floats:
    """Publish rows that may be replaced by any row of the domain, as FRAPP does.

    Such rows cannot be matched with people. So all people have the same row of a small domain, and
    every published row is a run. The rows come sorted, and are shuffled.
    """
    schema = secret_schema(2)
    last = value == VALUES - 1  # the two rows that differ in everything
    table = pa.table({TARGET: np.full(runs, int(last)), SECRET: np.full(runs, value)})
    release: Release = publish(table, schema, mechanism, seed=seed)
    evidence = release.evidence
    if not isinstance(evidence, Tuples) or not isinstance(evidence.presence, ReplacedTuples):
        raise TypeError("rows that are replaced are published as tuples")
    found = pq.read_table(release.folder / evidence.file)
    codes = [schema[name].encode(found[name])[0] for name in (TARGET, SECRET)]
    keys = schema.cell_keys((TARGET, SECRET)).pack(codes).astype(np.int64)
    lines: Floats = np.eye(schema.size())[np.random.default_rng(seed).permutation(keys)]
    return lines


# The exposure of published tuples. The target is a person whose other columns nobody shares, so
# that each value of the secret makes another tuple the true one. All other tuples of the release
# tell nothing about the secret, and neither do the numbers of equal rows, since the adversary knows
# all other rows.

MOST_LAWS = 200_000  # different laws of tuples; with more of them the exposure is not computed
MOST_BALLS = 500  # rows that fall on the tuples of one person
_TAIL = 1e-14

Success = tuple[float, float]  # the success, and the success if the release shows a tuple


def included_exposure(
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
    own, others = (noise_factors(presence, schema, names) for names in (sensitive, known))
    if own is None or others is None or len(own) * len(others) > MOST_LAWS:
        return None
    return max(
        _tuple_exposure(
            [(list(patterns(presence, each * other)), times) for each, times in own.items()]
        )
        for other in others
    )


def noise_factors(
    presence: InclusionProbabilities, schema: Schema, names: Iterable[str]
) -> Mapping[Fraction, int] | None:
    """Return by which factors false tuples are likelier than in the mean, because of their values
    of the attributes `names`, and for how many combinations of values; None if there are too many.
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


def _tuple_exposure(laws: Sequence[tuple[Sequence[Pattern], int]]) -> Success:
    """Return the success among independent tuples of which one is true, all equally likely.

    `laws` holds the patterns of a tuple, of which the last is that nothing is shown, and the number
    of tuples with these patterns. The success is 1/d of the sum, over all outputs, of the largest
    probability of the output under a true tuple. In units of the probability of the output if all
    tuples are false, that is the mean of the largest ratio; a pattern that only the true tuple can
    show identifies it.
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
    """Return the mean of the largest ratio of true to false, if all tuples are false.

    It is the sum, from the top, of each step between ratios times the probability that one of the
    tuples is above it.
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
    none = total = 0.0  # `none`: log of the probability that no tuple has a ratio this high
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
    """Return log(1 + number); -800 for -1, whose exponential is 0 and which can be subtracted."""
    return math.log1p(number) if number > -1 + 1e-15 else -800.0


def replaced_exposure(presence: ReplacedTuples, domain: int, values: int) -> Success | None:
    """Return the exposure of rows that are kept, or replaced by any row of the domain.

    The adversary names the value whose tuple is shown most often. If the target's row was kept, it
    is any of the rows that show one of the target's tuples, with equal probabilities; if not, the
    guess is right with probability 1/values. The result is None if no other column tells people
    apart, or if too many rows fall on the tuples of one person.
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
    """Return the mean share of the most frequent tuple among the rows that show one of some tuples.

    These rows are the target's and those of the others that fall on the tuples.
    """
    fewest, most = binomial_range(others, values * each, _TAIL)
    if most > MOST_BALLS:
        return None
    balls = np.arange(1, most + 2)
    mean = others * values * each + 1
    whole = poisson_masses(balls, mean)
    largest = np.ones(len(balls))
    for least in range(1, most + 2):  # at most this many rows show the same tuple
        below = _power(poisson_masses(np.arange(least + 1), mean / values), values, most + 2)[1:]
        over = np.where(whole > 0, 1 - below / np.where(whole > 0, whole, 1), 0)
        largest += np.clip(over, 0, 1)
        if over[fewest:].max() < _TAIL:
            break
    chances = binomial_masses(balls - 1, others, values * each)
    return float((chances * largest / balls).sum())


def _power(series: Floats, times: int, size: int) -> Floats:
    """Return the first `size` coefficients of a power of a polynomial."""
    found = np.ones(1)
    while times:
        if times & 1:
            found = np.convolve(found, series)[:size]
        series, times = np.convolve(series, series)[:size], times >> 1
    return np.pad(found, (0, size - len(found)))
