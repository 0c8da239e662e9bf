"""Pair the requests of a connection with its responses (numba)."""

from __future__ import annotations

from kafkaframes.capture import layout
from kafkaframes.capture._kernels_proofs import LOOK_AHEAD
from kafkaframes.wire._jit import device


@device
def _call(calls, count, connection, request, response, frames):
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
    """Pair the requests of a connection with its responses, both in order; return the calls.

    A broker answers in order, and once for each request but Produce with acks=0. A SASL token without a header takes
    whatever comes next.
    """
    head = requests_from
    for response in range(requests_to, responses_to):
        found = -1
        correlation = frames[response, layout.F_CORRELATION]
        steps = 0
        row = head
        while row < requests_to and steps < LOOK_AHEAD:
            flags = frames[row, layout.F_FLAGS]
            if flags & layout.TOKEN:
                found = row
                break
            if not flags & layout.NO_REPLY:
                if correlation >= 0 and frames[row, layout.F_CORRELATION] == correlation:
                    found = row
                    break
                steps += 1
            row += 1
        if found >= 0:
            for row in range(head, found):
                if not frames[row, layout.F_DONE]:
                    call = _call(calls, call, connection, row, -1, frames)
            head = found + 1
            if frames[found, layout.F_FLAGS] & layout.TOKEN:
                frames[found, layout.F_DONE] = 1
                frames[response, layout.F_DONE] = 1
                frames[response, layout.F_FLAGS] |= layout.TOKEN
            else:
                call = _call(calls, call, connection, found, response, frames)
        elif flush or (is_clean and frames[response, layout.F_FLAGS] & layout.WAITED):
            call = _call(calls, call, connection, -1, response, frames)
    for row in range(head, requests_to):
        if frames[row, layout.F_FLAGS] & layout.TOKEN:
            if flush:
                frames[row, layout.F_DONE] = 1
        elif (
            flush
            or frames[row, layout.F_FLAGS] & layout.NO_REPLY
            or (haste and frames[row, layout.F_FLAGS] & layout.WAITED)
        ):
            call = _call(calls, call, connection, row, -1, frames)
    return call


@device
def copy_waiting(frames, into, pending, first, last, response):
    """Copy the requests, or the responses, that wait since passes before; return where the rows end."""
    for source in range(first, last):
        if pending[source, layout.F_RESPONSE] == response:
            for column in range(layout.FRAME_COLUMNS):
                frames[into, column] = pending[source, column]
            frames[into, layout.F_FLAGS] |= layout.WAITED
            into += 1
    return into
