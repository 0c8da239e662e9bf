"""Create a server-side TLS context from PEM files, and read the principal's name from a client certificate."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import OptionError

# Short attribute names (RFC 2253), as in Java's X500Principal. Other attributes keep their OpenSSL names.
_SHORT_ATTRIBUTE_NAMES = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
}
_DISTINGUISHED_NAME_ESCAPES = str.maketrans({character: f"\\{character}" for character in ',+"\\<>;='})


def create_server_context(
    certificate: str,
    key: str | None = None,
    *,
    key_password: str | None = None,
    authorities: str | None = None,
    needs_client: bool = False,
) -> ssl.SSLContext:
    """Return a server-side TLS context.

    Args:
        certificate: PEM file with the certificate and optionally its chain.
        key: PEM file with the private key; by default ``certificate``.
        key_password: password of an encrypted private key.
        authorities: PEM file with the certificate authorities of clients.
        needs_client: whether clients need a certificate (``ssl.client.auth=required``).

    Raises:
        OptionError: a file cannot be read or is not a PEM file, or the key's password is wrong.
    """

    def provide_password() -> str:
        if key_password is None:  # without this error, OpenSSL would prompt on the terminal
            raise OptionError(f"the private key of {certificate} is encrypted; set ssl.key.password")
        return key_password

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, provide_password)
        if authorities is not None:
            context.load_verify_locations(authorities)
            context.verify_mode = ssl.CERT_REQUIRED if needs_client else ssl.CERT_OPTIONAL
    except OSError as error:  # ssl.SSLError is one
        raise OptionError(f"the certificate {certificate} cannot be used: {error}") from None
    return context


def format_certificate_name(certificate: Mapping[str, Any]) -> str:
    """Return the subject's distinguished name as Kafka's principal contains it (RFC 2253: last part first).

    >>> format_certificate_name({"subject": ((("organizationName", "A, Inc"),), (("commonName", "alice"),))})
    'CN=alice,O=A\\\\, Inc'
    """
    parts = [
        "+".join(
            f"{_SHORT_ATTRIBUTE_NAMES.get(name, name)}={value.translate(_DISTINGUISHED_NAME_ESCAPES)}"
            for name, value in relative_name
        )
        for relative_name in certificate.get("subject", ())
    ]
    return ",".join(reversed(parts))
