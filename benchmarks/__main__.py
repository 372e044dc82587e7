"""Runs the benchmarks, prints a table and writes build/benchmarks.json.

python -m benchmarks                 all of them
python -m benchmarks answer noise    those named
python -m benchmarks spark.memory    one part of a long one: of spark and growth
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
from collections.abc import Callable
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
    "relation",
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
    "live",
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
    if unknown := {name.partition(".")[0] for name in names} - set(NAMES):
        parser.error(
            f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    console, results = Console(), []
    for name in names:
        with console.status(f"Measuring {name}"):
            results += _chosen(parser, name)()
    console.print(as_table(results))
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(as_json(results), "utf-8")
    console.print(f"Written to {OUTPUT}")


def _chosen(parser: argparse.ArgumentParser, name: str) -> Callable[[], list[dict[str, Any]]]:
    """Return the function that runs a benchmark, or the part of it after a dot."""
    name, dot, part = name.partition(".")
    module = importlib.import_module(f"benchmarks.{name}")
    parts: dict[str, Any] = getattr(module, "PARTS", {})
    if dot and part not in parts:
        listed = ", ".join(f"{name}.{each}" for each in parts) or "none"
        parser.error(f"{name} has no part called {part}; there are {listed}")
    found: Callable[[], list[dict[str, Any]]] = parts[part] if dot else module.run
    return found


def as_table(results: list[dict[str, Any]]) -> Table:
    """One line a benchmark, its detail under its name."""
    table = Table("benchmark", "target", "measured", "")
    for result in results:
        name = f"{result['name']}\n[dim]{result['detail']}[/]"
        table.add_row(name, str(result["target"]), *_measured(result), end_section=True)
    return table


def _measured(result: dict[str, Any]) -> tuple[str, str]:
    """The ratio and the verdict of a benchmark; a dash for what could not be measured."""
    if math.isnan(result["ratio"]):
        return "-", "[yellow]not measured[/]"
    return f"{result['ratio']:.2f} ×", "[green]met[/]" if result["met"] else "[red]missed[/]"


def as_json(results: list[dict[str, Any]]) -> str:
    """The results and the machine; what could not be measured is null, as JSON has no NaN."""
    unknown = {"ratio": None, "met": None}
    known = [{**result, **unknown} if math.isnan(result["ratio"]) else result for result in results]
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
