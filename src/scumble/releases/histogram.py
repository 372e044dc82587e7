"""Histogram: a noisy count for every cell of a contingency table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from scumble.errors import ParameterError, SchemaError
from scumble.evidence import Measurements
from scumble.guarantee import (
    NEIGHBOURS,
    Guarantee,
    at_most,
    float_at_least,
    gamma_above_epsilon,
    loss,
    percent_at_most,
    posterior_at_most,
)
from scumble.mechanism import Summary
from scumble.private import Person, PrivateTable
from scumble.publishers.request import free_name
from scumble.schema import Schema

MOST_CELLS = 10**8
LARGEST_SCALE = 1 << 48  # counts with such noise still fit 64 bits, but for odds of e^-16000
_WRITE_CHUNK = 1 << 20


class Histogram(Summary):
    """Publishes the count of every combination of values of the chosen attributes, each with
    discrete Laplace noise. Any condition on these attributes is answered by adding cells.

    `neighbours` says who is protected: "replace" hides what one person's rows say, "add_remove"
    also hides whether the person is in the table. `contribution` is the number of rows that a
    person has at most; with `person`, an identifier of the schema, only so many rows of each person
    are counted, without it the bound is the owner's word.

    Promises: ε-DP of the whole release. Proof: the cells are disjoint, so that one person changes
        the counts by at most Δ = contribution (add or remove) or 2·contribution (replace) in all;
        noise with P(z) ∝ exp(−|z|ε/Δ), independent by cell, changes the probability of any output
        by a factor of at most e^ε. The noise is integer and its sampler exact.
    Estimate: the sum of the noisy cells that satisfy the condition, times what each adds; unbiased.
        The error is a sum of known noises whatever the data are, and its law gives the interval.
    Reference: Dwork, McSherry, Nissim, Smith, TCC 2006; two-sided geometric noise: Ghosh,
        Roughgarden, Sundararajan, STOC 2009.
    Differs: integer noise in place of real Laplace noise, whose floating-point form leaks. Counts
        are neither cut off at zero nor made to add up: that would bias sums of many cells.
    """

    name = "histogram"

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        epsilon: float,
        neighbours: Literal["replace", "add_remove"],
        contribution: int = 1,
        person: str | None = None,
    ) -> None:
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        if not names or len(set(names)) < len(names):
            allowed = "a list of one or more different attribute names"
            raise ParameterError.of("Histogram", "attributes", allowed, list(names))
        if neighbours not in NEIGHBOURS:
            raise ParameterError.of(
                "Histogram", "neighbours", "'replace' or 'add_remove'", neighbours
            )
        if isinstance(contribution, bool) or not isinstance(contribution, int) or contribution < 1:
            allowed = "a whole number of at least 1"
            raise ParameterError.of("Histogram", "contribution", allowed, contribution)
        self.attributes = names
        self.person = Person(neighbours, contribution, person)
        self._epsilon = epsilon
        self._promise = loss("Histogram", epsilon)
        if self.person.sensitivity / self._promise > LARGEST_SCALE:
            raise ParameterError(
                "With so small an epsilon, or so many rows of a person, the noise would be larger "
                "than any count; allow a larger epsilon, or a smaller contribution."
            )

    @property
    def parameters(self) -> dict[str, Any]:
        number = self._epsilon if isinstance(self._epsilon, (int, float)) else str(self._epsilon)
        return {
            "attributes": list(self.attributes),
            "epsilon": number,
            "neighbours": self.person.neighbours,
            "contribution": self.person.rows,
            "person": self.person.column,
        }

    @property
    def promise(self) -> Fraction:
        return self._promise

    def check(self, schema: Schema) -> None:
        for name in self.attributes:
            if schema[name].role == "identifier":
                raise SchemaError(
                    f"'{name}' is an identifier: it is never published, nor counted by."
                )
        cells = schema.size(self.attributes)
        if cells > MOST_CELLS:
            raise ParameterError(
                f"The product of {', '.join(self.attributes)} has {cells:.3g} cells; Histogram "
                f"counts at most {MOST_CELLS:.0e}. Choose fewer attributes or coarser bins; a "
                "sparse release for larger domains is planned."
            )
        column = self.person.column
        if column is not None and schema[column].role != "identifier":
            raise ParameterError.of(
                "Histogram", "person", "an attribute with the role identifier", column
            )

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        return (
            Guarantee(
                statement="ε-DP",
                parameters={
                    "epsilon": float_at_least(self._promise),
                    "contribution": self.person.rows,
                },
                scope="the whole release",
                neighbourhood=NEIGHBOURS[self.person.neighbours],
                trust="central",
                proof="noise on disjoint counts: Dwork, McSherry, Nissim, Smith, TCC 2006",
                sentence=self._sentence(),
                limits=self._limits(),
            ),
        )

    def _sentence(self) -> str:
        """What an attacker can learn; under add or remove, two contents are two steps apart."""
        once, twice = (
            percent_at_most(posterior_at_most(Fraction(1, 10), gamma_above_epsilon(loss)))
            for loss in (self._promise, 2 * self._promise)
        )
        attacker = "an attacker who knows everybody else, and gave 10 % to a guess about that,"
        epsilon = f"(ε = {at_most(self._promise)})"
        if self.person.neighbours == "replace":
            hidden = "Hidden is what the rows of one person say"
            return f"{hidden}: {attacker} can end at most at {once} {epsilon}."
        return (
            f"Hidden is whether one person is in the table: {attacker} can end at most at {once} "
            f"{epsilon}; about what the rows of a person in the table say, at most at {twice}."
        )

    def _limits(self) -> tuple[str, ...]:
        bound = self.person.rows
        rows = "one row" if bound == 1 else f"{bound} rows"
        checked = (
            f"Of each person at most {rows} are counted; the others are left out of every answer."
            if self.person.column
            else f"It is the owner's word that a person has at most {rows}: nothing checks it."
        )
        size = (
            ()
            if self.person.neighbours == "add_remove"
            else ("The number of people in the table is not hidden.",)
        )
        return (
            checked,
            *size,
            "Releases of the same table add up: this promise is for this release alone.",
            "What is true of people in general, and so of a person too, is not hidden.",
        )

    def measure(self, table: PrivateTable, folder: Path) -> Measurements:
        counts, law = table.noisy_counts(self.attributes, self.person, epsilon=self._promise)
        count = free_name("count", self.attributes)
        _write(folder / "cells.parquet", table.schema, self.attributes, count, counts)
        return Measurements("cells.parquet", self.attributes, count, law)


def _write(
    path: Path, schema: Schema, names: Sequence[str], count: str, counts: np.ndarray[Any, Any]
) -> None:
    from scumble.engine.parquet import decoded, table_writer

    attributes = [schema[name] for name in names]
    radix = schema.radix(names)
    with table_writer(path, attributes, [(count, pa.int64())]) as writer:
        for begin in range(0, len(counts), _WRITE_CHUNK):
            part = counts[begin : begin + _WRITE_CHUNK]
            codes = radix.unpack(np.arange(begin, begin + len(part), dtype=np.uint64))
            writer.write_batch(decoded(attributes, codes, [(count, pa.array(part))]))
