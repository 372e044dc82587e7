"""Tables as text, and HTML for notebooks: what `__repr__` and `_repr_html_` return."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def text_table(head: Sequence[str], body: Iterable[Sequence[str]], text_columns: int) -> list[str]:
    """Return the lines of a table; the first `text_columns` columns are aligned left, the others
    right.

    >>> text_table(["sex", "value"], [["f", "3"]], 1)
    ['sex  value', 'f        3']
    """
    lines = [head, *body]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < text_columns else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def html_table(head: Sequence[str], body: Iterable[Sequence[str]], text_columns: int) -> str:
    """Return a table; the first `text_columns` columns are aligned left, the others right.

    >>> html_table(["sex", "value"], [["<f>", "3"]], 1).count("&lt;f&gt;")
    1
    """
    top = "".join(_cell("th", cell, place < text_columns) for place, cell in enumerate(head))
    rows = "".join(
        "<tr>"
        + "".join(_cell("td", cell, place < text_columns) for place, cell in enumerate(line))
        + "</tr>"
        for line in body
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"


def html_list(title: str, sentences: Iterable[str]) -> str:
    """Return a title in bold, and a list of sentences below it."""
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f"<b>{html.escape(title)}</b>" + (f"<ul>{items}</ul>" if items else "")


def html_notes(notes: Iterable[str]) -> str:
    """Return notes in small letters, each on its own line."""
    return "".join(f"<br><small>{html.escape(note)}</small>" for note in notes)


def _cell(tag: str, text: str, left: bool) -> str:
    side = "left" if left else "right"
    return f'<{tag} style="text-align: {side}">{html.escape(text)}</{tag}>'


def format_label(value: object) -> str:
    """Format a value of a group; a list as questions write it."""
    if isinstance(value, (list, tuple)):
        parts = (repr(part) if isinstance(part, str) else format_label(part) for part in value)
        return f"[{', '.join(parts)}]"
    return "(missing)" if value is None else str(value)
