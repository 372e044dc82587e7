"""A comparison: every setting is published several times, and its answers are compared with the
true ones.

The results hold true answers of the private table: they are for its owner only.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from statistics import median
from typing import Any

from scumble.compare.runs import Material, Run, Runner, RunOrReason, RunTask, RunWorkers, try_run
from scumble.compare.settings import Choice
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import QuestionSet
from scumble.model.errors import ParameterError, ScumbleError
from scumble.model.long_work import part
from scumble.model.schema.schema import Schema
from scumble.private.expectation import hopeless
from scumble.private.mechanism import Summary

FORMAT = 3
_MOST = 20_000_000  # answers of all runs together, which are held in memory
# Further processes are started if this many seconds of work are left, estimated after this process
# has worked for that many, and has made some runs, of which one or two load libraries.
_WORTH_PROCESSES, _TIMED_ALONE, _RUNS_ALONE = 30.0, 1.0, 3


@dataclass
class Results:
    """All runs until now; `left_out` holds the settings that are impossible, with the reason."""

    about: dict[str, Any]
    questions: list[str]
    counts: list[bool]  # whether an answer is a count
    truth: list[float]
    runs: list[Run] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # by name

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain data, which are not copied: there may be millions of them."""
        return {**vars(self), "runs": [vars(run) for run in self.runs]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Results:
        if data["about"].get("format") != FORMAT:
            raise ParameterError("It was written by another version of scumble; begin anew.")
        return cls(**{**data, "runs": [Run(**run) for run in data["runs"]]})

    def made(self) -> set[tuple[str, str, int]]:
        """Return which runs are done: method, setting and repeat of each."""
        return {(run.method, run.words, run.repeat) for run in self.runs}

    def refusals(self) -> dict[str, str]:
        """Return the reason for each setting that was left out; for the whole method, if all its
        settings have the same reason.
        """
        found: dict[str, dict[str, list[str]]] = {}
        for name, reason in self.left_out.items():
            found.setdefault(name.partition(", ")[0], {}).setdefault(reason, []).append(name)
        there = {run.method for run in self.runs}
        return {
            name: reason
            for method, reasons in found.items()
            for reason, names in reasons.items()
            for name in ([method] if len(reasons) == 1 and method not in there else names)
        }


class Comparison:
    """A table, a workload, and several settings, each published `repeats` times.

    A fixed seed makes the releases repeatable; they are never given to anybody.
    """

    def __init__(
        self,
        table: TrueTable,
        workload: QuestionSet,
        choices: Sequence[Choice],
        repeats: int,
        *,
        seed: int = 0,
    ) -> None:
        self.table = table
        self.workload = workload
        self.choices = list(choices)
        self.repeats = repeats
        self.runner = Runner(Material.of(table, workload.queries, seed))
        if not len(self.runner.kept):
            raise ParameterError(
                "No question has an answer to compare: no row of the table is in any of them. Ask "
                "others."
            )
        answers = len(self.runner.kept) * len(self.choices) * repeats
        if answers > _MOST:
            raise ParameterError(
                f"That are {answers:,} answers of all releases together; {_MOST:,} can be compared "
                "at once. Ask fewer questions, or take fewer settings or repeats."
            )

    def blank(self, **about: Any) -> Results:
        """Return results without any run; `about` is added to their description."""
        asked, kept = self.runner.asked, self.runner.kept
        facts = {
            "format": FORMAT,
            "questions": len(self.workload),
            "workload": self.workload.name,
            "wanted": self.workload.wanted,
            "rows": self.table.rows,
            "values": self.table.schema.size(a.name for a in self.table.schema.sensitive),
            "table": self._fingerprint(),
        }
        return Results(
            {**facts, **about},
            list(asked.names(kept)),
            [bool(each) for each in asked.counts[kept]],
            self.runner.truth[kept].tolist(),
        )

    def runs(self, results: Results, jobs: int = 1) -> Generator[int, None, None]:
        """Make the runs that `results` does not have yet, with `jobs` processes.

        All settings are run once before any is repeated. The number of finished runs is yielded
        after each. If the caller stops early, `results` holds the finished runs, in an order that
        does not depend on the number of processes.
        """
        every = product(range(self.repeats), self.choices)
        tasks = [RunTask(number, choice, repeat) for number, (repeat, choice) in enumerate(every)]
        there = results.made()
        reasons = (
            (each.name, worthless(each, self.table.schema, self.table.rows))
            for each in self.choices
        )
        results.left_out |= {name: reason for name, reason in reasons if reason}
        results.settings |= {choice.name: _recorded_parameters(choice) for choice in self.choices}
        todo = [t for t in tasks if (t.choice.method, t.choice.words, t.repeat) not in there]
        done = len(tasks) - len(todo)
        try:
            yield done
            for task, found in self._made(todo, done, jobs, results.left_out):
                if isinstance(found, Run):
                    results.runs.append(found)
                else:
                    results.left_out[task.choice.name] = found
                done += 1
                yield done
        finally:
            _sort_runs(results, tasks)

    def _made(
        self, todo: Sequence[RunTask], done: int, jobs: int, left_out: dict[str, str]
    ) -> Iterator[tuple[RunTask, RunOrReason]]:
        """Make runs in this process, and in others once it is known that enough work is left.

        `done` runs were made before. Those of this process tell how far they are.
        """
        tasks = (task for task in todo if task.choice.name not in left_out)
        spent: list[float] = []
        for made, task in enumerate(tasks, 1):
            begin = time.perf_counter()
            with part(done + made - 1, done + len(todo)):
                found = try_run(self.runner, task)
            spent.append(time.perf_counter() - begin)
            yield task, found
            if jobs > 1 and worth_processes(spent, len(todo) - made):
                with RunWorkers(min(jobs, len(todo) - made), self.runner.material) as workers:
                    yield from workers.made(tasks)

    def _fingerprint(self) -> str:
        """Return a digest of what must be the same for a comparison to be continued."""
        texts = "\n".join(query.text for query in self.workload.queries)
        material = self.runner.material
        known = f"{material.schema.dumps()}\n{texts}\n{material.truth.tolist()}\n{material.seed}"
        return sha256(known.encode()).hexdigest()[:16]


def worth_processes(spent: Sequence[float], left: int) -> bool:
    """Return whether `left` runs are worth further processes, given the seconds of earlier runs.

    The time of a run is taken to be the median, as libraries and compiled loops are loaded once.
    """
    alone = sum(spent)
    known = len(spent) >= _RUNS_ALONE or alone >= _WORTH_PROCESSES
    return known and alone >= _TIMED_ALONE and median(spent) * left >= _WORTH_PROCESSES


def _recorded_parameters(choice: Choice) -> dict[str, Any]:
    """Return the parameters of a setting without the questions, which are recorded elsewhere."""
    return {name: value for name, value in choice.parameters.items() if name != "queries"}


def _sort_runs(results: Results, tasks: Sequence[RunTask]) -> None:
    """Put runs in the order of one process, and drop those of settings that were refused once."""
    order = {(t.choice.method, t.choice.words, t.repeat): t.number for t in tasks}
    refused = results.left_out
    kept = [run for run in results.runs if f"{run.method}, {run.words}" not in refused]
    kept.sort(key=lambda run: order.get((run.method, run.words, run.repeat), -1))
    results.runs = kept


# --- worth ----------------------------------------------------------------------------------------
#
# Plans that no owner would choose, which a comparison leaves out without trying them.

_MANY = 10**5  # cells; below, trying costs next to nothing


def worthless(choice: Choice, schema: Schema, rows: int) -> str:
    """Return why a setting is not worth trying on `rows` rows, or an empty text.

    It is not if it measures many cells, and a formula tells that a count of a tenth of the rows may
    be off by more than itself. A setting that is impossible is for the run itself to refuse.
    """
    try:
        mechanism = choice.mechanism
        if not isinstance(mechanism, Summary):
            return ""
        cells = schema.size(choice.parameters.get("attributes", ()))
        if cells <= _MANY:
            return ""
        mechanism.check(schema)
        if mechanism.expected_error(schema, rows) is None:
            return ""
        warning = hopeless(mechanism, schema, rows)
    except ScumbleError:
        return ""
    if not warning:
        return ""
    return (
        f"It would measure {cells:,} cells for {rows:,} rows: a count of a tenth of the rows would "
        "be off by more than itself. Ask about fewer columns, or declare coarser domains."
    )
