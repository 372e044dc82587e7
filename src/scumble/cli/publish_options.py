"""Options of `scumble publish`: those that all methods share, and the place of a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scumble.cli import options
from scumble.model.errors import ParameterError

if TYPE_CHECKING:
    from scumble.private.engines.spark import Spark
    from scumble.private.publish_options import PublishOptions as HowToPublish
    from scumble.private.publish_options import Table
    from scumble.private.tables.source import Source

ReleaseOutput = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the release.")
]
ReleaseAddress = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="ADDRESS",
        help="Table instead: postgresql://... or sqlite:///file.db/name.",
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="VALUE",
        help="One part only: a value of the ledger's --parts column.",
    ),
]
Sample = Annotated[
    float | None,
    typer.Option(
        "--sample",
        metavar="SHARE",
        help="Draw this share of the people, in secret.",
    ),
]
SourceQuery = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="A SELECT to read from postgresql://..."),
]
PublishJobs = Annotated[
    int,
    typer.Option("--jobs", "-j", metavar="NUMBER", help="Processes; the release is the same."),
]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="CHOICE", help="local or spark."),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="ADDRESS", help="spark: its master, as spark://host:7077."),
]
Staging = Annotated[
    Path | None,
    typer.Option(
        "--staging",
        metavar="FOLDER",
        help="spark: a private folder that all its machines see.",
    ),
]
InsecureCluster = Annotated[
    bool,
    typer.Option("--insecure-cluster", help="spark: run although its network is not encrypted."),
]
Reveal = Annotated[bool, typer.Option("--reveal", help="Let messages quote private values.")]
InsecureSeed = Annotated[
    int | None,
    typer.Option(
        "--insecure-seed", metavar="NUMBER", help="Draw from a fixed seed. NOT PRIVATE; for tests."
    ),
]


@contextmanager
def opened_engine(
    engine: str,
    master: str | None,
    staging: Path | None,
    insecure_cluster: bool,
) -> Iterator[Any]:
    """Yield the engine of `publish` that the options name: None for this machine."""
    if engine not in ("local", "spark"):
        raise ParameterError.of("publish", "engine", "'local' or 'spark'", engine)
    if engine == "local":
        if master is not None or staging is not None or insecure_cluster:
            raise ParameterError(
                "--master, --staging and --insecure-cluster are for --engine spark."
            )
        yield None
        return
    if master is None:
        raise ParameterError("--engine spark needs --master, such as --master spark://host:7077.")
    from scumble.private.engines.spark import Spark
    from scumble.private.engines.spark_session import spark_session

    with spark_session(master) as session:
        yield Spark(session, staging=staging, insecure_cluster=insecure_cluster)


@dataclass(frozen=True)
class PublishOptions:
    """What every method takes: the table and how it is read, and where the release goes."""

    source: options.Source
    schema: options.SchemaFile
    output: ReleaseOutput = None
    to: ReleaseAddress = None
    ledger: options.Ledger = None
    outside: options.Outside = "error"
    force: options.Force = False
    as_json: options.Json = False
    part: Part = None
    sample: Sample = None
    basket: options.Basket = None
    order: options.Order = None
    table: options.Table = None
    query: SourceQuery = None
    reveal: Reveal = False
    jobs: PublishJobs = 1
    engine: Engine = "local"
    master: Master = None
    staging: Staging = None
    insecure_cluster: InsecureCluster = False
    insecure_seed: InsecureSeed = None

    def read(self, rows: Source) -> Table:
        """Return the table whose rows are read."""
        from scumble.private.publish_options import Table

        return Table(rows, part=self.part, basket=self.basket, order=self.order)

    def how(self, engine: Spark | None, progress: Callable[[int], None] | None) -> HowToPublish:
        """Return how the table is read, for `publish`."""
        from scumble.private.publish_options import PublishOptions

        names = ("outside", "reveal", "sample", "jobs")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        return PublishOptions(seed=self.insecure_seed, engine=engine, progress=progress, **given)


# In the help of a method: first what nearly everybody gives, after the options of the method.
FREQUENT = ("schema", "output", "to", "ledger", "outside", "force", "as_json", "help")


def check_one_place(what: str, output: Path | None, to: str | None) -> None:
    """Refuse a command with no place for its result, or with two; `what` is as "release goes"."""
    if output is not None and to is not None:
        raise ParameterError(f"Say where the {what} by --output or --to, not both.")
    if output is None and to is None:
        raise ParameterError(f"Say where the {what}: --output FOLDER or --to ADDRESS.")
