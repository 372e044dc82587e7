"""AlphaBeta: the spec's numbers, the exact promise by enumeration, and what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil, exp, log, prod, sqrt
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.alphabeta.design import InclusionProbabilities, Tuples
from scumble.families.alphabeta.publish.guarantee import odds_of
from scumble.model.privacy.guarantee import Guarantees, gamma_for_epsilon
from scumble.private.sampling.source import Keystream
from scumble.private.tables.rows import Rows
from scumble.public.manifest import Manifest
from scumble.public.release import Release

ADULT = {
    "age": 72,
    "workclass": 7,
    "education": 16,
    "marital-status": 7,
    "occupation": 14,
    "race": 5,
    "sex": 2,
    "native-country": 41,
    "income": 2,
}


def _sized(**sizes: int) -> sc.Schema:
    return sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in sizes.items()]
    )


class Silent(Keystream):
    """A source that must not be asked."""

    def fill(self, out: object) -> None:
        raise AssertionError("something was drawn")


def _perturb(private: pa.Table, domain: sc.Schema, mechanism: sc.AlphaBeta) -> None:
    """Publish without any randomness at hand: only a refusal gets through."""
    mechanism.check(domain)
    mechanism.perturb(Rows(private, domain), Silent(1), Path(tempfile.mkdtemp()))


# --- the numbers of the spec ---------------------------------------------------------------------


def test_worked_example_of_the_paper() -> None:
    """m = 1200, α = 2/3, β = 1/150; on table 1(d) `score < 3*age` has n_V = 6 and n_D = 549, so
    that the estimate is 3.51; the truth on table 1(a) is 3.
    """
    nations = ("American", "British", "Indian")
    domain = sc.Schema(
        [
            sc.Attribute("age", "quasi", sc.IntegerRange(20, 39)),
            sc.Attribute("nationality", "quasi", sc.Category(nations)),
            sc.Attribute("score", "sensitive", sc.IntegerRange(81, 100)),
        ]
    )
    assert domain.size() == 1200
    law = sc.AlphaBeta(alpha=Fraction(2, 3), beta=Fraction(1, 150)).presence(domain, 6)
    assert law == InclusionProbabilities(6, Fraction(2, 3) + Fraction(1, 150), Fraction(1, 150))
    private = "25B99 27B97 21I82 32I90 33A94 36A94"  # table 1(a)
    assert sum(int(s[3:]) < 3 * int(s[:2]) for s in private.split()) == 3
    shown = "25B99 21B99 22I89 32I90 28I99 29A81 33A94 27A94 32B83 36A94 26A99 39I94"  # table 1(d)
    whole = {nation[0]: nation for nation in nations}
    rows = [(int(s[:2]), whole[s[2]], int(s[3:])) for s in shown.split()]
    folder = Path(tempfile.mkdtemp())
    columns = dict(zip(domain.names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "tuples.parquet")
    evidence = Tuples("tuples.parquet", domain.names, law)
    release = Release(Manifest("alphabeta", {}, domain, Guarantees(), evidence), folder)
    answer = release.answer("SELECT COUNT(*) FROM t WHERE score < 3*age")
    assert float(answer) == pytest.approx(float((6 - Fraction(549, 150)) / Fraction(2, 3)))
    assert round(float(answer), 2) == 3.51


def test_tight_noise_of_the_experiment() -> None:
    """k = 10, γ = 0.2, n = 30162, m = 648,023,040: β = 0.000931, about 0.6 million false tuples."""
    domain = _sized(**ADULT)
    assert domain.size() == 648_023_040
    law = sc.AlphaBeta(k=10, gamma=0.2).presence(domain, 30162)
    d = Fraction(10 * 30162, 648_023_040)
    assert law.keep == Fraction(1, 2)
    assert law.noise == Fraction(1, 2) * d * 4 / (1 - d)
    assert round(float(law.noise), 6) == 0.000931
    mechanism = sc.AlphaBeta(k=10, gamma=0.2)
    facts = mechanism.report(domain, Tuples("tuples.parquet", domain.names, law))
    assert facts["false tuples expected"] == 603_493
    assert facts["beta"] == 0.000931326
    assert facts["usefulness"]["rho"] == 34.36
    assert facts["usefulness"]["rho times root n"] == ceil(34.357552668 * sqrt(30162))
    # Bernstein's bound is proved, and here it is the smaller one.
    assert facts["error bound"]["count"] < facts["usefulness"]["rho times root n"]


def test_adult_has_fewer_different_rows(shared_data: Path) -> None:
    table = pc.read_csv(shared_data / "adult_train_complete_30162.csv").select(list(ADULT))
    domain = sc.Schema.infer(table)
    release = sc.publish(table, domain, sc.AlphaBeta(k=10, gamma=0.2, duplicates="collapse"))
    assert release.evidence.rows == 19_502
    assert release.remarks == ("Equal rows were made one: the release counts different rows.",)
    with pytest.raises(sc.PromiseError, match="Some rows of the table are equal"):
        _perturb(table, domain, sc.AlphaBeta(k=10, gamma=0.2))


def test_exclusive_attackers_take_the_noise_of_theorem_6_3() -> None:
    mechanism = sc.AlphaBeta(d=Fraction(1, 100), gamma=Fraction(1, 5), adversary="exclusive")
    law = mechanism.presence(_sized(a=1000), 100)
    assert law.keep == Fraction(1, 2)
    assert law.noise == 2 * (Fraction(1, 100) / Fraction(1, 5)) * Fraction(4, 5) / Fraction(99, 100)


# --- the promise, by enumeration -----------------------------------------------------------------


def _presences(
    law: InclusionProbabilities, shares: list[Fraction]
) -> list[tuple[Fraction, Fraction]]:
    """For each tuple: the probability to be seen if true, and if false."""
    alpha = law.keep - law.noise
    noise = [law.noise * len(shares) * share for share in shares]
    return [(alpha + each, each) for each in noise]


def _seen(view: tuple[bool, ...], table: tuple[bool, ...], chances) -> Fraction:
    """P(view | table)."""
    return prod(
        (
            (chance if seen else 1 - chance)
            for seen, true, pair in zip(view, table, chances, strict=True)
            for chance in [pair[0] if true else pair[1]]
        ),
        start=Fraction(1),
    )


def _posteriors(chances, priors: list[Fraction]) -> Iterator[tuple[int, Fraction]]:
    """Every posterior of every tuple, for an attacker to whom tuples are independent."""
    every = list(product((False, True), repeat=len(priors)))
    for view in every:
        total = Fraction(0)
        true = [Fraction(0)] * len(priors)
        for table in every:
            weight = _seen(view, table, chances)
            for place, prior in enumerate(priors):
                weight *= prior if table[place] else 1 - prior
            total += weight
            for place in range(len(priors)):
                true[place] += weight if table[place] else 0
        yield from ((place, each / total) for place, each in enumerate(true))


UNIFORM = [Fraction(1, 3)] * 3


@pytest.mark.parametrize("keep", [None, 0.3])
def test_no_posterior_leaves_its_bounds(keep: float | None) -> None:
    """All tables and all views over three tuples: γ is reached exactly and never exceeded."""
    d, gamma = Fraction(1, 10), Fraction(1, 2)
    law = sc.AlphaBeta(d=Fraction(1, 10), gamma=Fraction(1, 2), keep=keep).presence(_sized(a=3), 1)
    chances = _presences(law, UNIFORM)
    for priors in ([d, d, d], [d, d / 3, Fraction(1, 1000)], [d, Fraction(1), d / 2]):
        ends = [(priors[place], end) for place, end in _posteriors(chances, priors)]
        hidden = [(prior, end) for prior, end in ends if prior <= d]
        assert max(end for _, end in hidden) == gamma
        ratios = [end / prior for prior, end in hidden]
        assert min(ratios) >= d / gamma
        assert min(ratios) >= odds_of(law).least


def test_the_promise_states_what_enumeration_finds() -> None:
    domain = _sized(a=1000)
    first, joined, *_ = sc.AlphaBeta(d=Fraction(1, 100), gamma=Fraction(1, 5)).guarantee(domain, 10)
    assert first.parameters["d"] == pytest.approx(0.01)
    assert first.parameters["gamma"] == pytest.approx(0.2)
    assert "gave a row at most 1 % to be in the table" in str(first)
    assert "at most 20 % after seeing the view" in str(first)
    assert "at least 51 % of what he gave it before" in str(first)
    assert joined.parameters["gamma"] == pytest.approx(0.3288, abs=1e-4)
    assert any("published as it is" in limit for limit in first.limits)
    assert any("more than the prior named here" in limit for limit in first.limits)
    assert any("no two rows" in limit for limit in first.limits)


def test_no_join_attack_gets_beyond_its_bound() -> None:
    """Exactly one of three tuples is true: every prior on a grid, every view."""
    d, gamma = Fraction(2, 5), Fraction(19, 20)
    law = sc.AlphaBeta(d=Fraction(2, 5), gamma=Fraction(19, 20), adversary="exclusive").presence(
        _sized(a=3), 1
    )
    bound = odds_of(law).end_of_one(d)
    assert bound <= gamma
    chances = _presences(law, UNIFORM)
    tables = [tuple(place == true for place in range(3)) for true in range(3)]
    largest = Fraction(0)
    for steps in product(range(9), repeat=2):
        priors = [Fraction(steps[0], 20), Fraction(steps[1], 20)]
        priors.append(1 - sum(priors))
        if not 0 <= priors[2] <= d:
            continue
        for view in product((False, True), repeat=3):
            weights = [p * _seen(view, t, chances) for p, t in zip(priors, tables, strict=True)]
            largest = max(largest, *(weight / sum(weights) for weight in weights))
    assert largest == bound


@pytest.mark.parametrize(("alpha", "beta"), [("1/2", "1/10"), ("3/4", "3/20")])
@pytest.mark.parametrize("sources", [None, {"a": [1, 2, 3]}])
def test_losses_are_exact(sources: dict | None, alpha: str, beta: str) -> None:
    """The largest ratio over all pairs of tables that differ in one tuple, and over all that have
    one in place of another, is e^ε as stated. With the second pair of probabilities a tuple that
    is missing tells more than one that is seen.
    """
    shares = UNIFORM if sources is None else [Fraction(w, 6) for w in (1, 2, 3)]
    mechanism = sc.AlphaBeta(alpha=Fraction(alpha), beta=Fraction(beta), sources=sources)
    law = mechanism.presence(_sized(a=3), 1)
    chances = _presences(law, shares)
    every = list(product((False, True), repeat=3))

    def largest(differ: int, same_size: bool) -> Fraction:
        return max(
            _seen(view, one, chances) / _seen(view, other, chances)
            for one in every
            for other in every
            if sum(x != y for x, y in zip(one, other, strict=True)) == differ
            and (sum(one) == sum(other)) == same_size
            for view in every
        )

    assert largest(1, same_size=False) == odds_of(law).factor
    swapped = largest(2, same_size=True)
    # With sources the two extremes can belong to one tuple, which cannot replace itself.
    assert swapped == odds_of(law).spread if sources is None else swapped <= odds_of(law).spread
    stated = [g for g in mechanism.guarantee(_sized(a=3), 1) if g.statement == "ε-DP"]
    assert [g.neighbourhood for g in stated] == ["add or remove one person", "replace one person"]
    for promise, factor in zip(stated, (odds_of(law).factor, odds_of(law).spread), strict=True):
        assert promise.parameters["epsilon"] == pytest.approx(log(factor))


def test_noise_for_a_loss() -> None:
    """β = e^−ε / 2, rounded so that ε is kept; the promise that was asked for comes first."""
    domain = _sized(a=1000)
    mechanism = sc.AlphaBeta(epsilon=2)
    law = mechanism.presence(domain, 10)
    assert law.keep == Fraction(1, 2)
    assert float(law.noise) == pytest.approx(exp(-2) / 2, rel=1e-15)
    assert odds_of(law).factor <= gamma_for_epsilon(Fraction(2))
    for rows in (None, 10):
        first = mechanism.guarantee(domain, rows)[0]
        assert (first.statement, first.neighbourhood) == ("ε-DP", "add or remove one person")
        assert first.parameters["epsilon"] == 2
    with pytest.raises(sc.ParameterError, match="draws of false tuples"):
        mechanism.check(_sized(a=10**6, b=10**6))


def test_no_view_costs_more_than_the_loss_asked_for(subtests: pytest.Subtests) -> None:
    """Over everything that can be seen of a tuple; or it is refused, without sources only if a keep
    above e^ε/(1 + e^ε) or several views are asked for.
    """
    for epsilon, keep, more in product(
        [Fraction(1, 10), Fraction(1, 2), 1, 3],
        [None, Fraction(1, 10), Fraction(2, 5), Fraction(5, 7)],
        [{}, {"views": 2}, {"sources": {"a": [1, 2, 3]}}],
    ):
        with subtests.test(epsilon=epsilon, keep=keep, more=str(more)):
            bound = gamma_for_epsilon(Fraction(epsilon))
            try:
                mechanism = sc.AlphaBeta(epsilon=epsilon, keep=keep, **more)
                law = mechanism.presence(_sized(a=3), 1)
            except (sc.ParameterError, sc.PromiseError):
                assert more or Fraction(keep or 0) > bound / (1 + bound)
                continue
            assert 1 / bound <= odds_of(law).least
            assert odds_of(law).most <= bound
            if more:
                continue
            assert law.keep <= bound / (1 + bound)
            chances = _presences(law, UNIFORM)
            every = list(product((False, True), repeat=3))
            for view, table in product(every, every):
                without = (False, *table[1:])
                ratio = _seen(view, (True, *table[1:]), chances) / _seen(view, without, chances)
                assert 1 / bound <= ratio <= bound


def test_sources_keep_the_promise_for_every_tuple() -> None:
    """With d, any prior of at most d; with k, priors of at most k·n·p(t): γ is reached in both."""
    domain = _sized(a=3, b=2)
    sources = {"a": [1, 2, 3], "b": [1, 2]}
    shares = [Fraction(a, 6) * Fraction(b, 3) for a in (1, 2, 3) for b in (1, 2)]
    gamma = Fraction(1, 2)
    law = sc.AlphaBeta(
        d=Fraction(1, 50), gamma=Fraction(1, 2), keep=Fraction(1, 4), sources=sources
    ).presence(domain, 1)
    d = Fraction(1, 50)
    chances = _presences(law, shares)
    ends = [d * seen / (d * seen + (1 - d) * noise) for seen, noise in chances]
    assert max(ends) == gamma
    assert all((1 - seen) / (1 - noise) >= d / gamma for seen, noise in chances)
    law = sc.AlphaBeta(k=1, gamma=Fraction(1, 2), keep=Fraction(1, 4), sources=sources).presence(
        domain, 1
    )
    priors = shares  # k = n = 1
    ends = [
        p * seen / (p * seen + (1 - p) * noise)
        for p, (seen, noise) in zip(priors, _presences(law, shares), strict=True)
    ]
    assert max(ends) == gamma
    assert all((1 - s) / (1 - f) >= max(priors) / gamma for s, f in _presences(law, shares))


def test_public_sources_are_said_to_be_public() -> None:
    mechanism = sc.AlphaBeta(k=2, gamma=0.5, sources={"a": [1] * 50 + [2] * 50})
    promises = mechanism.guarantee(_sized(a=100, b=100), 10)
    assert "times its share in the sources" in str(promises[0])
    assert all(any("must not come from" in limit for limit in p.limits) for p in promises)


# --- what is refused -----------------------------------------------------------------------------
