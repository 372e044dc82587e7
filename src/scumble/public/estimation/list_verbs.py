"""The reader of a release of lists, for what it tells besides answers to SQL: `top`, `next`."""

from __future__ import annotations

from typing import Any

from scumble.model.errors import ParameterError
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.schema.schema import Schema
from scumble.public.estimation.measurements.readings import reader_of
from scumble.public.sandbox import Sandbox


def reader_with(evidence: Evidence, schema: Schema, sandbox: Sandbox, verb: str) -> Any:
    """Return the reader of a release, which has the method `verb`; ParameterError if it has not."""
    if isinstance(evidence, Measurements):
        found = reader_of(evidence, schema, sandbox)
        if hasattr(found, verb):
            return found
    raise ParameterError(
        f"This release has no '{verb}': that is for releases of sequences, other lists or keys."
    )
