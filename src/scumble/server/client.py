"""`connect`: a data set of a server, with the verbs of a database and the same results."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

from scumble.model.errors import (
    LedgerError,
    OutputExistsError,
    ParameterError,
    PromiseError,
    QueryError,
    ReleaseError,
    SchemaError,
    ScumbleError,
    SourceError,
    named,
)
from scumble.model.laws.base import check_level
from scumble.model.schema.schema import Schema
from scumble.private.database.live.results import LiveAnswer, LiveCost, LiveStatus, read_within
from scumble.private.database.plan import DEFAULTS, AskOptions
from scumble.private.database.results import Answer, Cost, Event, Status
from scumble.public.asking import Asking
from scumble.public.estimate import LEVEL
from scumble.server.answer_json import AnyEstimate, decode_answer, decode_live

if TYPE_CHECKING:
    import httpx

TOKEN = "SCUMBLE_TOKEN"  # noqa: S105  # the name of a variable
_ERRORS: dict[str, type[ScumbleError]] = {
    each.__name__: each
    for each in (
        *(LedgerError, OutputExistsError, ParameterError, PromiseError, ReleaseError),
        *(SchemaError, SourceError),
    )
}
_RETRIED = (408, 429, 502, 503, 504)
_TRIES = 6
_UNSAID = (None, math.inf)


class ServerError(ScumbleError):
    """The server refuses the request, or cannot be reached. `status` is that of HTTP, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def connect(address: str, *, token: str | None = None, timeout: float = 90.0) -> RemoteDataset:
    """Return a data set of a server: `connect("https://host:8470/people", token=...)`.

    The token is taken from the environment variable SCUMBLE_TOKEN if it is not given. A request
    that fails on the way is tried again; every question carries an idempotency key, so that it is
    charged once.
    """
    parts = urlsplit(address)
    name = parts.path.strip("/")
    if parts.scheme not in ("http", "https") or not parts.netloc or not name or "/" in name:
        allowed = "the address of a data set, as https://host:8470/people"
        raise ParameterError.of("connect", "address", allowed, address)
    secret = token or os.environ.get(TOKEN)
    if not secret:
        raise ParameterError(f"Give a token: connect(..., token=...), or set {TOKEN}.")
    return RemoteDataset(f"{parts.scheme}://{parts.netloc}", name, secret, timeout)


class RemoteDataset(Asking):
    """A database or release on a server: `ask`, `preview`, `status`, `history`."""

    def __init__(self, server: str, name: str, token: str, timeout: float) -> None:
        """Call `connect`."""
        try:
            import httpx
        except ModuleNotFoundError:
            raise ScumbleError(
                "connect() needs httpx, which is not installed: install scumble[client]."
            ) from None
        self.name = name
        self._http: httpx.Client = httpx.Client(
            base_url=f"{server}/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            follow_redirects=False,
        )

    def ask(
        self,
        sql: str,
        *,
        within: float | str | None = None,
        level: float = 0.95,
        key: str | None = None,
        options: AskOptions = DEFAULTS,
    ) -> Answer | LiveAnswer:
        """Answer one question, as `Database.ask` or `LiveDatabase.ask` does. The token says who
        asks. `within` and `level` are for a live database, whose answers are a `LiveAnswer`.
        """
        body = _question(sql, options, within, level)
        if key is not None or within is not None or not self._live:
            body["key"] = key or secrets.token_hex(16)
        found = self._fields("POST", "answer", body)
        if "half_width" in found:
            return decode_live(found)
        return Answer(decode_answer(found), **found["cost"])

    def answer(self, sql: str, **keywords: Any) -> AnyEstimate:
        """Return the estimate of `ask` alone."""
        return self.ask(sql, **keywords).estimate

    def preview(
        self,
        sql: str,
        *,
        within: float | str | None = None,
        level: float = 0.95,
        options: AskOptions = DEFAULTS,
    ) -> Cost | LiveCost:
        """Return what `ask` would do, and its standard error or half-width. Nothing is charged."""
        found = self._fields("POST", "cost", _question(sql, options, within, level))
        return LiveCost.from_dict(found) if "half_width" in found else Cost.from_dict(found)

    def status(self) -> Status | LiveStatus | None:
        """Return what is used of the promise; None for a release, whose answers are free."""
        found = self._fields("GET", "status")
        if "free" in found:
            return None
        return LiveStatus(**found) if "mu" in found else Status.from_dict(found)

    def history(self) -> list[Event]:
        """Return the questions that this token may see, in order."""
        return [Event(**each) for each in self._fields("GET", "history")["history"]]

    def describe(self) -> dict[str, Any]:
        """Return schema, guarantees and limits as JSON values."""
        return self._fields("GET", "")

    @cached_property
    def _live(self) -> bool:
        """Whether it is a live database, where what is free needs no key and leaves no entry."""
        return bool(self.describe()["kind"] == "live")

    @property
    def schema(self) -> Schema:
        return Schema.from_dict(self.describe()["schema"])

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Data set {self.name} at {self._http.base_url}"

    def _fields(
        self, method: str, verb: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Make a request, again where that may help; return the JSON of the response."""
        import httpx

        path = f"datasets/{quote(self.name)}" + (f"/{verb}" if verb else "")
        for attempt in range(_TRIES):
            last = attempt == _TRIES - 1
            try:
                response = self._http.request(method, path, json=body)
            except httpx.HTTPError as error:
                if last or isinstance(error, httpx.UnsupportedProtocol):
                    where = self._http.base_url.copy_with(path="/")
                    raise ServerError(
                        f"The server {where} cannot be reached: {type(error).__name__}. Check its "
                        "address, and that it runs."
                    ) from None
                time.sleep(0.2 * 2**attempt)
                continue
            if response.status_code not in _RETRIED or last:
                return _content(response)
            wait = response.headers.get("Retry-After", "1")
            time.sleep(min(float(wait) if wait.isdigit() else 1.0, 5.0) * (0.5 + attempt / 2))
        raise ServerError("The server cannot be reached.")  # not reached: the last try returns


def _question(
    sql: str, options: AskOptions, within: float | str | None, level: float
) -> dict[str, Any]:
    if not isinstance(sql, str):
        raise ParameterError.of("ask", "sql", "the text of a question", sql)
    if options.analyst is not None or options.weights is not None:
        raise ParameterError(
            f"A server knows who asks by the token, and takes no weights: leave {named('analyst')} "
            f"and {named('weights')} out."
        )
    given: dict[str, Any] = {
        "relax": None if options.relax == DEFAULTS.relax else options.relax,
        "prefer": options.prefer,
        "max_relaxation_error": options.max_relaxation_error,
        "within": read_within(within),
    }
    if check_level(level) != LEVEL:
        given["level"] = level
    return {"sql": sql, **{name: each for name, each in given.items() if each not in _UNSAID}}


def _content(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON of a response; raises the error that the server reports."""
    try:
        found: object = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ServerError(
            f"The address answers with status {response.status_code}, but is no scumble server.",
            response.status_code,
        ) from None
    if response.status_code < 400:
        return found
    sentence = str(found.get("detail", "The server refuses the request."))
    kind = str(found.get("error", ""))
    if kind == "QueryError":
        raise _query_error(found, sentence)
    if kind in _ERRORS:
        raise _ERRORS[kind](sentence)
    raise ServerError(sentence, response.status_code)


def _query_error(found: Mapping[str, Any], sentence: str) -> QueryError:
    error = QueryError(str(found.get("text", sentence)))
    error.message, error.line, error.column = sentence, found.get("line"), found.get("column")
    return error
