"""`publish`: read private rows, run a mechanism on them, and return a release.

This is the only way from private rows to evidence. `publish_views` is the same for a mechanism that
makes several releases in one pass over the rows (Aroma's levels).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scumble.families import load
from scumble.model.errors import ParameterError, PromiseError, named, setting
from scumble.model.evidence.evidence import Evidence
from scumble.model.parameters import flag
from scumble.model.privacy.accounting import BudgetAccount
from scumble.model.privacy.guarantee import read_delta, read_epsilon, read_share
from scumble.model.privacy.sampling import Sample
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import check_jobs
from scumble.private.engines.open import EngineCounter, open_engine, release_noise
from scumble.private.engines.spark import Spark
from scumble.private.ledger.cost import Bill, bill_of
from scumble.private.ledger.ledger import Ledger, open_ledger
from scumble.private.manifest import manifest_of, new_folder, remarks_of
from scumble.private.mechanism import Mechanism, Publisher, Summary, cautions_of, protect_unit
from scumble.private.meter.table import PrivateTable
from scumble.private.owner import OwnedRelease, check_address
from scumble.private.perturbation.guarantees import NINETEEN, noise_warning
from scumble.private.publish_options import DEFAULTS, PublishOptions, Table
from scumble.private.recommend import TYPICAL_ROWS, Recommendation, recommend
from scumble.private.sampling.source import Keystream, check_seed
from scumble.private.tables.check import remarks_on_unit
from scumble.private.tables.open import open_source
from scumble.private.tables.persons.limit import check_rows_of_people
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import Source
from scumble.public.archive.relations import check_can_write_linked
from scumble.public.manifest import PART_OF_TABLE, refuse_seeded

if TYPE_CHECKING:
    from scumble.private.engines.spark import SparkExecutor
    from scumble.public.synthesis.linked import LinkedRelease

# Parameters of `publish` that several tables together do not have, with the reasons.
_FOR_ONE_TABLE = {
    "sample": "synthetic rows and joins would tell about the people who were drawn alone",
    "part": "a ledger knows the parts of one table",
    "basket": "lists are no columns that Synthesis publishes",
    "order": "lists are no columns that Synthesis publishes",
    "engine": "the process that publishes joins them in its memory",
}
# In the report of a release whose method was not given, and of one of rows. The key itself is never
# written.
CHOSEN = "chosen by recommend"  # with the reason
KEYED = "keyed by unit of work: a unit that is read again draws the same noise"


def publish(
    source: Any,
    schema: Schema | str | Path,
    mechanism: Mechanism | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    options: PublishOptions = DEFAULTS,
    ledger: Ledger | str | Path | None = None,
    to: str | None = None,
) -> OwnedRelease:
    """Publish a private table and return the release.

    `source` is a path (CSV, Parquet), any table that speaks Arrow, or a `Table` that says what is
    read of a DuckDB file or of a database (`postgresql://...` or `sqlite:///...`), or how; with an
    engine, a Spark DataFrame. `schema` is a `Schema` or the path of one.
    Give either `mechanism` or `epsilon`, with `delta` if you like: then `recommend` chooses what
    answers questions best, hiding what the rows of a person say, and the release tells which
    method it is, and why.
    `options` say how the table is read. `ledger` is the owner's ledger, which is charged before
    anything is read but the number of rows, which `recommend` uses where the release tells it. `to`
    is the address of a table, `postgresql://user@host/database/schema.name` or
    `sqlite:///file.db/name`, to which the release is saved; that it can be is checked before
    anything is charged.
    """
    _check_choice(mechanism, epsilon, delta)
    check_options("publish", options)
    if isinstance(source, Mapping):
        raise ParameterError.of(
            "publish", "source", "one table; publish_linked takes several", source
        )
    table, known = Table.of(source), _load_schema(schema)
    chosen = None
    if mechanism is None:
        table, chosen = _choose(table, known, options, epsilon, delta)
        mechanism = chosen.mechanism()
    facts = {} if chosen is None else {CHOSEN: chosen.reason}
    mechanism = protect_unit(mechanism, known)
    run = partial(_published, mechanism, facts=facts)
    [release] = _run(table, known, mechanism, options, ledger, run, to)
    if chosen is not None:
        said = f"The method {chosen.method} was chosen by scumble.recommend. {chosen.reason}"
        release.remarks = (said, *release.remarks)
    if to is not None:
        release.save(to)
    return release


def publish_linked(
    sources: Mapping[str, Any],
    schemas: Mapping[str, Schema | str | Path],
    mechanism: Mechanism,
    *,
    keys: Mapping[str, str],
    children: Mapping[str, Sequence[str]] | None = None,
    options: PublishOptions = DEFAULTS,
    ledger: Ledger | str | Path | None = None,
    to: str | None = None,
) -> LinkedRelease:
    """Publish several tables about the same people by Synthesis, and return their releases.

    `sources` and `schemas` have the tables by name, that of the people first. `keys` names the
    identifier of people in each, `children` the columns of the others with those of the person that
    they depend on (all, if it is left out). The other parameters are those of `publish`.
    """
    check_options("publish_linked", options)
    given: object = sources
    if not isinstance(given, Mapping):
        allowed = "a dict of tables by name, the people first"
        raise ParameterError.of("publish_linked", "sources", allowed, given)
    tables = {name: Table.of(each) for name, each in sources.items()}
    for each in (options, *tables.values()):
        for name, reason in _FOR_ONE_TABLE.items():
            if getattr(each, name, None) is not None:
                sentence = f"Several tables are published without {named(name)}: {reason}."
                raise ParameterError(sentence)
    if to is not None:
        refuse_seeded(options.seed is not None, insecure=False)
        check_can_write_linked(to, list(tables))
    link = load("synthesis", "publish").publish_linked
    release: LinkedRelease = link(
        tables, schemas, mechanism, options, ledger, publish, keys=keys, children=children
    )
    if to is not None:
        release.save(to)
    return release


def check_options(owner: str, options: object) -> None:
    """Refuse options that are none."""
    if not isinstance(options, PublishOptions):
        raise ParameterError.of(owner, "options", "PublishOptions(...)", options)


def _load_schema(schema: Any) -> Schema:
    if not isinstance(schema, (Schema, str, Path)):
        raise ParameterError.of("publish", "schema", "a Schema or the path of one", schema)
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def _check_choice(mechanism: object, epsilon: float | None, delta: float | None) -> None:
    """Refuse neither a mechanism nor ε, or both."""
    if mechanism is None:
        if epsilon is None:
            raise ParameterError(
                f"Give a mechanism, or {setting('epsilon', 1)}: the method is then the recommended "
                "one."
            )
        read_epsilon("publish", epsilon)
        if delta is not None:
            read_delta("publish", delta)
        return
    if epsilon is not None or delta is not None:
        raise ParameterError(
            f"Give either a mechanism or {named('epsilon')} and {named('delta')}: a mechanism has "
            "its own."
        )
    if not isinstance(mechanism, (Publisher, Summary)):
        allowed = "a mechanism such as Uniform(epsilon=1)"
        raise ParameterError.of("publish", "mechanism", allowed, mechanism)


def _choose(
    table: Table, schema: Schema, options: PublishOptions, epsilon: Any, delta: float | None
) -> tuple[Table, Recommendation]:
    """Return the recommended method, and the table, which may have been opened here.

    The choice depends on nothing private: on the number of rows only where the release tells it.
    """
    rows = None
    if _tells_rows(schema, table, options):
        opened = open_source(table.source, table=table.table, query=table.query)
        table = Table(opened)
        rows = count_rows(opened, schema)
    best = recommend(schema, rows=rows or TYPICAL_ROWS, epsilon=epsilon, delta=delta).best
    if rows is None:
        for_rows = f"The number of rows is not used: it was chosen for {TYPICAL_ROWS:,} rows."
        best = replace(best, reason=f"{best.reason} {for_rows}")
    return table, best


def _tells_rows(schema: Schema, table: Table, options: PublishOptions) -> bool:
    """Whether a release that hides what the rows of a person say tells how many rows there are."""
    whole = table.part is None and options.sample is None and table.basket is None
    counted = options.engine is None  # a cluster would have to read the table for it
    return schema.person is None and whole and counted and options.outside != "drop"


def count_rows(source: Source, schema: Schema) -> int | None:
    """Return the number of rows of a table; None if it can be read only once."""
    if getattr(source, "once", False):
        return None
    known: int | None = source.rows
    if known is not None:
        return known
    columns = [attribute.name for attribute in schema if attribute.name in source.columns]
    if not columns:  # whoever reads the source says so
        return None
    rows: int = sum(batch.num_rows for batch in source.batches(columns[:1]))
    return rows


def _published(
    mechanism: Any, rows: Rows, noise: Keystream, facts: Mapping[str, Any] = MappingProxyType({})
) -> list[OwnedRelease]:
    """Return the release of a table, in a list."""
    with new_folder() as folder:
        evidence = _evidence(mechanism, rows, noise, folder)
        return [_owned(mechanism, evidence, rows, noise, folder, facts)]


def publish_views(
    source: Any,
    schema: Schema | str | Path,
    views: Mapping[int, Publisher],
    perturb: Callable[[Rows, Keystream, Mapping[int, Path]], Mapping[int, Evidence]],
    options: PublishOptions,
    ledger: Ledger | str | Path | None,
) -> list[OwnedRelease]:
    """Publish several nested views in one pass over the rows, and return one release for each.

    `views` has the mechanism of every view by its level, in ascending order. `perturb` writes all
    views, each into the folder of its level, and returns their evidence. The last view is the one
    that a ledger is charged for: the others follow from it.
    """

    def run(rows: Rows, noise: Keystream) -> list[OwnedRelease]:
        with ExitStack() as stack:
            folders = {level: stack.enter_context(new_folder()) for level in views}
            evidence = perturb(rows, noise, folders)
            facts = {"levels drawn together": list(folders), "draw": secrets.token_hex(8)}
            return [
                _owned(mechanism, evidence[level], rows, noise, folders[level], facts)
                for level, mechanism in views.items()
            ]

    known = _load_schema(schema)
    protect_unit(views[max(views)], known)
    check_options("publish_levels", options)
    return _run(Table.of(source), known, views[max(views)], options, ledger, run)


def _run(
    table: Table,
    schema: Schema,
    mechanism: Mechanism,
    options: PublishOptions,
    to_charge: Ledger | str | Path | None,
    run: Callable[[Rows, Keystream], list[OwnedRelease]],
    to: str | None = None,
) -> list[OwnedRelease]:
    """Check the parameters, charge the ledger if there is one, and return what `run` publishes.
    `to` is the address that it must be possible to save it to.
    """
    known = mechanism.read_schema(schema)
    mechanism.check(known)
    mechanism.check_reading(options.outside)
    check_seed(options.seed)
    check_jobs("publish", options.jobs)
    ledger = None if to_charge is None else open_ledger(to_charge)
    sample = _sample(mechanism, table, options)
    part = _part(known, ledger, table.part)
    if to is not None:
        check_address(to, mechanism, known, seeded=options.seed is not None)
    person = getattr(mechanism, "person", None)
    with _cluster(options) as cluster:
        source = table.source
        if cluster is not None:
            source = cluster.source(source, _columns(known, table))
        read = open_source(
            source,
            table=table.table,
            query=table.query,
            basket=table.basket,
            order=table.order,
            lists=[each.name for each in known.lists],
            person=person,
            part=part,
            sample=sample,
            fixed=getattr(mechanism, "neighbours", None) == "replace",
            seed=options.seed,
        )
        rows = Rows(
            read,
            known,
            outside=options.outside,
            reveal=flag("publish", "reveal", options.reveal),
            progress=options.progress,
        )
        if not mechanism.limits_rows and known.unit is not None:
            check_rows_of_people(read, known.unit)
        noise_seen = False

        def draw() -> list[OwnedRelease]:
            """The key of the release is drawn after the ledger was charged."""
            nonlocal noise_seen
            repeated = remarks_on_unit(read, known, person)
            noise_of = release_noise(rows, options.seed, options.jobs, cluster)
            with read.drawn([each.name for each in known.published]), noise_of as noise:
                try:
                    releases = run(rows, noise)
                finally:
                    # What a summary reads next may depend on its noise, and so may a failure.
                    noise_seen = noise.drawn and isinstance(mechanism, Summary)
            for release in releases:
                release.remarks = (*repeated, *release.remarks)
            return releases

        if ledger is None:
            return draw()
        bill = _bill(mechanism, rows, options, ledger)
        with ledger.paid(bill, nothing_made=lambda: not noise_seen):
            releases = draw()
            for release in releases:
                release.remarks = (*release.remarks, str(bill))
        return releases


def _cluster(options: PublishOptions) -> AbstractContextManager[SparkExecutor | None]:
    """A context with the cluster that does the work, if there is one."""
    if options.engine is None:
        return nullcontext()
    if not isinstance(options.engine, Spark):
        raise ParameterError.of("publish", "engine", "Spark(session)", options.engine)
    if options.jobs != 1:
        raise ParameterError(
            f"{named('jobs')} is for the processes of this machine; leave it out with "
            f"{named('engine')}."
        )
    return options.engine.opened()


def _columns(schema: Schema, table: Table) -> set[str]:
    """Return the columns of a table that may be read."""
    based = {base.name for each in schema if (base := schema.derived_from(each.name))}
    own = {each.name for each in schema} | based
    return own | {each for each in (table.basket, table.order) if each is not None}


def _sample(mechanism: Mechanism, table: Table, options: PublishOptions) -> Sample | None:
    """Return how people are drawn, if they are; refuse where no proof holds."""
    if options.sample is None:
        return None
    if options.engine is not None:
        raise ParameterError(
            f"A sample is drawn by the process that publishes: leave {named('engine')} out."
        )
    share = read_share("publish", "sample", options.sample)
    unit = getattr(mechanism, "unit", None)
    if mechanism.not_sampled or unit is None:
        raise PromiseError(f"{type(mechanism).__name__} takes no sample: {mechanism.not_sampled}")
    if unit.neighbours == "add_remove":
        if unit.rows > 1 and unit.column is None:
            raise PromiseError(
                f"Of a person with {unit.rows} rows single rows would be drawn, which no proof "
                f"covers: name the people by {named('person')}."
            )
        return Sample(share, unit.rows)
    if not unit.keeps_rows:
        raise PromiseError(
            "If people are replaced, a sample has a fixed number of rows, one of each person: use "
            f"{setting('neighbours', 'add_remove')}, or one row per person without "
            f"{named('person')}."
        )
    if options.outside == "drop" or table.part is not None:
        raise PromiseError(
            "If people are replaced, the number of rows to draw from must be public, and here the "
            f"values decide it: use {setting('neighbours', 'add_remove')}."
        )
    return Sample(share)


def _part(schema: Schema, ledger: Ledger | None, part: object) -> tuple[Attribute, object] | None:
    """Return the column by which a ledger knows parts of the table, with the value of this part."""
    if part is None:
        return None
    if ledger is None or ledger.terms.parts is None:
        raise ParameterError(
            "A part is published under a ledger that was created with "
            f"{setting('parts', 'COLUMN')}. Give such a {named('ledger')}, or leave "
            f"{named('part')} out."
        )
    return schema[ledger.terms.parts], part


def _bill(mechanism: Mechanism, rows: Rows, options: PublishOptions, ledger: Ledger) -> Bill:
    part = rows.source.part
    return bill_of(
        mechanism,
        rows.schema,
        ledger.terms,
        outside=rows.outside,
        seeded=options.seed is not None,
        part=None if part is None else part.label,
        column=None if part is None else part.attribute,
        sample=rows.source.sample,
    )


def _evidence(
    mechanism: Publisher | Summary, rows: Rows, noise: Keystream, folder: Path
) -> Evidence:
    if isinstance(mechanism, Publisher):
        return mechanism.perturb(rows, noise, folder)
    account = BudgetAccount(mechanism.promise)
    counter = EngineCounter(open_engine(rows, noise))
    return mechanism.measure(PrivateTable(counter, account, noise), folder)


def _owned(
    mechanism: Mechanism,
    evidence: Evidence,
    rows: Rows,
    noise: Keystream,
    folder: Path,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> OwnedRelease:
    """The release of this evidence; `facts` are added to the report of its manifest."""
    manifest = manifest_of(
        mechanism,
        evidence,
        rows.schema,
        outside=rows.outside,
        seeded=noise.seeded,
        sample=rows.source.sample,
        grouped=rows.source.grouped,
    )
    keyed = {"noise": KEYED} if isinstance(mechanism, Publisher) else {}
    report = {**manifest.report, **facts, **_part_read(rows), **keyed}
    manifest = replace(manifest, report=report)
    remarks = (
        *_left_out(mechanism, rows.schema),
        *cautions_of(mechanism, rows.schema),
        *remarks_of(rows, evidence),
        *mechanism.noticed(rows.schema, evidence, folder),
        *_too_noisy(mechanism, rows.schema, evidence),
    )
    return OwnedRelease(manifest, folder, temporary=True, remarks=remarks)


def _left_out(mechanism: Mechanism, schema: Schema) -> tuple[str, ...]:
    """Remarks on the columns that a publisher of rows cannot publish."""
    if not isinstance(mechanism, Publisher):
        return ()
    lists = (
        f"'{attribute.name}' is left out: it is a {attribute.describe()}. Columns that are derived "
        "from it, such as contains(x, 'a'), can be published when the schema lists them."
        for attribute in schema.lists
    )
    open_ = (
        f"'{attribute.name}' is left out: it is an open category, which only Keys publishes."
        for attribute in schema.open
    )
    return (*lists, *open_)


def _too_noisy(mechanism: Mechanism, schema: Schema, evidence: Evidence) -> tuple[str, ...]:
    """A warning from the published number of rows, where a formula gives the error to expect."""
    rows = evidence.rows
    error = mechanism.expected_error(schema, rows) if rows else None
    if not rows or error is None:
        return ()
    warning = noise_warning(NINETEEN * error, rows)
    return (warning,) if warning else ()


def _part_read(rows: Rows) -> dict[str, str]:
    """For the report: which part of the table was read, if it was not all of it."""
    part = rows.source.part
    return {} if part is None else {PART_OF_TABLE: f"{part.attribute.name} = {part.label}"}
