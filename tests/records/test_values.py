"""Records as Python values: the doctests' promises and the values of a hand-made batch."""

import doctest
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.mutations import some_log

from kafkaframes import build_records
from kafkaframes.errors import CorruptRecordError
from kafkaframes.records import batch, fields, layout, reasons, scan
from kafkaframes.records.codecs import Codec, compress
from kafkaframes.wire import primitives


@pytest.mark.parametrize("module", [batch, fields, layout, primitives, scan], ids=lambda module: module.__name__)
def test_doctests(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\x80\x00\x00\x01"])
def test_a_control_key_that_kafka_refuses(key):
    with pytest.raises(CorruptRecordError):
        fields.parse_control_type(key)


def test_a_control_type_of_the_future_is_unknown():
    assert fields.parse_control_type(b"\x00\x01\x00\x63\x00") == "UNKNOWN"
    assert fields.parse_control_type(b"\x00\x00\xff\xff") == "UNKNOWN"


def test_malformed_text_is_replaced_as_java_does():
    # expectations: one U+FFFD for each maximal part, one for a whole encoded surrogate
    assert primitives.decode_java_text(b"\xed\xa0\x80x") == "\ufffdx"
    assert primitives.decode_java_text(b"\xed\xa0x") == "\ufffdx"
    assert primitives.decode_java_text(b"\xe1\x80x") == "\ufffdx"
    assert primitives.decode_java_text(b"\xf8\x80\x80") == "\ufffd\ufffd\ufffd"
    assert primitives.decode_java_text("é€😀".encode()) == "é€😀"


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_that_cannot_be_read_keeps_its_own_offset(magic):
    raw = bytearray(build_records({"value": [b"v" * 90], "offset": [7]}, record_format=magic))
    body = (layout.MESSAGE_V0 if magic == 0 else layout.MESSAGE_V1).size
    raw[body : body + 4] = (1000).to_bytes(4, "big")
    (batch_read,) = batch.read_batches(bytes(raw))
    assert (batch_read.base_offset, batch_read.records, batch_read.damage.status) == (7, (), reasons.UNREADABLE_FIELD)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wrapper_offset", [0, 57])
def test_a_compressed_message_starts_at_its_first_offset_even_where_that_record_cannot_be_read(magic, wrapper_offset):
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
def test_offsets_and_timestamps_are_those_of_the_first_batch(seed, rules):
    log = some_log(seed)
    for data in (log, log[: len(log) // 2], b""):
        records = next((first.records for first in batch.read_batches(data, rules=rules)), ())
        offsets, timestamps = batch.read_offsets_and_timestamps(data, rules=rules)
        assert offsets.tolist() == [record.offset for record in records]
        assert timestamps.tolist() == [record.timestamp for record in records]


def plain(magic: int, offset: int, *, flip: bool) -> bytes:
    raw = bytearray(build_records({"offset": [offset], "key": [b"k"], "value": [b"v"]}, record_format=magic))
    raw[-1] ^= flip
    return bytes(raw)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("flips", [(False, True), (True, False)])
def test_a_plain_message_beside_compressed_ones_has_its_own_crc_judged(magic, codec, flips):
    """After a decompressed section, the size before a message was overwritten with another message's size."""
    wrapper = build_records({"offset": [0, 1], "value": [b"a", b"b"]}, record_format=magic, codec=codec)
    raw = wrapper + plain(magic, 5, flip=flips[0]) + wrapper + plain(magic, 6, flip=flips[1])
    crc_verdicts = [[record.crc_ok for record in one.records] for one in batch.read_batches(raw)]
    assert crc_verdicts == [[True, True], [not flips[0]], [True, True], [not flips[1]]]


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_of_an_empty_batch_the_lenient_reader_reads_nothing_as_kafkas_does(codec):
    raw = bytearray(build_records({"offset": [0], "value": [b"a"]}))
    raw[22] = codec
    raw[57:61] = bytes(4)  # recordsCount
    (strict,), (lenient,) = batch.read_batches(bytes(raw)), batch.read_batches(bytes(raw), lenient=True)
    assert (strict.damage is None) == (codec == 4)  # Kafka's own zstd gives these bytes no error either
    assert lenient.damage is None
    assert lenient.records == ()


def test_raw_snappy_of_an_empty_batch_is_opened_and_is_no_damage():
    """It is decompressed when it is opened; a limit of no bytes took any content for damage."""
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
def test_the_lenient_reader_hands_out_messages_that_cannot_be_read(magic, codec, field):
    """Kafka's iterator that skips keys and values never looks at their lengths in formats 0 and 1."""
    columns = {"offset": [0, 1, 2], "key": [b"k"] * 3, "value": [b"v"] * 3}
    plain = bytearray(build_records(columns, record_format=magic))
    size = len(plain) // 3
    at = size + (layout.MESSAGE_V0 if magic == 0 else layout.MESSAGE_V1).size + (0 if field == "key" else 5)
    plain[at : at + 4] = (1000).to_bytes(4, "big")  # in the second message, longer than its remaining bytes
    raw = wrap_set(bytes(plain), magic, codec) if codec else bytes(plain)
    strict, lenient = list(batch.read_batches(raw)), list(batch.read_batches(raw, lenient=True))
    damage = strict[0 if codec else 1].damage
    assert (damage.status, damage.reached) == (reasons.UNREADABLE_FIELD, 2 if codec else 1)
    assert sum(len(one.records) for one in strict) == (1 if codec else 2)
    assert [one.damage for one in lenient] == [None] * len(strict)
    records = [(record.offset, record.key, record.value) for one in lenient for record in one.records]
    assert records == [(0, b"k", b"v"), (1, None if field == "key" else b"k", None), (2, b"k", b"v")]


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 100), st.integers(1, 8))
def test_runs_hold_everything_once_and_no_more_than_they_may_unless_it_is_alone(sizes, most, longest):
    runs = list(scan.split_into_runs(np.array(sizes, np.int64), most, max_count=longest))
    assert [index for first, last in runs for index in range(first, last)] == list(range(len(sizes)))
    for first, last in runs:
        held_bytes, is_full = sum(sizes[first:last]), last == len(sizes) or last - first == longest
        assert last - first == 1 or (held_bytes <= most and last - first <= longest)
        assert is_full or held_bytes + sizes[last] > most
