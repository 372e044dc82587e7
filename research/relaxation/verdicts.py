"""Verdicts on the sentences of the paper on query relaxation.

The plots of the paper are not readable in its text: only what its sentences say can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from research.relaxation.experiments import CENTRES, Scale
from research.relaxation.simulation import PAPER
from research.study import Row, Study, Verdict

_SLACK = 0.02  # of a value that should not fall, or not rise
_CHANGE = 0.05  # of a value that should fall or rise


def verdicts(found: Study, scale: Scale) -> Iterator[Verdict]:
    """Yield all verdicts, in the order of the figures."""
    yield from _progress(found["figure 11"], scale)
    yield from _capacity(found["figure 12"])
    yield from _quality(found)
    yield from _times(found["figure 16"], scale)
    yield from _goals(found, scale)


def _progress(rows: Sequence[Row], scale: Scale) -> Iterator[Verdict]:
    last = {(r["centres"], r["tracker"], r["θ"]): r for r in rows}
    answered = {key: row["answered"] for key, row in last.items()}
    of = {c: [answered[c, "histogram", k] for k in scale.buckets] for c in CENTRES}
    words = "; ".join(f"{c} {_list(values)}" for c, values in of.items())
    yield Verdict("figure 11", "the capacity grows with θ", words, all(map(_rises, of.values())))
    gain = max(values[-1] / values[-2] for values in of.values())
    yield Verdict(
        "figure 11",
        f"no obvious gain from a θ beyond {scale.buckets[-2]:,}",
        f"up to {gain - 1:.0%} more",
        gain <= 1.05,
        "the buckets run out; with enough of them the decisions are those of exact, since here a "
        "full bucket is split until its counter is exact",
    )
    more = all(u > d for u, d in zip(of["uniform"], of["data"], strict=True))
    yield Verdict("figure 11", "uniform queries leave more capacity than data queries", words, more)
    share = of["uniform"][-2] / rows[0]["bound (3)"]
    exact = answered["uniform", "exact", None] / rows[0]["bound (3)"]
    yield Verdict(
        "figure 11",
        f"for uniform queries and θ = {scale.buckets[-2]:,} the capacity approaches the bound",
        f"{share:.0%} of bound (3), {exact:.0%} with exact",
        share >= 0.8,
        "the buckets run out before the capacity does; why the paper's do not is not said there",
    )
    apart = max(answered[c, "disjoint", None] / of[c][-2] for c in CENTRES)
    words = f"disjoint at most {apart:.1%} of it"
    yield Verdict("figure 11", "far more capacity than disjoint", words, apart < 0.1)


def _capacity(rows: Sequence[Row]) -> Iterator[Verdict]:
    rates = {
        (c, t): [r["answered"] / r["value"] for r in _series(rows, c, t, "ε")]
        for c in CENTRES
        for t in ("histogram", "exact")
    }
    spread = max(max(rate) / min(rate) for rate in rates.values())
    exact = max(max(rates[c, "exact"]) / min(rates[c, "exact"]) for c in CENTRES)
    yield Verdict(
        "figure 12",
        "the capacity is linear in ε",
        f"capacity over ε varies by a factor of {spread:.2f}, of {exact:.2f} with exact",
        spread <= 1.25,
        "a larger capacity needs more buckets, and there are no more of them",
    )
    falls = all(
        _rises([-r["answered"] for r in _series(rows, c, t, "s")])
        for c in CENTRES
        for t in ("histogram", "exact")
    )
    words = f"{_list([r['answered'] for r in _series(rows, 'uniform', 'exact', 's')])} (exact)"
    yield Verdict("figure 12", "a greater s leaves a smaller capacity", words, falls)


def _quality(found: Study) -> Iterator[Verdict]:
    for name, varied, sign, said in (
        ("figure 13", "ξ", -1, "the error falls as ξ grows"),
        ("figure 14", "ε", -1, "the error falls as ε grows"),
        ("figure 15", "s", 1, "the error grows with s"),
    ):
        yield _trend(found[name], name, varied, "error", sign, said)
    for name, varied, sign, said in (
        ("figure 14", "ε", -1, "the compound size falls as ε grows"),
        ("figure 15", "s", 1, "the compound size grows with s"),
    ):
        yield _trend(found[name], name, varied, "size", sign, said)
    largest = max(row["size"] for row in found["figure 13"] if row["value"] == 5)
    words = f"at most {largest:.2f} at ξ = 5"
    yield Verdict("figure 13", "compounds are well below ξ in size", words, largest < 3)


def _trend(rows: Sequence[Row], name: str, varied: str, key: str, sign: int, said: str) -> Verdict:
    trackers = dict.fromkeys(row["tracker"] for row in rows)
    of = {(c, k): [r[key] for r in _series(rows, c, k, varied)] for c in CENTRES for k in trackers}
    words = "; ".join(f"{k}, {c}: {_numbers(values, key)}" for (c, k), values in of.items())
    holds = all(_moves(of[c, "histogram"], sign) for c in CENTRES)
    return Verdict(name, said, words, holds, "with the histogram there are hardly any patches")


def _times(rows: Sequence[Row], scale: Scale) -> Iterator[Verdict]:
    said = {
        "ε": (1, "the time grows with ε"),
        "s": (-1, "the time falls as s grows"),
        "ξ": (1, "the time grows with ξ"),
        "θ": (1, "the time grows with θ"),
    }
    for varied, (sign, sentence) in said.items():
        ends = {}
        for c in CENTRES:
            series = [r["microseconds"] for r in _series(rows, c, "histogram", varied)]
            ends[c] = series[-1] / series[0]
        words = ", ".join(f"last / first {ratio:.2f} ({c})" for c, ratio in ends.items())
        holds = all(sign * (ratio - 1) > 0 for ratio in ends.values())
        yield Verdict("figure 16", sentence, words, holds, "")
    last = {c: _series(rows, c, "histogram", "θ")[-1]["microseconds"] for c in CENTRES}
    ratio = last["data"] / last["uniform"]
    yield Verdict(
        "figure 16",
        f"at θ = {scale.buckets[-1]:,} data queries take much less time than uniform ones",
        f"{ratio:.2f} of it",
        ratio < 0.8,
        "it is less, but not much" if ratio < 1 else "",
    )


def _goals(found: Study, scale: Scale) -> Iterator[Verdict]:
    edges = {(r["centres"], r["edges"], r["tracker"]): r for r in found["edges"]}
    share = edges["uniform", "cut", "exact"]["of bound (3)"]
    moved = edges["uniform", "moved", "exact"]["of bound (3)"]
    yield Verdict(
        "goal",
        "exact answers at least 86 % of bound (3) on uniform queries",
        f"{share:.1%} ({moved:.1%} if intervals are moved into the domain, not cut)",
        share >= 0.86,
        "there is less room between the queries when few may cover a point",
    )
    last = {(r["centres"], r["tracker"], r["θ"]): r["answered"] for r in found["figure 11"]}
    theta = scale.buckets[-2]
    ratio = min(last[c, "histogram", theta] / last[c, PAPER, theta] for c in CENTRES)
    words = (
        f"at least {ratio:.1f} times what its rule answers that splits a full bucket once "
        f"({last['uniform', PAPER, theta]:,}); what its own program answers is not readable"
    )
    yield Verdict(
        "goal", f"histogram at θ = {theta:,} is no worse than the paper's", words, ratio >= 1
    )
    errors = {
        (r["centres"], r["tracker"]): r["error"] for r in found["figure 13"] if r["value"] == 3
    }
    words = ", ".join(f"{error:.2%} ({t}, {c})" for (c, t), error in errors.items())
    yield Verdict(
        "goal",
        "the mean relaxation error at ξ = 3 is below 2 %",
        words,
        max(errors.values()) < 0.02,
        "with few answers the nearest ones are farther away",
    )
    charged, free = (_ratios(found[name]) for name in ("regression", "repeats"))
    yield Verdict(
        "goal",
        "regression has less squared error than compounds",
        f"ratios {_said(charged)}; with every query submitted once {_said(free)}",
        all(ratio < 1 for ratio in charged.values()),
    )


def _ratios(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """The squared error of regression over that of compounds; 1 where nothing was relaxed."""
    return {
        (r["tracker"], r["centres"]): (r["regression"] / r["compound"]) ** 2
        if r["relaxed"]
        else 1.0
        for r in rows
    }


def _said(ratios: dict[tuple[str, str], float]) -> str:
    return ", ".join(f"{ratio:.2f} ({', '.join(key)})" for key, ratio in ratios.items())


def _series(rows: Sequence[Row], centres: str, tracker: str, varied: str) -> list[Row]:
    wanted = centres, tracker, varied
    return [row for row in rows if (row["centres"], row["tracker"], row["varied"]) == wanted]


def _rises(values: Sequence[float]) -> bool:
    """Return whether no value is below the one before it, up to a little noise."""
    return all(after >= before - _SLACK * abs(before) for before, after in pairwise(values))


def _moves(values: Sequence[float], sign: int) -> bool:
    """Return whether values move in one direction throughout, and by more than a little."""
    signed = [sign * value for value in values]
    return _rises(signed) and signed[-1] - signed[0] > _CHANGE * abs(signed[0])


def _numbers(values: Sequence[float], key: str) -> str:
    return " ".join(f"{value:.2%}" if key == "error" else f"{value:.2f}" for value in values)


def _list(values: Sequence[int]) -> str:
    return " ".join(f"{value:,}" for value in values)
