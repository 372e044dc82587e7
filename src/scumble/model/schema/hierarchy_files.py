"""Hierarchies in files as ARX has them, and hierarchies that are proposed for a domain.

A file has no header and one line for each value: the value, then its group at each level, separated
by `;`, up to `*`. All lines have the same number of fields.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from scumble.model.errors import SchemaError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates, IntegerRange
from scumble.model.schema.hierarchies import Branch, Intervals, Nested, Periods, Prefixes, Rule
from scumble.model.schema.numbers import Number

_MOST_BYTES = 1 << 26
_STEPS = (1, 2, 5)
_MOST_LEVELS = 5


def read_hierarchy(path: Path, attribute: Attribute) -> Nested:
    """Return the hierarchy of an attribute from a file in ARX's layout.

    Values of the file that the domain does not have are ignored; every value of the domain must be
    in the file. A missing value needs no line.
    """
    lines = [line for line in _lines(path) if any(line)]
    widths = {len(line) for line in lines}
    if not lines or widths == {1} or len(widths) > 1:
        raise SchemaError(
            f"{attribute}: the hierarchy file '{path.name}' must have one line for each value, all "
            "with the same number of fields, separated by ';' and ending in '*'."
        )
    codes, outside = attribute.encode(pa.array([line[0] for line in lines], pa.string()))
    values = attribute.labels().to_pylist()
    known: dict[int, list[str]] = {}
    for code, strange, line in zip(codes.tolist(), outside.tolist(), lines, strict=True):
        if strange or values[code] is None:
            continue
        if known.setdefault(code, line[1:]) != line[1:]:
            raise SchemaError(
                f"{attribute}: the hierarchy file '{path.name}' has {values[code]!r} twice."
            )
    return Nested(_grouped([(line, values[code]) for code, line in sorted(known.items())], path))


def _lines(path: Path) -> list[list[str]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SchemaError(f"The hierarchy file '{path.name}' is larger than 64 MiB.")
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise SchemaError(f"There is no hierarchy file '{path}'.") from None
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"The hierarchy file '{path}' cannot be read as UTF-8 text.") from None
    try:
        return [[f.strip() for f in line] for line in csv.reader(text.splitlines(), delimiter=";")]
    except csv.Error:
        raise SchemaError(f"The hierarchy file '{path.name}' is not CSV with ';'.") from None


def _grouped(leaves: Sequence[tuple[list[str], Any]], path: Path) -> tuple[Any, ...]:
    """Return the nested groups of values with their labels, the finest first."""
    height = len(leaves[0][0]) if leaves else 0
    if height and len({line[-1] for line, _ in leaves}) == 1:
        height -= 1  # the root is not a group
    for level in range(height - 1):
        above: dict[str, str] = {}
        for line, _ in leaves:
            if above.setdefault(line[level], line[level + 1]) != line[level + 1]:
                raise SchemaError(
                    f"The hierarchy file '{path.name}' is not nested: {line[level]!r} is in two "
                    "groups of the next level."
                )
    return _branches(leaves, height)


def _branches(leaves: Sequence[tuple[list[str], Any]], height: int) -> tuple[Any, ...]:
    if not height:
        return tuple(value for _, value in leaves)
    groups: dict[str, list[tuple[list[str], Any]]] = {}
    for leaf in leaves:
        groups.setdefault(leaf[0][height - 1], []).append(leaf)
    return tuple(Branch(label, _branches(some, height - 1)) for label, some in groups.items())


def with_files(table: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    """Return the table of an attribute with its hierarchy read, if that is the name of a file."""
    given = table.get("hierarchy")
    if not isinstance(given, str):
        return table
    plain = Attribute.from_dict({k: v for k, v in table.items() if k != "hierarchy"})
    if folder is None:
        raise SchemaError(f"{plain}: a hierarchy file can be named in a schema file only.")
    if not plain.tabular:
        raise SchemaError(f"{plain}: only a column with listed values has a hierarchy.")
    return {**table, "hierarchy": read_hierarchy(folder / given, plain).spec()}


def proposed_hierarchy(attribute: Attribute) -> Rule | None:
    """Return a hierarchy for the domain of an attribute; None where only the owner knows one."""
    domain = attribute.domain
    if isinstance(domain, IntegerRange | Number) and 10 <= domain.size <= 10**6:
        widths = [5]
        for width in (step * 10**power for power in range(1, 7) for step in _STEPS):
            if width % widths[-1] == 0 and width <= domain.size / 2:
                widths.append(width)
        return Intervals(tuple(widths[:_MOST_LEVELS]), 0)
    if isinstance(domain, Bins) and domain.size >= 4:
        edges = [int(edge) if edge == int(edge) else edge for edge in domain.edges]
        found, step = list[tuple[float, ...]](), 2
        while step < domain.size:
            found.append(tuple(edges[:-1:step]))
            step *= 2
        return Intervals(tuple(found))
    if isinstance(domain, Dates):
        periods = {"day": ("month", "year"), "month": ("quarter", "year"), "year": ("decade",)}
        return Periods(periods[domain.by])
    if isinstance(domain, Category) and _are_codes(domain.values):
        longest = len(str(domain.values[0]))
        return Prefixes(tuple(range(longest - 1, 0, -1)))
    return None


def _are_codes(values: Sequence[object]) -> bool:
    """Return whether texts are codes: digits, all of one length above 1."""
    texts = [value for value in values if isinstance(value, str)]
    same = len(texts) == len(values) and len({len(text) for text in texts}) == 1
    return same and len(texts[0]) > 1 and all(text.isascii() and text.isdigit() for text in texts)
