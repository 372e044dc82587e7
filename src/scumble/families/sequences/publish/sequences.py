"""Sequences: noisy counts of what follows what in sequences, of prefixes, or of runs of symbols."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from scumble.families.sequences.design import (
    COUNT,
    FILE,
    MODELS,
    PARENT,
    SYMBOL,
    Model,
    Strings,
    StringTree,
    leaves_of,
    suffix_rows,
    write_strings,
)
from scumble.families.sequences.publish.meter import (
    LONGEST,
    MOST_NUMBERS,
    UNIT,
    PrivateStrings,
    weigh_unit,
)
from scumble.model.errors import ParameterError, SchemaError, setting
from scumble.model.evidence.evidence import Evidence, Measurements
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.parameters import whole
from scumble.model.privacy.accounting import Neighbours, PrivacyUnit
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import Layout
from scumble.private.mechanism_metadata import VISITS, Claim, ComparisonPreset, protection
from scumble.private.meter.grow import Threshold
from scumble.private.meter.noise import check_scale
from scumble.private.meter.splits import SplitRule, split_rule
from scumble.private.meter.table import PrivateTable
from scumble.private.summaries.base import OFTEN, ProtectedSummary

Weigh = Literal["sequence", "symbol"]

_SPLITS = Fraction(1, 10)  # of ε, for the splits of contexts
_WORTH = 16  # noise scales per cell that a context must hold to be split
_LOOK = Fraction(1, 3)  # of ε of a level, for which strings are counted
_DEPTHS = {"prefix": 6, "grams": 3}
_DEEPEST = 64
_COMPARED = 20  # symbols of a sequence in a comparison, if the schema states no largest length


@dataclass(kw_only=True, eq=False, repr=False)
class Sequences(ProtectedSummary):
    """Publishes what follows what in sequences, such as visits of pages or trips: a tree of strings
    that grows where the sequences are, with noisy counts.

    `model` says which strings. "suffix" is a prediction suffix tree: how often each symbol, or the
    end, follows a context, where contexts are longer where the sequences allow it. "prefix" counts
    the beginnings of sequences, "grams" the runs of up to `depth` symbols anywhere in them. At most
    `length` symbols of a sequence are read, its end included. With `weigh` "sequence" an occurrence
    in a sequence of k symbols counts 1/k, so that no sequence counts more than one, however long;
    with "symbol" every occurrence counts one, at `length` times the noise.

    Parameters:
        attribute: the sequence to publish, as pages.
        length: most symbols of a sequence that are read.
        model: suffix, prefix or grams.
        weigh: by sequence (all together count one) or by symbol (each counts one).
        depth: most symbols of a context (suffix; no limit by default), of a prefix (6) or of a run
            (3).

    Promises: ε-DP of the whole release. Proof: "suffix": every symbol is in one leaf, so that a
        person changes the noisy counts by `contribution` sequences of weight 1 (or `length`); the
        splits lose at most what PrivTree's rule loses for as many records, a tenth of ε. "prefix"
        and "grams": a level is a table of disjoint strings, and the ε of levels add up; a third is
        for which strings are counted, the rest for their counts, which are drawn anew. Strings that
        nobody has are drawn from the law that they would have.
    Estimate: the noisy counts of a string, or their sum over longer contexts: unbiased, with the
        exact law of its noise. Longer strings are estimated by the chain of the longest known
        contexts, without an interval.
    Reference: suffix trees: Zhang, Xiao, Xie, PrivTree, SIGMOD 2016; prefixes: Chen, Fung, Desai,
        Sossou, KDD 2012; grams: Chen, Acs, Castelluccia, CCS 2012.
    Differs: a context is split only if it holds 16 noise scales for every symbol; probabilities
        are projections onto the simplex, not cut at 0; sequences may weigh one each. Thresholds of
        "prefix" and "grams" follow the size of the alphabet: at most a quarter of a child of a
        false string passes. Counts are drawn apart from the noise that decided about the tree.
    """

    name = "sequences"
    data_dependent = True
    of_lists = True
    proof = (
        "splits: Zhang, Xiao, Xie, SIGMOD 2016, theorem 3.1, for whole numbers and with the exact "
        "sum; noise on sums of counts: Dwork, McSherry, Nissim, Smith, TCC 2006"
    )

    attribute: str = field(kw_only=False)
    length: int
    model: Model = "suffix"
    weigh: Weigh = "sequence"
    depth: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str) or not self.attribute:
            raise ParameterError.of("Sequences", "attribute", "the name of one", self.attribute)
        self.names = (self.attribute,)
        super().__post_init__()
        if self.model not in MODELS:
            raise ParameterError.of("Sequences", "model", f"one of {', '.join(MODELS)}", self.model)
        if self.weigh not in get_args(Weigh):
            raise ParameterError.of("Sequences", "weigh", "'sequence' or 'symbol'", self.weigh)
        whole("Sequences", "length", self.length, least=1, most=LONGEST)
        if self.depth is not None:
            whole("Sequences", "depth", self.depth, least=1, most=_DEEPEST)
        for law in self._laws(2):
            check_scale(law)

    # What the parameters say about the measurement.

    @property
    def _unit(self) -> int:
        """The weight of a sequence, or 1 if every occurrence counts one."""
        return UNIT if self.weigh == "sequence" and self.model != "prefix" else 1

    @property
    def _levels(self) -> int:
        """The number of levels of a tree of prefixes or runs."""
        deepest = _DEPTHS.get(self.model, 1) if self.depth is None else self.depth
        return min(deepest, self.length)

    @property
    def _weighed(self) -> PrivacyUnit:
        """The person in units of weight, where all symbols of sequences are counted once."""
        return weigh_unit(self.unit, self._unit if self._unit > 1 else self.length)

    def _list_masses(self) -> list[int]:
        """Return the largest weight of the strings of each length in one sequence. It begins one
        prefix of each length, and a run of k symbols at `length - k + 1` places.
        """
        if self.model == "prefix":
            return [1] * self._levels
        if self._unit > 1:
            return [self._unit] * self._levels
        return [self.length - level for level in range(self._levels)]

    def _laws(self, fanout: int) -> list[DiscreteLaplace]:
        """Return the noise of the counts: of cells, or of the strings of each length."""
        if self.model == "suffix":
            left = self.promise.epsilon - self._rule(fanout).loss(self._weighed)
            return [DiscreteLaplace(self._weighed.sensitivity / left)]
        epsilon = self.promise.epsilon * (1 - _LOOK) / self._levels
        masses = self._list_masses()
        return [
            DiscreteLaplace(weigh_unit(self.unit, mass).sensitivity / epsilon) for mass in masses
        ]

    def _rule(self, fanout: int) -> SplitRule:
        return split_rule(self.promise.epsilon * _SPLITS, fanout, self._weighed)

    def _make_thresholds(self, fanout: int) -> list[Threshold]:
        epsilon = self.promise.epsilon * _LOOK / self._levels
        laws = [
            DiscreteLaplace(weigh_unit(self.unit, m).sensitivity / epsilon)
            for m in self._list_masses()
        ]
        return [Threshold.for_fanout(law, fanout) for law in laws]

    def check(self, schema: Schema) -> None:
        super().check(schema)
        lists = schema[self.attribute].lists  # raises SchemaError for any other column
        if lists.kind != "sequence":
            raise SchemaError(
                f"'{self.attribute}' is a set, which has no order. Declare it a sequence, or use "
                "the method baskets."
            )
        if self.model == "suffix" and (lists.members.size + 1) ** 2 > MOST_NUMBERS:
            raise SchemaError(
                f"'{self.attribute}' has {lists.members.size} values; a suffix tree counts pairs "
                f"of at most {int(MOST_NUMBERS**0.5) - 1}. Group values, or choose "
                f"{setting('model', 'grams')}."
            )

    def layout(self, schema: Schema) -> Layout:
        return {FILE: (PARENT, SYMBOL, COUNT)}

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        alphabet = table.schema[self.attribute].lists.members.size
        laws, contexts = self._laws(alphabet + 1), 0
        if self.model == "suffix":
            inner, cells = self._split_contexts(table, laws[0])
            contexts = len(inner)
            write_strings(folder, suffix_rows(inner, leaves_of(inner), cells))
        else:
            tree, counts = self._count_strings(table, laws)
            write_strings(folder, [(tree.parents, tree.symbols, counts)])
        design = Strings(self.model, alphabet, tuple(laws), self._unit, self._read, contexts)
        return Measurements(FILE, self.names, design)

    @property
    def _read(self) -> int:
        """Most symbols of a sequence that are read."""
        return self._levels if self.model == "prefix" else self.length

    def _open_strings(self, table: PrivateTable) -> PrivateStrings:
        return PrivateStrings(table, self.attribute, self.unit, length=self._read, unit=self._unit)

    def _split_contexts(
        self, table: PrivateTable, law: DiscreteLaplace
    ) -> tuple[StringTree, npt.NDArray[np.int64]]:
        strings = self._open_strings(table)
        theta = int(_WORTH * strings.fanout * law.scale)
        inner = strings.contexts(self._rule(strings.fanout), theta, self.depth)
        return inner, strings.cells(inner, law)

    def _count_strings(
        self, table: PrivateTable, laws: list[DiscreteLaplace]
    ) -> tuple[StringTree, npt.NDArray[np.int64]]:
        strings = self._open_strings(table)
        first, masses = self.model == "prefix", self._list_masses()
        tree = strings.runs(self._make_thresholds(strings.fanout), masses, first=first)
        return tree, strings.counts(tree, laws, masses, first=first)

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        """Return how large the noise of a count is, in sequences or occurrences."""
        design = getattr(evidence, "design", None)
        if not isinstance(design, Strings):
            return {}
        scales = [float(law.scale) / design.unit for law in design.laws]
        return {"noise scale of counts": scales, "contexts that were split": design.contexts}

    def outlook(self, schema: Schema) -> tuple[str, ...]:
        """Return how far the count of a measured string may be off."""
        laws = self._laws(schema[self.attribute].lists.members.size + 1)
        far = float(max(law.half_width(0.95) for law in laws)) / self._unit
        what = "weighted occurrences" if self._unit > 1 else "occurrences"
        sentence = (
            f"To expect: the number of {what if self.model != 'prefix' else 'sequences'} of a "
            f"string that is counted by itself will be within ±{far:,.3g} {OFTEN}; the error of a "
            "sum of k counts is about √k times as large."
        )
        return (sentence,)

    def _more_limits(self) -> tuple[str, ...]:
        read = f"the first {self.length} symbols of a sequence, its end included, are read"
        return (
            f"Only {read}: what follows is left out of every answer.",
            "The promise is for whole sequences of a person, as many as 'contribution' says.",
        )

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        lists = [
            attribute for attribute in study.schema.lists if attribute.lists.kind == "sequence"
        ]
        if not lists:
            raise SchemaError("Sequences needs an attribute of the type sequence.")
        length = lists[0].lists.longest or _COMPARED
        given = {"attribute": lists[0].name, "length": length}
        return {**given, "neighbours": study.neighbours}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        given = protection(neighbours, length=3)
        yield Claim(cls("x", **given), 1, schema=VISITS)
        yield Claim(cls("x", weigh="symbol", **given), 1, schema=VISITS)
        yield Claim(cls("x", model="prefix", depth=2, **given), 1, schema=VISITS)
        yield Claim(cls("x", model="grams", depth=2, weigh="symbol", **given), 1, schema=VISITS)
