"""A new family is a folder with a record and a class: everything else follows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import reload
from pathlib import Path

import pytest

import scumble as sc
from scumble import families
from scumble.audit.catalogue import everything
from scumble.audit.mechanism_claims import tried
from scumble.cli.tools import cards
from scumble.compare.settings import Settings
from scumble.compare.truth import stand_in
from scumble.compare.workloads import from_sql
from scumble.private.mechanism import create
from tests.private import test_conformance
from tests.support.mechanisms.conformance_cases import cases
from tests.support.people import schema
from tests.support.stubs import stub_text
from tests.support.terminal import run


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder more."""
    folder = Path(__file__).resolve().parents[1] / "support" / "families"
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(folder)])
    families.families.cache_clear()
    reload(sc)
    yield
    monkeypatch.undo()
    vars(sc).pop("Frugal", None)
    families.families.cache_clear()
    reload(sc)


def test_it_has_a_public_name_and_a_type_stub() -> None:
    assert "Frugal" in sc.__all__
    assert "frugal" in sc.mechanisms()
    assert sc.Frugal(["age"], epsilon=1, neighbours="replace").parameters["spend"] == 0.5
    assert "from scumble.families.frugal.publish import Frugal as Frugal\n" in stub_text()


def test_the_command_line_has_its_options() -> None:
    assert "  frugal        a noisy count of every cell, for less" in run("publish", "--list").out
    words = " ".join(run("publish", "frugal", "--help").out.split())
    assert "--spend NUMBER Part of epsilon that is spent. [default: 0.5]" in words


def test_it_has_a_page(tmp_path: Path) -> None:
    pages = {page.name: page.read_text("utf-8") for page in cards.write(tmp_path)}
    page = pages["frugal.md"]
    assert "scumble.Frugal(attributes, *, epsilon, neighbours, contribution=1, person=None" in page
    assert "- `spend`: part of epsilon that is spent." in page
    assert "- `epsilon`: Privacy loss of one person." in page
    assert "[Frugal](frugal.md): Publishes a noisy count of every cell" in pages["README.md"]


def test_it_conforms(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    subtests: pytest.Subtests,
) -> None:
    monkeypatch.setattr(test_conformance, "CASES", cases())
    test_conformance.test_every_registered_mechanism_is_here()
    monkeypatch.setattr(test_conformance, "CASES", {"frugal": cases()["frugal"]})
    test_conformance.test_publishes_and_answers("ordinary", tmp_path_factory, subtests)
    test_conformance.test_parameters_make_it_again(subtests)
    test_conformance.test_bad_parameters_are_refused(subtests)
    test_conformance.test_refused_before_anything_is_read(subtests)
    test_conformance.test_card(subtests)


def test_the_auditor_tries_it() -> None:
    """A false alarm has probability 1e-4 for each of at most three tests, and the seed is fixed."""
    claims = [claim for claim in everything() if claim.name == "frugal"]
    assert [claim.mechanism.parameters["neighbours"] for claim in claims] == [
        "add_remove",
        "replace",
    ]
    findings = list(tried(claims[0], 400, seed=1))
    assert findings
    assert "refuted" not in {finding.verdict for finding in findings}


def test_it_can_be_compared() -> None:
    table = stand_in(schema(), 100)
    workload = from_sql(["SELECT COUNT(*) FROM t WHERE age < 5"], schema())
    [choice] = Settings(table, workload, "replace").choices(["frugal"], [2.0], {})
    assert choice.name == "frugal, ε = 2"
    assert (
        choice.mechanism.parameters
        == create("frugal", attributes=["age"], epsilon=2.0, neighbours="replace").parameters
    )
