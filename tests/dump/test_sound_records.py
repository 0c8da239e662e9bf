"""The short way past sound batches finds what the long way finds, whatever byte is wrong."""

import gzip
import zlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes.dump import verify_segment
from kafkaframes.dump.sound_records import UNSURE, count_sound
from kafkaframes.log.discover import discover
from kafkaframes.records import scan

ROWS = [{"key": b"key %d" % (number % 5), "value": b"value %d" % number, "timestamp": 9} for number in range(30)]
KINDS = [(0, "gzip"), (0, "lz4"), (1, "snappy"), (1, "gzip"), (1, "none"), (2, "lz4"), (2, "zstd"), (2, "none")]
BATCHES = {
    kind: kafkaframes.build_records(ROWS, record_format=kind[0], codec=kind[1], batch_records=10) for kind in KINDS
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_batches_of_a_sound_log_are_counted(kind):
    batches = scan.scan_all(BATCHES[kind], rules=scan.FILE)
    counts = count_sound(BATCHES[kind], batches)
    assert counts.sum() == 30
    assert UNSURE not in counts


def findings(path):
    (directory,) = discover(str(path))
    return verify_segment.verify_segment(directory.filesystem, directory.partitions[0].segments[0], deep=True)


@given(st.sampled_from(KINDS), st.data())
def test_a_wrong_byte_is_told_in_the_same_words(tmp_path_factory, kind, data):
    raw = bytearray(BATCHES[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("log") / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(raw)
    short = findings(path)
    with mock.patch.object(
        verify_segment, "count_sound", lambda data, batches: np.full(len(batches), UNSURE, np.int64)
    ):
        long = findings(path)
    assert short.findings == long.findings
    assert (short.records, short.batches) == (long.records, long.batches)


def test_a_wrong_crc_inside_is_found():
    """The outer CRC is right: only the inner one tells."""
    inner = bytearray(kafkaframes.build_records(ROWS[:3], record_format=1, codec="none"))
    inner[-1] ^= 1
    wrapper = kafkaframes.build_records(
        [{"value": bytes(inner), "timestamp": 9, "offset": 2}], record_format=1, codec="none"
    )
    value = gzip.compress(bytes(inner))
    head = bytearray(wrapper[:34])
    head[17] |= 1  # attributes: gzip
    head[30:34] = len(value).to_bytes(4, "big")
    made = head + value
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    made[12:16] = zlib.crc32(bytes(made[16:])).to_bytes(4, "big")
    batches = scan.scan_all(bytes(made), rules=scan.FILE)
    assert scan.check_crcs(bytes(made), batches).tolist() == [1]
    assert count_sound(bytes(made), batches).tolist() == [UNSURE]
