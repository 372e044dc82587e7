"""The command doctor: what this machine has for scumble, in ten lines.

Packages are looked up by their metadata and never imported, so that the answer comes at once, also
where an import would fail. Each line is a `MachineFinding`; one whose state is `PROBLEM` makes the
exit code 1.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from scumble._version import __version__
from scumble.cli import console
from scumble.model.compiled import cache_folder, is_trusted

OK, NOTE, PROBLEM = "ok", "note", "problem"
_SHOWN = ("numpy", "pyarrow", "duckdb", "numba", "scipy", "sqlglot")  # versions that matter most
_INNER = ("all", "dev")  # extras that are not shown: the sum of the others, and for developers
_SYNCS, _SYNC_SECONDS = 9, 2.0  # at most this many writes, and about this long
_SLOW_SYNC = 0.02  # seconds; a database then gives fewer than fifty answers a second to one client
_LOW_DISK = 1 << 30  # bytes


class MachineFinding(NamedTuple):
    """One line of the report: what was looked at, `OK`, `NOTE` or `PROBLEM`, and a sentence."""

    topic: str
    state: str
    text: str


class Requirement(NamedTuple):
    """A package that scumble or one of its extras needs, at least at a version (may be empty)."""

    package: str
    least: str
    extra: str


def report(folder: Path, as_json: bool = False) -> int:
    """Print what was found, as ten lines or as JSON; return the exit code."""
    found = [*findings(folder)]
    problems = [each.topic for each in found if each.state == PROBLEM]
    if as_json:
        lines = [each._asdict() for each in found]
        console.print_json({"healthy": not problems, "findings": lines})
    else:
        verdict = f"look at: {', '.join(problems)}" if problems else "scumble can work here"
        for each in (*found, MachineFinding("Verdict", PROBLEM if problems else OK, verdict)):
            console.echo(f"{each.topic:<11}{each.state:<9}{each.text}")
    return console.SYSTEM if problems else 0


def findings(folder: Path) -> Iterable[MachineFinding]:
    """Yield the lines of the report but the verdict; `folder` is where results will be written."""
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield MachineFinding("Version", OK, f"scumble {__version__}, {python}")
    known = requirements()
    yield packages(known)
    yield extras(known)
    yield machine()
    yield compiled_loops()
    yield place("Temporary", Path(tempfile.gettempdir()))
    yield (written := place("Folder", folder))
    yield (
        sync_speed(folder)
        if written.state != PROBLEM
        else MachineFinding("Sync", NOTE, "not measured")
    )
    yield terminal()


# --- packages ------------------------------------------------------------------------------------


def requirements() -> list[Requirement] | None:
    """Return what scumble requires by its own metadata; None if it runs without being installed."""
    try:
        lines = metadata.requires("scumble") or []
    except metadata.PackageNotFoundError:
        return None
    found = []
    for line in lines:
        text, _, marker = line.partition(";")
        name = re.match(r"[\w.-]+", text)
        least = re.search(r">=\s*([\w.]+)", text)
        extra = re.search(r"""extra\s*==\s*['"]([\w-]+)""", marker)
        if name is not None and name[0] != "scumble":
            version, of = (match[1] if match else "" for match in (least, extra))
            found.append(Requirement(name[0], version, of))
    return found


def packages(known: list[Requirement] | None) -> MachineFinding:
    """Report the packages without which nothing works."""
    if known is None:
        text = "scumble is not installed (pip install .): what it needs cannot be looked up"
        return MachineFinding("Packages", NOTE, text)
    needed = [each for each in known if not each.extra]
    lacks = [text for each in needed if (text := lacking(each))]
    if lacks:
        return MachineFinding("Packages", PROBLEM, f"{'; '.join(lacks)}: pip install scumble")
    versions = ", ".join(f"{name} {version}" for name in _SHOWN if (version := installed(name)))
    return MachineFinding("Packages", OK, f"all {len(needed)} are there: {versions}")


def extras(known: list[Requirement] | None) -> MachineFinding:
    """Report what each extra needs and lacks; none of them has to be there."""
    parts, state = [], OK
    for name in sorted({each.extra for each in known or ()} - {"", *_INNER}):
        lacks = [text for each in known or () if each.extra == name and (text := lacking(each))]
        if lacks:
            state = NOTE
            parts.append(f"{name}: {', '.join(lacks)} (pip install 'scumble[{name}]')")
        else:
            parts.append(f"{name} is there")
    return MachineFinding("Extras", state, "; ".join(parts) or "none are known")


def installed(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def lacking(need: Requirement) -> str:
    """Return what is wrong with a package in a few words; empty if nothing is."""
    version = installed(need.package)
    if version is None:
        return f"{need.package} is missing"
    if _numbers(version) < _numbers(need.least):
        return f"{need.package} {version} is older than {need.least}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version without trailing zeros: (2, 4) for 2.4.0rc1."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# --- the machine ---------------------------------------------------------------------------------


def machine() -> MachineFinding:
    """Report the cores that this process may use, and the memory."""
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable else os.cpu_count() or 1
    text = f"{cores} that scumble may use"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        text += f"; {_size(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} of memory"
    return MachineFinding("Cores", OK, text)


def compiled_loops() -> MachineFinding:
    """Report the cache of compiled loops; where it cannot be written each process compiles anew."""
    folder = cache_folder()
    kept = [path.stat().st_size for path in folder.rglob("*.nbc")] if folder.is_dir() else []
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        text = f"{folder} cannot be written: set SCUMBLE_CACHE to a folder"
        return MachineFinding("Compiled", NOTE, text)
    if folder.is_dir() and not is_trusted(folder):
        text = f"{folder} is not used, others can write there: set SCUMBLE_CACHE to your own folder"
        return MachineFinding("Compiled", NOTE, text)
    text = f"{len(kept)} kept, {_size(sum(kept))}, in {folder}" if kept else f"none yet in {folder}"
    return MachineFinding("Compiled", OK, text)


def place(topic: str, folder: Path) -> MachineFinding:
    """Report whether files can be made in a folder, and how much room there is."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".scumble-doctor-", dir=folder):
            room = shutil.disk_usage(folder).free
    except OSError as error:
        return MachineFinding(
            topic, PROBLEM, f"{folder} cannot be written: {error.strerror or error}"
        )
    text = f"{folder.absolute()} can be written, {_size(room)} free"
    return MachineFinding(topic, OK if room >= _LOW_DISK else NOTE, text)


def sync_speed(folder: Path) -> MachineFinding:
    """Measure how long the disk takes to keep a small write, as a database does for each answer."""
    # The journal of a database uses the same call (private/journal/sqlite_store.py).
    sync = getattr(os, "fdatasync", os.fsync)
    times: list[float] = []
    begin = perf_counter()
    with tempfile.NamedTemporaryFile(prefix=".scumble-doctor-", dir=folder) as file:
        while len(times) < _SYNCS and perf_counter() - begin < _SYNC_SECONDS:
            start = perf_counter()
            file.write(bytes(512))
            file.flush()
            sync(file.fileno())
            times.append(perf_counter() - start)
    typical = statistics.median(times)
    text = f"{typical * 1000:.2g} ms for a write that is kept: a database needs one for each answer"
    return MachineFinding("Sync", OK if typical < _SLOW_SYNC else NOTE, text)


def terminal() -> MachineFinding:
    """Report whether the output can show Greek letters."""
    encoding = (sys.stdout.encoding or "ascii").lower()
    try:
        "ε ≤ ½ ± π".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = f"{encoding} has no Greek letters: set PYTHONIOENCODING=utf-8"
        return MachineFinding("Terminal", NOTE, text)
    return MachineFinding(
        "Terminal", OK, f"{encoding}, {shutil.get_terminal_size().columns} columns"
    )


def _size(number: float) -> str:
    """Return a number of bytes in the unit that fits."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"
