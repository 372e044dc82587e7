"""QuestionReader: SQL text to what is asked of a database, from any thread."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from scumble.model.cache import Cache
from scumble.model.errors import LedgerError
from scumble.model.query import ParsedQuestion
from scumble.model.schema.schema import Schema
from scumble.private.database.answers import DatabaseEstimate, EstimateBuilder
from scumble.private.database.questions.amounts import Amounts
from scumble.private.database.questions.compiler import FEW_BOXES, Compiler
from scumble.private.database.questions.question import Question
from scumble.private.database.session import Outcome
from scumble.private.database.space import Space
from scumble.public.estimate import Estimate, Estimates
from scumble.public.plain_questions import plain_parsed

if TYPE_CHECKING:
    from scumble.public.estimate_table import EstimateTable
    from scumble.public.sandbox import Sandbox
    from scumble.public.sql.select_plan import SelectPlan
    from scumble.public.sql.templates import TemplateParser

_MOST_CACHED = 256  # questions, and expressions that are added up


class Asked(Protocol):
    """What a SQL text asks: the questions that are answered together or not at all."""

    @property
    def text(self) -> str: ...

    @property
    def questions(self) -> Sequence[Question]: ...

    @property
    def tables(self) -> str: ...

    def present(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> Estimate | Estimates | EstimateTable:
        """Return the answer, given the outcome of the questions."""
        ...

    def parts(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> Mapping[str, Sequence[DatabaseEstimate]]:
        """Return the estimates of all groups, by the name of the selected number."""
        ...


@dataclass(frozen=True)
class PlainQuestion:
    """One COUNT, SUM or AVG by attributes. `tables` is a digest of the side tables it reads."""

    question: Question
    tables: str = ""

    @property
    def text(self) -> str:
        return self.question.query.text

    @property
    def questions(self) -> tuple[Question]:
        return (self.question,)

    @property
    def small(self) -> bool:
        """Whether it asks for one number about few boxes."""
        groups = self.question.groups
        return not self.question.query.groups and len(groups[0].boxes) <= FEW_BOXES

    def present(self, builder: EstimateBuilder, outcome: Outcome) -> Estimate | Estimates:
        return builder.read(self.question, outcome.groups, outcome.numbers)

    def parts(
        self, builder: EstimateBuilder, outcome: Outcome
    ) -> dict[str, list[DatabaseEstimate]]:
        pieces = [group["pieces"] for group in outcome.groups]
        return {"": [builder.estimate(self.question, each, outcome.numbers) for each in pieces]}


class QuestionReader:
    """Reads SQL as boxes and amounts, from any thread; results are cached.

    The parser and the engine are opened for the first question that needs them. Plain comparisons
    do not.
    """

    def __init__(self, schema: Schema, space: Space) -> None:
        self.schema, self.space = schema, space
        self._lock = threading.Lock()
        self._engine: Sandbox | None = None
        self._closed = False
        self._parser: TemplateParser | None = None
        self._compiler = Compiler(schema, space, self._opened, Cache[str, Amounts](_MOST_CACHED))
        self._read_before = Cache[str, Asked](_MOST_CACHED)

    @contextmanager
    def reading(self, sql: str, tables: Mapping[str, Any] | None) -> Iterator[Asked]:
        """What a text asks, with public side tables; raises `QueryError` if it cannot be asked."""
        if self._closed:
            raise _closed()
        if not tables:
            yield self._read_before.get_or_make(sql, 1, lambda: self._read(sql))
            return
        from scumble.public.sandbox import Sandbox

        engine = Sandbox(self.schema, tables)
        try:
            yield self._read_with(sql, engine)
        finally:
            engine.close()

    def quick(self, sql: str) -> Asked | None:
        """Return what a text asks if neither reading nor answering it can take long, else None.

        It is one number about few boxes: one that was read before, or a plain count.
        """
        if self._closed:
            raise _closed()
        found = self._read_before.get(sql)
        if found is not None:
            return found if isinstance(found, PlainQuestion) and found.small else None
        parsed = plain_parsed(sql, self.schema)
        question = None if parsed is None else self._compiler.plain_count(parsed)
        if question is None:
            return None
        self._read_before.put(sql, asked := PlainQuestion(question), 1)
        return asked

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _read(self, sql: str) -> Asked:
        parsed = plain_parsed(sql, self.schema) or self._parsed(sql)
        if isinstance(parsed, ParsedQuestion):
            return PlainQuestion(self._compiler.question(parsed.query, parsed.comparisons))
        from scumble.private.database.questions.select import SelectQuestion

        return SelectQuestion(parsed, self._compiler, self._opened())

    def _read_with(self, sql: str, engine: Sandbox) -> Asked:
        """Read a question that may look up side tables."""
        from scumble.private.database.questions.select import SelectQuestion
        from scumble.public.sql.parse import read_select_with
        from scumble.public.sql.select_plan import SelectPlan

        parsed = read_select_with(sql, self.schema, engine)
        compiler = Compiler(self.schema, self.space, lambda: engine, self._compiler.sums)
        digest = (
            _digest(engine) if any("SELECT" in e.sql.upper() for e in parsed.expressions) else ""
        )
        if isinstance(parsed, SelectPlan):
            return SelectQuestion(parsed, compiler, engine, digest)
        return PlainQuestion(compiler.question(parsed), digest)

    def _parsed(self, sql: str) -> ParsedQuestion | SelectPlan:
        from scumble.public.sql.templates import TemplateParser

        with self._lock:
            if self._parser is None:
                self._parser = TemplateParser(self.schema)
            parser = self._parser
        return parser.read(sql)

    def _opened(self) -> Sandbox:
        from scumble.public.sandbox import Sandbox

        with self._lock:
            if self._closed:
                raise _closed()
            if self._engine is None:
                self._engine = Sandbox(self.schema)
            return self._engine


def _digest(engine: Sandbox) -> str:
    """Return a digest of the side tables, of which the meaning of a question depends."""
    digest = hashlib.blake2b(digest_size=16)
    for name, columns in sorted(engine.columns.items()):
        table = engine.rows('FROM "' + name.replace('"', '""') + '"')
        digest.update(repr((name.lower(), columns, str(table.schema), table.to_pydict())).encode())
    return digest.hexdigest()


def _closed() -> LedgerError:
    return LedgerError("This database was closed. Open it again.")


def forecast(parts: Mapping[str, Sequence[DatabaseEstimate]], outcome: Outcome) -> dict[str, Any]:
    """Return what a question costs, given the estimates of its parts for made-up numbers."""
    found = [each for part in parts.values() for each in part]
    answer = {
        "status": outcome.status,
        "new numbers": outcome.new,
        "stderr": max((each.stderr for each in found), default=0.0),
        "distance": max((each.distance for each in found), default=0.0),
        "answered": found[0].answered if len(found) == 1 else "",
    }
    if "" in parts:
        return answer
    return {**answer, "parts": {name: _part(part) for name, part in parts.items()}}


def _part(estimates: Sequence[DatabaseEstimate]) -> dict[str, Any]:
    statuses = {each.status for each in estimates}
    order = ("relaxed", "answered", "repeated")
    return {
        "status": next((status for status in order if status in statuses), "answered"),
        "stderr": max((each.stderr for each in estimates), default=0.0),
    }
