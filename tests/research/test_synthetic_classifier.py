"""Classifiers trained on synthetic rows, on a made-up table whose best accuracy is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from research.synthetic_classifier import accuracies
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange


@pytest.mark.slow
def test_trees_learn_from_rows_what_was_measured() -> None:
    """y is 1 with probability 0.9 where a is 1, else 0.2: whoever knows a is right in 85 %."""
    pytest.importorskip("sklearn", reason="scikit-learn is for this experiment only")
    draw = np.random.default_rng(1)
    a, b = draw.integers(0, 2, 4000), draw.integers(0, 3, 4000)
    y = (draw.random(4000) < np.where(a == 1, 0.9, 0.2)).astype(np.int64)
    sizes = {"a": 2, "b": 3, "y": 2}
    schema = sc.Schema(
        tuple(Attribute(name, "quasi", IntegerRange(0, size - 1)) for name, size in sizes.items())
    )
    table = pa.table({"a": a, "b": b, "y": y})
    [row] = accuracies("made up", table, schema, "y", lambda _: None, 2, [5])
    assert row["most frequent"] < 0.65
    assert abs(row["true rows"] - 0.85) < 0.05
    assert abs(row["synthetic rows"] - row["true rows"]) < 0.03
