"""Addresses of brokers as text: ``host:port``, with brackets around IPv6, optionally after a security protocol."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from kafkaframes.errors import OptionError

DEFAULT_PORT: Final = 9092
_SCHEME: Final = re.compile(r"([^/]*)://(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_FORMS: Final = "expected host:port, [IPv6]:port, or one of them after a security protocol and ://"


def format_address(host: str, port: int) -> str:
    """Return an address as clients accept it.

    >>> format_address("kafka-1", 9092), format_address("::1", 9092)
    ('kafka-1:9092', '[::1]:9092')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, *, protocol: str, protocols: Sequence[str]) -> tuple[str, int]:
    """Return host and port of a bootstrap server; a host without a port has port 9092.

    >>> options = {"protocol": "SSL", "protocols": ("PLAINTEXT", "SSL")}
    >>> [parse_address(text, **options) for text in ("kafka-1:1", "SSL://kafka-1:1", "[::1]:1", "::1:1", "kafka-1")]
    [('kafka-1', 1), ('kafka-1', 1), ('::1', 1), ('::1', 1), ('kafka-1', 9092)]

    Args:
        text: the address. An IPv6 address without brackets ends before the last colon, as Java's clients read it.
        protocol: the client's ``security_protocol``.
        protocols: all security protocols.

    Raises:
        OptionError: the text is not an address, or begins with another security protocol than the client's.
    """
    match = _SCHEME.fullmatch(text)
    if match is not None:
        scheme, address = match.groups()
        if scheme.upper() != protocol:
            is_known = scheme.upper() in protocols
            remedy = f"set security_protocol={scheme.upper()}" if is_known else f"expected {', '.join(protocols)}"
            raise OptionError(
                f"bootstrap_servers has {text!r}, of protocol {scheme}, but security_protocol is {protocol}; {remedy}"
            )
    else:
        address = text
    host, colon, port = address.rpartition(":")
    if colon and (result := _host_of(host)) is not None and _is_port(port):
        return result, int(port)
    result = _host_of(address)
    if result is None or (colon and not _is_ipv6(result)):
        raise OptionError(f"bootstrap_servers has {text!r}, which is not an address; {_FORMS}")
    return result, DEFAULT_PORT


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65_536


def _host_of(text: str) -> str | None:
    """Return a host's name or IP address without brackets; None if it is neither."""
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1] if _is_ipv6(text[1:-1]) else None
    if ":" in text:
        return text if _is_ipv6(text) else None
    try:
        name = text.encode("idna").decode("ascii")  # as a socket does: a..b would be tried again and again
    except UnicodeError:
        return None
    return text if _NAME.fullmatch(name) else None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
