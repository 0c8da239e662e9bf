"""A listener's security as a command or a ``server.properties`` gives it: texts in, ``Security`` out."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence

from kafkaframes.broker.listeners import ListenerOptions
from kafkaframes.broker.security.mechanisms import MECHANISMS
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.tls import server_context
from kafkaframes.errors import OptionError

# Keys of server.properties that are understood; key and trust stores are PEM files (KIP-651).
KEYS = frozenset(
    {
        "sasl.enabled.mechanisms",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.client.auth",
    }
)


def security_of(
    known: MutableMapping[str, str],
    *,
    listeners: Sequence[ListenerOptions] = (),
    users: Iterable[str] = (),
    certificate: str | None = None,
    key: str | None = None,
    authorities: str | None = None,
) -> Security:
    """Return the security that options and properties ask for; options go before, and the keys are taken out.

    Args:
        known: settings of ``server.properties``.
        listeners: those that ``server.properties`` names.
        users: ``NAME=PASSWORD``, for SASL.
        certificate, key, authorities: PEM files, as for ``server_context``.

    Raises:
        OptionError: a user without a password, a store that is no PEM file, or what a listener does not fit.
    """
    given = {name: known.pop(name) for name in KEYS & known.keys()}
    for store in ("keystore", "truststore"):
        if f"ssl.{store}.location" in given and given.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
            raise OptionError(f"ssl.{store}.location is read where ssl.{store}.type=PEM; other stores are Java's")
    certificate = certificate or given.get("ssl.keystore.location")
    authorities = authorities or given.get("ssl.truststore.location")
    if certificate is None and (key is not None or authorities is not None):
        raise OptionError("TLS needs a certificate: --tls-cert, or ssl.keystore.location with ssl.keystore.type=PEM")
    asked = given.get("ssl.client.auth", "none")
    if asked not in ("none", "requested", "required") or (asked == "required" and authorities is None):
        raise OptionError(f"ssl.client.auth={asked}: none, requested, or required with a truststore")
    known_clients = authorities if asked != "none" else None
    tls = certificate and server_context(certificate, key, authorities=known_clients, needs_client=asked == "required")
    mechanisms = given.get("sasl.enabled.mechanisms", ",".join(MECHANISMS))
    made = Security(
        users=dict(map(_user, users)),
        mechanisms=tuple(name.strip() for name in mechanisms.split(",") if name.strip()),
        needs_sasl=any(one.needs_sasl for one in listeners),
        tls=tls or None,
    )
    if listeners:
        _check(made, listeners)
    return made


def _check(made: Security, listeners: Sequence[ListenerOptions]) -> None:
    """Refuse what no listener uses: it would be taken for protection.

    Raises:
        OptionError: says so.
    """
    named = ", ".join(one.protocol for one in listeners)
    if made.tls is None and any(one.needs_tls for one in listeners):
        raise OptionError(f"a listener of SSL needs a certificate; the listeners are {named}")
    if made.tls is not None and not any(one.needs_tls for one in listeners):
        raise OptionError(f"a certificate, but the listeners are {named}")
    if made.users and not any(one.needs_sasl for one in listeners):
        raise OptionError(f"users for SASL, but the listeners are {named}")


def _user(text: str) -> tuple[str, str]:
    name, equals, password = text.partition("=")
    if not (name and equals and password):
        raise OptionError("--sasl-user takes NAME=PASSWORD")
    return name, password
