"""Estimates from published tuples against exact enumeration of everything that may be published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.families.alphabeta import read as sums
from scumble.families.alphabeta import read as tuples_answer
from scumble.families.alphabeta.design import InclusionProbabilities, ReplacedTuples
from scumble.families.alphabeta.read import HorvitzThompsonMoments, ReplacedMoments, TupleQuestion
from scumble.public.estimation import domain_counting
from tests.support.tuple_releases import (
    CELLS,
    DOMAIN,
    all_multisets,
    all_sets,
    all_views,
    tuples_release,
)

TRUE = [(1, "a"), (2, "b"), (3, "b")]
BAG = [(2, "b"), (2, "b"), (3, "a")]
SHARES = {
    "x": (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)),
    "y": (Fraction(2, 3), Fraction(1, 3)),
}
SET = InclusionProbabilities(3, Fraction(3, 5), Fraction(1, 10))
TWICE = replace(SET, most=2, views=2, fade=Fraction(3, 5))
THRICE = replace(SET, most=3, views=3, fade=Fraction(7, 10))
QUESTIONS = [
    "COUNT(*) WHERE y = 'b'",
    "COUNT(*) WHERE x + length(y) >= 3 AND NOT (x = 3 AND y = 'a')",
    "SUM(x) WHERE y = 'b'",
    "SUM(x * x - 5) WHERE x <> 2",
    "SUM(CASE WHEN y = 'a' THEN -x ELSE 10 END)",
]


def _sql(question: str, group: str = "") -> str:
    what, _, condition = question.partition(" WHERE ")
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {group}{what} FROM t{where}" + (" GROUP BY outcome" if group else "")


def _truth(question: str, rows: Iterable[tuple]) -> float:
    """The answer on the true tuples: nothing false, all shown."""
    everything = InclusionProbabilities(len(CELLS), Fraction(1), Fraction(0))
    return tuples_release(DOMAIN, list(rows), everything).answer(_sql(question)).value


def _question(release: sc.Release, sql: str) -> TupleQuestion:
    return TupleQuestion(release.evidence, release.schema, release.parse(sql), release._sandbox)


def _outcomes(outcomes: list, presence, domain: sc.Schema) -> sc.Release:
    """All outcomes as groups of one release, told apart by one more attribute."""
    number = sc.Attribute("outcome", "quasi", sc.IntegerRange(0, len(outcomes) - 1))
    rows = [(place, *row) for place, (_, drawn) in enumerate(outcomes) for row in drawn]
    extra = []
    if isinstance(presence, InclusionProbabilities):
        extra += [presence.views_column] if presence.most > 1 else []
        extra += [presence.occurrence] if presence.multiplicity > 1 else []
    return tuples_release(sc.Schema([number, *domain]), rows, presence, extra)


def _of_multisets(
    outcomes: list, presence: ReplacedTuples, question: str, together: sc.Release
) -> Iterable[tuple[float, float]]:
    """For every outcome the estimate, and the estimate of its variance before it is cut to what it
    surely is. The first and the last outcome are asked through a release of their own as well.
    """
    release = tuples_release(DOMAIN, outcomes[0][1], presence)
    alone = _question(release, _sql(question))
    shown = _question(together, _sql(question, "outcome, "))._tuple_counts().sums()
    mean = np.repeat(alone.moments.mean, len(outcomes), axis=1)
    moments = ReplacedMoments(presence, shown, mean)
    power = 0 if alone.query.aggregate == "count" else 1
    for place in (0, -1):
        release = tuples_release(DOMAIN, outcomes[place][1], presence)
        answer = release.answer(_sql(question))
        assert answer.value == pytest.approx(moments.sums[power, place], abs=1e-9)
    return zip(moments.sums[power], moments._covariance(power, power), strict=True)


def _of_sets(release: sc.Release, outcomes: int, question: str) -> Iterable[tuple[float, float]]:
    """The same. The probabilities of a tuple do not depend on the size of the domain: the groups of
    one release are the answers themselves.
    """
    found = _question(release, _sql(question, "outcome, "))
    power = 0 if found.query.aggregate == "count" else 1
    moments = found.moments
    assert isinstance(moments, HorvitzThompsonMoments)
    for group in range(outcomes):
        assert found.estimate(group).value == pytest.approx(moments.sums[power, group], abs=1e-9)
    return zip(moments.sums[power], moments._pool(2 * power), strict=True)


def _check(chances: list[Fraction], found: Iterable[tuple[float, float]], truth: float) -> None:
    """Mean of the estimate = truth; mean of the estimated variance = variance."""
    assert sum(chances) == 1
    weights = np.array([float(each) for each in chances])
    values, variances = np.array(list(found)).T
    mean = weights @ values
    assert mean == pytest.approx(truth, abs=1e-9)
    assert weights @ variances == pytest.approx(weights @ values**2 - mean**2, rel=1e-9, abs=1e-9)


def test_replaced(subtests: pytest.Subtests) -> None:
    presence = ReplacedTuples(len(BAG), Fraction(2, 5))
    outcomes = list(all_multisets(CELLS, BAG, presence))
    together = _outcomes(outcomes, presence, DOMAIN)
    for question in QUESTIONS:
        with subtests.test(question):
            found = _of_multisets(outcomes, presence, question, together)
            _check([chance for chance, _ in outcomes], found, _truth(question, BAG))


def test_included(subtests: pytest.Subtests) -> None:
    for name, sources in {"even": None, "all": SHARES, "one": {"y": SHARES["y"]}}.items():
        presence = replace(SET, sources=sources)
        outcomes = list(all_sets(DOMAIN, CELLS, TRUE, presence))
        release = _outcomes(outcomes, presence, DOMAIN)
        for question in QUESTIONS:
            with subtests.test(question, sources=name):
                found = _of_sets(release, len(outcomes), question)
                _check([chance for chance, _ in outcomes], found, _truth(question, TRUE))


def test_occurrences_are_tuples_of_their_own(subtests: pytest.Subtests) -> None:
    """Two rows (2, b) and one (1, a), each cell twice in the domain: 12 tuples."""
    presence = replace(SET, multiplicity=2)
    cells = [(*cell, occurrence) for cell in CELLS for occurrence in (0, 1)]
    true = [(2, "b", 0), (2, "b", 1), (1, "a", 0)]
    outcomes = list(all_sets(DOMAIN, cells, true, presence))
    release = _outcomes(outcomes, presence, DOMAIN)
    for question in QUESTIONS:
        with subtests.test(question):
            found = _of_sets(release, len(outcomes), question)
            truth = _truth(question, [(2, "b"), (2, "b"), (1, "a")])
            _check([chance for chance, _ in outcomes], found, truth)


def test_two_views(subtests: pytest.Subtests) -> None:
    outcomes = list(all_views(CELLS, TRUE, TWICE))
    release = _outcomes(outcomes, TWICE, DOMAIN)
    for question in QUESTIONS:
        with subtests.test(question):
            found = _of_sets(release, len(outcomes), question)
            _check([chance for chance, _ in outcomes], found, _truth(question, TRUE))


def test_three_views(subtests: pytest.Subtests) -> None:
    domain = DOMAIN.select(["x"])
    outcomes = list(all_views([(1,), (2,), (3,)], [(2,), (3,)], THRICE))
    release = _outcomes(outcomes, THRICE, domain)
    for question in ("COUNT(*) WHERE x > 1", "SUM(x) WHERE x <> 2", "SUM(x * x - 4)"):
        with subtests.test(question):
            found = _of_sets(release, len(outcomes), question)
            truth = _truth(question, [(2, "a"), (3, "a")])
            _check([chance for chance, _ in outcomes], found, truth)


def test_the_second_view_alone_in_fractions_and_what_the_paper_does() -> None:
    """The estimator of the paper for view 2 takes all true tuples to be in the first view."""
    kept, fade, noise = TWICE.keep, TWICE.fade, TWICE.noise_of(2)
    ours = paper = Fraction(0)
    for chance, rows in all_views(CELLS, TRUE, TWICE):
        bits = [row[-1] for row in rows if row[1] == "b"]
        known = sum(each % 2 for each in bits)
        both, fresh = bits.count(3), bits.count(2)
        inside = (both - kept * fade * known) / (kept * (1 - fade))
        ours += chance * (inside + (fresh - noise * (3 - known)) / (kept - noise))
        # In view 2 the paper expects: kept of the true, kept · fade of the rest of view 1, noise.
        expected = kept * fade * known + noise * (3 - known)
        paper += chance * (both + fresh - expected) / (kept * (1 - fade))
    assert ours == 2
    assert paper != 2


def test_weights_depend_on_public_numbers_alone() -> None:
    weights = sums.weights(TWICE, 1000)
    assert sum(weights) == pytest.approx(1)
    assert weights[0] > weights[1] > 0
    assert sums.weights(replace(TWICE, rows=0, noise=Fraction(0)), 10) == (0.5, 0.5)
    huge = sums.weights(replace(TWICE, noise=Fraction(1, 10**400)), 10**402)
    assert sum(huge) == pytest.approx(1)


def test_groups_are_the_questions_asked_one_by_one() -> None:
    rows = [(1, "a"), (1, "b"), (2, "b"), (3, "a")]
    for presence in (SET, ReplacedTuples(4, Fraction(1, 2)), replace(SET, sources=SHARES)):
        release = tuples_release(DOMAIN, rows, presence)
        for what in ("COUNT(*)", "SUM(x)", "AVG(x)"):
            grouped = release.answer(f"SELECT y, {what} FROM t WHERE x < 3 GROUP BY y")
            assert [key for key, _ in grouped] == [("a",), ("b",)]
            for (y,), estimate in grouped:
                alone = release.answer(f"SELECT {what} FROM t WHERE x < 3 AND y = '{y}'")
                assert repr(alone) == repr(estimate)


def test_groups_that_the_condition_excludes_are_left_out() -> None:
    release = tuples_release(DOMAIN, [(1, "a")], SET)
    answer = release.answer("SELECT x, y, COUNT(*) FROM t WHERE x > 1 GROUP BY x, y")
    assert [key for key, _ in answer] == [(2, "a"), (2, "b"), (3, "a"), (3, "b")]


@pytest.mark.parametrize("presence", [SET, ReplacedTuples(3, Fraction(1, 2)), TWICE], ids=str)
def test_what_the_domain_alone_decides_is_exact(presence) -> None:
    extra = ["views"] if presence is TWICE else []
    rows = [(1, "a", 1), (2, "b", 3), (3, "b", 2)] if extra else TRUE
    release = tuples_release(DOMAIN, rows, presence, extra)
    everybody = release.answer("SELECT COUNT(*) FROM t")
    assert (everybody.value, everybody.stderr, everybody.interval()) == (3, 0, (3, 3))
    nobody = release.answer(_sql("COUNT(*) WHERE x = 7"))
    assert (nobody.value, nobody.stderr, nobody.interval()) == (0, 0, (0, 0))
    for question in ("SUM(x) WHERE x > 2 AND x < 2", "AVG(x) WHERE x > 5"):  # NULL, as in SQL
        assert release.answer(_sql(question)).to_dict()["value"] is None
    assert release.answer("SELECT AVG(x) FROM t WHERE x > 5").notes


def test_collapsed_rows_are_noted() -> None:
    """On every answer, also on one that is exact, that has groups, or that is one of many."""
    release = tuples_release(DOMAIN, TRUE, replace(SET, collapsed=True))
    questions = [_sql(question) for question in QUESTIONS]
    questions += ["SELECT COUNT(*) FROM t", "SELECT AVG(x) FROM t WHERE x > 5"]
    answers = [*map(release.answer, questions), *release.answer_many(questions)]
    groups = release.answer("SELECT x, COUNT(*) FROM t GROUP BY x")
    for answer in [*answers, *(estimate for _, estimate in groups)]:
        assert "this counts different rows: equal rows of the table were made one" in answer.notes
    assert "different rows" in str(answers[0]) + repr(answers[0])
    assert "different rows" in repr(groups)


def test_too_many_groups_are_refused(monkeypatch) -> None:
    wide = sc.Schema([sc.Attribute(f"q{i}", "quasi", sc.IntegerRange(0, 99)) for i in range(4)])
    release = tuples_release(wide, [(1, 2, 3, 4)], SET)
    with pytest.raises(sc.QueryError, match="100000000 groups"):
        release.answer("SELECT q0, q1, q2, q3, COUNT(*) FROM t GROUP BY q0, q1, q2, q3")
    three = "SELECT q0, q1, q2, COUNT(*) FROM t GROUP BY q0, q1, q2"
    monkeypatch.setattr(tuples_answer, "MOST_GROUPS", 999_999)
    monkeypatch.setattr(domain_counting, "MOST_GROUPS", 999_999)
    with pytest.raises(sc.QueryError, match="1000000 groups"):
        release.answer_many([three, three])


@pytest.mark.parametrize(
    "presence",
    [
        SET,
        ReplacedTuples(4, Fraction(1, 2)),
        replace(SET, sources=SHARES),
        replace(SET, multiplicity=3),
    ],
    ids=["set", "multiset", "sources", "occurrences"],
)
def test_many_answers_are_the_single_ones(presence) -> None:
    several = isinstance(presence, InclusionProbabilities) and presence.multiplicity > 1
    extra = ["occurrence"] if several else []
    rows = [(1, "a"), (1, "b"), (2, "b"), (3, "a")]
    release = tuples_release(DOMAIN, [(*row, 0)[: 2 + len(extra)] for row in rows], presence, extra)
    asked = [
        *map(_sql, QUESTIONS),
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WHERE x < 0 AND y = 'a'",
        "SELECT COUNT(*) FROM t WHERE x > 1 AND x < 3 AND y = 'b' AND 1 < 2",
        "SELECT COUNT(*) FROM t WHERE x > 1 AND (x = 2 OR y = 'b')",
        "SELECT COUNT(*) FROM t WHERE 1 < 2",
        "SELECT y, COUNT(*) FROM t WHERE x > 1 GROUP BY y",
        "SELECT x, COUNT(*) FROM t GROUP BY x",
        "SELECT y, x, COUNT(*) FROM t WHERE x <> 2 OR y = 'a' GROUP BY y, x",
        "SELECT x, COUNT(*) FROM t WHERE y = 'a' AND x + length(y) > 2 GROUP BY x",
        "SELECT y, SUM(x) FROM t GROUP BY y",
        "SELECT AVG(x) FROM t WHERE y = 'b'",
    ]
    for question, many in zip(asked, release.answer_many(asked), strict=True):
        assert repr(many) == repr(release.answer(question))


def test_conditions_on_public_side_tables() -> None:
    release = tuples_release(DOMAIN, TRUE, SET)
    tables = {"odd": pa.table({"number": [1, 3]})}
    looked_up = release.answer(
        "SELECT COUNT(*) FROM t WHERE x IN (SELECT number FROM odd) OR y = 'b'", tables=tables
    )
    written = release.answer("SELECT COUNT(*) FROM t WHERE x IN (1, 3) OR y = 'b'")
    assert repr(looked_up) == repr(written)
