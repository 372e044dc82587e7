"""Project rules that a program can check: names, pins, commands, what may not be in the tree."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scumble

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "scumble"
FOLDERS = ("src", "tests", "benchmarks", "research", "docs", ".ci")
BINARY = {".pyc", ".nbi", ".nbc", ".png", ".parquet", ".gz", ".duckdb"}
HEAVY = (
    "numpy",
    "pyarrow",
    "duckdb",
    "numba",
    "scipy",
    "pandas",
    "polars",
    "matplotlib",
    "sqlglot",
)


def project_files() -> list[Path]:
    # In a git worktree `.git` is a file.
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    inner = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()]
    return sorted(path for path in top + inner if path.suffix not in BINARY)


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def lines_matching(pattern: str, paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_there_are_files_to_check():
    names = {path.name for path in project_files()}
    assert {"pyproject.toml", "run", "errors.py", "test_project.py", "architecture.md"} <= names


def test_no_path_of_one_machine():
    assert (
        lines_matching(r"(?<![\w.:/])/(?:home|root|work|Users|tmp|opt|mnt)/\w", project_files())
        == []
    )


def test_no_package_registry_address():
    address = (
        r"https?://(?!pypi\.org/project)\S*(?:pypi|/simple\b|registry|mirror|artifactory|nexus)"
    )
    setting = r"(?:index-url|find-links|trusted-host)\s*[=\s]\s*\S"
    assert lines_matching(f"{address}|{setting}", project_files()) == []


def test_no_folder_for_odds_and_ends():
    banned = {"utils", "util", "common", "helpers", "helper", "core", "manager", "misc"}
    assert [path for path in sources() if {path.stem, path.parent.name} & banned] == []


def test_modules_say_what_they_are_for():
    assert [path for path in sources() if not re.match(r'r?"""\S', path.read_text("utf-8"))] == []


def test_nothing_is_left_for_later():
    assert lines_matching(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", sources()) == []


def test_every_dependency_is_pinned():
    pins = (ROOT / "constraints.txt").read_text().split()
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for names in extras for name in names)]
    names = {re.split(r"[^\w-]", text)[0].lower().replace("_", "-") for text in wanted}
    names.discard("scumble")  # the extra `all` is the sum of others
    assert names <= {pin.partition("==")[0].lower().replace("_", "-") for pin in pins}


def test_the_changelog_has_this_version():
    assert f"## {scumble.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_check_of_a_change_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert re.search(r"^make\b.* test\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_starts_with_two_commands_and_how_long_they_take(command):
    first_screen = (ROOT / "README.md").read_text().splitlines()[:40]
    [line] = [line for line in first_screen if line.startswith(f"    {command} ")]
    assert re.search(r"# \w.*: about \d+ (?:seconds?|minutes?)", line)


@pytest.mark.parametrize("module", ["scumble", "scumble.cli.app"])
def test_starting_imports_nothing_of_weight(module):
    """`scumble --help` answers at once because of this; its time is measured by the benchmarks."""
    code = f"import sys, {module}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_imports_nothing_of_weight():
    code = f"""
import sys
from scumble.cli.app import main
sys.argv = ["scumble", "--help"]
try:
    main()
finally:
    print("heavy:", *sorted(set({HEAVY}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "heavy:"
