"""SaslHandshake: choose a SASL mechanism (KIP-43, KIP-152)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Later
from kafkaframes.broker.request import RequestOf, Session
from kafkaframes.broker.security.mechanisms import Exchange
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import Message

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import SaslHandshakeRequest, SaslHandshakeResponse

    Request: TypeAlias = RequestOf[SaslHandshakeRequest, SaslHandshakeResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Begin an exchange by the mechanism that the client has chosen."""
    session, offered = request.session, list(broker.credentials.mechanisms)
    mechanism = request.body.mechanism
    is_again = session.is_authenticated and session.memory.get("mechanism") == mechanism and request.version > 0
    if "sasl" in session.memory or (session.is_authenticated and not is_again):
        return request.response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if mechanism not in offered:
        session.memory["close"] = True
        return request.response(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
    exchange = broker.credentials.exchange(mechanism, lambda: broker.clock.now_ms)
    session.memory |= {"sasl": exchange, "mechanism": mechanism}
    if request.version == 0:
        session.memory["raw"] = _raw(session, exchange, broker)
    return request.response(error_code=ErrorCode.NONE, mechanisms=offered)


def _raw(session: Session, exchange: Exchange, broker: BrokerState) -> Callable[[bytes], list[bytes] | Later]:
    """Return what takes a token without a header and answers with one; nothing, later, to one that is refused."""

    def answer(token: bytes) -> list[bytes] | Later:
        try:
            reply = exchange.respond(token)
        except AuthenticationError:
            return refused(session, broker, None)
        if exchange.user is not None:
            finish(session, exchange, broker)
        return [len(reply).to_bytes(4, "big"), reply]

    return answer


def refused(session: Session, broker: BrokerState, answer: Message | None) -> Later:
    """Answer later, and close the connection then: guessing passwords takes its time."""
    later = Later()
    session.memory.pop("sasl", None)

    def complete() -> None:
        session.memory["close"] = True
        later.complete(answer)

    timer = broker.waits.call_later(broker.settings.number("connection.failed.authentication.delay.ms"), complete)
    later.when_abandoned(timer.cancel)
    return later


def finish(session: Session, exchange: Exchange, broker: BrokerState) -> None:
    """Let a client in who has proven who it is, until its token or ``connections.max.reauth.ms`` ends (KIP-368)."""
    session.principal, session.is_authenticated = f"User:{exchange.user}", True
    ends = [] if exchange.expires_ms is None else [exchange.expires_ms]
    longest_ms = broker.settings.number("connections.max.reauth.ms")
    if longest_ms > 0:
        ends.append(broker.clock.now_ms + longest_ms)
    session.expires_ms = min(ends, default=None)
    session.memory.pop("raw", None)
    session.memory.pop("sasl", None)


API = Api(
    name="SaslHandshake",
    handle=handle,
    tier="T4",
    behaviour="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, as far as the broker offers them.",
    notes={
        "v0": "tokens follow as frames without headers; failures close the connection as late as in v1",
        "v1": "tokens come in SaslAuthenticate",
    },
    gaps=("GSSAPI", "delegation tokens"),
    before_authentication=True,
)
