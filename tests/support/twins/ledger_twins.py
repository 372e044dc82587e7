"""Broken databases: one forgets what it answered, one looks at the data before it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scumble.audit.attacks import (
    PERSON,
    SECRET,
    DatabaseVictim,
    Outcome,
    refusal_attack,
    refusal_finding,
)
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding
from scumble.private.database.state import DatabaseState
from scumble.private.sampling.source import Keystream
from tests.support.twins.twins import Twin

PEOPLE, EPSILON, NOISE = 60, 1.0, 2.0
# A ledger that nobody needs afterwards is in memory, where that is a folder.
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Forgetful(DatabaseVictim):
    """Its ledger is written, and never remembered."""

    name = "ledger that forgets"

    def count(self, condition, members):
        session = self._database._session
        session._state = DatabaseState(session.terms, session.space)
        return super().count(condition, members)


class LooksFirst(DatabaseVictim):
    """Refuses to say that nobody was found."""

    name = "denial that looks at data"

    def __init__(self, folder, secrets, *, epsilon, noise):
        super().__init__(folder, secrets, epsilon=epsilon, noise=noise)
        self._secrets = np.array(secrets)

    def count(self, condition, members):
        if not self._secrets[members].sum():
            return None
        return super().count(condition, members)


def repeated(kind: type[DatabaseVictim]) -> Callable[[int, int], Iterator[Finding]]:
    """Everybody's bit by asking again and again, and taking the side of most answers."""

    def check(runs: int, seed: int) -> Iterator[Finding]:
        secrets = _secrets(seed)
        with TemporaryDirectory(dir=PLACE) as folder:
            victim = made(kind, Path(folder) / "db", secrets, seed)
            bits = [_voted(victim, who, runs // PEOPLE) for who in range(PEOPLE)]
            victim.close()
        right = sum(bit == secret for bit, secret in zip(bits, secrets, strict=True))
        yield Outcome("repetition", victim.name, right, PEOPLE, EPSILON).finding(CONFIDENCE)

    return check


def _voted(victim: DatabaseVictim, who: int, times: int) -> int:
    asked = f"{PERSON} = {who} AND {SECRET} = 1"
    answers = [victim.count(asked, [who]) for _ in range(times)]
    given = [answer for answer in answers if answer is not None]
    return int(2 * sum(answer > 0.5 for answer in given) > len(given))


def made(kind: type[DatabaseVictim], folder: Path, secrets: list[int], seed: int) -> DatabaseVictim:
    """A database with noise that can be repeated."""
    victim = kind(folder, secrets, epsilon=EPSILON, noise=NOISE)
    victim._database._session._noise = Keystream(seed)
    return victim


def refusing(kind: type[DatabaseVictim]) -> Callable[[int, int], Iterator[Finding]]:
    """Everybody's bit by who is refused; and whether decisions follow the data."""

    def check(runs: int, seed: int) -> Iterator[Finding]:
        with TemporaryDirectory(dir=PLACE) as folder:
            several = [_secrets(seed + place) for place in range(2)]
            victims = [
                made(kind, Path(folder) / str(place), secrets, seed + place)
                for place, secrets in enumerate(several)
            ]
            yield refusal_attack(victims[0], several[0]).finding(CONFIDENCE)
            refusal_attack(victims[1], several[1])  # so that both were asked the same
            yield refusal_finding(*victims, runs // PEOPLE)
            for victim in victims:
                victim.close()

    return check


def _secrets(seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 2, PEOPLE).tolist()


TWINS = [
    Twin("ledger that forgets", repeated(Forgetful), repeated(DatabaseVictim), PEOPLE * 60),
    Twin("denial that looks at data", refusing(LooksFirst), refusing(DatabaseVictim), PEOPLE * 4),
]
