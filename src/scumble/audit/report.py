"""Report: all findings of an audit about one subject, and the caveat that every audit has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scumble._version import __version__
from scumble.audit.finding import Finding
from scumble.model.privacy.guarantee import percent_at_least, percent_at_most

CAVEAT = (
    "An audit can refute, never prove: what stands was tried as described here and not broken. "
    "The proofs are named beside the promises."
)

MOST_FIRST = "Those come first of whom the odds of a value grow most:"


@dataclass(frozen=True)
class Learned:
    """What an attacker learns who knows some columns: the worst-off people, and everybody's
    certainty as a figure, where it can be drawn.
    """

    known: Sequence[str]
    people: Sequence[Mapping[str, Any]]
    figure: str = ""


@dataclass(frozen=True)
class Report:
    """What an audit found. `facts` say what was audited: parameters, checksums, versions;
    `promises` are the claims as the subject makes them; `open_doors` are what nobody protects.
    """

    subject: str
    findings: Sequence[Finding]
    promises: Sequence[str] = ()
    open_doors: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    learned: Learned | None = None

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
            "not protected": list(self.open_doors),
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
            lines += ["", f"Who knows {known} learns most about these people. {MOST_FIRST}"]
            lines += [f"- {person_words(person)}" for person in self.learned.people]
        if self.open_doors:
            lines += ["", "Not protected:", *(f"- {door}" for door in self.open_doors)]
        return "\n".join([*lines, "", CAVEAT])


def person_words(person: Mapping[str, Any]) -> str:
    """One of the worst-off people in a line."""
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
    """By how much the odds of a value have grown, if they have."""
    if posterior in (0, 1) or prior in (0, 1):
        return ""
    return f" (odds × {posterior / (1 - posterior) / (prior / (1 - prior)):.3g})"


def _word(value: Any) -> str:
    return "(missing)" if value is None else str(value)
