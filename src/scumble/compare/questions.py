"""Which questions a comparison asks: the owner's, or those of a generator by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scumble.compare import workloads
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import FloorError, Workload
from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute

_GROUPS = 200  # values of the sensitive attributes for which every question is asked
_TABLES, _COUNTS = 30, 400  # questions, if nobody says how many: with groups, and without

Options = dict[str, Any]
Generator = Callable[[TrueTable, int | None, int, Options], Workload]


def questions(given: str, table: TrueTable, count: int | None, seed: int) -> Workload:
    """A file of SQL; or a generator with its options, and so many questions (0 for all)."""
    if not table.rows:
        raise ParameterError("The table has no rows: there is nothing to ask about, or to compare.")
    name, _, rest = given.partition(":")
    if name in GENERATORS:
        generator, known = GENERATORS[name]
        options = _options(given, rest, known)
        try:
            found = generator(table, count, seed, options)
            return replace(found, name=f"{name}: {found.name}")
        except FloorError as error:
            smaller = f"--workload {name}:floor={options['floor'] / 10:g}"
            raise ParameterError(f"{str(error).rstrip('.')}, as {smaller}.") from None
    if not Path(given).is_file():
        why = "is a folder" if Path(given).is_dir() else "does not exist"
        raise ParameterError(
            f"The file '{given}' {why}. --workload takes a file of SQL, or one of "
            f"{', '.join(GENERATORS)}."
        )
    return workloads.from_sql(given, table.schema)


def _breakdowns(table: TrueTable, count: int | None, seed: int, options: Options) -> Workload:
    groups = _grouped(table.schema.sensitive)
    number = _most(count, _TABLES)
    return workloads.breakdowns(table, count=number, groups=groups, seed=seed, **options)


def _conjunctions(table: TrueTable, count: int | None, seed: int, options: Options) -> Workload:
    number = _several("conjunctions", count)
    return workloads.conjunctions(table, count=number, seed=seed, **options)


def _selections(table: TrueTable, count: int | None, seed: int, options: Options) -> Workload:
    return workloads.selections(table.schema, most=_most(count, _COUNTS), seed=seed, **options)


def _marginals(table: TrueTable, count: int | None, seed: int, options: Options) -> Workload:
    return workloads.marginals(table.schema, most=_most(count, _TABLES), seed=seed, **options)


def _ranges(table: TrueTable, count: int | None, seed: int, options: Options) -> Workload:
    schema = table.schema
    names = [each.name for each in schema.published if each.size > 2]
    number = _several("ranges", count)
    return workloads.ranges(
        schema, count=number, attributes=names, table=table, seed=seed, **options
    )


def _prefixes(table: TrueTable, _count: int | None, _seed: int, options: Options) -> Workload:
    return workloads.prefixes(table.schema, _column("prefixes", options))


def _intervals(table: TrueTable, count: int | None, seed: int, options: Options) -> Workload:
    column = _column("intervals", options)
    number = _several("intervals", count)
    return workloads.intervals(table.schema, column, count=number, seed=seed)


# Each with its options and their defaults, by which their values are read.
GENERATORS: Mapping[str, tuple[Generator, Options]] = MappingProxyType(
    {
        "breakdowns": (_breakdowns, {"ways": 2, "floor": 0.02}),
        "conjunctions": (_conjunctions, {"ways": 3, "floor": 0.001}),
        "selections": (_selections, {"ways": 3}),
        "marginals": (_marginals, {"ways": 2}),
        "ranges": (_ranges, {"volume": 0.1, "centres": "uniform"}),
        "prefixes": (_prefixes, {"column": ""}),
        "intervals": (_intervals, {"column": ""}),
    }
)


def _options(given: str, text: str, known: Mapping[str, Any]) -> Options:
    """`ways=3,floor=0.01`; a column may stand by itself."""
    found = dict(known)
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign and "column" in known:
            name, value = "column", part
        try:
            found[name] = type(known[name])(value)
        except (KeyError, ValueError):
            allowed = ", ".join(f"{each}={value}" for each, value in known.items())
            raise ParameterError.of("compare", "workload", f"NAME:{allowed}", given) from None
    return found


def _most(count: int | None, usual: int) -> int | None:
    """How many questions; None for all."""
    return usual if count is None else count or None


def _several(name: str, count: int | None) -> int:
    if count == 0:
        raise ParameterError(f"There are too many {name} to ask all; give their number.")
    return count or _COUNTS


def _column(name: str, options: Options) -> str:
    if not options["column"]:
        raise ParameterError(f"Say of which column: --workload {name}:COLUMN.")
    return str(options["column"])


def _grouped(sensitive: tuple[Attribute, ...]) -> tuple[str, ...]:
    """As many sensitive attributes as have few combinations; the first in any case."""
    chosen = list(sensitive[:1])
    for attribute in sensitive[1:]:
        if prod(each.size for each in (*chosen, attribute)) <= _GROUPS:
            chosen.append(attribute)
    return tuple(each.name for each in chosen)
