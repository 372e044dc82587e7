"""The OpenAPI 3.1 description of the HTTP interface, from its table of routes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from scumble._version import __version__
from scumble.server.http.routes import Field, Route
from scumble.server.problems import MEDIA_TYPE

_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {
            "type": "string",
            "description": "One sentence: what was wrong, and what to do.",
        },
        "error": {"type": "string", "description": "The class of the error in Python."},
        "line": {"type": "integer", "description": "Place in the SQL, from 1."},
        "column": {"type": "integer"},
    },
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the description of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "scumble",
            "version": __version__,
            "description": "Questions about private tables, with privacy and error stated.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", route.path)
    text = {"type": "string"}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in names
    ]
    parameters += [
        {
            "name": each.name,
            "in": "query",
            "required": each.required,
            "description": each.about,
            "schema": _schema(each),
        }
        for each in route.query
    ]
    found: dict[str, Any] = {
        "operationId": route.name.replace(" ", "_"),
        "summary": route.about,
        "description": f"Roles: {', '.join(route.roles) or 'anybody'}.",
        "parameters": parameters,
        "responses": {str(status): _response(route, status) for status in route.all_statuses()},
    }
    if route.roles:
        found["security"] = [{"token": []}]
    if route.upload:
        table = {"schema": {"type": "string", "format": "binary"}}
        found["requestBody"] = {"required": True, "content": {"application/octet-stream": table}}
    if route.body:
        content = {"application/json": {"schema": _body(route.body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _response(route: Route, status: int) -> dict[str, Any]:
    if status >= 400:
        schema = {"$ref": "#/components/schemas/Problem"}
        content: dict[str, Any] = {MEDIA_TYPE: {"schema": schema}}
    else:
        content = {route.returns: {}}
        if route.name == "answer":
            content |= {"application/vnd.apache.arrow.stream": {}, "text/csv": {}}
    return {"description": HTTPStatus(status).phrase, "content": content}


def _body(members: Iterable[Field]) -> dict[str, Any]:
    found = list(members)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [each.name for each in found if each.required],
        "properties": {each.name: _schema(each, nullable=not each.required) for each in found},
    }


def _schema(field: Field, *, nullable: bool = False) -> dict[str, Any]:
    known = {"strings": ["array"], "amount": ["number", "string"]}
    kinds = [*known.get(field.kind, [field.kind]), *(["null"] if nullable else [])]
    found: dict[str, Any] = {"type": kinds if len(kinds) > 1 else kinds[0]}
    found["description"] = field.about
    if field.kind == "strings":
        found |= {"items": {"type": "string"}, "maxItems": field.longest}
    if field.kind in ("string", "amount"):
        found["maxLength"] = field.longest
    if field.choices:
        found["enum"] = [*field.choices, None] if nullable else list(field.choices)
    if field.least > -math.inf:
        found["minimum"] = field.least
    if field.most < math.inf:
        found["maximum"] = field.most
    return found
