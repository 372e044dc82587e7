"""Audit of a release, method, table, database.

Reports about whatever can be audited: a release, a method, a table, a database.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from scumble.audit import exposure
from scumble.audit.claim import ADAPTIVE
from scumble.audit.claims import CONFIDENCE, claims, shown_values
from scumble.audit.evidence_checks import StatedNoise
from scumble.audit.linkage import SORTED, in_order, linkage
from scumble.audit.report import Finding, Learned, Report, Verdict
from scumble.audit.runs import Counts, RecordedStep, Spent, changes, measured
from scumble.audit.summary_plans import lost
from scumble.audit.table_risk import Anonymity, Diversity, anonymity, classes, diversity
from scumble.model.errors import ParameterError, ScumbleError
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import epsilon_for
from scumble.model.privacy.guarantee import NEIGHBOURS, Guarantee, percent_at_least, percent_at_most
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Mechanism, Publisher, Summary, create
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.public import plot
from scumble.public import release as releases
from scumble.public.release import Release

GAMES = 200_000
ROWS_ONLY = (
    "These measures compare rows with rows. They do not bound what somebody learns who knows more "
    "than the columns named quasi."
)


def of_release(folder: Path, known: Sequence[str] = (), worst: int = 10) -> Report:
    """Everything that can be computed about a release folder, without its table; and, if `known`
    names columns, what an attacker learns who knows them of everybody.
    """
    release = releases.load(folder)
    manifest = release.manifest
    limits = dict.fromkeys(limit for promise in release.guarantees for limit in promise.limits)
    files = [releases.MANIFEST, *release.evidence.files]
    return Report(
        subject=f"the release {folder.name}",
        findings=list(_release_findings(release)),
        promises=[f"{promise!r} Proof: {promise.proof}." for promise in release.guarantees],
        open_doors=[*_seen(release), *limits],
        facts={
            "method": manifest.mechanism,
            "parameters": dict(manifest.parameters),
            "columns": list(release.evidence.columns),
            "made by": manifest.software,
            "checksums": {name: _checksum(folder / name) for name in files},
        },
        learned=_learned(release, known, worst) if known else None,
    )


def _learned(release: Release, known: Sequence[str], worst: int) -> Learned:
    found = linkage(release, known)
    figure = ""
    if plot.available():
        from scumble.public.plot.answers import learned

        certainty, people = found.posterior.max(axis=1).tolist(), found.candidates.tolist()
        figure = plot.svg(learned(certainty, people, float(found.prior.max())))
    return Learned(known, found.worst(worst), figure)


def _release_findings(release: Release) -> Iterator[Finding]:
    if release.manifest.seeded:
        sentence = "It was drawn from a fixed seed: who knows the seed can undo all of it."
        yield Finding("randomness", "noise that nobody can repeat", "refuted", sentence)
    if release.schema.from_data:
        names = ", ".join(release.schema.from_data)
        sentence = f"The domain of {names} was read from the private table and is published."
        yield Finding(
            "domains", "nothing but what is promised depends on the table", "refuted", sentence
        )
    if isinstance(release.evidence, Measurements):
        yield from summary_findings(release)
    else:
        yield from claims(release)
        yield from shown_values(release)
        yield _order(release)


def _order(release: Release) -> Finding:
    """Rows that were shuffled, or left as they came, look alike: only sorted ones are safe."""
    claim = "the order of the rows tells nothing"
    if in_order(release):
        return Finding("order of rows", claim, "exact", SORTED)
    sentence = "The rows are not sorted by what they show: their order may tell more than they do."
    return Finding("order of rows", claim, "noted", sentence)


def _seen(release: Release) -> Iterator[str]:
    if release.evidence.unchanged:
        columns = ", ".join(release.evidence.unchanged)
        yield f"Who knows {columns} of somebody sees that the person is in the table."


def of_method(
    mechanism: Mechanism,
    values: int,
    claimed: float,
    *,
    games: int = GAMES,
    confidence: float = CONFIDENCE,
    seed: int | None = None,
) -> Report:
    """A publisher in the exposure test, against an ε that somebody claims for it."""
    if not isinstance(mechanism, Publisher):
        raise ParameterError(
            f"The exposure test is about methods that publish rows; {mechanism.name} publishes "
            "counts. Try `scumble audit --all`."
        )
    score = exposure.play(mechanism, values, games, seed=seed)
    found = exposure.finding(mechanism, score, claimed, confidence)
    facts = {"method": mechanism.name, "parameters": mechanism.parameters, "games": games}
    return Report(f"{mechanism.name} with {values} values", [found], facts=facts)


def of_table(
    source: Any,
    schema: Schema,
    *,
    k: int | None = None,
    l: int | None = None,  # noqa: E741  # the letter that everybody uses for it
    t: float | None = None,
    table: str | None = None,
    outside: Outside = "error",
) -> Report:
    """What a table would show if it were handed out as it is: for the eyes of its owner."""
    rows = Rows(open_source(source, table=table), schema, outside=outside)
    quasi = [attribute.name for attribute in schema.published if attribute.role == "quasi"]
    sensitive = [attribute.name for attribute in schema.sensitive]
    findings = [_anonymous(anonymity(classes(rows, quasi, None)), k)]
    for name in sensitive:
        ordered = not isinstance(schema[name].domain, Category)
        found = diversity(classes(rows, quasi, name), ordered=ordered)
        findings += _diverse(name, found, l, t)
    return Report(
        subject="the table",
        findings=findings,
        open_doors=[ROWS_ONLY, "This report is made of the private table: it is for its owner."],
        facts={"quasi-identifiers": quasi, "sensitive": sensitive},
    )


def _anonymous(found: Anonymity, k: int | None) -> Finding:
    alone, few = found.alone / found.rows, found.few / found.rows
    sentence = (
        f"The smallest group of people who agree in all quasi-identifiers has {found.k}; "
        f"{percent_at_least(alone)} of the rows are alone in theirs, {percent_at_least(few)} share "
        "it with fewer than four others. Who is known to be in the table is found with "
        f"probability {found.average_risk:.3g} on average, {found.largest_risk:.3g} at worst."
    )
    claim = "k-anonymity" if k is None else f"k-anonymity with k = {k}"
    return _measured("k-anonymity", claim, sentence, found.to_dict(), k is None or found.k >= k, k)


def _diverse(name: str, found: Diversity, l: int | None, t: float | None) -> Iterator[Finding]:  # noqa: E741
    values = "one value" if found.l == 1 else f"{found.l} different values"
    sentence = (
        f"At worst a group has {values} of {name} (entropy l = {found.entropy_l:.3g}); the most "
        f"frequent one has a share of {percent_at_most(round(found.alpha, 12))}."
    )
    numbers = found.to_dict()
    claim = f"l-diversity of {name}" + ("" if l is None else f" with l = {l}")
    yield _measured("l-diversity", claim, sentence, numbers, l is None or found.l >= l, l)
    sentence = (
        f"The distribution of {name} in a group is at most {found.t:.3g} away from the whole "
        "table's (earth mover's distance, 0 to 1)."
    )
    claim = f"t-closeness of {name}" + ("" if t is None else f" with t = {t:g}")
    yield _measured("t-closeness", claim, sentence, numbers, t is None or found.t <= t, t)


def _measured(
    check: str, claim: str, sentence: str, numbers: dict[str, Any], kept: bool, asked: object
) -> Finding:
    verdict: Verdict = "refuted" if not kept else "noted" if asked is None else "exact"
    return Finding(check, claim, verdict, sentence, numbers)


def of_database(folder: Path, *, attack: bool = True, seed: int | None = None) -> Report:
    """The ledger of a database, and attacks on a twin of it with made-up people and the same
    promise.
    """
    from scumble.private.database.inspect import DatabaseInspection

    with DatabaseInspection(folder) as reading:
        faults, terms, promise = reading.verify(), reading.terms, reading.guarantee
    claim = "every answer was paid for and written down"
    if faults:
        findings = [Finding("ledger", claim, "refuted", faults[0])]
    else:
        sentence = "Every entry is the one that the next one names, to the last that was sealed."
        findings = [Finding("ledger", claim, "exact", sentence)]
    if attack:
        findings += _attacks(float(terms.epsilon), float(terms.noise), seed)
    return Report(
        subject=f"the database {folder.name}",
        findings=findings,
        promises=[f"{promise!r} Proof: {promise.proof}."],
        open_doors=promise.limits,
        facts=terms.to_dict(),
    )


def _attacks(epsilon: float, noise: float, seed: int | None, people: int = 40) -> Sequence[Finding]:
    from scumble.audit.attacks import ATTACKS, Guarded, attacked

    rng = np.random.default_rng(seed)
    found = []
    for name in ATTACKS:
        secrets = rng.integers(0, 2, people).tolist()
        with tempfile.TemporaryDirectory(prefix="scumble-audit-") as place:
            victim = Guarded(Path(place) / "twin", secrets, epsilon=epsilon, noise=noise)
            outcome = attacked(name, victim, secrets, rng, 6)
            victim.close()
        found.append(outcome.finding(CONFIDENCE))
    return found


def _checksum(path: Path) -> str:
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


# The promise of a released summary against its own mechanism, run on neighbouring tables.

MOST_CELLS = 1 << 20
_CELLS = 12  # in so many a person is tried
_ROUNDING = 1e-6  # of an ε that follows from ρ


def summary_findings(release: Release) -> Iterator[Finding]:
    """What neighbouring tables lose to the mechanism of this release, exactly."""
    manifest = release.manifest
    try:
        mechanism = create(manifest.mechanism, **manifest.parameters)
    except ScumbleError as error:
        sentence = f"Its mechanism cannot be made again from its parameters: {error}"
        yield Finding("neighbouring tables", manifest.mechanism, "noted", sentence)
        return
    [promise, *_] = manifest.guarantees
    if not isinstance(mechanism, Summary) or "epsilon" not in promise.parameters:
        return
    yield _finding(release, mechanism, promise)


def _finding(release: Release, mechanism: Summary, promise: Guarantee) -> Finding:
    claim = f"{promise.statement} of {mechanism.name}"
    names = release.evidence.columns
    cells = release.schema.size(names)
    if cells > MOST_CELLS:
        sentence = f"Not tried: the domain has {cells:.3g} cells, more than {MOST_CELLS}."
        return Finding("neighbouring tables", claim, "noted", sentence)
    loss = None if mechanism.name in ADAPTIVE else _largest(release, mechanism, promise)
    if loss is None:
        sentence = (
            "What this method measures depends on the data, so that its loss is not a sum of known "
            "terms; its steps are compared by `scumble audit --all`."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    noise = StatedNoise.of(release, mechanism)
    if noise is None or noise.narrower is not None:
        return _other(claim, noise)
    letter, found, most = _compared(loss, promise)
    tried_all = len(_places(cells)) == cells
    verdict: Verdict = "refuted" if found > most else "exact" if tried_all else "stands"
    sentence = (
        f"Between neighbouring tables the noise of this release loses {letter} = "
        f"{float(found):.6g} at most, where it was tried; promised is {float(most):.6g}."
    )
    numbers = {"found": float(found), "claimed": float(most)}
    return Finding("neighbouring tables", claim, verdict, sentence, numbers)


def _other(claim: str, noise: StatedNoise | None) -> Finding:
    """About a release that says of itself something else than its method and parameters do."""
    if noise is None:
        sentence = (
            "Not tried: the release states other sums than its method measures here with the same "
            "parameters."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    sentence = f"The release states less noise than its method needs: {noise.narrower}."
    return Finding("neighbouring tables", claim, "refuted", sentence)


def _compared(loss: Spent, promise: Guarantee) -> tuple[str, float | Fraction, float | Fraction]:
    """What is lost and what the release promises, in ε or ρ: its own numbers, and not those that
    follow from its parameters.
    """
    given = promise.parameters
    epsilon = Fraction(given["epsilon"])
    if not loss.rho:
        return "ε", loss.epsilon, epsilon
    rho = loss.rho + loss.epsilon**2 / 2
    implied = epsilon_for(rho, given["delta"]) if "delta" in given else inf
    if "rho" not in given or implied > epsilon * Fraction(1 + _ROUNDING):
        return "ε", implied, epsilon
    return "ρ", rho, Fraction(given["rho"])


def _largest(release: Release, mechanism: Summary, promise: Guarantee) -> Spent | None:
    """The largest loss between an empty table and one person, or two people in its place."""
    names, schema = release.evidence.columns, release.schema
    rows = int(promise.parameters.get("contribution", 1))
    empty: Counts = np.zeros(schema.size(names), np.int64)
    records: dict[bytes, list[RecordedStep]] = {}
    largest: Spent | None = None
    for one, other in changes(empty, _places(len(empty)), _relation(promise), rows):
        for table in (one, other):
            if (key := table.tobytes()) not in records:
                records[key] = measured(mechanism, schema, names, table)
        pair = records[one.tobytes()], records[other.tobytes()]
        loss = lost(mechanism, schema, one - other, pair)
        if loss is None:
            return None
        if largest is None or loss.epsilon + loss.rho > largest.epsilon + largest.rho:
            largest = loss
    return largest


def _places(cells: int) -> list[int]:
    """Cells where a person may be: both ends of the domain, and places between them."""
    found: list[int] = np.unique(np.linspace(0, cells - 1, _CELLS).round().astype(int)).tolist()
    return found


def _relation(promise: Guarantee) -> str:
    return next(name for name, words in NEIGHBOURS.items() if words == promise.neighbourhood)
