"""The PostgreSQL wire: psql, psycopg, ADBC and pandas ask; what is refused; broken messages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from scumble.server.config import Limits
from scumble.server.postgres import statements
from scumble.server.postgres.messages import WireError
from scumble.server.postgres.scram import BOUND, PLAIN, ScramExchange, certificate_hash
from scumble.server.tokens import TokenStore
from tests.support.servers import listening, make_certificate, make_settings

psycopg = pytest.importorskip("psycopg")
PSQL = shutil.which("psql")
COUNT = "SELECT COUNT(*) FROM people WHERE age < 40"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    limits = Limits(wire_quota=1)
    with listening(
        make_settings(tmp_path_factory.mktemp("wire"), epsilon=4, limits=limits)
    ) as found:
        found[2].login_delay = 0.0
        yield found


def _parameters(server, token=None, database="people"):
    _, users, service = server
    text = token or users.analyst
    where = service.settings.postgres
    return {
        "host": where.host,
        "port": where.port,
        "user": text.split("_")[1],
        "password": text,
        "dbname": database,
    }


@pytest.fixture
def connection(server):
    with psycopg.connect(**_parameters(server), autocommit=True) as found:
        yield found


def _address(server, **more):
    found = _parameters(server, **more)
    return (
        f"postgresql://{found['user']}:{found['password']}@{found['host']}:{found['port']}"
        f"/{found['dbname']}"
    )


# --- clients --------------------------------------------------------------------------------------


def test_psycopg_gets_values_with_their_error(server, connection):
    cursor = connection.execute(COUNT)
    names = [each.name for each in cursor.description]
    assert names == ["value", "stderr", "low", "high", "status", "answered"]
    row = dict(zip(names, cursor.fetchone(), strict=True))
    assert row["low"] <= row["value"] <= row["high"]
    assert row["answered"] == "age BETWEEN 18 AND 39"
    again = connection.execute(COUNT).fetchone()
    assert again[0] == row["value"]
    assert again[4] == "repeated"


def test_columns_have_the_names_that_a_question_gives_them(connection):
    for prepare in (False, True):
        cursor = connection.execute(
            f"{COUNT} ".replace("COUNT(*)", "COUNT(*) AS n"), prepare=prepare
        )
        names = [each.name for each in cursor.description]
        assert names == ["n", "stderr", "low", "high", "status", "answered"]
        grouped = "SELECT sex AS who, COUNT(*) AS n FROM people GROUP BY sex"
        cursor = connection.execute(grouped, prepare=prepare)
        assert [each.name for each in cursor.description][:3] == ["who", "n", "stderr"]


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_and_groups(connection, binary):
    sql = "SELECT sex, COUNT(*) FROM people WHERE age >= %s AND condition <> %s GROUP BY sex"
    with connection.cursor(binary=binary) as cursor:
        rows = cursor.execute(sql, (50, "Diabetes")).fetchall()
    assert [row[0] for row in rows] == ["female", "male"]
    assert all(isinstance(row[1], float) for row in rows)


def test_several_numbers_have_columns_each(connection):
    cursor = connection.execute("SELECT COUNT(*) AS n, AVG(age) AS a FROM people WHERE age > 30")
    names = [each.name for each in cursor.description]
    assert names == [
        *("n", "n_stderr", "n_low", "n_high"),
        *("a", "a_stderr", "a_low", "a_high"),
        "status",
    ]


@pytest.mark.parametrize("groups", ["", "sex, "])
def test_notes_come_as_notices(connection, groups):
    """Also those of a table without groups, and once where rows are fetched in portions."""
    told = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    by = "GROUP BY sex" if groups else ""
    sql = f"SELECT {groups}COUNT(*) FROM people WHERE condition = 'Hiccups' {by}"
    note = "'Hiccups' is not in the domain of 'condition', so no row has it."
    connection.execute(sql)
    assert told == [note]
    connection.execute(sql, prepare=True)
    assert told == [note, note]


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_psql_asks_and_describes(server):
    found = _parameters(server)
    commands = [COUNT, r"\d", r"\d people", r"\dt", "SHOW server_version", "SELECT 1"]
    arguments = [part for each in commands for part in ("-c", each)]
    place = ["-h", found["host"], "-p", str(found["port"]), "-U", found["user"], "-X"]
    done = subprocess.run(
        [PSQL, *place, found["dbname"], *arguments],
        env={**os.environ, "PGPASSWORD": found["password"], "PGSSLMODE": "disable"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert 'Table "public.people"' in done.stdout
    assert "condition | text" in done.stdout
    assert "age BETWEEN 18 AND 39" in done.stdout


def test_adbc_reads_arrow(server):
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with adbc.connect(_address(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sex, COUNT(*) FROM people WHERE age > 44 GROUP BY sex")
        table = cursor.fetch_arrow_table()
    assert table.column_names == ["sex", "value", "stderr", "low", "high", "status", "answered"]
    assert table["sex"].to_pylist() == ["female", "male"]
    assert str(table["value"].type) == "double"


def test_pandas_reads_frames(server, connection):
    pandas = pytest.importorskip("pandas")
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pandas.read_sql("SELECT sex, COUNT(*) FROM people GROUP BY sex", connection)
    assert list(frame["sex"]) == ["female", "male"]
    assert (frame["low"] <= frame["value"]).all()


def test_a_release_is_asked_in_the_same_way(server):
    with psycopg.connect(**_parameters(server, database="rows")) as connection:
        row = connection.execute("SELECT COUNT(*) FROM t WHERE condition = 'Asthma'").fetchone()
    assert row[2] <= row[0] <= row[3]
    assert row[4] == "released"


_DESCRIBE = """
import sys, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    prepared = connection.pgconn
    prepared.prepare(b"one", b"SELECT COUNT(*) FROM people WHERE age > $1")
    found = prepared.describe_prepared(b"one")
    print(*(found.fname(place).decode() for place in range(found.nfields)))
"""


def test_describing_asks_nothing(server):
    """In a process of its own: these calls hold the interpreter, in which the server runs too."""
    database = server[2].catalogue.get("people").database
    before = len(database.history())
    done = subprocess.run(
        [sys.executable, "-c", _DESCRIBE, _address(server)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split()[:2] == ["value", "stderr"], done.stderr
    assert len(database.history()) == before


def test_information_schema_lists_the_table(connection):
    sql = "SELECT column_name FROM information_schema.columns WHERE table_name = 'people'"
    assert [row[0] for row in connection.execute(sql)] == ["age", "sex", "condition"]


def test_tls_protects_the_connection(tmp_path):
    certificate, key = make_certificate(tmp_path)
    settings = replace(make_settings(tmp_path / "data"), certificate=certificate, key=key)
    with listening(replace(settings, require_tls=True)) as server:
        more = {"sslmode": "verify-full", "sslrootcert": str(certificate)}
        with psycopg.connect(**_parameters(server), **more) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute(COUNT).fetchone()[0] > 0
        psycopg.connect(**_parameters(server), **more, channel_binding="require").close()
        psycopg.connect(**_parameters(server), **more, channel_binding="disable").close()
        with pytest.raises(psycopg.OperationalError, match="Only TLS is spoken here"):
            psycopg.connect(**_parameters(server), sslmode="disable")
        with _raw(server) as found:  # a message that somebody on the way put before the handshake
            found.sendall(struct.pack("!ii", 8, 80877103) + b"Q\0\0\0\x05\0")
            received = b""
            with suppress(ConnectionError):
                while more := found.recv(4096):
                    received += more
        assert b"Nothing may come before TLS." in received


# --- refusals -------------------------------------------------------------------------------------


REFUSALS = [
    ("INSERT INTO people VALUES (1)", "25006"),
    ("DROP TABLE people", "25006"),
    ("EXPLAIN SELECT 1", "0A000"),
    ("SELECT COUNT(*) FROM people WHERE agee > 3", "42601"),
    ("SELECT * FROM people", "42601"),
    ("SELECT COUNT(*", "42601"),
    ("SET relax = 'perhaps'", "22023"),
]


def test_refusals_have_a_sqlstate(connection, subtests):
    for sql, state in REFUSALS:
        with subtests.test(sql=sql):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(sql)
            assert caught.value.sqlstate == state
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_used_up_promise_refuses_unless_it_may_relax(tmp_path):
    other = "SELECT COUNT(*) FROM people WHERE age < 42"
    with (
        listening(make_settings(tmp_path, epsilon=0.2)) as server,
        psycopg.connect(**_parameters(server), autocommit=True) as connection,
    ):
        connection.execute(COUNT)
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute(other)
        connection.execute("SET relax = 'regression'")
        assert connection.execute(other).fetchone()[4] == "relaxed"


def test_logins_that_fail(server):
    _, users, service = server
    good = _parameters(server)
    for change in (
        {"password": "scb_wrong"},
        {"user": "0000000000"},
        {"dbname": "nothing"},
        {"user": users.auditor.split("_")[1], "password": users.auditor},
    ):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**{**good, **change})
    text, token = service.tokens.create("analyst", "leaving")
    with psycopg.connect(**_parameters(server, token=text), autocommit=True) as connection:
        connection.execute(COUNT)
        service.tokens.revoke(token.prefix)
        with pytest.raises(psycopg.OperationalError, match="revoked"):
            connection.execute(COUNT)


def test_connections_of_a_token_and_of_all_are_limited(tmp_path):
    limits = Limits(wire_of_token=2, wire_connections=4)
    with listening(make_settings(tmp_path, limits=limits)) as server:
        given = _parameters(server)
        with psycopg.connect(**given), psycopg.connect(**given):
            with pytest.raises(psycopg.OperationalError, match="at most 2 connections"):
                psycopg.connect(**given)
            with (
                _raw(server),
                _raw(server),
                pytest.raises(psycopg.OperationalError, match="Too many connections"),
            ):
                psycopg.connect(**given, sslmode="disable")


def test_connections_that_ask_nothing_end(tmp_path):
    with listening(make_settings(tmp_path, limits=Limits(wire_idle=0.2))) as server:
        connection = psycopg.connect(**_parameters(server))
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as raw:
            raw.settimeout(20)
            assert raw.recv(10) == b""
        connection.close()


def test_statements_and_portals_of_a_connection_are_limited(connection):
    raw = connection.pgconn
    for name in range(50):
        assert raw.prepare(f"s{name}".encode(), b"SELECT 1").status == 1
    refused = raw.prepare(b"one more", b"SELECT 1")
    assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"54000"
    with socket.socket(fileno=os.dup(raw.socket)) as wire:
        wire.settimeout(20)
        for name in range(51):
            body = f"p{name}\0s0\0".encode() + struct.pack("!hhh", 0, 0, 0)
            wire.sendall(b"B" + struct.pack("!i", len(body) + 4) + body)
        wire.sendall(b"S" + struct.pack("!i", 4))
        received = b""
        while not received.endswith(b"Z\0\0\0\5I"):
            received += wire.recv(65_536)
    assert received.count(b"2\0\0\0\4") == 50
    assert b"54000" in received
    assert b"At most 50 portals" in received


def test_analysts_who_come_by_the_wire_get_a_quota(tmp_path):
    """A quarter of ε = 4, of which noise 10 allows five answers; the owner can raise and end it."""
    with listening(make_settings(tmp_path, epsilon=4)) as server:
        database = server[2].catalogue.get("people")
        with psycopg.connect(**_parameters(server), autocommit=True) as connection:
            for age in range(30, 35):
                connection.execute(f"SELECT COUNT(*) FROM people WHERE age < {age}")
            with pytest.raises(psycopg.Error, match="analyst's quota is used up") as caught:
                connection.execute("SELECT COUNT(*) FROM people WHERE age < 36")
            assert caught.value.sqlstate == "53400"
            database.set_quota("the analyst", None)
            connection.execute("SELECT COUNT(*) FROM people WHERE age < 36")
        with psycopg.connect(**_parameters(server), autocommit=True) as connection:
            connection.execute("SELECT COUNT(*) FROM people WHERE age < 37")  # it stays ended
        with psycopg.connect(**_parameters(server, token=server[1].owner), autocommit=True):
            pass
        named = {each.analyst: each.epsilon for each in database.usage()}
        assert named == {"the analyst": None}  # and an owner has none


def test_a_proof_that_is_no_base64_is_a_failed_login():
    exchange = ScramExchange("nobody", None)
    answer = exchange.first(PLAIN, b"n,,n=,r=abc").decode()
    nonce = answer.split(",")[0]
    with pytest.raises(WireError, match="wrong, expired or revoked"):
        exchange.final(f"c=biws,{nonce},p=é".encode())


def _final(password: str, header: bytes, bare: str, answer: str, bound: bytes = b"") -> bytes:
    """The last message of a client that sent this header, and saw a certificate with this hash."""
    without = f"c={base64.b64encode(header + bound).decode()},{answer.split(',')[0]}"
    proof = _proof(password, answer, f"{bare},{answer},{without}".encode())
    return f"{without},p={base64.b64encode(proof).decode()}".encode()


def test_a_login_is_bound_to_the_certificate(tmp_path):
    """What somebody between client and server passes on, who has another certificate, fails."""
    text, token = TokenStore(tmp_path).create("analyst", "Ada")
    ours = certificate_hash(make_certificate(tmp_path)[0])
    header = b"p=tls-server-end-point,,"
    for seen, header_again, fits in (
        (ours, header, True),
        (b"x" * 32, header, False),
        (b"", header, False),
        (ours, b"n,,", False),
    ):
        exchange = ScramExchange(token.prefix, token, ours)
        assert exchange.mechanisms == (BOUND, PLAIN)
        answer = exchange.first(BOUND, header + b"n=,r=abc").decode()
        final = _final(text, header_again, "n=,r=abc", answer, seen)
        if fits:
            assert exchange.final(final).startswith(b"v=")
        else:
            with pytest.raises(WireError, match="wrong, expired or revoked"):
                exchange.final(final)


@pytest.mark.parametrize(
    ("mechanism", "first", "bound", "sentence"),
    [
        (PLAIN, b"y,,n=,r=abc", True, "somebody may be between"),  # the offer was taken out
        (BOUND, b"n,,n=,r=abc", True, "wrong"),
        (BOUND, b"p=tls-unique,,n=,r=abc", True, "wrong"),
        (BOUND, b"p=tls-server-end-point,,n=,r=abc", False, "Only SCRAM-SHA-256 is"),
        (PLAIN, b"p=tls-server-end-point,,n=,r=abc", True, "wrong"),
        (PLAIN, b"n,a=owner,n=,r=abc", False, "authorisation identity"),
        (BOUND, b"p=tls-server-end-point,a=owner,n=,r=abc", True, "authorisation identity"),
        (PLAIN, b"n,,m=new,n=,r=abc", False, "wrong"),  # an extension that must be understood
    ],
)
def test_what_a_login_may_not_begin_with(mechanism, first, bound, sentence):
    with pytest.raises(WireError, match=sentence):
        ScramExchange("nobody", None, b"x" * 32 if bound else None).first(mechanism, first)


def test_a_certificate_without_a_hash_function_binds_no_login(tmp_path):
    """RFC 5929 says nothing about Ed25519; SHA-1 is replaced by SHA-256."""
    certificate, _ = make_certificate(tmp_path, ed25519=True)
    assert certificate_hash(certificate) is None
    assert ScramExchange("nobody", None, None).mechanisms == (PLAIN,)


def _proof(password: str, answer: str, signed: bytes) -> bytes:
    """The proof of a client (RFC 5802), which need not know what the server has stored."""
    salt, rounds = (part[2:] for part in answer.split(",")[1:])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    return bytes(one ^ other for one, other in zip(key, signature, strict=True))


def test_the_server_checks_the_proof_of_a_client(tmp_path):
    """A client of the library would notice by itself that a server accepts anything."""
    text, token = TokenStore(tmp_path).create("analyst", "Ada")
    for password, known in ((text, token), ("scb_wrong", token), (text, None), ("", token)):
        exchange = ScramExchange(token.prefix, known)
        answer = exchange.first(PLAIN, b"n,,n=,r=abc").decode()
        without = f"c=biws,{answer.split(',')[0]}"
        proof = _proof(password, answer, f"n=,r=abc,{answer},{without}".encode())
        final = f"{without},p={base64.b64encode(proof).decode()}".encode()
        if (password, known) == (text, token):
            assert exchange.final(final).startswith(b"v=")
            continue
        with pytest.raises(WireError, match="wrong, expired or revoked"):
            exchange.final(final)


def test_a_server_ends_while_a_question_runs(tmp_path, monkeypatch):
    entered = threading.Event()

    def slow(_):
        entered.set()
        time.sleep(3)

    with listening(make_settings(tmp_path)) as server:
        monkeypatch.setattr(server[2].catalogue.get("people"), "answer", slow)

        def ask():
            with suppress(psycopg.Error), psycopg.connect(**_parameters(server)) as connection:
                connection.execute(COUNT)

        thread = threading.Thread(target=ask)
        thread.start()
        assert entered.wait(20)
    # `listening` has checked that the server ended.
    thread.join(20)


def test_a_failed_transaction_waits_for_its_rollback(server):
    with psycopg.connect(**_parameters(server)) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_question_can_be_cancelled(server, connection, monkeypatch):
    _, _, service = server
    entered = threading.Event()

    def slow(_):
        entered.set()
        time.sleep(1)

    monkeypatch.setattr(service.catalogue.get("people"), "answer", slow)

    def cancel():
        assert entered.wait(20)
        connection.cancel_safe(timeout=20)

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(COUNT)
    thread.join(20)
    assert connection.execute("SELECT 1").fetchone() == (1,)


# --- statements -----------------------------------------------------------------------------------


def test_statements_are_split_outside_of_quotes():
    assert statements.split("SELECT ';' ; -- a; b\n SELECT $$;$$; /* ; */ ;") == [
        "SELECT ';'",
        "SELECT $$;$$",
    ]


def test_parameters_are_replaced_outside_of_quotes():
    found = statements.with_parameters("SELECT '$1', -$2, $1", ["'a'", "-3"])
    assert found == "SELECT '$1', - -3 ,  'a' "  # no comment is made of two minus signs
    with pytest.raises(WireError, match="at most"):
        statements.with_parameters("$1," * 5000, ["'" + "a" * 20_000 + "'"])
    with pytest.raises(WireError):
        statements.with_parameters("SELECT $2", ["1"])


def test_long_statements_are_read_in_linear_time():
    """Quadratic time would take minutes; the limit is that of every test."""
    for text in ("/* " * 100_000, "$a1$ " * 100_000, "' " * 100_001, "$1" * 100_000):
        with suppress(WireError):
            statements.split(text)


def test_questions_about_the_catalog_execute_nothing(connection):
    unit = "imag', 5) or __import__('os').getpid() or str('"
    quoted = unit.replace("'", "''")
    sql = f"SELECT EXTRACT('{quoted}' FROM table_name::date) AS x FROM information_schema.tables"
    assert connection.execute(sql).fetchall() == []


def test_a_data_set_that_was_stopped_is_not_asked_any_more(tmp_path):
    with listening(make_settings(tmp_path)) as server:
        service = server[2]
        with psycopg.connect(**_parameters(server, database="rows"), autocommit=True) as found:
            assert found.execute("SELECT COUNT(*) FROM t").fetchone()
            service.catalogue.remove("rows")
            with pytest.raises(psycopg.Error, match="no such data set"):
                found.execute("SELECT COUNT(*) FROM t")


# --- broken clients -------------------------------------------------------------------------------


def _raw(server):
    where = server[2].settings.postgres
    return socket.create_connection((where.host, where.port), timeout=20)


def _alive(server) -> None:
    with psycopg.connect(**_parameters(server), autocommit=True) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_broken_startups_end_the_connection_only(server):
    rng = random.Random(5)
    for _ in range(200):
        with _raw(server) as found:
            size = rng.choice([0, 1, 4, 8, 100, 9000])
            content = rng.randbytes(size)
            if rng.random() < 0.5:
                content = struct.pack("!ii", size + 8, 196608) + content
            found.sendall(content)
            found.shutdown(socket.SHUT_WR)
            while found.recv(4096):
                pass
    _alive(server)


def _fuzz(server, messages: int, seed: int) -> None:
    """Send broken messages after a login; the server must not fail, and go on serving others."""
    rng = random.Random(seed)
    kinds = b"QPBDESCHXpdcfF?"
    for _ in range(messages // 50):
        connection = psycopg.connect(**_parameters(server))
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as raw:
            raw.settimeout(20)
            try:
                for _ in range(50):
                    body = _body(rng)
                    length = len(body) + 4 if rng.random() < 0.95 else rng.randrange(-10, 70_000)
                    raw.sendall(bytes([rng.choice(kinds)]) + struct.pack("!i", length) + body)
            except OSError:
                pass  # the server ended the connection, as it may
        connection.pgconn.finish()
    _alive(server)


def _body(rng: random.Random) -> bytes:
    choice = rng.random()
    if choice < 0.3:
        return rng.randbytes(rng.randrange(60))
    texts = [b"", b"a", b"SELECT COUNT(*) FROM t", b"SELECT $1", b"\xff", b"BEGIN", b"SET relax=1"]
    parts = [rng.choice(texts) + b"\0" for _ in range(rng.randrange(1, 4))]
    return b"".join(parts) + rng.choice([b"", b"\0\0", b"\0\1\0\0", b"\xff\xff", rng.randbytes(8)])


def test_broken_messages_do_not_stop_the_server(server, caplog):
    _fuzz(server, 10_000, seed=1)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


@pytest.mark.soak
def test_a_million_broken_messages(server, caplog):
    _fuzz(server, 1_000_000, seed=2)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
