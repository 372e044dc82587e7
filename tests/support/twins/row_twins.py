"""Broken publishers: values kept too often, views that hang together, rows in a telling order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.exposure import SECRET, TARGET, VALUES, secret_schema
from scumble.audit.linkage import row_order_finding
from scumble.audit.mechanism_claims import judged
from scumble.families.alphabeta.design import InclusionProbabilities, TupleOdds
from scumble.families.alphabeta.publish.views import TupleViews
from scumble.private.engines.local import LocalEngine
from scumble.private.mechanism_metadata import Claim
from scumble.private.owner import OwnedRelease
from scumble.private.sampling.source import Keystream
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Rows
from scumble.private.tables.sorted_keys import true_tuples
from tests.support.twins.twins import Twin, claimed


class RoundedKeep(sc.Uniform):
    """The probability to keep a value is rounded up to sixteenths."""

    def _keep(self, values, parts):
        return Fraction(ceil(16 * super()._keep(values, parts)), 16)


class DrawnAgain(sc.Uniform):
    """A value that was replaced gets another chance to be kept."""

    def _keep(self, values, parts):
        keep = super()._keep(values, parts)
        return keep + (1 - keep) * keep


class SortedByTruth(sc.Uniform):
    """The published rows stand in the order of the true values."""

    def perturb(self, rows, noise, folder):
        [true] = map(np.concatenate, zip(*rows.batches([SECRET]), strict=True))
        evidence = super().perturb(rows, noise, folder)
        published = pq.read_table(folder / evidence.file)
        order = np.argsort(true[published[TARGET].to_numpy()], kind="stable")
        pq.write_table(published.take(pa.array(order)), folder / evidence.file)
        return evidence


class SameCoins(sc.AlphaBeta):
    """The second view has exactly the true tuples that the first one has."""

    def republish(self, evidence, published, rows, noise, update_record, folder):
        law = evidence.presence
        true = true_tuples(rows, "error", 1, LocalEngine(rows, noise).sorted_rows)
        views = TupleViews(rows.schema, law)
        keys, masks = views.later(true, *views.read(published / evidence.file), 2, noise)
        own, first = np.isin(keys, true), (masks & np.uint64(1)).astype(bool)
        masks = np.where(own, np.uint64(3), masks)
        views.write(folder, keys[~own | first], masks[~own | first])
        return replace(evidence, presence=replace(law, views=2))


def two_views(mechanism: sc.AlphaBeta):
    """Which views show each value of people with the first secret, and with the last."""

    def check(runs: int, seed: int):
        schema, outputs = secret_schema(runs), []
        for place, value in enumerate((0, VALUES - 1)):
            table = pa.table({TARGET: np.arange(runs), SECRET: np.full(runs, value)})
            first = sc.publish(
                table, schema, mechanism, options=sc.PublishOptions(seed=seed + place)
            )
            outputs.append(masks_of(mechanism, first, table, seed + 2 + place))
        law = replace(first.evidence.presence, views=2)
        most = TupleOdds(law, schema.size()).loss(replaced=True)
        return [judged(repr(mechanism), most, distinguish(*outputs), "two views")]

    return check


def masks_of(
    mechanism: sc.AlphaBeta, first: OwnedRelease, table: pa.Table, seed: int
) -> np.ndarray:
    """For every person and value the views that show them, after a second view."""
    rows = Rows(open_source(table), first.schema)
    with TemporaryDirectory() as name:
        folder = Path(name)
        noise = Keystream(seed)
        evidence = mechanism.republish(
            first.evidence, first.folder, rows, noise, first.update_record, folder
        )
        shown = pq.read_table(folder / evidence.file)
    found = np.zeros((table.num_rows, VALUES))
    found[shown[TARGET].to_numpy(), shown[SECRET].to_numpy()] = shown[
        InclusionProbabilities.views_column
    ].to_numpy()
    return found


def ordered(mechanism: sc.Uniform):
    return lambda runs, seed: [row_order_finding(mechanism, 1, runs, seed=seed)]


_VIEWS = {"alpha": 0.5, "beta": 0.1, "views": 2}

TWINS = [
    Twin(
        "keep probability rounded",
        claimed(Claim(RoundedKeep(epsilon=0.5), 0.5)),
        claimed(Claim(sc.Uniform(epsilon=0.5), 0.5)),
        60_000,
    ),
    Twin(
        "resampling that leaks: a changed value is drawn again",
        claimed(Claim(DrawnAgain(epsilon=1), 1)),
        claimed(Claim(sc.Uniform(epsilon=1), 1)),
        20_000,
    ),
    Twin(
        "row order leaking",
        ordered(SortedByTruth(epsilon=1)),
        ordered(sc.Uniform(epsilon=1)),
        5_000,
    ),
    Twin(
        "alpha step correlated across views",
        two_views(SameCoins(**_VIEWS)),
        two_views(sc.AlphaBeta(**_VIEWS)),
        60_000,
    ),
]
