"""One connection of the PostgreSQL wire: login, questions, and their results."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from scumble.model.errors import ParameterError, PromiseError, QueryError, SchemaError, ScumbleError
from scumble.model.laws.base import check_level
from scumble.private.database.live.results import LiveAnswer, read_within
from scumble.private.database.plan import Relax
from scumble.public.estimate import (
    Estimate,
    Estimates,
    format_number,
    format_selected,
    format_value,
)
from scumble.public.estimate_table import EstimateTable, SelectedEstimates
from scumble.server.answer_json import AnyEstimate
from scumble.server.catalogue import AskedQuestion, Dataset
from scumble.server.postgres import statements
from scumble.server.postgres.messages import (
    CANCEL_REQUEST,
    FLOAT8,
    GSS_REQUEST,
    SSL_REQUEST,
    TEXT,
    VERSION_3,
    Column,
    MessageReader,
    Portal,
    Rows,
    WireError,
    copy_rows,
    data_row,
    error_message,
    format_of,
    message,
    notices,
    read_message,
    read_parameter,
    read_startup,
    row_description,
    text,
)
from scumble.server.postgres.scram import ScramExchange, certificate_hash
from scumble.server.postgres.system import SETTINGS, System
from scumble.server.problems import Problem, trace
from scumble.server.service import Service
from scumble.server.tokens import Token

log = logging.getLogger("scumble.server")
LOGIN_SECONDS = 20.0
_LEVEL = 0.95
_MOST_NAMED = 50  # prepared statements and portals of a connection
_RELAX = ("regression", "compound", "refuse")
CANCELLED = (
    "The question was cancelled. If it was answered before that, asking it again is free of charge."
)


@dataclass
class PreparedStatement:
    """A prepared statement, and the types of its parameters that the client gave."""

    sql: str
    types: list[int] = field(default_factory=list)


class Connection:
    """The state of one connection. `running` are the connections by the numbers of cancellation."""

    def __init__(
        self,
        service: Service,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        running: dict[tuple[int, int], Connection],
        tls: tuple[ssl.SSLContext, bytes | None] | None,
    ) -> None:
        self.service, self.reader, self.writer = service, reader, writer
        self._running, self._tls = running, tls
        self._bound_to: bytes | None = None  # the hash of the certificate that the client was shown
        self._identity = (secrets.randbelow(2**31 - 1) + 1, secrets.randbelow(2**31))
        self._relax: Relax = "refuse"
        self._within: float | str | None = None  # of a live database: without it nothing is bought
        self._level = _LEVEL
        self._transaction = b"I"
        self._statements: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}
        self._task: asyncio.Task[Rows] | None = None
        self._cancelled = False
        self.token: Token | None = None

    # --- beginning --------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve the connection until it ends."""
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                if not await self._login():
                    return
            self._running[self._identity] = self
            await self._messages()
        except WireError as error:
            with suppress(ConnectionError):
                await self._send(error_message(error))
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return
        except Exception as error:
            log.error("wire: a connection failed: %s", trace(error))
        finally:
            self._running.pop(self._identity, None)

    async def _login(self) -> bool:
        """Begin, with TLS if the client wants it; return whether there is a user."""
        code, content = await read_startup(self.reader)
        while code in (SSL_REQUEST, GSS_REQUEST):
            secure = code == SSL_REQUEST and self._tls is not None
            await self._send(b"S" if secure else b"N")
            if secure and self._tls is not None:
                if getattr(self.reader, "_buffer", b""):  # sent before the handshake, by anybody
                    raise WireError("08P01", "Nothing may come before TLS.", fatal=True)
                context, self._bound_to = self._tls
                await self.writer.start_tls(context)
                self._tls = None
            code, content = await read_startup(self.reader)
        if code == CANCEL_REQUEST:
            self._cancel(content)
            return False
        if code != VERSION_3:
            raise WireError("08P01", "Version 3 of the protocol is spoken here.", fatal=True)
        if self._tls is not None and self.service.settings.require_tls:
            raise WireError("28000", "Only TLS is spoken here: set sslmode to require.", fatal=True)
        given = _startup_fields(content)
        user, name = given.get("user", ""), given.get("database", given.get("user", ""))
        self.token = await self._authenticated(user)
        self._name = name
        self.data = self._dataset(self.token, name)
        most = self.service.limits.wire_of_token
        if sum(each.token == self.token for each in self._running.values()) >= most:
            raise WireError("53300", f"A token has at most {most} connections.", fatal=True)
        await self._give_quota(self.token)
        self.system = System(self.data, user)
        await self._send(
            message("R", struct.pack("!i", 0)),
            *(message("S", text(key), text(value)) for key, value in _reported()),
            message("K", struct.pack("!ii", *self._identity)),
            self._ready(),
        )
        return True

    async def _authenticated(self, user: str) -> Token:
        """Return the token of a user; raises `WireError`, slowly, if it is wrong."""
        token = self.service.tokens.by_prefix(user)
        exchange = ScramExchange(user, token, self._bound_to)
        try:
            offered = map(text, exchange.mechanisms)
            await self._send(message("R", struct.pack("!i", 10), *offered, b"\0"))
            first = MessageReader(await self._password())
            answer = exchange.first(first.text(), first.take(first.number(4)))
            await self._send(message("R", struct.pack("!i", 11), answer))
            proof = exchange.final(await self._password())
            await self._send(message("R", struct.pack("!i", 12), proof))
        except WireError:
            self.service.metrics.failed_login()
            await asyncio.sleep(self.service.login_delay)
            raise
        if token is None:
            raise WireError("28P01", "There is no such user.", fatal=True)
        return token

    async def _password(self) -> bytes:
        kind, content = await read_message(self.reader, 10_000)
        if kind != b"p":
            raise WireError("08P01", "A password was expected.", fatal=True)
        return content

    def _dataset(self, token: Token, name: str) -> Dataset:
        if token.role == "auditor":
            raise WireError("42501", "Auditors do not ask: use a token of an analyst.", fatal=True)
        try:
            return self.service.dataset(token, name)
        except Problem:
            raise WireError(
                "3D000", "There is no such data set for this token.", fatal=True
            ) from None

    async def _give_quota(self, token: Token) -> None:
        """Give an analyst who uses the wire for the first time a quota: dashboards ask often."""
        share = self.service.limits.wire_quota
        if token.role == "analyst" and share < 1:
            await self._run(lambda: self._with_quota(token.name, share))

    def _with_quota(self, analyst: str, share: float) -> Rows:
        self.data.first_quota(analyst, share)
        return Rows()

    def _cancel(self, content: bytes) -> None:
        """Cancel the question of another connection, if the numbers are those that it was given."""
        if len(content) == 8 and (other := self._running.get(struct.unpack("!ii", content))):
            other.cancel()

    def cancel(self) -> None:
        """Cancel the question that runs, if any."""
        if self._task is not None:
            self._cancelled = True
            self._task.cancel()

    # --- messages ---------------------------------------------------------------------------------

    async def _messages(self) -> None:
        """Handle messages until the client ends; after an error in a batch, skip to its end."""
        handlers: dict[bytes, Callable[[MessageReader], Any]] = {
            b"P": self._parse,
            b"B": self._bind,
            b"D": self._describe,
            b"E": self._execute,
            b"C": self._close,
        }
        skipping = False
        while True:
            async with asyncio.timeout(self.service.limits.wire_idle):
                kind, content = await read_message(self.reader, self.service.limits.body)
            if kind == b"X":
                return
            if kind == b"S":
                skipping = False
                await self._send(self._ready())
            elif kind == b"Q":
                skipping = False
                await self._simple(MessageReader(content))
            elif kind == b"H":
                await self.writer.drain()
            elif kind in handlers and not skipping:
                try:
                    await handlers[kind](MessageReader(content))
                except WireError as error:
                    skipping = await self._failed(error)
            elif kind not in (*handlers, b"d", b"c", b"f"):
                raise WireError("08P01", "This message is not known.", fatal=True)

    async def _simple(self, content: MessageReader) -> None:
        """Answer the statements of a simple query, up to the first error."""
        try:
            found = statements.split(content.text())
            if not found:
                await self._send(message("I"))
            for sql in found:
                result = await self._result(sql)
                if statements.copied(sql) is not None:
                    await self._send(*copy_rows(result))
                elif result.columns:
                    rows = [data_row(result.columns, row) for row in result.rows]
                    await self._send(row_description(result.columns), *rows)
                await self._send(notices(result), message("C", text(result.ending)))
        except WireError as error:
            await self._failed(error)
        await self._send(self._ready())

    async def _parse(self, content: MessageReader) -> None:
        name, sql = content.text(), content.text()
        found = statements.split(sql)
        if len(found) > 1:
            raise WireError("42601", "A prepared statement is one statement.")
        if len(self._statements) >= _MOST_NAMED and name not in self._statements:
            raise WireError("54000", f"At most {_MOST_NAMED} statements can be prepared.")
        types = content.numbers(4)
        types += [0] * (statements.parameters(sql) - len(types))
        self._statements[name] = PreparedStatement(found[0] if found else "", types)
        await self._send(message("1"))

    async def _bind(self, content: MessageReader) -> None:
        portal, name = content.text(), content.text()
        statement = self._named(name)
        formats = content.numbers(2)
        values: list[bytes | None] = content.values()
        kinds = [*statement.types, *[0] * len(values)]
        literals = [
            read_parameter(value, format_of(formats, place) == 1, kinds[place])
            for place, value in enumerate(values)
        ]
        if len(self._portals) >= _MOST_NAMED and portal not in self._portals:
            raise WireError("54000", f"At most {_MOST_NAMED} portals can be open.")
        sql = statements.with_parameters(statement.sql, literals)
        self._portals[portal] = Portal(sql, content.numbers(2))
        await self._send(message("2"))

    async def _describe(self, content: MessageReader) -> None:
        kind, name = content.take(1), content.text()
        formats: Any = ()
        if kind == b"S":
            statement = self._named(name)
            types = struct.pack(
                f"!h{len(statement.types)}i", len(statement.types), *statement.types
            )
            await self._send(message("t", types))
            columns = await self._statement_columns(statement)
        else:
            portal = self._portal(name)
            columns, formats = await self._columns(portal.sql), portal.formats
        await self._send(row_description(columns, formats) if columns else message("n"))

    async def _execute(self, content: MessageReader) -> None:
        portal, most = self._portal(content.text()), content.number(4)
        if not portal.sql:
            await self._send(message("I"))
            return
        if portal.result is None:
            portal.result = await self._result(portal.sql)
        result, start = portal.result, portal.given
        if not start:
            await self._send(notices(result))
        if statements.copied(portal.sql) is not None:
            await self._send(*copy_rows(result), message("C", text(f"COPY {len(result.rows)}")))
            return
        end = start + most if most > 0 else len(result.rows)
        rows = [data_row(result.columns, row, portal.formats) for row in result.rows[start:end]]
        portal.given = end
        left = end < len(result.rows)
        if not left:
            portal.result, portal.given = Rows(result.columns, (), result.ending), 0
        await self._send(*rows, message("s") if left else message("C", text(result.ending)))

    async def _close(self, content: MessageReader) -> None:
        kind, name = content.take(1), content.text()
        if kind == b"S":
            self._statements.pop(name, None)
        else:
            self._portals.pop(name, None)
        await self._send(message("3"))

    def _named(self, name: str) -> PreparedStatement:
        if name not in self._statements:
            raise WireError("26000", "There is no such prepared statement.")
        return self._statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise WireError("34000", "There is no such portal.")
        return self._portals[name]

    # --- questions --------------------------------------------------------------------------------

    async def _columns(self, sql: str) -> Any:
        """Return the columns of a result, without asking the question."""
        inner = statements.copied(sql)
        if inner is not None or not sql:
            return ()
        if (known := await self._without_people(sql)) is not None:
            return known.columns
        return (
            await self._run(lambda: result_of(self.data.describe_result(self._question(sql))))
        ).columns

    async def _statement_columns(self, statement: PreparedStatement) -> Any:
        """Return the columns of a statement whose parameters are not known yet.

        Their values do not change the columns; which ones can be compared depends on the types.
        """
        sql, error = statement.sql, WireError("42P18", "The types of parameters are not known.")
        for literal in ("0", "''", "NULL") if statement.types else ("",):
            try:
                given = [literal] * len(statement.types)
                return await self._columns(statements.with_parameters(sql, given))
            except WireError as found:
                error = found
        raise error

    async def _result(self, sql: str) -> Rows:
        """Return the result of one statement."""
        word = statements.first_word(sql)
        if self._transaction == b"E" and word not in ("ROLLBACK", "COMMIT", "END", "ABORT"):
            raise WireError("25P02", "The transaction failed: end it by ROLLBACK first.")
        asked = statements.copied(sql)
        if asked is None and (known := await self._without_people(sql)) is not None:
            self._follow(word, sql)
            return known
        question = self._question(sql if asked is None else asked)
        return await self._run(lambda: self._answered(question))

    def _answered(self, question: AskedQuestion) -> Rows:
        reply = self.data.answer(question)
        self.service.metrics.answered(reply)
        if not isinstance(reply, LiveAnswer):
            return result_of(reply.estimate)
        found = result_of(reply.estimate, question.level, reply.status)
        if question.within is not None:
            notes = [*_cost_notes(reply, question.level), *found.notes]
            found = replace(found, notes=notes)
        return found

    async def _without_people(self, sql: str) -> Rows | None:
        """Return the result of a statement that is not about people; None for others."""
        self._check_token()
        if (known := statements.command(sql)) is not None:
            return known
        found = await self._run(lambda: self.system.answer(sql) or Rows(tag="people"))
        return None if found.tag == "people" else found

    def _follow(self, word: str, sql: str) -> None:
        """Follow transactions, and the settings that say how to relax and how accurate to be."""
        if word in ("BEGIN", "START"):
            self._transaction = b"T"
        elif word in ("COMMIT", "END", "ROLLBACK", "ABORT") and " TO " not in sql.upper():
            self._transaction = b"I"
        elif given := statements.setting(sql):
            self._set(given[0].removeprefix("scumble."), given[1])
        elif word in ("RESET", "DISCARD"):
            self._within, self._level = None, _LEVEL

    def _set(self, name: str, value: str) -> None:
        """Follow a setting; those that are not known here are taken and ignored."""
        if name == "relax":
            if value not in _RELAX:
                raise WireError("22023", f"relax must be one of {', '.join(_RELAX)}.")
            self._relax = cast(Relax, value)
        elif name in ("within", "level"):
            self._check_accuracy(f"SET {name}")
            try:
                if name == "within":
                    self._within = read_within(value or None)
                else:
                    self._level = check_level(float(value))
            except (ValueError, ScumbleError):
                allowed = {
                    "within": "a number above 0, as '50', for counts a share of the rows, as "
                    "'0.1%', or '' for what is free",
                    "level": "a number between 0 and 1, as '0.95'",
                }
                raise WireError("22023", f"{name} must be {allowed[name]}.") from None

    def _question(self, sql: str) -> AskedQuestion:
        token = self._check_token()
        text, within = statements.accuracy(sql)
        if within is not None:
            self._check_accuracy("WITH ACCURACY")
        asked = self._within if within is None else within
        return AskedQuestion(text, token.name, None, asked, self._level, self._relax)

    def _check_accuracy(self, what: str) -> None:
        """Refuse an accuracy where there is none to buy."""
        if "within" not in self.data.takes:
            raise WireError("22023", f"{what} is for live databases: leave it out.")

    def _check_token(self) -> Token:
        """Return the token, if it is still good and its data set is still served."""
        token = self.token and self.service.tokens.by_prefix(self.token.prefix)
        if token is None:
            raise WireError("28000", "The token was revoked, or has expired.", fatal=True)
        self.data = self._dataset(token, self._name)
        return token

    async def _run(self, work: Callable[[], Rows]) -> Rows:
        """Return the result of work in a thread; raises `WireError` for all that goes wrong."""
        try:
            prefix = self.token.prefix if self.token else ""
            self._cancelled = False
            self._task = asyncio.ensure_future(self.service.run(prefix, work))
            return await self._task
        except asyncio.CancelledError:
            if not self._cancelled:
                raise  # the server ends
            raise WireError("57014", CANCELLED) from None
        except (ScumbleError, Problem, MemoryError) as error:
            raise _explained(error) from None
        except WireError:
            raise
        except Exception as error:
            log.error("wire: a question failed: %s", trace(error))
            raise WireError("XX000", "The server failed. The failure is in its log.") from None
        finally:
            self._task = None

    # --- sending ----------------------------------------------------------------------------------

    async def _failed(self, error: WireError) -> bool:
        """Tell an error; one that is fatal ends the connection."""
        if error.fatal:
            raise error
        if self._transaction == b"T":
            self._transaction = b"E"
        log.info(
            "wire: token=%s sqlstate=%s", self.token.prefix if self.token else "-", error.state
        )
        await self._send(error_message(error))
        return True

    def _ready(self) -> bytes:
        return message("Z", self._transaction)

    async def _send(self, *messages: bytes) -> None:
        self.writer.write(b"".join(messages))
        await self.writer.drain()


def _startup_fields(content: bytes) -> dict[str, str]:
    reading, found = MessageReader(content), dict[str, str]()
    while name := reading.text():
        found[name] = reading.text()
    return found


def _reported() -> list[tuple[str, str]]:
    names = {
        "server_version": "server_version",
        "server_encoding": "server_encoding",
        "client_encoding": "client_encoding",
        "DateStyle": "datestyle",
        "integer_datetimes": "integer_datetimes",
        "standard_conforming_strings": "standard_conforming_strings",
        "TimeZone": "timezone",
        "default_transaction_read_only": "default_transaction_read_only",
    }
    return [(shown, SETTINGS[name]) for shown, name in names.items()]


_STATES: tuple[tuple[type[Exception], str], ...] = (
    (PromiseError, "53400"),
    (SchemaError, "42703"),
    (ParameterError, "22023"),
    (MemoryError, "53200"),
)
_STATUSES = {408: "57014", 429: "53400", 503: "57P03"}


def _explained(error: Exception) -> WireError:
    """Return the error of the wire for one of the library, with its place in the SQL."""
    if isinstance(error, QueryError):
        place = error.column if error.line == 1 else None
        return WireError("42601", error.message, place)
    if isinstance(error, Problem):
        return WireError(_STATUSES.get(error.status, "22023"), error.detail)
    for kind, state in _STATES:
        if isinstance(error, kind):
            return WireError(state, str(error) or "There is no memory left for this question.")
    log.warning("wire: unusable: %s", error)
    return WireError("57P03", "This data set cannot be used at the moment; see the server's log.")


# --- results --------------------------------------------------------------------------------------
#
# Answers as results of the wire: one row for each group, with the error of each number.

_NUMBERS = ("value", "stderr", "low", "high")
_NOTED = 20  # groups whose typical intervals and shrunk values are notes


def result_of(answer: AnyEstimate, at: float = _LEVEL, status: str = "released") -> Rows:
    """Return an answer as columns and rows; limits are those of a level. `status` is that of rows
    whose numbers have none.
    """
    if isinstance(answer, Estimate):
        answer = Estimates([], [((), answer)], aliases=[answer.alias])
    if isinstance(answer, EstimateTable):
        groups = [Column.of(name, kind) for name, kind in answer.frame_types(answer.groups)]
        level = answer.shown_level(at)
        named = [(item, *(f"{item}_{part}" for part in _NUMBERS[1:])) for item in answer.items]
        columns = [Column(name, FLOAT8) for names in named for name in names]
        rows = [
            (
                *answer.frame_values(key),
                *(number for each in row for number in _numbers(each, level)),
                _status(row, status),
            )
            for key, row in answer.rows
        ]
        notes = [*answer.notes, *_more_notes(answer, level)]
        return Rows([*groups, *columns, Column("status", TEXT)], rows, notes=notes)
    level = answer.shown_level(at) if isinstance(answer, SelectedEstimates) else at
    groups = [Column.of(title, kind) for title, kind in answer.frame_types(answer.titles)]
    columns = [Column(name, FLOAT8) for name in (answer.alias or _NUMBERS[0], *_NUMBERS[1:])]
    rows = [
        (
            *answer.frame_values(key),
            *_numbers(each, level),
            _status((each,), status),
            getattr(each, "answered", ""),
        )
        for key, each in answer.rows
    ]
    shown = [*groups, *columns, Column("status"), Column("answered")]
    return Rows(shown, rows, notes=[*answer.notes, *_more_notes(answer, level)])


def _cost_notes(reply: LiveAnswer, level: float) -> Iterator[str]:
    """Yield what became of a question with an accuracy, what it cost, and what was measured."""
    paid = f"charged {100 * reply.charged:.3g} % of what is for purchases"
    width = format_number(reply.half_width, reply.half_width)
    missing = ""
    if reply.status == "limited":
        missing = f"; the accuracy asked for would cost {100 * reply.needed:.3g} % at once"
        missing = missing if reply.needed <= 1 else "; the accuracy asked for costs more than all"
    paid = paid if reply.charged else "nothing was charged"
    yield f"{reply.status}: within {width} at {100 * level:g} %; {paid}{missing}"
    if len(reply.fresh) == 1:
        [found] = reply.fresh.values()
        low, high = (format_number(limit, found.stderr) for limit in found.interval(level))
        yield f"this measurement alone: {format_value(found)}, from {low} to {high}"


def _more_notes(answer: Estimates | EstimateTable, level: float) -> Iterator[str]:
    """Yield typical intervals and shrunk values as notes: statements are described before they are
    asked, so that columns cannot depend on the answer.
    """
    if isinstance(answer, EstimateTable):
        items = [
            (name, [row[place] for _, row in answer.rows])
            for place, name in enumerate(answer.items)
        ]
    else:
        items = [(answer.alias or "value", [each for _, each in answer.rows])]
    groups = [", ".join(answer.labels(key)) for key, _ in answer.rows]
    for name, found in items:
        typical = [each.typical_label(level) for each in found]
        selected = [format_selected(each) for each in found]
        for words, cells in (("typical", typical), ("selected", selected)):
            given = [(group, cell) for group, cell in zip(groups, cells, strict=True) if cell]
            parts = [f"{group}: {cell}" if group else cell for group, cell in given[:_NOTED]]
            more = [f"and {len(given) - _NOTED} more"] if len(given) > _NOTED else []
            if parts:
                yield f"{words} {name}: {'; '.join([*parts, *more])}"


def _numbers(estimate: Estimate, level: float) -> tuple[float, ...]:
    return (float(estimate.value), float(estimate.stderr), *map(float, estimate.interval(level)))


def _status(row: tuple[Any, ...], known: str) -> str:
    """The status of a row: the worst of its numbers; `known` where they have none."""
    found = {each.status_label for each in row}
    order = ("not answered", "relaxed", "answered", "repeated")
    return next((status for status in order if status in found), known)


# --- listener -------------------------------------------------------------------------------------
#
# The listener of the PostgreSQL wire, beside the HTTP server in its event loop.

_FULL = WireError("53300", "Too many connections are open already.", fatal=True)


class Listener:
    """Accepts connections; all of them end when it is closed."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._running: dict[tuple[int, int], Connection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; raises `ParameterError` if the address cannot be used."""
        where = self.service.settings.postgres
        if where is None:
            return
        try:
            self._server = await asyncio.start_server(self._accept, where.host, where.port)
        except OSError:
            raise where.taken("postgres") from None

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # it runs in one
        if len(self._tasks) >= self.service.limits.wire_connections:
            writer.write(error_message(_FULL))
            writer.close()
            return
        self._tasks.add(task)
        try:
            await Connection(self.service, reader, writer, self._running, self._tls()).serve()
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            self._tasks.discard(task)
            writer.close()

    def _tls(self) -> tuple[ssl.SSLContext, bytes | None] | None:
        """Return how to speak TLS, and the hash of the certificate that logins are bound to."""
        settings = self.service.settings
        if settings.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.certificate, settings.key)
        return context, certificate_hash(settings.certificate)
