"""Release: what was published, what is promised about it, and `ask`.

A release is saved as a folder: `manifest.json` and its Parquet files, each with a checksum. The
checksums detect damage and careless edits. They are not a signature: anyone who can write to the
folder can also write new checksums.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scumble.families import verb_classes
from scumble.model.errors import ParameterError, ReleaseError
from scumble.model.evidence.evidence import Evidence
from scumble.model.notebook import html_list
from scumble.model.privacy.guarantee import Guarantees
from scumble.model.privacy.sampling import SAMPLED
from scumble.model.query import ListQuery, Query
from scumble.model.schema.schema import Schema
from scumble.public.archive import archive
from scumble.public.asking import Asking
from scumble.public.close_categories import queryable
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable
from scumble.public.limits import one_question
from scumble.public.manifest import Manifest
from scumble.public.sandbox import OPEN, PLANNED, Sandbox
from scumble.public.views import (
    BasketView,
    HistogramView,
    KeyView,
    MarginalView,
    SequenceView,
    SyntheticView,
    missing_view,
    readable_data,
)

if TYPE_CHECKING:
    from scumble.families.generalise.read import GeneralisedRows
    from scumble.public.release_answers import ReleaseAnswers
    from scumble.public.sql.select_plan import SelectPlan


_VIEWS = frozenset("baskets sequences keys synthetic marginals histogram generalised".split())


@dataclass(repr=False)
class Release(Asking):
    """A published view or summary. `release.ask("SELECT COUNT(*) FROM t WHERE ...")`.

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

    def ask(
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
        with one_question(), readable_data():
            return self._answers(tables).answer(sql, clamp)

    answer = ask

    def ask_many(
        self,
        questions: Iterable[str | Query],
        *,
        tables: Mapping[str, Any] | None = None,
        clamp: bool = False,
    ) -> list[Estimate | Estimates | EstimateTable]:
        """Answer many questions, in their order, with few passes over the published data."""
        if isinstance(questions, (str, bytes, Query)) or not isinstance(questions, Iterable):
            raise ParameterError.of("ask_many", "questions", "a list of questions", questions)
        return self._answers(tables).answer_many(list(questions), clamp)

    answer_many = ask_many

    def __dir__(self) -> list[str]:
        """Leave out the views that this release does not have."""
        return [name for name in super().__dir__() if name not in _VIEWS or self._has_view(name)]

    def _has_view(self, name: str) -> bool:
        try:
            return hasattr(self, name)
        except ReleaseError:  # damaged, which asking says
            return False

    @property
    def baskets(self) -> BasketView:
        """The most frequent sets of items and their rules, of a release by baskets or diffpart."""
        return BasketView(self._view_reader("baskets", "rules"), self.manifest.left_out())

    @property
    def sequences(self) -> SequenceView:
        """Frequent strings and what comes next, of a release by sequences or trajectories."""
        return SequenceView(self._view_reader("sequences", "next"), self.manifest.left_out())

    @property
    def keys(self) -> KeyView:
        """The most frequent keys, of a release by keys."""
        reader = self._view_reader("keys", "top")
        if hasattr(reader, "rules") or hasattr(reader, "next"):
            raise missing_view("keys")
        return KeyView(reader, self.manifest.left_out())

    @property
    def synthetic(self) -> SyntheticView:
        """Synthetic rows, of a release of counts."""
        self._check_whole("rows")
        with readable_data():
            return SyntheticView(self._answers().synthetic_rows())

    @property
    def marginals(self) -> MarginalView:
        """Whole tables of counts, of a release by marginals, fourier or datacube."""
        self._check_whole("marginal")
        self._view_reader("marginals", "marginal")
        return MarginalView(self._answers())

    @property
    def histogram(self) -> HistogramView:
        """Counts in falling order, of a release by histogram."""
        self._check_whole("sorted_counts")
        return HistogramView(self._view_reader("histogram", "sorted_counts"))

    @property
    def generalised(self) -> GeneralisedRows:
        """The rows of a release by generalise: their labels, and what was changed."""
        [kind] = verb_classes("generalised")
        with readable_data():
            rows: GeneralisedRows = kind.read(self.schema, self.evidence, self.folder)
        return rows

    def _view_reader(self, view: str, verb: str) -> Any:
        """Return what has the method `verb` of a view; the view is missing if nothing has."""
        with readable_data():
            reader = self._reader_with(verb)
        if reader is None:
            raise missing_view(view, self.evidence.counts_told_by)
        return reader

    def _reader_with(self, verb: str) -> Any:
        """Return what has the method `verb` for this release; None if there is none."""
        return self._answers().reader_with(verb)

    def parse(self, sql: str, *, tables: Mapping[str, Any] | None = None) -> Query | SelectPlan:
        """Parse and check a question, which can then be answered several times."""
        answers = self._answers(tables)
        query = answers.read(sql)
        if isinstance(query, Query) and not isinstance(query, ListQuery):
            answers.sandbox.check(query)
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

    def __reduce__(self) -> tuple[Any, ...]:
        """A release that was saved is pickled as its place, another one with its files."""
        return _unpickle, (type(self), self._packed, {})

    @property
    def _packed(self) -> Path | dict[str, bytes]:
        return archive.pack(self) if self.temporary else self.folder

    def __repr__(self) -> str:
        promises = "\n".join(f"  {guarantee}" for guarantee in self.guarantees)
        warning = "".join(f"\n  {each}" for each in self._not_covered)
        return f"{self._title}\n{promises}{warning}"

    def _repr_html_(self) -> str:
        return html_list(self._title, [*map(str, self.guarantees), *self._not_covered])

    @property
    def _title(self) -> str:
        title = f"Release by {self.manifest.mechanism} of {', '.join(self.evidence.columns)}"
        sums = (*self.evidence.sum_columns, *self.evidence.moments)
        return f"{title}, with sums of {', '.join(sums)}" if sums else title

    @property
    def _not_covered(self) -> tuple[str, ...]:
        """What no promise covers, in a sentence; empty if the owner declared all domains."""
        leak = self.schema.from_data
        return (f"NOT COVERED: domains read from the data ({', '.join(leak)})",) if leak else ()

    @cached_property
    def _queryable(self) -> Schema:
        """The attributes of the evidence and of its sums, and the identifiers, which questions must
        not name.
        """
        identifiers = [attribute.name for attribute in self.schema.identifiers]
        known = {*self.evidence.columns, *self.evidence.sum_columns, *identifiers}
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

    def _answers(self, tables: Mapping[str, Any] | None = None) -> ReleaseAnswers:
        """Return what answers questions, which may name side tables."""
        # Publishing and showing a release need no reader of SQL.
        from scumble.public.release_answers import ReleaseAnswers

        sandbox = self._new_sandbox(tables) if tables else self._sandbox
        return ReleaseAnswers(self.manifest, self._queryable, sandbox, self._current)

    def _current(self, given: ReleaseAnswers) -> ReleaseAnswers:
        """Return `given`, or others that read the folder to which the release was saved since."""
        if given.sandbox.view == self._sandbox.view:
            return given
        return self._answers(given.sandbox.side_tables)

    def _check_whole(self, verb: str) -> None:
        """Refuse what would tell about the sample as if it were the table."""
        if SAMPLED in self.manifest.report:
            raise ReleaseError(
                f"This release is about a sample of the people, and {verb} would tell about those "
                "alone. Ask by SQL: answers are about the whole table."
            )


def _unpickle(
    kind: type[Release], packed: Path | dict[str, bytes], more: Mapping[str, Any]
) -> Release:
    """Return the release that was pickled as its place or with its files."""
    if isinstance(packed, Path):
        manifest, folder, temporary = archive.read(packed)
    else:
        (manifest, folder), temporary = archive.unpack(packed), True
    return kind(manifest, folder, temporary=temporary, **more)
