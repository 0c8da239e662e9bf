"""Convert the kernels' tables of packets, stream gaps and connections to coverage entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkaframes.capture import _kernels_headers as headers
from kafkaframes.capture import layout
from kafkaframes.capture.container import UNSUPPORTED_LINK_TYPES
from kafkaframes.capture.coverage import (
    BOUNDARY,
    CUT,
    DAMAGED,
    ENCRYPTED,
    LOST,
    OTHER,
    UNKNOWN,
    UNSUPPORTED,
    UnreadData,
)
from kafkaframes.capture.layout import FILE_NUMBER_MASK, FILE_NUMBER_SHIFT

Ints = npt.NDArray[np.int64]

_ENTRY_KIND_BY_GAP_CODE: Final = {
    layout.LOST_BYTES: LOST,
    layout.SNAPPED: CUT,
    layout.NO_FRAME: DAMAGED,
    layout.HALF_FRAME: LOST,
    layout.NOT_FOUND: LOST,
    layout.BEFORE: BOUNDARY,
    layout.AFTER: BOUNDARY,
}
ENTRY_KIND_BY_GAP_REASON: Final = tuple(_ENTRY_KIND_BY_GAP_CODE[reason] for reason in range(len(layout.GAP_REASONS)))

_LLC_DESCRIPTION: Final = "IEEE 802.2 (spanning tree, CDP, IS-IS)"
# Ethertypes that cannot contain TCP, then ethertypes that can but are not supported.
_HARMLESS_ETHERTYPES: Final = {
    headers.LLC: _LLC_DESCRIPTION,
    0x0806: "ARP",
    0x0842: "Wake-on-LAN",
    0x22F0: "AVTP",
    0x8035: "RARP",
    0x809B: "AppleTalk",
    0x8137: "IPX",
    0x8808: "Ethernet flow control",
    0x8809: "LACP and other slow protocols",
    0x8863: "PPPoE discovery",
    0x887B: "HomePlug",
    0x888E: "IEEE 802.1X",
    0x8892: "PROFINET",
    0x88A2: "ATA over Ethernet",
    0x88A4: "EtherCAT",
    0x88B5: "IEEE 802 local experiments",
    0x88B6: "IEEE 802 local experiments",
    0x88CC: "LLDP",
    0x88E1: "HomePlug AV",
    0x88F5: "MVRP",
    0x88F7: "PTP",
    0x8902: "CFM",
    0x8906: "FCoE",
    0x8914: "FCoE",
    0x9000: "Ethernet loopback",
}
_OTHER_ETHERTYPES: Final = {
    0x0800: "IPv4",
    0x86DD: "IPv6",
    0x22F3: "TRILL",
    0x880B: "PPTP",
    0x8847: "MPLS",
    0x8848: "MPLS",
    0x8864: "PPPoE",
    0x88E5: "MACsec",
    0x88E7: "provider backbone bridging",
    0x892F: "HSR",
    0x894F: "NSH",
}
_MACSEC_ETHERTYPE: Final = 0x88E5
_IP_PROTOCOLS: Final = {
    1: "ICMP",
    2: "IGMP",
    17: "UDP",
    50: "IPsec ESP",
    58: "ICMPv6",
    89: "OSPF",
    97: "EtherIP",
    98: "ENCAP",
    103: "PIM",
    108: "IPComp",
    112: "VRRP",
    115: "L2TP",
    132: "SCTP",
    137: "MPLS in IP",
    143: "Ethernet in IP",
}
_UNREAD_TUNNEL_PROTOCOLS: Final = frozenset({55, 94, 97, 98, 108, 115, 137, 143})
_ESP_PROTOCOL: Final = 50  # IP protocol number of IPsec ESP
_UDP_TUNNEL_BY_PORT: Final = {
    4500: "IPsec",
    51820: "WireGuard",
    1701: "L2TP",
    2152: "GTP-U",
    4754: "GRE in UDP",
    4790: "VXLAN-GPE",
    6635: "MPLS in UDP",
    37008: "TZSP",
}
_ENCRYPTED_UDP_PORTS: Final = frozenset({4500, 51820})
_FIRST_PPP_CONTROL_PROTOCOL: Final = 0x8000  # this number and higher ones are PPP control protocols


def list_gap_entries(gaps: Ints, files: Sequence[str], file: int) -> Iterator[UnreadData]:
    """Yield a coverage entry for the stream gaps of each file and reason.

    Args:
        gaps: table of gaps, with the columns ``G_`` of ``layout.py``.
        files: paths of the capture files, in the order of the file numbers.
        file: number of the file for gaps that no packet follows.
    """
    if not len(gaps):
        return
    numbers = np.where(gaps[:, layout.G_NUMBER] >= 0, gaps[:, layout.G_NUMBER] >> FILE_NUMBER_SHIFT, file)
    keys, indexes = np.unique(np.stack([numbers, gaps[:, layout.G_REASON]]), axis=1, return_inverse=True)
    sizes = np.bincount(indexes.ravel(), np.maximum(gaps[:, layout.G_SIZE], 0)).astype(np.int64)
    for (number, reason), size in zip(keys.T.tolist(), sizes.tolist(), strict=True):
        yield UnreadData(ENTRY_KIND_BY_GAP_REASON[reason], layout.GAP_REASONS[reason], files[number], size_bytes=size)


ONE_DIRECTION_REASON: Final = "one direction of the connection is not in the capture"
TLS_REASON: Final = "encrypted (TLS)"
UNKNOWN_REASON: Final = "the protocol of the connection is not recognised"
SNAP_LENGTH_REASON: Final = "the payload is cut by the snap length"
STRAY_SEGMENTS_REASON: Final = "TCP segments with a sequence number far from all others of the connection"
EARLIER_START_REASON: Final = "the connection began before the capture"
OTHER_TCP_REASON: Final = "another protocol over TCP"


def list_connection_entries(table: Ints, files: Sequence[str], *, has_ports: bool) -> Iterator[UnreadData]:
    """Yield a coverage entry for the unread connections of each file and reason.

    Args:
        table: connections, in the connection columns of ``layout.py``.
        files: paths of the capture files, in the order of the file numbers.
        has_ports: whether the caller specified the ports of brokers. Connections to other ports are then not Kafka
            connections.
    """
    if not len(table):
        return
    sides = [
        table[:, layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT :][:, : layout.SIDE_COLUMN_COUNT]
        for side in (0, 1)
    ]
    packets, sizes, cut_counts, stray = (
        np.stack([side[:, column] for side in sides], axis=1)
        for column in (layout.SIDE_PACKETS, layout.SIDE_BYTES, layout.CUT_SEGMENTS, layout.STRAY_SEGMENTS)
    )
    protocol = table[:, layout.PROTOCOL]
    is_kafka, is_other = protocol == layout.KAFKA, protocol == layout.OTHER
    total, cut_packets = sizes.sum(axis=1), cut_counts.sum(axis=1)
    has_payload = total > packets.sum(axis=1)  # ignores keepalive probes, which may contain one byte
    has_start = (sides[0][:, layout.INITIAL] >= 0) | (sides[1][:, layout.INITIAL] >= 0)
    is_undecided = (protocol == layout.UNDECIDED) | (protocol == layout.UNRECOGNISED)
    is_cut = (cut_packets > 0) & (is_undecided | (is_other & (not has_ports)))
    is_silent = _find_silent_clients(table, sides, packets, sizes)
    is_unknown = is_undecided & has_payload & ~is_cut
    file_numbers = table[:, layout.FIRST_NUMBER] >> FILE_NUMBER_SHIFT
    rules = (
        (ENCRYPTED, TLS_REASON, protocol == layout.TLS, total, None),
        (CUT, SNAP_LENGTH_REASON, is_cut, total, cut_packets),
        (UNKNOWN, UNKNOWN_REASON, is_unknown & ~is_silent, total, None),
        (OTHER, OTHER_TCP_REASON, (is_other & ~is_cut) | (is_unknown & is_silent), total, None),
        (LOST, ONE_DIRECTION_REASON, is_kafka & (packets.min(axis=1) == 0) & (total > 0), total, None),
        (LOST, STRAY_SEGMENTS_REASON, ~is_other & (stray.sum(axis=1) > 0), None, stray.sum(axis=1)),
        (BOUNDARY, EARLIER_START_REASON, is_kafka & ~has_start, None, None),
    )
    for kind, reason, mask, byte_counts, packet_counts in rules:
        for number in np.unique(file_numbers[mask]).tolist():
            rows = mask & (file_numbers == number)
            yield UnreadData(
                kind,
                reason,
                files[number],
                size_bytes=None if byte_counts is None else int(byte_counts[rows].sum()),
                packets=None if packet_counts is None else int(packet_counts[rows].sum()),
                connections=int(rows.sum()),
            )


def _find_silent_clients(table: Ints, sides: Sequence[Ints], packets: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of connections without data from the client although the capture contains the TCP handshake.

    A Kafka client sends first, so these connections use other protocols.
    """
    client = np.maximum(table[:, layout.CLIENT], 0)
    rows = np.arange(len(table))
    is_open = (sides[0][:, layout.INITIAL] >= 0) & (sides[1][:, layout.INITIAL] >= 0)
    result: npt.NDArray[np.bool_] = is_open & (packets[rows, client] > 1) & (sizes[rows, client] == 0)
    return result


def list_packet_entries(unread: Ints, files: Sequence[str]) -> Iterator[UnreadData]:
    """Yield an entry for each kind of packet without a readable TCP segment.

    Args:
        unread: table of packets, with the columns ``U_`` of ``layout.py``.
        files: paths of the capture files, in the order of the file numbers.
    """
    for row in unread.tolist():
        kind, reason = _describe_packets(*row[: layout.U_PACKETS])
        number = row[layout.U_NUMBER]
        yield UnreadData(
            kind,
            reason,
            files[number >> FILE_NUMBER_SHIFT],
            size_bytes=row[layout.U_BYTES],
            packets=row[layout.U_PACKETS],
            number=number & FILE_NUMBER_MASK,
            time_ns=row[layout.U_TIME],
        )


def format_link_type(link: int) -> str:
    """Return the number of a link type with its name, if it is known."""
    return (
        f"link type {link} ({UNSUPPORTED_LINK_TYPES[link]})" if link in UNSUPPORTED_LINK_TYPES else f"link type {link}"
    )


def _describe_packets(link: int, ethertype: int, protocol: int, problem: int) -> tuple[str, str]:
    """Return the kind and reason for a coverage entry for packets."""
    if problem == layout.UNREAD_LINK:
        return UNSUPPORTED, f"{format_link_type(link)} is not read"
    if problem == layout.MANY_KINDS:
        return UNSUPPORTED, f"packets of further kinds, after {layout.MAX_UNREAD_KINDS - 1} listed kinds"
    if problem == layout.NESTED_HEADERS:
        return UNSUPPORTED, f"more than {headers.MAX_HEADERS} nested headers"
    if problem == layout.CUT_HEADERS:
        return CUT, f"the headers are cut by the snap length{_describe_carrier(ethertype)}"
    if problem == layout.BAD_HEADERS:
        return DAMAGED, f"the headers contradict themselves or end too early{_describe_carrier(ethertype)}"
    return _describe_protocol(protocol) if protocol >= 0 else _describe_ethertype(link, ethertype)


def _describe_carrier(ethertype: int) -> str:
    return f" ({_OTHER_ETHERTYPES[ethertype]})" if ethertype in _OTHER_ETHERTYPES else ""


def _describe_protocol(protocol: int) -> tuple[str, str]:
    """Return the kind and reason for a coverage entry for an IP protocol other than TCP, or a UDP tunnel."""
    port, protocol = protocol >> headers.UDP_PORT_SHIFT, protocol & 0xFF
    if port:
        kind = ENCRYPTED if port in _ENCRYPTED_UDP_PORTS else UNSUPPORTED
        return kind, f"UDP port {port} ({_UDP_TUNNEL_BY_PORT[port]}) is not read"
    name = (
        f"IP protocol {protocol} ({_IP_PROTOCOLS[protocol]})"
        if protocol in _IP_PROTOCOLS
        else f"IP protocol {protocol}"
    )
    if protocol == _ESP_PROTOCOL:
        return ENCRYPTED, f"{name} is not read"
    return (UNSUPPORTED, f"{name} is not read") if protocol in _UNREAD_TUNNEL_PROTOCOLS else (OTHER, name)


def _describe_ethertype(link: int, ethertype: int) -> tuple[str, str]:
    """Return the kind and reason for a coverage entry for packets that are neither IPv4 nor IPv6."""
    if ethertype < 0:
        return UNSUPPORTED, f"neither IPv4 nor IPv6 (link type {link})"
    if ethertype >= headers.PPP_ETHERTYPE_BASE:
        number = ethertype & 0xFFFF
        if number >= _FIRST_PPP_CONTROL_PROTOCOL:
            return OTHER, f"PPP protocol 0x{number:04x}"
        return UNSUPPORTED, f"PPP protocol 0x{number:04x} is not read"
    if ethertype == headers.LLC:
        return OTHER, _LLC_DESCRIPTION
    if ethertype in _HARMLESS_ETHERTYPES:
        return OTHER, f"ethertype 0x{ethertype:04x} ({_HARMLESS_ETHERTYPES[ethertype]})"
    name = f" ({_OTHER_ETHERTYPES[ethertype]})" if ethertype in _OTHER_ETHERTYPES else ""
    kind = ENCRYPTED if ethertype == _MACSEC_ETHERTYPE else UNSUPPORTED
    return kind, f"ethertype 0x{ethertype:04x}{name} is not read"
