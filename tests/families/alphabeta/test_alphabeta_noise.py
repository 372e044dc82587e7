"""What AlphaBeta really publishes: every tuple with its own probability, and independently.

Each test draws many copies of a tiny domain at once, told apart by a first column, and counts the
patterns of presence in a copy.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import scumble as sc
from scumble.families.alphabeta.publish import views as tuple_views
from scumble.families.alphabeta.publish.views import TupleNoise
from scumble.model.schema.cell_keys import CellKeys
from scumble.private.sampling.source import Keystream
from scumble.private.tables.sorted_keys import isin_sorted, unique_keys

COPIES = 60_000


def _rejects(patterns: np.ndarray, law: list[float]) -> bool:
    """Chi-square of patterns numbered from 0 on, false alarm 1e-6."""
    counts = np.bincount(patterns, minlength=len(law))
    expected = np.array(law) * len(patterns)
    assert expected.min() >= 5
    distance = ((counts - expected) ** 2 / expected).sum()
    return bool(distance > chi2.isf(1e-6, len(law) - 1))


def _independent(presences: list[Fraction]) -> list[float]:
    """The probability of each pattern, where bit i is the presence of tuple i."""
    law = []
    for number in range(1 << len(presences)):
        probability = Fraction(1)
        for place, each in enumerate(presences):
            probability *= each if number >> place & 1 else 1 - each
        law.append(float(probability))
    return law


def _patterns(codes: np.ndarray, size: int) -> np.ndarray:
    """Codes are copy · size + tuple; the pattern of every copy."""
    copies, tuples = np.divmod(codes.astype(np.int64), size)
    return np.bincount(copies, weights=1 << tuples, minlength=COPIES).astype(np.int64)


def test_uniform_noise(subtests: pytest.Subtests) -> None:
    """Chi-square of all patterns, false alarm 1e-6; probabilities 5 % larger are rejected.

    In the second domain, of two words, only the number of tuples can be seen: within 6 standard
    deviations, false alarm 2e-9.
    """
    for sizes, mean in product(
        [(COPIES, 2, 3), (1 << 40, COPIES >> 1, 2, 1 << 30)], [Fraction(1, 4), Fraction(3, 5)]
    ):
        with subtests.test(sizes=sizes, mean=mean):
            radix = CellKeys(sizes)
            if radix.words == 1:
                keys = TupleNoise(radix, mean).draw(Keystream(5))
                patterns = _patterns(keys, 6)
                assert not _rejects(patterns, _independent([mean] * 6))
                assert _rejects(patterns, _independent([mean * 21 / 20] * 6))
                continue
            keys = TupleNoise(radix, mean * COPIES / radix.size).draw(Keystream(5))
            assert abs(len(keys) - mean * COPIES) < 6 * (COPIES * mean) ** 0.5
            assert len({tuple(key) for key in keys.tolist()}) == len(keys)
            assert (np.lexsort(keys.T[::-1]) == np.arange(len(keys))).all()


def test_noise_like_a_source() -> None:
    """The same with b(t) = mean · |D| · Π p_j(t_j)."""
    first, second = (
        (Fraction(1, 4), Fraction(3, 4)),
        (Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)),
    )
    mean = Fraction(1, 4)
    noise = TupleNoise(CellKeys((COPIES, 2, 3)), mean, {1: first, 2: second})
    presences = [mean * 6 * p * q for p, q in product(first, second)]
    assert (noise.smallest, noise.largest) == (min(presences), max(presences))
    patterns = _patterns(noise.draw(Keystream(6)), 6)
    # Some tuples are so rare that all patterns together would be too few of a kind.
    for places in ((5, 4, 2), (5, 1, 0), (3, 4, 0)):
        found = sum((patterns >> place & 1) << bit for bit, place in enumerate(places))
        chosen = [presences[place] for place in places]
        assert not _rejects(found, _independent(chosen))
        assert _rejects(found, _independent([each * 21 / 20 for each in chosen]))


def test_a_certain_share_of_noise_is_no_logarithm() -> None:
    """The identity that the sampler rests on, to 1e-12: what stays at t is −ln(1 − b(t))."""
    for b, largest in ((0.1, 0.1), (0.1, 0.7), (0.6, 0.7), (0.02, 0.3)):
        drawn = b / (1 - largest)
        stays = sum(
            (1 - largest) * largest ** (k - 1) * (b / largest) ** (k - 1) / k for k in range(1, 400)
        )
        assert drawn * stays == pytest.approx(-np.log1p(-b), rel=1e-12)


def _copies(**columns: int) -> sc.Schema:
    copy = sc.Attribute("copy", "quasi", sc.IntegerRange(0, COPIES - 1))
    rest = [
        sc.Attribute(name, "sensitive", sc.IntegerRange(0, size - 1))
        for name, size in columns.items()
    ]
    return sc.Schema([copy, *rest])


def _published(release: sc.Release) -> tuple[np.ndarray, pa.Table]:
    table = pq.read_table(release.folder / "tuples.parquet")
    names = release.evidence.columns
    return release.schema.cell_keys(names).pack([table[name].to_numpy() for name in names]), table


@pytest.mark.parametrize(
    ("sources", "ranges"), [(None, 1), (None, 7), ({"x": [1, 3], "y": [2, 1]}, 1)]
)
def test_true_and_false_tuples_of_a_view(sources: dict | None, ranges: int, monkeypatch) -> None:
    """Of each copy, (0, 0) and (1, 1) are true and the others not, with the domain drawn in one
    range or in several. Chi-square of all patterns, false alarm 1e-6; true and false exchanged is
    rejected.
    """
    expected = 2 * COPIES + COPIES * 4 // 5
    monkeypatch.setattr(tuple_views, "RANGE_TUPLES", -(-expected // ranges))
    domain = _copies(x=2, y=2)
    private = pa.table(
        {
            "copy": np.repeat(np.arange(COPIES), 2),
            "x": np.tile([0, 1], COPIES),
            "y": np.tile([0, 1], COPIES),
        }
    )
    mechanism = sc.AlphaBeta(alpha=Fraction(1, 3), beta=Fraction(1, 5), sources=sources)
    codes, _ = _published(sc.publish(private, domain, mechanism, options=sc.PublishOptions(seed=3)))
    shares = [1, 1, 1, 1] if sources is None else [Fraction(s, 3) for s in (2, 1, 6, 3)]
    noise = [Fraction(1, 5) * share for share in shares]
    more = Fraction(1, 3)
    law = [noise[0] + more, noise[1], noise[2], noise[3] + more]
    assert not _rejects(_patterns(codes, 4), _independent(law))
    swapped = [noise[0], noise[1] + more, noise[2] + more, noise[3]]
    assert _rejects(_patterns(codes, 4), _independent(swapped))


def _history(mask: int, views: int, law, true: bool) -> Fraction:
    """The probability of being in exactly the views of a mask, by the rule of algorithm 4."""
    probability, before = Fraction(1), False
    for view in range(1, views + 1):
        if true:
            chance = law.keep
        else:
            chance = law.keep * law.fade if before else (1 - law.keep) ** (view - 1) * law.noise
        seen = bool(mask >> (view - 1) & 1)
        probability *= chance if seen else 1 - chance
        before = before or seen
    return probability


@pytest.mark.parametrize("views", [2, 3])
def test_views_that_follow_each_other(views: int) -> None:
    """Of each copy, 0 is true and 1 is false. Chi-square of the pairs of histories of both, false
    alarm 1e-6; histories without the fading are rejected.
    """
    domain = _copies(x=2)
    private = pa.table({"copy": np.arange(COPIES), "x": np.zeros(COPIES, np.int64)})
    release = sc.publish(
        private,
        domain,
        sc.AlphaBeta(alpha=Fraction(2, 5), beta=Fraction(1, 5), views=views),
        options=sc.PublishOptions(seed=4),
    )
    for view in range(2, views + 1):
        release = release.republish(private, seed=view)
    law = release.evidence.presence
    assert (law.views, law.most) == (views, views)
    codes, table = _published(release)
    masks = np.zeros((COPIES, 2), np.int64)
    masks[codes // 2, codes % 2] = table["views"].to_numpy()
    assert (table["views"].to_numpy() > 0).all()
    assert len(np.unique(codes)) == len(codes)
    histories = range(1 << views)
    chances = {true: [_history(h, views, law, true) for h in histories] for true in (True, False)}
    assert sum(chances[True]) == sum(chances[False]) == 1
    pairs = [float(p * q) for p in chances[True] for q in chances[False]]
    assert not _rejects((masks[:, 0] << views) + masks[:, 1], pairs)
    wrong = [float(p * q) for p in chances[True] for q in chances[True]]
    assert _rejects((masks[:, 0] << views) + masks[:, 1], wrong)


@pytest.mark.parametrize("words", [1, 2])
def test_sets_of_keys(words: int) -> None:
    """Against Python's own sets."""
    rng = np.random.default_rng(words)
    shape = (3000,) if words == 1 else (3000, 2)
    keys, others = (rng.integers(0, 40, shape).astype(np.uint64) for _ in range(2))
    plain = [tuple(np.atleast_1d(key).tolist()) for key in keys]
    other = {tuple(np.atleast_1d(key).tolist()) for key in others[:200]}
    once = unique_keys(keys)
    assert [tuple(np.atleast_1d(key).tolist()) for key in once] == sorted(set(plain))
    found = isin_sorted(once, unique_keys(others[:200]))
    assert [key in other for key in sorted(set(plain))] == found.tolist()
    assert not isin_sorted(once, once[:0]).any()
    assert isin_sorted(once, once).all()
