"""The figures of docs/baskets.md, docs/trajectories.md and docs/keys.md.

python -m research.list_figures baskets docs/baskets.svg
python -m research.list_figures diffpart docs/diffpart.svg
python -m research.list_figures trajectories docs/trajectories.svg
python -m research.list_figures keys docs/keys.svg

The first three run the examples of their page with a fixed seed; the last draws the table of its
page, whose numbers `python -m research.keys FOLDER` prints.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import scumble as sc
from scumble.families.baskets.design import COUNT, ITEMS
from scumble.model.schema.lists import DerivedName
from scumble.public.plot.figures import FAINT, INK, blank, svg

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLUE, ORANGE = "#0072B2", "#D55E00"


def example(page: str) -> dict[str, Any]:
    """Run the first example of a page with a fixed seed, and return its variables."""
    text = (DOCS / page).read_text("utf-8")
    [first, *_] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code = first.replace("schema, mechanism)", "schema, mechanism, seed=1)")
    found: dict[str, Any] = {}
    exec(compile(re.sub(r"(?m)^print.*$", "", code), page, "exec"), found)
    return found


def baskets(path: Path) -> None:
    """Draw the largest estimates of sets with their intervals, and the truth."""
    known = example("baskets.md")
    baskets = [frozenset(each) for each in known["baskets"]]
    top = known["release"].baskets.top(20)
    level = top.shown_level(0.95)
    figure, axes = blank(6.4, 4.4)
    names = []
    for place, (key, estimate) in enumerate(top):
        items = frozenset(key[0])
        low, high = estimate.interval(level)
        axes.plot([place, place], [low, high], color=FAINT, linewidth=6, solid_capstyle="butt")
        axes.plot(place, estimate.value, "o", color=BLUE, markersize=4)
        axes.plot(place, sum(items <= each for each in baskets), "_", color=INK, markersize=12)
        names.append(", ".join(key[0]))
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("baskets")
    axes.set_ylim(bottom=0)
    axes.set_title(
        "Estimate (dot), interval (bar), truth (line); 20,000 baskets, ε = 0.5", fontsize=9
    )
    path.write_text(svg(figure), "utf-8")


def diffpart(path: Path) -> None:
    """Draw how far counts of whole baskets are off, and how many baskets were published."""
    import matplotlib.pyplot as plt

    known = example("baskets.md")
    mechanism = sc.DiffPart("items", epsilon=1, neighbours="add_remove")
    release = sc.publish(
        known["table"], known["schema"], mechanism, options=sc.PublishOptions(seed=1)
    )
    truth = Counter(map(frozenset, known["baskets"]))
    published, half = _whole_baskets(release)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    left.axhspan(-half, half, color=FAINT, alpha=0.25, linewidth=0)
    errors = [(truth[basket], count - truth[basket]) for basket, count in published.items()]
    left.plot(*zip(*errors, strict=True), "o", color=BLUE, markersize=3)
    left.set_xscale("symlog", linthresh=1)
    left.set_xlim(left=-0.2)
    left.set_xlabel("people who have the basket")
    left.set_ylabel("published less true number")
    left.set_title(f"{len(published)} published baskets; grey: 95 % of the noise", fontsize=9)
    steps = [0, 1, 2, 5, 10, 20, 50, 100, 10_000]
    for place, (low, high) in enumerate(itertools.pairwise(steps)):
        alike = [basket for basket in {*truth, *published} if low <= truth[basket] < high]
        right.bar(place, len(alike), color=FAINT)
        right.bar(place, sum(basket in published for basket in alike), color=BLUE)
    middle = [f"{low} to {high - 1}" for low, high in itertools.pairwise(steps[2:-1])]
    labels = ["nobody", "1", *middle, f"{steps[-2]} or more"]
    right.set_xticks(range(len(labels)), labels, rotation=45, ha="right", fontsize=7)
    right.set_xlabel("people who have the basket")
    right.set_ylabel("different baskets")
    right.set_title("Published (blue) of all different baskets", fontsize=9)
    figure.tight_layout()
    path.write_text(svg(figure), "utf-8")


def _whole_baskets(release: Any) -> tuple[dict[frozenset[Any], int], float]:
    """Return the published baskets with their counts, and the half-width of 95 % of the noise."""
    import pyarrow.parquet as pq

    design = release.manifest.evidence.design
    items = [getattr(DerivedName.read(name), "argument", name) for name in design.attributes]
    rows = pq.read_table(release.folder / release.manifest.evidence.file).to_pylist()
    found = {frozenset(items[place] for place in row[ITEMS]): row[COUNT] for row in rows}
    return found, max(law.half_width(0.95) for law in design.laws)


def trajectories(path: Path) -> None:
    """Draw how many trips begin and end in each cell, in truth and as estimated."""
    import matplotlib.pyplot as plt

    known = example("trajectories.md")
    release, bins = known["release"], 8
    figure, panels = plt.subplots(1, 4, figsize=(8.4, 2.6), sharey=True)
    truths = [_ends(known["x"], known["y"], place, bins) for place in (0, -1)]
    most = max(truth.max() for truth in truths)
    for number, (which, truth) in enumerate(zip(("first", "last"), truths, strict=True)):
        question = f"SELECT {which}(trip), COUNT(*) FROM t GROUP BY {which}(trip)"
        estimated = np.zeros((bins, bins))
        for (cell,), estimate in release.answer(question):
            if cell is not None:
                column, line = map(int, cell[1:].split("y"))
                estimated[line, column] = max(estimate.value, 0)
        shown = ((f"{which} cell, truth", truth), (f"{which} cell, ε = 1", estimated))
        for place, (title, counts) in enumerate(shown):
            axes = panels[2 * number + place]
            axes.imshow(counts, origin="lower", cmap="Blues", vmin=0, vmax=most)
            axes.set_title(title, fontsize=9)
            axes.set_xticks([0, bins - 1], ["x0", f"x{bins - 1}"], fontsize=7)
            axes.set_yticks([0, bins - 1], ["y0", f"y{bins - 1}"], fontsize=7)
    figure.tight_layout()
    path.write_text(svg(figure), "utf-8")


def _ends(x: list[Any], y: list[Any], place: int, bins: int) -> Any:
    """Return how many trips have their first or last point in each cell of the unit of the page."""
    found = np.zeros((bins, bins))
    cells = Counter(
        (min(int(b[place] * bins / 10), bins - 1), min(int(a[place] * bins / 10), bins - 1))
        for a, b in zip(x, y, strict=True)
    )
    for cell, count in cells.items():
        found[cell] = count
    return found


def keys(path: Path) -> None:
    """Draw the keys named by each rule, from the table of the page."""
    text = (DOCS / "keys.md").read_text("utf-8")
    [ticks, *curves] = named_keys(text)
    figure, axes = blank(6.4, 3.8)
    colours = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", INK)
    for (method, numbers), colour in zip(curves, colours, strict=True):
        axes.plot(ticks[1], numbers, "o-", color=colour, markersize=4, label=method)
    axes.set_xscale("log")
    axes.set_xticks(ticks[1], list(map(str, ticks[1])))
    axes.minorticks_off()
    axes.set_xlabel("keys of a person")
    axes.set_ylabel("keys named")
    axes.set_ylim(bottom=0)
    axes.set_title("fimi_retail: 88,162 people, 16,470 keys; ε = 1, δ = 10⁻⁶", fontsize=9)
    axes.legend(fontsize=7, frameon=False)
    path.write_text(svg(figure), "utf-8")


def named_keys(page: str) -> list[tuple[str, list[int]]]:
    """Return the title and the numbers of each line of the table of keys that were named; the
    first line has the numbers of keys of a person.
    """
    [table] = re.findall(r"(?m)^\| keys of a person \|.*\n(?:^\|.*\n)+", page)
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if "---" not in line]
    return [(title, [int(n.replace(",", "")) for n in numbers]) for title, *numbers in lines]


if __name__ == "__main__":
    figures = {
        "baskets": baskets,
        "diffpart": diffpart,
        "trajectories": trajectories,
        "keys": keys,
    }
    figures[sys.argv[1]](Path(sys.argv[2]))
