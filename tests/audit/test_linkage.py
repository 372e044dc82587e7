"""Linkage: posteriors against Bayes' rule written out, and against what really happens."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.audit.linkage import linkage

ROWS = 6000
SCHEMA = sc.Schema(
    (
        sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)),
        sc.Attribute("sex", "quasi", sc.Category(("f", "m"))),
        sc.Attribute("job", "sensitive", sc.IntegerRange(0, 5)),
    )
)


def table(seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(0, 10, ROWS),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, ROWS)],
            "job": np.minimum(rng.geometric(0.5, ROWS) - 1, 5),
        }
    )


@pytest.mark.parametrize(
    "mechanism",
    [sc.Uniform(epsilon=1), sc.Subset(epsilon=1), sc.Aroma(k=10), sc.Partition(rho1=0.6, rho2=0.9)],
    ids=lambda each: each.name,
)
def test_posteriors_are_right_on_average(mechanism):
    """The mean posterior is the prior, and that is what the release tells of the whole table:
    within 5.5 of its standard errors for each of six values, a false alarm in 10^6.
    """
    private = table()
    release = sc.publish(private, SCHEMA, mechanism, options=sc.PublishOptions(seed=4))
    found = linkage(release)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    assert found.candidates.sum() == ROWS
    np.testing.assert_allclose(found.candidates @ found.posterior / ROWS, found.prior, atol=1e-3)
    truth = np.bincount(private["job"].to_numpy(), minlength=6)
    answers = release.answer("SELECT job, COUNT(*) FROM t GROUP BY job")
    for value, share in enumerate(found.prior):
        assert abs(share * ROWS - truth[value]) < 5.5 * answers[value].stderr + 6


def test_uniform_follows_bayes_rule():
    mechanism = sc.Uniform(keep=0.5)
    private = pa.table({"age": [0, 0, 1], "sex": ["f", "f", "m"], "job": [2, 2, 3]})
    release = sc.publish(private, SCHEMA, mechanism, options=sc.PublishOptions(seed=2))
    found = linkage(release, ["age"])
    shown = {0: [], 1: []}
    for row in pq.read_table(release.folder / release.evidence.file).to_pylist():
        likelihood = np.full(6, 0.5 / 6)
        likelihood[row["job"]] += 0.5
        joint = found.prior * likelihood
        shown[row["age"]].append(joint / joint.sum())
    for place, person in enumerate(found.known):
        np.testing.assert_allclose(found.posterior[place], np.mean(shown[person["age"]], axis=0))
    assert [person["rows"] for person in found.of({"age": 0})] == [2]


def test_anatomy_gives_the_shares_of_the_group():
    release = sc.publish(
        table(), SCHEMA, sc.Anatomy(l=2, suppress=True), options=sc.PublishOptions(seed=1)
    )
    found = linkage(release)
    assert found.posterior.max() <= 0.5 + 1e-9
    worst = found.worst(3)
    assert len(worst) == 3
    assert worst[0]["posterior"] > worst[0]["prior"]


@pytest.mark.parametrize(
    ("mechanism", "known", "words"),
    [
        (sc.Histogram(["age"], epsilon=1, neighbours="replace"), None, "publish columns of people"),
        (sc.Frapp(epsilon=1), None, "publish columns of people"),
        (sc.Uniform(epsilon=1), ["job"], "must be among age, sex"),
    ],
)
def test_what_cannot_be_linked_is_refused(mechanism, known, words):
    with pytest.raises(sc.ParameterError, match=words):
        linkage(sc.publish(table(), SCHEMA, mechanism, options=sc.PublishOptions(seed=1)), known)
