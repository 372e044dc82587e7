"""Release: what was published, what is promised about it, and `answer`.

A release is saved as a folder: `manifest.json` and its Parquet files, each with a checksum. The
checksums detect damage and careless edits. They are not a signature: anyone who can write to the
folder can also write new checksums.
"""

from __future__ import annotations

import math
import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.families import verb_classes
from scumble.model.errors import ParameterError, ReleaseError
from scumble.model.evidence.evidence import Evidence
from scumble.model.laws.base import check_level
from scumble.model.long_work import part, portion
from scumble.model.notebook import html_list
from scumble.model.privacy.guarantee import Guarantees
from scumble.model.privacy.sampling import SAMPLED, Sample
from scumble.model.query import ListQuery, Query
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED
from scumble.public.archive import archive
from scumble.public.close_categories import queryable
from scumble.public.estimate import LEVEL, Estimate, Estimates
from scumble.public.estimate_table import EstimateTable, code_order
from scumble.public.estimation.bounds import note_impossible
from scumble.public.limits import one_question
from scumble.public.manifest import Manifest
from scumble.public.sandbox import OPEN, PLANNED, Sandbox

if TYPE_CHECKING:
    import pyarrow as pa

    from scumble.families.generalise.read import GeneralisedRows
    from scumble.public.estimation.estimators import Estimator
    from scumble.public.sandbox import Sandbox
    from scumble.public.sql.select_plan import SelectPlan
    from scumble.public.synthesis.release_rows import DrawnRows


@dataclass(repr=False)
class Release:
    """A published view or summary. `release.answer("SELECT COUNT(*) FROM t WHERE ...")`.

    `folder` holds its Parquet files; a `temporary` folder is removed together with the object.
    `remarks` are for the owner who published it and are not saved.
    """

    manifest: Manifest
    folder: Path
    temporary: bool = False
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.temporary:
            self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @property
    def schema(self) -> Schema:
        return self.manifest.schema

    @property
    def guarantees(self) -> Guarantees:
        return self.manifest.guarantees

    @property
    def evidence(self) -> Evidence:
        return self.manifest.evidence

    def answer(
        self,
        sql: str | Query | SelectPlan,
        *,
        tables: Mapping[str, Any] | None = None,
        clamp: bool = False,
    ) -> Estimate | Estimates | EstimateTable:
        """Answer one question: return an `Estimate`, or `Estimates` for a GROUP BY.

        A SELECT with several aggregates gives an `EstimateTable`. `tables` are public side tables
        by name, as paths or data frames, for joins and conditions such as `IN (SELECT ... FROM
        name)`. `clamp` cuts counts to the range of possible counts, which introduces a bias.
        """
        with one_question(), _readable_data():
            sandbox = self._sandbox_with(tables)
            query = self._parsed(sql, sandbox)
            if isinstance(query, Query):
                return self._present(query, self._answered([query], sandbox)[0], clamp)
            return self._select(query, sandbox, clamp)

    def answer_many(
        self,
        questions: Iterable[str | Query],
        *,
        tables: Mapping[str, Any] | None = None,
        clamp: bool = False,
    ) -> list[Estimate | Estimates | EstimateTable]:
        """Answer many questions, in their order, with few passes over the published data."""
        if isinstance(questions, (str, bytes, Query)) or not isinstance(questions, Iterable):
            raise ParameterError.of("answer_many", "questions", "a list of questions", questions)
        sandbox = self._sandbox_with(tables)
        queries = self._all_parsed(list(questions), sandbox)
        plain = [query for query in queries if isinstance(query, Query)]
        rows = iter(self._answered(plain, sandbox))
        return [
            self._present(query, next(rows), clamp)
            if isinstance(query, Query)
            else self._select(query, sandbox, clamp)
            for query in queries
        ]

    def marginal(
        self, names: Sequence[str], *, nonnegative: bool = False, integers: bool = False
    ) -> pa.Table:
        """Return the estimated counts of all cells of some attributes, from a release of marginals.

        `nonnegative` fits consistent tables without negative cells, and `integers` rounds the
        counts and preserves their total. Both introduce a bias; `answer` uses neither.
        """
        self._check_whole("marginal")
        from scumble.public.estimation.marginal_tables import marginal_table

        held = self.evidence, self._queryable, self._sandbox
        return marginal_table(*held, names, nonnegative=nonnegative, integers=integers)

    def sorted_counts(self, level: float = LEVEL) -> pa.Table:
        """Return the counts of a histogram in falling order, with limits that hold for all ranks
        at once. Which cell has a rank is not told.
        """
        self._check_whole("sorted_counts")
        check_level(level)
        reader = self._reader_with("sorted_counts")
        if reader is None:
            raise ReleaseError(
                "Sorted counts are read from a release by Histogram; this is another."
            )
        counts: pa.Table = reader.sorted_counts(level)
        return counts

    def rows(self, n: int | None = None, *, seed: int | None = None) -> pa.Table:
        """Return `n` synthetic rows drawn from the noisy counts, by default about as many as the
        private table has. They cost no privacy; no interval holds for what is computed from them.
        """
        from scumble.public.synthesis.release_rows import drawn

        return drawn(self._synthetic, n, seed)

    def quality(self, rows: pa.Table) -> pa.Table:
        """Return how far synthetic rows are from the noisy tables, never from the data."""
        return self._synthetic.quality(rows)

    @property
    def _synthetic(self) -> DrawnRows:
        self._check_whole("rows")
        from scumble.public.synthesis.release_rows import rows_of

        with _readable_data():
            return rows_of(self.evidence, self._queryable, self._sandbox)

    def next(self, context: Sequence[Any] = ()) -> pa.Table:
        """Return the probability of each value after `context`, and of the end (null)."""
        with _readable_data():
            table: pa.Table = self._list_reader("next").next(context)
        return table

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the `k` most frequent sets, strings or keys, of `length` values if given."""
        with _readable_data():
            estimates: Estimates = self._list_reader("top").top(k, length=length)
        estimates.about += self.manifest.left_out()
        return estimates

    def rules(self, *, support: float, confidence: float) -> EstimateTable:
        """Return the association rules of a release of baskets; `support` below 1 is a share."""
        with _readable_data():
            rules: EstimateTable = self._list_reader("rules").rules(support, confidence)
        rules.about += self.manifest.left_out()
        return rules

    def generalised(self) -> GeneralisedRows:
        """Return the rows of a release by generalise: their labels, and what was changed."""
        [kind] = verb_classes("generalised")
        with _readable_data():
            rows: GeneralisedRows = kind.read(self.schema, self.evidence, self.folder)
        return rows

    def _list_reader(self, verb: str) -> Any:
        """Return what has the method `verb` for lists or keys."""
        reader = self._reader_with(verb)
        if reader is None:
            raise ParameterError(
                f"This release has no '{verb}': that is for releases of lists or keys."
            )
        return reader

    def _reader_with(self, verb: str) -> Any:
        """Return what has the method `verb` for this release; None if there is none."""
        from scumble.public.estimation.measurements.readers import reader_with

        return reader_with(self.evidence, self._queryable, self._sandbox, verb)

    def parse(self, sql: str, *, tables: Mapping[str, Any] | None = None) -> Query | SelectPlan:
        """Parse and check a question, which can then be answered several times."""
        sandbox = self._sandbox_with(tables)
        query = self._parsed(sql, sandbox)
        if isinstance(query, Query) and not isinstance(query, ListQuery):
            sandbox.check(query)
        return query

    def save(
        self, folder: str | Path, *, force: bool = False, insecure: bool = False
    ) -> Path | str:
        """Write the release to a new folder; an existing release is replaced only with `force`.

        `folder` can also be the address of a table: `postgresql://user@host/database/schema.name`
        or `sqlite:///file.db/name`. A release made with a fixed seed is written only with
        `insecure`. Returns the place.
        """
        saved = archive.save(self, folder, force=force, insecure=insecure)
        if self.temporary and isinstance(saved, Path):
            # From now on this release reads the saved folder.
            self.__dict__.pop("_sandbox", None)
            self.folder, self.temporary = saved.resolve(), False
            self._remove()
        return saved

    def __repr__(self) -> str:
        promises = "\n".join(f"  {guarantee}" for guarantee in self.guarantees)
        columns = ", ".join(self.evidence.columns)
        leak = self.schema.from_data
        warning = f"\n  NOT COVERED: domains read from the data ({', '.join(leak)})" if leak else ""
        return f"Release by {self.manifest.mechanism} of {columns}\n{promises}{warning}"

    def _repr_html_(self) -> str:
        title = f"Release by {self.manifest.mechanism} of {', '.join(self.evidence.columns)}"
        return html_list(title, map(str, self.guarantees))

    @cached_property
    def _queryable(self) -> Schema:
        """The attributes of the evidence, and the identifiers, which questions must not name."""
        identifiers = [attribute.name for attribute in self.schema.identifiers]
        known = {*self.evidence.columns, *identifiers}
        schema = self.schema.select([name for name in self.schema.names if name in known])
        return queryable(schema, self.evidence, self.folder) if schema.open else schema

    @cached_property
    def _sandbox(self) -> Sandbox:
        return self._new_sandbox({})

    def _new_sandbox(self, tables: Mapping[str, Any]) -> Sandbox:
        main, *others = self.evidence.files
        found = Sandbox(
            self._queryable,
            tables,
            self.folder / main,
            {Path(name).stem: self.folder / name for name in others},
        )
        planned = self.manifest.parameters.get("queries")
        if isinstance(planned, list):
            found.derived[PLANNED] = tuple(filter(lambda text: isinstance(text, str), planned))
        found.derived[OPEN] = frozenset(each.name for each in self.schema.open)
        return found

    def _sandbox_with(self, tables: Mapping[str, Any] | None) -> Sandbox:
        return self._new_sandbox(tables) if tables else self._sandbox

    def _all_parsed(
        self, questions: Sequence[str | Query], sandbox: Sandbox
    ) -> list[Query | SelectPlan]:
        """Return questions as they are asked; texts that differ by literals are parsed together."""
        if not any(isinstance(sql, str) for sql in questions):
            return [self._parsed(sql, sandbox) for sql in questions]
        from scumble.public.sql.templates import TemplateParser

        templates = TemplateParser(self._queryable, sandbox.columns)
        return [
            templates.read(sql)
            if isinstance(sql, str) and self.evidence.find_sequence(sql) is None
            else self._parsed(sql, sandbox)
            for sql in questions
        ]

    def _parsed(self, sql: str | Query | SelectPlan, sandbox: Sandbox) -> Query | SelectPlan:
        if not isinstance(sql, str):
            if not isinstance(sql, Query):
                from scumble.public.sql.select_plan import SelectPlan

                if not isinstance(sql, SelectPlan):
                    raise ParameterError.of("answer", "sql", "the text of a question", sql)
            for name in sql.attributes:
                self._queryable[name]  # raises SchemaError for an unknown name
            return sql
        column = self.evidence.find_sequence(sql)
        if column is None:
            from scumble.public.sql.parse import read_select_with

            return read_select_with(sql, self._queryable, sandbox)
        from scumble.public.estimation.measurements.readers import read_strings

        return read_strings(self.evidence, self._queryable, sql, column)

    def _answered(self, queries: Sequence[Query], sandbox: Sandbox) -> list[dict[Any, Estimate]]:
        """Return the groups of each question with their estimates, in few passes over the data."""
        estimator = self._estimator(sandbox)
        if len(queries) == 1:
            rows, shared = [estimator.one(queries[0])], 0.0
        else:
            shared = 0.5  # what is found for all questions together takes about as long as the rest
            with portion(0, shared):
                rows = list(estimator.many(queries))
        answers = []
        with portion(shared, 1):
            for number, (query, found) in enumerate(zip(queries, rows, strict=True)):
                with part(number, len(queries)):
                    given = dict(found)
                    if query.aggregate == "sum" and not query.groups:
                        given = {
                            key: estimator.null_sum(query, each) for key, each in given.items()
                        }
                notes = self.manifest.left_out(query.attributes)
                answers.append({key: _noted(each, notes) for key, each in given.items()})
        return answers

    def _select(
        self, plan: SelectPlan, sandbox: Sandbox, clamp: bool
    ) -> Estimate | Estimates | EstimateTable:
        """Answer a SELECT that is more than one COUNT, SUM or AVG by attributes."""
        from scumble.public.estimation.selecting.selection import select

        if clamp:
            raise ParameterError("Only a plain count can be clamped: this question is more.")
        found = select(plan, self._queryable, sandbox, lambda some: self._answered(some, sandbox))
        limits = [(0.0, self._most_rows) if item.is_count else () for item in plan.items]
        if isinstance(found, Estimate):
            return note_impossible(found, *limits[0])
        if isinstance(found, EstimateTable):
            found.rows = tuple(
                (key, tuple(note_impossible(e, *most) for e, most in zip(row, limits, strict=True)))
                for key, row in found.rows
            )
        else:
            found.rows = tuple((key, note_impossible(e, *limits[0])) for key, e in found.rows)
        return found

    def _estimator(self, sandbox: Sandbox) -> Estimator:
        from scumble.public.estimation.estimators import Estimator

        if SAMPLED not in self.manifest.report:
            return Estimator(self.evidence, self._queryable, sandbox)
        from scumble.public.estimation.sampled import SampledEstimator

        sample = Sample.from_dict(self.manifest.report[SAMPLED])
        return SampledEstimator(self.evidence, self._queryable, sandbox, sample)

    def _check_whole(self, verb: str) -> None:
        """Refuse what would tell about the sample as if it were the table."""
        if SAMPLED in self.manifest.report:
            raise ReleaseError(
                f"This release is about a sample of the people, and {verb} would tell about those "
                "alone. Ask by SQL: answers are about the whole table."
            )

    def _present(
        self, query: Query, rows: Mapping[Any, Estimate], clamp: bool
    ) -> Estimate | Estimates:
        found = list(rows.items())
        if clamp:
            found = [(key, self._clamped(query, estimate)) for key, estimate in found]
        limits = (0.0, self._most_rows) if query.aggregate == "count" else ()
        found = [(key, note_impossible(estimate, *limits)) for key, estimate in found]
        if not query.groups:
            [(_, estimate)] = found
            return replace(estimate, alias=query.aliases[-1]) if query.aliases else estimate
        schema = self._queryable
        order = code_order(schema, query.groups, [key for key, _ in found])
        found = [found[place] for place in order]
        types = [(name, schema[name].arrow_type) for name in query.groups]
        return Estimates(types, found, query.notes, query.aliases)

    def _clamped(self, query: Query, estimate: Estimate) -> Estimate:
        if query.aggregate != "count":
            raise ParameterError(
                "Only counts can be clamped: sums and averages have no known limits."
            )
        return estimate.clamped(0.0, self._most_rows)

    @property
    def _most_rows(self) -> float:
        """The number of rows that answers are about; infinite if it is not told."""
        sample = self.manifest.report.get(SAMPLED, {})
        rows = sample.get("people") if sample else self.evidence.rows
        return math.inf if rows is None else rows + self.evidence.missing


def _noted(estimate: Estimate, notes: tuple[str, ...]) -> Estimate:
    return replace(estimate, notes=(*estimate.notes, *notes)) if notes else estimate


@contextmanager
def _readable_data() -> Iterator[None]:
    """Turn errors of reading into `ReleaseError`: the data do not fit the manifest."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ReleaseError(DAMAGED) from error
