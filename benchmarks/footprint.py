"""How much code there is, and how much of it a reader meets who follows one call.

python -m benchmarks.footprint            a table
python -m benchmarks.footprint --files    and the files that each call runs through

A file counts for a call if a function in it runs during a warm call. What runs at import, bodies of
classes, loops that numba has compiled and methods that dataclasses generate do not count. What an
earlier call left in a cache is not run again; questions are new every time, so answers are not
repeated from one. It times nothing and has no target, so `make bench` leaves it out.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

from rich.console import Console
from rich.table import Table

import scumble as sc
from scumble.demo.census import census

PACKAGE = Path(sc.__file__).resolve().parent
PEOPLE = 5_000
WARM = 2
WANTED = "SELECT COUNT(*) FROM people WHERE age < {} AND condition = 'Asthma'"
ATTRIBUTES = ["age", "sex", "condition"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.footprint", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--files", action="store_true", help="list the files of each call")
    listed = parser.parse_args().files
    lengths = {path: _lines(path) for path in sorted(PACKAGE.rglob("*.py"))}
    with tempfile.TemporaryDirectory() as folder:
        calls = traced(Path(folder))
    console = Console(width=100, highlight=False)
    console.print(package_table(lengths))
    console.print(calls_table(calls, lengths))
    for name, files in calls.items() if listed else ():
        console.print(f"\n{name}", markup=False)
        for path in sorted(files):
            console.print(f"{lengths[path]:6}  {path.relative_to(PACKAGE)}", markup=False)


def package_table(lengths: dict[Path, int]) -> Table:
    """Sizes of files and folders; `__init__.py` counts as a file, not as a module of its folder."""
    modules = Counter(path.parent for path in lengths if path.name != "__init__.py")
    largest, entries = modules.most_common(1)[0]
    sizes = list(lengths.values())
    table = Table("package", "")
    table.columns[1].justify = "right"
    rows = {
        "files": len(sizes),
        "lines": sum(sizes),
        "lines of a file, median": statistics.median(sizes),
        "lines of a file, 95th percentile": statistics.quantiles(sizes, n=20)[-1],
        f"modules of the largest folder, {largest.relative_to(PACKAGE.parent)}": entries,
        "depth of folders": max(len(folder.relative_to(PACKAGE).parts) for folder in modules) + 1,
    }
    for name, value in rows.items():
        table.add_row(name, f"{value:,.0f}")
    return table


def calls_table(calls: dict[str, set[Path]], lengths: dict[Path, int]) -> Table:
    table = Table("one warm call", "files", "lines of these files")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, files in calls.items():
        table.add_row(name, f"{len(files):,}", f"{sum(lengths[path] for path in files):,}")
    return table


def traced(folder: Path) -> dict[str, set[Path]]:
    """The files of each call."""
    people, schema = census(PEOPLE)
    marginals = sc.Marginals(ATTRIBUTES, ways=2, epsilon=1, neighbours="add_remove")
    tracer = Tracer()
    view = sc.publish(people, schema, sc.Uniform(epsilon=1))
    with sc.Database.create(
        folder / "database", people, schema, epsilon=0.5, noise=40, attributes=ATTRIBUTES
    ) as database:
        return {
            "publish(people, schema, Uniform(epsilon=1))": tracer.files(
                lambda _: sc.publish(people, schema, sc.Uniform(epsilon=1))
            ),
            "its answer to a count": tracer.files(lambda turn: view.answer(_question(turn))),
            "publish(people, schema, Marginals(..., ways=2))": tracer.files(
                lambda _: sc.publish(people, schema, marginals)
            ),
            "Database.answer to a count": tracer.files(
                lambda turn: database.answer(_question(turn))
            ),
        }


class Tracer:
    """Notes the functions that are called, in this thread and in all that begin after it is made:
    also in those that a warm call leaves running.
    """

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()
        threading.settrace(self._note)

    def files(self, call: Callable[[int], object]) -> set[Path]:
        """Those of the package that a call runs through, once it has been made a few times."""
        for turn in range(WARM):
            call(turn)
        self.seen.clear()
        sys.settrace(self._note)
        try:
            call(WARM)
        finally:
            sys.settrace(None)
        seen = self.seen.copy()  # other threads may still be noting
        paths = {Path(code.co_filename).resolve() for code in seen if _is_function(code)}
        return {path for path in paths if path.is_relative_to(PACKAGE)}

    def _note(self, frame: FrameType, *_: object) -> None:
        self.seen.add(frame.f_code)


def _is_function(code: CodeType) -> bool:
    """Not the body of a module or of a class."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def _question(turn: int) -> str:
    return WANTED.format(40 + turn)


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


if __name__ == "__main__":
    main()
