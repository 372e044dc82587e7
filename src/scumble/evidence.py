"""Evidence: what crosses the wall. Mechanisms make it, estimators read it, nothing else passes.

| kind         | what it says                                                            |
|--------------|-------------------------------------------------------------------------|
| Records      | true rows, but for columns that went through a known channel            |
| Measurements | noisy linear counts of cells, with the law of their noise               |

Each kind names a Parquet file inside the release folder and carries the public facts that an
estimator needs to read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.noise.laws import DiscreteLaplace, from_dict

Tensor = npt.NDArray[np.float64]


@dataclass(frozen=True)
class UniformChannel:
    """Keep the value with probability `keep`, else draw it uniformly from the whole domain.

    With several attributes the channel acts on their product as one value. Seen on only some of
    these attributes it is again a uniform channel with the same `keep`, so tensors need to have
    axes only for the attributes that a question names.
    """

    attributes: tuple[str, ...]
    keep: Fraction

    def apply(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The mean of `tensor` at the published value, as a function of the true value."""
        keep = float(self.keep)
        mean: Tensor = tensor.mean(axis=tuple(axes), keepdims=True)
        return keep * tensor + (1 - keep) * mean

    def invert(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The function of the published value whose mean is `tensor` at the true value."""
        keep = float(self.keep)
        mean: Tensor = tensor.mean(axis=tuple(axes), keepdims=True)
        return (tensor - (1 - keep) * mean) / keep

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "uniform", "attributes": list(self.attributes), "keep": str(self.keep)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UniformChannel:
        return cls(tuple(data["attributes"]), Fraction(data["keep"]))


@dataclass(frozen=True)
class Records:
    """Rows as published: true in every column but those that went through a channel."""

    kind: ClassVar[str] = "records"

    file: str
    columns: tuple[str, ...]
    channels: tuple[UniformChannel, ...]
    rows: int

    @property
    def perturbed(self) -> tuple[str, ...]:
        """The attributes that went through a channel."""
        return tuple(name for channel in self.channels for name in channel.attributes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "channels": [channel.to_dict() for channel in self.channels],
            "rows": self.rows,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Records:
        channels = tuple(UniformChannel.from_dict(channel) for channel in data["channels"])
        return cls(data["file"], tuple(data["columns"]), channels, int(data["rows"]))


@dataclass(frozen=True)
class Measurements:
    """A noisy count for every cell of the product of `columns`; the noise is independent by
    cell.
    """

    kind: ClassVar[str] = "measurements"

    file: str
    columns: tuple[str, ...]
    count: str
    noise: DiscreteLaplace

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "count": self.count,
            "noise": self.noise.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measurements:
        noise = from_dict(data["noise"])
        if not isinstance(noise, DiscreteLaplace):
            raise ValueError("cells have discrete Laplace noise")
        return cls(data["file"], tuple(data["columns"]), data["count"], noise)


Evidence = Records | Measurements
KINDS: Mapping[str, type[Records] | type[Measurements]] = {
    kind.kind: kind for kind in (Records, Measurements)
}
