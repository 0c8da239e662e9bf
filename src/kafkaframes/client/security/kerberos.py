"""A client's half of GSSAPI, which is Kerberos here (RFC 4752), by the extra ``kerberos``.

Every step may ask a key distribution centre, and waits for it: call ``sasl.advance`` in a thread.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from kafkaframes.client.sasl import Exchange
from kafkaframes.errors import BrokerError, MissingExtraError, NetworkError, OptionError

_NO_LAYER: Final = 1  # the bit of the one security layer that Kafka has: none
_LAYERS_BYTES: Final = 4  # a bit for each layer, and three bytes for the size of a message within one
_UNREACHABLE: Final = -1765328228  # KRB5_KDC_UNREACH


def gssapi(settings: Any, host: str) -> Exchange:
    """Authenticate to a broker by a ticket for its service.

    Tickets that a keytab gives are kept for all connections of the process, and are taken anew before they end.

    Args:
        settings: of a client: service, principal, keytab and ticket cache.
        host: of the broker, as the client was told it.

    Raises:
        BrokerError: what the broker answers is not of this exchange.
        MissingExtraError: ``gssapi`` is not installed.
        NetworkError: the key distribution centre cannot be reached.
        OptionError: there is no ticket: no keytab, none in the cache, or no such service.
    """
    library = _library()
    try:
        context = _context(library, settings, host)
        token = context.step(None)
    except library.exceptions.GSSError as error:
        raise _no_ticket(error) from None
    try:
        while not context.complete:
            token = context.step((yield token or b""))
        offered = context.unwrap((yield token or b"")).message
        if len(offered) != _LAYERS_BYTES or not offered[0] & _NO_LAYER:
            raise BrokerError("the broker offers none of GSSAPI's security layers that Kafka has")
        answer = context.wrap(bytes([_NO_LAYER, 0, 0, 0]), False).message
    except library.exceptions.GSSError as error:
        raise BrokerError(f"the broker's answer is no valid GSSAPI message: {error.gen_message()}") from None
    yield answer


def _context(library: Any, settings: Any, host: str) -> Any:
    kerberos, keytab, principal = library.MechType.kerberos, settings.sasl_kerberos_keytab, None
    if settings.sasl_kerberos_principal is not None:
        principal = library.Name(settings.sasl_kerberos_principal, library.NameType.kerberos_principal)
    store = {}
    if keytab is not None:
        digest = hashlib.sha256(f"{keytab}\0{settings.sasl_kerberos_principal}".encode()).hexdigest()
        store = {"client_keytab": keytab, "ccache": f"MEMORY:kafkaframes-{digest}"}
    elif settings.sasl_kerberos_ticket_cache is not None:
        store = {"ccache": settings.sasl_kerberos_ticket_cache}
    held = library.Credentials(name=principal, usage="initiate", mechs=[kerberos], store=store or None)
    service = library.Name(f"{settings.sasl_kerberos_service_name}@{host}", library.NameType.hostbased_service)
    flags = [library.RequirementFlag.mutual_authentication, library.RequirementFlag.integrity]
    return library.SecurityContext(name=service, creds=held, usage="initiate", mech=kerberos, flags=flags)


def _no_ticket(error: Any) -> Exception:
    said = f"GSSAPI: {error.gen_message()}"
    minor = error.min_code - 2**32 if error.min_code >= 2**31 else error.min_code
    return NetworkError(said) if minor == _UNREACHABLE else OptionError(said)


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise MissingExtraError("sasl.mechanism GSSAPI", "kerberos") from error
    return gssapi


__all__ = ["gssapi"]
