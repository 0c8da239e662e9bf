"""GSSAPI on the server's side, which is Kerberos here (RFC 4752), by the extra ``kerberos``.

No security layer is offered, as by Kafka, and nobody acts for somebody else: whom a client asks to be is not looked at.
Accepting a ticket reads the keytab, and may ask for names: it is done in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.broker.security.local_names import LocalNames
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.errors import MissingExtraError, OptionError

_NO_LAYER: Final = bytes([1, 0, 0, 0])  # the bit of the layer, and the size of a message within one
_REFUSED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kerberos:
    """How a broker takes tickets.

    Attributes:
        keytab: the file with its keys; None for that of the process (``KRB5_KTNAME``).
        principal: whom tickets have to be for (``kafka/host@REALM``); None for each that the keytab has.
        service: the same for each host, where there is no principal: ``kafka``.
        rules: from principals to users, see ``local_names``.
    """

    keytab: str | None = None
    principal: str | None = None
    service: str | None = None
    rules: Sequence[str] = ()

    def names(self) -> LocalNames:
        """Return the rules, ready; the default realm is that of Kerberos's own settings.

        Raises:
            OptionError: a rule is none, or the keytab cannot be read.
            MissingExtraError: ``gssapi`` is not installed.
        """
        library = _library()
        try:
            self.credentials(library)
            user = library.Name("user", library.NameType.user).canonicalize(library.MechType.kerberos)
        except library.exceptions.GSSError as error:
            raise OptionError(f"GSSAPI: the keytab cannot be used: {error.gen_message()}") from None
        return LocalNames(self.rules, str(user).rpartition("@")[2])

    def credentials(self, library: Any) -> Any:
        """Return what tickets are accepted with: read anew each time, for keytabs change."""
        types, name = library.NameType, None
        if self.principal is not None:
            name = library.Name(self.principal, types.kerberos_principal)
        elif self.service is not None:
            name = library.Name(self.service, types.hostbased_service)
        store = None if self.keytab is None else {"keytab": self.keytab}
        return library.Credentials(name=name, usage="accept", mechs=[library.MechType.kerberos], store=store)


class KerberosExchange:
    """One authentication: a ticket, what layers there are, and the client's choice."""

    by_token = False

    def __init__(self, kerberos: Kerberos, names: LocalNames) -> None:
        self._kerberos = kerberos
        self._names = names
        self._library = _library()
        self._context: Any = None
        self._has_offered = False
        self.user: str | None = None
        self.expires_ms: int | None = None

    def respond(self, message: bytes) -> bytes:
        """Return the answer to a message; ``user`` is set with the last. May wait for files and names.

        Raises:
            AuthenticationError: the ticket is no good, or the message is none of this exchange.
        """
        try:
            return self._respond(message)
        except self._library.exceptions.GSSError as error:
            _LOG.warning("GSSAPI: a client is refused: %s", error.gen_message())
            raise AuthenticationError(_REFUSED) from None

    def _respond(self, message: bytes) -> bytes:
        if self._has_offered:
            return self._finished(message)
        if self._context is None:
            held = self._kerberos.credentials(self._library)
            self._context = self._library.SecurityContext(creds=held, usage="accept")
            self._context.__DEFER_STEP_ERRORS__ = False  # Kafka sends no token of an error: it refuses
        elif self._context.complete:
            if message:
                raise AuthenticationError("GSSAPI: an empty message was expected")
            return self._offer()
        token: bytes = self._context.step(message) or b""
        return token if token or not self._context.complete else self._offer()

    def _offer(self) -> bytes:
        self._has_offered = True
        offered: bytes = self._context.wrap(_NO_LAYER, False).message
        return offered

    def _finished(self, message: bytes) -> bytes:
        chosen = self._context.unwrap(message).message
        if len(chosen) < len(_NO_LAYER) or chosen[0] != _NO_LAYER[0]:
            raise AuthenticationError("GSSAPI: only the layer without protection is offered")
        self.user = self._names.user(str(self._context.initiator_name))
        return b""


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise MissingExtraError("sasl.enabled.mechanisms GSSAPI", "kerberos") from error
    return gssapi
