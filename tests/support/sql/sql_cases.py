"""The questions of `*.sql`: blocks of SQL, each followed by its result in lines `--> ...`."""

from __future__ import annotations

from pathlib import Path

from scumble.model.errors import QueryError
from scumble.model.query import Query
from scumble.model.schema.schema import Schema

HERE = Path(__file__).parent
SCHEMA = Schema.load(HERE / "schema.toml")
TABLES = {"ages": ("age", "young")}
MARK = "--> "


def cases(file: str) -> list[tuple[str, str]]:
    """SQL and the expected result."""
    found = []
    for block in (HERE / file).read_text().strip().split("\n\n"):
        lines = block.split("\n")
        sql = [line for line in lines if not line.startswith(MARK)]
        expected = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
        found.append(("\n".join(sql), "\n".join(expected)))
    return found


def shown(query: Query) -> str:
    """Return a question in the notation of the files."""
    argument = [query.argument.sql] if query.argument else []
    lines = [" ".join([query.aggregate, *argument])]
    for clause in query.clauses:
        lines.append(f"where {clause.sql}  [{', '.join(clause.attributes)}]")
    lines += [f"by {name}" for name in query.groups]
    lines += [f"note {note}" for note in query.notes]
    return "\n".join(lines)


def complaint(text: str, error: QueryError) -> str:
    """Return the word under the caret, and the message."""
    assert error.line is not None
    assert error.column is not None
    rest = text.splitlines()[error.line - 1][error.column - 1 :]
    return f"{rest.split()[0] if rest else '(end)'} : {error.message}"
