"""The wall between private rows and answers: the contracts hold, cover every module, can fail."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "scumble"
# These take arguments and print: they may call both sides.
FRONT = [
    "scumble._version",
    "scumble.cli.cards",
    "scumble.cli.app",
    "scumble.cli.advise",
    "scumble.cli.audit",
    "scumble.cli.compare",
    "scumble.cli.database",
    "research.cli_dpbench",
    "scumble.cli.ledger",
    "scumble.cli.cli_marginal",
    "research.cli_papers",
    "scumble.cli.publish",
    "research.commands",
    "scumble.cli.cli_select",
    "scumble.cli.console",
    "scumble.demo",
    "scumble.cli.dialect_shell",
    "scumble.cli.ending",
    "scumble.cli.printing",
    "scumble.cli.listing_database",
    "scumble.cli.listing_ledger",
    "research.printing",
    "scumble.cli.options",
    "scumble.cli.options_audit",
    "scumble.cli.options_axes",
    "scumble.cli.options_compare",
    "scumble.cli.options_database",
    "scumble.cli.options_ledger",
    "scumble.cli.publish_options",
    "scumble.cli.options_regions",
    "scumble.cli.shell",
]


def check_contracts(root: Path) -> tuple[bool, str]:
    """Whether the package under `root` keeps the contracts, and what import-linter says."""
    code = (
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )
    return done.returncode == 0, done.stdout + done.stderr


def listed(contract: str, key: str) -> list[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter")
    return config[f"importlinter:contract:{contract}"][key].split()


def covers(rooms: list[str], module: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def modules() -> list[str]:
    """All modules but the `__init__` of packages, which have to be empty of imports or front."""
    files = (path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    return [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in files]


def test_contracts_are_kept():
    kept, report = check_contracts(ROOT)
    assert kept, report


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_module_has_a_side(module):
    public, private = listed("wall", "source_modules"), listed("wall", "forbidden_modules")
    sides = [covers(public, module), covers(private, module), covers(FRONT, module)]
    assert sum(sides) == 1


def test_the_page_of_rooms_names_every_room():
    page = (ROOT / "docs" / "rooms.md").read_text("utf-8")
    both = listed("wall", "source_modules") + listed("wall", "forbidden_modules")
    rooms = {module.split(".")[1] for module in both}
    assert [room for room in sorted(rooms) if not re.search(f"`{room}[`/]", page)] == []


def test_no_sampler_is_unprotected():
    samplers = {
        room for room in listed("wall", "forbidden_modules") if room.startswith("scumble.noise")
    }
    assert samplers == set(listed("noise", "protected_modules"))


def test_public_rooms_import_by_name_only():
    """A name put together at run time, or taken from the whole package, would pass unseen."""
    public = listed("wall", "source_modules")
    inside = [module for module in modules() if covers(public, module)]
    texts = {name: (ROOT / "src" / f"{name.replace('.', '/')}.py").read_text() for name in inside}
    assert [
        name
        for name in texts
        if re.search(r"import_module|__import__|import scumble\b(?!\.)", texts[name])
    ] == []


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("query", "import scumble.engine.rows", "never reach private"),
        ("radix", "import scumble.publishers.uniform", "never reach private"),
        ("release", "from scumble.noise import source", "never reach private"),
        ("console", "import scumble.noise.source", "draw noise"),
        ("release", "import duckdb", "speaks to DuckDB"),
        ("cli", "import matplotlib.pyplot", "room draws"),
    ],
)
def test_a_breach_is_seen(tmp_path, module, line, contract):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    with open(tmp_path / "src" / "scumble" / f"{module}.py", "a") as file:
        file.write(f"\n{line}\n")
    kept, report = check_contracts(tmp_path)
    broken = [text for text in report.splitlines() if " BROKEN" in text]
    assert not kept
    assert any(contract in text for text in broken)
