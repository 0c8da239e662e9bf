"""The SASL login of a connection, from SaslHandshake to the end of the authentication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafkaframes.broker.requests.api import Answer


class SaslExchange(Protocol):
    """An authentication in progress.

    Attributes:
        user: name of the user; None before the client is authenticated.
        expires_ms: expiry of the client's token in milliseconds since 1970; None if it does not expire.
        by_token: whether the client uses a delegation token.
    """

    user: str | None = None
    expires_ms: int | None = None
    by_token: bool = False

    def respond(self, message: bytes) -> bytes:
        """Return the response to a client message. Set ``user`` when the client is authenticated.

        Raises:
            AuthenticationError: the authentication failed.
        """


@dataclass(slots=True, eq=False)
class Login:
    """The SASL login of a connection.

    Attributes:
        mechanism: mechanism of the last SaslHandshake request; empty before the first request.
        exchange: the exchange in progress; None before a handshake, and after the login succeeded or failed.
        answer_raw: function that answers SASL messages without request headers, after SaslHandshake 0; None otherwise.
        by_token: whether the client has authenticated with a delegation token.
    """

    mechanism: str = ""
    exchange: SaslExchange | None = None
    answer_raw: Callable[[bytes], Answer] | None = None
    by_token: bool = False
