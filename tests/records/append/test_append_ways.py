"""The fast path and the general path of an append return equal results for the same bytes."""

import random
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.append.append_sets import NOW, choose_record_set, choose_settings, set_size_and_crc
from tests.records.borders import FIRST_TIMESTAMP, yield_border_columns
from tests.records.guarded import GuardedBlock

from kafkaframes.errors import OptionError
from kafkaframes.records.append import (
    AppendRefusedError,
    AppendSettings,
    _kernels,
    _kernels_context,
    _kernels_rebuild,
    entry,
    validate_and_assign,
    validator,
)
from kafkaframes.records.append.entry import validate_and_assign_at
from kafkaframes.records.append.validator import validate_general
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.records.layout import BATCH_V2, MESSAGE_V0
from kafkaframes.wire.checksum import crc32, crc32c

ROWS = {"key": [b"a", b"b", b"c"], "value": [b"1" * 50, b"2" * 50, None], "timestamp": [1000, 1002, 1001]}
CODECS = ["gzip", "snappy", "lz4"]
CONTENT_MEMORY, OUTPUT_MEMORY = (
    GuardedBlock(64 << 20),
    GuardedBlock(64 << 20),
)  # pages that are not accessed take no memory


def append_or_get_error(record_set, offset, settings, way=validate_and_assign):
    """Return the result of an append, or its error."""
    try:
        return way(record_set, offset, settings)
    except AppendRefusedError as refused:
        return refused.exception, refused.record_errors, refused.valid_bytes
    except OptionError as error:  # 'keep' does not allow another codec or format
        return str(error)


def assert_both_paths_agree(record_set, offset, settings):
    assert append_or_get_error(record_set, offset, settings) == append_or_get_error(
        record_set, offset, settings, validate_general
    )


def assert_contiguous_offsets(record_set, offset, settings):
    """Assert that offsets start at the log end and have no gaps, if the settings do not allow gaps."""
    if settings.on_noncontiguous not in ("reassign", "reject") or settings.record_format < 2:
        return
    try:
        append_result = validate_and_assign(record_set, offset, settings)
    except AppendRefusedError:
        return
    batches = list(read_batches(append_result.records))
    offsets = [record.offset for batch in batches for record in batch.records]
    assert offsets == list(range(offset, append_result.next_offset))
    assert [(batch.base_offset, batch.last_offset) for batch in batches[:1]] == [(offset, offsets[-1])] * len(
        offsets[:1]
    )


def append_in_guarded_memory(record_set, offset, settings):
    """Call the kernels with exactly the memory that they request, between inaccessible pages."""
    table = entry.KernelContext()
    table.load_settings(settings, settings.now_ms)
    words, record_set, original_set = table.words, bytearray(record_set), bytes(record_set)
    needed_sizes = {_kernels_context.TOO_SMALL: 0, _kernels_context.OUT_TOO_SMALL: 0}
    way = _kernels.validate_in_place
    while True:
        content, out = (
            CONTENT_MEMORY.at_end(needed_sizes[_kernels_context.TOO_SMALL]),
            OUTPUT_MEMORY.at_end(needed_sizes[_kernels_context.OUT_TOO_SMALL]),
        )
        words[_kernels_context.CONTENT_AT], words[_kernels_context.CONTENT_SIZE] = content.ctypes.data, content.size
        words[_kernels_context.OUT_AT], words[_kernels_context.OUT_SIZE] = out.ctypes.data, out.size
        answer, first, *_ = kernel_answer = way(record_set, offset, words)
        if answer == _kernels_context.IN_PLACE:
            return answer, bytes(record_set)
        assert record_set == original_set
        if answer == _kernels_context.NEEDS_REBUILD:
            way = _kernels_rebuild.rewrite_set
        elif answer in needed_sizes:
            assert needed_sizes[answer] < first
            needed_sizes[answer] = first
        else:
            return answer, bytes(out[: kernel_answer[3]])


@given(
    magic=st.sampled_from([1, 2]),
    codec=st.sampled_from([*CODECS, "none"]),
    stamps=st.lists(st.sampled_from([-1, 0, 5, 900, 1000, 1100, 2**62]), min_size=1, max_size=4),
    has_keys=st.booleans(),
    flip=st.integers(0, 4000),
    append_time=st.booleans(),
    is_compacted=st.booleans(),
)
def test_the_fast_path_and_the_general_path_agree(magic, codec, stamps, has_keys, flip, append_time, is_compacted):
    rows = {"key": [b"k" if has_keys else None] * len(stamps), "value": [b"v"] * len(stamps), "timestamp": stamps}
    record_set = bytearray(build_records(rows, record_format=magic, codec=codec))
    if flip < 8 * len(record_set):
        record_set[flip // 8] ^= 1 << flip % 8
    settings = AppendSettings(
        record_format=magic,
        now_ms=1000,
        before_max_ms=100,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        is_compacted=is_compacted,
        leader_epoch=3,
    )
    assert_both_paths_agree(bytes(record_set), 50, settings)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
@pytest.mark.parametrize("size", [1, 9_000, 300_000, 6_000_000])
@pytest.mark.parametrize("dense", [False, True])
def test_sets_of_any_size_and_density_take_the_fast_path(magic, codec, size, dense, monkeypatch):
    """Dense streams are decompressed by the general function. Reusable buffers stay within their size limit."""
    if codec == "zstd" and magic == 1:
        return
    value = bytes(size) if dense else random.Random(size).randbytes(size)
    record_set = build_records(
        {"value": [value], "timestamp": [5]}, record_format=magic, codec=codec, batch_bytes=1 << 24
    )
    settings = AppendSettings(record_format=magic)
    expected_result = validate_general(record_set, 50, settings)
    monkeypatch.setattr(validator, "validate_general", None)
    assert validate_and_assign(record_set, 50, settings) == expected_result
    for context in entry._idle:
        assert context.words[_kernels_context.CONTENT_KNOWN] == -1
        assert entry.USUAL_BYTES <= context.words[_kernels_context.CONTENT_SIZE] <= entry.MAX_IDLE_BYTES
        assert entry.USUAL_BYTES <= context.out.nbytes <= entry.MAX_IDLE_BYTES


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
def test_without_codec_functions_the_general_decompression_is_used(magic, codec, monkeypatch):
    if codec == "zstd" and magic == 1:
        return
    bare = entry.KernelContext()
    bare.words[: _kernels_context.CONTENT_AT] = 0
    record_set, settings = build_records(ROWS, record_format=magic, codec=codec), AppendSettings(record_format=magic)
    expected_result = validate_general(record_set, 50, settings)
    monkeypatch.setattr(entry, "_idle", [bare])
    monkeypatch.setattr(validator, "validate_general", None)
    assert validate_and_assign(record_set, 50, settings) == expected_result
    assert entry._idle == [bare]


def test_threads_do_not_share_a_kernel_context():
    sets = [
        (
            build_records({"value": [b"%d" % n] * 300, "timestamp": [n] * 300}, codec=codec),
            AppendSettings(leader_epoch=n),
        )
        for n, codec in enumerate([*CODECS, "zstd"] * 3)
    ]

    def append(number: int) -> bool:
        record_set, settings = sets[number % len(sets)]
        return validate_and_assign(record_set, number, settings) == validate_general(record_set, number, settings)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(append, range(200)))


@pytest.mark.parametrize(
    "numbers",
    [{"leader_epoch": 2**31}, {"now_ms": 2**63}, {"max_batch_bytes": 2**70}, {"before_max_ms": -(2**63)}],
    ids=str,
)
def test_settings_outside_the_kernel_range_take_the_general_path(numbers):
    record_set, settings = build_records(ROWS, codec="lz4"), AppendSettings(**numbers)
    results = []
    for way in (validate_and_assign, validate_general):
        try:
            results.append(way(record_set, 50, settings))
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
    is_trusted=st.booleans(),
    limit=st.sampled_from([None, 150]),
)
def test_both_paths_rebuild_equal_record_sets(
    magics, codecs, deltas, first, nulls, headers, producer, flip, append_time, is_trusted, limit
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
    record_set = bytearray(
        build_records(rows, record_format=source, codec=codecs[0], **(producer if source == 2 else {}))
    )
    if flip < 8 * len(record_set):
        record_set[flip // 8] ^= 1 << flip % 8
        fix_checksum(record_set, source)
    settings = AppendSettings(
        record_format=target,
        codec=codecs[1],
        now_ms=1000,
        before_max_ms=100,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        is_compacted=bool(flip & 1),
        origin="REPLICATION" if is_trusted else "CLIENT",
        on_noncontiguous="reassign" if flip & 2 else "kafka",
        max_batch_bytes=limit,
    )
    assert_both_paths_agree(bytes(record_set), 50, settings)


def fix_checksum(record_set: bytearray, magic: int) -> None:
    """Correct the CRC of the first batch, so that flipped bits in it are decoded."""
    layout = BATCH_V2 if magic == 2 else MESSAGE_V0
    at, start = layout.position_of("crc"), layout.end_of("crc")
    end = 12 + int.from_bytes(record_set[8:12], "big", signed=True)
    checked_bytes = bytes(record_set[start:end])
    record_set[at : at + 4] = (crc32c(checked_bytes) if magic == 2 else crc32(checked_bytes)).to_bytes(4, "big")


@given(seed=st.integers(0, 10**9))
def test_both_paths_agree_on_random_sets(seed):
    choose = random.Random(seed)
    record_set, settings = choose_record_set(choose), choose_settings(choose)
    assert_both_paths_agree(record_set, 50, settings)
    assert_contiguous_offsets(record_set, 50, settings)
    answer, out = append_in_guarded_memory(record_set, 50, settings)
    if answer in (_kernels_context.IN_PLACE, _kernels_context.WRITTEN):
        assert validate_general(record_set, 50, settings).records == out


@given(seed=st.integers(0, 10**9), moves=st.lists(st.sampled_from([0, 1, -3000, 10**12, 2**61, -(2**61)]), max_size=4))
def test_reused_settings_use_the_current_time(seed, moves):
    """A log reuses its settings, and a kernel context reuses their values. Only the time changes."""
    choose = random.Random(seed)
    record_set, settings = choose_record_set(choose), choose_settings(choose)
    now_ms = settings.now_ms
    for move in (0, *moves, 0):
        now_ms = max(min(now_ms + move, 2**62), -(2**62))
        fast_path_result = append_or_get_error(
            record_set, 50, settings, lambda *arguments, at=now_ms: validate_and_assign_at(*arguments, at)
        )
        assert fast_path_result == append_or_get_error(
            record_set, 50, replace(settings, now_ms=now_ms), validate_general
        )


@pytest.mark.parametrize(
    "source", [("none", 0), ("gzip", 0), ("lz4", 0), ("none", 1), ("snappy", 1), ("none", 2), ("zstd", 2)]
)
@pytest.mark.parametrize(
    "target", [("none", 0), ("lz4", 0), ("none", 1), ("gzip", 1), ("none", 2), ("snappy", 2), ("zstd", 2)]
)
def test_ordinary_sets_are_rebuilt_by_the_fast_path(source, target, monkeypatch):
    """The records have no headers, and those of format 0 have no timestamps, so no conversion loses data."""
    rows = ROWS | {"timestamp": [1000, 1002, 1001] if source[1] else [-1] * 3}
    record_set = build_records(rows, record_format=source[1], codec=source[0])
    settings = AppendSettings(record_format=target[1], codec=target[0], leader_epoch=3)
    expected_result = validate_general(record_set, 50, settings)
    monkeypatch.setattr(validator, "validate_general", None)
    assert validate_and_assign(record_set, 50, settings) == expected_result


def test_an_lz4_frame_of_format_0_takes_the_fast_path():
    record_set = build_records(ROWS | {"timestamp": [-1] * 3}, record_format=0, codec="lz4")
    assert record_set[26 + 6] != 0x82
    assert append_in_guarded_memory(record_set, 0, AppendSettings(record_format=0))[0] == _kernels_context.PLAIN


def test_a_record_count_that_is_too_large_requests_no_memory():
    record_set = bytearray(build_records(ROWS))
    for field, value in (("last_offset_delta", 2**31 - 2), ("count", 2**31 - 1)):
        struct.pack_into(">i", record_set, BATCH_V2.position_of(field), value)
    settings = AppendSettings(codec="lz4")
    assert (
        append_in_guarded_memory(set_size_and_crc(bytes(record_set), BATCH_V2), 0, settings)[0]
        == _kernels_context.UNUSUAL
    )


def test_incompressible_data_gets_enough_memory():
    """The compressed form of a large random value is larger than the kernel's buffer."""
    record_set = build_records(
        {"value": [random.Random(4).randbytes(5_000_000)], "timestamp": [NOW]}, batch_bytes=1 << 24
    )
    for codec in (*CODECS, "zstd"):
        assert_both_paths_agree(record_set, 50, AppendSettings(codec=codec, now_ms=NOW))


@pytest.mark.parametrize("record_format", [1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_both_paths_agree_at_size_limits_of_varints(record_format, codec):
    """Each record set is appended in place and rebuilt (with another codec, or from format 1 to 2), twice each."""
    for limit_name, columns in yield_border_columns(headers=record_format == 2):
        record_set = build_records(columns, record_format=record_format, codec=codec, batch_bytes=1 << 24)
        for settings in (
            AppendSettings(record_format=record_format, now_ms=FIRST_TIMESTAMP),
            AppendSettings(record_format=2, codec="lz4" if codec != "lz4" else "gzip", now_ms=FIRST_TIMESTAMP),
        ):
            expected_result = append_or_get_error(record_set, 63, settings, validate_general)
            assert expected_result.records, limit_name
            for _ in range(2):
                assert append_or_get_error(record_set, 63, settings) == expected_result, limit_name
