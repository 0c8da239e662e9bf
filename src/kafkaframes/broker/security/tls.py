"""TLS: a server's context from files, and who a client's certificate says it is."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from kafkaframes.errors import OptionError

# The short names of RFC 2253, which Java's X500Principal writes; others by their OpenSSL names.
_SHORT = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
}
_ESCAPED = str.maketrans({character: f"\\{character}" for character in ',+"\\<>;='})


def server_context(
    certificate: str,
    key: str | None = None,
    *,
    key_password: str | None = None,
    authorities: str | None = None,
    needs_client: bool = False,
) -> ssl.SSLContext:
    """Return a server's context.

    Args:
        certificate: a PEM file with the certificate, and perhaps its chain.
        key: a PEM file with the private key; in ``certificate`` by default.
        key_password: password of an encrypted private key.
        authorities: a PEM file with those whose clients are known.
        needs_client: a client without a certificate is refused (``ssl.client.auth=required``).

    Raises:
        OptionError: a file cannot be read, is not a PEM file, or the key is encrypted with another password.
    """

    def ask_password() -> str:
        if key_password is None:  # OpenSSL would ask on the terminal
            raise OptionError(f"the private key of {certificate} is encrypted; set ssl.key.password")
        return key_password

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, ask_password)
        if authorities is not None:
            context.load_verify_locations(authorities)
            context.verify_mode = ssl.CERT_REQUIRED if needs_client else ssl.CERT_OPTIONAL
    except OSError as error:  # ssl.SSLError is one
        raise OptionError(f"the certificate {certificate} cannot be used: {error}") from None
    return context


def name_of_certificate(certificate: Mapping[str, Any]) -> str:
    """Return the subject's distinguished name, as Kafka's principal has it (RFC 2253: the last part first).

    >>> name_of_certificate({"subject": ((("organizationName", "A, Inc"),), (("commonName", "alice"),))})
    'CN=alice,O=A\\\\, Inc'
    """
    parts = [
        "+".join(f"{_SHORT.get(name, name)}={value.translate(_ESCAPED)}" for name, value in one)
        for one in certificate.get("subject", ())
    ]
    return ",".join(reversed(parts))
