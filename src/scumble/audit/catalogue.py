"""The whole catalogue of methods, each with neighbouring tables and the promise to break.

Publishers perturb rows independently, so one publication of many equal rows is as many runs.
Summaries with a fixed plan are measured once and blurred many times. Where a plan depends on the
data every run is a publication of its own, and there are fewer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import scumble as sc
from scumble.audit.adversary import shown
from scumble.audit.claims import CONFIDENCE
from scumble.audit.distinguish import Distinction, distinguish
from scumble.audit.events import Outputs
from scumble.audit.finding import Finding, Verdict
from scumble.audit.game import SECRET, WHO
from scumble.audit.recorder import Spent, outputs, worst
from scumble.audit.report import Report
from scumble.mechanism import Mechanism, Publisher, Summary
from scumble.noise.source import Source
from scumble.schema import Schema

VALUES = 4
LOOPED = 250  # a run that is a publication of its own counts for so many others, by its time

TINY = Schema(
    (
        sc.Attribute("a", "quasi", sc.Category(("low", "high"))),
        sc.Attribute("b", "quasi", sc.Category(("x", "y"))),
    )
)
LINE = Schema((sc.Attribute("a", "quasi", sc.IntegerRange(0, 7)),))


@dataclass(frozen=True)
class Claim:
    """A method with the (ε, δ) that it promises between two neighbouring tables."""

    mechanism: Mechanism
    epsilon: float
    delta: float = 0.0
    schema: Schema = TINY

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def words(self) -> str:
        loss = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:.3g}" if self.delta else "")
        return f"{self.mechanism!r} keeps {loss}"


def everything() -> Iterator[Claim]:
    """Every method that promises differential privacy, local or central."""
    yield Claim(sc.Uniform(epsilon=1), 1)
    yield Claim(sc.Subset(epsilon=1), 1)
    yield Claim(sc.Frapp(epsilon=2), 2)
    profile = sc.Aroma(k=20).guarantee(secret_schema(1))[0].parameters
    yield Claim(sc.Aroma(k=20), 0.5, profile["delta at epsilon 0.5"])
    yield Claim(sc.AlphaBeta(alpha=0.5, beta=0.1), float(np.log(0.6 / 0.1) + np.log(0.9 / 0.4)))
    for neighbours in ("add_remove", "replace"):
        both: dict[str, Any] = {"epsilon": 1, "neighbours": neighbours}
        names = ["a", "b"]
        yield Claim(sc.Histogram(names, **both), 1)
        yield Claim(sc.Hierarchy(names, **both), 1)
        yield Claim(sc.Wavelet(names, **both), 1)
        yield Claim(sc.Marginals(names, ways=1, **both), 1)
        yield Claim(sc.Fourier(names, ways=2, **both), 1)
        yield Claim(sc.Datacube(names, **both), 1)
        yield Claim(sc.Hierarchy(names, **both, delta=1e-3), 1, 1e-3)
        yield Claim(sc.Marginals(names, ways=2, **both, delta=1e-3), 1, 1e-3)
        yield Claim(sc.Quadtree(["a"], **both), 1, schema=LINE)
        yield Claim(sc.Kdtree(["a"], **both), 1, schema=LINE)
        yield Claim(sc.PrivTree(["a"], **both), 1, schema=LINE)
        yield Claim(sc.Sparse(names, **both, false_cells=1), 1)


def catalogue(runs: int, step: Callable[[str], None]) -> Iterator[Report]:
    """One report for each method."""
    for place, claim in enumerate(everything()):
        step(f"{claim.words}")
        yield Report(f"{claim.name}, entry {place + 1} of the catalogue", list(tried(claim, runs)))


def tried(claim: Claim, runs: int, *, seed: int | None = None) -> Iterator[Finding]:
    """What the exact loss and the distinguishing test say of a claim."""
    mechanism = claim.mechanism
    if isinstance(mechanism, Publisher):
        one, other = (publications(mechanism, value, runs, seed=seed) for value in (0, 1))
    else:
        assert isinstance(mechanism, Summary)  # noqa: S101  # there are no other mechanisms
        found = _worst(claim, mechanism)
        if found is not None and mechanism.name != "marginals":
            yield _exact(claim, found[0])
        if found is None:
            one, other = (_looped(claim, place, runs // LOOPED, seed) for place in (0, 1))
        else:
            noise = Source(seed)
            one, other = (outputs(each, runs, noise) for each in found[1])
    yield _told(claim, distinguish(one, other, delta=claim.delta, confidence=CONFIDENCE))


def secret_schema(people: int) -> Schema:
    """People with a number, and a secret with a few values."""
    return Schema(
        (
            sc.Attribute(WHO, "quasi", sc.IntegerRange(0, max(people - 1, 1))),
            sc.Attribute(SECRET, "sensitive", sc.IntegerRange(0, VALUES - 1)),
        )
    )


def publications(
    mechanism: Publisher, value: int, runs: int, *, seed: int | None = None
) -> Outputs:
    """What is shown of so many people who all have the same secret: each is a run of its own."""
    table = pa.table({WHO: np.arange(runs), SECRET: np.full(runs, value)})
    given = None if seed is None else seed + value
    return shown(sc.publish(table, secret_schema(runs), mechanism, seed=given), WHO)


def _worst(claim: Claim, mechanism: Summary) -> tuple[Spent, Any] | None:
    relation = mechanism.parameters["neighbours"]
    names = mechanism.parameters["attributes"]
    size = claim.schema.size(names)
    if mechanism.name in ("sparse", "kdtree", "privtree"):
        return None
    return worst(mechanism, claim.schema, names, np.zeros(size, np.int64), relation, 1)


def _looped(claim: Claim, place: int, runs: int, seed: int | None) -> Outputs:
    """The answers about every cell, by releases of a table with one person more or elsewhere."""
    tables = _tables(claim)
    questions = [_question(claim.schema, cell) for cell in range(claim.schema.size())]
    parsed, found = None, []
    for run in range(runs):
        given = None if seed is None else seed + 2 * run + place
        release = sc.publish(tables[place], claim.schema, claim.mechanism, seed=given)
        parsed = parsed or [release.parse(question) for question in questions]
        found.append([answer.value for answer in release.answer_many(parsed)])  # type: ignore[union-attr]
    return np.array(found)


def _tables(claim: Claim) -> tuple[pa.Table, pa.Table]:
    """Two people in the first cell, and one more; or one of them in the last cell instead."""
    first, last = ({a.name: a.labels()[end].as_py() for a in claim.schema} for end in (0, -1))
    added = claim.mechanism.parameters["neighbours"] == "add_remove"
    one, other = [first, first], [first, first, first] if added else [first, last]
    return _table(claim.schema, one), _table(claim.schema, other)


def _table(schema: Schema, rows: list[dict[str, Any]]) -> pa.Table:
    kinds = pa.schema([(attribute.name, attribute.arrow_type) for attribute in schema])
    return pa.Table.from_pylist(rows, schema=kinds)


def _question(schema: Schema, cell: int) -> str:
    codes = schema.radix(schema.names).unpack(np.array([cell], np.uint64))
    values: Mapping[str, Any] = {
        attribute.name: attribute.labels()[int(code[0])].as_py()
        for attribute, code in zip(schema, codes, strict=True)
    }
    listed = " AND ".join(
        f"{name} = {value}" if isinstance(value, int) else f"{name} = '{value}'"
        for name, value in values.items()
    )
    return f"SELECT COUNT(*) FROM t WHERE {listed}"


def _exact(claim: Claim, loss: Spent) -> Finding:
    allowed = claim.mechanism.promise  # type: ignore[attr-defined]
    found, most = (loss.epsilon, allowed.epsilon) if allowed.pure else (loss.rho, allowed.rho)
    letter = "ε" if allowed.pure else "ρ"
    verdict: Verdict = "refuted" if found > most else "exact"
    sentence = (
        f"Between all neighbours of an empty tiny table the noise loses {letter} = "
        f"{float(found):.6g} at most; promised is {float(most):.6g}."
    )
    numbers = {"found": float(found), "claimed": float(most)}
    return Finding("exact loss", claim.words, verdict, sentence, numbers)


def _told(claim: Claim, found: Distinction) -> Finding:
    refuted = found.epsilon > claim.epsilon
    sentence = (
        f"In {found.runs} runs the best event ({found.event}) implies an ε of at least "
        f"{found.epsilon:.4g}; promised is {claim.epsilon:.4g}."
    )
    return Finding(
        "distinguishing test",
        claim.words,
        "refuted" if refuted else "stands",
        sentence,
        {"epsilon at least": found.epsilon, "claimed": claim.epsilon, "runs": found.runs},
        CONFIDENCE,
    )
