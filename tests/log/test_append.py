"""The append path: what is touched, what is rebuilt, what is refused. Kafka's verdicts: agreement kind ``append``."""

import random
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.log.append import (
    AppendRefusedError,
    AppendSettings,
    _kernels,
    desk,
    down_convert,
    validate_and_assign,
    validator,
)
from kafkaframes.log.append.validator import validate_closely
from kafkaframes.records.batch import read_values
from kafkaframes.records.build import BatchFields, build_batch, build_records
from kafkaframes.records.layout import BATCH_V2, MESSAGE_V0
from kafkaframes.records.rows import rows_of
from kafkaframes.wire.checksum import crc32, crc32c

ROWS = {"key": [b"a", b"b", b"c"], "value": [b"1" * 50, b"2" * 50, None], "timestamp": [1000, 1002, 1001]}
HOLES = ROWS | {"offset": [0, 3, 4]}
CODECS = ["gzip", "snappy", "lz4"]


def offsets(records: bytes) -> list[int]:
    return [record.offset for batch in read_values(records) for record in batch.records]


def contents(records: bytes) -> list[tuple[object, ...]]:
    return [(r.timestamp, r.key, r.value) for batch in read_values(records) for r in batch.records]


@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
def test_v2_in_place_touches_the_base_offset_and_the_leader_epoch_and_nothing_else(codec):
    sent = build_records(ROWS, codec=codec)
    appended = validate_and_assign(sent, 500, AppendSettings(leader_epoch=7))
    assert appended.in_place
    assert offsets(appended.records) == [500, 501, 502]
    changed = {place for place, (one, other) in enumerate(zip(sent, appended.records, strict=True)) if one != other}
    assert changed <= {*range(8), *range(12, 16)}
    assert appended.recompressed_bytes == 0


@pytest.mark.parametrize("codec", CODECS)
def test_v1_in_place_touches_the_wrappers_offset_only_and_it_is_the_last_inner_one(codec):
    sent = build_records(ROWS, magic=1, codec=codec)
    appended = validate_and_assign(sent, 500, AppendSettings(magic=1))
    assert appended.in_place
    assert int.from_bytes(appended.records[:8], "big") == 502
    assert appended.records[8:] == sent[8:]
    assert offsets(appended.records) == [500, 501, 502]


@pytest.mark.parametrize("codec", CODECS)
def test_v0_is_always_rebuilt(codec):
    appended = validate_and_assign(build_records(ROWS, magic=0, codec=codec), 500, AppendSettings(magic=0))
    assert not appended.in_place
    assert appended.recompressed_bytes > 0
    assert offsets(appended.records) == [500, 501, 502]


@pytest.mark.parametrize("magic", [1, 2])
def test_append_time_rewrites_the_timestamp_and_the_crc(magic):
    sent = build_records(ROWS, magic=magic, codec="lz4")
    settings = AppendSettings(magic=magic, timestamp_type="LogAppendTime", now_ms=9999)
    appended = validate_and_assign(sent, 0, settings)
    batches = list(read_values(appended.records))
    assert appended.in_place
    assert appended.max_timestamp == 9999
    assert [(b.valid, b.timestamp_type) for b in batches] == [(True, "LogAppendTime")]
    assert {r.timestamp for b in batches for r in b.records} == {9999}


def mirrored(magic: int) -> bytes:
    """A set out of a compacted topic: offsets 0, 3, 4, as a mirror copies it."""
    return build_batch(rows_of(HOLES), magic=magic, codec=3, fields=BatchFields())


def test_a_mirror_of_a_compacted_topic_as_kafka_does_it():
    rebuilt = validate_and_assign(mirrored(1), 100, AppendSettings(magic=1))
    assert not rebuilt.in_place
    assert offsets(rebuilt.records) == [100, 101, 102]
    with pytest.raises(AppendRefusedError, match="1, 2") as refused:
        validate_and_assign(mirrored(2), 100, AppendSettings(origin="REPLICATION"))
    assert refused.value.exception == "UnsupportedOperationException"


@pytest.mark.parametrize("magic", [1, 2])
def test_a_mirror_of_a_compacted_topic_as_kip_31_says(magic):
    settings = AppendSettings(magic=magic, origin="REPLICATION", on_noncontiguous="reassign")
    appended = validate_and_assign(mirrored(magic), 100, settings)
    assert offsets(appended.records) == [100, 101, 102]
    assert contents(appended.records) == contents(mirrored(magic))


@pytest.mark.parametrize("magic", [1, 2])
def test_a_faithful_mirror_keeps_offsets_and_bytes(magic):
    settings = AppendSettings(magic=magic, origin="REPLICATION", on_noncontiguous="keep")
    later = build_batch(rows_of(ROWS | {"offset": [10, 12, 15]}), magic=magic, codec=3)
    first = validate_and_assign(mirrored(magic), 0, settings)
    second = validate_and_assign(later, first.next_offset, settings)
    assert offsets(first.records + second.records) == [0, 3, 4, 10, 12, 15]
    assert (first.records, second.records) == (mirrored(magic), later)
    with pytest.raises(AppendRefusedError, match="must increase"):
        validate_and_assign(mirrored(magic), second.next_offset, settings)


def test_records_at_fault_are_collected_and_a_wrong_timestamp_decides():
    rows = {"key": [None, b"b", None], "value": [b"1", b"2", b"3"], "timestamp": [1000, 1, 1000]}
    settings = AppendSettings(compacted=True, now_ms=1000, before_max_ms=100)
    with pytest.raises(AppendRefusedError) as refused:
        validate_and_assign(build_records(rows, codec="gzip"), 0, settings)
    assert [(error.place, error.code) for error in refused.value.record_errors] == [
        (0, "INVALID_RECORD"),
        (1, "INVALID_TIMESTAMP"),
        (2, "INVALID_RECORD"),
    ]
    assert refused.value.code == "INVALID_TIMESTAMP"


def test_a_flipped_bit_is_refused_before_anything_else():
    sent = bytearray(build_records(ROWS, codec="zstd"))
    sent[BATCH_V2.size + 5] ^= 1
    with pytest.raises(AppendRefusedError, match="CRC") as refused:
        validate_and_assign(sent, 0)
    assert (refused.value.code, refused.value.valid_bytes) == ("CORRUPT_MESSAGE", None)


def test_a_batch_above_the_limit_is_refused():
    with pytest.raises(AppendRefusedError, match="MESSAGE_TOO_LARGE"):
        validate_and_assign(build_records(ROWS), 0, AppendSettings(max_batch_bytes=100))


def test_down_conversion_counts_what_is_lost():
    rows = ROWS | {"headers": [[("h", b"1")], [], []], "offset": [5, 7, 9]}
    sent = build_records(rows, codec="gzip", producer_id=1, producer_epoch=0, base_sequence=0)
    result = down_convert(sent, 0)
    assert offsets(result.records) == [5, 7, 9]
    assert result.lost == {"records with headers": 1, "batches with a producer": 1, "timestamps": 3}


@given(raw=st.binary(max_size=200), magic=st.sampled_from([0, 1, 2]), flip=st.integers(0, 2000))
def test_any_bytes_are_appended_or_refused(raw, magic, flip):
    settings = AppendSettings(magic=magic)
    sent = bytearray(build_records(ROWS, magic=min(magic, 1) if flip % 2 else 2, codec="gzip"))
    sent[flip % len(sent)] ^= 1 << (flip % 8)
    for data in (raw, bytes(sent), bytes(sent[: flip % len(sent)])):
        try:
            appended = validate_and_assign(data, 7, settings)
        except AppendRefusedError:
            continue
        assert offsets(appended.records) == list(range(7, appended.next_offset))


@given(
    magic=st.sampled_from([1, 2]),
    codec=st.sampled_from([*CODECS, "none"]),
    stamps=st.lists(st.sampled_from([-1, 0, 5, 900, 1000, 1100, 2**62]), min_size=1, max_size=4),
    keyed=st.booleans(),
    flip=st.integers(0, 4000),
    append_time=st.booleans(),
    compacted=st.booleans(),
)
def test_the_short_way_says_what_the_general_one_says(magic, codec, stamps, keyed, flip, append_time, compacted):
    rows = {"key": [b"k" if keyed else None] * len(stamps), "value": [b"v"] * len(stamps), "timestamp": stamps}
    sent = bytearray(build_records(rows, magic=magic, codec=codec))
    if flip < 8 * len(sent):
        sent[flip // 8] ^= 1 << flip % 8
    settings = AppendSettings(
        magic=magic,
        now_ms=1000,
        before_max_ms=100,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        compacted=compacted,
        leader_epoch=3,
    )
    assert_same_answer(bytes(sent), settings)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
@pytest.mark.parametrize("size", [1, 9_000, 300_000, 6_000_000])
@pytest.mark.parametrize("dense", [False, True])
def test_sets_of_any_size_and_density_go_the_short_way(magic, codec, size, dense, monkeypatch):
    """Dense streams are decompressed by the careful path, large ones get memory that is not kept."""
    if codec == "zstd" and magic == 1:
        return
    value = bytes(size) if dense else random.Random(size).randbytes(size)
    sent = build_records({"value": [value], "timestamp": [5]}, magic=magic, codec=codec, batch_bytes=1 << 24)
    settings = AppendSettings(magic=magic)
    closely = validate_closely(sent, 50, settings)
    monkeypatch.setattr(validator, "validate_closely", None)
    assert validate_and_assign(sent, 50, settings) == closely
    assert {(one.out.nbytes, one.words[_kernels.READY]) for one in desk._idle} == {(desk.USUAL_BYTES, -1)}


def test_threads_do_not_meet_at_a_desk():
    sets = [
        (
            build_records({"value": [b"%d" % n] * 300, "timestamp": [n] * 300}, codec=codec),
            AppendSettings(leader_epoch=n),
        )
        for n, codec in enumerate([*CODECS, "zstd"] * 3)
    ]

    def append(number: int) -> bool:
        sent, settings = sets[number % len(sets)]
        return validate_and_assign(sent, number, settings) == validate_closely(sent, number, settings)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(append, range(200)))


@pytest.mark.parametrize(
    "numbers",
    [{"leader_epoch": 2**31}, {"now_ms": 2**63}, {"max_batch_bytes": 2**70}, {"before_max_ms": -(2**63)}],
    ids=str,
)
def test_settings_beyond_the_kernels_numbers_are_the_general_ways(numbers):
    sent, settings = build_records(ROWS, codec="lz4"), AppendSettings(**numbers)
    results = []
    for way in (validate_and_assign, validate_closely):
        try:
            results.append(way(sent, 50, settings))
        except (AppendRefusedError, OverflowError, struct.error) as error:
            results.append(type(error))
    assert results[0] == results[1]


@given(
    magics=st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2])),
    codecs=st.tuples(st.sampled_from([*CODECS, "none"]), st.sampled_from([*CODECS, "none", "zstd", "producer"])),
    deltas=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([0, 5, 950, 1000, 1090, 2**62])), min_size=1, max_size=4
    ),
    first=st.sampled_from([0, 1, 70]),
    nulls=st.tuples(st.booleans(), st.booleans()),
    headers=st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
    producer=st.sampled_from([{}, {"producer_id": 9, "producer_epoch": 1, "base_sequence": 4}]),
    flip=st.integers(0, 6000),
    append_time=st.booleans(),
    trusted=st.booleans(),
    limit=st.sampled_from([None, 150]),
)
def test_a_set_written_anew_shortly_is_the_one_that_the_general_way_writes(
    magics, codecs, deltas, first, nulls, headers, producer, flip, append_time, trusted, limit
):
    source, target = magics
    offsets_in = [first + number + sum(step - 1 for step, _ in deltas[1 : number + 1]) for number in range(len(deltas))]
    rows = {
        "offset": offsets_in,
        "key": [None if nulls[0] else b"k"] * len(deltas),
        "value": [None if nulls[1] else b"value"] * len(deltas),
        "timestamp": [stamp for _, stamp in deltas],
    }
    if source == 2:
        rows["headers"] = [headers] * len(deltas)
    sent = bytearray(build_records(rows, magic=source, codec=codecs[0], **(producer if source == 2 else {})))
    if flip < 8 * len(sent):
        sent[flip // 8] ^= 1 << flip % 8
        sealed(sent, source)
    settings = AppendSettings(
        magic=target,
        codec=codecs[1],
        now_ms=1000,
        before_max_ms=100,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        compacted=bool(flip & 1),
        origin="REPLICATION" if trusted else "CLIENT",
        on_noncontiguous="reassign" if flip & 2 else "kafka",
        max_batch_bytes=limit,
    )
    assert_same_answer(bytes(sent), settings)


def sealed(sent: bytearray, magic: int) -> None:
    """Give the first batch the CRC of its bytes, so that what was flipped inside it is seen."""
    layout = BATCH_V2 if magic == 2 else MESSAGE_V0
    at, start = layout.place_of("crc"), layout.end_of("crc")
    end = 12 + int.from_bytes(sent[8:12], "big", signed=True)
    checked = bytes(sent[start:end])
    sent[at : at + 4] = (crc32c(checked) if magic == 2 else crc32(checked)).to_bytes(4, "big")


def assert_same_answer(sent: bytes, settings: AppendSettings) -> None:
    results = []
    for way in (validate_and_assign, validate_closely):
        try:
            results.append(way(sent, 50, settings))
        except AppendRefusedError as refused:
            results.append((refused.exception, refused.record_errors, refused.valid_bytes))
    assert results[0] == results[1]
