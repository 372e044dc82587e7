"""Who is attacked: somebody who answers questions, and the statistical database."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from scumble.model.errors import ScumbleError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.database.database import Database

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
