"""Answers as JSON, and back: what the HTTP interface sends and the client reads.

A law is sent with its parameters, so that a client can make the interval of any level. A law
without such a form is sent as its intervals at some levels; for another level, the interval of the
next higher one is used, which holds at least as often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

import pyarrow as pa

from scumble.model.errors import ScumbleError
from scumble.model.laws.base import check_level
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace, RoundedNormal
from scumble.model.laws.weighted_sum import NoiseSum
from scumble.private.database.answers import (
    Average,
    Bounds,
    CountLaw,
    DatabaseEstimate,
    MixedNoise,
    Weights,
)
from scumble.private.database.live.results import LiveAnswer
from scumble.public.estimate import (
    ALL,
    LEVEL,
    Anywhere,
    Clamped,
    Estimate,
    Estimates,
    Exact,
    Grouped,
    GroupingColumn,
    Law,
    Scaled,
    Shifted,
    Undefined,
    Unknown,
)
from scumble.public.estimate_table import EstimateTable, SelectedEstimates
from scumble.public.estimation.selecting.combined_laws import IntervalLaw
from scumble.public.tabulated_laws import (
    LEVELS,
    TabulatedBounds,
    TabulatedIntervals,
    tabulate,
)

AnyEstimate = Estimate | Estimates | EstimateTable
_CLASSES: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *(
            Exact,
            Unknown,
            Undefined,
            Anywhere,
            Clamped,
            Scaled,
            IntervalLaw,
            CountLaw,
            Bounds,
            Average,
        ),
        *(MixedNoise, Weights, Shifted),
        *(NoiseSum, DiscreteLaplace, DiscreteGaussian, RoundedNormal),
    )
}
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


# --- laws -----------------------------------------------------------------------------------------


def encode_law(estimate: Estimate, levels: Sequence[float] = LEVELS) -> dict[str, Any]:
    """Return the law of an estimate as JSON values: its parameters, or intervals at `levels`."""
    try:
        found: dict[str, Any] = _encoded(estimate.law)
    except _NoFormError:
        found = _intervals(estimate, levels)
    return found


def _intervals(estimate: Estimate, levels: Sequence[float]) -> dict[str, Any]:
    """Return the intervals of an estimate at some levels, as JSON values."""
    law = tabulate(estimate, levels)
    found: dict[str, Any] = {
        "name": "intervals",
        "stderr": _number(law.stderr),
        "levels": _numbers(law.levels),
    }
    if law.limits is not None:
        bounds = [_number(limit) for limit in law.limits]
        noise, typical = _numbers(law.noise), _numbers(law.typical)
        found |= {"bounds": bounds, "noise": noise, "typical": typical}
    return found


def _numbers(rows: Sequence[Sequence[float]]) -> list[list[float | str]]:
    return [list(map(_number, row)) for row in rows]


def decode_law(data: Mapping[str, Any]) -> Law:
    """Return a law from its JSON values; raises `ValueError` for what is not one."""
    if data["name"] != "intervals":
        law: Law = _decoded(data)
        return law
    stderr, levels = _from_number(data["stderr"]), _table(data["levels"])
    if "bounds" not in data:
        return TabulatedIntervals(stderr, levels)
    low, high = map(_from_number, data["bounds"])
    typical = _table(data.get("typical", ()))  # older servers send none
    return TabulatedBounds(stderr, levels, _table(data["noise"]), (low, high), typical)


def _table(rows: Sequence[Sequence[Any]]) -> tuple[tuple[float, float, float], ...]:
    return tuple((float(level), _from_number(low), _from_number(high)) for level, low, high in rows)


class _NoFormError(Exception):
    """A law, or a part of it, that is sent as intervals."""


def _encoded(value: Any) -> Any:
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, float):
        return _number(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, (tuple, list)):
        return [_encoded(each) for each in value]
    if is_dataclass(value) and type(value).__name__ in _CLASSES:
        parts = {each.name: _encoded(getattr(value, each.name)) for each in fields(value)}
        return {"name": type(value).__name__, "parameters": parts}
    raise _NoFormError


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if isinstance(value, str):
        return _from_number(value)
    if not isinstance(value, Mapping):
        return value
    if "fraction" in value:
        return Fraction(value["fraction"])
    given = {name: _decoded(part) for name, part in value["parameters"].items()}
    if value["name"] not in _CLASSES:
        raise ValueError(f"the law {value['name']!r} is not known")
    return _CLASSES[value["name"]](**given)


def _number(number: float) -> float | str:
    """Return a number as JSON can say it: those that are not finite become text."""
    return number if math.isfinite(number) else str(float(number))


def _from_number(number: float | str) -> float:
    return _SPECIAL[number] if isinstance(number, str) else number


# --- answers --------------------------------------------------------------------------------------


def encode_answer(answer: AnyEstimate, level: float = LEVEL) -> dict[str, Any]:
    """Return an answer as JSON values: one estimate, or the rows of a table of them.

    `level` is that of `low` and `high`.
    """
    check_level(level)
    if isinstance(answer, Estimate):
        alias = {"alias": answer.alias} if answer.alias else {}
        return {"kind": "estimate", **alias, **_estimate(answer, level)}
    few = LEVELS if len(answer) <= 100 else (level,)
    found: dict[str, Any] = {
        "groups": [{"name": name, "type": str(kind)} for name, kind in answer.types],
        "level": level,
    }
    if answer.groupings:
        found["groupings"] = [
            {"name": each.name, "columns": list(each.columns), "shown": each.shown}
            for each in answer.groupings
        ]
    if isinstance(answer, EstimateTable):
        shown = answer.shown_level(level)
        levels = sorted({*few, shown})
        rows: list[Any] = [
            {**_key(answer, key), "estimates": [_estimate(each, shown, levels) for each in row]}
            for key, row in answer.rows
        ]
        more = {"kind": "table", "items": list(answer.items), "among": answer.among}
        notes = {"notes": answer.notes, "about": list(answer.about)}
        return {**more, **found, "level": shown, **notes, "rows": rows}
    shown = answer.shown_level(level) if isinstance(answer, SelectedEstimates) else level
    levels = sorted({*few, shown})
    rows = [{**_key(answer, key), **_estimate(each, shown, levels)} for key, each in answer.rows]
    among = {"among": answer.among} if isinstance(answer, SelectedEstimates) else {}
    more = among | ({"aliases": list(answer.aliases)} if any(answer.aliases) else {})
    notes = {"notes": answer.notes, "about": list(answer.about)}
    return {"kind": "estimates", **found, **more, "level": shown, **notes, "rows": rows}


def encode_live(answer: LiveAnswer, level: float = LEVEL) -> dict[str, Any]:
    """Return an answer of a live database as JSON values: that of `encode_answer`, and more."""
    fresh = [
        {"key": [{"date": p.isoformat()} if isinstance(p, date) else p for p in key], **found}
        for key, each in answer.fresh.items()
        for found in [_estimate(each, level)]
    ]
    cost = {name: getattr(answer, name) for name in ("status", "charged", "needed")}
    found = {"half_width": _number(answer.half_width), "fresh": fresh, "cost": cost}
    return {**encode_answer(answer.estimate, level), **found}


def decode_live(data: Mapping[str, Any]) -> LiveAnswer:
    """Return the answer that `encode_live` described; raises `ScumbleError` if it cannot."""
    with _readable():
        fresh = {
            tuple(
                date.fromisoformat(p["date"]) if isinstance(p, dict) else p for p in each["key"]
            ): _read_estimate(each)
            for each in data["fresh"]
        }
        half_width = _from_number(data["half_width"])
        return LiveAnswer(decode_answer(data), half_width=half_width, fresh=fresh, **data["cost"])


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ScumbleError(
            "The server sent an answer that this version of scumble cannot read. Use the version "
            "of the server."
        ) from error


def decode_answer(data: Mapping[str, Any]) -> AnyEstimate:
    """Return the answer that `encode_answer` described; raises `ScumbleError` if it cannot."""
    with _readable():
        return _decode_answer(data)


def _decode_answer(data: Mapping[str, Any]) -> AnyEstimate:
    if data["kind"] == "estimate":
        return replace(_read_estimate(data), alias=str(data.get("alias", "")))
    types = [(each["name"], _arrow_type(each["type"])) for each in data["groups"]]
    kinds = [kind for _, kind in types]
    groupings = [
        GroupingColumn(str(each["name"]), tuple(map(int, each["columns"])), bool(each["shown"]))
        for each in data.get("groupings", ())  # of answers with totals
    ]
    keyed = [(_read_key(row, kinds, groupings), row) for row in data["rows"]]
    about = tuple(data.get("about", ()))  # older servers send none
    if data["kind"] == "table":
        rows = [(key, tuple(map(_read_estimate, row["estimates"]))) for key, row in keyed]
        return EstimateTable(types, data["items"], rows, data["among"], about, groupings)
    found = [(key, _read_estimate(row)) for key, row in keyed]
    aliases = tuple(data.get("aliases", ()))
    if "among" in data:
        return SelectedEstimates(types, found, data["among"], about, aliases, groupings)
    return Estimates(types, found, about, aliases, groupings)


def _estimate(
    estimate: Estimate, level: float, levels: Sequence[float] | None = None
) -> dict[str, Any]:
    found = estimate.to_dict(level)
    bounds = [found.pop("bound_low"), found.pop("bound_high")]
    return {
        **found,
        "bounds": None if estimate.bounds is None else bounds,
        "law": encode_law(estimate, levels or sorted({*LEVELS, level})),
    }


def _read_estimate(data: Mapping[str, Any]) -> Estimate:
    value = math.nan if data["value"] is None else float(data["value"])
    law, notes = decode_law(data["law"]), tuple(data["notes"])
    given = data.get("selected_value")
    selected = None if given is None else float(given)
    if "status" not in data:
        return Estimate(value, law, data["method"], notes, selected_value=selected)
    return DatabaseEstimate(
        value,
        law,
        data["method"],
        notes,
        selected_value=selected,
        status=data["status"],
        answered=data["answered"],
        distance=data["distance"],
        numbers=data["numbers"],
    )


def _key(answer: Grouped, key: Sequence[Any]) -> dict[str, Any]:
    """Return the group of a row; in an answer with totals also its numbers of GROUPING."""
    values = answer.frame_values(key)
    parts = [part.isoformat() if isinstance(part, date) else part for part in values]
    if not answer.groupings:
        return {"key": parts}
    return {"key": parts[: len(key)], "grouping": parts[len(key) :]}


def _read_key(
    row: Mapping[str, Any], kinds: Sequence[pa.DataType], groupings: Sequence[GroupingColumn]
) -> tuple[Any, ...]:
    marks = zip(groupings, row.get("grouping", ()), strict=True)
    totals = {each.columns for each, number in marks if number == 1}
    return tuple(
        ALL
        if (place,) in totals
        else date.fromisoformat(part)
        if isinstance(part, str) and pa.types.is_date(kind)
        else part
        for place, (part, kind) in enumerate(zip(row["key"], kinds, strict=True))
    )


def _arrow_type(name: str) -> pa.DataType:
    names = {"date32[day]": "date32", "double": "float64", "bool": "bool"}
    return pa.type_for_alias(names.get(name, name))
