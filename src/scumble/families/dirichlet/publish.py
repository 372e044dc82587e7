"""Dirichlet: synthetic rows, drawn within strata from counts and a prior (OnTheMap)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.families.dirichlet import design as polya_urn
from scumble.families.dirichlet.design import GRID, Synthetic
from scumble.model.errors import ParameterError, PromiseError, SchemaError, large, named, setting
from scumble.model.parameters import free_name, plain, whole
from scumble.model.privacy.accounting import Neighbours, PrivacyLoss, PrivacyUnit
from scumble.model.privacy.guarantee import (
    PROBABILISTIC,
    Guarantee,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    gamma_above_epsilon,
    percent_at_most,
    posterior_at_most,
    probabilistic,
    read_delta,
    read_epsilon,
    read_positive,
)
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout, Summary
from scumble.private.mechanism_metadata import TINY, Claim, ComparisonPreset
from scumble.private.perturbation.guarantees import NINETEEN
from scumble.private.sampling.source import Keystream
from scumble.private.tables.writer import ViewWriter, decoded, table_writer

if TYPE_CHECKING:
    from scumble.private.meter.table import PrivateTable


Integers = npt.NDArray[np.int64]

MOST_VALUES = 10**6
_LARGEST_DOMAIN = 1 << 62
_ROWS, _STRATA = "rows.parquet", "strata.parquet"
PROOF = (
    "the largest ratio of Dirichlet-multinomial probabilities is (prior + rows)/prior: "
    "Machanavajjhala, Kifer, Abowd, Gehrke, Vilhuber, ICDE 2008; computed exactly"
)
TAILS = (
    "beta-binomial tails of all values and strata together bound the probability of rows that "
    "change the odds by more than e^ε"
)


class Dirichlet(Summary):
    """Publishes synthetic rows. Within each stratum, the people who agree in the columns `given`,
    the columns `target` of new rows are drawn from a Pólya urn: it holds a ball for each person and
    `prior` balls of each value, and each ball drawn is put back together with one more of its
    value. How many people each stratum has is published as it is.

    Without `synthetic` a stratum gets as many rows as it has people. Without `prior` it is the
    least that keeps the promise. With `delta` a far smaller prior does, and the promise is
    probabilistic; `synthetic` is then needed.

    Parameters:
        target: columns whose values are drawn, as origin.
        given: columns whose values are kept; rows that agree in them are a stratum.
        epsilon: Privacy loss of one person.
        synthetic: rows to draw in each stratum; else as many as it has people.
        prior: balls of each value; else the fewest that keep epsilon.
        delta: probability beyond epsilon that is allowed; fewer prior balls are then enough.

    Promises: ε-DP of what `target` says about one person; with δ (ε, δ)-probabilistic DP: but for
        rows of probability δ, no rows change the odds by more than e^ε. Proof: a person who moves
        from one value to another changes the probability of m rows by a factor of at most
        (prior + m)/prior, reached if nobody else has the value and all rows show it; so
        prior ≥ m/(e^ε − 1). With δ: the factor is above e^ε only if some value with n people is
        drawn more than (e^ε − 1)(prior + n − 1) times; the tails of all values and strata add up
        to at most δ for every table.
    Estimate: x(A + n)/m − prior for a value that x of m rows show in a stratum of n people with A
        prior balls in all; unbiased. The interval of a count in one stratum has the limits of
        Clopper and Pearson for its beta-binomial law; other intervals are score intervals, which
        hold in all cases tried but by no theorem.
    Reference: Machanavajjhala, Kifer, Abowd, Gehrke, Vilhuber, ICDE 2008 (OnTheMap).
    Differs: the paper shrinks the prior by dropping values that are far away and lives on small
        probabilistic promises per place; here no value is dropped, and δ is for all places
        together. A noisy count of each cell (Histogram) has a far smaller error at the same ε:
        this is for those who need rows and accept that most of them come from the prior.
    """

    name = "dirichlet"

    def __init__(
        self,
        target: str | Sequence[str],
        given: str | Sequence[str] = (),
        *,
        epsilon: float,
        synthetic: int | None = None,
        prior: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.target, self.given = _read_columns("target", target), _read_columns("given", given)
        self.names = (*self.given, *self.target)
        if not self.target or len(set(self.names)) < len(self.names):
            allowed = "one or more attribute names, none of them twice or in 'given'"
            raise ParameterError.of("Dirichlet", "target", allowed, list(self.target))
        self._given = {"epsilon": epsilon, "prior": prior, "delta": delta}
        self.synthetic = (
            None if synthetic is None else whole("Dirichlet", "synthetic", synthetic, least=1)
        )
        self._epsilon = read_epsilon("Dirichlet", epsilon)
        self._delta = None if delta is None else read_delta("Dirichlet", delta)
        self._prior = None
        if prior is not None:
            self._prior = polya_urn.on_grid(read_positive("Dirichlet", "prior", prior))
        self._check_together()

    def _check_together(self) -> None:
        if self._delta is not None and self.synthetic is None:
            raise ParameterError(
                f"With {named('delta')}, Dirichlet needs {named('synthetic')}: the probability of "
                "rows that tell too much depends on how many are drawn."
            )
        if (self._prior or 0) > polya_urn.LARGEST_PRIOR:
            allowed = f"a number of at most {polya_urn.LARGEST_PRIOR}"
            raise ParameterError.of("Dirichlet", "prior", allowed, self._given["prior"])
        if self._prior is not None and not polya_urn.most_rows(self._prior, self._epsilon):
            one = at_most(polya_urn.least_prior(1, self._epsilon))
            allowed = f"at least {one}, so that a row can be drawn at this epsilon"
            raise ParameterError.of("Dirichlet", "prior", allowed, self._given["prior"])
        if self._prior is None and self.synthetic is not None and self._delta is None:
            least = polya_urn.least_prior(self.synthetic, self._epsilon)
            if least > polya_urn.LARGEST_PRIOR:
                raise ParameterError(
                    "With this epsilon the prior would outweigh any number of people; allow a "
                    "larger epsilon, or fewer synthetic rows."
                )

    @property
    def parameters(self) -> dict[str, Any]:
        numbers = plain(self._given)
        return {
            "target": list(self.target),
            "given": list(self.given),
            "epsilon": numbers["epsilon"],
            "synthetic": self.synthetic,
            "prior": numbers["prior"],
            "delta": numbers["delta"],
        }

    @property
    def promise(self) -> PrivacyLoss:
        return PrivacyLoss(self._epsilon, delta=self._delta or Fraction(0))

    def check(self, schema: Schema) -> None:
        for name in self.names:
            if schema[name].role == "identifier":
                raise SchemaError(
                    f"'{name}' is an identifier: it is never published, nor counted by."
                )
            _ = schema[name].size  # raises SchemaError, with advice, for lists
        shown = [name for name in self.given if schema[name].role == "sensitive"]
        if shown:
            raise SchemaError(
                f"Dirichlet shows the columns of {named('given')} as they are, and "
                f"{', '.join(shown)} is sensitive: put it into {named('target')}."
            )
        if schema.size(self.target) > MOST_VALUES or schema.size(self.names) >= _LARGEST_DOMAIN:
            raise ParameterError(
                f"{', '.join(self.target)} has {large(schema.size(self.target))} values, and "
                f"{large(schema.size(self.names))} with the strata; Dirichlet draws from at most "
                f"{large(MOST_VALUES)} and 4e+18. Choose fewer attributes or coarser bins."
            )
        self._check_promise(schema)

    def _check_promise(self, schema: Schema) -> None:
        """Reject a prior that is too small for the rows and the promise."""
        if self._prior is None or self.synthetic is None:
            return
        least = self._find_least_prior(schema)
        if self._prior < least:
            raise ParameterError(
                f"With {self.synthetic} synthetic rows this promise needs a prior of at least "
                f"{at_most(least)}. Got {self._given['prior']} instead."
            )

    def check_reading(self, outside: str) -> None:
        """Reject `outside="drop"`: a value would decide whether its person is in a stratum."""
        if outside == "drop":
            raise PromiseError(
                "Dirichlet publishes how many people a stratum has, so that no row may be left "
                f"out for its values: use {setting('outside', 'missing')}, or extend the domain."
            )

    def _find_least_prior(self, schema: Schema) -> Fraction:
        """Return the least prior that keeps the promise for `synthetic` rows."""
        rows = self.synthetic or 0
        if self._delta is None:
            return polya_urn.least_prior(rows, self._epsilon)
        values, strata = schema.size(self.target), schema.size(self.given)
        return polya_urn.least_prior_with(rows, values, strata, self._epsilon, self._delta)

    def sizes(self, schema: Schema, people: Integers) -> tuple[Integers, Integers]:
        """Return how many rows each stratum gets, and its prior in parts of 1/`GRID`."""
        if self.synthetic is not None:
            prior = int((self._prior or self._find_least_prior(schema)) * GRID)
            return np.full_like(people, self.synthetic), np.full_like(people, prior)
        if self._prior is not None:
            most = polya_urn.most_rows(self._prior, self._epsilon)
            return np.minimum(people, most), np.full_like(people, int(self._prior * GRID))
        distinct, places = np.unique(people, return_inverse=True)
        priors = [int(polya_urn.least_prior(n, self._epsilon) * GRID) for n in distinct.tolist()]
        return people.copy(), np.array(priors, np.int64)[places].reshape(people.shape)

    # --- what is promised ------------------------------------------------------------------------

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        for name in self.names:
            schema[name]  # raises SchemaError for an unknown name
        if self._delta is not None:
            return probabilistic(self._state_promise(PROBABILISTIC, TAILS))
        return (self._state_promise("ε-DP", PROOF),)

    def _state_promise(self, statement: str, proof: str) -> Guarantee:
        end = posterior_at_most(Fraction(1, 10), gamma_above_epsilon(self._epsilon))
        numbers = {"epsilon": float_at_least(self._state_epsilon())}
        but = ""
        if self._delta is not None:
            numbers["delta"] = float_at_least(self._delta)
            but = f", δ = {at_most(self._delta)}: but for rows of that probability"
        target = ", ".join(self.target)
        return Guarantee(
            statement=statement,
            parameters=numbers,
            scope="the whole release",
            neighbourhood="one person's sensitive values",
            trust="central",
            proof=proof,
            sentence=(
                f"This hides what {target} says about any one person. Someone who knows everybody "
                f"else, and already believed a guess about that with 10 %, can reach at most "
                f"{percent_at_most(end)} (ε = {at_most(self._epsilon)}{but})."
            ),
            limits=self._limits(),
        )

    def _state_epsilon(self) -> Fraction:
        """Return the ε asked for; the exact one of given rows and prior, if that is smaller."""
        if self._prior is None or self.synthetic is None or self._delta is not None:
            return self._epsilon
        exact = epsilon_for_gamma(polya_urn.amplification(self.synthetic, self._prior))
        return min(self._epsilon, Fraction(exact))

    def _limits(self) -> tuple[str, ...]:
        strata = f" with each combination of {', '.join(self.given)}" if self.given else ""
        return (
            f"How many people there are{strata} is published as it is.",
            "It is for one row of one release: more rows of a person, or more releases, add up.",
            "What is true of people in general, and so of a person too, is not hidden.",
        )

    def expected_error(self, schema: Schema, rows: int) -> float:
        """For all people in one stratum, with as many synthetic rows."""
        people = np.array([max(rows, 1)])
        drawn, priors = self.sizes(schema, people)
        values = schema.size(self.target)
        some, m = -(-values // 10), float(drawn[0])
        prior = float(priors[0]) / GRID
        balls = values * prior + rows
        share = (some * prior + rows / 10) / balls
        return float(
            balls * np.sqrt(share * (1 - share) * (balls + m) / ((balls + 1) * max(m, 1.0)))
        )

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        far = NINETEEN * self.expected_error(schema, 10_000)
        tenth = f"by a tenth of the values of {', '.join(self.target)}"
        count = f"in a stratum of 10,000 people, a count of 1,000 {tenth}"
        return (f"To expect: {count} will be within ±{far:,.0f} nineteen times in twenty.",)

    # --- drawing ---------------------------------------------------------------------------------

    def layout(self, schema: Schema) -> Layout:
        given, target = ([schema[name] for name in names] for names in (self.given, self.target))
        return {_ROWS: (*given, *target), _STRATA: (*given, *self._name_columns())}

    def _name_columns(self) -> tuple[str, str, str]:
        """Return the names of the columns with the people, rows and prior of a stratum."""
        people, size, prior = (free_name(name, self.names) for name in ("people", "size", "prior"))
        return people, size, prior

    def measure(self, table: PrivateTable, folder: Path) -> Synthetic:
        schema = table.schema
        strata = PrivateStrata(table, self.given, self.target)
        drawn = strata.draw(lambda people: self.sizes(schema, people), self.promise)
        evidence = Synthetic(
            _ROWS,
            _STRATA,
            self.given,
            self.target,
            *self._name_columns(),
            grid=GRID,
            rows=int(drawn.people.sum()),
        )
        _write(folder, schema, evidence, drawn)
        return evidence

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        target = [attribute.name for attribute in study.schema.sensitive] or [study.attributes[-1]]
        return {"target": target, "given": [n for n in study.attributes if n not in target]}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        if neighbours == "replace":  # its promise is about the values of one person
            yield Claim(cls("a", "b", epsilon=1, synthetic=3), 1, schema=TINY)
            yield Claim(cls("a", "b", epsilon=1, delta=0.05, synthetic=3), 1, 0.05, TINY)


def _read_columns(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(column, str) for column in names):
        raise ParameterError.of("Dirichlet", name, "a list of attribute names", list(names))
    return names


def _write(folder: Path, schema: Schema, evidence: Synthetic, drawn: StratumRows) -> None:
    """Write the rows in the order of their values, and the strata."""
    given, target = evidence.given, evidence.target
    attributes = [schema[name] for name in evidence.columns]
    keys = drawn.keys[drawn.stratum] * np.uint64(schema.size(target))
    keys += drawn.value.astype(np.uint64)
    with ViewWriter(folder / evidence.file, attributes) as rows:
        rows.add(schema.cell_keys(evidence.columns).unpack(keys))
    own = [schema[name] for name in given]
    codes = schema.cell_keys(given).unpack(drawn.keys) if given else []
    names = (evidence.people, evidence.size, evidence.prior)
    arrays = map(pa.array, (drawn.people, drawn.sizes, drawn.priors))
    types = [(name, pa.int64()) for name in names]
    with table_writer(folder / evidence.strata, own, types) as strata:
        strata.write_batch(decoded(own, codes, list(zip(names, arrays, strict=True))))


# --- strata ---------------------------------------------------------------------------------------
#
# The people of each stratum of a private table, of whom only charged draws are returned.

Sizes = Callable[[Integers], tuple[Integers, Integers]]  # of people: rows, prior in parts of 1/GRID

MOST_ROWS = 3 * 10**7
MOST_NUMBERS = 1 << 27  # strata times values of the target
_BOUND = 1 << 62


@dataclass(frozen=True, eq=False)
class StratumRows:
    """The strata with people, in the order of their `keys`, and the rows drawn in each.

    `stratum` and `value` are those of every row, as positions in `keys` and keys of the target.
    """

    keys: npt.NDArray[np.uint64]
    people: Integers
    sizes: Integers
    priors: Integers
    stratum: Integers
    value: Integers


class PrivateStrata:
    """The counts of the columns `target` in the strata of the columns `given`.

    How many people a stratum has is public: neighbouring tables differ in a value of `target`.
    """

    def __init__(self, table: PrivateTable, given: Sequence[str], target: Sequence[str]) -> None:
        self._table = table
        self._names = (*given, *target)
        self._values = table.schema.size(target)

    def draw(self, sizes: Sizes, loss: PrivacyLoss) -> StratumRows:
        """Charge `loss` and draw rows from a Pólya urn for each stratum.

        `sizes` gives the rows and the prior of strata from the numbers of their people.
        """
        self._table._account.charge(f"rows of {', '.join(self._names)}", loss)
        occupied = self._table._counter.occupied(self._names, PrivacyUnit("replace"))
        keys = np.unique(occupied.keys // np.uint64(self._values))
        if len(keys) * self._values > MOST_NUMBERS:
            raise PromiseError(
                f"There are more than {large(MOST_NUMBERS)} combinations of strata and values; "
                "condition on fewer or coarser attributes."
            )
        counts = np.zeros((len(keys), self._values), np.int64)
        places = np.searchsorted(keys, occupied.keys // np.uint64(self._values))
        counts[places, (occupied.keys % np.uint64(self._values)).astype(np.int64)] = occupied.counts
        people = counts.sum(axis=1)
        rows, priors = sizes(people)
        if rows.sum() > MOST_ROWS:
            raise PromiseError(f"More than {large(MOST_ROWS)} rows would be drawn; draw fewer.")
        balls = self._values * priors.astype(float) + (people + rows).astype(float) * GRID
        if balls.max(initial=0.0) >= _BOUND:
            raise PromiseError("The prior has too many balls to be drawn from; draw fewer rows.")
        stratum, value = polya_rows(self._table._noise.source, counts, priors, rows)
        return StratumRows(keys, people, rows, priors, stratum, value)


# --- polya urn ------------------------------------------------------------------------------------
#
# Exact draws from Pólya urns, many urns at once.

_SHIFTS = (1, 2, 4, 8, 16, 32)


def polya_rows(
    source: Keystream, counts: npt.NDArray[np.int64], priors: Integers, rows: Integers
) -> tuple[Integers, Integers]:
    """Return the urn and the value of every row drawn, urn by urn.

    `counts` has the number of people of each urn and value, `priors` the prior balls of each value
    of an urn in parts of 1/`GRID`, and `rows` the number of rows to draw from each urn.

    The t-th draw of an urn picks one of its first balls or one of the t balls added since, each in
    proportion to its size. Picking an added ball copies the draw that added it. So each draw is one
    uniform number below a bound, and copies of copies are followed at the end.
    """
    urns = np.repeat(np.arange(len(rows)), rows)
    starts = np.concatenate([[0], np.cumsum(rows)])[:-1]
    before = np.arange(len(urns)) - starts[urns]
    values = counts.shape[1]
    prior = values * priors  # of all values together
    first = prior + counts.sum(axis=1) * GRID
    drawn = below(source, first[urns] + before * GRID)
    copied = drawn >= first[urns]
    chosen = np.zeros(len(urns), np.int64)
    from_prior = drawn < prior[urns]
    chosen[from_prior] = drawn[from_prior] // priors[urns[from_prior]]
    person = ~copied & ~from_prior
    chosen[person] = _find_values(
        counts, urns[person], (drawn[person] - prior[urns[person]]) // GRID
    )
    origin = np.arange(len(urns))
    added = (drawn[copied] - first[urns[copied]]) // GRID
    origin[copied] = starts[urns[copied]] + added
    while not np.array_equal(origin, further := origin[origin]):
        origin = further
    return urns, chosen[origin]


def _find_values(counts: npt.NDArray[np.int64], urns: Integers, numbers: Integers) -> Integers:
    """Return the values of people: person `numbers[k]` of urn `urns[k]`, in the order of values."""
    ends = np.cumsum(counts.reshape(-1))
    before = np.concatenate([[0], ends])[urns * counts.shape[1]]
    places: Integers = np.searchsorted(ends, before + numbers, side="right").astype(np.int64)
    values: Integers = places - urns * counts.shape[1]
    return values


def below(source: Keystream, bounds: Integers) -> Integers:
    """Return a uniform whole number from 0 to bound - 1 for each of the bounds, all below 2^63.

    As many bits are read as the bound needs; a number that is too large is drawn again.
    """
    masks = (bounds - 1).astype(np.uint64)
    for shift in _SHIFTS:
        masks |= masks >> np.uint64(shift)
    out = np.empty(len(bounds), np.int64)
    left = np.arange(len(bounds))
    while len(left):
        out[left] = (source.words(len(left)) & masks[left]).astype(np.int64)
        left = left[out[left] >= bounds[left]]
    return out
