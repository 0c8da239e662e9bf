"""Reassemble TCP streams, split them into Kafka frames and pair requests with responses (numba).

Called by ``streams.py``.

1. Arguments and results are arrays and integers. The caller allocates and grows every table. If a connection's rows do
   not fit, its state is restored, and the caller repeats the call with larger tables.
2. Sizes on the wire are never trusted and nothing is allocated for them: a frame is a row with the position of its
   bytes.

Arguments, here and in ``_kernels_sides.py`` and ``_kernels_proofs.py`` (columns: ``layout.py``). ``buf`` and
``scratch`` are byte arrays, other arrays and tables are int64, and all other arguments are integers. Offsets are
positions in a stream, in bytes:

====================================  ==================================================================================
buf                                   bytes of the window's packets
rows, order, starts                   packets; packet rows sorted by side and offset; start of each side in ``order``
connections, connection, count        table of connections, the current row, and the number of rows
pending                               frames that wait since earlier passes, in the rows that their connection specifies
extents, into                         captured bytes by side, without overlap; the next row to write
extent, last, at                      current and end extent of a side, and the current offset
frames, frame; calls, call; gaps, gap  result tables, each with the next row to write
first, requests                       range of ``frames`` with the requests that a response may answer
apis                                  versions of each API
ports                                 ports of brokers; if empty, the roles of the sides are detected from the bytes
settings                              settings of the pass (``S_``)
scratch                               MAX_PEEKED_BYTES bytes for the start of a frame that spans several extents
header, frame_extent, side            results of ``parse_request_start`` (``P_``), ``measure_frame`` (``W_``) and
                                      ``split_side`` (``C_``)
bounds                                first and end extent of both sides; from SAVED_STATE_INDEX on, the saved columns
                                      of the sides
response, known_hash                  whether to search for a response; hash of the connection's proven client id
====================================  ==================================================================================
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.capture._kernels_proofs import (
    MAX_COMPARED_REQUESTS,
    MAX_PEEKED_BYTES,
    MAYBE,
    NOWHERE,
    P_HASH,
    P_ID_LENGTH,
    P_LOOSE,
    P_STRICT,
    PROVEN,
    find_proven_frame,
    is_tls,
    parse_request_start,
    peek_bytes,
)
from kafkaframes.capture._kernels_sides import fill_extents, split_side
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, OUT_TABLE, TABLE, device, kernel, types

I64 = types.int64
MAX_UNDECIDED_BYTES = (
    1 << 16
)  # after this many bytes without a recognised Kafka frame, a connection is not read further
SAVED_STATE_INDEX = 8  # index in ``bounds`` of the saved columns of both sides
SAVED_SASL, SAVED_SASL_ID = (
    SAVED_STATE_INDEX + 2 * layout.SIDE_COLUMN_COUNT,
    SAVED_STATE_INDEX + 2 * layout.SIDE_COLUMN_COUNT + 1,
)


@device
def _write_call(calls, count, connection, request, response, frames):
    calls[count, layout.CALL_CONNECTION] = connection
    calls[count, layout.CALL_REQUEST] = request
    calls[count, layout.CALL_RESPONSE] = response
    if request >= 0:
        frames[request, layout.F_DONE] = 1
    if response >= 0:
        frames[response, layout.F_DONE] = 1
    return count + 1


@device
def match_calls(frames, requests_from, requests_to, responses_to, connection, calls, call, flush, haste, is_clean):
    """Pair a connection's requests with its responses, both in stream order, and return the number of calls.

    A broker responds in request order, and to each request except Produce with acks=0. A SASL token without a header
    is paired with the next response.
    """
    head = requests_from
    for response in range(requests_to, responses_to):
        request = -1
        correlation = frames[response, layout.F_CORRELATION]
        steps = 0
        row = head
        while row < requests_to and steps < MAX_COMPARED_REQUESTS:
            flags = frames[row, layout.F_FLAGS]
            if flags & layout.TOKEN:
                request = row
                break
            if not flags & layout.NO_REPLY:
                if correlation >= 0 and frames[row, layout.F_CORRELATION] == correlation:
                    request = row
                    break
                steps += 1
            row += 1
        if request >= 0:
            for row in range(head, request):
                if not frames[row, layout.F_DONE]:
                    call = _write_call(calls, call, connection, row, -1, frames)
            head = request + 1
            if frames[request, layout.F_FLAGS] & layout.TOKEN:
                frames[request, layout.F_DONE] = 1
                frames[response, layout.F_DONE] = 1
                frames[response, layout.F_FLAGS] |= layout.TOKEN
            else:
                call = _write_call(calls, call, connection, request, response, frames)
        elif flush or (is_clean and frames[response, layout.F_FLAGS] & layout.WAITED):
            call = _write_call(calls, call, connection, -1, response, frames)
    for row in range(head, requests_to):
        if frames[row, layout.F_FLAGS] & layout.TOKEN:
            if flush:
                frames[row, layout.F_DONE] = 1
        elif (
            flush
            or frames[row, layout.F_FLAGS] & layout.NO_REPLY
            or (haste and frames[row, layout.F_FLAGS] & layout.WAITED)
        ):
            call = _write_call(calls, call, connection, row, -1, frames)
    return call


@device
def copy_waiting(frames, into, pending, first, last, response):
    """Copy the waiting requests, or responses, of earlier passes to ``frames``. Return the next free row."""
    for source in range(first, last):
        if pending[source, layout.F_RESPONSE] == response:
            for column in range(layout.FRAME_COLUMN_COUNT):
                frames[into, column] = pending[source, column]
            frames[into, layout.F_FLAGS] |= layout.WAITED
            into += 1
    return into


@kernel(I64(TABLE, I64, I64, OUT_INT64S, OUT_INT64S))
def sort_rows(rows, count, sides, starts, order):
    """Sort packets by side and offset, stably. Return UNSORTED if this would take too many steps."""
    for row in range(count):
        starts[rows[row, layout.DIRECTION] + 1] += 1
    for side in range(sides):
        starts[side + 1] += starts[side]
    for row in range(count - 1, -1, -1):  # backwards, so that ends become starts and the sort is stable
        side = rows[row, layout.DIRECTION]
        starts[side + 1] -= 1
        order[starts[side + 1]] = row
    # starts[side + 1] is now the start of the side, so all values are shifted by one position.
    for side in range(sides):
        starts[side] = starts[side + 1]
    starts[sides] = count
    budget = 64 * count + 4096
    for side in range(sides):
        for index in range(starts[side] + 1, starts[side + 1]):
            row = order[index]
            offset = rows[row, layout.OFFSET]
            to = index
            while to > starts[side] and rows[order[to - 1], layout.OFFSET] > offset:
                order[to] = order[to - 1]
                to -= 1
                budget -= 1
                if budget < 0:
                    return layout.UNSORTED
            order[to] = row
    return layout.DONE


@device
def _is_kafka_port(ports, port):
    for index in range(ports.size):  # noqa: SIM110 (numba has no generators here)
        if ports[index] == port:
            return True
    return False


@device
def _detect_protocol(
    buf, rows, extents, bounds, connections, connection, apis, ports, settings, scratch, header, frames
):
    """Detect a connection's protocol and which side is the client. Both may stay undecided if few bytes were seen."""
    client = connections[connection, layout.CLIENT]
    port_a = connections[connection, layout.PORTS] >> 16
    port_b = connections[connection, layout.PORTS] & 0xFFFF
    if ports.size:
        if client < 0:
            client = 1 if _is_kafka_port(ports, port_a) else 0
            connections[connection, layout.CLIENT] = client
        port = port_b if client == 0 else port_a
        if not _is_kafka_port(ports, port):
            connections[connection, layout.PROTOCOL] = layout.OTHER
            return
    total = 0
    for side in range(2):
        if bounds[2 * side] < bounds[2 * side + 1]:
            first = bounds[2 * side]
            address, got = peek_bytes(
                buf, extents, first, bounds[2 * side + 1], extents[first, layout.E_OFFSET], 5, scratch
            )
            if is_tls(address, got):
                connections[connection, layout.PROTOCOL] = layout.TLS
                return
            total += extents[bounds[2 * side + 1] - 1, layout.E_END] - extents[first, layout.E_OFFSET]
    if ports.size:
        connections[connection, layout.PROTOCOL] = layout.KAFKA
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
        base = layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT
        at = extents[first, layout.E_OFFSET]
        address, got = peek_bytes(buf, extents, first, last, at, MAX_PEEKED_BYTES, scratch)
        parse_request_start(address, got, apis, header)
        if (
            client == side
            and connections[connection, base + layout.INITIAL] >= 0
            and at == connections[connection, base + layout.START]
        ):
            if header[P_STRICT] or (header[P_LOOSE] and header[P_ID_LENGTH] > 0):
                connections[connection, layout.PROTOCOL] = layout.KAFKA
                return
            waiting = got < 14
            if not waiting:
                connections[connection, layout.PROTOCOL] = layout.OTHER
                return
            if first + 1 == last and not settings[layout.S_FLUSH]:
                continue
        proof, where = find_proven_frame(buf, extents, first, last, at, 0, 0, frames, 0, 0, apis, scratch, header)
        far = where - at + (1 << 40) if proof == MAYBE else where - at
        if proof != NOWHERE:
            address, got = peek_bytes(buf, extents, first, last, where, MAX_PEEKED_BYTES, scratch)
            parse_request_start(address, got, apis, header)
            if header[P_HASH] == 0:  # without a client id, a response may look like a Produce request of version 0
                far += 1 << 41
        if (proof == PROVEN or (proof == MAYBE and settings[layout.S_FLUSH])) and far < nearest:
            best = side
            nearest = far
    is_weak = nearest >= 1 << 41 and total <= MAX_UNDECIDED_BYTES and not settings[layout.S_FLUSH]
    # While the client side is unknown, bytes of a response may look like a request.
    if best >= 0 and not is_weak:
        connections[connection, layout.PROTOCOL] = layout.KAFKA
        connections[connection, layout.CLIENT] = best
        return
    for side in range(2):
        first = bounds[2 * side]
        last = bounds[2 * side + 1]
        if client == side or first == last or best >= 0 or (waiting and not settings[layout.S_FLUSH]):
            continue
        proof, where = find_proven_frame(
            buf, extents, first, last, extents[first, layout.E_OFFSET], 1, 0, frames, 0, 0, apis, scratch, header
        )
        if proof == PROVEN:
            connections[connection, layout.PROTOCOL] = layout.KAFKA
            connections[connection, layout.CLIENT] = 1 - side
            return
    if total > MAX_UNDECIDED_BYTES:
        connections[connection, layout.PROTOCOL] = layout.UNRECOGNISED


@device
def _set_start_offsets(extents, bounds, connections, connection):
    """Set the start offsets of both sides after the connection was recognised as Kafka."""
    for side in range(2):
        base = layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT
        if connections[connection, base + layout.MODE] != layout.NEW:
            continue
        if connections[connection, base + layout.INITIAL] >= 0:
            connections[connection, base + layout.MODE] = layout.ALIGNED
            connections[connection, base + layout.AT] = connections[connection, base + layout.START]
        elif bounds[2 * side] < bounds[2 * side + 1]:
            connections[connection, base + layout.MODE] = layout.LOST
            connections[connection, base + layout.START] = extents[bounds[2 * side], layout.E_OFFSET]
            connections[connection, base + layout.AT] = extents[bounds[2 * side], layout.E_OFFSET]


@device
def _save_state(connections, connection, bounds):
    """Save the state of both sides in ``bounds``, in case their frames do not fit into the tables."""
    for column in range(2 * layout.SIDE_COLUMN_COUNT):
        bounds[SAVED_STATE_INDEX + column] = connections[connection, layout.FIRST_SIDE_COLUMN + column]
    bounds[SAVED_SASL] = connections[connection, layout.SASL]
    bounds[SAVED_SASL_ID] = connections[connection, layout.SASL_ID]


@device
def _restore_state(connections, connection, bounds):
    for column in range(2 * layout.SIDE_COLUMN_COUNT):
        connections[connection, layout.FIRST_SIDE_COLUMN + column] = bounds[SAVED_STATE_INDEX + column]
    connections[connection, layout.SASL] = bounds[SAVED_SASL]
    connections[connection, layout.SASL_ID] = bounds[SAVED_SASL_ID]


@device
def _fill_both_sides(rows, order, starts, connections, connection, extents, into, bounds):
    """Write the extents of both sides, and their bounds to ``bounds``. Return the next free row of ``extents``."""
    for side in range(2):
        base = layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT
        bounds[2 * side] = into
        into = fill_extents(
            rows, order, starts[2 * connection + side], starts[2 * connection + side + 1],
            connections[connection, base + layout.AT], connections[connection, base + layout.MODE] != layout.NEW,
            extents, into,
        )  # fmt: skip
        bounds[2 * side + 1] = into
    return into


@device
def _split_both_sides(
    buf, rows, extents, bounds, connections, connection, pending, frames, frame, gaps, gap, apis, settings, scratch,
    header, frame_extent, side,
):  # fmt: skip
    """Split the requests, then the responses into frames, each after the waiting ones.

    Returns (whether all frames fit, first row of responses). The ends of frames and gaps are then in ``side``.
    """
    responses_from = frame
    side[layout.C_CONNECTION] = connection
    side[layout.C_FRAME] = frame
    side[layout.C_GAP] = gap
    side[layout.C_REQUESTS_FROM] = frame
    for response in range(2):
        number = connections[connection, layout.CLIENT] ^ response
        first = connections[connection, layout.PENDING_START]
        side[layout.C_FRAME] = copy_waiting(
            frames, side[layout.C_FRAME], pending, first, connections[connection, layout.PENDING_END], response
        )
        side[layout.C_SIDE] = number
        side[layout.C_RESPONSE] = response
        side[layout.C_FIRST] = bounds[2 * number]
        side[layout.C_LAST] = bounds[2 * number + 1]
        side[layout.C_REQUESTS_TO] = responses_from
        if not split_side(
            buf, rows, extents, connections, frames, gaps, apis, settings, scratch, header, frame_extent, side
        ):
            return False, responses_from
        if response == 0:
            responses_from = side[layout.C_FRAME]
    return True, responses_from


@device
def _is_all_framed(extents, bounds, connections, connection):
    """Return whether all captured bytes of the client are split into frames."""
    client = connections[connection, layout.CLIENT]
    last = bounds[2 * client + 1]
    at = connections[connection, layout.FIRST_SIDE_COLUMN + client * layout.SIDE_COLUMN_COUNT + layout.AT]
    return bounds[2 * client] == last or at >= extents[last - 1, layout.E_END]


@kernel(
    types.UniTuple(I64, 6)(
        BYTES, TABLE, INT64S, INT64S, OUT_TABLE, I64, I64, TABLE, OUT_TABLE, I64, OUT_TABLE, I64, OUT_TABLE, I64,
        OUT_TABLE, I64, TABLE, INT64S, INT64S, OUT_BYTES, OUT_INT64S, OUT_INT64S, OUT_INT64S, OUT_INT64S,
    )
)  # fmt: skip
def split_streams(
    buf, rows, order, starts, connections, connection, count, pending, extents, into, frames, frame, calls, call, gaps,
    gap, apis, ports, settings, scratch, header, frame_extent, side, bounds,
):  # fmt: skip
    """Process the connections from ``connection`` on. Return (status, connection, extents, frames, calls, gaps)."""
    while connection < count:
        protocol = connections[connection, layout.PROTOCOL]
        waiting = connections[connection, layout.PENDING_END] - connections[connection, layout.PENDING_START]
        is_quiet = (
            starts[2 * connection + 2] == starts[2 * connection] and waiting <= 0 and not settings[layout.S_FLUSH]
        )
        if protocol in (layout.TLS, layout.OTHER, layout.UNRECOGNISED) or is_quiet:
            connection += 1
            continue
        end = _fill_both_sides(rows, order, starts, connections, connection, extents, into, bounds)
        if protocol == layout.UNDECIDED:
            _detect_protocol(
                buf, rows, extents, bounds, connections, connection, apis, ports, settings, scratch, header, frames
            )
        if connections[connection, layout.PROTOCOL] != layout.KAFKA:
            connection += 1
            continue
        _set_start_offsets(extents, bounds, connections, connection)
        if frame + waiting + 8 > frames.shape[0]:
            return layout.FRAMES_FULL, connection, into, frame, call, gap
        _save_state(connections, connection, bounds)
        fit, responses_from = _split_both_sides(
            buf, rows, extents, bounds, connections, connection, pending, frames, frame, gaps, gap, apis, settings,
            scratch, header, frame_extent, side,
        )  # fmt: skip
        if not fit or call + (side[layout.C_FRAME] - frame) + 1 > calls.shape[0]:
            _restore_state(connections, connection, bounds)
            return layout.FRAMES_FULL, connection, into, frame, call, gap
        connections[connection, layout.MET] = 1
        call = match_calls(
            frames, frame, responses_from, side[layout.C_FRAME], connection, calls, call, settings[layout.S_FLUSH],
            settings[layout.S_HASTE],
            _is_all_framed(extents, bounds, connections, connection),
        )  # fmt: skip
        frame = side[layout.C_FRAME]
        gap = side[layout.C_GAP]
        into = end
        connection += 1
    return layout.DONE, connection, into, frame, call, gap
