"""The exposure test in closed form: how often the best adversary names the true value.

A guard picks the sensitive value of a target uniformly among d and publishes; the adversary, who
knows all but that value, sees the view and names one. Blind guessing succeeds with 1/d. An ε-DP
method allows at most e^ε / (e^ε + d - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

from scumble.channels import Channel, SplitChannel, UniformChannel
from scumble.evidence import Records, Tuples
from scumble.pool_law import PoolLaw
from scumble.presence import Included, Replaced
from scumble.release import Manifest
from scumble.schema import Schema
from scumble.subset_law import SubsetLaw


@dataclass(frozen=True)
class Exposure:
    """The success of the best adversary against one target; `shown` is the success given that the
    view shows the target, where it may not.
    """

    values: int
    success: float
    shown: float | None = None

    @property
    def blind(self) -> float:
        return 1 / self.values


def exposure(manifest: Manifest) -> Exposure | None:
    """The exposure of the sensitive attributes of a release taken as one; None where it depends on
    the private table.
    """
    evidence, schema = manifest.evidence, manifest.schema
    if isinstance(evidence, Records):
        values = prod(schema[name].size for name in evidence.perturbed)
        return Exposure(values, prod(_channel(each, schema) for each in evidence.channels))
    if isinstance(evidence, Tuples):
        sensitive = [attribute.name for attribute in schema.sensitive]
        if not sensitive:
            return None
        return _tuples(evidence.presence, schema.size(evidence.columns), schema.size(sensitive))
    return None


def _channel(channel: Channel, schema: Schema) -> float:
    if isinstance(channel, UniformChannel):
        return float(channel.keep + (1 - channel.keep) / schema.size(channel.attributes))
    if isinstance(channel, SplitChannel):
        pairs = zip(channel.keeps, channel.domains, strict=True)
        return max(float(keep) + (1 - float(keep)) / len(domain) for keep, domain in pairs)
    if isinstance(channel.law, SubsetLaw):
        return subset(channel.law)
    from scumble.publishers.aroma_risk import exposure as of_pool

    return of_pool(cast(PoolLaw, channel.law))  # bags have one of two laws


def subset(law: SubsetLaw) -> float:
    """A value of the set, or one outside it if that is likelier."""
    inside = law.inclusion / law.size
    outside = (1 - law.inclusion) / (law.values - law.size)
    return float(max(inside, outside))


def _tuples(presence: Included | Replaced, domain: int, values: int) -> Exposure:
    """A true tuple is there with probability `kept` and each of the others of the person with
    `noise`: the adversary picks one of those that are there, or any if none is.
    """
    if isinstance(presence, Included):
        kept, noise = float(presence.kept), float(presence.noise)
    else:  # the chance that at least one of the replaced rows fell on a given tuple
        noise = 1 - (1 - float(1 - presence.keep) / domain) ** presence.rows
        kept = float(presence.keep) + (1 - float(presence.keep)) * noise
    nobody = (1 - kept) * (1 - noise) ** (values - 1)
    one_of_them = (1 - (1 - noise) ** values) / (values * noise)  # E[1/(1 + X)], X binomial
    hit = kept * one_of_them
    return Exposure(values, hit + nobody / values, hit / (1 - nobody))
