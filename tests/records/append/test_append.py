"""The append path: batches changed in place, rebuilt batches, rejected batches. The agreement tests compare the results
with Kafka's (kind ``append``).
"""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.append.append_sets import end_after_last_record, set_size_and_crc

import kafkaframes
from kafkaframes.errors import AppendRefusedError, ErrorCode
from kafkaframes.records.append import AppendSettings, down_convert, validate_and_assign
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_batch, build_records
from kafkaframes.records.codecs import codec_of, decompress
from kafkaframes.records.fields import BatchFields
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.rows import rows_of
from kafkaframes.wire.checksum import crc32c

ROWS = {"key": [b"a", b"b", b"c"], "value": [b"1" * 50, b"2" * 50, None], "timestamp": [1000, 1002, 1001]}
ROWS_WITH_GAPS = ROWS | {"offset": [0, 3, 4]}
CODECS = ["gzip", "snappy", "lz4"]


def offsets(records: bytes) -> list[int]:
    return [record.offset for batch in read_batches(records) for record in batch.records]


def contents(records: bytes) -> list[tuple[object, ...]]:
    return [(r.timestamp, r.key, r.value) for batch in read_batches(records) for r in batch.records]


@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
def test_v2_in_place_changes_only_base_offset_and_leader_epoch(codec):
    record_set = build_records(ROWS, codec=codec)
    append_result = validate_and_assign(record_set, 500, AppendSettings(leader_epoch=7))
    assert append_result.in_place
    assert offsets(append_result.records) == [500, 501, 502]
    changed_positions = {
        place for place, (one, other) in enumerate(zip(record_set, append_result.records, strict=True)) if one != other
    }
    assert changed_positions <= {*range(8), *range(12, 16)}
    assert append_result.recompressed_bytes == 0


@pytest.mark.parametrize("codec", CODECS)
def test_v1_in_place_sets_the_wrapper_offset_to_the_last_inner_offset(codec):
    record_set = build_records(ROWS, record_format=1, codec=codec)
    append_result = validate_and_assign(record_set, 500, AppendSettings(record_format=1))
    assert append_result.in_place
    assert int.from_bytes(append_result.records[:8], "big") == 502
    assert append_result.records[8:] == record_set[8:]
    assert offsets(append_result.records) == [500, 501, 502]


@pytest.mark.parametrize("codec", CODECS)
def test_v0_is_always_rebuilt(codec):
    append_result = validate_and_assign(
        build_records(ROWS, record_format=0, codec=codec), 500, AppendSettings(record_format=0)
    )
    assert not append_result.in_place
    assert append_result.recompressed_bytes > 0
    assert offsets(append_result.records) == [500, 501, 502]


@pytest.mark.parametrize("magic", [1, 2])
def test_append_time_rewrites_the_timestamp_and_the_crc(magic):
    record_set = build_records(ROWS, record_format=magic, codec="lz4")
    settings = AppendSettings(record_format=magic, timestamp_type="LogAppendTime", now_ms=9999)
    append_result = validate_and_assign(record_set, 0, settings)
    batches = list(read_batches(append_result.records))
    assert append_result.in_place
    assert append_result.max_timestamp == 9999
    assert [(b.valid, b.timestamp_type) for b in batches] == [(True, "LogAppendTime")]
    assert {r.timestamp for b in batches for r in b.records} == {9999}


def build_set_with_gaps(magic: int, codec: int = 3) -> bytes:
    """Build a record set that a mirror copies from a compacted topic: offsets 0, 3 and 4."""
    if codec or magic == 2:
        return build_batch(rows_of(ROWS_WITH_GAPS), record_format=magic, codec=codec, fields=BatchFields())
    return bytes(build_records(ROWS_WITH_GAPS, record_format=magic))


def test_offset_gaps_are_handled_like_kafka():
    rebuilt = validate_and_assign(build_set_with_gaps(1), 100, AppendSettings(record_format=1))
    assert not rebuilt.in_place
    assert offsets(rebuilt.records) == [100, 101, 102]
    with pytest.raises(AppendRefusedError, match="1, 2") as error_info:
        validate_and_assign(build_set_with_gaps(2), 100, AppendSettings(origin="REPLICATION"))
    assert error_info.value.exception == "UnsupportedOperationException"


@pytest.mark.parametrize("origin", ["CLIENT", "REPLICATION"])
@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("magic", [1, 2])
def test_reassign_gives_records_with_gaps_contiguous_offsets(magic, codec, origin):
    settings = AppendSettings(record_format=magic, origin=origin, on_noncontiguous="reassign")
    append_result = validate_and_assign(build_set_with_gaps(magic, codec), 100, settings)
    assert (offsets(append_result.records), append_result.next_offset) == ([100, 101, 102], 103)
    assert contents(append_result.records) == contents(build_set_with_gaps(magic, codec))


@pytest.mark.parametrize("origin", ["CLIENT", "REPLICATION"])
@pytest.mark.parametrize("codec", ["none", *CODECS, "zstd"])
@pytest.mark.parametrize("base_offset", [0, 7])
def test_a_gap_at_the_end_of_a_batch_counts_as_a_gap(codec, origin, base_offset):
    """After compaction, a batch can have records with offsets 0 to 2 and the last offset 5 in its header."""
    record_set = end_after_last_record(build_records(ROWS, codec=codec, base_offset=base_offset), 3)
    settings = AppendSettings(origin=origin, on_noncontiguous="reassign")
    append_result = validate_and_assign(record_set, 3, settings)
    (batch,) = read_batches(append_result.records)
    assert (batch.base_offset, offsets(append_result.records), append_result.next_offset) == (3, [3, 4, 5], 6)
    assert contents(append_result.records) == contents(record_set)
    with pytest.raises(AppendRefusedError) as error_info:
        validate_and_assign(record_set, 3, AppendSettings(origin=origin, on_noncontiguous="reject"))
    assert error_info.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", ["none", *CODECS, "zstd"])
def test_a_batch_without_gaps_gets_its_offsets_in_place(codec):
    record_set = build_records(ROWS, codec=codec, base_offset=700)
    append_result = validate_and_assign(record_set, 3, AppendSettings(on_noncontiguous="reassign"))
    assert (append_result.in_place, offsets(append_result.records)) == (True, [3, 4, 5])


@pytest.mark.parametrize("origin", ["CLIENT", "REPLICATION"])
@pytest.mark.parametrize("magic", [1, 2])
def test_keep_preserves_offsets_and_bytes(magic, origin):
    settings = AppendSettings(record_format=magic, origin=origin, on_noncontiguous="keep")
    later = build_batch(rows_of(ROWS | {"offset": [10, 12, 15]}), record_format=magic, codec=3)
    first = validate_and_assign(build_set_with_gaps(magic), 0, settings)
    second = validate_and_assign(later, first.next_offset, settings)
    assert offsets(first.records + second.records) == [0, 3, 4, 10, 12, 15]
    assert (first.records, second.records) == (build_set_with_gaps(magic), later)
    with pytest.raises(AppendRefusedError, match="must increase"):
        validate_and_assign(build_set_with_gaps(magic), second.next_offset, settings)


@pytest.mark.parametrize("places", [[0], [1], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("origin", ["CLIENT", "REPLICATION"])
def test_keep_preserves_batches_emptied_by_compaction(places, origin):
    sets = [build_batch(rows_of(ROWS | {"offset": [n, n + 1, n + 4]}), record_format=2, codec=0) for n in (10, 20, 30)]
    for place in places:
        sets[place] = remove_records(sets[place])
    settings = AppendSettings(origin=origin, on_noncontiguous="keep")
    append_result = validate_and_assign(b"".join(sets), 10, settings)
    assert (append_result.records, append_result.next_offset) == (b"".join(sets), 35)
    with pytest.raises(AppendRefusedError, match="must increase"):
        validate_and_assign(b"".join(sets), 11, settings)


def remove_records(batch: bytes) -> bytes:
    """Return the batch header without records, as written by the log cleaner."""
    out = bytearray(batch[: BATCH_V2.size])
    out[8:12] = (BATCH_V2.size - 12).to_bytes(4, "big")
    out[BATCH_V2.position_of("count") :] = bytes(4)
    out[BATCH_V2.position_of("crc") : BATCH_V2.end_of("crc")] = crc32c(bytes(out[BATCH_V2.end_of("crc") :])).to_bytes(4)
    return bytes(out)


def test_record_errors_are_collected_and_an_invalid_timestamp_sets_the_code():
    rows = {"key": [None, b"b", None], "value": [b"1", b"2", b"3"], "timestamp": [1000, 1, 1000]}
    settings = AppendSettings(is_compacted=True, now_ms=1000, before_max_ms=100)
    with pytest.raises(AppendRefusedError) as error_info:
        validate_and_assign(build_records(rows, codec="gzip"), 0, settings)
    assert [(error.batch_index, error.code) for error in error_info.value.record_errors] == [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_TIMESTAMP),
        (2, ErrorCode.INVALID_RECORD),
    ]
    assert error_info.value.code is ErrorCode.INVALID_TIMESTAMP


def test_a_wrong_crc_is_reported_before_other_errors():
    record_set = bytearray(build_records(ROWS, codec="zstd"))
    record_set[BATCH_V2.size + 5] ^= 1
    with pytest.raises(AppendRefusedError, match="CRC") as error_info:
        validate_and_assign(record_set, 0)
    assert (error_info.value.code, error_info.value.valid_bytes) == (ErrorCode.CORRUPT_MESSAGE, None)


def test_a_batch_above_the_limit_is_rejected():
    with pytest.raises(AppendRefusedError, match="MESSAGE_TOO_LARGE"):
        validate_and_assign(build_records(ROWS), 0, AppendSettings(max_batch_bytes=100))


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_invalid_utf8_in_header_names_is_replaced_in_rebuilt_batches(codec):
    """LogValidator does the same. In-place appends keep the bytes (see ``tests/interop/test_append_truth.py``)."""
    raw = bytearray(build_records({"value": [b"v"], "headers": [[("NAME", b"1")]], "timestamp": [5]}))
    raw[raw.index(b"NAME") : raw.index(b"NAME") + 4] = b"\xff\xc3ME"
    record_set = set_size_and_crc(bytes(raw), BATCH_V2)
    append_result = validate_and_assign(record_set, 0, AppendSettings(codec=codec))
    (headers,) = pa.Table.from_batches(kafkaframes.read_records(append_result.records))["headers"].to_pylist()
    assert append_result.in_place == (codec == "none")
    assert headers == [{"key": "\ufffd\ufffdME", "value": b"1"}]
    if codec == "none":
        assert b"\xff\xc3ME" in append_result.records
    else:
        payload = append_result.records[BATCH_V2.size :]
        content = decompress(codec_of(codec), payload, magic=2).data
        assert "\ufffd\ufffdME".encode() in content


@pytest.mark.parametrize("before", [b"", build_records({"value": [b"v"]})])
def test_down_conversion_of_a_size_near_two_gib_fails_as_kafka_does(before):
    size = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(AppendRefusedError) as error_info:
        down_convert(before + bytes(8) + size + bytes(60), 1)
    assert error_info.value.exception == "IllegalArgumentException"


def test_down_conversion_counts_lost_fields():
    rows = ROWS | {"headers": [[("h", b"1")], [], []], "offset": [5, 7, 9]}
    record_set = build_records(rows, codec="gzip", producer_id=1, producer_epoch=0, base_sequence=0)
    result = down_convert(record_set, 0)
    assert offsets(result.records) == [5, 7, 9]
    assert result.lost == {"records with headers": 1, "batches with a producer": 1, "timestamps": 3}


@given(raw=st.binary(max_size=200), magic=st.sampled_from([0, 1, 2]), flip=st.integers(0, 2000))
def test_any_bytes_are_appended_or_rejected(raw, magic, flip):
    settings = AppendSettings(record_format=magic)
    record_set = bytearray(build_records(ROWS, record_format=min(magic, 1) if flip % 2 else 2, codec="gzip"))
    record_set[flip % len(record_set)] ^= 1 << (flip % 8)
    for data in (raw, bytes(record_set), bytes(record_set[: flip % len(record_set)])):
        try:
            append_result = validate_and_assign(data, 7, settings)
        except AppendRefusedError:
            continue
        assert offsets(append_result.records) == list(range(7, append_result.next_offset))
