"""Limits on a probability from how often something happened (Clopper and Pearson, 1934)."""

from __future__ import annotations


def at_least(times: int, tries: int, confidence: float) -> float:
    """A limit that the true probability is below with a chance of at most 1 - confidence."""
    from scipy.stats import beta

    return 0.0 if times == 0 else float(beta.ppf(1 - confidence, times, tries - times + 1))


def at_most(times: int, tries: int, confidence: float) -> float:
    """A limit that the true probability is above with a chance of at most 1 - confidence."""
    from scipy.stats import beta

    return 1.0 if times == tries else float(beta.ppf(confidence, times + 1, tries - times))
