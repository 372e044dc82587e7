"""The manifest of a release: its promises with everything that weakens them; and the temporary
folder that a release is written to.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.accounting import PrivacyLoss
from scumble.model.privacy.guarantee import (
    Guarantee,
    Guarantees,
    at_most,
    gamma_for_rho,
    percent_at_most,
    posterior_at_most,
)
from scumble.model.privacy.sampling import SAMPLED, Sample
from scumble.model.schema.schema import Schema
from scumble.private.ledger.terms import group_loss
from scumble.private.mechanism import Mechanism, Publisher
from scumble.private.tables.rows import Rows
from scumble.public.manifest import SEEDED, Manifest, rows_of_person

EXISTS = {
    "error": "Publishing at all reveals that every value is one of those listed as possible.",
    "missing": (
        "Publishing at all reveals that every value of a column that allows no missing one is one "
        "of those listed as possible."
    ),
}
WITHOUT_ITEMS = (
    "The table has one row for each item, so that somebody without items is not in it: whether "
    "somebody has any item is not hidden, only which. Neighbours by add_remove hide it, too."
)
UPDATE_RECORD = "update-record"  # a private record in a folder that was not saved yet


@contextmanager
def new_folder() -> Iterator[Path]:
    """Yield a new temporary folder, which is deleted if an exception is raised."""
    folder = Path(tempfile.mkdtemp(prefix="scumble-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def manifest_of(
    mechanism: Mechanism,
    evidence: Evidence,
    schema: Schema,
    *,
    outside: str,
    seeded: bool,
    sample: Sample | None = None,
    grouped: bool = False,
) -> Manifest:
    """The manifest of a release, with its promises and everything that weakens them.

    A `sample` of the people makes the promises stronger. `grouped` says that rows of single items
    were made into lists.
    """
    shown = replace(_shown(schema, evidence), unit=mechanism.stated_unit(schema))
    worst = limits_of_reading(mechanism, shown, outside, grouped)
    exists = (EXISTS[outside],) if outside in EXISTS else ()
    fine_print = (*exists, *limits_of_impossible(mechanism, schema, outside), *shown.clamped())
    promises = for_people(mechanism, schema, mechanism.achieved(schema, evidence))
    facts = mechanism.report(schema, evidence)
    if sample is not None:
        promises = tuple(map(sample.strengthened, promises))
        facts = {**facts, SAMPLED: sample.to_dict()}
    return Manifest(
        mechanism=mechanism.name,
        parameters=mechanism.parameters,
        schema=shown,
        guarantees=Guarantees(_qualified(each, worst, fine_print, seeded) for each in promises),
        evidence=evidence,
        report=facts,
        outside=outside,
        seeded=seeded,
    )


def for_people(
    mechanism: Mechanism, schema: Schema, promises: Iterable[Guarantee]
) -> tuple[Guarantee, ...]:
    """Return the promises with what becomes of them for a person with several rows.

    A mechanism that does not limit the rows of a person protects each of them by itself, so that
    the factors of all of them multiply.
    """
    unit = schema.unit
    if unit is None or not unit.several or mechanism.limits_rows:
        return tuple(promises)
    return tuple(
        replace(each, sentence=f"{each.sentence} {_for_rows(each, unit.most_rows)}")
        for each in promises
    )


def _for_rows(promise: Guarantee, rows: int) -> str:
    """Return what a promise about one row says about a person with up to `rows` rows."""
    numbers, person = promise.parameters, rows_of_person(rows)
    if promise.statement in ("ε-LDP", "ε-DP", "(ε, δ)-DP"):
        one = PrivacyLoss(Fraction(numbers["epsilon"]), delta=Fraction(numbers.get("delta", 0)))
        together = group_loss(one, rows)
        if together.delta < Fraction(1, 2):  # a larger one promises nothing
            delta = f" and δ at most {at_most(together.delta)}" if one.delta else ""
            at_once = f"ε is at most {at_most(together.epsilon)}{delta}"
            return f"{person}: for all of them together, {at_once}."
    if promise.statement == "(ρ1, ρ2)-privacy":
        prior, end = Fraction(numbers["rho1"]), Fraction(numbers["rho2"])
        if end < 1:
            most = posterior_at_most(prior, gamma_for_rho(prior, end) ** rows)
            return (
                f"{person}: with a guess about all of them together, one can reach at most "
                f"{percent_at_most(most)}."
            )
    if promise.statement == "k-anonymity":
        least = int(numbers["k"])
        return f"{person}: a group of {least} rows may be of {-(-least // rows)} people only."
    return f"{person}, and this is about one of them: more rows tell an attacker more."


NO_ROWS = "The release has no rows."


def remarks_of(rows: Rows, evidence: Evidence) -> tuple[str, ...]:
    """Remarks for the owner about the rows that were read."""
    remarks = rows.remarks()
    return remarks if evidence.rows != 0 else (*remarks, NO_ROWS)


def _shown(schema: Schema, evidence: Evidence) -> Schema:
    """The published schema: the columns of the evidence and of its sums, the names of identifiers,
    and the columns that the mechanism added, or has in place of the owner's.
    """
    hidden = [attribute.name for attribute in schema.identifiers]
    named = {*evidence.columns, *evidence.sum_columns, *hidden}
    known = schema.with_derived(evidence.columns)
    shown = known.select([name for name in known.names if name in named])
    added = {attribute.name: attribute for attribute in evidence.added}
    impossible = tuple(
        each.text for each in shown.impossible_conditions if added.keys().isdisjoint(each.names)
    )
    attributes = [added.pop(each.name, each) for each in shown.attributes]
    return replace(shown, attributes=(*attributes, *added.values()), impossible=impossible)


def limits_of_reading(
    mechanism: Mechanism, schema: Schema, outside: str, grouped: bool = False
) -> tuple[str, ...]:
    """Return limits of the promises that come from how the table was read, of any mechanism."""
    limits = []
    if schema.from_data:
        names = ", ".join(schema.from_data)
        limits.append(
            f"The possible values of {names} were read from the private data and are published: a "
            "leak that this promise does not cover, until the owner declares them public."
        )
    if outside == "drop" and isinstance(mechanism, Publisher):
        limits.append(
            "Rows with a value outside its domain were left out: a person who is known to be in "
            "the table, and is missing from the release, had such a value. It is not protected."
        )
    if grouped and getattr(mechanism, "neighbours", None) != "add_remove":
        limits.append(WITHOUT_ITEMS)
    return tuple(limits)


def limits_of_impossible(mechanism: Mechanism, schema: Schema, outside: str) -> tuple[str, ...]:
    """Return what is to be said of the impossible combinations of the schema."""
    limits = schema.impossible_limits()
    if limits and outside == "error":
        limits += ("That a release exists tells that no row has such a combination.",)
    sensitive = {attribute.name for attribute in schema.sensitive}
    about = (set(condition.names) for condition in schema.impossible_conditions)
    if isinstance(mechanism, Publisher) and any(names & sensitive for names in about):
        limits += ("Published rows may show such a combination, because values are perturbed.",)
    return limits


def _qualified(
    promise: Guarantee, worst: tuple[str, ...], fine_print: tuple[str, ...], seeded: bool
) -> Guarantee:
    """The promise with the limits that weaken it, the worst first."""
    sentence = f"{SEEDED} {promise.sentence}" if seeded else promise.sentence
    limits = (*((SEEDED,) if seeded else ()), *worst, *promise.limits, *fine_print)
    return replace(promise, sentence=sentence, limits=limits)
