"""Tokens in their file, and the configuration: what is read, and what is refused."""

from __future__ import annotations

import socket
import stat

import pytest

from scumble.model.errors import ParameterError, ScumbleError
from scumble.server.config import Address, load_settings, read_settings
from scumble.server.tokens import TokenStore
from tests.support.terminal import run


def test_a_token_is_stored_as_a_hash_only(tmp_path):
    store = TokenStore(tmp_path / "server")
    text, token = store.create("analyst", "Ada", days=2, datasets=["people"])
    content = (tmp_path / "server" / "tokens.json").read_text()
    assert text not in content
    assert text.rpartition("_")[2] not in content
    assert stat.S_IMODE((tmp_path / "server" / "tokens.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "server").stat().st_mode) == 0o700
    found = TokenStore(tmp_path / "server").find(text)
    assert found == token
    assert found.allows("people")
    assert not found.allows("rows")


def test_changes_by_another_process_are_noticed(tmp_path):
    one, other = TokenStore(tmp_path), TokenStore(tmp_path)
    text, token = one.create("owner", "Olga")
    assert other.find(text) is not None
    one.revoke(token.prefix)
    assert other.find(text) is None
    assert [each.state for each in other.all()] == ["revoked"]


NO_TOKENS = ["", "scb", "scb_", "scb_x_y", "other_abc_def", "\udc80", "é" * 99]


def test_other_texts_are_no_tokens(tmp_path, subtests):
    for text in NO_TOKENS:
        with subtests.test(text=text):
            store = TokenStore(tmp_path)
            store.create("owner", "Olga")
            assert store.find(text) is None


def test_another_secret_behind_a_known_prefix_is_no_token(tmp_path):
    """Lists and logs show prefixes."""
    store = TokenStore(tmp_path)
    text, token = store.create("owner", "Olga")
    last = "A" if text[-1] != "A" else "B"
    for other in (text[:-1] + last, text[:-1], text + "A", f"scb_{token.prefix}_"):
        assert store.find(other) is None
    assert store.find(text) == token


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "tokens.json").write_text('{"tokens": [{"prefix": 1}]}')
    with pytest.raises(ScumbleError, match="cannot be read"):
        TokenStore(tmp_path).all()


BAD_TOKENS = [
    ({"role": "king"}, "owner, analyst or auditor"),
    ({"name": ""}, "printable text"),
    ({"name": "a\nb"}, "printable text"),
    ({"days": 0}, "above 0"),
]


def test_bad_tokens_are_refused(tmp_path, subtests):
    for given, message in BAD_TOKENS:
        with subtests.test(given=given):
            arguments = {"role": "analyst", "name": "Ada", **given}
            with pytest.raises(ParameterError, match=message):
                TokenStore(tmp_path).create(
                    arguments["role"], arguments["name"], days=arguments.get("days")
                )
            assert not (tmp_path / "tokens.json").exists()


def test_a_configuration_is_read(tmp_path):
    (tmp_path / "server.toml").write_text(
        '[server]\nfolder = "state"\naddress = "[::1]:9000"\n'
        "[limits]\nqueue = 7\nseconds = 2.5\n"
        '[datasets.people]\ndatabase = "db"\nsource = "people.csv"\nbatches = ["more.csv"]\n'
        '[datasets.rows]\nrelease = "view"\ntitle = "Rows"\n'
    )
    found = load_settings(tmp_path / "server.toml")
    assert found.folder == tmp_path / "state"
    assert found.address == Address("::1", 9000)
    assert str(found.address) == "[::1]:9000"
    assert (found.limits.queue, found.limits.seconds) == (7, 2.5)
    people, rows = found.datasets
    assert people.source == str(tmp_path / "people.csv")
    assert people.batches == (str(tmp_path / "more.csv"),)
    assert (rows.release, rows.title) == (tmp_path / "view", "Rows")


BAD_CONFIGURATIONS = [
    ({}, "needs a folder"),
    ({"server": 3}, "must be a table"),
    ({"server": {"folder": "x", "colour": 1}}, "unknown key 'colour'"),
    ({"server": {"folder": "x", "address": "here"}}, "HOST:PORT"),
    ({"server": {"folder": "x", "certificate": "c"}}, "together"),
    ({"server": {"folder": "x"}, "limits": {"queue": -1}}, "whole number above 0"),
    ({"server": {"folder": "x"}, "datasets": {"A b": {"release": "r"}}}, "small letter"),
    ({"server": {"folder": "x"}, "datasets": {"a": {}}}, "either a release or a database"),
    ({"server": {"folder": "x"}, "datasets": {"a": {"database": "d"}}}, "needs a source"),
    (
        {"server": {"folder": "x"}, "datasets": {"a": {"release": "d", "table": "t"}}},
        "has no source",
    ),
]


def test_bad_configurations_are_refused(tmp_path, subtests):
    for content, message in BAD_CONFIGURATIONS:
        with subtests.test(content=content), pytest.raises(ParameterError, match=message):
            read_settings(content, tmp_path)


def test_a_missing_or_broken_file_is_one_sentence(tmp_path):
    with pytest.raises(ParameterError, match="There is no file"):
        load_settings(tmp_path / "server.toml")
    (tmp_path / "server.toml").write_text("[server")
    with pytest.raises(ParameterError, match="cannot be read as TOML"):
        load_settings(tmp_path / "server.toml")


def test_a_file_that_is_no_configuration_is_named(tmp_path):
    (tmp_path / "people.toml").write_text("format = 1\n[attributes.age]\nrole = 'identifier'\n")
    with pytest.raises(ParameterError, match=r"people\.toml' is a schema, not the configuration"):
        load_settings(tmp_path / "people.toml")
    (tmp_path / "own.toml").write_text("colour = 1\n")
    with pytest.raises(ParameterError, match=r"^own\.toml: unknown key 'colour'"):
        load_settings(tmp_path / "own.toml")


def test_a_taken_address_is_noticed_before_anything_is_made(monkeypatch):
    """No table of the demonstration is made, and the message names the option."""
    monkeypatch.setattr("scumble.server.demo.make_demo", lambda *_: pytest.fail("made"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"127.0.0.1:{other.getsockname()[1]}"
        done = run("serve", "--demo", "--address", where)
    assert done.code == 2
    assert f"cannot listen on {where}" in done.err
    assert "Choose another one with --address HOST:PORT." in done.err
