"""Runs the benchmarks, prints a table and writes build/benchmarks.json.

python -m benchmarks                 all of them
python -m benchmarks answer noise    those named
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

NAMES = (
    "startup",
    "noise",
    "publish",
    "pool",
    "spark",
    "tumult",
    "growth",
    "answer",
    "bounds",
    "questions",
    "workloads",
    "long_work",
    "aroma",
    "database",
    "journal",
    "publishers",
    "generalise",
    "tuples",
    "relaxation",
    "audit",
    "axes",
    "sparse",
    "lists",
    "mobility",
    "rows",
    "rows_size",
    "long_lists",
    "server",
)
OUTPUT = Path("build/benchmarks.json")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "names", nargs="*", help=f"which to run, of {', '.join(NAMES)}; all by default"
    )
    names = parser.parse_args().names or list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    console, results = Console(), []
    for name in names:
        with console.status(f"Measuring {name}"):
            results += importlib.import_module(f"benchmarks.{name}").run()
    console.print(as_table(results))
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(as_json(results), "utf-8")
    console.print(f"Written to {OUTPUT}")


def as_table(results: list[dict[str, Any]]) -> Table:
    """One line a benchmark, its detail under its name."""
    table = Table("benchmark", "target", "measured", "")
    for result in results:
        verdict = "[green]met[/]" if result["met"] else "[red]missed[/]"
        name = f"{result['name']}\n[dim]{result['detail']}[/]"
        table.add_row(
            name, str(result["target"]), f"{result['ratio']:.2f} ×", verdict, end_section=True
        )
    return table


def as_json(results: list[dict[str, Any]]) -> str:
    """The results and the machine; what could not be measured is null, as JSON has no NaN."""
    known = [
        {**result, "ratio": None if math.isnan(result["ratio"]) else result["ratio"]}
        for result in results
    ]
    content = {"machine": machine(), "results": known}
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures; nothing that tells whose machine it was."""
    packages = ("scumble", "numpy", "numba", "pyarrow", "duckdb")
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


if __name__ == "__main__":
    main()
