"""The TLS context of a client's settings: files in PEM as Python takes them, or stores as Java's clients do."""

from __future__ import annotations

import ssl
from typing import Any, Final

from kafkaframes.client.security.stores import Store, load_identity, trusted
from kafkaframes.errors import OptionError


def context_of(settings: Any) -> ssl.SSLContext:
    """Return the context that a client's settings ask for.

    Raises:
        OptionError: a file cannot be read, is damaged or of another kind, or its password is wrong.
        MissingExtraError: a store is PKCS#12, and ``cryptography`` is absent.
    """
    if settings.ssl_context is not None:
        context: ssl.SSLContext = settings.ssl_context
        return context
    trust = _store(settings, "truststore", settings.ssl_truststore_certificates)
    own = _store(settings, "keystore", _chain(settings))
    try:
        context = ssl.create_default_context(
            cafile=settings.ssl_cafile, cadata=trusted(trust) if trust.is_present else None
        )
        if settings.ssl_certfile:
            context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_password)
    except OSError as error:  # ssl.SSLError is one
        raise OptionError(f"ssl: the certificates given cannot be used: {error}") from None
    _bound_versions(context, settings.tls_versions)
    context.check_hostname = settings.ssl_check_hostname and settings.ssl_endpoint_identification_algorithm != ""
    if own.is_present:
        load_identity(context, own, settings.ssl_password)
    return context


_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def _bound_versions(context: ssl.SSLContext, names: list[str]) -> None:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        raise OptionError(f"ssl.enabled.protocols has {unknown[0]!r}; there are {', '.join(_VERSIONS)}")
    if names:
        context.minimum_version, context.maximum_version = _VERSIONS[names[0]], _VERSIONS[names[-1]]


def _store(settings: Any, name: str, text: str | None) -> Store:
    parts = {
        field: getattr(settings, f"ssl_{name}_{setting}")
        for field, setting in (("location", "location"), ("kind", "type"), ("password", "password"))
    }
    return Store(f"ssl.{name}", **parts, text=text)


def _chain(settings: Any) -> str | None:
    """Return key and certificates that are given as text (KIP-651)."""
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if (key is None) != (chain is None):
        raise OptionError("ssl.keystore.key and ssl.keystore.certificate.chain are given together")
    return None if key is None else f"{key}\n{chain}"


__all__ = ["context_of"]
