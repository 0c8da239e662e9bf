"""SCRAM on the server's side (RFC 5802), SHA-256 and SHA-512, as Kafka speaks it (KIP-84).

The nonce of the client's last message is verified (CVE-2024-56128), and proofs are compared in constant time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkaframes.errors import OptionError

LEAST_ITERATIONS: Final = 4096
SALT_BYTES: Final = 16
MOST_ITERATIONS: Final = 16384
HASHES: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NUMBERS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<zid>[^,]*))?,)(?P<bare>(?:m=[^,]*,)?n=(?P<user>[^,]*),r=(?P<nonce>[!-+\--~]+)(?P<extensions>(?:,.*)?))"
)
_BY_TOKEN = ",tokenauth=true"  # KIP-48
_FINAL = re.compile(r"(?P<bare>c=(?P<binding>[^,]*),r=(?P<nonce>[!-+\--~]+)(?:,[^p][^,]*)*),p=(?P<proof>[^,]*)")


class AuthenticationError(Exception):
    """The client is not who it says; the text is for the client."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password; no password can be got from it."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def to_dict(self) -> dict[str, str | int]:
        """Return it as text and numbers."""
        return {
            "salt": base64.b64encode(self.salt).decode(),
            "iterations": self.iterations,
            "stored_key": base64.b64encode(self.stored_key).decode(),
            "server_key": base64.b64encode(self.server_key).decode(),
        }

    @classmethod
    def of_dict(cls, values: Mapping[str, str | int]) -> ScramCredential:
        """Return what ``to_dict`` gave."""
        salt, stored, server = (base64.b64decode(str(values[key])) for key in ("salt", "stored_key", "server_key"))
        return cls(salt, int(values["iterations"]), stored, server)


def credential_of_salted(mechanism: str, salt: bytes, iterations: int, salted: bytes) -> ScramCredential:
    """Return the credential for a salted password (what AlterUserScramCredentials carries).

    Raises:
        OptionError: there is no such mechanism.
    """
    name = _hash_of(mechanism)
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name)
    )


def credential_of_password(
    mechanism: str, password: str, *, iterations: int = LEAST_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """Return the credential for a password.

    Raises:
        OptionError: there is no such mechanism.
    """
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(_hash_of(mechanism), password.encode(), salt, iterations)
    return credential_of_salted(mechanism, salt, iterations, salted)


def _hash_of(mechanism: str) -> str:
    if mechanism not in HASHES:
        raise OptionError(f"there is no SCRAM mechanism {mechanism!r}; there are {', '.join(HASHES)}")
    return HASHES[mechanism]


class ScramExchange:
    """One authentication: two messages of the client, two answers.

    Args:
        mechanism: which.
        find: gives a user's credential; for an unknown user one that no password fits.
        find_token: gives the same of a delegation token, its owner's name, and when it ends.
        new_nonce: gives the server's part of the nonce.
    """

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramCredential],
        new_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
        *,
        find_token: Callable[[str], tuple[ScramCredential, str, int | None]] | None = None,
    ) -> None:
        self._hash = _hash_of(mechanism)
        self._find, self._find_token = find, find_token
        self._new_nonce = new_nonce
        self._credential: ScramCredential | None = None
        self._messages: tuple[str, str] = ("", "")
        self._gs2 = ""
        self._nonce = ""
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False
        self._name = ""

    def respond(self, message: bytes) -> bytes:
        """Return the answer to a message; ``user`` is set once the client has proven who it is.

        Raises:
            AuthenticationError: it has not.
        """
        try:
            text = message.decode("utf-8")
        except UnicodeDecodeError:
            raise AuthenticationError("the message is not UTF-8") from None
        return self._first(text) if self._credential is None else self._final(text)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationError("this is no first message of SCRAM")
        self._name = match["user"].replace("=2C", ",").replace("=3D", "=")
        if match["zid"] and match["zid"].replace("=2C", ",").replace("=3D", "=") != self._name:
            raise AuthenticationError("nobody may act for somebody else")
        self._gs2 = match["gs2"]
        if self._find_token is not None and _BY_TOKEN in match["extensions"]:
            self.by_token = True
            self._credential, self._name, self.expires_ms = self._find_token(self._name)
        else:
            self._credential = self._find(self._name)
        self._nonce = match["nonce"] + self._new_nonce()
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._messages = match["bare"], answer
        return answer.encode()

    def _final(self, text: str) -> bytes:
        match, credential = _FINAL.fullmatch(text), self._credential
        assert credential is not None
        if match is None:
            raise AuthenticationError("this is no last message of SCRAM")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise AuthenticationError("the nonce is not the one of this exchange")
        if match["binding"] != base64.b64encode(self._gs2.encode()).decode():
            raise AuthenticationError("channel binding is not supported")
        signed = ",".join((*self._messages, match["bare"])).encode()
        if not self._proves(match["proof"], signed, credential):
            raise AuthenticationError("Authentication failed during authentication due to invalid credentials")
        self.user = self._name
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._hash))

    def _proves(self, proof_text: str, signed: bytes, credential: ScramCredential) -> bool:
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError:
            return False
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)
