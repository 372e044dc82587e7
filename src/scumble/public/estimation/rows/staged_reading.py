"""Stages: from which rows the shares are learned by which the multisets of other rows are read.

Every row of Aroma falls into a stage by a coin. The first stage is read with the shares of the
pool; each later one with shares estimated from all rows of earlier stages. Given these rows, the
shares of a stage are constants, and its weights are unbiased with a known variance. So the errors
of the stages are uncorrelated, and the sum of all weights is unbiased; its variance is the mean of
the sum of the variances of the stages. About half of all rows, or many thousands, are read last.

The coins must not depend on what a row shows. Published rows are sorted, so that a fixed set of
places would; and equal rows with equal coins would. The coin of a place is a part of the output of
SHAKE-256 on a digest of the whole file: for a random function it is independent of everything else,
and the order of rows, which depends on what they show, deals independent equal coins to the rows in
another order only. It is the same whenever the release is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.evidence.channels import Floats, MultisetChannel, PoolLaw
from scumble.model.evidence.evidence import Records
from scumble.model.query import file_literal, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.stored import indices
from scumble.public.estimation.kernels import count_members
from scumble.public.estimation.rows.grouped_counts import (
    AMOUNT,
    MEMBER,
    GroupedCounts,
    aggregated,
    aggregates,
    expanded,
    floats,
    lines,
    member_powers,
    sums_of_ones,
    where,
)
from scumble.public.estimation.rows.posterior_law import PosteriorLaw, StagedChannel
from scumble.public.estimation.rows.row_tables import (
    MultisetTables,
    RowGroups,
    TableLayout,
    batches,
    codes_of,
)
from scumble.public.sandbox import Sandbox

Stages = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

_COLUMN, _SCALE, _PLACE = "scumble stage", "scumble scale", "scumble place"
# Tables of the engine: the rows of all stages but the last, and their places.
_TABLE, _PLACES = "scumble stages", "scumble places"
_READING = "reading by stages"  # in `Sandbox.derived`, as the names of tables that the engine keeps
# The first stage has at most 128 rows and a 64th of all, the second as many, and each later one
# twice as many as the one before; all but the last have at most half of all rows.
_FIRST_ROWS, _FIRST_SHARE = 128, 64
_PILOT_ROWS, _PILOT_CELLS = 1 << 15, 1 << 21  # rows of all stages but the last, and times values
_FEWEST, _MOST = 1024, 1 << 24  # rows of a release that is read so: those of each are in memory
_FEWEST_EACH = 100  # rows for each value: fewer do not tell its share
_COINS = 1 << 16  # a coin has two bytes
_ROUNDS = 60  # of the EM algorithm
_PRIOR = 1.0  # rows of each value that are added to those that were seen
FIXED = 1 << 32  # posterior probabilities in tables are whole numbers of this part
_TERMS = 64  # of a sum in SQL without parentheses
_BUILDING = Lock()


@dataclass(frozen=True, eq=False)
class StagedReading:
    """Rows by stages: their `evidence` and `schema` have one column more, the stage.

    `stages` has the stage of every row. `pilot` are the rows of all stages but the last, with their
    places.
    """

    evidence: Records
    schema: Schema
    channel: StagedChannel
    stages: Stages
    pilot: pa.Table

    @cached_property
    def factors(self) -> Floats:
        """By stage and value, what multiplicities are multiplied by."""
        return np.stack([law.factors for law in self.channel.laws])

    @property
    def rounding(self) -> float:
        """A number r such that x + r - r rounds a scale x to a multiple of the last place of r.

        Sums of products of such scales and multiplicities are exact, so that they do not depend on
        the order in which threads add them: the sum for value v is near π_v for each row, and twice
        that has at most 53 bits.
        """
        most = 2 * len(self.stages) * float(self.channel.laws[0].drawn.max())
        return float(0.75 * 2.0 ** np.ceil(np.log2(most)))


def staged(evidence: Records, schema: Schema, engine: Sandbox) -> StagedReading | None:
    """Return the reading by stages of a release of Aroma; None if its rows are not read so.

    It is made at the first question, in one pass over the published rows.
    """
    channel = evidence.channels[0] if len(evidence.channels) == 1 else None
    if not isinstance(channel, MultisetChannel) or not isinstance(channel.law, PoolLaw):
        return None
    fewest = max(_FEWEST, _FEWEST_EACH * channel.law.values)
    if channel.law.caps is not None or not fewest <= evidence.rows <= _MOST:
        return None
    if engine.view is None or not engine.view.is_file():
        return None
    if any(name in schema for name in (_COLUMN, _SCALE, _PLACE)):
        return None
    with _BUILDING:
        if _READING not in engine.derived:
            engine.derived[_READING] = _read(evidence, schema, channel, channel.law, engine)
        found: StagedReading = engine.derived[_READING]
    return found


def _read(
    evidence: Records, schema: Schema, channel: MultisetChannel, law: PoolLaw, engine: Sandbox
) -> StagedReading:
    stages, last = deal(cast(Path, engine.view), evidence.rows, law.values)
    places = np.flatnonzero(stages < last)
    pilot = _rows_at(places, engine)
    laws = posterior_laws(law, multiplicities(channel, pilot), stages[places], last)
    split = StagedChannel(channel.attributes, _COLUMN, channel, laws)
    column = Attribute(_COLUMN, "quasi", IntegerRange(0, last))
    return StagedReading(
        replace(evidence, channels=(split, *evidence.channels[1:])),  # type: ignore[arg-type]
        Schema((*schema.attributes, column)),
        split,
        stages,
        pilot,
    )


def _rows_at(places: Places, engine: Sandbox) -> pa.Table:
    """Return the published rows at some places, in their order. The engine keeps the places."""
    _keep(engine, _PLACES, lambda: pa.table({_PLACE: places}))
    chosen = f"{_numbered(engine)} SEMI JOIN {quoted(_PLACES)} USING ({quoted(_PLACE)})"
    return engine.rows(f"SELECT * FROM {chosen} ORDER BY {quoted(_PLACE)}")


def _scaled_rows(reading: StagedReading) -> pa.Table:
    """Return the rows of all stages but the last, with their stages and scales."""
    places = np.flatnonzero(reading.stages < len(reading.channel.laws) - 1)
    own, shown = reading.stages[places], multiplicities(reading.channel.multisets, reading.pilot)
    scales = 1 / (shown * reading.factors[own]).sum(axis=1)
    scales = (scales + reading.rounding) - reading.rounding
    return reading.pilot.append_column(_COLUMN, [own]).append_column(_SCALE, [scales])


def _keep(engine: Sandbox, name: str, table: Callable[[], pa.Table]) -> None:
    """Let the engine keep a table, unless it does: it may, if a question was interrupted."""
    if name not in engine.derived:
        engine.keep_table(name, table())
        engine.derived[name] = True


def _numbered(engine: Sandbox) -> str:
    """Return the SQL of the published rows and their places in the file, from 0 on.

    Threads read parts of the file, unless it has a column with the name that DuckDB gives places.
    """
    number, place = "file_row_number", quoted(_PLACE)
    if number in map(str.lower, engine.schema.names):
        return f"(SELECT *, row_number() OVER () - 1 AS {place} FROM view)"
    path = file_literal(cast(Path, engine.view).resolve())
    return f"(SELECT *, {number} AS {place} FROM read_parquet({path}))"


def deal(file: Path, rows: int, values: int) -> tuple[Stages, int]:
    """Return the stage of every row of a published file, and the last stage."""
    with file.open("rb") as opened:
        seed = hashlib.file_digest(opened, "sha256").digest()
    coins = np.frombuffer(hashlib.shake_256(seed).digest(2 * rows), "<u2")
    ends = _stage_ends(rows, values)
    stage = np.searchsorted(ends, np.arange(_COINS), side="right").astype(np.uint8)
    return stage[coins], len(ends)


def _stage_ends(rows: int, values: int) -> list[int]:
    """Return the least coin of each stage but the first."""
    pilot = min(rows // 2, _PILOT_ROWS, _PILOT_CELLS // values)
    size = min(rows / _FIRST_SHARE, _FIRST_ROWS, pilot)
    ends, taken = [], 0.0
    while taken + size <= pilot:
        taken += size
        ends.append(max(round(taken / rows * _COINS), 1))
        size = taken
    return sorted(set(ends))


def posterior_laws(
    law: PoolLaw, counts: Floats, stages: Stages, last: int
) -> tuple[PosteriorLaw, ...]:
    """Return the law of every stage, from the multisets `counts` of rows of all but the last."""
    pool = np.array([float(share) for share in law.shares])
    laws, shares = [PosteriorLaw(law, pool)], pool
    for stage in range(last):
        shares = _likely_shares(counts[stages <= stage] / pool, shares)
        laws.append(PosteriorLaw(law, shares))
    return tuple(laws)


def _likely_shares(likelihoods: Floats, shares: Floats) -> Floats:
    """Return the shares of values of the largest likelihood, with `_PRIOR` rows of each value."""
    for _ in range(_ROUNDS):
        each = 1 / np.einsum("rv,v->r", likelihoods, shares)
        found = shares * np.einsum("rv,r->v", likelihoods, each) + _PRIOR
        shares = found / found.sum()
    return shares


def multiplicities(channel: MultisetChannel, batch: pa.RecordBatch | pa.Table) -> Floats:
    """Return the multiplicity of every value in every row."""
    columns = [batch.column(name).to_numpy() for name in channel.columns]
    if channel.layout == "counts":
        return np.stack(columns, axis=1, dtype=np.float64)
    values, rows = channel.law.values, np.arange(batch.num_rows)
    found = np.zeros(batch.num_rows * values)
    for codes in columns:
        found[rows * values + indices(codes, values)] += 1  # one member of each row at a time
    return found.reshape(batch.num_rows, values)


# --- what the estimators count -------------------------------------------------------------------


def staged_counts(
    engine: Sandbox,
    reading: StagedReading,
    unperturbed: Sequence[str],
    summed: str | None,
    filters: Sequence[str],
) -> GroupedCounts:
    """Add up posterior probabilities by `unperturbed` attributes, which the stage is one of."""
    source = _staged_rows(engine, reading)
    columns = [quoted(name) for name in unperturbed]
    amount = None if summed is None else AMOUNT
    scaled = [f"{quoted(_SCALE)}{power}" for power in member_powers(amount)]
    channel, limits = reading.channel.multisets, aggregates(amount)
    if channel.layout == "codes":
        members = ", ".join(map(quoted, channel.columns))
        source = f"(SELECT *, unnest([{members}]) AS {MEMBER} FROM {source}{where(filters)})"
        sums = [f"sum({each})" for each in scaled]
        found = aggregated(engine, [*columns, MEMBER], [*limits, *sums], (), source, amount=summed)
    else:
        counts = [f"CAST({quoted(name)} AS DOUBLE)" for name in channel.columns]
        sums = [f"sum({count} * {each})" for each in scaled for count in counts]
        found = aggregated(engine, columns, [*limits, *sums], filters, source, amount=summed)
    names = found.column_names
    shown = np.stack([floats(found[name]) for name in names[-len(sums) :]])
    numbers = [floats(found[name]) for name in names[-len(sums) - len(limits) : -len(sums)]]
    numbers = numbers if summed is not None else sums_of_ones(numbers[0])
    combinations = found.select(names[: len(columns)]).rename_columns(list(unperturbed))
    stage = combinations[_COLUMN].to_numpy().astype(np.intp)
    if channel.layout == "codes":
        cell = indices(found[names[len(columns)]].to_numpy(), channel.law.values).astype(np.intp)
        shown = shown * reading.factors[stage, cell]
        powers = [shown[min(power, len(shown) - 1)] for power in range(3)]
        return lines(reading.schema, combinations, cell, [*powers, *numbers[3:]])
    rows = lines(reading.schema, combinations, np.zeros(len(stage), np.intp), numbers)
    shown = shown.reshape(len(scaled), channel.law.values, -1)
    return expanded(rows, shown * reading.factors[stage].T)


def _staged_rows(engine: Sandbox, reading: StagedReading) -> str:
    """Return the SQL of all rows with their stages and scales.

    Those of the last stage are read from the file: what is kept of the others is next to nothing.
    """
    with _BUILDING:
        _keep(engine, _TABLE, lambda: _scaled_rows(reading))
    others = f"{_numbered(engine)} ANTI JOIN {quoted(_PLACES)} USING ({quoted(_PLACE)})"
    stage = f"CAST({len(reading.channel.laws) - 1} AS UTINYINT) AS {quoted(_COLUMN)}"
    last = f"SELECT *, {stage}, {_last_scale(reading)} AS {quoted(_SCALE)} FROM {others}"
    return f"({last} UNION ALL FROM {quoted(_TABLE)})"


def _last_scale(reading: StagedReading) -> str:
    """Return in SQL 1 / Σ q_v c_v of a row of the last stage, rounded as `rounding` says.

    Numbers have exponents: DuckDB takes others for decimals.
    """
    channel = reading.channel.multisets
    factors = [f"{factor:.17e}" for factor in reading.factors[-1]]
    if channel.layout == "counts":
        pairs = zip(channel.columns, factors, strict=True)
        whole = sql_sum([f"CAST({quoted(name)} AS DOUBLE) * {factor}" for name, factor in pairs])
    else:
        members = ", ".join(f"CAST({quoted(name)} AS BIGINT) + 1" for name in channel.columns)
        whole = f"list_sum(list_select([{', '.join(factors)}], [{members}]))"
    rounding = f"{reading.rounding:.17e}"
    return f"(1e0 / ({whole}) + {rounding}) - {rounding}"


def sql_sum(terms: Sequence[str]) -> str:
    """Return the SQL of a sum, in nested parts: DuckDB refuses expressions 1,000 levels deep."""
    while len(terms) > 1:
        parts = [terms[start : start + _TERMS] for start in range(0, len(terms), _TERMS)]
        terms = [f"({' + '.join(part)})" for part in parts]
    return terms[0]


class StagedTables(MultisetTables):
    """Contingency tables of posterior probabilities, in whole numbers of 1/`FIXED`."""

    def __init__(self, path: Path, reading: StagedReading) -> None:
        super().__init__(path, reading.schema, reading.channel.multisets)
        self._reading = reading

    def _part(self, layout: TableLayout, groups: RowGroups) -> npt.NDArray[np.uint64]:
        reading, columns = self._reading, [name for name in layout.columns if name != _COLUMN]
        counts = np.zeros(layout.size, np.uint64)
        with pq.ParquetFile(self._path) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        for group in groups:
            start = sum(sizes[:group])
            own = batches(self._path, self._schema, columns, [group], self._channel.columns)
            for batch in own:
                stages = reading.stages[start : start + batch.num_rows]
                start += batch.num_rows
                codes = codes_of(batch, self._schema, columns)
                # The stage is the last column of the schema.
                codes = np.concatenate([codes, stages[None]], dtype=np.result_type(codes, stages))
                shown = multiplicities(self._channel, batch) * reading.factors[stages]
                shown *= FIXED / shown.sum(axis=1, keepdims=True)
                multisets = np.rint(shown).astype(np.int64)
                layouts = (layout.places, layout.strides, layout.starts)
                count_members(codes, multisets, False, *layouts, counts)
        return counts
