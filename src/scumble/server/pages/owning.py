"""Pages of owners: tokens, and who used how much."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scumble.model.errors import ScumbleError
from scumble.server.http.routes import OWNER, Call, Result, Route
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
            days=_number(days) if days else None,
            datasets=[str(form["dataset"])] if form.get("dataset") else None,
        )
    except (ScumbleError, Problem) as error:
        return _page(service, call, problem=problem_of(error, owner=True))
    return _page(service, call, made={"text": text, "token": token})


def revoke(service: Service, call: Call) -> Result:
    """Revoke a token, and show the list again."""
    service.tokens.revoke(str(call.body.get("prefix", "")))
    return redirect("/tokens")


def usage(service: Service, call: Call) -> Result:
    """Which analyst asked how much of which data set."""
    found = []
    for data in service.catalogue:
        if data.kind != "database":
            continue
        asked: Counter[str] = Counter()
        charged: Counter[str] = Counter()
        for event in data.history(None):
            name = event["analyst"] or "(nobody)"
            asked[name] += 1
            charged[name] += event["new numbers"]
        people = [(name, asked[name], charged[name]) for name in sorted(asked)]
        found.append({"data": data, "status": data.status(None), "people": people})
    return render("usage.html", found=found, **shared(service, call))


def _page(service: Service, call: Call, **values: Any) -> Result:
    known = {"made": None, "problem": None, **values}
    listed = service.tokens.all()[::-1]
    return render("tokens.html", tokens=listed, roles=ROLES, **shared(service, call), **known)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Problem(422, "The days must be a number.") from None


ROUTES = (
    Route("GET", "/tokens", "page: tokens", OWNER, tokens, "Tokens."),
    Route("POST", "/tokens", "page: new token", OWNER, create, "Make a token."),
    Route("POST", "/tokens/revoke", "page: revoke", OWNER, revoke, "Revoke a token."),
    Route("GET", "/usage", "page: usage", OWNER, usage, "Who used how much."),
)
