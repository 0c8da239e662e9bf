"""Reassembly equals the reference for split, reordered, repeated, overlapping, lost and truncated segments."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.capture.conversation import CLIENT, SERVER, Tape, build_streams
from tests.capture.reference import Frame, Side

from kafkaframes.capture.container import build_file_header
from kafkaframes.capture.layout import (
    CALL_REQUEST,
    CALL_RESPONSE,
    F_HAVE,
    F_OFFSET,
    F_RESPONSE,
    F_SIZE,
)
from kafkaframes.capture.packets import PacketReader
from kafkaframes.capture.streams import Streams

STREAMS = build_streams(rounds=3)[:2]
SIDES = st.sampled_from((CLIENT, SERVER))
SIZES = st.one_of(st.integers(1, 30), st.integers(1, 400))
WINDOWS = (200, 1500, 1 << 20)


def read_frames(files, window_bytes):
    """Return the reader's frames with their bytes."""
    data_by_frame = {}
    for progress in Streams(PacketReader(files, window_bytes=window_bytes), ports=(9092,)):
        for call in progress.calls:
            for row in (int(call[CALL_REQUEST]), int(call[CALL_RESPONSE])):
                if row < 0:
                    continue
                facts = progress.frames[row]
                frame = Frame(*(int(facts[column]) for column in (F_RESPONSE, F_OFFSET, F_SIZE, F_HAVE)))
                assert frame not in data_by_frame, "given twice"
                data_by_frame[frame] = progress.copy_frame_bytes(np.array([row]))[0][: frame.have].tobytes()
    return data_by_frame


class Reassembly(RuleBasedStateMachine):
    """Two sides send data. The recorded part and its order are random."""

    @initialize(initial=st.sampled_from((0, 2**32 - 300)))
    def begin(self, initial):
        self.tape = Tape(initial=initial)
        self.files = []
        self.sides = [Side(side, stream) for side, stream in enumerate(STREAMS)]
        self.sent_sizes = [0, 0]
        self.held_segments = []
        self.snapped_ranges = [set(), set()]

    def take(self, side, size):
        start = self.sent_sizes[side]
        self.sent_sizes[side] = min(start + size, len(STREAMS[side]))
        return start, self.sent_sizes[side]

    def record(self, side, start, end, captured_size=None):
        if start < end:
            self.tape.segment(side, start, STREAMS[side][start:end], captured_bytes=captured_size)
            self.sides[side].add(start, end if captured_size is None else start + captured_size)

    @rule(side=SIDES, size=SIZES)
    def send(self, side, size):
        self.record(side, *self.take(side, size))

    @rule(side=SIDES, size=SIZES)
    def hold(self, side, size):
        self.held_segments.append((side, *self.take(side, size)))

    @rule(index=st.integers(0, 5))
    def release(self, index):
        if index < len(self.held_segments):
            self.record(*self.held_segments.pop(index))

    @rule(side=SIDES, size=SIZES)
    def lose(self, side, size):
        self.take(side, size)

    @rule(side=SIDES, back=st.integers(1, 500), size=SIZES)
    def repeat(self, side, back, size):
        start = max(self.sent_sizes[side] - back, 0)
        end = min(start + size, self.sent_sizes[side])
        # A reader does not wait for a retransmission of truncated bytes.
        if self.snapped_ranges[side].isdisjoint(range(start, end)):
            self.record(side, start, end)

    @rule(side=SIDES, size=SIZES, captured_size=st.integers(0, 60))
    def snap(self, side, size, captured_size):
        start, end = self.take(side, size)
        self.record(side, start, end, min(captured_size, end - start))
        self.snapped_ranges[side].update(range(start + captured_size, end))

    @rule()
    def rotate(self):
        self.files.append(b"".join(self.tape.parts))
        self.tape.parts = [build_file_header("test")]

    def teardown(self):
        if not hasattr(self, "tape"):
            return
        for segment in self.held_segments:
            self.record(*segment)
        for side in (CLIENT, SERVER):
            while self.sent_sizes[side] < len(STREAMS[side]):
                self.record(side, *self.take(side, 300))
        self.rotate()
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"x{number}.pcapng" for number in range(len(self.files))]
            for path, data in zip(paths, self.files, strict=True):
                path.write_bytes(data)
            for window in WINDOWS:
                self.compare(read_frames([str(path) for path in paths], window), window)

    def compare(self, data_by_frame, window):
        client, server = self.sides
        for frame, data in data_by_frame.items():
            start = frame.offset + 4
            assert data == STREAMS[frame.side][start : start + frame.have], frame
        sent_frames = {frame for side in self.sides for frame in side.frames()}
        whole = {frame for frame in data_by_frame if frame.have == frame.size}
        assert whole <= sent_frames, "a frame that was not sent"
        requests = client.numbers() if window == WINDOWS[-1] else set()  # otherwise they may follow in a later window
        must = {*client.certain(), *server.certain(requests)}
        assert must <= data_by_frame.keys(), "a frame is missing, or has more or fewer bytes"
        if all(side.there.issuperset(range(len(side.stream))) for side in self.sides):
            assert data_by_frame.keys() == sent_frames


TestReassembly = Reassembly.TestCase
TestReassembly.settings = settings(stateful_step_count=40)
