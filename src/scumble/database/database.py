"""The statistical database: a private table behind one verb, `answer`, and one promise for all."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from scumble.database.asking import Asked, understood
from scumble.database.committer import Committer
from scumble.database.counting import Counter
from scumble.database.entry import Entry
from scumble.database.journal import Journal
from scumble.database.live import LiveEstimate, Reader
from scumble.database.memory import COUNT, Given, Memory
from scumble.database.plan import Manner, Plan
from scumble.database.reading import facts, told
from scumble.database.space import Space
from scumble.database.terms import Terms
from scumble.database.turn import Turn
from scumble.engine.duckdb import Engine
from scumble.engine.rows import Outside, Rows
from scumble.engine.source import open_source
from scumble.errors import ParameterError
from scumble.estimate import Estimates
from scumble.guarantee import Guarantee
from scumble.noise.laplace import discrete_laplace
from scumble.noise.source import Source
from scumble.schema import Schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Relax = Literal["regression", "compound", "refuse"]
Prefer = Literal["near", "exact"]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Request:
    """A question that waits for its decision."""

    asked: Asked
    manner: Manner
    key: str | None
    analyst: str | None


@dataclass(frozen=True)
class Settled:
    """What was decided, as the ledger has it, and the numbers that it is made of."""

    payload: dict[str, Any]
    numbers: dict[int, Given]


class Database:
    """`Database.create(folder, source, schema, epsilon=..., noise=...)`, then `answer(sql)`.

    All answers together keep ε-DP, now and later, also from other processes on the same folder.
    When a question would break the promise, the database relaxes it to one that earlier answers can
    serve, and says which. The table stays where it is; the folder holds the ledger.
    """

    def __init__(
        self, journal: Journal, schema: Schema, counter: Counter, seed: int | None = None
    ) -> None:
        """Call `Database.create` or `Database.open`."""
        promise = journal.promise
        self.schema = schema
        self.terms = Terms.from_dict(promise["terms"])
        self.space = Space(schema, promise["attributes"])
        self.rows = counter.rows
        self._journal = journal
        self._counter = counter
        self._noise = Source(seed)
        self._engine = Engine(schema)
        self._memory = Memory(self.terms, self.space)
        self._committer: Committer[Request, Settled] = Committer(journal, self._decide)
        self._reader = Reader(self.space, self.terms.noise, self.rows)
        with journal.turn() as turn:
            self._catch_up(turn)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        source: Any,
        schema: Schema | str | Path,
        *,
        epsilon: float,
        noise: float,
        attributes: Sequence[str] | None = None,
        tracker: str = "auto",
        buckets: int = 100_000,
        relax: int = 3,
        quotas: Mapping[str, float] | None = None,
        table: str | None = None,
        outside: Outside = "error",
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """A new database over a table: a folder with its ledger.

        `epsilon` is for all answers together, `noise` the mean size of the noise of one count, so
        that no point of the domain can be covered by more than epsilon · noise / 2 answers.
        `attributes` (all by default) can be asked about. `relax` is how many answers a relaxed one
        may be made of, 0 for none. `quotas` give analysts a part of epsilon each. `seed` makes the
        noise repeatable and the database NOT PRIVATE: for tests.
        """
        terms = Terms.read(
            epsilon=epsilon,
            noise=noise,
            tracker=tracker,
            buckets=buckets,
            relax=relax,
            quotas=quotas,
        )
        known = _asked_about(_schema(schema), attributes)
        counter = _read(source, known, table, outside, progress)
        promise = {
            "terms": terms.to_dict(),
            "attributes": list(known.names),
            "schema": known.to_dict(),
            "outside": outside,
            "salt": secrets.token_hex(16),
            "seeded": seed is not None,
        }
        promise["data"] = counter.fingerprint(bytes.fromhex(str(promise["salt"])))
        return cls(Journal.create(folder, promise), known, counter, seed)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        source: Any,
        schema: Schema | str | Path | None = None,
        *,
        table: str | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """A database that was created before; another table or schema is refused.

        The ledger knows the schema; it is compared with the one that is given.
        """
        journal = Journal.open(folder)
        try:
            promise = journal.promise
            if bool(seed is not None) != promise["seeded"]:
                raise ParameterError("A fixed seed is for databases that were created with one.")
            known = _asked_about(
                _schema(Schema.from_dict(promise["schema"]) if schema is None else schema),
                promise["attributes"],
            )
            counter = _read(source, known, table, promise["outside"], progress)
            found = counter.fingerprint(bytes.fromhex(promise["salt"]))
            journal.expect({**promise, "schema": known.to_dict(), "data": found})
            return cls(journal, known, counter, seed)
        except BaseException:
            journal.close()
            raise

    def answer(
        self,
        sql: str,
        *,
        key: str | None = None,
        analyst: str | None = None,
        relax: Relax = "regression",
        prefer: Prefer = "near",
        max_relaxation_error: float = float("inf"),
    ) -> LiveEstimate | Estimates:
        """The answer to one question, paid for and durable before it leaves.

        A question that was answered before gets the same answer again, free of charge. `key` is an
        idempotency key: a request that is tried again with it, also after a crash, gets the stored
        answer. `relax` says what happens when the promise is used up: the best combination of
        earlier answers, the paper's compound of a few, or a refusal. `prefer="exact"` takes the
        box itself, where earlier answers add up to it, even if a box nearby has a smaller error.
        """
        asked = self._understood(sql)
        manner = self._manner(relax, prefer, max_relaxation_error)
        return self._present(asked, self._committer.submit(Request(asked, manner, key, analyst)))

    def cost(
        self,
        sql: str,
        *,
        analyst: str | None = None,
        relax: Relax = "regression",
        prefer: Prefer = "near",
        max_relaxation_error: float = float("inf"),
    ) -> dict[str, Any]:
        """What would become of a question, and its standard error; nothing is charged or answered.

        `status` is "answered", "repeated" or "relaxed"; a question that would be refused raises
        what `answer` would.
        """
        asked = self._understood(sql)
        with self._journal.turn() as turn:
            self._catch_up(turn)
        plan = Plan(self._memory, analyst, self._manner(relax, prefer, max_relaxation_error))
        groups = plan.groups(asked)
        imagined = self._numbers(groups, self._given(plan, asked, [0] * len(plan.new)))
        found = [self._reader.estimate(asked, group["pieces"], imagined) for group in groups]
        return {
            "status": _status(groups),
            "new numbers": len(plan.new),
            "stderr": max((each.stderr for each in found), default=0.0),
            "distance": max((each.distance for each in found), default=0.0),
            "answered": found[0].answered if len(found) == 1 else "",
        }

    @property
    def guarantee(self) -> Guarantee:
        return self.terms.guarantee()

    def status(self) -> dict[str, Any]:
        """The promise, how much of it is used at the most asked-about point, and what was done."""
        with self._journal.turn() as turn:
            self._catch_up(turn)
        return facts(self._memory)

    def history(self) -> list[dict[str, Any]]:
        """Everything that the ledger says about questions, in their order."""
        return told(self._journal.entries(after=1))

    def verify(self, seal: str | None = None) -> list[str]:
        """What is wrong with the ledger, in sentences; none if it is whole."""
        return [finding.sentence for finding in self._journal.verify(seal)]

    def plot(self, one: str | None = None, other: str | None = None) -> Figure:
        """How often each pair of values of two attributes is covered by answers, as a heat map; or,
        without attributes, how many counts were answered of those asked for.
        """
        from scumble.database.picture import picture

        with self._journal.turn() as turn:
            self._catch_up(turn)
        return picture(self._memory, self._journal.entries(after=1), one, other)

    def close(self) -> None:
        self._journal.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database of {', '.join(self.space.names)}\n  {self.guarantee}"

    def _understood(self, sql: str) -> Asked:
        from scumble.sql import parse

        query = parse(sql, self.schema, self._engine.columns)
        self._engine.check(query)
        return understood(query, self.space, self._engine)

    def _manner(self, relax: str, prefer: str, error: float) -> Manner:
        if relax not in get_args(Relax):
            raise ParameterError.of("answer", "relax", f"one of {get_args(Relax)}", relax)
        if prefer not in get_args(Prefer):
            raise ParameterError.of("answer", "prefer", f"one of {get_args(Prefer)}", prefer)
        if not isinstance(error, (int, float)) or not error >= 0:
            raise ParameterError.of("answer", "max_relaxation_error", "a number from 0 on", error)
        return Manner(relax, prefer, float(error))  # type: ignore[arg-type]  # checked above

    def _decide(self, turn: Turn, requests: Sequence[Request]) -> list[Settled | Exception]:
        """The outcome of each request; what is refused has changed nothing."""
        self._catch_up(turn)
        outcomes: list[Settled | Exception] = []
        for request in requests:
            try:
                outcomes.append(self._outcome(turn, request))
            except Exception as error:
                outcomes.append(error)
        return outcomes

    def _outcome(self, turn: Turn, request: Request) -> Settled:
        stored = None if request.key is None else turn.find(request.key)
        if stored is not None:
            return self._stored(stored, request)
        plan = Plan(self._memory, request.analyst, request.manner)
        groups = plan.groups(request.asked)
        new = self._given(plan, request.asked)
        payload = {
            "sql": request.asked.query.text,
            "status": _status(groups),
            "groups": groups,
            "new": [each.to_dict() for each in new],
        }
        settled = Settled(payload, self._numbers(groups, new))
        if payload["status"] == "repeated" and request.key is None:
            return settled  # nothing is new, and nobody will ask for it by its key
        self._memory.learn(turn.append("answer", payload, request.key, request.analyst))
        return settled

    def _stored(self, entry: Entry, request: Request) -> Settled:
        payload = entry.payload
        if payload["sql"] != request.asked.query.text or entry.analyst != request.analyst:
            allowed = "a new one for another question or analyst"
            raise ParameterError.of("answer", "key", allowed, request.key)
        return Settled(payload, self._numbers(payload["groups"], ()))

    def _numbers(
        self, groups: Sequence[Mapping[str, Any]], new: Sequence[Given]
    ) -> dict[int, Given]:
        """The numbers that an outcome is made of; new ones follow all that were given out."""
        given = self._memory.given
        pieces = [piece for group in groups for piece in group["pieces"]]
        return {
            number: given[number] if number < len(given) else new[number - len(given)]
            for piece in pieces
            for number, _ in piece["terms"]
        }

    def _given(self, plan: Plan, asked: Asked, values: Sequence[int] | None = None) -> list[Given]:
        """The numbers that a plan gives out: true ones with noise, unless values are given."""
        found = []
        for place, (kind, box) in enumerate(plan.new):
            amounts = None if kind == COUNT else asked.amounts
            times = 1 if amounts is None else amounts.largest
            if values is not None:
                value = values[place]
            elif amounts is None:
                value = int(self._counter.counts(box[None])[0]) + self._drawn(1)
            else:
                true = self._counter.sums(box[None], amounts.axis, amounts.values)[0]
                value = int(true) + self._drawn(times)
            found.append(Given(kind, box, value, times))
        return found

    def _drawn(self, times: int) -> int:
        return int(discrete_laplace(self._noise, self.terms.noise * times, 1)[0])

    def _catch_up(self, turn: Turn) -> None:
        """Take in what others wrote; everything, if this process cannot be sure of its memory."""
        if turn.fresh:
            self._memory = Memory(self.terms, self.space)
        for entry in turn.news():
            self._learn(entry)

    def _learn(self, entry: Entry) -> None:
        if entry.kind == "answer":
            self._memory.learn(entry)

    def _present(self, asked: Asked, settled: Settled) -> LiveEstimate | Estimates:
        found = [
            (group.key, self._reader.estimate(asked, told["pieces"], settled.numbers))
            for group, told in zip(asked.groups, settled.payload["groups"], strict=True)
        ]
        if not asked.query.groups:
            [(_, estimate)] = found
            return estimate
        names = [(name, self.schema[name].arrow_type) for name in asked.query.groups]
        return Estimates(names, found)


def _status(groups: Sequence[Mapping[str, Any]]) -> str:
    """Of a whole question: the worst that became of any part of it."""
    found = {piece["status"] for group in groups for piece in group["pieces"]}
    return next((s for s in ("relaxed", "answered", "repeated") if s in found), "repeated")


def _schema(schema: Schema | str | Path) -> Schema:
    if not isinstance(schema, (Schema, str, Path)):
        raise ParameterError.of("Database", "schema", "a Schema or the path of one", schema)
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def _asked_about(schema: Schema, attributes: Sequence[str] | None) -> Schema:
    if isinstance(attributes, str):
        raise ParameterError.of("Database", "attributes", "a list of names", attributes)
    wanted = [each.name for each in schema.published] if attributes is None else attributes
    for name in wanted:
        schema[name]  # a name that is not there has its sentence
    return schema.select([name for name in schema.names if name in wanted])


def _read(
    source: Any, schema: Schema, table: str | None, outside: Outside, progress: Progress | None
) -> Counter:
    rows = Rows(open_source(source, table=table), schema, outside=outside, progress=progress)
    return Counter.over(rows, schema.names)
