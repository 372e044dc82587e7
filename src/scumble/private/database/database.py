"""The statistical database: SQL questions about a private table, ε-DP for all answers together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from scumble.model.errors import ParameterError, PromiseError
from scumble.model.notebook import html_list
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.database import tables
from scumble.private.database.answers import EstimateBuilder
from scumble.private.database.inspect import (
    history,
    own_summary,
    plot_state,
    summary,
    usage,
    used_shares,
)
from scumble.private.database.plan import DEFAULTS, AskOptions
from scumble.private.database.questions.reader import ParsedQuestions, QuestionReader, forecast
from scumble.private.database.recorded import Recorded
from scumble.private.database.results import (
    Answer,
    Cost,
    Event,
    Reading,
    Status,
    Usage,
)
from scumble.private.database.session import Outcome, Request, Session
from scumble.private.database.space import Space
from scumble.private.database.tables import BoxCounter, Progress, SourceTable
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import check_word
from scumble.private.journal.journal import Journal
from scumble.private.ledger.ledger import charged_for_database
from scumble.private.tables.rows import Outside
from scumble.public.asking import Asking
from scumble.public.estimate import Estimate, Estimates

if TYPE_CHECKING:
    from scumble.private.ledger.ledger import Ledger
    from scumble.public.estimate_table import EstimateTable
    from scumble.public.plot.figures import Figure


class Prepared(NamedTuple):
    """A question that was read, and the request that it makes."""

    asked: ParsedQuestions
    request: Request


class Database(Recorded, Asking):
    """`Database.create(folder, source, schema, epsilon=..., noise=...)`, then `ask(sql)`.

    All answers together are ε-DP, also those that other processes get from the same folder. A
    question that would exceed ε is relaxed to one that earlier answers can serve; the estimate says
    which. The table stays where it is. The folder holds the journal.
    """

    def __init__(
        self,
        journal: Journal,
        tables: Mapping[str, BoxCounter],
        seed: int | None = None,
        journal_bytes: int | None = None,
    ) -> None:
        """Call `Database.create` or `Database.open`."""
        promise = journal.promise
        self.terms = DatabaseTerms.from_dict(promise["terms"])
        self.schema = Schema.from_dict(promise["schema"])
        self.space = Space(self.schema, promise["attributes"])
        self.remarks: tuple[str, ...] = ()  # for the owner who created it; they are not stored
        self._journal = journal
        self._session = Session(journal, self.terms, self.space, tables, seed, journal_bytes)
        self._questions = QuestionReader(self.schema, self.space, sized=self.terms.sized)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        source: Any,
        schema: Schema | str | Path,
        *,
        epsilon: float,
        noise: float,
        attributes: Sequence[str] | None = None,
        tracker: str = "auto",
        buckets: int = 100_000,
        relax: int = 3,
        quotas: Mapping[str, float] | None = None,
        table: str | None = None,
        outside: Outside = "error",
        seed: int | None = None,
        ledger: Ledger | str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Create a database over a table, in a new folder.

        `epsilon` is for all answers together. `noise` is the scale of the noise of one count, so
        that at most epsilon · noise / 2 answers can cover one point of the domain. Questions may
        name the `attributes` (all by default). A relaxed answer is made of at most `relax` answers;
        0 turns relaxation off. `quotas` is the part of epsilon that each analyst may use. `seed`
        makes the noise repeatable and the database NOT PRIVATE: for tests. `ledger` is the owner's
        ledger, in which all of epsilon is charged beside other releases of the table. `remarks` of
        the result say whether an identifier repeats; they are for the owner and are not stored.
        """
        terms = DatabaseTerms.read(
            epsilon=epsilon,
            noise=noise,
            tracker=tracker,
            buckets=buckets,
            relax=relax,
            quotas=quotas,
            sized=outside != "drop",
            seeded=seed is not None,
        )
        given = tables.load_schema(schema)
        given.check_unit()
        given.check_limits(attributes)
        known = tables.queryable_schema(given, attributes)
        read = SourceTable(source, table, progress)
        place = tables.check_new(folder, known, terms)
        with charged_for_database(ledger, terms.claim(), known, place, seeded=terms.seeded):
            remarks = read.remarks(given)
            made = tables.create_folder(place, read, known, terms, outside)
        # The folder exists and can be opened: from here on the charge has to stay.
        database = cls._begun(*made, seed)
        database.remarks = remarks
        return database

    @classmethod
    def open(
        cls,
        folder: str | Path,
        source: Any,
        schema: Schema | str | Path | None = None,
        *,
        batches: Sequence[Any] = (),
        table: str | None = None,
        seed: int | None = None,
        journal_bytes: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open a database that was created before. Another table or schema is refused.

        The journal has the schema; a `schema` that is given must be the same. `batches` are all
        rows that were appended, in order: sources, or pairs of a DuckDB file and a table. An
        analyst who has written `journal_bytes` into the journal may write no more; without it there
        is no limit.
        """
        if not isinstance(batches, (list, tuple)):
            allowed = "a list of what was appended, in its order"
            raise ParameterError.of("Database", "batches", allowed, type(batches).__name__)
        expected = None if schema is None else tables.load_schema(schema)
        more = [SourceTable.of(batch, progress) for batch in batches]
        read = SourceTable(source, table, progress)
        found = tables.open_folder(folder, read, more, expected)
        return cls._begun(*found, seed, journal_bytes)

    @classmethod
    def _begun(
        cls,
        journal: Journal,
        tables: Mapping[str, BoxCounter],
        seed: int | None,
        journal_bytes: int | None = None,
    ) -> Self:
        try:
            if journal.promise["terms"]["seeded"] != (seed is not None):
                raise ParameterError(
                    "A fixed seed is for databases that were created with one, and only for these."
                )
            return cls(journal, tables, seed, journal_bytes)
        except BaseException:
            journal.close()
            raise

    def ask(
        self,
        sql: str,
        *,
        tables: Mapping[str, Any] | None = None,
        key: str | None = None,
        options: AskOptions = DEFAULTS,
    ) -> Answer:
        """Answer one question; say what was charged and what remains.

        The answer is charged and durable before it is returned. A SELECT of several numbers is
        answered as a whole or not at all, and gives an `EstimateTable`. `tables` are public side
        tables by name: paths or data frames.

        A question that was answered before gets the same answer again, free of charge. `key` is an
        idempotency key: a request that is tried again with it, also after a crash, gets the stored
        answer. When ε is used up, and earlier answers add up to the box of the question, the answer
        is their combination of least variance; at most 256 of them are considered. Else the
        `options` say what happens.
        """
        with self._reading(sql, tables, options, key) as prepared:
            [found] = self.ask_all([prepared])
        return _raised(found)

    def answer(
        self,
        sql: str,
        *,
        tables: Mapping[str, Any] | None = None,
        key: str | None = None,
        options: AskOptions = DEFAULTS,
    ) -> Estimate | Estimates | EstimateTable:
        """Return the estimate of `ask` alone."""
        return self.ask(sql, tables=tables, key=key, options=options).estimate

    def preview(
        self,
        sql: str,
        *,
        tables: Mapping[str, Any] | None = None,
        options: AskOptions = DEFAULTS,
    ) -> Cost:
        """Return what `ask` would do, and its standard error. Nothing is charged or answered."""
        with self._reading(sql, tables, options) as prepared:
            [found] = self._preview([prepared], after=True)
        return _raised(found)

    def prepare(
        self,
        sql: str,
        *,
        tables: Mapping[str, Any] | None = None,
        key: str | None = None,
        options: AskOptions = DEFAULTS,
    ) -> Prepared | None:
        """Return a question for `ask_all` and `preview_all`, with the parameters of `ask`.

        None is returned for a question of which reading it or making its answer may take long, or
        which has side tables: those that are asked together would wait for it. Ask it by itself.
        """
        asked = None if tables else self._questions.quick(_checked_text(sql))
        return None if asked is None else self._prepared(asked, options, key)

    def ask_all(self, prepared: Sequence[Prepared]) -> list[Answer | Exception]:
        """Answer questions as `ask` does, in one turn; an exception is in the place of its own.

        They are of several analysts: none is refused for another's sake.
        """
        outcomes = self._session.submit([each.request for each in prepared])
        pairs = zip(prepared, outcomes, strict=True)
        return [
            outcome if isinstance(outcome, Exception) else self._answer(each, outcome)
            for each, outcome in pairs
        ]

    def preview_all(self, prepared: Sequence[Prepared]) -> list[Cost | Exception]:
        """Return what `preview` does for each of some questions, or an exception in its place; how
        much is used afterwards is not told.
        """
        return self._preview(prepared, after=False)

    def _preview(self, prepared: Sequence[Prepared], *, after: bool) -> list[Cost | Exception]:
        """Return what questions would cost; with `after`, also how much is used afterwards."""
        requests = [each.request for each in prepared]
        used, outcomes = self._session.preview(requests, after=after)
        limits: dict[str, Any] = {"used": used, "limit": self.terms.limit}
        found: list[Cost | Exception] = []
        for each, outcome in zip(prepared, outcomes, strict=True):
            if isinstance(outcome, PromiseError):
                then = used if after else None
                found.append(Cost("refused", reason=str(outcome), used_after=then, **limits))
            elif isinstance(outcome, Exception):
                found.append(outcome)
            else:
                cost = forecast(each.asked.parts(self._builder(outcome), outcome), outcome)
                then = outcome.used if after else None
                found.append(replace(cost, used_after=then, **limits))
        return found

    def describe_result(
        self, sql: str, *, analyst: str | None = None
    ) -> Estimate | Estimates | EstimateTable:
        """Return an answer with made-up numbers: its columns, groups and types, free of charge.

        Nothing of it depends on the table. A question that would be refused has one too.
        """
        with self._reading(sql, None, AskOptions(analyst=analyst)) as prepared:
            _, [found] = self._session.preview([prepared.request])
            outcome = _raised(found)
            return prepared.asked.present(self._builder(outcome), outcome)

    def append(
        self,
        source: Any,
        *,
        table: str | None = None,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Add rows of people who are not in the database yet, and return the number of their batch.

        Each batch has all of ε, and answers about all batches add up. `key` is an idempotency key:
        rows that are added again with it, also after a crash, are added once.
        """
        check_word("key", key)
        rows = tables.read_batch(self._journal, SourceTable(source, table, progress))
        return self._session.append(rows, key)

    def reading(self) -> Reading:
        """Return how rows are read to be appended: the schema, and what is done with values outside
        their domain.
        """
        promise = self._journal.promise
        return Reading(promise["schema"], promise["outside"])

    def set_quota(self, analyst: str, epsilon: float | None) -> None:
        """Give an analyst a part of epsilon, raise or lower it, or end it (None).

        It is an entry of the journal. What the analyst was charged before counts, and a quota
        cannot be below it. Without a quota an analyst may use what is left of epsilon, or ask
        nothing if the database was created with quotas.
        """
        self._session.set_quota(analyst, epsilon)

    def first_quota(self, analyst: str, share: float) -> None:
        """Give a share of epsilon to an analyst who never had a quota, unless quotas are fixed."""
        self._session.first_quota(analyst, share)

    def usage(self) -> list[Usage]:
        """Return what each analyst asked, was charged and may use, by name."""
        with self._session.state() as state:
            return usage(state)

    @property
    def guarantee(self) -> Guarantee:
        found = self.terms.guarantee()
        return replace(found, limits=(*found.limits, *self.schema.impossible_limits()))

    def status(self, analyst: str | None = None) -> Status:
        """Return how much of the promise is used.

        With `analyst`, questions and quotas are those of one analyst only.
        """
        with self._session.state() as state:
            return summary(state) if analyst is None else own_summary(state, analyst)

    def history(self) -> list[Event]:
        """Return each question and each appended batch, in order."""
        return history(self._journal)

    @property
    def rows(self) -> int | None:
        """The number of rows of all batches, if it is public."""
        return self._session.rows()

    def usage_by_value(self) -> list[tuple[Attribute, list[float]]]:
        """Return, for each attribute, how much of the promise is used at each of its values.

        It is the mean over the points with that value, in the batch where most is used: what is
        left to 1 is free for questions about it and other attributes. A large space has no such
        list.
        """
        with self._session.state() as state:
            return used_shares(state)

    def plot(self, one: str | None = None, other: str | None = None) -> Figure:
        """Return a heat map of how many answers cover each pair of values of two attributes.

        Without attributes, it is the curve of the counts that were answered among those asked for.
        """
        entries = self._journal.entries(after=1)
        with self._session.state() as state:
            return plot_state(state, entries, one, other)

    def close(self) -> None:
        super().close()
        self._questions.close()

    def __repr__(self) -> str:
        return f"Database of {', '.join(self.space.names)}\n  {self.guarantee}"

    def _repr_html_(self) -> str:
        return html_list(f"Database of {', '.join(self.space.names)}", [str(self.guarantee)])

    def _prepared(self, asked: ParsedQuestions, options: AskOptions, key: str | None) -> Prepared:
        """Return a question with its checked parameters."""
        check_word("key", key)
        options = options.checked(self.space.names)
        request = Request(
            asked.text, asked.questions, options, key, asked.tables, grouped=asked.grouped
        )
        return Prepared(asked, request)

    @contextmanager
    def _reading(
        self,
        sql: str,
        tables: Mapping[str, Any] | None,
        options: AskOptions,
        key: str | None = None,
    ) -> Iterator[Prepared]:
        """Read a question with the parameters of `ask`, as long as it is used."""
        given: object = options
        if not isinstance(given, AskOptions):
            raise ParameterError.of("ask", "options", "AskOptions(...)", given)
        with self._questions.reading(_checked_text(sql), tables) as asked:
            yield self._prepared(asked, options, key)

    def _answer(self, prepared: Prepared, outcome: Outcome) -> Answer:
        estimate = prepared.asked.present(self._builder(outcome), outcome)
        return Answer(estimate, outcome.status, outcome.new, outcome.used, self.terms.limit)

    def _builder(self, outcome: Outcome) -> EstimateBuilder:
        return EstimateBuilder(self.space, self.terms.noise, outcome.rows)


Found = TypeVar("Found")


def _checked_text(sql: object) -> str:
    if not isinstance(sql, str):
        raise ParameterError.of("ask", "sql", "the text of a question", sql)
    return sql


def _raised(found: Found | Exception) -> Found:
    """Return what was found; raise it if it is an exception."""
    if isinstance(found, Exception):
        raise found
    return found
