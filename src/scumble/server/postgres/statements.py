"""Statements of a client: their kind, their parts, and parameters put in as literals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scumble.server.postgres.messages import Rows, WireError

# Quoted text, comments, parameters, ends of statements, and everything else.
_PIECE = re.compile(
    r"""(?P<quoted>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
        | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$).*?(?P=dollar))
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | \$(?P<parameter>[0-9]{1,5})
    | (?P<end>;)
    | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_COPY = re.compile(
    r"\s*COPY\s*\((?P<sql>.*)\)\s*TO\s+STDOUT\s*(?:WITH\s*)?\(\s*FORMAT\s+\"?binary\"?\s*\)\s*",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(
    r"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.]+)\s*(?:=|\sTO\s)\s*'?([^']*?)'?\s*", re.IGNORECASE
)
_TAGS = {
    "BEGIN": "BEGIN",
    "START": "BEGIN",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK",
    "SET": "SET",
    "RESET": "RESET",
    "DISCARD": "DISCARD ALL",
    "DEALLOCATE": "DEALLOCATE",
    "UNLISTEN": "UNLISTEN",
    "CLOSE": "CLOSE CURSOR",
    "SAVEPOINT": "SAVEPOINT",
    "RELEASE": "RELEASE",
}
_WRITES = frozenset(
    "INSERT UPDATE DELETE MERGE TRUNCATE CREATE DROP ALTER GRANT REVOKE COPY VACUUM ANALYZE LOCK "
    "CALL DO COMMENT REFRESH REINDEX CLUSTER IMPORT SECURITY REASSIGN".split()
)


def split(text: str) -> list[str]:
    """Return the statements of a text, without comments; empty ones are left out."""
    parts: list[str] = []
    current: list[str] = []
    for piece in _pieces(text):
        if piece.lastgroup == "end":
            parts.append("".join(current))
            current = []
        elif piece["comment"] is not None:
            current.append(" ")
        else:
            current.append(piece[0])
    found = [part.strip() for part in (*parts, "".join(current))]
    return [part for part in found if part]


def with_parameters(text: str, literals: Sequence[str]) -> str:
    """Return a statement with its parameters $1, $2, ... replaced by literals."""
    parts = []
    for piece in _pieces(text):
        number = piece["parameter"]
        if number is None:
            parts.append(piece[0])
        elif 0 < int(number) <= len(literals):
            parts.append(literals[int(number) - 1])
        else:
            raise WireError("08P01", f"The parameter ${number} is missing.")
    return "".join(parts)


def parameters(text: str) -> int:
    """Return the largest number of a parameter in a statement."""
    found = [int(piece["parameter"]) for piece in _pieces(text) if piece["parameter"]]
    return max(found, default=0)


def _pieces(text: str) -> Iterator[re.Match[str]]:
    return _PIECE.finditer(text)


def first_word(sql: str) -> str:
    """Return the first word of a statement, in capitals."""
    match = re.match(r"\s*([A-Za-z]+)", sql)
    return match[1].upper() if match else ""


def copied(sql: str) -> str | None:
    """Return the question inside of COPY (...) TO STDOUT (FORMAT binary), if it is one."""
    match = _COPY.fullmatch(sql)
    return None if match is None else match["sql"]


def command(sql: str) -> Rows | None:
    """Return the result of a statement that changes nothing here; None for questions.

    Raises `WireError` for statements that would write.
    """
    word = first_word(sql)
    if word in _TAGS:
        return Rows(tag=_TAGS[word])
    if word in _WRITES:
        raise WireError("25006", f"This is read-only: {word} is not possible. Ask by SELECT.")
    if word not in ("SELECT", "WITH", "SHOW", "TABLE", "VALUES", "FROM"):
        raise WireError("0A000", "Only questions by SELECT are answered.")
    return None


def setting(sql: str) -> tuple[str, str] | None:
    """Return name and value of SET name = value."""
    match = _SET.fullmatch(sql)
    return None if match is None else (match[1].lower(), match[2].strip())
