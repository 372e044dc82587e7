"""The exposure test: how often the best adversary names the true sensitive value of a target, in
closed form and as a game.

The sensitive value of a target is drawn uniformly among d values, and the table is published. The
adversary knows everything but that value, sees the release and names a value. Blind guessing
succeeds with probability 1/d. An ε-DP method allows at most e^ε / (e^ε + d - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit import hooks
from scumble.audit.evidence_checks import multiset_counts
from scumble.audit.report import Finding
from scumble.model.errors import ParameterError
from scumble.model.evidence.channels import Channel, MultisetChannel
from scumble.model.laws.probabilities import clopper_pearson_lower
from scumble.model.privacy.guarantee import epsilon_for_exposure, exposure_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.private.mechanism import Mechanism, Publisher
from scumble.private.mechanism_metadata import SECRET_VALUES
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.public.manifest import Manifest
from scumble.public.release import Release

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
    own = hooks.of_evidence(manifest.evidence, "find_exposure")
    if own is not None:
        own_exposure: Exposure | None = own(manifest)
        return own_exposure
    channels, schema = hooks.channels_of(manifest.evidence), manifest.schema
    if not channels:
        return None
    values = math.prod(schema.size(channel.attributes) for channel in channels)
    return Exposure(values, math.prod(channel_exposure(channel, schema) for channel in channels))


def channel_exposure(channel: Channel, schema: Schema) -> float:
    """Return the success of the best guess of the value that a channel perturbs."""
    own = hooks.of_channel(channel, "channel_exposure")
    if own is None:
        raise ParameterError(f"What a channel of the kind '{channel.kind}' exposes is not known.")
    return float(own(channel, schema))


@dataclass(frozen=True)
class GroupExposure:
    """The success of the best guess from groups of rows: on average, and about the unluckiest
    person.
    """

    success: float
    worst: float


def group_exposure(group: Codes, codes: Codes, counts: Codes, whole: Codes) -> GroupExposure:
    """Return the exposure of a table that is published in groups; `whole` has the number of rows of
    each sensitive value.

    A line of the other arrays says how many rows (`counts`) of a value (`codes`) a group has. A
    person with value v is in a group with a probability equal to the share of v's rows in the
    group. The attacker names the value with the largest share, mostly the rarest one. The same
    holds for people who were left out. Values that nobody has are not among those to guess.
    """
    there = whole > 0
    if not there.any():
        blind = 1 / max(len(whole), 1)
        return GroupExposure(blind, blind)
    missing = 1 - np.bincount(codes, counts, len(whole))[there] / whole[there]
    shares = counts / whole[codes]
    groups = int(group.max(initial=-1)) + 1
    largest = np.zeros(groups)
    np.maximum.at(largest, group, shares)
    total = np.bincount(group, shares, groups)
    chances = np.append(largest[total > 0] / total[total > 0], 0.0)
    if missing.max() > 0:
        chances = np.append(chances, missing.max() / missing.sum())
    success = (float(largest.sum()) + float(missing.max())) / int(there.sum())
    return GroupExposure(success, float(chances.max()))


# The Bayes-optimal adversary. All values are equally likely a priori, so the best guess is the
# value with the largest likelihood; ties are broken at random.


def guesses(release: Release, target: str, rng: np.random.Generator) -> Codes:
    """Return the guessed code of the only sensitive attribute for every code of `target`.

    `target` is a column that has a different value for everybody.
    """
    own = hooks.of_evidence(release.evidence, "guess_values")
    codes: Codes = (
        guess_likeliest(shown_counts(release, target), rng)
        if own is None
        else own(release, target, rng)
    )
    return codes


def shown_counts(release: Release, target: str) -> Floats:
    """Return how often each sensitive value is shown with every code of `target`.

    Where a release numbers equal rows, the first of them counts: a target's row is unique.
    """
    own = hooks.of_evidence(release.evidence, "count_shown")
    if own is None:
        raise ParameterError("The exposure test is about publishers; this release shows no rows.")
    counts: Floats = own(release, target)
    return counts


def count_values(release: Release, target: str, table: pa.Table) -> Floats:
    """Return the counts of `shown_counts` of rows that show one value each."""
    schema = release.schema
    [sensitive] = schema.sensitive
    who = known_codes(schema[target], table[target]).astype(np.int64)
    codes = known_codes(sensitive, table[sensitive.name]).astype(np.int64)
    counts = np.zeros((schema[target].size, sensitive.size))
    np.add.at(counts, (who, codes), 1.0)
    return counts


def count_members(release: Release, target: str, channel: MultisetChannel) -> Floats:
    """Return the counts of `shown_counts` of rows that show multisets."""
    schema = release.schema
    [sensitive] = schema.sensitive
    table = pq.read_table(release.folder / release.evidence.files[0])
    counts = np.zeros((schema[target].size, sensitive.size))
    who = known_codes(schema[target], table[target]).astype(np.int64)
    counts[who] = multiset_counts(channel, table, sensitive.size)
    return counts


def guess_likeliest(likelihood: Floats, rng: np.random.Generator) -> Codes:
    """Return the value with the largest likelihood in each line."""
    best = likelihood >= likelihood.max(axis=1, keepdims=True) * (1 - 1e-12)
    values: Codes = np.argmax(best * (1 + rng.random(best.shape)), axis=1)
    return values


# The exposure test as a game: many targets, one release, and the adversary's score.

TARGET, SECRET = "target", "secret"


@dataclass(frozen=True)
class Score:
    """How often the adversary was right, and the exact exposure where it is known."""

    values: int
    games: int
    hits: int
    exact: Exposure | None
    manifest: Manifest

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
    release = publish(
        table, schema, mechanism, options=PublishOptions(seed=seed, progress=progress)
    )
    hits = int((guesses(release, TARGET, rng) == secrets).sum())
    return Score(values, games, hits, exposure(release.manifest), release.manifest)


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
    own = hooks.of_mechanism(mechanism.name, "publish_secret")
    if own is not None:
        shown: Floats = own(mechanism, value, runs, seed)
        return shown
    return publish_people(mechanism, value, runs, seed)


def publish_people(mechanism: Publisher, value: int, runs: int, seed: int | None) -> Floats:
    """Publish people who are told apart by their number; return what each of them shows."""
    table = pa.table({TARGET: np.arange(runs), SECRET: np.full(runs, value)})
    return shown_counts(
        publish(table, secret_schema(runs), mechanism, options=PublishOptions(seed=seed)), TARGET
    )
