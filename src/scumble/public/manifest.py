"""Manifest: what a release says about itself, and its form as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

from scumble._version import __version__
from scumble.model import stored
from scumble.model.errors import ReleaseError, setting
from scumble.model.evidence.evidence import SUM_FILES, Evidence, evidence_from_dict
from scumble.model.privacy.guarantee import Guarantee, Guarantees
from scumble.model.privacy.sampling import SAMPLED, Sample
from scumble.model.schema.schema import Schema

FORMAT = 1
DROPPED = "rows with a value outside its domain were left out of the release"
SEEDED = "NOT PRIVATE: seeded for a test."
PART_OF_TABLE = "only rows with"  # in the report of a release of a part of the table
ROWS_OF_PERSON = "most rows of a person"  # in the report: by column, the most that it counts
_CONTENTS = "records tuples rows values cells sums tables regions strings keys strata baskets"
_SUMS = (f"{word}{letter}" for word in SUM_FILES for letter in ascii_lowercase)
FILES = tuple(f"{name}.parquet" for name in (*_CONTENTS.split(), *_SUMS))


@dataclass(frozen=True)
class Manifest:
    """The public description of a release: mechanism, parameters, schema, guarantees, evidence.

    Apart from the evidence, nothing in it depends on private data.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    schema: Schema
    guarantees: Guarantees
    evidence: Evidence
    report: Mapping[str, Any] = field(default_factory=dict)
    outside: str = "error"
    seeded: bool = False
    software: str = f"scumble {__version__}"
    format: int = FORMAT

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that say something: those that are neither None nor empty lists."""
        return {name: v for name, v in self.parameters.items() if v is not None and v != []}

    def left_out(self, columns: Iterable[str] = ()) -> tuple[str, ...]:
        """Return what answers that name `columns` do not count: notes for each of them.

        How many rows were left out is private, so that no interval can allow for them.
        """
        found = [DROPPED] if self.outside == "drop" else []
        if "contribution" in self.parameters and self.parameters.get("person") is not None:
            counted = _rows(self.parameters["contribution"])
            found.append(f"counts at most {counted} of each person; the others were left out")
        limited = self.report.get(ROWS_OF_PERSON)
        if isinstance(limited, Mapping):
            for name in sorted({*columns} & {*limited}):
                found.append(f"'{name}' counts at most {_rows(limited[name])} of each person")
        return tuple(found)


def rows_of_person(most: int) -> str:
    """Return the clause of a promise about one row that says how many a person may have."""
    return f"A person may have {most} rows here"


def _rows(most: object) -> str:
    return "1 row" if most == 1 else f"{most} rows"


def manifest_to_json(manifest: Manifest, files: Mapping[str, str]) -> dict[str, Any]:
    """Return a manifest as JSON values, with the digests of its files."""
    return {
        "format": manifest.format,
        "software": manifest.software,
        "mechanism": manifest.mechanism,
        "parameters": dict(manifest.parameters),
        "seeded": manifest.seeded,
        "outside": manifest.outside,
        "guarantees": [guarantee.to_dict() for guarantee in manifest.guarantees],
        "schema": manifest.schema.to_dict(),
        "evidence": manifest.evidence.to_dict(),
        "report": dict(manifest.report),
        "files": dict(files),
    }


def manifest_from_json(data: Mapping[str, Any]) -> Manifest:
    """Return the manifest in JSON values; `ValueError` or `ScumbleError` for any other content."""
    schema, evidence = Schema.from_dict(data["schema"]), evidence_from_dict(data["evidence"])
    known = {*schema.names, *(attribute.name for attribute in evidence.added)}
    if not known.issuperset(evidence.columns) or not evidence.columns:
        raise ValueError("a column of the evidence is not in the schema")
    evidence.check_schema(schema)
    if SAMPLED in data["report"]:
        Sample.from_dict(data["report"][SAMPLED])  # raises for any other content
    if not data["guarantees"]:
        raise ValueError("no guarantee is stated")
    return Manifest(
        mechanism=stored.text(data["mechanism"]),
        parameters=stored.table(data["parameters"]),
        schema=schema,
        guarantees=Guarantees(stored.items(Guarantee.from_dict, data["guarantees"])),
        evidence=evidence,
        report=stored.table(data["report"]),
        outside=stored.one_of(data["outside"], ("error", "drop", "missing")),
        seeded=stored.flag(data["seeded"]),
        software=stored.text(data["software"]),
        format=stored.whole(data["format"]),
    )


def refuse_seeded(seeded: bool, insecure: bool) -> None:
    """Raise `ReleaseError` for a release with a fixed seed, unless it is meant to be insecure."""
    if seeded and not insecure:
        raise ReleaseError(
            "This release was made with a fixed seed and is NOT PRIVATE: anyone who knows the "
            "seed can undo it. Publish without a seed, or say "
            f"{setting('insecure', True)} for a test."
        )
