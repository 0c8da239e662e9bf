"""TCP streams: a known conversation split, reordered, repeated, overlapping and with holes at every byte."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.capture.conversation import CLIENT, SERVER, Tape, build_streams

from kafkaframes.capture.reader import CaptureOptions, read_capture

ASKED, ANSWERED, KNOWN = build_streams()
COLUMNS = (
    "apiKey", "apiVersion", "correlationId", "requestSizeBytes", "responseSizeBytes", "requestOffset",
    "responseOffset", "requestState", "responseState",
)  # fmt: skip
BYTE_STEP = 7


def read_rows(path, **options):
    rows = read_capture(path, CaptureOptions(columns=COLUMNS, **options)).read_all().to_pylist()
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def expected_rows():
    return sorted(
        (
            key,
            version,
            number,
            request_size,
            response_size,
            at,
            None if response_size is None else place,
            "whole",
            "none" if response_size is None else "whole",
        )
        for key, version, number, request_size, response_size, at, place in KNOWN
    )


def both(path, tape, **options):
    return sorted(read_rows(tape.write(path), **options), key=lambda row: row[2])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.pcapng"


def by_number(rows):
    return sorted(rows, key=lambda row: row[2])


def test_a_stream_can_be_split_at_every_byte(path):
    for cut_at in range(0, len(ASKED), 3):
        tape = Tape().segment(CLIENT, 0, ASKED[:cut_at]).segment(CLIENT, cut_at, ASKED[cut_at:])
        back = min(cut_at, len(ANSWERED))
        tape.segment(SERVER, 0, ANSWERED[:back]).segment(SERVER, back, ANSWERED[back:])
        assert both(path, tape) == by_number(expected_rows()), cut_at


def test_single_byte_segments_and_wrapping_sequence_numbers_are_read(path):
    tape = Tape(initial=2**32 - 60)
    for at in range(len(ASKED)):
        tape.segment(CLIENT, at, ASKED[at : at + 1])
    for at in range(len(ANSWERED)):
        tape.segment(SERVER, at, ANSWERED[at : at + 1])
    assert both(path, tape) == by_number(expected_rows())
    assert both(path, tape, window_bytes=2000) == by_number(expected_rows())


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_reordered_repeated_and_overlapping_segments_are_read(tmp_path_factory, data):
    """The segments cover the stream in any order, with any overlap, some of them twice."""
    path = tmp_path_factory.mktemp("mixed") / "x.pcapng"
    pieces = []
    for side, stream in ((CLIENT, ASKED), (SERVER, ANSWERED)):
        at = 0
        while at < len(stream):
            size = data.draw(st.integers(1, 120))
            back = data.draw(st.integers(0, min(at, 40)))
            pieces.append((side, at - back, stream[at - back : at + size]))
            at += size
    pieces += data.draw(st.lists(st.sampled_from(pieces), max_size=5))
    tape = Tape()
    for piece in data.draw(st.permutations(pieces)):
        tape.segment(*piece)
    assert both(path, tape) == by_number(expected_rows())


@pytest.mark.parametrize("size", [1, 5, 60])
@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_hole_at_every_byte_loses_only_its_calls_and_adds_none(path, side, size):
    """Calls outside the hole are complete, and each complete call was sent."""
    stream = (ASKED, ANSWERED)[side]
    for at in range(0, len(stream) - size, BYTE_STEP):
        tape = Tape()
        for one, data in ((CLIENT, ASKED), (SERVER, ANSWERED)):
            if one != side:
                tape.segment(one, 0, data)
                continue
            tape.segment(one, 0, data[:at])
            edges = _frame_edges(data, at + size)
            for start, end in pairwise(edges):
                tape.segment(one, start, data[start:end])
        rows = read_rows(tape.write(path))
        whole = {row for row in rows if row[7] == "whole" and row[8] in ("whole", "none")}
        assert whole <= set(expected_rows()), at
        for call in KNOWN:
            begins, length = (call[5], call[3]) if side == CLIENT else (call[6], call[4] or -4)
            is_touched = begins < at + size and at < begins + length + 4
            if not is_touched:
                assert any(row[2] == call[2] and row[7] == "whole" for row in rows), (at, call)


def _frame_edges(stream, start):
    """Return the frame boundaries from ``start`` on, as a sender writes them."""
    edges, at = [], 0
    while at < len(stream):
        if at > start:
            edges.append(at)
        at += 4 + int.from_bytes(stream[at : at + 4], "big")
    return [start, *edges, len(stream)]


def test_a_connection_that_began_before_the_capture_is_read(path):
    """Without a SYN and with half of the first frame, the frames after it are found."""
    for lost_size in range(1, KNOWN[0][3], 5):
        tape = Tape(opening=False)
        edges = _frame_edges(ASKED, lost_size)
        for start, end in pairwise(edges):
            tape.segment(CLIENT, start, ASKED[start:end])
        tape.segment(SERVER, 0, ANSWERED)
        numbers = {row[2] for row in read_rows(tape.write(path)) if row[7] == "whole"}
        assert numbers == {call[2] for call in KNOWN[1:]}, lost_size


def test_a_capture_of_one_direction_is_read(path):
    assert [row[:4] for row in by_number(read_rows(Tape().segment(CLIENT, 0, ASKED).write(path)))] == [
        call[:4] for call in KNOWN
    ]
    answers = read_rows(Tape().segment(SERVER, 0, ANSWERED).write(path))
    assert {row[2] for row in answers} == {call[2] for call in KNOWN if call[4] is not None}
    assert all(row[7] == "missing" and row[0] is None for row in answers)


@pytest.mark.parametrize("there", [14, 17, 10_000])
def test_records_after_a_hole_are_not_a_request(path, there):
    """A batch at offset 0 looks like Produce 0 without a client id, and ends with its request.

    The next request has ``there`` available bytes, which may end before its client ID.
    """
    (produce,) = [call for call in KNOWN if call[2] == 102]
    for lost_size in range(produce[5] + 1, produce[5] + 60):
        end = produce[5] + 4 + produce[3] + there
        rows = read_rows(Tape().segment(CLIENT, lost_size, ASKED[lost_size:end]).write(path), ports=(9092,))
        assert {row for row in rows if row[7] == "whole"} <= {(*row[:4], None, *row[5:]) for row in see_alone()}, (
            lost_size
        )


def see_alone():
    """Return the requests as seen without responses, and without the requests before them."""
    return [(*row[:6], None, "whole", "none" if row[8] == "none" else "missing") for row in expected_rows()]
