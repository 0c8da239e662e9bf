"""Records as Python values: the documented behavior, and the values of batches built by the test."""

import doctest
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.mutations import choose_log

from kafkaframes import build_records
from kafkaframes.errors import CorruptRecordError
from kafkaframes.records import batch, fields, layout, reasons, scan
from kafkaframes.records.codecs import Codec, compress
from kafkaframes.wire import primitives


@pytest.mark.parametrize("module", [batch, fields, layout, primitives, scan], ids=lambda module: module.__name__)
def test_doctests(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\x80\x00\x00\x01"])
def test_an_invalid_control_key_is_rejected_like_in_kafka(key):
    with pytest.raises(CorruptRecordError):
        fields.parse_control_type(key)


def test_an_undefined_control_type_is_unknown():
    assert fields.parse_control_type(b"\x00\x01\x00\x63\x00") == "UNKNOWN"
    assert fields.parse_control_type(b"\x00\x00\xff\xff") == "UNKNOWN"


def test_malformed_text_is_replaced_like_in_java():
    # one U+FFFD for each maximal invalid part, and one for a complete encoded surrogate
    assert primitives.decode_java_text(b"\xed\xa0\x80x") == "\ufffdx"
    assert primitives.decode_java_text(b"\xed\xa0x") == "\ufffdx"
    assert primitives.decode_java_text(b"\xe1\x80x") == "\ufffdx"
    assert primitives.decode_java_text(b"\xf8\x80\x80") == "\ufffd\ufffd\ufffd"
    assert primitives.decode_java_text("é€😀".encode()) == "é€😀"


@pytest.mark.parametrize("magic", [0, 1])
def test_an_unreadable_message_keeps_its_offset(magic):
    raw = bytearray(build_records({"value": [b"v" * 90], "offset": [7]}, record_format=magic))
    body = (layout.MESSAGE_V0 if magic == 0 else layout.MESSAGE_V1).size
    raw[body : body + 4] = (1000).to_bytes(4, "big")
    (batch_read,) = batch.read_batches(bytes(raw))
    assert (batch_read.base_offset, batch_read.records, batch_read.damage.status) == (7, (), reasons.UNREADABLE_FIELD)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wrapper_offset", [0, 57])
def test_a_compressed_message_keeps_its_first_offset_if_that_record_is_unreadable(magic, wrapper_offset):
    inner = bytearray(build_records({"value": [b"v"] * 3, "offset": [2, 5, 9]}, record_format=magic))
    body = (layout.MESSAGE_V0 if magic == 0 else layout.MESSAGE_V1).size
    inner[body : body + 4] = (1000).to_bytes(4, "big")  # the first key is longer than its message
    raw = build_records({"value": [gzip.compress(bytes(inner))], "offset": [wrapper_offset]}, record_format=magic)
    wrapper = bytearray(raw)
    wrapper[layout.MESSAGE_V0.position_of("attributes")] = 1
    (batch_read,) = batch.read_batches(bytes(wrapper))
    assert (batch_read.records, batch_read.damage.status, batch_read.damage.reached) == (
        (),
        reasons.UNREADABLE_FIELD,
        1,
    )
    assert batch_read.base_offset == (2 + 57 - 9 if magic == 1 and wrapper_offset else 2)


@given(st.integers(0, 2**32), st.sampled_from([scan.MEMORY, scan.FILE]))
def test_first_offset_and_timestamp_are_those_of_the_first_batch(seed, rules):
    log = choose_log(seed)
    for data in (log, log[: len(log) // 2], b""):
        records = next((first.records for first in batch.read_batches(data, rules=rules)), ())
        offsets, timestamps = batch.read_offsets_and_timestamps(data, rules=rules)
        assert offsets.tolist() == [record.offset for record in records]
        assert timestamps.tolist() == [record.timestamp for record in records]


def build_uncompressed_message(magic: int, offset: int, *, flip: bool) -> bytes:
    raw = bytearray(build_records({"offset": [offset], "key": [b"k"], "value": [b"v"]}, record_format=magic))
    raw[-1] ^= flip
    return bytes(raw)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("flips", [(False, True), (True, False)])
def test_an_uncompressed_message_next_to_compressed_ones_has_its_crc_checked(magic, codec, flips):
    """Previously, the size of a message after a decompressed section was overwritten with another message's size."""
    wrapper = build_records({"offset": [0, 1], "value": [b"a", b"b"]}, record_format=magic, codec=codec)
    raw = (
        wrapper
        + build_uncompressed_message(magic, 5, flip=flips[0])
        + wrapper
        + build_uncompressed_message(magic, 6, flip=flips[1])
    )
    crc_verdicts = [[record.crc_ok for record in one.records] for one in batch.read_batches(raw)]
    assert crc_verdicts == [[True, True], [not flips[0]], [True, True], [not flips[1]]]


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_the_lenient_reader_reads_nothing_from_an_empty_batch_like_kafka(codec):
    raw = bytearray(build_records({"offset": [0], "value": [b"a"]}))
    raw[22] = codec
    raw[57:61] = bytes(4)  # recordsCount
    (strict,), (lenient,) = batch.read_batches(bytes(raw)), batch.read_batches(bytes(raw), lenient=True)
    assert (strict.damage is None) == (codec == 4)  # Kafka's zstd also accepts these bytes
    assert lenient.damage is None
    assert lenient.records == ()


def test_raw_snappy_in_an_empty_batch_is_not_damage():
    """The section is decompressed when it is opened. A limit of 0 bytes previously reported any content as damage."""
    raw = bytearray(build_records({"offset": [0], "value": [b"a"]}))
    raw[22] = 2
    raw[57:61] = bytes(4)
    content = bytes(raw[61:])
    raw[61:] = bytes([len(content), (len(content) - 1) << 2]) + content  # one literal
    raw[8:12] = (len(raw) - 12).to_bytes(4)
    (one,) = batch.read_batches(bytes(raw))
    assert (one.damage, one.records) == (None, ())


def wrap_set(inner: bytes, magic: int, codec: Codec) -> bytes:
    content = compress(codec, inner, magic=magic)
    wrapper = bytearray(build_records({"value": [content], "offset": [2]}, record_format=magic))
    wrapper[layout.MESSAGE_V0.position_of("attributes")] = codec
    return bytes(wrapper)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("field", ["key", "value"])
def test_the_lenient_reader_returns_unreadable_messages(magic, codec, field):
    """Kafka's iterator that skips keys and values does not read their lengths in formats 0 and 1."""
    columns = {"offset": [0, 1, 2], "key": [b"k"] * 3, "value": [b"v"] * 3}
    plain = bytearray(build_records(columns, record_format=magic))
    size = len(plain) // 3
    at = size + (layout.MESSAGE_V0 if magic == 0 else layout.MESSAGE_V1).size + (0 if field == "key" else 5)
    plain[at : at + 4] = (1000).to_bytes(4, "big")  # a length in the second message that exceeds its remaining bytes
    raw = wrap_set(bytes(plain), magic, codec) if codec else bytes(plain)
    strict, lenient = list(batch.read_batches(raw)), list(batch.read_batches(raw, lenient=True))
    damage = strict[0 if codec else 1].damage
    assert (damage.status, damage.reached) == (reasons.UNREADABLE_FIELD, 2 if codec else 1)
    assert sum(len(one.records) for one in strict) == (1 if codec else 2)
    assert [one.damage for one in lenient] == [None] * len(strict)
    records = [(record.offset, record.key, record.value) for one in lenient for record in one.records]
    assert records == [(0, b"k", b"v"), (1, None if field == "key" else b"k", None), (2, b"k", b"v")]


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 100), st.integers(1, 8))
def test_groups_contain_each_item_once_within_the_limit(sizes, most, longest):
    runs = list(scan.split_into_runs(np.array(sizes, np.int64), most, max_count=longest))
    assert [index for first, last in runs for index in range(first, last)] == list(range(len(sizes)))
    for first, last in runs:
        held_bytes, is_full = sum(sizes[first:last]), last == len(sizes) or last - first == longest
        assert last - first == 1 or (held_bytes <= most and last - first <= longest)
        assert is_full or held_bytes + sizes[last] > most
