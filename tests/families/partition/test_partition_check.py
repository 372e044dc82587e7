"""Posteriors of attackers who know something, against Bayes' rule over all that can be seen."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.release_claims import CONFIDENCE, claims
from scumble.families.alphabeta.design import InclusionProbabilities, TupleOdds
from scumble.families.partition.check import ReleasedParts
from scumble.families.partition.publish import SubTable, keep_for, split
from scumble.model.privacy.guarantee import Guarantees, gamma_for_rho, posterior_at_most

TENTH = Fraction(1, 10)
SHARES = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))
LAWS = [
    InclusionProbabilities(3, 5 * TENTH, TENTH),
    InclusionProbabilities(3, 3 * TENTH, 2 * TENTH),
    InclusionProbabilities(3, 5 * TENTH, TENTH, most=2, views=2, fade=7 * TENTH),
    InclusionProbabilities(
        3, 5 * TENTH, 2 * TENTH, sources={"a": (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))}
    ),
]


def histories(
    law: InclusionProbabilities, code: int, true: bool
) -> dict[tuple[int, ...], Fraction]:
    """The probability of every history of a tuple with this code, by the definition of the law."""
    relative = 3 * law.sources["a"][code] if law.sources else Fraction(1)

    def present(before):
        if true:
            return law.keep + (relative - 1) * law.noise
        return law.keep * law.fade if any(before) else law.noise_of(len(before) + 1) * relative

    def chance(shown):
        each = [present(shown[:place]) for place in range(law.views)]
        return prod(p if there else 1 - p for p, there in zip(each, shown, strict=True))

    return {shown: chance(shown) for shown in product((0, 1), repeat=law.views)}


def test_one_tuple_against_enumeration(subtests):
    for law, prior in product(LAWS, [TENTH, Fraction(1, 3)]):
        with subtests.test(law=law, prior=prior):
            ends, factors, shares = [], [], []
            for code in range(3):
                true, false = (histories(law, code, each) for each in (True, False))
                share = law.sources["a"][code] if law.sources else Fraction(1, 3)
                for shown in true:
                    ends.append(bayes(prior, true[shown], false[shown]))
                    factors.append(true[shown] / false[shown])
                    shares.append(bayes(2 * law.rows * share * TENTH, true[shown], false[shown]))
            odds = TupleOdds(law, 3)
            assert odds.end(prior) == max(ends)
            assert (odds.most, odds.least) == (max(factors), min(factors))
            assert odds.end_by_share(2 * TENTH) == max(shares)


def bayes(prior, true, false):
    return prior * true / (prior * true + (1 - prior) * false)


def test_exclusive_attackers_against_enumeration(subtests):
    """Exactly one of some tuples is true, and none had more than the prior: one tuple with it, and
    others that share the rest.
    """
    for law, prior in product(
        [law for law in LAWS if not law.sources], [Fraction(1, 3), Fraction(1, 4), Fraction(2, 5)]
    ):
        with subtests.test(law=law, prior=prior):
            others = -(-(1 - prior) // prior)
            priors = [prior, *[(1 - prior) / others] * others]
            true, false = (histories(law, 0, each) for each in (True, False))
            worst = Fraction(0)
            for view in product(true, repeat=len(priors)):
                chances = [
                    p
                    * prod(
                        true[seen] if place == who else false[seen]
                        for place, seen in enumerate(view)
                    )
                    for who, p in enumerate(priors)
                ]
                worst = max(worst, *(chance / sum(chances) for chance in chances))
            assert TupleOdds(law, 3).end_of_one(prior) == worst


def test_views_that_show_all_true_tuples_are_refuted():
    """Who is not shown is ruled out: no factor above 0 can be promised by which a prior falls."""
    schema = sc.Schema(
        (
            sc.Attribute("who", "quasi", sc.IntegerRange(0, 30)),
            sc.Attribute("job", "sensitive", sc.IntegerRange(0, 2)),
        )
    )
    rows = pa.table({"who": np.arange(10), "job": np.arange(10) % 3})
    release = sc.publish(
        rows, schema, sc.AlphaBeta(alpha=0.5, beta=0.25), options=sc.PublishOptions(seed=1)
    )
    assert next(claims(release)).verdict == "exact"
    law = replace(release.evidence.presence, keep=Fraction(1))
    evidence = replace(release.evidence, presence=law)
    release.manifest = replace(release.manifest, evidence=evidence)
    assert {each.verdict for each in claims(release)} == {"refuted"}
    assert TupleOdds(law, 93).end(Fraction(1)) == TupleOdds(law, 93).end_by_share(TENTH * 93) == 1


JOBS = sc.Schema(
    (
        sc.Attribute("who", "quasi", sc.IntegerRange(0, 1)),
        sc.Attribute("job", "sensitive", sc.IntegerRange(0, 5)),
    )
)


def table(counts: list[int]) -> pa.Table:
    jobs = np.repeat(np.arange(len(counts)), counts)
    return pa.table({"who": np.zeros(len(jobs), np.int64), "job": jobs})


@pytest.mark.parametrize("counts", [[6, 6, 6, 6, 6, 6], [9, 8, 7, 6, 3, 2], [20, 6, 6, 3, 2, 1]])
def test_the_split_of_a_table_against_bayes_rule(counts):
    """The attacker knows the frequencies, the rule of the split, and sees the part and the value of
    one row: the share of a value in the part, and then its channel.
    """
    rho1, rho2 = Fraction(3, 10), Fraction(6, 10)
    release = sc.publish(
        table(counts), JOBS, sc.Partition(rho1=0.3, rho2=0.6), options=sc.PublishOptions(seed=1)
    )
    parts = ReleasedParts.of(release)
    true = split(dict(enumerate(counts)), rho1, rho2)
    assert [part.keep for part in true] == list(parts.channel.keeps)
    ends = []
    for part in true:
        other = (1 - part.keep) / len(part.domain)
        for shown, value in product(part.domain, part.domain):
            if counts[value] > rho1 * sum(counts):
                continue
            chance = {each: other + (part.keep if each == shown else 0) for each in part.domain}
            whole = sum(part.counts[each] * chance[each] for each in part.domain)
            ends.append(part.counts[value] * chance[value] / whole)
    assert parts.posterior_of_split(rho2) == max(ends)
    assert max(ends) <= parts.posterior_of_any_table(rho1)
    assert parts.posterior_from_rows(rho1, CONFIDENCE) <= max(ends)
    assert [each.verdict for each in claims(release)] == ["stands", "exact"]


class OfFewerRows(sc.Partition):
    """Channels are made for a quarter of the rows that the most frequent rare value really has."""

    def _split_table(self, counts, cells, rows):
        found = []
        for part in super()._split_table(counts, cells, rows):
            rare = [n for n in part.counts.values() if n <= self._rho1 * sum(counts.values())]
            gamma = gamma_for_rho(Fraction(max(rare) // 4, part.rows), self._rho2)
            found.append(SubTable(part.counts, part.domain, keep_for(gamma, len(part.domain))))
        return found


def test_channels_alone_never_make_the_promise_of_a_split_exact():
    """They look as those of a split of fewer rows would, and a value ends at 0.86 where 0.6 is
    promised: too few rows are shown to refute that, and nothing is computed that would prove it.
    """
    counts = [24, 24, 24, 24, 24, 24]
    release = sc.publish(
        table(counts), JOBS, OfFewerRows(rho1=0.3, rho2=0.6), options=sc.PublishOptions(seed=1)
    )
    parts = ReleasedParts.of(release)
    ends = [
        posterior_at_most(Fraction(24, rows), gamma)
        for rows, gamma in zip(parts.channel.rows, parts.gammas, strict=True)
    ]
    assert max(ends) > Fraction(85, 100)
    assert parts.posterior_of_split(Fraction(6, 10)) == Fraction(6, 10)
    found = next(claims(release))
    assert (found.check, found.verdict) == ("shown rows", "stands")
    assert "true counts" in found.sentence


class ForEqualShares(sc.Partition):
    """One part, whose channel is made for values that are all equally frequent."""

    def _split_table(self, counts, cells, rows):
        gamma = gamma_for_rho(Fraction(1, len(counts)), self._rho2)
        return [SubTable(counts, tuple(sorted(counts)), keep_for(gamma, len(counts)))]


def test_rows_that_show_more_than_is_promised_are_refuted():
    """A value has a quarter of all rows where the channel allows a sixth, and ends at 0.71. What
    the rows show is below the truth but for a probability of 1e-4. With 48,000 rows it is certain
    enough that the value has less than the 30 % of which the promise speaks.
    """
    counts = [12000, 7200, 7200, 7200, 7200, 7200]
    release = sc.publish(
        table(counts), JOBS, ForEqualShares(rho1=0.3, rho2=0.6), options=sc.PublishOptions(seed=1)
    )
    found = next(claims(release))
    assert (found.check, found.verdict) == ("shown rows", "refuted")
    assert 0.6 < found.numbers["found"] <= 0.715
    assert found.confidence == CONFIDENCE


def test_channels_that_no_split_has_are_judged_by_what_every_table_allows():
    """A share of 0.3 ends at 0.6, for all that is known: within a promise of 0.6, not of 0.5."""
    counts = [10, 10, 10, 10, 10, 11]
    release = sc.publish(
        table(counts), JOBS, sc.Partition(rho1=0.3, rho2=0.6), options=sc.PublishOptions(seed=1)
    )
    channel = replace(release.evidence.channels[0], keeps=(Fraction(1, 5),))
    evidence = replace(release.evidence, channels=(channel,))
    for claimed, verdict in ((0.6, "exact"), (0.45, "stands")):
        promise = replace(release.guarantees[0], parameters={"rho1": 0.3, "rho2": claimed})
        manifest = replace(release.manifest, evidence=evidence, guarantees=Guarantees([promise]))
        release.manifest = manifest
        assert next(claims(release)).verdict == verdict


def test_a_table_as_it_is_has_nothing_to_compute():
    release = sc.publish(
        table([5, 5, 0, 0, 0, 0]),
        JOBS,
        sc.Partition(rho1=0.3, rho2=0.6, plain=True),
        options=sc.PublishOptions(seed=1),
    )
    assert ReleasedParts.of(release) is None
    assert [each.verdict for each in claims(release)] == ["noted"]
