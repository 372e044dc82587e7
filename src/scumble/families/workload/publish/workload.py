"""Workload: the sums of cells from which the counts asked for in a file are best answered."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from scumble.model.designs.matrix import Matrix, MergedSums, to_table
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteGaussian, DiscreteLaplace
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import SMALL_DELTA, Claim, ComparisonPreset, protection
from scumble.private.meter.noise import check_scale
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import WithDelta
from scumble.private.summaries.sums import SumSummary
from scumble.private.summaries.workload_matrix import (
    AskedCount,
    Forecast,
    KeptQuestions,
    Questions,
    statements,
)

if TYPE_CHECKING:
    pass


_FILE = "sums.parquet"
_NORM_BITS = 20  # bits of the largest noise scale that the norms of a strategy may use


@dataclass(kw_only=True, eq=False, repr=False)
class Workload(WithDelta, SumSummary):
    """Publishes noisy sums of cells, chosen so that given counts have the least error together.

    `queries` is a list of SQL counts, or the `pathlib.Path` of a file of them, one a line or with
    semicolons between; GROUP BY asks one count for every group. Rows that no question tells apart
    are counted together, so that large domains are possible: at most 4096 kinds of rows may be
    left. `forecast(schema)` gives the standard error of every count, and spends nothing. With
    `delta` the noise is Gaussian.

    Parameters:
        queries: SQL counts to be answered best, one a line.

    Promises: ε-DP of the whole release; with δ (ε, δ)-DP. Proof: the sums are Ax with a matrix A of
        whole numbers that depends on the questions alone; one row changes them by a column of A.
        With Δ the largest L1 norm of a column, times contribution (replace: twice that), noise with
        P(z) ∝ exp(−|z|ε/Δ) on every sum is ε-DP; Gaussian noise goes by the largest L2 norm.
    Estimate: least squares, x̂ = (A'A)⁻¹A'y; unbiased for every question that the sums tell: those
        of the workload, what they add up to, and often more. Its error is a sum of known noises
        with known coefficients. Other questions are refused, with the planned ones that are
        nearest.
    Reference: Li, Hay, Rastogi, Miklau, McGregor, PODS 2010 (the mechanism); Yuan, Yang, Zhang,
        Hao, TKDD 2016 (the convex program); McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018
        (weighted sums for Laplace noise); Yuan, Zhang, Winslett, Xiao, Yang, Hao, VLDB 2012 (sums
        of low rank).
    Differs: for Gaussian noise the optimum is found by a fixed-point iteration on the multipliers,
        with a lower bound that shows how near it is; matrices are rounded to whole numbers, and
        noise is discrete, so that the promise does not rest on floating-point arithmetic. For
        Laplace noise the best of several strategies is taken: no optimum is known. Sums of low rank
        are answered by least squares, which is at least as good as the factor of their authors.
    """

    name = "workload"
    for_ranges = True
    proof = "the matrix mechanism: Li, Hay, Rastogi, Miklau, McGregor, PODS 2010"

    queries: Path | Sequence[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queries = self._statements = statements(self.queries)
        check_scale(DiscreteLaplace((self.unit.sensitivity << _NORM_BITS) / self._epsilon))
        self._questions = KeptQuestions(self._statements)
        self._planned: tuple[Questions, _Plan] | None = None

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self.questions(schema)

    def forecast(self, schema: Schema) -> Forecast:
        """Return the standard error of every count. Nothing is read and nothing is spent."""
        self.check(schema)
        return self.forecast_of(schema)._plan(schema).forecast

    def outlook_of_cells(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self._plan(schema).forecast.sentences())

    def error_of_cells(self, schema: Schema, rows: int) -> float:
        """The root mean square over the questions of the workload."""
        return self._plan(schema).forecast.rmse

    def cell_layout(self, schema: Schema) -> Layout:
        return {_FILE: ("noisy", "cells", "entries")}

    def measure_cells(self, table: PrivateTable, folder: Path) -> Measurements:
        import pyarrow.parquet as pq

        plan = self._plan(table.schema)
        counts = table.counts(plan.questions.merged.names, self.unit)
        [noisy] = counts.noisy([plan.law], MergedSums(plan.questions.merged, plan.strategy))
        pq.write_table(to_table(plan.strategy, noisy), folder / _FILE)
        design = Matrix(plan.questions.merged, plan.law)
        return Measurements(_FILE, self.names, design, table.public_rows(self.unit))

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        return self.forecast(schema).to_dict()

    def _more_limits(self) -> tuple[str, ...]:
        return ("The questions of the workload are published with it.",)

    def at_cost(self, cost: PrivacyLoss, unit: PrivacyUnit) -> Self:
        found = super().at_cost(cost, unit)
        found._planned = None
        return found

    def _plan(self, schema: Schema) -> _Plan:
        questions = self.questions(schema)
        if self._planned is None or self._planned[0] is not questions:
            # Only the few large steps of the search for Gaussian noise gain by threads.
            with nullcontext() if self.gaussian else one_thread():
                self._planned = questions, _Plan(self, questions)
        return self._planned[1]

    def questions(self, schema: Schema) -> Questions:
        """Return the workload over merged cells. An unsuitable question is refused."""
        return self._questions.of(schema.select(self.names))

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {**super().needs(study), "queries": list(study.queries)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        queries = ["SELECT COUNT(*) FROM t WHERE a < 2", "SELECT b, COUNT(*) FROM t GROUP BY b"]
        yield Claim(cls(["a", "b"], queries=queries, **protection(neighbours)), 1)
        gaussian = protection(neighbours, delta=SMALL_DELTA)
        yield Claim(cls(["a", "b"], queries=queries, **gaussian), 1, SMALL_DELTA)


class _Plan:
    """The strategy for the questions, the law of its noise, and the forecast of their errors."""

    def __init__(self, release: Workload, questions: Questions) -> None:
        from scumble.families.workload.publish.strategies import MOST_QUESTIONS, choose_strategy

        self.questions = questions
        gram = questions.gram()
        rows = questions.distinct()
        most = max(questions.merged.cells, MOST_QUESTIONS)
        few = rows.astype(np.float64) if len(rows) <= most else None
        price = _find_price(release)
        choice = choose_strategy(gram, few, gaussian=release.gaussian, signed_price=price)
        self.strategy = choice.strategy
        norms, signed = self.strategy.norms()[0], self.strategy.signed
        self.law = _choose_law(release, norms, signed=signed)
        moved = norms[1] if release.gaussian else norms[0] ** 2
        unit = self.law.variance / (moved * (price if signed else 1.0))
        counts = len(questions.asked)
        tried = {name: (unit * error / counts) ** 0.5 for name, error in choice.tried.items()}
        bound = (unit * choice.bound / counts) ** 0.5
        self.forecast = Forecast(
            self.strategy.name,
            self.strategy.rows,
            self.strategy.cells,
            tuple(map(_name_count, questions.asked)),
            self._compute_stderrs(),
            tried,
            bound,
        )

    def _compute_stderrs(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        matrix = self.questions.matrix
        variances = np.empty(len(matrix))
        for begin in range(0, len(matrix), 1024):
            part = matrix[begin : begin + 1024].astype(np.float64)
            variances[begin : begin + 1024] = np.einsum(
                "ij,ji->i", part, self.strategy.solve(part.T)
            )
        return np.sqrt(self.law.variance * variances)


def _choose_law(
    release: Workload, norms: tuple[int, int], *, signed: bool
) -> DiscreteLaplace | DiscreteGaussian:
    """Return the least noise that keeps the promise."""
    absolute, squares = norms
    person, promise = release.unit, release.cell_promise
    if not release.gaussian:
        return DiscreteLaplace(Fraction(person.sensitivity * absolute) / promise.epsilon)
    return DiscreteGaussian(
        Fraction(person.squared_sensitivity(nonnegative_gram=not signed) * squares)
        / (2 * promise.rho)
    )


def _find_price(release: Workload) -> float:
    """Return the factor on the squared sensitivity if a row may change sums in both directions."""
    person = release.unit
    return (
        person.squared_sensitivity(nonnegative_gram=False)
        / person.squared_sensitivity(nonnegative_gram=True)
        if release.gaussian
        else 1.0
    )


def _name_count(asked: AskedCount) -> str:
    group = ", ".join(f"{name} = #{code}" for name, code in asked.codes.items())
    return f"{asked.text} [{group}]" if group else asked.text


# --- blas -----------------------------------------------------------------------------------------
#
# One thread for the linear algebra of numpy and scipy.
#
# Both bring a copy of OpenBLAS, whose threads wait for the next product in a loop that keeps a
# processor busy. A search with many small products takes up to three times the processor time on
# two threads, and no less time on the clock. Sums are also rounded in another order on another
# number of threads, so that what a search finds would depend on the machine.

# OpenBLAS as it comes with numpy and scipy, or is installed on its own; with indices of 32 or 64
# bits.
_NAMES = [
    (f"{prefix}_get_num_threads{suffix}", f"{prefix}_set_num_threads{suffix}")
    for prefix in ("scipy_openblas", "openblas")
    for suffix in ("", "64_")
]
_lock = threading.Lock()
_inside = 0  # blocks of `one_thread` that run now
_before: list[int] = []


class _Library(NamedTuple):
    """The functions of one copy of OpenBLAS."""

    get: ctypes._NamedFuncPointer
    set: ctypes._NamedFuncPointer


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread, that of other threads of the process included. Other
    libraries than OpenBLAS are left as they are.
    """
    global _inside
    with _lock:
        if not _inside:
            _before[:] = [library.get() for library in _load_libraries()]
            _set([1] * len(_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _set(_before)


def _set(threads: list[int]) -> None:
    for library, number in zip(_load_libraries(), threads, strict=True):
        library.set(number)


@cache
def _load_libraries() -> tuple[_Library, ...]:
    """Load the copies of OpenBLAS of numpy and scipy, and return them."""
    libraries = []
    for path in _find_files():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for get, put in _NAMES:
            if hasattr(library, get) and hasattr(library, put):
                libraries.append(_Library(getattr(library, get), getattr(library, put)))
                break
    return tuple(libraries)


def _find_files() -> Iterator[Path]:
    """Yield the libraries that stand beside numpy and scipy, as their wheels bring them."""
    for package in ("numpy", "scipy"):
        spec = find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            for folder in (Path(location).with_name(f"{package}.libs"), Path(location, ".dylibs")):
                yield from sorted(folder.glob("*openblas*"))
