"""EstimateTable and SelectedEstimates: answers with several numbers, or of chosen groups only.

Groups that were chosen by their estimates (HAVING, ORDER BY with LIMIT) look more extreme than they
are. So that the intervals that are shown hold at the level 1 - α on average, each is taken at
1 - α·R/G, where R of G groups are shown, and printed with that level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scumble.model.errors import ParameterError
from scumble.model.laws.base import check_level
from scumble.model.notebook import html_notes, html_table, text_table
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.public.estimate import (
    LEVEL,
    Estimate,
    Estimates,
    Grouped,
    GroupingColumn,
    Unknown,
    drawn_values,
    format_number,
    format_selected,
    format_value,
)
from scumble.public.plot.groups import draw_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 60
_FEW_LABELS = 8  # labels for each value to be encoded, as many as take less time than Arrow


OTHERS = "others may belong here in truth"  # a note on groups that were chosen by their estimates


def chosen_note(shown: int, groups: int) -> str:
    """Return the note on groups that were chosen by their estimates."""
    if not shown:
        return f"none of {groups} groups is shown: they are chosen by their estimates"
    return (
        f"{shown} of {groups} groups are shown. They were picked by their noisy values, so each "
        "interval is printed at a higher level: on average the share that was asked for holds the "
        "truth"
    )


def adjusted(level: float, shown: int, groups: int) -> float:
    """Return the level of each interval if `shown` of `groups` groups were chosen."""
    return 1 - (1 - level) * max(shown, 1) / groups if 0 < shown < groups else level


class SelectedEstimates(Estimates):
    """`Estimates` of the groups that HAVING, ORDER BY and LIMIT leave, in their order.

    `among` is the number of groups from which they were chosen by their estimates.
    """

    def __init__(
        self,
        groups: Sequence[tuple[str, pa.DataType]],
        rows: Sequence[tuple[tuple[Any, ...], Estimate]],
        among: int,
        about: Sequence[str] = (),
        aliases: Sequence[str] = (),
        groupings: Sequence[GroupingColumn] = (),
    ) -> None:
        super().__init__(groups, rows, about, aliases, groupings)
        self.among = among

    def to_dicts(self, level: float = LEVEL) -> list[dict[str, Any]]:
        return super().to_dicts(self.shown_level(level))

    def shown_level(self, level: float) -> float:
        return adjusted(level, len(self.rows), self.among)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        return self._cells_at(self.shown_level(LEVEL))

    @property
    def notes(self) -> list[str]:
        """The notes of all groups, each once, and how they were chosen."""
        chosen = [chosen_note(len(self), self.among)] if len(self) < self.among else []
        return [*super().notes, *chosen]


class EstimateTable(Grouped):
    """The answer to a SELECT with several numbers: for each group one estimate per item.

    `table["Sales"]` is the row of a group and `table["Sales"]["n"]` one of its estimates, by alias;
    without GROUP BY there is one row, and `table["n"]` is its estimate. `rows` are the values of
    each group with its estimates, in the order of `items`, and `about` are notes on the question.
    A total has `ALL` for a column, and a group of missing values None, as in `Estimates`.
    """

    def __init__(
        self,
        groups: Sequence[tuple[str, pa.DataType]],
        items: Sequence[str],
        rows: Sequence[tuple[tuple[Any, ...], tuple[Estimate, ...]]],
        among: int = 0,
        about: Sequence[str] = (),
        groupings: Sequence[GroupingColumn] = (),
    ) -> None:
        self.about: tuple[str, ...] = tuple(about)
        self.groupings = tuple(groupings)
        self.types = tuple(groups)
        self.groups: tuple[str, ...] = tuple(name for name, _ in groups)
        self.items: tuple[str, ...] = tuple(items)
        self.rows: tuple[tuple[tuple[Any, ...], tuple[Estimate, ...]], ...] = tuple(rows)
        self.among: int = among or len(self.rows)

    def __iter__(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Estimate]]]:
        return ((key, self._named(row)) for key, row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Any:
        if not self.groups and isinstance(key, str) and self.rows:
            return self._named(self.rows[0][1])[key]
        wanted = key if isinstance(key, tuple) else (key,)
        for found, row in self.rows:
            if found == wanted:
                return self._named(row)
        raise KeyError(key)

    def _named(self, row: Sequence[Estimate]) -> dict[str, Estimate]:
        return dict(zip(self.items, row, strict=True))

    def shown_level(self, level: float) -> float:
        """Return the level of each interval, if the whole table is to hold at `level`."""
        return adjusted(level, len(self.rows), self.among)

    def to_dicts(self, level: float = LEVEL) -> list[dict[str, Any]]:
        """Return a dictionary for each row: its group, and for each item a dictionary."""
        shown = self.shown_level(level)
        names = [name for name, _ in self.frame_types(self._columns)]
        return [
            {
                **dict(zip(names, self.frame_values(key), strict=True)),
                **{name: each.to_dict(shown) for name, each in self._named(row).items()},
            }
            for key, row in self.rows
        ]

    @property
    def _columns(self) -> list[str]:
        return [f"group {name}" if name in self.items else name for name in self.groups]

    def to_arrow(self, level: float = LEVEL) -> pa.Table:
        """Return the groups, the columns n, n_stderr, n_low, n_high of an item n, and `level`.

        An item whose answers cut boxes or bins has n_typical_low and n_typical_high too, and one of
        chosen groups n_selected_value.
        """
        columns: dict[str, Any] = {}
        keys = [self.frame_values(key) for key, _ in self.rows]
        for place, (name, kind) in enumerate(self.frame_types(self._columns)):
            columns[name] = pa.array([key[place] for key in keys], kind)
        records = self.to_dicts(level)
        for item in self.items:
            for field in ("value", "stderr", "low", "high", *self._more_fields(item)):
                name = item if field == "value" else f"{item}_{field}"
                columns[name] = pa.array([each[item][field] for each in records], pa.float64())
        columns["level"] = pa.array([self.shown_level(level)] * len(self.rows), pa.float64())
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def more(self, item: str) -> tuple[bool, bool]:
        """Return whether some answers to an item cut boxes or bins, and so have typical intervals,
        and whether some were chosen by their values, and so have shrunk ones.
        """
        place = self.items.index(item)
        found = [row[place] for _, row in self.rows]
        return (
            any(each.typical_label(LEVEL) for each in found),
            any(each.selected_value is not None for each in found),
        )

    def _more_fields(self, item: str) -> list[str]:
        bounded, selected = self.more(item)
        typical = ["typical_low", "typical_high"] if bounded else []
        return [*typical, *(["selected_value"] if selected else [])]

    def header(self, level: float = LEVEL) -> list[str]:
        """Return the column headers of a formatted table."""
        percent = f"{100 * self.shown_level(level):.6g} %"
        found = list(self.headings)
        for item in self.items:
            bounded, selected = self.more(item)
            found += [item, *([f"selected {item}"] if selected else []), f"{item} ({percent})"]
            found += [f"{item} (typical {percent})"] if bounded else []
        return found

    def cells(self, level: float = LEVEL) -> list[list[str]]:
        """Return the rows of a formatted table: groups, then value and interval of every item."""
        shown, more = self.shown_level(level), [self.more(item) for item in self.items]
        return [
            [
                *self.labels(key),
                *(
                    cell
                    for each, (bounded, selected) in zip(row, more, strict=True)
                    for cell in _item_cells(each, shown, bounded=bounded, selected=selected)
                ),
            ]
            for key, row in self.rows
        ]

    def plot(self, *items: str, level: float = LEVEL) -> Figure:
        """Return a figure of all groups: a panel for each item, or for those that are named.

        Groups without a value say why. It needs matplotlib: install scumble[plot].
        """
        for name in items:
            if name not in self.items:
                allowed = f"one of {', '.join(self.items)}"
                raise ParameterError.of("plot", "items", allowed, name)
        shown = self.shown_level(check_level(level))
        names = [", ".join(self.labels(key)) for key, _ in self.rows]
        rows = [self._named(row) for _, row in self.rows]
        drawn = [
            drawn_values([row[name] for row in rows], name, shown) for name in items or self.items
        ]
        return draw_groups(names, drawn)

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(each.method for _, row in self.rows for each in row))

    @property
    def notes(self) -> list[str]:
        """The notes of all estimates, each once, and how the rows were chosen."""
        of_groups = (note for _, row in self.rows for each in row for note in each.notes)
        found = dict.fromkeys((*self.about, *of_groups))
        chosen = [chosen_note(len(self), self.among)] if len(self) < self.among else []
        return [*found, *chosen]

    def _shortened(self) -> tuple[list[str], list[list[str]]]:
        head, body, half = self.header(), self.cells(), _MOST_LINES // 2
        if len(body) > _MOST_LINES:
            body = [*body[:half], ["..."] * len(head), *body[-half:]]
        return head, body

    def __repr__(self) -> str:
        lines = text_table(*self._shortened(), len(self.headings))
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def _repr_html_(self) -> str:
        return html_table(*self._shortened(), len(self.headings)) + html_notes(self.notes)


def _item_cells(
    estimate: Estimate, level: float, *, bounded: bool, selected: bool
) -> tuple[str, ...]:
    shrunk = (format_selected(estimate),) if selected else ()
    typical = (estimate.typical_label(level),) if bounded else ()
    if isinstance(estimate.law, Unknown):
        words = "" if math.isnan(estimate.value) else "no interval"
        return format_value(estimate), *shrunk, words, *typical
    low, high = (format_number(limit, estimate.stderr) for limit in estimate.interval(level))
    relaxed = ", relaxed" if estimate.counted_instead else ""
    return format_value(estimate), *shrunk, f"{low} to {high}{relaxed}", *typical


def code_order(schema: Schema, names: Sequence[str], keys: Sequence[tuple[Any, ...]]) -> list[int]:
    """Return the positions of the keys sorted by code, the first name most significant."""
    columns = [[key[place] for key in keys] for place in range(len(names))]
    codes = [_codes(schema[name], each) for name, each in zip(names, columns, strict=True)]
    order: list[int] = np.lexsort(codes[::-1]).tolist()
    return order


def _codes(attribute: Attribute, values: list[Any]) -> list[int]:
    """Return the codes of published values; of many values of a small domain by its labels."""
    if attribute.size <= _FEW_LABELS * len(values):
        known = {label: code for code, label in enumerate(attribute.labels().to_pylist())}
        with suppress(KeyError):
            return [known[value] for value in values]
    codes: list[int] = attribute.encode(pa.array(values, attribute.arrow_type))[0].tolist()
    return codes
