"""SaslAuthenticate: a token of a SASL exchange (KIP-152).

When the session is over the connection is closed with its next request, unless it has authenticated anew, as the same
user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.apis.sasl_handshake import finish, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import SaslAuthenticateRequest, SaslAuthenticateResponse

    Request: TypeAlias = RequestOf[SaslAuthenticateRequest, SaslAuthenticateResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Pass the token to the exchange that SaslHandshake has begun."""
    session = request.session
    exchange = session.memory.get("sasl")
    if exchange is None:
        session.memory["close"] = not session.is_authenticated
        return request.response(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslHandshake comes first")
    try:
        reply = exchange.respond(request.body.auth_bytes)
        if session.is_authenticated and exchange.user is not None and session.principal != f"User:{exchange.user}":
            raise AuthenticationError("Cannot change principals during re-authentication")
    except AuthenticationError as error:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return refused(session, broker, request.response(error_code=code, error_message=str(error)))
    lifetime_ms = 0
    if exchange.user is not None:
        finish(session, exchange, broker)
        lifetime_ms = 0 if session.expires_ms is None else max(session.expires_ms - broker.clock.now_ms, 1)
    return request.response(
        error_code=ErrorCode.NONE, error_message=None, auth_bytes=reply, session_lifetime_ms=lifetime_ms
    )


API = Api(
    name="SaslAuthenticate",
    handle=handle,
    tier="T4",
    behaviour="A failure is answered after a delay, and closes the connection.",
    notes={
        "v1+": (
            "how long the session lasts (KIP-368): as long as the token of OAUTHBEARER, and connections.max.reauth.ms "
            "at most; 0: for ever"
        ),
    },
    gaps=("connections.max.reauth.ms of one listener or mechanism",),
    before_authentication=True,
)
