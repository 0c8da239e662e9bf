"""Cut what one side of a connection sent into Kafka frames (numba).

1. A side is taken as far as its bytes are there; what is missing is waited for until it will not come any more.
2. What cannot be a frame, and what is missing, is written as a gap.
3. After a gap no frame is believed that does not prove itself (``_kernels_proofs.py``).
"""

from __future__ import annotations

from kafkaframes.capture._kernels_holes import is_final, is_snapped, missing_reason, record_gap, walk
from kafkaframes.capture._kernels_proofs import (
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
    PEEK,
    is_open,
    parse,
    peek,
    search,
)
from kafkaframes.capture.layout import (
    ALIGNED,
    AT,
    BEFORE,
    BROKEN,
    C_AT,
    C_CONNECTION,
    C_DIRECTION,
    C_ENDED,
    C_EXTENT,
    C_FIRST,
    C_FRAME,
    C_FRAMES,
    C_GAP,
    C_GAPS,
    C_HASH,
    C_LAST,
    C_LOST_FROM,
    C_MODE,
    C_REQUESTS_FROM,
    C_REQUESTS_TO,
    C_RESPONSE,
    C_SASL,
    C_SASL_ID,
    C_SIDE,
    C_START,
    C_SUSPECT,
    CAPTURED,
    CUT_OFF,
    E_END,
    E_OFFSET,
    E_PLACE,
    E_ROW,
    ENDED,
    F_API,
    F_BEGIN,
    F_CONNECTION,
    F_CORRELATION,
    F_END_NUMBER,
    F_END_TIME,
    F_FIRST,
    F_FLAGS,
    F_HAVE,
    F_ID_LENGTH,
    F_LAST,
    F_MISSING,
    F_NUMBER,
    F_OFFSET,
    F_PLACE,
    F_RESPONSE,
    F_SIZE,
    F_TIME,
    F_VERSION,
    FRAME_COLUMNS,
    FRAMES,
    GAPS,
    HALF_FRAME,
    ID_HASH,
    IN_PART,
    LARGEST_REQUEST,
    LARGEST_RESPONSE,
    LOST,
    LOST_BYTES,
    LOST_FROM,
    MODE,
    NO_FRAME,
    NO_REPLY,
    NOT_FOUND,
    NUMBER,
    OFFSET,
    POSITION,
    RESET,
    S_FLUSH,
    SASL,
    SASL_ID,
    SIDE,
    SIDE_COLUMNS,
    START,
    TIME,
    TOKEN,
    W_HAVE,
    W_LAST,
    W_MISSING,
    W_NUMBER,
    W_TIME,
    WAITS,
)
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import load_i32

SASL_HANDSHAKE = 17
TAIL = 16  # a header may start this close to the end of what is there
NOT_KAFKA = -1  # in place of a frame's flags


@device
def fill_extents(rows, order, first, last, at, has_start, extents, into):
    """Write what is there of one side, without overlap, from ``at`` on; return where the rows end."""
    if first == last:
        return into
    covered = at if has_start else rows[order[first], OFFSET]
    for place in range(first, last):
        row = order[place]
        offset = rows[row, OFFSET]
        end = offset + rows[row, CAPTURED]
        start = max(offset, covered)
        if end > start:
            extents[into, E_OFFSET] = start
            extents[into, E_END] = end
            extents[into, E_PLACE] = rows[row, POSITION] + (start - offset)
            extents[into, E_ROW] = row
            into += 1
            covered = end
    return into


@device
def _lose(cut, lost_from):
    """Believe no frame from here on that does not prove itself; -1: what is missing so far is written already."""
    cut[C_MODE] = LOST
    cut[C_LOST_FROM] = lost_from
    cut[C_SUSPECT] = 0


@device
def _find_frame(buf, rows, extents, frames, gaps, apis, settings, scratch, parsed, cut):
    """Go to the next frame that proves itself; False where more has to come first."""
    last = cut[C_LAST]
    found, where = search(
        buf, extents, cut[C_EXTENT], last, cut[C_AT], cut[C_RESPONSE], cut[C_HASH], frames, cut[C_REQUESTS_FROM],
        cut[C_REQUESTS_TO], apis, scratch, parsed,
    )  # fmt: skip
    if cut[C_LOST_FROM] < 0:
        cut[C_LOST_FROM] = cut[C_AT]
    if found == NOWHERE:
        cut[C_AT] = where if settings[S_FLUSH] else max(cut[C_AT], where - TAIL)
        return settings[S_FLUSH] != 0
    cut[C_AT] = where
    if found == MAYBE and not settings[S_FLUSH]:
        return False
    lost_from = cut[C_LOST_FROM]
    if where > lost_from:
        _go_to_extent(extents, cut)
        reason = BEFORE if cut[C_FRAMES] == 0 else NOT_FOUND
        record_gap(rows, extents, gaps, cut, lost_from, where - lost_from, reason, cut[C_EXTENT])
    cut[C_LOST_FROM] = -1
    cut[C_MODE] = ALIGNED
    cut[C_SUSPECT] = 0
    return True


@device
def _go_to_extent(extents, cut):
    """Go to the extent that holds the place that is come to, or the next one."""
    extent = cut[C_EXTENT]
    while extent < cut[C_LAST] and extents[extent, E_END] <= cut[C_AT]:
        extent += 1
    cut[C_EXTENT] = extent


@device
def _pass_hole(rows, extents, gaps, settings, cut):
    """Go on behind bytes that are missing between two frames; False where they may still come."""
    extent = cut[C_EXTENT]
    at = cut[C_AT]
    if not is_final(rows, extents, settings, cut, extent, at):
        return False
    reason = missing_reason(rows, extents, cut, extent, at)
    record_gap(rows, extents, gaps, cut, at, extents[extent, E_OFFSET] - at, reason, extent)
    cut[C_AT] = extents[extent, E_OFFSET]
    _lose(cut, -1)
    return True


@device
def _pass_prefix(rows, extents, gaps, settings, cut, got):
    """Go on behind a size prefix of which only ``got`` bytes are there; False where the others may still come."""
    at = cut[C_AT]
    there = at + got
    extent = cut[C_EXTENT]
    while extent < cut[C_LAST] and extents[extent, E_END] <= there:
        extent += 1
    if extent == cut[C_LAST]:
        if settings[S_FLUSH]:
            reason = HALF_FRAME if cut[C_ENDED] else LOST_BYTES
            record_gap(rows, extents, gaps, cut, at, got, reason, extent)
            cut[C_AT] = there
        return False
    if not is_final(rows, extents, settings, cut, extent, there):
        return False
    record_gap(rows, extents, gaps, cut, at, extents[extent, E_OFFSET] - at, LOST_BYTES, extent)
    cut[C_AT] = extents[extent, E_OFFSET]
    _lose(cut, -1)
    return True


@device
def _recognise_response(address, got, size, frames, parsed, cut):
    """Return the flags of the response that begins here; NOT_KAFKA where none does."""
    first = cut[C_REQUESTS_FROM]
    requests = cut[C_REQUESTS_TO]
    parsed[P_CORRELATION] = load_i32(address, 4) if got >= 8 else -1
    if not 0 <= size <= LARGEST_RESPONSE:
        return NOT_KAFKA
    if cut[C_SUSPECT] and requests > first and got >= 8 and not is_open(frames, first, requests, parsed[P_CORRELATION]):
        return NOT_KAFKA
    return 0


@device
def _recognise_request(address, got, size, apis, parsed, cut):
    """Return the flags of the request that begins here; NOT_KAFKA where none does."""
    parse(address, got, apis, parsed)
    if cut[C_SASL] and parsed[P_STRICT] and parsed[P_HASH] == cut[C_SASL_ID]:
        cut[C_SASL] = 0
    if cut[C_SASL]:
        return TOKEN if 0 <= size <= LARGEST_REQUEST else NOT_KAFKA
    if got < 14 and not parsed[P_LOOSE] and 8 <= size <= LARGEST_REQUEST and got < 4 + size:
        return CUT_OFF  # too little is there to tell
    is_believed = not cut[C_SUSPECT] or parsed[P_STRICT] or parsed[P_HASH] == cut[C_HASH]
    return 0 if parsed[P_LOOSE] and is_believed else NOT_KAFKA


@device
def _pass_unknown(rows, extents, gaps, settings, cut, size, walked):
    """Go on behind what is no frame; False where it is not all there yet.

    A stream in order that holds something else: it is left out as far as its prefix says, if that can be.
    """
    at = cut[C_AT]
    if cut[C_SUSPECT]:
        _lose(cut, at)
        return True
    extent = cut[C_EXTENT]
    if cut[C_RESPONSE] == 0 and 0 <= size <= LARGEST_REQUEST:
        end = at + 4 + size
        if walk(rows, extents, settings, cut, end, walked) == WAITS:
            return False
        reason = HALF_FRAME if walked[W_MISSING] and cut[C_ENDED] else NO_FRAME
        if walked[W_MISSING]:
            end = min(end, extents[cut[C_LAST] - 1, E_END])
        record_gap(rows, extents, gaps, cut, at, end - at, reason, extent)
        cut[C_AT] = end
        cut[C_SUSPECT] = 1 if walked[W_MISSING] else 0
        return True
    record_gap(rows, extents, gaps, cut, at, 1, NO_FRAME, extent)
    cut[C_AT] = at + 1
    _lose(cut, -1)
    return True


@device
def _take_frame(rows, extents, frames, gaps, settings, parsed, cut, size, flags, walked):
    """Write the frame that begins here and go on behind it; False where it is not all there yet."""
    at = cut[C_AT]
    end = at + 4 + size
    what = walk(rows, extents, settings, cut, end, walked)
    if what == WAITS:
        return False
    ends = extents[cut[C_LAST] - 1, E_END]
    is_half = walked[W_MISSING] > 0 and end > ends and cut[C_ENDED] != 0
    if is_half and not is_snapped(rows, extents, cut[C_LAST], cut[C_FIRST], ends):
        record_gap(rows, extents, gaps, cut, at, ends - at, HALF_FRAME, cut[C_EXTENT])
        cut[C_AT] = ends
        return True
    cut[C_SUSPECT] = 1 if what == IN_PART else 0
    if what == IN_PART:
        flags |= BROKEN
        missing_at = at + walked[W_HAVE]
        here = cut[C_EXTENT]
        while here < cut[C_LAST] and extents[here, E_END] <= missing_at:
            here += 1
        reason = missing_reason(rows, extents, cut, here, missing_at)
        record_gap(rows, extents, gaps, cut, missing_at, walked[W_MISSING], reason, here)
    _write_frame(rows, extents, frames, cut, size, flags, walked)
    if cut[C_RESPONSE]:
        frames[cut[C_FRAME], F_CORRELATION] = parsed[P_CORRELATION]
    elif not flags & TOKEN:
        _write_header(frames, parsed, cut)
    cut[C_FRAME] += 1
    cut[C_FRAMES] += 1
    cut[C_AT] = end
    return True


@device
def _write_frame(rows, extents, frames, cut, size, flags, walked):
    """Write a frame's row, but for what its header says."""
    row = cut[C_FRAME]
    at = cut[C_AT]
    extent = cut[C_EXTENT]
    for column in range(FRAME_COLUMNS):
        frames[row, column] = 0
    packet = extents[extent, E_ROW]
    frames[row, F_CONNECTION] = cut[C_CONNECTION]
    frames[row, F_RESPONSE] = cut[C_RESPONSE]
    frames[row, F_OFFSET] = at - cut[C_START]
    frames[row, F_SIZE] = size
    frames[row, F_TIME] = rows[packet, TIME]
    frames[row, F_NUMBER] = rows[packet, NUMBER]
    frames[row, F_END_TIME] = walked[W_TIME]
    frames[row, F_END_NUMBER] = walked[W_NUMBER]
    frames[row, F_FLAGS] = flags
    frames[row, F_MISSING] = walked[W_MISSING]
    frames[row, F_HAVE] = max(walked[W_HAVE] - 4, 0)
    frames[row, F_FIRST] = extent
    frames[row, F_LAST] = walked[W_LAST]
    frames[row, F_API] = -1
    frames[row, F_VERSION] = -1
    frames[row, F_CORRELATION] = -1
    frames[row, F_ID_LENGTH] = -2
    begin = extents[extent, E_PLACE] + (at - extents[extent, E_OFFSET])
    frames[row, F_BEGIN] = begin
    frames[row, F_PLACE] = begin + 4 if extents[extent, E_END] - at >= 4 + frames[row, F_HAVE] else -1


@device
def _write_header(frames, parsed, cut):
    """Write what a request's header says; keep what the next ones are recognised by."""
    row = cut[C_FRAME]
    if parsed[P_API] >= 0:
        frames[row, F_API] = parsed[P_API]
        frames[row, F_VERSION] = parsed[P_VERSION]
        frames[row, F_CORRELATION] = parsed[P_CORRELATION]
        is_there = parsed[P_ID_LENGTH] <= frames[row, F_HAVE] - 10
        frames[row, F_ID_LENGTH] = parsed[P_ID_LENGTH] if is_there else -2
        if parsed[P_NO_REPLY]:
            frames[row, F_FLAGS] |= NO_REPLY
    if parsed[P_STRICT]:
        cut[C_HASH] = parsed[P_HASH]
        if parsed[P_API] == SASL_HANDSHAKE and parsed[P_VERSION] == 0:
            cut[C_SASL] = 1
            cut[C_SASL_ID] = parsed[P_HASH]


@device
def _go_on(buf, rows, extents, frames, gaps, apis, settings, scratch, parsed, walked, cut):
    """Do the next piece of the side; False where more has to come first."""
    extent = cut[C_EXTENT]
    if cut[C_MODE] == LOST:
        return _find_frame(buf, rows, extents, frames, gaps, apis, settings, scratch, parsed, cut)
    if extents[extent, E_OFFSET] > cut[C_AT]:
        return _pass_hole(rows, extents, gaps, settings, cut)
    wanted = 12 if cut[C_RESPONSE] else PEEK
    address, got = peek(buf, extents, extent, cut[C_LAST], cut[C_AT], wanted, scratch)
    if got < 4:
        return _pass_prefix(rows, extents, gaps, settings, cut, got)
    size = load_i32(address, 0)
    if cut[C_RESPONSE]:
        flags = _recognise_response(address, got, size, frames, parsed, cut)
    else:
        flags = _recognise_request(address, got, size, apis, parsed, cut)
    if flags == NOT_KAFKA:
        return _pass_unknown(rows, extents, gaps, settings, cut, size, walked)
    return _take_frame(rows, extents, frames, gaps, settings, parsed, cut, size, flags, walked)


@device
def cut_side(buf, rows, extents, connections, frames, gaps, apis, settings, scratch, parsed, walked, cut):
    """Cut one side's stream into frames as far as it is there; False where a table is full.

    ``cut`` says which side (its first seven columns) and where frames and gaps go on. The side's own columns are
    written when all fits.
    """
    _load_side(connections, cut)
    while cut[C_FRAME] + 2 < frames.shape[0] and cut[C_GAP] + 2 < gaps.shape[0]:
        _go_to_extent(extents, cut)
        goes_on = False
        if cut[C_EXTENT] < cut[C_LAST]:
            goes_on = _go_on(buf, rows, extents, frames, gaps, apis, settings, scratch, parsed, walked, cut)
        elif settings[S_FLUSH] and cut[C_MODE] == LOST and -1 < cut[C_LOST_FROM] < cut[C_AT]:
            lost_from = cut[C_LOST_FROM]
            record_gap(rows, extents, gaps, cut, lost_from, cut[C_AT] - lost_from, NOT_FOUND, cut[C_LAST])
            cut[C_LOST_FROM] = -1
        if not goes_on:
            _store_side(connections, cut)
            return True
    return False


@device
def _load_side(connections, cut):
    connection = cut[C_CONNECTION]
    base = SIDE + cut[C_SIDE] * SIDE_COLUMNS
    cut[C_DIRECTION] = connection * 2 + cut[C_SIDE]
    cut[C_START] = connections[connection, base + START]
    cut[C_AT] = connections[connection, base + AT]
    cut[C_MODE] = connections[connection, base + MODE]
    cut[C_HASH] = connections[connection, base + ID_HASH]
    cut[C_LOST_FROM] = connections[connection, base + LOST_FROM]
    cut[C_FRAMES] = connections[connection, base + FRAMES]
    cut[C_GAPS] = connections[connection, base + GAPS]
    cut[C_SASL] = connections[connection, SASL]
    cut[C_SASL_ID] = connections[connection, SASL_ID]
    cut[C_ENDED] = 1 if connections[connection, base + ENDED] or connections[connection, RESET] else 0
    cut[C_SUSPECT] = 0
    cut[C_EXTENT] = cut[C_FIRST]


@device
def _store_side(connections, cut):
    connection = cut[C_CONNECTION]
    base = SIDE + cut[C_SIDE] * SIDE_COLUMNS
    connections[connection, base + AT] = cut[C_AT]
    connections[connection, base + MODE] = cut[C_MODE]
    connections[connection, base + ID_HASH] = cut[C_HASH]
    connections[connection, base + LOST_FROM] = cut[C_LOST_FROM]
    connections[connection, base + FRAMES] = cut[C_FRAMES]
    connections[connection, base + GAPS] = cut[C_GAPS]
    if cut[C_RESPONSE] == 0:
        connections[connection, SASL] = cut[C_SASL]
        connections[connection, SASL_ID] = cut[C_SASL_ID]
