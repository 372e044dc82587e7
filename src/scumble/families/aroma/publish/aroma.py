"""Aroma: every row shows k values, the true one among draws from a public pool; and the pool as its
owner writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scumble.families.aroma.design import LARGEST_K, MOST_VALUES, acceptance, profile_together
from scumble.families.aroma.publish import guarantee as aroma_guarantee
from scumble.families.aroma.publish.guarantee import again_in_paper, k_for
from scumble.families.aroma.publish.views import (
    delete,
    insert,
    shown_attributes,
    write,
    write_levels,
)
from scumble.model import parameters
from scumble.model.errors import ParameterError, SchemaError, named, setting
from scumble.model.evidence.channels import PoolLaw
from scumble.model.evidence.evidence import Evidence, Records
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import (
    Guarantee,
    exposure_at_most,
    read_epsilon,
    read_positive,
    read_share,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.model.stored import write_exact
from scumble.private.mechanism import Layout, Publisher
from scumble.private.mechanism_metadata import SECRET_VALUES, Claim, ComparisonPreset
from scumble.private.perturbation.guarantees import drawn_error, outlook_drawn, tenth
from scumble.private.perturbation.multisets import multiset_channels
from scumble.private.publish_options import DEFAULTS, PublishOptions

if TYPE_CHECKING:
    from scumble.private.ledger.ledger import Ledger
    from scumble.private.owner import OwnedRelease
    from scumble.private.sampling.source import Keystream
    from scumble.private.tables.rows import Rows


# The pool that Aroma draws from: public weights of all values, as the owner gives them.

UNIFORM = "uniform"
_LIGHTEST = Fraction(1, 10**6)  # of the mean weight
_ALLOWED = "'uniform', a list of weights, or a table of weights by value"
_OWN = "'uniform' or, for sensitive attributes each by itself, a table with a pool for each by name"


class WrittenPool:
    """Weights in the order of the domain, or by value (as text; "" is a missing value)."""

    def __init__(self, pool: object) -> None:
        self.given: Any = pool
        self._list: list[Fraction] | None = None
        self._table: dict[str, Fraction] | None = None
        if isinstance(pool, Mapping):
            self.given = {
                _format_value(value): _make_plain(weight) for value, weight in pool.items()
            }
            self._table = {
                _format_value(value): _read_weight(weight) for value, weight in pool.items()
            }
        elif isinstance(pool, Sequence) and not isinstance(pool, (str, bytes)):
            self.given = [_make_plain(weight) for weight in pool]
            self._list = [_read_weight(weight) for weight in pool]
        elif pool != UNIFORM:
            raise ParameterError.of("Aroma", "pool", _ALLOWED, pool)

    def weights(self, attributes: Sequence[Attribute]) -> list[Fraction]:
        """Return the weight of every value, or for several attributes of every combination, the
        last attribute changing fastest.
        """
        size = math.prod(attribute.size for attribute in attributes)
        if self._table is not None:
            weights = self._read_by_value(attributes)
        else:
            weights = [Fraction(1)] * size if self._list is None else self._list
        names = ", ".join(f"'{attribute.name}'" for attribute in attributes)
        if len(weights) != size:
            allowed = f"{size} weights, one for each value of {names}"
            raise ParameterError.of("Aroma", "pool", allowed, f"{len(weights)} weights")
        if min(weights) * size < sum(weights) * _LIGHTEST:
            raise ParameterError(
                f"The pool of Aroma must give every value of {names} at least a millionth of the "
                "mean weight: a value that is hardly ever drawn would betray who has it."
            )
        return weights

    def _read_by_value(self, attributes: Sequence[Attribute]) -> list[Fraction]:
        table = self._table or {}
        labels = [map(_format_value, attribute.labels().to_pylist()) for attribute in attributes]
        values = [", ".join(cell) for cell in product(*labels)]
        names = ", ".join(f"'{attribute.name}'" for attribute in attributes)
        missing = [value for value in values if value not in table]
        if missing:
            raise ParameterError(
                f"The pool of Aroma must have a weight for every value of {names}; it has none "
                f"for {missing[0]!r}."
            )
        unknown = [value for value in table if value not in set(values)]
        if unknown:
            raise ParameterError(
                f"The pool of Aroma has a weight for {unknown[0]!r}, which is no value of {names}."
            )
        return [table[value] for value in values]


class OwnPools:
    """A pool of each sensitive attribute by itself, by its name."""

    def __init__(self, pool: object) -> None:
        self._pools: dict[str, WrittenPool] | None = None
        self.given: Any = UNIFORM
        if isinstance(pool, Mapping):
            self._pools = {str(name): WrittenPool(own) for name, own in pool.items()}
            self.given = {name: own.given for name, own in self._pools.items()}
        elif pool != UNIFORM:
            raise ParameterError.of("Aroma", "pool", _OWN, pool)

    def weights(self, attributes: Sequence[Attribute]) -> list[list[Fraction]]:
        """Return the weights of all values of each attribute."""
        names = [attribute.name for attribute in attributes]
        pools = dict.fromkeys(names, WrittenPool(UNIFORM)) if self._pools is None else self._pools
        if set(pools) != set(names):
            allowed = f"{_OWN}: {', '.join(names)}"
            raise ParameterError.of("Aroma", "pool", allowed, f"one of {', '.join(pools)}")
        return [pools[attribute.name].weights([attribute]) for attribute in attributes]


def whole_weights(weights: Sequence[Fraction]) -> tuple[int, ...]:
    """Return the smallest whole numbers with the same proportions."""
    scale = math.lcm(*(weight.denominator for weight in weights))
    numbers = [int(weight * scale) for weight in weights]
    common = math.gcd(*numbers)
    return tuple(number // common for number in numbers)


def _read_weight(given: object) -> Fraction:
    return read_positive("Aroma", "pool", given)


def _make_plain(weight: Any) -> Any:
    return weight if isinstance(weight, (int, float)) else write_exact(weight)


def _format_value(value: object) -> str:
    return "" if value is None else str(value)


LEAST_ACCEPTED = 0.001
# Different weights in a pool, and times k: the exact figures of more would take too long.
MOST_WEIGHTS, MOST_TERMS = 128, 20_000


class Aroma(Publisher):
    """Publishes every row with k values in place of its sensitive one: the true value and k − 1
    draws from a public pool, their order forgotten. All other columns are published as they are.

    Give `k`, or `epsilon` with `f` for the least k that meets the paper's condition for one count
    (`k_for`). The `pool` is "uniform", a list of weights in the order of the domain, or a table of
    weights by value: a public prior, which must not come from the private table. Several sensitive
    attributes are one compound value, or with `joint=False` each has k values of its own, and the
    `pool` may be a table with a pool for each by name. `closeness` N, in the unit of the weights,
    draws again while some value is in a multiset more often than k times its weight over N.
    `identifier` names a column whose values tell records apart; the release can then be updated
    with its private record (`update_record`), and a record that comes back with the same value
    shows the same multiset. `publish_levels(levels=[k1, k2])` makes nested views, `k` the largest
    of them: a reader of two or more knows no more than the one with the smallest k tells. In the
    file, columns such as "job=cook" say how often a value is in the multiset, unless the codes of
    its members, ascending in "job 1" to "job k", take less space.

    Parameters:
        k: values per row.
        epsilon: Privacy loss of one person.
        f: share of the values that a count asks about; goes with `epsilon`.
        pool: uniform, or public weights of the values.
        closeness: draw again until the values of a row are as close to the pool as n = this number
            of members of it are.
        identifier: identifier of a record, for updates; needs `update_record`.
        joint: k values of several sensitive columns as one value (the default), or of
            each.

    Promises: an (ε, δ)-LDP profile of the sensitive values of a row, p-exposure and, with
        `closeness`, (n, 0)-closeness. Proof: a multiset c has probability c_x W(c)/E_x if x is the
        true value, W the multinomial law of k draws cut at the caps and E_x its mean count of x;
        δ(ε) and the best guess are finite sums of that, computed exactly and rounded up. The true
        value is always shown, so that a value not shown is excluded for certain: the view is not
        ε-DP for any ε. With `joint=False` the same is stated for each attribute, and for all
        together: multisets are independent, so that their losses ln P(c|x) − ln P(c|y) add up, on
        a grid and rounded so that no δ is smaller, and the successes of guesses multiply.
    Estimate: w = c_A − (k−1)P(A) for a row whose multiset has c_A members in A, or with `closeness`
        the weights that invert the exact means of multisets drawn again; unbiased for counts and
        sums, with variance (k−1)P(A)(1−P(A)) a row; averages by Fieller's theorem. Where a group
        has enough rows (some hundreds for a count at k = 5, thousands at k = 20), there are 100
        rows for each value, and there is no `closeness`, rows are read by posterior probabilities
        instead, with shares learned from other rows: unbiased, with a known variance. Of 20,000
        rows and 11 values, one of which has 82 %, the standard error is 1.00 to 1.05 times the
        least that any unbiased weights of the same multisets have (k = 5, 10, 20), and 1.00 for
        equal shares; without it 2.1, 1.8, 1.5. With `joint=False` a row has the weight
        Σ W[u, v] a_u b_v for multisets that have u and v a_u and b_v times, unbiased with a known
        variance for any condition on several attributes; rows are not read by posterior
        probabilities.
    Reference: Aroma in "Aroma: a new data protection method with differential privacy and accurate
        query answering" (CIKM 2014); closeness: its Theorem 4.1; `k_for`: its Theorem 4.4.
    Differs: the paper claims ε-DP from a normal approximation of one count; the view has none, and
        what is promised here is what its multisets really tell. Resampling is in the estimator,
        which has no systematic error. A record that comes back with another value gets an
        independent multiset: draws shared by two multisets would show which member changed. Levels
        go without `closeness`, since drawing again until all views comply would change the law of
        each. The paper has one sensitive attribute; `joint=False` goes without `closeness` and
        `identifier`.
    """

    name = "aroma"
    k_for = staticmethod(k_for)

    def __init__(
        self,
        *,
        k: int | None = None,
        epsilon: float | None = None,
        f: float | None = None,
        pool: str | Sequence[float] | Mapping[Any, float] = UNIFORM,
        closeness: float | None = None,
        identifier: str | None = None,
        joint: bool = True,
    ) -> None:
        given = {"k": k, "epsilon": epsilon, "f": f}
        self._given = parameters.one_of("Aroma", given, "k", "epsilon with f")
        self._count: tuple[Fraction, Fraction] | None = None
        if "k" in self._given:
            self.k = parameters.whole("Aroma", "k", k, least=2, most=LARGEST_K)
        else:
            self._count = read_epsilon("Aroma", epsilon), read_share("Aroma", "f", f)
            self.k = k_for(*self._count)
            if self.k > LARGEST_K:
                allowed = f"such that k is at most {LARGEST_K}; ask for more, or for a larger f"
                raise ParameterError.of("Aroma", "epsilon", allowed, epsilon)
        if not parameters.flag("Aroma", "joint", joint) and (
            closeness is not None or identifier is not None
        ):
            raise ParameterError(
                f"Aroma with {setting('joint', False)} goes without {named('closeness')}, which "
                f"is in the unit of one pool, and without {named('identifier')}: a record that "
                "comes back would have to keep one of its multisets and change another."
            )
        self._pool = WrittenPool(pool) if joint else OwnPools(pool)
        self._closeness = (
            None if closeness is None else read_positive("Aroma", "closeness", closeness)
        )
        if identifier is not None and not isinstance(identifier, str):
            raise ParameterError.of("Aroma", "identifier", "the name of a column", identifier)
        self._written = {"closeness": closeness, "identifier": identifier}
        self._identifier, self._joint = identifier, joint

    @property
    def parameters(self) -> dict[str, Any]:
        written = {name: value for name, value in self._written.items() if value is not None}
        apart = {} if self._joint else {"joint": False}
        plain = parameters.plain({**self._given, **written, **apart})
        return {**plain, "pool": self._pool.given}

    @property
    def private_record(self) -> bool:
        return self._identifier is not None

    @property
    def names_people(self) -> bool:
        return self._identifier is not None

    def check(self, schema: Schema) -> None:
        parameters.require_sensitive("Aroma", schema)
        parts = self._list_parts(schema)
        largest = max(parts, key=schema.size)
        if (size := schema.size(largest)) > MOST_VALUES:
            have = "has" if len(largest) == 1 else "together have"
            raise SchemaError(
                f"Aroma hides one of at most {MOST_VALUES} values, and {' and '.join(largest)} "
                f"{have} {size}. Use coarser values, or Uniform."
            )
        if self._identifier is not None and schema[self._identifier].role != "identifier":
            raise SchemaError(
                f"Attribute '{self._identifier}' must be an identifier to tell records apart."
            )
        laws = self.laws(schema)
        different = max(len(set(law.weights)) for law in laws)
        if different > (most := min(MOST_WEIGHTS, MOST_TERMS // self.k)):
            allowed = f"of at most {most} different weights for k = {self.k}; round them"
            raise ParameterError.of("Aroma", "pool", allowed, f"{different} of them")
        self._check_closeness(laws[0], schema)

    def _check_closeness(self, law: PoolLaw, schema: Schema) -> None:
        if law.caps is None or self._closeness is None:
            return
        given = self._written["closeness"]
        total = sum(self._find_weights(schema)[0])
        if self._closeness > total:
            allowed = f"at most the sum of all weights ({float(total):g})"
            raise ParameterError.of("Aroma", "closeness", allowed, given)
        if min(law.caps) < 1:
            allowed = "at most k times the smallest weight: some value could never be shown"
            raise ParameterError.of("Aroma", "closeness", allowed, given)
        accepted = acceptance(law) if sum(law.caps) >= law.size else 0.0
        if accepted < LEAST_ACCEPTED or np.linalg.cond(law.means()) > 1e9:
            allowed = "smaller, or k larger: hardly any multiset is that close; those tell nothing"
            raise ParameterError.of("Aroma", "closeness", allowed, given)

    def _list_parts(self, schema: Schema) -> list[tuple[str, ...]]:
        """Return the attributes of each multiset of a row."""
        names = tuple(attribute.name for attribute in schema.sensitive)
        return [names] if self._joint else [(name,) for name in names]

    def _find_weights(self, schema: Schema) -> list[list[Fraction]]:
        """Return the weights of the pool of each multiset of a row."""
        if isinstance(self._pool, OwnPools):
            return self._pool.weights(schema.sensitive)
        return [self._pool.weights(schema.sensitive)]

    def laws(self, schema: Schema) -> tuple[PoolLaw, ...]:
        """Return the public laws of the multisets of a row, which are all that an estimator needs:
        one, or one for each sensitive attribute.
        """
        return tuple(map(self._make_law, self._find_weights(schema)))

    def _make_law(self, weights: Sequence[Fraction]) -> PoolLaw:
        caps = self._compute_caps(weights)
        if caps is None or min(caps) >= self.k:  # no multiset can have more
            return PoolLaw(whole_weights(weights), self.k)
        cut = tuple(min(self.k, int(cap)) for cap in caps)
        return PoolLaw(whole_weights(weights), self.k, cut)

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        if self._pool.given != UNIFORM or self._closeness is not None:
            return ()  # the error depends on the value
        parts = self._list_parts(schema)
        return tuple(outlook_drawn(names, self.k - 1, 1 / schema.size(names)) for names in parts)

    def expected_error(self, schema: Schema, rows: int) -> float:
        """That of values whose draws from the pool come as often as those of a tenth of them."""
        sizes = map(schema.size, self._list_parts(schema))
        return max(drawn_error(rows, self.k - 1, tenth(values)) for values in sizes)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        return ()  # there is no ε, and the profile takes time to compute

    def _compute_caps(self, weights: Sequence[Fraction]) -> list[Fraction] | None:
        if self._closeness is None:
            return None
        return [self.k * weight / self._closeness for weight in weights]

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        laws, names = self.laws(schema), [attribute.name for attribute in schema.sensitive]
        whole, limits = " and ".join(names), aroma_guarantee.LIMITS
        if len(names) > 1:
            more = aroma_guarantee.COMBINED if len(laws) == 1 else aroma_guarantee.CORRELATED
            limits = (more.format(whole), *limits)
        if self._pool.given != UNIFORM:
            limits += (aroma_guarantee.PRIOR,)
        if self._identifier is not None:
            limits += (aroma_guarantee.UPDATED,)
        promises = [
            aroma_guarantee.local_profile(laws, whole, limits),
            aroma_guarantee.promise_exposure(laws, whole, limits),
        ]
        if len(laws) > 1:
            for number, (law, name) in enumerate(zip(laws, names, strict=True), start=1):
                promises.append(aroma_guarantee.local_profile((law,), name, limits, number))
                promises.append(aroma_guarantee.promise_exposure((law,), name, limits, number))
        if self._closeness is not None:
            total = sum(self._find_weights(schema)[0], Fraction(0))
            promises.append(aroma_guarantee.close(self._closeness, total, whole, limits))
        if self._count is not None:
            promises.append(aroma_guarantee.per_count(*self._count, self.k, limits))
        return tuple(promises)

    def profile(self, schema: Schema, epsilon: float) -> float:
        """Return the least δ for which the sensitive values of a row have (ε, δ)-LDP; an upper
        bound of it for several multisets.
        """
        asked = float(read_epsilon("Aroma.profile", epsilon))
        return profile_together(self.laws(schema), (asked,))[0]

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        laws = self.laws(schema)
        report: dict[str, Any] = {
            "values per row": sum(law.size for law in laws),
            "bits per row, packed": sum(map(_count_packed_bits, laws)),
        }
        caps = self._compute_caps(self._find_weights(schema)[0])
        if caps is not None:
            [law] = laws
            report["share drawn again, at most"] = 1 - acceptance(law)
            floats = [float(cap) for cap in caps]
            report["the paper's bound on it"] = again_in_paper(law.weights, law.size, floats)
        return report

    # The modules that read and write rows are slow to import; checking parameters needs none.

    def layout(self, schema: Schema) -> Layout:
        channels = multiset_channels(schema, *self.laws(schema))
        return {"records.parquet": shown_attributes(schema, *channels)}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Records:
        return write(self.laws(rows.schema), rows, self._identifier, noise, folder)

    def publish_levels(
        self,
        source: Any,
        schema: Schema | str | Path,
        *,
        levels: Sequence[int],
        options: PublishOptions = DEFAULTS,
        ledger: Ledger | str | Path | None = None,
    ) -> list[OwnedRelease]:
        """Publish one nested view for each k of `levels`, and return the releases, smallest k
        first.

        Every multiset lies inside that of the next larger k, so that readers who put their views
        together know no more than the smallest k among them tells. The largest level must be `k` of
        this mechanism. The other parameters are those of `publish`.
        """
        from scumble.private.publish import publish_views

        views = self._make_views(levels)

        def perturb(
            rows: Rows, noise: Keystream, folders: Mapping[int, Path]
        ) -> dict[int, Records]:
            laws = {level: view.laws(rows.schema) for level, view in views.items()}
            return write_levels(laws, rows, noise, folders)

        return publish_views(source, schema, views, perturb, options, ledger)

    def _make_views(self, levels: Sequence[int]) -> dict[int, Aroma]:
        """Return the mechanism of each level, smallest k first."""
        if isinstance(levels, (str, bytes)) or not isinstance(levels, Sequence) or not levels:
            raise ParameterError.of("publish", "levels", "a list of different k", levels)
        known = sorted(parameters.whole("Aroma", "levels", level, 2, LARGEST_K) for level in levels)
        if len(set(known)) < len(known):
            raise ParameterError.of("publish", "levels", "a list of different k", list(levels))
        if self._count is not None:
            raise ParameterError(
                f"Levels of Aroma are a list of k: give the largest as {named('k')}, and no "
                f"{named('epsilon')} and {named('f')}."
            )
        if known[-1] != self.k:
            allowed = f"the largest of the levels ({known[-1]})"
            raise ParameterError.of("Aroma", "k", allowed, self.k)
        if self._closeness is not None or self._identifier is not None:
            raise ParameterError(
                f"Levels of Aroma go without {named('closeness')} and without "
                f"{named('identifier')}: views that are drawn again together would not follow "
                "the law of any of them, and a private record keeps one multiset."
            )
        common: dict[str, Any] = {"pool": self._pool.given, "joint": self._joint}
        return {level: Aroma(k=level, **common) for level in known}

    def insert(
        self,
        evidence: Records,
        published: Path,
        rows: Rows,
        noise: Keystream,
        update_record: Path,
        folder: Path,
    ) -> Records:
        """Write the release with further records into `folder`. `update_record` is the private
        record. A record that was published before with the same value shows the same multiset.
        """
        person = self._require_identifier()
        return insert(evidence, published, rows, person, noise, update_record, folder)

    def delete(
        self,
        evidence: Records,
        published: Path,
        ids: Iterable[Any],
        update_record: Path,
        folder: Path,
    ) -> Records:
        """Write the release without the records `ids` into `folder`. Their multisets stay in the
        private record `update_record`.
        """
        self._require_identifier()
        return delete(evidence, published, ids, update_record, folder)

    def for_unit(self, unit: Unit) -> Aroma:
        if self._identifier is not None and unit.person not in (None, self._identifier):
            raise ParameterError(
                f"Records are updated by {setting('identifier', self._identifier)}, and the schema "
                f"names people by '{unit.person}': whether inserted records keep its most_rows "
                "could not be checked. Name the same column in both."
            )
        return self

    def _require_identifier(self) -> str:
        if self._identifier is None:
            raise ParameterError(
                f"This release cannot be updated: it was made without an {named('identifier')}."
            )
        return self._identifier

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        """Return the least k with no more exposure than ε allows."""
        allowed = exposure_at_most(epsilon, study.values)
        least = aroma_guarantee.least_k(
            lambda k: cls(k=k).laws(study.schema)[0], allowed, LARGEST_K
        )
        return {"k": LARGEST_K if least is None else least}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        secret = Attribute("secret", "sensitive", IntegerRange(0, SECRET_VALUES - 1))
        [profile, *_] = cls(k=20).guarantee(Schema((secret,)))
        yield Claim(cls(k=20), 0.5, profile.parameters["delta at epsilon 0.5"])


def _count_packed_bits(law: PoolLaw) -> int:
    """Return the bits of a multiset in a packed row: as counts, or as codes if those take fewer."""
    counts = law.values * law.size.bit_length()
    return min(counts, law.size * (law.values - 1).bit_length())
