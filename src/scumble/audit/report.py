"""The report of an audit: its findings about one subject, as text, as a dictionary, and as an HTML
certificate; and the Clopper-Pearson limits that findings use.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from scumble._version import __version__
from scumble.model.errors import writing
from scumble.model.privacy.guarantee import percent_at_least, percent_at_most
from scumble.model.stored import without_infinity
from scumble.public.html_page import render_page, svg_markup

CAVEAT = (
    "An audit can refute, never prove: what stands was tried as described here and not broken. "
    "The proofs are named beside the promises."
)

ORDER_OF_PEOPLE = "People for whom the odds of a value grow most come first:"


@dataclass(frozen=True)
class AttackResult:
    """What an attacker learns from the columns `known`.

    `people` are those about whom most is learned. `figure` is an SVG of the attacker's certainty
    about everybody; it is empty where matplotlib is not installed.
    """

    known: Sequence[str]
    people: Sequence[Mapping[str, Any]]
    figure: str = ""


@dataclass(frozen=True)
class Certified:
    """The head of a certificate, for people who know no methods: what the table is called, who is
    protected (`unit`), the promise in one sentence, the owner (a line to fill in if unknown), and
    the columns whose domains the owner `declared` public.
    """

    table: str
    unit: str
    promise: str
    owner: str = ""
    declared: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """What an audit found about `subject`.

    `promises` are the claims as the subject makes them, `not_protected` says what they do not
    cover, and `facts` says what was audited: parameters, checksums, versions. `about` is the head
    of the certificate, where a promise was audited.
    """

    subject: str
    findings: Sequence[Finding]
    promises: Sequence[str] = ()
    not_protected: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    learned: AttackResult | None = None
    about: Certified | None = None

    @property
    def refuted(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.refuted)

    @property
    def summary(self) -> str:
        """The outcome in one sentence."""
        tried = sum(finding.verdict != "noted" for finding in self.findings)
        broken = len(self.refuted)
        if not tried:
            return f"No claim about {self.subject} was tested."
        checks = ", ".join(dict.fromkeys(finding.check for finding in self.refuted))
        if tried == 1:
            outcome = f"refuted ({checks})" if broken else "not refuted"
            return f"One claim about {self.subject} was tested, and {outcome}."
        if broken:
            return f"{broken} of {tried} claims about {self.subject} refuted ({checks})."
        return f"None of {tried} claims about {self.subject} refuted."

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "summary": self.summary,
            "caveat": CAVEAT,
            "findings": [finding.to_dict() for finding in self.findings],
            "promises": list(self.promises),
            "not protected": list(self.not_protected),
            "facts": dict(self.facts),
            **({"worst-off": list(map(dict, self.learned.people))} if self.learned else {}),
            "software": f"scumble {__version__}",
        }

    def __str__(self) -> str:
        lines = [self.summary, ""]
        for finding in self.findings:
            sure = f" ({finding.sure})" if finding.sure else ""
            lines += [f"{finding.verdict:8}  {finding.check}: {finding.claim}{sure}"]
            lines += [f"          {finding.sentence}"]
        if self.learned:
            known = ", ".join(self.learned.known)
            lines += ["", f"An attacker who knows {known} learns most about these people."]
            lines += [ORDER_OF_PEOPLE]
            lines += [f"- {describe_person(person)}" for person in self.learned.people]
        if self.not_protected:
            lines += ["", "Not protected:", *(f"- {each}" for each in self.not_protected)]
        return "\n".join([*lines, "", CAVEAT])


def describe_person(person: Mapping[str, Any]) -> str:
    """Return a line about a person of `AttackResult.people`: what is known and what is learned."""
    known = [
        f"{name} = {_word(value)}"
        for name, value in person.items()
        if name not in ("rows", "value", "prior", "posterior")
    ]
    rows = "1 row" if person["rows"] == 1 else f"{person['rows']} rows"
    prior, posterior = (round(person[name], 12) for name in ("prior", "posterior"))
    return (
        f"{', '.join(known)} ({rows}): {_word(person['value'])} from {percent_at_least(prior)} to "
        f"{percent_at_most(posterior)}{_growth(prior, posterior)}"
    )


def _growth(prior: float, posterior: float) -> str:
    """Say by which factor the odds of a value grow; nothing where a probability is 0 or 1."""
    if posterior in (0, 1) or prior in (0, 1):
        return ""
    return f" (odds × {posterior / (1 - posterior) / (prior / (1 - prior)):.3g})"


def _word(value: Any) -> str:
    return "(missing)" if value is None else str(value)


# "stands": a test did not refute the claim, which proves nothing. "exact": the claim was computed
# to hold. "noted": the finding is about no claim, or nothing was tested.
Verdict = Literal["refuted", "stands", "exact", "noted"]


@dataclass(frozen=True)
class Finding:
    """One attempt to refute a claim, its outcome in a sentence, and the numbers behind it.

    `confidence` is the probability that a true claim is not refuted by chance. It is None where
    the check is not random.
    """

    check: str
    claim: str
    verdict: Verdict
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    confidence: float | None = None

    @property
    def refuted(self) -> bool:
        return self.verdict == "refuted"

    @property
    def sure(self) -> str:
        """The confidence in words; empty if the check is not random."""
        return "" if self.confidence is None else f"{100 * self.confidence:.6g} % confidence"

    def to_dict(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "claim": self.claim,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "numbers": without_infinity(dict(self.numbers)),
            "confidence": self.confidence,
        }


# The certificate: a report as one HTML file that loads nothing from the network.

_WORDS = {
    "refuted": "refuted",
    "stands": "tried, not refuted",
    "exact": "computed, holds",
    "noted": "noted",
}
# Numbers that the sentence of a finding tells, rounded.
_SAID = ("found", "claimed", "epsilon at least")


def page(report: Report, *, when: datetime | None = None, about: Certified | None = None) -> str:
    """Return the certificate of a report as one HTML page; `when` is its date, now by default, and
    `about` takes the place of the head that the report has.
    """
    learned = report.learned
    return render_page(
        "scumble.audit",
        report=report,
        about=about or report.about,
        words=_WORDS,
        numbers=_more_numbers,
        caveat=CAVEAT,
        most_first=ORDER_OF_PEOPLE,
        people=list(map(describe_person, learned.people)) if learned else [],
        figure=svg_markup(learned.figure) if learned else "",
        facts={name: _plain(value) for name, value in report.facts.items()},
        version=__version__,
        date=f"{when or datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def write_owner_only(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only: it may state exact statistics."""
    part = path.with_name(path.name + ".part")
    with writing(path):
        part.unlink(missing_ok=True)  # an earlier run may have left one of another mode
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)


def _more_numbers(finding: Finding) -> str:
    """Return the numbers of a finding that its sentence does not tell."""
    more = {name: each for name, each in finding.numbers.items() if name not in _SAID}
    return ", ".join(f"{name} {value:.5g}" for name, value in more.items())


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_plain(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)
