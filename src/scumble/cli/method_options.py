"""Options of `scumble publish METHOD`: one for each parameter of the mechanism.

They are made when the command runs, from the constructor of the mechanism (annotations and
defaults) and from the section `Parameters:` of its docstring.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from scumble.cli import options
from scumble.model.errors import ParameterError
from scumble.private.mechanism import constructor_parameters, option_name

if TYPE_CHECKING:
    from scumble.private.mechanism import Mechanism, ParameterInfo

_SHORT = {"epsilon": "-e", "attributes": "-a", "attribute": "-a"}
# Two values of one parameter that are written as two flags.
_PAIRS = {"joint": ("joint", "each"), "adaptive": ("adaptive", "uniform")}
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
    "numbers": "NUMBERS",
    "choice": "CHOICE",
    "text": "COLUMN",
    "names": "COLUMNS",
    "sets": "COLUMNS",
    "json": "FILE",
}
_TYPES: dict[str, Any] = {
    "number": float,
    "whole": int,
    "flag": bool,
    "pair": bool,
    "names": list[str],
    "sets": list[str],
}
_MAY_BE_WHOLE = ("k", "closeness")  # numbers that a manifest shows as they were written


@dataclass(frozen=True)
class MethodOption:
    """How the command line gives one parameter of a mechanism.

    `kind` says how the text is read; `words` are accepted instead of numbers or of a file. A "pair"
    has two flags, for True and False or for the two words.
    """

    method: str
    parameter: ParameterInfo

    @property
    def name(self) -> str:
        """The option that messages name."""
        return self.flags[0].partition("/")[0]

    @cached_property
    def kind(self) -> str:
        return self._kind_and_words[0]

    @cached_property
    def words(self) -> tuple[str, ...]:
        return self._kind_and_words[1]

    @property
    def flags(self) -> tuple[str, ...]:
        name = self.parameter.name
        if name in _PAIRS:
            return ("/".join(f"--{each}" for each in _PAIRS[name]),)
        flag = self._flag(name)
        if self.kind == "flag" and self.parameter.default is True:
            return (f"{flag}/--no-{flag[2:]}",)
        return (flag, _SHORT[name]) if name in _SHORT else (flag,)

    def typer_parameter(self) -> inspect.Parameter:
        """Return the parameter of a command that typer makes the option of."""
        taken: Any = _TYPES.get(self.kind, str) | None
        placeholder = _PLACEHOLDERS.get(self.parameter.name, _OF_KIND.get(self.kind))
        option = typer.Option(*self.flags, metavar=placeholder, help=self.help)
        annotation = Annotated[taken, option]
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.parameter.name, keyword, default=None, annotation=annotation)

    def read(self, value: Any) -> Any:
        """Return the argument of the mechanism for the value of the option."""
        name = self.parameter.name
        if self.kind == "file":
            return Path(value)
        if self.kind == "names":
            return options.columns(value)
        if self.kind == "sets":
            return [options.columns([part]) for part in value]
        if self.kind == "numbers" and value not in self.words:
            return value.split(",")
        if self.kind == "json" and value not in self.words:
            return _json_file(name, Path(value))
        whole = name in _MAY_BE_WHOLE and float(value).is_integer()
        return int(value) if whole else value

    def _flag(self, parameter: str) -> str:
        return f"--{option_name(self.method, parameter)}"

    @property
    def help(self) -> str:
        """Return the text of the docstring as the command line says it: parameters are options."""
        text, default = self.parameter.text, self.parameter.default
        if self.kind == "json":
            text = re.sub(r"^(\w+, or )?", r"\1JSON with ", text)
        if self.kind == "pair":
            text = re.sub(r" \(\w+\)", "", text)
        text = re.sub(r"`(\w+)`", lambda found: self._flag(found[1]), text)
        text = text[0].upper() + text[1:]
        if self.parameter.required:
            return f"{text}  [required]"
        if self.kind == "pair" or default is None or default == () or isinstance(default, bool):
            return text
        return f"{text}  [default: {default}]"

    @cached_property
    def _kind_and_words(self) -> tuple[str, tuple[str, ...]]:
        """How the option gives a parameter of this type, and which words it may say instead."""
        name, annotation = self.parameter.name, self.parameter.annotation
        parts = set(_parts(annotation))
        words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
        origins = {get_origin(part) or part for part in parts}
        if name in _PAIRS:
            return "pair", ()
        if Mapping in origins:
            return "json", ("uniform",) if str in origins else ()
        if words:
            return ("numbers", tuple(words)) if Sequence in origins else ("choice", ())
        if Path in origins:
            return "file", ()
        if Sequence in origins:
            items = {get_args(part)[0] for part in parts if get_origin(part) is Sequence}
            kinds = {float: "numbers", str: "names"}
            return next((kinds[each] for each in items if each in kinds), "sets"), ()
        simple = {float: "number", int: "whole", bool: "flag", str: "text"}
        return next(found for kind, found in simple.items() if kind in origins), ()


def method_options(method: str, mechanism: type[Mechanism]) -> dict[str, MethodOption]:
    """Return the options of a method by the names of the parameters that they give."""
    return {each.name: MethodOption(method, each) for each in constructor_parameters(mechanism)}


def check_needed(method: str, own: Mapping[str, MethodOption], given: Mapping[str, object]) -> None:
    """Raise an error that names all options that a method needs and was not given."""
    needed = [
        each.name for name, each in own.items() if each.parameter.required and name not in given
    ]
    if needed:
        *others, last = needed
        listed = f"{', '.join(others)} and {last}" if others else last
        raise ParameterError(
            f"The method '{method}' needs {listed}. Its options: scumble publish {method} --help."
        )


def _parts(annotation: Any) -> Iterable[Any]:
    """Return the types of a union, None left out."""
    if get_origin(annotation) in (Union, UnionType):
        return [part for each in get_args(annotation) for part in _parts(each)]
    return [] if annotation is type(None) else [annotation]


def _json_file(parameter: str, path: Path) -> Any:
    """Read public weights or a taxonomy, which are too long for the command line."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError):
        allowed = "a readable file of JSON"
        raise ParameterError.of("publish", parameter, allowed, str(path)) from None
