"""Hooks of families: every one is known, and what a release holds decides which are used."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from inspect import getmembers, isfunction
from typing import get_args

import pytest

import scumble as sc
from scumble.audit import hooks
from scumble.audit.release_claims import claims
from scumble.families import families, find
from scumble.model.evidence.channels import MultisetChannel, PartitionChannel, UniformChannel
from tests.support.people import people, schema

DOMAIN = schema(health=3)
HOOKS = (hooks.EvidenceHook, hooks.ChannelHook, hooks.MechanismHook)


def _functions(family: str) -> set[str]:
    check = find(family, "check")
    return set() if check is None else {name for name, _ in getmembers(check, isfunction)}


@pytest.mark.parametrize("hook", [name for kind in HOOKS for name in get_args(kind)])
def test_a_family_has_each_hook_and_the_page_explains_it(hook: str) -> None:
    assert any(hook in _functions(family) for family in families())
    assert f"`{hook}(" in (hooks.__doc__ or "")


def test_every_kind_of_channel_has_an_exposure_and_a_likelihood() -> None:
    law = sc.Subset(epsilon=1).law(DOMAIN)
    channels = [
        UniformChannel(("x",), Fraction(1, 2)),
        PartitionChannel(("x",), "part", ((0, 1),), ()),
        MultisetChannel(("x",), "codes", ("1",), law),
        sc.publish(
            people(50, DOMAIN), DOMAIN, sc.Aroma(k=3), options=sc.PublishOptions(seed=1)
        ).evidence.channels[0],
    ]
    for channel in channels:
        assert hooks.of_channel(channel, "channel_exposure")
        assert hooks.of_channel(channel, "find_likelihood")


def test_families_and_mechanisms_without_a_hook() -> None:
    assert find("histogram", "check") is None
    assert hooks.of_mechanism("histogram", "try_claim") is None
    assert hooks.of_mechanism("of somebody else", "try_claim") is None


@pytest.mark.parametrize("mechanism", [sc.Anatomy(l=2), sc.Generalise(k=3), sc.Aroma(k=3)])
@pytest.mark.parametrize("forged", ["histogram", "uniform", "of somebody else"])
def test_another_name_of_the_method_hides_nothing(mechanism: sc.Mechanism, forged: str) -> None:
    release = sc.publish(people(60, DOMAIN), DOMAIN, mechanism, options=sc.PublishOptions(seed=1))
    found = list(claims(release))
    release.manifest = replace(release.manifest, mechanism=forged)
    assert list(claims(release)) == found
    assert "exact" in {each.verdict for each in found}
