"""What to expect of an AlphaBeta release: how many tuples of each kind, and how far answers are
off.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log, prod, sqrt
from typing import Any

from scumble.model.evidence.presence import Included
from scumble.private.perturbation.alphabeta_request import Request

FAILURE = 0.05


def report(asked: Request, law: Included, size: int) -> dict[str, Any]:
    """Facts for the manifest; all follow from the published probabilities. Bounds are rounded up,
    the rest to the nearest.
    """
    missed = prod(1 - law.noise_of(view) for view in range(1, law.views + 1))
    facts = {
        "domain": size,
        "alpha": _short(law.kept - law.noise),
        "beta": _short(law.noise),
        "true tuples expected": round((1 - (1 - law.kept) ** law.views) * law.rows),
        "false tuples expected": round((1 - missed) * (size - law.rows)),
    }
    if law.views > 1:  # what follows is proved of one view, and several are pooled
        return facts
    paper = rho(asked, law, size)
    return {
        **facts,
        # Proved for every single count; then what the paper states, by its formula.
        "error bound": {"holds with probability": 1 - FAILURE, "count": ceil(reach(law, size))},
        "usefulness": {
            "rho": ceil(100 * paper) / 100,
            "rho times root n": ceil(paper * sqrt(law.rows)),
        },
    }


def rho(asked: Request, law: Included, size: int) -> float:
    """ρ of the paper: 2·sqrt(2·k(1−γ)/γ·ln(2/ε)) for its own choice of a, else theorem 4.4."""
    rows = max(law.rows, 1)
    plain = not asked.exclusive and law.most == 1 and not law.sources
    if asked.gamma is not None and law.kept == Fraction(1, 2) and plain:
        gamma = asked.gamma
        factor = asked.prior(size, rows) * size / rows * (1 - gamma) / gamma
        return 2 * sqrt(2 * float(factor) * log(2 / FAILURE))
    alpha = law.kept - law.noise
    ratio = law.noise * size / (alpha**2 * rows)
    return sqrt(2 * (float(ratio) + 1) * log(2 / FAILURE))


def reach(law: Included, size: int) -> float:
    """How far any one count can be off, but with probability ε, in one view: Bernstein's inequality
    for a sum of independent presences of variance at most n/4 + β·m.
    """
    variance = law.rows / 4 + float(law.noise * size)
    third = log(2 / FAILURE) / 3
    total = third + sqrt(third**2 + 6 * third * variance)
    return total / float(law.kept - law.noise)


def _short(number: Fraction) -> float:
    return float(f"{float(number):.6g}")
