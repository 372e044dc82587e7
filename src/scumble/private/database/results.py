"""What a database returns besides estimates: answers with what they cost, forecasts, statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable


@dataclass(frozen=True, repr=False)
class Answer:
    """The estimate that answers a question, what became of the question, and what was charged.

    `status` is "answered", "repeated" (it was answered before, and cost nothing) or "relaxed";
    `charged` is how many new numbers were given out. At most `limit` answers may cover one point,
    and `used` of them cover the most popular one; both are None where answers cost nothing.
    """

    estimate: Estimate | Estimates | EstimateTable
    status: str = "answered"
    charged: int = 0
    used: int | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        charged = "1 new number" if self.charged == 1 else f"{self.charged} new numbers"
        free = "free: a release has been paid for"
        left = (
            f"charged {charged}; {self.remaining} of {self.limit} answers are left where most was"
        )
        return f"{self.estimate!r}\n  {free if self.limit is None else f'{left} asked'}"

    @property
    def remaining(self) -> int | None:
        """How many more answers may cover the most popular point; None if there is no limit."""
        return None if self.used is None or self.limit is None else self.limit - self.used


@dataclass(frozen=True)
class CostPart:
    """What would become of one number of a question, and its largest standard error."""

    status: str
    stderr: float


@dataclass(frozen=True)
class Cost:
    """What would become of a question; nothing was charged.

    `status` is "answered", "repeated", "relaxed" or "refused", the last with its `reason`.
    `charged` is the number of new numbers of all `parts` of the question, which a SELECT of several
    numbers has by name. `stderr` is the largest standard error; that of an average depends on its
    value, and is the one for evenly spread rows. A relaxed answer is about the condition `answered`
    at the relaxation error `distance`. `unanswered` is how many numbers will have no answer,
    because the promise is used up for them. `used` of `limit` answers cover the most popular point,
    and `used_after` the question; of the latter, a bound where a histogram tracks the points, and
    None where it was not asked for. Without a `limit` the question is free.
    """

    status: str
    charged: int = 0
    stderr: float = 0.0
    distance: float = 0.0
    answered: str = ""
    reason: str = ""
    unanswered: int = 0
    parts: Mapping[str, CostPart] = field(default_factory=dict)
    used: int | None = None
    used_after: int | None = None
    limit: int | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cost:
        """Return what a server told; limits that JSON cannot say are null there."""
        parts = {name: CostPart(**each) for name, each in data["parts"].items()}
        stderr = math.inf if data["stderr"] is None else data["stderr"]
        return cls(**{**data, "parts": parts, "stderr": stderr})


@dataclass(frozen=True)
class Quota:
    """The part of ε of an analyst, and how many answers of it may cover one point."""

    epsilon: float
    limit: int


@dataclass(frozen=True)
class Status:
    """How much of the promise of a database is used.

    At most `limit` answers may cover one point, and `used` of them cover the most popular one:
    `share_used` of the promise. `answered`, `repeated` and `relaxed` count the entries of the
    journal by status, as `history` lists them, and `numbers` what was given out. A repeated answer
    is an entry only if it was asked with a key. `used_in_batches` is `used` for each batch of rows.
    `analysts` is how much of their `quotas` those who have one used.
    """

    epsilon: float
    noise: float
    limit: int
    used: int
    share_used: float
    answered: int
    repeated: int
    relaxed: int
    numbers: int
    points: int
    tracker: str
    batches: int
    used_in_batches: tuple[int, ...]
    analysts: Mapping[str, int]
    quotas: Mapping[str, Quota]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Status:
        """Return what a server told."""
        quotas = {name: Quota(**each) for name, each in data["quotas"].items()}
        return cls(**{**data, "quotas": quotas, "used_in_batches": tuple(data["used_in_batches"])})


@dataclass(frozen=True)
class Usage:
    """What an analyst asked and was charged, with the quota if there is one.

    `used` is how many answers cover the point with most of those charged to the analyst, and
    `limit` how many may; like `epsilon`, they are None without a quota.
    """

    analyst: str | None
    answered: int
    repeated: int
    relaxed: int
    numbers: int
    epsilon: float | None = None
    used: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Event:
    """An entry of the journal: a question, or a batch of added rows, which has its number."""

    number: int
    time: str
    analyst: str | None
    key: str | None
    status: str
    sql: str
    charged: int
    batch: int | None = None


@dataclass(frozen=True)
class ChainEntry:
    """What an auditor sees of an entry: its place in the chain, no question and no answer."""

    number: int
    time: str
    kind: str
    analyst: str | None
    previous: str
    hash: str


@dataclass(frozen=True)
class Reading:
    """How rows are read to be appended, as JSON values for another process."""

    schema: dict[str, Any]
    outside: str
