"""Pages on which an owner makes a data set: table, schema, comparison, release or database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scumble.compare.chart import Mark, assign_colours, draw_chart
from scumble.families import mechanism_names
from scumble.model.errors import ScumbleError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.schema.toml import ROLES
from scumble.model.schema.unit import Unit
from scumble.private.database.terms import DatabaseTerms
from scumble.private.expectation import expectation
from scumble.private.manifest import for_people
from scumble.private.mechanism import mechanism_class
from scumble.server.http.routes import OWNER, Call, Field, Result, Route
from scumble.server.pages.gates import redirect, render, shared
from scumble.server.problems import Problem, problem_of
from scumble.server.publishing.drafts import Draft
from scumble.server.publishing.service import UPLOAD, protected
from scumble.server.service import Service

_FIRST = ("uniform", "subset", "marginals", "histogram", "sparse")  # compared unless others are
_EPSILONS = "0.5, 1, 2"
_MOST_COMPARED = 60  # settings of one comparison
_LONGEST_DOMAIN = 160
_FIELDS = ("kind", "choice", "name", "title", "epsilon", "noise", "attributes")


# --- tables ---------------------------------------------------------------------------------------


def start(service: Service, call: Call) -> Result:
    """The tables that something can be made of, and the drafts."""
    drafts = [
        {"draft": each, "job": service.workshop.jobs.of(each.number)}
        for each in service.workshop.drafts()
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
    draft = service.workshop.new_draft(str(call.body.get("source", "")))
    if draft.schema is None:
        service.workshop.propose(draft)
    return redirect(f"/publish/{draft.number}")


def upload(service: Service, call: Call) -> Result:
    """Begin with a table that was sent; the script of the page follows the address."""
    draft = call.body["draft"]
    service.workshop.propose(draft)
    return Result("", 200, headers={"X-Location": f"/publish/{draft.number}"})


def delete(service: Service, call: Call) -> Result:
    """Delete a draft, with a table that was sent."""
    service.workshop.delete(_draft(service, call))
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
    found = service.workshop.jobs.of(draft.number)
    fresh = {} if found is not None and found.running else {"HX-Refresh": "true"}
    part = render("job.html", job=found, draft=draft, csrf=call.headers["csrf"])
    return Result(part.content, part.status, part.media_type, fresh)


def cancel(service: Service, call: Call) -> Result:
    """Cancel the work about a draft."""
    draft = _draft(service, call)
    found = service.workshop.jobs.of(draft.number)
    if found is not None:
        service.workshop.jobs.cancel(found.number)
    return redirect(f"/publish/{draft.number}")


def save_schema(service: Service, call: Call) -> Result:
    """Keep roles and declared domains, or the whole schema as TOML."""
    draft = _draft(service, call)
    try:
        before = draft.schema
        if "toml" in call.body:
            schema = Schema.loads(str(call.body["toml"]))
        elif before is None:
            raise Problem(409, "There is no schema yet.")
        else:
            schema = _declared(before, call.body)
        service.workshop.save_schema(draft, schema)
        if call.body.get("then") == "preview":
            service.workshop.compare(draft, list(_FIRST), _numbers(_EPSILONS), preview=True)
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}")


def compare(service: Service, call: Call) -> Result:
    """Begin a comparison, on a stand-in or on the table."""
    draft = _draft(service, call)
    try:
        methods = [name for name in _comparable() if call.body.get(f"method-{name}")]
        epsilons = _numbers(str(call.body.get("epsilons", "")))
        if not 0 < len(methods) * len(epsilons) <= _MOST_COMPARED:
            most = f"at most {_MOST_COMPARED} settings in all"
            raise Problem(422, f"Choose methods and numbers for ε: at least one of each, {most}.")
        table = bool(call.body.get("table"))
        service.workshop.compare(draft, methods, epsilons, preview=not table)
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
        text = draft.schema_file.read_text("utf-8")
        source = UPLOAD + draft.number
        service.workshop.make(plan["name"], plan["title"], source, text, plan["recipe"], draft)
    except (ScumbleError, Problem) as error:
        return _page(service, call, draft, problem=error)
    return redirect(f"/publish/{draft.number}")


def _draft(service: Service, call: Call) -> Draft:
    return service.workshop.draft(call.path["draft"])


def _page(
    service: Service,
    call: Call,
    draft: Draft,
    problem: Exception | None = None,
    plan: Mapping[str, Any] | None = None,
) -> Result:
    schema = draft.schema
    shown = None if problem is None else problem_of(problem, owner=True)
    return render(
        "draft.html",
        200 if shown is None else shown.status,
        draft=draft,
        job=service.workshop.jobs.of(draft.number),
        columns=[] if schema is None else [_column(each) for each in schema],
        unit=None if schema is None else schema.unit,
        toml="" if schema is None else schema.dumps(),
        roles=ROLES,
        from_data=() if schema is None else schema.from_data,
        comparison=_comparison(draft),
        methods=[(name, name in _FIRST) for name in _comparable()],
        epsilons=_EPSILONS,
        made=[name for name in draft.made if service.catalogue.get(name) is not None],
        plan=plan,
        problem=shown,
        form={**dict.fromkeys(_FIELDS, ""), **call.body},
        **shared(service, call),
    )


def _column(attribute: Attribute) -> dict[str, Any]:
    text = attribute.describe()
    return {
        "name": attribute.name,
        "role": attribute.role,
        "kind": attribute.kind or "",
        "domain": text if len(text) <= _LONGEST_DOMAIN else text[:_LONGEST_DOMAIN] + " …",
        "from_data": attribute.from_data,
        "fixed": attribute.domain is None,
    }


def _declared(schema: Schema, form: Mapping[str, Any]) -> Schema:
    """Return a schema with the roles, the declarations and the unit of the form."""
    roles = {
        each.name: str(form.get(f"role-{place}", each.role)) for place, each in enumerate(schema)
    }
    changed = replace(schema, unit=None)
    for name, role in roles.items():
        if role != schema[name].role:
            changed = changed.with_roles(**{role: [name]})
    declared = [each.name for place, each in enumerate(schema) if form.get(f"declared-{place}")]
    changed = changed.declare_public(*declared) if declared else changed
    return replace(changed, unit=_stated_unit(schema.unit, form))


def _stated_unit(before: Unit | None, form: Mapping[str, Any]) -> Unit | None:
    """Return what one row stands for by the form: "row", or "person:" and the column of people."""
    given, _, person = str(form.get("unit", "unchanged")).partition(":")
    if given == "unchanged":
        return before
    if given == "row":
        return Unit()
    most = str(form.get("most_rows", ""))
    if given != "person" or not most.isdecimal() or len(most) > 9:
        raise Problem(422, "Say what one row stands for, and how many rows of a person count.")
    return Unit(person, int(most))


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
    schema = draft.schema
    if schema is None:
        raise Problem(409, "There is no schema yet.")
    name, title = (str(form.get(each, "")).strip() for each in ("name", "title"))
    recipe = _database(form) if form.get("kind") == "database" else _release(draft, form)
    mechanism = protected(schema, recipe)
    if mechanism is None:
        promise, outlook = _database_promise(recipe)
    else:
        known = schema.with_derived(getattr(mechanism, "names", ()))
        mechanism.check(known)
        promises = for_people(mechanism, known, mechanism.guarantee(known))
        promise = list(map(str, promises))
        outlook = [*mechanism.cautions(known), *expectation(mechanism, known)]
    return {
        "name": name,
        "title": title or name,
        "recipe": recipe,
        "promise": [(schema.unit or Unit()).describe(), *promise],
        "outlook": outlook,
        "bill": service.workshop.bill(schema, recipe),
        "form": {key: value for key, value in form.items() if key not in ("csrf", "toml")},
    }


def _release(draft: Draft, form: Mapping[str, Any]) -> dict[str, Any]:
    which, _, number = str(form.get("choice", "")).partition(":")
    found = draft.comparison(preview=which == "preview")
    points = [] if found is None else found["points"]
    if not number.isdecimal() or len(number) > 4 or int(number) >= len(points):
        raise Problem(422, "Choose a setting of the comparison first.")
    point = points[int(number)]
    return {"kind": "release", "method": point["method"], "parameters": point["parameters"]}


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


def _comparable() -> list[str]:
    """Return the methods that can be compared: all but those of lists, and of given questions."""
    kinds = {name: mechanism_class(name) for name in mechanism_names()}
    return [
        name
        for name, kind in kinds.items()
        if kind is not None and not kind.of_lists and name not in ("workload", "keys")
    ]


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
    Route("POST", f"{_DRAFT}/schema", "page: schema", OWNER, save_schema, "Keep a schema."),
    Route("POST", f"{_DRAFT}/compare", "page: compare", OWNER, compare, "Compare."),
    Route("POST", f"{_DRAFT}/check", "page: check", OWNER, check, "Promise and charge."),
    Route("POST", f"{_DRAFT}/make", "page: make", OWNER, make, "Publish or create."),
    Route("POST", f"{_DRAFT}/delete", "page: delete draft", OWNER, delete, "Delete a draft."),
)  # fmt: skip
