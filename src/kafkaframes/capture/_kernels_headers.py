"""Find the TCP header of a packet inside link layers, IP and tunnels (numba).

Each position is compared with the end before a byte is read, and lengths in packets are never trusted. Formats: the
link types of tcpdump.org/linktypes.html; RFC 791, 8200 (extension headers), 7348 (VXLAN), 8926 (GENEVE), 2784 and
2890 (GRE).
"""

from __future__ import annotations

from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import load_i16, load_i64, load_u8, load_u32

# Results of ``locate_tcp``. For a packet without a TCP segment, the result is the reason.
NOT_TCP, IS_TCP, IS_FRAGMENT, TOO_SHORT, OTHER_LINK, MALFORMED, TOO_DEEP = range(7)
# Fields that ``locate_tcp`` writes: addresses; position of the TCP header; end of the captured bytes and of the bytes
# on the wire; position of the IP header; and the packet's link type, ethertype and IP protocol number.
SRC_HIGH, SRC_LOW, DST_HIGH, DST_LOW, AT_TCP, TCP_END, TCP_WIRE_END, AT_IP, LINK, ETHERTYPE, PROTOCOL = range(11)
LOCATED_FIELD_COUNT = 11
NULL, EN10MB, LOOP, SLL, SLL2, PPP, PPP_HDLC, NFLOG = 0, 1, 108, 113, 276, 9, 50, 239
PKTAP, PKTAP_USER = 258, 149  # Apple's tcpdump used the second user link type until PKTAP had its own number
PKTAP_BYTES, PKTAP_PACKET = 108, 1
NFLOG_PAYLOAD_ATTRIBUTE = 9
RAW_IP_LINK_TYPE = 101
RAW_IP_LINK_TYPES = (12, 14, RAW_IP_LINK_TYPE, 228, 229)
# Ethertypes. Numbers below the range of ethertypes are used for packets that are identified in another way.
IP4, IP6, ETHERNET, LLC, PPPOE, MPLS, MPLS_MULTICAST = 0x0800, 0x86DD, 0x6558, 4, 0x8864, 0x8847, 0x8848
ERSPAN, ERSPAN_3 = 0x88BE, 0x22EB
VLAN_ETHERTYPES = (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)
BY_NIBBLE, SHORT, UNKNOWN_LINK, NO_ETHERTYPE = -1, -2, -3, -4
PPP_ETHERTYPE_BASE = 0x10000  # added to the number of a PPP protocol other than IP
MAX_LLC_FRAME_BYTES = 1500  # a value up to this is not an ethertype but the size of an IEEE 802.3 frame
IP4_IN_IP, TCP, UDP, IP6_IN_IP, GRE = 4, 6, 17, 41, 47  # IANA protocol numbers
HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60  # IPv6 extension headers
UDP_PORT_SHIFT = 16  # for an unsupported UDP tunnel, the bits of PROTOCOL above this one contain the port
# IPsec and WireGuard are encrypted; L2TP, GTP-U, GRE, VXLAN-GPE, MPLS and TZSP are tunnels.
UNREAD_UDP_PORTS = (4500, 51820, 1701, 2152, 4754, 4790, 6635, 37008)
MAX_HEADERS = 24


@device
def load_big_u16(buf, at):
    """Return an unsigned 16-bit integer in network byte order."""
    return load_i16(buf, at) & 0xFFFF


@device
def load_u32_of(buf, at, little):
    """Return an unsigned 32-bit integer of a capture file in the file's byte order."""
    value = load_u32(buf, at)
    if little:
        return ((value & 0xFF) << 24) | ((value & 0xFF00) << 8) | ((value >> 8) & 0xFF00) | (value >> 24)
    return value


@device
def load_little_u32(buf, at):
    """Return a little-endian unsigned 32-bit integer."""
    return load_u32_of(buf, at, 1)


@device
def _parse_link_layer(buf, at, end, link):
    """Return (ethertype after the link layer, its position). Other results: BY_NIBBLE, SHORT and UNKNOWN_LINK."""
    if link == EN10MB:
        return ETHERNET, at
    if link == SLL:
        return (load_big_u16(buf, at + 14), at + 16) if at + 16 <= end else (SHORT, at)
    if link == SLL2:
        return (load_big_u16(buf, at), at + 20) if at + 20 <= end else (SHORT, at)
    if link in (NULL, LOOP):
        return BY_NIBBLE, at + 4
    for raw in RAW_IP_LINK_TYPES:
        if link == raw:
            return BY_NIBBLE, at
    if link in (PPP, PPP_HDLC):
        return _parse_ppp(buf, at, end)
    if link == NFLOG:
        return _parse_nflog(buf, at, end)
    return UNKNOWN_LINK, at


@device
def _parse_pktap(buf, at, end, link):
    """Return (link type, position) of the packet in Apple's PKTAP header; NO_ETHERTYPE if the header has no packet."""
    if at + PKTAP_BYTES > end:
        return (link if link == PKTAP_USER else SHORT), at
    size = load_little_u32(buf, at)
    header_type = load_little_u32(buf, at + 4)
    inner = load_little_u32(buf, at + 8)
    if not PKTAP_BYTES <= size <= end - at or inner > 0xFFFF or inner in (PKTAP, PKTAP_USER):
        return (link if link == PKTAP_USER else SHORT), at
    return (inner if header_type == PKTAP_PACKET else NO_ETHERTYPE), at + size


@device
def _parse_ppp(buf, at, end):
    """Return the ethertype in a PPP frame (RFC 1661), with or without HDLC address and control bytes."""
    if at + 4 > end:
        return SHORT, at
    if load_big_u16(buf, at) == 0xFF03:
        at += 2
    kind = load_u8(buf, at)
    at += 1
    if not kind & 1:  # if the first byte is even, the protocol number has two bytes
        if at >= end:
            return SHORT, at
        kind = kind << 8 | load_u8(buf, at)
        at += 1
    if kind == 0x21:
        return IP4, at
    if kind == 0x57:
        return IP6, at
    return (MPLS, at) if kind == 0x281 else (PPP_ETHERTYPE_BASE | kind, at)


@device
def _parse_nflog(buf, at, end):
    """Return the payload's position in an NFLOG packet of the Linux firewall, in which it is one of the attributes."""
    at += 4
    for _ in range(64):
        if at + 4 > end:
            break
        size = load_u8(buf, at) | load_u8(buf, at + 1) << 8
        kind = (load_u8(buf, at + 2) | load_u8(buf, at + 3) << 8) & 0x7FFF
        if kind == NFLOG_PAYLOAD_ATTRIBUTE:
            return BY_NIBBLE, at + 4
        if size < 4:
            break
        at += (size + 3) & ~3
    return SHORT, at


@device
def _parse_mpls(buf, at, end):
    """Return the contents of an MPLS frame (RFC 3032): IP, or Ethernet after a pseudowire control word (RFC 4448)."""
    for _ in range(16):
        if at + 4 > end:
            return SHORT, at
        label = load_u32(buf, at)
        at += 4
        if label & 0x100:
            break
    if at + 4 <= end and load_u32(buf, at) >> 28 == 0:
        return ETHERNET, at + 4
    return BY_NIBBLE, at


@device
def _is_vlan(kind):
    for tag in VLAN_ETHERTYPES:  # noqa: SIM110 (numba has no generators here)
        if kind == tag:
            return True
    return False


@device
def _parse_next_layer(buf, kind, at, end):
    """Return (ethertype, position) of the contents of a frame other than IP, or the arguments if it is unsupported.

    Supports Ethernet, VLAN tags, IEEE 802.2 with SNAP, PPPoE and MPLS.
    """
    if kind == ETHERNET:
        return (load_big_u16(buf, at + 12), at + 14) if at + 14 <= end else (SHORT, at)
    if _is_vlan(kind):
        return (load_big_u16(buf, at + 2), at + 4) if at + 4 <= end else (SHORT, at)
    if 0 <= kind <= MAX_LLC_FRAME_BYTES:
        if at + 3 > end or (at + 8 > end and load_big_u16(buf, at) == 0xAAAA):
            return SHORT, at
        is_snap = at + 8 <= end and load_u32(buf, at) == 0xAAAA0300 and load_big_u16(buf, at + 4) == 0
        return (load_big_u16(buf, at + 6), at + 8) if is_snap else (LLC, at)
    if kind == PPPOE:
        return _parse_ppp(buf, at + 6, end)
    if kind in (MPLS, MPLS_MULTICAST):
        return _parse_mpls(buf, at, end)
    return kind, at


@device
def _parse_tunnel(buf, at, end, protocol, segment):
    """Return (ethertype, position) of the contents of a tunnel; NO_ETHERTYPE if the packet is not a tunnel."""
    if protocol in (UDP, GRE) and at + 4 > end:
        return SHORT, at
    if protocol == UDP:
        port = load_big_u16(buf, at + 2)
        if port == 4789 or port == 8472 or port == 6081:
            if at + 16 > end:
                return SHORT, at
            if port == 6081:
                return load_big_u16(buf, at + 10), at + 16 + (load_u8(buf, at + 8) & 0x3F) * 4
            return ETHERNET, at + 16
        for other in UNREAD_UDP_PORTS:
            if port == other:
                segment[PROTOCOL] = UDP | port << UDP_PORT_SHIFT
        return NO_ETHERTYPE, at
    if protocol == GRE:
        flags = load_u8(buf, at)
        kind = load_big_u16(buf, at + 2)
        has_sequence = (flags >> 4) & 1
        at += 4 + ((flags >> 7) & 1) * 4 + ((flags >> 5) & 1) * 4 + has_sequence * 4
        if kind == ERSPAN:  # ERSPAN type I has neither a sequence number nor an ERSPAN header
            return ETHERNET, at + 8 * has_sequence
        if kind == ERSPAN_3:
            return _parse_erspan_3(buf, at, end)
        return kind, at
    if protocol == IP4_IN_IP:
        return IP4, at
    if protocol == IP6_IN_IP:
        return IP6, at
    return NO_ETHERTYPE, at


@device
def _parse_erspan_3(buf, at, end):
    """Return (type, position) of the packet after an ERSPAN III header (draft-foschiano-erspan): Ethernet or IP."""
    if at + 12 > end:
        return SHORT, at
    facts = load_big_u16(buf, at + 10)
    frame_type = (facts >> 10) & 0x1F
    at += 12 + (facts & 1) * 8  # the platform-specific subheader is optional
    return (BY_NIBBLE if frame_type == 2 else ETHERNET), at


@device
def _parse_ip4(buf, at, end, wire, segment):
    """Write an IPv4 packet's addresses. Return (IS_TCP or another result, protocol, payload position, payload end)."""
    if at + 20 > end:
        return TOO_SHORT, 0, at, wire
    header = (load_u8(buf, at) & 15) * 4
    if header < 20:
        return MALFORMED, 0, at, wire
    total = load_big_u16(buf, at + 2)
    # The size is 0 if the network card splits segments (TSO), and larger than the frame if a mirror port cut it.
    if total >= header:
        wire = at + total
    segment[SRC_HIGH] = 0
    segment[SRC_LOW] = 0xFFFF00000000 | load_u32(buf, at + 12)
    segment[DST_HIGH] = 0
    segment[DST_LOW] = 0xFFFF00000000 | load_u32(buf, at + 16)
    if load_big_u16(buf, at + 6) & 0x3FFF:
        segment[AT_IP] = at
        return IS_FRAGMENT, 0, at, wire
    protocol = load_u8(buf, at + 9)
    at += header
    for _ in range(4):
        if protocol != AUTHENTICATION:
            break
        if at + 8 > end:
            return TOO_SHORT, protocol, at, wire
        protocol = load_u8(buf, at)
        at += (load_u8(buf, at + 1) + 2) * 4
    return IS_TCP, protocol, at, wire


@device
def _parse_ip6(buf, at, end, wire, segment):
    """Write an IPv6 packet's addresses and skip its extension headers. Return the same values as for IPv4."""
    if at + 40 > end:
        return TOO_SHORT, 0, at, wire
    size = load_big_u16(buf, at + 4)
    if size:
        wire = at + 40 + size
    protocol = load_u8(buf, at + 6)
    segment[SRC_HIGH] = load_i64(buf, at + 8)
    segment[SRC_LOW] = load_i64(buf, at + 16)
    segment[DST_HIGH] = load_i64(buf, at + 24)
    segment[DST_LOW] = load_i64(buf, at + 32)
    segment[AT_IP] = at
    at += 40
    for _ in range(12):
        if protocol not in (HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AUTHENTICATION, DESTINATION):
            break
        if at + 8 > end:
            return TOO_SHORT, 0, at, wire
        if protocol == FRAGMENT_HEADER and load_big_u16(buf, at + 2) & 0xFFF9:
            return IS_FRAGMENT, 0, at, wire
        length = load_u8(buf, at + 1)
        step = (length + 1) * 8
        if protocol == FRAGMENT_HEADER:
            step = 8
        elif protocol == AUTHENTICATION:
            step = (length + 2) * 4
        protocol = load_u8(buf, at)
        at += step
    return IS_TCP, protocol, at, wire


@device
def locate_tcp(buf, at, end, wire, link, segment):
    """Find the TCP header of a packet, also within VLANs and tunnels, and write its position to ``segment``.

    Returns IS_TCP, IS_FRAGMENT or the reason why the packet has no segment. With a reason, ``segment`` identifies the
    packet: LINK, ETHERTYPE (NO_ETHERTYPE if it is unknown), PROTOCOL (-1 if the packet has no IP header).
    """
    if link in (PKTAP, PKTAP_USER):
        link, at = _parse_pktap(buf, at, end, link)
    segment[LINK] = link
    segment[ETHERTYPE] = NO_ETHERTYPE
    segment[PROTOCOL] = -1
    if link == SHORT:
        segment[LINK] = PKTAP
        return TOO_SHORT
    if link == NO_ETHERTYPE:
        segment[LINK] = PKTAP
        return NOT_TCP
    kind, at = _parse_link_layer(buf, at, end, link)
    for _ in range(MAX_HEADERS):
        if kind == UNKNOWN_LINK:
            return OTHER_LINK
        if kind == SHORT:
            return TOO_SHORT
        if kind >= 0:
            segment[ETHERTYPE] = kind
        if kind != IP4 and kind != IP6 and kind != BY_NIBBLE:
            before = at
            following, at = _parse_next_layer(buf, kind, at, end)
            if following == LLC:
                segment[ETHERTYPE] = LLC
            if at == before and following != SHORT:
                return NOT_TCP
            kind = following
            continue
        if at >= end:
            return TOO_SHORT
        nibble = load_u8(buf, at) >> 4
        if kind in (IP4, BY_NIBBLE) and nibble == 4:
            segment[ETHERTYPE] = IP4
            what, protocol, at, wire = _parse_ip4(buf, at, end, wire, segment)
        elif kind in (IP6, BY_NIBBLE) and nibble == 6:
            segment[ETHERTYPE] = IP6
            what, protocol, at, wire = _parse_ip6(buf, at, end, wire, segment)
        else:
            return NOT_TCP if kind == BY_NIBBLE else MALFORMED
        end = min(end, wire)
        segment[TCP_END] = end
        if what != IS_TCP:
            return what
        segment[PROTOCOL] = protocol
        if protocol == TCP:
            segment[AT_TCP] = at
            segment[TCP_WIRE_END] = wire
            return IS_TCP if at + 20 <= end else TOO_SHORT
        kind, at = _parse_tunnel(buf, at, end, protocol, segment)
        if kind == NO_ETHERTYPE:
            return NOT_TCP
        segment[PROTOCOL] = -1
    return TOO_DEEP
