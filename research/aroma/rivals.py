"""Aroma against αβ, FRAPP and subsets: at the paper's reading of the same privacy, and at the same
exposure. Counts (figures 8 and 9 of the paper) and averages (figure 10).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import pi, sqrt

import numpy as np

import scumble as sc
from research.aroma.aroma_views import (
    Floats,
    View,
    expected,
    exposed,
    publish,
    tuple_counts,
    weights,
)
from research.aroma.experiments import K, Laboratory, Row, uniform_pool
from scumble.audit.exposure import subset
from scumble.model.privacy.guarantee import epsilon_for_exposure
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.private.perturbation.aroma_risk import exposure

_SPREAD = 1000  # possible places for each person, in the comparison at the paper's reading


def against_size(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 8: groups of q people, the same posterior as Theorem 5.1 reads it."""
    for size in laboratory.scale.sizes:
        yield _counts(laboratory, K, "Aroma", sc.Aroma(k=K), size)
        yield _counts(laboratory, K, "αβ", _tuples(laboratory, K), size, _SPREAD)


def against_k(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 9: the same against k, and FRAPP, which keeps a value with 1/k."""
    size = laboratory.scale.rivals
    for k in laboratory.scale.levels:
        yield _counts(laboratory, k, "Aroma", sc.Aroma(k=k), size)
        yield _counts(laboratory, k, "αβ", _tuples(laboratory, k), size, _SPREAD)
        yield _counts(laboratory, k, "FRAPP", sc.Uniform(keep=1 / k), size)


def _tuples(laboratory: Laboratory, k: int) -> sc.AlphaBeta:
    """αβ with α + β = 1/2 and (k−1)qf = n_D β/α."""
    odds = (k - 1) / laboratory.values / _SPREAD
    noise = 0.5 * odds / (1 + odds)
    return sc.AlphaBeta(alpha=0.5 - noise, beta=noise)


def equal(laboratory: Laboratory) -> Iterator[Row]:
    """The same exposure as Aroma: uniform perturbation, which has the ε whose bound that is; αβ
    where every place has somebody, its best case; subsets that are exposed as much, and subsets
    with the ε of uniform, which are exposed less.
    """
    for k in laboratory.scale.levels:
        success = exposure(uniform_pool(k, laboratory.values))
        implied = epsilon_for_exposure(success, laboratory.values)
        noise = noise_for(success, laboratory.values)
        largest = loss_for(success, laboratory.values)
        rivals: dict[str, tuple[Mechanism, float | None]] = {
            "Aroma": (sc.Aroma(k=k), None),
            "uniform": (sc.Uniform(epsilon=implied), implied),
            "αβ": (sc.AlphaBeta(alpha=0.5 - noise, beta=noise), None),
            "subset": (sc.Subset(epsilon=largest), largest),
            "subset, ε": (sc.Subset(epsilon=implied), implied),
        }
        for name, (mechanism, epsilon) in rivals.items():
            row = _counts(laboratory, k, name, mechanism, laboratory.scale.rivals)
            yield row | {"ε of its LDP": epsilon}


def noise_for(success: float, values: int) -> float:
    """The β for which αβ with α + β = 1/2 has this exposure, by bisection: it falls with β."""
    low, high = 0.0, 0.5
    for _ in range(60):
        noise = (low + high) / 2
        chosen = (1 - (1 - noise) ** values) / (values * noise)
        reached = 0.5 * chosen + 0.5 * (1 - noise) ** (values - 1) / values
        low, high = (noise, high) if reached > success else (low, noise)
    return high


def loss_for(success: float, values: int) -> float:
    """The largest ε, in hundredths, with which subsets are exposed no more than this."""
    schema = Schema((Attribute("secret", "sensitive", IntegerRange(0, values - 1)),))
    allowed = [
        epsilon
        for epsilon in (hundredths / 100 for hundredths in range(1, 401))
        if subset(sc.Subset(epsilon=epsilon).law(schema)) <= success
    ]
    return max(allowed)


def _counts(
    laboratory: Laboratory, k: int, name: str, mechanism: Mechanism, size: int, spread: int = 1
) -> Row:
    """Mean |error| of the counts of all values over some people, and the exposure."""
    laboratory.step(f"{name} beside k = {k}, {size:,} people")
    secrets = laboratory.secrets[:size]
    truth = np.bincount(secrets, minlength=laboratory.values)
    errors = []
    for run in range(laboratory.scale.runs):
        view = publish(secrets, laboratory.values, mechanism, laboratory.seed + run, spread)
        tuples = mechanism.name == "alphabeta"
        found = tuple_counts(view) if tuples else weights(view).sum(axis=0)
        errors.append(np.abs(found - truth).mean())
    return {
        "k": k,
        "q": len(secrets),
        "method": name,
        "error": float(np.mean(errors)),
        "deviation": float(np.std(errors)),
        "theory": expected(view, truth),
        "exposure": exposed(view).success,
    }


def averages(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 10: the mean age of who has a value, for all values that a fair share of people have.

    FRAPP as in figure 9; besides, what is exposed as much as Aroma.
    """
    years = laboratory.years
    for k in laboratory.scale.levels:
        success = exposure(uniform_pool(k, laboratory.values))
        rivals = {
            "Aroma": sc.Aroma(k=k),
            "FRAPP": sc.Uniform(keep=1 / k),
            "uniform": sc.Uniform(epsilon=epsilon_for_exposure(success, laboratory.values)),
            "subset": sc.Subset(epsilon=loss_for(success, laboratory.values)),
        }
        for name, mechanism in rivals.items():
            views = laboratory.views(mechanism)
            truth = ratios(laboratory.truth, years)
            chosen = laboratory.truth.mean(axis=0) >= 1 / laboratory.values
            errors = [np.abs(ratios(view.weights, years) - truth)[chosen] for view in views]
            theory = sqrt(2 / pi) * average_deviation(views[0], laboratory.truth, years)
            yield {
                "k": k,
                "values": int(chosen.sum()),
                "method": name,
                "error": float(np.mean(errors)),
                "deviation": float(np.std([each.mean() for each in errors])),
                "theory": float(theory[chosen].mean()),
                "exposure": views[0].exposure,
            }


def ratios(counted: Floats, years: Floats) -> Floats:
    """Estimated sums over estimated counts, kept between the least and the most of the years."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (counted.T @ years) / counted.sum(axis=0)
    kept: Floats = np.nan_to_num(found, nan=float(years.mean())).clip(years.min(), years.max())
    return kept


def average_deviation(view: View, truth: Floats, years: Floats) -> Floats:
    """Of the estimated mean of each value: that of Σ w (a − mean) over its count, which is right
    where the count is far from zero.
    """
    home, away = view.noise
    off = (years[:, None] - ratios(truth, years)) ** 2
    rows = np.where(truth > 0, home, away)
    found: Floats = np.sqrt((off * rows).sum(axis=0)) / truth.sum(axis=0).clip(1)
    return found
