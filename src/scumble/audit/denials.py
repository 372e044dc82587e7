"""What refusals tell: whoever refuses after a look at the data answers by refusing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scumble.audit.attacks import Bits, Outcome
from scumble.audit.finding import Finding, Verdict
from scumble.audit.victims import PERSON, SECRET, Victim

Question = tuple[str, list[int]]


def refused(victim: Victim, questions: Sequence[Question]) -> Bits:
    """Which of some questions are refused."""
    return np.array([victim.count(*question) is None for question in questions], np.int64)


def by_refusal(victim: Victim, secrets: Sequence[int]) -> Outcome:
    """The attack that asks about everybody once and takes a refusal for a count of nobody."""
    everybody = [(f"{PERSON} = {who} AND {SECRET} = 1", [who]) for who in range(victim.people)]
    right = int((1 - refused(victim, everybody) == np.array(secrets)).sum())
    return Outcome("refusals", victim.name, right, victim.people, victim.epsilon)


def decisions_finding(one: Victim, other: Victim, times: int) -> Finding:
    """Whether two databases with other people in them decide alike about the same questions, of
    which there are so many for each person: more than any of them will answer.
    """
    questions = [
        (f"{PERSON} >= {who} AND {PERSON} <= {last} AND {SECRET} = 1", list(range(who, last + 1)))
        for who in range(one.people)
        for last in range(who, min(who + times, one.people))
    ]
    differ = int((refused(one, questions) != refused(other, questions)).sum())
    verdict: Verdict = "refuted" if differ else "exact"
    sentence = (
        f"Of {len(questions)} questions {differ} are refused with one table and answered with "
        "another."
    )
    claim = f"{one.name} decides without a look at its table"
    return Finding("refusals", claim, verdict, sentence, {"differ": differ})
