"""`recommend`: the method to publish with, from the schema alone. No row is read, and no budget is
spent.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import (
    gamma_above_epsilon,
    percent_at_least,
    percent_at_most,
    posterior_at_most,
)
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, create
from scumble.private.mechanism_metadata import PRIOR

Use = Literal["questions", "rows", "tables", "live"]

USES: Mapping[Use, str] = {
    "questions": "Others ask questions about the release: counts, averages, ranges.",
    "rows": "Others need rows, for their own tools.",
    "tables": "You print tables in a publication.",
    "live": "Others ask questions one after the other, while the table stays with you.",
}
DATABASE = "database"  # the method whose command is `scumble db create`


@dataclass(frozen=True)
class CareLevel:
    """How careful to be with each person, in words, and the ε that it stands for."""

    name: str
    epsilon: float
    sentence: str

    @classmethod
    def of(cls, name: str, epsilon: float) -> CareLevel:
        """Return the level with the sentence that follows from `epsilon`."""
        end = posterior_at_most(PRIOR, gamma_above_epsilon(Fraction(str(epsilon))))
        return cls(
            name,
            epsilon,
            f"Someone who already believed a guess with {percent_at_least(PRIOR)} can reach at "
            f"most {percent_at_most(end)}.",
        )


CARE_LEVELS = (
    CareLevel.of("careful", 0.46),
    CareLevel.of("balanced", 1.0),
    CareLevel.of("open", 2.0),
)


@dataclass(frozen=True)
class ExpectedError:
    """A typical question, about how many rows it counts, and how far the answer may be off,
    nineteen times in twenty. `half_width` is None if that depends on the table.
    """

    question: str
    count: float
    half_width: float | None


@dataclass(frozen=True)
class Recommendation:
    """A method with its parameters. `reason` says why it is the first, or why it is not."""

    method: str
    parameters: Mapping[str, Any]
    reason: str
    errors: tuple[ExpectedError, ...] = field(default=())

    def mechanism(self) -> Mechanism:
        """Return the mechanism for `publish`."""
        return create(self.method, **self.parameters)

    def command(
        self, source: str = "TABLE", schema: str = "SCHEMA", output: str = "FOLDER"
    ) -> str:
        """Return the shell command that publishes, or makes the database."""
        raise NotImplementedError


@dataclass(frozen=True)
class Advice:
    """What to publish with: the best method, at most four alternatives, and every other method
    with the reason why it is not recommended.
    """

    best: Recommendation
    alternatives: tuple[Recommendation, ...]
    not_recommended: Mapping[str, str]


def recommend(
    schema: Schema | str | Path,
    *,
    rows: int,
    use: Use = "questions",
    epsilon: float,
    delta: float | None = None,
    attributes: Sequence[str] | None = None,
    queries: str | Path | Sequence[str] | None = None,
    neighbours: Neighbours = "replace",
    occupied: float | None = None,
) -> Advice:
    """Return the method that fits a table, a use and a promise."""
    raise NotImplementedError
