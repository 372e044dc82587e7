"""The layers and the wall: the contracts of .importlinter hold, and each of them can be broken."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    )
    return done.returncode == 0, done.stdout + done.stderr


def test_contracts_are_kept():
    kept, report = check_contracts(ROOT)
    assert kept, report


@pytest.mark.parametrize("layer", ["model", "public"])
def test_public_layers_import_by_name_only(layer):
    """A module name that is built at run time would pass the contracts unseen."""
    files = sorted((PACKAGE / layer).rglob("*.py"))
    assert files
    found = [
        path.name for path in files if re.search(r"import_module|__import__", path.read_text())
    ]
    assert found == []


def test_the_package_never_imports_its_own_root():
    root = re.compile(r"^\s*(?:import scumble(?: as \w+)?|from scumble import .*)$", re.M)
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert [path.name for path in files if root.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("model/query", "import scumble.private.tables.rows", "lower never imports higher"),
        ("model/errors", "import scumble.public.release", "lower never imports higher"),
        ("public/release", "from scumble.private.sampling import source", "imports higher"),
        ("private/publish", "import scumble.audit.report", "lower never imports higher"),
        ("novel/__init__", '"""A folder without a place."""', "lower never imports higher"),
        ("cli/console", "import scumble.private.sampling.source", "draw noise"),
        ("public/release", "import duckdb", "speak to DuckDB"),
        ("cli/app", "import matplotlib.pyplot", "draws"),
        ("private/tables/frames", "import polars", "No data frame library"),
    ],
)
def test_a_breach_is_seen(tmp_path, module, line, contract):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    path = tmp_path / "src" / "scumble" / f"{module}.py"
    path.parent.mkdir(exist_ok=True)
    with open(path, "a") as file:
        file.write(f"\n{line}\n")
    kept, report = check_contracts(tmp_path)
    broken = [text for text in report.splitlines() if " BROKEN" in text]
    assert not kept
    assert any(contract in text for text in broken), report
