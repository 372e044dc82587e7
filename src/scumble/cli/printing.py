"""What commands print of a release, an answer and the demo."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.cli import bars, console
from scumble.model.query import query_command

if TYPE_CHECKING:
    from scumble.demo.story import Story
    from scumble.model.privacy.guarantee import Guarantee, Guarantees
    from scumble.model.schema.attribute import Attribute
    from scumble.public.estimate import Estimate, Estimates
    from scumble.public.estimate_table import EstimateTable
    from scumble.public.release import Release
    from scumble.public.synthesis.linked import LinkedRelease

WIDEST = 100  # columns of a line that is read at a glance
_SHOWN_VALUES = 20  # of a category; a longer list is described
_SHOWN_GROUPS = 30  # of a question that is shown as an example
_MANY_GROUPS = 1000  # whose intervals are shown with a progress bar
_AT_ONCE = 64  # groups between two steps of the bar
_BETWEEN = "   "  # two columns of a table
# Latin and Greek letters, which take one column of a terminal each.
_PLAIN = re.compile("[\x20-\x7e\u00c0-\u024f\u0391-\u03a1\u03a3-\u03c9±×−…–]*")


def manifest(release: Release) -> dict[str, Any]:
    """Return the manifest of a release for JSON, guarantees included."""
    from scumble.public.archive.archive import MANIFEST
    from scumble.public.manifest import manifest_to_json

    saved = release.folder / MANIFEST
    if not saved.exists():  # it is in a database
        return manifest_to_json(release.manifest, {})
    found: dict[str, Any] = json.loads(saved.read_text(encoding="utf-8"))
    return found


def show_published(release: Release, folder: Path | str, done: str = "Published") -> None:
    """Print a new release: its guarantees, and which columns are published unchanged."""
    console.echo(f"{done} {folder}: {_made_by(release)}")
    bullets(map(str, release.guarantees))
    plain = release.evidence.unchanged
    if plain is not None:
        listed = ", ".join(plain) or "nothing"
        console.echo(f"Published unchanged, for everybody to see: {listed}.")
    _print_left_out(release)
    console.echo(f"More: scumble show {shlex.quote(str(folder))}")


def warnings(release: Release) -> list[str]:
    """Return warnings for the owner that must not only be in the fine print."""
    names = ", ".join(release.schema.from_data)
    leak = (
        f"the possible values of {names} were read from the private data, which no promise covers."
    )
    return ([leak] if names else []) + release.schema.look_alikes()


def show_release(release: Release, folder: Path | str) -> None:
    """Print a release: columns, guarantees, limits, facts, and an example of a question."""
    console.echo(f"{folder}: {_made_by(release)}", style="bold")
    _print_schema(release)
    _print_promise(release.guarantees)
    if release.manifest.report:
        heading("Facts")
        bullets(f"{name}: {_short(value)}" for name, value in release.manifest.report.items())
    if alike := release.schema.look_alikes():
        heading("Look twice")
        bullets(alike)
    heading("How to ask")
    console.echo(f"  {example_command(release, folder)}")


def show_linked(release: LinkedRelease, folder: Path | str, as_json: bool) -> None:
    """Print the release of several tables: keys, guarantees, and the commands for each table."""
    from scumble.public.synthesis.linked import place_of_table

    if as_json:
        tables = {name: manifest(each) for name, each in release.tables.items()}
        promises = [each.to_dict() for each in release.guarantees]
        console.print_json({"keys": dict(release.keys), "guarantees": promises, "tables": tables})
        return
    listed = ", ".join(release.tables)
    console.echo(f"{folder}: the tables {listed}, linked by keys", style="bold")
    people, *others = release.tables
    bullets(
        f"{name}.{release.keys[name]} is the {people}.{release.keys[people]} of a row"
        for name in others
    )
    _print_promise(release.guarantees)
    heading("Each table")
    for name in release.tables:
        console.echo(f"  scumble show {shlex.quote(str(place_of_table(folder, name)))}")
    heading("How to ask")
    for name in release.tables:
        sql = _example(release[name]).replace("FROM t ", f"FROM {name} ")
        console.echo(f"  {query_command(folder, sql)}")
    console.echo(f"  scumble rows {shlex.quote(str(folder))} -n 1000 -o rows.csv")


def show_dataset(address: str, facts: Mapping[str, Any]) -> None:
    """Print what a server says of a data set: columns, guarantees and limits."""
    from scumble.model.schema.schema import Schema

    console.echo(f"{address}: {facts.get('title') or facts['name']}", style="bold")
    rows = [[each.name, each.role, _domain(each)] for each in Schema.from_dict(facts["schema"])]
    table(["column", "role", "domain"], rows, text_columns=3)
    if facts.get("protected"):  # a server of an earlier version does not say it
        console.echo(f"Protected: {facts['protected']}")
    heading("Promised")
    bullets(facts["guarantees"])
    heading("Not promised")
    bullets(facts["limits"])


def _print_promise(guarantees: Guarantees) -> None:
    heading("Promised")
    for guarantee in guarantees:
        bullets([str(guarantee)])
        hanging("   ", _fine_print(guarantee), style="dim")
    heading("Not promised")
    bullets(dict.fromkeys(limit for each in guarantees for limit in each.limits))


def example_command(release: Release, folder: Path | str) -> str:
    """Return a command that asks a question that this release can answer."""
    return query_command(folder, _example(release))


def _example(release: Release) -> str:
    """Return a question that this release can answer."""
    import numpy as np

    from scumble.public.sql.names import sql_name

    design = getattr(release.evidence, "design", None)
    sequences = getattr(design, "kind", "") == "strings"
    asked = [each for each in release.schema if each.name in release.evidence.columns]
    asked = [each for each in asked if sequences or each not in release.schema.lists]
    if release.evidence.sum_columns:
        average = f"AVG({sql_name(release.evidence.sum_columns[0])})"
        few = [each.name for each in asked if each.size <= _SHOWN_GROUPS]
        if not few:
            return f"SELECT {average} FROM t"
        group = sql_name(few[0])
        return f"SELECT {group}, {average} FROM t GROUP BY {group}"
    attribute = next((each for each in asked if each.role == "sensitive"), asked[0])
    if sequences:
        value = attribute.lists.members.labels()[0].as_py()
    else:
        value = attribute.decode(np.zeros(1, attribute.code_type))[0].as_py()
    text = str(value).replace("'", "''")
    literal = text if isinstance(value, (int, float)) else f"'{text}'"
    name = sql_name(attribute.name)
    if value is False:  # ask who has it, not who has not
        return f"SELECT COUNT(*) FROM t WHERE {name}"
    if sequences and getattr(design, "model", "") == "prefix":
        return f"SELECT COUNT(*) FROM t WHERE {name}[1:1] = [{literal}]"
    if sequences:
        return f"SELECT SUM(occurrences({name}, [{literal}])) FROM t"
    return f"SELECT COUNT(*) FROM t WHERE {name} = {literal}"


def answer_fields(
    answer: Estimate | Estimates | EstimateTable, level: float
) -> list[dict[str, Any]]:
    """Return an answer for JSON: one object per group, or a single one without groups."""
    from scumble.public.estimate import Estimate

    found = [answer.to_dict(level)] if isinstance(answer, Estimate) else answer.to_dicts(level)
    alias = getattr(answer, "alias", "")
    return [{"alias": alias, **fields} for fields in found] if alias else found


def print_answer(answer: Estimate | Estimates | EstimateTable, level: float) -> None:
    """Print an answer as JSON. Of no groups there is no object with the notes: they are said."""
    found = answer_fields(answer, level)
    console.print_json(found)
    for note in () if found else answer.notes:
        console.say(f"Note: {note}")


def show_answer(answer: Estimate | Estimates | EstimateTable, level: float) -> None:
    """Print an answer as a table; numbers have as many digits as their error allows."""
    from scumble.public.estimate import Estimates, number_headers, table_row
    from scumble.public.estimate_table import EstimateTable, SelectedEstimates

    if isinstance(answer, EstimateTable):
        table(answer.header(level), answer.cells(level), text_columns=len(answer.headings))
        methods = answer.methods
    else:
        rows = list(answer) if isinstance(answer, Estimates) else [((), answer)]
        if isinstance(answer, SelectedEstimates):
            level = answer.shown_level(level)
        if isinstance(answer, Estimates):
            table(answer.header(level), _cells(answer, level), text_columns=answer.text_columns)
        else:
            bounded = answer.bounds is not None
            head = number_headers(level, bounded, answer.alias)
            table(head, [table_row((), answer, level, bounded)], 0)
        methods = list(dict.fromkeys(estimate.method for _, estimate in rows))
        methods = methods or ["There is no group to show."]
    for method in methods:
        console.say(method)
    for note in answer.notes:
        console.say(f"Note: {note}")


def _cells(answer: Estimates, level: float) -> list[list[str]]:
    """Return the cells of all groups; the intervals of many take some time."""
    groups = answer.rows
    if len(groups) < _MANY_GROUPS:
        return answer.cells(groups, level)
    found: list[list[str]] = []
    with bars.progress("Intervals", len(groups)) as progress:
        for start in range(0, len(groups), _AT_ONCE):
            found += answer.cells(groups[start : start + _AT_ONCE], level)
            if progress is not None:
                progress(len(found))
    return found


def show_story(story: Story, folder: Path) -> None:
    """Print the demo: answers side by side, guarantees, and commands to try next."""
    from scumble.demo.report import commands
    from scumble.public import plot

    _print_answers(story)
    held, asked = story.covered
    counted = f"Of {asked} (these, and one for the count of every condition) {held} hold the truth."
    console.echo(f"\nIn brackets: 95 % intervals. {counted}")
    for name, release in story.releases.items():
        heading(f"What {name} promises")
        bullets(map(str, release.guarantees))
        bullets(f"Not promised: {limit}" for limit in release.guarantees[0].limits[:1])
    heading("Next")
    if (folder / "report.html").exists():
        console.echo(f"  Report: {folder / 'report.html'}")
        if not plot.available():
            console.say(f"The report has no plots: {plot.MISSING}")
    for command in commands(folder):
        console.echo(f"  {command}")


def _print_answers(story: Story) -> None:
    """Print every question on its own line, and its numbers below; it fits 80 columns."""
    from scumble.demo.report import format_exact

    console.echo(_columns("", "truth", *story.releases), style="bold")
    for words, asked in groupby(story.lines, key=lambda each: each.question.words):
        console.echo(f"\n{words}")
        for each in asked:
            cells = (_with_interval(answer) for answer in each.answers.values())
            group = ", ".join(map(str, each.group))
            console.echo(_columns(group, format_exact(each.truth), *cells))


def _columns(group: str, truth: str, *answers: str) -> str:
    return f"  {group:<9}{truth:>9}" + "".join(f"{answer:>29}" for answer in answers)


def _with_interval(answer: Estimate) -> str:
    from scumble.public.estimate import format_number

    value, low, high = (
        format_number(number, answer.stderr) for number in (answer.value, *answer.interval())
    )
    return f"{value} ({low} to {high})"


def _made_by(release: Release) -> str:
    manifest = release.manifest
    given = ", ".join(f"{name} = {_plain(name, value)}" for name, value in manifest.given.items())
    warning = " NOT PRIVATE: made with a fixed seed." if manifest.seeded else ""
    return f"{manifest.mechanism} ({given}){warning}"


def _short(value: object) -> str:
    """Return a fact in four digits, and of a long list the first parts."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_short(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        nested = any(isinstance(part, (list, tuple)) for part in value)
        parts = [" × ".join(map(_short, p)) if nested else _short(p) for p in value[:12]]
        mark = "; " if nested else ", "
        return mark.join([*parts, *(["..."] if len(value) > 12 else [])])
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "yes" if value is True else "no" if value is False else str(value)


def _plain(name: str, value: object) -> str:
    """Return the value of a parameter as text."""
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, (list, tuple)):
        if any(isinstance(part, (list, tuple)) for part in value):  # sets of attributes
            listed = "; ".join(_plain(name, part) for part in value)
        elif name == "weights":
            listed = ", ".join(_plain(name, part) for part in value)
        else:
            listed = ("; " if name == "queries" else " × ").join(map(str, value))
        return listed if len(listed) <= 2 * WIDEST else f"{len(value)} of them"
    return str(value)


def _fine_print(guarantee: Guarantee) -> str:
    return (
        f"{guarantee.statement} for {guarantee.scope}; neighbours: {guarantee.neighbourhood}; "
        f"trust: {guarantee.trust}; proof: {guarantee.proof}"
    )


def _print_schema(release: Release) -> None:
    evidence = release.evidence
    rows = [
        [each.name, each.role, _domain(each)]
        for each in release.schema
        if each.name in evidence.columns
    ]
    rows += [
        [each.name, each.role, f"{each.describe()}; its sums and averages alone"]
        for each in release.schema
        if each.name in evidence.sums_alone
    ]
    table(["column", "role", "domain"], rows, text_columns=3)
    _print_left_out(release)
    if release.schema.unit is not None:
        console.echo(f"Protected: {release.schema.unit.describe()}")


def _print_left_out(release: Release) -> None:
    """Print which columns of the table published rows do not have."""
    shown = release.evidence.columns
    left_out = ", ".join(each.name for each in release.schema if each.name not in shown)
    if left_out and release.evidence.unchanged is not None:
        console.echo(f"Not published: {left_out}.")


def _domain(attribute: Attribute) -> str:
    """Return a domain in a few words: the values of a short list, which questions name."""
    if attribute.kind != "category" or attribute.size > _SHOWN_VALUES:
        return attribute.describe()
    values = [value for value in attribute.labels().to_pylist() if value is not None]
    return ", ".join(map(_listed, values)) + (", or missing" if attribute.missing else "")


def _listed(value: object) -> str:
    """Return a value of a list as text, in quotes where it holds the list's own comma."""
    return f"'{value}'" if "," in str(value) else str(value)


def heading(text: str) -> None:
    """Print a title."""
    console.echo()
    console.echo(text, style="bold")


def bullets(sentences: Iterable[str]) -> None:
    """Print sentences as a list."""
    for sentence in sentences:
        hanging("  •", sentence)


def hanging(mark: str, sentence: str, style: str = "") -> None:
    """Print a mark and a sentence.

    On a terminal its later lines are indented below its first word; in a pipe it is one line.
    """
    import textwrap

    width, indent = console.terminal_width(), " " * (len(mark) + 1)
    broken = textwrap.wrap(sentence, width - len(indent)) if width else [sentence]
    for number, part in enumerate(broken):
        console.echo((indent if number else f"{mark} ") + part, style)


def table(head: Sequence[str], body: Sequence[Sequence[str]], text_columns: int) -> None:
    """Print a table; the first `text_columns` columns are aligned left, the others right.

    Cells are plain text: no markup is read from them. A table of plain characters that fits into
    the lines is printed without rich, whose import takes as long as an answer.
    """
    width = console.plain_width()
    lines = None if width is None else plain_table(head, body, text_columns, width)
    if lines is None:
        _rich_table(head, body, text_columns)
    for number, text in enumerate(lines or ()):
        console.echo(text, style="" if number else "bold")


def plain_table(
    head: Sequence[str], body: Sequence[Sequence[str]], text_columns: int, width: int
) -> list[str] | None:
    """Return the lines of a table; None if a character is not plain or a line would be broken."""
    rows = [list(head), *map(list, body)]
    if not all(_PLAIN.fullmatch(cell) and cell == cell.strip() for row in rows for cell in row):
        return None
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    total = sum(widths) + len(_BETWEEN) * (len(widths) - 1)
    if total > width or not all(widths):
        return None
    places = range(len(widths))
    lines = [
        _BETWEEN.join(
            row[i].ljust(widths[i]) if i < text_columns else row[i].rjust(widths[i]) for i in places
        )
        for row in rows
    ]
    return [text.rstrip() for text in (lines[0], "─" * total, *lines[1:])]


def _rich_table(head: Sequence[str], body: Sequence[Sequence[str]], text_columns: int) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(head):
        table.add_column(
            Text(console.visible(name)), justify="left" if place < text_columns else "right"
        )
    for row in body:
        table.add_row(*(Text(console.visible(cell)) for cell in row))
    console.stdout().print(table)
