"""FRAPP: keep a whole row, or replace all of it by a row drawn from the whole domain."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scumble.model import parameters
from scumble.model.dialect import setting
from scumble.model.errors import ParameterError, SchemaError
from scumble.model.evidence.evidence import Evidence, Tuples
from scumble.model.evidence.presence import Replaced
from scumble.model.privacy.guarantee import (
    Guarantee,
    gamma_for_epsilon,
    gamma_for_rho,
    positive,
    share,
)
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Publisher
from scumble.private.perturbation import frapp_promise

if TYPE_CHECKING:
    import numpy.typing as npt

    from scumble.private.sampling.source import Source
    from scumble.private.tables.rows import Rows

Reading = Literal["local", "published"]

FILE = "tuples.parquet"
_CHOICES: dict[str, tuple[str, ...]] = {
    "local": ("epsilon", "gamma", "keep", "rho1 with rho2"),
    "published": ("k with gamma", "k with keep"),
}
_FAILURE = 0.05


class Frapp(Publisher):
    """Publishes as many rows as there are; each row is kept whole with probability p, else replaced
    whole by a uniform draw from all m rows of the domain.

    `reading` says to whom the promise is made. "local": to people whose own published row the
    attacker may know; give exactly one of `epsilon`, `gamma` (the largest odds ratio, above 1),
    `keep` (the p itself) or `rho1` with `rho2`. "published": to people in a set of rows that nobody
    can link to them; give `k` with `gamma` (the posterior, below 1) or `k` with `keep`: an attacker
    gives a row at most k times the chance n/m of one drawn blindly. The two are never mixed.

    Promises: ε-LDP of a whole row (local), or a bound on the posterior of a row that is seen once
        in the set (published). Local: ε = ln g, g = 1 + p·m/(1−p). Proof: a row shows itself with
        probability p + (1−p)/m and any other with (1−p)/m; g is the ratio of the two, and the
        largest there is. p is a fraction that the sampler meets exactly. Published: an attacker
        with a prior of at most d = k·n/m about a row that at most one person has, and who sees it
        once, ends at γ when p/(1−p) = γ/(k(1−γ)), but for terms of the order of d; a table where
        they come to more than a tenth of γ is refused. The exact posteriors for a row seen once and
        twice, and how many rows are expected twice, are part of the promise. Proof: the number of
        times that a row is published is Bernoulli(p + q) + Bin(n−1, q) if one person has it and
        Bin(n, q) if nobody has, q = (1−p)/m.
    Estimate: (n_V − n(1−p)·n_D/m)/p for n_V published rows that satisfy a condition, out of n_D in
        the whole domain; unbiased, with an exact binomial interval (normal where thousands of rows
        decide). Sums and averages by the same weights, with score and Fieller intervals.
    Reference: Agrawal, Haritsa, "A Framework for High-Accuracy Privacy-Preserving Mining" (ICDE
        2005), the gamma-diagonal matrix; read for published sets in Rastogi, Suciu, Hong, "The
        Boundary Between Privacy and Utility in Data Publishing" (VLDB 2007).
    Differs: the published reading is a first-order argument in the paper: here the posterior is
        computed, for a row seen more than once as well, and what it does not cover is said. Rows
        come in sorted order. The domain may be of any size: rows are drawn column by column.
    """

    name = "frapp"

    def __init__(
        self,
        *,
        reading: Reading = "local",
        epsilon: float | None = None,
        gamma: float | None = None,
        keep: float | None = None,
        rho1: float | None = None,
        rho2: float | None = None,
        k: float | None = None,
    ) -> None:
        if reading not in _CHOICES:
            raise ParameterError.of("Frapp", "reading", "'local' or 'published'", reading)
        self._reading = reading
        rhos = {"rho1": rho1, "rho2": rho2}
        given = {"epsilon": epsilon, "gamma": gamma, "keep": keep, **rhos, "k": k}
        owner = f"Frapp with {setting('reading', reading)}"
        self._given = parameters.one_of(owner, given, *_CHOICES[reading])
        read = _of_a_set if reading == "published" else parameters.numbers
        self._numbers = read("Frapp", self._given)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"reading": self._reading, **parameters.plain(self._given)}

    def check(self, schema: Schema) -> None:
        if not schema.published:
            raise SchemaError(
                "Frapp needs an attribute that is published; the schema has identifiers only."
            )
        if self._reading == "local":
            less = "a smaller keep or rho2, or a larger rho1"
            parameters.need_privacy("Frapp", self.gamma(schema), less)

    def keep(self, schema: Schema) -> Fraction:
        """The probability p that a row is kept."""
        numbers = self._numbers
        if "keep" in numbers:
            return numbers["keep"]
        if self._reading == "published":  # p/(1-p) = γ/(k(1-γ))
            gamma, k = numbers["gamma"], numbers["k"]
            return gamma / (gamma + k * (1 - gamma))
        if "epsilon" in numbers:
            gamma = gamma_for_epsilon(numbers["epsilon"])
        else:
            gamma = numbers.get("gamma") or gamma_for_rho(numbers["rho1"], numbers["rho2"])
        parameters.need_room("Frapp", gamma)
        return (gamma - 1) / (schema.size() - 1 + gamma)

    def gamma(self, schema: Schema) -> Fraction:
        """The amplification g of a whole row."""
        keep = self.keep(schema)
        return 1 + keep * schema.size() / (1 - keep)

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        gamma, size = self.gamma(schema), schema.size()
        if self._reading == "local":
            prior = self._numbers.get("rho1", Fraction(1, 10))
            first = frapp_promise.local(gamma), frapp_promise.from_prior(prior, gamma)
            return (*first, frapp_promise.exposure(gamma, size))
        counts = None if rows is None else self._counts(schema, rows)
        seen = frapp_promise.published(self._numbers["k"], self._posterior(schema), counts)
        return seen, frapp_promise.local(gamma, anyway=True)

    def _posterior(self, schema: Schema) -> Fraction:
        """γ of the published reading."""
        k, keep = self._numbers["k"], self.keep(schema)
        return k * keep / (1 - keep + k * keep)

    def _counts(self, schema: Schema, rows: int) -> frapp_promise.Counts:
        """How often a row of so many is published; a refusal where that breaks the promise."""
        counts = frapp_promise.Counts(rows, schema.size(), self.keep(schema))
        frapp_promise.require(self._numbers["k"], self._posterior(schema), counts)
        return counts

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        size, rows, keep = schema.size(), evidence.rows or 0, self.keep(schema)
        facts = {"domain": size, "keep": float(keep), "rows kept on average": float(keep * rows)}
        if self._reading == "local" or not rows:
            return facts
        k = self._numbers["k"]
        counts = frapp_promise.Counts(rows, size, keep)
        times = range(1, min(rows, frapp_promise.MOST_TIMES) + 1)
        posteriors = {str(c): float(counts.posterior(k * rows / size, c)) for c in times}
        expected = {str(c): float(counts.expected(c)) for c in times}
        # k(1-γ)/γ is (1-p)/p: the paper's bound on the error of a count, in units of root n.
        rho = 2 * float((1 - keep) / keep) * sqrt(log(2 / _FAILURE))
        return {
            **facts,
            "posterior by times seen": posteriors,
            "rows seen so often, at most": expected,
            "usefulness": {"rho": rho, "rho times root n": rho * sqrt(rows)},
        }

    def perturb(self, rows: Rows, noise: Source, folder: Path) -> Tuples:
        # The writer and the samplers are slow to import, and parameters are checked without them.
        from scumble.private.tables.writer import ViewWriter

        schema = rows.schema
        keep = self.keep(schema)
        names = [attribute.name for attribute in schema.published]
        if self._reading == "published":
            self._counts(schema, _number_of(rows, names))
        with ViewWriter(folder / FILE, schema.published) as view:
            for columns in rows.batches(names):
                view.add(_replaced(columns, schema, keep, noise))
        if view.rows * keep < 1 <= view.rows:
            rows.remark(
                "Less than one row is kept on average: answers say next to nothing. Publish fewer "
                "attributes, or ask for less privacy."
            )
        return Tuples(FILE, tuple(names), Replaced(view.rows, keep))


def _of_a_set(owner: str, given: Mapping[str, Any]) -> dict[str, Fraction]:
    """The numbers of the published reading, where γ is a posterior."""
    k = positive(owner, "k", given["k"])
    if k < 1:
        raise ParameterError.of(owner, "k", "a number of at least 1", given["k"])
    if "gamma" in given:
        return {"k": k, "gamma": share(owner, "gamma", given["gamma"])}
    return {"k": k, **parameters.numbers(owner, {"keep": given["keep"]})}


def _number_of(rows: Rows, names: list[str]) -> int:
    """How many rows will be published."""
    # A row may be dropped for any of its columns; then all have to be looked at.
    looked = names if rows.outside == "drop" else names[:1]
    return sum(len(columns[0]) for columns in rows.batches(looked))


def _replaced(
    columns: list[npt.NDArray[Any]], schema: Schema, keep: Fraction, noise: Source
) -> list[npt.NDArray[Any]]:
    """Some rows, each with probability `keep`, as they are; in place of the others rows drawn
    column by column, which makes every row of the domain equally likely.
    """
    import numpy as np

    from scumble.private.sampling.bernoulli import bernoulli
    from scumble.private.sampling.integers import integers

    lost = np.flatnonzero(bernoulli(noise, 1 - keep, len(columns[0])))
    found = []
    for column, attribute in zip(columns, schema.published, strict=True):
        changed = column.copy()
        changed[lost] = integers(noise, attribute.size, len(lost)).astype(column.dtype)
        found.append(changed)
    return found
