"""The Python lines of the README and of the page on Python pass two type checkers as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/python.md"]

# What an editor knows of the README's variables, and so what it completes.
README_TYPES = {
    "schema": "Schema",
    "release": "OwnedRelease",
    "young": "Estimate",
    "by_sex": "Estimates",
    "view": "OwnedRelease",
    "db": "LiveDatabase",
}


def examples(page: str) -> str:
    """Return the Python lines of a page as one program."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    return "\n".join(code)


def pyright(code: str, folder: Path) -> list[tuple[str, str]]:
    """Return severity and text of what pyright says about a program, without a network."""
    (folder / "example.py").write_text(code, "utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT / "src")]}))
    told = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(told.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return [(each["severity"], each["message"]) for each in report["generalDiagnostics"]]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_examples_have_the_types_that_they_use(page: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(examples(page), "utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "example.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("page", PAGES)
def test_examples_pass_pyright(page: str, tmp_path: Path) -> None:
    found = pyright(examples(page), tmp_path)
    # In a notebook the value of a line alone is shown, so such lines are no mistake.
    unused = ("warning", "Expression value is unused")
    assert [each for each in found if each != unused] == []


def test_pyright_finds_a_wrong_type(tmp_path: Path) -> None:
    found = pyright("import scumble as sc\nsc.Uniform(epsilon=1).guarantee(3)\n", tmp_path)
    assert [severity for severity, _ in found] == ["error"]
    assert '"Schema"' in found[0][1]


def test_editors_know_the_types_of_the_readme(tmp_path: Path) -> None:
    asked = "\n".join(f"reveal_type({name})" for name in README_TYPES)
    told = [text for _, text in pyright(f"{examples('README.md')}\n{asked}\n", tmp_path)]
    assert told == [f'Type of "{name}" is "{kind}"' for name, kind in README_TYPES.items()]
