"""Data sets that are kept in PostgreSQL: two servers answer from one promise."""

from __future__ import annotations

import pyarrow.parquet as pq

import scumble as sc
from scumble.demo.census import census
from scumble.server.catalogue import AskedQuestion, open_dataset
from scumble.server.config import load_settings
from tests.support.servers import ASKED, COUNT


def test_two_servers_share_a_database_and_a_release(postgresql, tmp_path):
    table, schema = census(500)
    source = tmp_path / "people.parquet"
    pq.write_table(table, source)
    answers, rows = postgresql.table("answers"), postgresql.table("rows")
    terms = {"epsilon": 1, "noise": 20, "attributes": ASKED}
    sc.Database.create(answers, source, schema, **terms).close()
    sc.publish(source, schema, sc.Uniform(epsilon=2), to=rows)
    (tmp_path / "server.toml").write_text(
        '[server]\nfolder = "server"\n'
        f'[datasets.people]\ndatabase = "{answers}"\nsource = "people.parquet"\n'
        f'[datasets.rows]\nrelease = "{rows}"\n'
    )
    live, published = load_settings(tmp_path / "server.toml").datasets
    one, other = open_dataset(live), open_dataset(live)
    try:
        first = one.answer(AskedQuestion(COUNT, "Ada"))
        again = other.answer(AskedQuestion(COUNT, "Bob"))
        assert (first.charged, again.charged) == (1, 0)
        assert first.estimate.value == again.estimate.value
        assert other.verify(None) == []
    finally:
        one.close()
        other.close()
    served = open_dataset(published)
    assert served.answer(AskedQuestion("SELECT COUNT(*) FROM t", "Ada")).estimate.value == 500
    served.close()
