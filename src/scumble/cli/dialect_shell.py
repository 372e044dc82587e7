"""The dialect of the command line: parameters are called by the options of the running command."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from scumble.model.dialect import Dialect

# Where an option is not called like the parameter that it gives.
_CALLED = {
    "analyst": "quota",
    "batches": "batch",
    "head": "seal",
    "ids": "identifiers",
    "quotas": "quota",
    "seed": "insecure_seed",
    "several": "compound",
    "tables": "side",
    "weights": "weight",
    "with": "side",
}
# What Python says with words, the command line with one of two flags.
_FLAGS = {("several", "compound"): True, ("several", "each"): False}


class ShellDialect(Dialect):
    """The words of the command that runs; where it has no such option, what `publish` has."""

    def __init__(self, running: Callable[[], Any]) -> None:
        self._running = running

    def name(self, parameter: str) -> str:
        found = self._option(parameter)
        return _dashed(parameter) if found is None else _shown(found)

    def setting(self, parameter: str, value: object) -> str:
        flag = _FLAGS.get((parameter, value), value) if isinstance(value, str) else value
        found = self._option(parameter)
        if flag is False and found is not None and found.secondary_opts:
            return str(found.secondary_opts[0])
        if isinstance(flag, bool):
            return self.name(parameter) if flag else f"no {self.name(parameter)}"
        return f"{self.name(parameter)} {shlex.quote(str(value))}"

    def subject(self, owner: str, parameter: str) -> str:
        """The option; what was not typed as one keeps its owner, such as a method to compare."""
        found = self._option(parameter)
        return super().subject(owner, parameter) if found is None else _shown(found)

    def listed(self, values: list[str | int] | tuple[str | int, ...]) -> str:
        return repr(",".join(map(str, values)))

    def literal(self, value: object) -> str:
        if value is None:
            return "nothing"
        return f"{value:.15g}" if isinstance(value, float) else repr(value)

    def _option(self, parameter: str) -> Any:
        """The option or argument of the running command that gives a parameter."""
        known = {each.name: each for each in getattr(self._running(), "params", ())}
        return known.get(parameter) or known.get(_CALLED.get(parameter, ""))


def _shown(option: Any) -> str:
    first = str(option.opts[0])
    return first if first.startswith("-") else str(option.metavar or first.upper())


def _dashed(parameter: str) -> str:
    return f"--{_CALLED.get(parameter, parameter).replace('_', '-')}"
