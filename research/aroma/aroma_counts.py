"""Aroma against the adaptive mechanism (AM) on one count of Adult, as in the last experiment of its
paper; and both at the same exposure.

The paper does not say which batch of counts AM got. Three readings are tried, all over cells of a
range of ages and a value: the count itself alone; every range of ages with every value; and that
with ranges whose ends are not where the count has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi, sqrt
from typing import cast

import numpy as np
import pyarrow as pa

import scumble as sc
from research.aroma.adaptive import DELTA, Adaptive, deviation_for, success
from research.aroma.aroma_question import OVER, Count, Grid
from research.aroma.aroma_views import SECRET
from research.aroma.experiments import Laboratory, Row, uniform_pool
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism
from scumble.private.perturbation.aroma_risk import exposure, profile
from scumble.public.estimate import Estimate

AGES = "ages"


def one_count(laboratory: Laboratory) -> Iterator[Row]:
    """Relative errors against ε as the paper reads it: Aroma with its k for that ε, AM with
    (ε, δ)-DP, and what really has ε-LDP.
    """
    count = Count.of(laboratory)
    grids = {"AM": Grid.decades(count), "AM, batch": Grid.decades(count)}
    grids["AM, other ends"] = Grid.even(count)
    mechanisms = {
        name: Adaptive.of(grid.question[None, :] if name == "AM" else grid.batch)
        for name, grid in grids.items()
    }
    for epsilon in laboratory.scale.epsilons:
        k = sc.Aroma.k_for(epsilon, 1 / laboratory.values)
        views: dict[str, tuple[Mechanism, float]] = {
            "Aroma": (sc.Aroma(k=k), profile(uniform_pool(k, laboratory.values), (epsilon,))[0]),
            "subset": (sc.Subset(epsilon=epsilon), 0.0),
            "uniform": (sc.Uniform(epsilon=epsilon), 0.0),
        }
        for name, (mechanism, delta) in views.items():
            found = laboratory.views(mechanism)
            row = _row(name, count.errors(found), count.expected(found[0]), found[0].exposure)
            yield {"ε": epsilon, "k": k} | row | {"δ": delta}
        for name, adaptive in mechanisms.items():
            laboratory.step(f"{name}, ε = {epsilon}")
            grid, deviation = grids[name], adaptive.deviation(epsilon)
            errors = grid.errors(adaptive, deviation, _seeds(laboratory))
            seen = success(grid.products(adaptive), deviation)
            row = _row(name, errors, grid.expected(adaptive, deviation), seen)
            yield {"ε": epsilon, "k": k} | row | {"δ": DELTA}
        laboratory.step(f"workload, ε = {epsilon}")
        yield {"ε": epsilon, "k": k} | released(laboratory, count, epsilon) | {"δ": DELTA}


def same_exposure(laboratory: Laboratory) -> Iterator[Row]:
    """The count by Aroma, and by AM with as much noise as makes it exposed as much."""
    count = Count.of(laboratory)
    grid = Grid.decades(count)
    adaptive = Adaptive.of(grid.batch)
    products = grid.products(adaptive)
    for k in laboratory.scale.levels:
        laboratory.step(f"AM exposed as Aroma with k = {k}")
        views = laboratory.views(sc.Aroma(k=k))
        wanted = exposure(uniform_pool(k, laboratory.values))
        deviation = deviation_for(products, wanted)
        errors = grid.errors(adaptive, deviation, _seeds(laboratory))
        seen = success(products, deviation)
        yield {"k": k} | _row("Aroma", count.errors(views), count.expected(views[0]), wanted)
        yield {"k": k} | _row("AM, batch", errors, grid.expected(adaptive, deviation), seen)


def released(laboratory: Laboratory, count: Count, epsilon: float) -> Row:
    """The same batch by our own release of workloads, with the same ε and δ."""
    grid = Grid.decades(count)
    schema = Schema(
        (
            Attribute(AGES, "quasi", IntegerRange(0, grid.ranges - 1)),
            Attribute(SECRET, "sensitive", IntegerRange(0, count.values - 1)),
        )
    )
    table = pa.table({AGES: grid.places, SECRET: count.secrets})
    batch = [
        f"SELECT COUNT(*) FROM t WHERE {AGES} BETWEEN {low} AND {high} GROUP BY {SECRET}"
        for low in range(grid.ranges)
        for high in range(low, grid.ranges)
    ]
    mechanism = sc.Workload(
        [AGES, SECRET], queries=batch, epsilon=epsilon, delta=DELTA, neighbours="add_remove"
    )
    first = int(np.searchsorted(grid.edges, OVER + 1))
    asked = f"SELECT COUNT(*) FROM t WHERE {AGES} >= {first} AND {SECRET} = {count.value}"
    answers = [
        cast(Estimate, sc.publish(table, schema, mechanism, seed=seed).answer(asked))
        for seed in _seeds(laboratory)
    ]
    errors = [abs(each.value - count.truth) / count.truth for each in answers]
    return _row("workload", errors, sqrt(2 / pi) * answers[0].stderr / count.truth, None)


def _seeds(laboratory: Laboratory) -> range:
    return range(laboratory.seed, laboratory.seed + laboratory.scale.runs)


def _row(name: str, errors: Sequence[float], theory: float, seen: float | None) -> Row:
    return {
        "method": name,
        "error": float(np.mean(errors)),
        "deviation": float(np.std(errors)),
        "theory": theory,
        "exposure": seen,
    }
