"""What owners publish on a server: tables, schemas proposed for them, and what is made of them.

A draft is a table with its schema and its comparisons, in a private folder of the server. What is
made of it, a release or a database, is served at once, and again when the server starts.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from scumble.model import stored
from scumble.model.errors import LedgerError, ParameterError, ScumbleError
from scumble.model.long_work import part
from scumble.model.privacy.accounting import Neighbours
from scumble.model.schema.schema import Schema
from scumble.private.database.tables import CodedRows, queryable_schema
from scumble.private.database.terms import DatabaseTerms
from scumble.private.journal.entries import APPEND
from scumble.private.journal.journal import Journal
from scumble.private.journal.sqlite_store import remove_unfinished
from scumble.private.ledger.cost import bill_of, bill_of_database
from scumble.private.ledger.ledger import Ledger
from scumble.private.ledger.statement import refuse
from scumble.private.mechanism import Mechanism, create, protect_unit
from scumble.server.catalogue import CODED, Catalogue, DatabaseDataset, open_dataset
from scumble.server.config import DatasetSettings, ServerSettings, check_name
from scumble.server.problems import Problem
from scumble.server.publishing.drafts import (
    KINDS,
    Draft,
    OwnerAnswers,
    check_content,
    kept_bytes,
    write_private,
)
from scumble.server.publishing.jobs import CancelledError, Job, Jobs, in_process

log = logging.getLogger("scumble.server")
UPLOAD = "upload:"
_MADE = "datasets.json"
_NUMBER = re.compile(r"[0-9a-f]{12}")  # of a draft
_LAST_WORK = 60.0  # seconds that a process may still need after its server was killed
_STAYS = "If the ledger was charged for it before, the charge stays."


def protected(schema: Schema, recipe: Mapping[str, Any]) -> Mechanism | None:
    """Return the method of a release, protecting whom the schema says; None for a database, which
    protects one row. Raises SchemaError if the schema does not say what one row stands for.
    """
    if recipe["kind"] == "release":
        return protect_unit(create(recipe["method"], **recipe["parameters"]), schema)
    schema.check_unit()
    schema.check_limits(recipe["attributes"])
    queryable_schema(schema, recipe["attributes"])
    return None


class PublishingService:
    """Drafts, jobs about them, and the data sets that were made."""

    def __init__(self, settings: ServerSettings, catalogue: Catalogue) -> None:
        self.settings, self.catalogue = settings, catalogue
        limits = settings.limits
        self.jobs = Jobs(limits.jobs, limits.job_memory, limits.job_seconds)
        self._drafts = settings.folder / "drafts"
        self._tables = settings.folder / "tables"
        self._file = settings.folder / _MADE
        self._lock = threading.Lock()
        self._starting = threading.Lock()

    # --- tables -----------------------------------------------------------------------------------

    def new_upload(self, name: str) -> tuple[Path, Callable[[], Draft]]:
        """Return where to write a table that is sent, and what to call when it is complete."""
        kind = Path(name).suffix.lower()
        if kind not in KINDS:
            raise Problem(415, f"A table must be a file that ends with {' or '.join(KINDS)}.")
        folder = self._new_folder()
        part = folder / "part"

        def complete() -> Draft:
            check_content(part, kind)
            part.replace(folder / f"table{kind}")
            title = "".join(each for each in name if each.isprintable())[:60]
            draft = Draft(folder.name, title, folder, file=f"table{kind}")
            draft.save()
            return draft

        return part, complete

    def free_bytes(self) -> int:
        """Return the bytes that may be sent yet: of the limit of all tables, and of the disk."""
        limits = self.settings.limits
        kept = kept_bytes((*self._drafts.glob("*/*"), *self._tables.glob("*")))
        self.settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        free = shutil.disk_usage(self.settings.folder).free - limits.reserve
        return min(limits.uploads - kept, free)

    def new_draft(self, source: str) -> Draft:
        """Return a draft of a table that the configuration names."""
        known = {each.name: each for each in self.settings.sources}
        if source not in known:
            allowed = f"one of {', '.join(known)}" if known else "named in the configuration"
            raise ParameterError.of("publish", "source", allowed, source)
        found, folder = known[source], self._new_folder()
        draft = Draft(folder.name, found.title or source, folder, source=source)
        if found.schema is not None:
            text = Schema.load(found.schema).dumps()
            write_private(draft.schema_file, text)
            write_private(draft.proposal_file, text)
        draft.save()
        return draft

    def drafts(self) -> list[Draft]:
        """Return all drafts, the newest first."""
        if not self._drafts.exists():
            return []
        found = []
        for each in self._drafts.glob("*/draft.json"):
            with suppress(Problem):  # another owner deletes it now
                found.append(self.draft(each.parent.name))
        return sorted(found, key=lambda each: (each.created, each.number), reverse=True)

    def draft(self, number: str) -> Draft:
        """Return a draft; raises `Problem` 404 if there is none."""
        folder = self._drafts / number
        try:
            if not _NUMBER.fullmatch(number):
                raise FileNotFoundError
            return Draft.read(folder)
        except FileNotFoundError:
            raise Problem(404, "There is no such draft.") from None

    def delete(self, draft: Draft) -> None:
        """Delete a draft and a table that was sent for it. What was made of it stays."""
        with self._starting:
            own = {draft.number, UPLOAD + draft.number}
            if any(each.running and own & {each.about, each.uses} for each in self.jobs.all()):
                raise Problem(409, "Its table is in use: wait for what runs, or cancel it first.")
            with suppress(FileNotFoundError):  # another owner deletes it, too
                shutil.rmtree(draft.folder)

    def place(self, source: str) -> dict[str, str | None]:
        """Return path and table of a source: a name of the configuration, or upload:NUMBER."""
        if source.startswith(UPLOAD):
            draft = self.draft(source.removeprefix(UPLOAD))
            source = draft.source
            if draft.file:
                return {"source": str(draft.folder / draft.file), "table": None}
        for each in self.settings.sources:
            if each.name == source:
                return {"source": each.path, "table": each.table}
        raise ParameterError.of("publish", "source", "a name that `sources` lists", source)

    # --- schemas and comparisons ------------------------------------------------------------------

    def propose(self, draft: Draft) -> Job:
        """Begin to propose a schema by reading the table."""
        arguments = {**self._table(draft), "columns": self.settings.limits.columns}

        def work(job: Job) -> dict[str, Any]:
            found: dict[str, Any] = in_process(job, "propose", arguments)
            write_private(draft.schema_file, found["schema"])
            write_private(draft.proposal_file, found["schema"])
            write_private(draft.checks_file, json.dumps(found["checks"]))
            replace(self.draft(draft.number), rows=found["rows"]).save()
            return found

        return self._start("schema", draft.number, work)

    def count_shares(self, draft: Draft, person: str) -> Job:
        """Begin to count which share of the rows bounds on the rows of a person keep."""
        arguments = {**self._table(draft), "person": person}

        def work(job: Job) -> None:
            write_private(draft.shares_file, json.dumps(in_process(job, "shares", arguments)))

        return self._start("shares", draft.number, work)

    def save_schema(self, draft: Draft, schema: Schema) -> None:
        """Keep a schema; comparisons with another one are dropped."""
        draft.form_file.unlink(missing_ok=True)
        text = schema.dumps()
        if draft.schema_file.exists() and draft.schema_file.read_text("utf-8") == text:
            return
        for name in ("preview.json", "comparison.json"):
            (draft.folder / name).unlink(missing_ok=True)
        write_private(draft.schema_file, text)

    def save_answers(self, draft: Draft, answers: OwnerAnswers) -> None:
        """Keep what the owner answered besides the schema."""
        replace(draft, answers=answers).save()

    @property
    def neighbours(self) -> Neighbours:
        """What releases hide, as the owner's ledger says; without one, what rows say."""
        if self.settings.ledger is None:
            return "replace"
        found = Ledger.open(self.settings.ledger).terms.neighbours
        return "replace" if found == "values" else found

    def compare(
        self, draft: Draft, methods: list[str], epsilons: list[float], *, preview: bool
    ) -> Job:
        """Begin to compare methods, on a stand-in or on the table itself."""
        arguments = {"methods": methods, "epsilons": epsilons, "preview": preview}
        arguments |= {**self._table(draft), "schema": draft.text}

        def work(job: Job) -> None:
            found = in_process(job, "compare", arguments)
            name = "preview.json" if preview else "comparison.json"
            write_private(draft.folder / name, json.dumps(found))

        return self._start("preview" if preview else "comparison", draft.number, work)

    # --- making -----------------------------------------------------------------------------------

    def bill(self, schema: Schema, recipe: Mapping[str, Any]) -> str:
        """Return in a sentence what the owner's ledger will be charged, and what is left of it.

        Raises the error of what the ledger will refuse.
        """
        if self.settings.ledger is None:
            return "No ledger is configured: nothing adds this up with other releases of the table."
        ledger = Ledger.open(self.settings.ledger)
        mechanism = protected(schema, recipe)
        if mechanism is not None:
            known = mechanism.read_schema(schema)
            bill = bill_of(mechanism, known, ledger.terms, outside="error", seeded=False)
        else:
            terms = DatabaseTerms.read(epsilon=recipe["epsilon"], noise=recipe["noise"])
            bill = bill_of_database(terms.claim(), schema, ledger.terms, seeded=False)
        if ledger.terms.limit is not None:
            refuse(bill, ledger.totals, ledger.terms.limit)
        words = str(bill).replace("was charged", "will be charged")
        return f"{words} Left of it now: {ledger.statement().left()}."

    def make(
        self,
        name: str,
        source: str,
        schema: str,
        recipe: Mapping[str, Any],
        *,
        title: str = "",
        description: str = "",
        draft: Draft | None = None,
    ) -> Job:
        """Begin to make a release or a database of a source, to be served under a name.

        `recipe` has its `kind`: a release with `method` and `parameters`, or a database with
        `epsilon`, `noise` and `attributes`.
        """
        check_name(name)
        folder = self._folder_of(name)
        known = Schema.loads(schema)  # raises SchemaError before anything begins
        if recipe.get("parameters", {}).get("person") is None:
            known.check_unit()
        settings = DatasetSettings(name, title=title or name, description=description)
        common: dict[str, Any] = {**self.place(source), "schema": schema, "folder": str(folder)}
        common["ledger"] = None if self.settings.ledger is None else str(self.settings.ledger)

        common["lock"] = str(self._lock_of(name))

        def work(job: Job) -> dict[str, Any]:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            given = {key: value for key, value in recipe.items() if key != "kind"} | common
            if recipe["kind"] == "release":
                task, made = "publish", replace(settings, release=folder)
            else:
                given |= self._room_for(name)
                task, made = "create_database", replace(settings, database=folder)
                made = replace(made, source=given["kept"])
            record = _written(made)
            self._change(lambda known: known["making"].append(record))
            try:
                found = self._charged(job, task, given)
            except BaseException:
                if not folder.exists():
                    self._forget(record)
                raise
            charge = found.pop("charge")
            self._serve(made, job, charge)
            if draft is not None:
                latest = self.draft(draft.number)
                replace(latest, made=(*latest.made, name)).save()
            return {"dataset": name, **found}

        return self._start(
            "release" if recipe["kind"] == "release" else "database",
            name if draft is None else draft.number,
            work,
            makes=name,
            uses=source,
        )

    def append(self, dataset: DatabaseDataset, source: str, key: str | None) -> Job:
        """Begin to add the rows of a source to a database, as a new batch."""
        place = self.place(source)
        configured = {each.name: each.batches for each in self.settings.datasets}

        def settle() -> None:
            appended = dataset.database.status().batches - 1
            self._settle(dataset.name, configured.get(dataset.name, ()), appended)

        def work(job: Job) -> dict[str, Any]:
            settle()
            room = self._room_for(f"{dataset.name}-{secrets.token_hex(4)}")
            batch = [room["kept"]]
            self._change(lambda made: made["batches"].setdefault(dataset.name, []).append(batch))
            try:
                in_process(job, "encode", {**place, **asdict(dataset.database.reading()), **room})
                number = dataset.database.append(CodedRows(Path(room["kept"])), key=key)
            except BaseException:
                with suppress(ScumbleError):  # what the journal has is then looked up later
                    settle()
                raise
            settle()  # they may have been added before, with the same key
            return {"dataset": dataset.name, "batch": number}

        return self._start("append", dataset.name, work, uses=source)

    def open_all(self) -> None:
        """Open the data sets of the configuration, and those that were made by owners."""
        self._clear()
        self._settle_making()
        found = self._made()
        own = [DatasetSettings(**_read(each)) for each in found["datasets"]]
        every = (*self.settings.datasets, *own)
        for number, each in enumerate(every):
            known = each
            if isinstance(each.database, Path):
                remove_unfinished(each.database)
            if each.database is not None and found["batches"].get(each.name):
                with Journal.open(each.database) as journal:
                    appended = len(journal.entries(kind=APPEND))
                added = self._settle(each.name, each.batches, appended)
                known = replace(each, batches=(*each.batches, *added))
            with part(number, len(every)):
                self.catalogue.add(open_dataset(known, self.settings.limits.journal))

    def close(self) -> None:
        self.jobs.close()

    # --- files ------------------------------------------------------------------------------------

    def _start(
        self, kind: str, about: str, work: Callable[[Job], Any], makes: str = "", uses: str = ""
    ) -> Job:
        """Begin work, unless something runs about the same, or `makes` is the name of a data set.

        A name is also taken by a data set that is being made, and by one that was stopped.
        """
        with self._starting:
            running = [each for each in self.jobs.all() if each.running]
            if any(each.about == about for each in running):
                raise Problem(409, "Something runs for it already. Wait for it, or cancel it.")
            taken = {*(each.makes for each in running), *(e.name for e in self.settings.datasets)}
            there = self.catalogue.get(makes) is not None or self._folder_of(makes).exists()
            if makes and (there or makes in taken):
                raise Problem(409, f"There is a data set {makes!r} already. Choose another name.")
            if uses.startswith(UPLOAD):
                self.draft(uses.removeprefix(UPLOAD))  # it may be deleted now
            return self.jobs.start(kind, about, work, makes, uses)

    def _charged(self, job: Job, task: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run a task that the ledger is charged for, and return its result."""
        try:
            found: dict[str, Any] = in_process(job, task, arguments)
        except CancelledError:
            raise CancelledError("" if self.settings.ledger is None else _STAYS) from None
        return found

    def _folder_of(self, name: str) -> Path:
        """Return where a data set with this name is made."""
        return self.settings.folder / "datasets" / name

    def _table(self, draft: Draft) -> dict[str, Any]:
        return dict(self.place(UPLOAD + draft.number))

    def _room_for(self, name: str) -> dict[str, Any]:
        """Return where the rows of a database stay, as codes, and how many bytes they may take."""
        self._tables.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = self._tables / f"{name}{CODED}"
        kept.unlink(missing_ok=True)
        return {"kept": str(kept), "room": self.free_bytes()}

    def _settle(self, name: str, configured: tuple[Batch, ...], appended: int) -> list[Batch]:
        """Return the batches that owners added, where the journal has `appended` in all.

        One that was noted last and is not in the journal, as after a crash or a refusal, is
        forgotten, with the table that was kept for it.
        """
        noted = self._made()["batches"].get(name, [])
        own = [each for each in noted if _batch(each) not in configured]
        wanted = max(appended - len(configured), 0)
        if len(own) == wanted + 1:
            last = own.pop()
            self._change(lambda made: made["batches"][name].remove(last))
            if Path(last[0]).parent == self._tables and last not in own:
                Path(last[0]).unlink(missing_ok=True)
        return [_batch(each) for each in own[:wanted]]

    def _clear(self) -> None:
        """Delete tables that were not sent to their end before the server was killed."""
        for folder in self._drafts.glob("*"):
            if not (folder / "draft.json").exists():
                shutil.rmtree(folder, ignore_errors=True)

    def _settle_making(self) -> None:
        """Decide about data sets that were being made when the server was killed.

        One that is whole is served from now on: the ledger was charged for it. Of another one
        nothing stays but the charge, if it was charged already.
        """
        for record in self._made()["making"]:
            name, place = record["name"], Path(record["release"] or record["database"])
            self.settings.folder.joinpath("datasets").mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                with FileLock(self._lock_of(name), timeout=_LAST_WORK):
                    whole = place.exists()
            except Timeout:
                log.warning("dataset=%r is still being made: start the server again later", name)
                continue
            if whole:
                log.warning("dataset=%r was finished when the server was killed: served now", name)
                self._change(partial(_made_whole, record))
            else:
                log.warning("dataset=%r was not finished when the server was killed", name)
                for part in place.parent.glob(f".{name}-{'[0-9a-f]' * 8}"):  # of a release
                    shutil.rmtree(part, ignore_errors=True)
                remove_unfinished(place)
                self._forget(record)

    def _forget(self, record: dict[str, Any]) -> None:
        """Forget a data set that was not made, with the table that was kept for it."""
        self._change(partial(_ended, record))
        if record["source"] and Path(record["source"]).parent == self._tables:
            Path(record["source"]).unlink(missing_ok=True)

    def _lock_of(self, name: str) -> Path:
        """Return the lock that a process holds which makes a data set."""
        return self.settings.folder / "datasets" / f".{name}.lock"

    def charges(self) -> dict[str, int]:
        """Return the numbers of the charges in the owner's ledger by the data sets made of them."""
        found: dict[str, int] = self._made()["charges"]
        return found

    def _serve(self, settings: DatasetSettings, job: Job, charge: int | None) -> None:
        job.words, job.total = "opening it", None
        self.catalogue.add(open_dataset(settings, self.settings.limits.journal))
        self._change(partial(_made_whole, _written(settings), charge=charge))

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the list of what was made, and write it."""
        with self._lock:
            content = self._made()
            change(content)
            write_private(self._file, json.dumps(content))

    def _made(self) -> dict[str, Any]:
        if not self._file.exists():
            return {"format": 1, "datasets": [], "batches": {}, "making": [], "charges": {}}
        try:
            found: dict[str, Any] = stored.parse_json(stored.read_regular(self._file))
            if found["format"] != 1:
                raise ValueError
            found.setdefault("making", [])
            found.setdefault("charges", {})
        except (OSError, *stored.MALFORMED):
            raise LedgerError(f"{self._file} cannot be read. Restore it from a copy.") from None
        return found

    def _new_folder(self) -> Path:
        folder = self._drafts / secrets.token_hex(6)
        for each in (self._drafts, folder):  # the mode is not that of parents
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder


def _ended(record: dict[str, Any], made: dict[str, Any]) -> None:
    """Note in the list of what was made that a data set is not being made any more."""
    made["making"] = [each for each in made["making"] if each["name"] != record["name"]]


def _made_whole(record: dict[str, Any], made: dict[str, Any], *, charge: int | None = None) -> None:
    """Note in the list of what was made that a data set is whole, and what was charged for it."""
    _ended(record, made)
    made["datasets"].append(record)
    if charge is not None:
        made["charges"][record["name"]] = charge


Batch = str | tuple[str, str]


def _batch(given: list[str]) -> Batch:
    return given[0] if len(given) == 1 else (given[0], given[1])


def _written(settings: DatasetSettings) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }


def _read(data: Mapping[str, Any]) -> dict[str, Any]:
    paths = {name: Path(data[name]) for name in ("release", "database") if data[name] is not None}
    return {**data, **paths, "batches": tuple(data["batches"])}
