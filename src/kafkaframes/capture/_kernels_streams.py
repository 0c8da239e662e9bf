"""Put TCP streams together, cut them into Kafka frames, pair requests with responses (numba). Start at ``streams.py``.

1. Arrays and integers in, numbers out; the caller makes and grows every table. A connection that does not fit is
   left as it was, and done again with larger tables.
2. Nothing is allocated or trusted for a size on the wire: a frame is a row that says where its bytes lie.
"""

from __future__ import annotations

from kafkaframes.capture._kernels_calls import copy_waiting, match_calls
from kafkaframes.capture._kernels_proofs import (
    FOUND,
    MAYBE,
    NOWHERE,
    P_HASH,
    P_ID_LENGTH,
    P_LOOSE,
    P_STRICT,
    PEEK,
    is_tls,
    parse,
    peek,
    search,
)
from kafkaframes.capture._kernels_sides import cut_side, fill_extents
from kafkaframes.capture.layout import (
    ALIGNED,
    AT,
    C_CONNECTION,
    C_FIRST,
    C_FRAME,
    C_GAP,
    C_LAST,
    C_REQUESTS_FROM,
    C_REQUESTS_TO,
    C_RESPONSE,
    C_SIDE,
    CLIENT,
    DIRECTION,
    DONE,
    E_END,
    E_OFFSET,
    FRAMES_FULL,
    INITIAL,
    KAFKA,
    LOST,
    MET,
    MODE,
    NEW,
    OFFSET,
    OTHER,
    PENDING_END,
    PENDING_START,
    PORTS,
    PROTOCOL,
    S_FLUSH,
    S_HASTE,
    SASL,
    SASL_ID,
    SIDE,
    SIDE_COLUMNS,
    START,
    TLS,
    UNDECIDED,
    UNSORTED,
)
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, OUT_TABLE, TABLE, device, kernel, types

I64 = types.int64
ENOUGH_UNDECIDED = 1 << 16  # bytes after which a connection that proves nothing is another protocol's
SAVED = 8  # place in ``bounds`` of the columns of both sides as they were
SAVED_SASL, SAVED_SASL_ID = SAVED + 2 * SIDE_COLUMNS, SAVED + 2 * SIDE_COLUMNS + 1


@kernel(I64(TABLE, I64, I64, OUT_INT64S, OUT_INT64S))
def sort_rows(rows, count, sides, starts, order):
    """Put packets by side and offset, stable; UNSORTED where that takes too long here."""
    for row in range(count):
        starts[rows[row, DIRECTION] + 1] += 1
    for side in range(sides):
        starts[side + 1] += starts[side]
    for row in range(count - 1, -1, -1):  # backwards, so that ends become starts and order stays
        side = rows[row, DIRECTION]
        starts[side + 1] -= 1
        order[starts[side + 1]] = row
    # starts[side + 1] is now where side begins: shift by one
    for side in range(sides):
        starts[side] = starts[side + 1]
    starts[sides] = count
    budget = 64 * count + 4096
    for side in range(sides):
        for place in range(starts[side] + 1, starts[side + 1]):
            row = order[place]
            offset = rows[row, OFFSET]
            to = place
            while to > starts[side] and rows[order[to - 1], OFFSET] > offset:
                order[to] = order[to - 1]
                to -= 1
                budget -= 1
                if budget < 0:
                    return UNSORTED
            order[to] = row
    return DONE


@device
def _listens(ports, port):
    for place in range(ports.size):  # noqa: SIM110 (numba has no generators here)
        if ports[place] == port:
            return True
    return False


@device
def _decide(buf, rows, extents, bounds, connections, connection, apis, ports, settings, scratch, parsed, frames):
    """Say what a connection speaks and which side asks; it may stay undecided while little is there."""
    client = connections[connection, CLIENT]
    port_a = connections[connection, PORTS] >> 16
    port_b = connections[connection, PORTS] & 0xFFFF
    if ports.size:
        if client < 0:
            client = 1 if _listens(ports, port_a) else 0
            connections[connection, CLIENT] = client
        port = port_b if client == 0 else port_a
        if not _listens(ports, port):
            connections[connection, PROTOCOL] = OTHER
            return
    total = 0
    for side in range(2):
        if bounds[2 * side] < bounds[2 * side + 1]:
            first = bounds[2 * side]
            address, got = peek(buf, extents, first, bounds[2 * side + 1], extents[first, E_OFFSET], 5, scratch)
            if is_tls(address, got):
                connections[connection, PROTOCOL] = TLS
                return
            total += extents[bounds[2 * side + 1] - 1, E_END] - extents[first, E_OFFSET]
    if ports.size:
        connections[connection, PROTOCOL] = KAFKA
        return
    if total == 0:
        return
    waiting = False
    best = -1
    nearest = 1 << 62
    for side in range(2):
        first = bounds[2 * side]
        last = bounds[2 * side + 1]
        if client == 1 - side or first == last:
            continue
        base = SIDE + side * SIDE_COLUMNS
        at = extents[first, E_OFFSET]
        address, got = peek(buf, extents, first, last, at, PEEK, scratch)
        parse(address, got, apis, parsed)
        if (
            client == side
            and connections[connection, base + INITIAL] >= 0
            and at == connections[connection, base + START]
        ):
            if parsed[P_STRICT] or (parsed[P_LOOSE] and parsed[P_ID_LENGTH] > 0):
                connections[connection, PROTOCOL] = KAFKA
                return
            waiting = got < 14
            if not waiting:
                connections[connection, PROTOCOL] = OTHER
                return
            if first + 1 == last and not settings[S_FLUSH]:
                continue
        found, where = search(buf, extents, first, last, at, 0, 0, frames, 0, 0, apis, scratch, parsed)
        far = where - at + (1 << 40) if found == MAYBE else where - at
        if found != NOWHERE:
            address, got = peek(buf, extents, first, last, where, PEEK, scratch)
            parse(address, got, apis, parsed)
            if parsed[P_HASH] == 0:  # without a client id a response may pass for a Produce request of version 0
                far += 1 << 41
        if (found == FOUND or (found == MAYBE and settings[S_FLUSH])) and far < nearest:
            best = side
            nearest = far
    is_weak = nearest >= 1 << 41 and total <= ENOUGH_UNDECIDED and not settings[S_FLUSH]
    if best >= 0 and not is_weak:  # where it is not known who asks, bytes of an answer may look like a request
        connections[connection, PROTOCOL] = KAFKA
        connections[connection, CLIENT] = best
        return
    for side in range(2):
        first = bounds[2 * side]
        last = bounds[2 * side + 1]
        if client == side or first == last or best >= 0 or (waiting and not settings[S_FLUSH]):
            continue
        found, where = search(
            buf, extents, first, last, extents[first, E_OFFSET], 1, 0, frames, 0, 0, apis, scratch, parsed
        )
        if found == FOUND:
            connections[connection, PROTOCOL] = KAFKA
            connections[connection, CLIENT] = 1 - side
            return
    if total > ENOUGH_UNDECIDED:
        connections[connection, PROTOCOL] = OTHER


@device
def _begin(extents, bounds, connections, connection):
    """Set where the sides of a connection start that has just been decided on."""
    for side in range(2):
        base = SIDE + side * SIDE_COLUMNS
        if connections[connection, base + MODE] != NEW:
            continue
        if connections[connection, base + INITIAL] >= 0:
            connections[connection, base + MODE] = ALIGNED
            connections[connection, base + AT] = connections[connection, base + START]
        elif bounds[2 * side] < bounds[2 * side + 1]:
            connections[connection, base + MODE] = LOST
            connections[connection, base + START] = extents[bounds[2 * side], E_OFFSET]
            connections[connection, base + AT] = extents[bounds[2 * side], E_OFFSET]


@device
def _save(connections, connection, bounds):
    """Keep what a connection is before it is cut, behind the bounds of its sides."""
    for column in range(2 * SIDE_COLUMNS):
        bounds[SAVED + column] = connections[connection, SIDE + column]
    bounds[SAVED_SASL] = connections[connection, SASL]
    bounds[SAVED_SASL_ID] = connections[connection, SASL_ID]


@device
def _restore(connections, connection, bounds):
    for column in range(2 * SIDE_COLUMNS):
        connections[connection, SIDE + column] = bounds[SAVED + column]
    connections[connection, SASL] = bounds[SAVED_SASL]
    connections[connection, SASL_ID] = bounds[SAVED_SASL_ID]


@device
def _fill_both(rows, order, starts, connections, connection, extents, into, bounds):
    """Write what is there of both sides, and where in ``bounds``; return where the rows end."""
    for side in range(2):
        base = SIDE + side * SIDE_COLUMNS
        bounds[2 * side] = into
        into = fill_extents(
            rows, order, starts[2 * connection + side], starts[2 * connection + side + 1],
            connections[connection, base + AT], connections[connection, base + MODE] != NEW, extents, into,
        )  # fmt: skip
        bounds[2 * side + 1] = into
    return into


@device
def _cut_both(
    buf, rows, extents, bounds, connections, connection, pending, frames, frame, gaps, gap, apis, settings, scratch,
    parsed, walked, cut,
):  # fmt: skip
    """Cut the requests, then the responses, each behind those that wait; return (fit, where responses begin).

    Where frames and gaps end is then in ``cut``.
    """
    responses_from = frame
    cut[C_CONNECTION] = connection
    cut[C_FRAME] = frame
    cut[C_GAP] = gap
    cut[C_REQUESTS_FROM] = frame
    for response in range(2):
        side = connections[connection, CLIENT] ^ response
        first = connections[connection, PENDING_START]
        cut[C_FRAME] = copy_waiting(
            frames, cut[C_FRAME], pending, first, connections[connection, PENDING_END], response
        )
        cut[C_SIDE] = side
        cut[C_RESPONSE] = response
        cut[C_FIRST] = bounds[2 * side]
        cut[C_LAST] = bounds[2 * side + 1]
        cut[C_REQUESTS_TO] = responses_from
        if not cut_side(buf, rows, extents, connections, frames, gaps, apis, settings, scratch, parsed, walked, cut):
            return False, responses_from
        if response == 0:
            responses_from = cut[C_FRAME]
    return True, responses_from


@device
def _is_all_cut(extents, bounds, connections, connection):
    """Tell whether nothing of what the client sent is left over."""
    client = connections[connection, CLIENT]
    last = bounds[2 * client + 1]
    at = connections[connection, SIDE + client * SIDE_COLUMNS + AT]
    return bounds[2 * client] == last or at >= extents[last - 1, E_END]


@kernel(
    types.UniTuple(I64, 6)(
        BYTES, TABLE, INT64S, INT64S, OUT_TABLE, I64, I64, TABLE, OUT_TABLE, I64, OUT_TABLE, I64, OUT_TABLE, I64,
        OUT_TABLE, I64, TABLE, INT64S, INT64S, OUT_BYTES, OUT_INT64S, OUT_INT64S, OUT_INT64S, OUT_INT64S,
    )
)  # fmt: skip
def cut_streams(
    buf, rows, order, starts, connections, connection, count, pending, extents, into, frames, frame, calls, call, gaps,
    gap, apis, ports, settings, scratch, parsed, walked, cut, bounds,
):  # fmt: skip
    """Do all connections from ``connection`` on; return (status, connection, extents, frames, calls, gaps)."""
    while connection < count:
        protocol = connections[connection, PROTOCOL]
        waiting = connections[connection, PENDING_END] - connections[connection, PENDING_START]
        is_quiet = starts[2 * connection + 2] == starts[2 * connection] and waiting <= 0 and not settings[S_FLUSH]
        if protocol in (TLS, OTHER) or is_quiet:
            connection += 1
            continue
        end = _fill_both(rows, order, starts, connections, connection, extents, into, bounds)
        if protocol == UNDECIDED:
            _decide(buf, rows, extents, bounds, connections, connection, apis, ports, settings, scratch, parsed, frames)
        if connections[connection, PROTOCOL] != KAFKA:
            connection += 1
            continue
        _begin(extents, bounds, connections, connection)
        if frame + waiting + 8 > frames.shape[0]:
            return FRAMES_FULL, connection, into, frame, call, gap
        _save(connections, connection, bounds)
        fit, responses_from = _cut_both(
            buf, rows, extents, bounds, connections, connection, pending, frames, frame, gaps, gap, apis, settings,
            scratch, parsed, walked, cut,
        )  # fmt: skip
        if not fit or call + (cut[C_FRAME] - frame) + 1 > calls.shape[0]:
            _restore(connections, connection, bounds)
            return FRAMES_FULL, connection, into, frame, call, gap
        connections[connection, MET] = 1
        call = match_calls(
            frames, frame, responses_from, cut[C_FRAME], connection, calls, call, settings[S_FLUSH], settings[S_HASTE],
            _is_all_cut(extents, bounds, connections, connection),
        )  # fmt: skip
        frame = cut[C_FRAME]
        gap = cut[C_GAP]
        into = end
        connection += 1
    return DONE, connection, into, frame, call, gap
