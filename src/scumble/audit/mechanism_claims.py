"""The claim of a mechanism, (ε, δ) between neighbouring tables, and all attempts to refute it.

Publishers perturb rows independently, so one publication of many equal rows is as many runs.
A summary whose plan does not depend on the data is measured once, its noise is drawn many times,
and its loss is computed exactly; it is also run as a whole, but less often. Where a plan depends on
the data, runs that took the same decisions are compared step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from scumble.audit import hooks
from scumble.audit.distinguish import Distinction, Outputs, distinguish, floating_point_finding
from scumble.audit.exposure import VALUES, publish_secret
from scumble.audit.linkage import row_order_finding
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding, Verdict
from scumble.audit.runs import Pair, pairs, publish_runs, tables_of
from scumble.audit.summary_plans import Stepwise, WorstPair, worst_pair
from scumble.private.mechanism import Publisher, Summary
from scumble.private.mechanism_metadata import Claim
from scumble.private.sampling.source import Keystream

# A run of the whole mechanism takes the time of 1000 runs (or 100) of noise alone, so that the
# number of runs is divided by these; the search for the worst pair takes a twentieth of the runs.
WHOLE_IF_FIXED, WHOLE, SEARCH = 1000, 100, 20
FEWEST = 100  # fewer runs can show nothing
ORDERED = 500  # people whose rows are published to test the order of rows
LIKELY = 0.5  # the confidence during a search: its result is tested again with new runs
_ROUNDING = 1e-9


def tried(claim: Claim, runs: int, *, seed: int | None = None) -> Iterator[Finding]:
    """Yield the findings of exact losses and distinguishing tests, with `runs` runs of each."""
    mechanism = claim.mechanism
    if isinstance(mechanism, Publisher):
        yield _rows(claim, mechanism, runs, seed)
        yield row_order_finding(mechanism, claim.epsilon, ORDERED, seed=seed)
    elif (own := hooks.of_mechanism(mechanism.name, "try_claim")) is not None:
        yield from own(claim, runs, seed)
    elif isinstance(mechanism, Summary):
        found = None if mechanism.data_dependent else _worst(claim, mechanism)
        noise = Keystream(seed)
        if mechanism.data_dependent and not mechanism.promise.delta:  # steps have no δ
            yield from _stepwise(claim, mechanism, runs, noise)
        if found is not None:
            yield _exact(claim, mechanism, found)
            one, other = found.runs(runs, noise)
            seen = distinguish(
                one,
                other,
                delta=claim.delta,
                confidence=CONFIDENCE,
                independent=found.independent,
            )
            yield _told(claim, seen, f"{found.pair.words}, its numbers drawn again")
        yield from try_whole(claim, mechanism, found, runs, noise)


def _rows(claim: Claim, mechanism: Publisher, runs: int, seed: int | None) -> Finding:
    """Search for the pair of secrets that is told apart best, and test it with new runs."""
    seeds = count(seed) if seed is not None else None

    def test(values: tuple[int, int], number: int, sure: float) -> Distinction:
        one, other = (
            publish_secret(mechanism, value, number, seed=None if seeds is None else next(seeds))
            for value in values
        )
        return distinguish(one, other, delta=claim.delta, confidence=sure)

    choices = [(0, 1), (1, VALUES - 1), (0, VALUES - 1)]
    few = max(runs // SEARCH, FEWEST)
    chosen = max(choices, key=lambda values: test(values, few, LIKELY).epsilon)
    return _told(claim, test(chosen, runs, CONFIDENCE), f"secrets {chosen[0]} and {chosen[1]}")


def _worst(claim: Claim, mechanism: Summary) -> WorstPair | None:
    given = mechanism.parameters
    return worst_pair(mechanism, claim.schema, given["neighbours"], given["contribution"])


def try_whole(
    claim: Claim, mechanism: Summary, found: WorstPair | None, runs: int, noise: Keystream
) -> Iterator[Finding]:
    """Run the whole mechanism on its worst pair, or on the worst of a short search if that is not
    known, and test the published numbers and their last bits.
    """

    def outputs(pair: Pair, number: int) -> tuple[Outputs, Outputs]:
        one, other = (
            publish_runs(mechanism, claim.schema, counts, number, noise)
            for counts in (pair.one, pair.other)
        )
        return one, other

    def test(lines: tuple[Outputs, Outputs], sure: float) -> Distinction:
        return distinguish(*lines, delta=claim.delta, confidence=sure)

    if found is not None:
        chosen, number = found.pair, max(runs // WHOLE_IF_FIXED, FEWEST)
    else:
        number = max(runs // WHOLE, FEWEST)
        given = mechanism.parameters
        tables = tables_of(mechanism, claim.schema)
        choices = list(pairs(tables, given["neighbours"], given.get("contribution", 1)))
        few = number // SEARCH
        chosen = choices[0]
        if few >= FEWEST:
            chosen = max(choices, key=lambda pair: test(outputs(pair, few), LIKELY).epsilon)
    lines = outputs(chosen, number)
    yield _told(claim, test(lines, CONFIDENCE), f"{chosen.words}, whole releases")
    yield floating_point_finding(claim.words, *lines, claim.epsilon)


def _stepwise(claim: Claim, mechanism: Summary, runs: int, noise: Keystream) -> Iterator[Finding]:
    """Compare the steps of runs that decided alike, and the loss of decisions by costs."""
    found = Stepwise.of(mechanism, claim.schema, runs, noise)
    if (worst := found.worst) is None:
        sentence = "No two runs on neighbouring tables decided alike."
        yield Finding("steps of a run", claim.words, "noted", sentence)
        return
    sentence = (
        f"In {len(found.transcripts)} pairs of runs on neighbouring tables that decided alike, all "
        f"steps together lose ε = {worst.loss:.6g} at most ({worst.pair.words}); promised is "
        f"{claim.epsilon:.6g}."
    )
    yield _lost(claim, "steps of a run", worst.loss, sentence)
    if (decided := found.decided) is not None:
        total = float(found.after(decided)) + decided.loss
        sentence = (
            f"Between neighbours with {decided.pair.words} a decision by costs loses ε = "
            f"{decided.loss:.4g}, and {total:.6g} with the steps after it; promised is "
            f"{claim.epsilon:.6g}."
        )
        yield _lost(claim, "decision by costs", total, sentence)


def _lost(claim: Claim, check: str, loss: float, sentence: str) -> Finding:
    broken = loss > claim.epsilon * (1 + _ROUNDING)
    numbers = {"found": loss, "claimed": claim.epsilon}
    return Finding(check, claim.words, "refuted" if broken else "stands", sentence, numbers)


def _exact(claim: Claim, mechanism: Summary, found: WorstPair) -> Finding:
    allowed, loss = mechanism.promise, found.loss
    spent, most = (loss.epsilon, allowed.epsilon) if allowed.pure else (loss.rho, allowed.rho)
    letter = "ε" if allowed.pure else "ρ"
    broken = spent > most if found.published is None else spent > float(most) * (1 + _ROUNDING)
    verdict: Verdict = "refuted" if broken else "exact"
    sentence = (
        f"Between all neighbours of several tiny tables the noise loses {letter} = "
        f"{float(spent):.6g} at most; promised is {float(most):.6g}."
    )
    numbers = {"found": float(spent), "claimed": float(most)}
    return Finding("exact loss", claim.words, verdict, sentence, numbers)


def judged(words: str, epsilon: float, found: Distinction, where: str) -> Finding:
    """Return the finding of a distinguishing test about a promised ε; `where` names the runs."""
    sentence = (
        f"In {found.runs} runs ({where}) the best event, {found.event}, implies an ε of at least "
        f"{found.epsilon:.4g}; promised is {epsilon:.4g}."
    )
    return Finding(
        "distinguishing test",
        words,
        "refuted" if found.epsilon > epsilon else "stands",
        sentence,
        {"epsilon at least": found.epsilon, "claimed": epsilon, "runs": found.runs},
        CONFIDENCE,
    )


def _told(claim: Claim, found: Distinction, where: str) -> Finding:
    return judged(claim.words, claim.epsilon, found, where)
