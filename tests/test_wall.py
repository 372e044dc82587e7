"""The layers and the wall: the contracts of .importlinter hold, and each of them can be broken."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scumble.model.designs.registry import DESIGNS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "scumble"


def check_contracts(folder: Path) -> tuple[bool, str]:
    """Whether the package below `folder` keeps the contracts there, and the report."""
    code = (
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode == 0, done.stdout + done.stderr


def test_contracts_are_kept():
    kept, report = check_contracts(ROOT)
    assert kept, report


def test_public_layers_import_by_name_or_from_a_public_table():
    """A module name that is built at run time would pass the contracts unseen. Two tables hold
    module names as text, and all of these are on the public side.
    """
    files = [path for layer in ("model", "public") for path in (PACKAGE / layer).rglob("*.py")]
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in files
        if re.search(r"import_module|__import__", path.read_text())
    ]
    assert sorted(found) == ["model/designs/registry.py", "public/estimation/estimators.py"]
    assert all(place.startswith("scumble.model.") for place, _ in DESIGNS.values())
    assert all(place.startswith("scumble.public.") for _, place in DESIGNS.values())
    assert 'import_module(f"scumble.public.estimation.' in (PACKAGE / max(found)).read_text()


def test_the_package_never_imports_its_own_root():
    root = re.compile(r"^\s*(?:import scumble(?: as \w+)?|from scumble import .*)$", re.M)
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert [path.name for path in files if root.search(path.read_text())] == []


BREACHES = [  # module, line to add, what is reported
    ("model/query", "import scumble.private.tables.rows", "query -> scumble.private.tables.rows"),
    ("model/errors", "import scumble.public.release", "model.errors -> scumble.public.release"),
    ("private/publish", "import scumble.audit.report", "publish -> scumble.audit.report"),
    ("public/release", "from scumble.private import publish", "release -> scumble.private.publish"),
    ("novel/__init__", '"""A folder without a place."""', "- scumble.novel"),
    (
        "cli/console",
        "import scumble.private.sampling.source",
        "console -> scumble.private.sampling",
    ),
    ("public/release", "import duckdb", "scumble.public.release -> duckdb"),
    ("cli/app", "import matplotlib.pyplot", "scumble.cli.app -> matplotlib"),
    ("private/tables/frames", "import polars", "scumble.private.tables.frames -> polars"),
]


def test_every_breach_is_seen(tmp_path):
    """Each contract is broken at least once, in a copy of the package."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for module, line, _ in BREACHES:
        path = tmp_path / "src" / "scumble" / f"{module}.py"
        path.parent.mkdir(exist_ok=True)
        with open(path, "a") as file:
            file.write(f"\n{line}\n")
    kept, report = check_contracts(tmp_path)
    assert not kept
    assert "Contracts: 0 kept, 5 broken." in report
    assert [found for *_, found in BREACHES if found not in report] == []
