"""What a publisher shows of people who all have the same secret: each of them is a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit.adversary import shown
from scumble.audit.game import SECRET, WHO
from scumble.model.evidence.evidence import Tuples
from scumble.model.evidence.presence import Replaced
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Publisher
from scumble.private.publish import publish
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]

VALUES = 4


def secret_schema(people: int) -> Schema:
    """People with a number, and a secret with a few values."""
    return Schema(
        (
            Attribute(WHO, "quasi", IntegerRange(0, max(people - 1, 1))),
            Attribute(SECRET, "sensitive", IntegerRange(0, VALUES - 1)),
        )
    )


def shown_rows(mechanism: Publisher, value: int, runs: int, *, seed: int | None = None) -> Floats:
    """What is shown of so many people, one a line: how often each value is."""
    if mechanism.name == "frapp":
        return _replaced(mechanism, value, runs, seed)
    table = pa.table({WHO: np.arange(runs), SECRET: np.full(runs, value)})
    return shown(publish(table, secret_schema(runs), mechanism, seed=seed), WHO)


def _replaced(mechanism: Publisher, value: int, runs: int, seed: int | None) -> Floats:
    """Rows that are replaced by any row of the domain do not stay with their people; so all people
    have the same row, of a small domain, and every published row is a run. They come sorted, and
    are put in no order.
    """
    schema = secret_schema(2)
    last = value == VALUES - 1  # the two rows that differ in everything
    table = pa.table({WHO: np.full(runs, int(last)), SECRET: np.full(runs, value)})
    release: Release = publish(table, schema, mechanism, seed=seed)
    evidence = release.evidence
    if not isinstance(evidence, Tuples) or not isinstance(evidence.presence, Replaced):
        raise TypeError("rows that are replaced are published as tuples")
    found = pq.read_table(release.folder / evidence.file)
    codes = [schema[name].encode(found[name])[0] for name in (WHO, SECRET)]
    keys = schema.radix((WHO, SECRET)).pack(codes).astype(np.int64)
    lines: Floats = np.eye(schema.size())[np.random.default_rng(seed).permutation(keys)]
    return lines
