"""Rows that a release shows, against the channel that it states."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.audit.release_claims import shown_value_findings

JOBS = [f"job {number}" for number in range(8)]
SCHEMA = sc.Schema(
    (
        sc.Attribute("who", "quasi", sc.IntegerRange(0, 4)),
        sc.Attribute("job", "sensitive", sc.Category(JOBS)),
        sc.Attribute("ill", "sensitive", sc.Boolean()),
    )
)
COUNTS = [1800, 600, 450, 50, 50, 50, 0, 0]


def table() -> pa.Table:
    """In sorted order, as a release is, with values that few have or nobody."""
    jobs = np.repeat(np.arange(8), COUNTS)
    size = len(jobs)
    who = np.arange(size) * 5 // size
    return pa.table({"who": who, "job": [JOBS[each] for each in jobs], "ill": jobs % 2 == 0})


@pytest.mark.parametrize("joint", [True, False])
def test_rows_that_went_through_their_channel_stand(joint):
    """Wrong with a probability of 1e-4 at most for each channel; the seed is fixed."""
    mechanism = sc.Uniform(epsilon=1, joint=joint)
    found = list(
        shown_value_findings(
            sc.publish(table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
        )
    )
    assert [each.verdict for each in found] == ["stands"] * (1 if joint else 2)


def test_true_rows_with_the_channel_of_others_are_refuted():
    """The channel shows every combination in 169 rows or more on average; some are in none."""
    release = sc.publish(
        table(),
        SCHEMA,
        sc.Uniform(epsilon=1, joint=True),
        options=sc.PublishOptions(seed=1),
    )
    file = release.folder / release.evidence.file
    shape = pq.read_schema(file)
    pq.write_table(table().select(shape.names).cast(shape), file)
    [found] = shown_value_findings(release)
    assert found.refuted
    assert found.numbers["found"] == 0


def test_releases_without_such_a_channel_have_nothing_to_look_at():
    release = sc.publish(table(), SCHEMA, sc.Aroma(k=5), options=sc.PublishOptions(seed=1))
    assert list(shown_value_findings(release)) == []
