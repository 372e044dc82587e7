"""The data sets of a server: databases, live databases and releases behind the same verbs.

Analysts see what concerns them: the schema, guarantees, limits, their own questions. What is here
is called from several threads at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from scumble.audit import report, subjects
from scumble.model.errors import ParameterError, ScumbleError
from scumble.model.long_work import tell
from scumble.model.privacy.guarantee import Guarantees
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.database.database import Database, Prepared
from scumble.private.database.live.database import LiveDatabase
from scumble.private.database.live.results import LiveAnswer, LiveCost, LiveStatus, LiveUsage
from scumble.private.database.plan import AskOptions, Prefer, Relax
from scumble.private.database.results import Answer, Cost, Event, Status, Usage
from scumble.private.database.tables import CodedRows
from scumble.private.journal.journal import is_live
from scumble.private.tables.open import expected_rows
from scumble.public.archive.archive import MANIFEST
from scumble.public.archive.load import load
from scumble.public.release import Release
from scumble.server.answer_json import AnyEstimate
from scumble.server.config import DatasetSettings
from scumble.server.problems import Problem

REPEATS = (
    "Repeats are free, cost is told before asking, and what is left of the promise is shown: so an "
    "analyst can see that somebody asked the same, or near it, before."
)
LEARNS = (
    "Answers, costs and what is left of the promise depend on everything that was bought: so an "
    "analyst can see that somebody asked for accuracy here before."
)
_FIXED_QUOTAS = (
    "Quotas of a live database are given when it is created (quotas=...), and stay. They ration "
    "what analysts buy; the promise to the people holds without them."
)
_NO_JOURNAL = "A release has no journal: its answers cost nothing, and nobody counts them."
_LONGEST_KEY = 120
CODED = ".codes"  # the ending of files of rows of databases that were made here
Found = TypeVar("Found")


@dataclass(frozen=True)
class AskedQuestion:
    """A question of an analyst, with the options of `Database.ask` or of `LiveDatabase.ask`."""

    sql: str
    analyst: str
    key: str | None = None
    within: float | str | None = None
    level: float = 0.95
    relax: Relax = "regression"
    prefer: Prefer | None = None
    max_relaxation_error: float = math.inf

    def options(self) -> AskOptions:
        """Return the options of `Database.ask`."""
        return AskOptions(
            analyst=self.analyst,
            relax=self.relax,
            prefer=self.prefer,
            max_relaxation_error=self.max_relaxation_error,
        )

    def check_key(self) -> None:
        """Raise `Problem` 422 for a key that is too long."""
        if self.key is not None and len(self.key) > _LONGEST_KEY:
            raise Problem(422, f"The key must have at most {_LONGEST_KEY} characters.")

    @property
    def own_key(self) -> str | None:
        """The idempotency key in the journal: two analysts never share one."""
        return None if self.key is None else f"{len(self.analyst)}:{self.analyst}:{self.key}"


class Dataset(ABC):
    """One data set: what it is, and the verbs that it answers to."""

    kind: str
    takes: tuple[str, ...] = ("relax", "prefer", "max_relaxation_error")  # ways to ask
    name: str
    title: str
    description: str = ""
    made: str = ""  # the day on which it was made, if that is known
    schema: Schema

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """The number of rows, where it is public."""

    @property
    @abstractmethod
    def guarantees(self) -> Guarantees: ...

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The attributes that questions may name."""

    @property
    def sums_alone(self) -> tuple[str, ...]:
        """Those of them that only sums and averages are of."""
        return ()

    @abstractmethod
    def answer(self, question: AskedQuestion) -> Answer | LiveAnswer: ...

    def answer_all(
        self, questions: Sequence[AskedQuestion]
    ) -> Sequence[Answer | LiveAnswer | Exception | None]:
        """Answer several questions at once; an exception is in the place of its own question.

        None is in the place of a question that may take long: it is to be asked by itself.
        """
        return [None] * len(questions)

    def cost_all(
        self, questions: Sequence[AskedQuestion]
    ) -> Sequence[Cost | LiveCost | Exception | None]:
        """Return what several questions would cost, as `answer_all` answers them."""
        return [None] * len(questions)

    @abstractmethod
    def describe_result(self, question: AskedQuestion) -> AnyEstimate:
        """Return an answer of which only the columns and their types count; free of charge."""

    @abstractmethod
    def cost(self, question: AskedQuestion) -> Cost | LiveCost: ...

    @abstractmethod
    def status(self, analyst: str | None) -> Status | LiveStatus | None:
        """Return what is used and remains; of questions and quotas the analyst's or all (None).

        A release, whose answers are free, has none.
        """

    @abstractmethod
    def history(self, analyst: str | None) -> list[Event]:
        """Return the questions of an analyst, or all of them (None), in order."""

    @abstractmethod
    def chain(self, after: int) -> dict[str, Any]:
        """Return seal and entries of the journal, without questions and answers."""

    @abstractmethod
    def verify(self, seal: str | None) -> list[str]: ...

    @abstractmethod
    def certificate(self) -> str:
        """Return what is promised, and what an audit finds about it, as one HTML page."""

    def usage(self) -> Sequence[Usage | LiveUsage]:
        """Return what each analyst asked, was charged and may use."""
        raise Problem(409, _NO_JOURNAL)

    def usage_by_value(self) -> list[tuple[Attribute, list[float]]]:
        """Return how much of the promise is used at each value of each attribute."""
        return []

    def set_quota(self, analyst: str, epsilon: float | None) -> None:
        """Give an analyst a part of ε, change it, or end it (None)."""
        raise Problem(409, _NO_JOURNAL)

    def first_quota(self, analyst: str, share: float) -> None:
        """Give an analyst who never had a quota a share of ε; only databases have some to give."""
        return

    @abstractmethod
    def close(self) -> None:
        """Release the files of the data set."""

    def describe(self) -> dict[str, Any]:
        """Return schema, guarantees and limits as JSON values."""
        limits = dict.fromkeys(limit for each in self.guarantees for limit in each.limits)
        seen = {"database": [REPEATS], "live": [LEARNS]}.get(self.kind, [])
        return {
            **self.summary(),
            "schema": self.schema.select(self.columns).to_dict(),
            "protected": None if self.schema.unit is None else self.schema.unit.describe(),
            "guarantees": [str(each) for each in self.guarantees],
            "limits": [*limits, *seen],
        }

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "made": self.made,
            "rows": self.rows,
            "kind": self.kind,
            "columns": list(self.columns),
            "promise": str(next(iter(self.guarantees))),
        }


def _together(
    questions: Sequence[AskedQuestion],
    prepare: Callable[[AskedQuestion], Prepared | None],
    ask: Callable[[Sequence[Prepared]], Sequence[Found | Exception]],
) -> list[Found | Exception | None]:
    """Ask all questions that can be prepared at once; return what is in the place of each."""
    found: list[Found | Exception | None] = [None] * len(questions)
    prepared: dict[int, Prepared] = {}
    for place, question in enumerate(questions):
        try:
            ready = prepare(question)
        except (ScumbleError, Problem) as error:
            found[place] = error
        else:
            if ready is not None:
                prepared[place] = ready
    if prepared:
        for place, each in zip(prepared, ask(list(prepared.values())), strict=True):
            found[place] = each
    return found


class RecordedDataset(Dataset):
    """A database of any kind: what it did is in its journal."""

    database: Database | LiveDatabase

    def __init__(
        self, name: str, title: str, folder: Path | str, database: Database | LiveDatabase
    ) -> None:
        self.name, self.title, self.folder = name, title, folder
        self.database = database
        self.schema = database.schema
        self.made = database.created[:10]

    @property
    def rows(self) -> int | None:
        return self.database.rows

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees([self.database.guarantee])

    def status(self, analyst: str | None) -> Status | LiveStatus:
        return self.database.status(analyst)

    def history(self, analyst: str | None) -> list[Event]:
        events = self.database.history()
        return [each for each in events if analyst is None or each.analyst == analyst]

    def usage(self) -> Sequence[Usage | LiveUsage]:
        return self.database.usage()

    def usage_by_value(self) -> list[tuple[Attribute, list[float]]]:
        return self.database.usage_by_value()

    def chain(self, after: int) -> dict[str, Any]:
        return {
            "seal": self.database.seal,
            "entries": [asdict(each) for each in self.database.chain(after)],
        }

    def verify(self, seal: str | None) -> list[str]:
        return self.database.verify(seal)

    def certificate(self) -> str:
        return _page(subjects.of_database(self.folder), self.title)

    def close(self) -> None:
        self.database.close()


class DatabaseDataset(RecordedDataset):
    """A statistical database. Every answer is charged, and durable before it is given."""

    kind = "database"
    database: Database

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.database.space.names)

    def answer(self, question: AskedQuestion) -> Answer:
        question.check_key()
        return self.database.ask(question.sql, key=question.own_key, options=question.options())

    def answer_all(self, questions: Sequence[AskedQuestion]) -> list[Answer | Exception | None]:
        return _together(questions, self._prepared, self.database.ask_all)

    def cost_all(self, questions: Sequence[AskedQuestion]) -> list[Cost | Exception | None]:
        return _together(questions, self._prepared, self.database.preview_all)

    def _prepared(self, question: AskedQuestion) -> Prepared | None:
        question.check_key()
        return self.database.prepare(question.sql, key=question.own_key, options=question.options())

    def describe_result(self, question: AskedQuestion) -> AnyEstimate:
        return self.database.describe_result(question.sql, analyst=question.analyst)

    def cost(self, question: AskedQuestion) -> Cost:
        return self.database.preview(question.sql, options=question.options())

    def set_quota(self, analyst: str, epsilon: float | None) -> None:
        self.database.set_quota(analyst, epsilon)

    def first_quota(self, analyst: str, share: float) -> None:
        self.database.first_quota(analyst, share)


class LiveDataset(RecordedDataset):
    """A live database: a question without an accuracy is free, and writes nothing."""

    kind = "live"
    takes = ("within",)
    database: LiveDatabase

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.database.space.names, *self.sums_alone)

    @property
    def sums_alone(self) -> tuple[str, ...]:
        return self.database.sums_alone

    def answer(self, question: AskedQuestion) -> LiveAnswer:
        question.check_key()
        return self.database.ask(question.sql, key=question.own_key, **self._how(question))

    def describe_result(self, question: AskedQuestion) -> AnyEstimate:
        return self.database.answer(question.sql)

    def cost(self, question: AskedQuestion) -> LiveCost:
        return self.database.preview(question.sql, **self._how(question))

    def _how(self, question: AskedQuestion) -> dict[str, Any]:
        return {"within": question.within, "level": question.level, "analyst": question.analyst}

    def set_quota(self, analyst: str, epsilon: float | None) -> None:
        raise Problem(409, _FIXED_QUOTAS)


class ReleaseDataset(Dataset):
    """A release: its answers cost nothing, since all of it is public to those who may ask."""

    kind = "release"

    def __init__(self, name: str, title: str, folder: Path | str, release: Release) -> None:
        self.name, self.title, self.folder = name, title, folder
        self.release = release
        self.schema = release.schema
        if isinstance(folder, Path):
            changed = datetime.fromtimestamp((folder / MANIFEST).stat().st_mtime, UTC)
            self.made = f"{changed:%Y-%m-%d}"

    @property
    def rows(self) -> int | None:
        return self.release.evidence.rows

    @property
    def guarantees(self) -> Guarantees:
        return self.release.guarantees

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.release.evidence.columns, *self.sums_alone)

    @property
    def sums_alone(self) -> tuple[str, ...]:
        return self.release.evidence.sums_alone

    def answer(self, question: AskedQuestion) -> Answer:
        return Answer(self.release.ask(question.sql))

    def describe_result(self, question: AskedQuestion) -> AnyEstimate:
        return self.release.ask(question.sql)

    def cost(self, question: AskedQuestion) -> Cost:
        self.release.parse(question.sql)
        return Cost("answered")

    def status(self, analyst: str | None) -> Status | None:
        return None

    def history(self, analyst: str | None) -> list[Event]:
        return []

    def chain(self, after: int) -> dict[str, Any]:
        raise Problem(409, _NO_JOURNAL)

    def verify(self, seal: str | None) -> list[str]:
        raise Problem(409, _NO_JOURNAL)

    def certificate(self) -> str:
        return _page(subjects.of_release(self.folder), self.title)

    def close(self) -> None:
        """A release closes its files when nobody uses it any more."""


class Catalogue:
    """The data sets of a server, by name."""

    def __init__(self) -> None:
        self._found: dict[str, Dataset] = {}

    def add(self, dataset: Dataset) -> None:
        if dataset.name in self._found:
            raise Problem(409, f"There is a data set {dataset.name!r} already.")
        self._found[dataset.name] = dataset

    def remove(self, name: str) -> None:
        """Stop serving a data set; its files stay."""
        found = self._found.pop(name, None)
        if found is not None:  # another owner may have been faster
            found.close()

    def get(self, name: str) -> Dataset | None:
        return self._found.get(name)

    def __iter__(self) -> Iterator[Dataset]:
        return iter(list(self._found.values()))

    def close(self) -> None:
        for name in list(self._found):
            self.remove(name)


def _page(audited: report.Report, title: str) -> str:
    """Return the certificate of a data set, under the title that people know."""
    about = None if audited.about is None else replace(audited.about, table=title)
    return report.page(audited, about=about)


def _source(text: str) -> str | CodedRows:
    """Return a source, or the rows that the server keeps of one."""
    return CodedRows(Path(text)) if text.endswith(CODED) else text


def open_dataset(settings: DatasetSettings, journal: int | None = None) -> Dataset:
    """Open the release or the database that a configuration names; tell how much of it is read.

    `journal` is how many bytes one analyst may write into the journal of a database.
    """
    title = settings.title or settings.name
    if settings.release is not None:
        release = ReleaseDataset(settings.name, title, settings.release, load(settings.release))
        release.description = settings.description
        return release
    if settings.database is None or settings.source is None:
        raise ScumbleError(f"The data set {settings.name} has neither a release nor a database.")
    source = _source(settings.source)
    rows = None if isinstance(source, CodedRows) else expected_rows(source, settings.table)
    how: dict[str, Any] = {
        "table": settings.table,
        "journal_bytes": journal,
        "progress": lambda done: tell(done, max(rows, done)) if rows else None,
    }
    found: Dataset
    if is_live(settings.database):
        if settings.batches:
            raise ParameterError(
                f"The data set {settings.name} is a live database, to which no rows can be added: "
                "leave batches out."
            )
        live = LiveDatabase.open(settings.database, source, **how)
        found = LiveDataset(settings.name, title, settings.database, live)
    else:
        batches = [each if isinstance(each, tuple) else _source(each) for each in settings.batches]
        database = Database.open(settings.database, source, batches=batches, **how)
        found = DatabaseDataset(settings.name, title, settings.database, database)
    found.description = settings.description
    return found
