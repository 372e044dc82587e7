"""Generalise: publish rows with coarser quasi-identifiers, so that groups of rows look alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from scumble.families.generalise.design import FILE, Generalised, nodes_of
from scumble.families.generalise.publish import search as lattice
from scumble.families.generalise.publish.criteria import (
    DISTANCES,
    DIVERSITIES,
    Criteria,
    Distance,
    Diversity,
)
from scumble.families.generalise.publish.search import CodedTable, Integers, LocalRecoding
from scumble.families.generalise.read import remarks
from scumble.model import parameters
from scumble.model.errors import ParameterError, PromiseError, SchemaError, large, named
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import (
    Guarantee,
    at_least,
    at_most,
    exposure_at_most,
    percent_at_most,
    read_positive,
    read_share,
)
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import Layout, Publisher
from scumble.private.mechanism_metadata import Claim, ComparisonPreset
from scumble.private.sampling.source import Keystream
from scumble.private.tables.writer import ViewWriter

if TYPE_CHECKING:
    from scumble.private.tables.rows import Rows


Recoding = Literal["local", "global"]
_MOST_VALUES = 1 << 20  # sensitive values that occur, for criteria about them
_OWNER = "Generalise"


class Generalise(Publisher):
    """Publishes every row with groups of values in place of quasi-identifiers, as coarse as needed
    for each row to look like at least k - 1 others; sensitive and insensitive columns as they are.

    Groups of values are those of the `hierarchy` of a column in the schema; without one, blocks of
    2, 4, 8, ... values if they have an order, else all of them. Local recoding chooses groups for
    each part of the rows, global recoding one level of the hierarchy for each column, the one with
    the least loss of granularity. Criteria on sensitive values are for their combination, if there
    are several. The codes of all rows are held in memory.

    Parameters:
        k: rows that look alike, at least.
        l: different sensitive values in every group, in the sense of `diversity`.
        diversity: distinct, entropy or recursive.
        c: of recursive diversity: the most frequent value against all but the l - 1 most frequent.
        t: the largest distance of the sensitive values of a group from those of all rows.
        distance: equal, ordered or hierarchical.
        alpha: the largest share of one sensitive value in a group.
        recoding: local or global.
        suppress: the largest share of rows to leave out, with global recoding.
        weights: how much the loss of each column counts, by column.

    Promises: k-anonymity: every published row has the same groups of values as k - 1 others, at
        least. With l, t or alpha, in every group of such rows the sensitive values are as diverse,
        as close to those of all published rows, or as little concentrated. This is a property of
        the published table alone, checked by counting it, and no limit on what an attacker learns:
        it depends on the data, and is not differential privacy.
    Estimate: a row counts by the share of the values of its groups that meet the condition, as if
        rows were spread evenly; rows that were left out count like the others. The interval is what
        is certain: the least and the largest answer over all tables that could look like this one.
        So it always holds, and its width says how much is assumed. Questions that cut no group, and
        those about other columns, are answered exactly if no row was left out.
    Reference: Sweeney, IJUFKS 2002 (k-anonymity); Machanavajjhala and others, ICDE 2006 (l); Li,
        Li, Venkatasubramanian, ICDE 2007 (t); Wong and others, KDD 2006 ((α, k)); granularity:
        Iyengar, KDD 2002; optimal levels: Kohlmayer and others, SocialCom 2012 (as ARX); cuts:
        LeFevre, DeWitt, Ramakrishnan, ICDE 2006 (Mondrian).
    Differs: rows that are left out are not shown at all, only counted: as rows of `*` they would
        show their sensitive values. t is relative to the published rows, so that everybody can
        check it. Cuts of local recoding follow hierarchies and leave small groups behind together.
    """

    name = "generalise"
    unchanged = ("insensitive",)
    not_audited = "promises k-anonymity: recomputed by `scumble audit RELEASE`"

    def __init__(
        self,
        *,
        k: int,
        l: int | None = None,  # noqa: E741  (its name)
        diversity: Diversity = "distinct",
        c: float | None = None,
        t: float | None = None,
        distance: Distance = "equal",
        alpha: float | None = None,
        recoding: Recoding = "local",
        suppress: float = 0.0,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self._given: dict[str, Any] = {"k": k, "l": l, "diversity": diversity, "c": c, "t": t}
        self._given |= {"distance": distance, "alpha": alpha, "recoding": recoding}
        for name, value, allowed in (
            ("diversity", diversity, DIVERSITIES),
            ("distance", distance, DISTANCES),
            ("recoding", recoding, ("local", "global")),
        ):
            if value not in allowed:
                words = " or ".join(map(repr, allowed))
                raise ParameterError.of(_OWNER, name, words, value)
        if (c is None) != (diversity != "recursive"):
            raise ParameterError(f"{_OWNER} takes {named('c')} with recursive diversity only.")
        if l is None and diversity != "distinct":
            raise ParameterError(f"{_OWNER} takes {named('diversity')} with {named('l')} only.")
        if t is None and distance != "equal":
            raise ParameterError(f"{_OWNER} takes {named('distance')} with {named('t')} only.")
        self._criteria = Criteria(
            k=parameters.whole(_OWNER, "k", k, least=2),
            l=None if l is None else parameters.whole(_OWNER, "l", l, least=2),
            diversity=diversity,
            c=None if c is None else read_positive(_OWNER, "c", c),
            t=None if t is None else read_share(_OWNER, "t", t),
            distance=distance,
            alpha=None if alpha is None else read_share(_OWNER, "alpha", alpha),
        )
        self._recoding: Recoding = recoding
        self._suppress = _read_suppress(suppress)
        if self._suppress and recoding == "local":
            raise ParameterError(
                f"Local recoding leaves out no rows; {named('suppress')} is for global recoding."
            )
        self._weights = _read_weights(weights)

    @property
    def parameters(self) -> dict[str, Any]:
        plain = parameters.plain({n: v for n, v in self._given.items() if not isinstance(v, str)})
        words = {name: value for name, value in self._given.items() if isinstance(value, str)}
        ordered = {name: {**plain, **words}[name] for name in self._given}
        return {**ordered, "suppress": float(self._suppress), "weights": self._weights}

    def check(self, schema: Schema) -> None:
        if not schema.quasi:
            need = f"{_OWNER} needs at least one attribute with the role quasi"
            raise parameters.without_attribute(
                f"{need}; the schema has none.", need, schema, "quasi"
            )
        if self._criteria.about_values:
            parameters.require_sensitive(_OWNER, schema)
            self._check_values(schema)
        for name in self._weights or ():
            if name not in [attribute.name for attribute in schema.quasi]:
                allowed = "about attributes with the role quasi"
                raise ParameterError.of(_OWNER, "weights", allowed, name)
        if not any((self._weights or {}).get(attribute.name, 1) for attribute in schema.quasi):
            raise ParameterError(f"{_OWNER} needs a weight above 0 for one attribute at least.")
        combinations = 1
        for attribute in schema.quasi:
            combinations *= attribute.levels.height + 1
        if self._recoding == "global" and combinations > lattice.MOST_COMBINATIONS:
            raise ParameterError(
                f"Global recoding would search {combinations:.2g} combinations of levels, of at "
                f"most {large(lattice.MOST_COMBINATIONS)}. Take local recoding or fewer levels."
            )

    def _check_values(self, schema: Schema) -> None:
        values = schema.size(attribute.name for attribute in schema.sensitive)
        least = self._criteria.l
        if least is not None and values < least:
            raise SchemaError(
                f"{_OWNER} with l = {least} needs as many different sensitive values; the schema "
                f"has {values}. Ask for a smaller l."
            )
        if values >= 1 << 62:
            raise SchemaError("The sensitive attributes have 2^62 combinations or more.")
        if self._criteria.distance != "equal":
            if len(schema.sensitive) != 1:
                raise SchemaError(
                    f"{_OWNER} with distance {self._criteria.distance!r} needs exactly one "
                    "sensitive attribute."
                )
            [one] = schema.sensitive
            if self._criteria.distance == "ordered" and not one.ordered:
                raise SchemaError(f"{one} has no order; take distance 'equal' or 'hierarchical'.")

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Sentences about the errors to expect."""
        said = (
            "To expect: no noise is added. The error of a count depends on how the condition cuts "
            "the groups; every answer states limits that hold for certain."
        )
        return (said,)

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        return promises_of(self._criteria, schema)

    def achieved(self, schema: Schema, evidence: Evidence) -> tuple[Guarantee, ...]:
        promises = self.guarantee(schema, evidence.rows)
        if isinstance(evidence, Generalised) and evidence.left_out:
            absent = absent_rows(evidence.left_out)
            return tuple(replace(promise, limits=(absent, *promise.limits)) for promise in promises)
        return promises

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        left_out = evidence.left_out if isinstance(evidence, Generalised) else 0
        return {"rows": evidence.rows, "rows left out": left_out}

    def noticed(self, schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
        return remarks(schema, evidence, folder)

    def layout(self, schema: Schema) -> Layout:
        return {FILE: (*_name_shown(schema), *schema.role("sensitive", "insensitive"))}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Generalised:
        schema = rows.schema
        quasi = [attribute.name for attribute in schema.quasi]
        weights = [float((self._weights or {}).get(name, 1.0)) for name in quasi]
        batches = list(
            open_engine(rows, noise).batches([attribute.name for attribute in schema.published])
        )
        columns = _Columns(schema, batches)
        criteria = self._resolve_criteria(schema)
        secret, values = columns.secret() if criteria.about_values else (None, 1)
        table, number = CodedTable.of(
            [columns.of(name) for name in quasi],
            secret,
            values,
            [schema[name].levels for name in quasi],
            weights,
        )
        nodes, published = self._recode_rows(table, criteria)
        left_out = int(table.rows - table.count[published].sum())
        evidence = Generalised(
            FILE,
            tuple(attribute.name for attribute in schema.published),
            tuple(quasi),
            _name_shown(schema),
            table.rows - left_out,
            left_out,
        )
        _write(
            folder,
            schema,
            evidence,
            columns,
            [column[number] for column in nodes],
            published[number],
        )
        return evidence

    def _resolve_criteria(self, schema: Schema) -> Criteria:
        """Return the criteria with what they need to know of the sensitive attribute."""
        if len(schema.sensitive) != 1 or self._criteria.t is None:
            return self._criteria
        [one] = schema.sensitive
        return replace(self._criteria, levels=one.levels, missing=one.missing)

    def _recode_rows(
        self, table: CodedTable, criteria: Criteria
    ) -> tuple[list[Integers], npt.NDArray[np.bool_]]:
        """Return the node of every distinct row by column, and which of them are published."""
        every = np.ones(len(table.count), bool)
        top = np.tile(np.array(table.top, np.int64), (len(table.count), 1))
        if not table.rows:
            return table.nodes(top), every
        if self._recoding == "global":
            most = int(self._suppress * table.rows)
            best = lattice.optimal(table, criteria, most)
            if best is None:
                raise PromiseError(_IMPOSSIBLE)
            return table.nodes(np.tile(np.array(best.levels), (len(every), 1))), best.published
        if not lattice.judge(table, table.top, criteria).published.all():
            raise PromiseError(_IMPOSSIBLE)
        local = LocalRecoding(table, criteria)
        local.run()
        return table.nodes(local.level[local.group]), every

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        return {"k": max(2, ceil(1 / exposure_at_most(epsilon, max(study.values, 2))))}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield from ()


_IMPOSSIBLE = (
    "What is asked of Generalise cannot be had for this table: not even all rows together, or no "
    "combination of levels, satisfy it. Ask for a smaller k or l, a larger t or alpha, or let more "
    "rows be left out."
)


def _read_suppress(given: object) -> Fraction:
    zero = isinstance(given, int | float) and not isinstance(given, bool) and given == 0
    return Fraction(0) if zero else read_share(_OWNER, "suppress", given)


def _read_weights(given: object) -> dict[str, float] | None:
    allowed = "numbers of at least 0 by attribute"
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise ParameterError.of(_OWNER, "weights", allowed, given)
    for weight in given.values():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not isfinite(weight) or weight < 0:
            raise ParameterError.of(_OWNER, "weights", allowed, weight)
    return {str(name): float(weight) for name, weight in given.items()}


@dataclass(frozen=True, eq=False)
class _Columns:
    """All rows as codes, by batches of columns."""

    schema: Schema
    batches: Sequence[Sequence[npt.NDArray[Any]]]

    def of(self, name: str) -> npt.NDArray[Any]:
        index = [attribute.name for attribute in self.schema.published].index(name)
        empty = np.empty(0, self.schema[name].code_type)
        return np.concatenate([empty, *(batch[index] for batch in self.batches)])

    def secret(self) -> tuple[npt.NDArray[Any], int]:
        """Return a number for the sensitive values of each row, and how many numbers there are."""
        names = [attribute.name for attribute in self.schema.sensitive]
        key = self.of(names[0]).astype(np.int64)
        for name in names[1:]:
            key = key * self.schema[name].size + self.of(name)
        if len(names) == 1 and self.schema[names[0]].size <= _MOST_VALUES:
            return key, self.schema[names[0]].size
        distinct, number = np.unique(key, return_inverse=True)
        return number, max(len(distinct), 1)


def _name_shown(schema: Schema) -> tuple[str, ...]:
    """Return names for the columns of nodes that no attribute has."""
    taken = [attribute.name for attribute in schema]
    names: list[str] = []
    for attribute in schema.quasi:
        names.append(parameters.free_name(f"{attribute.name} group", [*taken, *names]))
    return tuple(names)


def _write(
    folder: Path,
    schema: Schema,
    evidence: Generalised,
    columns: _Columns,
    nodes: Sequence[Integers],
    published: npt.NDArray[np.bool_],
) -> None:
    """Write the published rows in the order of what they show."""
    shown = [
        Attribute(name, "insensitive", IntegerRange(0, len(nodes_of(schema[of]).size) - 1))
        for name, of in zip(evidence.shown, evidence.generalised, strict=True)
    ]
    others = schema.role("sensitive", "insensitive")
    with ViewWriter(folder / evidence.file, [*shown, *others]) as view:
        view.add(
            [
                *(
                    a.code_type.type(0) + n[published].astype(a.code_type)
                    for a, n in zip(shown, nodes, strict=True)
                ),
                *(columns.of(attribute.name)[published] for attribute in others),
            ]
        )


# --- promises -------------------------------------------------------------------------------------
#
# What Generalise promises in words, and what it does not.

DEPENDS = (
    "This is not differential privacy and depends on the data: it says how the published rows "
    "look, not what may be learned from them."
)
LIMITS = (
    "It counts rows: a person who has several of them may be a whole group.",
    "A group whose rows have the same or similar sensitive values tells them of everybody in it.",
    "An attacker who knows values of others in a group can exclude them; one may be left.",
    "Two releases of the same people can be joined: what both leave possible may be one value.",
    "An attacker who knows how the groups were chosen may conclude what made them necessary.",
    "Everybody can see that a person is in the table, if others know all who may be.",
    "Columns that are not quasi-identifiers are published as they are, and may be linked, too.",
)


NO_VALUE = "That a sensitive value is missing counts as a value like any other."


def absent_rows(number: int) -> str:
    """Return the sentence about rows that were left out."""
    rows = "1 row was" if number == 1 else f"{number:,} rows were"
    return (
        f"{rows} left out, because too few others are alike: a person who is known to be in the "
        "table, and is missing from the release, has rare values."
    )


def promises_of(criteria: Criteria, schema: Schema) -> tuple[Guarantee, ...]:
    """Return a promise for each criterion; nothing of them is taken from the data."""
    quasi = ", ".join(attribute.name for attribute in schema.quasi)
    secret = ", ".join(attribute.name for attribute in schema.sensitive)
    what = f"combination of {secret}" if len(schema.sensitive) > 1 else f"value of {secret}"
    promises = [
        _make_promise(
            "k-anonymity",
            {"k": criteria.k},
            f"Of every published row there are at least {criteria.k} that look alike in {quasi}. "
            "This says nothing about what else is the same in all of them.",
        )
    ]
    if criteria.l is not None:
        promises.append(_promise_diversity(criteria, what))
    if criteria.alpha is not None:
        promises.append(
            _make_promise(
                "(α, k)-anonymity",
                {"alpha": float(criteria.alpha), "k": criteria.k},
                f"In every group of rows that look alike no {what} has more than "
                f"{percent_at_most(criteria.alpha)} of the rows.",
            )
        )
    if criteria.t is not None:
        promises.append(
            _make_promise(
                f"t-closeness, {criteria.distance} distance",
                {"t": float(criteria.t)},
                f"In every group of rows that look alike the shares of each {what} are within a "
                f"distance of {at_most(criteria.t)} of those of all published rows.",
            )
        )
    if criteria.about_values and any(attribute.missing for attribute in schema.sensitive):
        promises = [replace(promise, limits=(*promise.limits, NO_VALUE)) for promise in promises]
    return tuple(promises)


def _promise_diversity(criteria: Criteria, what: str) -> Guarantee:
    least = criteria.l or 1
    if criteria.diversity == "distinct":
        return _make_promise(
            "distinct l-diversity",
            {"l": least},
            f"In every group of rows that look alike at least {least} different values occur "
            f"({what}). One of them may be that of nearly all.",
        )
    if criteria.diversity == "entropy":
        return _make_promise(
            "entropy l-diversity",
            {"l": least},
            f"In every group of rows that look alike the entropy of the {what} is at least that of "
            f"{least} equally frequent ones.",
        )
    ratio = criteria.c or 1
    return _make_promise(
        "recursive (c, l)-diversity",
        {"c": float(ratio), "l": least},
        f"In every group of rows that look alike the most frequent {what} has less than "
        f"{at_least(ratio)} times the rows of all but the {least - 1} most frequent ones.",
    )


def _make_promise(statement: str, numbers: dict[str, float], sentence: str) -> Guarantee:
    return Guarantee(
        statement=statement,
        parameters=numbers,
        scope="the whole release",
        neighbourhood="one person's sensitive values",
        trust="central",
        proof="counted before publishing; `scumble audit` counts the published rows again",
        sentence=sentence,
        limits=(DEPENDS, *LIMITS),
    )
