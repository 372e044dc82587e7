"""Classifiers that are trained on synthetic rows and tested on true ones.

    python -m research classifier --data FOLDER

A table is cut into people to train on (four fifths) and people to test on. Synthesis publishes the
first, and gradient-boosted trees learn from as many synthetic rows to tell a column from all
others. Beside their accuracy on the people to test on stand that of trees which learned from the
true rows, and that of naming the most frequent value. scikit-learn is needed (pip install
scikit-learn): scumble itself does without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import scumble as sc
from research.synthetic import DELTA, FILES, Row, real_table
from scumble.model.errors import ScumbleError

if TYPE_CHECKING:
    from rich.table import Table

Integers = npt.NDArray[np.int64]

TARGETS = {"adult": "income>50K", "census": "income"}
TESTED = 5  # one person of so many is kept for the test


def study(
    folder: Path,
    step: Callable[[str], None],
    seeds: int,
    epsilons: Sequence[float] = (0.1, 1, 10),
    targets: dict[str, str] | None = None,
) -> Iterator[Row]:
    """Yield the accuracies of each table and ε, in the mean over `seeds` releases."""
    for name, target in (targets or TARGETS).items():
        if not (folder / FILES[name]).exists():
            continue
        table, schema = real_table(name, folder)
        yield from accuracies(name, table, schema, target, step, seeds, epsilons)


def accuracies(
    name: str,
    table: pa.Table,
    schema: sc.Schema,
    target: str,
    step: Callable[[str], None],
    seeds: int,
    epsilons: Sequence[float],
) -> Iterator[Row]:
    """Yield the accuracies for one table, whose column `target` is to be told."""
    tested = np.random.default_rng(0).permutation(table.num_rows) % TESTED == 0
    train, test = table.filter(pa.array(~tested)), table.filter(pa.array(tested))
    right = test[target].to_numpy()
    step(f"{name}, true rows")
    known = {
        "most frequent": float((right == np.bincount(train[target].to_numpy()).argmax()).mean()),
        "true rows": _accuracy(train, test, target, 0),
    }
    for epsilon in epsilons:
        step(f"{name}, ε = {epsilon:g}")
        given: Row = {"epsilon": epsilon, "delta": DELTA, "neighbours": "add_remove"}
        method = sc.Synthesis(list(schema.names), **given)
        found = []
        for seed in range(seeds):
            rows = sc.publish(
                train, schema, method, options=sc.PublishOptions(seed=seed)
            ).synthetic.rows(seed=seed)
            found.append(_accuracy(rows, test, target, seed))
        spread = float(np.std(found, ddof=1)) if seeds > 1 else 0.0
        mean = float(np.mean(found))
        yield {
            "table": name,
            "epsilon": epsilon,
            **known,
            "synthetic rows": mean,
            "spread": spread,
            "seeds": seeds,
        }


def _accuracy(train: pa.Table, test: pa.Table, target: str, seed: int) -> float:
    """Return the share of people to test on whose value is told by what was learned."""
    trees = _learner()(random_state=seed)
    trees.fit(*_features(train, target))
    columns, right = _features(test, target)
    return float((trees.predict(columns) == right).mean())


def _features(table: pa.Table, target: str) -> tuple[Integers, Integers]:
    others = [table[name].to_numpy() for name in table.column_names if name != target]
    return np.column_stack(others), table[target].to_numpy()


def _learner() -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise ScumbleError("This needs scikit-learn: pip install scikit-learn.") from None
    return HistGradientBoostingClassifier


def as_table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    table = Table(title="Accuracy on true rows of trees that learned from ...")
    for name in ("table", "ε", "synthetic rows", "true rows", "most frequent"):
        table.add_column(name, justify="left" if name == "table" else "right")
    for row in rows:
        table.add_row(
            row["table"],
            f"{row['epsilon']:g}",
            f"{row['synthetic rows']:.4f} ± {row['spread']:.4f}",
            f"{row['true rows']:.4f}",
            f"{row['most frequent']:.4f}",
        )
    return table
