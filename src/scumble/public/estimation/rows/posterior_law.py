"""Aroma's multisets read by posterior probabilities: moments, and the inverse of this reading.

If a share p_v of all people has value v, a multiset c belongs to a row of value v with the
posterior probability

    s_v(c) = q_v c_v / Σ_w q_w c_w,    q_v = p_v / π_v,

where π is the pool. Whatever p is, u with Σ_v E[s_v | x] u_v = h(x) gives the weight Σ_v u_v s_v(c)
of a row, which is unbiased for h. Its variance is least if p are the true shares: no other unbiased
weight of a multiset then has a smaller one. With p = π it is the weight c_v / k of a plain count.

The moments are exact. Since Σ q_w c_w > 0, 1/y^r = ∫ t^(r-1) e^(-ty) dt / (r-1)!, and the draws
from the pool are independent, so that each moment is a one-dimensional integral of powers of
φ(t) = Σ_v π_v e^(-t q_v). With t = e^z the integrand is analytic in |Im z| < π/2, where equally
spaced points converge exponentially.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scumble.model.cache import Cache
from scumble.model.evidence.channels import Floats, MultisetChannel, PoolLaw, Tensor
from scumble.public.estimation.rows.count_laws import CountModel
from scumble.public.estimation.rows.inverse_channels import Indices, InverseChannel, flat

_STEP = 0.2  # between points of the logarithm of t: an error of exp(-π²/0.2), 1e-21
_FIRST, _LAST = 1e-18, 45.0  # of t, by the largest and the smallest Σ q_w c_w
_MOMENTS = 1 << 24  # bytes of the moments of weights that a release keeps

MomentCache = Cache[Any, Tensor]  # by what they are of


class PosteriorLaw:
    """Moments of the posterior probabilities s, given the true value x, for the assumed `shares`.

    `pool` must not repeat draws, and all shares must be above 0.
    """

    def __init__(self, pool: PoolLaw, shares: Floats) -> None:
        self.shares = shares
        self.drawn = np.array([float(share) for share in pool.shares])
        self.factors: Floats = shares / self.drawn
        self.size = pool.size
        low, high = (self.size * float(each) for each in (self.factors.min(), self.factors.max()))
        points = np.arange(np.log(_FIRST / high), np.log(_LAST / low) + _STEP, _STEP)
        self._t = np.exp(points)
        self._decay = np.exp(-np.outer(self._t, self.factors))
        self._phi = self._decay @ self.drawn

    def posterior(self, counts: Floats) -> Floats:
        """Return s for the multisets whose multiplicities are the rows of `counts`."""
        products = counts * self.factors
        found: Floats = products / products.sum(axis=1, keepdims=True)
        return found

    def means(self) -> Floats:
        """Return E[s_v | x] in row x and column v."""
        ones, draws = self._weights(1), self.size - 1
        others = self._decay.T @ ((ones * draws * self._power(1))[:, None] * self._decay)
        found: Floats = others * self.shares
        found[np.diag_indices(len(found))] += self.factors * ((ones * self._power(0)) @ self._decay)
        return found

    @cached_property
    def inverse(self) -> Floats:
        """The matrix that turns h into u."""
        found: Floats = np.linalg.inv(self.means()).astype(np.float64)
        return found

    def second(self, one: Floats, other: Floats) -> Floats:
        """Return E[(one · s)(other · s) | x] for every x, along the last axis."""
        weights, draws = self._weights(2), self.size - 1
        a, b = one * self.factors, other * self.factors
        tilted = (self.drawn * self._decay).T
        first, second, both = a @ tilted, b @ tilted, (a * b) @ tilted
        pairs = draws * (draws - 1) * self._power(2) * first * second
        own = a * b * ((weights * self._power(0)) @ self._decay)
        once = draws * weights * self._power(1)
        mixed = a * ((once * second) @ self._decay) + b * ((once * first) @ self._decay)
        rest = (once * both + weights * pairs) @ self._decay
        found: Floats = own + mixed + rest
        return found

    def third(self, one: Floats) -> Floats:
        """Return E[(one · s)³ | x] for every x, along the last axis."""
        weights, n = self._weights(3), self.size - 1
        a, tilted = one * self.factors, (self.drawn * self._decay).T
        s1, s2, s3 = ((a**order) @ tilted for order in (1, 2, 3))
        zero, once, twice, thrice = (self._power(order) for order in range(4))
        # Of the sum S of n draws: E[S^j e^(-t ...)].
        m1 = n * s1 * once
        m2 = n * s2 * once + n * (n - 1) * s1**2 * twice
        m3 = n * s3 * once + 3 * n * (n - 1) * s1 * s2 * twice
        m3 = m3 + n * (n - 1) * (n - 2) * s1**3 * thrice
        found: Floats = a**3 * ((weights * zero) @ self._decay) + (weights * m3) @ self._decay
        found += 3 * a**2 * ((weights * m1) @ self._decay)
        found += 3 * a * ((weights * m2) @ self._decay)
        return found

    def _weights(self, order: int) -> Floats:
        """Return the weights of the points in ∫ t^(order-1) ... dt / (order-1)!."""
        found: Floats = _STEP * self._t**order / (2 if order == 3 else 1)
        return found

    def _power(self, fewer: int) -> Floats:
        """Return φ to the number of draws less `fewer`; terms without such draws have factor 0."""
        found: Floats = self._phi ** max(self.size - 1 - fewer, 0)
        return found


@dataclass(frozen=True, eq=False)
class StagedChannel:
    """The multisets of a channel, and in `column` the stage of each row, with a law for each.

    `moments` are those of weights that were computed: many questions have the same.
    """

    attributes: tuple[str, ...]
    column: str
    multisets: MultisetChannel
    laws: tuple[PosteriorLaw, ...]
    moments: MomentCache = field(default_factory=lambda: Cache(_MOMENTS))


class StagedInverse(InverseChannel):
    """The inverse of posterior probabilities, by the law of the stage that each state lies in.

    `laws` has one law for every stage, and `stages` the stage of every state. `moments` are kept
    from other inverses with the same laws.
    """

    def __init__(
        self, laws: Sequence[PosteriorLaw], stages: Indices, moments: MomentCache | None = None
    ) -> None:
        self._laws, self._stages = laws, stages
        self._moments: MomentCache = Cache(_MOMENTS) if moments is None else moments
        self.states = len(stages)
        self.steps = laws[0].size

    def repeated(self, times: int) -> StagedInverse:
        return StagedInverse(self._laws, np.tile(self._stages, times), self._moments)

    def of_pool(self) -> StagedInverse:
        """Return the inverse for the shares of the pool, which depend on no published row."""
        return StagedInverse(self._laws[:1], np.zeros_like(self._stages), self._moments)

    def invert(self, tensor: Tensor) -> Tensor:
        return self._by_stage("invert", lambda law, part: part @ law.inverse.T, tensor)

    def covariance(self, one: Tensor, other: Tensor) -> Tensor:
        def of(law: PosteriorLaw, h: Tensor, g: Tensor) -> Tensor:
            # A constant changes the weight by itself: less of it leaves less rounding.
            h, g = h - h.mean(axis=1, keepdims=True), g - g.mean(axis=1, keepdims=True)
            return law.second(h @ law.inverse.T, g @ law.inverse.T) - h * g

        return self._by_stage("covariance", of, one, other)

    def third_moment(self, tensor: Tensor) -> Tensor:
        def of(law: PosteriorLaw, h: Tensor) -> Tensor:
            h = h - h.mean(axis=1, keepdims=True)
            u = h @ law.inverse.T
            return law.third(u) - 3 * h * law.second(u, u) + 2 * h**3

        return self._by_stage("third moment", of, tensor)

    def deviation(self, tensor: Tensor) -> Tensor:
        """Return the largest difference of two weights: a weight is a mean of u."""
        weights = self.invert(tensor)
        return self.most(weights) - self.least(weights)

    def mean_variance(self, tensor: Tensor) -> Tensor:
        """Return the variance of the weight, averaged by the assumed shares, in each state."""
        shares = np.stack([law.shares for law in self._laws])[self._stages]
        found: Tensor = (shares * flat(self.covariance(tensor, tensor))).sum(axis=1)
        return found

    def count_models(self, holds: Tensor) -> tuple[Sequence[CountModel | None], Indices]:
        return [None], np.zeros(len(holds), np.intp)

    def has_two_weights(self, holds: Tensor) -> bool:
        return False

    def _by_stage(self, name: str, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Apply `function(law, ...)` to the states of each stage, as rows of flat tensors."""
        arrays = (self._stages, *tensors)
        key = (name, *(part for each in arrays for part in (each.shape, each.tobytes())))
        size = 8 * sum(each.size for each in arrays)
        return self._moments.get_or_make(key, size, lambda: self._applied(function, tensors))

    def _applied(self, function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> Tensor:
        flats = [flat(tensor) for tensor in tensors]
        found = np.empty(np.broadcast_shapes(*(each.shape for each in flats)))
        for stage in np.unique(self._stages):
            states = self._stages == stage
            found[states] = function(self._laws[stage], *(each[states] for each in flats))
        found.flags.writeable = False
        return found.reshape(tensors[0].shape)
