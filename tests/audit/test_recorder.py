"""Every summary with a fixed plan, between all neighbours of tiny tables: the exact loss is within
the promise, and reaches it where the promise is tight.
"""

from fractions import Fraction

import numpy as np
import pytest

import scumble as sc
from scumble.audit.distinguish import distinguish
from scumble.audit.recorder import outputs, worst
from scumble.concentrated import rho_for
from scumble.noise.source import Source

SCHEMA = sc.Schema(
    (
        sc.Attribute("a", "quasi", sc.IntegerRange(0, 3)),
        sc.Attribute("b", "quasi", sc.Category(["x", "y"])),
    )
)
BINARY = sc.Schema(tuple(sc.Attribute(n, "quasi", sc.Category(["x", "y"])) for n in "ab"))
GAUSSIAN = {"delta": 1e-6}

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
    counts = np.arange(8, dtype=np.int64)
    loss, _ = worst(mechanism, SCHEMA, ["a", "b"], counts, relation, rows)
    assert loss.rho == 0
    assert epsilon * Fraction(99, 100) <= loss.epsilon <= epsilon


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ["hierarchy", "wavelet"])
def test_gaussian_noise_keeps_its_rho(name, relation):
    mechanism = SUMMARIES[name](epsilon=0.7, delta=1e-6, neighbours=relation)
    counts = np.arange(8, dtype=np.int64)
    loss, _ = worst(mechanism, SCHEMA, ["a", "b"], counts, relation, 1)
    assert loss.epsilon == 0
    assert loss.rho <= rho_for(0.7, 1e-6)


def test_a_million_runs_of_a_summary_do_not_refute_it():
    """At a confidence of 0.9999."""
    mechanism = SUMMARIES["hierarchy"](epsilon=0.7, neighbours="add_remove")
    _, pair = worst(mechanism, SCHEMA, ["a", "b"], np.zeros(8, np.int64), "add_remove", 1)
    noise = Source(6)
    found = distinguish(*(outputs(each, 100_000, noise) for each in pair))
    assert 0.3 < found.epsilon <= 0.7
