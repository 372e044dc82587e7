"""Model counting over a product of domains by tensor contraction, without enumerating it.

A condition is a conjunction of clauses. Each becomes a tensor over the domains of the attributes
that it names. The number of tuples that satisfy all clauses is the sum of the product of these
tensors, times the sizes of the attributes that no clause names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import isqrt, prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import opt_einsum
import pyarrow as pa

from scumble.model.cache import Cache
from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.cells import CELL_LIMIT
from scumble.public.sandbox import Sandbox
from scumble.public.sql.conditions import split

Array = npt.NDArray[Any]
AttributeWeights = Mapping[str, Sequence[Fraction]]

SPLIT = 1 << 20  # cells beyond which a clause is split at its ORs and ANDs, if it has any
_SMALL = 1 << 10  # cells of a clause that is evaluated together with others
MOST_GROUPS = 10**6


class Domain:
    """All tuples over the published attributes of an engine's schema."""

    def __init__(
        self, engine: Sandbox, *, split_beyond: int = SPLIT, truths: Truths | None = None
    ) -> None:
        self._engine = engine
        self._split_beyond = split_beyond
        self._sizes = {a.name: a.size for a in engine.schema.published}
        self._truths = Truths() if truths is None else truths
        self._last: tuple[Any, Array] | None = None  # the last amounts, with their expression

    @cached_property
    def size(self) -> int:
        """The number of tuples."""
        return prod(self._sizes.values())

    def count(self, clauses: Sequence[Expression], groups: Sequence[str] = ()) -> Array:
        """Return the number of tuples that satisfy all clauses, by group.

        Groups are the combinations of values of the attributes `groups`. The numbers are Python
        integers, exact whatever their size.
        """
        network = self._network(clauses, groups)
        return np.asarray(network.integers() * self._unnamed(network), object)

    def sum(
        self,
        clauses: Sequence[Expression],
        groups: Sequence[str] = (),
        *,
        amount: Expression | None = None,
        power: int = 1,
        weights: AttributeWeights | None = None,
        scale: Fraction | int = 1,
    ) -> Array:
        """Return the sum of `scale` · amount^power · Π weights[a](t[a]), by group.

        The sum is over the tuples t that satisfy all clauses.
        """
        weights = weights or {}
        more = []
        named = {*groups}.union(*(clause.attributes for clause in clauses))
        if amount is not None:
            named.update(amount.attributes)
            more.append(Factor(amount.attributes, lambda: self.amounts(amount, clauses) ** power))
        for name in [name for name in weights if name in named]:
            shares = np.array([float(weight) for weight in weights[name]])
            more.append(Factor((name,), _constant(shares)))
        network = self._network(clauses, groups, more)
        others = [Fraction(sum(weights[name])) for name in weights if name not in named]
        rest = self._unnamed(network, weights) * prod(others, start=Fraction(scale))
        return np.asarray(network.real() * float(rest))

    def amounts(self, amount: Expression, clauses: Sequence[Expression]) -> Array:
        """Return `amount` over the domains of its attributes.

        It must be finite where the clauses hold.
        """
        self._refuse(amount, self._cells(amount.attributes))
        key, last = (amount, tuple(clauses)), self._last
        if last is None or last[0] != key:
            self._last = last = key, self._evaluated(amount, clauses)
        return last[1]

    def _evaluated(self, amount: Expression, clauses: Sequence[Expression]) -> Array:
        names, near = _own(amount, clauses)
        try:
            *_, found = self._engine.evaluate([*near, amount], names)
        except QueryError:  # clauses that reach it through others may exclude where it is infinite
            names, near = self._linked(names, near, clauses)
            *_, found = self._engine.evaluate([*near, amount], names)
        wide = found.reshape([self._sizes[name] for name in names])
        chosen = tuple(slice(None) if name in amount.attributes else 0 for name in names)
        return np.asarray(wide[chosen], np.float64)

    def _linked(
        self, names: tuple[str, ...], near: list[Expression], clauses: Sequence[Expression]
    ) -> tuple[tuple[str, ...], list[Expression]]:
        """Return `names` and `near` with the clauses that are connected to them by attributes.

        Clauses that share an attribute are added, then those that share one with these, and so on,
        as long as all can be evaluated together.
        """
        left = [clause for clause in clauses if clause not in near]
        grown = True
        while grown:
            grown = False
            for clause in list(left):
                wider = tuple(sorted({*names, *clause.attributes}))
                if set(names).isdisjoint(clause.attributes) or self._cells(wider) > SPLIT:
                    continue
                names, near, grown = wider, [*near, clause], True
                left.remove(clause)
        return names, near

    def limits(self, amount: Expression, clauses: Sequence[Expression]) -> tuple[float, float]:
        """Return the least and the largest value of `amount` where all clauses hold.

        If the clauses tie too many attributes together, only those on its own attributes are used.
        """
        found = self.amounts(amount, clauses)
        try:
            possible = (self.count(clauses, amount.attributes) > 0).astype(bool)
        except QueryError:
            names, near = _own(amount, clauses)
            truths = self._engine.holds(near, names)
            possible = np.logical_and.reduce([np.ones(found.size, bool), *truths])
        some = found.reshape(-1)[possible.reshape(-1)]
        return float(some.min(initial=np.inf)), float(some.max(initial=-np.inf))

    def _network(
        self, clauses: Sequence[Expression], groups: Sequence[str], more: Sequence[Factor] = ()
    ) -> Network:
        if self._cells(groups) > MOST_GROUPS:
            raise QueryError(
                f"GROUP BY {', '.join(groups)} makes {self._cells(groups)} groups, each with an "
                f"answer; at most {MOST_GROUPS} are possible. Group by fewer attributes."
            )
        self._evaluate_small(clauses)
        switches = count()
        factors = [f for clause in dict.fromkeys(clauses) for f in self._factors(clause, switches)]
        sizes: dict[Axis, int] = dict.fromkeys(range(next(switches)), 2)
        sizes.update(self._sizes.items())
        return Network(_merged([*factors, *more]), sizes, tuple(groups))

    def _factors(
        self,
        clause: Expression,
        switches: Iterator[int],
        switch: int | None = None,
        negated: bool = False,
    ) -> Iterator[Factor]:
        """Yield factors whose product is the truth of a clause; with `negated`, 1 minus it.

        With a switch, this holds at its position 1, and at its position 0 the product is 1.

        A clause too large for one tensor is split. A conjunction has the factors of all parts. A
        disjunction is 1 - Π (1 - part): the sum of the two terms over a new switch, which all parts
        share. This is inclusion and exclusion, whose terms are left to the contraction.
        """
        parts = None
        if self._cells(clause.attributes) > self._split_beyond:
            parts = split(clause)
        if parts is None:
            yield self._leaf(clause, switch, negated)
            return
        inner = switch
        if (parts.of == "any") != negated:
            inner = next(switches)
            signs = np.array([1, -1]) if switch is None else np.array([[1, 0], [1, -1]])
            yield Factor((inner,) if switch is None else (switch, inner), _constant(signs))
        for part in parts.parts:
            yield from self._factors(part, switches, inner, parts.of == "any")

    def _leaf(self, clause: Expression, switch: int | None, negated: bool) -> Factor:
        self._refuse(clause, self._cells(clause.attributes))

        def values() -> Array:
            truth = self._truth(clause) != negated
            return truth if switch is None else np.stack([np.ones_like(truth), truth])

        axes: tuple[Axis, ...] = clause.attributes
        return Factor(axes if switch is None else (switch, *axes), values, clause.sql)

    def _truth(self, clause: Expression) -> Array:
        """Return where a clause is true, over the domains of its attributes; cached."""
        truth = self._truths.get(clause)
        if truth is None:
            [flat] = self._engine.holds([clause], clause.attributes)
            truth = self._keep(clause, flat)
        return truth

    def _keep(self, clause: Expression, flat: Array) -> Array:
        truth = flat.reshape([self._sizes[name] for name in clause.attributes])
        self._truths.put(clause, truth, truth.size)
        return truth

    def _evaluate_small(self, clauses: Sequence[Expression]) -> None:
        """Evaluate new clauses of few cells in one call of the engine, since calls are expensive.

        The cells of one clause follow those of another. Attributes that a clause does not name have
        their first value there.
        """
        named = [clause for clause in dict.fromkeys(clauses) if clause.attributes]
        new = [clause for clause in named if self._truths.get(clause) is None]
        small = [clause for clause in new if self._cells(clause.attributes) <= _SMALL]
        if len(small) < 2:
            return
        ends = np.cumsum([self._cells(clause.attributes) for clause in small])
        names = sorted({name for clause in small for name in clause.attributes})
        codes = {name: np.zeros(ends[-1], self._engine.schema[name].code_type) for name in names}
        for clause, end in zip(small, ends, strict=True):
            shape = [self._sizes[name] for name in clause.attributes]
            block = slice(end - prod(shape), end)
            for name, column in zip(clause.attributes, np.indices(shape), strict=True):
                codes[name][block] = column.reshape(-1)
        schema = self._engine.schema
        frame = pa.table({name: schema[name].decode(each) for name, each in codes.items()})
        found = self._engine.evaluate(small, names, frame)
        for clause, flat, end in zip(small, found, ends, strict=True):
            if flat.dtype == bool:  # else its own evaluation raises an error
                self._keep(clause, flat[end - self._cells(clause.attributes) : end])

    def _refuse(self, part: Expression, size: int) -> None:
        if size > CELL_LIMIT:
            raise QueryError(
                f"{part.sql} would have to be evaluated for {size} combinations of values of "
                f"{', '.join(part.attributes)}; at most {CELL_LIMIT} are possible. "
                "Write it as parts that name fewer attributes, joined by AND or OR, or publish "
                "with coarser domains."
            )

    def _cells(self, names: Iterable[str]) -> int:
        return prod(self._sizes[name] for name in names)

    def _unnamed(self, network: Network, weights: AttributeWeights | None = None) -> int:
        """Return the number of combinations of the attributes in no factor, group or weight."""
        named = {axis for each in network.factors for axis in each.axes}
        named.update(network.output, weights or ())
        return prod(size for name, size in self._sizes.items() if name not in named)


# The truths are kept by engine, not the Domain: that refers to its engine, and would keep it alive.
_truths: WeakKeyDictionary[Sandbox, Truths] = WeakKeyDictionary()


def domain_of(engine: Sandbox) -> Domain:
    """Return the domain of an engine's schema; evaluated clauses are shared by all questions."""
    truths = _truths.get(engine)
    return Domain(engine, truths=_truths.setdefault(engine, Truths()) if truths is None else truths)


def _own(
    amount: Expression, clauses: Sequence[Expression]
) -> tuple[tuple[str, ...], list[Expression]]:
    """Return the attributes of `amount`, and the clauses that name no others."""
    named = set(amount.attributes)
    return amount.attributes, [clause for clause in clauses if named.issuperset(clause.attributes)]


def _merged(factors: Sequence[Factor]) -> list[Factor]:
    """Multiply factors over the same axes into one."""
    together: dict[tuple[Axis, ...], list[Factor]] = {}
    for factor in factors:
        together.setdefault(factor.axes, []).append(factor)
    return [_product(axes, same) if len(same) > 1 else same[0] for axes, same in together.items()]


def _product(axes: tuple[Axis, ...], factors: Sequence[Factor]) -> Factor:
    def values() -> Array:
        first, *others = (factor.values() for factor in factors)
        for other in others:
            first = first * other
        return first

    return Factor(axes, values, "; ".join(factor.name for factor in factors if factor.name))


def _constant(values: Array) -> Callable[[], Array]:
    return lambda: values


MOST = 1 << 27  # cells of cached truths


class Truths(Cache[Expression, npt.NDArray[Any]]):
    """A cache of where clauses are true over the domains of their attributes, by clause."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__(most)


# Tensor networks: sums of products of tensors over shared axes, exact for integers of any size.

Axis = str | int

LARGEST = 10**8  # cells of an intermediate tensor
COSTLIEST = 10**12  # multiplications
_EXACT = 1 << 53  # smaller integers are exact in float64


@dataclass(frozen=True, eq=False)
class Factor:
    """A tensor over some axes, made when it is needed; `name` is the SQL that it represents."""

    axes: tuple[Axis, ...]
    values: Callable[[], Array]
    name: str = ""

    def without(self, axes: Container[Axis]) -> Factor:
        """Return the factor summed over some axes."""
        gone = tuple(place for place, axis in enumerate(self.axes) if axis in axes)
        if not gone:
            return self
        left = tuple(axis for axis in self.axes if axis not in axes)
        return Factor(left, lambda: np.asarray(self.values().sum(axis=gone)), self.name)


@dataclass(frozen=True, eq=False)
class Network:
    """The product of factors, summed over every axis but those of `output`."""

    factors: Sequence[Factor]
    sizes: Mapping[Axis, int]
    output: tuple[Axis, ...] = ()

    def integers(self) -> Array:
        """Return the sums as exact Python integers, for factors of integers."""
        return self._product(_contract_integers, object)

    def real(self) -> Array:
        """Return the sums as float64."""
        return self._product(_contract_real, np.float64)

    def _product(self, contract: Callable[[Network], Array], kind: Any) -> Array:
        """Return the product of the sums of parts that share no summed axis."""
        parts = list(self._parts())
        for part in parts:
            part.refuse_large()
        total: Array = np.ones((1,) * len(self.output), kind)
        for part in parts:
            shape = [self.sizes[axis] if axis in part.output else 1 for axis in self.output]
            # Without asarray, numpy would turn an array without axes into a plain number.
            total = np.asarray(total * np.asarray(contract(part), kind).reshape(shape), kind)
        return np.broadcast_to(total, [self.sizes[axis] for axis in self.output])

    def _parts(self) -> Iterator[Network]:
        left = list(self.factors)
        while left:
            chosen, axes = [left.pop()], set[Axis]()
            grown = True
            while grown:
                axes = {axis for each in chosen for axis in each.axes}.difference(self.output)
                near = [each for each in left if not axes.isdisjoint(each.axes)]
                left = [each for each in left if axes.isdisjoint(each.axes)]
                chosen, grown = chosen + near, bool(near)
            named = Counter(axis for each in chosen for axis in each.axes)
            output = tuple(axis for axis in self.output if axis in named)
            # opt_einsum contracts pairs, and would carry an axis of a single tensor along.
            own = {axis for axis in named if named[axis] == 1}.difference(output)
            yield Network([each.without(own) for each in chosen], self.sizes, output)

    def refuse_large(self) -> None:
        """Raise an error before any evaluation if the sum needs too much memory or time."""
        if len(self.factors) == 1:
            return
        plan = self.plan
        if plan.largest_intermediate <= LARGEST and plan.opt_cost <= COSTLIEST:
            return
        names = dict.fromkeys(each.name for each in self.factors if each.name)
        raise QueryError(
            "These parts of the condition hang together by too many attributes: "
            f"{'; '.join(names)}. Counting their solutions would need tables of "
            f"{float(plan.largest_intermediate):.1e} cells. Leave out one of the parts, or ask "
            "with fewer attributes in each."
        )

    @cached_property
    def plan(self) -> Any:
        """The contraction path, pair by pair, with its costs."""
        symbols: dict[Axis, str] = {}
        for axis in (axis for each in self.factors for axis in each.axes):
            symbols.setdefault(axis, opt_einsum.get_symbol(len(symbols)))
        inputs = ",".join("".join(symbols[a] for a in each.axes) for each in self.factors)
        output = "".join(symbols[axis] for axis in self.output)
        shapes = [tuple(self.sizes[axis] for axis in each.axes) for each in self.factors]
        _, plan = opt_einsum.contract_path(
            f"{inputs}->{output}", *shapes, shapes=True, optimize="auto"
        )
        return plan


def _contract_real(network: Network) -> Array:
    return _run(network, [each.values().astype(np.float64) for each in network.factors])


def _contract_integers(network: Network) -> Array:
    """Contract exactly: in floats if no sum can reach 2^53, else modulo several primes.

    The primes are so small that no step rounds, and there are enough that the Chinese remainder
    theorem gives the number back.
    """
    values = [each.values() for each in network.factors]
    summed = {axis for each in network.factors for axis in each.axes}.difference(network.output)
    if len(values) == 1 and not summed and values[0].dtype.kind in "iu":  # nothing is left to do
        return _run(network, values).astype(object)
    largest = [max(int(np.abs(each).max(initial=1)), 1) for each in values]
    bound = prod(network.sizes[axis] for axis in summed) * prod(largest)
    if bound < _EXACT:
        floats = _run(network, [each.astype(np.float64) for each in values])
        return np.rint(floats).astype(np.int64).astype(object)
    longest = max(_summed_in_step(network))
    total: Array = np.zeros([network.sizes[axis] for axis in network.output], object)
    modulus = 1
    for prime in _primes_below(isqrt((_EXACT - 1) // longest)):
        residues = [np.mod(each, float(prime)) for each in values]
        found = _run(network, residues, prime).astype(np.int64).astype(object)
        total = total + modulus * ((found - total) * pow(modulus, -1, prime) % prime)
        modulus *= prime
        if modulus > 2 * bound:
            above = np.asarray(total > bound).astype(object)  # residues of negative numbers
            return np.asarray(total - above * modulus, object)
    raise QueryError("The condition has too many solutions to be counted.")


def _run(network: Network, values: list[Array], prime: int | None = None) -> Array:
    """Contract step by step; modulo `prime`, if it is given."""
    if len(values) == 1:
        order = [network.factors[0].axes.index(axis) for axis in network.output]
        return np.asarray(values[0]).transpose(order)
    for places, _, subscripts, *_ in network.plan.contraction_list:
        chosen = [values.pop(place) for place in places]
        values.append(_reduced(opt_einsum.contract(subscripts, *chosen), prime))
    return np.asarray(values[0])


def _reduced(values: Any, prime: int | None) -> Any:
    return values if prime is None else np.mod(values, float(prime))


def _summed_in_step(network: Network) -> Iterable[int]:
    """Return the number of products that each step adds up for one cell."""
    if len(network.factors) == 1:
        return [1]
    plan = network.plan
    sizes = plan.size_dict
    return [prod(sizes[s] for s in removed) for _, removed, *_ in plan.contraction_list]


def _primes_below(top: int) -> Iterator[int]:
    """Yield the primes up to `top`, the largest first."""
    for number in range(top, 1, -1):
        if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            yield number
