"""Claims about methods that publish rows, held against the exact law of a row."""

from __future__ import annotations

import math
from itertools import combinations, product

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import scumble as sc
from scumble.audit import subjects
from scumble.audit.report import page
from scumble.audit.row_laws import row_law
from scumble.cli.app import app
from scumble.families.alphabeta.design import InclusionProbabilities, Tuples
from scumble.families.aroma.design import SLACK
from scumble.model.errors import PromiseError
from scumble.model.evidence.channels import MultisetChannel, PoolLaw, SubsetLaw, UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.private.mechanism import Publisher, mechanisms

VALUES, GAMES = 5, 500
# What every method that publishes rows loses about a sensitive value, by its definition.
TRUTH = {
    sc.Uniform(epsilon=1): 1.0,
    sc.Subset(epsilon=1): 1.0,
    sc.Frapp(gamma=19): math.log(19),
    sc.AlphaBeta(alpha=0.5, beta=0.25): math.log(0.75 / 0.25) + math.log(0.75 / 0.25),
    sc.Aroma(k=20): math.inf,
    sc.Partition(rho1=0.4, rho2=0.6): math.inf,
    sc.Anatomy(l=2): math.inf,
    sc.Generalise(k=3): math.inf,
}


def test_every_publisher_is_tried():
    kinds = [kind for kind in mechanisms().values() if issubclass(kind, Publisher)]
    assert {type(each) for each in TRUTH} == set(kinds)


@pytest.mark.parametrize("mechanism", TRUTH, ids=lambda each: each.name)
def test_a_claim_below_the_truth_is_refuted_and_one_at_it_stands(mechanism):
    truth = TRUTH[mechanism]
    for claimed in (1, 5, 50) if truth == math.inf else (0.98 * truth,):
        report = subjects.of_method(mechanism, VALUES, claimed, games=GAMES, seed=1)
        assert report.refuted
        assert [finding.check for finding in report.findings] == ["exact law", "exposure game"]
        assert report.findings[0].refuted
        assert "stands" not in {finding.verdict for finding in report.findings}
        assert "tried, not refuted" not in page(report)
    if truth < math.inf:
        report = subjects.of_method(mechanism, VALUES, truth * (1 + 1e-6), games=GAMES, seed=1)
        assert [finding.verdict for finding in report.findings] == ["exact", "stands"]
        assert report.findings[0].numbers["found"] == pytest.approx(truth, rel=1e-6)


def test_the_command_and_its_certificate_refute_an_epsilon_of_aroma(tmp_path):
    """The best guess in this game is within ε = 1, which the method does not have."""
    certificate = tmp_path / "report.html"
    given = "audit --method aroma --parameter k=20 --values 7 --claim-epsilon 1 --runs 500".split()
    found = CliRunner().invoke(app, [*given, "-o", str(certificate)])
    assert found.exit_code == PromiseError.exit_code
    assert "so that no ε holds" in found.output
    assert "\nstands " not in found.output
    text = certificate.read_text("utf-8")
    assert "so that no ε holds" in text
    assert "tried, not refuted" not in text


def largest(laws: list[dict], epsilon: float) -> float:
    """The δ at ε between the two values that differ most, over everything that can be shown."""
    return max(
        sum(
            max(0.0, float(one.get(shown, 0)) - math.exp(epsilon) * float(other.get(shown, 0)))
            for shown in one
        )
        for one, other in product(laws, laws)
    )


def law_of(mechanism: Publisher) -> tuple[Records | Tuples, sc.Schema]:
    attributes = (
        sc.Attribute("known", "quasi", sc.IntegerRange(0, 1)),
        sc.Attribute("secret", "sensitive", sc.IntegerRange(0, 3)),
    )
    schema = sc.Schema(attributes)
    table = pa.table({"known": [0, 0, 1, 1], "secret": [0, 1, 2, 3]})
    return sc.publish(table, schema, mechanism, options=sc.PublishOptions(seed=1)).evidence, schema


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2])
def test_deltas_against_enumeration(epsilon):
    """Everything that can be shown of one row of four values, with its probability."""
    evidence, schema = law_of(sc.Uniform(epsilon=1))
    keep = evidence.channels[0].keep
    laws = [{s: (1 - keep) / 4 + keep * (s == v) for s in range(4)} for v in range(4)]
    assert isinstance(evidence.channels[0], UniformChannel)
    assert row_law(evidence, schema, epsilon).delta == pytest.approx(largest(laws, epsilon))

    evidence, schema = law_of(sc.Subset(epsilon=0.5))
    law = evidence.channels[0].law
    assert isinstance(law, SubsetLaw)
    sets = list(combinations(range(4), law.size))
    inside = [sum(v in each for each in sets) for v in range(4)]
    laws = [
        {
            each: law.inclusion / inside[v]
            if v in each
            else (1 - law.inclusion) / (len(sets) - inside[v])
            for each in sets
        }
        for v in range(4)
    ]
    assert row_law(evidence, schema, epsilon).delta == pytest.approx(largest(laws, epsilon))

    evidence, schema = law_of(sc.Aroma(k=3))
    assert isinstance(evidence.channels[0], MultisetChannel)
    law = evidence.channels[0].law
    assert isinstance(law, PoolLaw)
    laws = []
    for value in range(4):
        shown: dict = {}
        for others in product(range(4), repeat=2):
            bag = tuple(sorted((value, *others)))
            shown[bag] = shown.get(bag, 0) + math.prod(law.shares[each] for each in others)
        laws.append(shown)
    found = row_law(evidence, schema, epsilon)
    assert found.epsilon == math.inf
    exact = largest(laws, epsilon)
    assert exact <= found.delta <= exact + 2 * SLACK  # it is rounded up

    evidence, schema = law_of(sc.AlphaBeta(alpha=0.5, beta=0.25))
    presence = evidence.presence
    assert isinstance(presence, InclusionProbabilities)
    laws = []
    for true in (0, 1):
        chances = [presence.keep if place == true else presence.noise for place in (0, 1)]
        laws.append(
            {
                view: math.prod(c if s else 1 - c for c, s in zip(chances, view, strict=True))
                for view in product((0, 1), repeat=2)
            }
        )
    assert row_law(evidence, schema, epsilon).delta == pytest.approx(largest(laws, epsilon))
