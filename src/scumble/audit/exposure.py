"""The exposure test in closed form: how often the best adversary names the true value.

A guard picks the sensitive value of a target uniformly among d and publishes; the adversary, who
knows all but that value, sees the view and names one. Blind guessing succeeds with 1/d. An ε-DP
method allows at most e^ε / (e^ε + d - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

from scumble.audit.tuple_exposure import included, replaced
from scumble.model.evidence.channels import Channel, SplitChannel, UniformChannel
from scumble.model.evidence.evidence import Records, Tuples
from scumble.model.evidence.pool_law import PoolLaw
from scumble.model.evidence.presence import Included
from scumble.model.evidence.subset_law import SubsetLaw
from scumble.model.schema.schema import Schema
from scumble.public.release import Manifest


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
    the private table, or takes too long.
    """
    evidence, schema = manifest.evidence, manifest.schema
    if isinstance(evidence, Records):
        values = prod(schema[name].size for name in evidence.perturbed)
        return Exposure(values, prod(_channel(each, schema) for each in evidence.channels))
    if isinstance(evidence, Tuples):
        sensitive = [attribute.name for attribute in schema.sensitive]
        if not sensitive:
            return None
        return _tuples(evidence, schema, schema.size(sensitive))
    return None


def _tuples(evidence: Tuples, schema: Schema, values: int) -> Exposure | None:
    presence = evidence.presence
    found = (
        included(presence, schema, evidence.columns)
        if isinstance(presence, Included)
        else replaced(presence, schema.size(evidence.columns), values)
    )
    return None if found is None else Exposure(values, *found)


def _channel(channel: Channel, schema: Schema) -> float:
    if isinstance(channel, UniformChannel):
        return float(channel.keep + (1 - channel.keep) / schema.size(channel.attributes))
    if isinstance(channel, SplitChannel):
        pairs = zip(channel.keeps, channel.domains, strict=True)
        return max(float(keep) + (1 - float(keep)) / len(domain) for keep, domain in pairs)
    if isinstance(channel.law, SubsetLaw):
        return subset(channel.law)
    from scumble.private.perturbation.aroma_risk import exposure as of_pool

    return of_pool(cast(PoolLaw, channel.law))  # bags have one of two laws


def subset(law: SubsetLaw) -> float:
    """A value of the set, or one outside it if that is likelier."""
    inside = law.inclusion / law.size
    outside = (1 - law.inclusion) / (law.values - law.size)
    return float(max(inside, outside))
