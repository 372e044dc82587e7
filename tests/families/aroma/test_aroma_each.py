"""Aroma with a multiset of each of several sensitive attributes: its promise against a list of all
multisets, what its files show, and what it refuses.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import product
from math import exp, prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import scumble as sc
from scumble.audit.release_claims import claims
from scumble.audit.row_laws import row_law
from scumble.families.aroma.design import profile_together
from scumble.model.evidence.channels import PoolLaw
from scumble.public.archive.archive import MANIFEST, _digest_of_json
from scumble.public.release import Release
from tests.support.mechanisms.pool_multisets import bags
from tests.support.people import JOBS, people, schema
from tests.support.terminal import run

TWO = schema(jobs=JOBS[:3], health=2)
POOLS = {"job": {"cook": 1, "driver": 2, "nurse": 3}, "health": [3, 2]}
EACH = sc.Aroma(k=3, joint=False)
LAWS = [
    (PoolLaw((1, 1, 1), 5), PoolLaw((1, 1), 4)),
    (PoolLaw((1, 2, 3), 4), PoolLaw((4, 5), 5)),
    (PoolLaw((2, 3), 3), PoolLaw((1, 1), 3), PoolLaw((3, 2), 3)),
]


def shown(release: sc.Release) -> list[np.ndarray]:
    """The multisets of each sensitive attribute as counts of its values, a row each."""
    table = pq.read_table(release.folder / release.evidence.file)
    found = []
    for channel in release.evidence.channels:
        matrix = np.stack([table[name].to_numpy() for name in channel.columns], axis=1)
        if channel.layout == "codes":
            values = range(channel.law.values)
            matrix = np.stack([(matrix == value).sum(axis=1) for value in values], axis=1)
        found.append(matrix)
    return found


@pytest.mark.parametrize("laws", LAWS)
def test_the_profile_of_a_row(laws: tuple[PoolLaw, ...], subtests: pytest.Subtests) -> None:
    """δ(ε) by its definition, over all pairs of combinations and all multisets. The figure is never
    below, and above by what the grid rounds.
    """
    known = [[bags(law, true)[0] for true in range(law.values)] for law in laws]
    cells = list(product(*(range(law.values) for law in laws)))

    def delta(one: tuple[int, ...], other: tuple[int, ...], epsilon: float) -> float:
        seen = np.ones((2, 1))
        for each, x, y in zip(known, one, other, strict=True):
            pairs = np.array([(float(p), float(each[y].get(bag, 0))) for bag, p in each[x].items()])
            seen = (seen[:, :, None] * pairs.T[:, None, :]).reshape(2, -1)
        return float(np.maximum(0.0, seen[0] - exp(epsilon) * seen[1]).sum())

    for epsilon in (0.1, 0.5, 1.0, 2.0):
        with subtests.test(epsilon=epsilon):
            exact = max(delta(*pair, epsilon) for pair in product(cells, cells))
            [figure] = profile_together(laws, (epsilon,))
            assert exact <= figure <= min(1.0, exact + 1e-5)


def test_promises_are_for_the_row_and_for_each_attribute() -> None:
    mechanism = sc.Aroma(k=3, joint=False, pool=POOLS)
    laws = mechanism.laws(TWO)
    assert laws == (PoolLaw((1, 2, 3), 3), PoolLaw((3, 2), 3))
    alone = [sc.Aroma(k=3, pool=POOLS[name]).guarantee(one) for name, one in _one_by_one().items()]
    row, exposed, *of_each = mechanism.guarantee(TWO)
    assert row.parameters["delta at epsilon 0.5"] == profile_together(laws, (0.5,))[0]
    assert mechanism.profile(TWO, 0.5) == row.parameters["delta at epsilon 0.5"]
    assert "3 values of each of job and health" in str(row)
    successes = [guess.parameters["p"] for _, guess in alone]
    assert exposed.parameters == {"p": pytest.approx(prod(successes)), "values": 6}
    for place, (one, found) in enumerate(zip(alone, (of_each[:2], of_each[2:]), strict=True), 1):
        for promise, own in zip(found, one, strict=True):
            assert promise.parameters == {**own.parameters, "attribute": place}
            assert promise.sentence == own.sentence
    assert any("to whom the others tell nothing" in limit for limit in row.limits)


def _one_by_one() -> dict[str, sc.Schema]:
    return {
        attribute.name: sc.Schema([TWO["age"], TWO["sex"], attribute])
        for attribute in TWO.sensitive
    }


def test_the_exposure_is_that_of_all_multisets() -> None:
    """Σ over pairs of multisets of the largest probability of any combination, over their
    number.
    """
    mechanism = sc.Aroma(k=4, joint=False, pool={"job": [1, 2, 3], "health": [4, 5]})
    laws = mechanism.laws(TWO)
    known = [[bags(law, true)[0] for true in range(law.values)] for law in laws]
    every = [sorted({bag for one in each for bag in one}) for each in known]
    best = sum(
        max(one.get(a, 0) * other.get(b, 0) for one in known[0] for other in known[1])
        for a, b in product(*every)
    )
    assert 0 <= mechanism.guarantee(TWO)[1].parameters["p"] - float(best) / 6 < 1e-8


def test_multisets_follow_the_product_of_their_laws() -> None:
    """Chi-square over all pairs of multisets of 50,000 equal rows, false alarm 1e-6; it rejects
    multisets of which one decides the other.
    """
    rows = 50_000
    columns = {"age": [1], "sex": ["f"], "job": ["driver"], "health": [1]}
    private = pa.table({name: value * rows for name, value in columns.items()})
    release = sc.publish(
        private, TWO, sc.Aroma(k=3, joint=False, pool=POOLS), options=sc.PublishOptions(seed=3)
    )
    chances = [bags(c.law, 1)[0] for c in release.evidence.channels]
    pairs = zip(*(map(tuple, counts.tolist()) for counts in shown(release)), strict=True)
    observed: dict[tuple, int] = {}
    for pair in pairs:
        observed[pair] = observed.get(pair, 0) + 1
    expected = {
        (one, other): rows * float(chances[0][one] * chances[1][other])
        for one, other in product(*chances)
    }
    assert set(observed) <= set(expected)
    assert min(expected.values()) > 5
    far = sum((observed.get(pair, 0) - mean) ** 2 / mean for pair, mean in expected.items())
    assert far < chi2.isf(1e-6, len(expected) - 1)


@pytest.mark.parametrize("k", [2, 9])
def test_every_row_shows_k_values_of_each_and_the_true_ones(k: int) -> None:
    domain = schema(ages=100, health=9)
    private = pa.table(
        {
            "age": np.arange(45),
            "sex": ["f"] * 45,
            "job": [JOBS[cell // 9] for cell in range(45)],
            "health": [cell % 9 for cell in range(45)],
        }
    )
    release = sc.publish(
        private, domain, sc.Aroma(k=k, joint=False), options=sc.PublishOptions(seed=1)
    )
    jobs, health = shown(release)
    ages = pq.read_table(release.folder / "records.parquet")["age"].to_numpy()
    assert sorted(ages) == list(range(45))
    assert (jobs.sum(axis=1) == k).all()
    assert (health.sum(axis=1) == k).all()
    assert (jobs[np.arange(45), ages // 9] > 0).all()
    assert (health[np.arange(45), ages % 9] > 0).all()
    assert release.manifest.report["values per row"] == 2 * k


def test_columns_have_different_names() -> None:
    attributes = [
        sc.Attribute("a", "sensitive", sc.Category(("b=c", "d"))),
        sc.Attribute("a=b", "sensitive", sc.Category(("c", "d"))),
    ]
    domain = sc.Schema([sc.Attribute("age", "quasi", sc.IntegerRange(0, 9)), *attributes])
    release = sc.publish(people(20, domain), domain, EACH, options=sc.PublishOptions(seed=1))
    columns = [name for channel in release.evidence.channels for name in channel.columns]
    assert len({name.lower() for name in columns}) == 4
    assert release.answer("SELECT COUNT(*) FROM t WHERE a = 'b=c' AND \"a=b\" = 'c'").stderr > 0


def test_one_sensitive_attribute_is_as_without() -> None:
    private = people(200, schema())
    one, other = (
        sc.publish(private, schema(), mechanism, options=sc.PublishOptions(seed=1))
        for mechanism in (sc.Aroma(k=9, joint=False), sc.Aroma(k=9))
    )
    assert one.evidence == other.evidence
    assert tuple(one.guarantees) == tuple(other.guarantees)
    files = [(each.folder / "records.parquet").read_bytes() for each in (one, other)]
    assert files[0] == files[1]


def test_a_saved_release_answers(tmp_path: Path) -> None:
    private = people(4000, TWO)
    mechanism = sc.Aroma(k=5, joint=False, pool=POOLS)
    made = sc.publish(private, TWO, mechanism, options=sc.PublishOptions(seed=2))
    assert sc.Aroma(**made.manifest.parameters).laws(TWO) == mechanism.laws(TWO)
    release = sc.open(made.save(tmp_path / "each", insecure=True))
    rows = private.to_pylist()
    truth = sum(row["job"] == "cook" and row["health"] == 1 for row in rows)
    low, high = release.answer("SELECT COUNT(*) FROM t WHERE job = 'cook' AND health = 1").interval(
        0.999999
    )
    assert low <= truth <= high
    grouped = release.answer("SELECT job, health, COUNT(*) FROM t GROUP BY job, health")
    assert len(grouped) == 6
    assert sum(estimate.value for _, estimate in grouped) == pytest.approx(4000)
    for (job, health), estimate in grouped:
        low, high = estimate.interval(0.999999)
        assert low <= sum((row["job"], row["health"]) == (job, health) for row in rows) <= high


def test_levels_are_nested_in_each_attribute() -> None:
    domain = schema(ages=500, jobs=JOBS[:3], health=2)
    private = people(300, domain).set_column(0, "age", pa.array(np.arange(300)))
    views = sc.Aroma(k=9, joint=False).publish_levels(
        private, domain, levels=[3, 9], options=sc.PublishOptions(seed=1)
    )
    ages = [pq.read_table(view.folder / "records.parquet")["age"].to_numpy() for view in views]
    small, large = (
        [counts[np.argsort(age)] for counts in shown(view)]
        for view, age in zip(views, ages, strict=True)
    )
    for less, more in zip(small, large, strict=True):
        assert (less <= more).all()
        assert (less.sum(axis=1) == 3).all()
        assert (more.sum(axis=1) == 9).all()


def test_two_jobs_publish_the_same() -> None:
    releases = [
        sc.publish(people(400, TWO), TWO, EACH, options=sc.PublishOptions(seed=1, jobs=jobs))
        for jobs in (1, 2)
    ]
    files = [(each.folder / "records.parquet").read_bytes() for each in releases]
    assert files[0] == files[1]


def test_refused(subtests: pytest.Subtests) -> None:
    for parameters, sentence in [
        ({"joint": "both"}, "'joint' parameter of Aroma must be True or False"),
        ({"joint": False, "closeness": 2}, "goes without closeness"),
        ({"joint": False, "identifier": "id"}, "and without identifier"),
        ({"joint": False, "pool": [1, 2, 3]}, "a table with a pool for each by name"),
        ({"joint": False, "pool": {"job": [1, 2, 3]}}, "for each by name: job, health. Got"),
        ({"joint": False, "pool": {**POOLS, "health": [1]}}, "2 weights, one for each value"),
        ({"pool": POOLS}, "must be a number above 0"),
    ]:
        with subtests.test(sentence), pytest.raises(sc.ParameterError) as error:
            sc.publish("no such file.csv", TWO, sc.Aroma(k=3, **parameters))
        assert sentence in str(error.value)
    with pytest.raises(sc.SchemaError, match="at most 1024 values, and health has 2000"):
        sc.publish("no such file.csv", schema(health=2000), EACH)
    with pytest.raises(sc.SchemaError, match="job and health together have 1500"):
        sc.publish("no such file.csv", schema(health=300), sc.Aroma(k=3))
    assert len(EACH.laws(schema(health=300))) == 2


def test_the_audit_knows_the_law_of_a_row() -> None:
    release = sc.publish(people(100, TWO), TWO, EACH, options=sc.PublishOptions(seed=1))
    verdicts = [finding.verdict for finding in claims(release)]
    assert verdicts == ["stands", "exact"] * 3
    law = row_law(release.evidence, TWO, 0.5)
    assert law is not None
    assert law.epsilon == np.inf
    assert law.delta == release.guarantees[0].parameters["delta at epsilon 0.5"]
    for promise in release.guarantees:
        better = {
            name: number * (0.9 if name == "p" or name.startswith("delta") else 1)
            for name, number in promise.parameters.items()
        }
        forged = type(release.guarantees)([replace(promise, parameters=better)])
        [finding] = claims(Release(replace(release.manifest, guarantees=forged), release.folder))
        assert finding.verdict == "refuted"


def test_a_forged_promise_is_not_opened(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A row lacks a given job or a given health with probability 1 − (1 − 4/9)(1 − 1/4) = 0.58;
    and there is no third attribute.
    """
    saved = Path(
        sc.publish(people(100, TWO), TWO, EACH, options=sc.PublishOptions(seed=1)).save(
            tmp_path / "r", insecure=True
        )
    )
    for place, name, number in [(0, "delta at epsilon 2", 0.5), (2, "attribute", 3)]:
        with subtests.test(name):
            data = json.loads((saved / MANIFEST).read_text())
            data["guarantees"][place]["parameters"][name] = number
            data.pop("checksum")
            forged = shutil.copytree(saved, tmp_path / f"forged {place}")
            text = json.dumps({**data, "checksum": _digest_of_json(data)})
            (forged / MANIFEST).write_text(text)
            with pytest.raises(sc.ReleaseError):
                sc.open(forged)


def test_a_manifest_without_a_column_is_not_opened(tmp_path: Path) -> None:
    saved = Path(
        sc.publish(people(9, TWO), TWO, EACH, options=sc.PublishOptions(seed=1)).save(
            tmp_path / "r", insecure=True
        )
    )
    data = json.loads((saved / MANIFEST).read_text())
    data.pop("checksum")
    data["evidence"]["channels"][1]["columns"].pop()
    (saved / MANIFEST).write_text(json.dumps({**data, "checksum": _digest_of_json(data)}))
    with pytest.raises(sc.ReleaseError, match="damaged"):
        sc.open(saved)


def test_the_command(tmp_path: Path) -> None:
    private = people(500, TWO)
    TWO.save(tmp_path / "schema.json")
    pq.write_table(private, tmp_path / "people.parquet")
    (tmp_path / "pools.json").write_text(json.dumps(POOLS))
    where = (tmp_path / "people.parquet", "-s", tmp_path / "schema.json", "-o", tmp_path / "r")
    method = ("--k", "5", "--each", "--pool", tmp_path / "pools.json")
    done = run("publish", "aroma", *where, *method)
    assert done.code == 0, done.err
    release = sc.open(tmp_path / "r")
    assert [channel.attributes for channel in release.evidence.channels] == [("job",), ("health",)]
    found = run("ask", tmp_path / "r", "SELECT COUNT(*) FROM t WHERE job = 'cook' AND health = 1")
    assert found.code == 0, found.err
    refused = run("publish", "aroma", *where[:-1], tmp_path / "s", *method, "--closeness", "2")
    assert refused.code == 2
    assert "Aroma with --each goes without --closeness" in refused.err
    audited = run("audit", tmp_path / "r")
    assert audited.code == 0, audited.err
