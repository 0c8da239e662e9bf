"""Handlers for SASL logins, SCRAM credentials and delegation tokens (KIP-48, KIP-373): SaslHandshake, SaslAuthenticate,
DescribeUserScramCredentials, AlterUserScramCredentials, CreateDelegationToken, RenewDelegationToken,
ExpireDelegationToken, DescribeDelegationToken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import (
    OMIT_FROM_RESPONSE,
    Answer,
    Api,
    DeferredResponse,
    EncodedResponse,
    RequiredPermission,
)
from kafkaframes.broker.requests.failures import build_failure_response
from kafkaframes.broker.requests.login import SaslExchange
from kafkaframes.broker.requests.request import ANONYMOUS_PRINCIPAL, Request, Session, TypedRequest
from kafkaframes.broker.security.access import is_allowed
from kafkaframes.broker.security.kerberos import KerberosExchange
from kafkaframes.broker.security.scram import (
    MAX_SCRAM_ITERATIONS,
    MECHANISMS_BY_NUMBER,
    MIN_SCRAM_ITERATIONS,
    AuthenticationError,
    DelegationToken,
    credential_from_salted_password,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.protocol.messages import Message

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _SaslHandshake: TypeAlias = TypedRequest[kafka.SaslHandshakeRequest, kafka.SaslHandshakeResponse]
    _SaslAuthenticate: TypeAlias = TypedRequest[kafka.SaslAuthenticateRequest, kafka.SaslAuthenticateResponse]
    _DescribeUserScramCredentials: TypeAlias = TypedRequest[
        kafka.DescribeUserScramCredentialsRequest, kafka.DescribeUserScramCredentialsResponse
    ]
    _AlterUserScramCredentials: TypeAlias = TypedRequest[
        kafka.AlterUserScramCredentialsRequest, kafka.AlterUserScramCredentialsResponse
    ]
    _Create: TypeAlias = TypedRequest[kafka.CreateDelegationTokenRequest, kafka.CreateDelegationTokenResponse]
    _Renew: TypeAlias = TypedRequest[kafka.RenewDelegationTokenRequest, kafka.RenewDelegationTokenResponse]
    _Expire: TypeAlias = TypedRequest[kafka.ExpireDelegationTokenRequest, kafka.ExpireDelegationTokenResponse]
    _Describe: TypeAlias = TypedRequest[kafka.DescribeDelegationTokenRequest, kafka.DescribeDelegationTokenResponse]


_MECHANISM_NUMBERS = {name: number for number, name in MECHANISMS_BY_NUMBER.items()}


@Api(
    name="SaslHandshake",
    tier="T4",
    behaviour="Supports PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER and GSSAPI, if they are enabled.",
    notes={
        "v0": "tokens follow as frames without headers; a failure closes the connection with the same delay as in v1",
        "v1": "tokens are sent in SaslAuthenticate",
    },
    gaps=("GSSAPI without SaslHandshake, which clients of 0.9 use, is not supported",),
    before_authentication=True,
)
def _handle_sasl_handshake(request: _SaslHandshake, broker: BrokerState) -> Answer:
    session, mechanisms = request.session, list(broker.credentials.mechanisms)
    mechanism = request.body.mechanism
    is_reauthentication = session.is_authenticated and session.login.mechanism == mechanism and request.version > 0
    if session.login.exchange is not None or (session.is_authenticated and not is_reauthentication):
        return request.response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if mechanism not in mechanisms:
        session.closes_after_response = True
        return request.response(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
    exchange = broker.credentials.start_exchange(mechanism, lambda: broker.clock.now_ms)
    session.login.exchange, session.login.mechanism = exchange, mechanism
    if request.version == 0:
        session.login.answer_raw = _create_raw_exchange(session, exchange, broker)
    return request.response(error_code=ErrorCode.NONE, mechanisms=mechanisms)


def _create_raw_exchange(session: Session, exchange: SaslExchange, broker: BrokerState) -> Callable[[bytes], Answer]:
    """Return a function that answers SASL messages without request headers.

    If the login fails, the connection is closed.
    """

    def answer_raw_message(reply: bytes | AuthenticationError) -> Answer:
        """Return the reply to a SASL message without a Kafka header (before KIP-152)."""
        if isinstance(reply, AuthenticationError):
            return refuse_login(session, broker, None)
        if exchange.user is not None:
            finish_login(session, exchange, broker)
        return EncodedResponse([len(reply).to_bytes(4, "big"), reply])

    return lambda token: _answer_sasl_message(exchange, token, broker, answer_raw_message)


def _answer_sasl_message(
    exchange: SaslExchange, message: bytes, broker: BrokerState, answer: Callable[[bytes | AuthenticationError], Answer]
) -> Answer:
    """Answer a SASL message. The reply is computed in a thread if the mechanism may wait for files or other hosts."""

    def compute_reply() -> bytes | AuthenticationError:
        """Return the server's next SASL message, or the error."""
        try:
            return exchange.respond(message)
        except AuthenticationError as error:
            return error

    in_thread = broker.credentials.in_thread
    if in_thread is None or not isinstance(exchange, KerberosExchange):
        return answer(compute_reply())
    replies: list[bytes | AuthenticationError] = []
    response = DeferredResponse()

    def forward_reply(completion: DeferredResponse) -> None:
        """Complete the response with the reply that a thread has computed."""
        if completion.error is not None:
            response.fail(completion.error)
        else:
            response.follow(answer(replies[0]))

    in_thread(lambda: replies.append(compute_reply())).call_when_complete(forward_reply)
    return response


def refuse_login(session: Session, broker: BrokerState, answer: Message | None) -> DeferredResponse:
    """Answer a failed login after a delay, which limits the rate of password guesses, and close the connection."""
    response = DeferredResponse()
    session.login.exchange = None

    def complete_response() -> None:
        """Complete the delayed response to a failed login, and close the connection after it."""
        session.closes_after_response = True
        response.complete(answer)

    timer = broker.waits.call_later(
        broker.settings.get_number("connection.failed.authentication.delay.ms"), complete_response
    )
    response.call_when_abandoned(timer.cancel)
    return response


def finish_login(session: Session, exchange: SaslExchange, broker: BrokerState) -> None:
    """Authenticate the connection until its token or ``connections.max.reauth.ms`` expires (KIP-368)."""
    session.principal, session.is_authenticated = f"User:{exchange.user}", True
    session.login.by_token = exchange.by_token
    lifetimes = [] if exchange.expires_ms is None else [exchange.expires_ms - broker.clock.now_ms]
    settings = broker.settings
    key = settings.find_listener_key("connections.max.reauth.ms", session.listener, session.login.mechanism)
    longest_ms = settings.get_number(key)
    if longest_ms > 0:
        lifetimes.append(longest_ms)
    session.expires_ms = broker.clock.monotonic_ms + min(lifetimes) if lifetimes else None
    session.login.exchange = session.login.answer_raw = None


@Api(
    name="SaslAuthenticate",
    tier="T4",
    behaviour=(
        "After a failure, the broker responds with a delay and closes the connection. If a session "
        "has expired, its next request closes the connection, unless the client has authenticated "
        "again as the same user."
    ),
    notes={
        "v1+": (
            "session lifetime (KIP-368): that of the OAUTHBEARER token, and at most "
            "connections.max.reauth.ms (also set per listener or mechanism); 0: unlimited"
        ),
    },
    before_authentication=True,
)
def _handle_sasl_authenticate(request: _SaslAuthenticate, broker: BrokerState) -> Answer:
    session = request.session
    exchange = session.login.exchange
    if exchange is None:
        session.closes_after_response = not session.is_authenticated
        return request.response(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslHandshake comes first")
    return _answer_sasl_message(
        exchange, request.body.auth_bytes, broker, lambda reply: _answer_authenticate(request, exchange, broker, reply)
    )


def _answer_authenticate(
    request: _SaslAuthenticate, exchange: SaslExchange, broker: BrokerState, reply: bytes | AuthenticationError
) -> Answer:
    """Return the response with the next SASL message, or finish or reject the login."""
    session = request.session
    if session.is_authenticated and exchange.user is not None and session.principal != f"User:{exchange.user}":
        reply = AuthenticationError("Cannot change principals during re-authentication")
    if isinstance(reply, AuthenticationError):
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return refuse_login(session, broker, request.response(error_code=code, error_message=str(reply)))
    lifetime_ms = 0
    if exchange.user is not None:
        finish_login(session, exchange, broker)
        lifetime_ms = 0 if session.expires_ms is None else max(session.expires_ms - broker.clock.monotonic_ms, 1)
    return request.response(
        error_code=ErrorCode.NONE, error_message=None, auth_bytes=reply, session_lifetime_ms=lifetime_ms
    )


@Api(
    name="DescribeUserScramCredentials",
    tier="T4",
    behaviour="Returns the SCRAM mechanisms and iteration counts of each user.",
    rights=(RequiredPermission("DESCRIBE", "CLUSTER"),),
    refuse=build_failure_response,
)
def _describe_user_scram_credentials(request: _DescribeUserScramCredentials, broker: BrokerState) -> Answer:
    scram = broker.credentials.scram
    names = [user_row.name for user_row in request.body.users or ()] or sorted({user for user, _ in scram})
    return broker.changes.answer_rows(
        Counter(names).items(),
        lambda counted: _build_credential_row(request, broker, counted[0], is_repeated=counted[1] > 1),
        lambda rows: request.response(error_message=None, results=rows),
    )


def _build_credential_row(
    request: _DescribeUserScramCredentials, broker: BrokerState, user: str, *, is_repeated: bool
) -> kafka.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    types = request.response
    row = types.DescribeUserScramCredentialsResult(user=user, error_message=None)
    infos = [
        types.CredentialInfo(mechanism=number, iterations=credential.iterations)
        for mechanism, number in sorted(_MECHANISM_NUMBERS.items())
        if (credential := broker.credentials.scram.get((user, mechanism))) is not None
    ]
    if is_repeated:
        row.error_code, row.error_message = ErrorCode.DUPLICATE_RESOURCE, "the user is listed twice"
    elif not infos:
        row.error_code, row.error_message = ErrorCode.RESOURCE_NOT_FOUND, "the user has no SCRAM credentials"
    else:
        row.error_code, row.credential_infos = ErrorCode.NONE, infos
    return row


def _reject_changes(request: _AlterUserScramCredentials, code: int) -> Answer:
    """Return a response that rejects all credential changes with the same error code."""
    body = request.body
    users = dict.fromkeys([*(change.name for change in body.deletions), *(change.name for change in body.upsertions)])
    row = request.response.AlterUserScramCredentialsResult
    return request.response(results=[row(user=user, error_code=code) for user in users])


@Api(
    name="AlterUserScramCredentials",
    tier="T4",
    behaviour="Changes are stored and take effect immediately.",
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
    refuse=_reject_changes,
)
def _alter_user_scram_credentials(request: _AlterUserScramCredentials, broker: BrokerState) -> Answer:
    body = request.body
    changes: dict[str, tuple[list[Any], list[Any]]] = {}
    for deletion in body.deletions:
        changes.setdefault(deletion.name, ([], []))[0].append(deletion)
    for upsertion in body.upsertions:
        changes.setdefault(upsertion.name, ([], []))[1].append(upsertion)

    def alter_row(
        change: tuple[str, tuple[list[Any], list[Any]]],
    ) -> kafka.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult:
        """Change the credentials of one user, and return the response row."""
        user, (deletions, upsertions) = change
        code, message = _change_credentials(broker, user, deletions, upsertions)
        return request.response.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)

    def build_response(rows: list[kafka.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]) -> Answer:
        broker.save_credentials()
        return request.response(results=rows)

    return broker.changes.answer_rows(changes.items(), alter_row, build_response, is_change=True)


def _change_credentials(
    broker: BrokerState, user: str, deletions: list[Any], upsertions: list[Any]
) -> tuple[int, str | None]:
    """Delete and insert a user's credentials, and return the error code and message."""
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "the user name is empty"
    scram = broker.credentials.scram
    # The error is that of the first invalid change, in Kafka's order.
    for index, change in enumerate((*deletions, *upsertions)):
        if index:
            return ErrorCode.DUPLICATE_RESOURCE, "the request changes the user twice"
        if change.mechanism not in MECHANISMS_BY_NUMBER:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"unknown SCRAM mechanism {change.mechanism}"
        is_deletion = index < len(deletions)
        if is_deletion and (user, MECHANISMS_BY_NUMBER[change.mechanism]) not in scram:
            return ErrorCode.RESOURCE_NOT_FOUND, "the credential does not exist"
        if not is_deletion and not MIN_SCRAM_ITERATIONS <= change.iterations <= MAX_SCRAM_ITERATIONS:
            return (
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"iterations must be {MIN_SCRAM_ITERATIONS} to {MAX_SCRAM_ITERATIONS}",
            )
        if not is_deletion and not change.salted_password:  # Kafka's error code is -1: Java's HMAC rejects an empty key
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salted password is empty"
    for change in deletions:
        del scram[user, MECHANISMS_BY_NUMBER[change.mechanism]]
    for change in upsertions:
        name = MECHANISMS_BY_NUMBER[change.mechanism]
        scram[user, name] = credential_from_salted_password(
            name, change.salt, change.iterations, change.salted_password
        )
    return ErrorCode.NONE, None


_USER_PRINCIPAL_TYPE = "User"
_FIRST_VERSION_WITH_REQUESTER = 3


def _check_connection(request: Request) -> None:
    """Reject token requests of clients that are anonymous or have authenticated with a token."""
    session = request.session
    if session.principal == ANONYMOUS_PRINCIPAL or session.login.by_token:
        reason = "delegation tokens require a connection that authenticated without a delegation token"
        raise RefusedError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, reason)


def _split_principal(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


@Api(
    name="CreateDelegationToken",
    tier="T4",
    behaviour="Creates a token for the client or for another user; requires delegation.token.secret.key.",
    notes={"v3+": "a client with the permission may create tokens for another owner (KIP-373)"},
    rights=(RequiredPermission("CREATE_TOKENS", "USER", each="an owner other than the client", first_version=3),),
)
def _create_token(request: _Create, broker: BrokerState) -> Answer:
    body, requester = request.body, request.session.principal
    owner = f"{body.owner_principal_type}:{body.owner_principal_name}" if body.owner_principal_name else requester
    answer = request.response(principal_type=_split_principal(owner)[0], principal_name=_split_principal(owner)[1])
    if request.version >= _FIRST_VERSION_WITH_REQUESTER:
        answer.token_requester_principal_type, answer.token_requester_principal_name = _split_principal(requester)
    try:
        _check_connection(request)
        if owner != requester and not is_allowed(request, broker.access, "USER", owner):
            raise RefusedError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "not allowed")
        if any(renewer.principal_type != _USER_PRINCIPAL_TYPE for renewer in body.renewers):
            raise RefusedError(ErrorCode.INVALID_PRINCIPAL_TYPE, "renewers are users")
        renewers = [f"{_USER_PRINCIPAL_TYPE}:{renewer.principal_name}" for renewer in body.renewers]
        token = broker.credentials.tokens.create(owner, requester, renewers, body.max_lifetime_ms, broker.clock.now_ms)
    except RefusedError as error:
        answer.error_code = error.code
        answer.issue_timestamp_ms = answer.expiry_timestamp_ms = answer.max_timestamp_ms = -1
        return answer
    broker.save_tokens()
    answer.token_id, answer.hmac = token.token_id, broker.credentials.tokens.compute_hmac(token)
    answer.issue_timestamp_ms, answer.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    answer.max_timestamp_ms = token.ends_ms
    return answer


@Api(
    name="RenewDelegationToken", tier="T4", behaviour="Extends the expiry time of a token, up to its maximum lifetime."
)
def _renew(request: _Renew, broker: BrokerState) -> Answer:
    return _change_token(request, broker, broker.credentials.tokens.renew, request.body.renew_period_ms)


@Api(name="ExpireDelegationToken", tier="T4", behaviour="Sets the expiry time of a token, or expires it at once.")
def _expire(request: _Expire, broker: BrokerState) -> Answer:
    return _change_token(request, broker, broker.credentials.tokens.expire, request.body.expiry_time_period_ms)


def _change_token(
    request: _Renew | _Expire, broker: BrokerState, change: Callable[[bytes, str, int, int], int], period_ms: int
) -> Answer:
    """Renew or expire a delegation token, and return the response with its new expiry time."""
    try:
        _check_connection(request)
        ends_ms = change(request.body.hmac, request.session.principal, period_ms, broker.clock.now_ms)
    except RefusedError as error:
        return request.response(error_code=error.code, expiry_timestamp_ms=-1)
    broker.save_tokens()
    return request.response(expiry_timestamp_ms=ends_ms)


@Api(
    name="DescribeDelegationToken",
    tier="T4",
    behaviour="Returns the client's own tokens, and tokens of other users that it may describe.",
    notes={"v3+": "the response contains the requester of each token"},
    rights=(
        RequiredPermission("DESCRIBE", "DELEGATION_TOKEN", each="tokens of other users", denied=OMIT_FROM_RESPONSE),
        RequiredPermission("DESCRIBE_TOKENS", "USER", each="or their owner", denied=OMIT_FROM_RESPONSE),
    ),
)
def _describe_tokens(request: _Describe, broker: BrokerState) -> Answer:
    types, owners = request.response, request.body.owners
    try:
        _check_connection(request)
        tokens = broker.credentials.tokens.list_tokens(broker.clock.now_ms)
    except RefusedError as error:
        return request.response(error_code=error.code)
    if owners is not None:
        owner_names = [f"{owner.principal_type}:{owner.principal_name}" for owner in owners]
        tokens = [token for token in tokens if any(map(token.is_held_by, owner_names))]
    rows = []
    for token in (token for token in tokens if _may_describe_token(request, broker, token)):
        row = types.DescribedDelegationToken(
            issue_timestamp=token.issued_ms,
            expiry_timestamp=token.expires_ms,
            max_timestamp=token.ends_ms,
            token_id=token.token_id,
            hmac=broker.credentials.tokens.compute_hmac(token),
        )
        row.principal_type, row.principal_name = _split_principal(token.owner)
        if request.version >= _FIRST_VERSION_WITH_REQUESTER:
            row.token_requester_principal_type, row.token_requester_principal_name = _split_principal(token.requester)
        for renewer in token.renewers:
            kind, name = _split_principal(renewer)
            row.renewers.append(types.DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name))
        rows.append(row)
    return request.response(tokens=rows)


def _may_describe_token(request: _Describe, broker: BrokerState, token: DelegationToken) -> bool:
    """Return whether the client may see a delegation token."""
    return (
        token.is_held_by(request.session.principal)
        or is_allowed(request, broker.access, "DELEGATION_TOKEN", token.token_id)
        or is_allowed(request, broker.access, "USER", token.owner)
    )
