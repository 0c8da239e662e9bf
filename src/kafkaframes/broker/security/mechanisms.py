"""SASL mechanisms on the server's side: PLAIN (RFC 4616), SCRAM, OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkaframes.broker.security.scram import (
    HASHES,
    AuthenticationError,
    ScramCredential,
    ScramExchange,
    credential_of_password,
)

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
_BEARER = re.compile(
    r"[ny],(?:a=[^,]*)?,\x01(?:[A-Za-z]+=[^\x01]*\x01)*?auth=Bearer +(?P<token>[^\x01]+)\x01(?:[^\x01]*\x01)*"
)
CheckToken = Callable[[str, int], str]  # a token and the time in milliseconds -> the user; AuthenticationError


class Exchange(Protocol):
    """One authentication under way."""

    user: str | None

    def respond(self, message: bytes) -> bytes:
        """Return the answer to the client's message; ``user`` is set when it has proven who it is.

        Raises:
            AuthenticationError: it has not.
        """


class PlainExchange:
    """A user's name and password in one message."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Return nothing, if the password is right.

        Raises:
            AuthenticationError: it is not.
        """
        parts = message.split(b"\0")
        if len(parts) != 3:
            raise AuthenticationError("PLAIN has three parts: whom to act for, the user, the password")
        acting_for, user, password = (part.decode("utf-8", "replace") for part in parts)
        if not user or not password:
            raise AuthenticationError("Authentication failed: username or password not specified")
        if acting_for not in ("", user):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is different")
        known = self._passwords.get(user)
        is_right = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not is_right:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        self.user = user
        return b""


class BearerExchange:
    """A token; a wrong one is told as JSON first, and refused when the client has seen it (RFC 7628)."""

    def __init__(self, check: CheckToken, now_ms: Callable[[], int]) -> None:
        self._check = check
        self._now_ms = now_ms
        self._refusal: str | None = None
        self.user: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Return nothing for a right token.

        Raises:
            AuthenticationError: the client has been told that it is wrong.
        """
        if self._refusal is not None:
            raise AuthenticationError(self._refusal)
        match = _BEARER.fullmatch(message.decode("utf-8", "replace"))
        if match is None:
            raise AuthenticationError("this is no first message of OAUTHBEARER")
        try:
            self.user = self._check(match["token"], self._now_ms())
        except AuthenticationError as error:
            self._refusal = str(error)
            return b'{"status":"invalid_token"}'
        return b""


def unsecured_token(token: str, now_ms: int) -> str:
    """Return the user of an unsecured JSON web token (``alg`` none), as Kafka's default for tests takes it.

    Raises:
        AuthenticationError: it is none, is signed, names nobody, or has expired.
    """
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise AuthenticationError("an unsecured token has a header, claims, and an empty signature")
    header, claims = (_json_of(part) for part in parts[:2])
    if header.get("alg") != "none":
        raise AuthenticationError("the token is signed, and nothing here can check it")
    user, expires = claims.get("sub"), claims.get("exp")
    if not isinstance(user, str) or not user:
        raise AuthenticationError("the token names nobody (sub)")
    if not isinstance(expires, int | float) or expires * 1000 <= now_ms:
        raise AuthenticationError("the token has expired")
    return user


def _json_of(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise AuthenticationError("the token is no JSON") from None
    if not isinstance(found, dict):
        raise AuthenticationError("the token is no JSON object")
    return found


@dataclass(slots=True)
class Credentials:
    """The users of a broker.

    Attributes:
        passwords: for PLAIN; SCRAM knows the same users.
        scram: credentials by (user, mechanism), also those that clients have altered.
        mechanisms: that are offered.
        check_token: for OAUTHBEARER.
    """

    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    scram: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)
    mechanisms: tuple[str, ...] = MECHANISMS
    check_token: CheckToken = unsecured_token

    def exchange(self, mechanism: str, now_ms: Callable[[], int]) -> Exchange:
        """Begin an authentication by a mechanism that is offered."""
        if mechanism == PLAIN:
            return PlainExchange(self.passwords)
        if mechanism == OAUTHBEARER:
            return BearerExchange(self.check_token, now_ms)
        return ScramExchange(mechanism, lambda user: self.find_scram(user, mechanism))

    def find_scram(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return a user's SCRAM credential; one is made for a user with a password when it is first needed."""
        key = (user, mechanism)
        if key not in self.scram and user in self.passwords:
            self.scram[key] = credential_of_password(mechanism, self.passwords[user])
        return self.scram.get(key)
