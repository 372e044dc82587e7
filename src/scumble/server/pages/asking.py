"""Pages of analysts: data sets, the question, its cost and its answer, and the own history."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from markupsafe import Markup

from scumble.model.errors import PromiseError, QueryError, ScumbleError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.numbers import Number
from scumble.private.database.live.database import widest
from scumble.private.database.live.results import LiveAnswer, LiveCost
from scumble.private.database.plan import Relax
from scumble.private.database.results import Answer, Cost
from scumble.public.estimate import (
    Estimate,
    Estimates,
    format_number,
    format_selected,
    format_value,
)
from scumble.public.estimate_table import EstimateTable, SelectedEstimates
from scumble.public.sql.names import sql_name
from scumble.server.answer_json import AnyEstimate
from scumble.server.catalogue import AskedQuestion, Dataset, LiveDataset
from scumble.server.http.formats import CSV, PARQUET, csv_text, parquet_bytes
from scumble.server.http.routes import ASKING, EVERYBODY, Call, Result, Route
from scumble.server.pages.auditing import audit
from scumble.server.pages.drawings import (
    Scale,
    axis_drawing,
    interval_drawing,
    room_strip,
    row_drawing,
    used_drawing,
)
from scumble.server.pages.gates import render, shared
from scumble.server.problems import Problem, problem_of
from scumble.server.service import Service

LEVEL = 0.95
_MOST_ROWS = 500  # of a table on the page; all of them are in the download
_MOST_VALUES = 40  # of a column in the list of what can be asked
_MOST_CELLS = 120  # of a strip
_LEVELS = ("0.9", "0.95", "0.99")
_BEST = 1e-9  # rows: a half-width that nothing reaches


# --- handlers -------------------------------------------------------------------------------------


def home(service: Service, call: Call) -> Result:
    """The data sets that the user may see."""
    return render("home.html", **shared(service, call))


def dataset(service: Service, call: Call) -> Result:
    """A data set: what it is, and for those who may ask, the question box."""
    if call.user.role == "auditor":
        return audit(service, call)
    return _page(service, call, str(call.query.get("sql", ""))[:5000])


def cost(service: Service, call: Call) -> Result:
    """What a question would cost, as a part of the page; free of charge."""
    sql = str(call.body.get("sql", "")).strip()
    values: dict[str, Any] = {"data": call.data, "cost": None, "forecast": "", "problem": None}
    try:
        if sql:
            question = _question(call, sql)
            if isinstance(call.data, LiveDataset):
                live = _best(call.data, question)
                forecast = live_forecast(live, question)
                status = live.status if question.within else "known"
                values |= {"cost": {"status": status}, "forecast": forecast}
            else:
                found, statuses = cast(Cost, call.data.cost(question)), list[str]()
                if found.limit is None or found.status == "relaxed":
                    # It raises what a release refuses, and says what is not answered.
                    statuses = _statuses(call.data.describe_result(question))
                values |= {"cost": found, "forecast": _forecast(found, statuses)}
    except (ScumbleError, Problem) as error:
        values["problem"] = problem_of(error, owner=call.user.role == "owner")
    return render("cost.html", **values)


def _best(data: LiveDataset, question: AskedQuestion) -> LiveCost:
    """Return what a question would cost. Without an accuracy it is the best one that is allowed, of
    one number that takes any; for many that would take long while somebody writes.
    """
    if question.within is not None:
        return data.cost(question)
    known = data.describe_result(question)
    if isinstance(known, Estimate):
        with suppress(QueryError):
            return data.cost(replace(question, within=_BEST))
    width = widest(known, question.level)
    return LiveCost("known", width, width, 0.0, 0.0, 0.0)


def ask(service: Service, call: Call) -> Result:
    """The answer to a question: a part of the page, or all of it without JavaScript."""
    sql = str(call.body.get("sql", "")).strip()
    values: dict[str, Any] = {"answer": None, "problem": None, "refused": False}
    try:
        if not sql:
            raise Problem(422, "Write a question first.")
        question = _question(call, sql)
        reply = call.data.answer(question)
        service.metrics.answered(reply)
        values["answer"] = AnswerView(call.data, question, str(call.body.get("key", "")), reply)
    except (ScumbleError, Problem) as error:
        values["problem"] = problem_of(error, owner=call.user.role == "owner")
        values["refused"] = isinstance(error, PromiseError)
    if not call.headers.get("htmx"):
        asked = {name: str(call.body.get(name, "")) for name in ("within", "level")}
        return _page(service, call, sql, **values, **asked)
    values |= {"csrf": call.headers["csrf"], "data": call.data, "key": secrets.token_hex(8)}
    values["room"] = _room(call.data)
    return render("answer.html", 200, oob=True, **values)


def download(service: Service, call: Call) -> Result:
    """The answer to a question that was asked, as a file: a repeat, free of charge."""
    sql, wanted = str(call.body.get("sql", "")), call.body.get("format")
    if wanted not in ("csv", "parquet"):
        raise Problem(422, "The format must be csv or parquet.")
    question = _question(call, sql)
    answer, level = call.data.answer(question).estimate, question.level
    name = f'attachment; filename="{call.data.name}.{wanted}"'
    if wanted == "csv":
        return Result(csv_text(answer, level), 200, CSV, {"Content-Disposition": name})
    return Result(parquet_bytes(answer, level), 200, PARQUET, {"Content-Disposition": name})


def history(service: Service, call: Call) -> Result:
    """The questions of the analyst; an owner sees those of all."""
    found = call.data.history(call.analyst)[-200:][::-1]
    return render("history.html", data=call.data, events=found, **shared(service, call))


def _page(service: Service, call: Call, sql: str, **values: Any) -> Result:
    data = call.data
    known = {"answer": None, "problem": None, "refused": False, "within": "", "level": "", **values}
    return render(
        "ask.html",
        data=data,
        sql=sql,
        key=secrets.token_hex(8),
        examples=examples(data),
        columns=[column_facts(data, name) for name in data.columns],
        words=completions(data),
        limits=data.describe()["limits"],
        room=_room(data),
        levels=_LEVELS,
        oob=False,
        **shared(service, call),
        **known,
    )


def _question(call: Call, sql: str) -> AskedQuestion:
    key = str(call.body.get("key", "")) or None
    if call.data.kind == "live":
        within = str(call.body.get("within", "")).strip() or None
        level = str(call.body.get("level", "")) or str(LEVEL)
        if level not in _LEVELS:
            raise Problem(422, f"The level must be one of {', '.join(_LEVELS)}.")
        key = key if within else None  # what is free leaves no entry in the journal
        return AskedQuestion(sql, call.user.name, key, within, float(level))
    relax = str(call.body.get("relax", "")) or "regression"
    return AskedQuestion(sql, call.user.name, key=key, relax=cast(Relax, relax))


# --- what is shown --------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswerView:
    """An answer as the page shows it."""

    data: Dataset
    question: AskedQuestion
    key: str
    reply: Answer | LiveAnswer

    @property
    def sql(self) -> str:
        return self.question.sql

    @property
    def level(self) -> float:
        return self.question.level

    @property
    def percent(self) -> str:
        return f"{100 * self.level:g} %"

    @property
    def live(self) -> LiveAnswer | None:
        return self.reply if isinstance(self.reply, LiveAnswer) else None

    @property
    def verdict(self) -> str:
        """What became of a question to a live database, in words."""
        return "" if self.live is None else live_verdict(self.live, self.question)

    @property
    def fresh(self) -> str:
        """The interval of the one new measurement of a live database alone, in words."""
        if self.live is None or len(self.live.fresh) != 1:
            return ""
        [found] = self.live.fresh.values()
        low, high = (format_number(limit, found.stderr) for limit in found.interval(self.level))
        return f"{format_value(found)}, {self.percent}: {low} to {high}"

    @property
    def one(self) -> Estimate | None:
        answer = self.reply.estimate
        return answer if isinstance(answer, Estimate) else None

    @property
    def value(self) -> str:
        return "" if self.one is None else format_value(self.one)

    @property
    def interval(self) -> str:
        """The interval in words; empty where there is none."""
        if self.one is None:
            return ""
        low, high = self.one.interval(self.level)
        if low == high:
            return "exactly"
        if not (abs(low) < float("inf") or abs(high) < float("inf")):
            return ""
        return " to ".join(format_number(limit, self.one.stderr) for limit in (low, high))

    @property
    def typical(self) -> str:
        """The typical interval in words; empty where there is none."""
        return "" if self.one is None else self.one.typical_label(self.level)

    @property
    def drawing(self) -> Markup:
        return Markup("") if self.one is None else interval_drawing(self.one, self.level)

    @property
    def relaxed(self) -> str:
        """The condition that was answered instead, if the question was relaxed."""
        answered = getattr(self.one, "answered", "")
        return answered if getattr(self.one, "status", "") == "relaxed" else ""

    @property
    def exact(self) -> bool:
        """Whether a relaxed answer is about exactly what was asked."""
        return not getattr(self.one, "distance", 1.0)

    @property
    def notes(self) -> list[str]:
        return list(self.reply.estimate.notes)

    @property
    def table(self) -> dict[str, Any] | None:
        return None if self.one is not None else _table(self.reply.estimate, self.level)

    @property
    def cost(self) -> str:
        """What was charged, in words."""
        if self.data.kind == "release":
            return "Free: a release has been paid for."
        if self.live is not None and self.live.charged:
            return f"Charged: {_share(self.live.charged)}, where most was bought for it."
        if not self.reply.charged:
            return "Free: nothing new was charged."
        numbers = (
            "one new number" if self.reply.charged == 1 else f"{self.reply.charged} new numbers"
        )
        return f"Charged: {numbers}."

    @property
    def used(self) -> Markup:
        if isinstance(self.reply, LiveAnswer):
            return Markup("")
        used, limit = self.reply.used, self.reply.limit
        return Markup("") if used is None or limit is None else used_drawing(used, limit)


def _table(answer: AnyEstimate, level: float) -> dict[str, Any]:
    """Return header and rows of a table of estimates, each with its bar on a common scale."""
    if isinstance(answer, EstimateTable):
        names, level = answer.items, answer.shown_level(level)
        rows: Sequence[tuple[Any, Sequence[Estimate]]] = answer.rows
    else:
        assert isinstance(answer, Estimates)  # noqa: S101
        names = (answer.alias or "value",)
        level = answer.shown_level(level) if isinstance(answer, SelectedEstimates) else level
        rows = [(key, (each,)) for key, each in answer.rows]
    shown = rows[:_MOST_ROWS]
    scales = [
        Scale.of([x for _, row in shown for x in row[place].interval(level)])
        for place in range(len(names))
    ]
    return {
        "groups": answer.headings,
        "names": names,
        "level": f"{100 * level:.4g} %",
        "rows": [
            (
                answer.labels(key),
                [_cell(each, level, scale) for each, scale in zip(row, scales, strict=True)],
            )
            for key, row in shown
        ],
        "axes": [Markup("") if scale is None else axis_drawing(scale) for scale in scales],
        "more": len(rows) - len(shown),
    }


def _cell(estimate: Estimate, level: float, scale: Scale | None) -> dict[str, Any]:
    limits = estimate.interval(level)
    low, high = (format_number(limit, estimate.stderr) for limit in limits)
    return {
        "value": format_value(estimate),
        "interval": "exactly" if limits[0] == limits[1] else f"{low} to {high}",
        "typical": estimate.typical_label(level),
        "selected": format_selected(estimate),
        "status": estimate.status_label,
        "instead": estimate.counted_instead,
        "bar": row_drawing(estimate, level, scale),
    }


def _statuses(answer: AnyEstimate) -> list[str]:
    """Return the status of each number of an answer."""
    if isinstance(answer, Estimate):
        return [answer.status_label]
    if isinstance(answer, EstimateTable):
        return [each.status_label for _, row in answer.rows for each in row]
    return [each.status_label for _, each in answer.rows]


def _forecast(found: Cost, statuses: Sequence[str]) -> str:
    """Return a forecast in words; `statuses` are those of the numbers of a relaxed answer."""
    if found.limit is None:
        return "Free: answers of a release cost nothing."
    status, stderr = found.status, found.stderr
    error = f" with a standard error of {format_number(stderr, stderr)}" if stderr else " exactly"
    error = error if math.isfinite(stderr) else ""
    number = found.charged
    words = "one new number" if number == 1 else f"{number} new numbers"
    if status == "answered":
        return f"Will be answered{error}; costs {words}."
    if status == "repeated":
        return f"Was answered before: free, the same answer{error}."
    if status == "relaxed":
        price = f"costs {words}" if number else "free"
        if set(statuses) == {"not answered"}:
            return "Will not be answered: the promise is used up here, and no earlier answer helps."
        parts = sum(each in ("relaxed", "not answered") for each in statuses)
        if parts < len(statuses):
            gone = "not answered" in statuses and "relaxed" not in statuses
            becomes = "not be answered" if gone else "be made of earlier answers"
            made = f"Those will {becomes}, the others answered"
            return (
                f"The promise is used up for {parts} of {len(statuses)} numbers. {made}; {price}."
            )
        return f"The promise is used up here. Will be made of earlier answers{error}; {price}."
    return f"Will be refused, and not charged: {found.reason}"


def live_forecast(found: LiveCost, question: AskedQuestion) -> str:
    """Return in words what is known now, and what an accuracy would cost."""
    at = f"at {100 * question.level:g} %"
    now = f"Known now: within ±{_width(found.half_width)} {at}, free."
    if found.status == "known":
        return now
    best = f"±{_width(found.affordable)}, for {_share(found.charged)}"
    if question.within is None:
        if not found.charged:
            return f"{now} Nothing better can be bought here."
        return f"{now} The best that can be bought now is {best}."
    room = f"at most {100 * found.room:.3g} % may be spent at once"
    if found.status == "answered":
        return f"{now} Ask reaches {best}; {room}."
    missing = f"±{question.within} costs {_needed(found.needed)}; {room}."
    if not found.charged:
        return f"{now} {missing} Nothing will be bought: it would gain too little."
    return f"{now} {missing} Ask reaches {best}."


def live_verdict(found: LiveAnswer, question: AskedQuestion) -> str:
    """Return in words whether a live database has reached an accuracy."""
    width = f"Within ±{_width(found.half_width)} at {100 * question.level:g} %"
    if found.status == "known":
        wanted = "" if question.within is None else ", as you asked"
        return f"{width}{wanted}: known already, so nothing was measured."
    if found.status == "answered":
        return f"{width}, as you asked: what was missing was measured."
    return (
        f"{width}: the best that is allowed. What you asked for would have cost "
        f"{_needed(found.needed)} at once."
    )


def _needed(share: float) -> str:
    return "more than the whole promise" if share > 1 else _share(share)


def _share(share: float) -> str:
    return f"{100 * share:.3g} % of what is for purchases"


def _width(half_width: float) -> str:
    return format_number(half_width, half_width)


def column_facts(data: Dataset, name: str) -> dict[str, Any]:
    """Return the name, the kind and the allowed values of a column, for the list on the page."""
    attribute = data.schema[name]
    values = _values(attribute)
    alone = "; its sums and averages alone" if name in data.sums_alone else ""
    return {
        "name": attribute.name,
        "kind": attribute.kind,
        "domain": f"{attribute.describe()}{alone}",
        "values": values[:_MOST_VALUES],
        "more": max(len(values) - _MOST_VALUES, 0),
    }


def _values(attribute: Attribute) -> list[str]:
    domain = attribute.domain
    return list(map(str, domain.values)) if isinstance(domain, Category) else []


def completions(data: Dataset) -> list[str]:
    """Return the words that the question box completes: columns, values, words of SQL."""
    values = [f"'{each}'" for name in data.columns for each in _values(data.schema[name])]
    sql = "SELECT COUNT(*) SUM( AVG( FROM WHERE AND OR NOT IN ( BETWEEN GROUP BY ORDER BY HAVING"
    return [*data.columns, *values[:2000], *sql.split()]


def examples(data: Dataset) -> list[str]:
    """Return questions about a data set that can be asked as they are."""
    numbers = [name for name in data.columns if data.schema[name].kind in ("integer", "number")]
    groups = [name for name in data.columns if 1 < len(_values(data.schema[name])) <= 30]
    found = ["SELECT COUNT(*) FROM t"]
    quoted = {name: sql_name(name) for name in data.columns}
    if numbers:
        name = numbers[0]
        domain = data.schema[name].number or data.schema[name].domain
        if isinstance(domain, IntegerRange | Number) and name not in data.sums_alone:
            middle = (domain.low + domain.high) // 2
            found.append(f"SELECT COUNT(*) FROM t WHERE {quoted[name]} >= {middle}")
        found.append(f"SELECT AVG({quoted[name]}) FROM t")
    if groups:
        name = quoted[groups[0]]
        found.append(f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}")
    if groups and data.sums_alone:
        amount = quoted[data.sums_alone[0]]
        found.append(f"SELECT {name}, AVG({amount}) FROM t GROUP BY {name}")
    return found


def _room(data: Dataset) -> list[dict[str, Any]]:
    """Return for each attribute a strip of how much of the promise is free at its values."""
    found = []
    for attribute, used in data.usage_by_value():
        step = max(1, -(-len(used) // _MOST_CELLS))
        parts = [used[at : at + step] for at in range(0, len(used), step)]
        free = 1 - sum(used) / len(used)
        words = f"{attribute.name}: {100 * free:.3g} % free"
        strip = room_strip([sum(part) / len(part) for part in parts], words)
        found.append({"name": attribute.name, "strip": strip, "free": f"{100 * free:.3g} %"})
    return found


ROUTES = (
    Route("GET", "/", "page: home", EVERYBODY, home, "The data sets."),
    Route("GET", "/data/{dataset}", "page: data set", EVERYBODY, dataset, "Ask a data set."),
    Route("POST", "/data/{dataset}/cost", "page: cost", ASKING, cost, "The cost of a question."),
    Route("POST", "/data/{dataset}/ask", "page: ask", ASKING, ask, "Answer a question."),
    Route("POST", "/data/{dataset}/download", "page: download", ASKING, download, "An answer."),
    Route("GET", "/data/{dataset}/history", "page: history", ASKING, history, "Own questions."),
)
