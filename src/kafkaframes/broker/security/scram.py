"""The server side of SCRAM, and delegation tokens, with which clients authenticate through SCRAM.

SCRAM follows RFC 5802 with SHA-256 and SHA-512, as in Kafka (KIP-84). The nonce of the client's final message is
verified (CVE-2024-56128), and proofs are compared in constant time.

Principals create, renew and expire delegation tokens (KIP-48, KIP-373). The password of a delegation token is an HMAC
of the token's id with the key ``delegation.token.secret.key``. Without this key, stored tokens cannot be used to
authenticate.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaframes.broker.requests.login import SaslExchange
from kafkaframes.errors import ErrorCode, OptionError, RefusedError
from kafkaframes.wire.primitives import uuid_to_text

MIN_SCRAM_ITERATIONS: Final = 4096
SCRAM_SALT_BYTES: Final = 16
MAX_SCRAM_ITERATIONS: Final = 16384
HASH_BY_MECHANISM: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS_BY_NUMBER: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_CLIENT_FIRST_PATTERN = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<zid>[^,]*))?,)(?P<bare>(?:m=[^,]*,)?n=(?P<user>[^,]*),r=(?P<nonce>[!-+\--~]+)(?P<extensions>(?:,.*)?))"
)
_TOKEN_EXTENSION = ",tokenauth=true"  # KIP-48
_CLIENT_FINAL_PATTERN = re.compile(
    r"(?P<bare>c=(?P<binding>[^,]*),r=(?P<nonce>[!-+\--~]+)(?:,[^p][^,]*)*),p=(?P<proof>[^,]*)"
)


class AuthenticationError(Exception):
    """Raised if an authentication fails. The text is sent to the client."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The data that a server stores for a password. The password cannot be derived from this data."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def to_dict(self) -> dict[str, str | int]:
        """Return the credential as a dictionary of texts and numbers."""
        return {
            "salt": base64.b64encode(self.salt).decode(),
            "iterations": self.iterations,
            "stored_key": base64.b64encode(self.stored_key).decode(),
            "server_key": base64.b64encode(self.server_key).decode(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, str | int]) -> ScramCredential:
        """Return a credential from the dictionary of ``to_dict``."""
        salt, stored_key, server = (base64.b64decode(str(values[key])) for key in ("salt", "stored_key", "server_key"))
        return cls(salt, int(values["iterations"]), stored_key, server)


def credential_from_salted_password(
    mechanism: str, salt: bytes, iterations: int, salted_password: bytes
) -> ScramCredential:
    """Return the credential of a salted password, as AlterUserScramCredentials contains it."""
    name = _get_hash_name(mechanism)
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)
    )


def credential_from_password(
    mechanism: str, password: str, *, iterations: int = MIN_SCRAM_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """Return the credential of a password."""
    salt = secrets.token_bytes(SCRAM_SALT_BYTES) if salt is None else salt
    salted_password = hashlib.pbkdf2_hmac(_get_hash_name(mechanism), password.encode(), salt, iterations)
    return credential_from_salted_password(mechanism, salt, iterations, salted_password)


def _get_hash_name(mechanism: str) -> str:
    """Return the name of a SCRAM mechanism's hash function."""
    if mechanism not in HASH_BY_MECHANISM:
        raise OptionError(f"unknown SCRAM mechanism {mechanism!r}; expected one of {', '.join(HASH_BY_MECHANISM)}")
    return HASH_BY_MECHANISM[mechanism]


class ScramExchange(SaslExchange):
    """A SCRAM authentication: two client messages and two responses.

    Args:
        find: function that returns a user's credential, and for an unknown user a credential that no password matches.
        find_token: function that returns a delegation token's credential, owner and expiry.
        new_nonce: function that returns the server's part of the nonce.
    """

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramCredential],
        new_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
        *,
        find_token: Callable[[str], tuple[ScramCredential, str, int | None]] | None = None,
    ) -> None:
        self._hash = _get_hash_name(mechanism)
        self._find, self._find_token = find, find_token
        self._new_nonce = new_nonce
        self._credential: ScramCredential | None = None
        self._messages: tuple[str, str] = ("", "")
        self._gs2 = ""
        self._nonce = ""
        self._name = ""

    def respond(self, message: bytes) -> bytes:
        """Return the response to a client message. Set ``user`` when the client is authenticated."""
        try:
            text = message.decode("utf-8")
        except UnicodeDecodeError:
            raise AuthenticationError("the message is not UTF-8") from None
        return self._answer_first_message(text) if self._credential is None else self._answer_final_message(text)

    def _answer_first_message(self, text: str) -> bytes:
        match = _CLIENT_FIRST_PATTERN.fullmatch(text)
        if match is None:
            raise AuthenticationError("this is not the first message of a SCRAM client")
        self._name = match["user"].replace("=2C", ",").replace("=3D", "=")
        if match["zid"] and match["zid"].replace("=2C", ",").replace("=3D", "=") != self._name:
            raise AuthenticationError("authorization as another user (authzid) is not supported")
        self._gs2 = match["gs2"]
        if self._find_token is not None and _TOKEN_EXTENSION in match["extensions"]:
            self.by_token = True
            self._credential, self._name, self.expires_ms = self._find_token(self._name)
        else:
            self._credential = self._find(self._name)
        self._nonce = match["nonce"] + self._new_nonce()
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._messages = match["bare"], answer
        return answer.encode()

    def _answer_final_message(self, text: str) -> bytes:
        match, credential = _CLIENT_FINAL_PATTERN.fullmatch(text), self._credential
        assert credential is not None
        if match is None:
            raise AuthenticationError("this is not the final message of a SCRAM client")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise AuthenticationError("the nonce does not belong to this exchange")
        if match["binding"] != base64.b64encode(self._gs2.encode()).decode():
            raise AuthenticationError("channel binding is not supported")
        signed = ",".join((*self._messages, match["bare"])).encode()
        if not self._is_valid_proof(match["proof"], signed, credential):
            raise AuthenticationError("Authentication failed during authentication due to invalid credentials")
        self.user = self._name
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._hash))

    def _is_valid_proof(self, proof_text: str, signed: bytes, credential: ScramCredential) -> bool:
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError:
            return False
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(
            proof_byte ^ signature_byte for proof_byte, signature_byte in zip(proof, signature, strict=True)
        )
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)


@dataclass(slots=True)
class DelegationToken:
    """A delegation token; times are milliseconds since 1970.

    Attributes:
        owner: principal (``User:alice``) that the token authenticates.
        requester: principal that requested the token: the owner, or a principal that may create tokens for other users.
        renewers: further principals that may renew the token.
        issued_ms: time of creation.
        expires_ms: time at which the token expires unless it is renewed.
        ends_ms: end of the token's lifetime, which a renewal cannot extend.
    """

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def is_held_by(self, principal: str) -> bool:
        """Return whether a principal is the owner, the requester or a renewer."""
        return principal in (self.owner, self.requester, *self.renewers)


@dataclass(slots=True)
class DelegationTokens:
    """The delegation tokens of a broker.

    Attributes:
        secret_key: value of ``delegation.token.secret.key``; if the value is empty, delegation tokens are disabled.
        by_id: tokens by id. Expired tokens are kept for a while, so that clients get the correct error.
        longest_ms: longest lifetime of a token, in milliseconds.
        default_ms: time after which a token expires unless it is renewed, in milliseconds.
        kept_ms: time for which an expired token is kept, in milliseconds.
    """

    secret_key: str = field(default="", repr=False)
    by_id: dict[str, DelegationToken] = field(default_factory=dict)
    longest_ms: int = 604_800_000
    default_ms: int = 86_400_000
    kept_ms: int = 3_600_000
    _credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Load tokens that ``to_list`` returned."""
        self.by_id = {values["token_id"]: DelegationToken(**values) for values in rows}

    def to_list(self) -> list[dict[str, Any]]:
        """Return the tokens for storage."""
        return [{name: getattr(token, name) for name in token.__slots__} for token in self.by_id.values()]

    def compute_hmac(self, token: DelegationToken) -> bytes:
        """Return the HMAC of a token, which is its password."""
        return hmac.digest(self.secret_key.encode(), token.token_id.encode(), "sha512")

    def create(self, owner: str, requester: str, renewers: list[str], lifetime_ms: int, now_ms: int) -> DelegationToken:
        """Create a token. A ``lifetime_ms`` of 0 or less selects the longest lifetime.

        Raises:
            RefusedError: delegation tokens are disabled.
        """
        self._remove_expired_tokens(now_ms)
        token_id = uuid_to_text(uuid.uuid4())
        ends_ms = now_ms + (min(lifetime_ms, self.longest_ms) if lifetime_ms > 0 else self.longest_ms)
        expires_ms = min(ends_ms, now_ms + self.default_ms)
        token = DelegationToken(token_id, owner, requester, renewers, now_ms, expires_ms, ends_ms)
        self.by_id[token_id] = token
        return token

    def renew(self, secret: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Set a token's expiry to the end of a period from now; return the expiry.

        The period is at most ``default_ms``, which also replaces a period of 0 or less.

        Raises:
            RefusedError: the token does not exist or has expired, or the principal may not renew it.
        """
        token = self._find_held_token(secret, principal, now_ms)
        self._check_expiry(token, now_ms)
        period_ms = min(period_ms, self.default_ms) if period_ms > 0 else self.default_ms
        token.expires_ms = min(token.ends_ms, now_ms + period_ms)
        return token.expires_ms

    def expire(self, secret: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Set a token's expiry to the end of a period from now; a negative period removes the token. Return the expiry.

        Raises:
            RefusedError: as ``renew``.
        """
        token = self._find_held_token(secret, principal, now_ms)
        if period_ms < 0:
            del self.by_id[token.token_id]
            return now_ms
        self._check_expiry(token, now_ms)
        token.expires_ms = min(token.ends_ms, now_ms + period_ms)
        return token.expires_ms

    def list_tokens(self, now_ms: int) -> list[DelegationToken]:
        """Return all tokens.

        Raises:
            RefusedError: delegation tokens are disabled.
        """
        self._remove_expired_tokens(now_ms)
        return list(self.by_id.values())

    def find_credential(
        self, token_id: str, mechanism: str, now_ms: int
    ) -> tuple[ScramCredential, DelegationToken] | None:
        """Return a token with its SCRAM credential; None if the token does not exist or has expired."""
        token = self.by_id.get(token_id)
        if not self.secret_key or token is None or token.expires_ms < now_ms:
            return None
        key = token_id, mechanism
        if key not in self._credentials:
            password = base64.b64encode(self.compute_hmac(token)).decode()
            self._credentials[key] = credential_from_password(mechanism, password)
        return self._credentials[key], token

    def _remove_expired_tokens(self, now_ms: int) -> None:
        """Remove tokens that expired long ago. Raise a ``RefusedError`` if delegation tokens are disabled."""
        if not self.secret_key:
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set")
        for token in [token for token in self.by_id.values() if token.expires_ms + self.kept_ms < now_ms]:
            del self.by_id[token.token_id]
        for key in [key for key in self._credentials if key[0] not in self.by_id]:
            del self._credentials[key]

    def _find_held_token(self, secret: bytes, principal: str, now_ms: int) -> DelegationToken:
        """Return the token with this HMAC; raise a ``RefusedError`` if the principal does not hold the token."""
        self._remove_expired_tokens(now_ms)
        for token in self.by_id.values():
            if hmac.compare_digest(self.compute_hmac(token), secret):
                if token.is_held_by(principal):
                    return token
                raise RefusedError(
                    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{principal} is not an owner or renewer of the token"
                )
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "the delegation token does not exist")

    @staticmethod
    def _check_expiry(token: DelegationToken, now_ms: int) -> None:
        """Raise RefusedError if the token has expired."""
        if min(token.ends_ms, token.expires_ms) < now_ms:
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token has expired")
