"""The terms of a database: ε, noise and how it decides. They are part of its first entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Literal, get_args

from scumble.model import stored
from scumble.model.errors import ParameterError
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_most,
    gamma_above_epsilon,
    percent_at_most,
    posterior_at_most,
    read_epsilon,
    read_positive,
)
from scumble.private.journal.entries import check_word
from scumble.private.ledger.cost import ReleaseClaim
from scumble.public.manifest import SEEDED

if TYPE_CHECKING:
    from scumble.private.ledger.cost import ReleaseClaim

Tracker = Literal["auto", "exact", "histogram", "disjoint"]

_MOST_ANSWERS = 1 << 62  # that one point may be counted in: counters are 64-bit numbers

LIMITS = (
    "How many rows the table has is not hidden.",
    "The promise is for one row: a person with more rows loses more in proportion.",
    "Rows that are added later are of new people: a person in several batches loses by each.",
    "Which batch of rows a person is in is not hidden.",
    "What the answers tell about a person by statistics is not hidden.",
    "Other releases of the same table add their own loss.",
)


@dataclass(frozen=True)
class DatabaseTerms:
    """ε for all answers together, and the scale λ of the noise of each; the same for all batches.

    `sized` says that the number of rows is public. It is not public where rows outside their domain
    are left out: the number of the others may then depend on one person.
    """

    epsilon: Fraction
    noise: Fraction
    tracker: Tracker = "auto"
    buckets: int = 100_000
    relax: int = 3
    quotas: Mapping[str, Fraction] = field(default_factory=dict)
    sized: bool = True
    seeded: bool = False

    @classmethod
    def read(
        cls,
        *,
        epsilon: object,
        noise: object,
        tracker: str = "auto",
        buckets: int = 100_000,
        relax: int = 3,
        quotas: Mapping[str, object] | None = None,
        sized: bool = True,
        seeded: bool = False,
    ) -> DatabaseTerms:
        """Return the terms for these parameters, checked; raises `ParameterError`."""
        if tracker not in get_args(Tracker):
            allowed = "'auto', 'exact', 'histogram' or 'disjoint'"
            raise ParameterError.of("Database", "tracker", allowed, tracker)
        parts = {
            name: read_positive("Database", "quotas", part) for name, part in (quotas or {}).items()
        }
        for name in parts:
            check_word("analyst", name)
        found = cls(
            epsilon=read_epsilon("Database", epsilon),
            noise=read_positive("Database", "noise", noise),
            tracker=tracker,  # type: ignore[arg-type]  # it is one of them
            buckets=_whole("buckets", buckets, 1, 10_000_000),
            relax=_whole("relax", relax, 0, 20),
            quotas=parts,
            sized=sized,
            seeded=seeded,
        )
        if found.limit >= _MOST_ANSWERS:
            allowed = f"below {float(2 * _MOST_ANSWERS / found.epsilon):.3g} for this epsilon"
            raise ParameterError.of("Database", "noise", allowed, noise)
        if found.limit < 1:
            allowed = f"at least 2/epsilon ({float(2 / found.epsilon):g}): less allows no answer"
            raise ParameterError.of("Database", "noise", allowed, noise)
        for name, part in parts.items():
            if part > found.epsilon or found.limit_of(part) < 1:
                allowed = "enough for one answer, and at most epsilon, for every analyst"
                raise ParameterError.of("Database", "quotas", allowed, {name: float(part)})
        return found

    @property
    def limit(self) -> int:
        """The largest number of answers that may cover one point."""
        return self.limit_of(self.epsilon)

    def limit_of(self, epsilon: Fraction) -> int:
        """Return how many answers may cover one point within a loss of `epsilon`.

        Changing one row moves it from one point to another. The answers that cover the first point
        change by one, and so do those that cover the second. If n answers cover each of the two,
        the loss is at most 2n/λ.
        """
        return floor(epsilon * self.noise / 2)

    def guarantee(self) -> Guarantee:
        """Return the guarantee. That of a seeded database begins with a warning."""
        warning = (SEEDED,) if self.seeded else ()
        gamma = gamma_above_epsilon(self.epsilon)
        end = posterior_at_most(Fraction(1, 10), gamma)
        sentence = (
            f"All answers together, now and later, change the odds of anything about one person by "
            f"a factor of at most {at_most(gamma)} (ε = {at_most(self.epsilon)}). Someone who "
            "knows everybody else, and already believed a guess with 10 %, can reach at most "
            f"{percent_at_most(end)}."
        )
        return Guarantee(
            statement="ε-DP",
            parameters={"epsilon": float(self.epsilon)},
            scope="the whole release",
            neighbourhood="replace one person",
            trust="central",
            proof=(
                "each count has discrete Laplace noise of scale λ, and a sum of λ times what one "
                "row can add to it; no point of the domain is covered by more than ελ/2 of them in "
                "any batch of rows, and a person is in one batch; what is made of answers costs "
                "nothing"
            ),
            sentence=" ".join([*warning, sentence]),
            limits=(*warning, *LIMITS),
        )

    def claim(self) -> ReleaseClaim:
        """Return the loss of all answers together, as an owner's ledger charges it."""
        return ReleaseClaim(PrivacyLoss(self.epsilon), "replace")

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": str(self.epsilon),
            "noise": str(self.noise),
            "tracker": self.tracker,
            "buckets": self.buckets,
            "relax": self.relax,
            "quotas": {name: str(part) for name, part in sorted(self.quotas.items())},
            "sized": self.sized,
            "seeded": self.seeded,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DatabaseTerms:
        return cls(
            stored.fraction(data["epsilon"]),
            stored.fraction(data["noise"]),
            data["tracker"],
            int(data["buckets"]),
            int(data["relax"]),
            {name: stored.fraction(part) for name, part in data["quotas"].items()},
            bool(data["sized"]),
            bool(data["seeded"]),
        )


def _whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ParameterError.of("Database", name, f"a whole number from {least} to {most}", value)
    return value
