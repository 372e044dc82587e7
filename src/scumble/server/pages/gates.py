"""The gates of pages: the session of a browser, forms, and the rendering of templates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from scumble.server.guards import SESSION_SECONDS, Session
from scumble.server.http.app import (
    RequestContext,
    check_permission,
    perform,
    problem_response,
    read_body,
    receive_table,
)
from scumble.server.http.routes import Call, Result, Route
from scumble.server.problems import MEDIA_TYPE, Problem, problem_of
from scumble.server.service import Service
from scumble.server.tokens import Token

COOKIE = "scumble_session"
HTML = "text/html; charset=utf-8"
_MOST_FIELDS = 2000
_HEADINGS = {
    403: "Not allowed",
    404: "Not found",
    413: "Too large",
    422: "Something is missing or wrong",
    429: "Too many requests",
    500: "Something failed",
    503: "Not now",
}


@cache
def environment() -> Environment:
    """Return the templates of the pages; every value is escaped, a missing one is an error."""
    folder = files("scumble.server.pages").joinpath("templates")
    return Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, status: int = 200, **values: Any) -> Result:
    """Return a page, or a part of one, from its template."""
    text = environment().get_template(template).render(values)
    return Result(text, status, HTML)


def shared(service: Service, call: Call) -> dict[str, Any]:
    """Return what every page of a logged-in user shows: the title, the user, the menu."""
    user = call.user
    return {
        "title": service.settings.title,
        "user": user,
        "csrf": call.headers.get("csrf", ""),
        "datasets": [each for each in service.catalogue if user.allows(each.name)],
        "fragment": bool(call.headers.get("htmx")),
    }


def page_endpoint(service: Service, route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a page: who is not logged in is asked to."""

    async def endpoint(request: Request) -> Response:
        with RequestContext(service, route.name, request) as served:
            try:
                found = service.sessions.find(request.cookies.get(COOKIE, ""))
                if found is None:
                    served.response = _to_login(request)
                else:
                    session, served.token = found
                    result = await _served(service, route, request, session, served.token)
                    served.response = response_of(result)
            except Exception as error:
                served.response = _failed(service, served, error, request)
        return served.finished()

    return endpoint


async def _served(
    service: Service, route: Route, request: Request, session: Session, token: Token
) -> Result:
    dataset = check_permission(service, route, token, request.path_params.get("dataset"))
    form: Mapping[str, Any] = {}
    query = {**dict(request.query_params), **route.read_query(request.query_params)}
    if route.upload:
        session.check(request.headers.get("x-csrf-token", ""))
        form = {"draft": await receive_table(service, request, str(query["name"]))}
    elif request.method == "POST":
        form = await read_form(request, service.limits.body)
        session.check(str(form.get("csrf", "")))
    headers = {
        "csrf": session.csrf,
        "htmx": request.headers.get("hx-request", ""),
        "session": request.cookies.get(COOKIE, ""),
    }
    return await perform(
        service, route, Call(token, dataset, request.path_params, form, query, headers)
    )


async def read_form(request: Request, limit: int) -> dict[str, str]:
    """Return the fields of a form; raises `Problem` if it is large or no form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, "The body must be a form.")
    content = await read_body(request, limit)
    try:
        pairs = parse_qsl(
            content.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise Problem(400, "The form cannot be read.") from None
    return dict(pairs)


def response_of(result: Result) -> Response:
    """Return the result of a handler as a response."""
    return Response(result.content, result.status, dict(result.headers), result.media_type)


def redirect(where: str) -> Result:
    """Return a redirection, to be fetched with GET."""
    return Result("", 303, headers={"Location": where})


def start_session(service: Service, token: Token) -> Response:
    """Log a browser in: return the redirection to the first page, with the cookie."""
    secret, _ = service.sessions.start(token)
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=service.settings.secure,
    )
    return response


def _to_login(request: Request) -> Response:
    if request.headers.get("hx-request"):  # the whole page has to change, not a part of it
        return Response(status_code=200, headers={"HX-Redirect": "/login"})
    return RedirectResponse("/login", 303)


def _failed(
    service: Service, served: RequestContext, error: Exception, request: Request
) -> Response:
    served.failed(error)  # for the log
    owner = served.token is not None and served.token.role == "owner"
    problem = problem_of(error, owner=owner)
    if request.headers.get("accept") == MEDIA_TYPE:  # of our own script
        return problem_response(problem)
    if request.headers.get("hx-request"):
        # htmx shows responses that succeeded only.
        return response_of(render("problem.html", problem=problem, number=served.number))
    return problem_page(service, problem, served.number)


def problem_page(service: Service, problem: Problem, number: str = "") -> Response:
    """Return a problem as a page, with the number of its request if that is in the log."""
    page = render(
        "failed.html",
        problem.status,
        heading=_HEADINGS.get(problem.status, "Not possible"),
        problem=problem,
        number=number,
        title=service.settings.title,
    )
    return response_of(page)
