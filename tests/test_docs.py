"""The README and the tour run as they stand, and the mechanism cards are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scumble.cli.tools import cards

ROOT = Path(__file__).resolve().parents[1]


def _code(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/audit.md",
        "docs/compare.md",
        "docs/database.md",
        "docs/ledger.md",
        "docs/primitives.md",
        "docs/releases.md",
        "docs/sequences.md",
        "docs/baskets.md",
        "docs/trajectories.md",
        "docs/tour.md",
        "docs/python.md",
    ],
)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = _code(ROOT / page)
    assert len(code.splitlines()) >= 15
    exec(compile(code, page, "exec"), {"__name__": "example"})


def test_cards_are_made_from_the_docstrings(tmp_path: Path) -> None:
    for made in cards.write(tmp_path):
        kept = ROOT / "docs" / "mechanisms" / made.name
        assert kept.read_text("utf-8") == made.read_text("utf-8"), "run `make docs`"
    assert {p.name for p in tmp_path.iterdir()} == {
        p.name for p in (ROOT / "docs" / "mechanisms").iterdir()
    }


def test_links_lead_somewhere() -> None:
    pages = [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(p for f in ("docs", "research") for p in (ROOT / f).rglob("*.md")),
    ]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_files_of_the_architecture_page_exist() -> None:
    """A path is relative to the package or the repository. A bare name is in the folder named
    before it on its line.
    """
    for line in (ROOT / "docs" / "architecture.md").read_text("utf-8").splitlines():
        folder: Path | None = None
        for name in re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", line):
            places = [ROOT / "src" / "scumble", ROOT]
            if folder is not None and "/" not in name.rstrip("/"):
                places.insert(0, folder)
            found = [place / name for place in places if (place / name).exists()]
            assert found, f"docs/architecture.md names {name}"
            if folder is None or "/" in name.rstrip("/"):
                folder = found[0] if found[0].is_dir() else found[0].parent
