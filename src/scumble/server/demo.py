"""The demonstration of the server: fictitious people, two databases and two releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from scumble.demo.census import census
from scumble.private.database.database import Database
from scumble.private.database.live.database import LiveDatabase
from scumble.private.mechanism import create
from scumble.private.publish import publish
from scumble.server.config import Address, DatasetSettings, Limits, ServerSettings

PEOPLE = 50_000
STEPS = 5  # of `make_demo`
ASKED = ("age", "sex", "region", "condition")
_EPSILON, _NOISE = 2.0, 100.0  # up to 100 answers about one person: room for an afternoon
_DELTA = 1e-9


def make_demo(
    folder: Path, address: Address, step: Callable[[str], None], people: int = PEOPLE
) -> ServerSettings:
    """Make the data sets of the demonstration in a folder, and return the configuration."""
    step(f"Making {people:,} fictitious people")
    table, schema = census(people)
    source = folder / "people.parquet"
    pq.write_table(table, source)
    step("Making a live database: everything has an answer, a better one is paid for")
    LiveDatabase.create(
        folder / "live",
        source,
        schema,
        epsilon=1,
        delta=_DELTA,
        neighbours="replace",
        attributes=list(ASKED),
    ).close()
    step("Making a database that answers with one noise")
    asked = list(ASKED)
    Database.create(
        folder / "people", source, schema, epsilon=_EPSILON, noise=_NOISE, attributes=asked
    ).close()
    step("Publishing perturbed rows")
    publish(source, schema, create("uniform", epsilon=2)).save(folder / "rows")
    step("Publishing private tables of counts")
    marginals = create("marginals", attributes=asked, epsilon=1, neighbours="replace", ways=2)
    publish(source, schema, marginals).save(folder / "counts")
    return ServerSettings(
        folder=folder / "server",
        address=address,
        title="Demonstration",
        limits=Limits(seconds=30, wire_quota=1),
        datasets=(
            DatasetSettings(
                "live",
                "People (live database)",
                "Fictitious people of a census. Every question has an answer; say how accurate.",
                database=folder / "live",
                source=str(source),
            ),
            DatasetSettings(
                "people",
                "People (one noise for all)",
                "The same people, asked one question after the other until the promise is used up.",
                database=folder / "people",
                source=str(source),
            ),
            DatasetSettings(
                "rows",
                "People (perturbed rows)",
                "The same people; every row is there, and the condition of some is drawn anew.",
                release=folder / "rows",
            ),
            DatasetSettings(
                "counts",
                "People (tables of counts)",
                "The same people, as noisy tables of two columns each.",
                release=folder / "counts",
            ),
        ),
    )
