"""What each command costs before and beside its work: processor time as a multiple of four imports.

The base is `python -c "import numpy, pyarrow, duckdb, sqlglot"`, measured in turns with the
commands, so that the ratios hold on any machine. Each command is also run as on a new machine, with
an empty cache of compiled loops. Python keeps byte code, as it does for an installed package, even
where PYTHONDONTWRITEBYTECODE is set: compiling the sources again would add half of the base.
`python -m benchmarks.startup` prints the table as text.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scumble as sc
from benchmarks.measure import at_most
from benchmarks.people import SCHEMA, folder, table

ROWS = 100_000
EARLIER = 100  # answers of the database before the one that is timed
REPEATS = 7
BASE = [sys.executable, "-c", "import numpy, pyarrow, duckdb, sqlglot"]
PROGRAM = [sys.executable, "-c", "from scumble.cli.app import main; main()"]
COUNT = "SELECT COUNT(*) FROM t WHERE age < 30 AND occupation = 'occupation 03'"
ASKED = "SELECT COUNT(*) FROM t WHERE age BETWEEN 21 AND 43 AND income < 50"
FIRST = 1.1  # the first use ever may cost this multiple of a later one


@dataclass(frozen=True)
class Command:
    """A command, the multiple of the base that it may cost, and a folder that it changes."""

    name: str
    target: float
    words: list[str]
    changed: Path | None = None

    def cpu(self, cache: Path, *, empty: bool) -> float:
        """Return the processor seconds of one run, with `cache` for the compiled loops."""
        if empty:
            shutil.rmtree(cache, ignore_errors=True)
        if self.changed is not None:
            shutil.rmtree(self.changed, ignore_errors=True)
            shutil.copytree(self.changed.with_suffix(".before"), self.changed)
        return cpu_seconds(self.words, cache)


def run() -> list[dict[str, Any]]:
    commands = all_commands(folder())
    base, warm, first = measured(commands)
    results = []
    for command in commands:
        ratio = warm[command.name] / base
        detail = f"{warm[command.name]:.3f} s CPU, base {base:.3f}, median of {REPEATS}"
        results.append(at_most(f"{command.name} / base imports", command.target, ratio, detail))
    for command in commands[:-2]:  # the last two load no compiled loop
        ratio = first[command.name] / warm[command.name]
        detail = f"{first[command.name]:.3f} s CPU, {first[command.name] / base:.2f} × base"
        results.append(at_most(f"{command.name}: first use / later", FIRST, ratio, detail))
    return results


def measured(commands: list[Command]) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return median processor seconds: of the base, of each command, and of its first use."""
    caches = folder() / "cache", folder() / "empty"
    for command in commands:
        command.cpu(caches[0], empty=False)
    base: list[float] = []
    warm: dict[str, list[float]] = {command.name: [] for command in commands}
    first: dict[str, list[float]] = {command.name: [] for command in commands}
    for _ in range(REPEATS):
        base += [cpu_seconds(BASE, caches[0]), cpu_seconds(BASE, caches[0])]
        for command in commands:
            warm[command.name].append(command.cpu(caches[0], empty=False))
            first[command.name].append(command.cpu(caches[1], empty=True))
    middle = statistics.median
    return (
        middle(base),
        {name: middle(times) for name, times in warm.items()},
        {name: middle(times) for name, times in first.items()},
    )


def cpu_seconds(words: list[str], cache: Path) -> float:
    """Return the processor seconds of a program: a busy machine hardly lengthens them."""
    caches = {"XDG_CACHE_HOME": str(cache), "SCUMBLE_CACHE": str(cache)}
    environment = {**os.environ, **caches, "NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[-6:]} failed: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def all_commands(home: Path) -> list[Command]:
    """Prepare releases and a database in `home`, and return the commands that use them."""
    people, schema = str(table(ROWS)), home / "people.toml"
    schema.write_text(SCHEMA, "utf-8")
    uniform, histogram, database = (home / name for name in ("uniform", "histogram", "asked"))
    known = sc.Schema.loads(SCHEMA)
    sc.publish(people, known, sc.Uniform(epsilon=1)).save(uniform, force=True)
    cells = sc.Histogram(["age", "sex"], epsilon=1, neighbours="replace")
    sc.publish(people, known, cells).save(histogram, force=True)
    _ask_before(database.with_suffix(".before"), people, known)
    given = [people, "-s", str(schema), "-e", "1", "--force"]
    publish = [*PROGRAM, "publish"]
    summary = ["-a", "age,sex", "--neighbours", "replace"]
    recommend = ["-s", str(schema), "--rows", str(ROWS), "-e", "1"]
    return [
        Command("ask uniform", 2, [*PROGRAM, "ask", str(uniform), COUNT]),
        Command(
            "ask histogram",
            2,
            [*PROGRAM, "ask", str(histogram), "SELECT COUNT(*) FROM t WHERE age < 30"],
        ),
        Command("publish uniform", 1.4, [*publish, "uniform", *given, "-o", str(home / "one")]),
        Command(
            "publish histogram",
            1.4,
            [*publish, "histogram", *given, *summary, "-o", str(home / "two")],
        ),
        Command(
            "ask a database",
            2,
            [*PROGRAM, "ask", str(database), "--source", people, ASKED],
            database,
        ),
        Command("recommend", 1.2, [*PROGRAM, "recommend", *recommend]),
        Command("show", 1.2, [*PROGRAM, "show", str(uniform)]),
        Command("schema infer", 1.2, [*PROGRAM, "schema", "infer", people]),
        Command("--help", 0.17, [*PROGRAM, "--help"]),
        Command("import scumble", 0.05, [sys.executable, "-c", "import scumble"]),
    ]


def _ask_before(path: Path, people: str, schema: sc.Schema) -> None:
    """Create a database of all columns and ask it `EARLIER` counts."""
    with sc.Database.create(path, people, schema, epsilon=1, noise=1000) as database:
        for number in range(EARLIER):
            low, high = number % 50, number % 50 + 10 + number % 7
            ages = f"age BETWEEN {low} AND {high}"
            database.answer(f"SELECT COUNT(*) FROM t WHERE {ages} AND income > {number}")


def main() -> None:
    """Print the table."""
    for result in run():
        verdict = "met" if result["met"] else "MISSED"
        print(
            f"{result['name']:35} {result['target']:9} {result['ratio']:6.2f} {verdict:7}"
            f" {result['detail']}"
        )


if __name__ == "__main__":
    main()
