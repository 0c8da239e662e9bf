"""Strict validation of JSON web tokens (RFC 7519): header, claims, times, issuer, audience, scope, subject, signature.

Settings have the same names and defaults as in Kafka's ``OAuthBearerValidator`` (KIP-768), which also requires the same
claims.

Signatures (RS256 and ES256) are verified with the issuer's public keys (JWKS, RFC 7517). The keys come from a file or
an https URL; http is only accepted for the local host. The keys are fetched when the broker is created. If the keys are
old, or a token names an unknown key, they are fetched again in a separate thread, so that no connection waits.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.errors import MissingExtraError, OptionError
from kafkaframes.storage.files.http_client import is_loopback, open_url

_MAX_TOKEN_BYTES: Final = 64 << 10
_MAX_EXPIRY_SECONDS: Final = 253_402_300_799  # the end of the year 9999
_BASE64URL_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


class DecodedToken(NamedTuple):
    """A decoded token: header, claims, signed bytes and signature."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """The rules for the claims of tokens.

    Attributes:
        issuer: required value of ``iss`` (``expected.issuer``); None accepts any issuer.
        audiences: accepted values of ``aud`` (``expected.audience``); if empty, any audience is accepted.
        clock_skew_seconds: allowed difference between clocks (``clock.skew.seconds``).
        sub_claim: name of the claim with the user (``sub.claim.name``).
        scope_claim: name of the claim with the scopes (``scope.claim.name``).
        scopes: required scopes.
    """

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()

    def verify_claims(self, claims: dict[str, Any], now_ms: int) -> str:
        """Verify the claims of a token, and return its user. Raise an ``AuthenticationError`` if a claim is invalid."""
        now, skew = now_ms / 1000, self.clock_skew_seconds
        if _read_time(claims, "exp") + skew <= now:
            raise AuthenticationError("the token has expired")
        # Times are compared in whole milliseconds, like the clock, so that a token that was created in this millisecond
        # is valid.
        if any(int((_read_time(claims, name) - skew) * 1000) > now_ms for name in ("iat", "nbf") if name in claims):
            raise AuthenticationError("the token is not valid yet")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationError("the token has another issuer (iss)")
        if self.audiences and not set(_read_texts(claims, "aud")) & set(self.audiences):
            raise AuthenticationError("the token is for another audience (aud)")
        if not set(self.scopes) <= {word for text in _read_texts(claims, self.scope_claim) for word in text.split(" ")}:
            raise AuthenticationError(f"the token lacks a scope ({self.scope_claim})")
        user = claims.get(self.sub_claim)
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationError(f"the token does not name a user ({self.sub_claim})")
        return user


UNSECURED_TOKEN_RULES: Final = ClaimRules(clock_skew_seconds=0)


def unsecured_token(token: str, now_ms: int) -> str:
    """Return the user of an unsecured token (``alg`` none). Any client can create such a token for any user.

    Raises:
        AuthenticationError: the token is malformed, is signed, has no user, or has expired.
    """
    decoded_token = read_token(token)
    if decoded_token.header.get("alg") != "none" or decoded_token.signature:
        raise AuthenticationError("the token is signed; only unsecured tokens (alg none) are accepted")
    return UNSECURED_TOKEN_RULES.verify_claims(decoded_token.claims, now_ms)


def read_token_expiry_ms(text: str) -> int | None:
    """Return the expiry of an accepted token in milliseconds; None if the token is not a JSON web token."""
    try:
        return int(_read_time(read_token(text).claims, "exp") * 1000)
    except AuthenticationError:
        return None


def read_token(text: str) -> DecodedToken:
    """Decode a token without verifying it.

    Raises:
        AuthenticationError: the text does not have three parts in base64url, or the header or the claims are not a JSON
            object without duplicate names, NaN and infinite numbers.
    """
    parts = text.split(".")
    if len(text) > _MAX_TOKEN_BYTES or len(parts) != 3:
        raise AuthenticationError("a token must have a header, claims and a signature")
    header, claims = (_decode_object(part) for part in parts[:2])
    if "crit" in header:
        raise AuthenticationError("the token requires critical extensions (crit), which are not supported")
    return DecodedToken(header, claims, f"{parts[0]}.{parts[1]}".encode(), decode_part(parts[2]))


def decode_part(part: str) -> bytes:
    """Decode base64url without padding; raise an ``AuthenticationError`` if it is invalid."""
    if _BASE64URL_PATTERN.fullmatch(part) is None:
        raise AuthenticationError("the token is not base64url")
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise AuthenticationError("the token is not base64url") from None


def _decode_object(part: str) -> dict[str, Any]:
    try:
        json_object = json.loads(
            decode_part(part), object_pairs_hook=_reject_duplicate_members, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError):
        raise AuthenticationError("the token is not JSON") from None
    if not isinstance(json_object, dict):
        raise AuthenticationError("the token is not a JSON object")
    return json_object


def _reject_duplicate_members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(name)
        members[name] = value
    return members


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _read_time(claims: dict[str, Any], name: str) -> float:
    """Return a time in seconds since 1970."""
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MAX_EXPIRY_SECONDS:
        raise AuthenticationError(f"the token's {name} is not a time in seconds since 1970")
    return float(value)


def _read_texts(claims: dict[str, Any], name: str) -> list[str]:
    """Return a claim that is a text or a list of texts; an empty list if the claim is missing."""
    value = claims.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise AuthenticationError(f"the token's {name} is neither a text nor a list of texts")
    return texts


Verify = Callable[[bytes, bytes], bool]  # signature, signed bytes
_MAX_JWKS_BYTES: Final = 1 << 20
_MAX_JWKS_KEYS: Final = 100
_JWKS_TIMEOUT_SECONDS: Final = 10.0
_MIN_RSA_BITS: Final = 2048
_JWKS_RETRY_SECONDS: Final = 10.0
_ES256_SIGNATURE_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key: its ``kid`` (None if missing), its algorithm, and a function that verifies signatures."""

    kid: str | None
    algorithm: str
    verify: Verify = field(repr=False)


class KeySet:
    """The public keys at a URL, which are fetched again when needed.

    Args:
        url: URL of a JWKS: https, file, or http on the local host.
        refresh_seconds: age after which the keys are fetched again.

    Raises:
        OptionError: the URL has another scheme, or returns no keys.
        MissingExtraError: ``cryptography`` is not installed.
    """

    def __init__(self, url: str, *, refresh_seconds: float = 3600.0) -> None:
        self._url, self._refresh_seconds = url, refresh_seconds
        _check_url(url)
        self._lock = threading.Lock()
        self._fetching: threading.Thread | None = None
        self._keys = _parse_keys(_fetch_keys(url), url)
        self._fetched_at = time.monotonic()

    def find_keys(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Return the keys that may have signed a token. If no key matches, new keys are fetched in the background."""
        keys = self._keys
        matching = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
        age = time.monotonic() - self._fetched_at
        if age > self._refresh_seconds or (not matching and age > _JWKS_RETRY_SECONDS):
            self._start_fetch()
        return matching

    def _start_fetch(self) -> None:
        """Fetch the keys in a thread unless a fetch is running."""
        with self._lock:
            if self._fetching is None or not self._fetching.is_alive():
                self._fetched_at = time.monotonic()
                self._fetching = threading.Thread(target=self._fetch_key_set, name="kafkaframes-jwks", daemon=True)
                self._fetching.start()

    def _fetch_key_set(self) -> None:
        """Fetch the keys. After a failure, keep the previous keys."""
        try:
            self._keys = _parse_keys(_fetch_keys(self._url), self._url)
        except OptionError:
            return  # the previous keys stay in use


@dataclass(frozen=True, slots=True)
class SignedTokens:
    """A verifier of signed tokens, for ``Security.check_token``."""

    keys: KeySet
    rules: ClaimRules = field(default_factory=ClaimRules)

    def __call__(self, text: str, now_ms: int) -> str:
        """Return the user of a token.

        Raises:
            AuthenticationError: no known key has signed the token, or a claim is invalid.
        """
        token = read_token(text)
        if not self._is_signed(token):
            raise AuthenticationError("the token is not signed with a known key")
        if "iat" not in token.claims:
            raise AuthenticationError("the token has no issue time (iat)")
        return self.rules.verify_claims(token.claims, now_ms)

    def _is_signed(self, token: DecodedToken) -> bool:
        """Return whether a key of the set verifies the token's signature."""
        algorithm, kid = str(token.header.get("alg")), token.header.get("kid")
        if algorithm not in _VERIFIER_FACTORIES or not (kid is None or isinstance(kid, str)):
            return False
        return any(key.verify(token.signature, token.signed) for key in self.keys.find_keys(kid, algorithm))


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise OptionError("the address of the JWKS is not a URL") from None
    if parts.scheme in ("https", "file") or (parts.scheme == "http" and is_loopback(host)):
        return
    raise OptionError("the URL of a JWKS must start with https://, file:///, or http:// and a loopback address")


def _fetch_keys(url: str) -> bytes:
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            with open(url2pathname(parts.path), "rb") as file:
                data = file.read(_MAX_JWKS_BYTES + 1)
        else:
            with open_url(urllib.request.Request(url), timeout_seconds=_JWKS_TIMEOUT_SECONDS) as answer:
                data = answer.read(_MAX_JWKS_BYTES + 1)
    except (OSError, ValueError) as error:
        raise OptionError(f"the keys of a JWKS cannot be read: {type(error).__name__}") from None
    if len(data) > _MAX_JWKS_BYTES:
        raise OptionError(f"the JWKS exceeds {_MAX_JWKS_BYTES} bytes")
    return data


def _parse_keys(data: bytes, url: str) -> tuple[PublicKey, ...]:
    """Return the supported keys of a JWKS. Other keys, such as encryption keys, are ignored."""
    try:
        rows = json.loads(data)["keys"][:_MAX_JWKS_KEYS]
        keys_or_none = [_parse_key(row) for row in rows if isinstance(row, dict)]
    except (ValueError, TypeError, KeyError, RecursionError, AuthenticationError):
        raise OptionError("the URL does not return a valid JWKS") from None
    keys = tuple(key for key in keys_or_none if key is not None)
    if not keys:
        raise OptionError("the JWKS does not contain a key for RS256 or ES256")
    return keys


def _parse_key(row: Mapping[str, Any]) -> PublicKey | None:
    for algorithm, create_verifier in _VERIFIER_FACTORIES.items():
        if row.get("alg", algorithm) != algorithm or row.get("use", "sig") != "sig":
            continue
        try:
            verify = create_verifier(row)
        except ValueError:  # the point is not on the curve, or the modulus is invalid
            return None
        if verify is not None:
            kid = row.get("kid")
            return PublicKey(kid if isinstance(kid, str) else None, algorithm, verify)
    return None


def _number(row: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(decode_part(str(row[name])), "big")


def _create_rs256_verifier(row: Mapping[str, Any]) -> Verify | None:
    if row.get("kty") != "RSA":
        return None
    library = _import_cryptography()
    key = library.rsa.RSAPublicNumbers(_number(row, "e"), _number(row, "n")).public_key()
    if key.key_size < _MIN_RSA_BITS:
        return None
    pad, sha256 = library.padding.PKCS1v15(), library.hashes.SHA256()

    def verify(signature: bytes, signed: bytes) -> bool:
        return bool(library.holds(lambda: key.verify(signature, signed, pad, sha256)))

    return verify


def _create_es256_verifier(row: Mapping[str, Any]) -> Verify | None:
    if row.get("kty") != "EC" or row.get("crv") != "P-256":
        return None
    library = _import_cryptography()
    curve = library.ec.SECP256R1()
    key = library.ec.EllipticCurvePublicNumbers(_number(row, "x"), _number(row, "y"), curve).public_key()
    ecdsa = library.ec.ECDSA(library.hashes.SHA256())

    def verify(signature: bytes, signed: bytes) -> bool:
        if len(signature) != _ES256_SIGNATURE_BYTES:
            return False
        r, s = (int.from_bytes(scalar_bytes, "big") for scalar_bytes in (signature[:32], signature[32:]))
        return bool(library.holds(lambda: key.verify(library.encode_dss_signature(r, s), signed, ecdsa)))

    return verify


_VERIFIER_FACTORIES: Final[Mapping[str, Callable[[Mapping[str, Any]], Verify | None]]] = {
    "RS256": _create_rs256_verifier,
    "ES256": _create_es256_verifier,
}


def _import_cryptography() -> Any:
    """Import the parts of ``cryptography`` that are used."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    except ImportError:
        raise MissingExtraError("signed tokens", "tls") from None

    def is_valid_signature(check: Callable[[], None]) -> bool:
        try:
            check()
        except InvalidSignature:
            return False
        return True

    return SimpleNamespace(
        ec=ec,
        padding=padding,
        rsa=rsa,
        hashes=hashes,
        holds=is_valid_signature,
        encode_dss_signature=encode_dss_signature,
    )
