"""The fast path of an append and the general path, on the same bytes: the whole answers are equal."""

import random
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.append.append_sets import NOW, a_set, some_settings
from tests.records.append.append_sets import seal_batch as sealed_again
from tests.records.borders import FIRST, columns_at_borders
from tests.records.guarded import Guarded

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
CONTENT, OUT = Guarded(64 << 20), Guarded(64 << 20)  # addresses: untouched pages take no memory


def answer_of(sent_set, offset, settings, way=validate_and_assign):
    """Return the result of an append, or its error."""
    try:
        return way(sent_set, offset, settings)
    except AppendRefusedError as refused:
        return refused.exception, refused.record_errors, refused.valid_bytes
    except OptionError as error:  # 'keep' together with another codec or format
        return str(error)


def assert_one_answer(sent_set, offset, settings):
    assert answer_of(sent_set, offset, settings) == answer_of(sent_set, offset, settings, validate_general)


def assert_within_the_log(sent_set, offset, settings):
    """If holes are checked, no batch starts below the log end, and the next offset follows the last record."""
    if settings.on_noncontiguous not in ("reassign", "reject") or settings.record_format < 2:
        return
    try:
        append_result = validate_and_assign(sent_set, offset, settings)
    except AppendRefusedError:
        return
    batches = list(read_batches(append_result.records))
    offsets = [record.offset for batch in batches for record in batch.records]
    assert offsets == list(range(offset, append_result.next_offset))
    assert [(batch.base_offset, batch.last_offset) for batch in batches[:1]] == [(offset, offsets[-1])] * len(
        offsets[:1]
    )


def guarded_answer(sent_set, offset, settings):
    """Call the kernels with just the memory that they ask for, at the edge of forbidden pages."""
    table = entry.KernelContext()
    table.load_settings(settings, settings.now_ms)
    words, sent_set, original_set = table.words, bytearray(sent_set), bytes(sent_set)
    needed_sizes = {_kernels_context.TOO_SMALL: 0, _kernels_context.OUT_TOO_SMALL: 0}
    way = _kernels.validate_in_place
    while True:
        content, out = (
            CONTENT.at_end(needed_sizes[_kernels_context.TOO_SMALL]),
            OUT.at_end(needed_sizes[_kernels_context.OUT_TOO_SMALL]),
        )
        words[_kernels_context.CONTENT_AT], words[_kernels_context.CONTENT_SIZE] = content.ctypes.data, content.size
        words[_kernels_context.OUT_AT], words[_kernels_context.OUT_SIZE] = out.ctypes.data, out.size
        answer, first, *_ = kernel_answer = way(sent_set, offset, words)
        if answer == _kernels_context.IN_PLACE:
            return answer, bytes(sent_set)
        assert sent_set == original_set
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
def test_the_short_way_says_what_the_general_one_says(magic, codec, stamps, has_keys, flip, append_time, is_compacted):
    rows = {"key": [b"k" if has_keys else None] * len(stamps), "value": [b"v"] * len(stamps), "timestamp": stamps}
    sent_set = bytearray(build_records(rows, record_format=magic, codec=codec))
    if flip < 8 * len(sent_set):
        sent_set[flip // 8] ^= 1 << flip % 8
    settings = AppendSettings(
        record_format=magic,
        now_ms=1000,
        before_max_ms=100,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        is_compacted=is_compacted,
        leader_epoch=3,
    )
    assert_one_answer(bytes(sent_set), 50, settings)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
@pytest.mark.parametrize("size", [1, 9_000, 300_000, 6_000_000])
@pytest.mark.parametrize("dense", [False, True])
def test_sets_of_any_size_and_density_go_the_short_way(magic, codec, size, dense, monkeypatch):
    """Dense streams are decompressed by the careful path, large ones get memory that is not kept."""
    if codec == "zstd" and magic == 1:
        return
    value = bytes(size) if dense else random.Random(size).randbytes(size)
    sent_set = build_records(
        {"value": [value], "timestamp": [5]}, record_format=magic, codec=codec, batch_bytes=1 << 24
    )
    settings = AppendSettings(record_format=magic)
    closely = validate_general(sent_set, 50, settings)
    monkeypatch.setattr(validator, "validate_general", None)
    assert validate_and_assign(sent_set, 50, settings) == closely
    for one in entry._idle:
        assert one.words[_kernels_context.CONTENT_KNOWN] == -1
        assert entry.USUAL_BYTES <= one.words[_kernels_context.CONTENT_SIZE] <= entry.MAX_IDLE_BYTES
        assert entry.USUAL_BYTES <= one.out.nbytes <= entry.MAX_IDLE_BYTES


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [*CODECS, "zstd"])
def test_without_the_codecs_functions_the_careful_path_opens_the_set(magic, codec, monkeypatch):
    if codec == "zstd" and magic == 1:
        return
    bare = entry.KernelContext()
    bare.words[: _kernels_context.CONTENT_AT] = 0
    sent_set, settings = build_records(ROWS, record_format=magic, codec=codec), AppendSettings(record_format=magic)
    closely = validate_general(sent_set, 50, settings)
    monkeypatch.setattr(entry, "_idle", [bare])
    monkeypatch.setattr(validator, "validate_general", None)
    assert validate_and_assign(sent_set, 50, settings) == closely
    assert entry._idle == [bare]


def test_threads_do_not_meet_at_a_context():
    sets = [
        (
            build_records({"value": [b"%d" % n] * 300, "timestamp": [n] * 300}, codec=codec),
            AppendSettings(leader_epoch=n),
        )
        for n, codec in enumerate([*CODECS, "zstd"] * 3)
    ]

    def append(number: int) -> bool:
        sent_set, settings = sets[number % len(sets)]
        return validate_and_assign(sent_set, number, settings) == validate_general(sent_set, number, settings)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(append, range(200)))


@pytest.mark.parametrize(
    "numbers",
    [{"leader_epoch": 2**31}, {"now_ms": 2**63}, {"max_batch_bytes": 2**70}, {"before_max_ms": -(2**63)}],
    ids=str,
)
def test_settings_beyond_the_kernels_numbers_are_the_general_ways(numbers):
    sent_set, settings = build_records(ROWS, codec="lz4"), AppendSettings(**numbers)
    results = []
    for way in (validate_and_assign, validate_general):
        try:
            results.append(way(sent_set, 50, settings))
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
def test_a_set_written_anew_shortly_is_the_one_that_the_general_way_writes(
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
    sent_set = bytearray(
        build_records(rows, record_format=source, codec=codecs[0], **(producer if source == 2 else {}))
    )
    if flip < 8 * len(sent_set):
        sent_set[flip // 8] ^= 1 << flip % 8
        fix_checksum(sent_set, source)
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
    assert_one_answer(bytes(sent_set), 50, settings)


def fix_checksum(sent_set: bytearray, magic: int) -> None:
    """Give the first batch the CRC of its bytes, so that what was flipped inside it is seen."""
    layout = BATCH_V2 if magic == 2 else MESSAGE_V0
    at, start = layout.position_of("crc"), layout.end_of("crc")
    end = 12 + int.from_bytes(sent_set[8:12], "big", signed=True)
    checked_bytes = bytes(sent_set[start:end])
    sent_set[at : at + 4] = (crc32c(checked_bytes) if magic == 2 else crc32(checked_bytes)).to_bytes(4, "big")


@given(seed=st.integers(0, 10**9))
def test_made_up_sets_get_one_answer(seed):
    choose = random.Random(seed)
    sent_set, settings = a_set(choose), some_settings(choose)
    assert_one_answer(sent_set, 50, settings)
    assert_within_the_log(sent_set, 50, settings)
    answer, out = guarded_answer(sent_set, 50, settings)
    if answer in (_kernels_context.IN_PLACE, _kernels_context.WRITTEN):
        assert validate_general(sent_set, 50, settings).records == out


@given(seed=st.integers(0, 10**9), moves=st.lists(st.sampled_from([0, 1, -3000, 10**12, 2**61, -(2**61)]), max_size=4))
def test_settings_that_stay_follow_the_time(seed, moves):
    """A log keeps its settings, and a context keeps its values; only the time changes."""
    choose = random.Random(seed)
    sent_set, settings = a_set(choose), some_settings(choose)
    now_ms = settings.now_ms
    for move in (0, *moves, 0):
        now_ms = max(min(now_ms + move, 2**62), -(2**62))
        quick = answer_of(sent_set, 50, settings, lambda *arguments, at=now_ms: validate_and_assign_at(*arguments, at))
        assert quick == answer_of(sent_set, 50, replace(settings, now_ms=now_ms), validate_general)


@pytest.mark.parametrize(
    "source", [("none", 0), ("gzip", 0), ("lz4", 0), ("none", 1), ("snappy", 1), ("none", 2), ("zstd", 2)]
)
@pytest.mark.parametrize(
    "target", [("none", 0), ("lz4", 0), ("none", 1), ("gzip", 1), ("none", 2), ("snappy", 2), ("zstd", 2)]
)
def test_sets_without_anything_odd_are_written_anew_shortly(source, target, monkeypatch):
    """Format 0 has neither timestamps nor headers to lose; all else is there."""
    rows = ROWS | {"timestamp": [1000, 1002, 1001] if source[1] else [-1] * 3}
    sent_set = build_records(rows, record_format=source[1], codec=source[0])
    settings = AppendSettings(record_format=target[1], codec=target[0], leader_epoch=3)
    closely = validate_general(sent_set, 50, settings)
    monkeypatch.setattr(validator, "validate_general", None)
    assert validate_and_assign(sent_set, 50, settings) == closely


def test_a_frame_of_format_0_with_its_own_header_checksum_goes_the_short_way():
    sent_set = build_records(ROWS | {"timestamp": [-1] * 3}, record_format=0, codec="lz4")
    assert sent_set[26 + 6] != 0x82
    assert guarded_answer(sent_set, 0, AppendSettings(record_format=0))[0] == _kernels_context.PLAIN


def test_a_count_beyond_the_bytes_asks_for_no_memory():
    sent_set = bytearray(build_records(ROWS))
    for field, value in (("last_offset_delta", 2**31 - 2), ("count", 2**31 - 1)):
        struct.pack_into(">i", sent_set, BATCH_V2.position_of(field), value)
    settings = AppendSettings(codec="lz4")
    assert guarded_answer(sealed_again(bytes(sent_set), BATCH_V2), 0, settings)[0] == _kernels_context.UNUSUAL


def test_what_does_not_shrink_gets_room_for_its_header():
    """One large random value: the compressed form is larger than the kernel's buffer."""
    sent_set = build_records(
        {"value": [random.Random(4).randbytes(5_000_000)], "timestamp": [NOW]}, batch_bytes=1 << 24
    )
    for codec in (*CODECS, "zstd"):
        assert_one_answer(sent_set, 50, AppendSettings(codec=codec, now_ms=NOW))


@pytest.mark.parametrize("record_format", [1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_both_ways_at_every_border_of_a_length_a_count_and_a_delta(record_format, codec):
    """In place, and rebuilt (another codec, format 1 as 2), each more than once."""
    for what, columns in columns_at_borders(headers=record_format == 2):
        sent_set = build_records(columns, record_format=record_format, codec=codec, batch_bytes=1 << 24)
        for settings in (
            AppendSettings(record_format=record_format, now_ms=FIRST),
            AppendSettings(record_format=2, codec="lz4" if codec != "lz4" else "gzip", now_ms=FIRST),
        ):
            closely = answer_of(sent_set, 63, settings, validate_general)
            assert closely.records, what
            for _ in range(2):
                assert answer_of(sent_set, 63, settings) == closely, what
