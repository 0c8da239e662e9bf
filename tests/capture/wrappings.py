"""Builders of packets and captures: one conversation in Ethernet, VLANs, tunnels and many link types."""

from __future__ import annotations

import struct
from collections.abc import Iterable

CALL_COUNT = 6
CLIENT4, SERVER4 = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
CLIENT6, SERVER6 = b"\xfd" + bytes(14) + b"\1", b"\xfd" + bytes(14) + b"\2"
CLIENT_PORT, SERVER_PORT = 40000, 9092
SYN, SYN_ACK, ACK, PUSH = 2, 18, 16, 24
IP4, IP6, ARP, LLDP, MACSEC = 0x0800, 0x86DD, 0x0806, 0x88CC, 0x88E5
GRE, UDP, TCP, ESP = 47, 17, 6, 50


def build_request(number):
    """Return an ApiVersions 0 request of the client ``c``."""
    body = struct.pack(">hhih", 18, 0, number, 1) + b"c"
    return struct.pack(">i", len(body)) + body


def build_response(number):
    body = struct.pack(">ihi", number, 0, 1) + struct.pack(">hhh", 18, 0, 3)
    return struct.pack(">i", len(body)) + body


def tcp(source, target, sequence, acknowledgement, flags, data):
    return struct.pack(">HHIIBBHHH", source, target, sequence, acknowledgement, 0x50, flags, 65535, 0, 0) + data


def build_segments(messages=None, *, opening=True, server_port=SERVER_PORT):
    """Return (is_client, TCP segment) of a connection, which by default has six calls."""
    if messages is None:
        messages = [
            pair
            for number in range(1, CALL_COUNT + 1)
            for pair in ((True, build_request(number)), (False, build_response(number)))
        ]
    next_of = {True: 1000, False: 5000}
    result = []

    def add(is_client, flags, data=b""):
        ports = (CLIENT_PORT, server_port) if is_client else (server_port, CLIENT_PORT)
        result.append((is_client, tcp(*ports, next_of[is_client], next_of[not is_client], flags, data)))
        next_of[is_client] += len(data) + (flags in (SYN, SYN_ACK))

    if opening:
        add(True, SYN)
        add(False, SYN_ACK)
        add(True, ACK)
    for is_client, data in messages:
        add(is_client, PUSH, data)
    return result


def ip4(is_client, protocol, data, *, length=None, identification=1, flags=0):
    ends = (CLIENT4, SERVER4) if is_client else (SERVER4, CLIENT4)
    size = 20 + len(data) if length is None else length
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, identification, flags, 64, protocol, 0, *ends) + data


def ip6(is_client, following, data, *, length=None):
    ends = (CLIENT6, SERVER6) if is_client else (SERVER6, CLIENT6)
    size = len(data) if length is None else length
    return struct.pack(">IHBB16s16s", 6 << 28, size, following, 64, *ends) + data


def packets4(**options):
    return [ip4(is_client, TCP, segment) for is_client, segment in build_segments(**options)]


def packets6(**options):
    return [ip6(is_client, TCP, segment) for is_client, segment in build_segments(**options)]


def ethernet(kind, data):
    return b"\2" * 6 + b"\4" * 6 + struct.pack(">H", kind) + data


def tag(number, kind):
    """Return a VLAN tag as it follows the ethertype."""
    return struct.pack(">HH", number, kind)


def udp(port, data):
    return struct.pack(">HHHH", 4444, port, 8 + len(data), 0) + data


def gre(kind, data, *, sequence=None, key=None):
    flags = 0x1000 * (sequence is not None) + 0x2000 * (key is not None)
    numbers = b"".join(struct.pack(">I", number) for number in (key, sequence) if number is not None)
    return struct.pack(">HH", flags, kind) + numbers + data


def tunnel(protocol, data):
    return ethernet(IP4, ip4(True, protocol, data))


def pktap(link, packet):
    return struct.pack("<III", 108, 1, link).ljust(108, b"\0") + packet


def sll(kind, data):
    return struct.pack(">HHH8sH", 0, 1, 6, b"\2" * 8, kind) + data


def sll2(kind, data):
    return struct.pack(">HHIHBB8s", kind, 0, 3, 1, 0, 6, b"\2" * 8) + data


def build_pcap(packets: Iterable[bytes], link=1, *, order="<", magic=0xA1B2C3D4, snap=262144):
    """Return a capture file, with packets truncated to ``snap`` bytes."""
    head = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, snap, link)
    records = [
        struct.pack(order + "IIII", 1_700_000_000 + number, 0, len(one[:snap]), len(one)) + one[:snap]
        for number, one in enumerate(packets)
    ]
    return head + b"".join(records)


CLIENT_HELLO = b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03" + bytes(58)
SERVER_HELLO = b"\x16\x03\x03\x00\x30\x02\x00\x00\x2c\x03\x03" + bytes(42)
TLS_MESSAGES = ((True, CLIENT_HELLO), (False, SERVER_HELLO), (True, b"\x17\x03\x03\x00\x20" + bytes(range(32)))) * 2
HTTP_MESSAGES = (
    (True, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"),
    (False, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
)
