"""Authentication states of a connection, and the APIs allowed in each (Kafka's SaslServerAuthenticator)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from kafkaframes.broker.requests.request import Session


class LoginState(Enum):
    """The authentication state of a connection."""

    HANDSHAKE = "the client has not chosen a mechanism"
    TOKENS = "the client has chosen a mechanism, and sends its tokens next"
    COMPLETE = "the connection is authenticated, or authentication is not required"


# APIs that a connection may call, by its state; None allows every API.
ALLOWED_APIS: Final[Mapping[LoginState, frozenset[str] | None]] = {
    LoginState.HANDSHAKE: frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"}),
    LoginState.TOKENS: frozenset({"SaslAuthenticate"}),
    LoginState.COMPLETE: None,
}


def get_login_state(session: Session) -> LoginState:
    """Return the authentication state of a connection. The state does not change during re-authentication."""
    if session.login.exchange is not None:
        return LoginState.TOKENS
    return LoginState.COMPLETE if session.is_authenticated else LoginState.HANDSHAKE


def may_call(session: Session, api_name: str) -> bool:
    """Return whether a connection may call an API now."""
    allowed_apis = ALLOWED_APIS[get_login_state(session)]
    return allowed_apis is None or api_name in allowed_apis
