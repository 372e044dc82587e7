"""SCRAM-SHA-256 (RFC 5802, RFC 7677) on the side of the server; passwords are tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from scumble.server.postgres.messages import WireError
from scumble.server.tokens import Scram, Token

MECHANISM = "SCRAM-SHA-256"
_MADE_UP = secrets.token_bytes(32)  # for users that do not exist: their salt must not change


class ScramExchange:
    """One login. For an unknown user it goes the same way, and fails at its end."""

    def __init__(self, user: str, token: Token | None) -> None:
        self._known = token is not None
        self._stored = token.scram if token else _made_up(user)
        self._nonce = ""
        self._so_far = ""
        self._binding = ""

    def first(self, content: bytes) -> bytes:
        """Return the answer to the first message of the client."""
        text = _decoded(content)
        # Channel binding is not offered: n, or y of a client that would have liked it.
        if not text.startswith(("n,", "y,")):
            raise _failed()
        authorised, _, bare = text.partition(",")[2].partition(",")
        self._binding = base64.b64encode(f"{text[0]},{authorised},".encode()).decode()
        nonce = _attribute(bare, "r")
        self._nonce = nonce + base64.b64encode(secrets.token_bytes(18)).decode()
        stored = self._stored
        answer = f"r={self._nonce},s={stored.salt},i={stored.iterations}"
        self._so_far = f"{bare},{answer}"
        return answer.encode()

    def final(self, content: bytes) -> bytes:
        """Return the proof of the server; raises `WireError` if that of the client is wrong."""
        text = _decoded(content)
        without, found, proof = text.rpartition(",p=")
        bound = _attribute(without, "c") if found else ""
        if bound != self._binding or _attribute(without, "r") != self._nonce:
            raise _failed()
        signed = f"{self._so_far},{without}".encode()
        stored_key = base64.b64decode(self._stored.stored_key)
        signature = hmac.digest(stored_key, signed, "sha256")
        try:
            sent = base64.b64decode(proof, validate=True)
        except ValueError:
            raise _failed() from None
        if len(sent) != len(signature):
            raise _failed()
        client_key = bytes(a ^ b for a, b in zip(sent, signature, strict=True))
        same = hmac.compare_digest(hashlib.sha256(client_key).digest(), stored_key)
        if not same or not self._known:
            raise _failed()
        server_key = base64.b64decode(self._stored.server_key)
        return b"v=" + base64.b64encode(hmac.digest(server_key, signed, "sha256"))


def _made_up(user: str) -> Scram:
    salt = hmac.digest(_MADE_UP, user.encode("utf-8", "replace"), "sha256")[:16]
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    return Scram(base64.b64encode(salt).decode(), key, key)


def _attribute(text: str, name: str) -> str:
    for part in text.split(","):
        if part.startswith(f"{name}="):
            return part[2:]
    raise _failed()


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise _failed() from None


def _failed() -> WireError:
    return WireError("28P01", "The user or the token is wrong, expired or revoked.", fatal=True)
