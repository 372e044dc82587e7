"""The statistical database: a private table behind one verb, `answer`, and one promise for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scumble.model.errors import ParameterError, PromiseError
from scumble.model.privacy.guarantee import Guarantee
from scumble.model.schema.schema import Schema
from scumble.private.database import tables
from scumble.private.database.answers import DatabaseEstimate, EstimateBuilder
from scumble.private.database.inspect import events, summary, verify_journal
from scumble.private.database.plan import AnswerOptions, Prefer, Relax
from scumble.private.database.question import Question, QuestionReader
from scumble.private.database.session import Outcome, Request, Session
from scumble.private.database.space import Space
from scumble.private.database.tables import BoxCounter, Progress, SourceTable
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import check_word
from scumble.private.journal.journal import Journal
from scumble.private.ledger.ledger import Ledger, charged_for_database
from scumble.private.tables.rows import Outside
from scumble.public.estimate import Estimates

if TYPE_CHECKING:
    from scumble.public.plot.figures import Figure


class Database:
    """`Database.create(folder, source, schema, epsilon=..., noise=...)`, then `answer(sql)`.

    All answers together keep ε-DP, now and later, also from other processes on the same folder.
    When a question would break the promise, the database relaxes it to one that earlier answers can
    serve, and says which. The table stays where it is; the folder holds the ledger.
    """

    def __init__(
        self, journal: Journal, tables: Mapping[str, BoxCounter], seed: int | None = None
    ) -> None:
        """Call `Database.create` or `Database.open`."""
        promise = journal.promise
        self.terms = DatabaseTerms.from_dict(promise["terms"])
        self.schema = Schema.from_dict(promise["schema"])
        self.space = Space(self.schema, promise["attributes"])
        self._journal = journal
        self._session = Session(journal, self.terms, self.space, tables, seed)
        self._questions = QuestionReader(self.schema, self.space)

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
        """A new database over a table: a folder with its ledger.

        `epsilon` is for all answers together, `noise` the mean size of the noise of one count, so
        that no point of the domain can be covered by more than epsilon · noise / 2 answers.
        `attributes` (all by default) can be asked about. `relax` is how many answers a relaxed one
        may be made of, 0 for none. `quotas` give analysts a part of epsilon each. `seed` makes the
        noise repeatable and the database NOT PRIVATE: for tests. `ledger` is the owner's, in which
        the whole of epsilon is charged beside other releases of the table.
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
        known = tables.queryable_schema(tables.load_schema(schema), attributes)
        read = SourceTable(source, table, progress)
        with charged_for_database(ledger, terms.claim(), known, seeded=terms.seeded):
            made = tables.create_folder(folder, read, known, terms, outside)
        # There is a folder, which can be opened: from here on it has to stay paid for.
        return cls._begun(*made, seed)

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
        progress: Progress | None = None,
    ) -> Self:
        """A database that was created before; another table or schema is refused.

        The ledger knows the schema; it is compared with the one that is given. `batches` are all
        rows that were appended, in their order: sources, or pairs of a DuckDB file and a table.
        """
        if not isinstance(batches, (list, tuple)):
            allowed = "a list of what was appended, in its order"
            raise ParameterError.of("Database", "batches", allowed, type(batches).__name__)
        expected = None if schema is None else tables.load_schema(schema)
        more = [SourceTable.of(batch, progress) for batch in batches]
        read = SourceTable(source, table, progress)
        return cls._begun(*tables.open_folder(folder, read, more, expected), seed)

    @classmethod
    def _begun(cls, journal: Journal, tables: Mapping[str, BoxCounter], seed: int | None) -> Self:
        try:
            if journal.promise["terms"]["seeded"] != (seed is not None):
                raise ParameterError(
                    "A fixed seed is for databases that were created with one, and only for these."
                )
            return cls(journal, tables, seed)
        except BaseException:
            journal.close()
            raise

    def answer(
        self,
        sql: str,
        *,
        key: str | None = None,
        analyst: str | None = None,
        relax: Relax = "regression",
        prefer: Prefer = "near",
        max_relaxation_error: float = math.inf,
        weights: Mapping[str, float] | None = None,
    ) -> DatabaseEstimate | Estimates:
        """The answer to one question, paid for and durable before it leaves.

        A question that was answered before gets the same answer again, free of charge. `key` is an
        idempotency key: a request that is tried again with it, also after a crash, gets the stored
        answer. `relax` says what happens when the promise is used up: the best combination of
        earlier answers, the paper's compound of a few, or a refusal. `prefer="exact"` takes the
        box itself, where earlier answers add up to it, even if a box nearby has a smaller error.
        `weights` say how much it matters that an attribute's limits move (1 by default).
        """
        check_word("key", key)
        check_word("analyst", analyst)
        options = AnswerOptions.read(relax, prefer, max_relaxation_error, weights, self.space.names)
        question = self._read_question(sql)
        outcome = self._session.submit(Request(question, options, key, analyst))
        return self._builder(outcome).read(question, outcome.groups, outcome.numbers)

    def cost(
        self,
        sql: str,
        *,
        analyst: str | None = None,
        relax: Relax = "regression",
        prefer: Prefer = "near",
        max_relaxation_error: float = math.inf,
        weights: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        """What would become of a question, and its standard error; nothing is charged or answered.

        `status` is "answered", "repeated", "relaxed" or "refused", the last with its `reason`. The
        error of an average depends on its value; it is told for evenly spread rows.
        """
        options = AnswerOptions.read(relax, prefer, max_relaxation_error, weights, self.space.names)
        question = self._read_question(sql)
        try:
            outcome = self._session.preview(Request(question, options, analyst=analyst))
        except PromiseError as refusal:
            return {"status": "refused", "reason": str(refusal), "new numbers": 0}
        pieces = [group["pieces"] for group in outcome.groups]
        builder = self._builder(outcome)
        found = [builder.estimate(question, each, outcome.numbers) for each in pieces]
        return {
            "status": outcome.status,
            "new numbers": outcome.new,
            "stderr": max((each.stderr for each in found), default=0.0),
            "distance": max((each.distance for each in found), default=0.0),
            "answered": found[0].answered if len(found) == 1 else "",
        }

    def append(
        self,
        source: Any,
        *,
        table: str | None = None,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Add rows of people who are not in the database yet; the number of the batch they are.

        Each batch has the whole promise, and answers about all batches add up. `key` is an
        idempotency key: rows that are added again with it, also after a crash, are added once.
        """
        check_word("key", key)
        rows = tables.read_batch(self._journal, SourceTable(source, table, progress))
        return self._session.append(rows, key)

    @property
    def guarantee(self) -> Guarantee:
        return self.terms.guarantee()

    def status(self) -> dict[str, Any]:
        """The promise, how much of it is used at the most asked-about point, and what was done."""
        with self._session.state() as state:
            return summary(state)

    def history(self) -> list[dict[str, Any]]:
        """Everything that the ledger says about questions and added rows, in their order."""
        return events(self._journal.entries(after=1))

    def verify(self, seal: str | None = None) -> list[str]:
        """What is wrong with the ledger, in sentences; none if it is whole."""
        return verify_journal(self._journal, seal)

    def plot(self, one: str | None = None, other: str | None = None) -> Figure:
        """How often each pair of values of two attributes is covered by answers, as a heat map; or,
        without attributes, how many counts were answered of those asked for.
        """
        from scumble.private.database.inspect import plot_state

        entries = self._journal.entries(after=1)
        with self._session.state() as state:
            return plot_state(state, entries, one, other)

    def close(self) -> None:
        self._journal.close()
        self._questions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database of {', '.join(self.space.names)}\n  {self.guarantee}"

    def _builder(self, outcome: Outcome) -> EstimateBuilder:
        return EstimateBuilder(self.space, self.terms.noise, outcome.rows)

    def _read_question(self, sql: str) -> Question:
        if not isinstance(sql, str):
            raise ParameterError.of("answer", "sql", "the text of a question", sql)
        return self._questions.of(sql)
