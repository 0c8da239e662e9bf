"""The client's side of SASL, without I/O: computes the next token from the broker's last one.

A mechanism is a generator. The generator yields a token, receives the broker's token, and returns when authentication
is complete. PLAIN is RFC 4616, SCRAM RFC 5802 and 7677, OAUTHBEARER RFC 7628, GSSAPI (with the extra ``kerberos``) RFC
4752. A step of GSSAPI may send requests to a key distribution center and wait for it. Call ``advance_exchange`` in a
thread.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kafkaframes.errors import BrokerError, NetworkError, OptionError, import_extra

Exchange = Generator[bytes, bytes, None]

_HASH_BY_SCRAM_MECHANISM: Final = MappingProxyType({"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"})
_MIN_SCRAM_ITERATIONS: Final = 4096
_MAX_SCRAM_ITERATIONS: Final = 10_000_000  # more iterations, which a broker can request, would take minutes
_KEY_VALUE_SEPARATOR: Final = b"\x01"  # ends each key-value pair of an OAUTHBEARER message (RFC 7628)
_NO_SECURITY_LAYER: Final = 1  # bit of the only security layer that Kafka supports: none
_LAYER_OFFER_BYTES: Final = 4  # a byte with a bit for each layer, and the largest message size in three bytes
_KDC_UNREACHABLE_CODE: Final = -1765328228  # KRB5_KDC_UNREACH


def authenticate_plain(username: str, password: str) -> Exchange:
    """Authenticate with a name and a password in clear text. Use this mechanism with TLS only."""
    yield b"\0".join((b"", username.encode(), password.encode()))


def authenticate_oauthbearer(token: str, extensions: Mapping[str, str] = MappingProxyType({})) -> Exchange:
    """Authenticate with a bearer token.

    Args:
        token: bearer token.
        extensions: values by name that are sent with the token (KIP-342).

    Raises:
        BrokerError: the broker rejects the token. The error message has the broker's reason.
    """
    pairs = {"auth": f"Bearer {token}", **extensions}
    text = "".join(f"{name}={value}{_KEY_VALUE_SEPARATOR.decode()}" for name, value in pairs.items())
    answer = yield b"n,," + _KEY_VALUE_SEPARATOR + text.encode() + _KEY_VALUE_SEPARATOR
    if answer:
        yield _KEY_VALUE_SEPARATOR
        raise BrokerError(f"the broker rejected the token: {answer.decode(errors='replace')}")


def create_unsecured_token(
    principal: str | None,
    *,
    now_s: float,
    lifetime_s: int = 3600,
    claims: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return an unsigned JSON web token, for development brokers with listeners that accept these (KIP-255).

    Args:
        principal: value of the claim ``sub``; None if ``claims`` has the principal.
        now_s: time of issue, in seconds since 1970.
        lifetime_s: time until the token expires, in seconds.
        claims: other claims.
    """
    subject = {} if principal is None else {"sub": principal}
    all_claims = {**subject, **claims, "iat": now_s, "exp": now_s + lifetime_s}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, all_claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def authenticate_scram(mechanism: str, username: str, password: str, *, nonce: str, is_token: bool = False) -> Exchange:
    """Authenticate with a proof that the client knows the password, and verify the broker's proof.

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        username, password: credentials at the broker.
        nonce: random printable text without commas, different for each exchange.
        is_token: whether the credentials are the id and the HMAC of a delegation token (KIP-48).

    Raises:
        BrokerError: the broker's messages do not belong to this exchange, or the broker does not know the password.
    """
    digest = _HASH_BY_SCRAM_MECHANISM[mechanism]
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_message = f"n={name},r={nonce}" + (",tokenauth=true" if is_token else "")
    challenge = (yield b"n,," + first_message.encode()).decode(errors="replace")
    salt, iterations, combined_nonce = _parse_challenge(challenge, nonce)
    final_message = f"c=biws,r={combined_nonce}"
    signed_text = ",".join((first_message, challenge, final_message)).encode()
    salted_password = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed_text, digest)
    proof = bytes(key_byte ^ signature_byte for key_byte, signature_byte in zip(client_key, signature, strict=True))
    server_message = yield f"{final_message},p={base64.b64encode(proof).decode()}".encode()
    if server_message.startswith(b"e="):
        raise BrokerError(f"the broker rejected the credentials (SCRAM): {server_message[2:].decode(errors='replace')}")
    server_signature = hmac.digest(hmac.digest(salted_password, b"Server Key", digest), signed_text, digest)
    if not hmac.compare_digest(server_message, b"v=" + base64.b64encode(server_signature)):
        raise BrokerError("the broker does not prove that it knows the password (SCRAM)")


def _parse_challenge(text: str, nonce: str) -> tuple[bytes, int, str]:
    attributes: Mapping[str, str] = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    combined_nonce = attributes.get("r", "")
    if not combined_nonce.startswith(nonce) or len(combined_nonce) == len(nonce):
        raise BrokerError("the broker's SCRAM challenge does not contain the client's nonce")
    try:
        salt, iterations = base64.b64decode(attributes["s"], validate=True), int(attributes["i"])
    except (KeyError, ValueError, binascii.Error):
        raise BrokerError("the broker's SCRAM challenge has no salt or no iterations") from None
    if not _MIN_SCRAM_ITERATIONS <= iterations <= _MAX_SCRAM_ITERATIONS:
        raise BrokerError(f"the broker's SCRAM challenge requests {iterations} iterations")
    return salt, iterations, combined_nonce


def advance_exchange(exchange: Exchange, answer: bytes | None) -> bytes | None:
    """Process the broker's token, None at first. Return the next token to send; None at the end."""
    try:
        return next(exchange) if answer is None else exchange.send(answer)
    except StopIteration:
        return None


def authenticate_gssapi(settings: Any, host: str) -> Exchange:
    """Authenticate to a broker with a Kerberos ticket for its service.

    Tickets from a keytab are cached for all connections of the process, and are renewed before they expire.

    Args:
        settings: settings of a client: service, principal, keytab and ticket cache.
        host: advertised or configured host name of the broker.

    Raises:
        BrokerError: the broker's messages do not belong to this exchange.
        MissingExtraError: the package ``gssapi`` is not installed.
        NetworkError: the key distribution center cannot be reached.
        OptionError: no ticket is available, because the keytab or a cached ticket is missing, or the service does not
            exist.
    """
    library = import_extra("sasl.mechanism GSSAPI", "kerberos", "gssapi")
    try:
        context = _create_security_context(library, settings, host)
        token = context.step(None)
    except library.exceptions.GSSError as error:
        raise _to_ticket_error(error, settings, host) from None
    try:
        while not context.complete:
            token = context.step((yield token or b""))
        offered_layers = context.unwrap((yield token or b"")).message
        if len(offered_layers) != _LAYER_OFFER_BYTES or not offered_layers[0] & _NO_SECURITY_LAYER:
            raise BrokerError("the broker requires a GSSAPI security layer, which Kafka does not support")
        answer = context.wrap(bytes([_NO_SECURITY_LAYER, 0, 0, 0]), False).message
    except library.exceptions.GSSError as error:
        raise BrokerError(f"the broker's response is not a valid GSSAPI message: {error.gen_message()}") from None
    yield answer


def _create_security_context(library: Any, settings: Any, host: str) -> Any:
    kerberos, keytab, principal = library.MechType.kerberos, settings.sasl_kerberos_keytab, None
    if settings.sasl_kerberos_principal is not None:
        principal = library.Name(settings.sasl_kerberos_principal, library.NameType.kerberos_principal)
    store = {}
    if keytab is not None:
        path = keytab.removeprefix("FILE:")
        if ":" not in path and not os.access(path, os.R_OK):  # other prefixes, such as MEMORY:, are not files
            raise OptionError(f"GSSAPI: the keytab {keytab} cannot be read")
        digest = hashlib.sha256(f"{keytab}\0{settings.sasl_kerberos_principal}".encode()).hexdigest()
        store = {"client_keytab": keytab, "ccache": f"MEMORY:kafkaframes-{digest}"}
    elif settings.sasl_kerberos_ticket_cache is not None:
        store = {"ccache": settings.sasl_kerberos_ticket_cache}
    credentials = library.Credentials(name=principal, usage="initiate", mechs=[kerberos], store=store or None)
    service = library.Name(f"{settings.sasl_kerberos_service_name}@{host}", library.NameType.hostbased_service)
    flags = [library.RequirementFlag.mutual_authentication, library.RequirementFlag.integrity]
    return library.SecurityContext(name=service, creds=credentials, usage="initiate", mech=kerberos, flags=flags)


def _to_ticket_error(error: Any, settings: Any, host: str) -> Exception:
    """Return the error for a ticket that cannot be acquired, with the settings that select the ticket."""
    keytab, cache, principal = (
        getattr(settings, f"sasl_kerberos_{name}") for name in ("keytab", "ticket_cache", "principal")
    )
    if keytab is not None:
        source = f"keytab {keytab}, which must have a key of {principal or 'the client'}"
    else:
        source = f"ticket cache {cache or 'of the process'}, principal {principal or 'of the cache'}"
    service = f"service {settings.sasl_kerberos_service_name}@{host}"
    reason = f"GSSAPI: {error.gen_message()} ({service}; {source})"
    minor = error.min_code - 2**32 if error.min_code >= 2**31 else error.min_code
    return NetworkError(reason) if minor == _KDC_UNREACHABLE_CODE else OptionError(reason)
