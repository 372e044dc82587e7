"""What AlphaBeta refuses, and what it makes of unusual tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import scumble as sc
from scumble.private.sampling.source import Keystream
from scumble.private.tables.rows import Rows
from tests.support.people import people, schema


def _sized(**sizes: int) -> sc.Schema:
    return sc.Schema(
        [sc.Attribute(name, "quasi", sc.IntegerRange(0, size - 1)) for name, size in sizes.items()]
    )


class Silent(Keystream):
    """A source that must not be asked."""

    def fill(self, out: object) -> None:
        raise AssertionError("something was drawn")


def _perturb(private: pa.Table, domain: sc.Schema, mechanism: sc.AlphaBeta) -> None:
    """Publish without any randomness at hand: only a refusal gets through."""
    mechanism.check(domain)
    mechanism.perturb(Rows(private, domain), Silent(1), Path(tempfile.mkdtemp()))


# --- the numbers of the spec ---------------------------------------------------------------------


def test_what_no_table_allows_is_refused_before_it_is_read(subtests: pytest.Subtests) -> None:
    for parameters, sentence in [
        ({"k": 60, "gamma": 0.5}, "theorem 3.3.*rule of thumb.*Ask for a smaller k"),
        ({"k": 10, "gamma": 0.01}, "theorem 3.3"),
        ({"d": 0.4, "gamma": 0.5, "sources": {"a": [1, 1]}}, "one for every value"),
        ({"k": 2, "gamma": 0.5, "sources": {"c": [1, 1]}}, "the schema has not"),
        ({"k": 26, "gamma": 0.5, "sources": {"a": [10**6] + [1] * 49}}, "a prior of gamma or more"),
        ({"alpha": 0.4, "beta": 0.3, "sources": {"a": [99] + [1] * 49}}, "present for certain"),
    ]:
        with (
            subtests.test(parameters=parameters, sentence=sentence),
            pytest.raises((sc.ParameterError, sc.SchemaError), match=sentence),
        ):
            sc.publish("no such file.csv", _sized(a=50, b=50), sc.AlphaBeta(**parameters))


@pytest.mark.parametrize("gamma", [0.2, 0.5])
def test_a_refusal_names_the_largest_k(gamma: float) -> None:
    """It is one that works, and the next one of two digits does not."""
    domain = _sized(a=100, b=100)
    private = pa.table({"a": [*range(100)] * 10, "b": [row // 100 for row in range(1000)]})

    def publish(k: float) -> sc.Release:
        return sc.publish(
            private, domain, sc.AlphaBeta(k=k, gamma=gamma), options=sc.PublishOptions(seed=1)
        )

    with pytest.raises(sc.ParameterError, match="Even for a single row k may be at most") as caught:
        publish(1e6)
    alone = float(str(caught.value).rstrip(".").split()[-1])
    with pytest.raises(sc.PromiseError, match="Here k may be at most") as refused:
        publish(0.99 * alone)
    most = float(str(refused.value).rstrip(".").split()[-1])
    assert most < alone
    publish(most)
    with pytest.raises(sc.PromiseError):
        publish(most + 0.1)


def test_where_no_k_will_do() -> None:
    private = pa.table({"a": list(range(30)), "b": [0] * 30})
    with pytest.raises(sc.PromiseError, match="Here no k will do"):
        sc.publish(
            private,
            _sized(a=30, b=2),
            sc.AlphaBeta(k=1, gamma=0.2),
            options=sc.PublishOptions(seed=1),
        )


def test_too_much_noise_is_refused() -> None:
    wide = _sized(**{f"c{i}": 1000 for i in range(6)})
    with pytest.raises(sc.ParameterError, match=r"takes about 1\.11e\+17 draws of false tuples"):
        sc.publish("no such file.csv", wide, sc.AlphaBeta(alpha=0.5, beta=0.1))


def test_uneven_sources_take_more_draws_than_false_tuples() -> None:
    """4·10^7 false tuples, but some tuple is there with 0.6, so that 10^8 draws are needed."""
    domain = _sized(a=20, b=10_000, c=5_000)
    mechanism = sc.AlphaBeta(alpha=0.1, beta=0.04, sources={"a": [57, *[1] * 19]})
    with pytest.raises(sc.ParameterError, match=r"takes about 100,000,000 draws"):
        sc.publish("no such file.csv", domain, mechanism)
    sc.AlphaBeta(alpha=0.1, beta=0.04).check(domain)


def test_what_the_table_decides_is_refused_before_anything_is_drawn() -> None:
    domain = schema()
    private = people(60, domain)  # nearly half of the domain, and with equal rows
    cases = [
        (sc.AlphaBeta(k=3, gamma=0.5, duplicates="collapse"), "a prior of gamma or more"),
        (
            sc.AlphaBeta(d=0.05, gamma=0.2),
            "equal.* Give a multiplicity, .* are counted; with duplicates=.*different rows",
        ),
        (sc.AlphaBeta(k=2, gamma=0.2, multiplicity=2), "occurs more than 2 times"),
        (
            sc.AlphaBeta(k=2, gamma=0.4, multiplicity=40, views=6),
            "6 views break what is asked of AlphaBeta; at most 3 views hold",
        ),
    ]
    for mechanism, sentence in cases:
        with pytest.raises(sc.PromiseError, match=sentence) as error:
            _perturb(private, domain, mechanism)
        assert "60" not in str(error.value)
    few = private.slice(0, 1)
    with pytest.raises(sc.PromiseError, match=r"theorem 3\.3"):
        _perturb(few, domain, sc.AlphaBeta(d=0.1, gamma=0.2))


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_table_and_a_single_row(rows: int) -> None:
    """d = k·n/m counts n as 1 at least, so that even an empty table hides among false tuples."""
    domain = schema(ages=1000)
    release = sc.publish(
        people(rows, domain),
        domain,
        sc.AlphaBeta(k=5, gamma=0.2),
        options=sc.PublishOptions(seed=1),
    )
    law = release.evidence.presence
    assert law.rows == rows
    assert law.noise == sc.AlphaBeta(k=5, gamma=0.2).presence(domain, 1).noise
    assert ("The release has no rows." in release.remarks) == (rows == 0)


def test_a_column_of_its_own_name_is_refused() -> None:
    for name, parameters in (("Occurrence", {"multiplicity": 2}), ("views", {"views": 2})):
        domain = sc.Schema([*schema(), sc.Attribute(name, "quasi", sc.IntegerRange(0, 9))])
        with pytest.raises(sc.SchemaError, match="writes a column of this name itself"):
            sc.publish("no such file.csv", domain, sc.AlphaBeta(k=2, gamma=0.5, **parameters))


# --- tables with equal rows ----------------------------------------------------------------------


def test_equal_rows_made_one_or_told_apart() -> None:
    """Every row four times: a set of a quarter, or four numbered tuples each."""
    domain = schema(ages=200)
    private = pa.concat_tables([people(100, domain).group_by(list(domain.names)).aggregate([])] * 4)
    rows = private.num_rows
    collapsed = sc.publish(
        private,
        domain,
        sc.AlphaBeta(k=2, gamma=0.5, duplicates="collapse"),
        options=sc.PublishOptions(reveal=True),
    )
    assert collapsed.evidence.rows == rows // 4
    assert collapsed.evidence.presence.collapsed
    assert f"({rows - rows // 4} rows)" in collapsed.remarks[0]
    told = sc.publish(private, domain, sc.AlphaBeta(k=2, gamma=0.5, multiplicity=4))
    assert told.evidence.rows == rows
    assert told.remarks == ()
    file = pq.read_table(told.folder / "tuples.parquet")
    assert file.column_names == ["age", "sex", "job", "occurrence"]
    assert set(file["occurrence"].to_pylist()) == {0, 1, 2, 3}
    # Whether rows were equal is private: the flag says what was allowed.
    alone = sc.publish(
        people(1, domain), domain, sc.AlphaBeta(k=2, gamma=0.5, duplicates="collapse")
    )
    assert alone.evidence.presence.collapsed
    assert alone.remarks == ()
