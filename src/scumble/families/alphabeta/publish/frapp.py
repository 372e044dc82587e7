"""FRAPP: keep a whole row, or replace it by a row drawn from the whole domain; and its guarantees
for the two readings, local and published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scumble.families.alphabeta.design import SEEN_ONCE, Counts, ReplacedTuples, Tuples
from scumble.model import parameters
from scumble.model.errors import ChangedError, ParameterError, PromiseError, setting
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_least,
    at_most,
    float_at_least,
    float_at_most,
    gamma_for_epsilon,
    gamma_for_rho,
    percent_at_least,
    percent_at_most,
    read_positive,
    read_share,
)
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import CHANGED, Engine, Made, Output, RowKernel
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import Layout, Publisher
from scumble.private.mechanism_metadata import (
    PRIOR,
    ROW_PRIOR,
    Claim,
    ComparisonPreset,
    posterior_of,
)
from scumble.private.perturbation.guarantees import ProtectedValue, tenth_error
from scumble.private.sampling.bits import bernoulli, integers

if TYPE_CHECKING:
    import numpy.typing as npt

    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows

FrappReading = Literal["local", "published"]

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

    Parameters:
        reading: local or published.
        epsilon: Privacy loss of one person.
        gamma: amplification, e to the epsilon; with `k`: the posterior allowed.
        keep: probability to keep what is true.
        rho1: a prior of at most this ...
        rho2: ... ends at most here; goes with `rho1`.
        k: prior as a multiple of rows / domain.

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
        reading: FrappReading = "local",
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
            need = "Frapp needs an attribute that is published"
            raise parameters.without_attribute(
                f"{need}; the schema has identifiers only.", need, schema, "sensitive"
            )
        if self._reading == "local":
            less = "a smaller keep or rho2, or a larger rho1"
            parameters.require_privacy("Frapp", self.gamma(schema), less)

    def keep(self, schema: Schema) -> Fraction:
        """Return the probability p that a row is kept."""
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
        parameters.require_utility("Frapp", gamma)
        return (gamma - 1) / (schema.size() - 1 + gamma)

    def gamma(self, schema: Schema) -> Fraction:
        """Return the amplification g of a whole row."""
        keep = self.keep(schema)
        return 1 + keep * schema.size() / (1 - keep)

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        gamma, size = self.gamma(schema), schema.size()
        if self._reading == "local":
            prior = self._numbers.get("rho1", Fraction(1, 10))
            return (
                ROW.amplification(gamma, RATIO, "Whatever is known"),
                ROW.posterior(prior, gamma),
                ROW.exposure(gamma / (gamma + size - 1), size, REACHED),
            )
        counts = None if rows is None else self._counts(schema, rows)
        seen = promise_published(self._numbers["k"], self._posterior(schema), counts)
        known = "Even to an attacker who knows which row is whose"
        return seen, ROW.amplification(gamma, RATIO, known)

    def _posterior(self, schema: Schema) -> Fraction:
        """Return γ of the published reading."""
        k, keep = self._numbers["k"], self.keep(schema)
        return k * keep / (1 - keep + k * keep)

    def _counts(self, schema: Schema, rows: int) -> Counts:
        """Return the law of how often a row of a table of `rows` rows is published. Raise
        PromiseError if it breaks the promise.
        """
        counts = Counts(rows, schema.size(), self.keep(schema))
        require(self._numbers["k"], self._posterior(schema), counts)
        return counts

    def expected_error(self, schema: Schema, rows: int) -> float:
        return tenth_error(schema.size(), float(self.keep(schema)), rows)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        size, rows, keep = schema.size(), evidence.rows or 0, self.keep(schema)
        facts = {"domain": size, "keep": float(keep), "rows kept on average": float(keep * rows)}
        if self._reading == "local" or not rows:
            return facts
        k = self._numbers["k"]
        counts = Counts(rows, size, keep)
        times = range(1, min(rows, MOST_TIMES) + 1)
        posteriors = {str(c): float(counts.posterior(k * rows / size, c)) for c in times}
        expected = {str(c): float(counts.bound_repeats(c)) for c in times}
        # k(1-γ)/γ is (1-p)/p: the paper's bound on the error of a count, in units of root n.
        rho = 2 * float((1 - keep) / keep) * sqrt(log(2 / _FAILURE))
        return {
            **facts,
            "posterior by times seen": posteriors,
            "rows seen so often, at most": expected,
            "usefulness": {"rho": rho, "rho times root n": rho * sqrt(rows)},
        }

    def layout(self, schema: Schema) -> Layout:
        return {FILE: schema.published}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Tuples:
        # The writer and the samplers are slow to import, and parameters are checked without them.
        schema = rows.schema
        keep = self.keep(schema)
        names = [attribute.name for attribute in schema.published]
        engine = open_engine(rows, noise)
        expected = None
        if self._reading == "published":
            expected = _number_of(rows, names, engine)
            self._counts(schema, expected)
        output = Output(folder / FILE, schema.published)
        engine.map(names, FrappKernel(schema, keep), [output])
        number = engine.sort(output)
        if expected not in (None, number):
            raise ChangedError(CHANGED)
        if number * keep < 1 <= number:
            rows.remark(
                "Less than one row is kept on average: answers say next to nothing. Publish fewer "
                "attributes, or ask for less privacy."
            )
        return Tuples(FILE, tuple(names), ReplacedTuples(number, keep))

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {"k": ROW_PRIOR, "reading": "published"}

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        return {"gamma": posterior_of(PRIOR, epsilon)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield Claim(cls(epsilon=2), 2)


def _of_a_set(owner: str, given: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return the numbers of the published reading, in which γ is a posterior."""
    k = read_positive(owner, "k", given["k"])
    if k < 1:
        raise ParameterError.of(owner, "k", "a number of at least 1", given["k"])
    if "gamma" in given:
        return {"k": k, "gamma": read_share(owner, "gamma", given["gamma"])}
    return {"k": k, **parameters.numbers(owner, {"keep": given["keep"]})}


def _number_of(rows: Rows, names: list[str], engine: Engine) -> int:
    """Return the number of rows that will be published."""
    # A row may be dropped for any of its columns; then all have to be read.
    read = names if rows.outside == "drop" else names[:1]
    return sum(len(columns[0]) for columns in engine.batches(read))


@dataclass(frozen=True)
class FrappKernel(RowKernel):
    """Keeps each row with probability `keep`, or else replaces it. Replacements are drawn column by
    column, which makes every row of the domain equally likely.
    """

    schema: Schema
    keep: Fraction

    def perturb(self, stream: Keystream, columns: list[npt.NDArray[Any]]) -> Made:
        import numpy as np

        lost = np.flatnonzero(bernoulli(stream, 1 - self.keep, len(columns[0])))
        perturbed = []
        for column, attribute in zip(columns, self.schema.published, strict=True):
            changed = column.copy()
            changed[lost] = integers(stream, attribute.size, len(lost)).astype(column.dtype)
            perturbed.append(changed)
        return (perturbed,)


# The guarantees of Frapp: against an attacker who sees a person's own row (local), and against one
# who sees the shuffled set (published).

LOCAL_LIMITS = (
    "The number of rows is published. That a person has sent one is not hidden.",
    "The promise is for one row of one release: more rows of a person, or more releases, add up.",
    "What the other rows tell about a person by statistics is not hidden.",
)
ROW = ProtectedValue(
    shown="row of a person",
    kind="rows",
    property="a property of a person's row",
    guessed="rows of a person",
    neighbourhood="replace one person",
    limits=LOCAL_LIMITS,
    guess_scope="the whole release",
)
RATIO = (
    "a row shows itself with p + (1−p)/m and any other with (1−p)/m, whose ratio is γ; computed "
    "exactly from the published p"
)
REACHED = "p ≤ e^ε/(e^ε + d − 1), reached by uniform replacement"
PUBLISHED_LIMITS = (
    "It is for an attacker who looks at how often one row is published, not at the other rows.",
    "If an attacker knows other people's rows, or which row is whose, only the bound by ε holds.",
    "It is for a row that at most one person has; what several people share shows more often.",
    "An attacker who gave the row more than k·n/m before may end higher.",
)
MOST_TIMES = 6
_SLACK = Fraction(11, 10)  # of γ: how far the first order may be off


def require(k: Fraction, gamma: Fraction, counts: Counts) -> None:
    """Raise PromiseError for a table that is too large for its domain."""
    prior = k * counts.rows / counts.size
    if prior >= gamma:
        raise PromiseError(
            f"Frapp with {setting('reading', 'published')} speaks of priors up to k·n/m, n rows "
            "out of m possible ones: here that is no less than the posterior γ that is promised. "
            + _advice()
        )
    if counts.rows and counts.posterior(prior, 1) > _SLACK * gamma:
        raise PromiseError(
            f"Frapp with {setting('reading', 'published')} is made for priors k·n/m, n rows out of "
            "m possible ones, far below γ: here a row seen once would end above γ by more than a "
            "tenth of it. " + _advice()
        )


def _advice() -> str:
    return f"Use a smaller k, publish more attributes, or use {setting('reading', 'local')}."


def promise_published(k: Fraction, gamma: Fraction, counts: Counts | None) -> Guarantee:
    """Return the guarantee on the posterior of a tuple by how often it is published, for priors of
    at most k·n/m.
    """
    parameters = {"k": float_at_most(k), "first order gamma": float_at_least(gamma)}
    if counts is None or counts.rows < 2:
        sentence = (
            f"An attacker who gave a row at most {at_least(k)} times the chance n/m of a row drawn "
            "blindly, and sees it published once among the n shuffled rows, ends at about "
            f"{percent_at_most(gamma)}, in small tables higher; the release states it exactly."
        )
    else:
        prior = k * counts.rows / counts.size
        once, twice = (counts.posterior(prior, times) for times in (1, 2))
        many = counts.bound_repeats(2)
        parameters |= {"d": float_at_most(prior), "once": float_at_least(once)}
        parameters |= {"twice": float_at_least(twice), "repeated": float_at_least(many)}
        sentence = (
            f"An attacker who gave a row at most {percent_at_least(prior)}, and sees it published "
            f"once among the shuffled rows, ends at most at {percent_at_most(once)}; published "
            f"twice, at {percent_at_most(twice)}. Of a table whose rows all differ, at most "
            f"{at_most(many)} rows are published twice or more on average{_chance(many)}."
        )
    return Guarantee(
        statement=SEEN_ONCE,
        parameters=parameters,
        scope="each single value",
        neighbourhood="add or remove one person",
        trust="central",
        proof="exact posterior from the law of how often a row is published: Bernoulli(p + q) + "
        "Bin(n−1, q) if one person has it, Bin(n, q) if nobody has, q = (1−p)/m; p/(1−p) = "
        "γ/(k(1−γ)) makes it γ but for terms of the order of the prior",
        sentence=sentence,
        limits=PUBLISHED_LIMITS,
    )


def _chance(many: Fraction) -> str:
    return f", and any at all with probability at most {percent_at_most(many)}" if many < 1 else ""
