"""Scan the packets of capture files for TCP segments and connections (numba). Called by ``packets.py``.

1. Arguments and results are arrays and integers. There are no exceptions, objects or I/O. The caller allocates and
   grows every table.
2. Each position is compared with the end before a byte is read, and lengths in the file are never trusted.
3. Formats: libpcap's file format, pcapng (draft-ietf-opsawg-pcapng), RFC 9293 (TCP).

Arguments (columns of tables and meaning of counters: ``layout.py``). Positions and sizes are in bytes. ``buf`` is a
byte array, other arrays and tables are int64, and all other arguments are integers:

====================================  ==================================================================================
buf, position, end                    file bytes; position of the next record or block; end of the bytes
number                                packet number, from 1; ``scan_packets`` takes the previous packet's number
kind, little, interfaces              properties of the file, as in ``container.py``
at, end, wire, link, time             of a packet: its start, the end of its captured bytes and of its bytes on the
                                      wire, its link type, its time in ns
share, shares                         number of this task and count of tasks; a connection belongs to one task, by a
                                      hash of its endpoints
every                                 whether packets without payload also get rows
rows, row                             table of packets, and the next row to write
connections, count                    table of connections, and their number
slots                                 hash table from endpoints to connections: row + 1, or 0 for a free slot
segment                               the addresses and positions that ``locate_tcp`` wrote for the packet
unread                                packets without a TCP segment, by kind
source, target, flags, sequence       TCP ports, flags and sequence number
size                                  size of the payload on the wire
counters                              numbers of packets and bytes
====================================  ==================================================================================
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.capture._kernels_headers import (
    AT_IP,
    AT_TCP,
    DST_HIGH,
    DST_LOW,
    ETHERTYPE,
    IS_FRAGMENT,
    IS_TCP,
    LINK,
    MALFORMED,
    OTHER_LINK,
    PROTOCOL,
    RAW_IP_LINK_TYPE,
    SRC_HIGH,
    SRC_LOW,
    TCP_END,
    TCP_WIRE_END,
    TOO_DEEP,
    TOO_SHORT,
    load_big_u16,
    load_u32_of,
    locate_tcp,
)
from kafkaframes.wire._jit import BYTES, OUT_INT64S, OUT_TABLE, TABLE, device, kernel, types
from kafkaframes.wire._kernels import load_u8, load_u32

INT64_MAX = 0x7FFFFFFFFFFFFFFF
NS_PER_SECOND = 1_000_000_000
MAX_FRACTION_BITS = 33  # a fraction of a second with at most this many bits can be multiplied by NS_PER_SECOND

I64 = types.int64
NEW_CONNECTION_DISTANCE = (
    1 << 24
)  # after a connection's end, a sequence number this far from the last one belongs to a new connection
STRAY_DISTANCE = 1 << 29  # a segment whose sequence number is this far from the last one is counted as stray


@device
def _sequence_distance(number, base):
    """Return the signed difference ``number - base``, modulo 2^32."""
    distance = (number - base) & 0xFFFFFFFF
    return distance - (1 << 32) if distance >= 1 << 31 else distance


@device
def _hash_endpoints(a_high, a_low, b_high, b_low, ports):
    value = (a_low * 0x9E3779B97F4A7C1 + a_high) ^ (b_low * 0x2545F4914F6CDD1D + b_high) ^ (ports * 0x27D4EB2F165667C5)
    value ^= (value >> 31) & 0x1FFFFFFFF
    value *= 0x369DEA0F31A53F85
    return value ^ ((value >> 29) & 0x7FFFFFFFF)


@device
def _initialize_connection(connections, row, time, number):
    """Initialise a connection's row. The caller has set its addresses and ports."""
    for column in range(layout.PORTS + 1, layout.CONNECTION_COLUMN_COUNT):
        connections[row, column] = 0
    connections[row, layout.CLIENT] = -1
    connections[row, layout.FIRST_TIME] = time
    connections[row, layout.FIRST_NUMBER] = number
    connections[row, layout.LAST_TIME] = time
    for side in range(2):
        base = layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT
        connections[row, base + layout.INITIAL] = -1
        connections[row, base + layout.LOST_FROM] = -1


@device
def _is_new_connection(connections, row, base, side_of_sender, flags, sequence, size):
    """Return whether a packet is the first of another connection between the same endpoints."""
    initial = connections[row, base + layout.INITIAL]
    is_closed = connections[row, layout.RESET] or (
        connections[row, base + layout.ENDED] and connections[row, side_of_sender + layout.ENDED]
    )
    if flags & layout.SYN:
        if initial == sequence:
            return False
        if initial >= 0:
            return True
        if not connections[row, base + layout.STARTED]:
            return bool(is_closed)
        distance = (
            _sequence_distance(sequence + 1, connections[row, base + layout.BASE_NUMBER])
            + connections[row, base + layout.BASE_OFFSET]
        )
        return bool(is_closed) or distance > 0 or distance < -NEW_CONNECTION_DISTANCE
    if not is_closed or not size or not connections[row, base + layout.STARTED]:
        return False
    distance = _sequence_distance(sequence, connections[row, base + layout.BASE_NUMBER])
    return distance > NEW_CONNECTION_DISTANCE or distance < -NEW_CONNECTION_DISTANCE


@device
def _find_connection(
    connections, count, slots, segment, source, target, flags, sequence, size, time, number, share, shares
):
    """Return (connection, side, count). The connection is -1 if another task reads it, and -2 if the table is full."""
    swap = segment[SRC_HIGH] > segment[DST_HIGH] or (
        segment[SRC_HIGH] == segment[DST_HIGH]
        and (segment[SRC_LOW] > segment[DST_LOW] or (segment[SRC_LOW] == segment[DST_LOW] and source > target))
    )
    side = 1 if swap else 0
    a, b = (DST_HIGH, SRC_HIGH) if swap else (SRC_HIGH, DST_HIGH)
    ports = (target << 16 | source) if swap else (source << 16 | target)
    hash_value = _hash_endpoints(segment[a], segment[a + 1], segment[b], segment[b + 1], ports)
    if shares > 1 and ((hash_value >> 24) & 0xFFFFFF) % shares != share:
        return -1, side, count
    mask = slots.size - 1
    slot = hash_value & mask
    row = slots[slot] - 1
    while row >= 0:
        if (
            connections[row, layout.PORTS] == ports
            and connections[row, layout.A_LOW] == segment[a + 1]
            and connections[row, layout.B_LOW] == segment[b + 1]
            and connections[row, layout.A_HIGH] == segment[a]
            and connections[row, layout.B_HIGH] == segment[b]
        ):
            break
        slot = (slot + 1) & mask
        row = slots[slot] - 1
    base = layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT
    other = layout.FIRST_SIDE_COLUMN + (1 - side) * layout.SIDE_COLUMN_COUNT
    if row >= 0 and not _is_new_connection(connections, row, base, other, flags, sequence, size):
        return row, side, count
    if count == connections.shape[0]:
        return -2, side, count
    slots[slot] = count + 1
    connections[count, layout.A_HIGH] = segment[a]
    connections[count, layout.A_LOW] = segment[a + 1]
    connections[count, layout.B_HIGH] = segment[b]
    connections[count, layout.B_LOW] = segment[b + 1]
    connections[count, layout.PORTS] = ports
    _initialize_connection(connections, count, time, number)
    return count, side, count + 1


@device
def _count_unread_packet(segment, reason, size, time, number, unread, counters):
    """Count a packet without a TCP segment by its link type, ethertype, protocol and reason."""
    count = counters[layout.UNREAD_KINDS]
    row = 0
    while row < count and not (
        unread[row, layout.U_LINK] == segment[LINK]
        and unread[row, layout.U_ETHERTYPE] == segment[ETHERTYPE]
        and unread[row, layout.U_PROTOCOL] == segment[PROTOCOL]
        and unread[row, layout.U_WHAT] == reason
    ):
        row += 1
    if row == count and count == unread.shape[0]:
        row = count - 1
        unread[row, layout.U_WHAT] = layout.MANY_KINDS
    elif row == count:
        counters[layout.UNREAD_KINDS] += 1
        unread[row, layout.U_LINK] = segment[LINK]
        unread[row, layout.U_ETHERTYPE] = segment[ETHERTYPE]
        unread[row, layout.U_PROTOCOL] = segment[PROTOCOL]
        unread[row, layout.U_WHAT] = reason
        unread[row, layout.U_PACKETS] = 0
        unread[row, layout.U_BYTES] = 0
        unread[row, layout.U_NUMBER] = number
        unread[row, layout.U_TIME] = time
    unread[row, layout.U_PACKETS] += 1
    unread[row, layout.U_BYTES] += size


@device
def _process_segment(buf, segment, time, number, share, shares, every, rows, row, connections, count, slots, counters):
    """Process one TCP segment. Return (full?, rows, connections). Full is -1 if the header contradicts itself."""
    at = segment[AT_TCP]
    end = segment[TCP_END]
    wire = segment[TCP_WIRE_END]
    sequence = load_u32(buf, at + 4)
    flags = load_u8(buf, at + 13)
    payload = at + (load_u8(buf, at + 12) >> 4) * 4
    length = wire - payload
    if payload < at + 20 or length < 0:
        return -1, row, count
    captured_bytes = max(min(end - payload, length), 0)
    connection, side, count = _find_connection(
        connections,
        count,
        slots,
        segment,
        load_big_u16(buf, at),
        load_big_u16(buf, at + 2),
        flags,
        sequence,
        length,
        time,
        number,
        share,
        shares,
    )
    if connection < 0:
        return 1 if connection == -2 else 0, row, count
    counters[layout.TCP_PACKETS] += 1
    base = layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT
    connections[connection, base + layout.SIDE_PACKETS] += 1
    if time > connections[connection, layout.LAST_TIME]:
        connections[connection, layout.LAST_TIME] = time
    if flags & layout.SYN:
        if connections[connection, base + layout.INITIAL] != sequence:
            connections[connection, base + layout.INITIAL] = sequence
            if connections[connection, base + layout.STARTED]:
                distance = _sequence_distance(sequence + 1, connections[connection, base + layout.BASE_NUMBER])
                connections[connection, base + layout.START] = (
                    connections[connection, base + layout.BASE_OFFSET] + distance
                )
        connections[connection, layout.CLIENT] = 1 - side if flags & layout.ACK else side
        sequence = (sequence + 1) & 0xFFFFFFFF
    if not connections[connection, base + layout.STARTED]:
        if flags & layout.RST:  # an RST segment's sequence number is arbitrary
            connections[connection, layout.RESET] = 1
            return 0, row, count
        connections[connection, base + layout.STARTED] = 1
        connections[connection, base + layout.BASE_NUMBER] = sequence
        connections[connection, base + layout.BASE_OFFSET] = 0
    distance = _sequence_distance(sequence, connections[connection, base + layout.BASE_NUMBER])
    offset = connections[connection, base + layout.BASE_OFFSET] + distance
    if flags & layout.RST:
        connections[connection, layout.RESET] = 1
    if flags & layout.FIN:
        connections[connection, base + layout.ENDED] = 1
    if every == 0 and (length == 0 or flags & layout.RST):
        return 0, row, count
    if distance > STRAY_DISTANCE or distance < -STRAY_DISTANCE:
        connections[connection, base + layout.STRAY_SEGMENTS] += 1
        return 0, row, count
    if captured_bytes < length:
        connections[connection, base + layout.CUT_SEGMENTS] += 1
    if distance > 0 and not flags & layout.RST:
        connections[connection, base + layout.BASE_NUMBER] = sequence
        connections[connection, base + layout.BASE_OFFSET] = offset
    connections[connection, base + layout.SIDE_BYTES] += length
    counters[layout.PAYLOAD] += length
    protocol = connections[connection, layout.PROTOCOL]
    is_duplicate = (
        connections[connection, layout.MET] and offset + captured_bytes <= connections[connection, base + layout.AT]
    )
    if every == 0 and (protocol in (layout.TLS, layout.OTHER, layout.UNRECOGNISED) or is_duplicate):
        return 0, row, count
    rows[row, layout.TIME] = time
    rows[row, layout.DIRECTION] = connection * 2 + side
    rows[row, layout.OFFSET] = offset
    rows[row, layout.POSITION] = payload
    rows[row, layout.CAPTURED] = captured_bytes
    rows[row, layout.LENGTH] = length
    rows[row, layout.FLAGS] = flags
    rows[row, layout.NUMBER] = number
    return 0, row + 1, count


@device
def _process_packet(
    buf, at, end, wire, link, time, number, share, shares, every, rows, row, connections, count, slots, segment,
    unread, counters,
):  # fmt: skip
    """Process one packet. Return (full?, rows, connections)."""
    reason = locate_tcp(buf, at, end, wire, link, segment)
    if reason == IS_TCP:
        full, row, count = _process_segment(
            buf, segment, time, number, share, shares, every, rows, row, connections, count, slots, counters,
        )  # fmt: skip
        if full < 0:
            _count_unread_packet(segment, layout.BAD_HEADERS, wire - at, time, number, unread, counters)
        return full > 0, row, count
    if reason == IS_FRAGMENT:
        rows[row, layout.TIME] = time
        rows[row, layout.DIRECTION] = layout.FRAGMENT_DIRECTION
        rows[row, layout.OFFSET] = 0
        rows[row, layout.POSITION] = segment[AT_IP]
        rows[row, layout.CAPTURED] = segment[TCP_END] - segment[AT_IP]
        rows[row, layout.LENGTH] = 0
        rows[row, layout.FLAGS] = 0
        rows[row, layout.NUMBER] = number
        counters[layout.FRAGMENTS] += 1
        return False, row + 1, count
    status = layout.OTHER_PROTOCOL
    if reason == TOO_SHORT:
        status = layout.CUT_HEADERS if end < wire else layout.BAD_HEADERS
    elif reason == MALFORMED:
        status = layout.BAD_HEADERS
    elif reason == OTHER_LINK:
        status = layout.UNREAD_LINK
    elif reason == TOO_DEEP:
        status = layout.NESTED_HEADERS
    _count_unread_packet(segment, status, wire - at, time, number, unread, counters)
    return False, row, count


@device
def _to_nanoseconds(high, low, interfaces, interface):
    """Return a pcapng time in ns since 1970, 0 if out of range. Ticks are unsigned, so half their number is divided."""
    ticks = (high << 32) | low
    half = (ticks >> 1) & INT64_MAX
    kind = interfaces[interface, layout.TICKS]
    factor = interfaces[interface, layout.FACTOR]
    if kind == layout.BINARY:
        whole = half >> (factor - 1)
        small = min(factor, MAX_FRACTION_BITS)
        rest = (ticks & (INT64_MAX >> (63 - factor))) >> (factor - small)
        return whole * NS_PER_SECOND + ((rest * NS_PER_SECOND) >> small) if whole < INT64_MAX // NS_PER_SECOND else 0
    if kind == layout.DIVIDE:
        time = half // factor * 2
        return time + (ticks - time * factor) // factor
    return ticks * factor if 0 <= ticks <= INT64_MAX // factor else 0


@kernel(
    types.UniTuple(I64, 5)(
        BYTES, I64, I64, I64, I64, I64, TABLE, I64, I64, I64, OUT_TABLE, I64, OUT_TABLE, I64, OUT_INT64S, OUT_INT64S,
        OUT_TABLE, OUT_INT64S,
    )
)  # fmt: skip
def scan_packets(
    buf, position, end, number, kind, little, interfaces, share, shares, every, rows, row, connections, count, slots,
    segment, unread, counters,
):  # fmt: skip
    """Scan records or blocks from ``position`` on. Return (status, position, packet number, rows, connections)."""
    while True:
        if row == rows.shape[0]:
            return layout.ROWS_FULL, position, number, row, count
        if count * 2 > slots.size:
            return layout.CONNECTIONS_FULL, position, number, row, count
        if kind == layout.PCAP:
            if position + 16 > end:
                return layout.MORE, position, number, row, count
            captured_bytes = load_u32_of(buf, position + 8, little)
            size = load_u32_of(buf, position + 12, little)
            if captured_bytes > layout.MAX_PACKET_BYTES or captured_bytes > size:
                return layout.DAMAGED, position, number, row, count
            after = position + 16 + captured_bytes
            if after > end:
                return layout.MORE, position, number, row, count
            time = (
                load_u32_of(buf, position, little) * 1_000_000_000
                + load_u32_of(buf, position + 4, little) * interfaces[0, layout.FACTOR]
            )
            start = position + 16
            interface = 0
        else:
            if position + 12 > end:
                return layout.MORE, position, number, row, count
            block = load_u32_of(buf, position, little)
            length = load_u32_of(buf, position + 4, little)
            if block == 0x0A0D0D0A or block == 1:
                return layout.BLOCK, position, number, row, count
            if length < 12 or length % 4 or length > layout.MAX_PACKET_BYTES + 4096:
                return layout.DAMAGED, position, number, row, count
            after = position + length
            if after > end:
                return layout.MORE, position, number, row, count
            if load_u32_of(buf, after - 4, little) != length:
                return layout.DAMAGED, position, number, row, count
            if block != 6 and block != 2 and block != 3:
                position = after
                continue
            interface = 0
            time = 0
            if block == 3:
                size = load_u32_of(buf, position + 8, little)
                captured_bytes = min(size, length - 16)
                if interfaces.shape[0] and interfaces[0, layout.SNAP]:
                    captured_bytes = min(captured_bytes, interfaces[0, layout.SNAP])
                start = position + 12
            else:
                if length < 32:
                    return layout.DAMAGED, position, number, row, count
                interface = load_u32_of(buf, position + 8, little)
                if block == 2:
                    interface = interface & 0xFFFF if little else interface >> 16
                captured_bytes = load_u32_of(buf, position + 20, little)
                size = load_u32_of(buf, position + 24, little)
                start = position + 28
                if captured_bytes > length - 32 or captured_bytes > size:
                    return layout.DAMAGED, position, number, row, count
            if interface >= interfaces.shape[0]:
                return layout.DAMAGED, position, number, row, count
            if block != 3:
                time = _to_nanoseconds(
                    load_u32_of(buf, position + 12, little),
                    load_u32_of(buf, position + 16, little),
                    interfaces,
                    interface,
                )
                time += interfaces[interface, layout.SHIFT_NS]
        counters[layout.PACKETS] += 1
        full, row, count = _process_packet(
            buf, start, start + captured_bytes, start + size, interfaces[interface, layout.LINK], time, number + 1,
            share, shares, every, rows, row, connections, count, slots, segment, unread, counters,
        )  # fmt: skip
        if full:
            counters[layout.PACKETS] -= 1
            return layout.CONNECTIONS_FULL, position, number, row, count
        number += 1
        position = after


@kernel(
    types.UniTuple(I64, 3)(
        BYTES, I64, I64, I64, I64, I64, I64, I64, OUT_TABLE, I64, OUT_TABLE, I64, OUT_INT64S, OUT_INT64S, OUT_TABLE,
        OUT_INT64S,
    )
)  # fmt: skip
def process_datagram(
    buf, at, end, time, number, share, shares, every, rows, row, connections, count, slots, segment, unread, counters
):
    """Process one reassembled IP datagram. Return (full?, rows, connections)."""
    full, row, count = _process_packet(
        buf, at, end, end, RAW_IP_LINK_TYPE, time, number, share, shares, every, rows, row, connections, count, slots,
        segment, unread, counters,
    )  # fmt: skip
    return 1 if full else 0, row, count


@kernel(types.void(TABLE, I64, OUT_INT64S))
def rehash(connections, count, slots):
    """Fill a larger table of slots. Among connections with the same endpoints, the slot refers to the last one."""
    mask = slots.size - 1
    for row in range(count):
        slot = (
            _hash_endpoints(
                connections[row, layout.A_HIGH],
                connections[row, layout.A_LOW],
                connections[row, layout.B_HIGH],
                connections[row, layout.B_LOW],
                connections[row, layout.PORTS],
            )
            & mask
        )
        while slots[slot]:
            other = slots[slot] - 1
            if (
                connections[other, layout.PORTS] == connections[row, layout.PORTS]
                and connections[other, layout.A_LOW] == connections[row, layout.A_LOW]
                and connections[other, layout.B_LOW] == connections[row, layout.B_LOW]
                and connections[other, layout.A_HIGH] == connections[row, layout.A_HIGH]
                and connections[other, layout.B_HIGH] == connections[row, layout.B_HIGH]
            ):
                break
            slot = (slot + 1) & mask
        slots[slot] = row + 1


@kernel(I64(BYTES, I64, I64, I64, I64, TABLE))
def find_next_record(buf, position, end, kind, little, interfaces):
    """Return the start of the next plausible record or block after damage in a file; -1 if there is none.

    A pcap record is plausible if a second record follows it. A pcapng block repeats its length at its end.
    """
    for at in range(position, end - 32):
        if kind == layout.PCAP:
            captured_bytes = load_u32_of(buf, at + 8, little)
            size = load_u32_of(buf, at + 12, little)
            after = at + 16 + captured_bytes
            if (
                captured_bytes < 20
                or captured_bytes > 1 << 18
                or captured_bytes > size
                or size > 1 << 18
                or after + 16 > end
            ):
                continue
            then = load_u32_of(buf, after + 8, little)
            seconds = load_u32_of(buf, after, little) - load_u32_of(buf, at, little)
            fraction = load_u32_of(buf, at + 4, little)
            if (
                then <= load_u32_of(buf, after + 12, little) <= 1 << 18
                and -1 <= seconds <= 86400
                and fraction < 1_000_000_000
            ):
                return at
        else:
            block = load_u32_of(buf, at, little)
            length = load_u32_of(buf, at + 4, little)
            is_known_block = block == 0x0A0D0D0A or 1 <= block <= 6
            if not is_known_block or length < 12 or length % 4 or length > layout.MAX_PACKET_BYTES or at + length > end:
                continue
            if load_u32_of(buf, at + length - 4, little) == length:
                return at
    return -1
