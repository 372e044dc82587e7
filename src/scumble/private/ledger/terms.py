"""The terms of an owner's ledger (its first entry), its limit, and the composition of losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from scumble.model import stored
from scumble.model.errors import LedgerError, ParameterError, named, setting
from scumble.model.parameters import whole
from scumble.model.privacy import accounting
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.privacy.guarantee import (
    at_least,
    at_most,
    gamma_above_epsilon,
    read_delta,
    read_epsilon,
    read_positive,
)
from scumble.private.journal.entries import check_word

KIND = "owner's ledger"
Relation = Literal["values", "replace", "add_remove"]


@dataclass(frozen=True)
class LedgerTerms:
    """The neighbouring relation and the limit of a ledger.

    Neighbouring tables differ in one person, who has at most `contribution` rows. With "values"
    only the columns in `sensitive` differ; with "replace" the content of the rows; with
    "add_remove" the person is in one table only. Without an ε nothing is refused, and the ledger
    only adds up; δ is then the one for which the total is stated. `pure` is the part of ε that is
    kept for releases without δ, if there will be both kinds. `parts` is a column whose values
    divide the people: a release of one part is charged to its people only.
    """

    name: str
    neighbours: Relation
    contribution: int = 1
    sensitive: tuple[str, ...] = ()
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    pure: Fraction = Fraction(0)
    parts: str | None = None

    @classmethod
    def read(
        cls,
        *,
        name: str,
        neighbours: str,
        contribution: int,
        sensitive: Sequence[str] | None,
        epsilon: object,
        delta: object,
        pure: object,
        parts: str | None,
    ) -> LedgerTerms:
        """Return the terms for these parameters, checked; raises `ParameterError`."""
        check_word("name", name)
        if neighbours not in get_args(Relation):
            allowed = "'values', 'replace' or 'add_remove'"
            raise ParameterError.of("Ledger", "neighbours", allowed, neighbours)
        names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive or ())
        if (neighbours == "values") != bool(names):
            raise ParameterError(
                "A ledger has a list of sensitive columns with "
                f"{setting('neighbours', 'values')}, and only then: with 'replace' and "
                "'add_remove' all columns are protected."
            )
        for each in names:
            check_word("sensitive", each)
        if parts is not None:
            _check_parts(parts, neighbours, contribution, names)
        most = None if epsilon is None else read_epsilon("Ledger", epsilon)
        return cls(
            name,
            neighbours,  # type: ignore[arg-type]  # it is one of them
            whole("Ledger", "contribution", contribution, least=1),
            tuple(sorted(set(names))),
            most,
            None if delta is None else read_delta("Ledger", delta),
            Fraction(0) if pure is None else _part(pure, most, delta),
            parts,
        )

    @property
    def limit(self) -> Limit | None:
        return None if self.epsilon is None else Limit(self.epsilon, self.delta, self.pure)

    def protects(self) -> str:
        """What is protected, as a clause."""
        rows = f" with up to {self.contribution} rows" if self.contribution > 1 else ""
        if self.neighbours == "values":
            return f"the {', '.join(self.sensitive)} of one person{rows}"
        if self.neighbours == "replace":
            return f"what the rows of one person{rows} say"
        return f"whether one person{rows} is in the table"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "name": self.name,
            "neighbours": self.neighbours,
            "contribution": self.contribution,
            "sensitive": list(self.sensitive),
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "delta": None if self.delta is None else str(self.delta),
            "pure": str(self.pure),
            "parts": self.parts,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], place: object) -> LedgerTerms:
        """Return the terms in the first entry of the journal at `place`, an owner's ledger."""
        if data.get("kind") != KIND:
            raise LedgerError(
                f"{place} is a statistical database, not an owner's ledger. Create "
                "one by `scumble ledger create`."
            )
        return cls(
            data["name"],
            data["neighbours"],
            data["contribution"],
            tuple(data["sensitive"]),
            None if data["epsilon"] is None else stored.fraction(data["epsilon"]),
            None if data["delta"] is None else stored.fraction(data["delta"]),
            stored.fraction(data["pure"]),
            data["parts"],
        )


def _check_parts(
    parts: str, neighbours: str, contribution: int, sensitive: tuple[str, ...]
) -> None:
    """Refuse parts if a person could be in several, or change between them."""
    check_word("parts", parts)
    if neighbours == "replace" or contribution != 1 or parts in sensitive:
        raise ParameterError(
            "A ledger has parts only where each person is in one of them, in neighbouring tables "
            f"too: with {setting('neighbours', 'add_remove')}, or 'values' and a column that is "
            "not sensitive, and one row for a person."
        )


def _part(pure: object, epsilon: Fraction | None, delta: object) -> Fraction:
    """Return the part of ε for releases without δ, checked."""
    if epsilon is None or delta is None:
        raise ParameterError(
            f"A ledger takes {named('pure')} as a part of {named('epsilon')}, together with a "
            f"{named('delta')}."
        )
    found = read_positive("Ledger", "pure", pure)
    if found >= epsilon:
        raise ParameterError.of("Ledger", "pure", f"below epsilon ({float(epsilon):g})", pure)
    return found


# --- the limit ------------------------------------------------------------------------------------

_GRID = 1 << 64  # a square root is rounded down to a multiple of its inverse
# A hundred times the rounding error of the floating-point numbers below. The rest is for up to a
# million releases whose noise is within a factor of e^(2^-80) of Gaussian noise (Marginals).
_SLACK = 1e-12
_ROUNDED = Fraction(1, 10**9)  # relative: an ε is rounded
_STEPS = 200
_CERTAIN = Fraction(999, 1000)  # a δ of this size or more protects nothing, and fits no limit


@dataclass(frozen=True)
class Limit:
    """A limit ε or (ε, δ). It holds also if each release is chosen after the ones before are seen.

    Without δ the sum of pure losses is at most ε. With δ this suffices as well; otherwise the Rényi
    divergences of one order α, fixed in advance, may add up to `capacity`. A pure release has a
    divergence of at most min(ε, αε²/2), and one with ρ-zCDP of at most αρ.

    Proof: let L be the loss of all releases, and ε that of the limit. The δ of all is the mean of
    max(0, 1 - e^(ε-L)), which is at most c·e^((α-1)(L-ε)) with c = (1-1/α)^α/(α-1) (Canonne,
    Kamath, Steinke, NeurIPS 2020, proposition 12). If all were pure and add up to at most ε, L is
    at most ε, and that is 0. Else their divergences D add up to at most `capacity`, which is so
    small that c·e^((α-1)(L-ε)) ≤ δ·e^((α-1)(L-D)); and e^((α-1)(L-D)) has a mean of at most 1
    however each release was chosen after the others (Rényi filter: Feldman, Zrnic, NeurIPS 2021).

    The order is the best one for Gaussian noise alone; if a part of ε is kept for `pure` releases,
    for Gaussian noise with the rest of ε.

    A ledger whose first release has normal noise, and which keeps no part for pure releases, takes
    releases with normal noise only: their ρ add up to at most that of (ε, δ) by the exact curve of
    normal noise, which allows a tenth more ρ than an order does, for adaptive choices too
    (docs/decisions/0036-normal-noise.md).

    Losses of (ε, δ) count as pure ones but for a probability of their δ, which adds up. A ledger
    whose first release has one keeps half of δ for these, and the other half for all else. So it is
    settled before anything is seen; in a ledger that began without, they are refused.
    """

    epsilon: Fraction
    delta: Fraction | None = None
    pure: Fraction = Fraction(0)

    @cached_property
    def order(self) -> Fraction:
        """α: the order that allows the largest ρ within ε less the part for pure releases."""
        left, log = float(self.epsilon - self.pure), math.log(float(self.delta or 1))
        low, high = -30.0, 60.0
        golden = (math.sqrt(5) - 1) / 2
        for _ in range(_STEPS):
            one, other = high - golden * (high - low), low + golden * (high - low)
            if _rho(one, left, log) >= _rho(other, left, log):
                high = other
            else:
                low = one
        return 1 + Fraction(math.exp((low + high) / 2))

    @cached_property
    def capacity(self) -> Fraction:
        """The largest sum of divergences: ε + (ln δ - ln c)/(α - 1), rounded down."""
        return self._capacity(self.delta)

    @cached_property
    def _half_capacity(self) -> Fraction:
        """The largest sum of divergences in a ledger that keeps half of δ for losses with a δ."""
        return self._capacity(self.delta and self.delta / 2)

    def _capacity(self, delta: Fraction | None) -> Fraction:
        if delta is None:
            return Fraction(0)
        return self.epsilon + Fraction(_beyond(float(self.order - 1), math.log(float(delta))))

    def divergence(self, loss: PrivacyLoss) -> Fraction:
        """Return an upper bound of the Rényi divergence of the order of this limit."""
        most = self.order * loss.as_rho
        return most if loss.rho else min(loss.epsilon, most)

    def adds_normal(self, total: Total) -> bool:
        """Whether the ledger takes normal noise only, and adds it up by its own curve."""
        return total.begins_with_normal and not self.pure and self.delta is not None

    @cached_property
    def _normal_capacity(self) -> Fraction:
        """The largest ρ of normal noise."""
        return accounting.normal_rho_for(self.epsilon, self.delta or Fraction(0))

    def allows(self, total: Total) -> bool:
        if self.adds_normal(total):
            return total.normal and total.rho <= self._normal_capacity
        if total.delta and not (total.begins_with_delta and total.delta <= self.kept_delta):
            return False
        return (not total.rho and total.epsilon <= self.epsilon) or self._rest(total) >= 0

    @property
    def kept_delta(self) -> Fraction:
        """The largest sum of the δ of losses of (ε, δ): half of that of the limit."""
        return (self.delta or Fraction(0)) / 2

    def left_epsilon(self, total: Total) -> Fraction:
        """Return the largest pure loss that still fits, rounded down to 64 binary places."""
        if self.adds_normal(total):
            return Fraction(0)
        added = Fraction(0) if total.rho else self.epsilon - total.epsilon
        rest = max(self._rest(total), Fraction(0))
        return max(added, rest, _root(2 * rest / self.order) if rest else rest)

    def left_rho(self, total: Total) -> Fraction:
        """Return the largest ρ (zCDP) that still fits; of normal noise, if that is all it takes."""
        if self.adds_normal(total):
            return max(self._normal_capacity - total.rho, Fraction(0))
        return max(self._rest(total), Fraction(0)) / self.order if self.delta else Fraction(0)

    def left_gaussian(self, total: Total) -> Fraction:
        """Return nearly the largest ε that fits for Gaussian noise with the δ of the limit."""
        rho = self.left_rho(total)
        if self.delta is None or rho == 0:
            return Fraction(0)
        if self.adds_normal(total):
            found = Fraction(accounting.normal_epsilon_for(rho, self.delta))
            return min(found * (1 - _ROUNDED), self.epsilon)
        found = min(Fraction(accounting.epsilon_for(rho, self.delta)), self.epsilon)
        while accounting.rho_for(found, self.delta) > rho:
            found *= 1 - Fraction(1, 10**6)
        return found

    def used(self, total: Total) -> Fraction:
        """Return the ε that is used, at the δ of the limit; at most ε if the total is allowed."""
        found = total.epsilon if self.delta is None else total.at(self.delta)
        return min(found, self.epsilon) if self.allows(total) else found

    def __str__(self) -> str:
        also = "" if self.delta is None else f", δ = {at_most(self.delta)}"
        return f"ε = {at_most(self.epsilon)}{also}"

    def _rest(self, total: Total) -> Fraction:
        """The rest of the capacity; negative if it is exceeded, or there is no δ."""
        if self.delta is None:
            return Fraction(-1)
        most = self._half_capacity if total.begins_with_delta else self.capacity
        return most - sum(map(self.divergence, total.losses), Fraction(0))


def _beyond(more: float, log: float) -> float:
    """(ln δ - ln c)/(α - 1) for α = 1 + `more`, rounded down."""
    constant = accounting.log_constant(more)
    size = abs(log) + abs(constant) + 1
    return (log - constant - _SLACK * size) / more


def _rho(place: float, epsilon: float, log: float) -> float:
    """The ρ that ε and the order 1 + e^place allow."""
    more = math.exp(place)
    return (epsilon + _beyond(more, log)) / (1 + more)


def _root(number: Fraction) -> Fraction:
    return Fraction(math.isqrt(number.numerator * _GRID**2 // number.denominator), _GRID)


# --- composition ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Total:
    """The exact losses of the same people, in order."""

    losses: tuple[PrivacyLoss, ...] = ()

    def plus(self, loss: PrivacyLoss) -> Total:
        return Total((*self.losses, loss))

    @property
    def pure(self) -> bool:
        return all(loss.pure for loss in self.losses)

    @property
    def delta(self) -> Fraction:
        """The sum of the δ of losses of (ε, δ)."""
        return sum((loss.delta for loss in self.losses), Fraction(0))

    @property
    def begins_with_delta(self) -> bool:
        """Whether the first loss is one of (ε, δ)."""
        return bool(self.losses and self.losses[0].delta)

    @property
    def begins_with_normal(self) -> bool:
        """Whether the first loss is one of normal noise."""
        return bool(self.losses and self.losses[0].normal)

    @property
    def normal(self) -> bool:
        """Whether all losses are of normal noise."""
        return all(loss.normal for loss in self.losses)

    @property
    def epsilon(self) -> Fraction:
        """The sum of the losses that are no ρ."""
        return sum((loss.epsilon for loss in self.losses), Fraction(0))

    @property
    def rho(self) -> Fraction:
        """The sum of the losses that are a ρ."""
        return sum((loss.rho for loss in self.losses), Fraction(0))

    @property
    def as_rho(self) -> Fraction:
        """The sum of all as ρ, a pure one being ε²/2."""
        return sum((loss.as_rho for loss in self.losses), Fraction(0))

    def at(self, delta: Fraction) -> Fraction:
        """Return an ε for which all together are (ε, δ)-DP: the smaller of two bounds.

        One is the sum of the pure losses and the ε of all others together. The other takes all
        losses as ρ, which is less where there are many small ones. The δ of losses of (ε, δ) is
        part of δ, and must be below it.
        """
        if not self.losses:
            return Fraction(0)
        if self.normal:
            return Fraction(accounting.normal_epsilon_for(self.rho, delta))
        rest = delta - self.delta
        others = _epsilon(self.rho, rest) if self.rho else Fraction(0)
        return min(self.epsilon + others, _epsilon(self.as_rho, rest))


def _epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an ε for ρ and δ; a short number if one suffices, such as the ε that ρ came from."""
    found = Fraction(accounting.epsilon_for(rho, delta))
    short = Fraction(at_least(found, digits=6))
    return short if short and accounting.rho_for(short, delta) >= rho else found


def group_loss(loss: PrivacyLoss, count: int) -> PrivacyLoss:
    """Return the loss between tables that are `count` steps apart (group privacy).

    ε grows with the number of steps, ρ with its square (Bun and Steinke, TCC 2016, proposition
    1.9), and the δ of (ε, δ) to δ (1 + e^ε + ... + e^((count-1)ε)).
    """
    factor = Fraction(0)
    for step in range(count if loss.delta else 0):
        factor += gamma_above_epsilon(step * loss.epsilon) if step else 1
        if factor * loss.delta >= _CERTAIN:
            break
    delta = min(factor * loss.delta, _CERTAIN)
    return PrivacyLoss(count * loss.epsilon, count**2 * loss.rho, delta, loss.normal)
