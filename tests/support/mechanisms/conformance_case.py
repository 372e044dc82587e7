"""A case of the conformance tests: a mechanism, and what it must refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

import scumble as sc
from scumble.private.mechanism import Mechanism, constructor_parameters
from scumble.private.mechanism_metadata import ComparisonPreset
from tests.support.people import JOBS, people, schema

TABLES = {"empty": 0, "one row": 1, "skewed": 500, "ordinary": 400}  # and how many rows


@dataclass(frozen=True)
class Case:
    """A mechanism, how to make it, and parameters that it must refuse with their names in the
    sentence; and tables to which it cannot keep its promise, which it must refuse. `ages` is the
    size of the domain of one attribute, for mechanisms that need a large one; `jobs` is that of
    another, for those that need small ones. `columns` are those that it publishes. `random` says
    that two releases of one table differ.
    """

    make: Callable[[], Mechanism]
    refused: tuple[tuple[dict, str], ...]
    unserved: tuple[str, ...] = ()
    ages: int = 10
    jobs: tuple[str, ...] = JOBS
    columns: tuple[str, ...] = ("age", "sex", "job")
    random: bool = True

    def asked(self, *questions: str) -> list[str]:
        """The questions about columns that it publishes."""
        hidden = {"age", "sex", "job"} - set(self.columns)
        return [each for each in questions if not any(name in each for name in hidden)]

    @property
    def schema(self) -> sc.Schema:
        return schema(ages=self.ages, jobs=self.jobs)

    def table(self, kind: str) -> pa.Table:
        if kind == "skewed":
            age = min(3, self.ages - 1)
            return pa.table({"age": [age] * 500, "sex": ["f"] * 500, "job": ["cook"] * 500})
        return people(TABLES[kind], self.schema)

    def publish(self, kind: str = "ordinary", seed: int | None = 1) -> sc.Release:
        return sc.publish(
            self.table(kind), self.schema, self.make(), options=sc.PublishOptions(seed=seed)
        )

    def release(self, kind: str = "ordinary") -> sc.Release:
        """The release of a table with seed 1, published once and shared by all tests."""
        if (id(self), kind) not in _RELEASES:
            _RELEASES[id(self), kind] = self.publish(kind)
        return _RELEASES[id(self), kind]


_RELEASES: dict[tuple[int, str], sc.Release] = {}  # by case and kind of table


def default_case(kind: type[Mechanism]) -> Case:
    """The case of a mechanism of which nothing is known but what its class says."""
    known = schema()
    questions = ("SELECT age, sex, job, COUNT(*) FROM t GROUP BY age, sex, job",)
    study = ComparisonPreset(known, tuple(known.names), "replace", 2, questions, lambda: 0.4)
    named = {each.name for each in constructor_parameters(kind)}
    refused = ({"epsilon": 0}, "must be a number above 0 and at most 100. Got 0 instead")
    return Case(lambda: kind.made_for(1, study), (refused,) if "epsilon" in named else ())
