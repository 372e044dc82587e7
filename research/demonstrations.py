"""Methods of the survey that are shown and not offered: projections and tables of all tables.

    python -m research.demonstrations

`project` is the compressive mechanism and that of Blum and Roth: noisy random sums of all cells.
`compress_rows` is that of Zhou, Ligett and Wasserman: noisy random sums of all rows. `blr` is the
mechanism of Blum, Ligett and Roth: the exponential mechanism over all small tables. All are exact
in their privacy (whole numbers, discrete noise or weights), and guarded by size. The command prints
the errors of each beside a release of scumble at the same ε; research/reproductions.md has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import comb

import numpy as np
import numpy.typing as npt

from scumble.model.errors import ParameterError
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.private.sampling.noise import discrete_laplace
from scumble.private.sampling.source import Keystream

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_CELLS = 1 << 16  # of a projection
MOST_TABLES = 200_000  # that BLR weighs against each other


# --- projections of cells ------------------------------------------------------------------------


def signs(rows: int, cells: int, seed: int) -> Integers:
    """Return a public matrix of ±1, which everybody can make again from `seed`."""
    if rows * cells > MOST_CELLS * 256:
        raise ParameterError(f"A projection has at most {MOST_CELLS * 256} signs.")
    drawn: Integers = np.random.default_rng(seed).integers(0, 2, (rows, cells))
    return drawn * 2 - 1


def project(
    counts: Integers, rows: int, epsilon: Fraction, seed: int, noise: Keystream
) -> Integers:
    """Return `rows` noisy random sums of all cells: ε-DP for adding or removing one row, which
    changes every sum by 1.
    """
    law = DiscreteLaplace(rows / epsilon)
    drawn = discrete_laplace(noise, law.scale, rows)
    found: Integers = signs(rows, len(counts), seed) @ counts + drawn
    return found


def read_projection(query: Floats, sums: Integers, seed: int) -> float:
    """Return the estimate of a weighted sum of cells; unbiased over the choice of the signs."""
    matrix = signs(len(sums), len(query), seed)
    return float((matrix @ query) @ sums) / len(sums)


def projection_variance(query: Floats, counts: Integers, rows: int, epsilon: Fraction) -> float:
    """Return the variance of `read_projection` over signs and noise."""
    noise = DiscreteLaplace(rows / epsilon).variance
    squares = float(query @ query)
    own = float((query * counts) @ (query * counts))
    mixed = squares * float(counts @ counts) + float(query @ counts) ** 2 - 2 * own
    return (noise * squares + mixed) / rows


# --- projections of rows -------------------------------------------------------------------------


def compress_rows(
    table: Integers, rows: int, epsilon: Fraction, norm: int, signs_and_noise: Keystream
) -> Integers:
    """Return `rows` noisy random sums of the rows of a table of whole numbers.

    The signs of people are secret and drawn anew. Replacing a row whose entries have an L1 norm of
    at most `norm` changes a sum by 2 · `norm` at most, so that noise of scale 2 · rows · norm / ε
    is ε-DP even for somebody who knows the signs.
    """
    if rows * len(table) > 1 << 26:
        raise ParameterError("A compression has at most 2^26 signs.")
    words = signs_and_noise.words(rows * len(table)).reshape(rows, len(table))
    matrix = (words & np.uint64(1)).astype(np.int64) * 2 - 1
    law = DiscreteLaplace(2 * rows * norm / epsilon)
    size = rows * table.shape[1]
    drawn = discrete_laplace(signs_and_noise, law.scale, size).reshape(rows, -1)
    found: Integers = matrix @ table + drawn
    return found


def read_products(sums: Integers, epsilon: Fraction, norm: int) -> Floats:
    """Return unbiased estimates of the products of all columns, Σ over rows."""
    rows = len(sums)
    noise = DiscreteLaplace(2 * rows * norm / epsilon).variance
    found: Floats = (sums.T @ sums).astype(np.float64) / rows
    return found - noise * np.eye(sums.shape[1])


# --- BLR -----------------------------------------------------------------------------------------


def small_tables(size: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Yield the counts of all tables of `size` rows over `cells` cells."""
    if comb(size + cells - 1, cells - 1) > MOST_TABLES:
        raise ParameterError(
            f"There are more than {MOST_TABLES} tables of {size} rows over {cells} cells: BLR "
            "weighs each of them. Use fewer rows or cells, or a release such as Histogram."
        )
    if cells == 1:
        yield (size,)
        return
    for first in range(size + 1):
        yield from ((first, *rest) for rest in small_tables(size - first, cells - 1))


def blr_weights(
    counts: Sequence[int], queries: Integers, size: int, epsilon: Fraction
) -> dict[tuple[int, ...], float]:
    """Return the probability of every table of `size` rows, under the exponential mechanism.

    The score of a table is minus its largest error, as a share of rows, over the `queries` (rows of
    0 and 1). Replacing one of n rows changes it by 1/n at most, so that the weight of a score s is
    exp(ε n s / 2).
    """
    people = sum(counts)
    true = queries @ np.array(counts) / people
    tables = list(small_tables(size, len(counts)))
    errors = np.abs(np.array(tables) @ queries.T / size - true).max(axis=1)
    weights = np.exp(-float(epsilon) * people * (errors - errors.min()) / 2)
    shares = weights / weights.sum()
    return dict(zip(tables, shares.tolist(), strict=True))


def blr_size(queries: int, alpha: float) -> int:
    """Return the number of rows that a small table needs to be within `alpha` on all queries."""
    return math.ceil(math.log(2 * queries) / (2 * alpha**2))


# --- the figures ---------------------------------------------------------------------------------


def main(seeds: int = 20) -> None:
    """Print the root mean square errors of the three methods and of a release beside each."""
    rng, epsilon = np.random.default_rng(1), Fraction(1)
    counts = np.zeros(1024, np.int64)
    counts[rng.choice(1024, 30, replace=False)] = rng.integers(50, 400, 30)
    cell = np.eye(1024)[int(np.argmax(counts))]
    half = (np.arange(1024) < 512).astype(float)
    for name, query in (("one cell", cell), ("half of the cells", half)):
        truth = float(query @ counts)
        for rows in (16, 64, 256):
            errors = [
                read_projection(query, project(counts, rows, epsilon, s, Keystream(s)), s) - truth
                for s in range(seeds)
            ]
            known = math.sqrt(projection_variance(query, counts, rows, epsilon))
            print(f"project  {name}, {rows} sums: {_rms(errors):.0f} (by formula {known:.0f})")
        dense = math.sqrt(DiscreteLaplace(1 / epsilon).variance * float(query @ query))
        print(f"         {name}, Histogram: {dense:.1f}")
    people = (rng.random((2000, 6)) < 0.3).astype(np.int64)
    truth = float(people[:, 0] @ people[:, 1])
    for rows in (10, 100):
        errors = [
            read_products(compress_rows(people, rows, epsilon, 6, Keystream(s)), epsilon, 6)[0, 1]
            - truth
            for s in range(seeds)
        ]
        print(f"compress rows, a pair of 2000 people, {rows} sums: {_rms(errors):.0f}")
    pair = DiscreteLaplace(Fraction(2 * comb(6, 2)))
    print(f"         Marginals, a cell of all pairs at once: {pair.stderr:.0f} at most")
    counts8 = np.array([400, 250, 150, 90, 60, 30, 15, 5])
    queries = np.tri(8, dtype=np.int64)
    for share in (Fraction(1, 10), Fraction(1)):
        law = blr_weights(counts8.tolist(), queries, 12, share)
        truth8 = queries @ counts8 / 1000
        worst = sum(
            p * float(np.abs(queries @ np.array(t) / 12 - truth8).max()) for t, p in law.items()
        )
        prefix = DiscreteLaplace(2 / share)
        print(
            f"BLR, 8 cells, 12 rows, ε = {float(share):g}: largest error {1000 * worst:.0f} of 1000"
            f" people; Histogram, the longest prefix: {prefix.stderr * math.sqrt(8):.0f}"
        )


def _rms(errors: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


if __name__ == "__main__":
    main()
