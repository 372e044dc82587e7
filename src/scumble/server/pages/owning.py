"""Pages of owners: tokens, and who used how much."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from scumble.model.errors import ScumbleError
from scumble.private.database.live.results import LiveUsage
from scumble.private.database.results import Usage
from scumble.server.http.routes import OWNER, Call, Result, Route
from scumble.server.pages.drawings import share_drawing, used_drawing
from scumble.server.pages.gates import redirect, render, shared
from scumble.server.problems import Problem, problem_of
from scumble.server.service import Service
from scumble.server.tokens import ROLES


def tokens(service: Service, call: Call) -> Result:
    """All tokens, and the form to make one."""
    return _page(service, call)


def create(service: Service, call: Call) -> Result:
    """Make a token, and show it this once."""
    form = call.body
    days = str(form.get("days", "")).strip()
    try:
        text, token = service.tokens.create(
            str(form.get("role", "")),
            str(form.get("name", "")).strip(),
            days=_number(days, "days") if days else None,
            datasets=[str(form["dataset"])] if form.get("dataset") else None,
        )
    except (ScumbleError, Problem) as error:
        return _page(service, call, problem=problem_of(error, owner=True))
    return _page(service, call, made={"text": text, "token": token})


def revoke(service: Service, call: Call) -> Result:
    """Revoke a token, and show the list again."""
    service.tokens.revoke(str(call.body.get("prefix", "")))
    return redirect("/tokens")


def stop(service: Service, call: Call) -> Result:
    """Stop serving a data set."""
    if not call.body.get("sure"):
        raise Problem(422, "Confirm that nobody is to ask it any more.")
    service.catalogue.remove(call.data.name)
    return redirect("/")


def usage(service: Service, call: Call) -> Result:
    """Which analyst asked how much of which data set."""
    return _usage(service, call)


def quota(service: Service, call: Call) -> Result:
    """Give, change or end the quota of an analyst, and show the page again."""
    form = call.body
    try:
        part = None if form.get("end") else _number(str(form.get("epsilon", "")), "quota")
        call.data.set_quota(str(form.get("analyst", "")).strip(), part)
    except (ScumbleError, Problem) as error:
        return _usage(service, call, problem=problem_of(error, owner=True), about=call.data.name)
    return redirect("/usage")


def _usage(service: Service, call: Call, problem: Problem | None = None, about: str = "") -> Result:
    found = []
    for data in service.catalogue:
        if data.kind != "release":
            people = [{**asdict(each), "bar": _bar(each)} for each in data.usage()]
            found.append({"data": data, "status": data.status(None), "people": people})
    named = sorted({each.name for each in service.tokens.all() if each.role == "analyst"})
    return render(
        "usage.html",
        200 if problem is None else problem.status,
        found=found,
        named=named,
        problem=problem,
        about=about,
        **shared(service, call),
    )


def _bar(each: Usage | LiveUsage) -> Markup | str:
    """Return the bar of what is used of a quota; nothing where there is none."""
    if isinstance(each, LiveUsage):
        return "" if each.used is None else share_drawing(each.used)
    return used_drawing(each.used or 0, each.limit) if each.limit else ""


def _page(service: Service, call: Call, **values: Any) -> Result:
    known = {"made": None, "problem": None, **values}
    listed = service.tokens.all()[::-1]
    status = 200 if known["problem"] is None else known["problem"].status
    return render(
        "tokens.html", status, tokens=listed, roles=ROLES, **shared(service, call), **known
    )


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Problem(422, f"The {what} must be a number.") from None


ROUTES = (
    Route("GET", "/tokens", "page: tokens", OWNER, tokens, "Tokens."),
    Route("POST", "/tokens", "page: new token", OWNER, create, "Make a token."),
    Route("POST", "/tokens/revoke", "page: revoke", OWNER, revoke, "Revoke a token."),
    Route("GET", "/usage", "page: usage", OWNER, usage, "Who used how much."),
    Route("POST", "/data/{dataset}/stop", "page: stop", OWNER, stop, "Stop a data set."),
    Route("POST", "/data/{dataset}/quota", "page: quota", OWNER, quota, "Set a quota."),
)
