"""The figure of docs/sequences.md: estimates of all pairs of pages against the truth.

python -m research.sequences_figure docs/sequences.svg
"""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from scumble.public.plot.figures import FAINT, INK, blank, svg

PAGE = Path(__file__).resolve().parents[1] / "docs" / "sequences.md"


def release_of_the_page() -> dict[str, Any]:
    """Run the first example of the page with a fixed seed, and return its variables."""
    [first, *_] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    code = first.replace("schema, mechanism)", "schema, mechanism, seed=1)")
    found: dict[str, Any] = {}
    exec(compile(re.sub(r"(?m)^print.*$", "", code), str(PAGE), "exec"), found)
    return found


def weighted_pairs(visits: list[list[str]], length: int) -> dict[tuple[str, str], float]:
    """Return the weighted number of occurrences of all pairs, by the definition."""
    found: dict[tuple[str, str], float] = {}
    for visit in visits:
        symbols = [*visit, "$"][:length]
        for pair in pairwise(visit[:length]):
            found[pair] = found.get(pair, 0.0) + 1 / len(symbols)
    return found


def main(path: str) -> None:
    """Write the figure to a file."""
    known = release_of_the_page()
    truth = weighted_pairs(known["visits"], 20)
    figure, axes = blank(6.4, 4.2)
    pairs = sorted(truth, key=lambda each: -truth[each])
    for place, pair in enumerate(pairs):
        listed = ", ".join(f"'{each}'" for each in pair)
        estimate = known["release"].answer(f"SELECT SUM(occurrences(pages, [{listed}])) FROM t")
        low, high = estimate.interval(0.95)
        axes.plot([place, place], [low, high], color=FAINT, linewidth=5, solid_capstyle="butt")
        axes.plot(place, estimate.value, "o", color="#0072B2", markersize=4)
        axes.plot(place, truth[pair], "_", color=INK, markersize=12)
    names = [" → ".join(each) for each in pairs]
    axes.set_xticks(range(len(pairs)), names, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("weighted occurrences")
    axes.set_title("Estimate (dot), 95 % interval (bar), truth (line); ε = 1", fontsize=9)
    Path(path).write_text(svg(figure), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
