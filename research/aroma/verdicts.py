"""Verdicts on the sentences of the paper on Aroma."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi, sqrt

from research.aroma.views import EPSILON, K
from research.study import Row, Study, Verdict

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


# Comparisons with other methods: figures 8 to 11, and the adaptive mechanism (AM).

_LITTLE = 3.0  # times FRAPP's time: what still counts as an acceptable overhead


def rivals(found: Study) -> Iterator[Verdict]:
    """All of them, in the order of the paper."""
    yield from _sizes(found["figure 8"])
    yield from _levels(found["figure 9"])
    yield from _equal(found["equal exposure"])
    yield from _averages(found["figure 10"])
    yield from _times(found["figure 11"])
    yield from _count(found["one count"])
    yield from _same(found["one count, equal exposure"])


def _sizes(rows: Sequence[Row]) -> Iterator[Verdict]:
    ratio = _ratios(rows, "αβ", "error")
    seen = [_of(rows, name)[0]["exposure"] for name in ("αβ", "Aroma")]
    yield Verdict(
        "figure 8",
        "at the same posterior Aroma is more accurate than αβ, whatever q",
        f"αβ's error is {min(ratio):.1f} to {max(ratio):.1f} times as large; but it is exposed "
        f"with {seen[0]:.2f}, Aroma with {seen[1]:.2f}",
        min(ratio) > 1,
    )


def _levels(rows: Sequence[Row]) -> Iterator[Verdict]:
    ours, replaced = _of(rows, "Aroma"), _of(rows, "FRAPP")
    pairs = zip(_ratios(rows, "FRAPP", "error"), ours, strict=True)
    roots = [each / sqrt(row["k"]) for each, row in pairs]
    yield Verdict(
        "figure 9",
        "FRAPP's errors are about √k times as large",
        f"{min(roots):.2f} to {max(roots):.2f} times √k; but its exposure is "
        f"{replaced[-1]['exposure']:.3f} where Aroma's is {ours[-1]['exposure']:.3f} "
        f"(k = {ours[-1]['k']})",
        min(roots) > 0.7 and max(roots) < 1.4,
    )


def _equal(rows: Sequence[Row]) -> Iterator[Verdict]:
    claims = {
        "uniform": "than FRAPP, as uniform perturbation of the value",
        "αβ": "than αβ, where all places are taken, its best case",
        "subset": "than subset (not in the paper)",
        "subset, ε": "than subset with the ε of uniform, which is exposed less (not in the paper)",
    }
    ours = _of(rows, "Aroma")
    for rival, claim in claims.items():
        ratio = _ratios(rows, rival, "theory")
        pairs = ", ".join(f"{row['exposure']:.3f}" for row in _of(rows, rival))
        yield Verdict(
            "equal exposure",
            f"Aroma has less error {claim}",
            f"by theory {', '.join(f'{r:.2f}' for r in ratio)} times Aroma's error for k = "
            f"{', '.join(str(row['k']) for row in ours)}; exposed with {pairs}, Aroma with "
            + ", ".join(f"{row['exposure']:.3f}" for row in ours),
            min(ratio) > 1,
            "no theorem says so of this method"
            if rival.startswith("subset")
            else "equal posteriors as the paper reads them are not equal for an adversary",
        )


def _averages(rows: Sequence[Row]) -> Iterator[Verdict]:
    ours, paper = _of(rows, "Aroma"), _of(rows, "FRAPP")
    ratio = _ratios(rows, "FRAPP", "error")
    yield Verdict(
        "figure 10",
        "averages, too, have significantly smaller errors than FRAPP's",
        f"{', '.join(f'{r:.1f}' for r in ratio)} times Aroma's error "
        f"({ours[0]['error']:.2f} to {ours[-1]['error']:.2f} years) for k = "
        f"{', '.join(str(row['k']) for row in ours)}; but FRAPP is exposed with "
        f"{paper[0]['exposure']:.3f} to {paper[-1]['exposure']:.3f}, Aroma with "
        f"{ours[0]['exposure']:.3f} to {ours[-1]['exposure']:.3f}",
        min(ratio) > 1.5,
        "there were few runs, or few people with the value",
    )
    for rival in ("uniform", "subset"):
        ratio = _ratios(rows, rival, "theory")
        yield Verdict(
            "figure 10, equal exposure",
            f"averages have less error than those of {rival}",
            f"by theory {', '.join(f'{r:.2f}' for r in ratio)} times Aroma's error",
            min(ratio) > 1,
            "the paper does not compare with it",
        )


def _times(rows: Sequence[Row]) -> Iterator[Verdict]:
    ours = _of(rows, "Aroma")
    answer = [row["answer / FRAPP"] for row in ours]
    publish = [row["publish / FRAPP"] for row in ours]
    yield Verdict(
        "figure 11",
        "answering takes little more time than with FRAPP, as views are compact",
        f"{min(answer):.1f} to {max(answer):.1f} times FRAPP's for k = {ours[0]['k']} to "
        f"{ours[-1]['k']} ({ours[0]['bytes a row']:.1f} to {ours[-1]['bytes a row']:.1f} bytes a "
        f"row); publishing takes {min(publish):.1f} to {max(publish):.1f} times FRAPP's",
        max(answer) < _LITTLE,
        "a query reads the columns of all values, by posterior probabilities",
    )


def _count(rows: Sequence[Row]) -> Iterator[Verdict]:
    low = {row["method"]: row for row in rows if row["ε"] == rows[0]["ε"]}
    ours = low["Aroma"]
    yield Verdict(
        "comparison with AM",
        "the relative error of one count is below 0.1 at ε around 0.2",
        f"{ours['error']:.2f} at ε = {ours['ε']:g} (k = {ours['k']}), by theory "
        f"{ours['theory']:.2f}; with a true ε = {ours['ε']:g} uniform has "
        f"{low['uniform']['error']:.2f} and subset {low['subset']['error']:.2f}",
        ours["error"] < 0.1,
        "the k that the theorem asks for makes that much noise in a count of this size",
    )
    readings = ("AM", "AM, batch", "AM, other ends")
    small = {name: low[name]["theory"] / ours["theory"] for name in readings}
    words = ", ".join(f"{ratio:.2f} ({name})" for name, ratio in small.items())
    yield Verdict(
        "comparison with AM",
        "for small ε the error of AM is 1.5 to 3.5 times that of Aroma",
        f"by theory {words} at ε = {ours['ε']:g}; one count of AM would have to be made from a "
        f"batch in which its noise is {1.5 / small['AM']:.0f} times as large",
        max(small.values()) >= 1.5,
        "AM adds noise to sums of all people, Aroma to each of them; which batch AM got the paper "
        "does not say",
    )
    last = {row["method"]: row for row in rows if row["ε"] == rows[-1]["ε"]}
    near = {name: last[name]["theory"] / last["Aroma"]["theory"] for name in readings}
    words = ", ".join(f"{ratio:.2f} ({name})" for name, ratio in near.items())
    close = [name for name, ratio in near.items() if 0.5 < ratio < 2]
    yield Verdict(
        "comparison with AM",
        "for large ε both are close",
        f"by theory {words} of Aroma's error at ε = {rows[-1]['ε']:g}"
        + (f", so close as {' and '.join(close)}" if close else ""),
        bool(close),
        "AM has less error under every reading",
    )


def _same(rows: Sequence[Row]) -> Iterator[Verdict]:
    ratio = _ratios(rows, "AM, batch", "theory")
    seen = ", ".join(f"{row['exposure']:.3f}" for row in _of(rows, "Aroma"))
    yield Verdict(
        "comparison with AM, equal exposure",
        "Aroma has less error than AM",
        f"by theory AM has {min(ratio):.3f} to {max(ratio):.3f} of Aroma's error, where both are "
        f"exposed with {seen}",
        min(ratio) > 1,
        "AM needs somebody who is trusted with all rows and questions that are known beforehand; "
        "Aroma needs neither, and that is its price",
    )


def _of(rows: Sequence[Row], method: str) -> list[Row]:
    return [row for row in rows if row["method"] == method]


def _ratios(rows: Sequence[Row], rival: str, key: str) -> list[float]:
    """The error of a rival over Aroma's, row by row."""
    return [b[key] / a[key] for a, b in zip(_of(rows, "Aroma"), _of(rows, rival), strict=True)]
