"""The HTTP interface /api/v1: its routes, and what each does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scumble._version import __version__
from scumble.model.stored import without_infinity
from scumble.private.database.live.results import LiveAnswer, LiveCost
from scumble.private.database.results import Answer, Cost
from scumble.server.answer_json import encode_answer, encode_live
from scumble.server.catalogue import AskedQuestion
from scumble.server.http import owner_api
from scumble.server.http.formats import ARROW, CSV, JSON, arrow_bytes, csv_text, preferred
from scumble.server.http.openapi import document
from scumble.server.http.routes import (
    ASKING,
    AUDITING,
    EVERYBODY,
    Call,
    Field,
    Result,
    Route,
    api_route,
)
from scumble.server.problems import Problem

if TYPE_CHECKING:
    from scumble.server.service import Service

_RELAX = ("regression", "compound", "refuse")
_PREFER = ("near", "exact")
_LEVEL = Field("level", "number", "Level of low and high.", least=0.000001, most=0.999999)
_QUESTION = (
    Field("sql", "string", "The question, as SQL.", required=True),
    Field("relax", "string", "When the promise is used up.", choices=_RELAX),
    Field("prefer", "string", "The box itself first, or a box nearby.", choices=_PREFER),
    Field("max_relaxation_error", "number", "Refuse what is further off.", least=0, most=1e300),
)
_WITHIN = Field(
    "within",
    "amount",
    'Of a live database: the half-width that is wanted, as 50 or "0.1%" of the rows.',
    longest=40,
)
_HOW = ("relax", "prefer", "max_relaxation_error", "within")  # which of them depends on the data
_KEY = Field("key", "string", "Idempotency key: asked again with it, answered once.", longest=120)
_ASKED = ("sql", "key", "level", *_HOW)
_MOST_HISTORY = 10_000


# --- asking ---------------------------------------------------------------------------------------


def list_datasets(service: Service, call: Call) -> Result:
    allowed = [each for each in service.catalogue if call.user.allows(each.name)]
    return Result({"datasets": [each.summary() for each in allowed]})


def describe_dataset(service: Service, call: Call) -> Result:
    return Result(call.data.describe())


def answer(service: Service, call: Call) -> Result:
    return _answered(service, call, call.data.answer(_question(call)))


def answer_all(service: Service, calls: Sequence[Call]) -> list[Result | Exception | None]:
    """Answer those of some calls about one data set that take little time."""
    found = calls[0].data.answer_all([_question(call) for call in calls])
    results: list[Result | Exception | None] = []
    for call, each in zip(calls, found, strict=True):
        try:
            if each is None or isinstance(each, Exception):
                results.append(each)
            else:
                results.append(_answered(service, call, each))
        except Exception as error:  # of one answer only
            results.append(error)
    return results


def _answered(service: Service, call: Call, reply: Answer | LiveAnswer) -> Result:
    level = float(call.body.get("level", 0.95))
    service.metrics.answered(reply)
    media = preferred(call.headers.get("accept", ""))
    if media == ARROW:
        return Result(arrow_bytes(reply.estimate, level), media_type=ARROW)
    if media == CSV:
        return Result(csv_text(reply.estimate, level), media_type=CSV)
    if isinstance(reply, LiveAnswer):
        return Result(encode_live(reply, level), media_type=JSON)
    found = encode_answer(reply.estimate, level)
    names = ("status", "charged", "used", "limit")
    cost = {name: getattr(reply, name) for name in names}
    return Result({**found, "cost": cost}, media_type=JSON)


def cost(service: Service, call: Call) -> Result:
    return Result(_members(call.data.cost(_question(call))))


def _members(cost: Cost | LiveCost) -> dict[str, Any]:
    found: dict[str, Any] = without_infinity(asdict(cost))
    return found


def cost_all(service: Service, calls: Sequence[Call]) -> list[Result | Exception | None]:
    """Return what those of some calls about one data set would cost that take little time."""
    found = calls[0].data.cost_all([_question(call) for call in calls])
    return [
        each if each is None or isinstance(each, Exception) else Result(_members(each))
        for each in found
    ]


def history(service: Service, call: Call) -> Result:
    last = int(call.query.get("last", 1000))
    return Result({"history": [asdict(each) for each in call.data.history(call.analyst)[-last:]]})


def status(service: Service, call: Call) -> Result:
    analyst = call.user.name if call.user.role == "analyst" else None
    status = call.data.status(analyst)
    return Result({"free": True} if status is None else asdict(status))


def _question(call: Call) -> AskedQuestion:
    given = {name: call.body[name] for name in _ASKED if name in call.body}
    for name in _HOW:
        if name in given and name not in call.data.takes:
            kind = "live databases" if name == "within" else "databases with one noise for all"
            raise Problem(422, f"{name!r} is for {kind}: leave it out.", {"member": name})
    return AskedQuestion(**given, analyst=call.user.name)


# --- auditing -------------------------------------------------------------------------------------


def ledger(service: Service, call: Call) -> Result:
    found = call.data.chain(int(call.query.get("after", 0)))
    return Result({**found, "entries": found["entries"][:_MOST_HISTORY]})


def verify(service: Service, call: Call) -> Result:
    findings = call.data.verify(call.body.get("seal"))
    return Result({"intact": not findings, "findings": findings})


def certificate(service: Service, call: Call) -> Result:
    return Result(call.data.certificate(), media_type="text/html; charset=utf-8")


# --- anybody --------------------------------------------------------------------------------------


def health(service: Service, call: Call) -> Result:
    return Result({"status": "ok", "version": __version__})


def ready(service: Service, call: Call) -> Result:
    if not service.ready:
        raise Problem(503, "The server is starting: data sets are being read.")
    return Result({"status": "ready", "datasets": len(list(service.catalogue))})


def metrics(service: Service, call: Call) -> Result:
    return Result(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def openapi(service: Service, call: Call) -> Result:
    return Result(json.loads(json.dumps(document(ROUTES))))


_DATASET = "datasets/{dataset}"
# Routes are tried in this order: what is asked most often comes first.
ROUTES = (
    api_route(
        "POST", f"{_DATASET}/answer", "answer", ASKING, answer,
        "Answer a question. JSON, or with the header Accept an Arrow stream or CSV.",
        body=(*_QUESTION, _WITHIN, _KEY, _LEVEL), statuses=(409,), together=answer_all,
    ),
    api_route(
        "POST", f"{_DATASET}/cost", "cost", ASKING, cost,
        "What a question would cost, and its error. Free of charge.",
        body=(*_QUESTION, _WITHIN, _LEVEL), together=cost_all,
    ),
    Route("GET", "/healthz", "health", (), health, "Whether the server runs."),
    Route(
        "GET", "/readyz", "ready", (), ready, "Whether data sets can be asked.",
        statuses=(503,),
    ),
    Route(
        "GET", "/metrics", "metrics", (), metrics, "Counters for Prometheus.",
        returns="text/plain",
    ),
    api_route("GET", "openapi.json", "openapi", (), openapi, "This description."),
    api_route("GET", "datasets", "datasets", EVERYBODY, list_datasets, "The data sets."),
    api_route(
        "GET", _DATASET, "dataset", EVERYBODY, describe_dataset,
        "Schema, guarantees and limits of a data set.",
    ),
    api_route(
        "GET", f"{_DATASET}/history", "history", ASKING, history,
        "The questions that were asked; analysts see their own.",
        query=(Field("last", "integer", "The latest entries only.", least=1, most=_MOST_HISTORY),),
    ),
    api_route(
        "GET", f"{_DATASET}/status", "status", ASKING, status,
        "What is used of the promise, and what is left.",
    ),
    api_route(
        "GET", f"{_DATASET}/ledger", "ledger", AUDITING, ledger,
        "Entries of the journal with their hashes, and its seal; no questions, no answers.",
        query=(Field("after", "integer", "Only entries after this number.", least=0),),
        statuses=(409,),
    ),
    api_route(
        "POST", f"{_DATASET}/verify", "verify", AUDITING, verify,
        "Check the chain of entries, and that it continues a seal.",
        body=(Field("seal", "string", "A seal that was kept: number and hash.", longest=200),),
        statuses=(409,),
    ),
    api_route(
        "GET", f"{_DATASET}/certificate", "certificate", AUDITING, certificate,
        "The certificate, as an HTML page.", returns="text/html",
    ),
    *owner_api.ROUTES,
)  # fmt: skip
