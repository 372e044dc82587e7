"""The page that explains how to ask, and what words mean."""

from __future__ import annotations

from scumble.server.http.routes import EVERYBODY, Call, Result, Route
from scumble.server.pages.gates import render, shared
from scumble.server.service import Service

WORDS = {
    "ε (epsilon)": "How much a release or a database may tell about one person. At ε = 1, "
    "someone who already believed a guess with 10 % can reach at most 23.2 %; at ε = 2, at most "
    "45.1 %.",
    "δ (delta)": "A small probability with which the promise does not hold. Many methods have "
    "none.",
    "Promise": "What an attacker cannot learn, whatever he knows already. It is stated exactly, "
    "and proved.",
    "Who is protected": "What one row of the table stands for: one person, or one event of a "
    "person who may have several rows.",
    "Noise": "Random numbers that are added to answers, so that nobody sees one person in them.",
    "Standard error": "The typical size of the noise in an answer.",
    "Interval": "Limits that hold the true value in this table with the stated probability.",
    "Charged": "A new answer of a database, and more accuracy of a live one, uses up a part of the "
    "promise for the rows that it is about.",
    "Known, answered, limited": "Of a live database: what was known was enough; what was missing "
    "for the accuracy was measured; or less than that is allowed, and the answer is the best.",
    "Half-width": "Half the length of an interval: within ±50 means an interval of 100.",
    "Relaxed": "Made of earlier answers, because the promise is used up for what was asked. The "
    "answer says what was counted instead.",
    "Refused": "Not answered, because the promise is used up. Nothing is charged.",
    "Remaining budget": "The part of the promise that is still free at each value of a column.",
    "Quota": "The part of ε that one analyst may use. It rations, and promises nothing.",
    "Known to others": "A column by which others may find a person: a quasi-identifier.",
    "Must stay secret": "A sensitive column. The promise is about it.",
    "Not published": "An identifier, such as a name, or a column that was left out.",
    "Read from the table": "Values that nobody declared. That they occur is told, and no promise "
    "covers it.",
    "Journal": "The file of all that a database promised and answered. Each entry has the "
    "hash of the one before it.",
    "Seal": "Number and hash of the last entry of a journal. A copy shows later that nothing "
    "before it was changed.",
    "Certificate": "One page with the promise, what was tried to break it, and a line to sign.",
}


def show(service: Service, call: Call) -> Result:
    """How to ask, and what words mean."""
    base = service.settings.base
    return render("help.html", words=WORDS, address=base, **shared(service, call))


ROUTES = (Route("GET", "/help", "page: help", EVERYBODY, show, "How to ask, and the glossary."),)
