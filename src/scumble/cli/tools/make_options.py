"""Make generated_options.py: the options of `scumble publish` for the parameters of mechanisms.

The options come from the constructors of all mechanisms (annotations and defaults) and from the
section `Parameters:` of their docstrings. The result is a checked-in file, so that `scumble publish
--help` imports no mechanism. `make options` writes it again, and a test compares it.

    python -m scumble.cli.tools.make_options src/scumble/cli/generated_options.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from scumble.cli.publish_options import option_of
from scumble.private.mechanism import ParameterInfo, constructor_parameters, mechanisms

_SHORT = {"epsilon": "-e", "attributes": "-a"}
# Two values of one parameter that are written as two flags.
_PAIRS = {"several": ("compound", "each"), "adaptive": ("adaptive", "uniform")}
# Placeholders that say more than the type does.
_PLACEHOLDERS = {
    **dict.fromkeys("alpha beta confidence d delta f keep rho1 rho2 total".split(), "SHARE"),
    **dict.fromkeys(("contribution", "prune"), "ROWS"),
    "neighbours": "RELATION",
    "queries": "FILE",
}
_OF_KIND = {
    "number": "NUMBER",
    "whole": "NUMBER",
    "numbers": "CHOICE",
    "choice": "CHOICE",
    "text": "COLUMN",
    "names": "COLUMNS",
    "sets": "COLUMNS",
    "json": "FILE",
}
_MANY = 4  # methods at the end of the list that are not named one by one

_HEAD = '''"""Options of `scumble publish`, one for each parameter of a mechanism.

Generated from the mechanism classes by `make options`; do not edit.
"""

# ruff: noqa: E501
# fmt: off
'''


def generated_text() -> str:
    """Return the text of generated_options.py."""
    methods = ", ".join(map(_literal, mechanisms()))
    lines = [_HEAD, f"METHODS = ({methods})", ""]
    lines += ["# parameter: (kind, flags, placeholder, help, words accepted besides a value)"]
    lines += ["OPTIONS: dict[str, tuple[str, str, str, str, str]] = {"]
    for name, uses in _uses().items():
        lines += [f"    {_literal(name)}: ({', '.join(map(_literal, _option(name, uses)))}),"]
    return "\n".join([*lines, "}", ""])


def _literal(text: str) -> str:
    return f'"{text}"' if '"' not in text else repr(text)


@cache
def _uses() -> dict[str, dict[str, ParameterInfo]]:
    """Return every parameter of a mechanism with the methods that take it, in registry order."""
    found: dict[str, dict[str, ParameterInfo]] = {}
    for method, kind in mechanisms().items():
        for parameter in constructor_parameters(kind):
            name = option_of(method, parameter.name)
            found.setdefault(name, {})[method] = parameter
    return found


def _option(name: str, uses: Mapping[str, ParameterInfo]) -> tuple[str, str, str, str, str]:
    """Return kind, flags, placeholder, help and words of the option for one parameter."""
    kinds = [_kind(name, each.annotation) for each in uses.values()]
    kind = next((each for each in kinds if each[0] == "number"), kinds[0])
    flag = f"--{name.replace('_', '-')}"
    if name in _PAIRS:
        flags = "/".join(f"--{each}" for each in _PAIRS[name])
    else:
        flags = f"{flag} {_SHORT[name]}" if name in _SHORT else flag
    placeholder = _PLACEHOLDERS.get(name, _OF_KIND.get(kind[0], ""))
    return kind[0], flags, placeholder, _help(name, uses, kind[0]), kind[1]


def _kind(name: str, annotation: Any) -> tuple[str, str]:
    """Return how an option gives a parameter of this type, and which words it may say instead."""
    parts = set(_parts(annotation))
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    origins = {get_origin(part) or part for part in parts}
    nested = [get_origin(get_args(part)[0]) for part in parts if get_origin(part) is Sequence]
    if name in _PAIRS:
        return "pair", " ".join(_PAIRS[name]) if words else ""
    if Mapping in origins:
        return "json", "uniform" if str in origins else ""
    if words:
        return ("numbers", " ".join(sorted(words))) if Sequence in origins else ("choice", "")
    if Path in origins:
        return "file", ""
    if Sequence in origins:
        return ("sets", "") if Sequence in nested else ("names", "")
    simple = {float: "number", int: "whole", bool: "flag", str: "text"}
    return next(found for kind, found in simple.items() if kind in origins), ""


def _parts(annotation: Any) -> Iterable[Any]:
    """Return the types of a union, None left out."""
    if get_origin(annotation) in (Union, UnionType):
        return [part for each in get_args(annotation) for part in _parts(each)]
    return [] if annotation is type(None) else [annotation]


def _help(name: str, uses: Mapping[str, ParameterInfo], kind: str) -> str:
    """Return the help: each text once, with the methods that it is about before it.

    A text that begins as a sentence, or that goes on with the one before it, stands alone.
    """
    methods: dict[str, list[str]] = {}
    for method, parameter in uses.items():
        methods.setdefault(_written(parameter.text, kind), []).append(method)
    parts = []
    for text, names in methods.items():
        alone = re.match(r"[A-Z][a-z]|\.\.\.", text)
        parts.append(text if alone else f"{_who(name, names)}: {text}")
    return " ".join(parts)


def _written(text: str, kind: str) -> str:
    """Return the text of a docstring as the command line says it: parameters are options."""
    if kind == "json":
        text = re.sub(r"^(\w+, or )?", r"\1JSON with ", text)
    if kind == "pair":
        text = re.sub(r" \(\w+\)", "", text)
    return re.sub(r"`(\w+)`", lambda found: f"--{found[1].replace('_', '-')}", text)


def _who(name: str, methods: Sequence[str]) -> str:
    """Return the methods that take an option, in few words."""
    uses = list(mechanisms())
    if name != "attributes" and list(methods) == list(_uses()["attributes"]):
        return "with --attributes"
    if len(methods) >= _MANY and uses[-len(methods) :] == list(methods):
        return f"{methods[0]} and all after it in `scumble methods`"
    return ", ".join(methods)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(generated_text(), "utf-8")
