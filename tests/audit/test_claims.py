"""Every promise of every publisher, computed again from what is published; and promises that were
made too small, which are refuted.
"""

from dataclasses import replace

import scumble as sc
from scumble.audit.release_claims import claims
from scumble.model.privacy.guarantee import Guarantees
from tests.support.people import people, schema

MECHANISMS = [
    sc.Uniform(epsilon=1),
    sc.Subset(epsilon=2),
    sc.Frapp(epsilon=3),
    sc.AlphaBeta(alpha=0.5, beta=0.01, duplicates="collapse"),
    sc.AlphaBeta(d=0.05, gamma=0.9, duplicates="collapse", sources={"sex": [1, 2]}),
    sc.Partition(rho1=0.3, rho2=0.6),
    sc.Anatomy(l=2, suppress=True),
    sc.Aroma(k=20),
]
# The number of each promise that makes it weaker, as a share of what is true.
WEAKENED = {
    "ε-LDP": "epsilon",
    "(ρ1, ρ2)-privacy": "rho2",
    "p-exposure": "p",
    "(d, γ)-privacy": "gamma",
    "(d, γ), d-exclusive attackers": "gamma",
    "restricted (ρ1, ρ2)-privacy": "rho2",
    "ε-DP": "epsilon",
    "γ-amplification within a sub-table": "gamma",
    "(ε, δ)-LDP profile": "delta at epsilon 0.5",
}


def release(mechanism):
    return sc.publish(people(400, schema()), schema(), mechanism, options=sc.PublishOptions(seed=1))


def test_no_promise_of_a_publisher_is_refuted(subtests):
    for mechanism in MECHANISMS:
        with subtests.test(mechanism=mechanism.name):
            found = list(claims(release(mechanism)))
            assert not [each.sentence for each in found if each.refuted]
            assert [each for each in found if each.verdict in ("exact", "stands")]


def test_a_promise_that_is_a_tenth_too_good_is_refuted(subtests):
    for mechanism in MECHANISMS:
        with subtests.test(mechanism=mechanism.name):
            published = release(mechanism)
            for promise in published.guarantees:
                name = WEAKENED.get(promise.statement)
                if name is None or (mechanism.name == "frapp" and name == "p"):
                    continue
                boast = {**promise.parameters, name: 0.9 * promise.parameters[name]}
                changed = Guarantees([replace(promise, parameters=boast)])
                published.manifest = replace(published.manifest, guarantees=changed)
                [found] = claims(published)
                assert found.refuted, found
                assert "promised" in found.sentence


def test_one_more_value_than_promised_in_a_group_is_refuted():
    published = release(sc.Anatomy(l=2, suppress=True))
    [promise] = published.guarantees
    boast = replace(promise, parameters={**promise.parameters, "l": 3})
    published.manifest = replace(published.manifest, guarantees=Guarantees([boast]))
    assert next(claims(published)).refuted


def test_views_after_the_first_count_too():
    """Two views of one table keep what the first one promised for both of them."""
    mechanism = sc.AlphaBeta(d=0.05, gamma=0.9, views=2, duplicates="collapse")
    first = sc.publish(
        people(300, schema()), schema(), mechanism, options=sc.PublishOptions(seed=1)
    )
    second = first.republish(people(300, schema()))
    for published in (first, second):
        assert not [each.sentence for each in claims(published) if each.refuted]


def test_bags_that_are_further_from_the_pool_than_promised_are_refuted():
    pool = dict.fromkeys(schema()["job"].labels().to_pylist(), 100)
    published = release(sc.Aroma(k=20, pool=pool, closeness=250))
    [promise] = [each for each in published.guarantees if each.statement == "(n, 0)-closeness"]
    for n, refuted in ((promise.parameters["n"], False), (500, True)):
        boast = replace(promise, parameters={**promise.parameters, "n": n})
        published.manifest = replace(published.manifest, guarantees=Guarantees([boast]))
        assert next(claims(published)).refuted == refuted
