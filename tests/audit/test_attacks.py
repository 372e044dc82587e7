"""Attacks on databases fail, and succeed where nobody keeps an account."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from scumble.audit.attacks import ATTACKS, DatabaseVictim, LiveVictim, Outcome, run_attack
from scumble.private.database.live.terms import LiveTerms
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream

PEOPLE, EPSILON, NOISE = 40, 1.0, 2.0
CONFIDENCE = 0.99999
# So many questions for each person are enough against the noise, if nobody keeps an account of it;
# against the database few are made, for each is a turn of its ledger.
ENOUGH = {"averaging": 400, "differencing": 800, "reconstruction": 60}
FEW = {"averaging": 12, "differencing": 4, "reconstruction": 4}


class Naive:
    """Noise on every answer, drawn anew each time, and no account of it."""

    name = "noise without a ledger"
    people, epsilon = PEOPLE, EPSILON

    def __init__(self, secrets: list[int], seed: int) -> None:
        self._secrets, self._noise = np.array(secrets), _noise(Keystream(seed))

    def count(self, condition: str, members: list[int]) -> float:
        """The true count and fresh noise."""
        return float(self._secrets[list(members)].sum() + next(self._noise))


def _noise(source: Keystream) -> Iterator[int]:
    while True:
        yield from discrete_laplace(source, Fraction(str(NOISE)), 4096).tolist()


def secrets(seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 2, PEOPLE).tolist()


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_database_without_a_ledger_falls(attack):
    hidden = secrets(1)
    victim = Naive(hidden, seed=2)
    rng = np.random.default_rng(3)
    outcome = run_attack(attack, victim, hidden, rng, ENOUGH[attack.split()[0]])
    assert outcome.finding(CONFIDENCE).refuted, outcome


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_statistical_database_stands(attack, tmp_path):
    """A false alarm has probability 1e-5 for each attack if the promise holds."""
    hidden = secrets(4)
    victim = DatabaseVictim(tmp_path / "db", hidden, epsilon=EPSILON, noise=NOISE)
    rng = np.random.default_rng(5)
    outcome = run_attack(attack, victim, hidden, rng, FEW[attack.split()[0]])
    victim.close()
    assert not outcome.finding(CONFIDENCE).refuted, outcome


@pytest.mark.parametrize("attack", ["averaging by repetition", "averaging by rewriting"])
def test_a_live_database_that_charges_nothing_falls(attack, tmp_path, monkeypatch):
    """With 10⁴ times the precision that is promised, every answer is all but exact."""
    hidden, honest = secrets(6), LiveTerms.variance
    precise = lambda *given, **more: honest(*given, **more) / 10**4  # noqa: E731
    monkeypatch.setattr(LiveTerms, "variance", precise)
    victim = LiveVictim(tmp_path / "db", hidden, epsilon=EPSILON, delta=1e-9)
    outcome = run_attack(attack, victim, hidden, np.random.default_rng(7), 1)
    victim.close()
    assert outcome.finding(CONFIDENCE).refuted, outcome


def test_the_surprise_is_a_binomial_tail():
    outcome = Outcome("attack", "somebody", 3, 3, 0.0)
    assert outcome.allowed == 0.5
    assert outcome.surprise == pytest.approx(1 / 8)
