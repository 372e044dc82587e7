"""What is known of DPBench's errors, and how a measured one compares.

The figures are means of log10 of the scaled error at ε = 0.1. The error of methods that add noise
of one law to every table alike does not depend on the dataset: their figures hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

_ROUNDING = 0.005  # of the figures
NAMES = {
    "histogram": "Identity",
    "hierarchy": "HB",
    "wavelet": "Privelet",
    "quadtree": "quadtree, geometric budget",
    "privtree": "PrivTree",
    "grid": "AG",
    "dawa": "DAWA",
}
_EVERY = {  # by method, dimensions and rows
    ("histogram", 1, 10**5): -4.16,
    ("hierarchy", 1, 10**3): -2.63,
    ("hierarchy", 1, 10**5): -4.63,
    ("wavelet", 1, 10**5): -4.52,
    ("hierarchy", 2, 10**4): -2.86,
    ("hierarchy", 2, 10**6): -4.86,
    ("quadtree", 2, 10**4): -2.82,
    ("quadtree", 2, 10**6): -4.82,
    ("wavelet", 2, 10**4): -2.56,
    ("wavelet", 2, 10**6): -4.56,
}
_ONE = {  # by method, dataset and rows
    ("dawa", "NETTRACE", 10**5): -4.83,
    ("privtree", "SF-CABS-E", 10**4): -3.77,
    ("privtree", "SF-CABS-E", 10**6): -5.53,
    ("privtree", "GOWALLA", 10**4): -3.44,
    ("privtree", "GOWALLA", 10**6): -4.97,
    ("privtree", "STROKE", 10**4): -3.31,
    ("privtree", "STROKE", 10**6): -4.59,
    ("grid", "SF-CABS-E", 10**4): -3.59,
    ("grid", "SF-CABS-E", 10**6): -5.20,
    ("grid", "GOWALLA", 10**4): -3.42,
    ("grid", "GOWALLA", 10**6): -5.16,
}


def reference(row: Row) -> float | None:
    """The figure for the method, dataset and scale of a row, if there is one."""
    found = _ONE.get((row["method"], row["dataset"], row["rows"]))
    return _EVERY.get((row["method"], row["dimensions"], row["rows"])) if found is None else found


@dataclass(frozen=True)
class Verdict:
    """A measured error beside its reference."""

    row: Row
    known: float

    @property
    def good(self) -> bool:
        """At least as good, or not significantly worse."""
        return bool(self.row["error"] <= self.known + self._slack)

    @property
    def word(self) -> str:
        better = self.row["error"] < self.known - self._slack
        return "better" if better else "as good" if self.good else "worse"

    @property
    def _slack(self) -> float:
        """Two standard errors; of few trials as many more as Student's law has for the same
        odds.
        """
        from scipy.special import stdtrit

        times = float(stdtrit(self.row["trials"] - 1, 0.97725))
        return _ROUNDING + times * float(self.row["stderr"])

    def __str__(self) -> str:
        row = self.row
        return (
            f"{row['method']} on {row['dataset']}, {row['rows']:,} rows: {row['error']:.2f} "
            f"± {row['stderr']:.2f}, reference {self.known:.2f} ({NAMES[row['method']]}): "
            f"{self.word}"
        )


def verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """A verdict for every row that has a reference."""
    for row in rows:
        known = reference(row)
        if known is not None:
            yield Verdict(row, known)
