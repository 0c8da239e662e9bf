"""Put TCP streams together, cut them into Kafka frames, pair requests with responses (numba). Start at ``streams.py``.

1. Arrays and integers in, numbers out; the caller makes and grows every table. A connection that does not fit is
   left as it was, and done again with larger tables.
2. Nothing is allocated or trusted for a size on the wire: a frame is a row that says where its bytes lie.
3. After a gap no frame is believed that does not prove itself (``_prove_request``, ``_prove_response``).
"""

from __future__ import annotations

from kafkaframes.capture.layout import (
    ALIGNED,
    API_FLEXIBLE,
    API_HIGHEST,
    API_LOWEST,
    APIS,
    AT,
    BEFORE,
    BROKEN,
    CALL_CONNECTION,
    CALL_REQUEST,
    CALL_RESPONSE,
    CAPTURED,
    CLIENT,
    CUT_OFF,
    DIRECTION,
    DONE,
    E_END,
    E_OFFSET,
    E_PLACE,
    E_ROW,
    ENDED,
    F_API,
    F_BEGIN,
    F_CONNECTION,
    F_CORRELATION,
    F_DONE,
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
    FRAMES_FULL,
    G_DIRECTION,
    G_NUMBER,
    G_OFFSET,
    G_REASON,
    G_RESPONSE,
    G_SIZE,
    G_TIME,
    GAPS,
    HALF_FRAME,
    ID_HASH,
    INITIAL,
    KAFKA,
    LARGEST_REQUEST,
    LARGEST_RESPONSE,
    LENGTH,
    LOST,
    LOST_BYTES,
    LOST_FROM,
    MET,
    MODE,
    NEW,
    NO_FRAME,
    NO_REPLY,
    NOT_FOUND,
    NUMBER,
    OFFSET,
    OTHER,
    PENDING_END,
    PENDING_START,
    PORTS,
    POSITION,
    PROTOCOL,
    RESET,
    SASL,
    SASL_ID,
    SIDE,
    SIDE_COLUMNS,
    SNAPPED,
    START,
    TIME,
    TLS,
    TOKEN,
    UNDECIDED,
    UNSORTED,
    WAITED,
)
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, MESSAGE_V0, MIN_SIZE, OVERHEAD_BYTES
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, OUT_TABLE, TABLE, device, kernel, types
from kafkaframes.wire._kernels import address_of, copy_bytes, load_i16, load_i32, load_u8

I64 = types.int64
PRODUCE, SASL_HANDSHAKE, CONTROLLED_SHUTDOWN, API_VERSIONS = 0, 17, 7, 18
PEEK = 768  # bytes of a frame that are looked at: prefix, header, client id, and what stands before acks
ENOUGH_UNDECIDED = 1 << 16  # bytes after which a connection that proves nothing is another protocol's
LOOK_AHEAD = 4096  # outstanding requests that a response may be compared with
STEP = 1024  # how far correlation ids may be apart within a proof
TAIL = 16  # a header may start this close to the end of what is there
# What ``_settings`` holds.
S_FLUSH, S_PATIENCE_NS, S_PATIENCE_ROWS, S_PATIENCE_BYTES, S_NOW, S_HASTE = range(6)
# Where ``_parse`` writes.
P_API, P_VERSION, P_CORRELATION, P_ID_LENGTH, P_STRICT, P_LOOSE, P_HASH, P_NO_REPLY = range(8)
FOUND, MAYBE, NOWHERE = range(3)
SIZE_AT, MAGIC_AT, OLD_ATTRIBUTES_AT = (MESSAGE_V0.place_of(name) for name in ("size", "magic", "attributes"))
ATTRIBUTES_AT, COUNT_AT, V2_BYTES = BATCH_V2.place_of("attributes"), BATCH_V2.place_of("count"), BATCH_V2.size


# ------------------------------------------------------------------------------------------------- order


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
def _extents(rows, order, first, last, at, has_start, extents, into):
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


# ------------------------------------------------------------------------------------------------- peeking


@device
def _peek(buf, extents, extent, last, offset, wanted, scratch):
    """Return (address, how many bytes are there in one run) of a stream's bytes from ``offset``, at most ``wanted``."""
    while extent < last and extents[extent, E_END] <= offset:
        extent += 1
    if extent == last or extents[extent, E_OFFSET] > offset:
        return 0, 0
    there = extents[extent, E_END] - offset
    place = address_of(buf) + extents[extent, E_PLACE] + (offset - extents[extent, E_OFFSET])
    if there >= wanted or extent + 1 == last or extents[extent + 1, E_OFFSET] > extents[extent, E_END]:
        return place, min(there, wanted)
    got = 0
    to = address_of(scratch)
    while extent < last and got < wanted and extents[extent, E_OFFSET] <= offset + got:
        skip = offset + got - extents[extent, E_OFFSET]
        size = min(extents[extent, E_END] - extents[extent, E_OFFSET] - skip, wanted - got)
        copy_bytes(to, got, address_of(buf), extents[extent, E_PLACE] + skip, size)
        got += size
        extent += 1
    return to, got


@device
def _id_hash(at, size):
    """Hash a client id; 0 (nothing to recognise) for an empty one; -1 where it holds what no name does."""
    value = 1469598103934665603
    for place in range(size):
        byte = load_u8(at, place)
        if byte < 0x20 or byte == 0x7F:
            return -1
        value = (value ^ byte) * 1099511628211
    return (value & 0x7FFFFFFFFFFFFFF) | 1 if size else 0


@device
def _parse(address, got, apis, parsed):
    """Read the start of a request, its prefix first; say how much of a Kafka request it is."""
    parsed[P_STRICT] = 0
    parsed[P_LOOSE] = 0
    parsed[P_NO_REPLY] = 0
    parsed[P_HASH] = 0
    parsed[P_ID_LENGTH] = -2
    parsed[P_API] = -1
    if got < 12:
        return
    size = load_i32(address, 0)
    api = load_i16(address, 4)
    version = load_i16(address, 6)
    correlation = load_i32(address, 8)
    parsed[P_API] = api
    parsed[P_VERSION] = version
    parsed[P_CORRELATION] = correlation
    known = 0 <= api < APIS and apis[api, API_HIGHEST] >= 0
    valid = known and (
        apis[api, API_LOWEST] <= version <= apis[api, API_HIGHEST] or (api == API_VERSIONS and 0 <= version < 128)
    )
    in_range = 8 <= size <= LARGEST_REQUEST and api >= 0 and version >= 0
    if api == CONTROLLED_SHUTDOWN and version == 0:
        parsed[P_LOOSE] = 1 if in_range else 0
        parsed[P_STRICT] = parsed[P_LOOSE]
        return
    if got < 14 or size < 10:
        return
    length = load_i16(address, 12)
    if length < -1 or length > size - 10:
        return
    hashed = _id_hash(address + 14, min(max(length, 0), got - 14))
    if hashed < 0 or not in_range:
        return
    parsed[P_ID_LENGTH] = length
    parsed[P_HASH] = hashed
    parsed[P_LOOSE] = 1
    parsed[P_STRICT] = 1 if valid and correlation >= 0 else 0
    if api == PRODUCE and valid:
        parsed[P_NO_REPLY] = 1 if _acks(address, got, 14 + max(length, 0), version, apis[api, API_FLEXIBLE]) == 0 else 0


@device
def _acks(address, got, at, version, flexible_since):
    """Return the acks of a Produce request; -1 where they are not among the bytes at hand."""
    flexible = version >= flexible_since
    if flexible:
        tags = load_u8(address, at) if at < got else 1
        if tags:
            return -1
        at += 1
    if version >= 3:
        if flexible:
            if at >= got:
                return -1
            size = load_u8(address, at)
            if size >= 0x80:
                return -1
            at += 1 + max(size - 1, 0)
        else:
            if at + 2 > got:
                return -1
            at += 2 + max(load_i16(address, at), 0)
    return load_i16(address, at) if at + 2 <= got else -1


# ---------------------------------------------------------------------------------------------------- proofs


@device
def _is_end(extents, extent, last, offset):
    """Tell whether a segment ends at ``offset`` (the extents from ``extent`` on are looked at)."""
    while extent < last and extents[extent, E_END] < offset:
        extent += 1
    return extent < last and extents[extent, E_END] == offset


@device
def _prove_request(buf, extents, extent, last, at, known_hash, apis, scratch, parsed):
    """Say whether a request starts at ``at``: FOUND, NOWHERE, or MAYBE where its end is not there yet.

    Its header must be that of an API and version that exist, with a readable client id; and the client id is this
    connection's, or the frame ends where a segment does, or another such header follows.
    """
    address, got = _peek(buf, extents, extent, last, at, PEEK, scratch)
    if got < 14 or load_u8(address, 0) > 6:
        return NOWHERE
    _parse(address, got, apis, parsed)
    if not parsed[P_STRICT]:
        return NOWHERE
    if known_hash > 0 and parsed[P_HASH] == known_hash:
        return FOUND
    end = at + 4 + load_i32(address, 0)
    if end > extents[last - 1, E_END]:
        return MAYBE
    if extents[extent, E_OFFSET] == at and _is_end(extents, extent, last, end):
        return FOUND
    address, got = _peek(buf, extents, extent, last, end, PEEK, scratch)
    _parse(address, got, apis, parsed)
    return FOUND if parsed[P_STRICT] else NOWHERE


@device
def _is_open(frames, first, last, correlation):
    """Tell whether a request of this correlation id waits for its response."""
    for row in range(first, min(last, first + LOOK_AHEAD)):
        if frames[row, F_CORRELATION] == correlation and not frames[row, F_FLAGS] & TOKEN:
            return True
    return False


@device
def _prove_response(buf, extents, extent, last, at, frames, first, requests, scratch):
    """Say likewise whether a response starts at ``at``: its correlation id is one that is waited for.

    Or it, and those that follow it, count up to one that is, or to the end of a segment.
    """
    place = at
    before = -1
    here = extent
    counted = 0
    for step in range(3):
        address, got = _peek(buf, extents, here, last, place, 8, scratch)
        if got < 8:
            break
        size = load_i32(address, 0)
        correlation = load_i32(address, 4)
        if size < 4 or correlation < 0 or size > LARGEST_REQUEST * 2:
            return NOWHERE
        if before >= 0 and not before < correlation <= before + STEP:
            return NOWHERE
        end = place + 4 + size
        is_open = _is_open(frames, first, requests, correlation)
        if not is_open and step == 0 and extents[extent, E_OFFSET] != at:
            return NOWHERE
        if not is_open and requests > first and not -(1 << 20) < correlation - frames[first, F_CORRELATION] < 1 << 20:
            return NOWHERE
        if end > extents[last - 1, E_END]:
            return MAYBE
        if is_open and (step or _is_end(extents, here, last, end)):
            return FOUND
        if step and extents[extent, E_OFFSET] == at and _is_end(extents, here, last, end):
            return FOUND
        if requests > first and extents[extent, E_OFFSET] == at and _is_end(extents, here, last, end):
            return FOUND
        before = correlation
        place = end
        counted += 1
        while here < last and extents[here, E_END] <= place:
            here += 1
    is_chain = counted == 3 or (before >= 0 and place == extents[last - 1, E_END])
    return FOUND if is_chain and extents[extent, E_OFFSET] == at else NOWHERE


@device
def _search(buf, extents, extent, last, at, response, known_hash, frames, first, requests, apis, scratch, parsed):
    """Return (FOUND, where) for the next frame that proves itself; (MAYBE, where) for one that may yet; or NOWHERE."""
    maybe = -1
    while extent < last:
        start = max(at, extents[extent, E_OFFSET])
        for offset in range(start, extents[extent, E_END]):
            if response:
                found = _prove_response(buf, extents, extent, last, offset, frames, first, requests, scratch)
            else:
                found = _prove_request(buf, extents, extent, last, offset, known_hash, apis, scratch, parsed)
            if found == FOUND:
                return FOUND, offset
            if found == MAYBE and maybe < 0 and offset == extents[extent, E_OFFSET]:
                maybe = offset
        extent += 1
    return (MAYBE, maybe) if maybe >= 0 else (NOWHERE, extents[last - 1, E_END])


@device
def _is_tls(address, got):
    """Tell whether a TLS record starts here (RFC 8446, 5.1)."""
    if got < 5 or not 0x14 <= load_u8(address, 0) <= 0x17 or load_u8(address, 1) != 3 or load_u8(address, 2) > 4:
        return False
    return (load_i16(address, 3) & 0xFFFF) <= 18432


# ------------------------------------------------------------------------------------------------- frames


@device
def _gap(gaps, count, direction, offset, size, reason, response, rows, extents, extent, last):
    gaps[count, G_DIRECTION] = direction
    gaps[count, G_OFFSET] = offset
    gaps[count, G_SIZE] = size
    gaps[count, G_REASON] = reason
    gaps[count, G_TIME] = rows[extents[extent, E_ROW], TIME] if extent < last else -1
    gaps[count, G_NUMBER] = rows[extents[extent, E_ROW], NUMBER] if extent < last else -1
    gaps[count, G_RESPONSE] = response
    return count + 1


@device
def _is_final(rows, extents, extent, first, last, at, settings):
    """Tell whether what is missing before ``extent`` will not come any more."""
    if settings[S_FLUSH] or last - extent > settings[S_PATIENCE_ROWS]:
        return True
    if extents[last - 1, E_END] - extents[extent, E_OFFSET] > settings[S_PATIENCE_BYTES]:
        return True
    if _is_snapped(rows, extents, extent, first, at):
        return True
    return settings[S_NOW] - rows[extents[extent, E_ROW], TIME] > settings[S_PATIENCE_NS]


@device
def _is_snapped(rows, extents, extent, first, at):
    """Tell whether the packet before ``extent`` had the bytes at ``at``, and the file has not."""
    if extent == first:
        return False
    row = extents[extent - 1, E_ROW]
    return rows[row, OFFSET] + rows[row, LENGTH] > at


@device
def _walk(rows, extents, extent, last, first, start, end, settings, told):
    """See how much of a frame is there: told = missing bytes, bytes up to the first missing one, latest time, extents.

    Returns 0 whole, 1 broken, 2 wait for more.
    """
    at = start
    missing = 0
    have = -1
    latest = rows[extents[extent, E_ROW], TIME]
    number = rows[extents[extent, E_ROW], NUMBER]
    while at < end:
        if extent == last:
            if not settings[S_FLUSH]:
                return 2
            if have < 0:
                have = at - start
            missing += end - at
            break
        begin = extents[extent, E_OFFSET]
        if begin > at:
            if begin >= end:
                begin = end
            if not _is_final(rows, extents, extent, first, last, at, settings):
                return 2
            if have < 0:
                have = at - start
            missing += begin - at
            at = begin
            continue
        latest = max(latest, rows[extents[extent, E_ROW], TIME])
        number = max(number, rows[extents[extent, E_ROW], NUMBER])
        at = min(extents[extent, E_END], end)
        if extents[extent, E_END] <= end:
            extent += 1
    told[0] = missing
    told[1] = have if have >= 0 else end - start
    told[2] = latest
    told[3] = min(extent + 1, last)
    told[4] = number
    return 1 if missing else 0


@device
def _frame(
    frames, row, connection, response, at, start, size, rows, extents, extent, told, flags
):  # fmt: skip
    for column in range(FRAME_COLUMNS):
        frames[row, column] = 0
    packet = extents[extent, E_ROW]
    frames[row, F_CONNECTION] = connection
    frames[row, F_RESPONSE] = response
    frames[row, F_OFFSET] = at - start
    frames[row, F_SIZE] = size
    frames[row, F_TIME] = rows[packet, TIME]
    frames[row, F_NUMBER] = rows[packet, NUMBER]
    frames[row, F_END_TIME] = told[2]
    frames[row, F_END_NUMBER] = told[4]
    frames[row, F_FLAGS] = flags
    frames[row, F_MISSING] = told[0]
    frames[row, F_HAVE] = max(told[1] - 4, 0)
    frames[row, F_FIRST] = extent
    frames[row, F_LAST] = told[3]
    frames[row, F_API] = -1
    frames[row, F_VERSION] = -1
    frames[row, F_CORRELATION] = -1
    frames[row, F_ID_LENGTH] = -2
    begin = extents[extent, E_PLACE] + (at - extents[extent, E_OFFSET])
    frames[row, F_BEGIN] = begin
    frames[row, F_PLACE] = begin + 4 if extents[extent, E_END] - at >= 4 + frames[row, F_HAVE] else -1


@device
def _cut_side(
    buf, rows, extents, first, last, connections, connection, side, response, frames, frame, requests_from,
    requests_to, gaps, gap, apis, settings, scratch, parsed, told,
):  # fmt: skip
    """Cut one side's stream into frames; return (fits?, frames, gaps). Columns of the side are set when all fits."""
    base = SIDE + side * SIDE_COLUMNS
    direction = connection * 2 + side
    at = connections[connection, base + AT]
    mode = connections[connection, base + MODE]
    start = connections[connection, base + START]
    known_hash = connections[connection, base + ID_HASH]
    lost_from = connections[connection, base + LOST_FROM]
    sasl = connections[connection, SASL]
    sasl_id = connections[connection, SASL_ID]
    ended = connections[connection, base + ENDED] or connections[connection, RESET]
    seen = 0
    lost = 0
    extent = first
    suspect = False
    while True:
        if frame + 2 >= frames.shape[0] or gap + 2 >= gaps.shape[0]:
            return False, frame, gap
        while extent < last and extents[extent, E_END] <= at:
            extent += 1
        if extent == last:
            if settings[S_FLUSH] and mode == LOST and lost_from >= 0 and at > lost_from:
                gap = _gap(
                    gaps,
                    gap,
                    direction,
                    lost_from - start,
                    at - lost_from,
                    NOT_FOUND,
                    response,
                    rows,
                    extents,
                    extent,
                    last,
                )
                lost_from = -1
            break
        if mode == LOST:
            found, where = _search(
                buf, extents, extent, last, at, response, known_hash, frames, requests_from, requests_to, apis,
                scratch, parsed,
            )  # fmt: skip
            if lost_from < 0:
                lost_from = at
            if found == MAYBE and settings[S_FLUSH]:
                found = FOUND
            if found == FOUND:
                if where > lost_from:
                    while extent < last and extents[extent, E_END] <= where:
                        extent += 1
                    gap = _gap(
                        gaps, gap, direction, lost_from - start, where - lost_from,
                        BEFORE if connections[connection, base + FRAMES] + seen == 0 else NOT_FOUND,
                        response, rows, extents, extent, last,
                    )  # fmt: skip
                    lost += 1
                lost_from = -1
                mode = ALIGNED
                suspect = False
                at = where
                continue
            if found == MAYBE:
                at = where
                break
            at = max(at, where - TAIL) if not settings[S_FLUSH] else where
            if settings[S_FLUSH]:
                extent = last
                continue
            break
        if extents[extent, E_OFFSET] > at:
            if not _is_final(rows, extents, extent, first, last, at, settings):
                break
            reason = SNAPPED if _is_snapped(rows, extents, extent, first, at) else LOST_BYTES
            size = extents[extent, E_OFFSET] - at
            gap = _gap(gaps, gap, direction, at - start, size, reason, response, rows, extents, extent, last)
            lost += 1
            at = extents[extent, E_OFFSET]
            mode = LOST
            lost_from = -1
            continue
        address, got = _peek(buf, extents, extent, last, at, PEEK if response == 0 else 12, scratch)
        if got < 4:
            there = at + got
            here = extent
            while here < last and extents[here, E_END] <= there:
                here += 1
            if here == last:
                if settings[S_FLUSH]:
                    reason = HALF_FRAME if ended else LOST_BYTES
                    gap = _gap(gaps, gap, direction, at - start, got, reason, response, rows, extents, last, last)
                    at = there
                break
            if not _is_final(rows, extents, here, first, last, there, settings):
                break
            gap = _gap(
                gaps, gap, direction, at - start, extents[here, E_OFFSET] - at, LOST_BYTES, response, rows, extents,
                here, last,
            )  # fmt: skip
            lost += 1
            at = extents[here, E_OFFSET]
            mode = LOST
            continue
        size = load_i32(address, 0)
        flags = 0
        if response:
            correlation = load_i32(address, 4) if got >= 8 else -1
            good = 0 <= size <= LARGEST_RESPONSE
            if suspect and good and requests_to > requests_from and got >= 8:
                good = _is_open(frames, requests_from, requests_to, correlation)
        else:
            _parse(address, got, apis, parsed)
            if sasl and parsed[P_STRICT] and parsed[P_HASH] == sasl_id:
                sasl = 0
            if sasl:
                flags = TOKEN
                good = 0 <= size <= LARGEST_REQUEST
            elif got < 14 and parsed[P_LOOSE] == 0 and 8 <= size <= LARGEST_REQUEST and got < 4 + size:
                good = True  # too little is there to tell
                flags = CUT_OFF
            else:
                good = parsed[P_LOOSE] and (not suspect or parsed[P_STRICT] or parsed[P_HASH] == known_hash)
        if not good:
            if suspect:
                mode = LOST
                lost_from = at
                suspect = False
                continue
            # a stream in order that holds something else: leave it out as far as its prefix says, if that can be
            if response == 0 and 0 <= size <= LARGEST_REQUEST:
                what = _walk(rows, extents, extent, last, first, at, at + 4 + size, settings, told)
                if what == 2:
                    break
                end = at + 4 + size
                reason = HALF_FRAME if told[0] and ended else NO_FRAME
                if told[0]:
                    end = min(end, extents[last - 1, E_END])
                gap = _gap(gaps, gap, direction, at - start, end - at, reason, response, rows, extents, extent, last)
                lost += 1
                at = end
                suspect = told[0] > 0
                continue
            end = extents[last - 1, E_END]
            gap = _gap(gaps, gap, direction, at - start, 1, NO_FRAME, response, rows, extents, extent, last)
            lost += 1
            at += 1
            mode = LOST
            lost_from = -1
            continue
        end = at + 4 + size
        what = _walk(rows, extents, extent, last, first, at, end, settings, told)
        if what == 2:
            break
        at_tail = told[0] > 0 and end > extents[last - 1, E_END]
        if at_tail and ended and not _is_snapped(rows, extents, last, first, extents[last - 1, E_END]):
            there = extents[last - 1, E_END] - at
            gap = _gap(gaps, gap, direction, at - start, there, HALF_FRAME, response, rows, extents, extent, last)
            lost += 1
            at = extents[last - 1, E_END]
            continue
        if what == 1:
            flags |= BROKEN
            suspect = True
            here = extent
            while here < last and extents[here, E_END] - at <= told[1]:
                here += 1
            reason = SNAPPED if _is_snapped(rows, extents, here, first, at + told[1]) else LOST_BYTES
            gap = _gap(gaps, gap, direction, at + told[1] - start, told[0], reason, response, rows, extents, here, last)
            lost += 1
        else:
            suspect = False
        _frame(frames, frame, connection, response, at, start, size, rows, extents, extent, told, flags)
        if response:
            frames[frame, F_CORRELATION] = correlation
        elif not flags & TOKEN:
            if parsed[P_API] >= 0:
                frames[frame, F_API] = parsed[P_API]
                frames[frame, F_VERSION] = parsed[P_VERSION]
                frames[frame, F_CORRELATION] = parsed[P_CORRELATION]
                frames[frame, F_ID_LENGTH] = (
                    parsed[P_ID_LENGTH] if parsed[P_ID_LENGTH] <= frames[frame, F_HAVE] - 10 else -2
                )
                if parsed[P_NO_REPLY]:
                    frames[frame, F_FLAGS] |= NO_REPLY
            if parsed[P_STRICT]:
                known_hash = parsed[P_HASH]
                if parsed[P_API] == SASL_HANDSHAKE and parsed[P_VERSION] == 0:
                    sasl = 1
                    sasl_id = parsed[P_HASH]
        frame += 1
        seen += 1
        at = end
    connections[connection, base + AT] = at
    connections[connection, base + MODE] = mode
    connections[connection, base + ID_HASH] = known_hash
    connections[connection, base + LOST_FROM] = lost_from
    connections[connection, base + FRAMES] += seen
    connections[connection, base + GAPS] += lost
    if response == 0:
        connections[connection, SASL] = sasl
        connections[connection, SASL_ID] = sasl_id
    return True, frame, gap


# --------------------------------------------------------------------------------------- which side, which protocol


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
            address, got = _peek(buf, extents, first, bounds[2 * side + 1], extents[first, E_OFFSET], 5, scratch)
            if _is_tls(address, got):
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
        address, got = _peek(buf, extents, first, last, at, PEEK, scratch)
        _parse(address, got, apis, parsed)
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
        found, where = _search(buf, extents, first, last, at, 0, 0, frames, 0, 0, apis, scratch, parsed)
        far = where - at + (1 << 40) if found == MAYBE else where - at
        if found != NOWHERE:
            address, got = _peek(buf, extents, first, last, where, PEEK, scratch)
            _parse(address, got, apis, parsed)
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
        found, where = _search(
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


# ---------------------------------------------------------------------------------------------------- calls


@device
def _call(calls, count, connection, request, response, frames):
    calls[count, CALL_CONNECTION] = connection
    calls[count, CALL_REQUEST] = request
    calls[count, CALL_RESPONSE] = response
    if request >= 0:
        frames[request, F_DONE] = 1
    if response >= 0:
        frames[response, F_DONE] = 1
    return count + 1


@device
def _match(frames, requests_from, requests_to, responses_to, connection, calls, call, flush, haste, is_clean):
    """Pair the requests of a connection with its responses, both in order; return the calls.

    A broker answers in order, and once for each request but Produce with acks=0. A SASL token without a header takes
    whatever comes next.
    """
    head = requests_from
    for response in range(requests_to, responses_to):
        found = -1
        correlation = frames[response, F_CORRELATION]
        steps = 0
        row = head
        while row < requests_to and steps < LOOK_AHEAD:
            flags = frames[row, F_FLAGS]
            if flags & TOKEN:
                found = row
                break
            if not flags & NO_REPLY:
                if correlation >= 0 and frames[row, F_CORRELATION] == correlation:
                    found = row
                    break
                steps += 1
            row += 1
        if found >= 0:
            for row in range(head, found):
                if not frames[row, F_DONE]:
                    call = _call(calls, call, connection, row, -1, frames)
            head = found + 1
            if frames[found, F_FLAGS] & TOKEN:
                frames[found, F_DONE] = 1
                frames[response, F_DONE] = 1
                frames[response, F_FLAGS] |= TOKEN
            else:
                call = _call(calls, call, connection, found, response, frames)
        elif flush or (is_clean and frames[response, F_FLAGS] & WAITED):
            call = _call(calls, call, connection, -1, response, frames)
    for row in range(head, requests_to):
        if frames[row, F_FLAGS] & TOKEN:
            if flush:
                frames[row, F_DONE] = 1
        elif flush or frames[row, F_FLAGS] & NO_REPLY or (haste and frames[row, F_FLAGS] & WAITED):
            call = _call(calls, call, connection, row, -1, frames)
    return call


@device
def _copied(frames, row, pending, source):
    for column in range(FRAME_COLUMNS):
        frames[row, column] = pending[source, column]
    frames[row, F_FLAGS] |= WAITED


@kernel(
    types.UniTuple(I64, 6)(
        BYTES, TABLE, INT64S, INT64S, OUT_TABLE, I64, I64, TABLE, OUT_TABLE, I64, OUT_TABLE, I64, OUT_TABLE, I64,
        OUT_TABLE, I64, TABLE, INT64S, INT64S, OUT_BYTES, OUT_INT64S, OUT_INT64S, OUT_INT64S,
    )
)  # fmt: skip
def cut_streams(
    buf, rows, order, starts, connections, connection, count, pending, extents, into, frames, frame, calls, call, gaps,
    gap, apis, ports, settings, scratch, parsed, told, bounds,
):  # fmt: skip
    """Do all connections from ``connection`` on; return (status, connection, extents, frames, calls, gaps)."""
    while connection < count:
        protocol = connections[connection, PROTOCOL]
        waits = connections[connection, PENDING_END] > connections[connection, PENDING_START]
        rows_here = starts[2 * connection + 2] - starts[2 * connection]
        if protocol in (TLS, OTHER) or (rows_here == 0 and not waits and not settings[S_FLUSH]):
            connection += 1
            continue
        end = into
        for side in range(2):
            base = SIDE + side * SIDE_COLUMNS
            bounds[2 * side] = end
            end = _extents(
                rows, order, starts[2 * connection + side], starts[2 * connection + side + 1],
                connections[connection, base + AT], connections[connection, base + MODE] != NEW, extents, end,
            )  # fmt: skip
            bounds[2 * side + 1] = end
        if protocol == UNDECIDED:
            _decide(buf, rows, extents, bounds, connections, connection, apis, ports, settings, scratch, parsed, frames)
            protocol = connections[connection, PROTOCOL]
        if protocol != KAFKA:
            connection += 1
            continue
        _begin(extents, bounds, connections, connection)
        waiting = connections[connection, PENDING_END] - connections[connection, PENDING_START]
        if frame + waiting + 8 > frames.shape[0]:
            return FRAMES_FULL, connection, into, frame, call, gap
        for column in range(2 * SIDE_COLUMNS):
            bounds[8 + column] = connections[connection, SIDE + column]
        sasl = connections[connection, SASL]
        sasl_id = connections[connection, SASL_ID]
        client = connections[connection, CLIENT]
        now_frame = frame
        now_gap = gap
        fits = True
        requests_to = frame
        for response in range(2):
            side = client if response == 0 else 1 - client
            for source in range(connections[connection, PENDING_START], connections[connection, PENDING_END]):
                if pending[source, F_RESPONSE] == response:
                    _copied(frames, now_frame, pending, source)
                    now_frame += 1
            fits, now_frame, now_gap = _cut_side(
                buf, rows, extents, bounds[2 * side], bounds[2 * side + 1], connections, connection, side, response,
                frames, now_frame, frame, requests_to, gaps, now_gap, apis, settings, scratch, parsed, told,
            )  # fmt: skip
            if not fits:
                break
            if response == 0:
                requests_to = now_frame
        if not fits or call + (now_frame - frame) + 1 > calls.shape[0]:
            for column in range(2 * SIDE_COLUMNS):
                connections[connection, SIDE + column] = bounds[8 + column]
            connections[connection, SASL] = sasl
            connections[connection, SASL_ID] = sasl_id
            return FRAMES_FULL, connection, into, frame, call, gap
        base = SIDE + client * SIDE_COLUMNS
        is_clean = (
            bounds[2 * client] == bounds[2 * client + 1]
            or connections[connection, base + AT] >= extents[bounds[2 * client + 1] - 1, E_END]
        )
        connections[connection, MET] = 1
        call = _match(
            frames,
            frame,
            requests_to,
            now_frame,
            connection,
            calls,
            call,
            settings[S_FLUSH],
            settings[S_HASTE],
            is_clean,
        )
        frame = now_frame
        gap = now_gap
        into = end
        connection += 1
    return DONE, connection, into, frame, call, gap


# --------------------------------------------------------------------------------------------------- copying


@kernel(types.void(BYTES, TABLE, TABLE, INT64S, I64, INT64S, OUT_BYTES))
def gather(buf, extents, frames, chosen, lead, starts, out):
    """Copy what ``starts`` has room for of each chosen frame, from ``lead`` bytes after its prefix on.

    Who calls has seen that so many bytes are there (F_HAVE).
    """
    for place in range(chosen.size):
        row = chosen[place]
        to = starts[place]
        size = starts[place + 1] - to
        if frames[row, F_PLACE] >= 0:
            copy_bytes(out, to, buf, frames[row, F_PLACE] + lead, size)
            continue
        extent = frames[row, F_FIRST]
        begin = frames[row, F_BEGIN]
        skip = 4 + lead  # the prefix may lie in more than one piece
        while size > 0:
            there = extents[extent, E_PLACE] + extents[extent, E_END] - extents[extent, E_OFFSET] - begin
            step = min(skip, there)
            skip -= step
            take = min(there - step, size)
            copy_bytes(out, to, buf, begin + step, take)
            to += take
            size -= take
            extent += 1
            begin = extents[extent, E_PLACE] if extent < extents.shape[0] else 0


@kernel(types.void(TABLE, INT64S, OUT_TABLE))
def take_frames(frames, chosen, out):
    """Write the columns of the chosen frames, each in a row of ``out``."""
    for place in range(chosen.size):
        row = chosen[place]
        for column in range(FRAME_COLUMNS):
            if row >= 0:
                out[column, place] = frames[row, column]
            else:
                out[column, place] = 0 if column in (F_FLAGS, F_MISSING) else -1


@kernel(types.void(BYTES, INT64S, INT64S, INT64S, OUT_TABLE, OUT_INT64S))
def summarise_records(buf, starts, sizes, owners, counts, cut):
    """Count the batches and messages of sets of records by format and codec, for each owner; nothing is decompressed.

    A row of ``counts`` has for each format (0 to 2) and codec (0 to 7) batches, records and bytes; messages inside a
    compressed one are not counted. ``cut``: sets that end inside a batch or message, as a Fetch may cut them, with
    enough of it to tell its format.
    """
    for place in range(starts.size):
        at = starts[place]
        end = at + sizes[place]
        owner = owners[place]
        while at < end:
            if end - at < BYTES_TO_MAGIC:  # Kafka does not look at so little either
                break
            size = load_i32(buf, at + SIZE_AT) + OVERHEAD_BYTES
            magic = load_u8(buf, at + MAGIC_AT)
            if magic > 2 or size < MIN_SIZE + OVERHEAD_BYTES or size > end - at:
                cut[owner] += 1
                break
            codec = (load_u8(buf, at + OLD_ATTRIBUTES_AT) if magic < 2 else load_u8(buf, at + ATTRIBUTES_AT + 1)) & 7
            column = (magic * 8 + codec) * 3
            if magic == 2 and size < V2_BYTES:
                cut[owner] += 1
                break
            counts[owner, column] += 1
            counts[owner, column + 1] += max(load_i32(buf, at + COUNT_AT), 0) if magic == 2 else 1
            counts[owner, column + 2] += size
            at += size


@kernel(types.void(BYTES, INT64S, INT64S, OUT_INT64S))
def whole_batches(buf, starts, sizes, wholes):
    """Tell for each set of records how many of its bytes are whole batches or messages."""
    for place in range(starts.size):
        at = starts[place]
        end = at + sizes[place]
        while end - at >= BYTES_TO_MAGIC:
            size = load_i32(buf, at + SIZE_AT) + OVERHEAD_BYTES
            magic = load_u8(buf, at + MAGIC_AT)
            if magic > 2 or size < MIN_SIZE + OVERHEAD_BYTES or size > end - at or (magic == 2 and size < V2_BYTES):
                break
            at += size
        wholes[place] = at - starts[place]


@kernel(types.void(BYTES, TABLE, OUT_BYTES))
def copy_pieces(buf, pieces, out):
    """Copy bytes: a row of ``pieces`` is where from, how many, where to."""
    for row in range(pieces.shape[0]):
        copy_bytes(out, pieces[row, 2], buf, pieces[row, 0], pieces[row, 1])
