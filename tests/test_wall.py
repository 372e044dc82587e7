"""The layers and the wall: the contracts of .importlinter hold, and each of them can be broken."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scumble.families import families, mechanism_names

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


def test_modules_are_named_as_text_in_three_places():
    """A module name that is built at run time would pass the contracts unseen. `families.load` has
    the only one that crosses layers; the others load the public names and the commands lazily.
    """
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"import_module|__import__", path.read_text())
    ]
    assert sorted(found) == ["__init__.py", "cli/app.py", "families/__init__.py"]


def test_the_package_never_imports_its_own_root():
    root = re.compile(r"^\s*(?:import scumble(?: as \w+)?|from scumble import .*)$", re.M)
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert [path.name for path in files if root.search(path.read_text())] == []


def test_only_a_family_knows_its_mechanisms_by_name():
    """What differs between mechanisms is an attribute or a method of their classes. `recommend`
    names them all: it says for each why, or why not.
    """
    names = set(mechanism_names())
    compared = [
        f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if "families" not in path.parts and path.name != "recommend.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "name"
        and any(isinstance(each, ast.Constant) and each.value in names for each in node.comparators)
    ]
    assert compared == []


BREACHES = [  # module, line to add, what is reported
    ("model/query", "import scumble.private.tables.rows", "query -> scumble.private.tables.rows"),
    ("model/errors", "import scumble.public.release", "model.errors -> scumble.public.release"),
    ("private/publish", "import scumble.audit.report", "publish -> scumble.audit.report"),
    ("public/release", "from scumble.private import publish", "release -> scumble.private.publish"),
    ("families/keys/design", "import scumble.public.release", "design -> scumble.public.release"),
    (
        "families/baskets/design",
        "import scumble.families.baskets.read",
        "families.baskets.design -> scumble.families.baskets.read",
    ),
    (
        "families/keys/read",
        "import scumble.private.tables.rows",
        "families.keys.read -> scumble.private.tables.rows",
    ),
    (
        "families/generalise/read",
        "import scumble.families.generalise.check",
        "families.generalise.read -> scumble.families.generalise.check",
    ),
    (
        "families/keys/publish",
        "import scumble.private.publish",
        "families.keys.publish -> scumble.private.publish",
    ),
    (
        "families/marginals/publish",
        "import scumble.private.database.database",
        "families.marginals.publish -> scumble.private.database.database",
    ),
    (
        "private/publish",
        "import scumble.families.keys.publish",
        "private.publish -> scumble.families.keys.publish",
    ),
    (
        "audit/report",
        "import scumble.families.anatomy.check",
        "audit.report -> scumble.families.anatomy.check",
    ),
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
    assert "Contracts: 0 kept, 10 broken." in report
    assert [found for *_, found in BREACHES if found not in report] == []


READ = """
import json, sys
from pathlib import Path

class Wall:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[:2] in (["scumble", "private"], ["scumble", "audit"], ["scumble", "compare"]):
            raise ImportError(f"{name} is behind the wall")
        if parts[:2] == ["scumble", "families"] and parts[3:4] in (["publish"], ["check"]):
            raise ImportError(f"{name} is behind the wall")

sys.meta_path.insert(0, Wall())
from scumble.model.errors import QueryError
from scumble.public.archive.load import load

kinds = set()
for folder, questions in json.loads(sys.argv[1]).items():
    release = load(Path(folder))
    for question in questions:
        try:
            release.answer(question)
        except QueryError:
            continue  # not every release answers every question
        kinds.add(release.evidence.kind)
        kinds.add(getattr(getattr(release.evidence, "design", None), "kind", None))
print(json.dumps(sorted(filter(None, kinds))))
"""


def test_releases_of_every_kind_are_answered_without_private_code():
    """Contracts do not see names as text, so that nothing private may be loaded for an answer."""
    questions = {}
    for fixtures in (
        ROOT / "tests" / "fixtures" / name
        for name in ("format1", "lists", "synthetic", "quantiles")
    ):
        saved = json.loads((fixtures / "expected.json").read_text("utf-8"))
        for name, facts in saved.get("releases", saved).items():
            manifest = next(fixtures.glob(f"**/{name}/manifest.json"), None)
            if manifest is None:
                continue  # linked tables have a release each
            asked = facts.get("questions") or [each["sql"] for each in facts["answers"]]
            questions[str(manifest.parent)] = list(asked)[:3]
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(questions)],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    shared = {"records", "measurements", "matrix", "product", "residuals"}
    known = {kind for each in families().values() for kind in (*each.evidence, *each.designs)}
    assert set(json.loads(done.stdout)) == shared | known
