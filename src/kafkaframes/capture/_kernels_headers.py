"""Find the TCP header of a packet behind link layers, IP and tunnels (numba).

No byte is read before its position was compared with the end, no length is trusted. Formats: the link types of
tcpdump.org/linktypes.html; RFC 791, 8200 (extension headers), 7348 (VXLAN), 8926 (GENEVE), 2784 and 2890 (GRE).
"""

from __future__ import annotations

from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import load_i16, load_i64, load_u8, load_u32

NOT_TCP, IS_TCP, IS_FRAGMENT, TOO_SHORT, OTHER_LINK = range(5)
# Where ``locate_tcp`` writes: addresses, where TCP's header is, the ends of what was captured and of what was sent.
SRC_HIGH, SRC_LOW, DST_HIGH, DST_LOW, AT_TCP, TCP_END, TCP_WIRE_END, AT_IP = range(8)
NULL, EN10MB, LOOP, SLL, SLL2, PPP, PPP_HDLC, NFLOG = 0, 1, 108, 113, 276, 9, 50, 239
NFLOG_PAYLOAD = 9
RAW_IP = 101
RAW_LINKS = (12, 14, RAW_IP, 228, 229)
IP4, IP6, ETHERNET, BY_NIBBLE = 0x0800, 0x86DD, 0x6558, -1
IP4_IN_IP, TCP, UDP, IP6_IN_IP, GRE = 4, 6, 17, 41, 47  # protocol numbers of IANA
HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60  # extension headers of IPv6


@device
def load_big_u16(buf, at):
    """Return a number in the network's order."""
    return load_i16(buf, at) & 0xFFFF


@device
def load_u32_of(buf, at, little):
    """Return a number of a capture file, which is little-endian or not."""
    value = load_u32(buf, at)
    if little:
        return ((value & 0xFF) << 24) | ((value & 0xFF00) << 8) | ((value >> 8) & 0xFF00) | (value >> 24)
    return value


@device
def _link(buf, at, end, link):
    """Return the ethertype after the link layer: -1 look at the nibble, -2 too short, -3 unknown link, 1 Ethernet."""
    if link == EN10MB:
        return 1, at
    if link == SLL:
        return (load_big_u16(buf, at + 14), at + 16) if at + 16 <= end else (-2, at)
    if link == SLL2:
        return (load_big_u16(buf, at), at + 20) if at + 20 <= end else (-2, at)
    if link in (NULL, LOOP):
        return BY_NIBBLE, at + 4
    for raw in RAW_LINKS:
        if link == raw:
            return BY_NIBBLE, at
    if link in (PPP, PPP_HDLC):
        return _after_ppp(buf, at, end)
    if link == NFLOG:
        return _after_nflog(buf, at, end)
    return -3, at


@device
def _after_ppp(buf, at, end):
    """Return the ethertype in a PPP frame (RFC 1661), with or without HDLC's address and control."""
    if at + 4 > end:
        return -2, at
    if load_big_u16(buf, at) == 0xFF03:
        at += 2
    kind = load_u8(buf, at)
    at += 1
    if not kind & 1:  # a protocol number of two bytes
        kind = kind << 8 | load_u8(buf, at)
        at += 1
    return (IP4, at) if kind == 0x21 else (IP6, at) if kind == 0x57 else (0, at)


@device
def _after_nflog(buf, at, end):
    """Return the payload of a packet that the Linux firewall logged: one of its attributes."""
    at += 4
    for _ in range(64):
        if at + 4 > end:
            break
        size = load_u8(buf, at) | load_u8(buf, at + 1) << 8
        kind = (load_u8(buf, at + 2) | load_u8(buf, at + 3) << 8) & 0x7FFF
        if kind == NFLOG_PAYLOAD:
            return BY_NIBBLE, at + 4
        if size < 4:
            break
        at += (size + 3) & ~3
    return -2, at


@device
def _after_ethernet(buf, at, end):
    """Return the ethertype behind VLAN tags, PPPoE and MPLS, and where its payload starts."""
    if at + 14 > end:
        return -2, at
    kind = load_big_u16(buf, at + 12)
    at += 14
    for _ in range(4):
        if kind != 0x8100 and kind != 0x88A8 and kind != 0x9100 and kind != 0x9200:
            break
        if at + 4 > end:
            return -2, at
        kind = load_big_u16(buf, at + 2)
        at += 4
    if kind == 0x8864:
        if at + 8 > end:
            return -2, at
        kind = IP4 if load_big_u16(buf, at + 6) == 0x21 else IP6
        at += 8
    elif kind == 0x8847:
        for _ in range(8):
            if at + 4 > end:
                return -2, at
            label = load_u32(buf, at)
            at += 4
            if label & 0x100:
                break
        kind = BY_NIBBLE
    return kind, at


@device
def _tunnel(buf, at, end, protocol):
    """Return the ethertype within a tunnel and where it starts; 0 for no tunnel."""
    if protocol == UDP and at + 16 <= end:
        port = load_big_u16(buf, at + 2)
        if port == 4789 or port == 8472:
            return ETHERNET, at + 16
        if port == 6081:
            return load_big_u16(buf, at + 10), at + 16 + (load_u8(buf, at + 8) & 0x3F) * 4
        return 0, at
    if protocol == GRE and at + 4 <= end:
        flags = load_u8(buf, at)
        kind = load_big_u16(buf, at + 2)
        at += 4 + ((flags >> 7) & 1) * 4 + ((flags >> 5) & 1) * 4 + ((flags >> 4) & 1) * 4
        if kind == 0x88BE:  # ERSPAN type II
            return ETHERNET, at + 8
        return kind, at
    if protocol == IP4_IN_IP:
        return IP4, at
    if protocol == IP6_IN_IP:
        return IP6, at
    return 0, at


@device
def _after_ip4(buf, at, end, wire, located):
    """Write an IPv4 packet's addresses; return (IS_TCP or why it is not, protocol, position and end of the payload)."""
    if at + 20 > end:
        return TOO_SHORT, 0, at, wire
    header = (load_u8(buf, at) & 15) * 4
    if header < 20:
        return NOT_TCP, 0, at, wire
    total = load_big_u16(buf, at + 2)
    if total >= header and at + total < wire:  # 0 where the card cuts segments (TSO)
        wire = at + total
    located[SRC_HIGH] = 0
    located[SRC_LOW] = 0xFFFF00000000 | load_u32(buf, at + 12)
    located[DST_HIGH] = 0
    located[DST_LOW] = 0xFFFF00000000 | load_u32(buf, at + 16)
    if load_big_u16(buf, at + 6) & 0x3FFF:
        located[AT_IP] = at
        return IS_FRAGMENT, 0, at, wire
    return IS_TCP, load_u8(buf, at + 9), at + header, wire


@device
def _after_ip6(buf, at, end, wire, located):
    """Do the same for an IPv6 packet and its extension headers."""
    if at + 40 > end:
        return TOO_SHORT, 0, at, wire
    size = load_big_u16(buf, at + 4)
    if size and at + 40 + size < wire:
        wire = at + 40 + size
    protocol = load_u8(buf, at + 6)
    located[SRC_HIGH] = load_i64(buf, at + 8)
    located[SRC_LOW] = load_i64(buf, at + 16)
    located[DST_HIGH] = load_i64(buf, at + 24)
    located[DST_LOW] = load_i64(buf, at + 32)
    located[AT_IP] = at
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
def locate_tcp(buf, at, end, wire, link, located):
    """Find the TCP header of a packet, through VLANs and tunnels; write where it is into ``located``."""
    kind, at = _link(buf, at, end, link)
    for _ in range(8):
        if kind == 1 or kind == ETHERNET:
            kind, at = _after_ethernet(buf, at, end)
        if kind == -3:
            return OTHER_LINK
        if kind == -2 or at >= end:
            return TOO_SHORT
        nibble = load_u8(buf, at) >> 4
        if kind == BY_NIBBLE:
            kind = IP4 if nibble == 4 else IP6 if nibble == 6 else 0
        if kind == IP4 and nibble == 4:
            what, protocol, at, wire = _after_ip4(buf, at, end, wire, located)
        elif kind == IP6 and nibble == 6:
            what, protocol, at, wire = _after_ip6(buf, at, end, wire, located)
        else:
            return NOT_TCP
        end = min(end, wire)
        located[TCP_END] = end
        if what != IS_TCP:
            return what
        if protocol == TCP:
            located[AT_TCP] = at
            located[TCP_WIRE_END] = wire
            return IS_TCP if at + 20 <= end else TOO_SHORT
        kind, at = _tunnel(buf, at, end, protocol)
        if kind == 0:
            return NOT_TCP
    return NOT_TCP
