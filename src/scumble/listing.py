"""What the command line prints of a release, an answer, the methods and the demo."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble import console

if TYPE_CHECKING:
    from scumble.demo.story import Story
    from scumble.estimate import Estimate, Estimates
    from scumble.guarantee import Guarantee
    from scumble.release import Release
    from scumble.schema import Schema


def manifest(folder: Path) -> dict[str, Any]:
    """A release as JSON: all that its folder says about it, guarantees included."""
    from scumble.archive import MANIFEST

    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return found


def show_published(release: Release, folder: Path) -> None:
    """What was made, in a few lines, and what to do next."""
    out = console.stdout()
    out.print(f"Published {folder}: {_made_by(release)}.", markup=False)
    _bullets(map(str, release.guarantees))
    out.print(f"More: scumble show {shlex.quote(str(folder))}", markup=False)


def show_release(release: Release, folder: Path) -> None:
    """A release for a person who has to trust it."""
    out = console.stdout()
    out.print(f"[bold]{folder.name}[/bold]: {_made_by(release)}")
    _print_schema(release.schema)
    _heading("Promised")
    for guarantee in release.guarantees:
        _bullets([str(guarantee)])
        out.print(f"    {_fine_print(guarantee)}", style="dim", markup=False)
    _heading("Not promised")
    _bullets(dict.fromkeys(limit for each in release.guarantees for limit in each.limits))
    _heading("How to ask")
    out.print(f"  {example(release.schema, folder)}", markup=False, soft_wrap=True)


def example(schema: Schema, folder: Path) -> str:
    """A question that this release can answer, as a command."""
    attribute = (schema.sensitive or schema.published)[0]
    value = attribute.labels()[0].as_py()
    condition = f'"{attribute.name}" = ' + (
        str(value) if isinstance(value, (int, float)) else f"'{value}'"
    )
    sql = f"SELECT COUNT(*) FROM t WHERE {condition}"
    return f"scumble query {shlex.quote(str(folder))} {shlex.quote(sql)}"


def answer_fields(answer: Estimate | Estimates, level: float) -> list[dict[str, Any]]:
    """An answer as JSON: one object per group, and one alone without groups."""
    from scumble.estimate import Estimates

    return answer.to_dicts(level) if isinstance(answer, Estimates) else [answer.to_dict(level)]


def show_answer(answer: Estimate | Estimates, level: float) -> None:
    """An answer as a table: every number with as many digits as its error leaves meaningful."""
    from scumble.estimate import Estimates, digits

    rows = list(answer) if isinstance(answer, Estimates) else [((), answer)]
    names = list(answer.groups) if isinstance(answer, Estimates) else []
    head = [*names, "value", "stderr", f"low {100 * level:g} %", f"high {100 * level:g} %"]
    body = []
    for key, estimate in rows:
        numbers = (estimate.value, estimate.stderr, *estimate.interval(level))
        group = ["(missing)" if part is None else str(part) for part in key]
        body.append(group + [digits(number, estimate.stderr) for number in numbers])
    _table(head, body, text_columns=len(names))
    for method in dict.fromkeys(estimate.method for _, estimate in rows):
        console.say(method)
    for note in dict.fromkeys(note for _, estimate in rows for note in estimate.notes):
        console.say(f"Note: {note}")


def method_fields() -> list[dict[str, str]]:
    """Every method: what it publishes and what it promises, from its card."""
    from scumble.cards import card
    from scumble.mechanism import mechanisms

    cards = [card(method) for method in mechanisms().values()]
    return [
        {
            "method": each.name,
            "publishes": each.summary,
            "promises": each.sections["Promises"].partition(" Proof:")[0],
        }
        for each in cards
    ]


def show_methods() -> None:
    """The methods, one row each."""
    rows = [list(fields.values()) for fields in method_fields()]
    _table(["method", "what it publishes", "what it promises"], rows, text_columns=3)


def show_story(story: Story, folder: Path) -> None:
    """The demo in the terminal: answers side by side, promises, and where the page is."""
    from scumble.demo.report import commands
    from scumble.estimate import digits

    out = console.stdout()
    body: list[list[str]] = []
    for words, lines in groupby(story.lines, key=lambda line: line.question.words):
        for place, line in enumerate(lines):
            group = ", ".join(map(str, line.group))
            name = words if place == 0 else ""
            truth = digits(round(line.truth, 1), 0)
            cells = [_with_interval(answer) for answer in line.answers.values()]
            body.append([name, group, truth, *cells])
    _table(["question", "", "truth", *story.releases], body, text_columns=2)
    held, asked = story.covered
    out.print(f"In brackets: 95 % intervals. {held} of {asked} intervals hold the truth.")
    for name, release in story.releases.items():
        _heading(f"What {name} promises")
        _bullets(map(str, release.guarantees))
        _bullets(f"Not promised: {limit}" for limit in release.guarantees[0].limits[:1])
    _heading("Next")
    out.print(f"  Report: {folder / 'report.html'}", markup=False, soft_wrap=True)
    for command in commands(folder):
        out.print(f"  {' '.join(command.split())}", markup=False, soft_wrap=True)


def _with_interval(answer: Estimate) -> str:
    from scumble.estimate import digits

    value, low, high = (
        digits(number, answer.stderr) for number in (answer.value, *answer.interval())
    )
    return f"{value} ({low} to {high})"


def _made_by(release: Release) -> str:
    manifest = release.manifest
    given = ", ".join(f"{name} = {value}" for name, value in manifest.parameters.items())
    warning = " NOT PRIVATE: made with a fixed seed." if manifest.seeded else ""
    return f"{manifest.mechanism} ({given}){warning}"


def _fine_print(guarantee: Guarantee) -> str:
    return (
        f"{guarantee.statement}; for {guarantee.scope}; against a change of: "
        f"{guarantee.neighbourhood}; trust: {guarantee.trust}; proof: {guarantee.proof}"
    )


def _print_schema(schema: Schema) -> None:
    rows = [[each.name, each.role, each.describe()] for each in schema]
    _table(["column", "role", "domain"], rows, text_columns=3)


def _heading(text: str) -> None:
    console.stdout().print(f"\n[bold]{text}[/bold]")


def _bullets(sentences: Iterable[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    out = console.stdout()
    for sentence in sentences:
        line = Text("• " + sentence, overflow="fold")
        out.print(Padding(line, (0, 0, 0, 2)))


def _table(head: Sequence[str], body: Sequence[Sequence[str]], text_columns: int) -> None:
    """Text to the left, numbers to the right, and no markup read out of the cells."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(Text(name), justify="left" if place < text_columns else "right")
    for row in body:
        table.add_row(*map(Text, row))
    console.stdout().print(table)
