"""Delegation tokens (KIP-48, KIP-373): made, renewed and ended by principals; SCRAM takes them as name and password.

A token's HMAC, which is its password, follows from its id and the broker's ``delegation.token.secret.key``. What is
stored of a token does not let anybody in without that key.
"""

from __future__ import annotations

import base64
import hmac
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.broker.security.scram import ScramCredential, credential_of_password
from kafkaframes.errors import ErrorCode, RefusedError


@dataclass(slots=True)
class DelegationToken:
    """One token; times are milliseconds since 1970.

    Attributes:
        owner: the principal (``User:alice``) that its bearer is.
        requester: who asked for it: the owner, or somebody who may make tokens for others.
        renewers: who may renew it beside them.
        issued_ms, expires_ms, ends_ms: made; over, unless it is renewed; the longest it can be renewed to.
    """

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def is_held_by(self, principal: str) -> bool:
        """Return whether a principal is its owner, its requester or a renewer."""
        return principal in (self.owner, self.requester, *self.renewers)


@dataclass(slots=True)
class DelegationTokens:
    """The tokens of one broker.

    Attributes:
        secret_key: of all brokers of a cluster; empty: there are no tokens.
        by_id: the tokens; those that are over stay for a while, so that their holders learn it.
        longest_ms, default_ms: how long a token can last, and lasts until it is renewed.
        kept_ms: how long it stays when it is over.
    """

    secret_key: str = field(default="", repr=False)
    by_id: dict[str, DelegationToken] = field(default_factory=dict)
    longest_ms: int = 604_800_000
    default_ms: int = 86_400_000
    kept_ms: int = 3_600_000
    _credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict, repr=False)

    def take_over(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Take tokens that ``to_list`` gave."""
        self.by_id = {values["token_id"]: DelegationToken(**values) for values in stored}

    def to_list(self) -> list[dict[str, Any]]:
        """Return the tokens as they are stored."""
        return [{name: getattr(token, name) for name in token.__slots__} for token in self.by_id.values()]

    def hmac_of(self, token: DelegationToken) -> bytes:
        """Return what its bearer proves to know."""
        return hmac.digest(self.secret_key.encode(), token.token_id.encode(), "sha512")

    def create(self, owner: str, requester: str, renewers: list[str], lifetime_ms: int, now_ms: int) -> DelegationToken:
        """Make a token, for the longest time if ``lifetime_ms`` is not above 0.

        Raises:
            RefusedError: there are no tokens.
        """
        self._check(now_ms)
        token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        ends_ms = now_ms + (min(lifetime_ms, self.longest_ms) if lifetime_ms > 0 else self.longest_ms)
        expires_ms = min(ends_ms, now_ms + self.default_ms)
        token = DelegationToken(token_id, owner, requester, renewers, now_ms, expires_ms, ends_ms)
        self.by_id[token_id] = token
        return token

    def renew(self, secret: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Let a token last for another period, the usual one if it is negative; return when it ends.

        Raises:
            RefusedError: there is no such token, the principal does not hold it, or it is over.
        """
        token = self._held(secret, principal, now_ms)
        self._check_time(token, now_ms)
        token.expires_ms = min(token.ends_ms, now_ms + (period_ms if period_ms >= 0 else self.default_ms))
        return token.expires_ms

    def expire(self, secret: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Let a token end after a period, now if it is negative; return when it ends.

        Raises:
            RefusedError: as of ``renew``.
        """
        token = self._held(secret, principal, now_ms)
        if period_ms < 0:
            del self.by_id[token.token_id]
            return now_ms
        self._check_time(token, now_ms)
        token.expires_ms = min(token.ends_ms, now_ms + period_ms)
        return token.expires_ms

    def current(self, now_ms: int) -> list[DelegationToken]:
        """Return all tokens.

        Raises:
            RefusedError: there are no tokens.
        """
        self._check(now_ms)
        return list(self.by_id.values())

    def credential(self, token_id: str, mechanism: str, now_ms: int) -> tuple[ScramCredential, DelegationToken] | None:
        """Return what SCRAM needs of a token; None if it is over, or there is none."""
        token = self.by_id.get(token_id)
        if not self.secret_key or token is None or token.expires_ms < now_ms:
            return None
        key = token_id, mechanism
        if key not in self._credentials:
            password = base64.b64encode(self.hmac_of(token)).decode()
            self._credentials[key] = credential_of_password(mechanism, password)
        return self._credentials[key], token

    def _check(self, now_ms: int) -> None:
        """Forget what is over for long; refuse everything where there are no tokens."""
        if not self.secret_key:
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "there is no delegation.token.secret.key")
        for token in [one for one in self.by_id.values() if one.expires_ms + self.kept_ms < now_ms]:
            del self.by_id[token.token_id]
        for key in [key for key in self._credentials if key[0] not in self.by_id]:
            del self._credentials[key]

    def _held(self, secret: bytes, principal: str, now_ms: int) -> DelegationToken:
        self._check(now_ms)
        for token in self.by_id.values():
            if hmac.compare_digest(self.hmac_of(token), secret):
                if token.is_held_by(principal):
                    return token
                raise RefusedError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{principal} does not hold the token")
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such token")

    @staticmethod
    def _check_time(token: DelegationToken, now_ms: int) -> None:
        if min(token.ends_ms, token.expires_ms) < now_ms:
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token is over")
