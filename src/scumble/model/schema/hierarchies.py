"""Hierarchies of the values of an attribute: rules as a schema declares them, and their levels.

| rule        | in a schema                                              | for                 |
|-------------|----------------------------------------------------------|---------------------|
| `Nested`    | `[["a", "b"], ["c"]]`, or with labels `{x = ["a", "b"]}` | any listed values   |
| `Intervals` | `{intervals = [5, 10, 20]}`, widths or lists of limits   | integers and bins   |
| `Prefixes`  | `{prefixes = [3, 1]}`, characters that are kept          | texts of a category |
| `Periods`   | `{periods = ["month", "year"]}`                          | dates               |

`levels` resolves a rule over a domain. Level 0 are the values themselves, the last level is one
group of all values, `*`. A missing value is a group of its own below the last level.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import SchemaError
from scumble.model.schema.domains import Bins, Category, Dates, Domain, IntegerRange
from scumble.model.schema.numbers import Number

Codes = npt.NDArray[np.int64]

TOP = "*"
PERIODS = ("month", "quarter", "year", "decade")
MOST_VALUES = 1 << 20  # of an attribute with a hierarchy
_DEEPEST = 32
_MOST_LABEL = 60  # characters of a label that is made of the values of a group


@dataclass(frozen=True)
class Branch:
    """A group of values, or of groups, with its label; an empty label is made of the values."""

    label: str
    children: tuple[Any, ...]  # branches and values


@dataclass(frozen=True)
class Nested:
    """Values in nested groups. A value that stands higher up is a group of its own below."""

    children: tuple[Any, ...]

    def spec(self) -> Any:
        """Return the rule as plain values, for TOML and JSON."""
        return _plain(self.children)

    def levels(self, domain: Domain) -> list[list[str]]:
        """Return the label of every value at each level above the values, without the last."""
        values = domain.labels().to_pylist()
        places = {_shown(value): place for place, value in enumerate(values)}
        paths: dict[int, list[str]] = {}
        depth = max((_depth(child) for child in self.children), default=0)
        for path, value in _leaves(self.children, []):
            place = places.get(_shown(value))
            if place is None:
                raise SchemaError(f"The hierarchy has {value!r}, which is not a value.")
            if place in paths:
                raise SchemaError(f"The hierarchy has {value!r} twice.")
            paths[place] = path
        if absent := [value for place, value in enumerate(values) if place not in paths]:
            raise SchemaError(f"The hierarchy lacks {absent[0]!r}; it needs every value once.")
        return [  # a short path is filled up with the value itself
            [_at(paths[place], height, value) for place, value in enumerate(values)]
            for height in range(depth - 1, -1, -1)
        ]


@dataclass(frozen=True)
class Intervals:
    """Intervals of numbers: for each level a width, counted from `start`, or the lower limits."""

    steps: tuple[float | tuple[float, ...], ...]
    start: float | None = None

    def spec(self) -> Any:
        steps = [list(step) if isinstance(step, tuple) else step for step in self.steps]
        return {"intervals": steps} | ({} if self.start is None else {"from": self.start})

    def levels(self, domain: Domain) -> list[list[str]]:
        single = isinstance(domain, IntegerRange | Number)
        if isinstance(domain, IntegerRange | Number):
            lows: Sequence[float] = domain.values
            ends: Sequence[float] = lows
        elif isinstance(domain, Bins):
            lows, ends = domain.edges[:-1], domain.edges[1:]
        else:
            raise SchemaError("Intervals are a hierarchy of amounts, integers and binned numbers.")
        found, before = [], np.arange(len(lows))
        for step in self.steps:
            groups = self._groups(step, lows)
            if not single:
                lasts = [math.nextafter(end, -math.inf) for end in ends]
                if (self._groups(step, lasts, lows[0]) != groups).any():
                    raise SchemaError(f"The interval {_step(step)} of the hierarchy cuts a bin.")
            _refuse_cut(before, groups, f"the interval {_step(step)}")
            found.append(_ranges(groups, lows, ends, whole=single))
            before = groups
        return found

    def _groups(
        self, step: float | tuple[float, ...], lows: Sequence[float], first: float | None = None
    ) -> Codes:
        """Return the number of the interval of each value; `first` is the least value of all."""
        if isinstance(step, tuple):
            return np.searchsorted(np.array(step, float), np.array(lows, float), side="right")
        least = lows[0] if first is None else first
        start = least if self.start is None else self.start
        return np.array([math.floor((low - start) / step) for low in lows], np.int64)


@dataclass(frozen=True)
class Prefixes:
    """The first characters of codes, as many as each level keeps; others are shown as `*`."""

    lengths: tuple[int, ...]

    def spec(self) -> Any:
        return {"prefixes": list(self.lengths)}

    def levels(self, domain: Domain) -> list[list[str]]:
        if not isinstance(domain, Category) or not all(isinstance(v, str) for v in domain.values):
            raise SchemaError("Prefixes are a hierarchy of a category of texts.")
        texts = [str(value) for value in domain.values]
        longest = max(map(len, texts))
        return [[text[:kept].ljust(longest, TOP) for text in texts] for kept in self.lengths]


@dataclass(frozen=True)
class Periods:
    """Months, quarters, years and decades of dates."""

    by: tuple[str, ...]

    def spec(self) -> Any:
        return {"periods": list(self.by)}

    def levels(self, domain: Domain) -> list[list[str]]:
        if not isinstance(domain, Dates):
            raise SchemaError("Periods are a hierarchy of dates.")
        finest = ("day", "month", "year").index(domain.by)
        if any(PERIODS.index(by) < {0: 0, 1: 1, 2: 3}[finest] for by in self.by):
            raise SchemaError(f"The dates are by {domain.by}; their periods must be longer.")
        days = domain.labels().to_pylist()
        return [[_period(day, by) for day in days] for by in self.by]


Rule = Nested | Intervals | Prefixes | Periods
_RULES = ("intervals", "prefixes", "periods")


def read_rule(given: Any) -> Rule:
    """Return the rule that a schema declares as plain values; SchemaError if it is none."""
    if isinstance(given, Mapping) and (word := next((w for w in _RULES if w in given), None)):
        return _named_rule(word, given)
    if isinstance(given, list | Mapping) and given:
        return Nested(_branches(given, _DEEPEST))
    raise SchemaError(
        "'hierarchy' must be nested lists of values, a table of them, or one of {intervals = "
        '[5, 10]}, {prefixes = [3, 1]}, {periods = ["month", "year"]}, or the name of a CSV '
        f"file. Got {given!r} instead."
    )


def _named_rule(word: str, given: Mapping[str, Any]) -> Rule:
    steps = given[word]
    extra = [key for key in given if key != word and not (word == "intervals" and key == "from")]
    if extra:
        raise SchemaError(f"A hierarchy of {word} has no key '{extra[0]}'.")
    if not isinstance(steps, list) or not steps:
        raise SchemaError(
            f"'{word}' must be a list, the finest level first. Got {steps!r} instead."
        )
    if word == "intervals":
        start = given.get("from")
        if start is not None and not _number(start):
            raise SchemaError(f"'from' must be a number. Got {start!r} instead.")
        return Intervals(tuple(map(_interval, steps)), start)
    if word == "prefixes":
        sound = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in steps)
        if not sound or sorted(set(steps), reverse=True) != steps:
            raise SchemaError(
                f"'prefixes' must be whole numbers above 0 that fall. Got {steps!r} instead."
            )
        return Prefixes(tuple(steps))
    if not all(by in PERIODS for by in steps) or sorted(set(steps), key=PERIODS.index) != steps:
        raise SchemaError(
            f"'periods' must be some of {', '.join(PERIODS)}, in this order. Got {steps!r} instead."
        )
    return Periods(tuple(steps))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _interval(step: Any) -> float | tuple[float, ...]:
    if _number(step) and step > 0:
        return step  # type: ignore[no-any-return]
    if isinstance(step, list) and step and all(map(_number, step)) and sorted(set(step)) == step:
        return tuple(step)
    raise SchemaError(
        "'intervals' must be widths above 0, or lists of increasing lower limits. "
        f"Got {step!r} instead."
    )


def _branches(given: Any, deepest: int) -> tuple[Any, ...]:
    """Return the children of a group that is given as a list, or as a table by labels."""
    if not given or not deepest:
        raise SchemaError("A group of a hierarchy is empty, or nested too deep.")
    if isinstance(given, Mapping):
        return tuple(
            Branch(label, _branches(_listed(inner), deepest - 1)) for label, inner in given.items()
        )
    return tuple(
        Branch("", _branches(each, deepest - 1))
        if isinstance(each, list)
        else _single(each, deepest)
        for each in given
    )


def _single(each: Any, deepest: int) -> Any:
    if isinstance(each, Mapping):
        if len(each) != 1:
            raise SchemaError("A group in a list of a hierarchy is one label with its values.")
        return _branches(each, deepest)[0]
    if isinstance(each, str | int | float | bool | date):
        return each
    raise SchemaError(f"A value of a hierarchy must be text or a number. Got {each!r} instead.")


def _listed(inner: Any) -> Any:
    return inner if isinstance(inner, list | Mapping) else [inner]


def _plain(children: Sequence[Any]) -> Any:
    """Return nested groups as lists, or as a table where every group has a label."""
    branches = [each for each in children if isinstance(each, Branch)]
    labels = [each.label for each in branches]
    if len(branches) == len(children) and all(labels) and len(set(labels)) == len(labels):
        return {each.label: _plain(each.children) for each in branches}
    return [_plain_child(each) for each in children]


def _plain_child(each: Any) -> Any:
    if not isinstance(each, Branch):
        return each.isoformat() if isinstance(each, date) else each
    inner = _plain(each.children)
    return {each.label: inner} if each.label else inner


def _depth(node: Any) -> int:
    return 1 + max(map(_depth, node.children)) if isinstance(node, Branch) else 0


def _leaves(children: Sequence[Any], path: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield every value with the labels of its groups, from the root down."""
    for number, child in enumerate(children):
        if isinstance(child, Branch):
            label = child.label or _set_label(child)
            # Groups of different parents may have one label: the number keeps them apart.
            yield from _leaves(child.children, [*path, f"{label}\0{'.'.join(path)}{number}"])
        else:
            yield path, child


def _set_label(branch: Branch) -> str:
    """Return the label of a group without one: its values, as ARX lists a set."""
    values = [str(value) for _, value in _leaves(branch.children, [])]
    text = "{" + ", ".join(values) + "}"
    return text if len(text) <= _MOST_LABEL else f"{{{values[0]}, … {len(values)} values}}"


def _at(path: Sequence[str], place: int, value: Any) -> str:
    return path[place] if place < len(path) else f"{_shown(value)}\0value"


def _ranges(groups: Codes, lows: Sequence[float], ends: Sequence[float], whole: bool) -> list[str]:
    """Return a label for the interval of each value: `20-29` of integers, `[20, 30)` of bins."""
    labels: dict[int, str] = {}
    for group in np.unique(groups).tolist():
        some = np.flatnonzero(groups == group)
        low, high = lows[int(some[0])], ends[int(some[-1])]
        if whole:
            labels[group] = f"{low}-{high}" if low >= 0 else f"{low} to {high}"
        else:
            labels[group] = f"[{low:g}, {high:g}{']' if some[-1] == len(ends) - 1 else ')'}"
    return [labels[group] for group in groups.tolist()]


def _step(step: float | tuple[float, ...]) -> str:
    return f"{step:g}" if not isinstance(step, tuple) else str(list(step))


def _period(day: date, by: str) -> str:
    if by == "month":
        return f"{day.year:04}-{day.month:02}"
    if by == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return f"{day.year:04}" if by == "year" else f"{day.year // 10:03}0s"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _refuse_cut(fine: Codes, coarse: Codes, what: str) -> None:
    """Raise SchemaError if a group of the finer level is in two groups of the coarser one."""
    pairs = len(np.unique(np.stack([fine, coarse], axis=1), axis=0))
    if pairs != len(np.unique(fine)):
        raise SchemaError(f"The levels of the hierarchy are not nested: {what} cuts a finer one.")


# Levels: a rule over a domain.


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a hierarchy over the codes of an attribute.

    `groups[h][code]` is the group of a code at level h, numbered from 0; `labels[h]` are the labels
    of the groups. Level 0 are the codes themselves, the last level is one group.
    """

    groups: tuple[Codes, ...]
    labels: tuple[tuple[str, ...], ...]

    @property
    def height(self) -> int:
        """The number of levels above the values."""
        return len(self.groups) - 1

    @property
    def size(self) -> int:
        return len(self.groups[0])

    def sizes(self, level: int) -> Codes:
        """Return the number of values in each group of a level."""
        return np.bincount(self.groups[level], minlength=len(self.labels[level]))

    def nested(self) -> list[Any]:
        """Return the codes in nested lists, from the top down."""
        return _nest(self.groups, len(self.groups) - 1, np.arange(self.size))


def _nest(groups: Sequence[Codes], level: int, codes: Codes) -> list[Any]:
    if level == 1:
        return [int(code) for code in codes]
    below = groups[level - 1][codes]
    return [_nest(groups, level - 1, codes[below == group]) for group in _in_order(below)]


def _in_order(groups: Codes) -> list[int]:
    return list(dict.fromkeys(groups.tolist()))


def resolve(rule: Rule, domain: Domain, *, missing: bool) -> Levels:
    """Return the levels of a rule over a domain; SchemaError if it does not fit."""
    if domain.size > MOST_VALUES:
        raise SchemaError(f"A hierarchy is of at most {MOST_VALUES} values; use coarser bins.")
    return _numbered(rule.levels(domain), domain, missing)


def default_levels(domain: Domain, *, ordered: bool, missing: bool) -> Levels:
    """Return the levels of an attribute without a hierarchy.

    Values that have an order are joined in blocks of 2, 4, 8, ...; others only all together.
    """
    names = value_labels(domain)
    rows: list[list[str]] = []
    width = 2
    while ordered and width < domain.size:
        starts = [at - at % width for at in range(domain.size)]
        rows.append([_block(domain, names, at, min(at + width, domain.size)) for at in starts])
        width *= 2
    return _numbered(rows, domain, missing)


def value_labels(domain: Domain) -> list[str]:
    """Return a label for each value that says all of it: the edges of a bin, and a whole period."""
    values = domain.labels().to_pylist()
    if isinstance(domain, Bins):
        return [_edges(domain, at, at + 1) for at in range(domain.size)]
    if isinstance(domain, Dates) and domain.by != "day":
        return [_period(day, domain.by) for day in values]
    return _texts(domain)


def _texts(domain: Domain) -> list[str]:
    """Return every value as text; amounts in full."""
    return list(map(str if isinstance(domain, Number) else _shown, domain.labels().to_pylist()))


def _block(domain: Domain, names: Sequence[str], start: int, end: int) -> str:
    """Return the label of the values from `start` to before `end`."""
    if isinstance(domain, Bins):
        return _edges(domain, start, end)
    if end - start == 1:
        return names[start]
    between = " to " if isinstance(domain, Dates) else "-"
    return f"{names[start]}{between}{names[end - 1]}"


def _edges(bins: Bins, start: int, end: int) -> str:
    closing = "]" if end == bins.size else ")"
    return f"[{bins.edges[start]:.15g}, {bins.edges[end]:.15g}{closing}"


def _numbered(rows: Iterable[list[str]], domain: Domain, missing: bool) -> Levels:
    """Return levels by the label of each value; equal labels of a level are one group."""
    size = domain.size + missing
    groups: list[Codes] = [np.arange(size)]
    labels = [(*_texts(domain), *(("",) if missing else ()))]
    for row in rows:
        numbers = {text: place for place, text in enumerate(dict.fromkeys(row))}
        found = np.array([numbers[text] for text in row] + [len(numbers)] * missing, np.int64)
        _refuse_cut(groups[-1], found, "a group")
        if len(numbers) + missing == 1:
            break  # the last level is added below
        groups.append(found)
        labels.append((*(text.partition("\0")[0] for text in numbers), *(("",) if missing else ())))
    if size > 1:
        groups.append(np.zeros(size, np.int64))
        labels.append((TOP,))
    return Levels(tuple(groups), tuple(labels))
