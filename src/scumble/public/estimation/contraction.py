"""Sums of products of tensors over shared axes, exact for whole numbers of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError

Array = npt.NDArray[Any]
Axis = str | int

LARGEST = 10**8  # cells of an intermediate tensor
COSTLIEST = 10**12  # multiplications
_WHOLE = 1 << 53  # whole numbers below are exact in float64


@dataclass(frozen=True, eq=False)
class Factor:
    """A tensor over some axes, made when it is needed, and what it stands for."""

    axes: tuple[Axis, ...]
    values: Callable[[], Array]
    name: str = ""

    def without(self, axes: Container[Axis]) -> Factor:
        """Summed over some axes."""
        gone = tuple(place for place, axis in enumerate(self.axes) if axis in axes)
        if not gone:
            return self
        left = tuple(axis for axis in self.axes if axis not in axes)
        return Factor(left, lambda: np.asarray(self.values().sum(axis=gone)), self.name)


@dataclass(frozen=True, eq=False)
class Network:
    """Factors to be multiplied, summed over every axis but those of `output`."""

    factors: Sequence[Factor]
    sizes: Mapping[Axis, int]
    output: tuple[Axis, ...] = ()

    def whole(self) -> Array:
        """The sums, for factors of whole numbers: Python integers without any rounding."""
        return self._product(_contract_whole, object)

    def real(self) -> Array:
        """The sums as float64."""
        return self._product(_contract_real, np.float64)

    def _product(self, contract: Callable[[Network], Array], kind: Any) -> Array:
        """Parts that share no summed axis are independent: their sums are multiplied."""
        parts = list(self._parts())
        for part in parts:
            part.refuse_large()
        total: Array = np.ones((1,) * len(self.output), kind)
        for part in parts:
            shape = [self.sizes[axis] if axis in part.output else 1 for axis in self.output]
            # Without asarray, numpy would turn an array of no axes into a plain number.
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
            # opt_einsum takes tensors in pairs, and would carry an axis of one along with another.
            own = {axis for axis in named if named[axis] == 1}.difference(output)
            yield Network([each.without(own) for each in chosen], self.sizes, output)

    def refuse_large(self) -> None:
        """Complain, before anything is evaluated, if the sum needs too much memory or time."""
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
        """How to contract pair by pair, and what it costs."""
        import opt_einsum

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


def _contract_whole(network: Network) -> Array:
    """In floats while no sum can reach 2^53; else in the residues of enough primes, so small that
    no step rounds, from which the Chinese remainder theorem gives the number back.
    """
    values = [each.values() for each in network.factors]
    summed = {axis for each in network.factors for axis in each.axes}.difference(network.output)
    largest = [max(int(np.abs(each).max(initial=1)), 1) for each in values]
    bound = prod(network.sizes[axis] for axis in summed) * prod(largest)
    if bound < _WHOLE:
        floats = _run(network, [each.astype(np.float64) for each in values])
        return np.rint(floats).astype(np.int64).astype(object)
    longest = max(_summed_in_step(network))
    total: Array = np.zeros([network.sizes[axis] for axis in network.output], object)
    modulus = 1
    for prime in _primes_below(isqrt((_WHOLE - 1) // longest)):
        residues = [np.mod(each, float(prime)) for each in values]
        found = _run(network, residues, prime).astype(np.int64).astype(object)
        total = total + modulus * ((found - total) * pow(modulus, -1, prime) % prime)
        modulus *= prime
        if modulus > 2 * bound:
            above = np.asarray(total > bound).astype(object)  # residues of negative numbers
            return np.asarray(total - above * modulus, object)
    raise QueryError("The condition has too many solutions to be counted.")


def _run(network: Network, values: list[Array], prime: int | None = None) -> Array:
    """The contraction, step by step; modulo a prime if there is one."""
    if len(values) == 1:
        order = [network.factors[0].axes.index(axis) for axis in network.output]
        return np.asarray(values[0]).transpose(order)
    import opt_einsum

    for places, _, subscripts, *_ in network.plan.contraction_list:
        chosen = [values.pop(place) for place in places]
        values.append(_reduced(opt_einsum.contract(subscripts, *chosen), prime))
    return np.asarray(values[0])


def _reduced(values: Any, prime: int | None) -> Any:
    return values if prime is None else np.mod(values, float(prime))


def _summed_in_step(network: Network) -> Iterable[int]:
    """How many products each step adds up for one cell."""
    if len(network.factors) == 1:
        return [1]
    plan = network.plan
    sizes = plan.size_dict
    return [prod(sizes[s] for s in removed) for _, removed, *_ in plan.contraction_list]


def _primes_below(top: int) -> Iterator[int]:
    """Primes, the largest first."""
    for number in range(top, 1, -1):
        if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            yield number
