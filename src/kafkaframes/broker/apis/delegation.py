"""Delegation tokens (KIP-48, KIP-373): CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken,
DescribeDelegationToken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import may
from kafkaframes.broker.api import LEFT_OUT, Answer, Api, Right
from kafkaframes.broker.request import ANONYMOUS, Request, RequestOf
from kafkaframes.broker.security.delegation import DelegationToken
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _Create: TypeAlias = RequestOf[kafka.CreateDelegationTokenRequest, kafka.CreateDelegationTokenResponse]
    _Renew: TypeAlias = RequestOf[kafka.RenewDelegationTokenRequest, kafka.RenewDelegationTokenResponse]
    _Expire: TypeAlias = RequestOf[kafka.ExpireDelegationTokenRequest, kafka.ExpireDelegationTokenResponse]
    _Describe: TypeAlias = RequestOf[kafka.DescribeDelegationTokenRequest, kafka.DescribeDelegationTokenResponse]

_USER = "User"
_FIRST_WITH_REQUESTER = 3


def _check_connection(request: Request) -> None:
    """Refuse clients that have not proven who they are, or only by a token.

    Raises:
        RefusedError: they may not handle tokens.
    """
    session = request.session
    if session.principal == ANONYMOUS or session.memory.get("by_token"):
        reason = "tokens are for connections that authenticated otherwise than by a token"
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, reason)


def _parts(principal: str) -> tuple[str, str]:
    """Return type and name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


@Api(
    name="CreateDelegationToken",
    tier="T4",
    behaviour="A token of the client, or of another user; needs delegation.token.secret.key.",
    notes={"v3+": "for another owner, who may make tokens for others (KIP-373)"},
    rights=(Right("CREATE_TOKENS", "USER", each="an owner other than the client", since=3),),
)
def _create(request: _Create, broker: BrokerState) -> Answer:
    body, requester = request.body, request.session.principal
    owner = f"{body.owner_principal_type}:{body.owner_principal_name}" if body.owner_principal_name else requester
    answer = request.response(principal_type=_parts(owner)[0], principal_name=_parts(owner)[1])
    if request.version >= _FIRST_WITH_REQUESTER:
        answer.token_requester_principal_type, answer.token_requester_principal_name = _parts(requester)
    try:
        _check_connection(request)
        if owner != requester and not may(request, broker.access, "USER", owner):
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "not allowed")
        if any(renewer.principal_type != _USER for renewer in body.renewers):
            raise RefusedError(ErrorCode.INVALID_PRINCIPAL_TYPE, "renewers are users")
        renewers = [f"{_USER}:{renewer.principal_name}" for renewer in body.renewers]
        token = broker.credentials.tokens.create(owner, requester, renewers, body.max_lifetime_ms, broker.clock.now_ms)
    except RefusedError as refused:
        answer.error_code = refused.code
        answer.issue_timestamp_ms = answer.expiry_timestamp_ms = answer.max_timestamp_ms = -1
        return answer
    broker.save_tokens()
    answer.token_id, answer.hmac = token.token_id, broker.credentials.tokens.hmac_of(token)
    answer.issue_timestamp_ms, answer.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    answer.max_timestamp_ms = token.ends_ms
    return answer


@Api(name="RenewDelegationToken", tier="T4", behaviour="A token lasts longer, until its end at most.")
def _renew(request: _Renew, broker: BrokerState) -> Answer:
    return _changed(request, broker, broker.credentials.tokens.renew, request.body.renew_period_ms)


@Api(name="ExpireDelegationToken", tier="T4", behaviour="A token ends at a time, or at once.")
def _expire(request: _Expire, broker: BrokerState) -> Answer:
    return _changed(request, broker, broker.credentials.tokens.expire, request.body.expiry_time_period_ms)


def _changed(
    request: _Renew | _Expire, broker: BrokerState, change: Callable[[bytes, str, int, int], int], period_ms: int
) -> Answer:
    try:
        _check_connection(request)
        ends_ms = change(request.body.hmac, request.session.principal, period_ms, broker.clock.now_ms)
    except RefusedError as refused:
        return request.response(error_code=refused.code, expiry_timestamp_ms=-1)
    broker.save_tokens()
    return request.response(expiry_timestamp_ms=ends_ms)


@Api(
    name="DescribeDelegationToken",
    tier="T4",
    behaviour="The tokens that the client holds, and those of others that it may see.",
    notes={"v3+": "who asked for a token"},
    rights=(
        Right("DESCRIBE", "DELEGATION_TOKEN", each="tokens of others", denied=LEFT_OUT),
        Right("DESCRIBE_TOKENS", "USER", each="or their owner", denied=LEFT_OUT),
    ),
)
def _describe(request: _Describe, broker: BrokerState) -> Answer:
    types, owners = request.response, request.body.owners
    try:
        _check_connection(request)
        tokens = broker.credentials.tokens.current(broker.clock.now_ms)
    except RefusedError as refused:
        return request.response(error_code=refused.code)
    if owners is not None:
        named = [f"{owner.principal_type}:{owner.principal_name}" for owner in owners]
        tokens = [token for token in tokens if any(map(token.is_held_by, named))]
    rows = []
    for token in (token for token in tokens if _may_see(request, broker, token)):
        row = types.DescribedDelegationToken(
            issue_timestamp=token.issued_ms,
            expiry_timestamp=token.expires_ms,
            max_timestamp=token.ends_ms,
            token_id=token.token_id,
            hmac=broker.credentials.tokens.hmac_of(token),
        )
        row.principal_type, row.principal_name = _parts(token.owner)
        if request.version >= _FIRST_WITH_REQUESTER:
            row.token_requester_principal_type, row.token_requester_principal_name = _parts(token.requester)
        for renewer in token.renewers:
            kind, name = _parts(renewer)
            row.renewers.append(types.DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name))
        rows.append(row)
    return request.response(tokens=rows)


def _may_see(request: _Describe, broker: BrokerState, token: DelegationToken) -> bool:
    return (
        token.is_held_by(request.session.principal)
        or may(request, broker.access, "DELEGATION_TOKEN", token.token_id)
        or may(request, broker.access, "USER", token.owner)
    )
