"""Counts of cells behind the meter: linear measurements with noise are the way out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scumble.model.designs.transform import Identity, Transform
from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.laws.law_gaussian import DiscreteGaussian
from scumble.model.privacy.accounting import Loss
from scumble.model.privacy.ledger import Account
from scumble.model.privacy.person import Person
from scumble.private.sampling.hidden import Hidden

if TYPE_CHECKING:
    from scumble.private.sampling.source import Source

Counts = npt.NDArray[np.int64]
NoiseLaw = DiscreteLaplace | DiscreteGaussian

LARGEST_SCALE = 1 << 48  # counts with such noise still fit 64 bits, but for odds of e^-16000
_NOISE_CHUNK = 1 << 22


class PrivateCounts:
    """The counts of all cells of the product of `names`. Nothing of them comes out but what was
    charged for; only the metered rooms, whose names begin with private, touch the array.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        counts: Counts,
        person: Person,
        account: Account,
        noise: Source,
    ) -> None:
        self.names = names
        self.person = person
        self._counts = counts
        self._account = account
        self._noise = noise

    @property
    def size(self) -> int:
        """How many cells there are: the product of the domains, which is public."""
        return len(self._counts)

    def noisy(
        self, laws: Sequence[NoiseLaw], transform: Transform | None = None
    ) -> list[npt.NDArray[Any]]:
        """Sums of counts plus independent noise, one law for each group of the transform.

        One person moves the numbers of a group by at most `sensitivity` columns in all. Laplace
        noise of scale b then costs ε = sensitivity · (largest column sum) / b for the group;
        Gaussian noise of parameter σ² costs ρ = (largest squared length) / 2σ². Groups add up.
        """
        chosen = Identity() if transform is None else transform
        norms = chosen.norms()
        if len(norms) != len(laws):
            raise ParameterError(f"{len(norms)} groups of numbers need as many laws of noise.")
        for law in laws:
            check_scale(law)
        self.charge("noisy sums", self._cost(laws, norms, acute=chosen.acute(laws)))
        numbers = [np.ascontiguousarray(group) for group in chosen.apply(self._counts)]
        for group, law in zip(numbers, laws, strict=True):
            blur(self._noise, group.reshape(-1), law)
        return numbers

    def charge(self, what: str, cost: Loss) -> None:
        """Pay for a look, or be refused."""
        self._account.charge(f"{what} of {', '.join(self.names)}", cost)

    def _cost(
        self, laws: Sequence[NoiseLaw], norms: Sequence[tuple[int, int]], *, acute: bool
    ) -> Loss:
        total, square = self.person.sensitivity, self.person.squared(acute=acute)
        epsilon = rho = Fraction(0)
        for law, (absolute, squares) in zip(laws, norms, strict=True):
            if isinstance(law, DiscreteLaplace):
                epsilon += total * absolute / law.scale
            else:
                rho += square * squares / (2 * law.parameter)
        return Loss(epsilon) if not rho else Loss(rho=rho + epsilon**2 / 2)


def check_scale(law: NoiseLaw) -> None:
    """Refuse noise that 64 bits might not hold."""
    spread = law.scale if isinstance(law, DiscreteLaplace) else law.parameter / LARGEST_SCALE
    if spread > LARGEST_SCALE:
        raise ParameterError(
            "With so small an epsilon, or so many rows of a person, the noise would be larger "
            "than any count; allow a larger epsilon, or a smaller contribution."
        )


def blur(noise: Source, numbers: npt.NDArray[Any], law: NoiseLaw) -> None:
    """Add independent noise to numbers, in place. A source that watches, as an audit's does, is
    shown what it is asked to hide.
    """
    from scumble.private.sampling.gaussian import discrete_gaussian
    from scumble.private.sampling.noise import discrete_laplace

    noise.watch(Hidden("sums", numbers, law))
    for begin in range(0, len(numbers), _NOISE_CHUNK):
        part = numbers[begin : begin + _NOISE_CHUNK]
        if isinstance(law, DiscreteLaplace):
            part += discrete_laplace(noise, law.scale, len(part))
        else:
            part += discrete_gaussian(noise, law.parameter, len(part))
