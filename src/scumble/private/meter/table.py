"""The private table as differentially private releases see it: every verb charges, then touches."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import Loss
from scumble.model.privacy.ledger import Account
from scumble.model.privacy.person import Person
from scumble.private.meter.private_counts import Counts, PrivateCounts, blur

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema
    from scumble.private.sampling.source import Source
    from scumble.private.tables.counter import Counter


class PrivateTable:
    """A metered view: nothing of the rows comes out but what was charged for."""

    def __init__(self, counter: Counter, account: Account, noise: Source) -> None:
        self._counter = counter
        self._account = account
        self._noise = noise

    @property
    def schema(self) -> Schema:
        return self._counter.schema

    def noisy_counts(
        self, names: Sequence[str], person: Person, *, epsilon: Fraction
    ) -> tuple[Counts, DiscreteLaplace]:
        """The count of every cell of the product of some attributes, plus discrete Laplace noise.

        Cells are disjoint, so a person changes at most `person.sensitivity` of all counts together;
        noise of scale sensitivity/ε on each makes the whole array ε-DP.
        """
        self._account.charge(f"noisy counts of {', '.join(names)}", Loss(epsilon))
        law = DiscreteLaplace(Fraction(person.sensitivity) / epsilon)
        [counts] = self._counter.counts([names], person)
        blur(self._noise, counts, law)
        return counts, law

    def counts(self, names: Sequence[str], person: Person) -> PrivateCounts:
        """The counts of every cell of the product of some attributes, behind the meter."""
        return self.marginals([names], person)[0]

    def marginals(self, sets: Sequence[Sequence[str]], person: Person) -> list[PrivateCounts]:
        """The counts of several products of attributes, found in one pass over the rows."""
        found = self._counter.counts(sets, person)
        return [
            PrivateCounts(tuple(names), counts, person, self._account, self._noise)
            for names, counts in zip(sets, found, strict=True)
        ]
