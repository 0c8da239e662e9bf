"""Files of many blocks, blocks of any size, false lengths: the work is linear and memory bounded."""

from __future__ import annotations

import struct

import pytest
from tests.capture.conversation import CLIENT, Tape, build_streams
from tests.capture.steps import count_copied_bytes, count_executed_lines

from kafkaframes.capture import container, packets
from kafkaframes.capture.container import build_file_header
from kafkaframes.capture.packets import MAX_DAMAGE_ENTRIES, PacketReader
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.streams import Streams

SECTION = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
INTERFACE = struct.pack("<IIHHII", 1, 20, 101, 0, 0, 20)
OTHER_LINK = struct.pack("<IIHHII", 1, 20, 105, 0, 0, 20)
NO_PACKET = struct.pack("<III", 6, 12, 12)  # too short for its kind


def read_windows(path, window=packets.WINDOW_BYTES):
    reader = PacketReader([str(path)], window_bytes=window)
    for _ in reader:
        pass
    return reader


def write_capture_file(tmp_path, *parts):
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.parametrize(
    "blocks",
    [[INTERFACE], [SECTION], [SECTION, INTERFACE], [INTERFACE, NO_PACKET], [SECTION + INTERFACE * 7]],
    ids=["interfaces", "sections", "sections with an interface", "damage between", "sections with interfaces"],
)
def test_the_work_is_linear_in_the_number_of_blocks(blocks, tmp_path, monkeypatch):
    """Steps and copied bytes per block are the same for few and for many blocks; no block copies the data after it."""
    copied_sizes = []
    read_block = container.read_block

    def count_copied(walk, block, *rest):
        copied_sizes.append(len(block) if isinstance(block, bytes) else 0)
        return read_block(walk, block, *rest)

    monkeypatch.setattr(packets, "read_block", count_copied)
    lines = []
    for count in (500, 8000):
        path = write_capture_file(tmp_path, SECTION, INTERFACE, *(blocks * count))
        bytes_joined = count_copied_bytes(monkeypatch, lambda path=path: read_windows(path))
        lines.append(count_executed_lines(lambda path=path: read_windows(path)) / count)
        assert bytes_joined < 8 * path.stat().st_size + 10_000
    assert lines[1] < 1.1 * lines[0]
    assert sum(copied_sizes) == 0


def test_packets_of_the_last_interface_are_read(tmp_path):
    """The section has the maximum number of interfaces, and the memory is proportional."""
    requests, _, calls = build_streams()
    tape = Tape().segment(CLIENT, 0, requests)
    interfaces = 70_000
    blocks = b"".join(tape.parts)[len(build_file_header("test")) :]
    numbered_blocks, at = bytearray(blocks), 0
    while at < len(blocks):
        struct.pack_into("<I", numbered_blocks, at + 8, interfaces - 1)
        at += struct.unpack_from("<I", blocks, at + 4)[0]
    head = struct.pack("<HHI", 101, 0, 0) + struct.pack("<HHB3x", 9, 1, 9)
    nanoseconds = struct.pack("<II", 1, len(head) + 12) + head + struct.pack("<I", len(head) + 12)
    path = write_capture_file(tmp_path, SECTION, INTERFACE * (interfaces - 1), nanoseconds, numbered_blocks)
    rows = read_capture(str(path), CaptureOptions(columns=("correlationId",))).read_all()
    assert set(rows.column(0).to_pylist()) == {call[2] for call in calls}


@pytest.mark.parametrize("window", [300, 4096, 1 << 20])
@pytest.mark.parametrize("option_bytes", [100, 5000, 3 << 20])
def test_a_block_larger_than_a_window_is_read(window, option_bytes, tmp_path):
    """Comments of sections and interfaces can be long."""
    requests, _, calls = build_streams()
    comment = struct.pack("<HH", 2, 0) * (option_bytes // 4)
    size = len(comment) + 28
    section = struct.pack("<IIIHHq", 0x0A0D0D0A, size, 0x1A2B3C4D, 1, 0, -1) + comment + struct.pack("<I", size)
    tape = Tape().segment(CLIENT, 0, requests)
    path = write_capture_file(tmp_path, section, b"".join(tape.parts)[_section_bytes() :])
    options = CaptureOptions(columns=("correlationId",), window_bytes=window)
    rows = read_capture(str(path), options).read_all()
    assert set(rows.column(0).to_pylist()) == {call[2] for call in calls}


def _section_bytes():
    return struct.unpack_from("<I", build_file_header("test"), 4)[0]


@pytest.mark.parametrize("kind", [0x0A0D0D0A, 1, 6, 77])
@pytest.mark.parametrize("size", [0, 8, 13, 1 << 20, 1 << 24, (1 << 24) + 8192, 0x7FFFFFFC, 0xFFFFFFFC])
def test_a_false_length_ends_the_file_and_is_reported(kind, size, tmp_path):
    """The test covers every end of the window and several stated lengths."""
    requests, _, calls = build_streams()
    lie = struct.pack("<IIIHH", kind, size, 0x1A2B3C4D, 1, 0)
    tape = Tape().segment(CLIENT, 0, requests)
    path = write_capture_file(tmp_path, *tape.parts, lie, b"\xee" * 3000)
    for window in (300, 2000, 1 << 20):
        capture = read_capture(str(path), CaptureOptions(columns=("correlationId",), window_bytes=window))
        assert set(capture.read_all().column(0).to_pylist()) == {call[2] for call in calls}
        assert capture.coverage.unread


def test_unsupported_links_are_reported_for_every_section(tmp_path):
    packet = struct.pack("<IIIIIII", 6, 36, 0, 0, 0, 4, 4) + b"wifi" + struct.pack("<I", 36)
    path = write_capture_file(tmp_path, SECTION, OTHER_LINK, packet, packet, SECTION, INTERFACE)
    (entry,) = read_windows(path).unread
    assert (entry.reason, entry.packets, entry.size_bytes) == ("link type 105 (IEEE 802.11) is not read", 2, 8)
    without_packets = write_capture_file(tmp_path, SECTION, OTHER_LINK, SECTION, INTERFACE)
    assert not read_windows(without_packets).unread


def test_the_list_of_damage_is_bounded(tmp_path):
    empty = struct.pack("<III", 5, 12, 12)
    path = write_capture_file(tmp_path, SECTION, INTERFACE, (NO_PACKET + empty) * (2 * MAX_DAMAGE_ENTRIES))
    problems = read_windows(path).unread
    assert len(problems) == MAX_DAMAGE_ENTRIES
    assert problems[-1].reason == "further damage, which is not listed"


@pytest.mark.parametrize("segment_bytes", [40, 1000])
def test_small_files_of_a_ring_share_windows(segment_bytes, tmp_path):
    """Data that wait for the rest of a frame are copied once per window, not once per file. The rows are those of
    one file.
    """
    requests, _, calls = build_streams()
    requests *= 20
    files = []
    tape = Tape()
    for number, at in enumerate(range(0, len(requests), segment_bytes)):
        tape.segment(CLIENT, at, requests[at : at + segment_bytes])
        path = tmp_path / f"ring.pcapng{number}"
        path.write_bytes(b"".join([build_file_header("test"), *tape.parts[1:]]))
        tape.parts = tape.parts[:1]
        files.append(str(path))
    assert sum(1 for _ in Streams(PacketReader(files))) == 2
    for window in (100, 2000, 1 << 20):
        options = CaptureOptions(columns=("correlationId", "file"), window_bytes=window)
        rows = read_capture(files, options).read_all().to_pylist()
        starts = [(call[2], call[5] + len(requests) // 20 * turn) for turn in range(20) for call in calls]
        expected_calls = [(number, files[start // segment_bytes]) for number, start in starts]
        assert sorted((row["correlationId"], row["file"]) for row in rows) == sorted(expected_calls)


def test_a_full_table_of_rows_loses_no_file(tmp_path, monkeypatch):
    requests, _, calls = build_streams()
    files = []
    for number in range(40):
        path = tmp_path / f"x{number}.pcapng"
        tape = Tape(initial=number << 20)
        for at in range(0, len(requests), 10):
            tape.segment(CLIENT, at, requests[at : at + 10])
        tape.parts.append(tape.talk.build_close_packet(CLIENT, tape.time, reset=True))
        files.append(tape.write(path))
    monkeypatch.setattr(packets, "_ESTIMATED_PACKET_BYTES", 1 << 20)
    rows = read_capture(files, CaptureOptions(columns=("correlationId",))).read_all()
    assert rows.num_rows == 40 * len(calls)
