"""The three trackers against popularity by brute force, on spaces small enough for it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scumble as sc
from scumble.model.errors import ParameterError, PromiseError
from scumble.private.database.trackers import ExactTracker, HistogramTracker, make_tracker
from tests.support.database.drawn_boxes import Dense, boxes, cells, space_of, spaces

ENOUGH = 2000  # buckets, of spaces of at most 6^4 points
TRACKERS = [
    ("exact", 1),
    ("histogram", ENOUGH),
    ("histogram", 3),
    ("histogram", 1),
    ("disjoint", 1),
]


@st.composite
def sessions(draw, units=(1, 1, 1, 2, 3)):
    """A space, a limit, and questions with their units."""
    space = draw(spaces)
    asked = st.tuples(boxes(space), st.sampled_from(units))
    return space, draw(st.integers(0, 5)), draw(st.lists(asked, max_size=30))


@pytest.mark.parametrize(("kind", "buckets"), TRACKERS)
@given(session=sessions())
@settings(max_examples=60)
def test_no_point_gets_more_than_the_limit(kind, buckets, session):
    space, limit, asked = session
    tracker, truth = make_tracker(kind, space, limit, buckets), Dense(space)
    for some, units in asked:
        if tracker.has_room(some, units):
            assert truth.largest(some) + units <= limit
            tracker.add(some, units)
            truth.add(some, units)
        assert truth.counts.max() <= tracker.largest() <= limit


@pytest.mark.parametrize("kind", ["exact", "histogram"])
@given(session=sessions())
@settings(max_examples=100)
def test_exact_and_a_histogram_with_enough_buckets_refuse_only_what_they_must(kind, session):
    space, limit, asked = session
    tracker, truth = make_tracker(kind, space, limit, ENOUGH), Dense(space)
    for some, units in asked:
        assert tracker.has_room(some, units) == (truth.largest(some) + units <= limit)
        if tracker.has_room(some, units):
            tracker.add(some, units)
            truth.add(some, units)


@pytest.mark.parametrize(("kind", "buckets"), TRACKERS)
@given(session=sessions())
@settings(max_examples=40)
def test_the_mean_popularity_of_a_value_is_that_of_its_points(kind, buckets, session):
    """A histogram may say more, as of each point, and never less."""
    space, limit, asked = session
    tracker, truth = make_tracker(kind, space, limit, buckets), Dense(space)
    for some, units in asked:
        if tracker.has_room(some, units):
            tracker.add(some, units)
            truth.add(some, units)
    for axis in range(len(space)):
        rest = tuple(other for other in range(len(space)) if other != axis)
        means = tracker.mean_popularity(axis)
        if kind != "histogram":
            np.testing.assert_allclose(means, truth.counts.mean(axis=rest), atol=1e-9)
        assert (means >= truth.counts.mean(axis=rest) - 1e-9).all()
        assert (means <= limit + 1e-9).all()


@given(session=sessions(units=(1,)), few=st.integers(1, 12))
@settings(max_examples=150)
def test_after_the_same_history_each_tracker_accepts_what_the_next_one_does(session, few):
    """`exact` accepts whatever any histogram does, and a histogram that has not used all its
    buckets whatever `disjoint` does, given a limit that allows anything at all. One that has used
    them all need not: a full bucket may then hold points that nobody asked about.
    """
    space, limit, asked = session
    limit += 1
    exact, apart = make_tracker("exact", space, limit), make_tracker("disjoint", space, limit)
    enough, small = HistogramTracker(space, limit, ENOUGH), HistogramTracker(space, limit, few)
    for some, units in asked:
        rooms = [each.has_room(some, units) for each in (exact, enough, small, apart)]
        assert rooms[0] == rooms[1]
        assert rooms[0] >= rooms[2]
        assert rooms[1] >= rooms[3]
        if len(small.buckets()[0]) < few:
            assert rooms[2] == rooms[0]
        if all(rooms[:3]):
            for each in (exact, enough, small, apart):
                each.add(some, units)


@pytest.mark.parametrize(("kind", "buckets"), TRACKERS)
@given(session=sessions())
@settings(max_examples=40)
def test_the_map_shows_no_less_than_the_largest_popularity(kind, buckets, session):
    space, limit, asked = session
    tracker, truth = make_tracker(kind, space, limit, buckets), Dense(space)
    for some, units in asked:
        if tracker.has_room(some, units):
            tracker.add(some, units)
            truth.add(some, units)
    for one, other in combinations(range(len(space)), 2):
        others = tuple(axis for axis in range(len(space)) if axis not in (one, other))
        expected, found = truth.counts.max(axis=others), tracker.popularity(one, other)
        assert (found >= expected).all()
        assert (found == tracker.popularity(other, one).T).all()
        if kind != "histogram":
            assert (found == expected).all()


@given(session=sessions(), buckets=st.integers(1, 40))
@settings(max_examples=60)
def test_buckets_are_few_disjoint_and_cover_the_space(session, buckets):
    space, limit, asked = session
    tracker, truth = HistogramTracker(space, limit, buckets), Dense(space)
    for some, units in asked:
        if tracker.has_room(some, units):
            tracker.add(some, units)
            truth.add(some, units)
    found, counters = tracker.buckets()
    assert len(found) <= buckets
    cover = Dense(space)
    cover.add(found, 1)
    assert (cover.counts == 1).all()
    for box, counter in zip(found, counters, strict=True):
        assert truth.counts[cells(box)].max() <= counter


def test_many_buckets_keep_their_counters():
    """Blocks divide, and units are noted for whole blocks: the counters are still those of brute
    force, on a space of 20 × 15 × 10 points with several hundred buckets.
    """
    rng, space, limit = np.random.default_rng(5), space_of([20, 15, 10]), 12
    tracker, truth, accepted = HistogramTracker(space, limit, 2500), Dense(space), []
    for _ in range(400):
        box = np.sort(np.stack([rng.integers(0, n, 2) for n in space.sizes]), axis=1)[None]
        assert not tracker.has_room(box) or truth.largest(box) < limit
        if tracker.has_room(box):
            tracker.add(box)
            truth.add(box, 1)
            accepted.append(box[0])
    found, counters = tracker.buckets()
    assert len(found) > 500
    known = np.array(accepted)
    for box, counter in zip(found, counters, strict=True):
        meets = (known[..., 0] <= box[:, 1]) & (known[..., 1] >= box[:, 0])
        assert counter == meets.all(axis=1).sum()


@given(session=sessions())
@settings(max_examples=60)
def test_large_domains_are_cut_line_by_line(session):
    """The same questions, every code a billion times as wide, have the same answers."""
    (space, limit, asked), scale = session, 10**9
    wide = space_of([size * scale for size in space.sizes])
    tracker, truth = HistogramTracker(wide, limit, ENOUGH), make_tracker("exact", space, limit)
    for some, units in asked:
        scaled = some * scale + [0, scale - 1]
        assert tracker.has_room(scaled, units) == truth.has_room(some, units)
        if truth.has_room(some, units):
            tracker.add(scaled, units)
            truth.add(some, units)


def test_no_boxes_always_have_room():
    for kind, buckets in TRACKERS:
        tracker = make_tracker(kind, space_of([3, 2]), 1, buckets)
        none = np.empty((0, 2, 2), np.int64)
        tracker.add(none)
        assert tracker.has_room(none)
        assert tracker.largest() == 0


def test_counters_are_wide_enough_for_the_limit():
    space = space_of([3])
    for limit in (1, 65_535, 65_536, 2**32, 2**61):
        tracker = make_tracker("exact", space, limit)
        tracker.add(space.whole[None], limit)
        assert tracker.largest() == limit
        assert not tracker.has_room(space.whole[None])
        with pytest.raises(PromiseError):
            tracker.add(space.whole[None])


def test_auto_is_exact_where_it_fits():
    assert isinstance(make_tracker("auto", space_of([10, 10]), 5), ExactTracker)
    assert isinstance(make_tracker("auto", space_of([10**5, 10**4]), 5), HistogramTracker)


REFUSED = [
    ("best", 1, 1, "'tracker' parameter of Database must be one of auto, exact"),
    ("auto", 1, 0, "'buckets' parameter of Database must be a whole number from 1"),
    ("auto", 1, 2.5, "Got 2.5 instead"),
    ("auto", -1, 1, "'limit' parameter"),
    ("exact", 1, 1, "counts each of 1000000000 points, of at most 200000000. Use 'histogram'"),
]


def test_what_is_not_allowed_is_said(subtests):
    for kind, limit, buckets, sentence in REFUSED:
        with subtests.test(kind=kind), pytest.raises(ParameterError, match=sentence):
            make_tracker(kind, space_of([10**5, 10**4]), limit, buckets)


def test_a_map_needs_two_attributes():
    tracker = make_tracker("exact", space_of([3, 4]), 1)
    with pytest.raises(sc.ParameterError, match="A map needs two attributes"):
        tracker.popularity(1, 1)
