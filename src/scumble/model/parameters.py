"""Checks of the parameters that users give to mechanisms, shared by all mechanisms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from numbers import Integral
from types import NoneType
from typing import Any, TypeVar

from scumble.model.errors import ParameterError, SchemaError, large, named, nearest_name
from scumble.model.privacy.guarantee import read_epsilon, read_positive, read_share
from scumble.model.schema.schema import Schema
from scumble.model.stored import write_exact

SMALLEST_KEEP = Fraction(1, 10**12)
LARGEST_GAMMA = 10**40
Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options")


def show_keywords(options: type) -> Callable[[Function], Function]:
    """Make `help` show the fields of a dataclass in place of the `**keywords` of a function."""

    def expand(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        fields = inspect.signature(options).parameters.values()
        more = [each for each in fields if each.name not in signature.parameters]
        shown: Any = function
        shown.__signature__ = signature.replace(parameters=[*own, *more])
        return function

    return expand


def take_options(owner: str, options: type[Options], keywords: Mapping[str, Any]) -> Options:
    """Return the options with these keywords; raise ParameterError for a word that is not one."""
    known = [field.name for field in fields(options)]  # type: ignore[arg-type]
    for word in keywords:
        if word not in known:
            near = nearest_name(word, known)
            hint = f"Did you mean {near}?" if near else f"It takes {', '.join(known)}."
            raise ParameterError(f"{owner} has no parameter {word}. {hint}")
    return options(**keywords)


def one_of(owner: str, given: Mapping[str, Any], *choices: str) -> dict[str, Any]:
    """Return the parameters that are not None; they must be exactly those of one of the `choices`.

    A choice is a name or several: "gamma", "rho1 with rho2".
    """
    found = {name: value for name, value in given.items() if value is not None}
    if set(found) not in [set(choice.split(" with ")) for choice in choices]:
        several = "either" if len(choices) == 2 else "exactly one of"
        words = [" with ".join(map(named, choice.split(" with "))) for choice in choices]
        listed = f"{', '.join(words[:-1])}, or {words[-1]}"
        got = ", ".join(map(named, found)) or "none of them"
        raise ParameterError(f"{owner} takes {several} {listed}. Got {got} instead.")
    return found


def numbers(owner: str, given: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the privacy parameters epsilon, gamma, keep, rho1 and rho2 as exact fractions."""
    found = {name: _number(owner, name, value) for name, value in given.items()}
    if "rho1" in found and found["rho1"] >= found["rho2"]:
        allowed = f"below rho2 ({given['rho2']})"
        raise ParameterError.of(owner, "rho1", allowed, given["rho1"])
    return found


def _number(owner: str, name: str, value: object) -> Fraction:
    if name == "epsilon":
        return read_epsilon(owner, value)
    if name == "gamma":
        number = read_positive(owner, name, value)
        if not 1 < number <= LARGEST_GAMMA:
            allowed = f"a number above 1 and at most {large(LARGEST_GAMMA)}"
            raise ParameterError.of(owner, name, allowed, value)
        return number
    number = read_share(owner, name, value)
    if name == "keep" and number < SMALLEST_KEEP:
        allowed = f"at least {float(SMALLEST_KEEP):g}, or nothing could be estimated"
        raise ParameterError.of(owner, name, allowed, value)
    return number


def whole(owner: str, name: str, value: object, least: int, most: int | None = None) -> int:
    """Return an integer (of Python or numpy) that lies between `least` and `most`."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if number >= least and (most is None or number <= most):
            return number
    reach = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ParameterError.of(owner, name, f"a whole number {reach}", value)


def flag(owner: str, name: str, value: object) -> bool:
    """Return a bool; other values, such as 0 and 1, are rejected."""
    if not isinstance(value, bool):
        raise ParameterError.of(owner, name, "True or False", value)
    return value


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values.

    An exact number becomes text, from which it can be read back exactly.
    """
    found = {name: v.item() if hasattr(v, "item") else v for name, v in given.items()}
    return {
        name: value if isinstance(value, (int, float, NoneType)) else write_exact(value)
        for name, value in found.items()
    }


def require_sensitive(owner: str, schema: Schema) -> None:
    """Reject a schema without a sensitive attribute."""
    if not schema.sensitive:
        need = f"{owner} needs at least one sensitive attribute"
        raise without_attribute(
            f'{need}; the schema has none. Give one of its attributes role = "sensitive".',
            need,
            schema,
            "sensitive",
        )


def without_attribute(sentence: str, need: str, schema: Schema, role: str) -> SchemaError:
    """Return the error for a schema that lacks an attribute which a mechanism needs.

    If the schema has a list, which no mechanism publishes as a column, the error says which column
    that is derived from it to declare; otherwise it is the `sentence`.
    """
    if not schema.lists:
        return SchemaError(sentence)
    one = schema.lists[0]
    derived = f"contains({one.name}, VALUE)"
    kind = "set" if one.domain is None else one.domain.kind
    if kind == "sequence":
        derived = f"first({one.name}), last({one.name}) or {derived}"
    return SchemaError(
        f"{need}, and {one.name}, a {kind}, is never published itself. Declare a column that is "
        f'derived from it, {derived}, in the schema with role = "{role}".'
    )


def require_privacy(owner: str, gamma: Fraction, instead: str) -> None:
    """Reject a bound `gamma` on the odds ratio that is so large that it protects nothing."""
    if gamma > LARGEST_GAMMA:
        raise ParameterError(
            f"What is asked of {owner} is no privacy: its odds ratio would be above "
            f"{large(LARGEST_GAMMA)}. Ask for {instead}."
        )


def require_utility(owner: str, gamma: Fraction) -> None:
    """Reject a bound `gamma` of at most 1 on the odds ratio: no information would be left."""
    if gamma <= 1:
        raise ParameterError(
            f"The privacy asked of {owner} is so strict that nothing of the values would be left; "
            "allow a larger epsilon, gamma or rho2."
        )


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return `name`, or the first of name_2, name_3, ... that is not `taken`, ignoring case."""
    others = {other.lower() for other in taken}
    number, found = 1, name
    while found.lower() in others:
        number += 1
        found = f"{name}_{number}"
    return found
