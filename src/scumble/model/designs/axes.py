"""All kinds of axes by their name in a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scumble.model.designs.axis import Axis
from scumble.model.designs.identity import Identity
from scumble.model.designs.nominal import Nominal
from scumble.model.designs.taxonomy_tree import TaxonomyTree
from scumble.model.designs.tree import Tree
from scumble.model.designs.wavelets import Haar
from scumble.model.errors import ReleaseError

_KINDS: Mapping[str, type[Axis]] = {
    kind.kind: kind for kind in (Identity, Tree, TaxonomyTree, Haar, Nominal)
}


def axis(data: Mapping[str, Any]) -> Axis:
    """The axis that `to_dict` described."""
    if data.get("kind") not in _KINDS:
        raise ReleaseError(f"This version of scumble knows no axis of kind {data.get('kind')!r}.")
    return _KINDS[data["kind"]].from_dict(data)
