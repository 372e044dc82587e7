"""`release.rows` of releases of baskets and sequences."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.model.errors import ParameterError
from tests.support.terminal import run


def _schema(kind, values):
    return sc.Schema.loads(
        f'[attributes.x]\nrole = "sensitive"\ntype = "{kind}"\nvalues = {values}'
    )


def _baskets(items, number=2000):
    generator = np.random.default_rng(1)
    has = generator.random((number, len(items))) < 0.8 / np.arange(2, len(items) + 2)
    has[:, 3] |= has[:, 0] & (generator.random(number) < 0.8)
    return [[item for item, there in zip(items, row, strict=True) if there] for row in has]


class _OnlySets(sc.Baskets):
    most_hubs = -1


@pytest.mark.parametrize(
    ("number", "kind", "mechanism"),
    [(8, "residuals", sc.Baskets), (60, "hub tables", sc.Baskets), (60, "itemsets", _OnlySets)],
)
def test_baskets_have_the_counts_of_items_and_of_pairs_that_go_together(number, kind, mechanism):
    """With next to no noise (ε = 50) counts agree within 4 % of all baskets."""
    items = [f"i{place}" for place in range(number)]
    lists = _baskets(items)
    method = mechanism("x", top=number, epsilon=50, neighbours="add_remove")
    release = sc.publish(
        pa.table({"x": lists}), _schema("set", items), method, options=sc.PublishOptions(seed=1)
    )
    assert release.evidence.design.kind == kind
    rows = release.synthetic.rows(2000, seed=2)
    assert rows.equals(release.synthetic.rows(2000, seed=2))
    assert abs(release.synthetic.rows().num_rows - 2000) < 30
    drawn = rows["x"].to_pylist()
    for wanted in (["i0"], ["i3"], ["i0", "i3"], ["i1", "i2"]):
        true, found = (sum(set(wanted) <= set(each) for each in some) for some in (lists, drawn))
        assert abs(true - found) < 80
    report = release.synthetic.quality(rows)
    assert len(report) > 0
    assert max(report["distance"].to_pylist()) < 0.1


def test_whole_baskets_are_drawn_by_their_counts():
    """With next to no noise (ε = 100) shares agree within 5 standard errors of 2,000 rows."""
    lists = _baskets(["i0", "i1", "i2", "i3"])
    method = sc.DiffPart("x", epsilon=100, neighbours="replace")
    schema = _schema("set", ["i0", "i1", "i2", "i3"])
    release = sc.publish(pa.table({"x": lists}), schema, method, options=sc.PublishOptions(seed=1))
    rows = release.synthetic.rows(seed=2)
    assert rows.num_rows == 2000
    true, found = (Counter(map(tuple, some)) for some in (lists, rows["x"].to_pylist()))
    assert true[()]
    for basket in true:
        share = true[basket] / 2000
        assert abs(found[basket] - 2000 * share) < 5 * (2000 * share) ** 0.5 + 1
    assert max(release.synthetic.quality(rows)["distance"].to_pylist()) < 0.5


def test_sequences_follow_the_chain_of_the_data(tmp_path):
    """After a comes b nine times in ten, after b the end: 2,000 rows, 5 standard errors."""
    generator = np.random.default_rng(1)
    lists = [["a", "b"] if generator.random() < 0.9 else ["a"] for _ in range(4000)]
    given = {"length": 3, "weigh": "symbol", "epsilon": 50, "neighbours": "add_remove"}
    schema = _schema("sequence", ["a", "b"])
    release = sc.publish(
        pa.table({"x": lists}),
        schema,
        sc.Sequences("x", **given),
        options=sc.PublishOptions(seed=1),
    )
    rows = release.synthetic.rows(2000, seed=1)["x"].to_pylist()
    both = sum(each == ["a", "b"] for each in rows)
    assert abs(both - 1800) < 5 * (2000 * 0.09) ** 0.5 + 20
    assert abs(release.synthetic.rows().num_rows - 4000) < 40
    assert (
        release.synthetic.quality(release.synthetic.rows(2000, seed=1))["distance"][0].as_py()
        < 0.05
    )
    saved = release.save(tmp_path / "view", insecure=True)
    done = run("rows", saved, "-n", 5, "--seed", 1)
    assert done.code == 0
    assert done.out.splitlines()[:1] == ['"x"']
    assert "a b" in done.out


def test_what_cannot_be_drawn_is_said():
    lists = pa.table({"x": [["a"], ["a", "b"]]})
    given = {"length": 3, "epsilon": 1, "neighbours": "add_remove", "model": "prefix", "depth": 2}
    release = sc.publish(
        lists,
        _schema("sequence", ["a", "b"]),
        sc.Sequences("x", **given),
        options=sc.PublishOptions(seed=1),
    )
    with pytest.raises(ParameterError, match="the model suffix"):
        release.synthetic.rows(3)
    keys = sc.publish(
        pa.table({"x": ["a", "b"]}),
        sc.Schema.loads('[attributes.x]\nrole = "sensitive"\ntype = "category"\nopen = true'),
        sc.Keys(["x"], epsilon=1, delta=1e-3, keys=1, neighbours="add_remove"),
        options=sc.PublishOptions(seed=1),
    )
    with pytest.raises(ParameterError, match="names keys"):
        keys.synthetic.rows(3)


def test_trips_have_the_ends_lengths_and_steps_of_the_data(tmp_path):
    """A ring of eight cells: trips go on by one cell, from cell 0 or 4, and have 1 to 6 cells. With
    next to no noise (ε = 100), shares agree within 5 standard errors of 2,000 rows and 2 %.
    """
    draw = np.random.default_rng(1)
    ring = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1), (1, 1), (0, 1)]
    cells = [f"x{x}y{y}" for x, y in ring]
    walks = [
        [(start + step) % 8 for step in range(size)]
        for start, size in zip(draw.choice([0, 4], 4000), draw.integers(1, 7, 4000), strict=True)
    ]
    table = pa.table(
        {axis: [[ring[c][k] + 0.5 for c in walk] for walk in walks] for k, axis in enumerate("xy")}
    )
    bounds = (("x", 4), ("y", 2))
    schema = sc.Schema.loads(
        "\n".join(
            f'[attributes.{name}]\nrole="sensitive"\ntype="sequence"\nrange=[0, {n}]\nbins={n}'
            for name, n in bounds
        )
    )
    mechanism = sc.Trajectories("x", "y", length=8, epsilon=100, neighbours="add_remove")
    release = sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1))
    rows = release.synthetic.rows(2000, seed=1)
    assert rows.equals(release.synthetic.rows(2000, seed=1))
    assert abs(release.synthetic.rows().num_rows - 4000) < 5
    drawn = [[cells.index(cell) for cell in trip] for trip in rows["trip"].to_pylist()]
    for what in (len, lambda walk: (walk[0], walk[-1])):
        true = {each: n / 4000 for each, n in Counter(map(what, walks)).items()}
        found = Counter(map(what, filter(None, drawn)))
        for each, share in true.items():
            near = 5 * (share * (1 - share) / 2000) ** 0.5 + 0.02
            assert abs(found[each] / 2000 - share) < near, each
    steps = [(b - a) % 8 for walk in drawn for a, b in pairwise(walk)]
    assert np.mean(np.array(steps) == 1) > 0.98
    assert release.synthetic.quality(rows)["distance"][0].as_py() < 0.1
    done = run("rows", release.save(tmp_path / "view", insecure=True), "-n", 5, "--seed", 1)
    assert done.code == 0
    assert "x0y0" in done.out or "x3y1" in done.out
