"""Plain values of options, read without pydantic, whose import takes as long as a question.

typer makes a validator of pydantic for every option that is given. Most values are texts, paths and
plain numbers, which need none. Every other value goes to typer's validator, which converts or
refuses it as ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

from typer import core

_WHOLE = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class PlainValue:
    """Converts the plain values of one parameter, and leaves the others to typer."""

    def __init__(self, descriptor: Any, build: Callable[[Any], Any]) -> None:
        self._descriptor, self._build = descriptor, build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value in the type of the parameter. The parameters are those of typer."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        found = _converted(value, self._descriptor.annotation, self._descriptor.parameter_info)
        if found is None or (several and isinstance(value, str)):
            return self._build(self._descriptor).coerce(value, param=param, ctx=ctx)
        return found


def read_plain_values() -> None:
    """Let all parameters of typer read plain values by `PlainValue`.

    A version of typer without the function that is replaced here reads them as it does.
    """
    build: Any = getattr(core, "build_runtime_param", None)
    if build is not None:
        core.build_runtime_param = lambda descriptor: PlainValue(descriptor, build)  # type: ignore


def _converted(value: Any, annotation: Any, info: Any) -> Any:
    """Return the value as the type of the annotation; None if typer has to convert it."""
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        [inner] = get_args(annotation)
        found = [_converted(each, inner, info) for each in value]
        return None if any(each is None for each in found) else found
    if getattr(info, "parser", None) is not None:
        return None
    if annotation is str:
        return value if isinstance(value, str) else None
    if annotation is Path:
        return _path(value, info)
    if annotation in (int, float):
        return _number(value, annotation, info)
    return None


def _path(value: Any, info: Any) -> Path | None:
    flags = (info.exists, info.writable, info.resolve_path, info.allow_dash, info.path_type)
    if any(flags) or not (info.file_okay and info.dir_okay) or not isinstance(value, str | Path):
        return None
    # typer refuses what exists and cannot be read.
    return Path(value) if os.access(value, os.R_OK) or not os.path.exists(value) else None


def _number(value: Any, kind: type, info: Any) -> Any:
    if type(value) is not kind:
        pattern = _WHOLE if kind is int else _NUMBER
        if not isinstance(value, str) or not pattern.fullmatch(value):
            return None
        value = kind(value)
    inside = (info.min is None or value >= info.min) and (info.max is None or value <= info.max)
    return value if inside else None
