"""Who talks to whom: addresses and ports, and the user that a SASL token names; and what fields were called."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from kafkaframes.capture.layout import A_HIGH, A_LOW, B_HIGH, B_LOW, CLIENT, FIRST_NUMBER, PORTS
from kafkaframes.capture.packets import FILE_MASK, FILE_SHIFT, Ints
from kafkaframes.errors.sensitive import REQUEST
from kafkaframes.protocol.messages.registry import Apis
from kafkaframes.protocol.spec.catalog.name_ledger import names_of

_V4: Final = 0xFFFF00000000
_SCRAM_USER: Final = re.compile(rb"^(?:n|y|p=[^,]*),(?:a=[^,]*)?,n=([^,]*),r=")


class Ends(NamedTuple):
    """The two ends of a connection, and its name."""

    client: str
    client_port: int
    server: str
    server_port: int
    label: str


def address_text(high: int, low: int) -> str:
    """Return an address as text; IPv4 is kept as mapped IPv6.

    >>> address_text(0, 0xFFFF7F000001)
    '127.0.0.1'
    """
    if high == 0 and low >> 32 == _V4 >> 32:
        return str(ipaddress.IPv4Address(low & 0xFFFFFFFF))
    return str(ipaddress.IPv6Address((high & (1 << 64) - 1) << 64 | low & (1 << 64) - 1))


def ends_of(row: Ints) -> Ends:
    """Return the ends of a connection from its row; where nobody knows who asks, side A is called the client."""
    a = address_text(int(row[A_HIGH]), int(row[A_LOW])), int(row[PORTS]) >> 16
    b = address_text(int(row[B_HIGH]), int(row[B_LOW])), int(row[PORTS]) & 0xFFFF
    client, server = (b, a) if row[CLIENT] == 1 else (a, b)
    number = int(row[FIRST_NUMBER])
    file = number >> FILE_SHIFT
    where = f"{file}.{number & FILE_MASK}" if file else str(number & FILE_MASK)
    return Ends(*client, *server, f"{_joined(*client)}-{_joined(*server)}-{where}")


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class NamedBodies:
    """The bodies of calls with the names that fields had in a release."""

    def __init__(self, release: str, apis: Apis) -> None:
        """Take a release.

        Raises:
            OptionError: it is not known, or has no names.
        """
        self._names = names_of(release)
        self._apis = apis

    def text(self, body: str | None, api_key: int, direction: str) -> str | None:
        """Return the JSON of a request or response."""
        api = self._apis.table.get(api_key)
        if api is None:
            return body
        return self._names.renamed(api.request if direction == REQUEST else api.response, body)

    def texts(self, bodies: pa.Array, api_key: int, direction: str) -> pa.Array:
        """Return the same for many of one API."""
        return pa.array([self.text(body, api_key, direction) for body in bodies.to_pylist()], pa.string())


class Names:
    """The ends of connections, each made once."""

    def __init__(self) -> None:
        self._known: dict[int, Ends] = {}

    def renumber(self, numbers: Ints) -> None:
        """Take the new numbers of connections, -1 for those that are forgotten."""
        count = len(numbers)
        self._known = {
            int(numbers[row]): ends for row, ends in self._known.items() if row < count and numbers[row] >= 0
        }

    def of(self, connections: Ints, rows: Iterable[int]) -> list[Ends]:
        """Return the ends of connections."""
        result = []
        for row in rows:
            ends = self._known.get(row)
            if ends is None:
                ends = self._known[row] = ends_of(connections[row])
            result.append(ends)
        return result


def sasl_user(token: bytes) -> str | None:
    """Return who logs in, from the first token of SASL PLAIN (RFC 4616) or SCRAM (RFC 5802).

    >>> sasl_user(b"\\0alice\\0alice-secret"), sasl_user(b"n,,n=bob,r=abc"), sasl_user(b"c=biws,r=abc")
    ('alice', 'bob', None)
    """
    match = _SCRAM_USER.match(token)
    if match is not None:
        return match.group(1).decode("utf-8", "replace").replace("=2C", ",").replace("=3D", "=")
    parts = token.split(b"\0")
    if len(parts) == 3 and parts[1]:
        return parts[1].decode("utf-8", "replace")
    return None
