"""Estimate and Estimates: answers with the law of their error, and how they are formatted.

The functions at the end format numbers and rows for the command line and reports.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import pyarrow as pa

from scumble.model.laws.base import check_level
from scumble.model.notebook import format_label, html_notes, html_table, text_table
from scumble.public.frames import LEVEL as LEVEL
from scumble.public.frames import Frames
from scumble.public.plot.groups import GroupValues, draw_groups
from scumble.public.tabulated_laws import portable_law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Given = TypeVar("Given", bound="Estimate")

NO_ROWS = "no rows"
FEW_PEOPLE = "too few people"
UNDEFINED = "undefined"
NOT_ANSWERED = "not answered"
ONLY_BOUNDS = "only bounds"
_NUMBERS = ("value", "stderr", "low", "high")
_BOUNDS = ("bound_low", "bound_high", "noise_low", "noise_high", "typical_low", "typical_high")
_FIELDS = (*_NUMBERS, *_BOUNDS, "selected_value", "level", "reason", "method", "notes")
TYPICAL = (
    "typical intervals assume that rows are spread within boxes and bins as they usually are; the "
    "other intervals do not assume it"
)
_MOST_LINES = 60


class Law(Protocol):
    """The law of `estimate - truth`, as far as an estimate needs it."""

    @property
    def stderr(self) -> float: ...

    def interval(self, value: float, level: float) -> tuple[float, float]:
        """Return limits that contain the truth with probability `level`, given the estimate."""
        ...


@runtime_checkable
class BoundedLaw(Law, Protocol):
    """The law of an answer that the evidence confines to bounds, beside the noise."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The estimated limits of the answer, whatever the rows are like within a piece."""
        ...

    def noise_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval of the noise alone, as if rows were spread evenly within pieces."""
        ...

    def typical_interval(self, value: float, level: float) -> tuple[float, float]:
        """Return the interval by a model of typical tables; it is not guaranteed."""
        ...


def is_bounded(law: Law) -> TypeGuard[BoundedLaw]:
    """Whether a law has bounds. Most have none, which the first test finds fast."""
    return hasattr(law, "bounds") and isinstance(law, BoundedLaw)


@dataclass(frozen=True)
class Exact:
    """The law of no error: the question depends on nothing that was perturbed."""

    stderr: float = 0.0

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return value, value


@dataclass(frozen=True)
class Unknown:
    """The law of an unknown error, as for the average of no rows."""

    stderr: float = math.inf

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return -math.inf, math.inf


@dataclass(frozen=True)
class Undefined(Unknown):
    """The law of a formula without a value, as a quotient by zero."""


@dataclass(frozen=True)
class Anywhere:
    """The law of a number that is known to lie from `low` to `high`, and nothing else."""

    low: float
    high: float
    stderr: float = math.inf

    def interval(self, value: float, level: float) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True)
class Clamped:
    """A law whose interval is cut to known limits of the truth; `raw` is the estimate before."""

    law: Law
    raw: float
    low: float
    high: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.law.interval(self.raw, level)
        return self.clip(low), self.clip(high)

    def clip(self, value: float) -> float:
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Shifted:
    """The law of an estimate to which the known number `offset` was added; `law` is without it."""

    law: Law
    offset: float

    @property
    def stderr(self) -> float:
        return self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.law.interval(value - self.offset, level)
        return low + self.offset, high + self.offset


@dataclass(frozen=True)
class Scaled:
    """The law of `factor` times an estimate that has the law `law`."""

    law: Law
    factor: float

    @property
    def stderr(self) -> float:
        return abs(self.factor) * self.law.stderr

    def interval(self, value: float, level: float) -> tuple[float, float]:
        low, high = self.law.interval(value / self.factor, level)
        ends = (low * self.factor, high * self.factor)
        return min(ends), max(ends)


@dataclass(frozen=True, repr=False, eq=False)
class Estimate(Frames):
    """A number with its error: `estimate.value`, `estimate.stderr`, `estimate.interval(0.95)`.

    `method` says how it was computed, and `notes` what should be known about it. `alias` is the
    name that the question gave it by AS. `selected_value` is for a group that was chosen because
    its value is large or small: the value less what is expected to be noise, which the choice made
    more extreme; None for all others. `float`, `round` and `format` take the value alone. Two
    estimates are equal if they are the same answer, with the same law; their values are not
    compared, nor with a number, because the difference may be noise.
    """

    value: float
    law: Law
    method: str
    notes: tuple[str, ...] = ()
    alias: str = field(default="", kw_only=True, compare=False)
    selected_value: float | None = field(default=None, kw_only=True, compare=False)

    @property
    def stderr(self) -> float:
        """The standard error of the noise; with bounds, (U - L)² / 12 is added to its square.

        This second part is a convention: the variance of a number that is equally likely anywhere
        between the bounds. The interval does not rest on it.
        """
        return self.law.stderr

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The estimated least and largest answer that the evidence leaves possible.

        They differ where the question cuts pieces (leaves, bins, groups) whose inside was not
        published. None if it cuts none: then only noise is between the estimate and the truth.
        """
        return self.law.bounds if is_bounded(self.law) else None

    def noise_interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval of the noise alone, as if rows were spread evenly within pieces.

        It contains the truth at `level` only if `bounds` is None or the spread really is even.
        """
        if is_bounded(self.law):
            return self.law.noise_interval(self.value, check_level(level))
        return self.interval(level)

    def typical_interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return an interval by a model of how rows are usually spread within pieces.

        It is shorter than `interval` and is not guaranteed to contain the truth at `level`. It ends
        where `interval` does.
        """
        if is_bounded(self.law):
            start, end = self.law.typical_interval(self.value, check_level(level))
            low, high = self.interval(level)
            return max(start, low), min(end, high)
        return self.interval(level)

    @property
    def status_label(self) -> str:
        """How a database handled the question, in a word or two; empty for a release."""
        return ""

    @property
    def reason(self) -> str:
        """Why there is no value; empty if there is one.

        It is "too few people", "no rows", "undefined", "only bounds" where nothing but a limit on
        one side is known, or "not answered" by a database. `value` is NaN then, and None in
        dictionaries and frames.
        """
        if not math.isnan(self.value):
            return ""
        if self.status_label == NOT_ANSWERED:
            return self.status_label
        if isinstance(self.law, Undefined):
            return UNDEFINED
        law = self.law
        while isinstance(law, (Scaled, Shifted)):
            law = law.law
        if is_bounded(law) and math.isinf(law.bounds[1] - law.bounds[0]):
            return ONLY_BOUNDS
        return NO_ROWS if isinstance(self.law, Unknown) else FEW_PEOPLE

    @property
    def counted_instead(self) -> str:
        """The condition whose answer this is, if a database answered another one than asked."""
        return ""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return limits that contain the truth with probability `level` over the noise."""
        return self.law.interval(self.value, check_level(level))

    def clamped(self, low: float, high: float) -> Estimate:
        """Return the estimate cut to known limits, which introduces a bias."""
        law = Clamped(self.law, self.value, low, high)
        return replace(self, value=law.clip(self.value), law=law)

    def derived(
        self, value: float, law: Law, method: str, notes: tuple[str, ...], parts: Sequence[Estimate]
    ) -> Estimate:
        """Return an estimate that was computed from the estimates `parts`, this one among them.

        If one of them has a status, as those of a database have, so has the result.
        """
        with_status = next((each for each in parts if type(each) is not Estimate), None)
        if with_status is None:
            return Estimate(value, law, method, notes)
        return with_status.derived(value, law, method, notes, parts)

    def to_dict(self, level: float = LEVEL) -> dict[str, Any]:
        """Return the estimate as JSON values; numbers that are not finite become None."""
        low, high = self.interval(level)
        numbers = dict(zip(_NUMBERS, (self.value, self.stderr, low, high), strict=True))
        bounds = self.bounds or (math.nan, math.nan)
        others = (*bounds, *self.noise_interval(level), *self.typical_interval(level))
        numbers |= dict(zip(_BOUNDS, others, strict=True))
        numbers["selected_value"] = math.nan if self.selected_value is None else self.selected_value
        finite = {key: float(x) if math.isfinite(x) else None for key, x in numbers.items()}
        return {
            **finite,
            "level": level,
            "reason": self.reason or None,
            "method": self.method,
            "notes": list(self.notes),
        }

    def to_arrow(self, level: float = LEVEL) -> pa.Table:
        """Return one row with the columns of `to_dict`; the value is named by AS, if it is."""
        return Estimates([], [((), self)], aliases=[self.alias]).to_arrow(level)

    def __getstate__(self) -> dict[str, Any]:
        """A law that is computed from the release is pickled as its intervals at some levels."""
        return {**self.__dict__, "law": portable_law(self)}

    def __float__(self) -> float:
        return float(self.value)

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self.value), digits)

    def __format__(self, form: str) -> str:
        if not form:
            return str(self)
        return self.reason or format(float(self.value), form)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Real):
            raise self._incomparable("==")
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, each.name) for each in fields(self) if each.compare)

    def __lt__(self, other: object) -> bool:
        raise self._incomparable("<")

    def __le__(self, other: object) -> bool:
        raise self._incomparable("<=")

    def __gt__(self, other: object) -> bool:
        raise self._incomparable(">")

    def __ge__(self, other: object) -> bool:
        raise self._incomparable(">=")

    def _incomparable(self, operator: str) -> TypeError:
        return TypeError(
            f"An estimate is not compared by {operator}: it differs from the truth by noise. "
            "Compare the limits of its interval(), or its value alone by float(estimate)."
        )

    # Arithmetic with plain numbers, where the law of the result is known. Two estimates may share
    # noise, so that the law of their sum is not theirs to tell.

    def __mul__(self, factor: float) -> Self:
        return self._changed("*", factor)

    def __rmul__(self, factor: float) -> Self:
        return self * factor

    def __truediv__(self, divisor: float) -> Self:
        return self._changed("/", divisor)

    def __add__(self, offset: float) -> Self:
        return self._changed("+", offset)

    def __radd__(self, offset: float) -> Self:
        return self + offset

    def __sub__(self, offset: float) -> Self:
        return self._changed("-", offset)

    def __rsub__(self, other: float) -> Self:
        return -self + other

    def __neg__(self) -> Self:
        return self * -1

    def _changed(self, operator: str, other: object) -> Self:
        """Return the estimate after an operation with a number, with its law."""
        if not isinstance(other, Real) or not math.isfinite(other):
            raise TypeError(
                f"An estimate {operator} {type(other).__name__} has no law that is known here. "
                "Use plain numbers, ask for the result in SQL (SELECT SUM(a) / COUNT(*) ...), or "
                "compute without errors by float(estimate)."
            )
        number = float(other)
        if operator in "*/":
            return scaled(self, number if operator == "*" else 1 / number)
        return scaled(self, 1.0, number if operator == "+" else -number)

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return f"{self._line()}\n  {self.method}{notes}"

    def _line(self) -> str:
        if isinstance(self.law, Exact):
            return f"{format_number(self.value, 0.0)} exactly"
        if isinstance(self.law, Unknown):
            value = format_value(self)
            return f"{value} (no interval)" if self.value == self.value else value
        low, high = (format_number(limit, self.stderr) for limit in self.interval())
        value = format_value(self)
        if isinstance(self.law, Anywhere) or math.isnan(self.value):
            return f"{value} ({low} to {high})"
        if self.bounds is not None:
            noise, typical = self.noise_label(LEVEL), self.typical_label(LEVEL)
            return (
                f"{value} (95 %: {low} to {high}{noise and f'; noise alone {noise}'}"
                f"{typical and f'; typical {typical}'})"
            )
        error = format_number(self.stderr, self.stderr)
        return f"{value} ± {error} (95 %: {low} to {high})"

    def noise_label(self, level: float) -> str:
        """Return the half-width of the interval of the noise alone; empty if that is all."""
        if not is_bounded(self.law):
            return ""
        start, end = self.noise_interval(level)
        if (start, end) == self.interval(level) or not math.isfinite(end - start):
            return ""
        half = (end - start) / 2
        return f"± {format_number(half, half)}"

    def typical_label(self, level: float) -> str:
        """Return the typical interval; empty if it is the whole interval, or unknown."""
        if not is_bounded(self.law):
            return ""
        start, end = self.typical_interval(level)
        if (start, end) == self.interval(level) or not math.isfinite(end - start):
            return ""
        error = (end - start) / 4
        return f"{format_number(start, error)} to {format_number(end, error)}"

    def _repr_html_(self) -> str:
        line, notes = html.escape(self._line()), html_notes(self.notes)
        return f"<b>{line}</b><br>{html.escape(self.method)}{notes}"


_FIXED = (Exact, Unknown)  # laws that are the same for a multiple


def scaled(estimate: Given, factor: float, offset: float = 0.0) -> Given:
    """Return `factor` times an estimate, plus `offset`."""
    value, law = estimate.value, estimate.law
    if factor == 0:
        value, law = 0.0, Exact()
    elif factor != 1:
        value, law = value * factor, law if isinstance(law, _FIXED) else Scaled(law, factor)
    if offset:
        value, law = value + offset, law if isinstance(law, _FIXED) else Shifted(law, offset)
    return replace(estimate, value=value, law=law)


class Total(Enum):
    """The value of a group column in a total, which counts all values of the column."""

    ALL = "(all)"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return self.name


ALL = Total.ALL
"""The value of a group column in a total: `answer["Sales", scumble.ALL]`."""


@dataclass(frozen=True)
class GroupingColumn:
    """GROUPING(x, ...) of an answer with totals: 1 in a total over x, and 0 in other rows.

    `columns` are the places of the group columns; of several, each is a bit, the last one the
    lowest. Frames have all of these columns, printed tables those that were asked for (`shown`).
    """

    name: str
    columns: tuple[int, ...]
    shown: bool = False

    def at(self, key: Sequence[Any]) -> int:
        """Return the number of a row, given the values of its group columns."""
        found = 0
        for place in self.columns:
            found = 2 * found + (key[place] is ALL)
        return found


class Grouped(Frames):
    """The group columns of an answer, as frames and as printed tables have them."""

    types: tuple[tuple[str, pa.DataType], ...]
    groupings: tuple[GroupingColumn, ...]

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings of the group columns."""
        return tuple(name for name, _ in self.types)

    @property
    def headings(self) -> list[str]:
        """The headings of `labels`."""
        return [*self.titles, *(each.name for each in self.groupings if each.shown)]

    def labels(self, key: Sequence[Any]) -> list[str]:
        """Return the group columns of a row as cells of a printed table."""
        shown = (str(each.at(key)) for each in self.groupings if each.shown)
        return [*map(format_label, key), *shown]

    def frame_types(self, names: Iterable[str]) -> list[tuple[str, pa.DataType]]:
        """Return names and types of `frame_values`, given the names of the group columns."""
        kinds = (kind for _, kind in self.types)
        return [
            *zip(names, kinds, strict=True),
            *((each.name, pa.int32()) for each in self.groupings),
        ]

    def frame_values(self, key: Sequence[Any]) -> tuple[Any, ...]:
        """Return the group columns of a row for a frame: a total is null, and GROUPING says so."""
        values = (None if part is ALL else part for part in key)
        return (*values, *(each.at(key) for each in self.groupings))


def drawn_values(values: Sequence[Estimate], name: str, level: float) -> GroupValues:
    """Return the estimates of all groups as a figure draws them."""
    return GroupValues(
        [each.value for each in values],
        [each.interval(level) for each in values],
        [each.reason for each in values],
        f"{name}, with intervals of {100 * level:.6g} %",
    )


class Estimates(Grouped):
    """The answer to a GROUP BY: one estimate per group, in the order of the domains.

    `groups` are the names and types of the grouping attributes, `rows` the values of each group
    with its estimate. A total of ROLLUP, CUBE or GROUPING SETS has `ALL` for a column, and a group
    of missing values None. `about` are notes on the question, which are told even if there is no
    group. `aliases` are the names that the question gave the groups and the number; "" for those
    without.
    """

    def __init__(
        self,
        groups: Sequence[tuple[str, pa.DataType]],
        rows: Sequence[tuple[tuple[Any, ...], Estimate]],
        about: Sequence[str] = (),
        aliases: Sequence[str] = (),
        groupings: Sequence[GroupingColumn] = (),
    ) -> None:
        self.about: tuple[str, ...] = tuple(about)
        self.aliases: tuple[str, ...] = tuple(aliases)
        self.groupings = tuple(groupings)
        self.types = tuple(groups)
        self.groups: tuple[str, ...] = tuple(name for name, _ in groups)
        self.rows: tuple[tuple[tuple[Any, ...], Estimate], ...] = tuple(rows)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], Estimate]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Estimate:
        """Return the estimate of one group: `answer["Sales"]`, or `answer["Sales", "female"]`.

        The total of a column has `scumble.ALL`, and missing values have None.
        """
        wanted = key if isinstance(key, tuple) else (key,)
        for found, estimate in self.rows:
            if found == wanted:
                return estimate
        raise KeyError(key)

    def to_dicts(self, level: float = LEVEL) -> list[dict[str, Any]]:
        names = [name for name, _ in self.frame_types(self._columns)]
        return [
            {**dict(zip(names, self.frame_values(key), strict=True)), **estimate.to_dict(level)}
            for key, estimate in self.rows
        ]

    @property
    def _columns(self) -> list[str]:
        """The names of the group columns in a table; renamed if an estimate has such a field."""
        taken = (*_FIELDS, *self._more)
        return [f"group {name}" if name in taken else name for name in self.titles]

    @property
    def _more(self) -> dict[str, Any]:
        """The additional fields of the first estimate, as those of a database have them."""
        fields = self.rows[0][1].to_dict() if self.rows else {}
        return {name: value for name, value in fields.items() if name not in _FIELDS}

    def to_arrow(self, level: float = LEVEL) -> pa.Table:
        """Return the groups with the columns of `Estimate.to_dict`.

        The value has the name that the question gave it by AS, unless another column has that name.
        """
        records = self.to_dicts(level)
        columns = [
            *self.frame_types(self._columns),
            *((name, pa.float64()) for name in (*_NUMBERS, *_BOUNDS, "selected_value")),
            ("level", pa.float64()),
            ("reason", pa.string()),
            ("method", pa.string()),
            ("notes", pa.list_(pa.string())),
            *((name, pa.scalar(value).type) for name, value in self._more.items()),
        ]
        table = pa.Table.from_pylist(records, schema=pa.schema(columns))
        names = [name for name, _ in columns]
        if self.alias and self.alias not in names:
            names[names.index("value")] = self.alias
        return table.rename_columns(names)

    def plot(self, level: float = LEVEL) -> Figure:
        """Return a figure of all groups: a point for each value, a line for its interval.

        Groups without a value say why. It needs matplotlib: install scumble[plot].
        """
        shown = self.shown_level(check_level(level))
        names = [", ".join(self.labels(key)) for key, _ in self.rows]
        values = [each for _, each in self.rows]
        return draw_groups(names, [drawn_values(values, self.alias or "value", shown)])

    def shown_level(self, level: float) -> float:
        """Return the level of each interval, if all together are to hold at `level`."""
        return level

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and rows of a formatted table; of many groups, the first and last."""
        return self._cells_at(LEVEL)

    def _cells_at(self, level: float) -> tuple[list[str], list[list[str]]]:
        header, shown, half = self.header(level), self.rows, _MOST_LINES // 2
        if len(shown) > _MOST_LINES:
            shown = (*shown[:half], *shown[-half:])
        body = self.cells(shown, level)
        if len(shown) < len(self.rows):
            body.insert(half, ["..."] * len(header))
        return header, body

    def header(self, level: float) -> list[str]:
        """Return the column headers of a formatted table: groups, numbers, and status if any."""
        status = any(estimate.status_label for _, estimate in self.rows)
        numbers = number_headers(level, self.bounded, self.alias, self.selected)
        names = [*self.headings, *(["counted instead"] if self.relaxed else [])]
        return [*names, *numbers, *(["status"] if status else [])]

    def cells(
        self, rows: Iterable[tuple[tuple[Any, ...], Estimate]], level: float
    ) -> list[list[str]]:
        """Return some groups with their estimates as cells below `header`."""
        bounded, relaxed, place = self.bounded, self.relaxed, len(self.headings)
        selected = self.selected
        found = []
        for key, estimate in rows:
            row = table_row(self.labels(key), estimate, level, bounded, selected)
            if relaxed:
                row.insert(place, estimate.counted_instead or "(as asked)")
            found.append(row)
        return found

    @property
    def alias(self) -> str:
        """The name that the question gave the number by AS; empty without."""
        return self.aliases[-1] if self.aliases else ""

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings of the group columns: their aliases, else their names."""
        aliases = self.aliases[:-1] or self.groups
        return tuple(a or name for a, name in zip(aliases, self.groups, strict=True))

    @property
    def relaxed(self) -> bool:
        """Whether some group has the answer to another condition, which is a column then."""
        return any(estimate.counted_instead for _, estimate in self.rows)

    @property
    def text_columns(self) -> int:
        """How many columns of a formatted table are texts."""
        return len(self.headings) + self.relaxed

    @property
    def bounded(self) -> bool:
        """Whether some interval holds more than noise: the noise alone has a column then."""
        return any(estimate.noise_label(LEVEL) for _, estimate in self.rows)

    @property
    def selected(self) -> bool:
        """Whether groups were chosen by their values: the shrunk values have a column then."""
        return any(estimate.selected_value is not None for _, estimate in self.rows)

    @property
    def notes(self) -> list[str]:
        """The notes on the question and of all groups, each once."""
        of_groups = (note for _, estimate in self.rows for note in estimate.notes)
        return list(dict.fromkeys((*self.about, *of_groups)))

    def __repr__(self) -> str:
        lines = text_table(*self._cells(), self.text_columns)
        count = [f"({len(self.rows):,} groups)"] if len(self.rows) > _MOST_LINES else []
        return "\n".join(lines + count + [f"note: {note}" for note in self.notes])

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), self.text_columns) + html_notes(self.notes)


def number_headers(
    level: float, bounded: bool = False, alias: str = "", selected: bool = False
) -> list[str]:
    """Return the headers of the numbers of `table_row`; `bounded` adds the noise alone and the
    typical interval, and `selected` the shrunk value.
    """
    limits, name = f"{100 * level:.6g} %", alias or "value"
    more = ["noise alone", f"typical {limits}"] if bounded else []
    shrunk = [f"selected {name}"] if selected else []
    return [name, *shrunk, "stderr", f"low {limits}", f"high {limits}", *more]


def table_row(
    labels: Sequence[str],
    estimate: Estimate,
    level: float,
    bounded: bool = False,
    selected: bool = False,
) -> list[str]:
    """Return the labels of a group and its estimate as cells of a table; see `format_number`.

    With `bounded` there are cells for the half-width of the noise alone and the typical interval,
    and with `selected` one for the shrunk value.
    """
    numbers = (estimate.stderr, *estimate.interval(level))
    status = [estimate.status_label] if labels and estimate.status_label else []
    more = [estimate.noise_label(level), estimate.typical_label(level)] if bounded else []
    shrunk = [format_selected(estimate)] if selected else []
    cells = [format_number(number, estimate.stderr) for number in numbers]
    if isinstance(estimate.law, Unknown) and not math.isnan(estimate.value):
        cells = ["no interval", "", ""]
    return [*labels, format_value(estimate), *shrunk, *cells, *more, *status]


def format_selected(estimate: Estimate) -> str:
    """Format the shrunk value of a chosen group; empty if there is none."""
    shrunk = estimate.selected_value
    return "" if shrunk is None else format_number(shrunk, estimate.stderr)


def format_value(estimate: Estimate) -> str:
    """Format the value of an estimate, or the reason why there is none."""
    if estimate.reason and estimate.reason != estimate.status_label:
        return estimate.reason
    return format_number(estimate.value, estimate.stderr)


def format_number(number: float, error: float) -> str:
    """Format a number with the digits that are significant given its standard error."""
    if not math.isfinite(number):
        return "unknown" if math.isnan(number) else ("∞" if number > 0 else "-∞")
    if not math.isfinite(error):
        return f"{number:,.4g}" if number % 1 and abs(number) < 1000 else f"{number:z,.0f}"
    if error == 0:
        return f"{number:,.10g}" if number % 1 else f"{number:z,.0f}"
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{number:z,.{min(places, 12)}f}"  # z: no minus before a zero
