"""The listeners of a broker: bind address, advertised address and security protocol.

A client gets the advertised addresses of the listener to which it is connected. The settings have the syntax of
``server.properties``: ``listeners``, ``advertised.listeners`` and ``listener.security.protocol.map`` (KIP-103).
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass, replace

from kafkaframes.errors import OptionError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LISTENER_KEYS = frozenset(
    {"listeners", "advertised.listeners", "listener.security.protocol.map", "controller.listener.names"}
    | {"inter.broker.listener.name"}
)
_LISTENER_PATTERN = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>[^:/,\[\]]*|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})"
)
_MAX_PORT = 65535
LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOptions:
    """A listener of a broker.

    Attributes:
        name: listener name (``INTERNAL``); by default its protocol.
        protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        host, port: bind address; port 0 selects a free port. Each further virtual node uses the next port.
        advertised: advertised host and port, by default the bind address; port 0 advertises the bound port.
    """

    name: str = ""
    protocol: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 0
    advertised: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        """Set the default name, and validate the options.

        Raises:
            OptionError: the protocol is unknown, a port is invalid, or the advertised address is a wildcard.
        """
        if self.protocol not in SECURITY_PROTOCOLS:
            raise OptionError(f"unknown security protocol {self.protocol!r}; expected {', '.join(SECURITY_PROTOCOLS)}")
        ports = (self.port, *(() if self.advertised is None else self.advertised[1:]))
        if any(not 0 <= port <= _MAX_PORT for port in ports):
            raise OptionError(f"port {max(ports)} is out of range; expected 0 to {_MAX_PORT}")
        if self.advertised is not None and self.advertised[0] in LOOPBACK_BY_WILDCARD:
            raise OptionError(f"clients cannot use the address {self.advertised[0]!r}: it is a wildcard address")
        object.__setattr__(self, "name", self.name or self.protocol)

    @property
    def needs_sasl(self) -> bool:
        """Whether clients must authenticate with SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def needs_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol.endswith("SSL")

    def address_for_clients(self, port: int) -> tuple[str, int]:
        """Return the advertised address for a bound port; raise an ``OptionError`` if its port is too large."""
        if self.advertised is None:
            return LOOPBACK_BY_WILDCARD.get(self.host, self.host), port
        host, advertised_port = self.advertised
        reported_port = advertised_port + port - self.port if advertised_port and self.port else advertised_port or port
        if reported_port > _MAX_PORT:
            raise OptionError(
                f"listener {self.name}: port {reported_port}, which another node would advertise, is too large"
            )
        return host, reported_port


def parse_listeners(settings: MutableMapping[str, str]) -> tuple[ListenerOptions, ...]:
    """Return the listeners in the settings, without controller listeners; empty if there are no such settings.

    The settings are removed from ``settings``.

    >>> [one] = parse_listeners({"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://kafka:29092"})
    >>> one.name, one.host, one.port, one.advertised
    ('PLAINTEXT', '0.0.0.0', 9092, ('kafka', 29092))

    Raises:
        OptionError: a setting is invalid, or settings contradict each other.
    """
    texts = {key: settings.pop(key) for key in LISTENER_KEYS & settings.keys()}
    controller_names = {name.strip() for name in texts.get("controller.listener.names", "").split(",")}
    protocols = _parse_protocols(texts.get("listener.security.protocol.map", ""))
    listeners: dict[str, ListenerOptions] = {}
    for name, host, port in _parse_entries(texts.get("listeners", ""), "listeners"):
        if name in controller_names:
            continue
        if name in listeners:
            raise OptionError(f"listeners: {name} is listed twice")
        if name not in protocols:
            raise OptionError(f"listeners: {name} is neither a protocol nor in listener.security.protocol.map")
        listeners[name] = ListenerOptions(name=name, protocol=protocols[name], host=host or "0.0.0.0", port=port)
    for name, host, port in _parse_entries(texts.get("advertised.listeners", ""), "advertised.listeners"):
        if name in controller_names:
            continue
        if name not in listeners:
            raise OptionError(f"advertised.listeners: {name} is not in listeners")
        listeners[name] = replace(listeners[name], advertised=(host, port))
    fixed_ports = [listener.port for listener in listeners.values() if listener.port]
    if len(set(fixed_ports)) < len(fixed_ports):
        raise OptionError("listeners: ports must be unique")
    return tuple(listeners.values())


def _parse_entries(text: str, key: str) -> list[tuple[str, str, int]]:
    """Parse listeners such as ``NAME://HOST:PORT``, separated by commas."""
    entries = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _LISTENER_PATTERN.fullmatch(part)
        if match is None or int(match["port"]) > _MAX_PORT:
            raise OptionError(f"{key}: {part!r} is not NAME://HOST:PORT")
        entries.append((match["name"], match["host"].strip("[]"), int(match["port"])))
    return entries


def _parse_protocols(text: str) -> dict[str, str]:
    """Return the protocol of each listener name. A protocol name is also a listener name with this protocol."""
    protocols = {protocol: protocol for protocol in SECURITY_PROTOCOLS}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = part.partition(":")
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise OptionError(
                f"listener.security.protocol.map: {part!r} is not NAME:PROTOCOL,"
                f" with one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols
