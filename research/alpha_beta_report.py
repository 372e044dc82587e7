"""What the paper on the αβ algorithm says of its experiment, beside what was measured; and its
figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from research.alpha_beta import BOUND, COUNT, METHODS, Row, Study, predicted
from research.clouds import clouds
from research.relaxation.verdicts import Verdict
from scumble.public.plot.curves_part import Line, Panel

_CLOSE = 0.15  # of a ratio that is read off a plot
_PLATEAU = 500  # rows: the paper names no end of the part of the curve that it reads


def verdicts(found: Study) -> Iterator[Verdict]:
    """All of them, in the order of the paper."""
    yield from _scatter(found["relative"])
    yield from _errors(found["figure 3"])
    yield from _parameters(found["parameters"])


def _scatter(rows: Sequence[Row]) -> Iterator[Verdict]:
    ours, theirs = ([r for r in rows if r["method"] == method] for method in METHODS)
    pairs = [(a["median relative error"], b["median relative error"])
             for a, b in zip(ours, theirs, strict=False)]  # fmt: skip
    words = ", ".join(f"{a:.2g} against {b:.2g} from {row['Q(I) from']:,} rows on"
                      for (a, b), row in zip(pairs, ours, strict=False))  # fmt: skip
    yield Verdict(
        "figure 2",
        "αβ gives much better estimates than FRAPP",
        f"median relative errors of {words}",
        all(2 * a < b for a, b in pairs),
        "not twice as good everywhere",
    )
    small, large = ours[0], ours[-1]
    yield Verdict(
        "figure 2",
        "for small Q(I) estimates are far off, even negative; for large ones much better",
        f"αβ: {small['median relative error']:.0%} off and {small['negative']:.0%} negative below "
        f"10 rows, {large['median relative error']:.1%} off from {large['Q(I) from']:,} rows on",
        small["median relative error"] > 1 > 5 * large["median relative error"]
        and small["negative"] > 0.1,
    )


def _errors(rows: Sequence[Row]) -> Iterator[Verdict]:
    whole = rows[0]
    yield Verdict(
        "figure 3",
        "FRAPP's error is about 4.3 times that of αβ (√20 = 4.5 by the bounds)",
        f"{whole['ratio']:.2f} over all {whole['selections']:,} selections "
        f"({whole['FRAPP']:.1f} against {whole['αβ']:.1f} rows)",
        (1 - _CLOSE) * 4.3 < whole["ratio"] < (1 + _CLOSE) * predicted(COUNT, BOUND),
        "the table is another one, with other answers",
    )
    plateau = next((row for row in rows if row["Q(I) at least"] >= _PLATEAU), rows[-1])
    yield Verdict(
        "figure 3",
        "the curves are at about 520 and 120 rows",
        f"{plateau['FRAPP']:.0f} and {plateau['αβ']:.0f} over the {plateau['selections']:,} "
        f"selections of at least {plateau['Q(I) at least']} rows (ratio {plateau['ratio']:.2f})",
        abs(plateau["FRAPP"] / 520 - 1) < _CLOSE and abs(plateau["αβ"] / 120 - 1) < _CLOSE,
        "both depend on where the curve is read, which the text does not say, and on the table; "
        "the set of different rows that αβ tells of is smaller than the table",
    )


def _parameters(rows: Sequence[Row]) -> Iterator[Verdict]:
    for varied in ("k", "γ"):
        part = [row for row in rows if row["varied"] == varied]
        off = max(abs(row["ratio"] / row["predicted"] - 1) for row in part)
        words = ", ".join(f"{r['ratio']:.2f} at {r[varied]:g} ({r['predicted']:.2f})" for r in part)
        yield Verdict(
            "section 5",
            f"the ratio is √(k(1−γ)/2γ), whatever {varied}",
            f"{words}; at most {off:.0%} off",
            off < _CLOSE,
            "the terms that the formula leaves out count there: the true rows that αβ drops, and "
            "those that FRAPP keeps",
        )
    beyond = max(row[f"beyond it, {method}"] for row in rows for method in METHODS)
    used = max(row[method] / row[f"ρ√n, {method}"] for row in rows for method in METHODS)
    yield Verdict(
        "section 5",
        "at most 5 % of the errors are beyond ρ√n",
        f"at most {beyond:.2%}; the mean error is at most {used:.1%} of ρ√n",
        beyond <= 0.05,
    )


def panels(name: str, rows: Sequence[Row]) -> list[Panel]:
    """The panels of one figure; none for what is a table only."""
    if name == "figure 2":
        return clouds(rows, METHODS)
    if name == "figure 3":
        shown = [row for row in rows if row["Q(I) at least"]]
        x = [row["Q(I) at least"] for row in shown]
        lines = []
        for look, method in enumerate(METHODS):
            error, far = ([row[key] for row in shown] for key in (method, f"± {method}"))
            lines.append(Line(method, x, error, look, spread=far))
        title, across = "Mean error, k = 10, γ = 0.2", "true answer Q(I) at least"
        up = "mean error, rows ± deviation"
        return [Panel(title, across, up, lines, log_x=True, log_y=True)]
    return [_against(rows, varied) for varied in ("k", "γ")] if name == "parameters" else []


def _against(rows: Sequence[Row], varied: str) -> Panel:
    part = [row for row in rows if row["varied"] == varied]
    x = [row[varied] for row in part]
    lines = [Line(method, x, [row[method] for row in part], k) for k, method in enumerate(METHODS)]
    scaled = [row["αβ"] * row["predicted"] for row in part]
    lines.append(Line("αβ × √(k(1−γ)/2γ)", x, scaled, bound=True))
    other = f"γ = {BOUND:g}" if varied == "k" else f"k = {COUNT:g}"
    title = f"Mean error over all selections against {varied}, {other}"
    return Panel(title, varied, "mean error, rows", lines, log_x=varied == "k", log_y=True)
