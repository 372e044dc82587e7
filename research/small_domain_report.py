"""Verdicts on the sentences of the paper on small domain randomization, and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from statistics import fmean

from research.small_domain import FLOORS, METHODS, RARE
from research.study import Row, Study, Verdict, scatter_panels
from scumble.public.plot.figures import Line, Panel

# Table 2: retention of UP and PP by L.
PAPER = {6: (0.029, 0.090), 5: (0.040, 0.123), 4: (0.059, 0.173), 3: (0.094, 0.257)}
_CLOSE = 0.15
_LABELS = [f"s = {floor:.1%}" for floor in FLOORS]


def verdicts(found: Study) -> Iterator[Verdict]:
    """Yield all verdicts, in the order of the paper."""
    yield from _probabilities(found["table 1"])
    yield from _retention(found["table 2"], found["table 3"])
    yield from _even(found["figure 2, L"], found["figure 2, T"])
    yield from _near(found["figure 3"])
    yield from _skewed(found["figure 4, L"])
    yield from _fast(found["figure 5"])
    yield from _balance(found["figure 6"])


def _probabilities(rows: Sequence[Row]) -> Iterator[Verdict]:
    here = [row for row in rows if row["attribute"] == "paper"]
    percent = [[round(100 * row[key]) for row in here] for key in "pq"]
    said = [[5, 5, 7, 22, 31, 36, 40, 67], [1, 1, 2, 6, 8, 9, 10, 17]]
    yield Verdict(
        "table 1",
        f"p = {_list(said[0])} % and q = {_list(said[1])} %",
        f"{_list(percent[0])} and {_list(percent[1])}",
        percent == said,
    )


def _retention(table2: Sequence[Row], table3: Sequence[Row]) -> Iterator[Verdict]:
    known = [row for row in table2 if row["L"] in PAPER]
    theirs = ", ".join(f"{PAPER[r['L']][0]:.1%} → {PAPER[r['L']][1]:.1%}" for r in known)
    ours = ", ".join(f"{r['UP']:.1%} → {r['PP']:.1%}" for r in known)
    yield Verdict(
        "table 2",
        f"retention grows about threefold, for L = {_list([r['L'] for r in known])}: {theirs}",
        f"{ours} (× {min(r['ratio'] for r in known):.1f} to {max(r['ratio'] for r in known):.1f})",
        all(abs(r["PP"] / PAPER[r["L"]][1] - 1) < _CLOSE and r["ratio"] > 2.5 for r in known),
        "the table is another one: its most frequent value is more frequent",
    )
    row, gamma = table3[-1], table2[0]["γ"]
    yield Verdict(
        "table 3",
        "sub-tables have far fewer values (17.3 of 50) and about the same γ (2.6, one table 2.5)",
        f"{row['sub-tables']} sub-tables of {row['initial groups']} groups, {row['mean m']:.1f} of "
        f"{row['values']} values, γ {row['mean γ']:.2f} (one table {gamma:.2f})",
        row["mean m"] < 0.5 * row["values"] and abs(row["mean γ"] / gamma - 1) < _CLOSE,
    )


def _even(levels: Sequence[Row], sizes: Sequence[Row]) -> Iterator[Verdict]:
    ratio = [b[s] / a[s] for a, b, s in _pairs([*levels, *sizes], "PP", "UP")]
    yield Verdict(
        "figure 2",
        "PP has less error than UP",
        f"UP's error is {min(ratio):.1f} to {max(ratio):.1f} times that of PP",
        min(ratio) > 1,
    )
    against = _pairs([*levels, *sizes], "PP", "Ana")
    won = [(a, s) for a, b, s in against if a[s] < b[s]]
    lost = [(a, s) for a, b, s in against if a[s] >= b[s]]
    yield Verdict(
        "figure 2",
        "PP has less error than Ana",
        f"in {len(won)} of {len(against)} points; not for {_places(lost)}"
        if lost
        else f"in all {len(against)} points",
        not lost,
        "the error of PP is noise, which shrinks with the rows; that of Ana is bias, which stays. "
        "PP wins from some number of rows on, and here are fewer than in the paper",
    )
    for method, word, sign in (("PP", "falls as L falls", 1), ("Ana", "changes little with L", 0)):
        ends = [[r[s] for r in levels if r["method"] == method and r[s] is not None]
                for s in _LABELS]  # fmt: skip
        change = [each[-1] / each[0] for each in ends if each]
        words = ", ".join(f"× {each:.2f}" for each in change)
        holds = max(change) < 0.7 if sign else min(change) > 0.7
        yield Verdict("figure 2", f"the error of {method} {word}", f"{words} ({_said()})", holds)
    falls = {}
    for method in ("PP", "Ana"):
        rows = [r for r in levels if r["method"] == method and r[_LABELS[-1]] is not None]
        falls[method] = rows[0][_LABELS[-1]] / rows[0][_LABELS[0]]
    yield Verdict(
        "figure 2",
        "PP gains from a larger selectivity, Ana less obviously",
        f"error at {_LABELS[-1]} over that at {_LABELS[0]}: {falls['PP']:.2f} for PP, "
        f"{falls['Ana']:.2f} for Ana",
        falls["PP"] < min(0.8, falls["Ana"]),
    )


def _near(rows: Sequence[Row]) -> Iterator[Verdict]:
    off = {}
    for method in METHODS:
        part = [row for row in rows if row["method"] == method]
        off[method] = fmean(abs(row["estimate"] - row["truth"]) for row in part)
    words = ", ".join(f"{rows_off:.0f} ({method})" for method, rows_off in off.items())
    yield Verdict(
        "figure 3",
        "PP has the best concentration of points near the diagonal",
        f"mean distances of {words} rows, over {len(rows) // len(METHODS):,} queries",
        min(off, key=off.__getitem__) == "PP",
        "as in figure 2: for few rows the noise of PP is larger than the bias of Ana",
    )


def _skewed(rows: Sequence[Row]) -> Iterator[Verdict]:
    parts = {row["L"]: row["sub-tables"] for row in rows if row["method"] == "PP"}
    words = ", ".join(f"{number} at L = {level}" for level, number in parts.items())
    gain = [b[s] / a[s] for a, b, s in _pairs(rows, "PP", "UP")]
    yield Verdict(
        "figure 4",
        "on the skewed attribute PP is UP, since its domain is small",
        f"sub-tables: {words}; UP's error is {min(gain):.2f} to {max(gain):.2f} times that of PP",
        set(parts.values()) == {1},
        "where UP would keep few values a split still has the lower error bound",
    )
    more = {other: [b[s] / a[s] for a, b, s in _pairs(rows, other, "Ana")] for other in METHODS[:2]}
    yield Verdict(
        "figure 4",
        "Ana has a much larger error, since it must leave rows out",
        ", ".join(f"{min(m):.1f} to {max(m):.1f} times that of {o}" for o, m in more.items()),
        min(min(each) for each in more.values()) > 1.2,
        "for small answers the noise of the others is larger than what the suppression costs",
    )


def _fast(rows: Sequence[Row]) -> Iterator[Verdict]:
    slowest = max(row["seconds"] for row in rows if row["method"] == "PP")
    words = f"at most {slowest:.1f} s of processor time for a publication"
    yield Verdict("figure 5", "PP takes no more than 30 seconds", words, slowest <= 30)
    most = max(row["rows"] for row in rows)
    last = [row["seconds"] for row in rows if (row["rows"], row["method"]) == (most, "Ana")]
    yield Verdict(
        "figure 5",
        "Ana is faster on the skewed attribute, since rows are left out first",
        f"{last[1]:.3f} s there and {last[0]:.3f} s on the balanced one",
        last[1] < last[0],
        "all of it is so little time that the rows left out hardly matter",
    )


def _balance(rows: Sequence[Row]) -> Iterator[Verdict]:
    names = list(dict.fromkeys(row["attribute"] for row in rows))
    even, skewed = ([row["share"] for row in rows if row["attribute"] == name] for name in names)
    words = "; ".join(
        f"{name}: at most {max(shares):.1%}, {sum(share < RARE for share in shares)} of "
        f"{len(shares)} values below 1/30, evenness {evenness(shares):.2f}"
        for name, shares in zip(names, (even, skewed), strict=True)
    )
    yield Verdict(
        "figure 6",
        "occupation is balanced (a value has at most 7 % of the rows), education much more skewed "
        "(27 %, and 9 of 14 values are below 1/30)",
        words,
        max(even) < max(skewed) and evenness(even) > evenness(skewed),
        "the table is another one",
    )


def evenness(shares: Sequence[float]) -> float:
    """Return the entropy of a distribution, divided by that of the uniform distribution."""
    return -sum(share * log(share) for share in shares if share) / log(len(shares))


def _pairs(rows: Sequence[Row], one: str, other: str) -> list[tuple[Row, Row, str]]:
    """Return pairs of rows of two methods with the same L and |T|, for each selectivity."""
    found = {(row["method"], row["L"], row["rows"]): row for row in rows}
    return [
        (row, found[other, level, size], label)
        for (method, level, size), row in found.items()
        for label in _LABELS
        if method == one and row[label] is not None
    ]


def _places(points: Sequence[tuple[Row, str]]) -> str:
    found: dict[tuple[int, int], list[str]] = {}
    for row, label in points:
        found.setdefault((row["L"], row["rows"]), []).append(label[4:])
    return "; ".join(
        f"L = {level}, {rows:,} rows, s = {' and '.join(labels)}"
        for (level, rows), labels in found.items()
    )


def _said() -> str:
    return ", ".join(_LABELS)


def _list(values: Sequence[int]) -> str:
    return " ".join(map(str, values))


def panels(name: str, rows: Sequence[Row]) -> list[Panel]:
    """Return the panels of a figure; none for a table."""
    if name == "figure 3":
        return scatter_panels(rows, METHODS)
    if name == "figure 5":
        return [_times(rows, each) for each in dict.fromkeys(row["attribute"] for row in rows)]
    if name == "figure 6":
        return [_shares(rows, each) for each in dict.fromkeys(row["attribute"] for row in rows)]
    if not name.startswith("figure"):
        return []
    varied = "L" if name.endswith("L") else "rows"
    return [_errors(rows, varied, label) for label in _LABELS if rows[0][label] is not None]


def _errors(rows: Sequence[Row], varied: str, label: str) -> Panel:
    lines = []
    for style, method in enumerate(METHODS):
        part = sorted((r for r in rows if r["method"] == method), key=lambda row: row[varied])
        x, y = [row[varied] for row in part], [100 * row[label] for row in part]
        far = [100 * row[f"± {label[4:]}"] for row in part]
        lines.append(Line(method, x, y, style, spread=far))
    fixed = f"L = {rows[0]['L']}" if varied == "rows" else f"{rows[0]['rows']:,} rows"
    across = "L, where 1/L is the largest belief allowed" if varied == "L" else "rows"
    title = f"Selectivity at least {label[4:]}, {fixed}"
    return Panel(title, across, "mean relative error, % ± deviation", lines, log_y=True)


def _times(rows: Sequence[Row], attribute: str) -> Panel:
    lines = []
    for style, method in enumerate(METHODS):
        part = [r for r in rows if (r["attribute"], r["method"]) == (attribute, method)]
        x, y = [row["rows"] for row in part], [row["seconds"] for row in part]
        lines.append(Line(method, x, y, style))
    return Panel(attribute, "rows", "processor time, s", lines)


def _shares(rows: Sequence[Row], attribute: str) -> Panel:
    part = [row for row in rows if row["attribute"] == attribute]
    x, y = [row["rank"] for row in part], [100 * row["share"] for row in part]
    lines = [Line("rows", x, y), Line("even share", x, [100 / len(x)] * len(x), bound=True)]
    lines.append(Line("1/30", x, [100 / 30] * len(x), bound=True))
    return Panel(attribute, "values, the most frequent first", "rows, %", lines)
