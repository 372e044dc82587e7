"""Statements: the questions of a workload, from a file or a list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scumble.model.errors import ParameterError

_ALLOWED = "a file of SQL counts, or a list of them"


def statements(given: str | Path | Sequence[str]) -> tuple[str, ...]:
    """The texts of all questions, without those that are empty."""
    if isinstance(given, (str, Path)):
        found = _split(_read(Path(given)))
        if not any(text.strip(" \t\r\n;") for text in found):
            raise ParameterError(f"The file '{given}' has no question: write SQL, one a line.")
    elif isinstance(given, Sequence) and all(isinstance(each, str) for each in given):
        found = list(given)
    else:
        raise ParameterError.of("Workload", "queries", _ALLOWED, given)
    kept = tuple(text.strip().rstrip(";").strip() for text in found if text.strip(" \t\r\n;"))
    if not kept:
        raise ParameterError.of("Workload", "queries", f"{_ALLOWED}, with at least one", list(kept))
    return kept


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise ParameterError.of("Workload", "queries", _ALLOWED, str(path)) from None
    except (OSError, ValueError):
        raise ParameterError(f"The file '{path}' cannot be read as text in UTF-8.") from None


def unfinished(given: str | Path | Sequence[str]) -> bool:
    """Whether the lines of a file were taken for questions, and some do not begin like one."""
    if not isinstance(given, (str, Path)) or ";" in (text := _read(Path(given))):
        return False
    begins = [line.split()[0].upper() for line in _split(text) if line.split()]
    return "SELECT" in begins and any(word != "SELECT" for word in begins)


def _split(text: str) -> list[str]:
    """One question a line; or, if a semicolon stands outside quotes, one up to each semicolon.
    Lines that begin with -- are remarks.
    """
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts, quote = [""], ""
    for sign in kept:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        if sign == ";" and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return parts if len(parts) > 1 else kept.splitlines()
