"""Pair the requests of a connection with its responses (numba)."""

from __future__ import annotations

from kafkaframes.capture._kernels_proofs import LOOK_AHEAD
from kafkaframes.capture.layout import (
    CALL_CONNECTION,
    CALL_REQUEST,
    CALL_RESPONSE,
    F_CORRELATION,
    F_DONE,
    F_FLAGS,
    F_RESPONSE,
    FRAME_COLUMNS,
    NO_REPLY,
    TOKEN,
    WAITED,
)
from kafkaframes.wire._jit import device


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
def match_calls(frames, requests_from, requests_to, responses_to, connection, calls, call, flush, haste, is_clean):
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
def copy_waiting(frames, into, pending, first, last, response):
    """Copy the requests, or the responses, that wait since passes before; return where the rows end."""
    for source in range(first, last):
        if pending[source, F_RESPONSE] == response:
            for column in range(FRAME_COLUMNS):
                frames[into, column] = pending[source, column]
            frames[into, F_FLAGS] |= WAITED
            into += 1
    return into
