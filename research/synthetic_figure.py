"""The figure of docs/synthetic.md: the share of owners by age and income, in data and in rows.

python -m research.synthetic_figure docs/synthetic.svg
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from scumble.public.plot.figures import svg

PAGE = Path(__file__).resolve().parents[1] / "docs" / "synthetic.md"
AGES = np.arange(18, 81, 6)


def release_of_the_page() -> dict[str, Any]:
    """Run the first example of the page with a fixed seed, and return its variables."""
    [first, *_] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    code = first.replace(
        "schema, mechanism)", "schema, mechanism, options=sc.PublishOptions(seed=1))"
    )
    found: dict[str, Any] = {}
    exec(compile(re.sub(r"(?m)^print.*$", "", code), str(PAGE), "exec"), found)
    return found


def shares(rows: pa.Table) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the share of rows in each cell of age and income, and the share of owners there."""
    age, income = (rows[name].to_numpy() for name in ("age", "income"))
    owner = np.array(rows["owner"].to_pylist()) == "yes"
    edges = [AGES, np.arange(11)]
    every, _, _ = np.histogram2d(age, income, edges)
    owners, _, _ = np.histogram2d(age[owner], income[owner], edges)
    with np.errstate(invalid="ignore"):
        return every / len(age), owners / every


def main(path: str) -> None:
    """Write the figure to a file."""
    from matplotlib.figure import Figure

    known = release_of_the_page()
    alone = sc.Synthesis(
        known["mechanism"].names, epsilon=1, delta=1e-9, neighbours="add_remove", extra=0
    )
    tree = sc.publish(known["table"], known["schema"], alone, options=sc.PublishOptions(seed=1))
    panels = {
        "data": known["table"],
        "rows, tree of pairs alone": tree.synthetic.rows(20_000, seed=7),
        "rows, with further pairs": known["release"].synthetic.rows(20_000, seed=7),
    }
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for place, (title, rows) in enumerate(panels.items()):
        dense, owners = shares(rows)
        shown = np.where(dense > 0.0005, owners, np.nan)
        image = axes[place].imshow(
            shown.T,
            origin="lower",
            aspect="auto",
            vmin=0,
            vmax=1,
            cmap="viridis",
            extent=(18, 80, -0.5, 9.5),
        )
        axes[place].set_title(title, fontsize=9)
        axes[place].set_xlabel("age", fontsize=8)
    axes[0].set_ylabel("income", fontsize=8)
    figure.colorbar(image, ax=axes, label="share of owners")
    Path(path).write_text(svg(figure), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
