"""The design of noisy counts of whole baskets: how many baskets hold exactly these items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scumble.model import stored
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace

ITEMS, LAW, COUNT = "items", "law", "count"  # the columns of the file


@dataclass(frozen=True)
class WholeBaskets:
    """The file has a row for each published basket: the places of its `items` among the binary
    `attributes`, its noisy `count`, and the number of the `law` of its noise in `laws`.

    Which baskets are published depends on other noise; the empty one always is, except in
    the first releases of this format. `total` is the number of all baskets plus
    noise of its own, or the exact number if `total_noise` is None.
    """

    kind: ClassVar[str] = "whole baskets"

    attributes: tuple[str, ...]
    laws: tuple[DiscreteLaplace, ...]
    total: int
    total_noise: DiscreteLaplace | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "laws": [law.to_dict() for law in self.laws],
            "total": self.total,
            "total noise": None if self.total_noise is None else self.total_noise.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WholeBaskets:
        noise = data["total noise"]
        return cls(
            stored.items(stored.text, data["attributes"]),
            stored.items(_laplace, data["laws"]),
            int(data["total"]),
            None if noise is None else _laplace(noise),
        )


def _laplace(data: Mapping[str, Any]) -> DiscreteLaplace:
    found = law_from_dict(data)
    if not isinstance(found, DiscreteLaplace):
        raise ValueError("counts of baskets have discrete Laplace noise")
    return found
