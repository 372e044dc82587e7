"""What the paper on Aroma says of its experiments, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi, sqrt

from research.aroma.aroma_report_rivals import rivals
from research.aroma.experiments import EPSILON, K, Row, Study
from research.relaxation.verdicts import Verdict

_NORMAL = sqrt(2 / pi)  # the mean of |error| of a normal error, in standard deviations
_CLOSE = 0.15


def verdicts(found: Study) -> Iterator[Verdict]:
    """All of them, in the order of the paper."""
    yield from _loss(found["figure 4"])
    yield from _again(found["figure 5"])
    yield from _accuracy(found["figure 6"])
    yield from _output(found["figure 7a"], found["figure 7b"])
    yield from rivals(found)


def _loss(rows: Sequence[Row]) -> Iterator[Verdict]:
    half = next(row for row in rows if row["ε"] == EPSILON)
    yield Verdict(
        "figure 4",
        f"ε = {EPSILON:g} needs k = {K}, for 15 values",
        f"k = {half['k']} (its condition is k ≥ 49.2)",
        abs(half["k"] - K) <= 1,
    )
    beyond = [row for row in rows if row["exposure"] > row["allowed by ε-DP"]]
    yield Verdict(
        "theorem 4.4",
        "with that k the view is ε-differentially private",
        f"at ε = {EPSILON:g} the view has (ε, δ)-LDP with δ = {half['δ(ε)']:.3f}; secret values "
        f"are guessed with {half['exposure']:.3f}, and ε-DP allows {half['allowed by ε-DP']:.3f}; "
        f"more than allowed at {len(beyond)} of {len(rows)} values of ε",
        not beyond,
        "the theorem is about one count, by a normal approximation; a value that is not in the bag "
        "is excluded for certain, so that no ε holds",
    )


def _again(rows: Sequence[Row]) -> Iterator[Verdict]:
    beyond = [row["exact"] for row in rows if row["varied"] == "k" and row["k"] >= 35]
    yield Verdict(
        "figure 5a",
        "hardly any record is drawn again for k above 35 and n = 4 m",
        f"exactly {beyond[0]:.2%} at k = 35, then {', '.join(f'{b:.2%}' for b in beyond[1:])}",
        max(beyond) < 0.01,
    )
    safe = all(row["exact"] <= row["Theorem 4.1"] + 1e-9 for row in rows)
    factor = max(r["Theorem 4.1"] / r["exact"] for r in rows if r["exact"] > 1e-6)
    yield Verdict(
        "figure 5",
        "much less is drawn again than the bound of theorem 4.1, which is safe",
        f"the bound is up to {factor:.0f} times the exact share, and "
        f"{'never' if safe else 'somewhere'} below it",
        safe and factor > 3,
    )
    rising = [row["exact"] for row in rows if row["varied"] == "n"]
    yield Verdict(
        "figure 5b",
        "more is drawn again as n grows",
        f"{rising[0]:.2%} at n = 3 m to {rising[-1]:.0%} at n = 8 m, k = {K}",
        rising == sorted(rising) and rising[-1] > 0.1,
    )


def _accuracy(rows: Sequence[Row]) -> Iterator[Verdict]:
    ratios = [row["ratio"] for row in rows if row["varied"] != "f"]
    mean = sum(ratios) / len(ratios)
    yield Verdict(
        "figure 6",
        "errors follow the standard deviation √((k−1)f(1−f)/q)",
        f"{min(ratios):.2f} to {max(ratios):.2f} of it, against q and k",
        all(abs(ratio / _NORMAL - 1) < _CLOSE for ratio in ratios),
        "there were few runs",
    )
    yield Verdict(
        "figure 6",
        "errors are slightly smaller than the standard deviation, by a small systematic error",
        f"{mean:.2f} of it; √(2/π) = {_NORMAL:.2f} is the mean |error| of an unbiased normal "
        "estimate",
        abs(mean / _NORMAL - 1) > _CLOSE,
        "nothing systematic is needed: a mean error is below the standard deviation",
    )
    shares = {row["f"]: row["error"] for row in rows if row["varied"] == "f"}
    words = ", ".join(f"{error:.2%} at {share:g}" for share, error in shares.items())
    yield Verdict(
        "figure 6c",
        "the error is largest for f near 0.5",
        words,
        max(shares, key=shares.__getitem__) == 0.5,
    )


def _output(growing: Sequence[Row], losses: Sequence[Row]) -> Iterator[Verdict]:
    name = "output perturbation"
    overtaken = next((r["queries"] for r in growing if r[name] > r["Aroma"]), None)
    flat = [row["Aroma"] for row in growing]
    words = f"worse after {overtaken:,} queries" if overtaken else "never worse"
    yield Verdict(
        "figure 7a",
        "output perturbation deteriorates with every query and ends worse; Aroma stays",
        f"{growing[0][name]:.0f} to {growing[-1][name]:.0f} rows, {words}; Aroma "
        f"{min(flat):.0f} to {max(flat):.0f} (queries about {growing[0]['people in a query']:,} "
        "people)",
        overtaken is not None and growing[-1][name] > 2 * growing[0][name],
        "noise of Aroma grows with the people that a query is about, which the paper does not say; "
        "with so many the output is better for longer",
    )
    last = list(losses[0])[4]
    yield Verdict(
        "figure 7b",
        "the first query is better by output perturbation, later ones are better by Aroma",
        f"at ε = {EPSILON:g}: " + next(
            f"{r['first query']:.0f}, {r[last]:.0f} at the last, Aroma {r['Aroma']:.0f}"
            for r in losses if r["ε"] == EPSILON
        ),
        all(r["first query"] < r["Aroma"] < r[last] for r in losses),
        "as in figure 7a; and Aroma's k gives no ε-DP: the two do not promise the same",
    )  # fmt: skip
