"""IP fragments in any order, overlapping, too many: complete datagrams, with work and memory bounded by a datagram."""

from __future__ import annotations

import random
import struct

import pytest
from tests.capture.steps import count_executed_lines

from kafkaframes.capture.packets import MAX_DATAGRAMS, Defragmenter


def build_fragment(data, offset, more, number=1):
    flags = offset // 8 | (0x2000 if more else 0)
    return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(data), number, flags, 64, 6, 0, 1, 2) + data


def cut_pieces(data, sizes):
    at, pieces = 0, []
    for size in sizes:
        pieces.append((data[at : at + size], at, at + size < len(data)))
        at += size
    return pieces


@pytest.mark.parametrize("seed", range(20))
def test_fragments_are_reassembled_in_any_order_with_repeats_and_overlaps(seed):
    rng = random.Random(seed)
    data = rng.randbytes(rng.randrange(100, 3000))
    pieces = cut_pieces(data, [8 * rng.randrange(1, 20) for _ in range(400)])
    pieces = [piece for piece in pieces if piece[0]]
    for _ in range(5):
        start, size = 8 * rng.randrange(len(data) // 8), 8 * rng.randrange(1, 10)
        pieces.append((data[start : start + size], start, start + size < len(data)))
    rng.shuffle(pieces)
    whole = Defragmenter()
    datagrams = [datagram for piece in pieces if (datagram := whole.add(build_fragment(*piece))) is not None]
    assert datagrams[0][20:] == data


def test_the_work_is_linear_in_the_number_of_fragments():
    """With 8,192 fragments of 8 bytes, and the last one first, each is inserted directly, without a second pass."""

    def add_fragments(count):
        pieces = cut_pieces(bytes(8 * count), [8] * count)
        entry = Defragmenter()
        for piece in reversed(pieces[1:]):
            entry.add(build_fragment(*piece))

    few, many = (count_executed_lines(lambda count=count: add_fragments(count)) / count for count in (250, 4000))
    assert many < 1.2 * few


def test_memory_is_bounded_by_the_size_of_datagrams():
    """The test adds overlapping fragments of 60,000 bytes, for more datagrams than can be pending."""
    entry = Defragmenter()
    for number in range(MAX_DATAGRAMS + 50):
        for offset in range(8, 80, 8):
            entry.add(build_fragment(bytes(6000), offset, True, number))
    assert len(entry.waiting) <= MAX_DATAGRAMS
    assert all(len(one.payload) + len(one.received_units) < 70_000 for one in entry.waiting.values())


def test_a_truncated_fragment_is_not_complete():
    entry = Defragmenter()
    assert entry.add(build_fragment(bytes(21), 0, True)) is None
    assert entry.add(build_fragment(bytes(8), 24, False)) is None
