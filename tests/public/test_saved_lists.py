"""Saved releases of lists and keys open unchanged and answer as when they were written.

The folder `tests/fixtures/lists` was written once by `tests/fixtures/make_lists.py`; see there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import scumble as sc
from scumble.public.views import list_view
from tests.public.test_saved_formats import answer_facts, asked
from tests.support.saved_changes import KeptKeys, without_added

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "lists"
BASKETS = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE list_has_all(items, ['i00', 'i01'])",
    "SELECT COUNT(*) FROM t WHERE contains(items, 'i02')",
)
QUESTIONS = {
    "baskets": BASKETS,
    "diffpart": BASKETS,
    "sequences": (
        "SELECT SUM(occurrences(pages, ['home', 'news'])) FROM t",
        "SELECT SUM(occurrences(pages, ['help', 'help', 'shop', 'home'])) FROM t",
        "SELECT COUNT(*) FROM t WHERE pages[1:2] = ['home', 'news']",
    ),
    "trajectories": (
        "SELECT first(trip), COUNT(*) FROM t GROUP BY first(trip)",
        "SELECT AVG(length(trip)) FROM t",
        "SELECT SUM(occurrences(trip, ['x0y0', 'x1y0'])) FROM t",
    ),
    "keys": (
        "SELECT COUNT(*) FROM t WHERE query = 'query 1'",
        "SELECT COUNT(*) FROM t WHERE query = 'nobody typed this'",
        "SELECT query, COUNT(*) FROM t GROUP BY query",
    ),
}


def facts(release: sc.Release) -> dict[str, Any]:
    """What a release says about itself, and what it answers."""
    kind = release.manifest.mechanism
    keys = kind == "keys"
    source = KeptKeys(release) if keys else release
    lists = KeptKeys(release) if keys else list_view(release)
    told = {
        "facts": release_facts(release),
        "questions": {sql: asked(source, sql) for sql in QUESTIONS[kind]},
    }
    try:
        told["top"] = answer_facts(lists.top(5))
    except sc.ScumbleError as error:
        told["top"] = {"refused": type(error).__name__}
    prefixes = release.manifest.parameters.get("model") == "prefix"
    if kind in ("sequences", "trajectories") and not prefixes:
        told["next"] = release.sequences.next([]).to_pylist()
    return json.loads(json.dumps(told))


def release_facts(release: sc.Release) -> dict[str, Any]:
    """What a release says about itself, without the words of its guarantees."""
    manifest = release.manifest
    return {
        "mechanism": manifest.mechanism,
        "parameters": dict(manifest.parameters),
        "report": dict(manifest.report),
        "guarantees": [dict(promise.parameters) for promise in release.guarantees],
        "rows": release.evidence.rows,
        "columns": list(release.evidence.columns),
        "schema": release.schema.to_dict(),
    }


def facts_and_answers(release: Any, questions: Iterable[str]) -> dict[str, Any]:
    """What a release says about itself, and what it answers."""
    told = {
        "facts": release_facts(release),
        "questions": {sql: asked(release, sql) for sql in questions},
    }
    found: dict[str, Any] = json.loads(json.dumps(told))
    return found


def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text("utf-8"))
    return found


def test_there_is_a_release_by_every_method_of_lists() -> None:
    made = {each["facts"]["mechanism"] for each in expected().values()}
    assert made == {"baskets", "diffpart", "sequences", "trajectories", "keys"}
    designs = {sc.open(FIXTURES / name).evidence.design.kind for name in expected()}
    assert designs >= {"residuals", "itemsets", "hub tables", "whole baskets", "strings", "parts"}
    rules = {each["facts"]["parameters"].get("rule") for each in expected().values()}
    assert rules >= {"auto", "gaussian", "zealous", "korolova"}


def test_it_says_and_answers_what_it_did(subtests: pytest.Subtests) -> None:
    """Numbers to nine digits: least squares may round otherwise on another machine."""
    for name in expected():
        with subtests.test(name=name):
            found = facts(sc.open(FIXTURES / name))
            found["questions"] = {
                sql: without_added(each) for sql, each in found["questions"].items()
            }
            assert rounded(found) == rounded(expected()[name])


def rounded(told: Any) -> Any:
    """The same with numbers of nine digits."""
    if isinstance(told, dict):
        return {key: rounded(each) for key, each in told.items()}
    if isinstance(told, list):
        return [rounded(each) for each in told]
    return float(f"{told:.9g}") if isinstance(told, float) else told
