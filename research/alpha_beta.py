"""The experiment of section 5 of the paper on the αβ algorithm: its error against FRAPP's, for all
selections by up to three columns, as plain rows.

The paper has one k and one γ; the others of `FULL` are added, to see how the errors move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import log, prod, sqrt
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import scumble as sc
from research.people import Codes, People
from scumble.model.evidence.evidence import Tuples
from scumble.model.evidence.presence import Included, Replaced

Row = dict[str, Any]
Study = dict[str, list[Row]]
Step = Callable[[str], None]
Floats = npt.NDArray[np.float64]

COLUMNS = tuple(
    "age workclass education marital-status occupation race sex native-country income".split()
)
MADE_UP = ("age", "sex", "region", "education", "occupation", "income", "condition")
METHODS = ("αβ", "FRAPP")
COUNT, BOUND = 10.0, 0.2  # k and γ of the paper
FAILURE = 0.05  # the ε of its (ρ, ε)-usefulness


@dataclass(frozen=True)
class Scale:
    """How large the experiments are."""

    people: int  # made up, where no table is given
    runs: int
    counts: tuple[float, ...]  # the values of k
    bounds: tuple[float, ...]  # the values of γ
    thresholds: tuple[int, ...] = (1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
    dots: int = 1500  # of the scatter


FULL = Scale(30_000, 3, (2.5, 5.0, 10.0, 20.0, 40.0), (0.1, 0.2, 0.4, 0.6))
QUICK = Scale(8_000, 1, (5.0, 10.0, 20.0), (0.2, 0.4))


def usefulness(count: float, bound: float) -> dict[str, float]:
    """Section 5: errors stay within ρ√n but for a share of 5 %, by the paper's proof."""
    odds = count * (1 - bound) / bound
    far = log(2 / FAILURE)
    return {"αβ": 2 * sqrt(2 * odds * far), "FRAPP": 2 * odds * sqrt(far)}


def predicted(count: float, bound: float) -> float:
    """The ratio of the two bounds."""
    return sqrt(count * (1 - bound) / (2 * bound))


class Selections:
    """All selections by equality of one to three columns, one after the other."""

    def __init__(self, sizes: tuple[int, ...], ways: int = 3) -> None:
        self.sizes = sizes
        widths = range(1, min(ways, len(sizes)) + 1)
        self.columns = [each for width in widths for each in combinations(range(len(sizes)), width)]

    def counts(self, codes: Codes) -> Codes:
        """How many rows satisfy each."""
        found = []
        for columns in self.columns:
            shape = [self.sizes[column] for column in columns]
            cells = np.ravel_multi_index(tuple(codes[:, list(columns)].T), shape)
            found.append(np.bincount(cells, minlength=prod(shape)))
        return np.concatenate(found)

    def in_domain(self) -> Floats:
        """How many tuples of the domain satisfy each."""
        whole = prod(self.sizes)
        cells = [prod(self.sizes[column] for column in columns) for columns in self.columns]
        return np.concatenate([np.full(cell, whole / cell) for cell in cells])


@dataclass(frozen=True)
class Outcome:
    """The answers of one view to all selections, and the truth about what it tells of."""

    estimates: Floats
    truth: Codes
    shown: int

    @property
    def errors(self) -> Floats:
        return np.abs(self.estimates - self.truth)


class Laboratory:
    """One table, and what was published of it, each view once."""

    def __init__(self, people: People, scale: Scale, step: Step, seed: int = 1) -> None:
        self.people, self.scale, self.step, self.seed = people, scale, step, seed
        self.selections = Selections(people.sizes)
        self.domain = self.selections.in_domain()
        self.whole = prod(people.sizes)
        # FRAPP tells of all rows, αβ of a set: equal rows count once.
        self.truths = {
            "αβ": self.selections.counts(people.distinct().codes),
            "FRAPP": self.selections.counts(people.codes),
        }
        self._outcomes: dict[tuple[Any, ...], Outcome] = {}

    def outcome(self, method: str, count: float, bound: float, run: int) -> Outcome:
        key = method, count, bound, run
        if key not in self._outcomes:
            self.step(f"{method}, k = {count:g}, γ = {bound:g}, run {run + 1}")
            self._outcomes[key] = self._measure(method, count, bound, self.seed + run)
        return self._outcomes[key]

    def mechanism(self, method: str, count: float, bound: float) -> sc.AlphaBeta | sc.Frapp:
        """Both with (kn/m, γ)-privacy by the paper's reading of it."""
        if method == "FRAPP":
            return sc.Frapp(reading="published", k=count, gamma=bound)
        prior = count * self.people.rows / self.whole
        return sc.AlphaBeta(d=prior, gamma=bound, duplicates="collapse")

    def _measure(self, method: str, count: float, bound: float, seed: int) -> Outcome:
        people = self.people
        mechanism = self.mechanism(method, count, bound)
        release = sc.publish(people.table, people.schema, mechanism, seed=seed)
        evidence = cast(Tuples, release.evidence)
        table = pq.read_table(release.folder / evidence.file, columns=list(people.names))
        codes = np.stack([column.to_numpy() for column in table.columns], axis=1).astype(np.int64)
        found = self.estimate(self.selections.counts(codes), evidence.presence)
        return Outcome(found, self.truths[method], len(codes))

    def estimate(self, shown: Codes, presence: Included | Replaced) -> Floats:
        """The closed forms of both: what is shown, less the noise expected, over what is kept."""
        if isinstance(presence, Included):
            noise = float(presence.noise)
            return (shown - noise * self.domain) / (float(presence.kept) - noise)
        keep = float(presence.keep)
        return (shown - presence.rows * (1 - keep) / self.whole * self.domain) / keep

    def runs(self, method: str, count: float, bound: float) -> list[Outcome]:
        return [self.outcome(method, count, bound, run) for run in range(self.scale.runs)]


def study(laboratory: Laboratory) -> Iterator[tuple[str, list[Row]]]:
    """All experiments, one after the other: the name and the rows of each."""
    yield "setting", [setting(laboratory)]
    yield "figure 2", list(scatter(laboratory))
    yield "figure 3", list(cumulative(laboratory))
    yield "relative", list(relative(laboratory))
    yield "parameters", list(parameters(laboratory))


def setting(laboratory: Laboratory) -> Row:
    """What was published, of how many."""
    people = laboratory.people
    shown = {method: laboratory.runs(method, COUNT, BOUND)[0].shown for method in METHODS}
    return {
        "rows": people.rows,
        "different rows": people.distinct().rows,
        "domain": laboratory.whole,
        "selections": len(laboratory.domain),
        **{f"rows shown by {method}": number for method, number in shown.items()},
    }


def scatter(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 2: the estimates of the first run against the truth, for some of the selections."""
    generator = np.random.default_rng(laboratory.seed)
    for method in METHODS:
        first = laboratory.outcome(method, COUNT, BOUND, 0)
        # Most selections are of next to nobody: as many are drawn from each power of two.
        layer = np.log2(first.truth + 1).astype(int)
        odds = 1 / np.bincount(layer)[layer]
        number = min(laboratory.scale.dots, len(layer))
        chosen = generator.choice(len(layer), number, replace=False, p=odds / odds.sum())
        for place in chosen.tolist():
            estimate, truth = float(first.estimates[place]), int(first.truth[place])
            yield {"method": method, "truth": truth, "estimate": estimate}


def cumulative(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 3: the mean error over all selections that at least so many rows of the table satisfy;
    the same ones for both, though αβ tells of different rows only.
    """
    for least in (0, *laboratory.scale.thresholds):
        chosen = laboratory.truths["FRAPP"] >= least
        if chosen.any():
            row: Row = {"Q(I) at least": least, "selections": int(chosen.sum())}
            for method in METHODS:
                runs = laboratory.runs(method, COUNT, BOUND)
                found = [each.errors[chosen].mean() for each in runs]
                row[method], row[f"± {method}"] = float(np.mean(found)), float(np.std(found))
            yield row | {"ratio": row["FRAPP"] / row["αβ"]}


def relative(laboratory: Laboratory) -> Iterator[Row]:
    """What becomes of small and of large answers: their relative errors and their signs."""
    edges = (1, 10, 100, 1000, 10**9)
    for method, (low, high) in product(METHODS, pairwise(edges)):
        runs = laboratory.runs(method, COUNT, BOUND)
        chosen = (runs[0].truth >= low) & (runs[0].truth < high)
        if chosen.any():
            errors = np.concatenate([r.errors[chosen] / r.truth[chosen] for r in runs])
            below = np.concatenate([r.estimates[chosen] < 0 for r in runs])
            yield {
                "method": method,
                "Q(I) from": low,
                "selections": int(chosen.sum()),
                "median relative error": float(np.median(errors)),
                "negative": float(below.mean()),
            }


def parameters(laboratory: Laboratory) -> Iterator[Row]:
    """The mean error against k and against γ, with the paper's bounds ρ√n."""
    scale = laboratory.scale
    points = [("k", count, BOUND) for count in scale.counts]
    points += [("γ", COUNT, bound) for bound in scale.bounds]
    for varied, count, bound in points:
        within = usefulness(count, bound)
        row: Row = {"varied": varied, "k": count, "γ": bound}
        for method in METHODS:
            first = laboratory.outcome(method, count, bound, 0)
            limit = within[method] * sqrt(laboratory.people.rows)
            row[method] = float(first.errors.mean())
            row[f"ρ√n, {method}"] = limit
            row[f"beyond it, {method}"] = float((first.errors > limit).mean())
        yield row | {"ratio": row["FRAPP"] / row["αβ"], "predicted": predicted(count, bound)}
