"""SaslAuthenticate (36): a token of a SASL exchange (KIP-152).

Versions 0 to 2. A failure is answered after ``connection.failed.authentication.delay.ms``, and closes the connection.

* v1+: how long the session lasts: 0, for ever.

Gaps: re-authentication of a connection (KIP-368): sessions have no end here.
"""

from __future__ import annotations

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.apis.sasl_handshake import finish, refused
from kafkaframes.broker.errors import CODE, NONE
from kafkaframes.broker.request import Request
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.state import BrokerState


def handle(request: Request, broker: BrokerState) -> Answer:
    """Pass the token to the exchange that SaslHandshake has begun."""
    session = request.session
    exchange = session.memory.get("sasl")
    if exchange is None:
        session.memory["close"] = not session.is_authenticated
        return request.response(error_code=CODE["ILLEGAL_SASL_STATE"], error_message="SaslHandshake comes first")
    try:
        reply = exchange.respond(request.body.auth_bytes)
    except AuthenticationError as error:
        code = CODE["SASL_AUTHENTICATION_FAILED"]
        return refused(session, broker, request.response(error_code=code, error_message=str(error)))
    if exchange.user is not None:
        finish(session, exchange)
    return request.response(error_code=NONE, error_message=None, auth_bytes=reply)


API = Api(
    name="SaslAuthenticate",
    handle=handle,
    tier="T4",
    behaviour="A failure is answered after a delay, and closes the connection.",
    notes={"v1+": "sessions last for ever (0)"},
    gaps=("re-authentication: sessions have no end",),
    before_authentication=True,
)
