"""What JSON web tokens say (RFC 7519), read strictly: header and claims, times, issuer, audience, scope, subject.

Names of settings, defaults, and which claims must be there are those of Kafka's ``OAuthBearerValidator`` (KIP-768).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from kafkaframes.broker.security.scram import AuthenticationError

_MOST_BYTES: Final = 64 << 10
_LATEST_SECONDS: Final = 253_402_300_799  # the end of the year 9999
_ENCODED: Final = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


class Token(NamedTuple):
    """A token's parts: decoded, what is signed, and the signature."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """What a token has to claim.

    Attributes:
        issuer: ``iss`` has to be this (``expected.issuer``); None: any.
        audiences: ``aud`` has to name one of these (``expected.audience``); none: any.
        clock_skew_seconds: how far clocks may differ (``clock.skew.seconds``).
        sub_claim: which claim names the user (``sub.claim.name``).
        scope_claim: which claim has the scopes (``scope.claim.name``).
        scopes: those that a token needs.
    """

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()

    def user_of(self, claims: dict[str, Any], now_ms: int) -> str:
        """Return the user that the claims name.

        Raises:
            AuthenticationError: a claim is missing, of another type, or not as it has to be.
        """
        now, skew = now_ms / 1000, self.clock_skew_seconds
        if _time(claims, "exp") + skew <= now:
            raise AuthenticationError("the token has expired")
        # whole milliseconds, as the clock counts: a token made within this one has begun
        if any(int((_time(claims, name) - skew) * 1000) > now_ms for name in ("iat", "nbf") if name in claims):
            raise AuthenticationError("the token is not valid yet")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationError("the token is of another issuer (iss)")
        if self.audiences and not set(_texts(claims, "aud")) & set(self.audiences):
            raise AuthenticationError("the token is for another audience (aud)")
        if not set(self.scopes) <= {word for text in _texts(claims, self.scope_claim) for word in text.split(" ")}:
            raise AuthenticationError(f"the token lacks a scope ({self.scope_claim})")
        user = claims.get(self.sub_claim)
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationError(f"the token names nobody ({self.sub_claim})")
        return user


UNSECURED_RULES: Final = ClaimRules(clock_skew_seconds=0)


def unsecured_token(token: str, now_ms: int) -> str:
    """Return the user of an unsecured token (``alg`` none): anybody who can send bytes can make one for any user.

    Raises:
        AuthenticationError: it is none, is signed, names nobody, or has expired.
    """
    read = read_token(token)
    if read.header.get("alg") != "none" or read.signature:
        raise AuthenticationError("the token is signed, and unsecured ones are taken")
    return UNSECURED_RULES.user_of(read.claims, now_ms)


def expiry_ms(text: str) -> int | None:
    """Return when a token that was taken expires; None for one of another form than a JSON web token's."""
    try:
        return int(_time(read_token(text).claims, "exp") * 1000)
    except AuthenticationError:
        return None


def read_token(text: str) -> Token:
    """Return the parts of a token; nothing is verified.

    Raises:
        AuthenticationError: it is none: three parts in base64url, two of them JSON objects without doubled names, NaN
            and infinite numbers.
    """
    parts = text.split(".")
    if len(text) > _MOST_BYTES or len(parts) != 3:
        raise AuthenticationError("a token has a header, claims and a signature")
    header, claims = (_object(part) for part in parts[:2])
    if "crit" in header:
        raise AuthenticationError("the token has critical extensions, and none are known (crit)")
    return Token(header, claims, f"{parts[0]}.{parts[1]}".encode(), decoded(parts[2]))


def decoded(part: str) -> bytes:
    """Return the bytes of base64url without padding.

    Raises:
        AuthenticationError: it is none.
    """
    if _ENCODED.fullmatch(part) is None:
        raise AuthenticationError("the token is not base64url")
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise AuthenticationError("the token is not base64url") from None


def _object(part: str) -> dict[str, Any]:
    try:
        parsed = json.loads(decoded(part), object_pairs_hook=_without_doubles, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise AuthenticationError("the token is no JSON") from None
    if not isinstance(parsed, dict):
        raise AuthenticationError("the token is no JSON object")
    return parsed


def _without_doubles(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(name)
        members[name] = value
    return members


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _time(claims: dict[str, Any], name: str) -> float:
    """Return a time in seconds since 1970."""
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _LATEST_SECONDS:
        raise AuthenticationError(f"the token's {name} is no time in seconds since 1970")
    return float(value)


def _texts(claims: dict[str, Any], name: str) -> list[str]:
    """Return a claim that is a text or a list of texts; an empty list where there is none."""
    value = claims.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise AuthenticationError(f"the token's {name} is no text and no list of texts")
    return texts
