"""A schema as TOML text, and the tables of plain values behind TOML and JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Literal, TypeVar, get_args

from scumble.model.errors import SchemaError, nearest_name
from scumble.model.schema.domains import (
    BinnedNumber,
    Bins,
    Boolean,
    Category,
    Dates,
    Domain,
    IntegerRange,
)
from scumble.model.schema.lists import ListDomain
from scumble.model.schema.numbers import Number, UnlimitedNumber
from scumble.model.schema.open_category import OpenCategory
from scumble.model.schema.unit import Unit

Role = Literal["identifier", "quasi", "sensitive", "insensitive"]
ROLES: tuple[Role, ...] = get_args(Role)
FORMAT = 1

Word = TypeVar("Word", bound=str)
AnyDomain = Domain | ListDomain | OpenCategory | UnlimitedNumber

_LIST_KEYS: tuple[str, ...] = ("values", "range", "bins", "edges", "other", "separator", "longest")
_KEYS = {
    "category": ("values", "ordered", "other", "open"),
    "integer": ("range", "decimal"),
    "number": ("limits", "step", "edges", "bins", "limits_needed", "decimal"),
    "binned": ("edges", "decimal"),
    "boolean": ("true", "false"),
    "date": ("range", "by", "format"),
    "set": _LIST_KEYS,
    "sequence": _LIST_KEYS,
}
KINDS = tuple(_KEYS)
FILL_IN = "FILL IN"  # stands for a type that the owner must write
_COMMON = ("name", "role", "type", "missing", "from_data", "hierarchy")
_HEADER = """\
# What each column may hold, and what is done with it. Domains are public: write what is possible.
#   identifier   never published (names, numbers of people)
#   quasi        published as it is; others may know it
#   sensitive    protected
#   insensitive  published as it is
# from_data = true marks what was read from private data: check it, then delete that line.
"""
_UNIT = """\

# What one row stands for: unit = "row" if every row is another person; unit = "person" if a person
# may have several, with the column that names people and the most rows of a person that count.
"""
_IMPOSSIBLE = """\

# Combinations of values that nobody has, in SQL. They are public.
"""
_WIDTH = 96
_MOST_BINS = 10_000


def read_role(name: object, table: Mapping[str, Any]) -> Role:
    """Return the role in the table of an attribute; the name and the keys are checked, too."""
    if not isinstance(name, str):
        raise SchemaError(f"The name of an attribute must be text. Got {name!r} instead.")
    every = {key for keys in _KEYS.values() for key in keys}
    for key in table:
        if key not in _COMMON and key not in every:
            raise SchemaError(
                f"Attribute '{name}': unknown key '{key}'.{nearest(key, [*_COMMON, *every])}"
            )
    if "role" not in table:
        raise SchemaError(f"Attribute '{name}': give its role ({', '.join(ROLES)}).")
    return _one_of(name, "role", table["role"], ROLES)


def read_domain(name: object, table: Mapping[str, Any]) -> AnyDomain:
    """Return the domain in the table of an attribute."""
    if "type" not in table:
        raise SchemaError(f"Attribute '{name}': give its type ({', '.join(KINDS)}).")
    if table["type"] == FILL_IN:
        raise SchemaError(
            f"Attribute '{name}': its type is still to be filled in. Write one of "
            f'{", ".join(KINDS)} and what is possible, or role = "identifier" and no type.'
        )
    kind = _one_of(name, "type", table["type"], KINDS)
    for key in table:
        if key not in _COMMON and key not in _KEYS[kind]:
            allowed = " and ".join(f"'{word}'" for word in _KEYS[kind])
            raise SchemaError(
                f"Attribute '{name}': '{key}' is not for type {kind}, which takes {allowed}."
            )
    try:
        return _domain(kind, table)
    except SchemaError as error:
        sentence = str(error)
        raise SchemaError(f"Attribute '{name}': {sentence[0].lower()}{sentence[1:]}") from None


def read_missing(name: object, given: object) -> bool | tuple[str, ...]:
    """Return True, False, or the words that mean a missing value."""
    if isinstance(given, bool):
        return given
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        return tuple(given) or True
    raise SchemaError(
        f"Attribute '{name}': 'missing' must be true, false or a list of words. "
        f"Got {given!r} instead."
    )


def read_flag(name: object, key: str, table: Mapping[str, Any]) -> bool:
    """Return the value of a boolean key; False if the key is absent."""
    given = table.get(key, False)
    if not isinstance(given, bool):
        raise SchemaError(
            f"Attribute '{name}': '{key}' must be true or false. Got {given!r} instead."
        )
    return given


def domain_to_table(domain: AnyDomain) -> dict[str, Any]:
    """Return a domain as a table of JSON values, dates as ISO text."""
    match domain:
        case Category(values, ordered, other):
            table: dict[str, Any] = {"values": list(values)}
            table |= {"ordered": True} if ordered else {}
            table |= {"other": other} if other is not None else {}
        case ListDomain(_, members, separator, longest):
            table = domain_to_table(members)
            table |= {"separator": separator} if separator != " " else {}
            table |= {"longest": longest} if longest is not None else {}
            del table["type"]
        case IntegerRange(low, high):
            table = {"range": [low, high]}
        case BinnedNumber(edges, number):
            table = domain_to_table(number) | {"edges": _plain(edges[1:-1])}
        case Bins(edges):
            table = {"edges": _plain(edges)}
        case Number() | UnlimitedNumber():
            table = domain.to_table()
        case Dates(first, last, by):
            table = {"range": [first.isoformat(), last.isoformat()], "by": by}
        case _:
            table = {"open": True} if isinstance(domain, OpenCategory) else {}
    return {"type": domain.kind} | table


def _plain(edges: Iterable[float]) -> list[int | float]:
    return [int(edge) if edge == int(edge) else edge for edge in edges]


def to_toml(
    attributes: Iterable[tuple[Mapping[str, Any], str]],
    most: int | None = None,
    unit: Unit | None = None,
    impossible: Sequence[str] = (),
) -> str:
    """Return the TOML text of attribute tables, each with its note for the owner as a comment.

    Lists of more than `most` items are abbreviated for display; such a text is not valid TOML.
    """
    parts = [_HEADER, f"format = {FORMAT}\n"]
    if unit is not None:
        parts += [_UNIT, *_comment(unit.note)]
        parts += [_line(key, value, False, None) for key, value in unit.to_table().items()]
    if impossible:
        parts += [_IMPOSSIBLE, _line("impossible", list(impossible), False, most)]
    for table, note in attributes:
        parts.append(f"\n[attributes.{_key(table['name'])}]\n")
        parts += _comment(note)
        for key, value in table.items():
            if key != "name" and not isinstance(value, dict):
                bare = table.get("type") == "date" and key == "range"
                parts.append(_line(key, value, bare, most))
        for key, value in table.items():  # after all other keys, as TOML wants it
            if isinstance(value, dict):
                parts += _table(f"attributes.{_key(table['name'])}.{key}", key, value, most)
    return "".join(parts)


def _comment(note: str) -> list[str]:
    wrapped = (textwrap.wrap(line, _WIDTH - 2) for line in note.splitlines())
    return [f"# {part}\n" for parts in wrapped for part in parts]


def _table(path: str, key: str, value: Mapping[str, Any], most: int | None) -> list[str]:
    """Return a table in a table: on one line if it is short, else with one line for each key."""
    line = f"{key} = {_value(value)}\n"
    if len(line) <= _WIDTH:
        return [line]
    shown = list(value.items())[:most]
    more = [f"# {len(value)} in all\n"] if len(shown) < len(value) else []
    return [f"\n[{path}]\n", *(_line(_key(k), v, False, most) for k, v in shown), *more]


def _domain(kind: str, table: Mapping[str, Any]) -> AnyDomain:
    match kind:
        case "set" | "sequence":
            lists: Any = kind
            return ListDomain(
                lists, _members(table), table.get("separator", " "), table.get("longest")
            )
        case "category" if _flag(table, "open"):
            if given := [key for key in ("values", "ordered", "other") if key in table]:
                raise SchemaError(f"Give either 'open' or '{given[0]}'.")
            return OpenCategory()
        case "category":
            return _category(table)
        case "integer":
            low, high = _pair(table)
            return IntegerRange(low, high)
        case "binned":
            return Bins(tuple(_list(table, "edges")))
        case "number":
            return _number(table)
        case "date":
            first, last = (_date(bound) for bound in _pair(table))
            return Dates(first, last, table.get("by", "day"))
    return Boolean()


def _number(table: Mapping[str, Any]) -> Number | BinnedNumber | UnlimitedNumber:
    """Return amounts, which are cut at the `edges` inside of their limits, or into equal bins."""
    step = table.get("step", 1)
    if _flag(table, "limits_needed"):
        if given := [key for key in ("limits", "edges", "bins") if key in table]:
            raise SchemaError(f"Give either 'limits_needed' or '{given[0]}'.")
        return UnlimitedNumber(step)
    if "limits" not in table:
        raise SchemaError(
            "Give its limits, as limits = [0, 500000]: amounts beyond them count as the limit."
        )
    low, high = _pair(table, "limits")
    number = Number(low, high, step)
    if "edges" in table and "bins" in table:
        raise SchemaError("Give either 'edges' or 'bins'.")
    if "edges" in table:
        return BinnedNumber.of(number, _list(table, "edges"))
    return BinnedNumber.equal(number, _count_of_bins(table["bins"])) if "bins" in table else number


def _category(table: Mapping[str, Any]) -> Category:
    return Category(tuple(_list(table, "values")), _flag(table, "ordered"), table.get("other"))


def _members(table: Mapping[str, Any]) -> Category | IntegerRange | Bins:
    """Return the domain of the values of a list: given by values, by a range of whole numbers, by
    the edges of bins, or by a range of numbers in as many equal bins as `bins` says.
    """
    key = next((key for key in ("edges", "range") if key in table), None)
    if key is None:
        if "bins" in table:
            raise SchemaError("Give 'range' with 'bins': the bins divide it.")
        return _category(table)
    if given := [
        other for other in ("range", "values", "other") if other in table and other != key
    ]:
        raise SchemaError(f"Give either '{key}' or '{given[0]}'.")
    if key == "edges":
        if "bins" in table:
            raise SchemaError("Give either 'edges' or 'bins'.")
        return Bins(tuple(_list(table, "edges")))
    low, high = _pair(table)
    return _equal_bins(low, high, table["bins"]) if "bins" in table else IntegerRange(low, high)


def _equal_bins(low: Any, high: Any, number: Any) -> Bins:
    """Return `number` bins of one width between two numbers."""
    Bins((low, high))  # raises SchemaError if these are not two numbers, the lower one first
    number = _count_of_bins(number)
    inner = (low + (high - low) * place / number for place in range(1, number))
    return Bins((low, *inner, high))


def _count_of_bins(given: Any) -> int:
    if type(given) is not int or not 1 <= given <= _MOST_BINS:
        raise SchemaError(f"'bins' must be a whole number from 1 to {_MOST_BINS}. Got {given!r}.")
    return given


def _flag(table: Mapping[str, Any], key: str) -> bool:
    given = table.get(key, False)
    if not isinstance(given, bool):
        raise SchemaError(f"'{key}' must be true or false. Got {given!r} instead.")
    return given


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    given = table.get(key)
    if not isinstance(given, list):
        raise SchemaError(f"Give '{key}' as a list in square brackets.")
    return given


def _pair(table: Mapping[str, Any], key: str = "range") -> list[Any]:
    given = _list(table, key)
    if len(given) != 2:
        raise SchemaError(
            f"'{key}' must be two values, the lowest and the highest. Got {len(given)}."
        )
    return given


def _date(given: object) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise SchemaError(
            f"The range must be two dates like 2024-12-31. Got {given!r} instead."
        ) from None


def _one_of(name: object, key: str, given: object, allowed: tuple[Word, ...]) -> Word:
    for word in allowed:
        if given == word:
            return word
    hint = nearest(str(given), allowed)
    raise SchemaError(
        f"Attribute '{name}': the {key} must be one of {', '.join(allowed)}. "
        f"Got {given!r} instead.{hint}"
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the question whether a known word was meant, or nothing; case is ignored."""
    found = nearest_name(word, known)
    return "" if found is None else f" Did you mean '{found}'?"


def _line(key: str, value: object, bare: bool, most: int | None) -> str:
    if not isinstance(value, list):
        return f"{key} = {_value(value)}\n"
    if most is not None and len(value) > most:
        shown = ", ".join(_value(item) for item in value[: most // 4])
        return f"{key} = [{shown}, ...]  # {len(value)} in all; -o FILE writes them\n"
    items = [item if bare else _value(item) for item in value]
    line = f"{key} = [{', '.join(items)}]\n"
    return line if len(line) <= _WIDTH + 1 else f"{key} = [\n{_wrapped(items)}]\n"


def _wrapped(items: Iterable[str]) -> str:
    """Put as many items on a line as fit; textwrap would break inside a value."""
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 6 > _WIDTH:
            lines.append("")
        lines[-1] += f" {item},"
    return "".join(f"   {line}\n" for line in lines)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: object) -> str:
    """Return a value as TOML: a scalar as in JSON, except for one control character."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
