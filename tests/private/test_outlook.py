"""What an owner is told before anything is read, and of what came out: it is what releases then
state, and nothing private.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.families.histogram.design import NoiseTails
from scumble.private.mechanism import Mechanism
from tests.support.mechanisms.conformance_cases import CASES

VALUES = 12
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 63)),
        sc.Attribute("shop", "quasi", sc.Category(("a", "b", "c"))),
        sc.Attribute("job", "sensitive", sc.IntegerRange(0, VALUES - 1)),
    )
)
WHO = {"epsilon": 1, "neighbours": "add_remove"}


def table(rows: int = 10_000) -> pa.Table:
    """A tenth of the rows has job 5, the others have the other jobs alike."""
    others = [job for job in range(VALUES) if job != 5]
    jobs = [5 if row % 10 == 0 else others[row % len(others)] for row in range(rows)]
    shops = np.array(["a", "b", "c"])[np.arange(rows) % 3]
    return pa.table({"age": np.arange(rows) % 64, "shop": shops, "job": jobs})


def reaches(mechanism: Mechanism) -> list[float]:
    [sentence] = mechanism.outlook(SCHEMA)
    return [float(found.replace(",", "")) for found in re.findall(r"±([\d.,]*\d)", sentence)]


@pytest.mark.parametrize("mechanism", [sc.Uniform(epsilon=1), sc.Subset(epsilon=1), sc.Aroma(k=20)])
def test_counts_of_publishers_are_as_foretold(mechanism):
    """The reach is that of the standard error that the release states, up to what it estimates
    from 10,000 rows: a tenth would be hundreds of standard deviations of that.
    """
    [foretold] = reaches(mechanism)
    release = sc.publish(table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    stated = release.answer("SELECT COUNT(*) FROM t WHERE job = 5").stderr
    assert foretold == pytest.approx(1.96 * stated, rel=0.1)


@pytest.mark.parametrize(
    "mechanism",
    [sc.Hierarchy(["age", "shop"], **WHO), sc.Wavelet(["age", "shop"], transform="all", **WHO)],
)
def test_ranges_are_as_foretold(mechanism):
    cell, half = reaches(mechanism)
    release = sc.publish(table(100), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    for asked, foretold in {"age = 31": cell, "age BETWEEN 16 AND 47": half}.items():
        answer = release.answer(f"SELECT COUNT(*) FROM t WHERE shop = 'b' AND {asked}")
        low, high = answer.interval(0.95)
        assert (high - low) / 2 == pytest.approx(foretold, rel=0.05)  # two digits are shown


def test_cells_are_as_foretold():
    cell, tenth = reaches(sc.Histogram(["age", "shop"], **WHO))
    release = sc.publish(
        table(100), SCHEMA, sc.Histogram(["age", "shop"], **WHO), options=sc.PublishOptions(seed=1)
    )
    for asked, foretold in {"age = 3": cell, "age < 20": tenth}.items():
        answer = release.answer(f"SELECT COUNT(*) FROM t WHERE {asked} AND shop = 'a'")
        low, high = answer.interval(0.95)
        assert (high - low) / 2 == pytest.approx(foretold, abs=0.5)  # whole numbers are shown


def test_which_cells_a_filter_shows():
    """At the two sizes that are told, and one beside them, the chances are on either side."""
    mechanism = sc.Sparse(["age", "shop", "job"], false_cells=1, **WHO)
    [sentence] = mechanism.outlook(SCHEMA)
    theta, kept, lost = (int(number) for number in re.findall(r"\d+", sentence))
    tails = NoiseTails(mechanism._laws(known=mechanism.unit.keeps_rows)[0])
    assert tails.chance(theta - lost) <= 0.05 < tails.chance(theta - lost - 1)
    assert 1 - tails.chance(kept - theta + 1) >= 0.95 > 1 - tails.chance(kept - theta)


def test_an_owner_is_told_what_a_filter_lost(tmp_path):
    mechanism = sc.Sparse(["age", "shop", "job"], false_cells=1, **WHO)
    thin = sc.publish(table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    [remark] = thin.remarks
    share = int(re.search(r"about (\d+) %", remark)[1])
    published = pq.read_table(thin.folder / thin.evidence.files[0])
    held = pc.sum(published["weight"]).as_py() / thin.manifest.report["rows, noisy"]
    assert share == pytest.approx(100 * held, abs=3)  # less a few false cells
    assert share < 50
    assert "rule='threshold'" in remark
    assert (
        "hold about"
        not in (thin.save(tmp_path / "thin", insecure=True) / "manifest.json").read_text()
    )
    thick = sc.publish(
        table(), SCHEMA, sc.Sparse(["shop", "job"], **WHO), options=sc.PublishOptions(seed=1)
    )
    assert thick.remarks == ()
    rare = sc.Sparse(["age", "shop", "job"], false_cells=1e-6, **WHO)
    [remark] = sc.publish(table(40), SCHEMA, rare, options=sc.PublishOptions(seed=1)).remarks
    assert "No combination of values stands out of the noise" in remark


def test_a_large_epsilon_is_warned_of():
    assert sc.Uniform(epsilon=10).cautions(SCHEMA) == ()
    for mechanism in (sc.Uniform(epsilon=11), sc.Uniform(keep=0.99999), sc.AlphaBeta(epsilon=11)):
        [caution] = mechanism.cautions(SCHEMA)
        assert "hides next to nothing" in caution
    release = sc.publish(table(50), SCHEMA, sc.Histogram(["age"], epsilon=20, neighbours="replace"))
    assert "may reach 99.9 %. With ε = 1 that is at most 23.2 %." in release.remarks[0]


def test_boxes_of_values_without_order_are_warned_of(subtests):
    for kind in ["Dawa", "KdTree", "Grid", "Quadtree", "PrivTree"]:
        with subtests.test(kind=kind):
            make = getattr(sc, kind)
            [caution] = make(["shop"], **WHO).cautions(SCHEMA)
            assert caution.startswith("shop has no order")
            assert (
                caution
                in sc.publish(
                    table(200), SCHEMA, make(["shop"], **WHO), options=sc.PublishOptions(seed=1)
                ).remarks
            )
            assert make(["age"], **WHO).cautions(SCHEMA) == ()
            for domain in (sc.Category(("a", "b")), sc.Category(("a", "b", "c"), ordered=True)):
                fine = sc.Schema((sc.Attribute("shop", "quasi", domain),))
                assert make(["shop"], **WHO).cautions(fine) == ()


def test_every_mechanism_has_an_outlook(subtests):
    """It may be empty; it never fails, and no sentence is without its end."""
    for name in CASES:
        with subtests.test(name=name):
            mechanism, schema = CASES[name].make(), CASES[name].schema
            for sentence in (*mechanism.outlook(schema), *mechanism.cautions(schema)):
                assert sentence.endswith(".")
