"""Routes: what a request is, who may make it, and what it may carry.

The tables of routes (`api.ROUTES`, `pages.ROUTES`) are what the server is built from, what OpenAPI
describes, and what a test walks through for every role.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from scumble.server.catalogue import Dataset
from scumble.server.problems import Problem
from scumble.server.tokens import Role, Token

if TYPE_CHECKING:
    from scumble.server.service import Service

OWNER: tuple[Role, ...] = ("owner",)
ASKING: tuple[Role, ...] = ("owner", "analyst")
AUDITING: tuple[Role, ...] = ("owner", "auditor")
EVERYBODY: tuple[Role, ...] = ("owner", "analyst", "auditor")
Kind = Literal["string", "number", "integer", "amount", "boolean", "strings", "object"]
_TYPES: dict[Kind, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "amount": (int, float, str),
    "boolean": (bool,),
    "strings": (list,),
    "object": (dict,),
}
_WORDS: dict[Kind, str] = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "amount": "a number or text",
    "boolean": "true or false",
    "strings": "a list",
    "object": "an object",
}


@dataclass(frozen=True)
class Field:
    """A member of a request body, or a parameter after the question mark of an address."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    longest: int = 60_000  # characters, or elements of a list

    def check(self, value: Any) -> Any:
        """Return the value; raises `Problem` 422 where it is not allowed."""
        fits = isinstance(value, _TYPES[self.kind]) and (
            self.kind == "boolean" or not isinstance(value, bool)
        )
        if fits and self.kind == "strings":
            fits = all(isinstance(each, str) for each in value)
        if fits and isinstance(value, (str, list)):
            fits = len(value) <= self.longest
        elif fits and self.kind in ("number", "integer"):
            fits = self.least <= value <= self.most
        if fits and isinstance(value, (str, list, dict)):
            fits = all(map(_encodable, _texts_in(value)))
        if not fits or (self.choices and value not in self.choices):
            raise Problem(422, f"{self.name!r} must be {self.allowed()}.", {"member": self.name})
        return value

    def allowed(self) -> str:
        """Return what is allowed, as words that complete "must be"."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        limits = [f"at least {self.least:g}"] if self.least > -math.inf else []
        limits += [f"at most {self.most:g}"] if self.most < math.inf else []
        if self.kind in ("string", "strings", "amount"):
            limits = [
                f"at most {self.longest:,} {'texts' if self.kind == 'strings' else 'characters'}"
            ]
        return _WORDS[self.kind] + (f" of {' and '.join(limits)}" if limits else "")


@dataclass
class Call:
    """A request that may be made: by whom, about which data set, with what."""

    token: Token | None
    dataset: Dataset | None
    path: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def user(self) -> Token:
        """The token of the request; every route with roles has one."""
        if self.token is None:
            raise Problem(401, "This request needs a token.")
        return self.token

    @property
    def data(self) -> Dataset:
        """The data set in the path."""
        if self.dataset is None:
            raise Problem(404, "There is no such data set.")
        return self.dataset

    @property
    def analyst(self) -> str | None:
        """The analyst whose questions may be seen; None for owners, who see all of them."""
        return None if self.user.role == "owner" else self.user.name


@dataclass(frozen=True)
class Result:
    """What a handler returns: JSON values, or text or bytes with their media type."""

    content: Any
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[["Service", Call], Result]
AllHandler = Callable[["Service", Sequence[Call]], Sequence[Result | Exception | None]]


@dataclass(frozen=True)
class Route:
    """One line of the table.

    Without `roles` anybody may make the request, and its handler runs in the event loop: it must
    neither wait for a disk nor compute.
    """

    method: str
    path: str
    name: str
    roles: tuple[Role, ...]
    handler: Handler
    about: str
    body: tuple[Field, ...] = ()
    query: tuple[Field, ...] = ()
    returns: str = "application/json"
    statuses: tuple[int, ...] = ()
    together: AllHandler | None = None  # makes calls about one data set at once, where it can
    upload: bool = False  # its body is a table, which is written to the disk as it comes

    @property
    def of_dataset(self) -> bool:
        return "{dataset}" in self.path

    def all_statuses(self) -> tuple[int, ...]:
        """Return every status that a response can have, as OpenAPI lists them."""
        succeeded = {200} if not {201, 202} & set(self.statuses) else set()
        found = {*succeeded, 500, *self.statuses}
        if self.roles:
            found |= {401, 403, 408, 429, 503}
        if self.of_dataset:
            found |= {404}
        if self.upload:
            found |= {400, 413, 415, 422}
        if self.body:
            found |= {400, 413, 415, 422}
        if self.query:
            found |= {422}
        return tuple(sorted(found))

    def read_body(self, content: Any) -> dict[str, Any]:
        """Return the checked members of a request body; raises `Problem`."""
        if not isinstance(content, dict):
            raise Problem(422, "The body must be a JSON object.")
        known = {each.name: each for each in self.body}
        for name in content:
            if name not in known:
                allowed = ", ".join(known)
                raise Problem(422, f"Unknown member {name[:60]!r}. Allowed are {allowed}.")
        for each in self.body:
            if each.required and content.get(each.name) is None:
                raise Problem(422, f"{each.name!r} is missing: {each.about}")
        return {
            name: known[name].check(value) for name, value in content.items() if value is not None
        }

    def read_query(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the checked parameters after the question mark; others are ignored."""
        found: dict[str, Any] = {}
        for each in self.query:
            if each.required and each.name not in given:
                raise Problem(422, f"{each.name!r} is missing: {each.about}")
            if each.name in given:
                found[each.name] = each.check(_parsed(each, given[each.name]))
        return found


def api_route(method: str, path: str, *rest: Any, **more: Any) -> Route:
    """Return a route of the HTTP interface."""
    return Route(method, f"/api/v1/{path}", *rest, **more)


def _texts_in(value: Any) -> Iterator[str]:
    """Yield all texts in JSON values, names of members among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value:
            yield from _texts_in(each)
        if isinstance(value, dict):
            yield from _texts_in(list(value.values()))


def _encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8: a lone half of a character cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parsed(field: Field, text: str) -> Any:
    if field.kind == "integer" and re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII):
        return int(text)
    if field.kind == "number":
        try:
            return float(text)
        except ValueError:
            return text
    return text
