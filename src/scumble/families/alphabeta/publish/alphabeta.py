"""AlphaBeta (the αβ algorithm): publish true tuples with probability α + β, and every other tuple
of the domain with probability β.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, log, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scumble.families.alphabeta.design import MOST_VIEWS, InclusionProbabilities, Tuples
from scumble.families.alphabeta.publish.guarantee import PrivacyParameters, Promise, in_shares
from scumble.families.alphabeta.publish.views import FILE, TupleViews, ViewRecord
from scumble.model import parameters
from scumble.model.errors import (
    ParameterError,
    PromiseError,
    ReleaseError,
    SchemaError,
    named,
    setting,
)
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss
from scumble.model.privacy.guarantee import Guarantee, read_epsilon, read_positive, read_share
from scumble.model.schema.schema import Schema
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import Layout, Publisher
from scumble.private.mechanism_metadata import (
    PRIOR,
    ROW_PRIOR,
    Claim,
    ComparisonPreset,
    posterior_of,
)
from scumble.private.tables.sorted_keys import true_tuples

if TYPE_CHECKING:
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows

_HALF = Fraction(1, 2)
_CHOICES = ("k with gamma", "d with gamma", "epsilon", "alpha with beta")


class AlphaBeta(Publisher):
    """Publishes a set of whole rows, true ones and false ones: each different row of the table with
    probability a = α + β, and every other row of the domain with probability β. Which are true is
    not told.

    Give exactly one of (`k`, `gamma`), (`d`, `gamma`), `epsilon` and (`alpha`, `beta`). `gamma` is
    the largest posterior allowed to an attacker whose prior was at most d, or d = k·n/m for n rows
    out of m possible ones; `epsilon` is the loss for one row more or less (β = a·e^−ε for one view
    without sources). β is the smallest number that the proof allows, and `keep` is a (1/2 if not
    given). `adversary="exclusive"` keeps γ also against attackers who know that exactly one of some
    rows is true (a = 1/2 and β = 2·d(1−γ)/(γ(1−d))). Equal rows are an error, or told apart by a
    number below `multiplicity`, which counts every row, or made one by `duplicates="collapse"`,
    after which answers count different rows only. `views` says how often the same table may be
    published (`release.republish`); a private record (`update_record`) then tells whether a table
    is the same, and a changed one is refused. `sources` gives weights by column, in the order of
    the domain, for noise that looks like a known and public distribution p; then `k` speaks of
    priors of at most k·n·p(t), and `d` still of any prior of at most d.

    Parameters:
        k: prior as a multiple of rows / domain.
        d: a prior of at most this; goes with `gamma`.
        gamma: the posterior allowed.
        epsilon: Privacy loss of one person.
        alpha: what a true tuple has more than a false one; goes with `beta`.
        beta: probability of a false tuple.
        keep: probability to keep what is true.
        adversary: independent or exclusive.
        duplicates: equal rows are an error, or collapse into one (`multiplicity` counts them all).
        multiplicity: largest number of equal rows that are told apart.
        sources: public weights for the noise, by column.
        views: how often the table may be published; more than one view needs `update_record`.

    Promises: (d, γ)-privacy: to an attacker for whom rows are independent, prior ≤ d implies
        posterior ≤ γ and posterior ≥ (d/γ)·prior. Proof: what is seen of a row changes its odds by
        (α+β)/β if it is there and by (1−α−β)/(1−β) if not; the first is at most γ(1−d)/(d(1−γ)),
        the second at least d/γ. With v views the ratios of all histories of a row are computed
        exactly, and more views than the promise bears are refused. Also, or instead where `epsilon`
        is asked for, ε-DP for one row more or less, for ε bounds the logarithms of both ratios;
        with the probabilities and the number of rows taken as known, and for one row in place of
        another, without that unless equal rows are collapsed. Presence is independent and has
        exactly the published probabilities, which are fractions.
    Estimate: (n_V − β·n_D)/α for n_V published rows that satisfy a condition, out of n_D in the
        whole domain; unbiased, with the standard error of the two binomial counts. Several views
        are split by what earlier ones have, and pooled. Intervals are exact binomial ones, of 0.99
        to 1.15 times ± 1.96 standard errors on domains of 2^31 to 10^30 tuples; they end at 0 and
        at the number of rows, and are shorter where that cuts them.
    Reference: Rastogi, Suciu, Hong, "The Boundary Between Privacy and Utility in Data Publishing"
        (VLDB 2007), algorithms 1 to 5, theorems 3.3, 4.3, 4.4 and 6.3.
    Differs: β is the smallest one and not d/γ; the noise of algorithms 2 and 5 is drawn exactly,
        for domains of any size; the promise of several views is computed, and β raised to keep it
        (the paper keeps β); the estimator of several views is unbiased, which the paper's is not.
    """

    name = "alphabeta"

    def __init__(
        self,
        *,
        k: float | None = None,
        d: float | None = None,
        gamma: float | None = None,
        epsilon: float | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        keep: float | None = None,
        adversary: Literal["independent", "exclusive"] = "independent",
        duplicates: Literal["error", "collapse"] = "error",
        multiplicity: int = 1,
        sources: Mapping[str, Sequence[float]] | None = None,
        views: int = 1,
    ) -> None:
        given = {"k": k, "d": d, "gamma": gamma, "epsilon": epsilon, "alpha": alpha, "beta": beta}
        self._given = parameters.one_of("AlphaBeta", given, *_CHOICES)
        _one_of("adversary", adversary, "independent", "exclusive")
        _one_of("duplicates", duplicates, "error", "collapse")
        self._adversary, self._duplicates = adversary, duplicates
        self._multiplicity = parameters.whole("AlphaBeta", "multiplicity", multiplicity, 1, 1 << 32)
        if self._multiplicity > 1 and duplicates == "collapse":
            raise ParameterError("AlphaBeta either collapses equal rows or tells them apart.")
        self._keep, self._sources = keep, sources
        self._views = parameters.whole("AlphaBeta", "views", views, 1, MOST_VIEWS)
        self._asked = self._privacy_parameters()
        if not {"d", "epsilon"}.isdisjoint(self._given) and sources is None:
            self._try(1, 0)  # whether it is possible does not depend on the domain

    def _privacy_parameters(self) -> PrivacyParameters:
        numbers = {name: _number(name, value) for name, value in self._given.items()}
        exclusive = self._adversary == "exclusive"
        keep = _HALF if self._keep is None else read_share("AlphaBeta", "keep", self._keep)
        if "alpha" in numbers:
            if self._keep is not None:
                raise ParameterError(
                    f"AlphaBeta takes no {named('keep')} with {named('alpha')}: it is alpha + beta."
                )
            keep = numbers["alpha"] + numbers["beta"]
            if keep >= 1:
                allowed = f"below 1 − beta ({self._given['beta']})"
                raise ParameterError.of("AlphaBeta", "alpha", allowed, self._given["alpha"])
        if exclusive and "gamma" not in numbers:
            raise ParameterError(
                f"AlphaBeta takes {setting('adversary', 'exclusive')} with {named('gamma')} only."
            )
        if exclusive and keep != _HALF:
            raise ParameterError.of("AlphaBeta", "keep", "1/2 for exclusive attackers", self._keep)
        if "d" in numbers and numbers["d"] >= numbers["gamma"]:
            allowed = f"below gamma ({self._given['gamma']}): nobody ends below where they began"
            raise ParameterError.of("AlphaBeta", "d", allowed, self._given["d"])
        if self._sources is not None and (exclusive or self._views > 1):
            raise ParameterError(
                f"AlphaBeta takes {named('sources')} for one view and independent attackers only."
            )
        sources = None if self._sources is None else _shares(self._sources)
        return PrivacyParameters(
            keep, exclusive=exclusive, views=self._views, sources=sources, **numbers
        )

    @property
    def parameters(self) -> dict[str, Any]:
        keep = {} if self._keep is None else {"keep": self._keep}
        written = parameters.plain({**self._given, **keep})
        if self._sources is not None:
            written["sources"] = {name: _plain(weights) for name, weights in self._sources.items()}
        return {
            **written,
            "adversary": self._adversary,
            "duplicates": self._duplicates,
            "multiplicity": self._multiplicity,
            "views": self._views,
        }

    @property
    def private_record(self) -> bool:
        return self._views > 1

    def check(self, schema: Schema) -> None:
        if not schema.published:
            need = "AlphaBeta needs at least one attribute that is not an identifier"
            raise parameters.without_attribute(f"{need}.", need, schema, "sensitive")
        taken = {
            InclusionProbabilities.occurrence: self._multiplicity > 1,
            InclusionProbabilities.views_column: self._views > 1,
        }
        for attribute in schema:
            if taken.get(attribute.name.lower()):
                raise SchemaError(
                    f"{attribute}: AlphaBeta writes a column of this name itself; rename it."
                )
        for name, shares in (self._asked.sources or {}).items():
            if name not in [attribute.name for attribute in schema.published]:
                raise SchemaError(f"AlphaBeta has a source for '{name}', the schema has not.")
            if len(shares) != schema[name].size:
                allowed = f"of {schema[name].size} weights for '{name}', one for every value"
                raise ParameterError.of("AlphaBeta", "sources", allowed, f"{len(shares)} weights")
        # One row is the least that a table can have; more are harder to hide.
        self._try(self.size(schema), 1 if self._asked.k is not None else 0)

    def _try(self, size: int, rows: int) -> None:
        """Refuse what is impossible for every table."""
        try:
            self._asked.presence(size, rows)
        except PromiseError as error:
            raise ParameterError(str(error)) from None

    def size(self, schema: Schema) -> int:
        """Return how many tuples there can be, copies of one included."""
        return schema.size() * self._multiplicity

    def presence(self, schema: Schema, rows: int) -> InclusionProbabilities:
        """Return the probabilities for a table with this number of different tuples."""
        presence = self._asked.presence(self.size(schema), rows)
        collapsed = self._duplicates == "collapse"  # as a rule: whether it happened is private
        return replace(presence, multiplicity=self._multiplicity, collapsed=collapsed)

    def expected_error(self, schema: Schema, rows: int) -> float:
        """Return the error of the first view. It keeps true rows with probability a and inserts
        false ones with c, so the variance is (n/10·a(1−a) + |D|/10·c(1−c))/(a−c)².
        """
        if rows > self.size(schema):
            raise PromiseError(f"The domain has fewer than {rows} different rows.")
        presence = self.presence(schema, rows)
        keep, noise = presence.keep, presence.noise
        spread = rows * keep * (1 - keep) + self.size(schema) * noise * (1 - noise)
        return sqrt(spread / 10) / float(keep - noise)

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        asked = self._asked
        if rows is None and asked.k is not None and asked.gamma is not None:
            return (in_shares(asked.k, asked.gamma, self._views),)
        presence = self.presence(schema, rows or 0)
        promise = Promise(asked, presence, self.size(schema), self._duplicates)
        return promise.all(rows=rows is not None)

    def charged_loss(self, stated: Guarantee) -> PrivacyLoss | None:
        """The loss for replacing a row: the others do not cover the number of different rows, which
        is published, and nor does this one if equal rows are collapsed.
        """
        if self._duplicates == "collapse" or stated.neighbourhood != "replace one person":
            return None
        return PrivacyLoss(Fraction(stated.parameters["epsilon"]))

    @property
    def not_charged(self) -> str:
        if self._duplicates == "collapse":
            return "How many different rows there are is published, and one person may change it."
        return "Its ε depends on the number of rows; give it an epsilon."

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        law = evidence.presence if isinstance(evidence, Tuples) else None
        return (
            report(self._asked, law, self.size(schema))
            if isinstance(law, InclusionProbabilities)
            else {}
        )

    def layout(self, schema: Schema) -> Layout:
        return {FILE: tuple(TupleViews(schema, self.presence(schema, 0)).written)}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Tuples:
        # The samplers are slow to import, and parameters are checked without them.
        schema, engine = rows.schema, open_engine(rows, noise)
        true = true_tuples(rows, self._duplicates, self._multiplicity, engine.sorted_rows)
        law = self.presence(schema, len(true))
        TupleViews(schema, law).write_first(folder, true, engine)
        if self.private_record:
            ViewRecord.create(folder, true)
        return Tuples(FILE, tuple(attribute.name for attribute in schema.published), law)

    def republish(
        self,
        evidence: Tuples,
        published: Path,
        rows: Rows,
        noise: Keystream,
        update_record: Path | None,
        folder: Path,
    ) -> Tuples:
        """Write the next view of the same table into `folder`, beside those in `published`. The
        private record `update_record` counts it.
        """
        law = evidence.presence
        if not isinstance(law, InclusionProbabilities) or law.views == law.most:
            raise PromiseError(
                f"All views that the promise covers ({self._views}) are published; plan more from "
                f"the start, as {setting('views', 3)}."
            )
        if update_record is None:
            raise ReleaseError(
                "A further view needs the private record, which tells whether the table is the "
                f"same: name it with {named('update_record')}. A release that was made without one "
                "gets no further view; publish the table anew."
            )
        record = ViewRecord(update_record)
        read = open_engine(rows, noise).sorted_rows
        true = true_tuples(rows, self._duplicates, self._multiplicity, read)
        record.check(true, published / evidence.file, law.views)
        views = TupleViews(rows.schema, law)
        seen, masks = views.read(published / evidence.file)
        views.write(folder, *views.later(true, seen, masks, law.views + 1, noise))
        record.count(folder / FILE, law.views + 1)
        return replace(evidence, presence=replace(law, views=law.views + 1))

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {"k": ROW_PRIOR, "duplicates": "collapse"}

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        return {"gamma": posterior_of(PRIOR, epsilon)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        # One tuple in place of another: the one is shown or not, and so is the other.
        yield Claim(cls(alpha=0.5, beta=0.1), log(0.6 / 0.1) + log(0.9 / 0.4))


def _number(name: str, value: object) -> Fraction:
    if name == "epsilon":
        return read_epsilon("AlphaBeta", value)
    if name != "k":
        return read_share("AlphaBeta", name, value)
    number = read_positive("AlphaBeta", name, value)
    if number < 1:
        allowed = "a number of at least 1: a table of n rows gives some row a prior of n/m"
        raise ParameterError.of("AlphaBeta", name, allowed, value)
    return number


def _one_of(name: str, value: object, *allowed: str) -> None:
    if value not in allowed:
        raise ParameterError.of("AlphaBeta", name, " or ".join(map(repr, allowed)), value)


def _shares(sources: Mapping[str, Sequence[float]]) -> dict[str, tuple[Fraction, ...]]:
    """Return the weights as shares that add up to 1."""
    if not isinstance(sources, Mapping) or not sources or not all(map(len, sources.values())):
        allowed = "a mapping from columns to a list of weights for their values"
        raise ParameterError.of("AlphaBeta", "sources", allowed, sources)
    shares = {}
    for name, given in sources.items():
        weights = [read_positive("AlphaBeta", "sources", weight) for weight in given]
        shares[name] = tuple(weight / sum(weights) for weight in weights)
    return shares


def _plain(weights: Sequence[float]) -> list[Any]:
    """Return the weights as JSON holds them."""
    return list(
        parameters.plain({str(index): weight for index, weight in enumerate(weights)}).values()
    )


# What to expect of an AlphaBeta release: how many tuples of each kind, and how far answers are
# off.

FAILURE = 0.05


def report(asked: PrivacyParameters, law: InclusionProbabilities, size: int) -> dict[str, Any]:
    """Return facts for the manifest; all follow from the published probabilities. Bounds are
    rounded up, the rest to the nearest.
    """
    missed = prod(1 - law.noise_of(view) for view in range(1, law.views + 1))
    facts = {
        "domain": size,
        "alpha": _short(law.keep - law.noise),
        "beta": _short(law.noise),
        "true tuples expected": round((1 - (1 - law.keep) ** law.views) * law.rows),
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


def rho(asked: PrivacyParameters, law: InclusionProbabilities, size: int) -> float:
    """Return ρ of the paper: 2·sqrt(2·k(1−γ)/γ·ln(2/ε)) for its own a, else by theorem 4.4."""
    rows = max(law.rows, 1)
    plain = not asked.exclusive and law.most == 1 and not law.sources
    if asked.gamma is not None and law.keep == Fraction(1, 2) and plain:
        gamma = asked.gamma
        factor = asked.prior(size, rows) * size / rows * (1 - gamma) / gamma
        return 2 * sqrt(2 * float(factor) * log(2 / FAILURE))
    alpha = law.keep - law.noise
    ratio = law.noise * size / (alpha**2 * rows)
    return sqrt(2 * (float(ratio) + 1) * log(2 / FAILURE))


def reach(law: InclusionProbabilities, size: int) -> float:
    """Return how far one count can be off in one view, except with probability ε: Bernstein's
    inequality for a sum of independent presences of variance at most n/4 + β·m.
    """
    variance = law.rows / 4 + float(law.noise * size)
    third = log(2 / FAILURE) / 3
    total = third + sqrt(third**2 + 6 * third * variance)
    return total / float(law.keep - law.noise)


def _short(number: Fraction) -> float:
    return float(f"{float(number):.6g}")
