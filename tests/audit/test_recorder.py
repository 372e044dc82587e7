"""Every summary with a fixed plan, between all neighbours of tiny tables: the exact loss is within
the promise, and reaches it where the promise is tight.
"""

from fractions import Fraction

import pyarrow as pa
import pytest

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.fixed_plans import worst
from scumble.audit.summaries import summary_findings
from scumble.concentrated import rho_for
from scumble.noise.source import Source

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
    "marginals": lambda **more: sc.Marginals(["a", "b"], ways=2, **more),
    "datacube": lambda **more: sc.Datacube(["a", "b"], **more),
}


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", SUMMARIES)
def test_the_exact_loss_keeps_the_promise(name, relation, rows):
    epsilon = Fraction(7, 10)
    mechanism = SUMMARIES[name](epsilon=0.7, neighbours=relation, contribution=rows)
    loss = worst(mechanism, SCHEMA, relation, rows).loss
    assert loss.rho == 0
    assert epsilon * Fraction(99, 100) <= loss.epsilon <= epsilon


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ["hierarchy", "wavelet", "marginals", "datacube"])
def test_gaussian_noise_keeps_its_rho(name, relation):
    mechanism = SUMMARIES[name](epsilon=0.7, delta=1e-6, neighbours=relation)
    loss = worst(mechanism, SCHEMA, relation, 1).loss
    assert loss.epsilon == 0
    assert loss.rho <= rho_for(0.7, 1e-6)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("delta", [{}, {"delta": 1e-6}])
@pytest.mark.parametrize("name", SUMMARIES)
def test_no_release_is_refuted_by_its_own_mechanism(name, delta, relation):
    """Residuals with Gaussian noise publish less than they blur, and are paid for accordingly."""
    if name == "histogram" and delta:
        pytest.skip("histograms have no Gaussian noise")
    mechanism = SUMMARIES[name](epsilon=0.7, neighbours=relation, **delta)
    rows = pa.table({"a": [0, 1, 3], "b": ["x", "y", "y"]})
    [found] = summary_findings(sc.publish(rows, SCHEMA, mechanism, seed=1))
    assert found.verdict == "exact", found.sentence


def test_many_runs_of_a_summary_do_not_refute_it():
    """At a confidence of 0.9999."""
    mechanism = SUMMARIES["hierarchy"](epsilon=0.7, neighbours="add_remove")
    found = distinguish(*worst(mechanism, SCHEMA, "add_remove", 1).runs(100_000, Source(6)))
    assert 0.3 < found.epsilon <= 0.7
