"""Comparisons of methods of lists and keys, by the measures of their papers.

| method       | measures                                                                       |
|--------------|--------------------------------------------------------------------------------|
| baskets      | share of the k most frequent sets that are missed; precision at k; median       |
|              | relative error of those shown; error of counts of sets                          |
| diffpart     | the same, k = 50                                                               |
| sequences    | precision at 100 strings; error of occurrences of strings                       |
| trajectories | the same of cells on the way; error of counts of trips by first and last cell   |
| keys         | keys named; share of the 100 most frequent keys that are missed                 |

An error of counts is the mean of |estimate - truth| / max(truth, 0.1 % of the rows), over sets or
strings that are drawn from the data; what a release refuses counts as an estimate of 0. The results
hold true facts of the private table: they are for its owner only.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scumble.audit.report import write_owner_only
from scumble.compare.measures import RunSpread, spread
from scumble.compare.settings import Choice, choices_of
from scumble.families import load
from scumble.model.errors import ParameterError, ScumbleError
from scumble.model.long_work import part
from scumble.model.notebook import html_list, html_table
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.lists import EncodedLists
from scumble.model.schema.schema import Schema
from scumble.private.mechanism import mechanisms
from scumble.private.mechanism_metadata import ComparisonPreset
from scumble.private.publish import publish
from scumble.private.publish_options import PublishOptions, Table
from scumble.private.sampling.source import Keystream
from scumble.private.tables.counter import RowCounter
from scumble.private.tables.rows import Rows
from scumble.public.close_categories import published_values
from scumble.public.release import Release
from scumble.public.sql.names import sql_name

OWNER = "Made of the private table: for its owner only."
MOST_STRINGS = 100  # whose precision is told
_MOST_SETS = 50  # the same of sets of items, for a method without a number of its own
_QUESTIONS = 300
_BOUND = 0.001  # of the rows: the sanity bound of relative errors
_MOST_KEYS = 1 << 20  # of one person
_ALL = PrivacyUnit("add_remove", 1, None)

Measured = dict[str, float]
Judge = Callable[[Release], Measured]


@dataclass(frozen=True)
class ListRun:
    """The measures of the releases of one setting."""

    method: str
    words: str
    measures: Mapping[str, RunSpread]

    @property
    def name(self) -> str:
        return f"{self.method}, {self.words}"


@dataclass(frozen=True)
class ListTable:
    """A private table of lists or keys, and how it is read."""

    source: Any
    schema: Schema
    outside: Any = "error"
    table: str | None = None
    basket: str | None = None
    order: str | None = None

    @property
    def rows(self) -> Rows:
        from scumble.private.tables.open import open_source

        lists = [each.name for each in self.schema.lists]
        opened = open_source(
            self.source, table=self.table, basket=self.basket, order=self.order, lists=lists
        )
        return Rows(opened, self.schema, outside=self.outside)


def choices(
    schema: Schema,
    methods: Sequence[str],
    epsilons: Sequence[float],
    neighbours: str,
    given: Mapping[str, Mapping[str, Sequence[Any]]],
) -> list[Choice]:
    """Return the settings to compare; raise ParameterError for other methods among them."""
    others = [name for name in methods if name not in METHODS]
    if others:
        raise ParameterError(
            f"Methods of lists and keys ({', '.join(METHODS)}) are compared by measures of their "
            f"own, without others. Leave out {', '.join(others)}, or those."
        )
    study = ComparisonPreset(schema, (), neighbours, 1, (), lambda: 0.0)
    known = mechanisms()
    found: list[Choice] = []
    for name in methods:
        varied = given.get(name)
        if varied is not None and "epsilon" not in varied and epsilons:
            varied = {"epsilon": list(epsilons), **varied}
        found += choices_of(known[name], study, epsilons, varied)
    return found


def compared(
    table: ListTable, settings: Sequence[Choice], repeats: int, seed: int
) -> Iterator[ListRun | tuple[str, str]]:
    """Yield the measures of every setting, or its name with the reason why it was left out."""
    judges: dict[str, Judge] = {}
    for number, choice in enumerate(settings):
        try:
            mechanism = choice.mechanism
            mechanism.check(table.schema)
            facts = json.dumps([choice.method, {**choice.parameters, "epsilon": 0}], default=str)
            judge = judges.get(facts) or _JUDGES[choice.method](table, choice, seed)
            judges[facts] = judge
            found = []
            for repeat in range(repeats):
                with part(number * repeats + repeat, len(settings) * repeats):
                    found.append(judge(_published(table, choice, seed + repeat)))
        except ScumbleError as error:
            yield choice.name, str(error)
            continue
        names = list(found[0])
        spreads = {name: spread(np.array([each[name] for each in found])) for name in names}
        yield ListRun(choice.method, choice.words, spreads)


def _published(table: ListTable, choice: Choice, seed: int) -> Release:
    return publish(
        Table(table.source, table=table.table, basket=table.basket, order=table.order),
        table.schema,
        cast(Any, choice.mechanism),
        options=PublishOptions(outside=table.outside, seed=seed),
    )


# --- what each method is judged by ---------------------------------------------------------------


def _relative(estimates: Sequence[float], truths: Sequence[float], rows: int) -> float:
    bound = max(_BOUND * rows, 1e-9)
    errors = [
        abs(one - other) / max(other, bound) for one, other in zip(estimates, truths, strict=True)
    ]
    return float(np.mean(errors)) if errors else 0.0


def _asked(release: Release, sql: str) -> float:
    """Return the value of an answer; 0 for a question that is refused."""
    try:
        return float(cast(Any, release.answer(sql)).value)
    except ScumbleError:
        return 0.0


def _listed(labels: Sequence[Any]) -> str:
    quoted = (str(label).replace("'", "''") for label in labels)
    return "[" + ", ".join(f"'{label}'" for label in quoted) + "]"


def _baskets(table: ListTable, choice: Choice, seed: int) -> Judge:
    name, k = choice.parameters["attribute"], int(choice.parameters.get("top", _MOST_SETS))
    labels = table.schema[name].lists.members.labels().to_pylist()
    codes = {label: code for code, label in enumerate(labels)}
    baskets = list(lists_of(table.rows.lists(name)))
    truth = BasketTruth(baskets)
    wanted = set(truth.top(k))
    draw = np.random.default_rng(seed)
    full = [basket for basket in baskets if basket]
    sets = []
    for _ in range(_QUESTIONS if full else 0):
        basket = full[int(draw.integers(len(full)))]
        size = min(int(draw.integers(1, 4)), len(basket))
        sets.append(frozenset(draw.choice(basket, size, replace=False).tolist()))

    def judge(release: Release) -> Measured:
        found = {
            frozenset(codes[item] for item in key[0]): estimate.value
            for key, estimate in release.baskets.top(k)
        }
        truths = {items: truth.count(items) for items in found}
        off = [abs(found[s] - n) / max(n, 1) for s, n in truths.items()]
        column = sql_name(name)
        asked = [
            _asked(
                release,
                f"SELECT COUNT(*) FROM t WHERE list_has_all({column}, "
                f"{_listed([labels[code] for code in sorted(items)])})",
            )
            for items in sets
        ]
        return {
            "missed of the top": len(wanted - set(found)) / max(len(wanted), 1),
            "precision": len(wanted & set(found)) / max(len(found), 1),
            "median relative error": float(np.median(off)) if off else 0.0,
            "error of counts": _relative(asked, [truth.count(s) for s in sets], truth.baskets),
        }

    return judge


def _strings(truth: StringTruth, labels: Sequence[Any], name: str, seed: int) -> Judge:
    draw = np.random.default_rng(seed)
    wanted = set(truth.top(MOST_STRINGS))
    strings = truth.strings
    weights = np.array([truth.counts[each] for each in strings], float)
    some = min(_QUESTIONS, len(strings))
    places = draw.choice(len(strings), some, replace=False, p=weights / weights.sum())
    asked = [strings[place] for place in places]
    codes = {label: code for code, label in enumerate(labels)}

    def judge(release: Release) -> Measured:
        column = sql_name(name)
        values = [
            _asked(
                release,
                f"SELECT SUM(occurrences({column}, {_listed([labels[c] for c in each])})) FROM t",
            )
            for each in asked
        ]
        top = {tuple(codes[x] for x in key[0]) for key, _ in release.sequences.top(MOST_STRINGS)}
        return {
            "precision": len(wanted & top) / max(len(wanted), 1),
            "error of counts": _relative(values, [truth.counts[s] for s in asked], truth.sequences),
        }

    return judge


def _sequences(table: ListTable, choice: Choice, seed: int) -> Judge:
    given = {"weigh": "sequence", "model": "suffix", **choice.parameters}
    name = given["attribute"]
    if given["model"] == "prefix":
        raise ParameterError("Trees of prefixes have no occurrences to compare; choose another.")
    truth = StringTruth(
        lists_of(table.rows.lists(name)),
        int(given["length"]),
        weighted=given["weigh"] == "sequence",
    )
    labels = table.schema[name].lists.members.labels().to_pylist()
    return _strings(truth, labels, name, seed)


def _trajectories(table: ListTable, choice: Choice, seed: int) -> Judge:
    x, y, length = (choice.parameters[name] for name in ("x", "y", "length"))
    schema, counter = load("sequences", "check").make_trips(table.rows, x, y, int(length))
    [name] = schema.names
    trips = list(lists_of(counter.lists(name, _ALL)))
    labels = schema[name].lists.members.labels().to_pylist()
    on_the_way = _strings(StringTruth(trips, int(length), weighted=True), labels, name, seed)
    ends = Counter((trip[0], trip[-1]) for trip in trips if trip)
    draw = np.random.default_rng(seed)
    drawn = draw.choice(len(trips), min(_QUESTIONS, len(trips)), replace=False)
    asked = sorted({(trips[i][0], trips[i][-1]) for i in drawn if trips[i]})

    def judge(release: Release) -> Measured:
        values = [
            _asked(
                release,
                f"SELECT COUNT(*) FROM t WHERE first({name}) = '{labels[first]}' "
                f"AND last({name}) = '{labels[last]}'",
            )
            for first, last in asked
        ]
        truths = [ends[each] for each in asked]
        told = on_the_way(release)
        return {**told, "error of first and last": _relative(values, truths, len(trips))}

    return judge


def _keys(table: ListTable, choice: Choice, seed: int) -> Judge:
    columns = choice.parameters["attributes"]
    [name] = [columns] if isinstance(columns, str) else columns
    person, k = choice.parameters.get("person"), 100
    pairs = RowCounter(table.rows).keys([name], PrivacyUnit("add_remove", 1, person))
    everybody = pairs.draw(np.ones(_MOST_KEYS, np.int64), Keystream(seed)).people
    values = pairs.values(np.arange(len(pairs)))[0].to_pylist()
    pairs.close()
    truth = Counter(dict(zip(values, everybody.tolist(), strict=True)))
    wanted = {key for key, _ in truth.most_common(k)}

    def judge(release: Release) -> Measured:
        named = set(published_values(release.evidence, release.folder, name))
        return {
            "keys named": float(len(named)),
            "missed of the top": len(wanted - named) / max(len(wanted), 1),
        }

    return judge


_JUDGES: Mapping[str, Callable[[ListTable, Choice, int], Judge]] = {
    "baskets": _baskets,
    "diffpart": _baskets,
    "sequences": _sequences,
    "trajectories": _trajectories,
    "keys": _keys,
}
METHODS = tuple(_JUDGES)


# --- what is written -----------------------------------------------------------------------------


def write(runs: Sequence[ListRun], left_out: Mapping[str, str], output: Path) -> list[Path]:
    """Write the results as a page, as CSV and as JSON, for the owner's eyes only."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["setting", "measure", "mean", "standard deviation", "runs"])
    for run in runs:
        for name, each in run.measures.items():
            out.writerow([run.name, name, each.mean, each.deviation, each.runs])
    texts = {
        output: _page(runs, left_out),
        output.with_suffix(".csv"): text.getvalue(),
        output.with_suffix(".json"): json.dumps(
            {"notice": OWNER, "runs": fields(runs), "left_out": dict(left_out)}, ensure_ascii=False
        ),
    }
    for path, content in texts.items():
        write_owner_only(path, content)
    return list(texts)


def fields(runs: Sequence[ListRun]) -> list[dict[str, Any]]:
    """Return the measures of each setting for JSON."""
    return [
        {"setting": run.name, **{name: asdict(each) for name, each in run.measures.items()}}
        for run in runs
    ]


def lines(runs: Sequence[ListRun]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table: a line for each setting, a column for each measure."""
    names = list(dict.fromkeys(name for run in runs for name in run.measures))
    body = [[run.name, *(_cell(run.measures.get(name)) for name in names)] for run in runs]
    return ["setting", *names], body


def _cell(found: RunSpread | None) -> str:
    if found is None:
        return ""
    digits = f"{found.mean:,.0f}" if found.mean >= 10 else f"{found.mean:.3f}"
    if found.runs < 2:
        return digits
    error = f"{found.stderr:,.1f}" if found.mean >= 10 else f"{found.stderr:.3f}"
    return f"{digits} ± {error}"


def _page(runs: Sequence[ListRun], left_out: Mapping[str, str]) -> str:
    head, body = lines(runs)
    refused = html_list("Left out", [f"{name}: {why}" for name, why in left_out.items()])
    cells = "td,th{padding:.3em 1em;border-bottom:1px solid #ccc}"
    style = f"body{{font:15px sans-serif;margin:2em}}{cells}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Comparison of lists</title>'
        f"<style>{style}</style><h1>Methods of lists side by side</h1><p>{OWNER} Means over the "
        "releases of each setting, with their standard errors.</p>"
        f"{html_table(head, body, 1)}{refused if left_out else ''}</html>\n"
    )


# --- list truth -----------------------------------------------------------------------------------
#
# The exact counts of a private table of lists or keys, which comparisons hold releases against.

Bits = npt.NDArray[np.uint8]
Items = frozenset[int]
String = tuple[int, ...]

LONGEST = 5  # symbols of the strings that are counted


class BasketTruth:
    """The exact numbers of baskets with sets of items, by one bit for each basket."""

    def __init__(self, baskets: Iterable[Iterable[int]]) -> None:
        rows: dict[int, list[int]] = {}
        self.baskets = 0
        for number, basket in enumerate(baskets):
            self.baskets = number + 1
            for item in set(basket):
                rows.setdefault(item, []).append(number)
        self.bits: dict[int, Bits] = {}
        for item, where in rows.items():
            has = np.zeros(self.baskets, bool)
            has[where] = True
            self.bits[item] = np.packbits(has)

    def count(self, items: Items) -> int:
        """Return how many baskets have all of these items."""
        if not items:
            return self.baskets
        if any(item not in self.bits for item in items):
            return 0
        return _ones(np.bitwise_and.reduce([self.bits[item] for item in items]))

    def top(self, k: int) -> list[Items]:
        """Return the k most frequent sets; of equally frequent ones, shorter ones first."""
        counts = {item: _ones(bits) for item, bits in self.bits.items()}
        items = sorted(counts, key=lambda item: -counts[item])[:k]
        if not items:
            return []
        least, found = counts[items[-1]] if len(items) == k else 1, dict[Items, int]()

        def extend(chosen: Items, bits: Bits | None, left: list[int]) -> None:
            nonlocal least
            if len(found) > 4 * k:  # sets that are rarer than k others need no extension
                least = sorted(found.values(), reverse=True)[k - 1]
                for rare in [each for each, count in found.items() if count < least]:
                    del found[rare]
            for place, item in enumerate(left):
                both = self.bits[item] if bits is None else bits & self.bits[item]
                if (count := _ones(both)) >= least:
                    found[chosen | {item}] = count
                    extend(chosen | {item}, both, left[place + 1 :])

        extend(frozenset(), None, items)
        ranked = sorted(found, key=lambda each: (-found[each], len(each), sorted(each)))
        return ranked[:k]


def _ones(bits: Bits) -> int:
    return int(np.unpackbits(bits).sum())


class StringTruth:
    """The exact numbers of occurrences of strings in the first `length` symbols of sequences.

    With `weighted`, an occurrence in a sequence of n symbols, its end included, counts 1/n.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], length: int, *, weighted: bool) -> None:
        self.counts: Counter[String] = Counter()
        self.sequences = 0
        for sequence in sequences:
            self.sequences += 1
            symbols = tuple(sequence[:length])
            weight = 1 / min(len(sequence) + 1, length) if weighted else 1
            for place in range(len(symbols)):
                for end in range(place + 1, min(place + LONGEST, len(symbols)) + 1):
                    self.counts[symbols[place:end]] += weight  # type: ignore[assignment]

    def top(self, k: int) -> list[String]:
        """Return the k most frequent strings of up to five symbols."""
        return sorted(self.counts, key=lambda each: (-self.counts[each], each))[:k]

    @cached_property
    def strings(self) -> list[String]:
        """All strings that occur, in order."""
        return sorted(self.counts)


def lists_of(batches: Iterable[EncodedLists]) -> Iterator[list[int]]:
    """Yield the codes of each list."""
    for lists in batches:
        for begin, end in pairwise(lists.offsets.tolist()):
            yield lists.codes[begin:end].tolist()
