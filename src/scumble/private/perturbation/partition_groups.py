"""The split of a table: parts of few values each, and the channel that each part goes through."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scumble.model.errors import PromiseError
from scumble.model.privacy.guarantee import gamma_for_rho
from scumble.private.perturbation.balance import Counts, balanced
from scumble.private.perturbation.merge import Merging
from scumble.private.perturbation.rearrange import best_order

# Numbers that may be looked at to find a good order, in a second or two.
_WORK = 5 * 10**6


@dataclass(frozen=True)
class Part:
    """The rows of a sub-table by value, and the probability to keep a value in it.

    `domain` are the values that its rows may show; those that do not occur in it have no count.
    """

    counts: Mapping[int, int]
    domain: tuple[int, ...]
    keep: Fraction

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def split(counts: Mapping[int, int], rho1: Fraction, rho2: Fraction) -> list[Part] | None:
    """The parts of a table with these counts, or None where no value is as rare as ρ1.

    The whole table as one part is among the choices, and keeps the promise, since ρ1 < ρ2.
    """
    rows = sum(counts.values())
    rare = {value: count for value, count in counts.items() if count <= rho1 * rows}
    if not rare:
        return None
    frequent = {value: count for value, count in counts.items() if value not in rare}
    groups = balanced(rare, frequent)
    merging = Merging(groups, rare, float(rho2))
    order = best_order(groups, merging.cost, max(1, _WORK // merging.work))
    return [
        bound_part(_joined([groups[place] for place in part]), rare, rho2)
        for part in merging.parts(order)
    ]


def bound_part(counts: Mapping[int, int], rare: Collection[int], rho2: Fraction) -> Part:
    """A part whose channel takes the most frequent of its rare values from its share to ρ2."""
    domain = tuple(sorted(counts))
    share = Fraction(
        max(count for value, count in counts.items() if value in rare), sum(counts.values())
    )
    if share >= rho2:
        raise PromiseError("No split of the table keeps the promise; allow a larger rho2.")
    return Part(counts, domain, keep_for(gamma_for_rho(share, rho2), len(domain)))


def keep_for(gamma: Fraction, values: int) -> Fraction:
    """p = (γ − 1)/(m − 1 + γ)."""
    return (gamma - 1) / (values - 1 + gamma)


def gamma_of(keep: Fraction, values: int) -> Fraction:
    """γ = 1 + p·m/(1−p), the other way round."""
    return 1 + keep * values / (1 - keep)


def _joined(groups: Sequence[Mapping[int, int]]) -> Counts:
    joined: Counts = {}
    for group in groups:
        for value, count in group.items():
            joined[value] = joined.get(value, 0) + count
    return joined
