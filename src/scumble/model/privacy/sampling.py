"""Samples of people: how a secret sample strengthens a promise.

**Add or remove.** Every person is drawn with probability q, independently. If the method is
(ε, δ)-DP on the sample, then with P(R) = (1 - q) P0(R) + q P1(R), where P1 has the person and P0
has not, P(R) <= (1 + q(e^ε - 1)) P0(R) + qδ, and P0(R) <= e^ε' P(R) + qδ likewise: the release is
(ln(1 + q(e^ε - 1)), qδ)-DP.

**Replace.** m of n people are drawn without replacement, q = m/n. A sample with the person is
matched with those in which somebody else takes the place: the same numbers follow, if the method is
(ε, δ)-DP for replacing a person (Balle, Barthe, Gaboardi, NeurIPS 2018, theorems 8 and 9).

If people are replaced and each is drawn independently, nothing follows: a sample without the person
is smaller, and a promise about replacing says nothing about that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from scumble.model import stored
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_least,
    at_most,
    epsilon_for_gamma,
    float_at_least,
    gamma_above_epsilon,
    percent_at_most,
    posterior_at_most,
)

SAMPLED = "sample"  # in the report of a release
PROOF = "of a secret sample: Balle, Barthe, Gaboardi, NeurIPS 2018"


@dataclass(frozen=True)
class Sample:
    """How people were drawn: each with probability `rate`; or, if `people` is given, `drawn` of so
    many, without replacement. `rows` is the largest number of rows of one person.
    """

    rate: Fraction
    rows: int = 1
    people: int | None = None
    drawn: int | None = None

    @property
    def share(self) -> float:
        """The share of people in the sample, by which what it shows is divided."""
        return self.drawn / self.people if self.people and self.drawn else float(self.rate)

    def loss(self, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
        """Return the (ε, δ) of a release from that of the method on the sample, rounded up."""
        gamma = 1 + self.rate * (gamma_above_epsilon(epsilon) - 1)
        return Fraction(epsilon_for_gamma(gamma)), self.rate * delta

    def strengthened(self, promise: Guarantee) -> Guarantee:
        """Return the promise of a release, given that of the method on the sample."""
        given = dict(promise.parameters)
        epsilon, delta = self.loss(Fraction(given["epsilon"]), Fraction(given.get("delta", 0)))
        numbers = {"epsilon": float_at_least(epsilon)}
        if "delta" in given:
            numbers["delta"] = float_at_least(delta)
        if "contribution" in given:
            numbers["contribution"] = given["contribution"]
        return replace(
            promise,
            parameters=numbers,
            proof=f"{promise.proof}; {PROOF}",
            sentence=self._sentence(promise, epsilon, delta),
        )

    def _sentence(self, promise: Guarantee, epsilon: Fraction, delta: Fraction) -> str:
        added = promise.neighbourhood == "add or remove one person"
        what = (
            "whether any one person is in the table" if added else "what any one person's row says"
        )
        before = f"ε = {at_most(promise.parameters['epsilon'])}"
        drawn = (
            f"This hides {what}. A share of {at_least(self.rate)} of the people was drawn, in "
            f"secret, which turns {before} of the method into ε = {at_most(epsilon)}"
        )
        if delta:
            return f"{drawn} with δ = {at_most(delta)}."
        end = posterior_at_most(Fraction(1, 10), gamma_above_epsilon(epsilon))
        return (
            f"{drawn}. Someone who knows everybody else, but not who was drawn, and already "
            f"believed a guess about that with 10 %, can reach at most {percent_at_most(end)}."
        )

    def to_dict(self) -> dict[str, Any]:
        size = {} if self.people is None else {"people": self.people, "drawn": self.drawn}
        return {"rate": str(self.rate), "rows": self.rows, **size}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sample:
        rate = stored.fraction(data["rate"])
        if not 0 < rate < 1:
            raise ValueError("a sample has a rate between 0 and 1")
        sizes = [
            None if data.get(name) is None else stored.whole(data[name])
            for name in ("people", "drawn")
        ]
        if (sizes[0] is None) != (sizes[1] is None) or (sizes[1] or 0) > (sizes[0] or 0):
            raise ValueError("a sample of a fixed size is a part of the people")
        if sizes[0] is not None and sizes[1] != int(rate * sizes[0]):
            raise ValueError("a sample has the size that its rate gives")
        return cls(rate, stored.whole(data["rows"], least=1), *sizes)
