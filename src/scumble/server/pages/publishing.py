"""Pages on which an owner makes a data set: table, schema, comparison, release or database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scumble.compare.chart import Mark, assign_colours, draw_chart
from scumble.families import families
from scumble.model.errors import ScumbleError
from scumble.model.family import USES as HEADINGS
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.private.database.tables import queryable_schema
from scumble.private.database.terms import DatabaseTerms
from scumble.private.expectation import expectation, public_rows
from scumble.private.manifest import for_people
from scumble.private.mechanism import cautions_of, mechanism_class
from scumble.private.recommend import CARE_LEVELS, DATABASE, USES, Advice
from scumble.server.config import check_name
from scumble.server.http.routes import OWNER, Call, Field, Result, Route
from scumble.server.pages.gates import redirect, render, shared
from scumble.server.pages.questions import (
    OWN,
    ROLE_WORDS,
    Column,
    advise,
    describe_method,
    filled_in,
    not_recommended,
    open_checks,
    read_answers,
    read_schema,
    recipe_of,
)
from scumble.server.problems import Problem, problem_of
from scumble.server.publishing.drafts import Draft
from scumble.server.publishing.service import UPLOAD, protected
from scumble.server.service import Service

_FIRST = ("uniform", "subset", "marginals", "histogram", "sparse")  # compared unless others are
_EPSILONS = "0.5, 1, 2"
_MOST_COMPARED = 60  # settings of one comparison
_FIELDS = ("kind", "choice", "epsilon", "noise", "attributes")
_QUESTIONS = "most_rows"  # a field that stands in the form of the questions alone
_RECOMMENDED = "recommended"
_FIRST_QUESTIONS = "Answer the five questions first."


# --- tables ---------------------------------------------------------------------------------------


def start(service: Service, call: Call) -> Result:
    """The tables that something can be made of, and the drafts."""
    drafts = [
        {"draft": each, "job": service.publishing.jobs.of(each.number)}
        for each in service.publishing.drafts()
    ]
    return render(
        "publish.html",
        sources=service.settings.sources,
        drafts=drafts,
        limit=service.limits.upload,
        **shared(service, call),
    )


def begin(service: Service, call: Call) -> Result:
    """Begin with a table of the configuration."""
    draft = service.publishing.new_draft(str(call.body.get("source", "")))
    if draft.schema is None:
        service.publishing.propose(draft)
    return redirect(f"/publish/{draft.number}")


def upload(service: Service, call: Call) -> Result:
    """Begin with a table that was sent; the script of the page follows the address."""
    draft = call.body["draft"]
    service.publishing.propose(draft)
    return Result("", 200, headers={"X-Location": f"/publish/{draft.number}"})


def delete(service: Service, call: Call) -> Result:
    """Delete a draft, with a table that was sent."""
    service.publishing.delete(_draft(service, call))
    return redirect("/publish")


# --- one draft ------------------------------------------------------------------------------------


def show(service: Service, call: Call) -> Result:
    """A draft: its schema, the comparison, and what can be made of it."""
    return _page(service, call, _draft(service, call))


def job(service: Service, call: Call) -> Result:
    """How far the work about a draft is, as a part of its page; at its end the page is loaded."""
    draft = _draft(service, call)
    if not call.headers["htmx"]:
        return redirect(f"/publish/{draft.number}")
    found = service.publishing.jobs.of(draft.number)
    fresh = {} if found is not None and found.running else {"HX-Refresh": "true"}
    part = render("job.html", job=found, draft=draft, csrf=call.headers["csrf"])
    return Result(part.content, part.status, part.media_type, fresh)


def cancel(service: Service, call: Call) -> Result:
    """Cancel the work about a draft."""
    draft = _draft(service, call)
    found = service.publishing.jobs.of(draft.number)
    if found is not None:
        service.publishing.jobs.cancel(found.number)
    return redirect(f"/publish/{draft.number}")


def answer(service: Service, call: Call) -> Result:
    """Keep the answers to the five questions: schema, unit, use, care and name."""
    draft = _draft(service, call)
    try:
        if draft.schema is None:
            raise Problem(409, "There is no schema yet.")
        schema = read_schema(draft.schema, call.body, draft.withheld)
        answers = read_answers(call.body)
        check_name(answers.name)
        service.publishing.save_schema(draft, schema)
        service.publishing.save_answers(draft, answers)
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}#method")


def shares(service: Service, call: Call) -> Result:
    """Begin to count which share of the rows bounds on the rows of a person keep."""
    draft = _draft(service, call)
    person = str(call.body.get("person", ""))
    try:
        if draft.schema is None or person not in draft.schema:
            raise Problem(422, "Say which column names the person.")
        # Who counts the rows of a person says that rows are events. The page is loaded again.
        draft.keep_form({**call.body, "unit": "person"})
        service.publishing.count_shares(draft, person)
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}")


def save_text(service: Service, call: Call) -> Result:
    """Keep the whole schema as TOML."""
    draft = _draft(service, call)
    try:
        service.publishing.save_schema(draft, Schema.loads(str(call.body.get("toml", ""))))
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}")


def compare(service: Service, call: Call) -> Result:
    """Begin a comparison, on a stand-in or on the table."""
    draft = _draft(service, call)
    try:
        known = [name for names in _comparable().values() for name in names]
        methods = [name for name in known if call.body.get(f"method-{name}")]
        epsilons = _numbers(str(call.body.get("epsilons", "")))
        if not 0 < len(methods) * len(epsilons) <= _MOST_COMPARED:
            most = f"at most {_MOST_COMPARED} settings in all"
            raise Problem(422, f"Choose methods and numbers for ε: at least one of each, {most}.")
        table = bool(call.body.get("table"))
        service.publishing.compare(draft, methods, epsilons, preview=not table)
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}")


def check(service: Service, call: Call) -> Result:
    """Show what would be promised and charged, before anything is made."""
    draft = _draft(service, call)
    try:
        return _page(service, call, draft, plan=_plan(service, draft, call.body))
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)


def make(service: Service, call: Call) -> Result:
    """Begin to publish a release, or to create a database."""
    draft = _draft(service, call)
    try:
        plan = _plan(service, draft, call.body)
        source, recipe = UPLOAD + draft.number, plan["recipe"]
        about = {"title": plan["title"], "description": plan["description"]}
        service.publishing.make(plan["name"], source, draft.text, recipe, draft=draft, **about)
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}")


def _draft(service: Service, call: Call) -> Draft:
    return service.publishing.draft(call.path["draft"])


def _page(
    service: Service,
    call: Call,
    draft: Draft,
    problem: Exception | None = None,
    plan: Mapping[str, Any] | None = None,
) -> Result:
    schema, answers = draft.schema, draft.answers
    columns, published = ((), ()) if schema is None else (tuple(schema), schema.published)
    withheld = draft.withheld
    try:
        advice = None if schema is None or answers is None else _advice(service, draft)
    except ScumbleError as error:
        advice, problem = None, problem or error
    shown = None if problem is None else problem_of(problem, owner=True)
    asked = {} if schema is None else filled_in(schema, answers, draft)
    kept = {} if _QUESTIONS in call.body else draft.form
    form = {**dict.fromkeys(_FIELDS, ""), **asked, **kept, **call.body}
    job = service.publishing.jobs.of(draft.number)
    return render(
        "draft.html",
        200 if shown is None else shown.status,
        draft=draft,
        job=job,
        remarks=(job.result or {}).get("remarks", []) if job and job.state == "done" else [],
        columns=[
            Column.of(withheld.get(each.name, each), each.role, place, form)
            for place, each in enumerate(columns)
        ],
        checks=[] if schema is None else open_checks(schema, draft),
        suggested=_suggested(draft),
        published=[each.name for each in published],
        hidden=[each.name for each in columns if each not in published],
        toml="" if schema is None else schema.dumps(),
        roles=ROLE_WORDS,
        uses=USES,
        levels=CARE_LEVELS,
        own=OWN,
        advice=advice,
        other_methods={} if advice is None else not_recommended(advice),
        describe=describe_method,
        comparison=_comparison(draft),
        methods=_comparable(),
        first=_FIRST,
        epsilons=_EPSILONS,
        made=[name for name in draft.made if service.catalogue.get(name) is not None],
        plan=plan,
        problem=shown,
        form=form,
        **shared(service, call),
    )


def _suggested(draft: Draft) -> str:
    """Return what the table suggests that one row stands for: "row", "person", or nothing."""
    unit = draft.schema.unit if draft.proposed and draft.answers is None and draft.schema else None
    return "" if unit is None else "row" if unit.person is None else "person"


def _advice(service: Service, draft: Draft) -> Advice:
    """Return the recommendation for the answers of a draft; raises `Problem` without them."""
    if draft.schema is None or draft.answers is None:
        raise Problem(409, _FIRST_QUESTIONS)
    return advise(draft.schema, draft.answers, service.publishing.neighbours)


# --- comparison and plan --------------------------------------------------------------------------


def _comparison(draft: Draft) -> dict[str, Any] | None:
    """Return the comparison on the table if there is one, else the preview, with its chart."""
    found = draft.comparison(preview=False) or draft.comparison(preview=True)
    if found is None:
        return None
    marks = [
        Mark(
            each["method"],
            each["words"],
            each["success"],
            math.nan if each["error"] is None else each["error"],
            each["private"],
            each["whole"],
            each["limit"],
            bool(each["beaten by"]),
            each.get("worst"),
        )
        for each in found["points"]
    ]
    chart = draw_chart(marks, found["blind"], found["measure"], percent=True)
    colours = assign_colours([each.method for each in marks])
    points = [
        {**each, "attacker": _percent(each["success"]), "shown": _percent(each["error"])}
        for each in found["points"]
    ]
    shown = {"points": points, "chart": chart, "colours": colours, "which": _which(found)}
    return {**found, **shown}


def _percent(share: float | None) -> str:
    """Return a share as percents with three digits; empty for None."""
    if share is None:
        return ""
    return f"{100 * share:,.0f} %" if share >= 1 else f"{100 * share:.3g} %"


def _which(comparison: Mapping[str, Any]) -> str:
    return "preview" if comparison["preview"] else "table"


def _plan(service: Service, draft: Draft, form: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the form asks for, with its promise, its expected error and its charge."""
    schema, answers = draft.schema, draft.answers
    if schema is None or answers is None:
        raise Problem(409, _FIRST_QUESTIONS)
    recipe = _database(form) if form.get("kind") == "database" else _chosen(service, draft, form)
    mechanism = protected(schema, recipe)
    if mechanism is None:
        asked = queryable_schema(schema, recipe["attributes"])
        method, names = DATABASE, [each.name for each in asked]
        promise, outlook = _database_promise(recipe)
    else:
        method = recipe["method"]
        known = mechanism.read_schema(schema)
        mechanism.check(known)
        promises = for_people(mechanism, known, mechanism.guarantee(known))
        names = list(mechanism.named_columns) or [each.name for each in known.published]
        promise = list(map(str, promises))
        rows = public_rows(mechanism, answers.rows or None)
        outlook = [*cautions_of(mechanism, known), *expectation(mechanism, known, rows)]
    return {
        "name": answers.name,
        "title": answers.title or answers.name,
        "description": answers.description,
        "recipe": recipe,
        "method": method,
        "publishes": describe_method(method),
        "published": names,
        "hidden": [each.name for each in schema if each.name not in names],
        "from_data": [name for name in schema.from_data if name in names],
        "unit": (schema.unit or Unit()).describe(),
        "promise": promise,
        "outlook": outlook,
        "bill": service.publishing.bill(schema, recipe),
        "form": {name: form[name] for name in _FIELDS if name in form},
    }


def _chosen(service: Service, draft: Draft, form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe of a recommended method, or of a setting of the comparison."""
    which, _, number = str(form.get("choice", "")).partition(":")
    if which == _RECOMMENDED:
        advice = _advice(service, draft)
        recipes = [recipe_of(each) for each in (advice.best, *advice.alternatives)]
    else:
        found = draft.comparison(preview=which == "preview")
        recipes = [
            {"kind": "release", "method": each["method"], "parameters": each["parameters"]}
            for each in ([] if found is None else found["points"])
        ]
    if not number.isdecimal() or len(number) > 4 or int(number) >= len(recipes):
        raise Problem(422, "Choose a method first.")
    return recipes[int(number)]


def _database(form: Mapping[str, Any]) -> dict[str, Any]:
    names = [each.strip() for each in str(form.get("attributes", "")).split(",") if each.strip()]
    numbers = [_numbers(str(form.get(each, ""))) for each in ("epsilon", "noise")]
    if any(len(each) != 1 for each in numbers):
        raise Problem(422, "Give one number for ε, and one for the noise.")
    return {
        "kind": "database",
        "epsilon": numbers[0][0],
        "noise": numbers[1][0],
        "attributes": names or None,
    }


def _database_promise(recipe: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    terms = DatabaseTerms.read(epsilon=recipe["epsilon"], noise=recipe["noise"])
    answers = f"At most {terms.limit} answers can cover one point, each with a mean error of "
    return [str(terms.guarantee())], [f"{answers}{float(terms.noise):g}."]


def _numbers(text: str) -> list[float]:
    """Return the numbers in a text, with commas between them; none if one of them is no number."""
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        return []


def _comparable() -> dict[str, list[str]]:
    """Return the methods that can be compared, by what people do with them: all but those of
    lists, and of given questions.
    """
    found: dict[str, list[str]] = {}
    for family in families().values():
        for name in family.mechanisms:
            kind = mechanism_class(name)
            if kind is not None and not kind.of_lists and name not in ("workload", "keys"):
                found.setdefault(HEADINGS[family.use], []).append(name)
    return found


_DRAFT = "/publish/{draft}"
ROUTES = (
    Route("GET", "/publish", "page: publish", OWNER, start, "Tables and drafts."),
    Route("POST", "/publish", "page: begin", OWNER, begin, "Begin with a source."),
    Route(
        "POST", "/publish/upload", "page: upload", OWNER, upload, "Begin with a table.",
        query=(Field("name", "string", "The name of the file.", True, longest=200),), upload=True,
    ),
    Route("GET", _DRAFT, "page: draft", OWNER, show, "A draft."),
    Route("GET", f"{_DRAFT}/job", "page: job", OWNER, job, "How far it is."),
    Route("POST", f"{_DRAFT}/cancel", "page: cancel", OWNER, cancel, "Cancel."),
    Route("POST", f"{_DRAFT}/answers", "page: answers", OWNER, answer, "Answer the questions."),
    Route("POST", f"{_DRAFT}/shares", "page: shares", OWNER, shares, "Count rows of people."),
    Route("POST", f"{_DRAFT}/schema", "page: schema", OWNER, save_text, "Keep a schema."),
    Route("POST", f"{_DRAFT}/compare", "page: compare", OWNER, compare, "Compare."),
    Route("POST", f"{_DRAFT}/check", "page: check", OWNER, check, "Promise and charge."),
    Route("POST", f"{_DRAFT}/make", "page: make", OWNER, make, "Publish or create."),
    Route("POST", f"{_DRAFT}/delete", "page: delete draft", OWNER, delete, "Delete a draft."),
)  # fmt: skip
