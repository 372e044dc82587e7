"""Tuples, true and false, and their inclusion probabilities: how likely a tuple is in a published
view, if it is true or false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, inf, log, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scumble.model import stored
from scumble.model.evidence.channels import UniformChannel
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.computed import Computed, at_most, compute_exposure, worst
from scumble.model.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema

SEEN_ONCE = "(d, γ)-privacy of a row seen once"
MOST_VIEWS = 63  # as many bits as a published whole number has


@dataclass(frozen=True)
class ReplacedTuples:
    """The law of a published multiset: every true tuple is kept with probability `keep`, and else
    replaced by a uniform tuple of the whole domain. The view has as many rows as the table.
    """

    kind: ClassVar[str] = "replaced"
    main_promise: ClassVar[str] = "ε-LDP"

    rows: int
    keep: Fraction

    def amplifications(self, columns: tuple[str, ...], schema: Schema) -> list[Fraction | None]:
        """Return the amplification of the channel of a whole row."""
        return [UniformChannel(columns, self.keep).amplification(schema)]

    def compute_promise(self, promise: Guarantee, size: int) -> Computed | None:
        """Return the number of a promise about rows, of `size` possible ones; None if it follows
        from the amplification alone.
        """
        if promise.statement == "p-exposure":
            return compute_exposure(promise, self.keep + (1 - self.keep) / size, size)
        if promise.statement == SEEN_ONCE:
            return _compute_seen(Counts(self.rows, size, self.keep), promise)
        return None

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rows": self.rows, "keep": str(self.keep)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReplacedTuples:
        return cls(stored.whole(data["rows"]), stored.share(data["keep"]))


@dataclass(frozen=True)
class InclusionProbabilities:
    """The law of a published set: a true tuple is in the view with probability `keep`, a false one
    with probability `noise`.

    `sources` maps attributes to weights p_j that add up to 1; attributes without weights are
    uniform. Then a false tuple t is present with probability noise · |D| · Π p_j(t_j), and a true
    one with `keep - noise` more. The mean over the domain D is `noise` in either case.

    Up to `multiplicity` copies of a tuple count as different tuples, which the column `occurrence`
    of the file tells apart. The file has this column only if `multiplicity` is above 1.

    With `most` views, a row of the file is a tuple that is in at least one of the `views` made so
    far. Bit i - 1 of its column `views` tells whether view i has it. The file has this column only
    if `most` is above 1. In view i > 1 a true tuple is present with probability `keep`, a false one
    that an earlier view has with keep · `fade`, any other with noise · (1 - keep)^(i - 1).
    """

    kind: ClassVar[str] = "included"
    main_promise: ClassVar[str] = "ε-DP"
    occurrence: ClassVar[str] = "occurrence"
    views_column: ClassVar[str] = "views"

    rows: int
    keep: Fraction
    noise: Fraction
    multiplicity: int = 1
    sources: Mapping[str, tuple[Fraction, ...]] | None = None
    most: int = 1
    views: int = 1
    fade: Fraction = Fraction(1)
    collapsed: bool = False  # duplicate rows of the table were removed

    def noise_of(self, view: int) -> Fraction:
        """Return the probability of a false tuple in the given view (from 1 on), if no earlier
        view has it.
        """
        return self.noise * (1 - self.keep) ** (view - 1)

    def amplifications(self, columns: tuple[str, ...], schema: Schema) -> list[Fraction | None]:
        """Return nothing: no row is perturbed by itself."""
        return []

    def compute_promise(self, promise: Guarantee, size: int) -> Computed | None:
        """Return the number of a promise about tuples, of `size` possible ones."""
        compute = _COMPUTED.get(promise.statement)
        return (
            None if compute is None else compute(TupleOdds(self, size * self.multiplicity), promise)
        )

    def to_dict(self) -> dict[str, Any]:
        sources = {name: list(map(str, shares)) for name, shares in (self.sources or {}).items()}
        return {
            "kind": self.kind,
            "rows": self.rows,
            "kept": str(self.keep),
            "noise": str(self.noise),
            "multiplicity": self.multiplicity,
            "sources": sources or None,
            "most": self.most,
            "views": self.views,
            "fade": str(self.fade),
            "collapsed": self.collapsed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InclusionProbabilities:
        given = data["sources"]
        views, most = (stored.whole(data[name], 1) for name in ("views", "most"))
        if not views <= most <= MOST_VIEWS:
            raise ValueError("more views than a release can have")
        return cls(
            rows=stored.whole(data["rows"]),
            keep=stored.share(data["kept"]),
            noise=stored.share(data["noise"]),
            multiplicity=stored.whole(data["multiplicity"], 1),
            sources=given
            and {name: stored.items(stored.share, shares) for name, shares in given.items()},
            most=most,
            views=views,
            fade=stored.share(data["fade"]),
            collapsed=stored.flag(data["collapsed"]),
        )


Presence = ReplacedTuples | InclusionProbabilities
_KINDS: Mapping[str, Any] = {kind.kind: kind for kind in (ReplacedTuples, InclusionProbabilities)}


def presence_from_dict(data: Mapping[str, Any]) -> Presence:
    """Return the law that a manifest holds as `data`."""
    presence: Presence = _KINDS[data["kind"]].from_dict(data)
    return presence


@dataclass(frozen=True)
class Tuples(Evidence):
    """True and false tuples of the product of `columns`; `presence` has their inclusion
    probabilities.
    """

    kind: ClassVar[str] = "tuples"

    file: str
    columns: tuple[str, ...]
    presence: Presence

    @property
    def main_promises(self) -> frozenset[str]:
        return frozenset({self.presence.main_promise})

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,)

    @property
    def rows(self) -> int:
        """The number of true rows, which is public since the probabilities depend on it."""
        return self.presence.rows

    def amplifications(self, schema: Schema) -> list[Fraction | None]:
        return self.presence.amplifications(self.columns, schema)

    def compute_promise(self, promise: Guarantee, schema: Schema, folder: Path) -> Computed | None:
        number = self.presence.compute_promise(promise, schema.size(self.columns))
        return number or super().compute_promise(promise, schema, folder)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "presence": self.presence.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tuples:
        return cls(
            stored.data_file(data["file"]),
            stored.items(stored.text, data["columns"]),
            presence_from_dict(data["presence"]),
        )


# --- odds -----------------------------------------------------------------------------------------
#
# Tuples that views show or not: how far the pattern of a tuple can move the odds that it is true.
# All patterns are enumerated, with the published probabilities.


@dataclass(frozen=True)
class Pattern:
    """A set of views that show a tuple: its probability if the tuple is true and if it is false.

    `times` is the number of patterns with these probabilities.
    """

    true: Fraction
    false: Fraction
    times: int


def patterns(
    presence: InclusionProbabilities, relative: Fraction = Fraction(1)
) -> Iterator[Pattern]:
    """Yield every pattern of the views: the first view that shows the tuple, and how many of the
    later ones do. The last pattern is that no view shows it.

    Sources make false tuples more or less likely than in the mean, by the factor `relative`; then
    there is only one view.
    """
    keep, faded = presence.keep, presence.keep * presence.fade
    own = keep + (relative - 1) * presence.noise
    true = false = Fraction(1)  # no view so far
    for view in range(1, presence.views + 1):
        noise, later = presence.noise_of(view) * relative, presence.views - view
        for again in range(later + 1):
            yield Pattern(
                true * own * keep**again * (1 - keep) ** (later - again),
                false * noise * faded**again * (1 - faded) ** (later - again),
                comb(later, again),
            )
        true, false = true * (1 - own), false * (1 - noise)
    yield Pattern(true, false, 1)


@dataclass(frozen=True)
class TupleOdds:
    """Likelihood ratios and posteriors of a tuple, out of `domain` possible ones.

    With sources it is enough to consider the tuples that noise shows least and most often: all
    ratios of true to false fall as the share in the sources grows, and posteriors of priors that
    are proportional to that share are largest at one of its ends too.
    """

    law: InclusionProbabilities
    domain: int

    @cached_property
    def _seen(self) -> list[tuple[Fraction, Pattern]]:
        """The share of a tuple in the sources, and each pattern of positive probability."""
        sources = list((self.law.sources or {}).values())
        ends = [
            prod((len(shares) * end(shares) for shares in sources), start=Fraction(1))
            for end in (min, max)
        ]
        return [
            (relative / self.domain, pattern)
            for relative in dict.fromkeys(ends)
            for pattern in patterns(self.law, relative)
            if pattern.true or pattern.false
        ]

    @cached_property
    def least(self) -> Fraction:
        """The smallest ratio: the factor by which a prior near 0 can fall; others fall by less."""
        return min(pattern.true / pattern.false for _, pattern in self._seen if pattern.false)

    @cached_property
    def most(self) -> Fraction | None:
        """The largest ratio; None if it is unbounded."""
        if any(not pattern.false for _, pattern in self._seen):
            return None
        return max(pattern.true / pattern.false for _, pattern in self._seen)

    def end(self, prior: Fraction) -> Fraction:
        """Return the highest posterior of a tuple with this prior, if tuples are independent."""
        return max(_bayes(prior, pattern.true, pattern.false) for _, pattern in self._seen)

    def end_by_share(self, k: Fraction) -> Fraction:
        """Return the highest posterior for a prior of k · rows · (share in the sources)."""
        rows = max(self.law.rows, 1)
        return max(
            _bayes(min(k * rows * share, Fraction(1)), pattern.true, pattern.false)
            for share, pattern in self._seen
        )

    def end_of_one(self, prior: Fraction) -> Fraction:
        """Return the highest posterior if exactly one of several tuples is true and no prior is
        above `prior`: one tuple shows its likeliest pattern, all others their unlikeliest.
        """
        return Fraction(1) if self.most is None else _bayes(prior, self.most, self.least)

    def loss(self, *, replaced: bool) -> float:
        """Return the largest loss of a tuple that is added or removed or, if `replaced`, exchanged
        for another one, which then has a pattern of its own.
        """
        up = inf if self.most is None else log(self.most)
        down = -log(self.least) if self.least else inf
        return up + down if replaced else max(up, down)


def _bayes(prior: Fraction, true: Fraction, false: Fraction) -> Fraction:
    """Return the posterior; 0 for a pattern of probability 0."""
    seen = prior * true + (1 - prior) * false
    return prior * true / seen if seen else Fraction(0)


def _compute_posterior(odds: TupleOdds, promise: Guarantee) -> Computed | None:
    """Return how far the prior of a tuple can rise and, where that is promised, fall."""
    given = promise.parameters
    if "d" in given:
        end = odds.end(Fraction(given["d"]))
    elif "k" in given and odds.law.sources:
        end = odds.end_by_share(Fraction(given["k"]))
    else:
        return None
    low = given.get("least", 0.0)
    if odds.least < Fraction(low):
        what = "one through the smallest factor by which a prior can fall"
        return Computed(1 / float(odds.least) if odds.least else inf, 1 / low, what)
    return at_most(promise, "gamma", float(end), "the highest posterior of a tuple")


def _compute_exclusive(odds: TupleOdds, promise: Guarantee) -> Computed:
    end = odds.end_of_one(Fraction(promise.parameters["d"]))
    what = "the highest posterior of one of several tuples of which exactly one is true"
    return at_most(promise, "gamma", float(end), what)


def _compute_loss(odds: TupleOdds, promise: Guarantee) -> Computed:
    loss = odds.loss(replaced=promise.neighbourhood != "add or remove one person")
    return at_most(promise, "epsilon", loss, "the loss of one tuple, view by view")


_COMPUTED: Mapping[str, Callable[[TupleOdds, Guarantee], Computed | None]] = {
    "(d, γ)-privacy": _compute_posterior,
    "(d, γ), d-exclusive attackers": _compute_exclusive,
    "ε-DP": _compute_loss,
}


# --- rows that are replaced -----------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """The law of how often a tuple t of the domain is published, if one of n rows is t and if none
    is.

    A row that is not t shows t with probability q = (1-p)/m, one that is with s = p + q. So the
    count is Bin(n, q) if t is in no row, and one Bernoulli(s) plus Bin(n-1, q) if it is in one.
    """

    rows: int
    size: int
    keep: Fraction

    @property
    def other(self) -> Fraction:
        return (1 - self.keep) / self.size

    @property
    def own(self) -> Fraction:
        return self.keep + self.other

    def ratio(self, times: int) -> Fraction:
        """Return the likelihood ratio of the tuple being published c = `times` times, if it is in
        one row against none: s·c/(n q) + (1-s)(n-c)/(n(1-q)), since both laws share their
        binomials.
        """
        seen = self.own * times / (self.rows * self.other)
        unseen = (1 - self.own) * (self.rows - times) / (self.rows * (1 - self.other))
        return seen + unseen

    def posterior(self, prior: Fraction, times: int) -> Fraction:
        odds = prior / (1 - prior) * self.ratio(times)
        return odds / (1 + odds)

    def bound_repeats(self, times: int) -> Fraction:
        """Return an upper bound on the mean number of different tuples published `times` times or
        more, in a table whose rows all differ; also a bound on the probability that there is any.

        P(Bin(n, q) >= c) is at most C(n, c) q^c: there are C(n, c) ways to choose c rows.
        """
        q, n = self.other, self.rows
        false = self.size * comb(n, times) * q**times
        others = comb(n - 1, times) * q**times if n else Fraction(0)
        more = comb(n - 1, times - 1) * q ** (times - 1) if n else Fraction(0)
        return false + n * (self.own * more + (1 - self.own) * others)


def _compute_seen(counts: Counts, promise: Guarantee) -> Computed:
    """Return what an attacker believes of a row that is published once or twice, and how many rows
    are published twice.
    """
    given, keep = promise.parameters, counts.keep
    k = Fraction(given["k"])
    first = k * keep / (1 - keep + k * keep)
    about = at_most(promise, "first order gamma", float(first), "the posterior of a row, about,")
    if counts.rows < 2:
        return about
    prior = max(Fraction(given["d"]), k * counts.rows / counts.size)
    once, twice = (float(counts.posterior(prior, times)) for times in (1, 2))
    return worst(
        (
            at_most(promise, "once", once, "the posterior of a row that is published once"),
            at_most(promise, "twice", twice, "the posterior of a row that is published twice"),
            at_most(
                promise, "repeated", float(counts.bound_repeats(2)), "the rows published twice"
            ),
            about,
        )
    )
