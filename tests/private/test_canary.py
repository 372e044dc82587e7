"""No private value and no exact count gets out: not in messages, not in manifests, not in logs."""

from __future__ import annotations

import json
import logging
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

import scumble as sc
from tests.support.people import people, schema

CANARY = "CANARY-7361"
ROWS = 7_361

DOMAIN = sc.Schema([sc.Attribute("name", "identifier"), *schema()], sc.Unit())


def _private(**changed: object) -> pa.Table:
    table = people(ROWS, schema()).append_column(
        "name", pa.array([f"{CANARY}-{row}" for row in range(ROWS)])
    )
    for column, value in changed.items():
        values = table[column].to_pylist()
        values[ROWS // 2] = value
        table = table.drop_columns([column]).append_column(column, pa.array(values))
    return table


MECHANISMS = {
    "uniform": lambda: sc.Uniform(epsilon=1),
    "subset": lambda: sc.Subset(epsilon=1),
    "frapp": lambda: sc.Frapp(epsilon=1),
    "alphabeta": lambda: sc.AlphaBeta(alpha=0.4, beta=0.1, duplicates="collapse"),
    "partition": lambda: sc.Partition(rho1=0.4, rho2=0.6),
    "anatomy": lambda: sc.Anatomy(l=2, suppress=True),
    "generalise": lambda: sc.Generalise(k=2),
    "aroma": lambda: sc.Aroma(k=7),
    "histogram": lambda: sc.Histogram(
        ["age", "job"], epsilon=1, neighbours="replace", person="name"
    ),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_release_holds_no_private_value(
    mechanism: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd
) -> None:
    with caplog.at_level(logging.DEBUG):
        release = sc.publish(_private(), DOMAIN, MECHANISMS[mechanism]())
        folder = release.save(tmp_path / "release")
        release.answer("SELECT job, COUNT(*) FROM t WHERE age > 2 GROUP BY job")
    written = b"".join(path.read_bytes() for path in folder.iterdir())
    said = caplog.text + "".join(capfd.readouterr()) + repr(release) + str(release)
    assert CANARY.encode() not in written
    assert CANARY not in said
    if mechanism == "histogram":  # published rows show their number; a summary must not
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        assert str(ROWS) not in json.dumps(manifest)
        assert str(ROWS) not in said


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("changed", "outside"),
    [
        ({"job": CANARY}, "error"),
        ({"age": 7_361_000}, "error"),
        ({"job": None}, "error"),
        ({"job": CANARY}, "missing"),
    ],
)
def test_errors_name_the_place_and_not_the_value(
    mechanism: str, changed: dict, outside: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(sc.ScumbleError) as error:
        sc.publish(
            _private(**changed),
            DOMAIN,
            MECHANISMS[mechanism](),
            options=sc.PublishOptions(outside=outside),
        )
    # The whole chain of exceptions, as a crash would print it.
    printed = "".join(traceback.format_exception(error.value))
    for secret in (CANARY, "7361000", str(ROWS)):
        assert secret not in str(error.value)
        assert secret not in caplog.text
    chain, link = [], error.value
    while link is not None:
        chain.append(link)
        link = link.__cause__ or link.__context__
    assert not any(CANARY in str(link) or "7361000" in str(link) for link in chain), printed


def test_the_owner_may_ask_to_see_the_value() -> None:
    with pytest.raises(sc.DomainError, match=CANARY):
        sc.publish(
            _private(job=CANARY),
            DOMAIN,
            sc.Uniform(epsilon=1),
            options=sc.PublishOptions(reveal=True),
        )


def test_dropped_rows_are_told_to_the_owner_only(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for mechanism in MECHANISMS:
        with subtests.test(mechanism=mechanism):
            tmp_path = tmp_path_factory.mktemp("case")
            release = sc.publish(
                _private(job=CANARY),
                DOMAIN,
                MECHANISMS[mechanism](),
                options=sc.PublishOptions(outside="drop"),
            )
            [remark] = [each for each in release.remarks if "'job'" in each]
            assert not any(character.isdigit() for character in remark)
            opened = sc.open(release.save(tmp_path / "release"))
            assert opened.remarks == ()
            assert opened.manifest.outside == "drop"
            revealed = sc.publish(
                _private(job=CANARY),
                DOMAIN,
                MECHANISMS[mechanism](),
                options=sc.PublishOptions(outside="drop", reveal=True),
            )
            assert any("(1 times)" in remark for remark in revealed.remarks)
