"""The statistical database as an entry of the catalogue: all attacks on databases of made-up
people, and whether what it refuses depends on them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from scumble.audit.attacks import ATTACKS, attacked
from scumble.audit.claims import CONFIDENCE
from scumble.audit.denials import by_refusal, decisions_finding
from scumble.audit.finding import Finding
from scumble.audit.report import Report
from scumble.audit.victims import Guarded

_PEOPLE, _EPSILON, _NOISE = 40, 1.0, 2.0
_QUESTIONS = 4  # for each person: more than the database will answer


def attacked_database(seed: int | None = None) -> Report:
    """What attacks on the statistical database find."""
    rng = np.random.default_rng(seed)
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="scumble-audit-") as folder:
        for place, attack in enumerate(ATTACKS):
            victim, secrets = _victim(Path(folder) / f"attack-{place}", rng)
            outcome = attacked(attack, victim, secrets, rng, _QUESTIONS)
            victim.close()
            found.append(outcome.finding(CONFIDENCE))
        found += _refusals(Path(folder), rng)
    return Report("the statistical database, last entry of the catalogue", found)


def _refusals(folder: Path, rng: np.random.Generator) -> list[Finding]:
    """Two databases with other people are asked the same."""
    made = [_victim(folder / f"refusal-{place}", rng) for place in range(2)]
    outcomes = [by_refusal(victim, secrets) for victim, secrets in made]
    victims = [victim for victim, _ in made]
    alike = decisions_finding(victims[0], victims[1], _QUESTIONS)
    for victim in victims:
        victim.close()
    return [outcomes[0].finding(CONFIDENCE), alike]


def _victim(folder: Path, rng: np.random.Generator) -> tuple[Guarded, list[int]]:
    secrets = rng.integers(0, 2, _PEOPLE).tolist()
    return Guarded(folder, secrets, epsilon=_EPSILON, noise=_NOISE), secrets
