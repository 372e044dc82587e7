"""The experiments of section 6 of the paper on Aroma; and, since what it calls ε-differential
privacy is not that, the same comparisons at equal exposure. Figures 4 to 6 are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

import scumble as sc
from research.aroma.adaptive import one_count, same_exposure
from research.aroma.rivals import (
    accumulated,
    against_k,
    against_size,
    averages,
    equal,
    output,
    times,
)
from research.aroma.views import CLOSE, VALUES, K, Laboratory, uniform_pool
from research.study import Floats, Row
from scumble.families.aroma.design import acceptance, pool_exposure, profile
from scumble.families.aroma.publish.guarantee import again_in_paper
from scumble.model.privacy.guarantee import epsilon_for_exposure, exposure_at_most


def study(laboratory: Laboratory) -> Iterator[tuple[str, list[Row]]]:
    """Run all experiments; yield the name and the rows of each."""
    yield "figure 4", list(sizes_for_loss())
    yield "figure 5", list(again(laboratory))
    yield "figure 6", list(accuracy(laboratory))
    yield "figure 7a", list(accumulated(laboratory))
    yield "figure 7b", list(output(laboratory))
    yield "figure 8", list(against_size(laboratory))
    yield "figure 9", list(against_k(laboratory))
    yield "equal exposure", list(equal(laboratory))
    yield "figure 10", list(averages(laboratory))
    yield "figure 11", list(times(laboratory))
    yield "one count", list(one_count(laboratory))
    yield "one count, equal exposure", list(same_exposure(laboratory))


def deviation(k: int, size: int, f: float) -> float:
    """Return the standard deviation, by theorem 5.1, of the estimated count in `size` records of a
    value with share f of the pool.
    """
    return sqrt((k - 1) * size * f * (1 - f))


def sizes_for_loss() -> Iterator[Row]:
    """Figure 4: the k that the paper asks for an ε, and the exposure of multisets of k values."""
    for epsilon in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        k = sc.Aroma.k_for(epsilon, 1 / VALUES)
        law = uniform_pool(k)
        success = pool_exposure(law)
        yield {
            "ε": epsilon,
            "k": k,
            "δ(ε)": profile(law, (epsilon,))[0],
            "exposure": success,
            "allowed by ε-DP": exposure_at_most(epsilon, VALUES),
            "ε implied": epsilon_for_exposure(success, VALUES),
        }


def again(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 5: the share of records drawn again for (n, 0)-closeness, against k and against n."""
    points = [("k", k, float(CLOSE)) for k in (11, 15, 20, 26, 35, 42, 49, 81)]
    points += [("n", K, ratio) for ratio in (3.0, 4.0, 5.0, 6.0, 7.0, 8.0)]
    generator = np.random.default_rng(laboratory.seed)
    for varied, k, ratio in points:
        cap = int(k / ratio)
        draws = generator.multinomial(k - 1, [1 / VALUES] * VALUES, laboratory.scale.bags)
        draws[:, 0] += 1  # the true value
        yield {
            "varied": varied,
            "k": k,
            "n / m": ratio,
            "measured": float((draws.max(axis=1) > cap).mean()),
            "exact": 1 - acceptance(uniform_pool(k, caps=cap)) if cap * VALUES >= k else 1.0,
            "Theorem 4.1": again_in_paper((1,) * VALUES, k, [k / ratio] * VALUES),
        }


def accuracy(laboratory: Laboratory) -> Iterator[Row]:
    """Figure 6: the mean error of the share of a value in a group, against q, k and f."""
    scale, f = laboratory.scale, 1 / laboratory.values
    size = scale.sizes[len(scale.sizes) // 2]
    points: list[tuple[str, int, int, float]] = [("q", q, K, f) for q in scale.sizes]
    points += [("k", size, k, f) for k in scale.levels]
    for varied, q, k, share in points:
        found = laboratory.errors(sc.Aroma(k=k), q)
        yield _error(varied, q, k, share, found)
    others = laboratory.values - 1
    for share in scale.shares:
        hundredths = round(100 * share)
        pool = [hundredths * others, *[100 - hundredths] * others]
        found = laboratory.errors(sc.Aroma(k=K, pool=pool), size, value=0)
        yield _error("f", size, K, share, found)


def _error(varied: str, size: int, k: int, share: float, errors: Floats) -> Row:
    return {
        "varied": varied,
        "q": size,
        "k": k,
        "f": share,
        "error": float(errors.mean()) / size,
        "deviation": float(errors.mean(axis=1).std()) / size,
        "standard deviation": deviation(k, size, share) / size,
        "ratio": float(errors.mean()) / deviation(k, size, share),
    }
