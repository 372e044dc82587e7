"""Errors as HTTP responses: one shape (RFC 9457, application/problem+json), our own sentences."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from scumble.model.errors import (
    Dialect,
    LedgerError,
    ParameterError,
    PromiseError,
    QueryError,
    ReleaseError,
    SchemaError,
    ScumbleError,
    SourceError,
)

MEDIA_TYPE = "application/problem+json"
BUG = "The server failed. The failure is in its log, under the number of this request."
# Which status an error of the library has. The first class that fits counts.
_STATUS: tuple[tuple[type[ScumbleError], int], ...] = (
    (PromiseError, 409),
    (QueryError, 422),
    (ParameterError, 422),
    (SchemaError, 422),
    (LedgerError, 503),
    (SourceError, 503),
    (ReleaseError, 503),
    (ScumbleError, 400),
)
UNUSABLE = (
    "This data set cannot be used at the moment. A question that was charged and not answered is "
    "answered free of charge when it is asked again. The owner finds the reason in the log."
)
_RETRY = {429: "1", 503: "5"}


class ServerDialect(Dialect):
    """Names parameters as requests and forms do; who reads it knows no class or function."""

    def subject(self, owner: str, parameter: str) -> str:
        return f"'{parameter}'"

    def setting(self, parameter: str, value: object) -> str:
        """Return a parameter with a value; no request has `outside` or `types`."""
        where = " in Python" if parameter in ("outside", "types") else ""
        return super().setting(parameter, value) + where

    def literal(self, value: object) -> str:
        return f"{value:.15g}" if isinstance(value, float) else super().literal(value)

    def given(self, value: object) -> str:
        return "an object" if isinstance(value, dict) else super().given(value)


@dataclass
class Problem(Exception):  # noqa: N818  # the word of RFC 9457
    """A refused request: its status, a sentence, and more members of the response."""

    status: int
    detail: str
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def all_headers(self) -> dict[str, str]:
        retry = {"Retry-After": _RETRY[self.status]} if self.status in _RETRY else {}
        return {**retry, **self.headers}


def problem_of(error: BaseException, *, owner: bool = False) -> Problem:
    """Return the problem for an exception; nothing of an unexpected one is told.

    Messages about files name folders of the server: only an `owner` gets them.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, MemoryError):
        return Problem(503, "The server has no memory left for this question. Ask a simpler one.")
    if not isinstance(error, ScumbleError):
        return Problem(500, BUG)
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    kind = {"error": type(error).__name__}
    if status == 503 and not owner:
        return Problem(status, UNUSABLE, kind)
    if isinstance(error, QueryError):
        place = {"line": error.line, "column": error.column} if error.line is not None else {}
        return Problem(status, error.message, {**kind, **place, "text": str(error)})
    return Problem(status, str(error), kind)


def trace(error: BaseException) -> str:
    """Return the class and the traceback of an exception for the log, without its message.

    A message may quote a private value; the lines of the program cannot.
    """
    lines = traceback.format_tb(error.__traceback__)
    return f"{type(error).__name__}\n{''.join(lines)}".rstrip()
