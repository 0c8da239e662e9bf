"""The short way and the long way write the same bytes, whatever the window: what the kernel takes, what it leaves."""

import dataclasses
import io
import random
import struct
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import streams
from tests.records.borders import columns_at_borders
from tests.records.guarded import Guarded

from kafkaframes.errors import EncodeError, LogDirError
from kafkaframes.jobs.convert import fast
from kafkaframes.jobs.convert.fast import FastRewriter, Run, fast_rewriter
from kafkaframes.jobs.convert.segment import SegmentReport, SegmentTask, _Rewrite
from kafkaframes.jobs.convert.settings import RewriteSettings
from kafkaframes.records import native, native_compress
from kafkaframes.records.build import build_empty_batch, build_end_transaction, build_records
from kafkaframes.records.codecs import Codec, compress
from kafkaframes.records.fields import BatchFields
from kafkaframes.records.scan import FILE, as_array, scan_all
from kafkaframes.wire.checksum import crc32

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
TIME = 1_700_000_000_000


def one_message(magic, offset, timestamp, key, value, attributes=0, *, wrong_crc=False, behind=b""):
    """Write a message of format 0 or 1; ``behind`` are bytes behind its value."""
    stamp = struct.pack(">q", timestamp) if magic else b""
    fields = b"".join(struct.pack(">i", -1 if one is None else len(one)) + (one or b"") for one in (key, value))
    checked = bytes((magic, attributes)) + stamp + fields + behind
    return struct.pack(">qiI", offset, 4 + len(checked), crc32(checked) ^ wrong_crc) + checked


class Maker:
    """Makes consecutive batches, ordinary and odd ones, from a seed."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.offset = self.choose.choice([0, 0, 5, 2**40])

    def blob(self):
        choose, size = self.choose, self.choose.choice([0, 3, 10, 60, 60, 200, 3000])
        if choose.random() < 0.1:
            return None
        return choose.randbytes(size) if choose.random() < 0.3 else (b"%d abc " % self.offset * 600)[:size]

    def rows(self, count):
        choose = self.choose
        step = choose.choice([0, 1, 1000, -7, 2**33])
        offsets = []
        for _ in range(count):
            self.offset += choose.choice([1, 1, 1, 1, 3]) if offsets else 0
            offsets.append(self.offset)
        self.offset += 1
        return {
            "offset": offsets,
            "timestamp": [choose.choice([TIME + n * step, TIME]) for n in range(count)],
            "key": [self.blob() for _ in range(count)],
            "value": [self.blob() for _ in range(count)],
        }

    def old(self):
        """Messages by themselves or wrapped, as clients and brokers write them."""
        choose, magic = self.choose, self.choose.choice([0, 1, 1])
        kind = "LogAppendTime" if magic and choose.random() < 0.3 else "CreateTime"
        codec = choose.choice(["none", "gzip", "gzip", "snappy", "lz4", "lz4"])
        return build_records(
            self.rows(choose.randint(1, 30)), record_format=magic, codec=codec, timestamp_type=kind, batch_bytes=4000
        )

    def new(self):
        choose = self.choose
        rows = self.rows(choose.randint(1, 30))
        if choose.random() < 0.4:
            rows["headers"] = [choose.choice([[], [("a", self.blob())], [("a", b"x")] * 70]) for _ in rows["offset"]]
        options = choose.choice(
            [
                {},
                {"timestamp_type": "LogAppendTime"},
                {"leader_epoch": 3, "producer_id": 9, "producer_epoch": 1, "base_sequence": 4},
                {"producer_id": 9, "producer_epoch": 1, "base_sequence": 4, "transactional": True},
                {"delete_horizon_ms": TIME},
            ]
        )
        return build_records(rows, record_format=2, codec=choose.choice(NAMES), batch_bytes=4000, **options)

    def special(self):
        """Control batches and those that are empty."""
        self.offset += 3
        codec = self.choose.choice([0, 0, 1, 4])
        if self.choose.random() < 0.5:
            fields = BatchFields(producer_id=9, producer_epoch=1)
            return build_empty_batch(self.offset - 3, self.offset - 1, fields=fields, codec=codec)
        return build_end_transaction(
            self.offset - 1, commit=True, timestamp=TIME, producer_id=9, producer_epoch=1, leader_epoch=2
        )

    def odd_wrapper(self):
        """A wrapper whose inside brokers do not write, or whose stream the kernels leave alone."""
        choose, magic = self.choose, self.choose.choice([0, 1])
        start, count = self.offset, choose.randint(1, 6)
        shape = choose.choice(
            ["absolute", "zero", "shuffled", "other", "crc", "behind", "torn", "nested", "empty", "far"]
        )
        numbers = list(range(count)) if magic and shape != "absolute" else list(range(start, start + count))
        if shape == "shuffled":
            choose.shuffle(numbers)
        if shape == "far":
            numbers[-1] += choose.choice([2**31 - 2, 2**31 + 9])
        inside = b"".join(
            one_message(
                1 - magic if shape == "other" and choose.random() < 0.5 else magic,
                number,
                TIME + choose.choice([0, 5]),
                self.blob(),
                self.blob(),
                choose.choice([1, 8]) if shape == "nested" else 0,
                wrong_crc=shape == "crc",
                behind=b"xy" if shape == "behind" and choose.random() < 0.5 else b"",
            )
            for number in numbers
        )
        inside = inside[: -choose.randint(1, 20)] if shape == "torn" else b"" if shape == "empty" else inside
        self.offset += count + (2**31 + 10 if shape == "far" else 0)
        codec = choose.choice([Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
        payload = compress(codec, inside, magic=magic)
        append, key = choose.choice([0, 0, 8]), choose.choice([None, None, b"key"])
        last = 0 if shape == "zero" else self.offset - 1
        return one_message(magic, last, TIME + 9, key, payload, codec | append)

    def odd_stream(self):
        """A batch of format 2 with a stream as odd clients write them, intact or damaged."""
        codec, count, payload = streams.stream(self.choose)
        self.offset += count
        return streams.batch(self.offset - count, codec, count, payload)

    def segment(self):
        """A row of batches; some damaged afterwards."""
        choose = self.choose
        kinds = [self.old, self.old, self.old, self.new, self.new, self.special, self.odd_wrapper, self.odd_stream]
        data = bytearray(b"".join(choose.choice(kinds)() for _ in range(choose.randint(1, 25))))
        for _ in range(choose.choice([0, 0, 0, 1, 3])):
            data[choose.randrange(len(data))] ^= choose.randint(1, 255)
        return bytes(data) + choose.choice([b"", b"", b"torn tail of some bytes"])


class Memory:
    """A file system with one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @contextmanager
    def open(self, _):
        yield lambda position, size: self.data[position : position + size]


def long_way(_, __, batches):
    """Cut a window as if nothing in it were ordinary."""
    yield Run(0, len(batches), None, 0)


def rewritten(data, settings):
    """Rewrite a segment; its bytes, the report, and what its indexes are made of."""
    source = SimpleNamespace(path="0.log", size_bytes=len(data))
    out, report = io.BytesIO(), SegmentReport("0.log")
    with fast_rewriter(settings) as rewriter:
        work = _Rewrite(SegmentTask(Memory(data), source, settings, ""), report, out, rewriter)
        work.all_windows()
    return out.getvalue(), report, np.concatenate(work.columns, axis=1).tolist()


def both_ways(data, settings):
    """Rewrite a segment both ways; what came of each, or the error."""
    found = []
    for ways in ({}, {"runs": long_way}):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in ways.items():
                patch.setattr(FastRewriter, name, value)
            try:
                found.append(rewritten(data, settings))
            except (LogDirError, EncodeError) as error:
                found.append(error)
    return found


SETTINGS = st.builds(
    lambda magic, codec, level, keep, size: RewriteSettings(
        record_format=magic,
        codec=codec if codec is not Codec.ZSTD or magic in (None, 2) else Codec.GZIP,
        level=level if codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD) else None,
        mode="PERMISSIVE" if keep else "FAILFAST",
        on_loss="drop",
        batch_bytes=size,
    ),
    st.sampled_from([2, 2, 2, None, None, 1, 0]),
    st.sampled_from([None, *Codec]),
    st.sampled_from([None, None, 1, 6]),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([300, 16384]),
)


def assert_same_bytes(data, settings):
    short, long = both_ways(data, settings)
    if isinstance(long, Exception):
        assert isinstance(short, (LogDirError, EncodeError))  # of several, another one may come first
        if type(short) is type(long) is LogDirError:
            assert (short.position, short.reason) == (long.position, long.reason)
    else:
        assert short == long


GUARDED = Guarded(1 << 22), Guarded(1 << 20), Guarded(1 << 18), Guarded(1 << 18), Guarded(1 << 20)


def guarded_runs(data, settings):
    """Let the kernel run where every array ends before a forbidden page; a wrong step ends the process."""
    source, *rooms = GUARDED
    window = source.at_end(min(len(data), source.size))
    window[:] = as_array(data[: len(window)])
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("_MOST_OPENED_BYTES", 1 << 18), ("_OUT_BYTES", 50_000), ("_MOST_ROWS", 2000)):
            patch.setattr(fast, name, size)
        waiting = iter(rooms)
        with native.borrowed() as reading, native_compress.borrowed(settings.level) as writing:
            rewriter = FastRewriter(
                settings, lambda size, dtype: next(waiting).at_end(size * np.dtype(dtype).itemsize), reading, writing
            )
            batches = scan_all(window, rules=FILE)
            return sum(run.last - run.first for run in rewriter.runs(window, batches)), len(batches)


@given(st.integers(0, 2**32), SETTINGS)
def test_both_ways_write_the_same_bytes(seed, settings):
    assert_same_bytes(Maker(seed).segment(), settings)


@given(st.integers(0, 2**32), SETTINGS)
def test_no_byte_beyond_is_touched(seed, settings):
    done, count = guarded_runs(Maker(seed).segment(), settings)
    assert done == count


@pytest.mark.parametrize("codec", [None, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=str)
@pytest.mark.parametrize(("made", "magic"), [("old", 2), ("new", 2), ("old", None), ("old", 1)])
def test_what_brokers_write_is_ordinary(made, magic, codec, monkeypatch):
    """Nothing but messages by themselves goes the long way."""
    maker, left = Maker(5), []
    pieces = [getattr(maker, made)() for _ in range(200)]
    if magic is None and codec is Codec.LZ4:  # of format 0: has a header of its own, which no kernel writes
        pieces = [piece for piece in pieces if piece[16]]
    data = b"".join(pieces)
    real = FastRewriter.runs

    def runs(self, window, batches):
        for run in real(self, window, batches):
            left.extend(range(run.first, run.last) if run.written is None else ())
            yield run

    monkeypatch.setattr(FastRewriter, "runs", runs)
    if magic != 2 and codec is Codec.ZSTD:
        codec = Codec.GZIP
    rewritten(data, RewriteSettings(record_format=magic, codec=codec))
    batches = scan_all(as_array(data), rules=FILE)
    numbers = batches.column("attributes")[left] & 7
    assert set(batches.column("magic")[left].tolist()) <= {0, 1}
    assert set(numbers.tolist()) <= ({0, Codec.SNAPPY} if codec is None else {0})  # snappy has no function
    assert len(left) < len(batches)


def test_large_batches_and_a_full_buffer(monkeypatch):
    """What does not fit goes the long way; what fits into an empty buffer only waits for it."""
    rows = {"timestamp": [TIME] * 40, "key": [None] * 40, "value": [bytes(range(256)) * 40] * 40}
    data = b"".join(
        build_records(rows, record_format=magic, codec=codec, batch_bytes=size, base_offset=40 * number)
        for number, (magic, codec, size) in enumerate(
            [(1, "gzip", 20_000), (1, "lz4", 10**6), (2, "zstd", 20_000), (2, "gzip", 10**6), (1, "gzip", 20_000)]
        )
    )
    for name, small in (("_OUT_BYTES", 60_000), ("_MOST_OPENED_BYTES", 300_000), ("_MOST_ROWS", 1000)):
        monkeypatch.setattr(fast, name, small)
        for codec in (Codec.NONE, Codec.ZSTD, Codec.LZ4):
            short, long = both_ways(data, RewriteSettings(record_format=2, codec=codec))
            assert short == long


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wanted", [{"record_format": 2}, {"codec": Codec.LZ4}, {"record_format": 0}], ids=str)
def test_a_wrong_message_in_a_wrapper_is_damage(magic, wanted):
    """A batch that is written anew has no CRC of the message any more: what was wrong would look right."""
    to = RewriteSettings(on_loss="drop", **wanted)
    inside = b"".join(one_message(magic, number, TIME, b"k", b"v", wrong_crc=number == 2) for number in range(4))
    good = build_records(
        {"timestamp": [TIME], "key": [b"a"], "value": [b"b"]}, record_format=magic, codec="gzip", base_offset=9
    )
    bad = one_message(magic, 3, TIME, None, compress(Codec.GZIP, inside), Codec.GZIP)
    for refused in both_ways(good + bad, to):
        assert isinstance(refused, LogDirError)
        assert refused.position == len(good)
        assert "inside" in str(refused)
    kept, report, _ = rewritten(good + bad, dataclasses.replace(to, mode="PERMISSIVE"))
    assert kept.endswith(bad)
    assert [position for position, _ in report.damaged] == [len(good)]


@pytest.mark.parametrize("record_format", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_both_ways_at_every_border_of_a_length_a_count_and_a_delta(record_format, codec):
    settings = [RewriteSettings(record_format=2, codec=None), RewriteSettings(record_format=2, codec=Codec.GZIP)]
    for what, columns in columns_at_borders(headers=record_format == 2):
        if record_format == 0:
            columns = {name: column for name, column in columns.items() if name != "timestamp"}
        data = build_records(columns, record_format=record_format, codec=codec, batch_bytes=1 << 24)
        for one in settings:
            short, long = both_ways(data, one)
            assert short == long, what
