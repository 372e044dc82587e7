"""Who is attacked: a database that keeps its promise, and one that only adds noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from scumble.attribute import Attribute
from scumble.database.database import Database
from scumble.errors import ScumbleError
from scumble.kinds import IntegerRange
from scumble.noise.laplace import discrete_laplace
from scumble.noise.source import Source
from scumble.schema import Schema

PERSON, SECRET = "person", "secret"


class Victim(Protocol):
    """Answers how many people of a list have the secret 1, or not at all."""

    name: str
    people: int
    epsilon: float

    def count(self, condition: str, members: Sequence[int]) -> float | None: ...


class Guarded:
    """A statistical database over people with a number and a secret bit."""

    name = "statistical database"

    def __init__(
        self, folder: Path, secrets: Sequence[int], *, epsilon: float, noise: float
    ) -> None:
        self.people, self.epsilon = len(secrets), epsilon
        table = pa.table({PERSON: np.arange(len(secrets)), SECRET: np.array(secrets)})
        schema = Schema(
            (
                Attribute(PERSON, "quasi", IntegerRange(0, len(secrets) - 1)),
                Attribute(SECRET, "sensitive", IntegerRange(0, 1)),
            )
        )
        self._database = Database.create(folder, table, schema, epsilon=epsilon, noise=noise)

    def count(self, condition: str, members: Sequence[int]) -> float | None:
        """What the database says, relaxed or not; nothing where it refuses."""
        try:
            found = self._database.answer(f"SELECT COUNT(*) FROM people WHERE {condition}")
        except ScumbleError:
            return None
        value = float(found)  # type: ignore[arg-type]
        return value if math.isfinite(value) else None

    def close(self) -> None:
        """Let go of the folder."""
        self._database.close()


class Naive:
    """The same noise on every answer, drawn anew each time, and no account of it."""

    name = "noise without a ledger"

    def __init__(
        self, secrets: Sequence[int], *, epsilon: float, noise: float, seed: int | None = None
    ) -> None:
        self.people, self.epsilon = len(secrets), epsilon
        self._secrets = np.array(secrets)
        self._noise = _drawn(Fraction(str(noise)), Source(seed))

    def count(self, condition: str, members: Sequence[int]) -> float | None:
        """The true count and fresh noise."""
        return float(self._secrets[list(members)].sum() + next(self._noise))


def _drawn(scale: Fraction, source: Source) -> Iterator[int]:
    """Noise without end, many at a time."""
    while True:
        yield from discrete_laplace(source, scale, 4096).tolist()
