"""What a connection may ask for while it authenticates, state by state (Kafka's SaslServerAuthenticator)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from kafkaframes.broker.request import Session


class LoginState(Enum):
    """How far a connection has authenticated."""

    HANDSHAKE = "no mechanism is chosen"
    TOKENS = "a mechanism is chosen; the client's tokens are expected"
    COMPLETE = "authenticated, or no authentication is required"


# The APIs that a connection may call; None for all.
ALLOWED_APIS: Final[Mapping[LoginState, frozenset[str] | None]] = {
    LoginState.HANDSHAKE: frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"}),
    LoginState.TOKENS: frozenset({"SaslAuthenticate"}),
    LoginState.COMPLETE: None,
}


def login_state(session: Session) -> LoginState:
    """Return how far a connection has authenticated; a re-authentication is an authentication, too."""
    if "sasl" in session.memory:
        return LoginState.TOKENS
    return LoginState.COMPLETE if session.is_authenticated else LoginState.HANDSHAKE


def may_call(session: Session, api_name: str) -> bool:
    """Return whether a connection may call an API now."""
    allowed = ALLOWED_APIS[login_state(session)]
    return allowed is None or api_name in allowed
