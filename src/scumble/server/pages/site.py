"""The routes of all pages: those of the roles, the login, and the static files."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as Path

from scumble.server.config import DATASET_NAME
from scumble.server.http.app import HEADERS, NOTHING, RequestContext, not_found, problem_response
from scumble.server.pages import asking, auditing, helping, owning, publishing
from scumble.server.pages.gates import (
    COOKIE,
    page_endpoint,
    problem_page,
    read_form,
    render,
    response_of,
    start_session,
)
from scumble.server.problems import Problem, problem_of
from scumble.server.service import Service

ROUTES = (*asking.ROUTES, *auditing.ROUTES, *owning.ROUTES, *publishing.ROUTES, *helping.ROUTES)
_STATIC = ("style.css", "htmx.min.js", "page.js", "icon.svg")


def pages(service: Service) -> list[Path]:
    """Return the routes of all pages over a service."""
    found = [
        Path(each.path, page_endpoint(service, each), methods=[each.method]) for each in ROUTES
    ]
    return [*found, *_login(service), *_static(service)]


def missing(service: Service) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers requests that no route takes: browsers get a page.

    At the address for `connect` they get the page of the data set.
    """

    async def respond(request: Request, error: Exception) -> Response:
        path, browser = request.url.path, "text/html" in request.headers.get("accept", "")
        unknown = request.method == "GET" and getattr(error, "status_code", 404) == 404
        if not unknown or not browser or path.startswith("/api/"):
            return await not_found(request, error)
        name = path.removeprefix("/")
        response = problem_page(service, Problem(404, NOTHING))
        if DATASET_NAME.fullmatch(name):
            response = RedirectResponse(f"/data/{name}", 303)
        response.headers.update(HEADERS)
        return response

    return respond


def _login(service: Service) -> list[Path]:
    async def form(request: Request) -> Response:
        with RequestContext(service, "page: login", request) as served:
            link = request.query_params.get("link")
            token = service.sessions.use_link(link) if link else None
            if token is not None:
                served.token, served.response = token, start_session(service, token)
            else:
                words = "This link was used before, or is too old." if link else ""
                served.response = _login_page(service, Problem(401, words) if words else None)
        return served.finished()

    async def enter(request: Request) -> Response:
        with RequestContext(service, "page: login", request) as served:
            try:
                if request.headers.get("sec-fetch-site") == "cross-site":
                    raise Problem(403, "Log in on the page of this server.")
                fields = await read_form(request, service.limits.body)
                served.token = await service.login(fields.get("token", "").strip())
                served.response = start_session(service, served.token)
            except Exception as error:
                served.failed(error)
                served.response = _login_page(service, problem_of(error))
        return served.finished()

    async def leave(request: Request) -> Response:
        with RequestContext(service, "page: logout", request) as served:
            secret = request.cookies.get(COOKIE, "")
            found = service.sessions.find(secret)
            try:
                fields = await read_form(request, service.limits.body)
                if found is not None:
                    found[0].check(fields.get("csrf", ""))
                    service.sessions.end(secret)
                served.response = RedirectResponse("/login", 303)
                served.response.delete_cookie(COOKIE)
            except Problem as error:
                served.response = _login_page(service, error)
        return served.finished()

    return [
        Path("/login", form, methods=["GET"]),
        Path("/login", enter, methods=["POST"]),
        Path("/logout", leave, methods=["POST"]),
    ]


def _login_page(service: Service, problem: Problem | None) -> Response:
    status = 200 if problem is None else problem.status
    result = render("login.html", status, title=service.settings.title, problem=problem)
    return response_of(result)


def _static(service: Service) -> list[Path]:
    folder = files("scumble.server.pages").joinpath("static")
    contents = {name: folder.joinpath(name).read_bytes() for name in _STATIC}

    async def serve(request: Request) -> Response:
        with RequestContext(service, "page: static", request) as served:
            name = request.path_params["name"]
            if name in contents:
                kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
                fresh = {"Cache-Control": "public, max-age=3600"}
                served.response = Response(contents[name], headers=fresh, media_type=kind)
            else:
                served.response = problem_response(Problem(404, NOTHING))
        return served.finished()

    return [Path("/static/{name}", serve, methods=["GET"])]
