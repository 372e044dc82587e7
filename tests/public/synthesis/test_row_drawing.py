"""Rows from noisy tables: projection, systematic rounding, trees of attributes, row fitting."""

import numpy as np
import pytest

from scumble.public.synthesis.noisy_tables import (
    NoisyTable,
    estimated_total,
    one_way,
    onto_simplex,
    with_margins,
)
from scumble.public.synthesis.row_fitting import TargetCounts, counts_of, fit_rows
from scumble.public.synthesis.row_model import Classes, RowModel
from scumble.public.synthesis.tree_model import TreeModel, rounded, spanning_tree


def _shares(generator, shape):
    found = generator.random(shape) ** 3
    return found / found.sum(axis=-1, keepdims=True)


def test_systematic_rounding_keeps_sums_and_moves_no_cell_by_one():
    generator = np.random.default_rng(1)
    for _ in range(200):
        shares = _shares(generator, (4, 7))
        sums = generator.integers(0, 50, 4)
        found = rounded(shares, sums, generator.random())
        assert found.sum(axis=1).tolist() == sums.tolist()
        assert (np.abs(found - shares * sums[:, None]) < 1 + 1e-9).all()
        assert (found >= 0).all()


def test_systematic_rounding_is_exact_in_the_mean():
    """The mean over equally spaced offsets is the integral, but for steps of 1/4000."""
    shares, sums = _shares(np.random.default_rng(2), (3, 5)), np.array([4, 0, 7])
    offsets = (np.arange(4000) + 0.5) / 4000
    mean = np.mean([rounded(shares, sums, offset) for offset in offsets], axis=0)
    assert mean == pytest.approx(shares * sums[:, None], abs=1e-3)


def test_the_projection_onto_the_simplex_is_the_nearest_point():
    """Optimal by the conditions of Karush, Kuhn and Tucker: one shift for all cells above 0, and
    a shift that is no larger for those at 0.
    """
    generator = np.random.default_rng(3)
    for _ in range(50):
        values = generator.normal(0, 5, (3, 4))
        found = onto_simplex(values, 10.0)
        assert found.sum() == pytest.approx(10)
        assert (found >= 0).all()
        shift = (values - found)[found > 0]
        assert shift == pytest.approx(np.full(len(shift), shift[0]))
        assert (values[found == 0] <= shift[0] + 1e-12).all()


def test_a_fitted_table_has_the_given_sums_and_no_negative_cell():
    generator = np.random.default_rng(4)
    margins = [onto_simplex(generator.random(size), 100.0) for size in (5, 3, 2)]
    found = with_margins(generator.normal(3, 8, (5, 3, 2)), margins)
    assert (found >= 0).all()
    for axis, margin in enumerate(margins):
        others = tuple(other for other in range(3) if other != axis)
        assert found.sum(axis=others) == pytest.approx(margin, rel=1e-3, abs=1e-3)


def test_one_way_counts_weigh_tables_by_their_inverse_variances():
    tables = [
        NoisyTable((0,), np.array([10.0, 30.0]), 4.0),
        NoisyTable((0, 1), np.array([[6.0, 6.0], [12.0, 24.0]]), 2.0),  # 12 and 36, variance 4
    ]
    assert one_way(0, 2, tables, 44.0) == pytest.approx([11.0, 33.0])
    # Totals 40 and 48 have the variances 8 and 8.
    assert estimated_total(tables) == pytest.approx(44.0)
    assert one_way(1, 4, tables[:1], 40.0) == pytest.approx([10.0] * 4)


def test_a_spanning_tree_has_the_largest_weight():
    weights = {(0, 1): 3.0, (1, 2): 2.0, (0, 2): 2.5, (2, 3): 0.0}
    assert spanning_tree(4, weights) == [(0, 1), (0, 2)]


def test_rows_along_a_tree_have_its_tables_but_for_rounding():
    generator = np.random.default_rng(5)
    joint = _shares(generator, (1, 24)).reshape(4, 3, 2) * 1000
    margins = [joint.sum(axis=(1, 2)), joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1))]
    edges = {(0, 1): joint.sum(axis=2), (1, 2): joint.sum(axis=0)}
    rows = TreeModel(margins, edges).rows(1000, generator)
    for edge, table in edges.items():
        found = counts_of(rows, edge, table.shape)
        # Rounded once along the edge, and once for each edge before it.
        assert np.abs(found - table).max() <= 4


def test_children_are_independent_given_their_parent():
    """Chi-square of two children of one parent by the parent's value; false alarm 1e-4 in all."""
    generator = np.random.default_rng(6)
    edges = {(0, 1): np.array([[40.0, 10], [10, 40]]), (0, 2): np.array([[30.0, 20], [20, 30]])}
    rows = TreeModel([np.full(2, 50.0)] * 3, edges).rows(20_000, generator)
    for value in (0, 1):
        found = counts_of(rows, (0, 1, 2), (2, 2, 2))[value]
        expected = np.outer(found.sum(axis=1), found.sum(axis=0)) / found.sum()
        assert ((found - expected) ** 2 / expected).sum() < 16.4  # one degree, 5e-5


def test_rows_are_fitted_to_tables_that_close_a_loop():
    generator = np.random.default_rng(7)
    joint = _shares(generator, (1, 60)).reshape(5, 4, 3) * 5000
    pairs = {(0, 1): joint.sum(axis=2), (1, 2): joint.sum(axis=0), (0, 2): joint.sum(axis=1)}
    margins = [joint.sum(axis=(1, 2)), joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1))]
    rows = TreeModel(margins, {edge: pairs[edge] for edge in [(0, 1), (1, 2)]}).rows(
        5000, generator
    )

    def off():
        return {
            edge: float(np.abs(counts_of(rows, edge, table.shape) - table).sum()) / 5000
            for edge, table in pairs.items()
        }

    before = off()
    fit_rows(rows, [TargetCounts(edge, table) for edge, table in pairs.items()], generator)
    after = off()
    assert before[0, 2] > 0.2  # the tree knows nothing of this pair
    assert max(after.values()) < 0.02
    assert all(len(column) == 5000 for column in rows)


def test_the_same_seed_draws_the_same_rows_and_another_other_ones():
    generator = np.random.default_rng(8)
    tables = [NoisyTable((0, 1), generator.random((3, 3)) * 100, 1.0)]
    model = RowModel.of([3, 3, 2], tables)
    one, other, third = (model.rows(500, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, other, strict=True))
    assert any((a != b).any() for a, b in zip(one, third, strict=True))
    # No table holds the last attribute: its values are equally frequent.
    assert np.bincount(one[2]).tolist() == [250, 250]


def test_a_table_of_all_attributes_is_drawn_as_it_is():
    table = np.array([[5.0, -2.0], [1.0, 3.0]])
    rows = RowModel.of([2, 2], [NoisyTable((0, 1), table, 1.0)], 7.0).rows(70, 0)
    expected = onto_simplex(table, 7.0) * 10
    assert np.abs(counts_of(rows, (0, 1), (2, 2)) - expected).max() < 1


def test_classes_get_their_codes_back_by_the_counts_of_single_codes():
    classes = Classes(np.array([0, 2, 1, 2]), np.array([50.0, 10.0, 20.0, 20.0]))
    codes = classes.codes(np.repeat([0, 1, 2], [50, 20, 30]), 100.0, np.random.default_rng(9))
    assert np.bincount(codes).tolist() == [50, 10, 20, 20]


def test_no_rows_at_all():
    model = RowModel.of([2, 3], [NoisyTable((0,), np.array([-3.0, -1.0]), 4.0)])
    assert [len(column) for column in model.rows(0, 1)] == [0, 0]
    assert [len(column) for column in model.rows(5, 1)] == [5, 5]
