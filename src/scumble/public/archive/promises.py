"""Whether the noise that a release states keeps the promise that it states.

Whoever forges a manifest can also write a checksum that fits. A release with less noise than its
promise needs would be answered with intervals that are too narrow, or promise what it does not
keep; it is refused. What is computed here is a number of the promise, from the evidence alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from scumble.model import stored
from scumble.model.errors import ReleaseError, ScumbleError
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import PrivacyUnit, epsilon_for
from scumble.model.privacy.computed import SLACK, Computed
from scumble.model.privacy.guarantee import NEIGHBOURS, Guarantee
from scumble.model.privacy.sampling import SAMPLED, Sample
from scumble.model.privacy.stated_loss import StatedLoss
from scumble.public.manifest import Manifest, rows_of_person

_ROWS_SAID = re.compile(rows_of_person(0).replace("0", "[0-9]+"))
_CONVERTED = 1e-6  # relative, of an ε that is computed from ρ
_BROKEN = (
    "{} was changed: the noise that it states does not keep what it promises. Ask for the release "
    "as it was published."
)


def check_promises(place: str, manifest: Manifest, folder: Path) -> None:
    """Raise `ReleaseError` unless the noise in the manifest keeps the promises in it.

    `place` names the release in the message. Each promise must be one that is computed here, or
    one that its kind of evidence leaves to the audit, such as l-diversity; and one of them must be
    the main promise of that kind. A statement that nobody knows is refused.
    """
    try:
        if not _states_unit(manifest):
            kept = False
        elif isinstance(manifest.evidence, Measurements):
            kept = _keeps_privacy(manifest, manifest.evidence, folder)
        else:
            kept = _keeps_promises(manifest, folder)
    except (ScumbleError, pa.ArrowException, OSError, *stored.MALFORMED):
        raise ReleaseError(
            f"{place} is damaged: its manifest does not describe a release."
        ) from None
    if not kept:
        raise ReleaseError(_BROKEN.format(place))


def _states_unit(manifest: Manifest) -> bool:
    """Return whether the promises are about the rows that a person may have by the schema: they
    are counted up to that number, or each promise about one row says how many there may be.
    """
    unit, given = manifest.schema.unit, manifest.parameters
    if not isinstance(manifest.evidence, Measurements):
        most = 1 if unit is None else unit.most_rows
        said = rows_of_person(most) if most > 1 else None
        return all(_rows_said(each.sentence) == said for each in manifest.guarantees)
    if unit is None or "contribution" not in given:
        return True
    if unit.person is None:
        return given.get("person") is None or bool(given["contribution"] == 1)
    return (given.get("person"), given["contribution"]) == (unit.person, unit.most_rows)


def _rows_said(sentence: str) -> str | None:
    """Return the clause about the rows of a person in the sentence of a promise."""
    found = _ROWS_SAID.search(sentence)
    return None if found is None else found.group()


def check_linked_promises(
    place: str, promises: Sequence[Guarantee], tables: Iterable[Manifest]
) -> None:
    """Raise `ReleaseError` unless the promises of linked tables add up to that of all of them.

    That of each table was checked when it was opened.
    """
    own = [promise for table in tables for promise in table.guarantees]
    try:
        [whole] = promises
        given = whole.parameters
        rho = math.fsum(each.parameters["rho"] for each in own)
        kept = (
            rho <= given["rho"] * (1 + SLACK)
            and epsilon_for(given["rho"], given["delta"]) <= given["epsilon"] * (1 + _CONVERTED)
            and all(each.neighbourhood == whole.neighbourhood for each in own)
            and given["contribution"] <= max(each.parameters["contribution"] for each in own)
        )
    except stored.MALFORMED:
        raise ReleaseError(f"{place} is not a release of linked tables, or is damaged.") from None
    if not kept:
        raise ReleaseError(_BROKEN.format(place))


def computed(manifest: Manifest, folder: Path, promise: Guarantee) -> Computed | None:
    """Return the number of a promise that follows from the evidence; None where none is known."""
    return manifest.evidence.compute_promise(promise, manifest.schema, folder)


def _keeps_promises(manifest: Manifest, folder: Path) -> bool:
    """Return whether the main promise is there, and every promise is known and kept."""
    evidence = manifest.evidence
    whole = {each.statement for each in manifest.guarantees if "attribute" not in each.parameters}
    if SAMPLED in manifest.report or not whole & evidence.main_promises:
        return False
    for promise in manifest.guarantees:
        number = computed(manifest, folder, promise)
        if number is None and promise.statement not in evidence.left_to_audit:
            return False
        if number is not None and number.broken:
            return False
    return True


# --- differentially private measurements ---------------------------------------------------------


def _keeps_privacy(manifest: Manifest, evidence: Measurements, folder: Path) -> bool:
    """Return whether the noise of measurements keeps the (ε, δ) that is promised."""
    promises = [each for each in manifest.guarantees if "epsilon" in each.parameters]
    if len(promises) < len(manifest.guarantees):
        raise ValueError("measurements promise differential privacy")
    for promise in promises:
        pure = not promise.parameters.get("delta")
        if promise.statement != ("ε-DP" if pure else "(ε, δ)-DP"):
            return False
        unit = _unit(manifest, promise)
        if evidence.rows is not None and not (unit.keeps_rows and manifest.outside != "drop"):
            return False
        method = _of_method(manifest, promise, unit)
        if method is None or not _is_stated(manifest, method):
            return False
        if not _is_within(method, evidence.stated_loss(unit, folder)):
            return False
    return True


def _unit(manifest: Manifest, promise: Guarantee) -> PrivacyUnit:
    """Return who is protected, as the promise states it."""
    [neighbours] = [name for name, words in NEIGHBOURS.items() if words == promise.neighbourhood]
    rows = promise.parameters.get("contribution", 1)
    person = manifest.parameters.get("person")
    if rows != int(rows) or rows < 1:
        raise ValueError("a person has whole rows")
    column = None if person is None else stored.text(person)
    return PrivacyUnit("replace" if neighbours == "replace" else "add_remove", int(rows), column)


def _is_stated(manifest: Manifest, promise: Guarantee) -> bool:
    """Return whether the promise is that of the parameters of the method, where these name it."""
    given, numbers = manifest.parameters, promise.parameters
    relation = NEIGHBOURS.get(given.get("neighbours", ""), promise.neighbourhood)
    if relation != promise.neighbourhood:
        return False
    if "contribution" in given and given["contribution"] != numbers["contribution"]:
        return False
    stated = [name for name in ("epsilon", "delta") if given.get(name) is not None]
    return all(_is_close(float(stored.fraction(given[name])), numbers[name]) for name in stated)


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SLACK)


def _of_method(manifest: Manifest, promise: Guarantee, unit: PrivacyUnit) -> Guarantee | None:
    """Return the promise of the method on the people who were drawn, from its parameters, if it
    becomes `promise` by the sample; else None. Without a sample it is `promise` itself.
    """
    if SAMPLED not in manifest.report:
        return promise
    sample, given = Sample.from_dict(manifest.report[SAMPLED]), manifest.parameters
    numbers = dict(promise.parameters)
    for name in {"epsilon", "delta"} & {*numbers}:
        numbers[name] = float(stored.fraction(given[name]))
    method = replace(promise, parameters=numbers)
    wanted, stated = sample.strengthened(method).parameters, promise.parameters
    fixed = sample.people is not None
    fits = (
        fixed == (unit.neighbours == "replace")
        and (not fixed or manifest.evidence.rows in (None, sample.drawn))
        and sample.rows == unit.rows
        and wanted.keys() == stated.keys()
        and all(_is_close(wanted[name], stated[name]) for name in wanted)
    )
    return method if fits else None


def _is_within(promise: Guarantee, loss: StatedLoss) -> bool:
    """Return whether the loss of the stated noise is within the promise of the method."""
    given = promise.parameters
    epsilon, delta = given["epsilon"], given.get("delta", 0.0)
    if loss.needed_epsilon(delta) > epsilon * (1 + (_CONVERTED if loss.all_rho else SLACK)):
        return False
    if "mu" in given:
        normal = not loss.epsilon and not loss.rho
        if not normal or 2 * loss.normal > given["mu"] ** 2 * (1 + SLACK):
            return False
    if "rho" in given:
        if loss.all_rho + loss.epsilon**2 / 2 > given["rho"] * (1 + SLACK):
            return False
        if epsilon_for(given["rho"], delta) > epsilon * (1 + _CONVERTED):
            return False
    return loss.needed_delta(epsilon) <= delta * (1 + SLACK)
