"""Signed tokens: verified by the keys that an issuer publishes (JWKS, RFC 7517), RS256 and ES256.

Keys come from a file or an https address; plain http is for this machine alone. They are fetched when a broker is made,
and again in a thread of their own when they are old or a token names another key: no connection waits for that.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.security.tokens import ClaimRules, Token, decoded, read_token
from kafkaframes.errors import MissingExtraError, OptionError
from kafkaframes.storage.files.http_client import is_loopback, open_url

Verify = Callable[[bytes, bytes], bool]  # signature, what is signed
_MOST_BYTES: Final = 1 << 20
_MOST_KEYS: Final = 100
_SECONDS: Final = 10.0
_LEAST_RSA_BITS: Final = 2048
_AGAIN_SECONDS: Final = 10.0
_ES256_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Key:
    """One public key: its ``kid`` (None without), the algorithm, and what verifies a signature."""

    kid: str | None
    algorithm: str
    verify: Verify = field(repr=False)


class KeySet:
    """The keys of an address, fetched again when needed.

    Args:
        url: of a JWKS: https, file, or http on this machine.
        refresh_seconds: after which keys are fetched again.

    Raises:
        OptionError: the address is of another kind, or has no keys.
        MissingExtraError: ``cryptography`` is not installed.
    """

    def __init__(self, url: str, *, refresh_seconds: float = 3600.0) -> None:
        self._url, self._refresh_seconds = url, refresh_seconds
        _check_url(url)
        self._lock = threading.Lock()
        self._fetching: threading.Thread | None = None
        self._keys = _keys_of(_fetched(url), url)
        self._fetched_at = time.monotonic()

    def candidates(self, kid: str | None, algorithm: str) -> list[Key]:
        """Return the keys that a token may be signed with; new ones are fetched meanwhile where none fits."""
        keys = self._keys
        matching = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
        age = time.monotonic() - self._fetched_at
        if age > self._refresh_seconds or (not matching and age > _AGAIN_SECONDS):
            self._fetch_apart()
        return matching

    def _fetch_apart(self) -> None:
        with self._lock:
            if self._fetching is None or not self._fetching.is_alive():
                self._fetched_at = time.monotonic()
                self._fetching = threading.Thread(target=self._fetch, name="kafkaframes-jwks", daemon=True)
                self._fetching.start()

    def _fetch(self) -> None:
        try:
            self._keys = _keys_of(_fetched(self._url), self._url)
        except OptionError:
            return  # those that are known go on


@dataclass(frozen=True, slots=True)
class SignedTokens:
    """Checks signed tokens; a ``CheckToken``."""

    keys: KeySet
    rules: ClaimRules = field(default_factory=ClaimRules)

    def __call__(self, text: str, now_ms: int) -> str:
        """Return the user of a token.

        Raises:
            AuthenticationError: no known key has signed it, or its claims are not as they have to be.
        """
        token = read_token(text)
        if not self._is_signed(token):
            raise AuthenticationError("no key that is known has signed the token")
        if "iat" not in token.claims:
            raise AuthenticationError("the token does not say when it was made (iat)")
        return self.rules.user_of(token.claims, now_ms)

    def _is_signed(self, token: Token) -> bool:
        algorithm, kid = str(token.header.get("alg")), token.header.get("kid")
        if algorithm not in _MAKERS or not (kid is None or isinstance(kid, str)):
            return False
        return any(key.verify(token.signature, token.signed) for key in self.keys.candidates(kid, algorithm))


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise OptionError("the address of a JWKS is no URL") from None
    if parts.scheme in ("https", "file") or (parts.scheme == "http" and is_loopback(host)):
        return
    raise OptionError("the address of a JWKS is https://..., file:///..., or http:// on this machine")


def _fetched(url: str) -> bytes:
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            with open(url2pathname(parts.path), "rb") as file:
                data = file.read(_MOST_BYTES + 1)
        else:
            with open_url(urllib.request.Request(url), timeout_seconds=_SECONDS) as answer:
                data = answer.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise OptionError(f"the keys of a JWKS cannot be read: {type(error).__name__}") from None
    if len(data) > _MOST_BYTES:
        raise OptionError(f"a JWKS has at most {_MOST_BYTES} bytes")
    return data


def _keys_of(data: bytes, url: str) -> tuple[Key, ...]:
    """Return the keys that can be used; others (of encryption, of other kinds) are left out."""
    try:
        rows = json.loads(data)["keys"][:_MOST_KEYS]
        made = [_key(row) for row in rows if isinstance(row, dict)]
    except (ValueError, TypeError, KeyError, RecursionError, AuthenticationError):
        raise OptionError("the address of a JWKS returns no valid JWKS") from None
    keys = tuple(key for key in made if key is not None)
    if not keys:
        raise OptionError("a JWKS has no key of RS256 or ES256")
    return keys


def _key(row: Mapping[str, Any]) -> Key | None:
    for algorithm, make in _MAKERS.items():
        if row.get("alg", algorithm) != algorithm or row.get("use", "sig") != "sig":
            continue
        try:
            verify = make(row)
        except ValueError:  # no point of the curve, a modulus that is none
            return None
        if verify is not None:
            kid = row.get("kid")
            return Key(kid if isinstance(kid, str) else None, algorithm, verify)
    return None


def _number(row: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(decoded(str(row[name])), "big")


def _rs256(row: Mapping[str, Any]) -> Verify | None:
    if row.get("kty") != "RSA":
        return None
    library = _library()
    key = library.rsa.RSAPublicNumbers(_number(row, "e"), _number(row, "n")).public_key()
    if key.key_size < _LEAST_RSA_BITS:
        return None
    pad, sha256 = library.padding.PKCS1v15(), library.hashes.SHA256()

    def verify(signature: bytes, signed: bytes) -> bool:
        return bool(library.holds(lambda: key.verify(signature, signed, pad, sha256)))

    return verify


def _es256(row: Mapping[str, Any]) -> Verify | None:
    if row.get("kty") != "EC" or row.get("crv") != "P-256":
        return None
    library = _library()
    curve = library.ec.SECP256R1()
    key = library.ec.EllipticCurvePublicNumbers(_number(row, "x"), _number(row, "y"), curve).public_key()
    ecdsa = library.ec.ECDSA(library.hashes.SHA256())

    def verify(signature: bytes, signed: bytes) -> bool:
        if len(signature) != _ES256_BYTES:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
        return bool(library.holds(lambda: key.verify(library.encode_dss_signature(r, s), signed, ecdsa)))

    return verify


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Verify | None]]] = {"RS256": _rs256, "ES256": _es256}


def _library() -> Any:
    """Return what is used of ``cryptography``.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    except ImportError:
        raise MissingExtraError("signed tokens", "tls") from None

    def holds(check: Callable[[], None]) -> bool:
        try:
            check()
        except InvalidSignature:
            return False
        return True

    return SimpleNamespace(
        ec=ec, padding=padding, rsa=rsa, hashes=hashes, holds=holds, encode_dss_signature=encode_dss_signature
    )
