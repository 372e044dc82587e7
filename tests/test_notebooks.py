"""The notebooks run from top to bottom, and show what a run shows."""

import ast
import json
import re

import pytest

from tests.support import notebooks

PATHS = [notebooks.FOLDER / f"{name}.ipynb" for name in notebooks.NAMES]


def kept(path):
    return json.loads(path.read_text("utf-8"))


def test_there_are_no_others():
    assert {path.name for path in PATHS} == {path.name for path in notebooks.FOLDER.iterdir()}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_outputs_are_there(path):
    """Readers see results and pictures without running anything; no errors, no warnings."""
    shown = [kind for cell in notebooks.kinds(kept(path)) for kind in cell]
    assert shown.count("stdout") >= 4
    assert shown.count("image/png") + shown.count("image/svg+xml") >= 2
    assert "stderr" not in shown
    counts = [c["execution_count"] for c in kept(path)["cells"] if c["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    text = "".join("".join(c["source"]) for c in kept(path)["cells"] if c["cell_type"] != "code")
    found = re.findall(r"\]\(([^)#:]+)\)", text)
    assert found
    assert [target for target in found if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_code_is_python_and_imports_what_exists(path):
    for cell in kept(path)["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse(re.sub(r"^%.*$", "", "".join(cell["source"]), flags=re.MULTILINE))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("scumble"):
                    exec(compile(ast.Module([node], []), path.name, "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_runs(path):
    """Cells fail by an exception; what they show is of the kinds that are kept in the file."""
    assert notebooks.kinds(notebooks.executed(path)) == notebooks.kinds(kept(path))
