"""Run the demo: make people, publish them, ask, and write the report."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from scumble.demo.census import census
from scumble.demo.report import page
from scumble.demo.story import MARK, STEPS, Step, Story, run_steps
from scumble.model.errors import OutputExistsError, ReleaseError, writing

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.model.schema.schema import Schema


def run_demo(
    people: int, folder: Path, step: Step, *, report: bool = True, force: bool = False
) -> Story:
    """Run the demo, write its files to `folder` (all of them or none), and return the results.

    `step` is called with a sentence before each of `demo_steps(report)` steps. An earlier demo in
    the folder is replaced only with `force`.
    """
    with writing(folder):
        _check(folder, force)
        folder.parent.mkdir(parents=True, exist_ok=True)
    step(f"Making {people:,} fictitious people")
    table, schema = census(people)
    with writing(folder):
        return _write(folder, table, schema, step, report)


def _write(folder: Path, table: pa.Table, schema: Schema, step: Step, report: bool) -> Story:
    """Fill a folder beside `folder`, then rename it."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as work:
        draft = Path(work) / "draft"
        draft.mkdir()
        story = run_steps(table, schema, draft, step)
        if report:
            step("Writing the report")
            (draft / "report.html").write_text(page(story, folder), encoding="utf-8")
        if folder.exists():
            folder.rename(Path(work) / "before")
        draft.rename(folder)
    return story


def demo_steps(report: bool) -> int:
    """Return the number of steps of a demo, with the page or without."""
    return 1 + STEPS + report


def _check(folder: Path, force: bool) -> None:
    """Raise `ReleaseError` unless the folder is new, empty, or with `force` of an earlier demo."""
    free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not free and not (folder / MARK).exists():
        raise ReleaseError(
            f"The folder '{folder}' exists and was not made by the demo; choose another --output."
        )
    if not free and not force:
        raise OutputExistsError.of(folder)
