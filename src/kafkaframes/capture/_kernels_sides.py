"""Split the stream of one side of a connection into Kafka frames (numba).

1. Frames are written while their bytes are captured. The kernel waits for missing bytes until they can no longer
   arrive.
2. Bytes that cannot be a frame and bytes that are missing (uncaptured or cut packets) are written as gaps.
3. After a gap, a frame is accepted only if it is proven (``_kernels_proofs.py``).
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.capture._kernels_proofs import (
    MAX_PEEKED_BYTES,
    MAYBE,
    NOWHERE,
    P_API,
    P_CORRELATION,
    P_HASH,
    P_ID_LENGTH,
    P_LOOSE,
    P_NO_REPLY,
    P_STRICT,
    P_VERSION,
    find_proven_frame,
    is_outstanding,
    parse_request_start,
    peek_bytes,
)
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import load_i32

SASL_HANDSHAKE_KEY = 17
HEADER_TAIL_BYTES = 16  # a header may start this many bytes before the end of the captured bytes
NOT_KAFKA = -1  # returned instead of a frame's flags


@device
def record_gap(rows, extents, gaps, side, start, size, reason, extent):
    """Write a gap of the side. ``extent`` is the next extent after it."""
    row = side[layout.C_GAP]
    gaps[row, layout.G_DIRECTION] = side[layout.C_DIRECTION]
    gaps[row, layout.G_OFFSET] = start - side[layout.C_START]
    gaps[row, layout.G_SIZE] = size
    gaps[row, layout.G_REASON] = reason
    gaps[row, layout.G_TIME] = rows[extents[extent, layout.E_ROW], layout.TIME] if extent < side[layout.C_LAST] else -1
    gaps[row, layout.G_NUMBER] = (
        rows[extents[extent, layout.E_ROW], layout.NUMBER] if extent < side[layout.C_LAST] else -1
    )
    gaps[row, layout.G_RESPONSE] = side[layout.C_RESPONSE]
    side[layout.C_GAP] += 1
    side[layout.C_GAPS] += 1


@device
def is_cut_by_snap_length(rows, extents, extent, first, at):
    """Return whether the snap length cut the bytes at ``at`` from the packet before ``extent``."""
    if extent == first:
        return False
    row = extents[extent - 1, layout.E_ROW]
    return rows[row, layout.OFFSET] + rows[row, layout.LENGTH] > at


@device
def is_final(rows, extents, settings, side, extent, at):
    """Return whether the missing bytes before ``extent`` can no longer arrive."""
    last = side[layout.C_LAST]
    if settings[layout.S_FLUSH] or last - extent > settings[layout.S_PATIENCE_ROWS]:
        return True
    if extents[last - 1, layout.E_END] - extents[extent, layout.E_OFFSET] > settings[layout.S_PATIENCE_BYTES]:
        return True
    if is_cut_by_snap_length(rows, extents, extent, side[layout.C_FIRST], at):
        return True
    return settings[layout.S_NOW] - rows[extents[extent, layout.E_ROW], layout.TIME] > settings[layout.S_PATIENCE_NS]


@device
def missing_reason(rows, extents, side, extent, at):
    return (
        layout.SNAPPED if is_cut_by_snap_length(rows, extents, extent, side[layout.C_FIRST], at) else layout.LOST_BYTES
    )


@device
def measure_frame(rows, extents, settings, side, end, frame_extent):
    """Write to ``frame_extent`` how much of the frame from the current offset to ``end`` is captured.

    Returns WHOLE, IN_PART if bytes are missing permanently, or WAITS if missing bytes may still arrive.
    """
    start = at = side[layout.C_AT]
    extent = side[layout.C_EXTENT]
    last = side[layout.C_LAST]
    missing = 0
    captured_bytes = -1
    latest = rows[extents[extent, layout.E_ROW], layout.TIME]
    number = rows[extents[extent, layout.E_ROW], layout.NUMBER]
    while at < end:
        if extent == last:
            if not settings[layout.S_FLUSH]:
                return layout.WAITS
            captured_bytes = at - start if captured_bytes < 0 else captured_bytes
            missing += end - at
            break
        begin = extents[extent, layout.E_OFFSET]
        if begin > at:
            begin = min(begin, end)
            if not is_final(rows, extents, settings, side, extent, at):
                return layout.WAITS
            captured_bytes = at - start if captured_bytes < 0 else captured_bytes
            missing += begin - at
            at = begin
            continue
        latest = max(latest, rows[extents[extent, layout.E_ROW], layout.TIME])
        number = max(number, rows[extents[extent, layout.E_ROW], layout.NUMBER])
        at = min(extents[extent, layout.E_END], end)
        if extents[extent, layout.E_END] <= end:
            extent += 1
    frame_extent[layout.W_MISSING] = missing
    frame_extent[layout.W_HAVE] = captured_bytes if captured_bytes >= 0 else end - start
    frame_extent[layout.W_TIME] = latest
    frame_extent[layout.W_LAST] = min(extent + 1, last)
    frame_extent[layout.W_NUMBER] = number
    return layout.IN_PART if missing else layout.WHOLE


@device
def fill_extents(rows, order, first, last, at, has_start, extents, into):
    """Write the captured bytes of one side from ``at`` on as extents without overlap. Return the next free row."""
    if first == last:
        return into
    covered_end = at if has_start else rows[order[first], layout.OFFSET]
    for index in range(first, last):
        row = order[index]
        offset = rows[row, layout.OFFSET]
        end = offset + rows[row, layout.CAPTURED]
        start = max(offset, covered_end)
        if end > start:
            extents[into, layout.E_OFFSET] = start
            extents[into, layout.E_END] = end
            extents[into, layout.E_POSITION] = rows[row, layout.POSITION] + (start - offset)
            extents[into, layout.E_ROW] = row
            into += 1
            covered_end = end
    return into


@device
def _lose_frame_boundary(side, lost_from):
    """Accept only proven frames from here on. ``lost_from`` is -1 if the missing bytes are already written as a gap."""
    side[layout.C_MODE] = layout.LOST
    side[layout.C_LOST_FROM] = lost_from
    side[layout.C_SUSPECT] = 0


@device
def _find_frame(buf, rows, extents, frames, gaps, apis, settings, scratch, header, side):
    """Move to the next proven frame. Return False if more bytes are needed first."""
    last = side[layout.C_LAST]
    proof, where = find_proven_frame(
        buf, extents, side[layout.C_EXTENT], last, side[layout.C_AT], side[layout.C_RESPONSE], side[layout.C_HASH],
        frames, side[layout.C_REQUESTS_FROM],
        side[layout.C_REQUESTS_TO], apis, scratch, header,
    )  # fmt: skip
    if side[layout.C_LOST_FROM] < 0:
        side[layout.C_LOST_FROM] = side[layout.C_AT]
    if proof == NOWHERE:
        side[layout.C_AT] = where if settings[layout.S_FLUSH] else max(side[layout.C_AT], where - HEADER_TAIL_BYTES)
        return settings[layout.S_FLUSH] != 0
    side[layout.C_AT] = where
    if proof == MAYBE and not settings[layout.S_FLUSH]:
        return False
    lost_from = side[layout.C_LOST_FROM]
    if where > lost_from:
        _go_to_extent(extents, side)
        reason = layout.BEFORE if side[layout.C_FRAMES] == 0 else layout.NOT_FOUND
        record_gap(rows, extents, gaps, side, lost_from, where - lost_from, reason, side[layout.C_EXTENT])
    side[layout.C_LOST_FROM] = -1
    side[layout.C_MODE] = layout.ALIGNED
    side[layout.C_SUSPECT] = 0
    return True


@device
def _go_to_extent(extents, side):
    """Move to the extent that contains the current offset, or to the next one."""
    extent = side[layout.C_EXTENT]
    while extent < side[layout.C_LAST] and extents[extent, layout.E_END] <= side[layout.C_AT]:
        extent += 1
    side[layout.C_EXTENT] = extent


@device
def _skip_hole(rows, extents, gaps, settings, side):
    """Skip missing bytes between two frames. Return False if the missing bytes may still arrive."""
    extent = side[layout.C_EXTENT]
    at = side[layout.C_AT]
    if not is_final(rows, extents, settings, side, extent, at):
        return False
    reason = missing_reason(rows, extents, side, extent, at)
    record_gap(rows, extents, gaps, side, at, extents[extent, layout.E_OFFSET] - at, reason, extent)
    side[layout.C_AT] = extents[extent, layout.E_OFFSET]
    _lose_frame_boundary(side, -1)
    return True


@device
def _skip_prefix(rows, extents, gaps, settings, side, byte_count):
    """Skip a size prefix of which ``byte_count`` bytes are captured. Return False if the others may still arrive."""
    at = side[layout.C_AT]
    there = at + byte_count
    extent = side[layout.C_EXTENT]
    while extent < side[layout.C_LAST] and extents[extent, layout.E_END] <= there:
        extent += 1
    if extent == side[layout.C_LAST]:
        if settings[layout.S_FLUSH]:
            reason = layout.HALF_FRAME if side[layout.C_ENDED] else layout.AFTER
            if is_cut_by_snap_length(rows, extents, extent, side[layout.C_FIRST], there):
                reason = layout.SNAPPED
            record_gap(rows, extents, gaps, side, at, byte_count, reason, extent)
            side[layout.C_AT] = there
        return False
    if not is_final(rows, extents, settings, side, extent, there):
        return False
    record_gap(rows, extents, gaps, side, at, extents[extent, layout.E_OFFSET] - at, layout.LOST_BYTES, extent)
    side[layout.C_AT] = extents[extent, layout.E_OFFSET]
    _lose_frame_boundary(side, -1)
    return True


@device
def _recognise_response(address, got, size, frames, header, side):
    """Return the flags of the response that starts at the current offset, or NOT_KAFKA if none does."""
    first = side[layout.C_REQUESTS_FROM]
    requests = side[layout.C_REQUESTS_TO]
    header[P_CORRELATION] = load_i32(address, 4) if got >= 8 else -1
    if not 0 <= size <= layout.MAX_RESPONSE_BYTES:
        return NOT_KAFKA
    if (
        side[layout.C_SUSPECT]
        and requests > first
        and got >= 8
        and not is_outstanding(frames, first, requests, header[P_CORRELATION])
    ):
        return NOT_KAFKA
    return 0


@device
def _recognise_request(address, got, size, apis, header, side):
    """Return the flags of the request that starts at the current offset, or NOT_KAFKA if none does."""
    parse_request_start(address, got, apis, header)
    if side[layout.C_SASL] and header[P_STRICT] and header[P_HASH] == side[layout.C_SASL_ID]:
        side[layout.C_SASL] = 0
    if side[layout.C_SASL]:
        return layout.TOKEN if 0 <= size <= layout.MAX_REQUEST_BYTES else NOT_KAFKA
    if got < 14 and not header[P_LOOSE] and 8 <= size <= layout.MAX_REQUEST_BYTES and got < 4 + size:
        return layout.CUT_OFF  # the frame has too few bytes to decide
    is_believed = not side[layout.C_SUSPECT] or header[P_STRICT] or header[P_HASH] == side[layout.C_HASH]
    return 0 if header[P_LOOSE] and is_believed else NOT_KAFKA


@device
def _skip_unknown_bytes(rows, extents, gaps, settings, side, size, frame_extent):
    """Skip bytes that are not a frame. Return False if more bytes are needed first.

    In an unbroken stream of requests, the bytes are skipped up to the end that the size prefix specifies, if the size
    is plausible.
    """
    at = side[layout.C_AT]
    if side[layout.C_SUSPECT]:
        _lose_frame_boundary(side, at)
        return True
    extent = side[layout.C_EXTENT]
    if side[layout.C_RESPONSE] == 0 and 0 <= size <= layout.MAX_REQUEST_BYTES:
        end = at + 4 + size
        if measure_frame(rows, extents, settings, side, end, frame_extent) == layout.WAITS:
            return False
        reason = layout.HALF_FRAME if frame_extent[layout.W_MISSING] and side[layout.C_ENDED] else layout.NO_FRAME
        if frame_extent[layout.W_MISSING]:
            end = min(end, extents[side[layout.C_LAST] - 1, layout.E_END])
        record_gap(rows, extents, gaps, side, at, end - at, reason, extent)
        side[layout.C_AT] = end
        side[layout.C_SUSPECT] = 1 if frame_extent[layout.W_MISSING] else 0
        return True
    record_gap(rows, extents, gaps, side, at, 1, layout.NO_FRAME, extent)
    side[layout.C_AT] = at + 1
    _lose_frame_boundary(side, -1)
    return True


@device
def _write_whole_frame(rows, extents, frames, gaps, settings, header, side, size, flags, frame_extent):
    """Write the frame that starts here and move past it. Return False if more bytes are needed first."""
    at = side[layout.C_AT]
    end = at + 4 + size
    what = measure_frame(rows, extents, settings, side, end, frame_extent)
    if what == layout.WAITS:
        return False
    ends = extents[side[layout.C_LAST] - 1, layout.E_END]
    is_incomplete = frame_extent[layout.W_MISSING] > 0 and end > ends and side[layout.C_ENDED] != 0
    if is_incomplete and not is_cut_by_snap_length(rows, extents, side[layout.C_LAST], side[layout.C_FIRST], ends):
        record_gap(rows, extents, gaps, side, at, ends - at, layout.HALF_FRAME, side[layout.C_EXTENT])
        side[layout.C_AT] = ends
        return True
    side[layout.C_SUSPECT] = 1 if what == layout.IN_PART else 0
    if what == layout.IN_PART:
        flags |= layout.BROKEN
        missing_at = at + frame_extent[layout.W_HAVE]
        here = side[layout.C_EXTENT]
        while here < side[layout.C_LAST] and extents[here, layout.E_END] <= missing_at:
            here += 1
        reason = missing_reason(rows, extents, side, here, missing_at)
        if reason == layout.LOST_BYTES and missing_at == ends:  # the capture ends before the connection does
            reason = layout.AFTER
        record_gap(rows, extents, gaps, side, missing_at, frame_extent[layout.W_MISSING], reason, here)
    _write_frame(rows, extents, frames, side, size, flags, frame_extent)
    if side[layout.C_RESPONSE]:
        frames[side[layout.C_FRAME], layout.F_CORRELATION] = header[P_CORRELATION]
    elif not flags & layout.TOKEN:
        _write_header(frames, header, side)
    side[layout.C_FRAME] += 1
    side[layout.C_FRAMES] += 1
    side[layout.C_AT] = end
    return True


@device
def _write_frame(rows, extents, frames, side, size, flags, frame_extent):
    """Write a frame's row, without the columns that ``_write_header`` writes."""
    row = side[layout.C_FRAME]
    at = side[layout.C_AT]
    extent = side[layout.C_EXTENT]
    for column in range(layout.FRAME_COLUMN_COUNT):
        frames[row, column] = 0
    packet = extents[extent, layout.E_ROW]
    frames[row, layout.F_CONNECTION] = side[layout.C_CONNECTION]
    frames[row, layout.F_RESPONSE] = side[layout.C_RESPONSE]
    frames[row, layout.F_OFFSET] = at - side[layout.C_START]
    frames[row, layout.F_SIZE] = size
    frames[row, layout.F_TIME] = rows[packet, layout.TIME]
    frames[row, layout.F_NUMBER] = rows[packet, layout.NUMBER]
    frames[row, layout.F_END_TIME] = frame_extent[layout.W_TIME]
    frames[row, layout.F_END_NUMBER] = frame_extent[layout.W_NUMBER]
    frames[row, layout.F_FLAGS] = flags
    frames[row, layout.F_MISSING] = frame_extent[layout.W_MISSING]
    frames[row, layout.F_HAVE] = max(frame_extent[layout.W_HAVE] - 4, 0)
    frames[row, layout.F_FIRST] = extent
    frames[row, layout.F_LAST] = frame_extent[layout.W_LAST]
    frames[row, layout.F_API] = -1
    frames[row, layout.F_VERSION] = -1
    frames[row, layout.F_CORRELATION] = -1
    frames[row, layout.F_ID_LENGTH] = -2
    begin = extents[extent, layout.E_POSITION] + (at - extents[extent, layout.E_OFFSET])
    frames[row, layout.F_BEGIN] = begin
    frames[row, layout.F_POSITION] = (
        begin + 4 if extents[extent, layout.E_END] - at >= 4 + frames[row, layout.F_HAVE] else -1
    )


@device
def _write_header(frames, header, side):
    """Write the columns of a request's header, and remember the client id that identifies later requests."""
    row = side[layout.C_FRAME]
    if header[P_API] >= 0:
        frames[row, layout.F_API] = header[P_API]
        frames[row, layout.F_VERSION] = header[P_VERSION]
        frames[row, layout.F_CORRELATION] = header[P_CORRELATION]
        is_there = header[P_ID_LENGTH] <= frames[row, layout.F_HAVE] - 10
        frames[row, layout.F_ID_LENGTH] = header[P_ID_LENGTH] if is_there else -2
        if header[P_NO_REPLY]:
            frames[row, layout.F_FLAGS] |= layout.NO_REPLY
    if header[P_STRICT]:
        side[layout.C_HASH] = header[P_HASH]
        if header[P_API] == SASL_HANDSHAKE_KEY and header[P_VERSION] == 0:
            side[layout.C_SASL] = 1
            side[layout.C_SASL_ID] = header[P_HASH]


@device
def _process_next(buf, rows, extents, frames, gaps, apis, settings, scratch, header, frame_extent, side):
    """Process the next frame of the side. Return False if more bytes are needed first."""
    extent = side[layout.C_EXTENT]
    if side[layout.C_MODE] == layout.LOST:
        return _find_frame(buf, rows, extents, frames, gaps, apis, settings, scratch, header, side)
    if extents[extent, layout.E_OFFSET] > side[layout.C_AT]:
        return _skip_hole(rows, extents, gaps, settings, side)
    max_bytes = 12 if side[layout.C_RESPONSE] else MAX_PEEKED_BYTES
    address, byte_count = peek_bytes(buf, extents, extent, side[layout.C_LAST], side[layout.C_AT], max_bytes, scratch)
    if byte_count < 4:
        return _skip_prefix(rows, extents, gaps, settings, side, byte_count)
    size = load_i32(address, 0)
    if side[layout.C_RESPONSE]:
        flags = _recognise_response(address, byte_count, size, frames, header, side)
    else:
        flags = _recognise_request(address, byte_count, size, apis, header, side)
    if flags == NOT_KAFKA:
        return _skip_unknown_bytes(rows, extents, gaps, settings, side, size, frame_extent)
    return _write_whole_frame(rows, extents, frames, gaps, settings, header, side, size, flags, frame_extent)


@device
def split_side(buf, rows, extents, connections, frames, gaps, apis, settings, scratch, header, frame_extent, side):
    """Split the captured stream of one side into frames. Return False if a table is full.

    The caller sets the first seven columns of ``side``, which select the side, and the next rows of frames and gaps.
    The side's columns in ``connections`` are only written if all rows fit.
    """
    _load_side(connections, side)
    while side[layout.C_FRAME] + 2 < frames.shape[0] and side[layout.C_GAP] + 2 < gaps.shape[0]:
        _go_to_extent(extents, side)
        goes_on = False
        if side[layout.C_EXTENT] < side[layout.C_LAST]:
            goes_on = _process_next(
                buf, rows, extents, frames, gaps, apis, settings, scratch, header, frame_extent, side
            )
        elif (
            settings[layout.S_FLUSH]
            and side[layout.C_MODE] == layout.LOST
            and -1 < side[layout.C_LOST_FROM] < side[layout.C_AT]
        ):
            lost_from = side[layout.C_LOST_FROM]
            record_gap(
                rows,
                extents,
                gaps,
                side,
                lost_from,
                side[layout.C_AT] - lost_from,
                layout.NOT_FOUND,
                side[layout.C_LAST],
            )
            side[layout.C_LOST_FROM] = -1
        if not goes_on:
            _store_side(connections, side)
            return True
    return False


@device
def _load_side(connections, side):
    connection = side[layout.C_CONNECTION]
    base = layout.FIRST_SIDE_COLUMN + side[layout.C_SIDE] * layout.SIDE_COLUMN_COUNT
    side[layout.C_DIRECTION] = connection * 2 + side[layout.C_SIDE]
    side[layout.C_START] = connections[connection, base + layout.START]
    side[layout.C_AT] = connections[connection, base + layout.AT]
    side[layout.C_MODE] = connections[connection, base + layout.MODE]
    side[layout.C_HASH] = connections[connection, base + layout.ID_HASH]
    side[layout.C_LOST_FROM] = connections[connection, base + layout.LOST_FROM]
    side[layout.C_FRAMES] = connections[connection, base + layout.FRAMES]
    side[layout.C_GAPS] = connections[connection, base + layout.GAPS]
    side[layout.C_SASL] = connections[connection, layout.SASL]
    side[layout.C_SASL_ID] = connections[connection, layout.SASL_ID]
    side[layout.C_ENDED] = (
        1 if connections[connection, base + layout.ENDED] or connections[connection, layout.RESET] else 0
    )
    side[layout.C_SUSPECT] = 0
    side[layout.C_EXTENT] = side[layout.C_FIRST]


@device
def _store_side(connections, side):
    connection = side[layout.C_CONNECTION]
    base = layout.FIRST_SIDE_COLUMN + side[layout.C_SIDE] * layout.SIDE_COLUMN_COUNT
    connections[connection, base + layout.AT] = side[layout.C_AT]
    connections[connection, base + layout.MODE] = side[layout.C_MODE]
    connections[connection, base + layout.ID_HASH] = side[layout.C_HASH]
    connections[connection, base + layout.LOST_FROM] = side[layout.C_LOST_FROM]
    connections[connection, base + layout.FRAMES] = side[layout.C_FRAMES]
    connections[connection, base + layout.GAPS] = side[layout.C_GAPS]
    if side[layout.C_RESPONSE] == 0:
        connections[connection, layout.SASL] = side[layout.C_SASL]
        connections[connection, layout.SASL_ID] = side[layout.C_SASL_ID]
