"""CombinedReleases: answers from several releases of one table together.

The noise of one release is independent of that of another, so that their estimates of a sum are
combined by least squares. No private row is read, and nothing is charged: what the releases may
tell together was promised when each of them was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

from scumble.model.errors import ParameterError, ReleaseError
from scumble.model.evidence.evidence import Measurements
from scumble.model.privacy.accounting import epsilon_for
from scumble.model.privacy.guarantee import Guarantee, Guarantees, at_most
from scumble.model.privacy.sampling import SAMPLED
from scumble.model.query import Query
from scumble.model.schema.schema import Schema
from scumble.public.asking import Asking
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable
from scumble.public.limits import one_question
from scumble.public.manifest import PART_OF_TABLE, Manifest
from scumble.public.release import Release
from scumble.public.sandbox import Sandbox
from scumble.public.views import readable_data

if TYPE_CHECKING:
    from scumble.public.release_answers import ReleaseAnswers

_BASIC = "the ε and the δ of all releases add up"
_CONCENTRATED = (
    "the ρ of all releases add up, ε²/2 for a pure ε (Bun, Steinke, TCC 2016); from zCDP by "
    "proposition 12 of Canonne, Kamath, Steinke, NeurIPS 2020"
)


def combine(releases: Iterable[Release]) -> CombinedReleases:
    """Return an object that answers questions from all `releases` of one table together.

    Counts and sums have the least variance that weights of the releases can give, never more than
    those of the best single release; releases of marginals are fitted as one. It reads published
    numbers only and costs no privacy. `guarantees` is the promise of all releases together. It is
    your word that all are of the same table: scumble checks what the releases state of it.
    """
    given: list[Any] = [releases] if isinstance(releases, Release) else list(releases)
    if len(given) < 2:
        raise ParameterError.of("combine", "releases", "a list of two or more releases", releases)
    for number, each in enumerate(given, 1):
        if not isinstance(each, Release):
            named = type(each).__name__
            raise ParameterError(f"combine takes releases of one table; {number} is a {named}.")
        if reason := _refusal(each.manifest):
            raise ReleaseError(f"Release {number} cannot be combined: {reason}")
    for (one, first), (other, second) in combinations(enumerate(given, 1), 2):
        if reason := _difference(first, second):
            raise ReleaseError(f"Releases {one} and {other} cannot be combined: {reason}")
    return CombinedReleases(tuple(given))


@dataclass(frozen=True, eq=False, repr=False)
class CombinedReleases(Asking):
    """Several releases of one table, which answer together."""

    releases: tuple[Release, ...]

    @cached_property
    def schema(self) -> Schema:
        """The columns of all releases."""
        held = [each.schema for each in self.releases]
        columns = {attribute.name: attribute for each in held for attribute in each}
        impossible = dict.fromkeys(text for each in held for text in each.impossible)
        return Schema(tuple(columns.values()), held[0].unit, tuple(impossible))

    @property
    def guarantees(self) -> Guarantees:
        """The promise of all releases together."""
        return Guarantees((_joint_promise([each.guarantees[0] for each in self.releases]),))

    def ask(
        self, sql: str | Query, *, tables: Mapping[str, Any] | None = None, clamp: bool = False
    ) -> Estimate | Estimates | EstimateTable:
        """Answer one question from all releases; `tables` and `clamp` are as for a release."""
        with one_question(), readable_data():
            return self._answers(tables).answer(sql, clamp)

    answer = ask

    def ask_many(
        self,
        questions: Sequence[str | Query],
        *,
        tables: Mapping[str, Any] | None = None,
        clamp: bool = False,
    ) -> list[Estimate | Estimates | EstimateTable]:
        """Answer many questions, in their order."""
        with readable_data():
            return self._answers(tables).answer_many(questions, clamp)

    answer_many = ask_many

    def __repr__(self) -> str:
        names = ", ".join(each.manifest.mechanism for each in self.releases)
        columns = ", ".join(self._evidence.columns)
        return f"{len(self.releases)} releases ({names}) of {columns}\n  {self.guarantees[0]}"

    @cached_property
    def _evidence(self) -> Measurements:
        """The evidence of one release, with the columns of all."""
        held = [cast(Measurements, each.evidence) for each in self.releases]
        columns = {name for each in held for name in each.columns}
        one = min(held, key=lambda each: each.exact_zeros)
        return replace(one, columns=tuple(name for name in self.schema.names if name in columns))

    @cached_property
    def _reader(self) -> Any:
        # Showing combined releases needs no reader of numbers.
        from scumble.public.estimation.measurements.combined import combined_reader

        return combined_reader([each._answers() for each in self.releases])

    def _answers(self, tables: Mapping[str, Any] | None) -> ReleaseAnswers:
        from scumble.public.release_answers import ReleaseAnswers

        sandbox = Sandbox(self.schema, tables or {})
        sandbox.derived["reader"] = self._reader
        manifest = replace(self.releases[0].manifest, evidence=self._evidence)
        return ReleaseAnswers(manifest, self.schema, sandbox, self._current)

    def _current(self, given: ReleaseAnswers) -> ReleaseAnswers:
        return given


def _refusal(manifest: Manifest) -> str | None:
    """Return why a release cannot be combined with any other; None if it can."""
    # Loading the readers needs the SQL reader, which showing a release does not.
    from scumble.public.estimation.measurements.readers import is_fixed

    evidence = manifest.evidence
    name = f"it is by {manifest.mechanism}, and"
    if not isinstance(evidence, Measurements) or not is_fixed(evidence.design.kind):
        return (
            f"{name} combine takes releases of noisy counts whose design does not depend on the "
            "data, such as Histogram, Hierarchy, Marginals and Workload."
        )
    if evidence.added:
        return f"{name} its columns are items that it chose."
    if evidence.sums:
        return "it has sums of amounts beside its counts, which are not combined. Ask it alone."
    if SAMPLED in manifest.report:
        return "it is about a secret sample, which is another one in each release. Ask it alone."
    if manifest.parameters.get("person") is not None:
        return "it counts some rows of each person, which may be others in each release."
    if evidence.exact_zeros and manifest.schema.impossible:
        return f"{name} leaves impossible cells without noise, which combine does not use."
    return None


def _difference(one: Release, other: Release) -> str | None:
    """Return why two releases are not of one table, or not independent; None if they may be."""
    first, second = one.manifest, other.manifest
    shared = {*first.schema.names} & {*second.schema.names}
    if differing := [name for name in shared if first.schema[name] != second.schema[name]]:
        return f"'{sorted(differing)[0]}' has two domains or roles."
    if first.schema.unit != second.schema.unit or first.outside != second.outside:
        return "who is protected, or what is done with values outside of their domain, differs."
    if first.report.get(PART_OF_TABLE) != second.report.get(PART_OF_TABLE):
        return "one is of a part of the table, and the other of all of it or of another part."
    [mine, yours] = [each.guarantees[0] for each in (first, second)]
    if mine.neighbourhood != yours.neighbourhood:
        return f"one hides '{mine.neighbourhood}', and the other '{yours.neighbourhood}'."
    if mine.parameters.get("contribution") != yours.parameters.get("contribution"):
        return "they count different numbers of rows of a person (contribution)."
    if first.evidence.rows != second.evidence.rows:
        return "they have different numbers of rows, so that they are of different tables."
    if _numbers(one).equals(_numbers(other)):
        return "they have the same noisy numbers: give each release once."
    return None


def _numbers(release: Release) -> Any:
    return pq.read_table(release.folder / release.evidence.files[0])


def _joint_promise(promises: Sequence[Guarantee]) -> Guarantee:
    """Return what several promises about the same table amount to together.

    All ε add up, and all δ. Where each release has a ρ or a pure ε, the ρ add up too, and the
    smaller of both ε is stated.
    """
    numbers = [each.parameters for each in promises]
    epsilon, delta = (sum(each.get(name, 0.0) for each in numbers) for name in ("epsilon", "delta"))
    if not delta:
        return _stated(promises, "ε-DP", {"epsilon": epsilon}, _BASIC)
    joint, proof = {"epsilon": epsilon, "delta": delta}, _BASIC
    rhos = [_rho(each) for each in numbers]
    if all(rhos) and (concentrated := epsilon_for(sum(rhos), delta)) < epsilon:
        joint = {"epsilon": concentrated, "delta": delta, "rho": sum(rhos)}
        proof = _CONCENTRATED
    return _stated(promises, "(ε, δ)-DP", joint, proof)


def _rho(promised: Mapping[str, float]) -> float:
    """Return the ρ of a promise: its own, that of its μ, or that of a pure ε; 0 without any."""
    if "mu" in promised:
        return promised["mu"] ** 2 / 2
    return promised.get("rho", 0.0 if promised.get("delta") else promised["epsilon"] ** 2 / 2)


def _stated(
    promises: Sequence[Guarantee], statement: str, joint: Mapping[str, float], proof: str
) -> Guarantee:
    shown = ", ".join(
        f"{letter} = {at_most(joint[name])}"
        for letter, name in (("ε", "epsilon"), ("δ", "delta"))
        if name in joint
    )
    return replace(
        promises[0],
        statement=statement,
        parameters={**joint, "contribution": promises[0].parameters["contribution"]},
        proof=proof,
        sentence=f"All {len(promises)} releases together keep {shown}; asking costs nothing more.",
        limits=tuple(dict.fromkeys(each for promise in promises for each in promise.limits)),
    )
