"""The command that publishes a table for good as one setting of a comparison did."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from scumble.compare.advice import publish_command

# What one of two flags says.
_FLAGS = {("adaptive", False): "uniform", ("several", "compound"): "compound"}


def publishing(method: str, parameters: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """For the table that was compared on, or any that is like it."""
    options: dict[str, Any] = {}
    for name, value in parameters.items():
        flag = _FLAGS.get((name, value)) if isinstance(value, (bool, str)) else None
        if flag or value is True:
            options[flag or _dashed(name)] = True
        elif value is not False and value is not None:
            options[_dashed(name)] = _written(value)
    if method == "workload":
        options["queries"] = shlex.quote(str(about.get("file") or "QUESTIONS.sql"))
    options |= {name: _written(value) for name, value in about.get("reading", {}).items()}
    known = {"schema": str(about.get("schema") or "SCHEMA")}
    return publish_command(str(about.get("source") or "TABLE"), method, **known, **options)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _written(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return shlex.quote(",".join(map(str, value)))
    return f"{value:.12g}" if isinstance(value, float) else shlex.quote(str(value))
