"""A number that was given out, as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scumble.private.database.space import Box

COUNT = "count"


@dataclass(frozen=True)
class Given:
    """One noisy number that was given out: of which kind, for which box of which rows."""

    kind: str  # "count", or the expression that was added up
    box: Box
    value: int
    times: int = 1  # its noise has so many times the scale of a count's
    batch: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "box": self.box.tolist(),
            "value": self.value,
            "times": self.times,
            **of_batch(self.batch),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Given:
        box = np.array(data["box"], np.int64)
        return cls(data["kind"], box, int(data["value"]), int(data["times"]), batch_of(data))


def of_batch(number: int) -> dict[str, int]:
    """What the ledger says about the batch of something: nothing, if it is the first."""
    return {"batch": number} if number > 1 else {}


def batch_of(data: Mapping[str, Any]) -> int:
    """The number of the batch that something in the ledger is about."""
    return int(data.get("batch", 1))
