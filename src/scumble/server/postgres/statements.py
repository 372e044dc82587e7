"""Statements of a client: their kind, their parts, and parameters put in as literals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scumble.server.postgres.messages import Rows, WireError

_SPECIAL = re.compile(r"['\"$;]|--|/\*")
_QUOTED = {"'": re.compile(r"'(?:[^']|'')*+'"), '"': re.compile(r'"(?:[^"]|"")*+"')}
_ESCAPED = re.compile(r"'(?:[^'\\]|\\.|'')*+'", re.DOTALL)
_DOLLAR = re.compile(r"\$(?:[A-Za-z_]\w{0,60})?\$")
_PARAMETER = re.compile(r"\$([0-9]{1,4})")
_LONGEST = 65_536  # characters of a statement with its parameters
_COPY = re.compile(
    r"\s*COPY\s*\((?P<sql>.*)\)\s*TO\s+STDOUT\s*(?:WITH\s*)?\(\s*FORMAT\s+\"?binary\"?\s*\)\s*",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(
    r"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.]+)\s*(?:=|\sTO\s)\s*'?([^']*?)'?\s*", re.IGNORECASE
)
_ACCURACY = re.compile(
    r"\s+WITH\s+ACCURACY\s+(?:'([^']*)'|([-+]?[\w.]+(?:\s*%)?))\s*\Z", re.IGNORECASE
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
    parts: list[list[str]] = [[]]
    for kind, piece in _pieces(text):
        if kind == "end":
            parts.append([])
        else:
            parts[-1].append(" " if kind == "comment" else piece)
    found = ["".join(part).strip() for part in parts]
    return [part for part in found if part]


def with_parameters(text: str, literals: Sequence[str]) -> str:
    """Return a statement with its parameters $1, $2, ... replaced by literals.

    Blanks around them keep a minus sign before a parameter from making a comment of it.
    """
    parts, length = [], 0
    for kind, piece in _pieces(text):
        found = piece
        if kind == "parameter":
            number = int(piece[1:])
            if not 0 < number <= len(literals):
                raise WireError("08P01", f"The parameter ${number} is missing.")
            found = f" {literals[number - 1]} "
        parts.append(found)
        length += len(found)
        if length > _LONGEST:
            raise WireError("54000", f"A statement has at most {_LONGEST:,} characters.")
    return "".join(parts)


def parameters(text: str) -> int:
    """Return the largest number of a parameter in a statement."""
    found = [int(piece[1:]) for kind, piece in _pieces(text) if kind == "parameter"]
    return max(found, default=0)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of the pieces of a statement, in time linear in its length."""
    place = 0
    while match := _SPECIAL.search(text, place):
        if match.start() > place:
            yield "other", text[place : match.start()]
        kind, end = _special(text, match.start(), match[0])
        yield kind, text[match.start() : end]
        place = end
    yield "other", text[place:]


def _special(text: str, start: int, mark: str) -> tuple[str, int]:
    """Return the kind of the piece that begins with a mark, and its end."""
    if mark == ";":
        return "end", start + 1
    if mark == "--":
        end = text.find("\n", start)
        return "comment", len(text) if end < 0 else end
    if mark == "/*":
        return "comment", _after(text, "*/", start + 2)
    if mark == "$":
        if tag := _DOLLAR.match(text, start):
            return "quoted", _after(text, tag[0], tag.end())
        number = _PARAMETER.match(text, start)
        return ("parameter", number.end()) if number else ("other", start + 1)
    escaped = mark == "'" and re.search(r"(?<!\w)[eE]\Z", text[max(0, start - 2) : start])
    quoted = (_ESCAPED if escaped else _QUOTED[mark]).match(text, start)
    if quoted is None:
        raise WireError("42601", "A quoted text or name is never closed.", start + 1)
    return "quoted", quoted.end()


def _after(text: str, closing: str, start: int) -> int:
    end = text.find(closing, start)
    if end < 0:
        raise WireError("42601", "A comment or a quoted text is never closed.", start)
    return end + len(closing)


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


def accuracy(sql: str) -> tuple[str, str | None]:
    """Return a question without WITH ACCURACY at its end, and the half-width that it names."""
    match = _ACCURACY.search(sql)
    return (sql, None) if match is None else (sql[: match.start()], match[1] or match[2])


def setting(sql: str) -> tuple[str, str] | None:
    """Return name and value of SET name = value."""
    match = _SET.fullmatch(sql)
    return None if match is None else (match[1].lower(), match[2].strip())
