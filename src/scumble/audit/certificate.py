"""The certificate: a report as one page for a file, which needs nothing from the network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from scumble._version import __version__
from scumble.audit.finding import Finding
from scumble.audit.report import CAVEAT, MOST_FIRST, Report, person_words

_WORDS = {
    "refuted": "refuted",
    "stands": "tried, not refuted",
    "exact": "computed, holds",
    "noted": "noted",
}
_SAID = ("found", "claimed", "epsilon at least")  # numbers that are in the sentence, and rounded


def page(report: Report, *, when: datetime | None = None) -> str:
    """The whole certificate as HTML."""
    template = Template(files("scumble.audit").joinpath("page.html").read_text("utf-8"))
    moment = when or datetime.now(UTC)
    return template.substitute(
        subject=escape(report.subject),
        summary=escape(report.summary),
        outcome="broken" if report.refuted else "whole",
        caveat=escape(CAVEAT),
        findings="".join(map(_finding, report.findings)),
        promises=_section("What is promised", report.promises),
        learned=_learned(report),
        doors=_section("What is not protected", report.open_doors),
        facts=_facts(report),
        version=__version__,
        date=f"{moment:%Y-%m-%d %H:%M} UTC",
    )


def _finding(finding: Finding) -> str:
    sure = f"; {finding.sure}" if finding.sure else ""
    more = {name: each for name, each in finding.numbers.items() if name not in _SAID}
    numbers = ", ".join(f"{name} {value:.5g}" for name, value in more.items())
    return (
        f'<tr class="{finding.verdict}"><th scope="row">{escape(_WORDS[finding.verdict])}</th>'
        f"<td><b>{escape(finding.claim)}</b><br>{escape(finding.sentence)}"
        f"<small>{escape(finding.check)}{sure}{'; ' + escape(numbers) if numbers else ''}</small>"
        "</td></tr>"
    )


def _section(title: str, sentences: Iterable[str]) -> str:
    listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h2>{title}</h2><ul>{listed}</ul>" if listed else ""


def _learned(report: Report) -> str:
    if report.learned is None:
        return ""
    known = escape(", ".join(report.learned.known))
    listed = "".join(f"<li>{escape(person_words(each))}</li>" for each in report.learned.people)
    figure = f"<figure>{report.learned.figure}</figure>" if report.learned.figure else ""
    return (
        f"<h2>What an attacker learns who knows {known}</h2>{figure}"
        f"<p>Most is learned about these people. {MOST_FIRST}</p><ul>{listed}</ul>"
    )


def _facts(report: Report) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td><code>{escape(_plain(value))}</code></td></tr>'
        for name, value in report.facts.items()
    )
    return f"<h2>What was audited</h2><table>{rows}</table>" if rows else ""


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_plain(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)
