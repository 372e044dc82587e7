"""SCRAM-SHA-256 (RFC 5802, RFC 7677) on the side of the server; passwords are tokens.

Over TLS, SCRAM-SHA-256-PLUS binds a login to the certificate of the server (RFC 5929,
tls-server-end-point): somebody between client and server who shows another one cannot pass it on.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from scumble.server.postgres.messages import WireError
from scumble.server.tokens import Scram, Token

PLAIN, BOUND = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_BINDING = "p=tls-server-end-point"
_WEAK = ("md5", "sha1")  # RFC 5929 has SHA-256 instead of them
_MADE_UP = secrets.token_bytes(32)  # for users that do not exist: their salt must not change


def certificate_hash(file: Path) -> bytes | None:
    """Return the hash of a certificate by which a login is bound to it (RFC 5929).

    None if its signature has no hash function of its own, as that of Ed25519: RFC 5929 then says
    nothing, and clients refuse to bind.
    """
    certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
    kind = certificate.signature_hash_algorithm
    if kind is None:
        return None
    return certificate.fingerprint(hashes.SHA256() if kind.name in _WEAK else kind)


class ScramExchange:
    """One login. For an unknown user it goes the same way, and fails at its end.

    `bound_to` is the hash of the server's certificate, if the connection can be bound to it.
    """

    def __init__(self, user: str, token: Token | None, bound_to: bytes | None = None) -> None:
        self._known = token is not None
        self._stored = token.scram if token else _made_up(user)
        self._bound_to = bound_to
        self._nonce = ""
        self._so_far = ""
        self._binding = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that are offered, the best first."""
        return (PLAIN,) if self._bound_to is None else (BOUND, PLAIN)

    def first(self, mechanism: str, content: bytes) -> bytes:
        """Return the answer to the first message of the client, which chose a mechanism."""
        if mechanism not in self.mechanisms:
            allowed = " or ".join(self.mechanisms)
            raise WireError("28000", f"Only {allowed} is spoken here.", fatal=True)
        flag, _, rest = _decoded(content).partition(",")
        authorised, _, bare = rest.partition(",")
        if flag == "y" and self._bound_to is not None:
            # The client can bind and saw no offer of it: somebody on the way took it out.
            raise WireError(
                "28000",
                "The login is not bound to the certificate, though both sides can: somebody may "
                "be between them.",
                fatal=True,
            )
        if flag not in ((_BINDING,) if mechanism == BOUND else ("n", "y")):
            raise _failed()
        if authorised:
            raise WireError(
                "0A000",
                "A token logs in as itself: leave the authorisation identity out.",
                fatal=True,
            )
        data = self._bound_to if mechanism == BOUND and self._bound_to is not None else b""
        self._binding = base64.b64encode(f"{flag},,".encode() + data).decode()
        if bare.startswith("m="):  # an extension that must be understood
            raise _failed()
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
