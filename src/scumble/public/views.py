"""What releases of some mechanisms can do besides answering questions: `release.baskets.top(10)`.

| view                  | methods           | of releases by                                    |
|-----------------------|-------------------|---------------------------------------------------|
| `release.baskets`     | `top`, `rules`    | Baskets, DiffPart                                 |
| `release.sequences`   | `top`, `next`     | Sequences, Trajectories                           |
| `release.keys`        | `top`             | Keys                                              |
| `release.synthetic`   | `rows`, `quality` | whatever publishes counts                         |
| `release.marginals`   | `marginal`        | Marginals, Fourier, Datacube                      |
| `release.histogram`   | `sorted_counts`   | Histogram                                         |
| `release.generalised` | `labelled`, ...   | Generalise: the published rows themselves         |

Another release has no such attribute: `hasattr(release, "baskets")` says whether it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from scumble.families import view_mechanisms
from scumble.model.errors import MissingViewError, ReleaseError
from scumble.model.laws.base import check_level
from scumble.model.parameters import whole
from scumble.model.stored import DAMAGED
from scumble.public.estimate import LEVEL, Estimates
from scumble.public.estimate_table import EstimateTable

if TYPE_CHECKING:
    from scumble.public.release import Release
    from scumble.public.release_answers import ReleaseAnswers
    from scumble.public.synthesis.quality import Quality

MOST_ROWS = 10**8
_LISTS = ("baskets", "sequences", "keys")


@dataclass(frozen=True, eq=False)
class ListView:
    """The most frequent lists or keys of a release; `notes` are said of all of them."""

    reader: Any
    notes: tuple[str, ...]

    def top(self, k: int, *, length: int | None = None) -> Estimates:
        """Return the `k` most frequent sets, strings or keys, of `length` values if given."""
        with readable_data():
            estimates: Estimates = self.reader.top(k, length=length)
        estimates.about += self.notes
        return estimates


class KeyView(ListView):
    """`release.keys`: the most frequent keys."""


class BasketView(ListView):
    """`release.baskets`: the most frequent sets of items, and association rules."""

    def rules(self, *, support: float, confidence: float) -> EstimateTable:
        """Return association rules; `support` below 1 is a share of the baskets."""
        with readable_data():
            rules: EstimateTable = self.reader.rules(support, confidence)
        rules.about += self.notes
        return rules


class SequenceView(ListView):
    """`release.sequences`: the most frequent strings, and what comes next."""

    def next(self, context: Sequence[Any] = ()) -> pa.Table:
        """Return the probability of each value after `context`, and of the end (null)."""
        with readable_data():
            table: pa.Table = self.reader.next(context)
        return table


class DrawnRows(Protocol):
    """What draws rows of a release."""

    @property
    def expected(self) -> int:
        """The estimated number of rows of the private table."""
        ...

    def table(self, number: int, seed: int | None) -> pa.Table:
        """Return `number` rows."""
        ...

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far rows are from the noisy counts."""
        ...


@dataclass(frozen=True, eq=False)
class SyntheticView:
    """`release.synthetic`: rows drawn from the noisy counts."""

    source: DrawnRows

    def rows(self, n: int | None = None, *, seed: int | None = None) -> pa.Table:
        """Return `n` synthetic rows drawn from the noisy counts, by default about as many as the
        private table has. They cost no privacy; no interval holds for what is computed from them.
        """
        wanted = self.source.expected if n is None else whole("rows", "n", n, 0, MOST_ROWS)
        if seed is not None:
            whole("rows", "seed", seed, least=0)
        return self.source.table(wanted, seed)

    def quality(self, rows: pa.Table) -> Quality:
        """Return how far synthetic rows are from the noisy tables, never from the data, with a
        verdict for each column and pair. `quality(rows).save("quality.html")` writes a page.
        """
        return self.source.quality(rows)


@dataclass(frozen=True, eq=False)
class MarginalView:
    """`release.marginals`: whole tables of estimated counts."""

    answers: ReleaseAnswers

    def marginal(
        self, names: Sequence[str], *, nonnegative: bool = False, integers: bool = False
    ) -> pa.Table:
        """Return the estimated counts of all cells of some attributes.

        `nonnegative` fits consistent tables without negative cells, and `integers` rounds the
        counts and preserves their total. Both introduce a bias; `ask` uses neither.
        """
        return self.answers.marginal(names, nonnegative=nonnegative, integers=integers)


@dataclass(frozen=True, eq=False)
class HistogramView:
    """`release.histogram`: counts in falling order."""

    reader: Any

    def sorted_counts(self, level: float = LEVEL) -> pa.Table:
        """Return the counts in falling order, with limits that hold for all ranks at once. Which
        cell has a rank is not told.
        """
        counts: pa.Table = self.reader.sorted_counts(check_level(level))
        return counts


def list_view(release: Release) -> ListView:
    """Return the view of a release that has `top`, whichever it is."""
    for name in _LISTS:
        with suppress(MissingViewError):
            view: ListView = getattr(release, name)
            return view
    methods = [each for name in _LISTS for each in view_mechanisms(name)]
    raise _missing("top", methods)


def missing_view(name: str, told_by: str | None = None) -> MissingViewError:
    """Return the error for a view that a release does not have, perhaps because the sums of a
    column tell its counts.
    """
    if told_by is not None:
        return MissingViewError(
            f"This release has no '{name}': the sums of '{told_by}' tell its counts. Ask it by "
            "SQL, or publish a release without sums."
        )
    return _missing(name, view_mechanisms(name))


def _missing(name: str, methods: Sequence[str]) -> MissingViewError:
    *others, last = methods
    listed = f"{', '.join(others)} or {last}" if others else last
    return MissingViewError(
        f"This release has no '{name}': a release by {listed} has. Ask this one by SQL."
    )


@contextmanager
def readable_data() -> Iterator[None]:
    """Turn errors of reading into `ReleaseError`: the data do not fit the manifest."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ReleaseError(DAMAGED) from error
