"""Audits of a release, a publisher, a table and a database: each returns a `Report`."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from scumble.audit import exposure, hooks
from scumble.audit.attacks import ATTACKS, DatabaseVictim, LiveVictim, run_attack
from scumble.audit.evidence_checks import StatedNoise
from scumble.audit.linkage import SORTED, linkage, rows_are_sorted
from scumble.audit.release_claims import CONFIDENCE, claims, shown_value_findings
from scumble.audit.report import AttackResult, Certified, Finding, Report, Verdict
from scumble.audit.row_laws import law_finding, row_law
from scumble.audit.runs import Counts, ExactLoss, RecordedStep, changes, record_steps
from scumble.audit.summary_plans import pair_loss
from scumble.audit.table_risk import (
    anonymity,
    anonymity_finding,
    classes,
    closeness_finding,
    diversity,
    diversity_findings,
    superset_distances,
)
from scumble.model.errors import ParameterError, ReleaseError, ScumbleError, large
from scumble.model.evidence.evidence import Measurements
from scumble.model.long_work import part, portion, told
from scumble.model.privacy.accounting import epsilon_for, normal_epsilon_for
from scumble.model.privacy.guarantee import NEIGHBOURS, Guarantee
from scumble.model.privacy.sampling import SAMPLED, Sample
from scumble.model.relational import read_place
from scumble.model.schema.domains import Category
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit
from scumble.private.database.inspect import DatabaseInspection
from scumble.private.database.live.inspect import LiveInspection
from scumble.private.database.live.terms import LiveTerms
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.journal import is_live
from scumble.private.mechanism import Mechanism, Publisher, Summary, create
from scumble.private.tables.open import open_source
from scumble.private.tables.rows import Outside, Rows
from scumble.public import plot
from scumble.public.archive import archive
from scumble.public.archive.load import load
from scumble.public.archive.promises import check_promises
from scumble.public.manifest import PART_OF_TABLE
from scumble.public.plot.answers import learned
from scumble.public.release import Release

GAMES = 200_000
ROWS_ONLY = (
    "These measures compare rows with rows. They do not bound what an attacker learns who knows "
    "more than the columns named quasi."
)
ROWS_OF_PERSON = (
    "A person may have {} rows (most_rows), and these measures take each row for a person: who "
    "knows several rows of somebody finds that person more easily, and different values of a group "
    "may all be one person's."
)
NOT_COMPARED = "Only a release by generalise with rows is compared with its table."
Progress = Callable[[int], None]
Check = Callable[[Release], Iterable[Finding]]


def _untold(_: int) -> None:
    """Tell nobody how far an audit is."""


def _in_all(progress: Progress) -> Progress:
    """Return a function for the rows of one pass after the other; `progress` gets those of all."""
    before, last = 0, 0

    def told(rows: int) -> None:
        nonlocal before, last
        before += last if rows <= last else 0  # a new pass has begun
        last = rows
        progress(before + rows)

    return told


def _name(place: Path | str) -> str:
    """Return the name of a release or database, without the user or host of an address."""
    if isinstance(place, Path):
        return place.name
    return read_place(place, ReleaseError).name


def of_release(
    folder: Path | str,
    known: Sequence[str] = (),
    worst: int = 10,
    *,
    against: Path | None = None,
    joined: Path | None = None,
) -> Report:
    """Return all findings about a release, in a folder or at an address.

    If `known` names columns, the report also tells what an attacker learns who knows these columns
    of everybody, with the `worst` people about whom most is learned. With the private table
    `against`, a release by generalise is compared with it, for its owner only, and with `joined`,
    another such release of the same table, it is told what both tell together.
    """
    release = load(folder, as_stated=True)
    manifest = release.manifest
    limits = dict.fromkeys(limit for promise in release.guarantees for limit in promise.limits)
    files = {name: release.folder / name for name in (archive.MANIFEST, *release.evidence.files)}
    checked = 0.5 if known or against is not None else 1.0  # what follows takes about as long
    with portion(0, checked):
        findings = _release_findings(release)
    with portion(checked, 1):
        findings += _owner_findings(release, against, joined)
        learned = _learned(release, known, worst) if known else None
    return Report(
        subject=f"the release {_name(folder)}",
        findings=findings,
        promises=[
            *([] if release.schema.unit is None else [release.schema.unit.describe()]),
            *(f"{promise!r} Proof: {promise.proof}." for promise in release.guarantees),
        ],
        not_protected=[*_seen(release), *limits],
        facts={
            "method": manifest.mechanism,
            "parameters": manifest.given,
            "columns": list(release.evidence.columns),
            "made by": manifest.software,
            "checksums": {name: _checksum(path) for name, path in files.items() if path.exists()},
        },
        learned=learned,
        about=_certified(folder, manifest.schema.unit, next(iter(release.guarantees))),
    )


def _certified(place: Path | str, unit: Unit | None, promise: Guarantee) -> Certified:
    """Return the head of the certificate of a release or database."""
    return Certified(_name(place), (unit or Unit()).describe(), promise.sentence)


def _owner_findings(
    release: Release, against: Path | None, joined: Path | None
) -> Iterator[Finding]:
    if against is not None:
        outside: Any = release.manifest.outside
        other = None if joined is None else load(joined)
        own = hooks.of_evidence(release.evidence, "owner_findings")
        if own is None:
            raise ParameterError(NOT_COMPARED)
        yield from own(release, against, outside=outside, joined=other)
    elif joined is not None:
        raise ParameterError("Two releases are joined by the people of a table: give it, too.")


def _learned(release: Release, known: Sequence[str], worst: int) -> AttackResult:
    found = linkage(release, known)
    figure = ""
    if plot.available():
        certainty, people = found.posterior.max(axis=1).tolist(), found.candidates.tolist()
        figure = plot.svg(learned(certainty, people, float(found.prior.max())))
    return AttackResult(known, found.worst(worst), figure)


def _release_findings(release: Release) -> list[Finding]:
    """Return the findings of all checks, each of which is a part of the work."""
    measured = isinstance(release.evidence, Measurements)
    checks: tuple[Check, ...] = _SUMMARY_CHECKS if measured else _ROW_CHECKS
    found: list[Finding] = []
    for number, check in enumerate(checks):
        with part(number, len(checks)):
            found += check(release)
    return found


def _made_findings(release: Release) -> Iterator[Finding]:
    """Refute a fixed seed, and domains that were read from the table."""
    if release.manifest.seeded:
        sentence = "It was drawn from a fixed seed: whoever knows the seed can undo all of it."
        yield Finding("randomness", "noise that nobody can repeat", "refuted", sentence)
    if release.schema.from_data:
        names = ", ".join(release.schema.from_data)
        sentence = (
            f"The possible values of {names} were read from the private table and are published."
        )
        yield Finding(
            "possible values",
            "nothing but what is promised depends on the table",
            "refuted",
            sentence,
        )


def _stated_findings(release: Release) -> Iterator[Finding]:
    """Refute a release whose stated noise does not keep its promises: `open` refuses it."""
    try:
        check_promises("The release", release.manifest, release.folder)
    except ReleaseError as error:
        claim = "the noise that is stated keeps what is promised"
        yield Finding("stated noise", claim, "refuted", str(error))


def _own_findings(release: Release) -> Iterator[Finding]:
    """Yield the findings of attacks and checks that are made for this kind of rows."""
    own = hooks.of_evidence(release.evidence, "release_findings")
    if own is not None:
        yield from own(release)


def _order(release: Release) -> Iterator[Finding]:
    """Check that rows are sorted.

    Shuffled rows and rows in their original order cannot be told apart, so that only sorted rows
    are known to be safe.
    """
    claim = "the order of the rows tells nothing"
    if rows_are_sorted(release):
        yield Finding("order of rows", claim, "exact", SORTED)
        return
    sentence = "The rows are not sorted by what they show: their order may tell more than they do."
    yield Finding("order of rows", claim, "noted", sentence)


def _seen(release: Release) -> Iterator[str]:
    if release.evidence.unchanged:
        columns = ", ".join(release.evidence.unchanged)
        yield f"An attacker who knows {columns} of a person sees that the person is in the table."


def of_method(
    mechanism: Mechanism,
    values: int,
    claimed: float,
    *,
    games: int = GAMES,
    confidence: float = CONFIDENCE,
    seed: int | None = None,
    progress: Progress = _untold,
) -> Report:
    """Hold the exact law of a publisher's rows against the ε that is claimed for it, and play the
    exposure test.

    The sensitive attribute has `values` values, and `games` targets are guessed. A refutation by
    the games is wrong with a probability of at most 1 - `confidence`; one by the law is certain.
    What the law refutes does not stand in the games either: they tell how often people are named.
    `progress` is called with the number of games that were set up.
    """
    if not isinstance(mechanism, Publisher):
        raise ParameterError(
            f"The exposure test is about methods that publish rows; {mechanism.name} publishes "
            "counts. Try `scumble audit --all`."
        )
    score = exposure.play(mechanism, values, games, seed=seed, progress=progress)
    game = exposure.finding(mechanism, score, claimed, confidence)
    findings = [game]
    law = row_law(score.manifest.evidence, score.manifest.schema, claimed)
    if law is not None:
        exact = law_finding(mechanism.name, law, claimed)
        if exact.refuted and not game.refuted:
            game = replace(game, verdict="noted")
        findings = [exact, game]
    facts = {"method": mechanism.name, "parameters": mechanism.parameters, "games": games}
    return Report(f"{mechanism.name} with {values} values", findings, facts=facts)


def of_table(
    source: Any,
    schema: Schema,
    *,
    k: int | None = None,
    l: int | None = None,  # noqa: E741  # the letter that everybody uses for it
    t: float | None = None,
    n: int | None = None,
    table: str | None = None,
    outside: Outside = "error",
    progress: Progress = _untold,
) -> Report:
    """Return k-anonymity, l-diversity and t-closeness of a table that is published as it is.

    A finding is "refuted" if `k`, `l` or `t` is given and the table does not reach it. With `n`,
    `t` is that of (n, t)-closeness: each group is compared with the nearest set of at least `n`
    rows that agree with it in some of the quasi-identifiers, not with the whole table. The report
    is for the owner of the table. `progress` is called with the number of rows read: all rows for
    the quasi-identifiers, and once more for each sensitive attribute.
    """
    schema.check_unit()
    most = 1 if schema.unit is None else schema.unit.most_rows
    rows = Rows(
        open_source(source, table=table), schema, outside=outside, progress=_in_all(progress)
    )
    quasi = [attribute.name for attribute in schema.published if attribute.role == "quasi"]
    sensitive = [attribute.name for attribute in schema.sensitive]
    findings = [anonymity_finding(anonymity(classes(rows, quasi, None)), k, most)]
    for name in sensitive:
        ordered = not isinstance(schema[name].domain, Category)
        groups = classes(rows, quasi, name)
        claimed = t if n is None else None
        findings += diversity_findings(name, diversity(groups, ordered=ordered), l, claimed)
        if n is not None:
            near = superset_distances(groups, n, t, ordered=ordered)
            findings.append(closeness_finding(name, near, n, t))
    return Report(
        subject="the table",
        findings=findings,
        not_protected=[
            *([ROWS_OF_PERSON.format(most)] if most > 1 else []),
            ROWS_ONLY,
            "This report is made of the private table: it is for its owner.",
        ],
        facts={"quasi-identifiers": quasi, "sensitive": sensitive},
    )


def of_database(
    folder: Path | str,
    *,
    attack: bool = True,
    seed: int | None = None,
    progress: Progress = _untold,
) -> Report:
    """Verify the journal of a database and, if `attack`, attack a twin of it.

    The twin is a database of made-up people with the same promise. `progress` is called with the
    number of attacks made, of `attacks()`.
    """
    live = is_live(folder)
    with LiveInspection(folder) if live else DatabaseInspection(folder) as reading:
        faults, terms, promise = reading.verify(), reading.terms, reading.guarantee
    claim = "every answer was paid for and written down"
    if faults:
        findings = [Finding("ledger", claim, "refuted", faults[0])]
    else:
        sentence = "Every entry is the one that the next one names, to the last that was sealed."
        findings = [Finding("ledger", claim, "exact", sentence)]
    if attack:
        findings += _attacks(terms, seed, progress)
    return Report(
        subject=f"the database {_name(folder)}",
        findings=findings,
        promises=[f"{promise!r} Proof: {promise.proof}."],
        not_protected=promise.limits,
        facts=terms.to_dict(),
        about=_certified(folder, None, promise),  # each row is another person
    )


def attacks() -> int:
    """Return the number of attacks on the twin of a database."""
    return len(ATTACKS)


def _attacks(
    terms: DatabaseTerms | LiveTerms, seed: int | None, progress: Progress, people: int = 40
) -> Sequence[Finding]:
    rng = np.random.default_rng(seed)
    found = []
    for name in ATTACKS:
        secrets = rng.integers(0, 2, people).tolist()
        with tempfile.TemporaryDirectory(prefix="scumble-audit-") as place:
            victim = _twin(Path(place) / "twin", secrets, terms)
            outcome = run_attack(name, victim, secrets, rng, 6)
            victim.close()
        found.append(outcome.finding(CONFIDENCE))
        progress(len(found))
    return found


def _twin(
    folder: Path, secrets: Sequence[int], terms: DatabaseTerms | LiveTerms
) -> DatabaseVictim | LiveVictim:
    """Return a database of made-up people with the same promise."""
    epsilon = float(terms.epsilon)
    if isinstance(terms, LiveTerms):
        return LiveVictim(folder, secrets, epsilon=epsilon, delta=terms.delta)
    return DatabaseVictim(folder, secrets, epsilon=epsilon, noise=float(terms.noise))


def _checksum(path: Path) -> str:
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"


# The promise of a released summary against its mechanism, run on neighbouring tables.

MOST_CELLS = 1 << 20
_CELLS = 12  # the person of a neighbouring table is placed in this many cells
_ROUNDING = 1e-6  # relative, of an ε that is computed from ρ


def summary_findings(release: Release) -> Iterator[Finding]:
    """Compare the exact loss of the release's mechanism between neighbouring tables with its
    promise.

    Nothing is yielded for a release that promises no differential privacy.
    """
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
    if SAMPLED in manifest.report:
        [method, *_] = mechanism.guarantee(release.schema)
        yield _sample_finding(release, method, promise)
        promise = method
    own = hooks.of_mechanism(mechanism.name, "check_summary")
    if own is not None:
        yield own(release, mechanism, promise)
        return
    yield _finding(release, mechanism, promise)
    yield from _rows_finding(release, mechanism)


def _sample_finding(release: Release, method: Guarantee, promise: Guarantee) -> Finding:
    """Compare the promise of a sampled release with that of its method on the sample."""
    wanted = Sample.from_dict(release.manifest.report[SAMPLED]).strengthened(method).parameters
    broken = any(promise.parameters[name] < wanted[name] * (1 - _ROUNDING) for name in wanted)
    sentence = (
        f"A secret sample turns ε = {method.parameters['epsilon']:.6g} of the method into "
        f"{wanted['epsilon']:.6g}; promised is {promise.parameters['epsilon']:.6g}."
    )
    verdict: Verdict = "refuted" if broken else "exact"
    return Finding("sample", promise.claim, verdict, sentence)


def _rows_finding(release: Release, mechanism: Summary) -> Iterator[Finding]:
    """Refute a release that states the exact number of rows where neighbouring tables differ."""
    unit = getattr(mechanism, "unit", None)
    same = unit is not None and unit.keeps_rows and release.manifest.outside != "drop"
    same = same and PART_OF_TABLE not in release.manifest.report
    if release.evidence.rows is not None and not same:
        claim = "nothing is published exactly that a neighbouring table has otherwise"
        sentence = "It states the exact number of rows, which the promise covers."
        yield Finding("number of rows", claim, "refuted", sentence)


def _finding(release: Release, mechanism: Summary, promise: Guarantee) -> Finding:
    claim = f"{promise.statement} of {mechanism.name}"
    cells = 0 if mechanism.of_lists else release.schema.size(release.evidence.columns)
    if cells > MOST_CELLS:
        sentence = (
            f"Not tried: a table of all columns has {large(cells)} counts, more than "
            f"{large(MOST_CELLS)}."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    loss = None if mechanism.data_dependent else _largest(release, mechanism, promise)
    if loss is None and not mechanism.data_dependent:
        return _other(claim, StatedNoise.of(release, mechanism))
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
    """Return the finding about a release whose stated noise is not that of its method, or whose
    loss is not known exactly.
    """
    if noise is not None and noise.narrower is None:
        sentence = "It states the noise that its method needs; residuals of sums are not compared."
        return Finding("neighbouring tables", claim, "noted", sentence)
    if noise is None:
        sentence = (
            "Not tried: the release states other sums than its method measures here with the same "
            "parameters."
        )
        return Finding("neighbouring tables", claim, "noted", sentence)
    sentence = f"The release states less noise than its method needs: {noise.narrower}."
    return Finding("neighbouring tables", claim, "refuted", sentence)


def _compared(
    loss: ExactLoss, promise: Guarantee
) -> tuple[str, float | Fraction, float | Fraction]:
    """Return "ε", "ρ" or "μ", the loss, and the promise of the release in that measure.

    The promise is the number that the release states, not the one that follows from its parameters.
    """
    given = promise.parameters
    epsilon = Fraction(given["epsilon"])
    if not loss.rho:
        return "ε", loss.epsilon, epsilon
    if "mu" in given:
        implied = normal_epsilon_for(loss.rho, given["delta"])
        if implied > epsilon * Fraction(1 + _ROUNDING):
            return "ε", implied, epsilon
        return "μ", sqrt(2 * loss.rho), given["mu"] * (1 + _ROUNDING)
    rho = loss.rho + loss.epsilon**2 / 2
    implied = epsilon_for(rho, given["delta"]) if "delta" in given else inf
    if "rho" not in given or implied > epsilon * Fraction(1 + _ROUNDING):
        return "ε", implied, epsilon
    return "ρ", rho, Fraction(given["rho"])


def _largest(release: Release, mechanism: Summary, promise: Guarantee) -> ExactLoss | None:
    """Return the largest loss between an empty table and one with a person, or between two tables
    with one person each if neighbours replace a person. A person has the least or the largest
    amounts; a replaced one the other ones, in the same cell or in another.
    """
    names, schema = release.evidence.columns, release.schema
    rows = int(promise.parameters.get("contribution", 1))
    empty: Counts = np.zeros(schema.size(names), np.int64)
    records: dict[tuple[bytes, str], list[RecordedStep]] = {}
    largest: ExactLoss | None = None
    relation, places = _relation(promise), _places(len(empty))
    pairs = list(changes(empty, places, relation, rows))
    ends = _ends(release)
    if len(ends) > 1 and relation == "replace":  # the amount alone may be another one
        tables = {each.tobytes(): each for pair in pairs for each in pair}
        pairs += [(each, each) for each in tables.values()]
    for one, other in told(pairs):
        for first, second in zip(ends, ends[::-1], strict=True):
            steps = []
            for table, amounts in ((one, first), (other, second)):
                if (key := (table.tobytes(), str(amounts))) not in records:
                    records[key] = record_steps(
                        mechanism, schema, table, names=names, amounts=amounts
                    )
                steps.append(records[key])
            loss = pair_loss(mechanism, schema, one - other, (steps[0], steps[1]))
            if loss is None:
                return None
            if largest is None or loss.epsilon + loss.rho > largest.epsilon + largest.rho:
                largest = loss
    return largest


def _ends(release: Release) -> list[dict[str, int]]:
    """Return the codes of the least and of the largest amounts; nothing to choose without sums."""
    evidence = release.evidence
    sums = evidence.sums if isinstance(evidence, Measurements) else ()
    if not sums:
        return [{}]
    plain = [each.amounts for each in sums if each.amounts.column in evidence.sum_columns]
    columns = {amounts.column: amounts for amounts in plain}
    last = {name: amounts.size - 1 for name, amounts in columns.items()}
    ends = [dict.fromkeys(last, 0), last]
    if evidence.moments:  # squares are least in the middle, products where signs differ
        middle = {name: amounts.centre for name, amounts in columns.items()}
        mixed = {name: end if place % 2 else 0 for place, (name, end) in enumerate(last.items())}
        ends[1:1] = [middle, mixed]
    return ends


def _places(cells: int) -> list[int]:
    """Return cells in which a person is placed: both ends of the domain, and some between them."""
    found: list[int] = np.unique(np.linspace(0, cells - 1, _CELLS).round().astype(int)).tolist()
    return found


def _relation(promise: Guarantee) -> str:
    return next(name for name, words in NEIGHBOURS.items() if words == promise.neighbourhood)


_SUMMARY_CHECKS: tuple[Check, ...] = (_made_findings, _stated_findings, summary_findings)
_ROW_CHECKS: tuple[Check, ...] = (
    _made_findings,
    _stated_findings,
    claims,
    shown_value_findings,
    _own_findings,
    _order,
)
