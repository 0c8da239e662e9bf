"""Parse and format broker addresses: ``host:port``, with brackets around IPv6 and an optional security protocol."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from kafkaframes.errors import OptionError

DEFAULT_PORT: Final = 9092
_SCHEME_PATTERN: Final = re.compile(r"([^/]*)://(.*)", re.DOTALL)
_HOST_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]+")
_EXPECTED_FORMS: Final = "expected host:port, [IPv6]:port, or one of them after a security protocol and ://"


def format_address(host: str, port: int) -> str:
    """Return an address in the form that clients accept.

    >>> format_address("kafka-1", 9092), format_address("::1", 9092)
    ('kafka-1:9092', '[::1]:9092')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, *, protocol: str, protocols: Sequence[str]) -> tuple[str, int]:
    """Return the host and the port of a bootstrap server. The default port is 9092.

    >>> options = {"protocol": "SSL", "protocols": ("PLAINTEXT", "SSL")}
    >>> [parse_address(text, **options) for text in ("kafka-1:1", "SSL://kafka-1:1", "[::1]:1", "::1:1", "kafka-1")]
    [('kafka-1', 1), ('kafka-1', 1), ('::1', 1), ('::1', 1), ('kafka-1', 9092)]

    Args:
        text: address to parse. The port of an IPv6 address without brackets follows the last colon, as in Java's
            clients.
        protocol: the client's ``security_protocol``.
        protocols: all security protocols.

    Raises:
        OptionError: the text is not an address, or its security protocol differs from that of the client.
    """
    match = _SCHEME_PATTERN.fullmatch(text)
    if match is not None:
        scheme, address = match.groups()
        if scheme.upper() != protocol:
            is_known = scheme.upper() in protocols
            remedy = f"set security_protocol={scheme.upper()}" if is_known else f"expected {', '.join(protocols)}"
            raise OptionError(
                f"bootstrap_servers has {text!r} with protocol {scheme}, but security_protocol is {protocol}; {remedy}"
            )
    else:
        address = text
    host, colon, port = address.rpartition(":")
    if colon and (result := _parse_host(host)) is not None and _is_port(port):
        return result, int(port)
    result = _parse_host(address)
    if result is None or (colon and not _is_ipv6(result)):
        raise OptionError(f"bootstrap_servers has {text!r}, which is not an address; {_EXPECTED_FORMS}")
    return result, DEFAULT_PORT


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65_536


def is_host(text: str) -> bool:
    """Return whether the text is a valid host name or IP address; it need not exist.

    >>> is_host("kafka.example"), is_host("[::1]"), is_host("kafka..example")
    (True, True, False)
    """
    return _parse_host(text) is not None


def _parse_host(text: str) -> str | None:
    """Return a host name or an IP address without brackets; None if the text is neither."""
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1] if _is_ipv6(text[1:-1]) else None
    if ":" in text:
        return text if _is_ipv6(text) else None
    try:
        name = text.encode("idna").decode(
            "ascii"
        )  # sockets encode host names, too: without this check, an invalid name such as a..b would be retried for ever
    except UnicodeError:
        return None
    return text if _HOST_NAME_PATTERN.fullmatch(name) else None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
