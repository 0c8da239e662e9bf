"""Decide whether a Kafka request or response starts at an offset of a TCP stream (numba).

After a gap, and while the client side is unknown, a frame is accepted only if it is *proven*: its header and the bytes
after it rule out a coincidence (``_prove_request``, ``_prove_response``). No byte is read beyond the size that
``peek_bytes`` returns. ``_kernels_streams.py`` documents the arguments.
"""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import address_of, copy_bytes, load_i16, load_i32, load_u8

PRODUCE, CONTROLLED_SHUTDOWN, API_VERSIONS = 0, 7, 18
MAX_PEEKED_BYTES = (
    768  # largest number of bytes of a frame that are read: prefix, header, client id, and fields before acks
)
MAX_COMPARED_REQUESTS = 4096  # largest number of outstanding requests that a response is compared with
MAX_CORRELATION_ID_STEP = 1024  # largest distance between the correlation ids of successive responses in a proof
# Results of ``parse_request_start``.
P_API, P_VERSION, P_CORRELATION, P_ID_LENGTH, P_STRICT, P_LOOSE, P_HASH, P_NO_REPLY = range(8)
PROVEN, MAYBE, NOWHERE = range(3)


@device
def peek_bytes(buf, extents, extent, last, offset, max_bytes, scratch):
    """Return (address, number of bytes) of up to ``max_bytes`` contiguous stream bytes from ``offset`` on."""
    while extent < last and extents[extent, layout.E_END] <= offset:
        extent += 1
    if extent == last or extents[extent, layout.E_OFFSET] > offset:
        return 0, 0
    source = extents[extent, layout.E_END] - offset
    address = address_of(buf) + extents[extent, layout.E_POSITION] + (offset - extents[extent, layout.E_OFFSET])
    if (
        source >= max_bytes
        or extent + 1 == last
        or extents[extent + 1, layout.E_OFFSET] > extents[extent, layout.E_END]
    ):
        return address, min(source, max_bytes)
    byte_count = 0
    target = address_of(scratch)
    while extent < last and byte_count < max_bytes and extents[extent, layout.E_OFFSET] <= offset + byte_count:
        skip = offset + byte_count - extents[extent, layout.E_OFFSET]
        size = min(extents[extent, layout.E_END] - extents[extent, layout.E_OFFSET] - skip, max_bytes - byte_count)
        copy_bytes(target, byte_count, address_of(buf), extents[extent, layout.E_POSITION] + skip, size)
        byte_count += size
        extent += 1
    return target, byte_count


@device
def _hash_client_id(at, size):
    """Return the hash of a client id: 0 if it is empty, -1 if it contains control characters."""
    value = 1469598103934665603
    for index in range(size):
        byte = load_u8(at, index)
        if byte < 0x20 or byte == 0x7F:
            return -1
        value = (value ^ byte) * 1099511628211
    return (value & 0x7FFFFFFFFFFFFFF) | 1 if size else 0


@device
def parse_request_start(address, byte_count, apis, header):
    """Parse the start of a request from its size prefix on, and write whether it is a valid Kafka request."""
    header[P_STRICT] = 0
    header[P_LOOSE] = 0
    header[P_NO_REPLY] = 0
    header[P_HASH] = 0
    header[P_ID_LENGTH] = -2
    header[P_API] = -1
    if byte_count < 12:
        return
    size = load_i32(address, 0)
    api = load_i16(address, 4)
    version = load_i16(address, 6)
    correlation = load_i32(address, 8)
    header[P_API] = api
    header[P_VERSION] = version
    header[P_CORRELATION] = correlation
    is_known_api = 0 <= api < apis.shape[0] and apis[api, layout.API_HIGHEST] >= 0
    valid = is_known_api and (
        apis[api, layout.API_LOWEST] <= version <= apis[api, layout.API_HIGHEST]
        or (api == API_VERSIONS and 0 <= version < 128)
    )
    in_range = 8 <= size <= layout.MAX_REQUEST_BYTES and api >= 0 and version >= 0
    if api == CONTROLLED_SHUTDOWN and version == 0:
        header[P_LOOSE] = 1 if in_range else 0
        header[P_STRICT] = header[P_LOOSE]
        return
    if byte_count < 14 or size < 10:
        return
    length = load_i16(address, 12)
    if length < -1 or length > size - 10:
        return
    id_hash = _hash_client_id(address + 14, min(max(length, 0), byte_count - 14))
    if id_hash < 0 or not in_range:
        return
    header[P_ID_LENGTH] = length
    header[P_HASH] = id_hash
    header[P_LOOSE] = 1
    header[P_STRICT] = 1 if valid and correlation >= 0 else 0
    if api == PRODUCE and valid:
        header[P_NO_REPLY] = (
            1
            if _read_acks(address, byte_count, 14 + max(length, 0), version, apis[api, layout.API_FLEXIBLE]) == 0
            else 0
        )


@device
def _read_acks(address, byte_count, at, version, flexible_since):
    """Return the acks of a Produce request, -1 if they are not in the available bytes."""
    flexible = version >= flexible_since
    if flexible:
        tags = load_u8(address, at) if at < byte_count else 1
        if tags:
            return -1
        at += 1
    if version >= 3:
        if flexible:
            if at >= byte_count:
                return -1
            size = load_u8(address, at)
            if size >= 0x80:
                return -1
            at += 1 + max(size - 1, 0)
        else:
            if at + 2 > byte_count:
                return -1
            at += 2 + max(load_i16(address, at), 0)
    return load_i16(address, at) if at + 2 <= byte_count else -1


@device
def _is_end(extents, extent, last, offset):
    """Return whether a segment ends at ``offset``, in ``extent`` or a later extent."""
    while extent < last and extents[extent, layout.E_END] < offset:
        extent += 1
    return extent < last and extents[extent, layout.E_END] == offset


@device
def _prove_request(buf, extents, extent, last, at, known_hash, apis, scratch, header):
    """Return PROVEN if a request starts at ``at``, MAYBE if its end is not captured yet, else NOWHERE.

    The header must have an existing API and version and a printable client id. In addition, the client id must be the
    known one of this connection, or the frame must end at the end of a segment, or another header with the same client
    id must follow. Records can look like a Produce request of version 0 without a client id, but only within the
    request that contains them.
    """
    address, got = peek_bytes(buf, extents, extent, last, at, MAX_PEEKED_BYTES, scratch)
    if got < 14 or load_u8(address, 0) > 6:
        return NOWHERE
    parse_request_start(address, got, apis, header)
    if not header[P_STRICT]:
        return NOWHERE
    if known_hash > 0 and header[P_HASH] == known_hash:
        return PROVEN
    end = at + 4 + load_i32(address, 0)
    if end > extents[last - 1, layout.E_END]:
        return MAYBE
    if extents[extent, layout.E_OFFSET] == at and _is_end(extents, extent, last, end):
        return PROVEN
    own_hash = header[P_HASH]
    # The length is also compared, since a cut client id may have the hash of an empty client id.
    own_length = header[P_ID_LENGTH]
    address, got = peek_bytes(buf, extents, extent, last, end, MAX_PEEKED_BYTES, scratch)
    parse_request_start(address, got, apis, header)
    is_same = header[P_HASH] == own_hash and header[P_ID_LENGTH] == own_length
    return PROVEN if header[P_STRICT] and is_same else NOWHERE


@device
def is_outstanding(frames, first, last, correlation):
    """Return whether a request with this correlation id waits for its response."""
    for row in range(first, min(last, first + MAX_COMPARED_REQUESTS)):
        if frames[row, layout.F_CORRELATION] == correlation and not frames[row, layout.F_FLAGS] & layout.TOKEN:
            return True
    return False


@device
def _prove_response(buf, extents, extent, last, at, frames, first, requests, scratch):
    """Return PROVEN if a response starts at ``at``, MAYBE if its end is not captured yet, else NOWHERE.

    The correlation id must be that of an outstanding request. Otherwise the response and the ones after it must have
    ascending correlation ids, up to that of an outstanding request or up to the end of a segment.
    """
    offset = at
    before = -1
    here = extent
    matches = 0
    for step in range(3):
        address, got = peek_bytes(buf, extents, here, last, offset, 8, scratch)
        if got < 8:
            break
        size = load_i32(address, 0)
        correlation = load_i32(address, 4)
        if size < 4 or correlation < 0 or size > layout.MAX_REQUEST_BYTES * 2:
            return NOWHERE
        if before >= 0 and not before < correlation <= before + MAX_CORRELATION_ID_STEP:
            return NOWHERE
        end = offset + 4 + size
        waits = is_outstanding(frames, first, requests, correlation)
        if not waits and step == 0 and extents[extent, layout.E_OFFSET] != at:
            return NOWHERE
        if (
            not waits
            and requests > first
            and not -(1 << 20) < correlation - frames[first, layout.F_CORRELATION] < 1 << 20
        ):
            return NOWHERE
        if end > extents[last - 1, layout.E_END]:
            return MAYBE
        if waits and (step or _is_end(extents, here, last, end)):
            return PROVEN
        if step and extents[extent, layout.E_OFFSET] == at and _is_end(extents, here, last, end):
            return PROVEN
        if requests > first and extents[extent, layout.E_OFFSET] == at and _is_end(extents, here, last, end):
            return PROVEN
        before = correlation
        offset = end
        matches += 1
        while here < last and extents[here, layout.E_END] <= offset:
            here += 1
    is_chain = matches == 3 or (before >= 0 and offset == extents[last - 1, layout.E_END])
    return PROVEN if is_chain and extents[extent, layout.E_OFFSET] == at else NOWHERE


@device
def find_proven_frame(
    buf, extents, extent, last, at, response, known_hash, frames, first, requests, apis, scratch, header
):
    """Return (PROVEN, offset) of the next proven frame, (MAYBE, offset) of a possible one, or (NOWHERE, end)."""
    maybe = -1
    while extent < last:
        start = max(at, extents[extent, layout.E_OFFSET])
        for offset in range(start, extents[extent, layout.E_END]):
            if response:
                proof = _prove_response(buf, extents, extent, last, offset, frames, first, requests, scratch)
            else:
                proof = _prove_request(buf, extents, extent, last, offset, known_hash, apis, scratch, header)
            if proof == PROVEN:
                return PROVEN, offset
            if proof == MAYBE and maybe < 0 and offset == extents[extent, layout.E_OFFSET]:
                maybe = offset
        extent += 1
    return (MAYBE, maybe) if maybe >= 0 else (NOWHERE, extents[last - 1, layout.E_END])


@device
def is_tls(address, got):
    """Return whether the bytes start with a TLS record (RFC 8446, 5.1)."""
    if got < 5 or not 0x14 <= load_u8(address, 0) <= 0x17 or load_u8(address, 1) != 3 or load_u8(address, 2) > 4:
        return False
    return (load_i16(address, 3) & 0xFFFF) <= 18432
