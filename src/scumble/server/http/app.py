"""The web application: every request passes the same gates, then its handler.

Gates: who asks, in which role, about which data set, how often, and how large the body is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import time
from collections.abc import Awaitable, Iterator
from typing import Any, BinaryIO

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from scumble.model import stored
from scumble.server.http import api
from scumble.server.http.routes import Call, Result, Route
from scumble.server.problems import MEDIA_TYPE, Problem, problem_of, trace
from scumble.server.publishing.drafts import Draft
from scumble.server.service import Service
from scumble.server.tokens import Token

log = logging.getLogger("scumble.server")
NOTHING = "There is nothing here."
_BODY_SECONDS = 20.0
_ROOM_EVERY = 16_000_000  # bytes of a table after which it is looked again whether there is room
_NO_ROOM = (
    "There is no room for this table: all tables that were sent together would exceed "
    "limits.uploads, or the disk has less than limits.reserve left. Delete a draft."
)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def build(service: Service, *more: Any, missing: Any) -> Starlette:
    """Return the application over a service; `more` are further routes, such as the pages.

    `missing` answers requests that no route takes.
    """
    found = [Path(each.path, Endpoint(service, each), methods=[each.method]) for each in api.ROUTES]
    errors: Any = {HTTPException: missing, Exception: _failed}
    return Starlette(routes=[*found, *more], exception_handlers=errors)


class Endpoint:
    """The endpoint of a route of the HTTP interface."""

    def __init__(self, service: Service, route: Route) -> None:
        self.service, self.route = service, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with RequestContext(self.service, self.route.name, request) as served:
            try:
                served.token = await _bearer(self.service, self.route, request)
                call = await _gated(self.service, self.route, request, served.token)
                served.response = _response(await call)
            except Exception as error:
                served.response = served.failed(error)
        await served.finished()(scope, receive, send)


def _request_numbers() -> Iterator[str]:
    """Yield random numbers of requests, so that nobody sees how many others make."""
    while True:
        digits = secrets.token_hex(6 * 256)
        yield from (digits[at : at + 12] for at in range(0, len(digits), 12))


_NUMBERS = _request_numbers()


class RequestContext:
    """A request that is being served: its number, its token and its response, for the log."""

    def __init__(self, service: Service, name: str, request: Request) -> None:
        self.service, self.name, self.request = service, name, request
        self.number = next(_NUMBERS)
        self.token: Token | None = None
        self.response: Response = Response(status_code=500)
        self._begun = time.monotonic()

    def __enter__(self) -> RequestContext:
        self.service.metrics.running += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.service.metrics.running -= 1

    def failed(self, error: Exception) -> Response:
        """Return the response for an exception. What nobody expected is logged with its place."""
        owner = self.token is not None and self.token.role == "owner"
        problem = problem_of(error, owner=owner)
        if problem.status == 500:
            log.error("request=%s failed: %s", self.number, trace(error))
        elif problem.status == 503 and not isinstance(error, Problem):
            log.warning("request=%s unusable: %s", self.number, error)
        return problem_response(problem)

    def finished(self) -> Response:
        """Return the response with its headers; write the line of the log."""
        seconds, status = time.monotonic() - self._begun, self.response.status_code
        headers = self.response.raw_headers
        present = {name for name, _ in headers}
        headers += [each for each in _RAW_HEADERS if each[0] not in present]
        if self.service.settings.secure:
            headers.append((b"strict-transport-security", b"max-age=31536000"))
        headers.append((b"x-request-id", self.number.encode()))
        self.service.metrics.request(self.name, status, seconds)
        log.info(
            "request=%s route=%r status=%d ms=%.1f token=%s role=%s dataset=%r",
            self.number,
            self.name,
            status,
            1000 * seconds,
            self.token.prefix if self.token else "-",
            self.token.role if self.token else "-",
            self.request.path_params.get("dataset", "-")[:40] if self.token else "-",
        )
        return self.response


async def _bearer(service: Service, route: Route, request: Request) -> Token | None:
    """Return the token in the header Authorization; None if the route needs none."""
    if not route.roles:
        return None
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        raise Problem(
            401,
            "This request needs a token: send the header Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return await service.login(text.strip())


async def _gated(
    service: Service, route: Route, request: Request, token: Token | None
) -> Awaitable[Result]:
    """Check a request; return what remains to be awaited. Raises `Problem`."""
    dataset = check_permission(service, route, token, request.path_params.get("dataset"))
    query = route.read_query(request.query_params)
    body = await _read_json(service, route, request) if route.body else {}
    if route.upload:
        body = {"draft": await receive_table(service, request, str(query.get("name", "")))}
    headers = {"accept": request.headers.get("accept", "")}
    call = Call(token, dataset, request.path_params, body, query, headers)
    return perform(service, route, call)


def check_permission(service: Service, route: Route, token: Token | None, name: str | None) -> Any:
    """Return the data set that a request is about; raises `Problem` if the role may not."""
    if not route.roles or token is None:
        return None
    if token.role not in route.roles:
        allowed = " or ".join(map(_with_article, route.roles))
        own = _with_article(token.role)
        raise Problem(403, f"Only {allowed} may do this. Your token is for {own}.")
    return service.dataset(token, name) if name is not None else None


def _with_article(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"


async def perform(service: Service, route: Route, call: Call) -> Result:
    """Run the handler of a route, within the limits of the token."""
    if call.token is None:
        return route.handler(service, call)
    if route.together is not None:
        return await service.run_together(call.token.prefix, route.handler, route.together, call)
    return await service.run(call.token.prefix, route.handler, service, call)


async def _read_json(service: Service, route: Route, request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "The body must be JSON, with Content-Type: application/json.")
    content = await read_body(request, service.limits.body)
    try:
        return route.read_body(stored.parse_json(content))
    except ValueError:  # no UTF-8, no JSON, too deep, or numbers that are not finite
        raise Problem(400, "The body is not valid JSON.") from None


async def receive_table(service: Service, request: Request, name: str) -> Draft:
    """Write the table in the body of a request to the disk as it comes; return its draft.

    Raises `Problem` if it is too large, stops coming, or does not fit on the disk.
    """
    if int(request.headers.get("content-length", "0")[:18] or 0) > service.limits.upload:
        raise _too_large(service)
    part, complete = service.publishing.new_upload(name)
    draft = None
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            if not await _receive(service, request, out):
                raise Problem(422, "The table is empty.")
        draft = complete()
        return draft
    except TimeoutError:
        raise Problem(408, "The table stopped coming.") from None
    except ClientDisconnect:
        raise Problem(400, "The connection was closed.") from None
    except OSError:
        raise Problem(503, "The table cannot be stored: the disk of the server is full.") from None
    finally:
        if draft is None:
            shutil.rmtree(part.parent, ignore_errors=True)


async def _receive(service: Service, request: Request, out: BinaryIO) -> int:
    """Write the body of a request to a file as it comes; return its size."""
    size = checked = 0
    stream = request.stream().__aiter__()
    while True:
        async with asyncio.timeout(_BODY_SECONDS):
            chunk = await anext(stream, None)
        if chunk is None:
            return size
        size += len(chunk)
        if size > service.limits.upload:
            raise _too_large(service)
        if size > checked:  # others may send tables, too
            checked = size + _ROOM_EVERY
            if await asyncio.to_thread(service.publishing.free_bytes) < len(chunk):
                raise Problem(413, _NO_ROOM)
        await asyncio.to_thread(out.write, chunk)


def _too_large(service: Service) -> Problem:
    return Problem(413, f"A table must have at most {service.limits.upload:,} bytes.")


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request; raises `Problem` if it is large, or slow to come."""
    too_large = Problem(413, f"The body must have at most {limit:,} bytes.")
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or int(length[:18]) > limit:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limit:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "The body did not come in time.") from None
    except ClientDisconnect:
        raise Problem(400, "The connection was closed.") from None
    return bytes(content)


def _response(result: Result) -> Response:
    headers = dict(result.headers)
    if result.media_type == "application/json":
        return JSONResponse(result.content, result.status, headers)
    return Response(result.content, result.status, headers, result.media_type)


def problem_response(problem: Problem) -> Response:
    """Return a problem as its response."""
    headers = problem.all_headers()
    return JSONResponse(problem.to_dict(), problem.status, headers, MEDIA_TYPE)


async def not_found(_: Request, error: Exception) -> Response:
    """Return the problem of a request that no route takes."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    details = {404: NOTHING, 405: "This address does not take this method."}
    allowed = dict(getattr(error, "headers", None) or {})
    problem = Problem(status, details.get(status, "Not possible."), {}, allowed)
    response = problem_response(problem)
    response.headers.update(HEADERS)
    return response


async def _failed(_: Request, error: Exception) -> Response:
    log.error("a request failed: %s", trace(error))
    response = problem_response(problem_of(error))
    response.headers.update(HEADERS)
    return response
