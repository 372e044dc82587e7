"""Every summary with a fixed plan, between all neighbours of tiny tables: the exact loss is within
the promise, and reaches it where the promise is tight.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.subjects import summary_findings
from scumble.audit.summary_plans import worst_pair
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import BudgetAccount, normal_rho_for, rho_for
from scumble.model.privacy.guarantee import Guarantees
from scumble.private.meter.table import PrivateTable
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import TensorCounter

SCHEMA = sc.Schema(
    (
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 3)),
        sc.Attribute("b", "quasi", sc.Category(["x", "y"])),
    )
)

SUMMARIES = {
    "histogram": lambda **more: sc.Histogram(["a", "b"], **more),
    "hierarchy": lambda **more: sc.Hierarchy(["a", "b"], **more),
    "wavelet": lambda **more: sc.Wavelet(["a", "b"], **more),
    "dyadic": lambda **more: sc.Dyadic(["a", "b"], **more),
    "marginals": lambda **more: sc.Marginals(["a", "b"], ways=2, **more),
    "datacube": lambda **more: sc.Datacube(["a", "b"], **more),
}


def test_the_exact_loss_keeps_the_promise(subtests):
    pure = [name for name in SUMMARIES if name != "dyadic"]
    for relation, rows, name in product(["add_remove", "replace"], [1, 3], pure):
        with subtests.test(relation=relation, rows=rows, name=name):
            epsilon = Fraction(7, 10)
            mechanism = SUMMARIES[name](epsilon=0.7, neighbours=relation, contribution=rows)
            loss = worst_pair(mechanism, SCHEMA, relation, rows).loss
            assert loss.rho == 0
            assert epsilon * Fraction(99, 100) <= loss.epsilon <= epsilon


def test_gaussian_noise_keeps_its_rho(subtests):
    for relation, name in product(
        ["add_remove", "replace"], ["hierarchy", "wavelet", "dyadic", "marginals", "datacube"]
    ):
        with subtests.test(relation=relation, name=name):
            mechanism = SUMMARIES[name](epsilon=0.7, delta=1e-6, neighbours=relation)
            loss = worst_pair(mechanism, SCHEMA, relation, 1).loss
            assert loss.epsilon == 0
            curve = normal_rho_for if name == "dyadic" else rho_for
            assert loss.rho <= curve(0.7, 1e-6)


def test_no_release_is_refuted_by_its_own_mechanism(subtests):
    """Residuals with Gaussian noise publish less than they blur, and are paid for accordingly."""
    for relation, delta, name in product(
        ["add_remove", "replace"], [{}, {"delta": 1e-6}], SUMMARIES
    ):
        with subtests.test(relation=relation, delta=delta, name=name):
            if name == "histogram" and delta:
                pytest.skip("histograms have no Gaussian noise")
            if name == "dyadic" and not delta:
                pytest.skip("dyadic has normal noise only")
            mechanism = SUMMARIES[name](epsilon=0.7, neighbours=relation, **delta)
            rows = pa.table({"a": [0, 1, 3], "b": ["x", "y", "y"]})
            [found] = summary_findings(
                sc.publish(rows, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
            )
            assert found.verdict == "exact", found.sentence


ROWS = pa.table({"a": [0, 1, 3], "b": ["x", "y", "y"]})


def test_a_release_that_promises_more_than_its_method_is_refuted(subtests):
    """What counts is the promise that is published, and not the one that parameters imply; of a
    data cube with Gaussian noise two thirds are spent on so small a table.
    """
    for delta, name in product([{}, {"delta": 1e-6}], SUMMARIES):
        with subtests.test(delta=delta, name=name):
            if name == "histogram" and delta:
                pytest.skip("histograms have no Gaussian noise")
            if name == "dyadic" and not delta:
                pytest.skip("dyadic has normal noise only")
            mechanism = SUMMARIES[name](epsilon=0.7, neighbours="replace", **delta)
            release = sc.publish(ROWS, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
            [promise] = release.guarantees
            for number in {"epsilon", "rho", "mu"} & {*promise.parameters}:
                boast = {**promise.parameters, number: 0.6 * promise.parameters[number]}
                changed = Guarantees([replace(promise, parameters=boast)])
                release.manifest = replace(release.manifest, guarantees=changed)
                [found] = summary_findings(release)
                assert found.refuted, found.sentence


def test_a_release_that_states_less_noise_than_its_method_takes_is_refuted():
    mechanism = SUMMARIES["hierarchy"](epsilon=0.7, neighbours="replace")
    release = sc.publish(ROWS, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    design = release.evidence.design
    for factor, verdict in ((Fraction(1, 2), "refuted"), (2, "exact")):
        laws = tuple(DiscreteLaplace(law.scale * factor) for law in design.laws)
        evidence = replace(release.evidence, design=replace(design, laws=laws))
        release.manifest = replace(release.manifest, evidence=evidence)
        [found] = summary_findings(release)
        assert found.verdict == verdict, found.sentence


def test_an_exact_number_of_rows_is_refuted_where_neighbouring_tables_have_others(subtests):
    """Whether it was changed in the manifest or published by mistake does not matter."""
    for name in SUMMARIES:
        delta = {"delta": 1e-6} if name == "dyadic" else {}
        with subtests.test(name=name):
            protected = [
                {"neighbours": "add_remove"},
                {"neighbours": "replace", "contribution": 2},
                {"neighbours": "replace"},
            ]
            for given, outside in [(each, "error") for each in protected] + [
                (protected[2], "drop")
            ]:
                mechanism = SUMMARIES[name](epsilon=0.7, **given, **delta)
                release = sc.publish(
                    ROWS, SCHEMA, mechanism, options=sc.PublishOptions(seed=1, outside=outside)
                )
                kept = given == protected[2] and outside == "error"
                assert release.evidence.rows == (3 if kept else None)
                assert [found.verdict for found in summary_findings(release)] == ["exact"]
                evidence = replace(release.evidence, rows=3)
                release.manifest = replace(release.manifest, evidence=evidence)
                verdicts = {found.check: found.verdict for found in summary_findings(release)}
                assert verdicts.get("number of rows") == (None if kept else "refuted")


def test_an_exact_number_of_rows_of_a_part_is_refuted():
    """A replacement can move a person to another part."""
    mechanism = SUMMARIES["histogram"](epsilon=0.7, neighbours="replace")
    release = sc.publish(ROWS, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    release.manifest = replace(release.manifest, report={"only rows with": "a = 1"})
    verdicts = {found.check: found.verdict for found in summary_findings(release)}
    assert verdicts["number of rows"] == "refuted"


def test_a_release_that_states_other_sums_is_not_judged():
    releases = [
        sc.publish(
            ROWS,
            SCHEMA,
            sc.Histogram(names, epsilon=0.7, neighbours="replace"),
            options=sc.PublishOptions(seed=1),
        )
        for names in (["a"], ["a", "b"])
    ]
    release, other = releases
    parameters = {**release.manifest.parameters, "attributes": ["b"]}
    release.manifest = replace(other.manifest, parameters=parameters)
    [found] = summary_findings(release)
    assert found.verdict == "noted"
    assert "other sums" in found.sentence


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_plan_that_depends_on_the_data_is_not_judged_by_a_table_of_nobody(adaptive):
    """Of nobody a grid has one box, and a person in the place of another changes nothing."""
    mechanism = sc.Grid(["a", "b"], adaptive=adaptive, epsilon=1, neighbours="replace")
    [found] = summary_findings(
        sc.publish(ROWS, SCHEMA, mechanism, options=sc.PublishOptions(seed=1))
    )
    assert found.verdict == "noted"


def test_many_runs_of_a_summary_do_not_refute_it():
    """At a confidence of 0.9999."""
    mechanism = SUMMARIES["hierarchy"](epsilon=0.7, neighbours="add_remove")
    found = distinguish(*worst_pair(mechanism, SCHEMA, "add_remove", 1).runs(100_000, Keystream(6)))
    assert 0.3 < found.epsilon <= 0.7


class Posing(Keystream):
    """A source that notes what it is handed beside arrays to fill."""

    def __init__(self):
        super().__init__(1)
        self.asked = set()

    def __getattribute__(self, name):
        if not name.startswith("_") and name != "asked":
            self.asked.add(name)
        return super().__getattribute__(name)


def test_a_source_is_asked_for_bits_and_told_no_count(tmp_path_factory, subtests):
    for method in [sc.Histogram, sc.Marginals, sc.KdTree, sc.PrivTree, sc.Sparse]:
        with subtests.test(method=method):
            tmp_path = tmp_path_factory.mktemp("case")
            more = {"ways": 1} if method is sc.Marginals else {}
            mechanism = method(["a", "b"], epsilon=1, neighbours="add_remove", **more)
            counter = TensorCounter(SCHEMA, ["a", "b"], np.arange(8))
            source = Posing()
            table = PrivateTable(counter, BudgetAccount(mechanism.promise), source)
            mechanism.measure(table, tmp_path)
            assert source.asked
            assert source.asked <= {"fill", "words", "halves", "bits"}
