"""Linkage attacks on releases of rows, and what the order of published rows tells.

The attacker knows some columns of a target, and that the target is in the table. All rows that
agree with these columns are equally likely to be the target's. Each row turns the prior into a
posterior by Bayes' rule, and the posterior of the target is the mean over the rows. The prior of a
value is the same for everybody: its share in the whole table, estimated from the release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.audit import hooks
from scumble.audit.distinguish import Outputs, distinguish
from scumble.audit.exposure import SECRET, TARGET, VALUES, secret_schema
from scumble.audit.release_claims import CONFIDENCE
from scumble.audit.report import Finding
from scumble.model.errors import ParameterError
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.model.stored import known_codes
from scumble.private.mechanism import Publisher
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions
from scumble.public.release import Release

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkageResult:
    """Everybody's posterior.

    Row i of `posterior` belongs to the people with the i-th combination of `known`, of whom there
    are `candidates[i]`.
    """

    columns: tuple[str, ...]
    known: list[dict[str, Any]]
    candidates: npt.NDArray[np.int64]
    prior: Floats
    posterior: Floats
    values: list[Any]

    def worst(self, number: int) -> list[dict[str, Any]]:
        """Return the `number` combinations for which the odds of a value grow most."""
        gain = self._odds(self.posterior) - self._odds(self.prior)
        order = np.argsort(-gain.max(axis=1), kind="stable")[:number]
        return [self._person(int(place), int(gain[place].argmax())) for place in order]

    def of(self, known: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the likeliest value of each combination that agrees with `known`."""
        found = [place for place, each in enumerate(self.known) if known.items() <= each.items()]
        return [self._person(place, int(self.posterior[place].argmax())) for place in found]

    def _person(self, place: int, value: int) -> dict[str, Any]:
        return {
            **self.known[place],
            "rows": int(self.candidates[place]),
            "value": self.values[value],
            "prior": float(self.prior[value]),
            "posterior": float(self.posterior[place, value]),
        }

    @staticmethod
    def _odds(chance: Floats) -> Floats:
        inside = np.clip(chance, 1e-12, 1 - 1e-12)
        return np.log(inside) - np.log1p(-inside)


def linkage(release: Release, known: Sequence[str] | None = None) -> LinkageResult:
    """Return what an attacker learns about everybody who knows the columns `known`.

    They are all columns that are published unchanged, if None.
    """
    own = hooks.of_evidence(release.evidence, "link_people")
    if own is not None:
        result: LinkageResult = own(release, known)
        return result
    channels = hooks.channels_of(release.evidence)
    return link_rows(release, known, _perturbed if channels else None)


Posteriors = Callable[[Release, pa.Table, Attribute], tuple[Floats, Floats]]


def link_rows(
    release: Release, known: Sequence[str] | None, posteriors: Posteriors | None
) -> LinkageResult:
    """Return what is learned from rows, of which `posteriors` gives the prior and the posterior of
    each; None if the release has no such rows.
    """
    evidence = release.evidence
    if posteriors is None or not evidence.unchanged:
        raise ParameterError(
            "Linkage is about releases that publish columns of people, as uniform, subset, "
            "partition, anatomy, generalise and aroma do; this one does not."
        )
    columns = check_known(evidence.unchanged, known)
    sensitive = only_sensitive(release)
    table = pq.read_table(release.folder / evidence.files[0])
    prior, shown = posteriors(release, table, sensitive)
    group, first, candidates = _alike(release, table, columns)
    total = np.zeros((len(first), sensitive.size))
    np.add.at(total, group, shown)
    people = table.select(list(columns)).take(pa.array(first)).to_pylist()
    values = sensitive.labels().to_pylist()
    return LinkageResult(columns, people, candidates, prior, total / candidates[:, None], values)


def check_known(allowed: Sequence[str], known: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that the attacker knows: all that are allowed, if None."""
    columns = tuple(allowed if known is None else known)
    for name in columns:
        if name not in allowed:
            raise ParameterError.of("linkage", "known", f"among {', '.join(allowed)}", name)
    return columns


def only_sensitive(release: Release) -> Attribute:
    """Return the only sensitive attribute of a release."""
    if len(release.schema.sensitive) != 1:
        raise ParameterError("Linkage is about releases with one sensitive attribute.")
    return release.schema.sensitive[0]


def _alike(
    release: Release, table: pa.Table, columns: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the group of each row (rows that agree), and a row and the size of each group."""
    codes = [known_codes(release.schema[name], table[name]).astype(np.int64) for name in columns]
    group = np.zeros(table.num_rows, np.int64)
    for name, column in zip(columns, codes, strict=True):
        _, group = np.unique(group * release.schema[name].size + column, return_inverse=True)
    _, first, counts = np.unique(group, return_index=True, return_counts=True)
    return group, first, counts


def _perturbed(release: Release, table: pa.Table, sensitive: Attribute) -> tuple[Floats, Floats]:
    """Return the prior, and the posterior of each row, from the channel."""
    [channel] = hooks.channels_of(release.evidence)
    own = hooks.of_channel(channel, "find_likelihood")
    if own is None:
        raise ParameterError(f"What a channel of the kind '{channel.kind}' tells is not known.")
    likelihood: Floats = own(channel, table, sensitive)
    prior = _fitted(likelihood)
    joint = prior * likelihood
    return prior, joint / joint.sum(axis=1, keepdims=True)


def _fitted(likelihood: Floats, rounds: int = 200) -> Floats:
    """Return the maximum likelihood estimate of the shares of all values, by the EM algorithm."""
    shares: Floats = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    distinct, times = np.unique(likelihood, axis=0, return_counts=True)
    for _ in range(rounds):
        joint = shares * distinct
        joint /= joint.sum(axis=1, keepdims=True)
        shares = times @ joint / times.sum()
    return shares


# The order of published rows. Rows that are sorted by their published values have an order that
# adds nothing to the rows. Otherwise the places are tested: people with two different secrets are
# published together, and the place of a person's row is taken as a part of the output.

SORTED = "The rows are sorted by what they show: anybody could have put them so."


def row_order_finding(
    mechanism: Publisher, epsilon: float, people: int, *, seed: int | None = None
) -> Finding:
    """Test the order of the rows of a publisher against the ε of their contents."""
    rng = np.random.default_rng(seed)
    secrets = rng.integers(0, 2, people) * (VALUES - 1)
    table = pa.table({TARGET: np.arange(people), SECRET: secrets})
    release = publish(table, secret_schema(people), mechanism, options=PublishOptions(seed=seed))
    claim = f"the order of the rows of {mechanism.name} tells nothing"
    if rows_are_sorted(release):
        return Finding("order of rows", claim, "exact", SORTED)
    lines = _lines(release, secrets)
    found = distinguish(*lines, confidence=CONFIDENCE)
    sentence = (
        f"The places of {people} rows imply an ε of at least {found.epsilon:.4g} ({found.event}); "
        f"what the rows show has {epsilon:.4g}."
    )
    return Finding(
        "order of rows",
        claim,
        "refuted" if found.epsilon > epsilon else "stands",
        sentence,
        {"epsilon at least": found.epsilon, "claimed": epsilon},
        CONFIDENCE,
    )


def rows_are_sorted(release: Release) -> bool:
    """Return whether every file of a release is sorted by its columns, from left to right.

    Values have the order of the schema, a missing one is last.
    """
    tables = (pq.read_table(release.folder / file) for file in release.evidence.files)
    return all(_sorted(table, release.schema) for table in tables)


def _sorted(table: pa.Table, schema: Schema) -> bool:
    columns = [_ranks(table[name], name, schema) for name in table.column_names]
    if not columns or len(columns[0]) < 2:
        return True
    order = np.lexsort(columns[::-1])  # stable: equal rows may stand in any order
    return all(np.array_equal(column[order], column) for column in columns)


def _ranks(column: pa.ChunkedArray, name: str, schema: Schema) -> npt.NDArray[np.integer[Any]]:
    """Return sort keys of a column: codes of the schema, or the numbers of a column that the
    publisher has added.
    """
    found: npt.NDArray[np.integer[Any]] = (
        known_codes(schema[name], column) if name in schema else column.to_numpy()
    )
    return found


def _lines(release: Release, secrets: npt.NDArray[np.int64]) -> tuple[Outputs, Outputs]:
    """Return the shown value and the place of each person's row, for each of the two secrets."""
    table = pq.read_table(release.folder / release.evidence.files[0])
    who = table[TARGET].to_numpy()
    places = np.full(len(secrets), -1.0)
    places[who] = np.arange(len(who))
    shown = np.full(len(secrets), -1.0)
    if SECRET in table.column_names:
        shown[who] = table[SECRET].to_numpy()
    lines = np.stack([shown, places], axis=1)
    return lines[secrets == 0], lines[secrets > 0]
