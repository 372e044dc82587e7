"""The exposure test as a game: many targets, one publication, and the adversary's score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scumble.audit.adversary import guesses
from scumble.audit.chance import at_least
from scumble.audit.exposure import Exposure, exposure
from scumble.audit.finding import Finding
from scumble.model.privacy.guarantee import epsilon_for_exposure, exposure_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, Publisher
from scumble.private.publish import publish

WHO, SECRET = "target", "secret"


@dataclass(frozen=True)
class Score:
    """How often the adversary was right, and what is known exactly of that probability."""

    values: int
    games: int
    hits: int
    exact: Exposure | None

    def least(self, confidence: float) -> float:
        """A lower limit of the success probability: exact where it can be, else from the games."""
        if self.exact is not None:
            return self.exact.success
        return at_least(self.hits, self.games, confidence)


def play(mechanism: Publisher, values: int, games: int, *, seed: int | None = None) -> Score:
    """Publish a table of `games` targets, whose secrets a guard has drawn, and let the adversary
    name them all. Each target is a game of its own.
    """
    schema = Schema(
        (
            Attribute(WHO, "quasi", IntegerRange(0, games - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, values - 1)),
        )
    )
    rng = np.random.default_rng(seed)
    secrets = rng.integers(0, values, games)
    table = pa.table({WHO: np.arange(games), SECRET: secrets})
    release = publish(table, schema, mechanism, seed=seed)
    hits = int((guesses(release, WHO, rng) == secrets).sum())
    return Score(values, games, hits, exposure(release.manifest))


def finding(mechanism: Mechanism, score: Score, claimed: float, confidence: float) -> Finding:
    """Whether the adversary did better than a claimed ε allows."""
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
